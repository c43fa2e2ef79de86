//! An operation from its issue to its end, and what a power loss makes of it
//! (invariant 5); snapshots of all that survives.

use crate::channel::Ends;
use crate::schedule::Schedule;
use crate::store::{Cells, Store};
use crate::{Geometry, PageAddr, Timing, Unit};
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
    Read,
    Program { at: PageAddr, count: u32, failed: bool },
    Erase { unit: Unit, cells: Option<Rc<Cells>>, next: u32, half_erased: bool },
}

/// An operation on its die.
pub(crate) struct Flight {
    pub op: u64,
    pub effect: Effect,
    /// Not before: then its data are there.
    pub ready: Nanos,
    /// How long its data will take on the channel, if they have not asked for it yet.
    pub transfer: Option<Nanos>,
    /// When the die works on it: on the rest of it, if it is suspended.
    pub start: Nanos,
    pub left: Nanos,
    pub end: Nanos,
    /// It had begun before `start`: it is suspended, or was, or an image was taken since.
    pub begun: bool,
    /// The die was at it when that image was taken.
    pub going: bool,
    pub overtaken: u32,
    pub suspended: u32,
    pub ends: Option<Rc<Ends>>,
    pub record: Option<u64>,
}

impl Flight {
    pub fn new(op: u64, effect: Effect, span: Nanos) -> Flight {
        Flight {
            op,
            effect,
            ready: Nanos::ZERO,
            transfer: None,
            start: Nanos::ZERO,
            left: span,
            end: Nanos::ZERO,
            begun: false,
            going: false,
            overtaken: 0,
            suspended: 0,
            ends: None,
            record: None,
        }
    }

    pub fn kind(&self) -> OpKind {
        match self.effect {
            Effect::Read => OpKind::Read,
            Effect::Program { .. } => OpKind::Program,
            Effect::Erase { .. } => OpKind::Erase,
        }
    }

    /// Whether the die is at it: at its very start it is not yet.
    pub fn is_under_way(&self, now: Nanos) -> bool {
        self.start < now || self.going
    }

    /// Whether a read of these pages may go ahead of it.
    pub fn gives_way_to(&self, at: PageAddr, count: u32, timing: &Timing) -> bool {
        let apart = match &self.effect {
            Effect::Read => return true,
            Effect::Program { at: own, count: pages, .. } => {
                own.unit != at.unit || own.page + pages <= at.page || at.page + count <= own.page
            }
            Effect::Erase { unit, .. } => *unit != at.unit,
        };
        apart && self.overtaken < timing.read_priority
    }

    /// What it costs to suspend it now; `None` if that can not be, or gains nothing.
    pub fn suspension(&self, now: Nanos, timing: &Timing) -> Option<Nanos> {
        let us = match self.kind() {
            OpKind::Read => 0,
            OpKind::Program => timing.suspend_program_us,
            OpKind::Erase => timing.suspend_erase_us,
        };
        let cost = Nanos::from_micros(us);
        let possible = us > 0 && self.suspended < timing.suspend_limit && self.is_under_way(now);
        (possible && now + cost < self.end).then_some(cost)
    }

    /// The same in a time where `from` has been shifted.
    pub fn rebased(&self, from: Nanos, shift: impl Fn(Nanos) -> Nanos) -> Flight {
        let mut f = Flight::new(self.op, self.effect.clone(), self.left);
        f.ready = shift(self.ready);
        f.transfer = self.transfer;
        f.start = shift(self.start);
        f.end = shift(self.end);
        f.left = f.end - f.start;
        f.going = self.is_under_way(from);
        f.begun = self.begun || f.going;
        f.overtaken = self.overtaken;
        f.suspended = self.suspended;
        f
    }
}

impl Schedule {
    /// The power is gone at `now`. In reverse order of issue, so that what never
    /// began is undone first. Returns a word that stands for what became of all.
    pub fn power_off(&mut self, now: Nanos, store: &mut Store, dice: &mut Stream) -> u64 {
        self.settle_all(now);
        let mut word = now.0;
        for queue in &mut self.dies {
            while let Some(f) = queue.pop_back() {
                if f.end <= now || f.kind() == OpKind::Read {
                    continue;
                }
                let begun = f.begun || f.start < now;
                word = word.rotate_left(1) ^ u64::from(begun);
                match f.effect {
                    Effect::Read => {}
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
        self.reset();
        word
    }
}

/// All that an array is at one moment: cells, wear, and operations in flight. Cheap
/// to take: cells are shared until either side writes.
#[derive(Clone)]
pub struct Image {
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) store: Store,
    /// Its times count from that moment.
    pub(crate) schedule: Rc<Schedule>,
}
