//! The redo log: a ring of blocks on a volume, with group commit and checkpoints.
//!
//! 1. Records become durable in order: those before the first lost block survive a cut.
//! 2. One write of the log at a time. Clients that commit meanwhile wait, and the next write takes
//!    the records of all of them.
//! 3. The ring is never overrun: no record overwrites one that is after the checkpoint.
//! 4. A checkpoint moves only after the flush that makes it durable.
//! 5. A block of the log is a block of the device.
//!
//! Each block carries how far the log reaches in it. The content of records is kept beside the log,
//! in the [`Journal`], which outlives a power cut. A recovery may use a record there only if the
//! blocks of the log reach it.

use super::journal::Journal;
use super::storage::{LogCounts, LogStore};
use super::volume::{FileNo, Volume};
use super::window::{LogWindow, MAX_RECORD};
use super::{Change, Lsn};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use tantalum_device::{Block, BlockDevice, IoError};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt};

/// Blocks before the ring: two, which hold checkpoints in turn.
const HEAD_BLOCKS: u64 = 2;

/// Sizes of writes that are counted apart, in KiB; what is larger counts as the largest.
const SIZES: usize = 256;

/// Bytes that a recovery reads at a time.
const RUN_BYTES: u64 = 256 << 10;

/// The place of a log on its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// Its first block.
    pub first: Block,
    /// Its blocks, including the two for checkpoints.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

impl LogPlace {
    /// A log of `bytes`, or of as many as it cannot work without, in blocks of `block_bytes`.
    pub fn of(first: Block, bytes: u64, block_bytes: u32) -> LogPlace {
        let place = LogPlace { first, blocks: bytes / u64::from(block_bytes), block_bytes };
        let least = HEAD_BLOCKS + 2 * place.margin() / place.block();
        LogPlace { blocks: place.blocks.max(least), ..place }
    }

    /// Bytes of a block.
    fn block(&self) -> u64 {
        self.block_bytes.into()
    }

    fn ring(&self) -> u64 {
        self.blocks - HEAD_BLOCKS
    }

    /// Bytes of the ring that are kept free: the block that is being filled, and records for which
    /// clients had room but that they have not written yet.
    fn margin(&self) -> u64 {
        256 * self.block().max(MAX_RECORD.into())
    }

    /// The most bytes of records between checkpoint and end.
    pub fn capacity(&self) -> u64 {
        (self.ring() * self.block()).saturating_sub(self.margin())
    }

    fn at(&self, number: u64) -> Block {
        Block(self.first.0 + HEAD_BLOCKS + number % self.ring())
    }
}

/// A log that is being written.
pub struct Redo<D> {
    volume: Volume<D>,
    place: LogPlace,
    window: LogWindow,
    durable: Cell<Lsn>,
    checkpoints: Cell<u64>,
    writing: Cell<bool>,
    written: WaitQueue,
    writes: Cell<u64>,
    written_bytes: Cell<u64>,
    /// Writes by the KiB of their records, rounded up.
    sizes: RefCell<Vec<u64>>,
    /// How long the last recovery took to read the log.
    opening: Cell<Nanos>,
    rt: Rt,
}

impl<D: BlockDevice> Redo<D> {
    /// The log that goes on where the journal ends. Its checkpoint and end are there; see
    /// [`LogStore::begin`].
    pub fn new(rt: &Rt, volume: Volume<D>, place: LogPlace, journal: Journal) -> Redo<D> {
        let durable = Cell::new(journal.next());
        Redo {
            volume,
            place,
            window: LogWindow::new(rt, journal, place.capacity(), "room in the log"),
            durable,
            checkpoints: Cell::new(0),
            writing: Cell::new(false),
            written: WaitQueue::new(rt, "the log"),
            writes: Cell::new(0),
            written_bytes: Cell::new(0),
            sizes: RefCell::default(),
            opening: Cell::default(),
            rt: rt.clone(),
        }
    }

    /// Writes a checkpoint into both places: the log begins here.
    async fn begin_at(&self, at: Lsn) -> Result<(), IoError> {
        self.volume.write(FileNo::LOG, self.place.first, &[at.0; HEAD_BLOCKS as usize]).await?;
        self.volume.flush().await
    }

    fn count_size(&self, bytes: u64) {
        let mut sizes = self.sizes.borrow_mut();
        let place = (bytes.div_ceil(1024) as usize).clamp(1, SIZES) - 1;
        if sizes.len() <= place {
            sizes.resize(place + 1, 0);
        }
        sizes[place] += 1;
    }

    async fn write_blocks(&self, numbers: Range<u64>, end: u64) -> Result<(), IoError> {
        let block = self.place.block();
        let stamps: Vec<u64> = numbers.clone().map(|n| end.min((n + 1) * block)).collect();
        self.writes.set(self.writes.get() + 1);
        self.written_bytes.set(self.written_bytes.get() + stamps.len() as u64 * block);
        let mut done = 0;
        while done < stamps.len() {
            let number = numbers.start + done as u64;
            let before_wrap = self.place.ring() - number % self.place.ring();
            let count = (stamps.len() - done).min(before_wrap as usize);
            self.volume
                .write(FileNo::LOG, self.place.at(number), &stamps[done..done + count])
                .await?;
            done += count;
        }
        Ok(())
    }
}

impl<D: BlockDevice + 'static> LogStore for Redo<D> {
    fn window(&self) -> &LogWindow {
        &self.window
    }

    /// Writes the first checkpoint, into both places.
    async fn begin(&self) -> Result<(), IoError> {
        self.begin_at(self.checkpoint()).await
    }

    /// The record has at most 4,096 bytes, beside a page.
    fn append(&self, change: Change) -> (Lsn, Lsn) {
        self.window.append(change)
    }

    async fn flush(&self, lsn: Lsn) -> Result<(), IoError> {
        while self.durable.get() < lsn {
            if self.writing.get() {
                self.written.wait().await;
                continue;
            }
            self.writing.set(true);
            let _writing = Writing(self);
            let (from, end) = (self.durable.get().0, self.window.journal.next().0);
            let block = self.place.block();
            self.count_size(end - from);
            self.write_blocks(from / block..end.div_ceil(block), end).await?;
            self.volume.fsync(FileNo::LOG, false).await?;
            self.durable.set(Lsn(end));
        }
        Ok(())
    }

    fn durable(&self) -> Lsn {
        self.durable.get()
    }

    async fn put_checkpoint(&self, lsn: Lsn) -> Result<(), IoError> {
        let turn = self.checkpoints.get();
        self.checkpoints.set(turn + 1);
        let at = Block(self.place.first.0 + turn % HEAD_BLOCKS);
        self.volume.write(FileNo::LOG, at, &[lsn.0]).await?;
        self.volume.fsync(FileNo::LOG, false).await
    }

    async fn recover(&self) -> Result<(Lsn, Lsn), IoError> {
        let Redo { volume, place, .. } = self;
        let start = self.rt.now();
        let mut head = [0; HEAD_BLOCKS as usize];
        volume.read(place.first, &mut head).await?;
        let checkpoint = head.into_iter().max().unwrap_or(0);
        let mut end = checkpoint;
        let block = place.block();
        let mut room = vec![0; (RUN_BYTES / block).max(1) as usize];
        let first = checkpoint / block;
        let mut number = first;
        'log: while number < first + place.ring() {
            let count = (place.ring() - number % place.ring()).min(room.len() as u64) as usize;
            volume.read(place.at(number), &mut room[..count]).await?;
            for reach in room[..count].iter().copied() {
                let (begin, full) = (number * block, (number + 1) * block);
                if reach <= begin || reach > full {
                    break 'log; // Of an earlier round: the log does not reach here.
                }
                end = end.max(reach);
                if reach < full {
                    break 'log;
                }
                number += 1;
            }
        }
        self.opening.set(self.rt.now().saturating_sub(start));
        Ok((Lsn(checkpoint), Lsn(end)))
    }

    /// The log restarts at the beginning of a block.
    async fn restart(&self, lsn: Lsn) -> Result<Lsn, IoError> {
        let block = self.place.block();
        let next = Lsn((self.window.journal.next().max(lsn).0.div_ceil(block) + 1) * block);
        self.begin_at(next).await?;
        Ok(next)
    }

    fn counts(&self) -> LogCounts {
        LogCounts {
            writes: self.writes.get(),
            bytes: self.written_bytes.get(),
            sizes: self.sizes.borrow().clone(),
            opening: self.opening.get(),
            ..LogCounts::default()
        }
    }
}

/// The log is being written while this lives.
struct Writing<'a, D>(&'a Redo<D>);

impl<D> Drop for Writing<'_, D> {
    fn drop(&mut self) {
        self.0.writing.set(false);
        self.0.written.notify_all();
    }
}
