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
//! 4. What is mapped was live before: so a power loss, whatever it takes, leaves no more than
//!    there is room for.
//! 5. Who has room for all that it promises refuses nothing, and pays nothing for that.

use crate::audit::ensure;
use crate::firmware::Firmware;
use crate::types::Lpn;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use tantalum_device::IoError;

/// Writes that were let in and are not all admitted, by the order in which they were let in.
#[derive(Default)]
pub(crate) struct Coming {
    next: u64,
    writes: BTreeMap<u64, Vec<Range<u32>>>,
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
    pub fn let_in(&self, pages: &[Range<u32>]) -> Result<Option<LetIn<'_>>, IoError> {
        if !self.layout.is_thin() {
            return Ok(None);
        }
        self.healthy()?;
        let each = pages.iter().cloned().flatten();
        let new = each.filter(|page| !self.is_live(Lpn(*page))).count() as u64;
        let room = u64::from(self.layout.room);
        // (The exact count walks the buffer: seldom.)
        if new > 0 && self.live_at_most() + new > room && self.live() + new > room {
            self.stats.refused_writes.add(1);
            return Err(IoError::NoSpace);
        }
        let mut coming = self.coming.borrow_mut();
        let number = coming.next;
        coming.next += 1;
        coming.writes.insert(number, pages.to_vec());
        Ok(Some(LetIn { coming: &self.coming, number }))
    }

    fn is_live(&self, lpn: Lpn) -> bool {
        self.map.borrow().get(lpn).is_some()
            || self.buffer.borrow().contains(lpn)
            || self.coming.borrow().writes.values().flatten().any(|pages| pages.contains(&lpn.0))
    }

    /// Live pages, some of them perhaps counted twice.
    fn live_at_most(&self) -> u64 {
        let coming: u64 = {
            let coming = self.coming.borrow();
            coming.writes.values().flatten().map(|w| w.len() as u64).sum()
        };
        u64::from(self.map.borrow().live()) + self.buffer.borrow().pages().len() as u64 + coming
    }

    fn live(&self) -> u64 {
        let (map, buffer, coming) = (self.map.borrow(), self.buffer.borrow(), self.coming.borrow());
        let mut unmapped: Vec<u32> = coming.writes.values().flatten().cloned().flatten().collect();
        unmapped.extend(buffer.pages().map(|lpn| lpn.0));
        unmapped.retain(|lpn| map.get(Lpn(*lpn)).is_none());
        unmapped.sort_unstable();
        unmapped.dedup();
        u64::from(map.live()) + unmapped.len() as u64
    }

    /// Invariant 1, of a drive that was not salvaged since it was made.
    pub fn audit_live(&self) -> Result<(), String> {
        let (live, room) = (self.live(), u64::from(self.layout.room));
        ensure(live <= room, || format!("{live} logical pages are live, there is room for {room}"))
    }
}
