//! Runs a job.

use super::{Cached, Elevated, Job, JobError, JobReport, Places, file_block};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, CommandKind, Durability, IoError, OwnedData, Stats,
};
use tantalum_rt::{Nanos, Rt, Stream, join_all};

/// The length of the journal in blocks of the file system. It is written as a ring.
const JOURNAL_BLOCKS: u64 = 8192;

/// Runs `job` on `device`.
///
/// ```
/// use tantalum_device::{Caps, CommandKind, Payload, PowerCycle, RamDevice, RamOptions};
/// use tantalum_rt::Runtime;
/// use tantalum_workload::jobs::{Job, run};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(1024, Payload::Stamps)));
/// // A hundred random writes, a flush after every tenth.
/// let job = Job { commands: Some(100), fsync_every: 10, ..Job::default() };
/// let report = runtime.block_on(async move { run(&rt, &ram.device(), &job, 1).await });
/// let report = report.unwrap().unwrap();
/// assert_eq!(report.stats.of(CommandKind::Write).commands, 100);
/// assert_eq!(report.stats.of(CommandKind::Flush).commands, 10);
/// ```
///
/// # Errors
/// [`JobError`]: the job is not valid, or a command failed. After the first failure the commands in
/// flight are waited for.
pub async fn run<D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    device: &D,
    job: &Job,
    seed: u64,
) -> Result<JobReport, JobError> {
    run_observed(rt, device, job, seed, |_, _| ()).await
}

/// The same as [`run`]. `done` is called for each completed command and fsync of the job, with its
/// duration.
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
    run_watched(rt, device, job, seed, |host| host, done).await
}

/// A device as the programs of a host see it: behind the page cache and the elevator of the job.
pub type Host<D> = Cached<Elevated<D>>;

/// The same. All commands of the job go through what `watch` makes of the host's side of the
/// device, and so does what the file system of the host writes past the page cache. So a watcher
/// sees what was acknowledged to the job, and when.
///
/// # Errors
/// [`JobError`], as for [`run`].
pub async fn run_watched<D, W>(
    rt: &Rt,
    device: &D,
    job: &Job,
    seed: u64,
    watch: impl Fn(Host<D>) -> W,
    done: impl Fn(CommandKind, Nanos) + 'static,
) -> Result<JobReport, JobError>
where
    D: BlockDevice + Clone + 'static,
    W: BlockDevice + Clone + 'static,
{
    job.check()?;
    let places = job.places(device.caps(), seed)?;
    let read_places = job.read_places(device.caps(), seed)?;
    let begin = rt.now();
    let passes = job.passes.map(|p| libm::ceil(p * places.commands() as f64) as u64);
    let commands = job.commands.unwrap_or(u64::MAX).min(passes.unwrap_or(u64::MAX));
    let until = job.seconds.map(|s| begin.saturating_add(Nanos((s * 1e9) as u64)));
    let elevated = Elevated::new(rt, device.clone(), job.elevator);
    let host = Cached::new(rt, elevated, job.buffered, job.fsync.barriers);
    let device = Stats::new(rt, watch(host.clone()));
    let shared = Rc::new(Shared {
        rt: rt.clone(),
        device: device.clone(),
        direct: watch(host.direct()),
        done: Box::new(done),
        job: job.clone(),
        reads: job.read_share(),
        longest: read_places.as_ref().map_or(0, Places::longest).max(places.longest()),
        until: until.unwrap_or(Nanos::MAX),
        places: RefCell::new(places),
        read_places: read_places.map(RefCell::new),
        dice: RefCell::new(Stream::new(seed, "block job")),
        left: Cell::new(commands),
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
        // It is never cancelled, since it belongs to no power domain.
        result = result.and(task.await.unwrap_or(Ok(())));
    }
    let closed = host.close(result.is_ok()).await;
    result.and(closed)?;
    Ok(JobReport { elapsed: rt.now().saturating_sub(begin), stats: device.snapshot() })
}

pub(super) struct Shared<D> {
    pub rt: Rt,
    pub device: Stats<D>,
    /// The same device, past the page cache, for writes that are not the job's: the journal of the
    /// file system.
    direct: D,
    pub done: Box<dyn Fn(CommandKind, Nanos)>,
    pub job: Job,
    reads: f64,
    /// Device blocks in the longest command.
    longest: u64,
    until: Nanos,
    pub places: RefCell<Places>,
    /// The places of reads, if they differ.
    read_places: Option<RefCell<Places>>,
    pub dice: RefCell<Stream>,
    left: Cell<u64>,
    writes: Cell<u64>,
    /// Journal blocks that were written, and the tick of the last commit.
    committed: Cell<u64>,
    tick: Cell<u64>,
    failed: Cell<bool>,
}

pub(super) struct Next {
    kind: CommandKind,
    pub range: Blocks,
    pub stamp: u64,
    fsync: bool,
}

impl<D: BlockDevice> Shared<D> {
    async fn work(shared: Rc<Shared<D>>) -> Result<(), JobError> {
        let caps = *shared.device.caps();
        let mut room = OwnedData::zeros(caps.payload, shared.longest as usize, caps.block_size);
        while let Some(next) = shared.next() {
            let result = match shared.job.batch {
                Some(batch) => shared.batch(next, batch).await,
                None => shared.command(&next, &mut room).await,
            };
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
        let (all, size) = (0..next.range.count as usize, self.device.caps().block_size);
        let result = match kind {
            CommandKind::Read => self.device.read(at, room.as_mut().slice(all, size)).await,
            CommandKind::Discard => self.device.discard(next.range).await,
            _ => {
                fill(room, next.stamp);
                let want = match kind {
                    CommandKind::Fua => Durability::Fua,
                    _ => Durability::Normal,
                };
                self.device.write(at, room.as_data().slice(all, size), want).await
            }
        };
        if result == Err(IoError::NoSpace) {
            // A thin drive may take other commands, and this one again after a discard.
            return Ok(());
        }
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

    /// Carries out an fsync, see [`Fsync`].
    pub async fn fsync(&self, stamp: u64) -> Result<(), IoError> {
        let host = &self.job.fsync;
        // (A page cache writes back, and knows itself whether there are barriers.)
        if host.barriers || self.job.buffered.is_some() {
            self.device.flush().await?;
        }
        let tick = self.rt.now().0 / (host.tick_ms.max(1) * 1_000_000);
        if host.tick_ms == 0 || self.tick.replace(tick) == tick {
            return Ok(());
        }
        let caps = self.direct.caps();
        let n = self.committed.replace(self.committed.get() + 2);
        // (It lies at whole blocks of the file system.)
        let (each, device) = (file_block(caps.block_size), caps.blocks);
        let (first, all) = ((device as f64 * host.journal_at) as u64 / each, device / each);
        let want = if host.barriers { Durability::Fua } else { Durability::Normal };
        let write = |n: u64| async move {
            let at = Block((first + n % JOURNAL_BLOCKS) % all.max(1) * each);
            let count = each.min(device) as usize;
            let mut block = OwnedData::zeros(caps.payload, count, caps.block_size);
            fill(&mut block, stamp ^ n);
            self.direct.write(at, block.as_data(), want).await
        };
        join_all(vec![write(n), write(n + 1)]).await.into_iter().collect()
    }

    /// The next command; `None` at the end.
    fn next(&self) -> Option<Next> {
        if self.left.get() == 0 || self.failed.get() || self.rt.now() >= self.until {
            return None;
        }
        self.left.set(self.left.get() - 1);
        let mut dice = self.dice.borrow_mut();
        let (range, roll) = match &self.read_places {
            None => (self.places.borrow_mut().next(&mut dice), dice.unit()),
            Some(reads) => {
                let roll = dice.unit();
                let places = if roll < self.reads { reads } else { &self.places };
                (places.borrow_mut().next(&mut dice), roll)
            }
        };
        let kind = if roll < self.reads {
            CommandKind::Read
        } else if roll < self.reads + self.job.discards {
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

/// Fills data that differ between writes and between blocks.
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
