//! CLOCK (F. J. Corbató, "A paging experiment with the Multics system", 1969): a hand goes round the
//! frames; a page that was referenced since the hand passed is spared once.
//!
//! 1. A page enters unreferenced, in the frame that the hand just left.
//! 2. The hand finds a victim within two rounds: the first clears every mark.

use super::in_place::Order;
use super::page::PageId;
use super::slots::Slots;

/// See the module.
pub(super) struct Clock {
    referenced: Vec<bool>,
    hand: usize,
}

impl Clock {
    pub fn new(frames: usize) -> Clock {
        Clock { referenced: vec![false; frames], hand: 0 }
    }
}

impl Order for Clock {
    fn entered(&mut self, slot: u32, _: PageId) {
        self.referenced[slot as usize] = false;
    }

    fn touched(&mut self, slot: u32) {
        self.referenced[slot as usize] = true;
    }

    fn make_room(&mut self, _: &Slots, out: &mut Vec<u32>) {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.referenced.len();
            if !std::mem::take(&mut self.referenced[at]) {
                out.push(at as u32);
                return;
            }
        }
    }

    fn left(&mut self, _: u32) {
        // A free frame is filled before the hand moves again.
    }
}
