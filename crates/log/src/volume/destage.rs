//! Destaging: from memory to the backing, so that memory and log become free.
//!
//! 1. The backing gets what is durable in the log, each block once, ascending, blocks side by side
//!    in one write.
//! 2. The backing is flushed before its label says that it has these changes. The label is durable
//!    before the checkpoint passes them. A cut in between repeats the round, with the same or newer
//!    content.
//!    What the backing says that it does not hold is durable with that flush, too, so it is not
//!    discarded again.
//! 3. One round at a time. So no two writes of the backing overlap.
//! 4. It begins when memory or the log is half full, or a change waits for memory, or a change was
//!    in memory for a while.

use crate::Lsn;
use crate::planted::planted;
use crate::volume::core::Core;
use crate::volume::error::VolumeError;
use crate::volume::label::Label;
use crate::volume::map::{Content, Piece};
use std::cell::RefCell;
use tantalum_device::{Block, BlockDevice, Blocks, Data, Durability, IoError};
use tantalum_rt::{First, first, join_all};

/// Bytes of one write to the backing, at most.
const WRITE_BYTES: usize = 1 << 20;
/// A hole of the backing within what is discarded is left out if it is at least so long.
const HOLE_BYTES: u64 = 1 << 20;
/// Writes to the backing in flight, at most.
const DEPTH: usize = 8;
/// What of the log may be in use before changes are destaged.
const LOG_PERCENT: u64 = 50;

/// Pieces side by side that one command writes or discards.
type Run = Vec<Piece>;

/// Chosen pieces, as commands.
fn runs(pieces: Vec<Piece>, block: usize) -> Vec<Run> {
    let bytes = |p: &Piece| (p.blocks.end - p.blocks.start) as usize * block;
    let mut runs: Vec<Run> = Vec::new();
    let mut length = 0;
    for piece in pieces {
        let joins = runs.last().and_then(|run| run.last()).is_some_and(|last| {
            let zeros = |p: &Piece| p.content == Content::Zeros;
            let fits = zeros(&piece) || length + bytes(&piece) <= WRITE_BYTES;
            last.blocks.end == piece.blocks.start && zeros(last) == zeros(&piece) && fits
        });
        if !joins {
            runs.push(Vec::new());
            length = 0;
        }
        length += bytes(&piece);
        runs.last_mut().expect("there is a run").push(piece);
    }
    runs
}

impl<L: BlockDevice + Clone + 'static, B: BlockDevice> Core<L, B> {
    /// Destages whenever there is reason to.
    pub async fn keep_destaging(&self) {
        let has_durable = || self.memory.borrow().has_durable();
        loop {
            self.work.wait_while(|| !has_durable()).await;
            let pressed = || self.memory.borrow().is_half_full() || self.is_waited_for();
            let full = first(
                self.work.wait_while(|| !pressed() || !has_durable()),
                self.log.nearly_full(LOG_PERCENT),
            );
            let charge = match first(full, self.rt.sleep(self.options.linger)).await {
                First::A(_) => self.options.memory / 4,
                First::B(()) => u64::MAX,
            };
            if let Err(e) = self.destage(charge).await {
                return self.stop(e.to_string());
            }
        }
    }

    /// Destages the oldest changes, so that `charge` bytes of memory become free.
    pub async fn destage(&self, charge: u64) -> Result<(), VolumeError> {
        let Some(lsn) = self.memory.borrow().portion(charge) else { return Ok(()) };
        let pieces = self.memory.borrow().chosen(lsn);
        let runs = RefCell::new(runs(pieces, self.block()).into_iter());
        let lane = || async {
            loop {
                let Some(run) = runs.borrow_mut().next() else { return Ok(()) };
                self.write_run(run).await?;
            }
        };
        let written: Result<(), IoError> =
            join_all((0..DEPTH).map(|_| lane()).collect()).await.into_iter().collect();
        written.map_err(|e| self.backing_failed(e))?;
        if !self.backing.caps().ack.survives() && !planted!(DestagedWithoutFlush) {
            self.backing.flush().await.map_err(|e| self.backing_failed(e))?;
        }
        self.publish(lsn).await?;
        self.memory.borrow_mut().destaged(lsn);
        self.count(|s| s.rounds += 1);
        self.room.notify_all();
        Ok(())
    }

    async fn write_run(&self, run: Run) -> Result<(), IoError> {
        let (Some(head), Some(tail)) = (run.first(), run.last()) else { return Ok(()) };
        let (start, count) = (Block(head.blocks.start), tail.blocks.end - head.blocks.start);
        if head.content == Content::Zeros {
            return self.discard(Blocks { start, count }).await;
        }
        self.count(|s| s.writes += 1);
        let mut bytes = vec![0; count as usize * self.block()];
        let mut rest = &mut bytes[..];
        for piece in &run {
            let length = (piece.blocks.end - piece.blocks.start) as usize * self.block();
            let (here, behind) = rest.split_at_mut(length);
            piece.content.copy(here);
            rest = behind;
        }
        self.count(|s| s.written_bytes += bytes.len() as u64);
        self.backing.write(start, Data::Bytes(&bytes), Durability::Normal).await
    }

    /// Discards what holds data. Who makes a file system discards the whole volume, and a disk
    /// without trim writes zeros for that: to a new disk it would do so for minutes, and writes would
    /// wait for memory.
    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let mut rest = range;
        let mut data = Blocks { count: 0, ..range };
        while rest.count > 0 {
            let told = self.backing.allocation(rest).await?;
            let blocks = told.blocks.clamp(1, rest.count);
            rest = Blocks { start: Block(rest.start.0 + blocks), count: rest.count - blocks };
            let long = blocks == range.count || blocks * self.block() as u64 >= HOLE_BYTES;
            if told.hole && long {
                self.discard_data(data).await?;
                data = Blocks { count: 0, ..rest };
            } else {
                data.count += blocks;
            }
        }
        self.discard_data(data).await
    }

    async fn discard_data(&self, data: Blocks) -> Result<(), IoError> {
        if data.count == 0 {
            return Ok(());
        }
        self.count(|s| s.writes += 1);
        self.backing.discard(data).await
    }

    /// The backing has everything before `lsn`: its label says so, and then the log's checkpoint.
    pub async fn publish(&self, lsn: Lsn) -> Result<(), VolumeError> {
        let generation = self.log.checkpoint_number() + 1;
        let label = Label {
            log: self.identity,
            generation,
            destaged: lsn,
            block: self.caps.block_size,
            blocks: self.caps.blocks,
        };
        label.write(&self.backing).await.map_err(|e| self.backing_failed(e))?;
        Ok(self.log.checkpoint(lsn, generation).await?)
    }

    pub fn backing_failed(&self, error: IoError) -> VolumeError {
        match error {
            IoError::PowerLost => VolumeError::PowerLost,
            error => VolumeError::Backing { backing: self.options.backing_name.clone(), error },
        }
    }
}
