//! An engine's log on the flash log (`tantalum-log`): several devices, perhaps an archive.
//!
//! 1. Whoever flushes takes all records that were appended since the last flush and puts them into
//!    the flash log as one record of it, a batch. So batches lie there in the order of their LSNs.
//! 2. A batch carries real bytes: which pages its records change, and as many bytes as they have.
//!    A recovery accepts a batch only if it follows the one before and says the same as the
//!    [`Journal`].
//! 3. The flash log's checkpoint is at a batch that begins at or before the engine's checkpoint,
//!    whose LSN is kept with it.
//! 4. Clients wait for room before the flash log does: it counts as full when few of its sections
//!    are left.

use super::journal::{Change, Journal, Record};
use super::storage::{LogCounts, LogStore};
use super::window::{LogWindow, MAX_RECORD};
use super::{JobError, Lsn, PageNo};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use tantalum_device::{BlockDevice, IoError};
use tantalum_log::{
    CreateOptions, HedgeOptions, Log, LogDevice, LogError, Lsn as Place, OpenError, OpenOptions,
};
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Nanos, Rt};

/// Bytes before the records of a batch: where it begins and ends.
const BATCH_HEAD: usize = 16;

/// Bytes in which a record says what it is.
const ENTRY: usize = 16;

/// Bytes of the records of a batch, at most, but for its last record.
const BATCH: u64 = 256 << 10;

/// Sections that the flash log keeps free: clients wait before it does.
const SPARE: u64 = 3;

/// A log over several devices.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlashLogJob {
    /// The designs of the devices of the array, 1 to 30.
    ///
    /// *Source*: FlashLogging.
    pub devices: Vec<String>,
    /// The design of the archive.
    ///
    /// *Source*: FlashLogging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Devices on which each record is before it counts as durable: 1, or 2 with at least two
    /// devices.
    ///
    /// *Source*: own choice.
    pub copies: u8,
    /// Virtual devices that each device is divided into.
    ///
    /// *Source*: FlashLogging.
    pub partitions: u16,
    /// Share of each device for writes that are issued again, per cent. 0: there are no second
    /// streams.
    ///
    /// *Source*: FlashLogging: second streams; their share: own choice.
    pub second_percent: u32,
    /// Whether slow writes are issued again on another device.
    ///
    /// *Source*: FlashLogging: slow writes are hidden.
    pub hedging: bool,
    /// Bytes of a log block. Left out: the largest block of a device.
    ///
    /// *Source*: FlashLogging: blocks of 512 bytes; larger ones: own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// Memory for the newest part of the log, MiB.
    ///
    /// *Source*: FlashLogging: its ring buffer.
    pub memory_mib: u32,
    /// Bandwidth of a bus that the devices of the array share, MB (1,000,000 bytes) each second. Only
    /// disks and sampled devices take it into account. Left out: each has a bus of its own, if its
    /// model says so.
    ///
    /// *Source*: FlashLogging: USB drives on a bus of 60 MB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_mb_s: Option<u64>,
}

impl Default for FlashLogJob {
    fn default() -> FlashLogJob {
        FlashLogJob {
            devices: Vec::new(),
            archive: None,
            copies: 1,
            partitions: 1,
            second_percent: CreateOptions::default().second_percent,
            hedging: true,
            block_bytes: None,
            memory_mib: 16,
            bus_mb_s: None,
        }
    }
}

impl FlashLogJob {
    /// The designs of all devices, the archive last.
    pub fn designs(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().chain(&self.archive).map(String::as_str)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is not valid.
    pub fn check(&self) -> Result<(), JobError> {
        let wrong =
            |key, value: String, must: &str| Err(JobError::Value { key, value, must: must.into() });
        if !(1..=30).contains(&self.devices.len()) {
            return wrong("devices", format!("{:?}", self.devices), "the names of 1 to 30 designs");
        }
        if !(1..=2).contains(&self.copies) || usize::from(self.copies) > self.devices.len() {
            return wrong("copies", self.copies.to_string(), "1, or 2 with at least two devices");
        }
        for (key, value, least, most) in [
            ("partitions", u32::from(self.partitions), 1, 64),
            ("second_percent", self.second_percent, 0, 50),
            ("memory_mib", self.memory_mib, 4, 1024),
        ] {
            if !(least..=most).contains(&value) {
                return wrong(key, value.to_string(), &format!("{least} to {most}"));
            }
        }
        if self.bus_mb_s == Some(0) {
            return wrong("bus_mb_s", "0".into(), "1 or more");
        }
        match self.block_bytes {
            Some(bytes) if !bytes.is_power_of_two() || !(512..=16384).contains(&bytes) => {
                wrong("block_bytes", bytes.to_string(), "a power of two, 512 to 16384")
            }
            _ => Ok(()),
        }
    }
}

/// A batch in the flash log: where its records begin, and where it begins there.
#[derive(Clone, Copy)]
struct Batch {
    begin: Lsn,
    place: Place,
}

/// The log of an engine on a flash log.
pub struct FlashRedo<D: BlockDevice + Clone + 'static> {
    rt: Rt,
    job: FlashLogJob,
    /// The devices of the array, then the archive.
    devices: Vec<D>,
    window: LogWindow,
    log: RefCell<Option<Log<D>>>,
    /// Appended and not in the flash log: records and their bytes.
    pending: RefCell<VecDeque<(Record, u32)>>,
    /// Batches from the checkpoint on.
    batches: RefCell<VecDeque<Batch>>,
    /// The end of what is in the flash log, as an LSN of the engine and of the flash log.
    handed: Cell<(Lsn, Place)>,
    /// Whether the flash log is short of sections, as a share of them.
    used: Cell<f64>,
    turn: Mutex,
    /// Where the last flush that has ended went to.
    durable: Cell<Lsn>,
    /// How long the last opening took.
    opening: Cell<Nanos>,
}

fn of_open(error: OpenError) -> IoError {
    match error {
        OpenError::Io { error, .. } => error,
        OpenError::Damaged(_) => IoError::Failed("the flash log is damaged"),
        _ => IoError::Failed("the flash log does not open"),
    }
}

fn of_log(error: LogError) -> IoError {
    match error {
        LogError::Io { error, .. } => error,
        LogError::Damaged(_) => IoError::Failed("the flash log is damaged"),
        LogError::Failed(_) => IoError::Failed("the flash log takes nothing any more"),
        _ => IoError::Failed("the flash log refused a command"),
    }
}

impl<D: BlockDevice + Clone + 'static> FlashRedo<D> {
    /// The log that goes on where the journal ends, on these devices: those of the array, then the
    /// archive if the job has one. `bytes` are the most between checkpoint and end.
    pub fn new(
        rt: &Rt,
        devices: Vec<D>,
        job: &FlashLogJob,
        bytes: u64,
        journal: Journal,
    ) -> FlashRedo<D> {
        let next = journal.next();
        FlashRedo {
            rt: rt.clone(),
            job: job.clone(),
            devices,
            window: LogWindow::new(rt, journal, bytes, "room in the flash log"),
            log: RefCell::default(),
            pending: RefCell::default(),
            batches: RefCell::default(),
            handed: Cell::new((next, Place::ZERO)),
            used: Cell::new(0.0),
            turn: Mutex::new(rt, "the flash log"),
            durable: Cell::new(next),
            opening: Cell::default(),
        }
    }

    fn named(&self) -> Vec<LogDevice<D>> {
        let name = |i| format!("device {i}");
        (0..).zip(&self.devices).map(|(i, d)| LogDevice::new(name(i), d.clone())).collect()
    }

    /// The open log.
    fn log(&self) -> Result<Log<D>, IoError> {
        self.log.borrow().clone().ok_or(IoError::Failed("the flash log is not open"))
    }

    async fn open(&self) -> Result<Log<D>, IoError> {
        let start = self.rt.now();
        let options = OpenOptions {
            memory: (self.job.memory_mib as usize) << 20,
            hedge: HedgeOptions { enabled: self.job.hedging, ..HedgeOptions::default() },
            ..OpenOptions::default()
        };
        let log = Log::open(&self.rt, self.named(), options).await.map_err(of_open)?;
        self.opening.set(self.rt.now().saturating_sub(start));
        *self.log.borrow_mut() = Some(log.clone());
        Ok(log)
    }

    /// Puts all pending records into the flash log.
    async fn hand_over(&self) -> Result<(), IoError> {
        let log = self.log()?;
        let _turn = self.turn.lock().await;
        loop {
            let begin = self.handed.get().0;
            let (bytes, end) = {
                let mut pending = self.pending.borrow_mut();
                let Some((first, _)) = pending.front() else { return Ok(()) };
                let mut end = first.end;
                let mut records = Vec::new();
                while let Some((record, bytes)) = pending.front().copied()
                    && (records.is_empty() || record.end.0 - begin.0 <= BATCH)
                {
                    end = record.end;
                    records.push((record, bytes));
                    pending.pop_front();
                }
                (encode(begin, end, &records), end)
            };
            let appended = log.append(&bytes).await.map_err(of_log)?;
            self.batches.borrow_mut().push_back(Batch { begin, place: appended.lsn });
            self.handed.set((end, appended.end));
        }
    }

    /// Where the flash log must be durable so that everything before `lsn` is.
    fn place_of(&self, lsn: Lsn) -> Place {
        let batches = self.batches.borrow();
        let later = batches.partition_point(|b| b.begin < lsn);
        batches.get(later).map_or(self.handed.get().1, |b| b.place)
    }

    fn look_at_sections(&self, log: &Log<D>) {
        let stats = log.stats();
        let all = stats.sections.saturating_sub(SPARE * self.devices.len() as u64).max(1);
        self.used.set(stats.sections_used as f64 / all as f64);
    }

    /// The records from the flash log's checkpoint on: where the last batch ends.
    async fn read_back(&self, log: &Log<D>, checkpoint: Lsn) -> Result<Lsn, IoError> {
        let mut records = log.read(log.first()).map_err(of_log)?;
        let mut end: Option<Lsn> = None;
        while let Some(record) = records.next().await.map_err(of_log)? {
            let wrong = IoError::Failed("the flash log returned another record than was appended");
            let (begin, to, said) = decode(&record.bytes).ok_or(wrong.clone())?;
            if end.is_some_and(|end| end != begin) || (end.is_none() && begin > checkpoint) {
                return Err(wrong);
            }
            // The journal has nothing before the engine's checkpoint.
            let known = self.window.journal.records(begin.max(checkpoint)..to);
            let said = said.into_iter().filter(|(_, end)| *end > checkpoint);
            if !said.eq(known.iter().map(|r| (r.page, r.end))) {
                return Err(wrong);
            }
            end = Some(to);
        }
        Ok(end.unwrap_or(checkpoint).max(checkpoint))
    }
}

/// A batch: where it begins and ends; each record's page, bytes and end, and zeros.
fn encode(begin: Lsn, end: Lsn, records: &[(Record, u32)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((end.0 - begin.0) as usize + BATCH_HEAD);
    bytes.extend(begin.0.to_le_bytes());
    bytes.extend(end.0.to_le_bytes());
    for (record, length) in records {
        let from = bytes.len();
        bytes.extend(record.page.0.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(record.end.0.to_le_bytes());
        bytes.resize(from + ENTRY.max(*length as usize), 0);
    }
    bytes
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// What a batch says of each record: its page and its end.
type Said = Vec<(PageNo, Lsn)>;

/// What a batch says: where it begins and ends, and its records.
fn decode(bytes: &[u8]) -> Option<(Lsn, Lsn, Said)> {
    let begin = Lsn(u64::from_le_bytes(word(bytes, 0)?));
    let end = Lsn(u64::from_le_bytes(word(bytes, 8)?));
    let mut at = BATCH_HEAD;
    let mut records = Vec::new();
    while at < bytes.len() {
        let page = PageNo(u32::from_le_bytes(word(bytes, at)?));
        let length = u32::from_le_bytes(word(bytes, at + 4)?);
        let record_end = Lsn(u64::from_le_bytes(word(bytes, at + 8)?));
        records.push((page, record_end));
        at += ENTRY.max(length as usize);
    }
    Some((begin, end, records))
}

impl<D: BlockDevice + Clone + 'static> LogStore for FlashRedo<D> {
    fn window(&self) -> &LogWindow {
        &self.window
    }

    async fn load(&self) -> Result<(), IoError> {
        let mut array = self.named();
        let archive = self.job.archive.is_some().then(|| array.pop()).flatten();
        let options = CreateOptions {
            copies: self.job.copies,
            partitions: self.job.partitions,
            unit: self.job.block_bytes,
            second_percent: self.job.second_percent,
            ..CreateOptions::default()
        };
        Log::create(&self.rt, &array, archive.as_ref(), &options).await.map_err(of_open)
    }

    async fn begin(&self) -> Result<(), IoError> {
        let log = self.open().await?;
        self.handed.set((self.checkpoint(), log.end()));
        log.checkpoint(log.end(), self.checkpoint().0).await.map_err(of_log)
    }

    /// The record has at most 4,096 bytes.
    fn append(&self, change: Change) -> (Lsn, Lsn) {
        // What a batch says of its records has no place for pages (`EngineJob::check`).
        let change = Change { bytes: change.bytes.clamp(1, MAX_RECORD), image: 0, ..change };
        let (begin, end) = self.window.append(change);
        let Change { page, before, bytes, .. } = change;
        self.pending.borrow_mut().push_back((Record { end, page, before, whole: false }, bytes));
        (begin, end)
    }

    async fn flush(&self, lsn: Lsn) -> Result<(), IoError> {
        let log = self.log()?;
        if self.handed.get().0 < lsn {
            self.hand_over().await?;
        }
        log.wait_durable(self.place_of(lsn)).await.map_err(of_log)?;
        self.durable.set(self.durable.get().max(lsn));
        self.look_at_sections(&log);
        Ok(())
    }

    fn fullness(&self) -> f64 {
        self.window.fullness().max(self.used.get())
    }

    fn durable(&self) -> Lsn {
        self.durable.get()
    }

    async fn put_checkpoint(&self, lsn: Lsn) -> Result<(), IoError> {
        let log = self.log()?;
        let place = {
            let mut batches = self.batches.borrow_mut();
            while batches.get(1).is_some_and(|b| b.begin <= lsn) {
                batches.pop_front();
            }
            let (end, place) = self.handed.get();
            match batches.front() {
                Some(batch) if lsn < end => batch.place,
                _ => place,
            }
        };
        log.checkpoint(place, lsn.0).await.map_err(of_log)?;
        self.look_at_sections(&log);
        Ok(())
    }

    async fn recover(&self) -> Result<(Lsn, Lsn), IoError> {
        let log = self.open().await?;
        let checkpoint = Lsn(log.checkpoint_number());
        let end = self.read_back(&log, checkpoint).await?;
        Ok((checkpoint, end))
    }

    async fn restart(&self, lsn: Lsn) -> Result<Lsn, IoError> {
        let log = self.log()?;
        let next = Lsn(self.window.journal.next().max(lsn).0 + 1);
        log.checkpoint(log.end(), next.0).await.map_err(of_log)?;
        log.close().await.map_err(of_log)?;
        *self.log.borrow_mut() = None;
        Ok(next)
    }

    fn counts(&self) -> LogCounts {
        let opening = self.opening.get();
        let Some(log) = self.log.borrow().clone() else {
            return LogCounts { opening, ..LogCounts::default() };
        };
        let stats = log.stats();
        LogCounts {
            writes: stats.groups,
            bytes: stats.array_bytes,
            again: stats.hedges + stats.forced,
            again_won: stats.hedges_won,
            opening,
            sizes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_says_what_its_records_are() {
        let record =
            |page, end| Record { end: Lsn(end), page: PageNo(page), before: Lsn(1), whole: false };
        let records = [(record(7, 4100), 4), (record(3, 4600), 500), (record(9, 4601), 1)];
        let bytes = encode(Lsn(4096), Lsn(4601), &records);
        assert_eq!(bytes.len(), BATCH_HEAD + ENTRY + 500 + ENTRY);
        let said = records.map(|(r, _)| (r.page, r.end)).to_vec();
        assert_eq!(decode(&bytes), Some((Lsn(4096), Lsn(4601), said)));
        for length in [0, 15, BATCH_HEAD + 3, bytes.len() - 1] {
            assert_eq!(decode(&bytes[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn values_that_make_no_log_are_refused() {
        let sound = FlashLogJob { devices: vec!["usb-a".into()], ..FlashLogJob::default() };
        assert_eq!(sound.check(), Ok(()));
        for (job, key) in [
            (FlashLogJob { devices: Vec::new(), ..sound.clone() }, "devices"),
            (FlashLogJob { copies: 2, ..sound.clone() }, "copies"),
            (FlashLogJob { partitions: 0, ..sound.clone() }, "partitions"),
            (FlashLogJob { second_percent: 51, ..sound.clone() }, "second_percent"),
            (FlashLogJob { block_bytes: Some(1000), ..sound.clone() }, "block_bytes"),
            (FlashLogJob { memory_mib: 1, ..sound.clone() }, "memory_mib"),
        ] {
            assert_eq!(job.check().unwrap_err().key(), Some(key));
        }
    }
}
