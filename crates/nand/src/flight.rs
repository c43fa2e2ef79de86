//! An operation from its issue to its end, and snapshots of an array.

use crate::channel::Ends;
use crate::medium::Store;
use crate::schedule::Schedule;
use crate::store::UnitState;
use crate::{Geometry, PageAddr, Timing, Unit};
use std::num::NonZeroU64;
use std::rc::Rc;
use tantalum_rt::Nanos;

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

/// All planes of a die.
pub(crate) const WHOLE_DIE: u64 = u64::MAX;

#[derive(Clone)]
pub(crate) enum Effect {
    /// Bit `i` stands for plane `i`: those that it takes. The others may read meanwhile.
    Read {
        planes: u64,
    },
    Program {
        at: PageAddr,
        count: u32,
        failed: bool,
    },
    /// `was` is the unit before the erase.
    Erase {
        unit: Unit,
        was: UnitState,
    },
}

/// An operation on its die. (It is moved often, and so must be small enough to be moved without a
/// call of `memcpy`.)
pub(crate) struct Flight {
    pub op: u64,
    pub effect: Effect,
    /// The earliest start: when its data are there.
    pub ready: Nanos,
    /// How long its data take on the channel, if they have not requested it yet.
    pub transfer: Option<Nanos>,
    /// When the die works on it, or on the rest of it if it is suspended.
    pub start: Nanos,
    pub left: Nanos,
    pub end: Nanos,
    /// It had begun before `start`: it is or was suspended, or a snapshot was taken since.
    pub begun: bool,
    /// The die was working on it when that snapshot was taken.
    pub going: bool,
    pub overtaken: u32,
    pub suspended: u32,
    pub ends: Option<Rc<Ends>>,
    /// The number of its record, from 1 on.
    pub record: Option<NonZeroU64>,
    /// The slot of its record in the image, if there is one.
    pub slot: Option<u32>,
}

const _: () = assert!(size_of::<Flight>() <= 128);

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
            slot: None,
        }
    }

    pub fn kind(&self) -> OpKind {
        match self.effect {
            Effect::Read { .. } => OpKind::Read,
            Effect::Program { .. } => OpKind::Program,
            Effect::Erase { .. } => OpKind::Erase,
        }
    }

    /// The planes that it takes, one bit each. A program or an erase takes the whole die.
    pub fn planes(&self) -> u64 {
        match self.effect {
            Effect::Read { planes } => planes,
            _ => WHOLE_DIE,
        }
    }

    /// The unit that it erases.
    pub fn erases(&self) -> Option<Unit> {
        match &self.effect {
            Effect::Erase { unit, .. } => Some(*unit),
            _ => None,
        }
    }

    /// Whether the die works on it. At the exact moment of its start it does not yet.
    pub fn is_under_way(&self, now: Nanos) -> bool {
        self.start < now || self.going
    }

    /// Whether a read of these pages may go ahead of it.
    pub fn gives_way_to(&self, at: PageAddr, count: u32, timing: &Timing) -> bool {
        let apart = match &self.effect {
            Effect::Read { .. } => return true,
            Effect::Program { at: own, count: pages, .. } => {
                own.unit != at.unit || own.page + pages <= at.page || at.page + count <= own.page
            }
            Effect::Erase { unit, .. } => *unit != at.unit,
        };
        apart && self.overtaken < timing.read_priority
    }

    /// The time that it takes to suspend it now; `None` if that is impossible or saves no time.
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

    /// A copy with shifted times, as of `from`.
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

/// A snapshot of an array: cells, wear, and operations in flight. Cheap to take: cells are shared
/// until either side writes.
#[derive(Clone)]
pub struct Image {
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) store: Store,
    /// Its times count from the moment of the snapshot.
    pub(crate) schedule: Rc<Schedule>,
}
