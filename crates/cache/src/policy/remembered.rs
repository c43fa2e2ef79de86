//! What is remembered of the pages that left last, in a queue of fixed length.
//!
//! 1. **Bounded**: at most as many pages as the capacity, the oldest of which is forgotten first.
//! 2. A page that is taken out keeps its place in the queue until it would have been forgotten.

use super::page::PageId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// See the module.
pub(super) struct Remembered<T> {
    /// Of each page, what is remembered and the number of its place.
    pages: FxHashMap<PageId, (T, u64)>,
    queue: VecDeque<(PageId, u64)>,
    capacity: usize,
    now: u64,
}

impl<T> Remembered<T> {
    pub fn new(capacity: usize) -> Remembered<T> {
        let (pages, queue) = (FxHashMap::default(), VecDeque::new());
        Remembered { pages, queue, capacity, now: 0 }
    }

    pub fn insert(&mut self, page: PageId, what: T) {
        self.now += 1;
        self.pages.insert(page, (what, self.now));
        self.queue.push_back((page, self.now));
        if self.queue.len() > self.capacity
            && let Some((oldest, place)) = self.queue.pop_front()
            && self.pages.get(&oldest).is_some_and(|(_, at)| *at == place)
        {
            self.pages.remove(&oldest);
        }
    }

    pub fn take(&mut self, page: PageId) -> Option<T> {
        self.pages.remove(&page).map(|(what, _)| what)
    }
}
