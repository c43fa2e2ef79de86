//! Synthetic block jobs.
//!
//! 1. The sequence of commands follows from job and seed alone, not from how fast the
//!    device is: two devices get the same work.
//! 2. No more commands are in flight than the queue depth.
//! 3. Only what was completed is counted.

use crate::zipf::Zipf;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, Caps, CommandKind, DeviceStats, Durability, IoError, OwnedData,
    Stats,
};
use tantalum_rt::{Nanos, Rt, Stream};

/// Where the commands go.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other, from the start of the range, round and round.
    Sequential,
    /// Anywhere, with equal probability.
    Random,
    /// Anywhere, with zipfian popularity of this exponent; the popular places are
    /// scattered.
    Zipf(f64),
}

/// What the file system of the host does for an fsync: a flush of the device, and a
/// commit of its own journal if the file's time stamps have changed since the last one.
/// They have the granularity of the kernel's clock, so that quick fsyncs often find
/// nothing to commit.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fsync {
    /// Whether flushes and forced unit access are sent to the device at all.
    pub barriers: bool,
    /// Granularity of a file's time stamps, ms: an fsync in another tick than the last
    /// one writes a block of the journal, with forced unit access. 0: no journal.
    pub tick_ms: u64,
    /// Where on the device the journal lies, as a share of it, 0 to 1.
    pub journal_at: f64,
}

/// The journal's length, in blocks: it is written round and round.
const JOURNAL_BLOCKS: u64 = 8192;

impl Default for Fsync {
    /// A flush, and nothing else.
    fn default() -> Fsync {
        Fsync { barriers: true, tick_ms: 0, journal_at: 0.5 }
    }
}

/// A synthetic block job. It ends with the first of `commands`, `passes` and
/// `seconds` that is reached; at least one must be given.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Where the commands go.
    pub pattern: Pattern,
    /// Bytes of each command; a multiple of the device's block size.
    pub block_size: u64,
    /// The share of reads among all commands, 0 to 1.
    pub reads: f64,
    /// The share of discards among all commands, 0 to 1.
    pub discards: f64,
    /// The share of writes with forced unit access among the writes, 0 to 1.
    pub fua: f64,
    /// After so many writes of the job, the one that was the last of them is
    /// followed by an fsync; 0: never.
    pub fsync_every: u64,
    /// What the file system of the host does for an fsync.
    pub fsync: Fsync,
    /// Commands in flight.
    pub queue_depth: u32,
    /// The share of the device that is used, from its start on, above 0 to 1.
    pub range: f64,
    /// How many commands, flushes not counted.
    pub commands: Option<u64>,
    /// How many commands, as a multiple of what covers the range once.
    pub passes: Option<f64>,
    /// How long, in the runtime's time.
    pub seconds: Option<f64>,
}

impl Default for Job {
    /// Random writes of 4 KiB, one at a time, everywhere, without flush.
    fn default() -> Job {
        Job {
            pattern: Pattern::Random,
            block_size: 4096,
            reads: 0.0,
            discards: 0.0,
            fua: 0.0,
            fsync_every: 0,
            fsync: Fsync::default(),
            queue_depth: 1,
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
    /// Blocks that the device does not have.
    #[error(
        "the job's block size is {block_size} bytes, which is no multiple of the device's {device}, or more than the job's range"
    )]
    BlockSize {
        /// What the job asks for.
        block_size: u64,
        /// The device's own.
        device: u32,
    },
    /// A share that is none.
    #[error("`{name}` is {value}, but must be {range}")]
    Share {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// Nothing can ever happen.
    #[error("the queue depth is 0, but must be at least 1")]
    QueueDepth,
    /// It would never end.
    #[error("the job has no end: give `commands`, `passes` or `seconds`")]
    Endless,
    /// The device failed a command.
    #[error("a {kind} at {at} failed: {error}")]
    Io {
        /// Which kind.
        kind: CommandKind,
        /// Where.
        at: Block,
        /// What the device said.
        error: IoError,
    },
}

/// What a job came to.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// From the first command to the last completion.
    pub elapsed: Nanos,
    /// Commands, bytes and latencies by kind.
    pub stats: DeviceStats,
}

impl JobReport {
    /// Reads, writes and discards.
    pub fn commands(&self) -> u64 {
        let counted = CommandKind::ALL.iter().filter(|k| **k != CommandKind::Flush);
        counted.map(|k| self.stats.of(*k).commands).sum()
    }

    /// Reads, writes and discards in a second.
    pub fn iops(&self) -> f64 {
        per_second(self.commands() as f64, self.elapsed)
    }

    /// Bytes read and written in a second.
    pub fn bytes_per_second(&self) -> f64 {
        let bytes = self.stats.of(CommandKind::Read).bytes + self.stats.bytes_written();
        per_second(bytes as f64, self.elapsed)
    }
}

fn per_second(amount: f64, elapsed: Nanos) -> f64 {
    if elapsed == Nanos::ZERO { 0.0 } else { amount / elapsed.as_secs_f64() }
}

impl Job {
    /// Commands that cover the range of a device once.
    fn slots(&self, caps: &Caps) -> Result<u64, JobError> {
        let (block_size, device) = (self.block_size, caps.block_size);
        let used = (caps.bytes() as f64 * self.range) as u64;
        let slots = used.min(caps.bytes()).checked_div(block_size).unwrap_or(0);
        if slots == 0 || !block_size.is_multiple_of(u64::from(device)) {
            return Err(JobError::BlockSize { block_size, device });
        }
        Ok(slots)
    }

    fn check(&self) -> Result<(), JobError> {
        let shares = [
            ("reads", self.reads),
            ("discards", self.discards),
            ("fua", self.fua),
            ("fsync.journal_at", self.fsync.journal_at),
        ];
        for (name, value) in shares.into_iter().chain([("range", self.range)]) {
            if !(0.0..=1.0).contains(&value) || (name == "range" && value == 0.0) {
                return Err(JobError::Share { name, value, range: "between 0 and 1" });
            }
        }
        let value = self.reads + self.discards;
        if value > 1.0 {
            return Err(JobError::Share { name: "reads + discards", value, range: "at most 1" });
        }
        for (name, limit) in [("passes", self.passes), ("seconds", self.seconds)] {
            let value = limit.unwrap_or(0.0);
            if !(0.0..1e9).contains(&value) {
                return Err(JobError::Share { name, value, range: "between 0 and 1e9" });
            }
        }
        if self.queue_depth == 0 {
            return Err(JobError::QueueDepth);
        }
        if self.commands.is_none() && self.passes.is_none() && self.seconds.is_none() {
            return Err(JobError::Endless);
        }
        Ok(())
    }
}

/// Runs `job` on `device`.
///
/// # Errors
/// [`JobError`]: a job that makes no sense, or the first command that failed; the
/// others in flight are waited for.
pub async fn run<D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    device: &D,
    job: &Job,
    seed: u64,
) -> Result<JobReport, JobError> {
    run_observed(rt, device, job, seed, |_, _| ()).await
}

/// The same; `done` hears of each command and fsync of the job that was completed, and
/// how long it took.
///
/// # Errors
/// [`JobError`], as for [`run`].
pub async fn run_observed<D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    device: &D,
    job: &Job,
    seed: u64,
    done: impl Fn(CommandKind, Nanos) + 'static,
) -> Result<JobReport, JobError> {
    job.check()?;
    let slots = job.slots(device.caps())?;
    let begin = rt.now();
    let passes = job.passes.map(|p| libm::ceil(p * slots as f64) as u64);
    let commands = job.commands.unwrap_or(u64::MAX).min(passes.unwrap_or(u64::MAX));
    let until = job.seconds.map(|s| begin.saturating_add(Nanos((s * 1e9) as u64)));
    let caps = *device.caps();
    let host = device.clone();
    let device = Stats::new(rt, host.clone());
    let shared = Rc::new(Shared {
        rt: rt.clone(),
        device: device.clone(),
        host,
        done: Box::new(done),
        job: job.clone(),
        slots,
        blocks: job.block_size / u64::from(caps.block_size),
        until: until.unwrap_or(Nanos::MAX),
        zipf: match job.pattern {
            Pattern::Zipf(theta) => Some(Zipf::new(slots, theta)),
            Pattern::Sequential | Pattern::Random => None,
        },
        salt: seed,
        dice: RefCell::new(Stream::new(seed, "block job")),
        left: Cell::new(commands),
        cursor: Cell::new(0),
        writes: Cell::new(0),
        committed: Cell::new(0),
        tick: Cell::new(0),
        failed: Cell::new(false),
    });
    let tasks: Vec<_> = (0..job.queue_depth)
        .map(|_| rt.spawn("a block job", Shared::work(shared.clone())))
        .collect();
    let mut result = Ok(());
    for task in tasks {
        // Never cancelled: it belongs to no power domain.
        result = result.and(task.await.unwrap_or(Ok(())));
    }
    result?;
    Ok(JobReport { elapsed: rt.now().saturating_sub(begin), stats: device.snapshot() })
}

struct Shared<D> {
    rt: Rt,
    device: Stats<D>,
    /// The same device, for what is not the job's: the journal of the file system.
    host: D,
    done: Box<dyn Fn(CommandKind, Nanos)>,
    job: Job,
    slots: u64,
    /// Device blocks in a command.
    blocks: u64,
    until: Nanos,
    zipf: Option<Zipf>,
    salt: u64,
    dice: RefCell<Stream>,
    left: Cell<u64>,
    cursor: Cell<u64>,
    writes: Cell<u64>,
    /// Commits of the journal, and the tick of the last one.
    committed: Cell<u64>,
    tick: Cell<u64>,
    failed: Cell<bool>,
}

struct Next {
    kind: CommandKind,
    range: Blocks,
    stamp: u64,
    fsync: bool,
}

impl<D: BlockDevice> Shared<D> {
    async fn work(shared: Rc<Shared<D>>) -> Result<(), JobError> {
        let caps = *shared.device.caps();
        let mut room = OwnedData::zeros(caps.payload, shared.blocks as usize, caps.block_size);
        while let Some(next) = shared.next() {
            let result = shared.command(&next, &mut room).await;
            if result.is_err() {
                shared.failed.set(true);
                return result;
            }
        }
        Ok(())
    }

    async fn command(&self, next: &Next, room: &mut OwnedData) -> Result<(), JobError> {
        let (kind, at) = (next.kind, next.range.start);
        let start = self.rt.now();
        let result = match kind {
            CommandKind::Read => self.device.read(at, room.as_mut()).await,
            CommandKind::Discard => self.device.discard(next.range).await,
            _ => {
                fill(room, next.stamp);
                let want = match kind {
                    CommandKind::Fua => Durability::Fua,
                    _ => Durability::Normal,
                };
                self.device.write(at, room.as_data(), want).await
            }
        };
        result.map_err(|error| JobError::Io { kind, at, error })?;
        (self.done)(kind, self.rt.now().saturating_sub(start));
        if next.fsync {
            let start = self.rt.now();
            let kind = CommandKind::Flush;
            self.fsync(next.stamp).await.map_err(|error| JobError::Io { kind, at, error })?;
            (self.done)(kind, self.rt.now().saturating_sub(start));
        }
        Ok(())
    }

    /// What the file system does for an fsync, see [`Fsync`].
    async fn fsync(&self, stamp: u64) -> Result<(), IoError> {
        let host = &self.job.fsync;
        if host.barriers {
            self.device.flush().await?;
        }
        let tick = self.rt.now().0 / (host.tick_ms.max(1) * 1_000_000);
        if host.tick_ms == 0 || self.tick.replace(tick) == tick {
            return Ok(());
        }
        let caps = self.host.caps();
        let n = self.committed.replace(self.committed.get() + 1);
        let first = (caps.blocks as f64 * host.journal_at) as u64;
        let at = Block((first + n % JOURNAL_BLOCKS) % caps.blocks.max(1));
        let mut block = OwnedData::zeros(caps.payload, 1, caps.block_size);
        fill(&mut block, stamp ^ n);
        let want = if host.barriers { Durability::Fua } else { Durability::Normal };
        self.host.write(at, block.as_data(), want).await
    }

    /// The next command; `None` at the end.
    fn next(&self) -> Option<Next> {
        if self.left.get() == 0 || self.failed.get() || self.rt.now() >= self.until {
            return None;
        }
        self.left.set(self.left.get() - 1);
        let mut dice = self.dice.borrow_mut();
        let slot = match (self.job.pattern, &self.zipf) {
            (_, Some(zipf)) => zipf.sample_scrambled(&mut dice, self.salt),
            (Pattern::Sequential, None) => {
                let slot = self.cursor.get();
                self.cursor.set((slot + 1) % self.slots);
                slot
            }
            (_, None) => dice.below(self.slots),
        };
        let range = Blocks { start: Block(slot * self.blocks), count: self.blocks };
        let roll = dice.unit();
        let kind = if roll < self.job.reads {
            CommandKind::Read
        } else if roll < self.job.reads + self.job.discards {
            CommandKind::Discard
        } else if dice.unit() < self.job.fua {
            CommandKind::Fua
        } else {
            CommandKind::Write
        };
        let writes = matches!(kind, CommandKind::Write | CommandKind::Fua);
        self.writes.set(self.writes.get() + u64::from(writes));
        let every = self.job.fsync_every;
        let fsync = writes && every > 0 && self.writes.get().is_multiple_of(every);
        Some(Next { kind, range, stamp: dice.next_u64() | 1, fsync })
    }
}

/// Data that differ from write to write and from block to block.
pub(crate) fn fill(room: &mut OwnedData, stamp: u64) {
    match room {
        OwnedData::Stamps(stamps) => {
            for (i, s) in stamps.iter_mut().enumerate() {
                *s = stamp.wrapping_add(2 * i as u64);
            }
        }
        OwnedData::Bytes(bytes) => {
            for (i, word) in bytes.chunks_mut(8).enumerate() {
                let v = stamp.wrapping_mul(2 * i as u64 + 1).to_le_bytes();
                word.copy_from_slice(&v[..word.len()]);
            }
        }
    }
}
