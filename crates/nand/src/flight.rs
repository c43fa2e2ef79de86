//! The table of operations in flight, and what a power loss makes of them
//! (invariant 5); snapshots of all that survives.

use crate::store::{Cells, Store};
use crate::timing::Schedule;
use crate::{Geometry, PageAddr, Timing, Unit};
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_rt::{Nanos, Stream};

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// A read.
    Read,
    /// A program.
    Program,
    /// An erase.
    Erase,
}

#[derive(Clone)]
pub(crate) enum Effect {
    Program { at: PageAddr, count: u32, failed: bool },
    Erase { unit: Unit, cells: Option<Rc<Cells>>, next: u32, half_erased: bool },
}

/// An operation that changes cells, from its issue to its end.
#[derive(Clone)]
struct Flight {
    start: Nanos,
    end: Nanos,
    /// It had begun when an image was taken: before the image's time zero.
    begun: bool,
    effect: Effect,
}

/// Operations in flight, by die, in order of issue.
#[derive(Clone)]
pub(crate) struct Flights {
    dies: Vec<VecDeque<Flight>>,
}

impl Flights {
    pub fn new(dies: u32) -> Flights {
        Flights { dies: vec![VecDeque::new(); dies as usize] }
    }

    /// An operation is issued at `now`; its die works on it from `start` to `end`.
    pub fn push(&mut self, die: u32, now: Nanos, start: Nanos, end: Nanos, effect: Effect) {
        let queue = &mut self.dies[die as usize];
        while queue.front().is_some_and(|f| f.end <= now) {
            queue.pop_front();
        }
        queue.push_back(Flight { start, end, begun: false, effect });
    }

    /// The power is gone at `now`. In reverse order of issue, so that what never
    /// began is undone first. Returns a word that stands for what became of all.
    pub fn power_off(&mut self, now: Nanos, store: &mut Store, dice: &mut Stream) -> u64 {
        let mut word = now.0;
        for queue in &mut self.dies {
            while let Some(f) = queue.pop_back() {
                if f.end <= now {
                    continue;
                }
                let begun = f.begun || f.start < now;
                word = word.rotate_left(1) ^ u64::from(begun);
                match f.effect {
                    Effect::Program { at, count, .. } if begun => {
                        for page in at.page..at.page + count {
                            let torn = dice.chance(3, 4);
                            word = word.rotate_left(1) ^ u64::from(torn);
                            if torn {
                                store.tear(PageAddr { unit: at.unit, page });
                            }
                        }
                    }
                    Effect::Program { at, count, failed } => store.undo(at, count, failed),
                    Effect::Erase { unit, .. } if begun => {
                        store.unit_mut(unit).half_erased = true;
                    }
                    Effect::Erase { unit, cells, next, half_erased } => {
                        let u = store.unit_mut(unit);
                        u.cells = cells;
                        u.next = next;
                        u.half_erased = half_erased;
                        u.erase_count -= 1;
                    }
                }
            }
        }
        word
    }

    /// The operations that have not ended at `from`, in a time where that is `to`.
    pub fn rebased(&self, from: Nanos, to: Nanos) -> Flights {
        let mut copy = self.clone();
        for queue in &mut copy.dies {
            queue.retain(|f| f.end > from);
            for f in queue {
                f.begun |= f.start < from;
                f.start = f.start.saturating_sub(from) + to;
                f.end = f.end.saturating_sub(from) + to;
            }
        }
        copy
    }
}

/// All that an array is at one moment: cells, wear, and operations in flight. Cheap
/// to take: cells are shared until either side writes.
#[derive(Clone)]
pub struct Image {
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) store: Store,
    /// Its times, and those of the flights, count from that moment.
    pub(crate) schedule: Rc<Schedule>,
    pub(crate) flights: Flights,
}
