//! Least recently used.
//!
//! 1. The list has the slots in use, the most recently used at its head.

use super::in_place::Order;
use super::list::List;
use super::page::PageId;
use super::slots::Slots;

/// See the module.
pub(super) struct Lru {
    list: List,
}

impl Lru {
    pub fn new(frames: usize) -> Lru {
        Lru { list: List::new(frames) }
    }
}

impl Order for Lru {
    fn entered(&mut self, slot: u32, _: PageId) {
        self.list.push_head(slot);
    }

    fn touched(&mut self, slot: u32) {
        self.list.move_to_head(slot);
    }

    fn make_room(&mut self, _: &Slots, out: &mut Vec<u32>) {
        let slot = self.list.tail();
        self.list.remove(slot);
        out.push(slot);
    }

    fn left(&mut self, slot: u32) {
        self.list.remove(slot);
    }
}
