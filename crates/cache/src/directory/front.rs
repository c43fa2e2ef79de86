//! Replacement at the front of the ring, a batch at a time (FaCE: multi-version FIFO, and group
//! second chance).
//!
//! 1. What is replaced is readable until its frames are released: entries stay in the table, and
//!    flash is not written over.
//! 2. Frames are released only when no entry of the batch is current, and all that replaced one of
//!    them is settled: a newer version, a second chance. So what is put back when a batch is
//!    abandoned is there. Nor does anyone still change such an entry: what comes next into its frame
//!    would be changed instead.
//! 3. A dirty version that is current is never dropped: it is staged again, or marked clean first.
//! 4. Whoever takes over the front batch of a dead owner begins anew: what was staged again is not
//!    current in this batch any more, and what was marked clean is clean.

use super::Directory;
use super::control::{BatchWord, Control, Phase, State};
use super::error::{FrontError, ReleaseError};
use super::{Entry, chain::Place};

/// The front batch, taken to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Its sequence number.
    pub seq: u64,
    /// Its first frame; the others follow.
    pub first_frame: u32,
}

/// How the front is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// What is at the front goes (mvFIFO, basic).
    Basic,
    /// What was referenced since it entered enters again (group second chance).
    SecondChance,
}

/// What becomes of a current version at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is dropped: the slow store has it.
    Drop,
    /// It is written to the slow store; [`Directory::mark_clean`] says when that is flushed.
    Destage,
    /// It goes to the rear: [`Directory::stage_again`].
    SecondChance,
}

impl Directory {
    /// Takes the front batch, to replace it.
    ///
    /// # Errors
    /// [`FrontError`].
    pub fn take_front(&self) -> Result<Front, FrontError> {
        loop {
            self.advance();
            let seq = self.front();
            let record = self.record(seq);
            let settled = || {
                let word = BatchWord(record.word.get());
                word.seq() == seq && word.is_settled()
            };
            if self.rear() == seq {
                return Err(FrontError::Empty);
            }
            if !settled() {
                match self.front() == seq {
                    true => return Err(FrontError::Unsettled(seq)),
                    false => continue,
                }
            }
            if !self.take_over(&record) {
                return Err(FrontError::Busy(seq));
            }
            if settled() {
                return Ok(Front { seq, first_frame: self.frame_of(seq, 0) });
            }
            // Its owner has just released it.
            record.owner.set(0);
        }
    }

    /// What becomes of the current versions in the front batch. All others are dropped.
    ///
    /// If every frame of the batch were to have a second chance, the first one has none: so each
    /// batch that is replaced makes room.
    #[must_use]
    pub fn fates(&self, front: &Front, replacement: Replacement) -> Vec<(Entry, Fate)> {
        let leaves = |entry: &Entry| if entry.dirty { Fate::Destage } else { Fate::Drop };
        let mut fates: Vec<(Entry, Fate)> = self
            .entries_of(front.seq)
            .filter(|entry| entry.valid)
            .map(|entry| match replacement {
                Replacement::SecondChance if entry.referenced => (entry, Fate::SecondChance),
                _ => (entry, leaves(&entry)),
            })
            .collect();
        let again = fates.iter().filter(|(_, fate)| *fate == Fate::SecondChance).count();
        if again == self.layout.shape.batch as usize {
            fates[0].1 = leaves(&fates[0].0);
        }
        fates
    }

    /// Releases the frames of the front batch: they may be written over. What was current and clean
    /// in it is dropped.
    ///
    /// # Errors
    /// [`ReleaseError`]. The batch is still the caller's, so it can be tried again.
    pub fn release(&self, front: &Front) -> Result<(), ReleaseError> {
        self.advance();
        let record = self.mine(front)?;
        // (Loads of which nothing follows would only multiply the orders of a model of threads.)
        #[cfg(not(loom))]
        self.prefetch_batch(front.seq);
        loop {
            let needs = record.needs.get().max(front.seq + 1);
            if needs > self.settled() {
                return Err(ReleaseError::Waits(needs - 1));
            }
            let lap = self.lap_of(front.seq);
            // Those of another lap were released before their last owner died.
            let frames =
                || self.frames_of(front.seq).filter(move |f| self.control(*f).lap() == lap);
            if let Some(frame) = frames().find(|f| self.is_dirty_and_valid(*f)) {
                return Err(ReleaseError::Dirty(frame));
            }
            for frame in frames() {
                self.vacate(frame)?;
            }
            // If a newer version came meanwhile, it may be given up yet.
            if record.needs.get().max(front.seq + 1) == needs {
                break;
            }
        }
        let next = front.seq + self.layout.batches;
        for frame in self.frames_of(front.seq) {
            self.entry(frame).control.set(Control::free(self.lap_of(next)).0);
        }
        record.needs.set(0);
        record.word.set(BatchWord::new(next, Phase::Free, 0).0);
        record.owner.set(0);
        self.advance();
        Ok(())
    }

    /// Gives the front batch back as it is, for another try by anyone.
    pub fn leave(&self, front: &Front) {
        if let Ok(record) = self.mine(front) {
            record.owner.set(0);
        }
    }

    fn mine(&self, front: &Front) -> Result<super::batch::Record<'_>, ReleaseError> {
        let record = self.record(front.seq);
        let word = BatchWord(record.word.get());
        let mine = record.owner.get() == self.owner.word();
        match mine && word.seq() == front.seq && word.is_settled() {
            true => Ok(record),
            false => Err(ReleaseError::NotYours(front.seq)),
        }
    }

    fn control(&self, frame: u32) -> Control {
        Control(self.entry(frame).control.get())
    }

    fn is_dirty_and_valid(&self, frame: u32) -> bool {
        let control = self.control(frame);
        control.state() == State::Valid && control.is_dirty()
    }

    /// Makes sure that a frame's entry is not current, and that nobody changes it any more.
    fn vacate(&self, frame: u32) -> Result<(), ReleaseError> {
        // (One look: an entry that was valid may be `Leaving` at the next, by someone who has yet to
        // unlink it.)
        if self.settle(frame) != State::Valid {
            return Ok(());
        }
        let page = self.entry(frame).page.get();
        let chain = self.chain_of(page);
        let held = self.lock(self.partition_of(chain));
        let is_it = |place: &Place| place.frame == frame;
        let done = match self.find(chain, page).filter(is_it) {
            Some(_) if self.is_dirty_and_valid(frame) => Err(ReleaseError::Dirty(frame)),
            Some(place) => {
                self.end(chain, place);
                Ok(())
            }
            None => Ok(()),
        };
        self.unlock(held);
        done
    }
}
