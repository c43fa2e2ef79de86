//! An open log.
//!
//! 1. Records are appended in the order in which the appends were called.
//! 2. [`Log::wait_durable`] and all that rest on it return only when everything before that LSN
//!    survives any power loss, as the devices' promises say.
//! 3. Once the log has failed it takes nothing more. What was durable stays durable.

use crate::copies::OneCopy;
use crate::core::Core;
use crate::options::{LogDevice, OpenOptions, WhenFull};
use crate::pace::PATIENCE;
use crate::record::{FRAME, frame};
use crate::records::Records;
use crate::stats::LogStats;
use crate::tasks;
use crate::works::Works;
use crate::{CreateOptions, LogError, Lsn, OpenError};
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{Domain, Rt, first};

/// Where a record was put.
///
/// See [`Records`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Where it begins.
    pub lsn: Lsn,
    /// Where it ends: it is durable when everything before this LSN is.
    pub end: Lsn,
}

/// An open log. Cheap to clone; a clone is the same log. When the last clone is dropped its tasks
/// end, as if the power had gone: only what is durable is there at the next opening.
///
/// ```
/// use tantalum_device::{Ack, Caps, Payload, PowerCycle, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, Log, LogDevice, OpenOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let first = runtime.block_on(async move {
///     let caps = Caps::power_safe(2048, Payload::Bytes);
///     let caps = Caps { ack: Ack::Volatile, ordered: false, ..caps };
///     let boxes = [0, 1].map(|_| RamDevice::new(&rt, RamOptions::new(caps)));
///     let devices = || {
///         let named = ["sda", "sdb"].into_iter().zip(&boxes);
///         named.map(|(name, ram)| LogDevice::new(name, ram.device())).collect::<Vec<_>>()
///     };
///     Log::create(&rt, &devices(), None, &CreateOptions::default()).await.unwrap();
///
///     let log = Log::open(&rt, devices(), OpenOptions::default()).await.unwrap();
///     log.commit(b"paid").await.unwrap();
///     boxes.iter().for_each(|ram| ram.cut());
///     drop(log);
///
///     for ram in &boxes {
///         ram.power_on().await.unwrap();
///     }
///     let log = Log::open(&rt, devices(), OpenOptions::default()).await.unwrap();
///     log.read(log.first()).unwrap().next().await.unwrap()
/// });
/// assert_eq!(first.unwrap().unwrap().bytes, b"paid");
/// ```
pub struct Log<D: BlockDevice + Clone + 'static> {
    pub(crate) core: Rc<Core<D>>,
    life: Rc<Life>,
}

impl<D: BlockDevice + Clone + 'static> Clone for Log<D> {
    fn clone(&self) -> Log<D> {
        Log { core: self.core.clone(), life: self.life.clone() }
    }
}

/// The tasks of a log.
struct Life(Domain);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl<D: BlockDevice + Clone + 'static> Log<D> {
    /// Makes a log on the devices of the array and, if there is one, an archive. It is not opened.
    ///
    /// # Errors
    /// [`OpenError`]. Nothing was written, unless a command of a device failed, or two devices
    /// with different names turn out to be one.
    pub async fn create(
        rt: &Rt,
        array: &[LogDevice<D>],
        archive: Option<&LogDevice<D>>,
        options: &CreateOptions,
    ) -> Result<(), OpenError> {
        crate::create::create(rt, array, archive, options, |_| Ok(())).await
    }

    /// Opens a log on its devices, given in any order, the archive with them. It reads the log
    /// from its checkpoint to its end.
    ///
    /// # Errors
    /// [`OpenError`]. Unless it is an I/O error, nothing was changed.
    pub async fn open(
        rt: &Rt,
        devices: Vec<LogDevice<D>>,
        options: OpenOptions,
    ) -> Result<Log<D>, OpenError> {
        let opened = crate::open::open(rt, devices, &options).await?;
        let domain = rt.domain();
        let core = Core::start(rt, &domain, opened, options);
        let lanes = core.plan().lanes();
        tasks::spawn(&core, lanes);
        let log = Log { core, life: Rc::new(Life(domain)) };
        log.core.copy_end().await?;
        Ok(log)
    }

    /// Appends a record. It is in memory then; [`Log::wait_durable`] waits for more. It waits while
    /// memory is full, and while there is no room (or fails then, [`OpenOptions::when_full`]).
    ///
    /// # Errors
    /// [`LogError::RecordTooLong`], [`LogError::Full`], [`LogError::Failed`],
    /// [`LogError::ReadOnly`].
    pub async fn append(&self, record: &[u8]) -> Result<Appended, LogError> {
        self.append_pieces(&[record]).await
    }

    /// Appends a record that consists of these pieces.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub async fn append_pieces(&self, record: &[&[u8]]) -> Result<Appended, LogError> {
        let core = &*self.core;
        if core.options.read_only {
            return Err(LogError::ReadOnly);
        }
        let bytes: usize = record.iter().map(|p| p.len()).sum();
        if bytes > core.record_limit as usize {
            return Err(LogError::RecordTooLong { bytes, limit: core.record_limit });
        }
        let whole = (bytes + FRAME) as u64;
        let _turn = core.append_turn.lock().await;
        loop {
            core.check_failed()?;
            let (in_memory, on_devices) = core.room_for(whole);
            if !on_devices && core.options.when_full == WhenFull::Fail {
                let (first, end) = (core.first.get(), core.end());
                return Err(LogError::Full { first, end });
            }
            if in_memory && on_devices {
                break;
            }
            // What is in memory makes room only if it is written.
            core.want(core.end());
            core.pump();
            core.room.wait_while(|| !core.fits(whole)).await;
        }
        let lsn = core.end();
        core.push(bytes as u64, &frame(lsn, record), record);
        Ok(Appended { lsn, end: lsn.plus(whole) })
    }

    /// Appends a record and waits until it is durable, with everything before it.
    ///
    /// # Errors
    /// As [`Log::append`] and [`Log::wait_durable`].
    pub async fn commit(&self, record: &[u8]) -> Result<Appended, LogError> {
        self.commit_pieces(&[record]).await
    }

    /// [`Log::commit`] for a record that consists of these pieces.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub async fn commit_pieces(&self, record: &[&[u8]]) -> Result<Appended, LogError> {
        let appended = self.append_pieces(record).await?;
        self.wait_durable(appended.end).await?;
        Ok(appended)
    }

    /// Waits until everything before `lsn` is durable.
    ///
    /// # Errors
    /// [`LogError::NotDurable`] if `lsn` is beyond the end of the log, [`LogError::Failed`].
    /// [`LogError::Full`] with [`WhenFull::Fail`] if a device that was left or lost took along the
    /// room that what was appended had: move the checkpoint, and wait again.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        let core = &*self.core;
        if core.durable() >= lsn {
            return Ok(());
        }
        if lsn > core.end() {
            return Err(LogError::NotDurable { lsn, durable: core.durable() });
        }
        core.check_failed()?;
        core.want(lsn);
        core.pump();
        core.until_durable(lsn, Works::full).await
    }

    /// Waits until everything that was appended before is durable. Returns its end.
    ///
    /// # Errors
    /// As [`Log::wait_durable`].
    pub async fn flush(&self) -> Result<Lsn, LogError> {
        let end = self.core.end();
        self.wait_durable(end).await?;
        Ok(end)
    }

    /// Everything before this LSN is durable.
    pub fn durable(&self) -> Lsn {
        self.core.durable()
    }

    /// The end of what was appended.
    pub fn end(&self) -> Lsn {
        self.core.end()
    }

    /// The checkpoint: the log begins here.
    pub fn first(&self) -> Lsn {
        self.core.first.get()
    }

    /// The number that was given with the checkpoint; 0 if there was none.
    pub fn checkpoint_number(&self) -> u64 {
        self.core.state.borrow().number
    }

    /// Waits until the durable LSN is another than `seen`, and returns it. Nothing is written on
    /// account of this.
    ///
    /// # Errors
    /// [`LogError::Failed`].
    pub async fn next_durable(&self, seen: Lsn) -> Result<Lsn, LogError> {
        let core = &*self.core;
        core.until_changed(|| core.durable() == seen && !core.is_failed()).await;
        if core.durable() == seen { core.check_failed().map(|()| seen) } else { Ok(core.durable()) }
    }

    /// Waits until at most `percent` of the room for groups is left: then the checkpoint should
    /// move.
    ///
    /// # Errors
    /// [`LogError::Failed`].
    pub async fn nearly_full(&self, percent: u64) -> Result<(), LogError> {
        let core = &*self.core;
        core.until_changed(|| !core.is_short(percent) && !core.is_failed()).await;
        core.check_failed()
    }

    /// The records from `from` on, which is the LSN or the end of a record, up to what is durable
    /// now. If it is neither, the first [`Records::next`] fails with [`LogError::NoRecord`], which
    /// says in which record it lies. (What is durable now may end within a record: from there on
    /// there are no records.)
    ///
    /// # Errors
    /// [`LogError::BeforeFirst`] and [`LogError::NotDurable`].
    pub fn read(&self, from: Lsn) -> Result<Records<D>, LogError> {
        let (first, (durable, durable_end)) = (self.first(), self.core.durable_and_record());
        if from < first {
            return Err(LogError::BeforeFirst { lsn: from, first });
        }
        if from > durable {
            return Err(LogError::NotDurable { lsn: from, durable });
        }
        let proven = from == first || from == durable_end;
        Ok(Records::new(&self.core, from, durable, proven))
    }

    /// Of a log with two copies: which acknowledged bytes are on one device alone, in order. Reads
    /// all devices from the checkpoint on. While a device takes no part it says nothing.
    ///
    /// A part of the other copy is damaged then, or its device did not answer when it was written.
    /// The log has all its records; another loss would lose these. They have two copies again when
    /// the checkpoint is past them, or a new device has taken the place of the damaged one
    /// ([`Log::replace`]).
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn one_copy(&self) -> Result<Vec<OneCopy>, LogError> {
        self.core.one_copy().await
    }

    /// The log before `lsn` is not needed any more, which is the LSN or the end of a record: its
    /// room may be used again: other logs call that truncating. `number` is kept with the checkpoint.
    /// When this returns, that is durable.
    ///
    /// # Errors
    /// [`LogError::BeforeFirst`] and [`LogError::NotDurable`] if the checkpoint cannot be there,
    /// [`LogError::NoRecord`], [`LogError::Failed`].
    #[doc(alias = "truncate")]
    pub async fn checkpoint(&self, lsn: Lsn, number: u64) -> Result<(), LogError> {
        let core = &self.core;
        core.check_failed()?;
        let durable = core.durable();
        if lsn > durable {
            return Err(LogError::NotDurable { lsn, durable });
        }
        self.check_record(lsn).await?;
        core.write_checkpoint(lsn, number).await
    }

    /// Puts a new device in the place of one that is lost (with two copies). Everything from the
    /// checkpoint on is copied to it first; meanwhile the log goes on, and the checkpoint waits.
    /// `force` destroys what the device holds; what a replacement has left there that came to
    /// nothing needs none. A replacement that has begun is carried out though nobody waits for it.
    ///
    /// # Errors
    /// [`LogError::Replace`] if that device cannot take that place, [`LogError::Io`] if it fails or
    /// does not answer in twice [`OpenOptions::stall`], [`LogError::Full`] if the log has more since
    /// its checkpoint than one device can hold. Then the device does not take part.
    /// [`LogError::Failed`] if the log fails.
    pub async fn replace(
        &self,
        index: usize,
        device: LogDevice<D>,
        force: bool,
    ) -> Result<(), LogError> {
        self.core.replace(index, device, force).await
    }

    /// Whether `device` could take the place of the device of that index, were that lost: as
    /// [`Log::replace`] would refuse it. Nothing is changed.
    ///
    /// # Errors
    /// [`OpenError`]: why it could not.
    pub async fn can_replace(
        &self,
        index: usize,
        device: &LogDevice<D>,
        force: bool,
    ) -> Result<(), OpenError> {
        self.core.can_replace(index, device, force).await
    }

    /// The index of `device` in the log of these `others`, if it takes part in it: so it is known
    /// whether a replacement that was interrupted had come to its end. Nothing is changed.
    ///
    /// # Errors
    /// [`OpenError::Io`] if the device cannot be read.
    pub async fn place_of(
        others: &[LogDevice<D>],
        device: &LogDevice<D>,
    ) -> Result<Option<usize>, OpenError> {
        crate::describe::place_of(others, device).await
    }

    /// Checks that a record begins or will begin at `lsn`.
    async fn check_record(&self, lsn: Lsn) -> Result<(), LogError> {
        let core = &self.core;
        if core.begins_in_memory(lsn) {
            return Ok(());
        }
        let (durable, durable_end) = core.durable_and_record();
        if durable_end < lsn && lsn <= durable {
            return Err(LogError::NoRecord { lsn, within: Some(durable_end) });
        }
        let mut records = self.read(lsn)?;
        match records.next().await {
            // A damaged one begins there, if any.
            Ok(_) | Err(LogError::Damaged(_)) => records.prove().await,
            Err(e) => Err(e),
        }
    }

    /// The identity that the log got when it was created.
    pub fn identity(&self) -> [u8; 16] {
        self.core.set
    }

    /// Bytes of a record, at most.
    pub fn record_limit(&self) -> u32 {
        self.core.record_limit
    }

    /// Whether any device has a block of the log, be it one that is not needed any more. A log whose
    /// checkpoint has moved has some, unless its devices were overwritten. (Or each was replaced
    /// while the log was empty.)
    pub fn has_blocks(&self) -> bool {
        self.core.plan().streams().any(|(_, _, area)| area.is_begun())
    }

    /// Whether an empty log has room for two records of so many bytes, and memory for one.
    pub(crate) fn holds_twice(&self, bytes: u64) -> bool {
        self.core.holds_twice(bytes + FRAME as u64)
    }

    /// What the log has done and how it is.
    pub fn stats(&self) -> LogStats {
        self.core.stats()
    }

    /// Waits until everything appended is durable and nothing is in flight on any device, and ends
    /// the log: every clone fails from then on. What was appended and finds no room is not waited
    /// for. A write that its device does not answer is waited for no longer than twice
    /// [`OpenOptions::stall`].
    ///
    /// # Errors
    /// [`LogError::Failed`]. [`LogError::Unanswered`] if there is such a write: it may reach the
    /// device later, so that the log is opened again only after that device had a power cycle. (A
    /// [`tantalum_device::File`] cannot be opened before such a write has ended.) All else is as if
    /// there was none. [`LogError::Full`] if a device that was left or lost took along the
    /// room that what was appended had: that is not in the log.
    pub async fn close(self) -> Result<(), LogError> {
        let core = &self.core;
        let end = core.end();
        core.want(end);
        core.pump();
        let flushed = core.until_durable(end, Works::lacks_room).await;
        if matches!(flushed, Err(LogError::Failed(_))) {
            return flushed;
        }
        core.fail("it was closed".to_string());
        let quiet = async {
            // A state may be on its way.
            let _keeper = core.keeper.lock().await;
            core.until_changed(|| core.plan().has_writes()).await;
        };
        first(quiet, core.rt.sleep(core.options.stall * PATIENCE)).await;
        self.life.0.kill();
        match core.unanswered() {
            Some(device) => Err(LogError::Unanswered { device }),
            None => flushed,
        }
    }
}
