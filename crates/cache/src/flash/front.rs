//! Pages leave flash: the batch at the front gives second chances, and its dirty pages to the slow
//! store.
//!
//! 1. Of a batch the frames are read that are needed, neighbours in one read.
//! 2. **Second chance.** A page that was fetched since it entered enters the open batch once more,
//!    its mark cleared, if it is still valid in the poll in which it enters. So it never overtakes a
//!    newer version. If all pages of a batch were fetched, the first one leaves all the same. With
//!    write-through a dirty page gets none: what a restart has found dirty is in batches from before
//!    it until it is clean.
//! 3. **Slow store.** A dirty page that has no second chance is written there, and the store is
//!    flushed, before its batch is released. A version that was superseded meanwhile is written,
//!    unless the newer one is durable, or the page was forgotten meanwhile, or the store has got a
//!    newer version (`pending.rs`).
//! 4. A page that the slow store refuses stays. It is tried again, alone, until the store takes it.
//! 5. While pages of a batch go to the slow store the next batches leave, and share the flushes.
//! 6. A damaged frame of a dirty page enters once more, marked as damaged: what is lost stays known.
//!    Where it cannot enter (`ring.rs`, 5) the cache stops.

use crate::flash::core::{Core, Held, Refused};
use crate::flash::error::CacheError;
use crate::flash::format::{Frame, Mode, Part, checksum};
use crate::flash::index::Place;
use crate::flash::options::Replacement;
use crate::flash::slow::SlowStore;
use crate::planted::planted;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::{Nanos, join_all};

/// Pages of one write to the slow store, at most.
const RUN: usize = 64;

/// A page on its way to the slow store: its place, and its bytes in those of the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub page: u64,
    pub place: Place,
    /// For a pass that cleans: a newer version may be durable, and is not on its way.
    pub cleans: bool,
}

/// Whether the page of the second lies right behind that of the first.
fn is_followed(first: &Leaving, second: &Leaving) -> bool {
    first.page.checked_add(1) == Some(second.page)
}

/// What becomes of a batch.
#[derive(Default)]
struct Verdict {
    again: Vec<(Place, Frame)>,
    slow: Vec<Leaving>,
    /// Some versions are superseded.
    superseded: bool,
    /// A damaged page that has nowhere to go.
    lost: Option<Frame>,
}

/// The bytes of the frames of a batch that were read.
pub(crate) struct Frames {
    page: usize,
    bytes: Vec<u8>,
    /// The first frame here.
    first: usize,
}

impl Frames {
    fn of(&self, place: Place) -> &[u8] {
        &self.bytes[(place.frame - self.first) * self.page..][..self.page]
    }
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// Lets batches leave when room is needed.
    pub async fn keep_leaving(self: &Rc<Self>) {
        loop {
            self.work.until(|| self.is_stopped() || self.due_to_leave().is_some()).await;
            if self.is_stopped() {
                return;
            }
            let _turn = self.front_turn.lock().await;
            let Some(batch) = self.due_to_leave() else { continue };
            match self.leave(batch).await {
                Ok(()) => {}
                Err(CacheError::Stopped(_)) => return,
                Err(e) => return self.stop(e.to_string()),
            }
        }
    }

    /// The batch that should leave now. While the cache is closed, only for what has entered.
    fn due_to_leave(&self) -> Option<u64> {
        let state = self.state.borrow();
        let needless = self.closing.get() && state.open.since.is_none();
        state.ring.must_leave().filter(|_| !needless)
    }

    async fn leave(self: &Rc<Self>, batch: u64) -> Result<(), CacheError> {
        let valid = self.valid_frames(batch);
        let needed: Vec<Place> =
            valid.iter().map(|v| v.0).filter(|place| self.is_needed(*place)).collect();
        let data = self.read_needed(&needed).await.map_err(CacheError::Flash)?;
        let verdict = self.judge(batch, &valid, &needed, &data);
        let chosen = self.pending.choose(verdict.slow.iter().map(|l| l.page));
        if let Some(Frame { page, lsn, .. }) = verdict.lost {
            return Err(CacheError::Damaged { page, lsn });
        }
        let mut entangled = verdict.superseded && !planted!(SupersededDroppedEarly);
        for (place, frame) in verdict.again {
            let free = || self.is_stopped() || self.frames_free(&self.state.borrow()) > 0;
            self.room.until(free).await;
            self.check_running()?;
            entangled = true;
            let valid = self.state.borrow().index.is_valid(place);
            if valid || planted!(SecondChanceOvertakes) {
                self.count(|s| s.second_chances += 1);
                self.enter(frame, data.of(place));
            }
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.ring.place(entangled, state.open.since.is_some());
        }
        self.turn();
        self.room.notify_all();
        self.work.notify_all();
        if verdict.slow.is_empty() {
            self.has_left(batch);
            return Ok(());
        }
        let core = self.clone();
        self.domain.spawn_background("cache: a batch to the slow store", async move {
            let destaged = core.destage(verdict.slow, |place| data.of(place), &|| false).await;
            drop(chosen);
            match destaged {
                Ok(()) => core.has_left(batch),
                Err(CacheError::Stopped(_)) => core.gives_up(),
                Err(e) => core.stop(e.to_string()),
            }
        });
        Ok(())
    }

    /// The dirty pages of a batch are on the slow store.
    fn has_left(&self, batch: u64) {
        self.state.borrow_mut().ring.destaged(batch);
        self.release();
        self.work.notify_all();
        self.written.notify_all();
    }

    /// The pages of a batch do not go to the slow store, since the cache ends.
    fn gives_up(&self) {
        self.state.borrow_mut().ring.give_up();
        self.written.notify_all();
    }

    /// Reads these frames of a batch (1).
    async fn read_needed(&self, needed: &[Place]) -> Result<Frames, IoError> {
        let page = self.medium.page();
        let first = needed.first().map_or(0, |place| place.frame);
        let count = needed.last().map_or(0, |place| place.frame + 1 - first);
        let mut bytes = vec![0; count * page];
        let mut rest = &mut bytes[..];
        let (mut at, mut reads) = (first, Vec::new());
        let parts: Vec<Part> = {
            let state = self.state.borrow();
            needed.iter().map(|place| state.index.part_of(*place)).collect()
        };
        let placed: Vec<(Place, Part)> = needed.iter().copied().zip(parts).collect();
        for run in placed.chunk_by(|(a, p), (b, q)| a.frame + 1 == b.frame && p == q) {
            let (first_of, part) = (run[0].0.frame, run[0].1);
            let (gap, length) = (first_of - at, run.len());
            let (buf, behind) = rest[gap * page..].split_at_mut(length * page);
            rest = behind;
            at = first_of + length;
            reads.push(self.medium.read_run(part, first_of, buf));
        }
        join_all(reads).await.into_iter().collect::<Result<(), IoError>>()?;
        Ok(Frames { page, bytes, first })
    }
}

impl<F: BlockDevice, S: SlowStore> Core<F, S> {
    pub fn check_running(&self) -> Result<(), CacheError> {
        match &self.state.borrow().stopped {
            Some(why) => Err(CacheError::Stopped(why.clone())),
            None => Ok(()),
        }
    }

    /// The valid frames of a batch.
    pub fn valid_frames(&self, batch: u64) -> Vec<(Place, Frame)> {
        let state = self.state.borrow();
        let frames = state.index.batch(batch).frames.iter().enumerate();
        let placed = frames.map(|(frame, entry)| (Place { batch, frame }, entry.0));
        placed.filter(|(place, _)| state.index.is_valid(*place)).collect()
    }

    /// Whether pages that were fetched get a second chance.
    fn gives_chances(&self) -> bool {
        self.options.replacement == Replacement::SecondChance && !self.drops.get()
    }

    /// Whether the bytes of this frame are needed.
    fn is_needed(&self, place: Place) -> bool {
        let state = self.state.borrow();
        let (frame, referenced) = state.index.batch(place.batch).frames[place.frame];
        frame.dirty || (referenced && self.gives_chances())
    }

    /// Decides of each frame that was valid before the batch was read. What was not needed then is
    /// not here.
    fn judge(
        &self,
        batch: u64,
        valid: &[(Place, Frame)],
        needed: &[Place],
        data: &Frames,
    ) -> Verdict {
        let state = self.state.borrow();
        let may_give = state.ring.may_give();
        let entries = &state.index.batch(batch).frames;
        let mut verdict = Verdict { superseded: valid.len() < entries.len(), ..Verdict::default() };
        for (place, _) in valid {
            let (frame, referenced) = entries[place.frame];
            if !state.index.is_valid(*place) && !planted!(SecondChanceOvertakes) {
                verdict.superseded = true;
                continue;
            }
            let again = self.gives_chances();
            let again = again && referenced && may_give;
            let again = again && !(frame.dirty && self.mode == Mode::Through);
            if (!frame.dirty && !again) || needed.binary_search(place).is_err() {
                continue;
            }
            let whole = checksum(data.of(*place)) == frame.checksum;
            match (whole, frame.dirty) {
                (true, _) if again => verdict.again.push((*place, frame)),
                (true, _) => {
                    verdict.slow.push(Leaving { page: frame.page, place: *place, cleans: false })
                }
                (false, true) if !may_give => verdict.lost = Some(frame),
                (false, true) => verdict.again.push((*place, Frame { damaged: true, ..frame })),
                // The slow store has it.
                (false, false) => {}
            }
        }
        if verdict.again.len() == self.medium.layout().frames as usize
            && let Some(first) = verdict.again.iter().position(|(_, f)| !f.damaged)
        {
            let (place, frame) = verdict.again.remove(first);
            if frame.dirty {
                verdict.slow.push(Leaving { page: frame.page, place, cleans: false });
            }
        }
        verdict
    }

    /// Writes pages to the slow store, for good (3, 4). Pages that it refuses are tried again until
    /// `gives_up`.
    pub async fn destage<'a>(
        &self,
        mut left: Vec<Leaving>,
        bytes: impl Fn(Place) -> &'a [u8] + Copy,
        gives_up: &impl Fn() -> bool,
    ) -> Result<(), CacheError> {
        if left.is_empty() {
            return Ok(());
        }
        left.sort_unstable_by_key(|l| l.page);
        let all = left.clone();
        let (mut longest, mut since) = (RUN, None);
        loop {
            let (failed, error) = self.write_out(&left, longest, bytes).await;
            let error = match error {
                None if planted!(FrontBeforeSlowFlush) => return Ok(()),
                None => match self.flush_slow().await {
                    Ok(()) => break,
                    // What was written since the last flush may be lost.
                    Err(error) => {
                        left = all.clone();
                        error
                    }
                },
                Some(error) => {
                    left = failed;
                    error
                }
            };
            if error == IoError::PowerLost {
                return Err(CacheError::Slow(error));
            }
            let since = *since.get_or_insert(self.rt.now());
            self.refuse(left[0].page, since, error.clone()).await?;
            if gives_up() {
                self.no_longer_refused(since);
                let waited = self.rt.now().saturating_sub(since);
                return Err(CacheError::Full { page: left[0].page, waited, error });
            }
            longest = 1;
        }
        since.into_iter().for_each(|since| self.no_longer_refused(since));
        Ok(())
    }

    /// Nobody waits any more for a page that has been refused since then.
    fn no_longer_refused(&self, since: Nanos) {
        let mine = |refused: &mut Refused| refused.since == since;
        if self.state.borrow_mut().refused.take_if(mine).is_some() {
            self.notify();
        }
    }

    /// The slow store has refused a page: notes and tells it, and waits until the next try.
    async fn refuse(&self, page: u64, since: Nanos, error: IoError) -> Result<(), CacheError> {
        self.host.refused(page, &error);
        {
            let mut state = self.state.borrow_mut();
            state.stats.slow_refusals += 1;
            let older = state.refused.as_ref().is_some_and(|r| r.since < since);
            if !older {
                state.refused = Some(Refused { page, since, error });
            }
        }
        self.notify();
        self.rt.sleep(self.options.retry).await;
        self.check_running()?;
        if self.closing.get() {
            return Err(CacheError::Stopped("it is being closed".to_string()));
        }
        Ok(())
    }

    /// Writes pages in runs of neighbours. Returns those that failed, and why the first one did.
    async fn write_out<'a>(
        &self,
        pages: &[Leaving],
        longest: usize,
        bytes: impl Fn(Place) -> &'a [u8] + Copy,
    ) -> (Vec<Leaving>, Option<IoError>) {
        let runs = pages.chunk_by(is_followed).flat_map(|run| run.chunks(longest));
        let runs = RefCell::new(runs);
        let failed = RefCell::new((Vec::new(), None));
        let lane = || async {
            loop {
                let Some(run) = runs.borrow_mut().next() else { return };
                if let Err(error) = self.write_run(run, bytes).await {
                    let mut failed = failed.borrow_mut();
                    failed.0.extend_from_slice(run);
                    failed.1.get_or_insert(error);
                }
            }
        };
        join_all((0..self.options.depth.max(1)).map(|_| lane()).collect()).await;
        failed.into_inner()
    }

    async fn write_run<'a>(
        &self,
        run: &[Leaving],
        bytes: impl Fn(Place) -> &'a [u8],
    ) -> Result<(), IoError> {
        // Before any page is held: what is held is written at once.
        let _permit = self.slow_writes.acquire(1).await;
        let mut held: Vec<Held<'_>> = Vec::with_capacity(run.len());
        for leaving in run {
            held.push(self.hold(leaving.page).await);
        }
        let wanted: Vec<Leaving> =
            run.iter().filter(|leaving| self.is_wanted(leaving)).copied().collect();
        for side_by_side in wanted.chunk_by(is_followed) {
            let data: Vec<u8> = side_by_side.iter().flat_map(|l| bytes(l.place)).copied().collect();
            self.slow.write(side_by_side[0].page, &data).await?;
            side_by_side.iter().for_each(|l| self.pending.wrote(l.page, l.place));
            self.count(|s| s.slow_writes += side_by_side.len() as u64);
        }
        Ok(())
    }

    /// Whether the slow store needs this version (3). Asked while the page is held.
    pub fn is_wanted(&self, leaving: &Leaving) -> bool {
        let state = self.state.borrow();
        match state.index.find(leaving.page) {
            None => false,
            Some((at, frame)) if at == leaving.place => frame.dirty,
            Some((at, frame)) => {
                let stays = match leaving.cleans {
                    true => at.batch >= state.ring.placed(),
                    false => !state.is_durable(at),
                };
                frame.dirty
                    && !self.pending.is_overtaken(leaving.page, leaving.place)
                    && stays
                    && !state.index.is_buried_since(leaving.place, leaving.page)
            }
        }
    }
}
