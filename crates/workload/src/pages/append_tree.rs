//! An append-only B+-tree like Couchbase's storage: every update appends the document and new
//! versions of all nodes from its leaf up to the root.
//!
//! 1. Nothing is overwritten. The end is the newest, and a root with everything below it is a
//!    version of the whole tree.
//! 2. An update is acknowledged by the next fsync. There is one after every batch of `fsync_every`
//!    updates or operations, unless nothing was updated in it.
//! 3. Between fsyncs appends stay in the host's page cache. An fsync writes them in order in large
//!    commands, followed by a barrier. Where the file has grown, or its time stamps have changed, a
//!    commit of the file system's journal follows.
//! 4. Each block has the number of its update; the header of an update also says what its fsync wrote
//!    before it, with a checksum. After a cut the newest update that is there with all of that is the
//!    version that is opened, and every node of that version must be there.
//! 5. A node has 4 KiB: one block of the device, or several, each of which has the number.

use super::job::whole_blocks;
use super::volume::journal_blocks;
use super::{FileNo, Host, JobError, Volume};
use crate::zipf::Zipf;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Caps, IoError, Latencies};
use tantalum_rt::{Nanos, Rt, Stream, mix64};

/// Levels of the tree.
const LEVELS: usize = 4;

/// Nodes that an update appends: the document, with the header that names the root, and a node of
/// each level. 20 KiB.
const UPDATE_NODES: u64 = 1 + LEVELS as u64;

/// Bytes of a node.
const NODE_BYTES: u32 = 4096;

/// The most nodes of one write command of an fsync.
const COMMAND_NODES: usize = 128;

/// The most write commands of one fsync in flight.
const COMMANDS: usize = 8;

/// What a batch counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counted {
    /// Updates.
    #[default]
    Updates,
    /// Updates and reads.
    Operations,
}

/// A run on the tree by one thread.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AppendTreeJob {
    /// Documents. The tree always has four levels.
    ///
    /// *Source*: own choice.
    pub documents: u64,
    /// Zipfian exponent of their popularity.
    ///
    /// *Source*: YCSB, its public release: `ZIPFIAN_CONSTANT`.
    pub theta: f64,
    /// Share of updates among the operations. The others read.
    ///
    /// *Source*: DuraSSD: half and all.
    pub updates: f64,
    /// Size of a batch, which ends with an fsync.
    ///
    /// *Source*: DuraSSD: fsync every k updates.
    pub fsync_every: u64,
    /// What counts for it.
    ///
    /// *Source*: own choice.
    pub batch_counts: Counted,
    /// Operations of the measurement. The file has room for twice as many updates.
    ///
    /// *Source*: own choice; DuraSSD has 200,000.
    pub operations: u64,
    /// Whether the host sends flushes.
    ///
    /// *Source*: DuraSSD.
    pub barriers: bool,
    /// Whether appends make the file larger, so that each fsync commits the journal of the file
    /// system. False: the file has had its size from the start.
    ///
    /// *Source*: own choice.
    pub grows: bool,
    /// Granularity of the file's time stamps, ms: an fsync in a new tick commits the journal, too.
    /// 0: none.
    ///
    /// *Source*: own choice.
    pub tick_ms: u64,
    /// Processor time of a read, µs. Documents are in memory.
    ///
    /// *Source*: own choice.
    pub read_us: f64,
    /// Processor time of an update, µs.
    ///
    /// *Source*: own choice.
    pub update_us: f64,
}

impl Default for AppendTreeJob {
    /// YCSB-A, an fsync for every update.
    fn default() -> AppendTreeJob {
        AppendTreeJob {
            documents: 100_000,
            theta: 0.99,
            updates: 0.5,
            fsync_every: 1,
            batch_counts: Counted::Updates,
            operations: 20_000,
            barriers: true,
            grows: true,
            tick_ms: 0,
            read_us: 10.0,
            update_us: 40.0,
        }
    }
}

impl AppendTreeJob {
    /// Checks the values, and that the file fits a drive with these capabilities.
    ///
    /// # Errors
    /// The first value that is not valid, or what does not fit.
    pub fn check(&self, caps: Option<&Caps>) -> Result<(), JobError> {
        let wrong =
            |key, value: String, must: &str| JobError::Value { key, value, must: must.into() };
        for (key, value, least, most) in [
            ("documents", self.documents, 1, 1 << 24),
            ("fsync_every", self.fsync_every, 1, 10_000),
            ("operations", self.operations, 1, 1 << 24),
            ("tick_ms", self.tick_ms, 0, 1_000_000),
        ] {
            if !(least..=most).contains(&value) {
                return Err(wrong(key, value.to_string(), &format!("{least} to {most}")));
            }
        }
        for (key, value, most) in [
            ("updates", self.updates, 1.0),
            ("theta", self.theta, 10.0),
            ("read_us", self.read_us, 1e6),
            ("update_us", self.update_us, 1e6),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(wrong(key, value.to_string(), &format!("0 to {most}")));
            }
        }
        if self.updates == 0.0 && self.read_us == 0.0 {
            return Err(wrong(
                "read_us",
                "0".into(),
                "above 0 where nothing is updated: no time would pass",
            ));
        }
        let Some(caps) = caps else { return Ok(()) };
        self.fits_blocks(caps.block_size)?;
        let (block, have) = (caps.block_size, caps.blocks);
        let nodes = self.room() * UPDATE_NODES;
        let need = journal_blocks(caps.block_size) + nodes * u64::from(NODE_BYTES / block);
        match need > have {
            true => Err(JobError::Space { what: "file", need, block, have }),
            false => Ok(()),
        }
    }
}

impl AppendTreeJob {
    /// Whether it can run on a drive with blocks of so many bytes.
    ///
    /// # Errors
    /// [`JobError::Blocks`].
    pub fn fits_blocks(&self, block: u32) -> Result<(), JobError> {
        whole_blocks("a node", NODE_BYTES, block)
    }

    /// The host on which it runs.
    pub fn host(&self) -> Host {
        Host { barriers: self.barriers, queued_flush: false, tick_ms: self.tick_ms }
    }

    /// Updates that the file has room for.
    fn room(&self) -> u64 {
        2 * self.operations
    }
}

/// Counters of a run.
#[derive(Clone, Debug, Default)]
pub struct TreeCounts {
    /// Operations completed. Updates count when their fsync has returned.
    pub operations: u64,
    /// Updates completed.
    pub updates: u64,
    /// Durations of operations. An update lasts until its fsync returned.
    pub latency: Latencies,
}

/// The state of the file after a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeCheck {
    /// The number of updates in the newest version.
    pub version: u64,
    /// Acknowledged updates that are not in it.
    pub lost: u64,
    /// Nodes and documents of that version that are not there.
    pub missing: u64,
}

/// The tree, and its promises, for the check after a cut. Cheap to clone: a clone is the same tree.
#[derive(Clone)]
pub struct AppendTree {
    inner: Rc<Inner>,
}

struct Inner {
    rt: Rt,
    job: AppendTreeJob,
    seed: u64,
    /// Blocks of the device in a node.
    node: usize,
    popular: Zipf,
    /// The number of updates appended, and acknowledged.
    appended: Cell<u64>,
    acknowledged: Cell<u64>,
    /// The first update of each fsync, in ascending order: what headers say.
    batches: RefCell<Vec<u64>>,
    counts: RefCell<TreeCounts>,
}

/// The stamp of the blocks of node `part` of update `number`.
fn stamp(number: u64, part: u64) -> u64 {
    number << 8 | part | 1 << 63
}

impl AppendTree {
    /// An empty file.
    ///
    /// # Errors
    /// The job is not valid, or does not fit.
    pub fn new(
        rt: &Rt,
        job: &AppendTreeJob,
        seed: u64,
        caps: &Caps,
    ) -> Result<AppendTree, JobError> {
        job.check(Some(caps))?;
        Ok(AppendTree {
            inner: Rc::new(Inner {
                rt: rt.clone(),
                job: job.clone(),
                seed,
                node: (NODE_BYTES / caps.block_size) as usize,
                popular: Zipf::new(job.documents, job.theta),
                appended: Cell::new(0),
                acknowledged: Cell::new(0),
                batches: RefCell::default(),
                counts: RefCell::default(),
            }),
        })
    }

    /// The counters so far.
    pub fn counts(&self) -> TreeCounts {
        self.inner.counts.borrow().clone()
    }

    /// Updates acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.inner.acknowledged.get()
    }

    /// Resets the counters of operations.
    pub fn reset(&self) {
        *self.inner.counts.borrow_mut() = TreeCounts::default();
    }

    /// Runs until the file is full.
    ///
    /// # Errors
    /// The volume's error.
    pub async fn run<D: BlockDevice>(&self, volume: &Volume<D>, round: u64) -> Result<(), IoError> {
        let this = &*self.inner;
        let mut dice = Stream::new(mix64(this.seed) ^ round, "operations");
        let mut waiting = Vec::new();
        let mut flushed = this.appended.get();
        let (room, mut batch) = (this.job.room(), 0);
        while this.appended.get() < room {
            let begin = this.rt.now();
            let updates = dice.unit() < this.job.updates;
            if updates {
                this.rt.sleep(micros(this.job.update_us)).await;
                this.appended.set(this.appended.get() + 1);
                waiting.push(begin);
            } else {
                this.rt.sleep(micros(this.job.read_us)).await;
                this.count(&[begin], 0);
            }
            batch += u64::from(updates || this.job.batch_counts == Counted::Operations);
            let full = this.appended.get() == room;
            if batch < this.job.fsync_every && !full {
                continue;
            }
            batch = 0;
            if !waiting.is_empty() {
                this.fsync(volume, flushed).await?;
                flushed = this.appended.get();
                this.acknowledged.set(flushed);
                this.count(&waiting, waiting.len() as u64);
                waiting.clear();
            }
        }
        Ok(())
    }

    /// Opens the file after a cut, checks it, and goes on after the newest version.
    ///
    /// # Errors
    /// The volume's error, except for blocks that cannot be read.
    pub async fn recover<D: BlockDevice>(&self, volume: &Volume<D>) -> Result<TreeCheck, IoError> {
        let this = &*self.inner;
        let mut blocks = Vec::with_capacity(this.appended.get() as usize * this.update_blocks());
        let mut room = vec![0; this.update_blocks()];
        for number in 0..this.appended.get() {
            match volume.read(this.place(number), &mut room).await {
                Ok(()) => {}
                Err(IoError::Uncorrectable(_)) => room.fill(0),
                Err(e) => return Err(e),
            }
            blocks.extend_from_slice(&room);
        }
        let there = |number: u64, part: u64| {
            let first = (number * UPDATE_NODES + part) as usize * this.node;
            blocks[first..first + this.node].iter().all(|b| *b == stamp(number, part))
        };
        let whole = |number: &u64| (0..UPDATE_NODES).all(|part| there(*number, part));
        let version = this.newest_whole(whole);
        // The newest block of each document and node up to that version.
        let mut newest = BTreeMap::new();
        for number in 0..version {
            for (part, node) in this.path(number).into_iter().enumerate() {
                newest.insert((part as u64, node), number);
            }
        }
        let missing = newest.iter().filter(|((part, _), number)| !there(**number, *part));
        let found = TreeCheck {
            version,
            lost: this.acknowledged.get().saturating_sub(version),
            missing: missing.count() as u64,
        };
        // Missing blocks are written anew, and blocks after the version are cut off, so that the
        // next cut is checked by itself.
        let again = if found.missing > 0 { 0 } else { version };
        for number in again..this.appended.get() {
            let sound = |part| if number < version { stamp(number, part) } else { 0 };
            let all: Vec<u64> =
                (0..UPDATE_NODES).flat_map(|part| this.blocks(sound(part))).collect();
            volume.write(FileNo::SYSTEM, this.place(number), &all).await?;
        }
        volume.flush().await?;
        this.appended.set(version);
        this.acknowledged.set(version);
        Ok(found)
    }
}

impl Inner {
    /// Updates up to the newest one that is whole, as all before it in its batch are: a header
    /// stands for its batch. Batches behind it are forgotten.
    fn newest_whole(&self, whole: impl Fn(&u64) -> bool) -> u64 {
        let mut batches = self.batches.borrow_mut();
        let valid = |number: &u64| {
            let batch = batches.partition_point(|first| first <= number);
            let first = batch.checked_sub(1).map_or(0, |i| batches[i]);
            (first..=*number).rev().all(|n| whole(&n))
        };
        let version = (0..self.appended.get()).rev().find(valid).map_or(0, |n| n + 1);
        batches.retain(|first| *first < version);
        version
    }

    /// The blocks of a node, which carry the same stamp each.
    fn blocks(&self, stamp: u64) -> impl Iterator<Item = u64> + use<> {
        std::iter::repeat_n(stamp, self.node)
    }

    /// Blocks that an update appends.
    fn update_blocks(&self) -> usize {
        UPDATE_NODES as usize * self.node
    }

    /// Where an update lies in the file.
    fn place(&self, number: u64) -> Block {
        Block(number * self.update_blocks() as u64)
    }

    fn count(&self, begun: &[Nanos], updates: u64) {
        let mut counts = self.counts.borrow_mut();
        for begin in begun {
            counts.latency.record(self.rt.now() - *begin);
        }
        counts.operations += begun.len() as u64;
        counts.updates += updates;
    }

    /// The document of an update, and the nodes above it from the leaf to the root.
    fn path(&self, number: u64) -> [u64; UPDATE_NODES as usize] {
        let mut dice = Stream::new(mix64(self.seed ^ number), "document");
        let document = self.popular.sample_scrambled(&mut dice, self.seed);
        let fanout = (libm::pow(self.job.documents as f64, 1.0 / LEVELS as f64) as u64).max(1) + 1;
        let mut path = [document; UPDATE_NODES as usize];
        for level in 1..path.len() {
            path[level] = path[level - 1] / fanout;
        }
        path
    }

    /// Writes what was appended since update `from`, and makes it durable.
    async fn fsync<D: BlockDevice>(&self, volume: &Volume<D>, from: u64) -> Result<(), IoError> {
        self.batches.borrow_mut().push(from);
        let stamps: Vec<u64> = (from..self.appended.get())
            .flat_map(|number| (0..UPDATE_NODES).map(move |part| stamp(number, part)))
            .flat_map(|stamp| self.blocks(stamp))
            .collect();
        let most = COMMAND_NODES * self.node;
        let commands: Vec<_> =
            (self.place(from).0..).step_by(most).zip(stamps.chunks(most)).collect();
        for some in commands.chunks(COMMANDS) {
            let each =
                some.iter().map(|(at, stamps)| volume.write(FileNo::SYSTEM, Block(*at), stamps));
            let done = tantalum_rt::join_all(each.collect()).await;
            done.into_iter().collect::<Result<(), IoError>>()?;
        }
        volume.fsync(FileNo::SYSTEM, self.job.grows).await
    }
}

fn micros(us: f64) -> Nanos {
    Nanos((us * 1e3) as u64)
}
