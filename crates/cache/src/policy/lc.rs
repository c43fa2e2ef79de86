//! Lazy cleaning (Do, Zhang, Patel, DeWitt, Naughton, Halverson, "Turbocharging DBMS buffer pool
//! using SSDs", SIGMOD 2011), as FaCE (VLDB Journal 2016) compares itself with it.
//!
//! 1. Pages enter on exit, clean and dirty, into one frame each, which later versions overwrite in
//!    place.
//! 2. When more than the threshold of all frames are dirty, the cleaner writes the coldest dirty
//!    pages to the slow store until a hundredth of the frames less are dirty. A frame is clean when
//!    the slow store has its version for good, and not before.
//! 3. The victim is the coldest clean page. Only if there is none, it is the page whose cleaning
//!    began first, and then the coldest dirty page, which goes to the slow store first.
//! 4. A slot is dirty here exactly if [`Slots`] has it as dirty.
//! 5. Changes of the directory go into the database's log: no metadata is written to flash.

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

    fn make_room(&mut self, work: &mut Work) {
        if self.slots.is_full()
            && let Some(slot) = self.order.victim()
        {
            self.slots.clean(slot, work);
            self.order.left(slot, self.slots.get(slot).version.page);
            self.slots.free(slot);
        }
    }

    fn clean_lazily(&mut self, work: &mut Work) {
        if self.slots.dirty() <= self.dirty_max {
            return;
        }
        while self.slots.dirty() > self.dirty_aim
            && let Some(slot) = self.order.begin_cleaning()
        {
            self.slots.clean(slot, work);
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
        match self.slots.find(exit.page) {
            Some(_) if !exit.fdirty => return,
            Some(slot) => {
                self.slots.overwrite(slot, exit.lsn, dirty, work);
                self.order.overwritten(slot, dirty);
            }
            None => {
                self.make_room(work);
                let slot = self.slots.enter(version, dirty, work);
                self.order.entered(slot, exit.page, dirty);
            }
        }
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
        while let Some(slot) = self.order.begin_cleaning() {
            self.slots.clean(slot, work);
        }
    }

    fn cleaned(&mut self, version: Version) {
        if let Some(slot) = self.slots.find(version.page)
            && self.slots.get(slot).version == version
        {
            self.order.cleaned(slot);
        }
    }

    fn occupancy(&self) -> Occupancy {
        self.slots.occupancy()
    }

    fn flash_bytes(&self) -> u64 {
        self.slots.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::NoPull;

    fn leaves(cache: &mut LazyCleaning, page: u64, lsn: u64, dirty: bool) -> Vec<Version> {
        let mut work = Work::new();
        let (page, lsn) = (PageId(page), Lsn(lsn));
        let exit = Exit { page, client: 0, lsn, dirty, fdirty: dirty };
        cache.evict(exit, &mut NoPull, &mut work);
        work.copied().collect()
    }

    fn has(cache: &LazyCleaning, page: u64) -> bool {
        cache.slots.find(PageId(page)).is_some()
    }

    /// Twenty frames, in use: 17 dirty pages, and two that are being cleaned, and a clean one.
    fn full() -> (LazyCleaning, Vec<Version>) {
        let mut cache = LazyCleaning::new(20, 4096, Mode::Back, 90);
        let copied: Vec<Version> = (0..19).flat_map(|p| leaves(&mut cache, p, p, true)).collect();
        assert_eq!(copied, [0, 1].map(|p| Version { page: PageId(p), lsn: Lsn(p) }));
        assert_eq!(leaves(&mut cache, 19, 0, false), []);
        (cache, copied)
    }

    #[test]
    fn a_page_is_not_replaced_before_its_cleaning_has_ended() {
        let (mut cache, copied) = full();
        assert_eq!(leaves(&mut cache, 20, 0, false), []);
        assert!(!has(&cache, 19) && has(&cache, 0) && has(&cache, 1));
        cache.cleaned(copied[1]);
        assert_eq!(leaves(&mut cache, 21, 0, false), []);
        assert!(has(&cache, 20) && has(&cache, 0) && !has(&cache, 1));
    }

    #[test]
    fn without_a_clean_page_the_first_that_is_being_cleaned_is_replaced() {
        let (mut cache, _) = full();
        cache.forget(PageId(19), &mut Work::new());
        leaves(&mut cache, 20, 20, true);
        assert_eq!(leaves(&mut cache, 21, 0, false), []);
        assert!(!has(&cache, 0) && has(&cache, 1));
    }

    #[test]
    fn the_end_of_an_older_versions_cleaning_cleans_nothing() {
        let (mut cache, copied) = full();
        // Page 0 changes while it is being cleaned, and then its new version is being cleaned.
        leaves(&mut cache, 0, 30, true);
        let mut work = Work::new();
        cache.clean(&mut work);
        assert_eq!(work.copied().last(), Some(Version { page: PageId(0), lsn: Lsn(30) }));
        cache.cleaned(copied[0]);
        // No page is clean, and the cleaning of page 1 began first.
        cache.forget(PageId(19), &mut work);
        leaves(&mut cache, 20, 20, true);
        leaves(&mut cache, 21, 0, false);
        assert!(has(&cache, 0) && !has(&cache, 1));
    }
}
