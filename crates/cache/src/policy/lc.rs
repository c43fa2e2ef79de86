//! Lazy cleaning (Do, Zhang, Patel, DeWitt, Naughton, Halverson, "Turbocharging DBMS buffer pool
//! using SSDs", SIGMOD 2011), as FaCE (VLDB Journal 2016) compares itself with it.
//!
//! 1. Pages enter on exit, clean and dirty, into one frame each, which later versions overwrite in
//!    place. The victim is chosen by LRU-2; a dirty victim goes to the slow store first.
//! 2. When more than the threshold of all frames are dirty, the cleaner writes the coldest dirty
//!    pages to the slow store until a hundredth of the frames less are dirty.
//! 3. Changes of the directory go into the database's log: no metadata is written to flash.

use super::contract::{Access, Exit, Hit, Mode, Occupancy, Policy, Pull};
use super::lru2::Lru2;
use super::page::{Lsn, PageId, Version};
use super::slots::Slots;
use super::work::{Source, Work};

/// See the module.
pub(super) struct LazyCleaning {
    slots: Slots,
    order: Lru2,
    mode: Mode,
    dirty_max: u64,
    dirty_aim: u64,
}

impl LazyCleaning {
    /// `dirty_percent` is the cleaner's threshold.
    pub fn new(frames: usize, page_bytes: u64, mode: Mode, dirty_percent: u8) -> LazyCleaning {
        let dirty_max = frames as u64 * u64::from(dirty_percent) / 100;
        LazyCleaning {
            slots: Slots::new(frames, page_bytes),
            order: Lru2::new(frames),
            mode,
            dirty_max,
            dirty_aim: dirty_max.saturating_sub((frames as u64 / 100).max(1)),
        }
    }

    fn clean_slot(&mut self, slot: u32, work: &mut Work) {
        self.slots.clean(slot, work);
        self.order.mark(slot, false);
    }

    fn make_room(&mut self, work: &mut Work) {
        if self.slots.is_full()
            && let Some(slot) = self.order.coldest()
        {
            self.clean_slot(slot, work);
            self.order.left(slot, self.slots.get(slot).version.page);
            self.slots.free(slot);
        }
    }

    fn clean_lazily(&mut self, work: &mut Work) {
        if self.slots.dirty() <= self.dirty_max {
            return;
        }
        while self.slots.dirty() > self.dirty_aim
            && let Some(slot) = self.order.coldest_dirty()
        {
            self.clean_slot(slot, work);
        }
    }
}

impl Policy for LazyCleaning {
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit> {
        let slot = self.slots.find(access.page)?;
        self.order.touched(slot);
        Some(self.slots.read(slot, work))
    }

    fn fetched(&mut self, _: Access, _: Lsn, _: &mut Work) {}

    fn evict(&mut self, exit: Exit, _: &mut dyn Pull, work: &mut Work) {
        let version = Version { page: exit.page, lsn: exit.lsn };
        let dirty = exit.dirty && self.mode == Mode::Back;
        if exit.dirty && !dirty {
            work.slow_write(version, Source::Ram);
        }
        let slot = match self.slots.find(exit.page) {
            Some(_) if !exit.fdirty => return,
            Some(slot) => {
                self.order.touched(slot);
                self.slots.overwrite(slot, exit.lsn, dirty, work);
                slot
            }
            None => {
                self.make_room(work);
                let slot = self.slots.enter(version, dirty, work);
                self.order.entered(slot, exit.page);
                slot
            }
        };
        self.order.mark(slot, dirty);
        self.clean_lazily(work);
    }

    fn forget(&mut self, page: PageId, _: &mut Work) {
        if let Some(slot) = self.slots.find(page) {
            self.order.left(slot, page);
            self.slots.free(slot);
        }
    }

    fn flush(&mut self, _: &mut Work) {}

    fn clean(&mut self, work: &mut Work) {
        while let Some(slot) = self.order.coldest_dirty() {
            self.clean_slot(slot, work);
        }
    }

    fn occupancy(&self) -> Occupancy {
        self.slots.occupancy()
    }

    fn flash_bytes(&self) -> u64 {
        self.slots.bytes()
    }
}
