//! LRU-2 (O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm", SIGMOD 1993): the page
//! whose last access but one is the longest ago is replaced first.
//!
//! 1. A page without a second access is replaced before all with one, the least recent first.
//! 2. The last access of a page that left is remembered (the paper's retained information), of as
//!    many pages as there are slots: if the page comes back, it has a last access but one.

use super::heap::Heap;
use super::page::PageId;
use super::remembered::Remembered;

/// Times of the last access but one (0: there was none) and of the last one.
type Times = (u64, u64);

/// See the module.
pub(super) struct Lru2 {
    times: Vec<Times>,
    order: Heap<Times>,
    dirty: Heap<Times>,
    history: Remembered<u64>,
    now: u64,
}

impl Lru2 {
    pub fn new(frames: usize) -> Lru2 {
        Lru2 {
            times: vec![(0, 0); frames],
            order: Heap::new(frames),
            dirty: Heap::new(frames),
            history: Remembered::new(frames),
            now: 0,
        }
    }

    pub fn entered(&mut self, slot: u32, page: PageId) {
        self.now += 1;
        let times = (self.history.take(page).unwrap_or(0), self.now);
        self.times[slot as usize] = times;
        self.order.set(slot, times);
    }

    pub fn touched(&mut self, slot: u32) {
        self.now += 1;
        let times = (self.times[slot as usize].1, self.now);
        self.times[slot as usize] = times;
        self.order.set(slot, times);
        self.dirty.change(slot, times);
    }

    /// Sets whether a slot in use is among the dirty ones.
    pub fn mark(&mut self, slot: u32, dirty: bool) {
        match dirty {
            true => self.dirty.set(slot, self.times[slot as usize]),
            false => self.dirty.remove(slot),
        }
    }

    /// The slot that is replaced first.
    pub fn coldest(&self) -> Option<u32> {
        self.order.first()
    }

    /// The dirty slot that is replaced first.
    pub fn coldest_dirty(&self) -> Option<u32> {
        self.dirty.first()
    }

    pub fn left(&mut self, slot: u32, page: PageId) {
        self.history.insert(page, self.times[slot as usize].1);
        self.order.remove(slot);
        self.dirty.remove(slot);
    }
}
