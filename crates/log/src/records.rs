//! From blocks to records.
//!
//! 1. Records are delivered in order, without a gap, up to the end that was durable when the
//!    reading began.

use crate::error::Damage;
use crate::merge::Merge;
use crate::record::{FRAME, Next, Record, look};
use crate::{LogError, Lsn};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::BlockDevice;

/// Bytes of the log, cut into records.
pub(crate) struct Cutter {
    /// Where the next record begins.
    lsn: Lsn,
    bytes: Vec<u8>,
    /// What of `bytes` was delivered.
    used: usize,
    limit: u32,
}

impl Cutter {
    pub fn new(lsn: Lsn, limit: u32) -> Cutter {
        Cutter { lsn, bytes: Vec::new(), used: 0, limit }
    }

    /// Where the next record begins.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Behind the last byte that is here.
    pub fn end(&self) -> Lsn {
        self.lsn.plus((self.bytes.len() - self.used) as u64)
    }

    /// Adds a block's bytes. What is before the end here is there already.
    pub fn push(&mut self, lsn: Lsn, bytes: &[u8]) {
        let skip = self.end().since(lsn) as usize;
        if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(&bytes[skip.min(bytes.len())..]);
    }

    /// The next whole record. An error if what is here is no record.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Lsn> {
        match look(self.lsn, &self.bytes[self.used..], self.limit) {
            Next::Whole(length) => {
                let from = self.used;
                self.used += length;
                self.lsn = self.lsn.plus(length as u64);
                Ok(Some(&self.bytes[from + FRAME..from + length]))
            }
            Next::Needs(_) => Ok(None),
            Next::Wrong => Err(self.lsn),
        }
    }
}

/// The records of a log from an LSN on, up to what was durable when the reading began.
pub struct Records<D> {
    pub(crate) merge: Merge<D>,
    pub(crate) cutter: Cutter,
    /// Everything before it was durable.
    pub(crate) end: Lsn,
    /// The first LSN of the log, as it is now.
    pub(crate) first: Rc<Cell<Lsn>>,
}

impl<D: BlockDevice + 'static> Records<D> {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`LogError::BeforeFirst`] if the checkpoint has passed this place meanwhile, and
    /// [`LogError::Damaged`] if a device has lost what it acknowledged.
    pub async fn next(&mut self) -> Result<Option<Record>, LogError> {
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
        if lsn < self.first.get() {
            return LogError::BeforeFirst { lsn, first: self.first.get() };
        }
        let place = self.merge.suspect(lsn);
        LogError::Damaged(Damage { lsn, watermark: self.end, place })
    }
}
