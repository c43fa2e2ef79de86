//! Thin provisioning: a drive that promises more than it can keep refuses new data before
//! they would stand in collection's way.
//!
//! 1. Live are the logical pages that are mapped, those that are buffered, and those of writes that
//!    were granted room and are not all admitted yet. A write that would make them more than the
//!    layout's room is refused before anything of it is admitted, and leaves no trace. (A salvage
//!    may bring back what was discarded: then nothing new is granted room until less is live.)
//! 2. Writes of live pages, reads, flushes and discards are never refused for want of room.
//! 3. It is decided when a write has the turn to be admitted: the order of arrival decides who
//!    gets the room.
//! 4. A power loss leaves no more than there is room for, whatever it takes. It may take a discard
//!    and leave a write that came after it: so a discarded page counts as live until its discard
//!    is durable. A write that has room only without such pages makes the discards durable, and
//!    waits for that; it asks for that itself, so it never waits for somebody who waits for it.
//! 5. Who has room for all that it promises refuses nothing, and pays nothing for that.

use crate::firmware::Firmware;
use crate::format::words::{Lpn, Version};
use crate::state::audit::ensure;
use crate::state::grants::Grant;
use std::ops::Range;
use tantalum_device::IoError;

impl Firmware {
    /// Grants room to a write of these ranges of pages, which do not overlap. The caller has the
    /// turn to be admitted. Nothing to keep if there always is room.
    ///
    /// # Errors
    /// [`IoError::NoSpace`] if there is none, and why the drive takes no writes at all.
    pub async fn grant_room(&self, pages: &[Range<u32>]) -> Result<Option<Grant<'_>>, IoError> {
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
            let last = self.host.discarded.borrow().newest();
            self.make_durable(last).await;
        }
        Ok(Some(Grant::new(&self.host.grants, pages)))
    }

    /// A mapped page was discarded by this change of the map.
    pub fn note_discard(&self, lpn: Lpn, version: Version) {
        if self.layout.is_thin() {
            let mut discarded = self.host.discarded.borrow_mut();
            discarded.forget_until(self.state.log.borrow().durable());
            discarded.push(version, lpn);
        }
    }

    fn is_live(&self, lpn: Lpn) -> bool {
        self.state.map.borrow().get(lpn).is_some()
            || self.state.buffer.borrow().contains(lpn)
            || self.host.grants.borrow().pages().any(|pages| pages.contains(&lpn.0))
    }

    /// Live pages and discarded ones that a power loss may bring back, some of them perhaps
    /// counted twice.
    fn live_at_most(&self) -> u64 {
        let granted: u64 = self.host.grants.borrow().pages().map(|pages| pages.len() as u64).sum();
        let discarded = {
            let mut discarded = self.host.discarded.borrow_mut();
            discarded.forget_until(self.state.log.borrow().durable());
            discarded.len() as u64
        };
        let buffered = self.state.buffer.borrow().pages().len() as u64;
        u64::from(self.state.map.borrow().live()) + buffered + granted + discarded
    }

    /// Live pages, and these; with `discarded` those as well that a power loss may bring back.
    fn live(&self, more: &[Range<u32>], discarded: bool) -> u64 {
        let (map, buffer, grants) =
            (self.state.map.borrow(), self.state.buffer.borrow(), self.host.grants.borrow());
        let all = grants.pages().chain(more);
        let mut unmapped: Vec<u32> = all.cloned().flatten().collect();
        unmapped.extend(buffer.pages().map(|lpn| lpn.0));
        if discarded {
            let mut discarded = self.host.discarded.borrow_mut();
            discarded.forget_until(self.state.log.borrow().durable());
            unmapped.extend(discarded.pages().map(|lpn| lpn.0));
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
