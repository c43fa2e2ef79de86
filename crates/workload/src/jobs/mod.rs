//! Synthetic block jobs.
//!
//! 1. The sequence of commands follows from job and seed alone, not from the device's speed: two
//!    devices get the same work.
//! 2. No more commands are in flight than the queue depth.
//! 3. Only completed commands are counted.
//! 4. A write that is refused for lack of space does not end the job: it goes on with the next
//!    command.

mod batch;
mod elevator;
mod page_cache;
mod places;
mod run;

pub use elevator::{Elevated, Elevator, Sorting};
pub use page_cache::{Buffered, Cached};
pub use places::{Hot, JESD219_READS, JESD219_SIZES, Pattern, Places};
pub(crate) use run::fill;
pub use run::{Host, run, run_observed, run_watched};

use std::fmt;
use tantalum_device::{AtomicError, Block, Caps, CommandKind, DeviceStats, IoError};
use tantalum_rt::Nanos;

/// What the host's file system does for an fsync: a flush of the device, and a commit of its own
/// journal if the file's time stamps have changed since the last one. Time stamps have the
/// granularity of the kernel's clock, so quick fsyncs often have nothing to commit.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fsync {
    /// Whether flushes and forced unit access are sent to the device at all.
    ///
    /// *Source*: DuraSSD.
    pub barriers: bool,
    /// Granularity of a file's time stamps, ms. An fsync in another tick than the last one writes
    /// two blocks of the journal, one with changes and one that commits them. Both are sent
    /// together with forced unit access. 0: no journal.
    ///
    /// *Source*: Linux: time stamps have the kernel's tick; fitted to DuraSSD's table.
    pub tick_ms: u64,
    /// Place of the journal as a share of the device.
    ///
    /// *Source*: own choice.
    pub journal_at: f64,
}

impl Default for Fsync {
    /// Only a flush.
    fn default() -> Fsync {
        Fsync { barriers: true, tick_ms: 0, journal_at: 0.5 }
    }
}

/// Where the reads of a job go.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadsFrom {
    /// Their pattern.
    pub pattern: Pattern,
    /// The share of the device, from its start on, above 0 to 1.
    pub range: f64,
}

/// How the writes of a batch are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Together {
    /// One after the other, each followed by an fsync.
    Flushed,
    /// All at once, in any order. Buffered writes: one after the other into the page cache, with
    /// one fsync at the end.
    Unordered,
    /// As one atomic group. It goes past the page cache.
    Group,
}

/// Writes that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The number of writes. No two of them touch the same block.
    pub writes: u32,
    /// How they are done.
    pub how: Together,
}

/// A synthetic block job. It ends with the first of `commands`, `passes` and
/// `seconds` that is reached; at least one must be given.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Where commands go.
    ///
    /// *Source*: `jesd219`: JEDEC JESD219; `permutation`: SpartanSSD; `strided`: Beyond Block I/O;
    /// the others: own choice.
    pub pattern: Pattern,
    /// Bytes of a command: a multiple of the device's block. With `sizes`, commands begin at its
    /// multiples (but sequential ones directly after one another).
    ///
    /// *Source*: own choice.
    pub block_size: u64,
    /// Sizes of commands in bytes with their weights, `[[BYTES, WEIGHT], ...]`, at most 64 of them;
    /// rounded up to whole blocks. Empty: all have `block_size`; with `jesd219` they have the sizes
    /// of that standard.
    ///
    /// *Source*: with `jesd219`: JEDEC JESD219; else own choice.
    pub sizes: Vec<[u64; 2]>,
    /// Share of reads among the commands. Left out: 0; with `jesd219` that of the standard.
    ///
    /// *Source*: with `jesd219`: JEDEC JESD219; else own choice.
    pub reads: Option<f64>,
    /// `{ pattern, range }`: where reads go. Left out: where the other commands go.
    ///
    /// *Source*: SpartanSSD: reads have a footprint of their own.
    pub reads_from: Option<ReadsFrom>,
    /// Share of discards among the commands.
    ///
    /// *Source*: own choice.
    pub discards: f64,
    /// Share of writes with forced unit access among the writes.
    ///
    /// *Source*: SATA, NVMe.
    pub fua: f64,
    /// Writes from one fsync to the next. 0: none.
    ///
    /// *Source*: DuraSSD: writes per fsync.
    pub fsync_every: u64,
    /// What the host's file system does for an fsync, see below.
    ///
    /// *Source*: own choice.
    pub fsync: Fsync,
    /// `{ writes, how }`: writes come in batches of so many (1 to 4096). `how` is `flushed` (one
    /// after the other, each with an fsync), `unordered` (all at once; buffered: with one fsync
    /// behind all) or `group` (one atomic group). A batch counts as one command. For jobs that only
    /// write.
    ///
    /// *Source*: Beyond Block I/O.
    pub batch: Option<Batch>,
    /// Commands, or batches, in flight.
    ///
    /// *Source*: SATA, NVMe.
    pub queue_depth: u32,
    /// Reads and writes go through the host's page cache, see below. `{}`: with its defaults. Left
    /// out: direct I/O.
    ///
    /// *Source*: Beyond Block I/O: buffered writes.
    pub buffered: Option<Buffered>,
    /// How the host orders the commands that the device's queue has no place for, see below. `{}`:
    /// with its defaults. `"none"`: all commands are sent at once. Left out: `{}` for disks,
    /// `"none"` for other devices.
    ///
    /// *Source*: Linux: `deadline`; for which devices: own choice.
    pub elevator: Sorting,
    /// Share of the device that is used, from its start.
    ///
    /// *Source*: own choice.
    pub range: f64,
    /// Commands until the end, flushes not counted.
    ///
    /// *Source*: own choice.
    pub commands: Option<u64>,
    /// Commands until the end, as a multiple of those that cover the range once.
    ///
    /// *Source*: own choice.
    pub passes: Option<f64>,
    /// Time until the end, s.
    ///
    /// *Source*: own choice.
    pub seconds: Option<f64>,
}

impl Default for Job {
    /// Random writes of 4 KiB, one at a time, on the whole device, without flushes.
    fn default() -> Job {
        Job {
            pattern: Pattern::Random,
            block_size: 4096,
            sizes: Vec::new(),
            reads: None,
            reads_from: None,
            discards: 0.0,
            fua: 0.0,
            fsync_every: 0,
            fsync: Fsync::default(),
            batch: None,
            queue_depth: 1,
            buffered: None,
            elevator: Sorting::default(),
            range: 1.0,
            commands: None,
            passes: None,
            seconds: None,
        }
    }
}

/// Why a job did not run to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JobError {
    /// The block size does not fit the device or the range.
    #[error(
        "the job's block size is {block_size} bytes, which is not a multiple of the device's {device}, or is more than the job's range"
    )]
    BlockSize {
        /// The job's block size.
        block_size: u64,
        /// The device's block size.
        device: u32,
    },
    /// The mix of sizes is not valid.
    #[error(
        "`sizes` must be a list of 1 to 64 pairs of bytes and weight, such as [[4096, 70], \
         [8192, 30]], and none longer than the job's range"
    )]
    Sizes,
    /// A number is out of its range.
    #[error("`{name}` is {value}, but must be {range}")]
    Value {
        /// The key.
        name: &'static str,
        /// Its value, as it was given.
        value: String,
        /// Its allowed range.
        range: &'static str,
    },
    /// The job would never end.
    #[error("the job has no end: give `commands`, `passes` or `seconds`")]
    Endless,
    /// The device refused the group.
    #[error("an atomic group was refused: {0}")]
    Group(AtomicError),
    /// The device failed a command.
    #[error("a {kind} at {at} failed: {error}")]
    Io {
        /// The kind of the command.
        kind: CommandKind,
        /// Its first block.
        at: Block,
        /// The device's error.
        error: IoError,
    },
}

/// The outcome of a job.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// From the first command to the last completion.
    pub elapsed: Nanos,
    /// Commands, bytes and latencies by kind.
    pub stats: DeviceStats,
}

impl JobReport {
    /// The number of reads, writes and discards.
    pub fn commands(&self) -> u64 {
        let counted = CommandKind::ALL.iter().filter(|k| **k != CommandKind::Flush);
        counted.map(|k| self.stats.of(*k).commands).sum()
    }

    /// Reads, writes and discards per second.
    pub fn iops(&self) -> f64 {
        per_second(self.commands() as f64, self.elapsed)
    }

    /// Bytes read and written per second.
    pub fn bytes_per_second(&self) -> f64 {
        let bytes = self.stats.of(CommandKind::Read).bytes + self.stats.bytes_written();
        per_second(bytes as f64, self.elapsed)
    }
}

fn per_second(amount: f64, elapsed: Nanos) -> f64 {
    if elapsed == Nanos::ZERO { 0.0 } else { amount / elapsed.as_secs_f64() }
}

impl JobError {
    /// The dotted key of the job that has to be changed, if there is one.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            JobError::BlockSize { .. } => Some("block_size"),
            JobError::Sizes => Some("sizes"),
            JobError::Value { name, .. } => name.split(' ').next(),
            JobError::Endless | JobError::Group(_) | JobError::Io { .. } => None,
        }
    }
}

fn refused<T>(
    name: &'static str,
    value: &dyn fmt::Display,
    range: &'static str,
) -> Result<T, JobError> {
    Err(JobError::Value { name, value: value.to_string(), range })
}

/// Bytes in a block of the host's file system.
const FILE_BLOCK: u32 = 4096;

/// Blocks of a device, each of so many bytes, in a block of the file system on it.
pub(crate) fn file_block(block: u32) -> u64 {
    u64::from(FILE_BLOCK / block.clamp(1, FILE_BLOCK))
}

/// The most commands in flight.
const QUEUE_DEPTH_MAX: u32 = 65_536;

impl Job {
    /// The sizes of its commands in bytes, with their weights.
    pub fn size_mix(&self) -> Vec<[u64; 2]> {
        match self.pattern {
            _ if !self.sizes.is_empty() => self.sizes.clone(),
            Pattern::Jesd219 => JESD219_SIZES.to_vec(),
            _ => vec![[self.block_size, 1]],
        }
    }

    /// The share of its commands that read.
    pub fn read_share(&self) -> f64 {
        self.reads.unwrap_or(match self.pattern {
            Pattern::Jesd219 => JESD219_READS,
            _ => 0.0,
        })
    }

    /// The places of its commands on a device. If its reads have places of their own, they are not
    /// among these.
    ///
    /// # Errors
    /// [`JobError::BlockSize`], [`JobError::Sizes`] or [`JobError::Value`].
    pub fn places(&self, caps: &Caps, seed: u64) -> Result<Places, JobError> {
        self.places_in(self.pattern, self.range, caps, seed)
    }

    /// The places of its reads, if they differ from those of the other commands.
    ///
    /// # Errors
    /// As for [`Job::places`].
    pub fn read_places(&self, caps: &Caps, seed: u64) -> Result<Option<Places>, JobError> {
        let places = |r: ReadsFrom| self.places_in(r.pattern, r.range, caps, seed);
        self.reads_from.map(places).transpose()
    }

    fn places_in(
        &self,
        pattern: Pattern,
        range: f64,
        caps: &Caps,
        seed: u64,
    ) -> Result<Places, JobError> {
        let used = ((caps.bytes() as f64 * range) as u64).min(caps.bytes());
        let device = (used, caps.block_size);
        Places::new(pattern, &self.size_mix(), self.block_size, device, seed)
    }

    /// Checks whether its commands fit a device of this many bytes, with blocks of `block` bytes.
    ///
    /// # Errors
    /// [`JobError::BlockSize`], [`JobError::Sizes`] or [`JobError::Value`].
    pub fn fits(&self, bytes: u64, block: u32) -> Result<(), JobError> {
        let reads = self.reads_from.map(|r| (r.pattern, r.range));
        for (pattern, range) in reads.into_iter().chain([(self.pattern, self.range)]) {
            let used = ((bytes as f64 * range) as u64).min(bytes);
            Places::new(pattern, &self.size_mix(), self.block_size, (used, block), 0)?;
        }
        Ok(())
    }

    /// Checks its numbers without a device: that it has commands, and that it ends.
    ///
    /// # Errors
    /// [`JobError::Value`] or [`JobError::Endless`].
    pub fn check(&self) -> Result<(), JobError> {
        let shares = [
            ("reads", self.read_share()),
            ("discards", self.discards),
            ("fua", self.fua),
            ("fsync.journal_at", self.fsync.journal_at),
        ];
        let read_range = self.reads_from.map_or(1.0, |r| r.range);
        let ranges = [("range", self.range), ("reads_from.range", read_range)];
        for (name, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                return refused(name, &value, "between 0 and 1");
            }
        }
        for (name, value) in ranges {
            if !(value > 0.0 && value <= 1.0) {
                return refused(name, &value, "above 0 and at most 1");
            }
        }
        let value = self.read_share() + self.discards;
        if value > 1.0 {
            return refused("reads + discards", &value, "at most 1");
        }
        for (name, limit) in [("passes", self.passes), ("seconds", self.seconds)] {
            // (A nanosecond is the shortest time.)
            if let Some(value) = limit.filter(|value| !(1e-9..1e9).contains(value)) {
                return refused(name, &value, "above 0 and below 1e9");
            }
        }
        if let Some(Batch { writes, .. }) = self.batch {
            if !(1..=4096).contains(&writes) {
                return refused("batch.writes", &writes, "1 to 4096");
            }
            let value = self.read_share() + self.discards + self.fua + self.fsync_every as f64;
            if value > 0.0 {
                let name = "batch with reads, discards, fua or fsync_every";
                return refused(name, &value, "0: batches only write");
            }
        }
        if self.fsync.tick_ms > 1_000_000 {
            return refused("fsync.tick_ms", &self.fsync.tick_ms, "0 to 1000000");
        }
        if self.commands == Some(0) {
            return refused("commands", &0, "at least 1");
        }
        if !(1..=QUEUE_DEPTH_MAX).contains(&self.queue_depth) {
            return refused("queue_depth", &self.queue_depth, "1 to 65536");
        }
        if let Some(b) = self.buffered {
            b.check()?;
        }
        if let Sorting::Always(e) = self.elevator {
            e.check()?;
        }
        if self.commands.is_none() && self.passes.is_none() && self.seconds.is_none() {
            return Err(JobError::Endless);
        }
        Ok(())
    }
}
