//! Thin provisioning: a drive that promises more than it can keep refuses new data before
//! they would stand in collection's way.
//!
//! 1. Live are the logical pages that are mapped, those that are buffered, and those of
//!    writes that were let in and are not all admitted yet. A write that would make them more than
//!    the layout's room is refused before anything of it is admitted, and leaves no trace. (A
//!    salvage may bring back what was discarded: then nothing new is let in until less is live.)
//! 2. Writes of live pages, reads, flushes and discards are never refused for want of room.
//! 3. It is decided when a write has the turn to be admitted: the order of arrival decides who
//!    gets the room.
//! 4. A power loss leaves no more than there is room for, whatever it takes. It may take a discard
//!    and leave a write that came after it: so a discarded page counts as live until its discard
//!    is durable. A write that has room only without such pages makes the discards durable, and
//!    waits for that; it asks for that itself, so it never waits for somebody who waits for it.
//! 5. Who has room for all that it promises refuses nothing, and pays nothing for that.

use crate::firmware::Firmware;
use crate::firmware::audit::ensure;
use crate::format::words::{Lpn, Version};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use tantalum_device::IoError;

/// Writes that were let in and are not all admitted, by the order in which they were let in.
#[derive(Default)]
pub(crate) struct Coming {
    next: u64,
    writes: BTreeMap<u64, Vec<Range<u32>>>,
}

/// Discarded pages that a power loss may bring back, each with the version of the map that has its
/// discard, in order of these.
#[derive(Default)]
pub(crate) struct Discarded(VecDeque<(Version, Lpn)>);

impl Discarded {
    /// Forgets those whose discards survive a power loss.
    fn forget_until(&mut self, durable: Version) {
        while self.0.front().is_some_and(|(version, _)| *version <= durable) {
            self.0.pop_front();
        }
    }
}

/// A write that was let in; its room is kept for it while this lives.
pub(crate) struct LetIn<'a> {
    coming: &'a RefCell<Coming>,
    number: u64,
}

impl Drop for LetIn<'_> {
    fn drop(&mut self) {
        self.coming.borrow_mut().writes.remove(&self.number);
    }
}

impl Firmware {
    /// Lets a write of these ranges of pages, apart from each other, in, which has the turn to be
    /// admitted: nothing to keep if there always is room.
    ///
    /// # Errors
    /// [`IoError::NoSpace`] if there is none, and why the drive takes no writes at all.
    pub async fn let_in(&self, pages: &[Range<u32>]) -> Result<Option<LetIn<'_>>, IoError> {
        if !self.layout.is_thin() {
            return Ok(None);
        }
        loop {
            self.healthy()?;
            let each = pages.iter().cloned().flatten();
            let new = each.filter(|page| !self.is_live(Lpn(*page))).count() as u64;
            let room = u64::from(self.layout.room);
            // (The exact counts walk the buffer: seldom.)
            if new == 0 || self.live_at_most() + new <= room {
                break;
            }
            if self.live(&[], false) + new > room {
                self.stats.refused_writes.add(1);
                return Err(IoError::NoSpace);
            }
            if self.live(pages, true) <= room {
                break;
            }
            // (4)
            let last = self.discarded.borrow().0.back().map(|(version, _)| *version);
            self.make_durable(last.unwrap_or_default()).await;
        }
        let mut coming = self.coming.borrow_mut();
        let number = coming.next;
        coming.next += 1;
        coming.writes.insert(number, pages.to_vec());
        Ok(Some(LetIn { coming: &self.coming, number }))
    }

    /// A mapped page was discarded by this change of the map.
    pub fn note_discard(&self, lpn: Lpn, version: Version) {
        if self.layout.is_thin() {
            let mut discarded = self.discarded.borrow_mut();
            discarded.forget_until(self.log.borrow().durable());
            discarded.0.push_back((version, lpn));
        }
    }

    fn is_live(&self, lpn: Lpn) -> bool {
        self.map.borrow().get(lpn).is_some()
            || self.buffer.borrow().contains(lpn)
            || self.coming.borrow().writes.values().flatten().any(|pages| pages.contains(&lpn.0))
    }

    /// Live pages and discarded ones that a power loss may bring back, some of them perhaps
    /// counted twice.
    fn live_at_most(&self) -> u64 {
        let coming: u64 = {
            let coming = self.coming.borrow();
            coming.writes.values().flatten().map(|w| w.len() as u64).sum()
        };
        let discarded = {
            let mut discarded = self.discarded.borrow_mut();
            discarded.forget_until(self.log.borrow().durable());
            discarded.0.len() as u64
        };
        let buffered = self.buffer.borrow().pages().len() as u64;
        u64::from(self.map.borrow().live()) + buffered + coming + discarded
    }

    /// Live pages, and these; with `discarded` those as well that a power loss may bring back.
    fn live(&self, more: &[Range<u32>], discarded: bool) -> u64 {
        let (map, buffer, coming) = (self.map.borrow(), self.buffer.borrow(), self.coming.borrow());
        let all = coming.writes.values().flatten().chain(more);
        let mut unmapped: Vec<u32> = all.cloned().flatten().collect();
        unmapped.extend(buffer.pages().map(|lpn| lpn.0));
        if discarded {
            let mut discarded = self.discarded.borrow_mut();
            discarded.forget_until(self.log.borrow().durable());
            unmapped.extend(discarded.0.iter().map(|(_, lpn)| lpn.0));
        }
        unmapped.retain(|lpn| map.get(Lpn(*lpn)).is_none());
        unmapped.sort_unstable();
        unmapped.dedup();
        u64::from(map.live()) + unmapped.len() as u64
    }

    /// Invariants 1 and 4, of a drive that was not salvaged since it was made.
    pub fn audit_live(&self) -> Result<(), String> {
        let (live, room) = (self.live(&[], true), u64::from(self.layout.room));
        ensure(live <= room, || {
            format!("{live} logical pages are live or may be again, there is room for {room}")
        })
    }
}
