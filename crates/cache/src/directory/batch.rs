//! Batches: what is written to flash in one piece.
//!
//! 1. Batch `seq` (from the directory's first on, without gaps) has the frames `seq % batches`.
//!    It goes through `Free`, `Open`, `Closed`, `Published` (or `Doomed`, `Abandoned`) and back to
//!    `Free` as batch `seq + batches`; each step is one store to its word.
//! 2. A batch at work (`Open`, `Closed`, `Doomed`) belongs to one owner. So does a front batch that is
//!    replaced. All threads of the owner may stage into its batch; its pages' bytes are the owner's
//!    affair.
//! 3. If the owner dies, another one [adopts](Directory::adopt) the batch: it writes it to the end,
//!    if the bytes lie in shared memory, or [abandons](Directory::abandon) it.
//! 4. Abandoning puts back each version that one of the batch had replaced, unless a still newer
//!    one, or nothing, is current, or the slow store has a newer one: one of those given up was
//!    clean. Then the page is not in the directory any more. From `Doomed` on none of the batch's
//!    versions is put back any more, not even by another batch that replaced them and is abandoned
//!    at the same time. The frames of those versions stay until then: each batch knows the latest
//!    one of which an entry replaced one of its own (`needs`). Where a still newer one is current,
//!    the batch with the older version waits for that one, too.
//! 5. `settled` is the first batch that is neither published nor abandoned. `rear` is the next to
//!    reserve, `front` the oldest one whose frames are in use. Each follows from the words of the
//!    batches, so whoever comes along moves it on.

use super::Directory;
use super::control::{BatchWord, Control, Phase};
use super::error::{BatchError, ReserveError};
use super::sys::{Word, full_fence, pause};
use super::{Entry, header};

/// A batch of frames that is being filled or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its sequence number.
    pub seq: u64,
    /// Its first frame; the others follow.
    pub first_frame: u32,
}

/// Words of a batch.
pub(crate) struct Record<'a> {
    pub word: &'a Word,
    /// Who fills, writes or replaces it; 0 for none.
    pub owner: &'a Word,
    /// The first batch that need not be settled before this one's frames may be reused.
    pub needs: &'a Word,
}

impl Directory {
    /// Reserves the next batch at the rear.
    ///
    /// # Errors
    /// [`ReserveError::Full`]: the front batch has to be released first.
    pub fn reserve(&self) -> Result<Batch, ReserveError> {
        for turn in 1.. {
            self.advance();
            let seq = self.rear();
            let record = self.record(seq);
            let word = BatchWord(record.word.get());
            if word.seq() < seq {
                return Err(ReserveError::Full);
            }
            if word != BatchWord::new(seq, Phase::Free, 0) {
                continue;
            }
            if !self.take_over(&record) {
                // Somebody reserves it, or has just released it.
                pause(turn);
            } else if record.word.swap_if(word.0, word.with(Phase::Open).0).is_ok() {
                self.advance();
                return Ok(self.batch(seq));
            } else {
                record.owner.set(0);
            }
        }
        Err(ReserveError::Full)
    }

    pub(crate) fn batch(&self, seq: u64) -> Batch {
        Batch { seq, first_frame: self.frame_of(seq, 0) }
    }

    /// Makes this owner the one of a batch that has none, or a dead one.
    pub(crate) fn take_over(&self, record: &Record<'_>) -> bool {
        let owner = record.owner.get();
        (owner == 0 || self.is_dead(owner))
            && record.owner.swap_if(owner, self.owner.word()).is_ok()
    }

    /// Closes a batch: it takes no more pages, and what it has can be written. Frames that nothing
    /// was put into stay void. Called when every call of [`Directory::stage`] for it is over.
    ///
    /// # Errors
    /// [`BatchError::NotYours`].
    pub fn close(&self, batch: &Batch) -> Result<(), BatchError> {
        let record = self.at_work(batch)?;
        let mut word = BatchWord(record.word.get());
        while word.phase() == Phase::Open {
            match record.word.swap_if(word.0, word.with(Phase::Closed).0) {
                Ok(_) => break,
                Err(now) => word = BatchWord(now),
            }
        }
        let lap = self.lap_of(batch.seq);
        for frame in self.frames_of(batch.seq) {
            let free = Control::free(lap).0;
            if self.entry(frame).control.swap_if(free, Control::void(lap).0).is_err() {
                self.settle(frame);
            }
        }
        Ok(())
    }

    /// Says that all a closed batch has is durable on flash.
    ///
    /// # Errors
    /// [`BatchError`]; nothing was changed.
    pub fn publish(&self, batch: &Batch) -> Result<(), BatchError> {
        self.finish(batch, Phase::Published)
    }

    /// Gives up a batch that is not durable, and never will be: what was current before its pages
    /// were staged is current again.
    ///
    /// # Errors
    /// [`BatchError::NotYours`].
    pub fn abandon(&self, batch: &Batch) -> Result<(), BatchError> {
        self.close(batch)?;
        self.step(batch, Phase::Doomed)?;
        // Whoever marks one of its pages clean meanwhile is seen below, or sees that it is given up.
        full_fence();
        for frame in self.frames_of(batch.seq) {
            self.give_up(frame);
        }
        // Whoever gives up a newer batch meanwhile sees that this one is given up, or is seen here.
        full_fence();
        let needs = self.record(batch.seq).needs.get();
        for frame in self.frames_of(batch.seq) {
            self.older_wait(frame, needs);
        }
        self.finish(batch, Phase::Abandoned)
    }

    fn finish(&self, batch: &Batch, phase: Phase) -> Result<(), BatchError> {
        self.step(batch, phase)?;
        self.record(batch.seq).owner.set(0);
        self.advance();
        Ok(())
    }

    /// Takes a closed batch of this owner to its next phase.
    fn step(&self, batch: &Batch, phase: Phase) -> Result<(), BatchError> {
        let record = self.at_work(batch)?;
        let word = BatchWord(record.word.get());
        match word.phase() {
            Phase::Open => return Err(BatchError::Open(batch.seq)),
            Phase::Doomed if phase == Phase::Published => {
                return Err(BatchError::GivenUp(batch.seq));
            }
            _ => {}
        }
        let stepped = record.word.swap_if(word.0, word.with(phase).0);
        stepped.map(|_| ()).map_err(|_| BatchError::NotYours(batch.seq))
    }

    /// The version that the one in this frame replaced, if this one was ever there.
    fn replaced_by(&self, frame: u32) -> Option<u32> {
        let control = Control(self.entry(frame).control.get());
        if control.is_void() { None } else { self.older_of(frame) }
    }

    /// Puts the older version back in the place of one that will never be durable.
    fn give_up(&self, frame: u32) {
        let control = Control(self.entry(frame).control.get());
        if control.is_void() {
            return;
        }
        let page = self.entry(frame).page.get();
        let chain = self.chain_of(page);
        let held = self.lock(self.partition_of(chain));
        if let Some(place) = self.find(chain, page).filter(|place| place.frame == frame) {
            match self.last_kept(frame) {
                Some(older) => self.put_back(chain, older, place),
                None => self.end(chain, place),
            }
        }
        self.unlock(held);
    }

    /// The version that comes back in the place of this one: none if the slow store has a newer one,
    /// since one of those that were given up is clean.
    fn last_kept(&self, frame: u32) -> Option<u32> {
        let kept = self.kept_before(frame)?;
        let (mut given_up, lsn) = (frame, self.entry(kept).lsn.get());
        while given_up != kept {
            let entry = self.entry(given_up);
            if !Control(entry.control.get()).is_dirty() && entry.lsn.get() > lsn {
                return None;
            }
            given_up = self.replaced_by(given_up)?;
        }
        Some(kept)
    }

    /// The newest version before this one that was not given up.
    pub(super) fn kept_before(&self, frame: u32) -> Option<u32> {
        let mut older = self.replaced_by(frame)?;
        while self.was_given_up(older) {
            older = self.replaced_by(older)?;
        }
        Some(older)
    }

    /// Makes the versions that could come back in the place of this one wait for what this one was
    /// to wait for.
    fn older_wait(&self, frame: u32, needs: u64) {
        let mut next = self.replaced_by(frame);
        while let Some(older) = next {
            self.record_of(older).needs.raise(needs);
            full_fence();
            next = if self.was_given_up(older) { self.replaced_by(older) } else { None };
        }
    }

    fn was_given_up(&self, frame: u32) -> bool {
        BatchWord(self.record_of(frame).word.get()).is_given_up()
    }

    /// A batch whose owner died before it was published or abandoned. It is the caller's now.
    #[must_use]
    pub fn adopt(&self) -> Option<Batch> {
        self.advance();
        (0..self.layout.batches).find_map(|index| {
            let record = self.record(index);
            let at_work = || BatchWord(record.word.get()).is_at_work();
            if !at_work() || !self.take_over(&record) {
                return None;
            }
            if at_work() {
                return Some(self.batch(BatchWord(record.word.get()).seq()));
            }
            // Another one adopted it, and is through.
            record.owner.set(0);
            None
        })
    }

    fn at_work(&self, batch: &Batch) -> Result<Record<'_>, BatchError> {
        let record = self.record(batch.seq);
        let word = BatchWord(record.word.get());
        let mine = record.owner.get() == self.owner.word();
        match mine && word.seq() == batch.seq && word.is_at_work() {
            true => Ok(record),
            false => Err(BatchError::NotYours(batch.seq)),
        }
    }

    /// The entries of a batch that were ever in it, in the order of its frames.
    pub fn entries_of(&self, seq: u64) -> impl Iterator<Item = Entry> + '_ {
        let lap = self.lap_of(seq);
        self.frames_of(seq)
            .filter_map(|frame| self.read(frame))
            .filter(move |entry| entry.lap == lap)
    }

    pub(crate) fn rear(&self) -> u64 {
        self.region.word(header::AT_REAR).get()
    }

    pub(crate) fn settled(&self) -> u64 {
        self.region.word(header::AT_SETTLED).get()
    }

    pub(crate) fn front(&self) -> u64 {
        self.region.word(header::AT_FRONT).get()
    }

    /// Moves the ends of the ring to where the words of the batches say that they are.
    pub(crate) fn advance(&self) {
        let batches = self.layout.batches;
        self.move_on(header::AT_REAR, |seq, word| word.seq() == seq && word.phase() != Phase::Free);
        self.move_on(header::AT_SETTLED, |seq, word| word.seq() == seq && word.is_settled());
        self.move_on(header::AT_FRONT, |seq, word| word.seq() == seq + batches);
    }

    fn move_on(&self, end: usize, passed: impl Fn(u64, BatchWord) -> bool) {
        let end = self.region.word(end);
        let mut seq = end.get();
        while passed(seq, BatchWord(self.record(seq).word.get())) {
            seq = match end.swap_if(seq, seq + 1) {
                Ok(_) => seq + 1,
                Err(now) => now,
            };
        }
    }
}
