//! Reading: no lock is taken, and nobody is waited for, living or dead.
//!
//! 1. An entry is read between two looks at its control word: what is returned is one version of
//!    one page, never parts of two.
//! 2. A page that is there is found (`chain.rs`, 2): a walk is repeated only if somebody else
//!    changed the chain meanwhile.
//! 3. A frame that was found is not pinned: it may be written over while it is read from flash.
//!    [`Directory::check`] after the read says whether it was. Nothing has to be given back, so
//!    nothing is lost with a process that is killed while it reads.
//! 4. Marking a version clean takes a lock only if its batch was given up.

use super::chain::frame_in;
use super::control::{BatchWord, Control, Phase, State};
use super::sys::{full_fence, loads_before};
use super::{Directory, Entry};

/// What became of an entry since it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// It is the current version of its page.
    Current,
    /// Its frame has its version still, but the directory has a newer one, or none.
    Old,
    /// Its frame is free for another page: what was read from it may be anything. Look up again.
    Reused,
}

enum Walk {
    Found(Entry),
    Missing,
    Changed,
}

impl Directory {
    /// The current version of a page, and where it is. It is marked as referenced.
    ///
    /// If it is not [durable](Entry::durable), its bytes are where the owner of its batch keeps
    /// them, not on flash. After the read, [`Directory::check`] says whether the frame had them
    /// all the time.
    pub fn lookup(&self, page: u64) -> Option<Entry> {
        let found = self.peek(page)?;
        if !found.referenced {
            self.mark(&found);
        }
        Some(found)
    }

    /// As [`Directory::lookup`], without the mark.
    #[must_use]
    pub fn peek(&self, page: u64) -> Option<Entry> {
        let head = self.head(self.chain_of(page));
        loop {
            let seen = head.get();
            match self.walk(seen, page) {
                Walk::Found(entry) => return Some(entry),
                Walk::Missing => {
                    loads_before();
                    if head.peek() == seen {
                        return None;
                    }
                }
                Walk::Changed => {}
            }
            super::sys::pause(0);
        }
    }

    fn walk(&self, head: u64, page: u64) -> Walk {
        let mut next = frame_in(head);
        // Nothing is linked twice: a longer chain was changed on the way.
        for _ in 0..=self.layout.shape.frames {
            let Some(frame) = next else { return Walk::Missing };
            if u64::from(frame) >= self.layout.shape.frames {
                return Walk::Changed;
            }
            let entry = self.entry(frame);
            let control = Control(entry.control.get());
            if control.state() == State::Valid && entry.page.peek() == page {
                return self
                    .read(frame)
                    .filter(|entry| entry.valid && entry.page == page)
                    .map_or(Walk::Changed, Walk::Found);
            }
            next = frame_in(self.link(frame).get());
        }
        Walk::Changed
    }

    /// The entry of a frame, if it has one: the current version of a page, or an old one.
    #[must_use]
    pub fn read(&self, frame: u32) -> Option<Entry> {
        let entry = self.entry(frame);
        loop {
            let before = Control(entry.control.get());
            if before.state() == State::Free || before.is_void() {
                return None;
            }
            let (page, lsn, check) = (entry.page.peek(), entry.lsn.peek(), entry.check.peek());
            loads_before();
            let control = Control(entry.control.peek());
            if control.lap() != before.lap() {
                continue;
            }
            let batch = BatchWord(self.record_of(frame).word.get());
            return Some(Entry {
                page,
                lsn,
                checksum: check as u32,
                frame,
                lap: control.lap(),
                valid: control.state() == State::Valid,
                dirty: control.is_dirty(),
                referenced: control.is_referenced(),
                durable: batch.phase() == Phase::Published,
            });
        }
    }

    fn mark(&self, found: &Entry) {
        let word = &self.entry(found.frame).control;
        let seen = Control(word.peek());
        if seen.lap() == found.lap && seen.state() == State::Valid && !seen.is_referenced() {
            // If something else changed, the mark is not worth a second try.
            let _ = word.swap_if(seen.0, seen.referenced().0);
        }
    }

    /// Whether what was read from a frame is the version that was looked up. Asked after the read.
    #[must_use]
    pub fn check(&self, found: &Entry) -> Since {
        loads_before();
        let control = Control(self.entry(found.frame).control.get());
        match control.state() {
            _ if control.lap() != found.lap => Since::Reused,
            State::Valid => Since::Current,
            _ => Since::Old,
        }
    }

    /// Says that the slow store has this version, and was flushed. Whether the entry was still
    /// there.
    ///
    /// If its batch was given up meanwhile, an older version that was put back is not current any
    /// more: the slow store has a newer one.
    pub fn mark_clean(&self, entry: &Entry) -> bool {
        let word = &self.entry(entry.frame).control;
        let mut seen = Control(word.get());
        while seen.lap() == entry.lap {
            match word.swap_if(seen.0, seen.clean().0) {
                Ok(_) => {
                    // Whoever gives it up sees that it is clean, or is seen here.
                    full_fence();
                    self.end_older(entry);
                    return true;
                }
                Err(now) => seen = Control(now),
            }
        }
        false
    }

    /// Ends the version that came back in the place of this one, which is clean.
    fn end_older(&self, clean: &Entry) {
        let batch = || BatchWord(self.record_of(clean.frame).word.get());
        let given_up = |word: BatchWord| word.is_given_up() && self.lap_of(word.seq()) == clean.lap;
        if !given_up(batch()) {
            return;
        }
        let chain = self.chain_of(clean.page);
        let held = self.lock(self.partition_of(chain));
        let word = batch();
        let current = self.find(chain, clean.page).filter(|_| given_up(word));
        if let Some(place) = current {
            let frame = place.frame;
            // A frame that was used again since belongs to a later batch.
            let is_before = BatchWord(self.record_of(frame).word.get()).seq() < word.seq();
            let came_back = self.kept_before(clean.frame) == Some(frame);
            if is_before && came_back && self.entry(frame).lsn.get() < clean.lsn {
                self.end(chain, place);
            }
        }
        self.unlock(held);
    }
}
