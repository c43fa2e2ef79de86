//! The state of a mounted layer, and how it writes metadata: changes join a queue, the first task
//! in line writes all waiting changes as one record, and a full journal becomes a snapshot in the
//! other region.

use crate::FilesError;
use crate::cache::PartialBlocks;
use crate::format::{Layout, Place, REC_HEADER, put_change, seal_record};
use crate::pool::Pool;
use crate::state::{Change, State};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{BlockDevice, Blocks, Data, Durability};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, WaitQueue};

/// Chunks made ready at once.
const REFILL: u32 = 16;

/// The state of a file beside its metadata.
pub(crate) struct Node {
    pub ino: u64,
    /// The exact size; the recorded size is no smaller.
    pub size: Cell<u64>,
    /// After the end of the file, the last chunk may hold other bytes than zeros.
    pub stale: Cell<bool>,
    /// Held while the size, the chunks, or parts of blocks change.
    pub lock: Mutex,
    pub cache: RefCell<PartialBlocks>,
    /// Commands in progress on chunks of the file.
    pub users: Cell<u32>,
    pub idle: WaitQueue,
    pub handles: Cell<u32>,
}

impl Node {
    pub fn new(rt: &Rt, ino: u64, size: u64, stale: bool) -> Node {
        Node {
            ino,
            size: Cell::new(size),
            stale: Cell::new(stale),
            lock: Mutex::new(rt, "the lock of a file"),
            cache: RefCell::default(),
            users: Cell::new(0),
            idle: WaitQueue::new(rt, "the end of reads and writes of a file"),
            handles: Cell::new(0),
        }
    }
}

/// Changes that wait to be written.
pub(crate) struct Queue {
    /// Encoded changes, after room for the head of a record.
    record: Vec<u8>,
    queued: u64,
    written: u64,
    /// How many of these can no longer be lost.
    durable: u64,
}

impl Default for Queue {
    /// The metadata found by a mount count as one change, which may be lost before a flush: the
    /// previous mount may have ended without a crash.
    fn default() -> Queue {
        Queue { record: Vec::new(), queued: 1, written: 1, durable: 0 }
    }
}

/// The place of the next record.
#[derive(Clone, Copy)]
pub(crate) struct Journal {
    pub region: u32,
    pub epoch: u64,
    pub seq: u64,
    /// In blocks from the start of the journal.
    pub next: u64,
}

pub(crate) struct Inner<D> {
    pub device: D,
    pub layout: Layout,
    pub barriers: bool,
    pub state: RefCell<State>,
    pub nodes: RefCell<BTreeMap<u64, Rc<Node>>>,
    pub pool: RefCell<Pool>,
    pub journal: Cell<Journal>,
    pub queue: RefCell<Queue>,
    pub meta_lock: Mutex,
    pub refill_lock: Mutex,
    pub poisoned: Cell<bool>,
    pub scratch: RefCell<Vec<Vec<u8>>>,
    pub rt: Rt,
}

/// Poisons the layer when it is dropped, unless the write succeeded: after a failed write, or one
/// whose future was dropped half way, the state of the device is unknown.
pub(crate) struct Unsure<'a> {
    poisoned: &'a Cell<bool>,
    armed: bool,
}

impl Unsure<'_> {
    pub fn all_well(mut self) {
        self.armed = false;
    }
}

impl Drop for Unsure<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.poisoned.set(true);
        }
    }
}

impl<D: BlockDevice> Inner<D> {
    /// Whether the layer may write.
    pub fn check(&self) -> Result<(), FilesError> {
        if self.poisoned.get() { Err(FilesError::Poisoned) } else { Ok(()) }
    }

    pub fn unsure(&self) -> Unsure<'_> {
        Unsure { poisoned: &self.poisoned, armed: true }
    }

    /// Whether completed writes may be lost or reordered, so that a write that depends on another
    /// one needs a flush in between.
    pub fn needs_barrier(&self) -> bool {
        let caps = self.device.caps();
        !caps.ack.survives() && !caps.ordered
    }

    /// Applies a change in memory; returns the chunks that it removes from a file. The caller must
    /// write it with [`Inner::commit`] before it returns. Several changes without an await in
    /// between are written in one record.
    pub fn change(&self, change: &Change<'_>) -> Result<Vec<u32>, FilesError> {
        let mut state = self.state.borrow_mut();
        let recorded =
            matches!(change, Change::Create { .. }) || state.inodes.contains_key(&change.ino());
        let freed = state.apply(change, &self.layout).map_err(|what| {
            // The callers have checked the change: so memory is damaged, and must not be written.
            self.poisoned.set(true);
            FilesError::Corrupt { what, at: self.layout.snapshot_at(0) }
        })?;
        if recorded {
            let mut queue = self.queue.borrow_mut();
            if queue.record.is_empty() {
                queue.record.resize(REC_HEADER, 0);
            }
            put_change(&mut queue.record, change);
            queue.queued += 1;
        }
        Ok(freed)
    }

    /// Waits until all changes so far have been written. Dropping this future poisons the layer,
    /// because later changes would depend on one that may be missing.
    pub async fn commit(&self) -> Result<(), FilesError> {
        let mine = self.queue.borrow().queued;
        let written = |upto: u64| self.queue.borrow().written >= upto;
        if !written(mine) {
            let unsure = self.unsure();
            let _turn = self.meta_lock.lock().await;
            self.check()?;
            if !written(mine) {
                self.write_queue().await?;
            }
            unsure.all_well();
        }
        self.check()
    }

    async fn write_queue(&self) -> Result<(), FilesError> {
        let (mut record, upto) = {
            let mut queue = self.queue.borrow_mut();
            (std::mem::take(&mut queue.record), queue.queued)
        };
        let l = &self.layout;
        let mut journal = self.journal.get();
        let place = Place { format_id: l.format_id, epoch: journal.epoch, seq: journal.seq };
        seal_record(&mut record, place, l.block_size);
        let blocks = (record.len() / l.block_size as usize) as u64;
        if journal.next + blocks > u64::from(l.journal_blocks) {
            self.snapshot(journal.region ^ 1, journal.epoch + 1).await?;
        } else {
            let mut at = l.journal_at(journal.region);
            at.0 += journal.next;
            self.device.write(at, Data::Bytes(&record), Durability::Normal).await?;
            journal.seq += 1;
            journal.next += blocks;
            self.journal.set(journal);
        }
        let mut queue = self.queue.borrow_mut();
        queue.written = upto;
        if queue.record.is_empty() {
            // The buffer is reused.
            record.clear();
            queue.record = record;
        }
        Ok(())
    }

    /// Writes the metadata in memory as a snapshot, and begins its epoch. The other region is not
    /// changed until this snapshot cannot be lost.
    pub async fn snapshot(&self, region: u32, epoch: u64) -> Result<(), FilesError> {
        let l = &self.layout;
        let mut bytes = self.take_scratch();
        // Changes that join the queue from here on are not in the snapshot; they are recorded after
        // it.
        self.state.borrow().encode(&mut bytes, l.format_id, epoch);
        bytes.resize(bytes.len().next_multiple_of(l.block_size as usize), 0);
        if bytes.len() as u64 > u64::from(l.snapshot_blocks) * u64::from(l.block_size) {
            let what = "the metadata outgrew their snapshot";
            return Err(FilesError::Corrupt { what, at: l.snapshot_at(region) });
        }
        self.device.write(l.snapshot_at(region), Data::Bytes(&bytes), Durability::Normal).await?;
        self.give_scratch(bytes);
        if self.needs_barrier() {
            self.flush().await?;
        }
        self.journal.set(Journal { region, epoch, seq: 0, next: 0 });
        Ok(())
    }

    /// Flushes the device. Chunks freed before are then permanently free.
    pub async fn flush(&self) -> Result<(), FilesError> {
        self.check()?;
        let pending = self.pool.borrow_mut().take_pending();
        let written = self.queue.borrow().written;
        let unsure = self.unsure();
        self.device.flush().await?;
        unsure.all_well();
        self.pool.borrow_mut().release(&pending, true);
        let mut queue = self.queue.borrow_mut();
        queue.durable = queue.durable.max(written);
        Ok(())
    }

    /// Makes all changes so far durable.
    pub async fn make_durable(&self) -> Result<(), FilesError> {
        self.commit().await?;
        let lost = {
            let queue = self.queue.borrow();
            queue.durable < queue.written
        };
        if lost && !self.device.caps().ack.survives() {
            self.flush().await?;
        }
        Ok(())
    }

    /// Takes `count` clean chunks, if possible adjacent after `previous`.
    pub async fn allocate(
        &self,
        count: u32,
        mut previous: Option<u32>,
    ) -> Result<Vec<u32>, FilesError> {
        loop {
            {
                let mut pool = self.pool.borrow_mut();
                if pool.clean() >= count {
                    let taken = (0..count).map(|_| {
                        previous = pool.take(previous);
                        previous.expect("there are enough")
                    });
                    return Ok(taken.collect());
                }
            }
            let _turn = self.refill_lock.lock().await;
            let clean = self.pool.borrow().clean();
            if clean < count {
                self.refill((count - clean).max(REFILL)).await?;
            }
        }
    }

    /// Makes up to `want` free chunks clean (invariants 5 and 6).
    async fn refill(&self, want: u32) -> Result<(), FilesError> {
        self.check()?;
        let l = &self.layout;
        if self.pool.borrow().free() < want && self.pool.borrow().pending() > 0 {
            self.flush().await?;
        }
        let mut left = want;
        let mut discarded = Vec::new();
        while left > 0 {
            let Some((first, count)) = self.pool.borrow_mut().take_free_run(left) else { break };
            left -= count;
            let count_blocks = u64::from(count) * u64::from(l.chunk_blocks);
            let unsure = self.unsure();
            let range = Blocks { start: l.chunk_at(first), count: count_blocks };
            let done = self.device.discard(range).await;
            unsure.all_well();
            discarded.push((first, count));
            if let Err(e) = done {
                self.put_back(&discarded);
                return Err(e.into());
            }
        }
        if discarded.is_empty() {
            return Err(FilesError::NoSpace("no chunk is free"));
        }
        if self.needs_barrier() {
            self.flush().await?;
        }
        let mut pool = self.pool.borrow_mut();
        discarded.iter().for_each(|&(first, count)| pool.cleaned(first, count));
        Ok(())
    }

    /// Discards all free chunks, which gives a thin device room; returns whether there were any.
    pub async fn give_back(&self) -> Result<bool, FilesError> {
        let _turn = self.refill_lock.lock().await;
        let all = {
            let pool = self.pool.borrow();
            pool.free() + pool.pending()
        };
        if all > 0 {
            self.refill(all).await?;
        }
        Ok(all > 0)
    }

    fn put_back(&self, runs: &[(u32, u32)]) {
        let mut pool = self.pool.borrow_mut();
        for &(first, count) in runs {
            let chunks: Vec<u32> = (first..first + count).collect();
            pool.release(&chunks, true);
        }
    }

    /// Frees chunks after the change that removed them was committed.
    pub fn release(&self, chunks: &[u32]) {
        let durable = !self.needs_barrier();
        self.pool.borrow_mut().release(chunks, durable);
    }

    pub fn take_scratch(&self) -> Vec<u8> {
        self.scratch.borrow_mut().pop().unwrap_or_default()
    }

    pub fn give_scratch(&self, bytes: Vec<u8>) {
        let mut scratch = self.scratch.borrow_mut();
        if scratch.len() < 8 && bytes.capacity() <= 1 << 20 {
            scratch.push(bytes);
        }
    }
}
