//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023, algorithm 1).
//!
//! 1. Three queues: small (a tenth of the cache), main (the rest), and ghosts: numbers of pages that
//!    left the small queue, as many as main has frames.
//! 2. A page enters small, or main if it is a ghost. A hit adds one to its count, up to three.
//! 3. While small has a tenth of the cache or more, pages leave small: one that was asked for more
//!    than once goes to main (its count cleared), any other leaves and becomes a ghost. Else pages
//!    leave main: one with a count goes round again with one less, one without leaves.

use super::in_place::Order;
use super::list::{List, NONE};
use super::page::PageId;
use super::remembered::Remembered;
use super::slots::Slots;

/// A page's count is at most this.
const COUNT_MAX: u8 = 3;

#[derive(Clone, Copy, Default)]
struct Use {
    count: u8,
    in_main: bool,
}

/// See the module.
pub(super) struct S3Fifo {
    small: List,
    main: List,
    uses: Vec<Use>,
    ghosts: Remembered<()>,
    small_target: usize,
}

impl S3Fifo {
    pub fn new(frames: usize) -> S3Fifo {
        let small_target = (frames / 10).max(1);
        S3Fifo {
            small: List::new(frames),
            main: List::new(frames),
            uses: vec![Use::default(); frames],
            ghosts: Remembered::new(frames - small_target),
            small_target,
        }
    }

    fn main_capacity(&self) -> usize {
        self.uses.len() - self.small_target
    }

    fn leave_small(&mut self, slots: &Slots, out: &mut Vec<u32>) {
        while self.small.len() > 0 {
            let slot = self.small.tail();
            self.small.remove(slot);
            if self.uses[slot as usize].count <= 1 {
                self.ghosts.insert(slots.get(slot).version.page, ());
                out.push(slot);
                return;
            }
            // The page goes to main; a full main gives up a page of its own for it.
            if self.main.len() >= self.main_capacity() {
                self.leave_main(out);
            }
            self.uses[slot as usize] = Use { count: 0, in_main: true };
            self.main.push_head(slot);
        }
    }

    fn leave_main(&mut self, out: &mut Vec<u32>) {
        while self.main.tail() != NONE {
            let slot = self.main.tail();
            let uses = &mut self.uses[slot as usize];
            if uses.count == 0 {
                self.main.remove(slot);
                out.push(slot);
                return;
            }
            uses.count -= 1;
            self.main.move_to_head(slot);
        }
    }
}

impl Order for S3Fifo {
    fn entered(&mut self, slot: u32, page: PageId) {
        let in_main = self.ghosts.take(page).is_some();
        self.uses[slot as usize] = Use { count: 0, in_main };
        let queue = if in_main { &mut self.main } else { &mut self.small };
        queue.push_head(slot);
    }

    fn touched(&mut self, slot: u32) {
        let uses = &mut self.uses[slot as usize];
        uses.count = (uses.count + 1).min(COUNT_MAX);
    }

    fn make_room(&mut self, slots: &Slots, out: &mut Vec<u32>) {
        while out.is_empty() {
            match self.small.len() >= self.small_target {
                true => self.leave_small(slots, out),
                false => self.leave_main(out),
            }
        }
    }

    fn left(&mut self, slot: u32) {
        let queue = if self.uses[slot as usize].in_main { &mut self.main } else { &mut self.small };
        queue.remove(slot);
    }
}
