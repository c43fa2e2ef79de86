//! Changing what is current: pages enter at the rear, are given a second chance, and are forgotten.
//!
//! 1. A version becomes current by one store (its entry becomes `Valid`), after its entry was
//!    written and linked. Whoever dies before that has staged nothing.
//! 2. No version takes the place of one with a higher LSN.
//! 3. Of two versions with the same LSN, if one is dirty the current one is: dirt is lost only by
//!    [`Directory::mark_clean`] and by a newer version.
//! 4. A frame is given to one page in each lap, by a swap of its batch's word.
//! 5. The frame of the version that was replaced stays as it is until the new one is durable, or
//!    given up (`front.rs`, 2).

use super::batch::Batch;
use super::chain::{Place, frame_in};
use super::control::{BatchWord, Control, Phase, State};
use super::error::StageError;
use super::sys::stores_before;
use super::{Directory, Entry};

/// A version of a page, as it leaves RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The page.
    pub page: u64,
    /// The LSN of its last change, or any other number that grows with the versions of a page.
    pub lsn: u64,
    /// Checksum of the frame.
    pub checksum: u32,
    /// Whether it is newer than the slow store's.
    pub dirty: bool,
}

/// A version that was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The frame it has.
    pub frame: u32,
    /// Which of the batch's frames that is, from 0 on.
    pub slot: u32,
    /// The lap of the frame.
    pub lap: u32,
    /// The frame that has the version which was current before.
    pub older: Option<u32>,
}

impl Directory {
    /// Puts a version of a page into the next frame of a batch: it is current from now on, and
    /// durable when the batch is [published](Directory::publish).
    ///
    /// # Errors
    /// [`StageError`]; the directory is as before.
    pub fn stage(&self, batch: &Batch, version: Version) -> Result<Staged, StageError> {
        let chain = self.chain_of(version.page);
        let held = self.lock(self.partition_of(chain));
        let older = self.find(chain, version.page);
        let staged = self.put(batch, chain, version, false, older);
        self.unlock(held);
        staged
    }

    /// Gives the current version of a page a second chance: stages it again in a batch at the rear,
    /// without its reference mark. `None` if `entry` is not current any more: a newer version is on
    /// its way, and must not be overtaken.
    ///
    /// # Errors
    /// [`StageError::Full`], [`StageError::Closed`]; the directory is as before.
    pub fn stage_again(&self, batch: &Batch, entry: &Entry) -> Result<Option<Staged>, StageError> {
        let chain = self.chain_of(entry.page);
        let held = self.lock(self.partition_of(chain));
        let staged = match self.find(chain, entry.page) {
            Some(place) if self.is_same(place, entry) => {
                let Entry { page, lsn, checksum, .. } = *entry;
                // The new version takes over its dirt (3).
                let version = Version { page, lsn, checksum, dirty: false };
                self.put(batch, chain, version, false, Some(place)).map(Some)
            }
            _ => Ok(None),
        };
        self.unlock(held);
        staged
    }

    /// Removes a page: it was truncated or dropped. What was current.
    ///
    /// On flash its frame is as before: whoever forgets a page writes a tombstone.
    pub fn forget(&self, page: u64) -> Option<Entry> {
        let chain = self.chain_of(page);
        let held = self.lock(self.partition_of(chain));
        let found = self.find(chain, page).and_then(|place| {
            let entry = self.read(place.frame);
            self.end(chain, place);
            entry
        });
        self.unlock(held);
        found
    }

    fn is_same(&self, place: Place, entry: &Entry) -> bool {
        let control = Control(self.entry(place.frame).control.get());
        place.frame == entry.frame && control.lap() == entry.lap
    }

    /// Under the lock: stages a version before `older`, which is current.
    pub(crate) fn put(
        &self,
        batch: &Batch,
        chain: u64,
        version: Version,
        referenced: bool,
        older: Option<Place>,
    ) -> Result<Staged, StageError> {
        let Version { page, lsn, checksum, mut dirty } = version;
        if let Some(older) = older {
            let entry = self.entry(older.frame);
            let have = entry.lsn.peek();
            if have > lsn {
                return Err(StageError::Older { have, given: lsn });
            }
            dirty |= have == lsn && Control(entry.control.get()).is_dirty();
        }
        let slot = self.take_slot(batch)?;
        let (frame, lap) = (self.frame_of(batch.seq, slot), self.lap_of(batch.seq));
        let entry = self.entry(frame);
        let filling = Control::filling(lap, self.partition_of(chain), dirty, referenced);
        if entry.control.swap_if(Control::free(lap).0, filling.0).is_err() {
            return Err(StageError::Closed);
        }
        stores_before();
        entry.page.poke(page);
        entry.lsn.poke(lsn);
        let older_frame = older.map(|older| older.frame);
        let link = older_frame.map_or(0, |frame| u64::from(frame) + 1);
        entry.check.poke(link << 32 | u64::from(checksum));
        self.link_first(chain, frame);
        entry.control.set(filling.valid().0);
        if let Some(older) = older {
            // The new entry stands before it now.
            let before = older.before.or(Some(frame));
            self.supersede(chain, frame, Place { before, ..older });
        }
        Ok(Staged { frame, slot, lap, older: older_frame })
    }

    /// The next frame of a batch that takes pages.
    pub(crate) fn take_slot(&self, batch: &Batch) -> Result<u32, StageError> {
        let record = self.record(batch.seq);
        let mut seen = BatchWord(record.word.get());
        loop {
            let open = seen.seq() == batch.seq && seen.phase() == Phase::Open;
            if !open || record.owner.peek() != self.owner.word() {
                return Err(StageError::Closed);
            }
            if seen.taken() == self.layout.shape.batch {
                return Err(StageError::Full);
            }
            match record.word.swap_if(seen.0, seen.with_one_more().0) {
                Ok(_) => return Ok(seen.taken()),
                Err(now) => seen = BatchWord(now),
            }
        }
    }

    /// The frame of the version that an entry replaced.
    pub(crate) fn older_of(&self, frame: u32) -> Option<u32> {
        frame_in(self.entry(frame).check.get() >> 32)
    }

    /// Under the lock: makes a version current again that the one at `newer` had replaced.
    pub(crate) fn put_back(&self, chain: u64, frame: u32, newer: Place) {
        self.change(frame, |control| control.with(State::Filling));
        stores_before();
        self.link_first(chain, frame);
        self.change(frame, Control::valid);
        self.bump(chain);
        self.end(chain, Place { before: newer.before.or(Some(frame)), ..newer });
    }
}
