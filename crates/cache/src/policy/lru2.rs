//! LRU-2 (O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm", SIGMOD 1993): the page
//! whose last access but one is the longest ago is replaced first.
//!
//! 1. A page without a second access is replaced before all with one, the least recent first.
//! 2. The last access of a page that left is remembered (the paper's retained information), of as
//!    many pages as there are slots: if the page comes back, it has a last access but one.

use super::page::PageId;
use super::remembered::Remembered;
use std::collections::BTreeSet;

/// Times of the last access but one (0: there was none) and of the last one.
type Times = (u64, u64);

/// See the module.
pub(super) struct Lru2 {
    times: Vec<Times>,
    order: BTreeSet<(Times, u32)>,
    dirty: BTreeSet<(Times, u32)>,
    history: Remembered<u64>,
    now: u64,
}

impl Lru2 {
    pub fn new(frames: usize) -> Lru2 {
        Lru2 {
            times: vec![(0, 0); frames],
            order: BTreeSet::new(),
            dirty: BTreeSet::new(),
            history: Remembered::new(frames),
            now: 0,
        }
    }

    pub fn entered(&mut self, slot: u32, page: PageId) {
        self.now += 1;
        let last = self.history.take(page).unwrap_or(0);
        self.times[slot as usize] = (last, self.now);
        self.order.insert((self.times[slot as usize], slot));
    }

    pub fn touched(&mut self, slot: u32) {
        self.now += 1;
        let was = self.times[slot as usize];
        let is = (was.1, self.now);
        self.times[slot as usize] = is;
        self.order.remove(&(was, slot));
        self.order.insert((is, slot));
        if self.dirty.remove(&(was, slot)) {
            self.dirty.insert((is, slot));
        }
    }

    /// Sets whether a slot in use is among the dirty ones.
    pub fn mark(&mut self, slot: u32, dirty: bool) {
        let entry = (self.times[slot as usize], slot);
        match dirty {
            true => self.dirty.insert(entry),
            false => self.dirty.remove(&entry),
        };
    }

    /// The slot that is replaced first.
    pub fn coldest(&self) -> Option<u32> {
        self.order.first().map(|&(_, slot)| slot)
    }

    /// The dirty slot that is replaced first.
    pub fn coldest_dirty(&self) -> Option<u32> {
        self.dirty.first().map(|&(_, slot)| slot)
    }

    pub fn left(&mut self, slot: u32, page: PageId) {
        let entry = (self.times[slot as usize], slot);
        self.history.insert(page, entry.0.1);
        self.order.remove(&entry);
        self.dirty.remove(&entry);
    }
}
