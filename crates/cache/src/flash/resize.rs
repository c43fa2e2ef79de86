//! Another number of batches, while the cache is used.
//!
//! The slots of the ring lie from `ring_at` on, one behind the other. Batch *b* is in slot
//! (*b* − *base*) modulo the batches of the ring. A resize gives the ring another number of slots and
//! another base; batches before the base stay where they are until they leave.
//!
//! 1. **More slots.** The base is the batch in the first slot. So every batch of this lap keeps its
//!    slot, and the new slots are written when the ring comes to them.
//! 2. **Fewer slots.** First every dirty page goes to the slow store, so that a page that is lost is
//!    told before anything is given up. Then the oldest batches leave, until the others fit. If the
//!    rear is in a slot that stays, the base is the batch in the first slot. Otherwise it is the next
//!    batch. The open batch has no part then: it is ended before. At last the batches from before
//!    the base leave, with second chances: then nothing counts behind the new end.
//! 3. **The change** is one superblock, between two writes: nothing is in flight, nothing enters, and
//!    nothing leaves meanwhile. It says where front and rear are. So a crash leaves the ring of before
//!    or the new one, and each batch that counts is found in either.
//! 4. No slot is written over while a read of a batch that was in it is under way.
//! 5. **Segments** stay before the ring if they fit there, and lie behind it otherwise. Where they
//!    were moved they are written anew. Until then a restart reads descriptors.

use crate::flash::core::Core;
use crate::flash::error::CacheError;
use crate::flash::format::{Layout, Older, Part};
use crate::flash::ghosts::ghosts_of;
use crate::flash::medium::Medium;
use crate::flash::ring::{Ring, leaving};
use crate::flash::slow::SlowStore;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{First, Nanos, first};

/// How long a batch that is not full waits while the front is waited for.
const TURN: Nanos = Nanos::from_millis(1);

/// The ring of a layout, of which so many bytes may be on their way to the slow store.
pub(crate) fn ring_of(layout: &Layout, bytes: u64, front: u64, rear: Part) -> Ring {
    let leaving = leaving(layout.frames, layout.page, bytes);
    let mut ring = Ring::new(layout.batches, leaving, front, rear);
    ring.resize(layout.batches, layout.growing(), front);
    ring
}

/// Batches from before the base that have left are not looked for any more.
pub(crate) fn forget_older<F: BlockDevice>(medium: &Medium<F>, front: u64) {
    let layout = medium.layout();
    if front >= layout.base {
        medium.set_layout(Layout { older: None, ..layout });
    }
}

/// Counts while it lives.
struct Gate<'a>(&'a Cell<u32>);

impl<'a> Gate<'a> {
    fn new(count: &'a Cell<u32>) -> Gate<'a> {
        count.set(count.get() + 1);
        Gate(count)
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// Resizes in a task, so that a change that has begun is not given up with the caller.
    pub async fn resize(self: &Rc<Self>, bytes: u64) -> Result<(), CacheError> {
        let core = self.clone();
        let work = async move { core.resize_whole(bytes).await };
        match self.domain.spawn("cache: resize", work).await {
            Ok(ended) => ended,
            Err(_) => Err(CacheError::Stopped("it was closed".to_string())),
        }
    }

    async fn resize_whole(self: &Rc<Self>, bytes: u64) -> Result<(), CacheError> {
        let _turn = self.resize_turn.lock().await;
        self.check_open()?;
        let (target, changed) = self.target(bytes)?;
        if self.medium.layout().older.is_some() {
            // An earlier change, which has not come round or was cut.
            self.drive_front(self.medium.layout().base).await?;
        }
        if changed {
            if target.batches < self.medium.layout().batches {
                self.clean_patiently().await?;
            }
            let done = self.change(&target, bytes).await;
            self.drops.set(false);
            self.notify();
            done?;
        }
        let now = self.medium.layout();
        if now.older.is_some_and(|older| older.batches > now.batches) {
            self.drive_front(now.base).await?;
        }
        self.finish(&target, bytes).await
    }

    /// How the device is divided then, and whether that changes the ring.
    fn target(&self, bytes: u64) -> Result<(Layout, bool), CacheError> {
        let (now, is) = (self.medium.layout(), self.medium.bytes());
        if bytes > is {
            let why = format!("{bytes} bytes: the flash device has {is}; use a larger one");
            return Err(CacheError::Invalid(why));
        }
        let Some(target) = now.resized(bytes) else {
            let least = now.least_bytes();
            let why = format!(
                "{bytes} bytes: the smallest cache of such batches takes {least}; give it as much"
            );
            return Err(CacheError::Invalid(why));
        };
        Ok((target, target.batches != now.batches))
    }

    /// Changes the ring (1, 2).
    async fn change(self: &Rc<Self>, target: &Layout, bytes: u64) -> Result<(), CacheError> {
        let _gate = Gate::new(&self.gates);
        let shrinks = target.batches < self.medium.layout().batches;
        loop {
            self.drain().await?;
            if shrinks && self.state.borrow().ring.open().number > 0 {
                // The open batch may get another slot.
                self.end_batch();
                continue;
            }
            let front = self.state.borrow().ring.front_for(target.batches);
            if shrinks && self.state.borrow().ring.front() < front {
                self.drops.set(true);
                self.drive_front(front).await?;
                continue;
            }
            let _front = self.front_turn.lock().await;
            let ready = {
                let state = self.state.borrow();
                let settled = state.ring.is_settled() && state.open.since.is_none();
                let stays = !shrinks || state.ring.open().number == 0;
                settled
                    && stays
                    && (!shrinks || state.ring.front() >= state.ring.front_for(target.batches))
            };
            if ready && self.switch(target, bytes).await? {
                return Ok(());
            }
        }
    }

    /// Waits until everything that has entered is durable.
    async fn drain(&self) -> Result<(), CacheError> {
        while let Some(part) = self.hurry() {
            self.wait_durable(part).await?;
        }
        self.checkpoint().await
    }

    /// One superblock changes the ring (3). Nothing is in flight, and the front stands. `false`: that is
    /// not so any more.
    async fn switch(&self, target: &Layout, bytes: u64) -> Result<bool, CacheError> {
        let _keeper = self.keeper_turn.lock().await;
        self.unread().await?;
        if !self.state.borrow().ring.is_settled() || self.state.borrow().open.since.is_some() {
            return Ok(false);
        }
        let now = self.medium.layout();
        let (front, rear) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.open())
        };
        let lap = rear.batch - (rear.batch - now.base) % u64::from(now.batches);
        let shrinks = target.batches < now.batches;
        let leaves = shrinks && rear.batch - lap > target.batches.into();
        let base = if leaves { rear.batch } else { lap };
        let older = Older { batches: now.batches, base: now.base };
        // Segments of a ring that shrinks move when nothing counts behind its end.
        let place = if shrinks { &now } else { target };
        let layout = Layout {
            batches: target.batches,
            base,
            older: (front < base).then_some(older),
            segments: place.segments,
            segments_at: place.segments_at,
            ..now
        };
        let bytes = bytes.max(if shrinks { self.heads.get().superblock.bytes } else { 0 });
        self.write_layout(layout, bytes, front, rear).await?;
        {
            let state = &mut *self.state.borrow_mut();
            state.ring.resize(layout.batches, layout.growing(), front);
            state.ring.vouch(rear.batch);
            state.ghosts = ghosts_of(&layout, &self.options, &state.ring, &state.index);
        }
        self.move_segments(&now).await?;
        Ok(true)
    }

    /// What a ring that has become smaller leaves behind does not count any more.
    async fn finish(&self, target: &Layout, bytes: u64) -> Result<(), CacheError> {
        let _keeper = self.keeper_turn.lock().await;
        self.unread().await?;
        let now = self.medium.layout();
        let (front, rear) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.durable())
        };
        let older = now.older.filter(|_| front < now.base);
        let (segments, segments_at) = (target.segments, target.segments_at);
        let layout = Layout { older, segments, segments_at, ..now };
        if (layout, bytes) == (now, self.heads.get().superblock.bytes) {
            return Ok(());
        }
        self.write_layout(layout, bytes, front, rear).await?;
        self.move_segments(&now).await
    }

    async fn write_layout(
        &self,
        layout: Layout,
        bytes: u64,
        front: u64,
        rear: Part,
    ) -> Result<(), CacheError> {
        let written = self
            .write_heads(|superblock, _| {
                (superblock.layout, superblock.bytes) = (layout, bytes);
                (superblock.front, superblock.rear) = (front, rear);
            })
            .await;
        if let Err(error) = written {
            // Either may be there.
            self.stop(format!("its size could not be written: {error}"));
            return Err(error);
        }
        self.medium.set_layout(layout);
        Ok(())
    }

    /// Writes the segments anew if they lie elsewhere than in `before` (5).
    async fn move_segments(&self, before: &Layout) -> Result<(), CacheError> {
        let layout = self.medium.layout();
        if (layout.segments_at, layout.segments) == (before.segments_at, before.segments) {
            return Ok(());
        }
        let (front, rear) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.durable())
        };
        for segment in layout.segment_of(front)..=layout.segment_of(rear.batch) {
            self.write_segment(segment, false).await.map_err(CacheError::Flash)?;
        }
        Ok(())
    }

    /// Waits until no batch that was released is read (4).
    async fn unread(&self) -> Result<(), CacheError> {
        let unread = || {
            let state = self.state.borrow();
            let front = state.ring.front();
            state.reads.keys().all(|batch| *batch >= front)
        };
        self.work.until(|| self.is_stopped() || unread()).await;
        self.check_running()
    }

    /// Lets batches leave until the front is there.
    async fn drive_front(&self, target: u64) -> Result<(), CacheError> {
        self.state.borrow_mut().ring.leave_to(target);
        self.work.notify_all();
        let there = || self.state.borrow().ring.front() >= target;
        loop {
            let waits = self.patiently(&self.work, there);
            match first(waits, self.rt.sleep(TURN)).await {
                First::A(ended) => {
                    self.state.borrow_mut().ring.leave_to(0);
                    return ended;
                }
                // Nothing leaves a cache that ends.
                First::B(()) if self.closing.get() => {
                    self.state.borrow_mut().ring.leave_to(0);
                    return Err(CacheError::Stopped("it is being closed".to_string()));
                }
                // What has entered from the front has to be durable.
                First::B(()) => drop(self.hurry()),
            }
        }
    }
}
