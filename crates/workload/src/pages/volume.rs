//! A drive as a host's file system and block layer give it to a database.
//!
//! 1. With barriers off no flush is ever sent. With barriers on, a flush that returns
//!    was begun by the drive after it was asked for.
//! 2. One flush at a time: requests that come while one runs share the next one (as in Linux).
//! 3. An fsync is a flush, and a commit of the file system's journal if the file has grown
//!    or its time stamps have changed (see [`crate::jobs::Fsync`]): a block, with forced unit
//!    access if barriers are on.
//! 4. A block carries a stamp, whatever the drive's payload: of a drive that carries bytes the
//!    stamp fills the block. A block of different stamps is torn, and reads as none.
//! 5. If flushes are not queued (the rule of ATA: FLUSH CACHE cannot be outstanding
//!    together with queued commands), a flush waits for the commands in flight,
//!    and commands that come after it wait for it.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
    Payload,
};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, WaitQueue};

/// Blocks at the end of the drive in which the journal lies, written round and round.
pub(super) const JOURNAL_BLOCKS: u64 = 1024;

/// What the host does on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Whether flushes and forced unit access are sent to the drive at all.
    pub barriers: bool,
    /// Whether flushes go beside other commands; over ATA they do not.
    pub queued_flush: bool,
    /// Granularity of a file's time stamps, ms: an fsync in another tick than the last one
    /// commits the journal. 0: only files that grow do.
    pub tick_ms: u64,
}

impl Host {
    /// Barriers, and nothing else: to examine what a cut has left.
    pub const PLAIN: Host = Host { barriers: true, queued_flush: true, tick_ms: 0 };
}

/// The host's way to a drive. Cheap to clone: a clone is the same way.
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
    /// Reads and writes on their way.
    in_flight: Cell<u32>,
    /// A flush waits for those, or is on its way.
    flushing: Cell<bool>,
    begun: Cell<u64>,
    done: Cell<u64>,
    changed: WaitQueue,
    idle: WaitQueue,
    /// The tick of the last commit of the journal; commits so far.
    tick: Cell<u64>,
    commits: Cell<u64>,
    journal: Mutex,
}

impl<D: BlockDevice> Volume<D> {
    /// The way of `host` to `device`.
    pub fn new(rt: &Rt, device: D, host: Host) -> Volume<D> {
        let shared = Shared {
            rt: rt.clone(),
            device,
            host,
            in_flight: Cell::new(0),
            flushing: Cell::new(false),
            begun: Cell::new(0),
            done: Cell::new(0),
            changed: WaitQueue::new(rt, "the end of a flush"),
            idle: WaitQueue::new(rt, "commands before a flush"),
            tick: Cell::new(0),
            commits: Cell::new(0),
            journal: Mutex::new(rt, "a commit of the journal"),
        };
        Volume { shared: Rc::new(shared) }
    }

    /// What the drive promises.
    pub fn caps(&self) -> &Caps {
        self.shared.device.caps()
    }

    /// Flushes that the drive has completed.
    pub fn flushes(&self) -> u64 {
        self.shared.done.get()
    }

    /// Reads the stamps of the blocks from `at` on.
    ///
    /// # Errors
    /// The drive's.
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

    /// Bytes in a block, of a drive that carries them.
    fn block_bytes(&self) -> Option<usize> {
        let caps = self.caps();
        (caps.payload == Payload::Bytes).then_some(caps.block_size as usize)
    }

    /// Writes stamps, as the drive carries them.
    async fn put(&self, at: Block, stamps: &[u64], want: Durability) -> Result<(), IoError> {
        let device = &self.shared.device;
        match self.block_bytes() {
            None => device.write(at, Data::Stamps(stamps), want).await,
            Some(each) => device.write(at, Data::Bytes(&filled(stamps, each)), want).await,
        }
    }

    /// Writes the stamps of the blocks from `at` on, in one command.
    ///
    /// # Errors
    /// The drive's.
    pub async fn write(&self, at: Block, stamps: &[u64]) -> Result<(), IoError> {
        let _turn = self.turn().await;
        self.put(at, stamps, Durability::Normal).await
    }

    /// Writes the stamps of all these extents, or of none; see [`BlockDevice::write_atomic`]. They
    /// are durable when it returns, with barriers or without: the drive's promise of a group does
    /// not need them.
    ///
    /// # Errors
    /// The drive's.
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

    /// Gives blocks back: they read as zeros.
    ///
    /// # Errors
    /// The drive's.
    pub async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let _turn = self.turn().await;
        self.shared.device.discard(range).await
    }

    /// A barrier: what was written before is durable when it returns, if barriers are on.
    ///
    /// # Errors
    /// The drive's.
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
            if !s.host.queued_flush {
                s.idle.until(|| s.in_flight.get() == 0).await;
            }
            let this = s.begun.get() + 1;
            s.begun.set(this);
            s.device.flush().await?;
            s.done.set(this);
        }
        Ok(())
    }

    /// An fsync of a file: [`Volume::flush`], and a commit of the journal if it has `grown`
    /// or its time stamps have changed.
    ///
    /// # Errors
    /// The drive's.
    pub async fn fsync(&self, grown: bool) -> Result<(), IoError> {
        let s = &*self.shared;
        self.flush().await?;
        let tick = |s: &Shared<D>| s.rt.now().0 / (s.host.tick_ms.max(1) * 1_000_000);
        let stale = || s.host.tick_ms > 0 && s.tick.get() != tick(s);
        if !grown && !stale() {
            return Ok(());
        }
        // One commit at a time; it speaks for all that waited for it.
        let _turn = s.journal.lock().await;
        if !grown && !stale() {
            return Ok(());
        }
        s.tick.set(tick(s));
        let n = s.commits.replace(s.commits.get() + 1);
        let at = Block(self.caps().blocks.saturating_sub(JOURNAL_BLOCKS) + n % JOURNAL_BLOCKS);
        let want = if s.host.barriers { Durability::Fua } else { Durability::Normal };
        let _command = self.turn().await;
        self.put(at, &[n + 1], want).await
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

/// Blocks of so many bytes, each filled with its stamp.
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

/// While it lives, a flush is on its way.
struct Running<'a, D>(&'a Shared<D>);

impl<D> Drop for Running<'_, D> {
    fn drop(&mut self) {
        self.0.flushing.set(false);
        self.0.changed.notify_all();
    }
}

/// While it lives, a read or write is on its way.
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
