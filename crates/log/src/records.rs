//! Reading a log.
//!
//! 1. Records are delivered in order, without a gap, up to the end that was durable when the
//!    reading began.

use crate::core::Core;
use crate::cutter::Cutter;
use crate::error::Damage;
use crate::merge::Merge;
use crate::record::Record;
use crate::{LogError, Lsn};
use std::rc::Rc;
use tantalum_device::BlockDevice;

/// The records of a log from an LSN on, up to what was durable when the reading began.
///
/// ```
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, Log, LogDevice, LogError, Lsn, OpenOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let read = runtime.block_on(async move {
///     let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(2048, Payload::Bytes)));
///     let devices = vec![LogDevice::new("sda", ram)];
///     Log::create(&rt, &devices, None, &CreateOptions::default()).await.unwrap();
///     let log = Log::open(&rt, devices, OpenOptions::default()).await.unwrap();
///     let first = log.commit(b"first").await?;
///     let second = log.commit(b"second").await?;
///
///     let mut records = log.read(first.end)?;
///     log.commit(b"third").await?; // after the reading began
///     let record = records.next().await?.unwrap();
///     assert_eq!((record.lsn, record.end), (second.lsn, second.end));
///     assert_eq!(record.bytes, b"second");
///     assert_eq!(records.next().await?, None);
///
///     log.read(Lsn(second.lsn.0 + 1))?.next().await // no record begins there
/// });
/// assert!(matches!(read.unwrap(), Err(LogError::NoRecord { .. })));
/// ```
pub struct Records<D> {
    core: Rc<Core<D>>,
    merge: Merge<D>,
    cutter: Cutter,
    /// Everything before it was durable.
    end: Lsn,
    /// Where the reading began, as long as nothing says that a record begins there.
    unproven: Option<Lsn>,
}

impl<D: BlockDevice + Clone + 'static> Records<D> {
    /// The records from `from` on, up to `end`. Whether a record begins there is `proven` or not.
    pub(crate) fn new(core: &Rc<Core<D>>, from: Lsn, end: Lsn, proven: bool) -> Records<D> {
        let (merge, cutter) = (core.merge(from), Cutter::new(from, core.record_limit));
        let unproven = (!proven).then_some(from);
        Records { core: core.clone(), merge, cutter, end, unproven }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`LogError::NoRecord`] if none begins where the reading begins,
    /// [`LogError::BeforeFirst`] if the checkpoint has passed this place meanwhile, and
    /// [`LogError::Damaged`] if a device has lost what it acknowledged.
    pub async fn next(&mut self) -> Result<Option<Record>, LogError> {
        let found = self.take().await;
        match found {
            Ok(Some(_)) => self.unproven = None,
            // A record that is damaged, or is not durable yet? Or none begins there.
            Err(LogError::Damaged(_)) | Ok(None) if self.cutter.lsn() < self.end => {
                self.prove().await?;
            }
            _ => {}
        }
        found
    }

    /// Whether a record begins, or will begin, where the reading does. If no record was found
    /// there, what is before it is read, from the checkpoint on.
    ///
    /// # Errors
    /// [`LogError::NoRecord`], and as [`Records::next`].
    pub(crate) async fn prove(&mut self) -> Result<(), LogError> {
        let Some(lsn) = self.unproven else { return Ok(()) };
        let within = loop {
            let first = self.core.first.get();
            if lsn < first {
                return Err(LogError::BeforeFirst { lsn, first });
            }
            let mut before = Records::new(&self.core, first, self.end, true);
            match before.record_around(lsn).await {
                // The checkpoint has moved meanwhile.
                Err(_) if self.core.first.get() > first => {}
                found => break found?,
            }
        };
        if within.is_some() {
            return Err(LogError::NoRecord { lsn, within });
        }
        self.unproven = None;
        Ok(())
    }

    /// The LSN of the record in which `lsn` lies; `None` if one begins there.
    async fn record_around(&mut self, lsn: Lsn) -> Result<Option<Lsn>, LogError> {
        while self.cutter.lsn() < lsn {
            let begins = self.cutter.lsn();
            match self.take().await? {
                Some(record) if record.end <= lsn => {}
                // Without a record: it is durable in part.
                _ => return Ok(Some(begins)),
            }
        }
        Ok(None)
    }

    /// The next record, as it is read.
    async fn take(&mut self) -> Result<Option<Record>, LogError> {
        loop {
            let lsn = self.cutter.lsn();
            if lsn >= self.end {
                return Ok(None);
            }
            match self.cutter.next() {
                Ok(Some(bytes)) => {
                    let bytes = bytes.to_vec();
                    let end = self.cutter.lsn();
                    if end > self.end {
                        return Ok(None);
                    }
                    return Ok(Some(Record { lsn, end, bytes }));
                }
                Ok(None) => {}
                Err(lsn) => return Err(self.gone(lsn)),
            }
            if self.cutter.end() >= self.end {
                return Ok(None);
            }
            match self.merge.next().await? {
                Some((lsn, bytes)) if lsn.plus(bytes.len() as u64) > self.cutter.end() => {
                    self.cutter.push(lsn, &bytes);
                }
                _ => return Err(self.gone(self.cutter.end())),
            }
        }
    }

    /// What should be at `lsn` is not there.
    fn gone(&self, lsn: Lsn) -> LogError {
        let first = self.core.first.get();
        if lsn < first {
            return LogError::BeforeFirst { lsn, first };
        }
        let place = self.merge.suspect(lsn);
        LogError::Damaged(Damage { lsn, watermark: self.end, place })
    }
}
