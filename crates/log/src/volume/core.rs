//! What commands and tasks of a running volume share, and the way of a change.
//!
//! 1. Changes enter the log in the order in which they were submitted: one at a time, while it
//!    waits for memory and for room in the log.
//! 2. A change is in memory in the poll in which it was appended. So nothing is in the log that
//!    memory does not know, also if the command was given up.
//! 3. A command ends well only when its changes are durable in the log, and have taken effect.
//! 4. Once the log or the destaging has failed, no change is taken. Reads go on.

use crate::Log;
use crate::superblock::Uuid;
use crate::volume::entry::Entry;
use crate::volume::map::Content;
use crate::volume::memory::Memory;
use crate::volume::options::VolumeOptions;
use crate::wait::Waiters;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use tantalum_device::{Allocation, Block, BlockDevice, Blocks, Caps, DataMut, IoError};
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Rt, join_all};

/// What a volume has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeStats {
    /// Changes that were appended to the log: writes, groups, discards.
    pub changes: u64,
    /// Bytes of these in the log.
    pub change_bytes: u64,
    /// Changes found in the log at the start.
    pub replayed: u64,
    /// Bytes of memory in use.
    pub memory: u64,
    /// Times that changes were destaged.
    pub rounds: u64,
    /// Writes to the backing, and discards there.
    pub writes: u64,
    /// Bytes written to the backing.
    pub written_bytes: u64,
}

pub(crate) struct Core<L: BlockDevice + Clone + 'static, B> {
    pub rt: Rt,
    pub log: Log<L>,
    pub identity: Uuid,
    pub backing: B,
    pub caps: Caps,
    pub options: VolumeOptions,
    pub memory: RefCell<Memory>,
    pub stats: Cell<VolumeStats>,
    turn: Mutex,
    /// How many wait for memory.
    waiting: Cell<u64>,
    /// There is more room in memory.
    pub room: Waiters,
    /// There are changes that are not known to be durable.
    pub appended: Waiters,
    /// There may be something to destage.
    pub work: Waiters,
    stopped: RefCell<Option<String>>,
}

impl<L: BlockDevice + Clone + 'static, B: BlockDevice> Core<L, B> {
    pub fn new(rt: &Rt, log: Log<L>, backing: B, caps: Caps, options: VolumeOptions) -> Core<L, B> {
        let memory = Memory::new(caps.block_size as usize, options.memory);
        Core {
            rt: rt.clone(),
            identity: log.identity(),
            log,
            backing,
            caps,
            options,
            memory: RefCell::new(memory),
            stats: Cell::default(),
            turn: Mutex::new(rt, "the turn to write to the volume"),
            waiting: Cell::new(0),
            room: Waiters::new(rt, "room in the memory of the volume"),
            appended: Waiters::new(rt, "changes of the volume"),
            work: Waiters::new(rt, "something to destage"),
            stopped: RefCell::new(None),
        }
    }

    pub fn block(&self) -> usize {
        self.caps.block_size as usize
    }

    /// Notes in the statistics.
    pub fn count(&self, note: impl FnOnce(&mut VolumeStats)) {
        let mut stats = self.stats.get();
        note(&mut stats);
        self.stats.set(stats);
    }

    pub fn stats(&self) -> VolumeStats {
        VolumeStats { memory: self.memory.borrow().used(), ..self.stats.get() }
    }

    pub fn stopped_by(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.borrow().is_some()
    }

    /// No change is taken any more (4).
    pub fn stop(&self, why: String) {
        self.stopped.borrow_mut().get_or_insert(why);
        self.room.notify_all();
        self.appended.notify_all();
        self.work.notify_all();
    }

    pub fn check_open(&self) -> Result<(), IoError> {
        if self.is_stopped() { Err(IoError::Poisoned) } else { Ok(()) }
    }

    /// Whether a change waits for memory.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Makes these changes, one behind the other. They are durable when this returns.
    pub async fn change(&self, entries: impl Iterator<Item = Entry>) -> Result<(), IoError> {
        let mut end = None;
        let turn = self.turn.lock().await;
        for entry in entries {
            self.wait_for_room(entry.charge()).await;
            self.check_open()?;
            let bytes = entry.bytes.len() as u64;
            let appended = self.log.append(&entry.bytes).await.map_err(|e| self.failed(e))?;
            self.memory.borrow_mut().append(appended.end, entry);
            self.count(|s| {
                s.changes += 1;
                s.change_bytes += bytes;
            });
            self.appended.notify_all();
            end = Some(appended.end);
        }
        drop(turn);
        let Some(end) = end else { return self.check_open() };
        self.log.wait_durable(end).await.map_err(|e| self.failed(e))?;
        self.settle();
        Ok(())
    }

    async fn wait_for_room(&self, charge: u64) {
        let fits = || self.memory.borrow().has_room(charge) || self.is_stopped();
        if fits() {
            return;
        }
        let _waits = Waits::begin(&self.waiting);
        self.work.notify_all();
        self.room.wait_while(|| !fits()).await;
    }

    /// The log has failed.
    fn failed(&self, error: crate::LogError) -> IoError {
        self.stop(error.to_string());
        IoError::Failed("the log of the volume failed")
    }

    /// What is durable takes effect.
    pub fn settle(&self) {
        if self.memory.borrow_mut().settle(self.log.durable()) {
            self.work.notify_all();
        }
    }

    /// Sees to it that every change becomes durable, also those whose commands were given up.
    pub async fn keep_settling(&self) {
        loop {
            let pending = || self.memory.borrow().pending();
            self.appended.wait_while(|| pending().is_none()).await;
            let Some(end) = pending() else { continue };
            if let Err(e) = self.log.wait_durable(end).await {
                return self.stop(e.to_string());
            }
            self.settle();
        }
    }

    /// Reads blocks.
    pub async fn read(&self, range: Range<u64>, buf: &mut [u8]) -> Result<(), IoError> {
        let (reader, gaps) = self.memory.borrow_mut().begin_read(range.clone());
        let reading = Reading { memory: &self.memory, reader };
        let mut reads = Vec::with_capacity(gaps.len());
        let (mut rest, mut next) = (&mut *buf, range.start);
        for gap in gaps {
            let skip = (gap.start - next) as usize * self.block();
            let (here, behind) =
                rest[skip..].split_at_mut((gap.end - gap.start) as usize * self.block());
            reads.push(self.backing.read(Block(gap.start), DataMut::Bytes(here)));
            (rest, next) = (behind, gap.end);
        }
        join_all(reads).await.into_iter().collect::<Result<(), IoError>>()?;
        reading.memory.borrow_mut().end_read(reading.reader, buf);
        Ok(())
    }

    /// Whether the first of these blocks hold data: what is in memory knows it, and the backing of the
    /// rest.
    pub async fn allocation(&self, range: Range<u64>) -> Result<Allocation, IoError> {
        let found = self.memory.borrow().within(range.clone()).next();
        let end = match found {
            Some(piece) if piece.blocks.start == range.start => {
                let hole = piece.content == Content::Zeros;
                return Ok(Allocation { blocks: piece.blocks.end - piece.blocks.start, hole });
            }
            Some(piece) => piece.blocks.start,
            None => range.end,
        };
        let rest = Blocks { start: Block(range.start), count: end - range.start };
        let told = self.backing.allocation(rest).await?;
        Ok(Allocation { blocks: told.blocks.clamp(1, rest.count), ..told })
    }
}

/// A change that waits.
struct Waits<'a>(&'a Cell<u64>);

impl Waits<'_> {
    fn begin(waiting: &Cell<u64>) -> Waits<'_> {
        waiting.set(waiting.get() + 1);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A read under way.
struct Reading<'a> {
    memory: &'a RefCell<Memory>,
    reader: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.memory.borrow_mut().forget_read(self.reader);
    }
}
