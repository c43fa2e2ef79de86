//! When pages are written: batches of the page cleaners, single pages for readers that need a
//! frame, and checkpoints after both. The page store writes them ([`PageStore`]).
//!
//! 1. Before a page is written, the log is made durable up to its last change.
//! 2. For checkpoints a page counts as not written until the store says that it is durable.

use super::engine::{Engine, EngineError};
use super::pool::InstanceId;
use super::storage::{After, LogStore, PageStore, PageVersion};
use super::{FrameId, Lsn};
use std::rc::Rc;
use tantalum_rt::Nanos;

/// Above this share of the log cleaners also write the oldest changes.
const LOG_BUSY: f64 = 0.5;

/// Above this share they do so until it is below, and clients call them.
pub(super) const LOG_SCARCE: f64 = 0.75;

/// Above this share of dirty frames cleaners write the oldest changes
/// (`innodb_max_dirty_pages_pct`).
const DIRTY: f64 = 0.75;

/// A checkpoint is written when it moves by this share of the log.
const CHECKPOINT_STEP: f64 = 1.0 / 16.0;

impl<P: PageStore, L: LogStore> Engine<P, L> {
    /// Runs a page cleaner for ever. One of the cleaners writes the checkpoints.
    pub(super) async fn clean(self: &Rc<Self>, checkpoints: bool) -> Result<(), EngineError> {
        loop {
            let calls = self.calls.get();
            let instances = self.pool.borrow().instances();
            for instance in (0..instances).map(InstanceId) {
                self.clean_tail(instance).await?;
            }
            while let Some(old) = self.due() {
                self.flush_batch(old, After::Stays).await?;
                if checkpoints {
                    self.checkpoint_by_log().await?;
                }
                if self.log.fullness() < LOG_SCARCE {
                    break;
                }
            }
            if checkpoints {
                self.checkpoint_by_log().await?;
            }
            if self.calls.get() == calls {
                self.call.wait().await;
            }
        }
    }

    /// One pass over the tail of an instance's LRU list.
    async fn clean_tail(self: &Rc<Self>, of: InstanceId) -> Result<(), EngineError> {
        let depth = self.job.lru_depth as usize;
        let mut left = depth;
        while left > 0 {
            let most = left.min(self.job.batch_pages as usize);
            let (found, freed) = self.pool.borrow_mut().clean_tail(of, depth, depth, most);
            self.freed(of).notify_all();
            if found.is_empty() && freed.is_empty() {
                break;
            }
            left -= found.len() + freed.len();
            // (Before anything else: what was found is so only now.)
            let batch = (!found.is_empty()).then(|| self.begin_writes(&found));
            if !freed.is_empty() {
                self.pages.evict_clean(&freed).await?;
            }
            if let Some(batch) = batch {
                self.finish_batch(found, batch, After::Leaves).await?;
            }
        }
        Ok(())
    }

    /// The frames with the oldest changes, if it is time to write them.
    fn due(&self) -> Option<Vec<FrameId>> {
        let pool = self.pool.borrow();
        let dirty = pool.dirty_frames() as f64 / f64::from(self.job.frames());
        if self.log.fullness() < LOG_BUSY && dirty < DIRTY {
            return None;
        }
        let found = pool.oldest_dirty(self.job.batch_pages as usize);
        (!found.is_empty()).then_some(found)
    }

    /// Writes these frames. With [`After::Leaves`] they are free afterwards.
    pub(super) async fn flush_batch(
        self: &Rc<Self>,
        frames: Vec<FrameId>,
        after: After,
    ) -> Result<(), EngineError> {
        let batch = self.begin_writes(&frames);
        self.finish_batch(frames, batch, after).await
    }

    async fn finish_batch(
        self: &Rc<Self>,
        frames: Vec<FrameId>,
        (pages, number): (Vec<PageVersion>, u64),
        after: After,
    ) -> Result<(), EngineError> {
        let last = pages.iter().map(|p| p.lsn).max().unwrap_or_default();
        self.log.flush(last).await?;
        let this = self.clone();
        let landed = Rc::new(move |i: usize| this.end_write(frames[i], after));
        self.pages.write(&pages, after, landed).await?;
        self.unsynced.borrow_mut().remove(&number);
        let mut counts = self.counts.borrow_mut();
        counts.pages_cleaned += pages.len() as u64;
        counts.batches += 1;
        Ok(())
    }

    /// Writes one frame, which is free afterwards.
    pub(super) async fn flush_single(&self, frame: FrameId) -> Result<(), EngineError> {
        let (pages, number) = self.begin_writes(&[frame]);
        self.log.flush(pages[0].lsn).await?;
        // The frame is freed only at the end, since the caller wants it.
        self.pages.write_one(pages[0]).await?;
        self.unsynced.borrow_mut().remove(&number);
        self.end_write(frame, After::Leaves);
        self.counts.borrow_mut().single_flushes += 1;
        Ok(())
    }

    /// Marks frames as being written. For checkpoints they count as not written.
    fn begin_writes(&self, frames: &[FrameId]) -> (Vec<PageVersion>, u64) {
        let mut pool = self.pool.borrow_mut();
        let mut oldest = Lsn(u64::MAX);
        let mut writes = Vec::with_capacity(frames.len());
        for &frame in frames {
            let (page, lsn, since) = pool.begin_write(frame);
            oldest = oldest.min(since);
            writes.push(PageVersion { page, lsn });
        }
        let number = self.next_write.get();
        self.next_write.set(number + 1);
        self.unsynced.borrow_mut().insert(number, oldest);
        (writes, number)
    }

    pub(super) fn end_write(&self, frame: FrameId, after: After) {
        let mut pool = self.pool.borrow_mut();
        pool.end_write(frame, after == After::Leaves);
        self.state_queue(frame).notify_all();
        self.freed(pool.instance_of_frame(frame)).notify_one();
    }

    /// Writes checkpoints by time, for ever ([`EngineJob::checkpoint_s`](super::EngineJob)).
    pub(super) async fn keep_checkpoints(self: &Rc<Self>) -> Result<(), EngineError> {
        let span = Nanos((self.job.checkpoint_s * 1e9) as u64);
        loop {
            self.rt.sleep(span).await;
            self.write_all(self.journal.next()).await?;
            self.checkpoint(0.0).await?;
        }
    }

    /// Writes a checkpoint if it would move far enough; if they are written by time, only while the
    /// log is short of room.
    async fn checkpoint_by_log(&self) -> Result<(), EngineError> {
        if self.job.checkpoint_s > 0.0 && self.log.fullness() < LOG_BUSY {
            return Ok(());
        }
        self.checkpoint(CHECKPOINT_STEP).await
    }

    /// Writes a checkpoint if it would move by more than this share of the log.
    async fn checkpoint(&self, step: f64) -> Result<(), EngineError> {
        if self.redoing.get() {
            return Ok(());
        }
        let mut lsn = self.journal.next();
        let oldest = self.pool.borrow().oldest_change();
        let unsynced = self.unsynced.borrow().values().min().copied();
        for bound in [oldest, unsynced].into_iter().flatten() {
            lsn = lsn.min(bound);
        }
        let step = self.log.capacity() as f64 * step;
        if lsn.0 as f64 > self.log.checkpoint().0 as f64 + step {
            self.pages.checkpoint(lsn).await?;
            self.log.write_checkpoint(lsn).await?;
            self.checkpointed.set(self.rt.now());
        }
        Ok(())
    }
}
