//! Passes over the ring: every frame is read and compared, or every dirty page is written to the
//! slow store, while the cache is used.
//!
//! 1. A pass looks at one batch at a time, between batches that leave. It holds the batch's slot.
//! 2. A damaged frame of a clean page is given up: the slow store has the page. A tombstone keeps
//!    restarts from finding it again, and is durable when the pass ends, unless the slow store refuses
//!    pages and leaves no room for it. (Room is waited for without the turn at the front, which may
//!    have to make it.) A damaged frame of a dirty page stays, and is told.
//! 3. A page is clean only when the slow store was flushed behind it.
//! 4. What is cleaned are the pages as they were when the pass began, also versions that have been
//!    superseded since: the newer one may be lost, and with write-through the flash device.

use crate::flash::core::Core;
use crate::flash::error::CacheError;
use crate::flash::format::{Frame, SegmentBatch, checksum};
use crate::flash::front::Leaving;
use crate::flash::index::Place;
use crate::flash::slow::SlowStore;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{First, first};

/// What a scrubber found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Frames that were compared.
    pub frames: u64,
    /// Damaged frames of clean pages, which were given up.
    pub repaired: u64,
    /// Dirty pages whose frames are damaged, ascending: their newest versions are lost.
    pub damaged: Vec<u64>,
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// What is durable of a batch.
    fn durable_content(&self, batch: u64) -> SegmentBatch {
        let state = self.state.borrow();
        let (content, durable) = (state.index.batch(batch), state.ring.durable());
        if batch == durable.batch { content.before(durable.number) } else { content.clone() }
    }

    /// The valid frames of a batch that are durable, and the bytes of all of those. `None`: there are
    /// none.
    async fn valid_bytes(
        &self,
        batch: u64,
    ) -> Result<Option<(Vec<(Place, Frame)>, Vec<u8>)>, CacheError> {
        if batch < self.state.borrow().ring.front() {
            return Ok(None);
        }
        let content = self.durable_content(batch);
        let mut valid = self.valid_frames(batch);
        valid.retain(|(at, _)| at.frame < content.frames.len());
        if valid.is_empty() {
            return Ok(None);
        }
        let _pinned = self.pin(batch);
        let bytes = self.medium.read_batch(batch, &content).await.map_err(CacheError::Flash)?;
        // What was superseded or released meanwhile means nothing.
        let state = self.state.borrow();
        valid.retain(|(at, frame)| state.index.find(frame.page).is_some_and(|(now, _)| now == *at));
        Ok(Some((valid, bytes)))
    }

    fn is_whole(&self, bytes: &[u8], at: Place, frame: &Frame) -> bool {
        let page = self.medium.page();
        checksum(&bytes[at.frame * page..][..page]) == frame.checksum
    }

    pub async fn scrub(&self) -> Result<Scrubbed, CacheError> {
        self.check_open()?;
        let mut found = Scrubbed::default();
        let (mut batch, end) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.durable().last_batch() + 1)
        };
        while batch < end {
            self.scrub_batch(batch, &mut found).await?;
            batch += 1;
        }
        found.damaged.sort_unstable();
        match self.settle_given_up().await {
            // What was found is told though the slow store refuses a page, so that there is no room.
            Ok(()) | Err(CacheError::Full { .. }) => Ok(found),
            Err(error) => Err(error),
        }
    }

    /// No restart finds what was given up when this returns.
    async fn settle_given_up(&self) -> Result<(), CacheError> {
        self.bury_given_up().await?;
        self.checkpoint().await
    }

    /// Compares the frames of a batch.
    async fn scrub_batch(&self, batch: u64, found: &mut Scrubbed) -> Result<(), CacheError> {
        let _turn = self.front_turn.lock().await;
        let Some((valid, bytes)) = self.valid_bytes(batch).await? else { return Ok(()) };
        for (at, frame) in valid {
            found.frames += 1;
            match (self.is_whole(&bytes, at, &frame), frame.dirty) {
                (true, _) => {}
                (false, true) => {
                    self.state.borrow_mut().damaged.insert(frame.page, at);
                    found.damaged.push(frame.page);
                }
                (false, false) => {
                    self.give_up(at, frame.page);
                    found.repaired += 1;
                }
            }
        }
        Ok(())
    }

    /// Every page that is dirty now is on the slow store, for good, when this returns: in this version,
    /// or in a newer one. While the slow store refuses a page, until `gives_up`.
    pub async fn clean_all(&self, gives_up: &impl Fn() -> bool) -> Result<(), CacheError> {
        let _turn = self.clean_turn.lock().await;
        while !self.clean_pass(gives_up).await? {}
        Ok(())
    }

    /// Cleans what is durable. `false`: some version was superseded and left before it could be read;
    /// the newer one is for the next pass.
    async fn clean_pass(&self, gives_up: &impl Fn() -> bool) -> Result<bool, CacheError> {
        self.checkpoint().await?;
        let (dirty, end) = {
            let state = self.state.borrow();
            let end = state.ring.durable();
            let first = state.ring.front().max(self.cleaned.get());
            (state.index.newest_dirty(first, end), end.batch)
        };
        let _chosen = self.pending.choose(dirty.iter().map(|(_, frame)| frame.page));
        let mut complete = true;
        for frames in dirty.chunk_by(|(a, _), (b, _)| a.batch == b.batch) {
            let _turn = self.front_turn.lock().await;
            complete &= self.clean_batch(frames, gives_up).await?;
        }
        // What becomes dirty later enters later batches.
        self.cleaned.set(self.cleaned.get().max(end));
        Ok(complete)
    }

    /// Cleans these frames of one batch, as far as it is still there.
    async fn clean_batch(
        &self,
        frames: &[(Place, Frame)],
        gives_up: &impl Fn() -> bool,
    ) -> Result<bool, CacheError> {
        let batch = frames[0].0.batch;
        let leaving: Vec<Leaving> = frames
            .iter()
            .map(|(place, f)| Leaving { page: f.page, place: *place, cleans: true })
            .collect();
        // A newer version has the turn: it is in a later batch, which the next pass sees.
        let lacks = |l: &Leaving| {
            let state = self.state.borrow();
            let placed = state.ring.placed();
            state.index.find(l.page).is_some_and(|(at, f)| {
                f.dirty && at != l.place && (at.batch < placed || batch < state.ring.front())
            })
        };
        if batch < self.state.borrow().ring.front() {
            return Ok(!leaving.iter().any(lacks));
        }
        let content = self.durable_content(batch);
        let bytes = {
            let _pinned = self.pin(batch);
            self.medium.read_batch(batch, &content).await.map_err(CacheError::Flash)?
        };
        let current = |at: Place, page| {
            let state = self.state.borrow();
            state.index.find(page).is_some_and(|(now, _)| now == at)
        };
        let damaged = frames.iter().filter(|(at, f)| !self.is_whole(&bytes, *at, f));
        let damaged: Vec<&(Place, Frame)> = damaged.collect();
        if let Some((at, f)) = damaged.iter().find(|(at, f)| current(*at, f.page)) {
            self.state.borrow_mut().damaged.insert(f.page, *at);
            return Err(CacheError::Damaged { page: f.page, lsn: f.lsn });
        }
        let whole = |l: &Leaving| damaged.iter().all(|(at, _)| *at != l.place);
        let leaving: Vec<Leaving> = leaving.into_iter().filter(whole).collect();
        let page = self.medium.page();
        let of = |place: Place| &bytes[place.frame * page..][..page];
        self.destage(leaving.clone(), of, gives_up).await?;
        let complete = damaged.is_empty() && !leaving.iter().any(lacks);
        for l in leaving {
            if current(l.place, l.page) {
                self.state.borrow_mut().index.set_clean(l.place);
            }
        }
        Ok(complete)
    }

    /// The same in a task, so that no write to the slow store is given up with the caller. While the
    /// store refuses a page, with so much patience from now on: what was refused in an earlier call is
    /// tried again. The task gives up then, too, between two writes.
    pub async fn clean_patiently(self: &Rc<Self>) -> Result<(), CacheError> {
        let now = self.rt.now();
        let is_taken = || self.state.borrow().refused.is_none();
        self.patiently_since(now, &self.durable, is_taken).await?;
        let (core, given_up) = (self.clone(), Rc::new(Cell::new(false)));
        let gives_up = given_up.clone();
        let cleaning = async move { core.clean_all(&|| gives_up.get()).await };
        let task = self.domain.spawn("cache: clean", cleaning);
        match first(task, self.patiently_since(now, &self.durable, || false)).await {
            First::A(Ok(ended)) => ended,
            First::A(Err(_)) => Err(CacheError::Stopped("it was closed".to_string())),
            First::B(ended) => {
                given_up.set(true);
                ended
            }
        }
    }
}
