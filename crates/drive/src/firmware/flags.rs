//! Atomic groups marked by one flag beside each page (Ouyang et al., "Beyond Block I/O", HPCA 2011,
//! section 3). It is an alternative to records of the map log, to measure what the records gain.
//!
//! 1. One group is under way at a time, and nothing else of the host is programmed between its
//!    first page and its last. Each page is marked as one of a group, and each but the last also
//!    that more of the group comes. The last is programmed when all others are on flash.
//! 2. The group is whole when its last page is on flash: then it is mapped, and complete. The map
//!    log stores it like any other change.
//! 3. A restart reads what is beside all pages of the host, in the order of their sequence numbers:
//!    pages of a group without its last page are void: a power loss interrupted the group.
//! 4. Records that the log wrote after the last page of a group was programmed are newer than the
//!    group; earlier ones are older. The log writes nothing while a last page is under way.
//! 5. Each page has the number at which its group began: since units are collected, groups may
//!    have lost their last pages later, and must not pass for the beginning of the next one.
//!    (A log that is truncated, as the published one, needs no such number.)
//! 6. What is on flash of a group is not collected before it is whole. (A flag does not say how
//!    many pages there were: one that is missing would not be missed.)

use crate::firmware::Firmware;
use crate::firmware::events::{Grouping, Marks};
use crate::format::words::{MORE, PART};
use crate::planted::planted;
use std::cell::RefCell;
use tantalum_nand::Unit;
use tantalum_rt::Rt;
use tantalum_rt::sync::Mutex;

pub(crate) struct Flags {
    /// Whose turn it is between the keeper of the log and the last page of a group (4).
    last_page: Mutex,
    /// Programs of the group: what they brought is not collected before it is whole (6).
    pinned: RefCell<Vec<(Unit, u32)>>,
}

impl Flags {
    pub fn new(rt: &Rt) -> Flags {
        let last_page = Mutex::new(rt, "the last page of an atomic group");
        Flags { last_page, pinned: RefCell::default() }
    }
}

impl Grouping for Flags {
    fn is_alone(&self) -> bool {
        true
    }

    fn last_page(&self) -> Option<&Mutex> {
        Some(&self.last_page)
    }

    /// The last page of a group waits for the others.
    fn takeable(&self, fw: &Firmware) -> u32 {
        let (waiting, left) =
            (fw.state.buffer.borrow().waiting(), fw.groups.under_way.borrow().left());
        match waiting {
            1 => u32::from(left == 1 || planted!(FlagOnWrongPage)),
            waiting => waiting.saturating_sub(1),
        }
    }

    fn marks(&self, fw: &Firmware) -> Marks {
        let groups = fw.groups.under_way.borrow();
        let flags = match groups.left() {
            1 => PART,
            _ if planted!(FlagOnWrongPage) && fw.state.buffer.borrow().waiting() == 0 => PART,
            _ => PART | MORE,
        };
        Marks { flags, began: groups.began() }
    }

    /// When all pages of the group are on flash they are mapped.
    fn landed(&self, fw: &Firmware, unit: Unit, pages: u32) {
        self.pinned.borrow_mut().push((unit, pages));
        let left = fw.groups.under_way.borrow().left();
        if left == 0 {
            let whole = fw.groups.under_way.borrow().only();
            if let Some(whole) = whole {
                fw.map_group(&whole);
            }
            let pinned = self.pinned.take();
            pinned.into_iter().for_each(|(unit, pages)| fw.landed(unit, pages));
        } else if left == 1 {
            fw.flusher.work.notify_all();
        }
    }
}
