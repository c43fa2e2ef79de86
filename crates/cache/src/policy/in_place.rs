//! Caches on entry with one frame for each page, overwritten in place: LRU, CLOCK, S3-FIFO, SIEVE.
//!
//! The order of replacement is a part of its own ([`Order`]). No metadata is written to flash: these
//! caches lose their contents in a crash, which is the best case for their flash writes.
//!
//! 1. A page that is read from the slow store enters clean. A dirty exit overwrites the page's frame,
//!    or enters if there is none.
//! 2. A clean exit changes nothing, unless the frame has an older version: it is overwritten.
//! 3. The order knows exactly the slots in use.

use super::contract::{Access, Exit, Hit, Mode, Occupancy, Policy, Pull};
use super::page::{Lsn, PageId, Version};
use super::slots::Slots;
use super::work::{Source, Work};

/// The order in which slots are replaced.
pub(super) trait Order {
    /// A page came into a slot.
    fn entered(&mut self, slot: u32, page: PageId);
    /// The slot's page was asked for, or written again.
    fn touched(&mut self, slot: u32);
    /// All slots are in use: removes one or more from the order, and adds them to `out`.
    fn make_room(&mut self, slots: &Slots, out: &mut Vec<u32>);
    /// The slot's page was forgotten: removes the slot from the order.
    fn left(&mut self, slot: u32);
}

/// See the module.
pub(super) struct InPlace<O> {
    slots: Slots,
    order: O,
    mode: Mode,
    leaving: Vec<u32>,
}

impl<O: Order> InPlace<O> {
    pub fn new(frames: usize, page_bytes: u64, mode: Mode, order: O) -> InPlace<O> {
        InPlace { slots: Slots::new(frames, page_bytes), order, mode, leaving: Vec::new() }
    }

    fn enter(&mut self, version: Version, dirty: bool, work: &mut Work) {
        if self.slots.is_full() {
            self.order.make_room(&self.slots, &mut self.leaving);
            for slot in self.leaving.drain(..) {
                self.slots.clean(slot, work);
                self.slots.free(slot);
            }
        }
        let slot = self.slots.enter(version, dirty, work);
        self.order.entered(slot, version.page);
    }
}

impl<O: Order> Policy for InPlace<O> {
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit> {
        let slot = self.slots.find(access.page)?;
        self.order.touched(slot);
        Some(self.slots.read(slot, work))
    }

    fn fetched(&mut self, access: Access, lsn: Lsn, work: &mut Work) {
        if self.slots.find(access.page).is_none() {
            self.enter(Version { page: access.page, lsn }, false, work);
        }
    }

    fn evict(&mut self, exit: Exit, _: &mut dyn Pull, work: &mut Work) {
        let slot = self.slots.find(exit.page);
        let enters = if slot.is_some() { exit.fdirty } else { exit.dirty };
        if !enters {
            return;
        }
        let version = Version { page: exit.page, lsn: exit.lsn };
        let dirty = exit.dirty && self.mode == Mode::Back;
        if exit.dirty && !dirty {
            work.slow_write(version, Source::Ram);
        }
        match slot {
            Some(slot) => {
                self.order.touched(slot);
                self.slots.overwrite(slot, exit.lsn, dirty, work);
            }
            None => self.enter(version, dirty, work),
        }
    }

    fn forget(&mut self, page: PageId, _: &mut Work) {
        if let Some(slot) = self.slots.find(page) {
            self.order.left(slot);
            self.slots.free(slot);
        }
    }

    fn flush(&mut self, _: &mut Work) {}

    fn clean(&mut self, work: &mut Work) {
        for slot in self.slots.dirty_slots() {
            self.slots.clean(slot, work);
        }
    }

    fn occupancy(&self) -> Occupancy {
        self.slots.occupancy()
    }

    fn flash_bytes(&self) -> u64 {
        self.slots.bytes()
    }
}
