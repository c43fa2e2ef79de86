//! The hash table: chains of entries, changed under the lock of their partition, read without one.
//!
//! 1. Every change of a chain is one store to one word: a head or a link. A chain is whole after
//!    each of them, so whoever reads it never waits for whoever changes it.
//! 2. A head carries a version. It grows when an entry was linked, after a new version became valid
//!    and before the older one stops being so, and when an entry was unlinked, before the entry may
//!    be used again. So whoever walks a chain, does not find a page, and finds the version as it
//!    was, has seen a moment in which the page was not there.
//! 3. What is linked is `Filling`, `Valid` or `Leaving`. What is `Free` or `Gone` is not linked.
//! 4. Of the entries of one page in a chain the first valid one is current. There are two only
//!    between two stores under the lock; whoever breaks the lock of a dead owner ends the second.

use super::Directory;
use super::control::{Control, State};
use super::sys::Word;

/// A page found in its chain, and what stands before it there.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub before: Option<u32>,
    pub frame: u32,
}

/// Spreads all bits of a number over all bits (the finaliser of MurmurHash3).
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// The frame in the lower half of a head or a link.
pub(crate) fn frame_in(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}

fn word_of(frame: Option<u32>) -> u64 {
    frame.map_or(0, |frame| u64::from(frame) + 1)
}

impl Directory {
    pub(crate) fn chain_of(&self, page: u64) -> u64 {
        mixed(page) & (self.layout.chains - 1)
    }

    pub(crate) fn partition_of(&self, chain: u64) -> u64 {
        chain & (self.layout.partitions - 1)
    }

    pub(crate) fn head(&self, chain: u64) -> &Word {
        self.region.word(self.layout.heads + chain as usize)
    }

    pub(crate) fn link(&self, frame: u32) -> &Word {
        self.region.word(self.layout.links + frame as usize)
    }

    /// Changes the first entry of a chain, or only its version.
    fn set_head(&self, chain: u64, first: Option<u32>) {
        let head = self.head(chain);
        let version = (head.peek() >> 32) as u32;
        head.set(u64::from(version.wrapping_add(1)) << 32 | word_of(first));
    }

    pub(crate) fn bump(&self, chain: u64) {
        self.set_head(chain, frame_in(self.head(chain).peek()));
    }

    /// Under the lock: puts an entry that is `Filling` before all others.
    pub(crate) fn link_first(&self, chain: u64, frame: u32) {
        self.link(frame).poke(word_of(frame_in(self.head(chain).peek())));
        self.set_head(chain, Some(frame));
    }

    /// Under the lock: takes an entry out.
    pub(crate) fn unlink(&self, chain: u64, place: Place) {
        let next = frame_in(self.link(place.frame).peek());
        match place.before {
            None => self.set_head(chain, next),
            Some(before) => {
                self.link(before).set(word_of(next));
                self.bump(chain);
            }
        }
    }

    /// Under the lock: ends an entry that is linked.
    pub(crate) fn end(&self, chain: u64, place: Place) {
        self.change(place.frame, |control| control.with(State::Leaving));
        self.unlink(chain, place);
        self.change(place.frame, |control| control.with(State::Gone));
    }

    /// Under the lock: ends a version that is linked behind a newer one, which is valid. The frames
    /// of the older one have to stay until the newer one is durable.
    pub(crate) fn supersede(&self, chain: u64, newer: u32, older: Place) {
        self.bump(chain);
        let newer = self.record_of(newer).word.get();
        let needs = super::control::BatchWord(newer).seq() + 1;
        self.record_of(older.frame).needs.raise(needs);
        self.end(chain, older);
    }

    /// Under the lock: the current version of a page.
    pub(crate) fn find(&self, chain: u64, page: u64) -> Option<Place> {
        let mut before = None;
        let mut next = frame_in(self.head(chain).peek());
        // Nothing is linked twice, so a chain is never longer than this.
        for _ in 0..self.layout.shape.frames {
            let frame = next?;
            let entry = self.entry(frame);
            if entry.page.peek() == page && Control(entry.control.peek()).state() == State::Valid {
                return Some(Place { before, frame });
            }
            before = Some(frame);
            next = frame_in(self.link(frame).peek());
        }
        None
    }

    /// Changes a control word, whatever marks come meanwhile.
    pub(crate) fn change(&self, frame: u32, to: impl Fn(Control) -> Control) {
        let word = &self.entry(frame).control;
        let mut seen = word.get();
        while let Err(now) = word.swap_if(seen, to(Control(seen)).0) {
            seen = now;
        }
    }
}
