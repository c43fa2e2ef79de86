//! Segments, superblock and label of a running cache, and its end.
//!
//! 1. A segment is written when all of its batches are durable.
//! 2. **Marks.** With each new segment one older one is written anew, in turns, so that a restart
//!    finds reference marks that are at most one lap old. Torn, it costs the restart its
//!    descriptors.
//! 3. **The clean mark** is written when the segments have the whole directory, every batch is
//!    durable, and nothing is under way. It is gone, durably, before a cache that was opened writes
//!    anything else.
//! 4. **Idle.** Nothing vouches for the newest batches: a restart takes a flipped bit in them for a
//!    write that a cut has torn. So when nothing has entered for a while, and all is durable, the
//!    superblock says so, once for each such time. The label need not change. With write-through
//!    that is not needed: what a batch is said to lack is on the slow store.
//! 5. **A lap.** The superblock says the same, in either mode, when three quarters of a ring have
//!    been written since anything has said so: a restart looks for the rear from there on. That is
//!    so if segments are written slowly, or cover more than a ring that has become smaller.
//! 6. Whoever writes superblock and label while the cache is used has the turn to write segments.

use crate::flash::core::{Core, Heads};
use crate::flash::error::CacheError;
use crate::flash::format::{
    Label, LabelState, Mode, Part, Segment, SegmentBatch, Superblock, write_order,
};
use crate::flash::open;
use crate::flash::slow::{LABEL_BYTES, SlowStore};
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::sync::Permit;
use tantalum_rt::{First, first};

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// Writes segments as they become complete.
    pub async fn keep_segments(&self) {
        let layout = self.medium.layout();
        let mut next = layout.segment_of(self.state.borrow().ring.open().batch);
        let mut refreshed = 0;
        loop {
            let complete =
                || self.state.borrow().ring.durable().batch >= layout.batches_of(next).end;
            self.work.until(|| self.is_stopped() || self.closing.get() || complete()).await;
            if self.is_stopped() || self.closing.get() {
                return;
            }
            let _turn = self.keeper_turn.lock().await;
            let oldest = layout.segment_of(self.state.borrow().ring.front()) + 1;
            refreshed = if refreshed + 1 < next { oldest.max(refreshed + 1) } else { oldest };
            let old = Some(refreshed).filter(|old| *old < next);
            for segment in [Some(next), old].into_iter().flatten() {
                match self.write_segment(segment, false).await {
                    // What a segment knows counts when the next one is there: its own may be damaged.
                    Ok(true) if segment == next => {
                        self.state.borrow_mut().ring.vouch(layout.batches_of(next).start);
                        self.work.notify_all();
                    }
                    Ok(_) => {}
                    Err(error) => {
                        return self.stop(format!("a write of the flash device failed: {error}"));
                    }
                }
            }
            next += 1;
        }
    }

    /// Writes the durable batches of a segment; `all`: also the parts of the open one, in which nothing
    /// else is.
    ///
    /// Returns whether there are any.
    pub async fn write_segment(&self, number: u64, all: bool) -> Result<bool, IoError> {
        let segment = {
            let state = self.state.borrow();
            let batches = self.medium.layout().batches_of(number);
            let first = batches.start.max(state.ring.front());
            let durable = state.ring.durable();
            let goes_on = all && durable.number > 0 && batches.contains(&durable.batch);
            let end = batches.end.min(durable.batch);
            let mut batches: Vec<SegmentBatch> =
                (first..end).map(|b| state.index.batch(b).clone()).collect();
            if goes_on {
                batches.push(state.index.batch(durable.batch).before(durable.number));
            }
            let epoch = self.heads.get().superblock.epoch;
            Segment { number, epoch, first, front: state.ring.front(), batches, goes_on }
        };
        if segment.batches.is_empty() {
            return Ok(false);
        }
        self.medium.write_segment(&segment).await?;
        self.count(|s| {
            s.segments += 1;
            s.flash_bytes += segment.encode(self.medium.tag).len() as u64;
        });
        Ok(true)
    }

    /// Vouches for the newest batches whenever the cache is idle, and once in a lap (4, 5).
    pub async fn keep_vouching(&self) {
        let lags = || self.state.borrow().ring.wants_vouching();
        let idle = || self.unvouched().filter(|_| !self.closing.get());
        loop {
            self.work.until(|| self.is_stopped() || lags() || idle().is_some()).await;
            let rear = idle();
            if self.is_stopped() {
                return;
            }
            if !lags() {
                let changed = self.work.until(|| self.is_stopped() || lags() || idle() != rear);
                if let First::A(()) = first(changed, self.rt.sleep(self.options.idle)).await {
                    continue;
                }
            }
            if let Err(error) = self.vouch(|| lags() || idle().is_some()).await {
                return self.stop(format!("the superblocks of the flash device fail: {error}"));
            }
        }
    }

    /// The rear of the ring if everything is durable, and the superblock does not say so.
    fn unvouched(&self) -> Option<Part> {
        if self.mode == Mode::Through {
            return None;
        }
        let state = self.state.borrow();
        let (rear, rests) = (state.ring.durable(), state.open.since.is_none());
        let news = rear > self.heads.get().superblock.rear;
        (rests && news && state.ring.is_settled()).then_some(rear)
    }

    async fn vouch(&self, is_due: impl Fn() -> bool) -> Result<(), IoError> {
        let _turn = self.keeper_turn.lock().await;
        if self.is_stopped() || !is_due() {
            return Ok(());
        }
        let mut heads: Heads = self.heads.get();
        heads.superblock.generation += 1;
        let rear = {
            let state = self.state.borrow();
            heads.superblock.front = state.ring.front();
            state.ring.durable()
        };
        heads.superblock.rear = rear;
        self.medium.write_superblock(&heads.superblock).await?;
        self.heads.set(heads);
        let state = &mut *self.state.borrow_mut();
        state.ring.vouch(rear.batch);
        state.stats.flash_bytes += self.medium.superblock_bytes();
        self.work.notify_all();
        Ok(())
    }

    /// Writes superblock and label, in this order, with new generations.
    pub async fn write_heads(
        &self,
        change: impl FnOnce(&mut Superblock, Option<&mut Label>),
    ) -> Result<(), CacheError> {
        let mut heads: Heads = self.heads.get();
        heads.superblock.generation += 1;
        if let Some(label) = &mut heads.label {
            label.generation += 1;
        }
        change(&mut heads.superblock, heads.label.as_mut());
        self.medium.write_superblock(&heads.superblock).await.map_err(CacheError::Flash)?;
        if let Some(label) = heads.label {
            write_label(&self.slow, &label).await.map_err(CacheError::Slow)?;
        }
        self.heads.set(heads);
        Ok(())
    }

    /// The superblock says that the label has its epoch: one that has not is that of an older copy.
    pub async fn tell_labelled(&self) -> Result<(), IoError> {
        let mut heads: Heads = self.heads.get();
        if heads.label.is_some() {
            heads.superblock.generation += 1;
            heads.superblock.labelled = true;
            self.medium.write_superblock(&heads.superblock).await?;
            self.heads.set(heads);
        }
        Ok(())
    }

    /// Brings the label to the epoch of the superblock: a start was cut between the two, and has written
    /// nothing else.
    pub async fn catch_up(&self) -> Result<(), IoError> {
        let mut heads: Heads = self.heads.get();
        let epoch = heads.superblock.epoch;
        let Some(label) = heads.label.as_mut().filter(|label| label.epoch < epoch) else {
            return Ok(());
        };
        label.generation += 1;
        label.epoch = epoch;
        write_label(&self.slow, label).await?;
        self.heads.set(heads);
        Ok(())
    }

    /// Everything that entered is durable when this returns.
    pub async fn checkpoint(&self) -> Result<(), CacheError> {
        let end = match self.hurry() {
            Some(part) => part.next(),
            None => self.state.borrow().ring.open(),
        };
        self.wait_durable_to(end).await
    }

    /// Takes no more changes from now on. What is being resized, or waits for the slow store, gives up
    /// (`refuse`, `drive_front`).
    async fn begin_to_end(&self) -> Result<Permit<'_>, CacheError> {
        self.check_open()?;
        self.closing.set(true);
        self.notify();
        let turn = self.resize_turn.lock().await;
        self.check_running()?;
        Ok(turn)
    }

    /// Waits until no call is about to end the cache.
    #[cfg(feature = "blocking")]
    pub async fn until_ended(&self) {
        drop(self.resize_turn.lock().await);
    }

    /// Waits until everything that entered is durable.
    async fn quiesce(&self) -> Result<(), CacheError> {
        while let Some(part) = self.hurry() {
            self.wait_durable(part).await?;
        }
        self.checkpoint().await
    }

    /// Ends the cache, with the clean mark.
    pub async fn close(&self) -> Result<(), CacheError> {
        let _turn = self.begin_to_end().await?;
        self.quiesce().await?;
        self.end().await
    }

    /// Ends the cache for ever: the slow store has every page.
    pub async fn detach(self: &Rc<Self>) -> Result<(), CacheError> {
        let _turn = self.begin_to_end().await?;
        self.quiesce().await?;
        // Nothing tries a page again that was refused before: what is refused now ends this call.
        self.state.borrow_mut().refused = None;
        // A batch that was leaving may have given dirty pages a second chance behind what was cleaned.
        // None does any more.
        self.drops.set(true);
        self.clean_all(&|| false).await?;
        while self.state.borrow().index.counts().1 > 0 {
            self.clean_all(&|| false).await?;
        }
        self.end().await?;
        open::leave_alone(&self.slow).await.map_err(|e| CacheError::Invalid(e.to_string()))
    }

    /// Takes the turn at the front when nothing is under way. What left before may have given second
    /// chances: their batches are durable first. Otherwise they would be written while the cache
    /// ends, and the batches behind them over slots that the clean mark counts.
    async fn rest(&self) -> Result<Permit<'_>, CacheError> {
        loop {
            let front = self.front_turn.lock().await;
            let left = || self.is_stopped() || self.state.borrow().ring.destaging() == 0;
            self.written.until(left).await;
            self.check_running()?;
            let is_durable = {
                let state = self.state.borrow();
                state.open.since.is_none() && state.ring.is_settled()
            };
            if is_durable {
                return Ok(front);
            }
            drop(front);
            self.checkpoint().await?;
        }
    }

    async fn end(&self) -> Result<(), CacheError> {
        let _front = self.rest().await?;
        let _keeper = self.keeper_turn.lock().await;
        self.release();
        let (front, rear, dirty) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.durable(), state.index.counts().1)
        };
        let layout = self.medium.layout();
        for segment in layout.segment_of(front)..=layout.segment_of(rear.batch) {
            self.write_segment(segment, true).await.map_err(CacheError::Flash)?;
        }
        self.write_heads(|superblock, label| {
            (superblock.clean, superblock.front, superblock.rear) = (true, front, rear);
            if let Some(label) = label {
                label.state = if dirty == 0 { LabelState::Clean } else { LabelState::InUse };
            }
        })
        .await?;
        // A write to the slow store for which nobody waits any more must not come after the end.
        self.written.until(|| self.state.borrow().writing.is_empty()).await;
        self.stop("it was closed".to_string());
        self.domain.kill();
        Ok(())
    }
}

/// Writes both copies of a label, one after the other, the newest whole one last.
pub(crate) async fn write_label<S: SlowStore>(slow: &S, label: &Label) -> Result<(), IoError> {
    let mut labels = vec![0; LABEL_BYTES];
    slow.read_label(&mut labels).await?;
    for at in write_order(&labels, Label::decode, |l| l.generation) {
        slow.write_label(at, &label.encode()).await?;
    }
    Ok(())
}
