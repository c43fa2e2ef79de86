//! Atomic groups told of by one flag beside each page (Ouyang et al., "Beyond Block I/O", HPCA
//! 2011, section 3), as a choice beside records of the map log (`group`): to see what these gain.
//!
//! 1. One group is under way at a time, and nothing else of the host is programmed between its
//!    first page and its last. Each page says that it is of a group, and each but the last one that
//!    more of it comes. The last is programmed when all others are on flash.
//! 2. The group is whole when its last page is on flash: then it is mapped, and complete. The map log
//!    hears of it like of any other change.
//! 3. A restart reads what is beside all pages of the host, in the order of their sequence numbers:
//!    pages of a group without its last are what a power loss left of it, and are void.
//! 4. What the log told after the last page of a group was programmed is newer than the group, what
//!    it told before is older: it writes nothing while a last page is under way.
//! 5. Each page has the number at which its group began: since units are collected, groups may
//!    have lost their last pages later, and must not pass for the beginning of the next one.
//!    (A log that is truncated, as the published one, needs no such number.)
//! 6. What is on flash of a group is not collected before it is whole. (A flag does not say how
//!    many pages there were: one that is missing would not be missed.)

use crate::firmware::Firmware;
use crate::format::words::{MORE, PART};
use crate::planted::planted;
use tantalum_nand::Unit;

impl Firmware {
    /// How many of the pages that wait may be programmed now: the last of a group that flags
    /// tell of waits for the others.
    pub fn takeable(&self) -> u32 {
        if !self.design.flags_groups() || !self.groups.borrow().are_open() {
            return u32::MAX;
        }
        let (waiting, left) = (self.buffer.borrow().waiting(), self.groups.borrow().left());
        match waiting {
            1 => u32::from(left == 1 || planted!(FlagOnWrongPage)),
            waiting => waiting.saturating_sub(1),
        }
    }

    /// What is beside pages that were just taken from the buffer.
    pub fn group_flags(&self, grouped: bool) -> u64 {
        if !grouped || !self.design.flags_groups() {
            return 0;
        }
        match self.groups.borrow().left() {
            1 => PART,
            _ if planted!(FlagOnWrongPage) && self.buffer.borrow().waiting() == 0 => PART,
            _ => PART | MORE,
        }
    }

    /// Pages of such a group are on flash: when all are, they are mapped.
    pub fn landed_with_flags(&self, unit: Unit, pages: u32) {
        self.groups.borrow_mut().pinned.push((unit, pages));
        if self.groups.borrow().left() == 0 {
            let (whole, pinned) = {
                let mut groups = self.groups.borrow_mut();
                (groups.only(), std::mem::take(&mut groups.pinned))
            };
            if let Some(whole) = whole {
                self.map_group(&whole);
            }
            pinned.into_iter().for_each(|(unit, pages)| self.landed(unit, pages));
        } else if self.groups.borrow().left() == 1 {
            self.work.notify_all();
        }
    }
}
