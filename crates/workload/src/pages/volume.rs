//! A drive behind a host's file system and block layer, as a database sees it.
//!
//! 1. With barriers off no flush is ever sent. With barriers on, a returned flush was begun by the
//!    drive after it was requested.
//! 2. One flush at a time: requests that come while one runs share the next one (as in Linux).
//! 3. A flush that is asked for takes part in the next one that is queued for the drive. One that is
//!    queued already, and waits for commands in flight, is too late (as in Linux).
//! 4. An fsync is a flush, and a commit of the file system's journal if the file has grown, or if
//!    its time stamps have changed and no commit since has had them (see [`crate::jobs::Fsync`]).
//!    A commit has the changes of all files. It writes a block of the file system with them, and
//!    when that has returned one that commits them, with forced unit access if barriers are on.
//! 5. A block carries a stamp for either payload of the drive. On a drive of bytes the stamp fills
//!    the block. A block with different stamps is torn, and reads as empty.
//! 6. If flushes are not queued (in ATA, FLUSH CACHE cannot be outstanding together with queued
//!    commands), a flush waits for the commands in flight, and later commands wait for the flush.

use crate::jobs::file_block;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
    Payload,
};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, WaitQueue};

/// Blocks of the file system for its journal at the end of the drive. It is written as a ring.
const JOURNAL_BLOCKS: u64 = 1024;

/// The journal in blocks of the drive, each of so many bytes.
pub(super) fn journal_blocks(block: u32) -> u64 {
    JOURNAL_BLOCKS * file_block(block)
}

/// The behaviour of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Whether flushes and forced unit access are sent to the drive at all.
    pub barriers: bool,
    /// Whether flushes may run together with other commands; over ATA they may not.
    pub queued_flush: bool,
    /// Granularity of a file's time stamps in ms: the first write to a file in a tick changes
    /// them, and the file's next fsync commits the journal. 0: only a file that grows does.
    pub tick_ms: u64,
}

/// A file on a volume, as far as its time stamps go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNo(pub u32);

impl FileNo {
    /// The file of an engine that has only one; else the one with the double-write area.
    pub const SYSTEM: FileNo = FileNo(0);
    /// The log.
    pub const LOG: FileNo = FileNo(u32::MAX);
}

/// What the file system holds of a file in memory.
#[derive(Clone, Copy, Default)]
struct Inode {
    /// The tick of its time stamps.
    tick: u64,
    /// The transaction of the journal with its last change; 0 if it never changed.
    transaction: u64,
}

impl Host {
    /// Barriers and nothing else: to check what a cut has left.
    pub const PLAIN: Host = Host { barriers: true, queued_flush: true, tick_ms: 0 };
}

/// The host's access to a drive. Cheap to clone: a clone is the same access.
pub struct Volume<D> {
    shared: Rc<Shared<D>>,
}

impl<D> Clone for Volume<D> {
    fn clone(&self) -> Volume<D> {
        Volume { shared: self.shared.clone() }
    }
}

struct Shared<D> {
    rt: Rt,
    device: D,
    host: Host,
    /// Commands in flight.
    in_flight: Cell<u32>,
    /// A flush waits for these commands, or is in flight.
    flushing: Cell<bool>,
    /// The number of the last flush that was queued, and of the last one that completed; and how
    /// many did.
    begun: Cell<u64>,
    done: Cell<u64>,
    completed: Cell<u64>,
    changed: WaitQueue,
    idle: WaitQueue,
    inodes: RefCell<BTreeMap<FileNo, Inode>>,
    /// The journal: the transaction that takes changes, the last one that is committed, and the
    /// blocks written.
    running: Cell<u64>,
    committed: Cell<u64>,
    journal_writes: Cell<u64>,
    journal: Mutex,
}

impl<D: BlockDevice> Volume<D> {
    /// The access of `host` to `device`.
    pub fn new(rt: &Rt, device: D, host: Host) -> Volume<D> {
        let shared = Shared {
            rt: rt.clone(),
            device,
            host,
            in_flight: Cell::new(0),
            flushing: Cell::new(false),
            begun: Cell::new(0),
            done: Cell::new(0),
            completed: Cell::new(0),
            changed: WaitQueue::new(rt, "the end of a flush"),
            idle: WaitQueue::new(rt, "commands before a flush"),
            inodes: RefCell::default(),
            running: Cell::new(1),
            committed: Cell::new(0),
            journal_writes: Cell::new(0),
            journal: Mutex::new(rt, "a commit of the journal"),
        };
        Volume { shared: Rc::new(shared) }
    }

    /// The capabilities of the drive.
    pub fn caps(&self) -> &Caps {
        self.shared.device.caps()
    }

    /// Flushes that the drive has completed.
    pub fn flushes(&self) -> u64 {
        self.shared.completed.get()
    }

    /// Reads the stamps of the blocks from `at` on.
    ///
    /// # Errors
    /// The drive's error.
    pub async fn read(&self, at: Block, stamps: &mut [u64]) -> Result<(), IoError> {
        let _turn = self.turn().await;
        let Some(each) = self.block_bytes() else {
            return self.shared.device.read(at, DataMut::Stamps(stamps)).await;
        };
        let mut bytes = vec![0; stamps.len() * each];
        self.shared.device.read(at, DataMut::Bytes(&mut bytes)).await?;
        let blocks = bytes.chunks_exact(each);
        stamps.iter_mut().zip(blocks).for_each(|(stamp, block)| *stamp = stamp_in(block));
        Ok(())
    }

    /// Bytes of a block, if the drive carries bytes.
    fn block_bytes(&self) -> Option<usize> {
        let caps = self.caps();
        (caps.payload == Payload::Bytes).then_some(caps.block_size as usize)
    }

    /// Writes stamps in the drive's payload.
    async fn put(&self, at: Block, stamps: &[u64], want: Durability) -> Result<(), IoError> {
        let device = &self.shared.device;
        match self.block_bytes() {
            None => device.write(at, Data::Stamps(stamps), want).await,
            Some(each) => device.write(at, Data::Bytes(&filled(stamps, each)), want).await,
        }
    }

    /// Writes the stamps of the blocks from `at` on, which belong to this file, in one command.
    ///
    /// # Errors
    /// The drive's error.
    pub async fn write(&self, file: FileNo, at: Block, stamps: &[u64]) -> Result<(), IoError> {
        self.touch(file);
        let _turn = self.turn().await;
        self.put(at, stamps, Durability::Normal).await
    }

    /// Sets the file's time stamps, which are as fine as a tick.
    fn touch(&self, file: FileNo) {
        let s = &*self.shared;
        if s.host.tick_ms == 0 {
            return;
        }
        let tick = s.rt.now().0 / (s.host.tick_ms * 1_000_000) + 1;
        let mut inodes = s.inodes.borrow_mut();
        let inode = inodes.entry(file).or_default();
        if inode.tick != tick {
            *inode = Inode { tick, transaction: s.running.get() };
        }
    }

    /// Writes the stamps of all these extents or of none; see [`BlockDevice::write_atomic`]. They
    /// are durable when it returns, with barriers or without: the drive's promise for groups does
    /// not need them.
    ///
    /// # Errors
    /// The drive's error.
    pub async fn write_atomic(&self, group: &[(Block, &[u64])]) -> Result<(), AtomicError> {
        let _turn = self.turn().await;
        let device = &self.shared.device;
        let Some(each) = self.block_bytes() else {
            let extent = |&(at, stamps)| Extent { at, data: Data::Stamps(stamps) };
            return device.write_atomic(&group.iter().map(extent).collect::<Vec<_>>()).await;
        };
        let bytes: Vec<_> = group.iter().map(|(at, stamps)| (*at, filled(stamps, each))).collect();
        device
            .write_atomic(
                &bytes
                    .iter()
                    .map(|(at, bytes)| Extent { at: *at, data: Data::Bytes(bytes) })
                    .collect::<Vec<_>>(),
            )
            .await
    }

    /// Discards blocks: they read as zeros.
    ///
    /// # Errors
    /// The drive's error.
    pub async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let _turn = self.turn().await;
        self.shared.device.discard(range).await
    }

    /// A barrier: when it returns, earlier writes are durable, if barriers are on.
    ///
    /// # Errors
    /// The drive's error.
    pub async fn flush(&self) -> Result<(), IoError> {
        let s = &*self.shared;
        if !s.host.barriers {
            return Ok(());
        }
        let wanted = s.begun.get() + 1;
        while s.done.get() < wanted {
            if s.flushing.get() {
                s.changed.wait().await;
                continue;
            }
            s.flushing.set(true);
            let _running = Running(s);
            let this = s.begun.get() + 1;
            s.begun.set(this);
            if !s.host.queued_flush {
                s.idle.until(|| s.in_flight.get() == 0).await;
            }
            s.device.flush().await?;
            s.done.set(this);
            s.completed.set(s.completed.get() + 1);
        }
        Ok(())
    }

    /// An fsync of a file: [`Volume::flush`], and a commit of the journal if it has `grown`
    /// or its time stamps are in no commit yet.
    ///
    /// # Errors
    /// The drive's error.
    pub async fn fsync(&self, file: FileNo, grown: bool) -> Result<(), IoError> {
        let s = &*self.shared;
        let stamped = s.inodes.borrow().get(&file).map_or(0, |inode| inode.transaction);
        let wanted = if grown { s.running.get() } else { stamped };
        self.flush().await?;
        if wanted <= s.committed.get() {
            return Ok(());
        }
        // One commit at a time. It also covers those that waited for it.
        let _turn = s.journal.lock().await;
        if wanted <= s.committed.get() {
            return Ok(());
        }
        let this = s.running.replace(s.running.get() + 1);
        let commit = if s.host.barriers { Durability::Fua } else { Durability::Normal };
        self.write_journal(Durability::Normal).await?;
        self.write_journal(commit).await?;
        s.committed.set(this);
        Ok(())
    }

    /// Writes the next block of the file system's journal.
    async fn write_journal(&self, want: Durability) -> Result<(), IoError> {
        let s = &*self.shared;
        let n = s.journal_writes.replace(s.journal_writes.get() + 1);
        let (caps, each) = (self.caps(), file_block(self.caps().block_size));
        let first = caps.blocks.saturating_sub(journal_blocks(caps.block_size));
        let at = Block(first + n % JOURNAL_BLOCKS * each);
        let _command = self.turn().await;
        self.put(at, &vec![n + 1; each as usize], want).await
    }

    async fn turn(&self) -> Turn<'_, D> {
        let s = &*self.shared;
        if !s.host.queued_flush {
            s.changed.until(|| !s.flushing.get()).await;
        }
        s.in_flight.set(s.in_flight.get() + 1);
        Turn(s)
    }
}

/// Blocks of this many bytes, each filled with its stamp.
fn filled(stamps: &[u64], each: usize) -> Vec<u8> {
    let words = stamps.iter().flat_map(|stamp| std::iter::repeat_n(stamp.to_le_bytes(), each / 8));
    words.flatten().collect()
}

/// The stamp that fills a block; 0 if there is none.
fn stamp_in(block: &[u8]) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    match words {
        [first, rest @ ..] if rest.iter().all(|word| word == first) => u64::from_le_bytes(*first),
        _ => 0,
    }
}

/// A flush is in flight while this lives.
struct Running<'a, D>(&'a Shared<D>);

impl<D> Drop for Running<'_, D> {
    fn drop(&mut self) {
        self.0.flushing.set(false);
        self.0.changed.notify_all();
    }
}

/// A command is in flight while this lives.
struct Turn<'a, D>(&'a Shared<D>);

impl<D> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        let left = self.0.in_flight.get() - 1;
        self.0.in_flight.set(left);
        if left == 0 {
            self.0.idle.notify_all();
        }
    }
}
