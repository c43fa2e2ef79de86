//! How pages get to the drive: batches of the page cleaners, single pages of readers in
//! need, and checkpoints behind both.
//!
//! 1. Before a page is written, the log is made durable up to its last change.
//! 2. With the double-write area: copies, a barrier, the pages, a barrier. Without: the
//!    pages, a barrier. With O_DSYNC each page has its own barrier, and no other.
//! 3. As atomic groups: as few as the drive's limit allows, side by side; a page is never split
//!    over two. No barrier: a group that completed is durable. (Neither is the file's time
//!    stamp committed: nothing about the pages hangs on it.)
//! 4. A page counts for checkpoints as not written until the barrier or the group returned.

use super::engine::{Engine, EngineError};
use super::job::pages_in;
use super::{FrameId, Lsn, PageNo, PageWrites, stamp};
use std::rc::Rc;
use tantalum_device::{AtomicError, BlockDevice, Data, Extent, IoError};

/// Above this share of the log cleaners write the oldest changes too.
const LOG_BUSY: f64 = 0.5;

/// Above this one they do it until it is below, and clients call them.
pub(super) const LOG_SCARCE: f64 = 0.75;

/// Above this share of frames with changes cleaners write the oldest ones
/// (`innodb_max_dirty_pages_pct`).
const DIRTY: f64 = 0.75;

/// A checkpoint is written when it moves by this share of the log.
const CHECKPOINT_STEP: f64 = 1.0 / 16.0;

/// A frame that is being written.
#[derive(Clone, Copy)]
struct Write {
    frame: FrameId,
    page: PageNo,
    lsn: Lsn,
}

impl<D: BlockDevice + 'static> Engine<D> {
    /// A page cleaner, for ever. One of them writes the checkpoints.
    pub(super) async fn clean(self: &Rc<Self>, checkpoints: bool) -> Result<(), EngineError> {
        loop {
            let calls = self.calls.get();
            self.clean_tail().await?;
            while let Some(old) = self.due() {
                self.flush_batch(old, false).await?;
                if checkpoints {
                    self.checkpoint().await?;
                }
                if self.redo.fullness() < LOG_SCARCE {
                    break;
                }
            }
            if checkpoints {
                self.checkpoint().await?;
            }
            if self.calls.get() == calls {
                self.call.wait().await;
            }
        }
    }

    /// One turn over the tail of the LRU list.
    async fn clean_tail(self: &Rc<Self>) -> Result<(), EngineError> {
        let depth = self.job.lru_depth as usize;
        let mut left = depth;
        while left > 0 {
            let most = left.min(self.job.batch_pages as usize);
            let (found, freed) = self.pool.borrow_mut().clean_tail(depth, depth, most);
            self.freed.notify_all();
            if found.is_empty() && freed == 0 {
                break;
            }
            left -= found.len() + freed;
            if found.is_empty() {
                continue;
            }
            self.flush_batch(found, true).await?;
        }
        Ok(())
    }

    /// The pages with the oldest changes, if it is time to write them.
    fn due(&self) -> Option<Vec<FrameId>> {
        let pool = self.pool.borrow();
        let dirty = pool.dirty_frames() as f64 / f64::from(self.job.frames());
        if self.redo.fullness() < LOG_BUSY && dirty < DIRTY {
            return None;
        }
        let found = pool.oldest_dirty(self.job.batch_pages as usize);
        (!found.is_empty()).then_some(found)
    }

    /// Writes these frames; with `evict` they are free then.
    async fn flush_batch(
        self: &Rc<Self>,
        frames: Vec<FrameId>,
        evict: bool,
    ) -> Result<(), EngineError> {
        let (writes, number) = self.begin_writes(&frames);
        let last = writes.iter().map(|w| w.lsn).max().unwrap_or_default();
        self.redo.make_durable(last).await?;
        if self.job.double_write == PageWrites::Atomic {
            self.put_groups(&writes, evict).await?;
        } else {
            self.put_batch(&writes, evict).await?;
        }
        self.unsynced.borrow_mut().remove(&number);
        let mut counts = self.counts.borrow_mut();
        counts.pages_cleaned += writes.len() as u64;
        counts.batches += 1;
        Ok(())
    }

    /// Writes a batch as atomic groups.
    async fn put_groups(self: &Rc<Self>, writes: &[Write], evict: bool) -> Result<(), EngineError> {
        let limit = self.data.caps().atomic_group.ok_or(AtomicError::Unsupported)?;
        let most = pages_in(limit, self.job.page_bytes).max(1);
        let tasks: Vec<_> = writes
            .chunks(most)
            .map(|part| {
                let (this, part) = (self.clone(), part.to_vec());
                let task = async move {
                    this.put_group(&part).await?;
                    part.iter().for_each(|w| this.end_write(*w, evict));
                    Ok(())
                };
                self.domain.spawn_background("a group of pages", task)
            })
            .collect();
        let mut result = Ok(());
        for task in tasks {
            // Cancelled only together with this one.
            result = result.and(task.await.unwrap_or(Ok(())));
        }
        result
    }

    /// Writes pages as one atomic group; they are durable then.
    async fn put_group(&self, writes: &[Write]) -> Result<(), EngineError> {
        let each = self.layout.page_blocks as usize;
        let stamps: Vec<u64> =
            writes.iter().flat_map(|w| std::iter::repeat_n(stamp(w.page, w.lsn), each)).collect();
        let extents: Vec<_> = writes
            .iter()
            .zip(stamps.chunks(each))
            .map(|(w, s)| Extent { at: self.layout.place(w.page), data: Data::Stamps(s) })
            .collect();
        self.data.write_atomic(&extents).await?;
        self.counts.borrow_mut().groups += 1;
        Ok(())
    }

    /// Writes a batch one page a command, over the double-write area if there is one.
    async fn put_batch(self: &Rc<Self>, writes: &[Write], evict: bool) -> Result<(), EngineError> {
        let pages: Vec<_> = writes.iter().map(|w| (w.page, w.lsn)).collect();
        let copies = match &self.area {
            Some(area) => Some(area.batch(&pages).await?),
            None => None,
        };
        let tasks: Vec<_> = writes
            .iter()
            .map(|w| {
                let (this, w) = (self.clone(), *w);
                let task = async move { this.write_page(w, evict).await };
                self.domain.spawn_background("a page's write", task)
            })
            .collect();
        let mut result = Ok(());
        for task in tasks {
            // Cancelled only together with this one.
            result = result.and(task.await.unwrap_or(Ok(())));
        }
        result?;
        if !self.job.o_dsync {
            self.data.fsync(false).await?;
        }
        drop(copies);
        Ok(())
    }

    /// Writes one frame, which is free then.
    pub(super) async fn flush_single(&self, frame: FrameId) -> Result<(), EngineError> {
        let (writes, number) = self.begin_writes(&[frame]);
        let w = writes[0];
        self.redo.make_durable(w.lsn).await?;
        // The frame is free only when all is done: who wrote it wants it.
        if self.job.double_write == PageWrites::Atomic {
            self.put_group(&writes).await?;
        } else {
            let copy = match &self.area {
                Some(area) => Some(area.single(w.page, w.lsn).await?),
                None => None,
            };
            self.put(w).await?;
            if !self.job.o_dsync {
                self.data.fsync(false).await?;
            }
            drop(copy);
        }
        self.unsynced.borrow_mut().remove(&number);
        self.end_write(w, true);
        self.counts.borrow_mut().single_flushes += 1;
        Ok(())
    }

    /// The frames are being written from now on, and count as not written for checkpoints.
    fn begin_writes(&self, frames: &[FrameId]) -> (Vec<Write>, u64) {
        let mut pool = self.pool.borrow_mut();
        let mut oldest = Lsn(u64::MAX);
        let mut writes = Vec::with_capacity(frames.len());
        for &frame in frames {
            let (page, lsn, since) = pool.begin_write(frame);
            oldest = oldest.min(since);
            writes.push(Write { frame, page, lsn });
        }
        let number = self.next_write.get();
        self.next_write.set(number + 1);
        self.unsynced.borrow_mut().insert(number, oldest);
        (writes, number)
    }

    async fn write_page(&self, w: Write, evict: bool) -> Result<(), IoError> {
        self.put(w).await?;
        self.end_write(w, evict);
        Ok(())
    }

    async fn put(&self, w: Write) -> Result<(), IoError> {
        let blocks = [stamp(w.page, w.lsn); 16];
        let blocks = &blocks[..self.layout.page_blocks as usize];
        self.data.write(self.layout.place(w.page), blocks).await?;
        if self.job.o_dsync { self.data.flush().await } else { Ok(()) }
    }

    fn end_write(&self, w: Write, evict: bool) {
        self.pool.borrow_mut().end_write(w.frame, evict);
        self.state_queue(w.frame).notify_all();
        self.freed.notify_one();
    }

    /// Writes a checkpoint if it would move far enough.
    async fn checkpoint(&self) -> Result<(), EngineError> {
        let mut lsn = self.journal.next();
        let oldest = self.pool.borrow().oldest_change();
        let unsynced = self.unsynced.borrow().values().min().copied();
        for bound in [oldest, unsynced].into_iter().flatten() {
            lsn = lsn.min(bound);
        }
        let step = self.layout.log.capacity() as f64 * CHECKPOINT_STEP;
        if lsn.0 as f64 > self.redo.checkpoint().0 as f64 + step {
            self.redo.write_checkpoint(lsn).await?;
        }
        Ok(())
    }
}
