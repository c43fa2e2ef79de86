//! The block-level oracle of experiments: remembers what any host, a database too, wrote
//! to a device, and after a cut compares every block with what the device promised.
//!
//! The oracle in [`crate::Oracle`] makes up its own data and judges order and
//! atomicity; this one takes the data as they come, by their hash.
//!
//! 1. A block may hold what was durable, or any version written since: complete or in
//!    flight. A version is durable once the ack of its write, forced unit access or a
//!    flush promised it; older ones may not come back then. Of versions that were in
//!    flight at the same time any may be the durable one.
//!    A version that was refused for want of space may never be seen.
//! 2. What a check saw is what is durable from then on.
//! 3. The books are bounded by the number of distinct blocks written, and the versions since
//!    each was last durable.

use crate::patience::{Hang, Patience};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
    OwnedData, forward,
};
use tantalum_rt::Rt;
use xxhash_rust::xxh3::xxh3_64;

/// Blocks read at a time by a check.
const RUN: u64 = 64;
/// Breaches described in words, by one check.
const DESCRIBED: usize = 4;

/// One write of one block since it was last durable.
#[derive(Clone, Copy)]
struct Version {
    hash: u64,
    submitted: u64,
    completed: Option<u64>,
    acknowledged: bool,
    /// It was not durable when the power went. It may be there or not, and no later flush covers
    /// it.
    doubtful: bool,
}

#[derive(Clone)]
struct Entry {
    /// One, or several that were in flight together.
    durable: Vec<Version>,
    /// Not known to be durable, in order of submission.
    versions: Vec<Version>,
}

impl Version {
    /// Durable from the start, or since a check.
    fn settled(hash: u64) -> Version {
        Version { hash, submitted: 0, completed: Some(0), acknowledged: true, doubtful: false }
    }

    /// Complete before the other one was submitted.
    fn before(&self, other: &Version) -> bool {
        self.completed.is_some_and(|at| at <= other.submitted)
    }
}

struct Book {
    zero: u64,
    ticks: u64,
    blocks: FxHashMap<u64, Entry>,
    /// Blocks with complete versions that no promise covers yet.
    volatile: BTreeSet<u64>,
    acknowledged: u64,
    /// Writes refused for want of space.
    refused: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Blocks compared.
    pub blocks: u64,
    /// Blocks whose newest acknowledged content is gone, promised or not.
    pub lost: u64,
    /// Blocks that hold what they must not: promises broken.
    pub violations: u64,
    /// Some of those, in words.
    pub words: Vec<String>,
}

/// The memory of what was written to one device; it outlives power cycles. Cheap to
/// clone: a clone is the same memory.
///
/// ```
/// use tantalum_device::{Block, BlockDevice, Caps, Data, Durability, Payload, PowerCycle};
/// use tantalum_device::{RamDevice, RamOptions};
/// use tantalum_oracle::shadow::Witness;
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let caps = Caps::power_safe(64, Payload::Bytes);
/// let ram = RamDevice::new(&rt, RamOptions::new(caps));
/// let witness = Witness::new(&rt, &caps);
/// let compared = runtime.block_on(async move {
///     let device = witness.watch(ram.device()); // for a database, say
///     device.write(Block(3), Data::Bytes(&[7; 4096]), Durability::Normal).await?;
///     ram.cut();
///     witness.cut();
///     ram.power_on().await?;
///     witness.check(&ram.device()).await
/// });
/// let compared = compared.unwrap().unwrap();
/// assert_eq!((compared.blocks, compared.lost, compared.violations), (1, 0, 0));
/// ```
#[derive(Clone)]
pub struct Witness {
    book: Rc<RefCell<Book>>,
    patience: Rc<Patience>,
}

/// A device under the eyes of a [`Witness`].
///
/// See [`Witness`] for an example.
#[derive(Clone)]
pub struct Shadow<D> {
    inner: D,
    book: Rc<RefCell<Book>>,
    patience: Rc<Patience>,
}

impl Witness {
    /// A witness for a device with these capabilities that holds zeros only.
    pub fn new(rt: &Rt, caps: &Caps) -> Witness {
        let zeros = OwnedData::zeros(caps.payload, 1, caps.block_size);
        let book = Book {
            zero: hash(zeros.as_data()),
            ticks: 0,
            blocks: FxHashMap::default(),
            volatile: BTreeSet::new(),
            acknowledged: 0,
            refused: 0,
        };
        Witness { book: Rc::new(RefCell::new(book)), patience: Rc::new(Patience::new(rt)) }
    }

    /// The device, watched.
    pub fn watch<D: BlockDevice>(&self, inner: D) -> Shadow<D> {
        let (book, patience) = (self.book.clone(), self.patience.clone());
        Shadow { inner, book, patience }
    }

    /// The power went: what was in flight has ended, and what was not promised may be gone.
    pub fn cut(&self) {
        let mut book = self.book.borrow_mut();
        let now = book.tick();
        for entry in book.blocks.values_mut() {
            for version in &mut entry.versions {
                version.completed.get_or_insert(now);
                version.doubtful = true;
            }
        }
        book.volatile.clear();
    }

    /// Whether a device that is watched does not answer any more.
    pub fn hang(&self) -> Option<Hang> {
        self.patience.hang()
    }

    /// Blocks written by commands that completed, so far.
    pub fn acknowledged(&self) -> u64 {
        self.book.borrow().acknowledged
    }

    /// Writes that were refused for want of space so far.
    pub fn refused(&self) -> u64 {
        self.book.borrow().refused
    }

    /// Reads every block that was ever written and compares it with what it may hold. No
    /// command may be in flight.
    ///
    /// # Errors
    /// [`IoError::PowerLost`] if the power goes meanwhile: check again after the next
    /// restart. Blocks that cannot be read are violations.
    pub async fn check<D: BlockDevice>(&self, device: &D) -> Result<Comparison, IoError> {
        let caps = *device.caps();
        let blocks: Vec<u64> = {
            let mut blocks: Vec<u64> = self.book.borrow().blocks.keys().copied().collect();
            blocks.sort_unstable();
            blocks
        };
        let mut found = Vec::with_capacity(blocks.len());
        let mut next = 0;
        while next < blocks.len() {
            let mut count = 1;
            while next + count < blocks.len()
                && blocks[next + count] == blocks[next] + count as u64
                && (count as u64) < RUN
            {
                count += 1;
            }
            let mut room = OwnedData::zeros(caps.payload, count, caps.block_size);
            let read = device.read(Block(blocks[next]), room.as_mut()).await;
            if read == Err(IoError::PowerLost) {
                return Err(IoError::PowerLost);
            }
            for i in 0..count {
                let one = room.as_data().slice(i..i + 1, caps.block_size);
                found.push(read.as_ref().map(|()| hash(one)).map_err(Clone::clone));
            }
            next += count;
        }
        Ok(self.book.borrow_mut().compare(&blocks, &found))
    }
}

fn hash(data: Data<'_>) -> u64 {
    match data {
        Data::Bytes(bytes) => xxh3_64(bytes),
        Data::Stamps(stamps) => stamps.first().copied().unwrap_or(0),
    }
}

impl Book {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn submit(&mut self, block: u64, hash: u64, submitted: u64) {
        let zero = Version::settled(self.zero);
        let entry = self
            .blocks
            .entry(block)
            .or_insert_with(|| Entry { durable: vec![zero], versions: Vec::new() });
        entry.versions.push(Version {
            hash,
            submitted,
            completed: None,
            acknowledged: false,
            doubtful: false,
        });
    }

    /// A write completed; `promised`: it is durable by that.
    fn complete(&mut self, range: Blocks, submitted: u64, promised: bool) {
        let now = self.tick();
        self.acknowledged += range.count;
        for block in range.start.0..range.start.0 + range.count {
            let Some(entry) = self.blocks.get_mut(&block) else { continue };
            let version = entry.versions.iter_mut().find(|v| v.submitted == submitted);
            if let Some(version) = version {
                version.completed = Some(now);
                version.acknowledged = true;
            }
            if promised {
                entry.promise(|v| v.submitted == submitted);
            } else {
                self.volatile.insert(block);
            }
        }
    }

    /// A write was refused: it is nowhere.
    fn refuse(&mut self, range: Blocks, submitted: u64) {
        self.refused += 1;
        for block in range.start.0..range.start.0 + range.count {
            if let Some(entry) = self.blocks.get_mut(&block) {
                entry.versions.retain(|v| v.submitted != submitted);
            }
        }
    }

    /// A flush that was submitted at `submitted` succeeded.
    fn flushed(&mut self, submitted: u64) {
        let blocks = &mut self.blocks;
        self.volatile.retain(|block| {
            let Some(entry) = blocks.get_mut(block) else { return false };
            entry.promise(|v| !v.doubtful && v.completed.is_some_and(|at| at < submitted));
            entry.versions.iter().any(|v| !v.doubtful && v.completed.is_some())
        });
    }

    fn compare(&mut self, blocks: &[u64], found: &[Result<u64, IoError>]) -> Comparison {
        let mut result = Comparison::default();
        for (block, found) in blocks.iter().zip(found) {
            let Some(entry) = self.blocks.get_mut(block) else { continue };
            result.blocks += 1;
            let at = match found {
                Ok(hash) => entry.place_of(*hash),
                Err(_) => None,
            };
            let newest = entry.versions.iter().rposition(|v| v.acknowledged);
            // Places: 0 is what was durable, i + 1 the i-th version since.
            if at.is_none_or(|at| newest.is_some_and(|newest| at < newest + 1)) {
                result.lost += 1;
            }
            if at.is_none() {
                result.violations += 1;
                if result.words.len() < DESCRIBED {
                    result.words.push(match found {
                        Ok(_) => format!(
                            "block {block} holds neither what was durable nor anything written since"
                        ),
                        Err(e) => format!("block {block} cannot be read: {e}"),
                    });
                }
            }
            if let Ok(hash) = found {
                entry.durable = vec![Version::settled(*hash)];
            }
            entry.versions.clear();
        }
        self.volatile.clear();
        result
    }
}

impl Entry {
    /// These versions are promised: what is durable is one of the newest of them and of
    /// what was durable so far.
    fn promise(&mut self, covered: impl Fn(&Version) -> bool) {
        let all = &mut self.durable;
        let known = all.len();
        self.versions.retain(|v| {
            let covered = covered(v);
            if covered {
                all.push(*v);
            }
            !covered
        });
        if all.len() > known {
            let newest =
                |v: &Version| !all.iter().any(|w| v.before(w) && v.submitted != w.submitted);
            self.durable = all.iter().filter(|v| newest(v)).copied().collect();
            // A version that was complete before one of them cannot come back either.
            let durable = &self.durable;
            self.versions.retain(|v| !durable.iter().any(|w| v.before(w)));
        }
    }

    /// 0: what was durable; i + 1: the i-th version since.
    fn place_of(&self, hash: u64) -> Option<usize> {
        match self.versions.iter().rposition(|v| v.hash == hash) {
            Some(i) => Some(i + 1),
            None => self.durable.iter().any(|v| v.hash == hash).then_some(0),
        }
    }
}

impl<D: BlockDevice> Shadow<D> {
    fn submit(&self, range: Blocks, hashes: impl Iterator<Item = u64>) -> u64 {
        let mut book = self.book.borrow_mut();
        let submitted = book.tick();
        for (block, hash) in (range.start.0..).zip(hashes) {
            book.submit(block, hash, submitted);
        }
        submitted
    }

    fn complete(&self, range: Blocks, submitted: u64, want: Durability) {
        let promised = want == Durability::Fua || self.inner.caps().ack.survives();
        self.book.borrow_mut().complete(range, submitted, promised);
    }
}

impl<D: BlockDevice> BlockDevice for Shadow<D> {
    forward!(inner: caps, is_alive, arm_queue, blocks_its_thread);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        self.patience.watch(self.inner.read(at, buf)).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let caps = *self.inner.caps();
        let count = caps.check(at, data.kind(), data.blocks(caps.block_size))?;
        let range = Blocks { start: at, count };
        let each = (0..count as usize).map(|i| hash(data.slice(i..i + 1, caps.block_size)));
        let submitted = self.submit(range, each);
        let written = self.patience.watch(self.inner.write(at, data, want)).await;
        match &written {
            Ok(()) => self.complete(range, submitted, want),
            // It must leave no trace.
            Err(IoError::NoSpace) => self.book.borrow_mut().refuse(range, submitted),
            Err(_) => {}
        }
        written
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let caps = *self.inner.caps();
        caps.check_group(group)?;
        let mut parts = Vec::with_capacity(group.len());
        for extent in group {
            let count = extent.data.blocks(caps.block_size).unwrap_or(0);
            let range = Blocks { start: extent.at, count };
            let block = |i: usize| extent.data.slice(i..i + 1, caps.block_size);
            let hashes = (0..count as usize).map(|i| hash(block(i)));
            parts.push((range, self.submit(range, hashes)));
        }
        let written = self.patience.watch(self.inner.write_atomic(group)).await;
        for (range, submitted) in parts {
            match &written {
                // A group that has completed survives, whatever plain writes do.
                Ok(()) => self.complete(range, submitted, Durability::Fua),
                Err(AtomicError::Io(IoError::NoSpace)) => {
                    self.book.borrow_mut().refuse(range, submitted);
                }
                Err(_) => {}
            }
        }
        written
    }

    async fn flush(&self) -> Result<(), IoError> {
        let submitted = self.book.borrow_mut().tick();
        self.patience.watch(self.inner.flush()).await?;
        if self.inner.caps().flush {
            self.book.borrow_mut().flushed(submitted);
        }
        Ok(())
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.inner.caps().check_range(range)?;
        let zero = self.book.borrow().zero;
        // Blocks never written are zeros before and after.
        let written: Vec<u64> = {
            let book = self.book.borrow();
            let all = range.start.0..range.start.0 + range.count;
            all.filter(|b| book.blocks.contains_key(b)).collect()
        };
        let submitted = {
            let mut book = self.book.borrow_mut();
            let submitted = book.tick();
            written.iter().for_each(|b| book.submit(*b, zero, submitted));
            submitted
        };
        self.patience.watch(self.inner.discard(range)).await?;
        let promised = self.inner.caps().ack.survives();
        let mut book = self.book.borrow_mut();
        for block in written {
            let one = Blocks { start: Block(block), count: 1 };
            book.complete(one, submitted, promised);
            book.acknowledged -= 1;
        }
        Ok(())
    }
}
