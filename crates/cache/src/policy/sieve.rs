//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU", NSDI 2024, algorithm 1).
//!
//! 1. New pages enter at the head of a queue. A hit only sets the page's mark: pages never move.
//! 2. A hand goes from the tail to the head, and from there to the tail again. It clears marks that
//!    are set, and evicts the first page without. The hand stays where that page was.

use super::in_place::Order;
use super::list::{List, NONE};
use super::page::PageId;
use super::slots::Slots;

/// See the module.
pub(super) struct Sieve {
    queue: List,
    visited: Vec<bool>,
    hand: u32,
}

impl Sieve {
    pub fn new(frames: usize) -> Sieve {
        Sieve { queue: List::new(frames), visited: vec![false; frames], hand: NONE }
    }

    fn remove(&mut self, slot: u32) {
        if self.hand == slot {
            self.hand = self.queue.before(slot);
        }
        self.queue.remove(slot);
    }
}

impl Order for Sieve {
    fn entered(&mut self, slot: u32, _: PageId) {
        self.visited[slot as usize] = false;
        self.queue.push_head(slot);
    }

    fn touched(&mut self, slot: u32) {
        self.visited[slot as usize] = true;
    }

    fn make_room(&mut self, _: &Slots, out: &mut Vec<u32>) {
        loop {
            if self.hand == NONE {
                self.hand = self.queue.tail();
            }
            let at = self.hand;
            if !std::mem::take(&mut self.visited[at as usize]) {
                self.remove(at);
                out.push(at);
                return;
            }
            self.hand = self.queue.before(at);
        }
    }

    fn left(&mut self, slot: u32) {
        self.remove(slot);
    }
}
