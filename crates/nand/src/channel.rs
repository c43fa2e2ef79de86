//! The buses between drive and dies. Each moves one transfer at a time, in the order of asking.
//!
//! 1. A channel is not kept free for an operation that will ask later.
//! 2. The result does not depend on how often it is looked at, only on which operation asked when.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// When an operation ends, for the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// When its die has ended it, as far as is known. The time is never too late.
    pub die: Cell<Nanos>,
    /// When the transfer of a read ends; known from the moment at which it asks for the
    /// channel, if the power holds until then.
    pub moved: Cell<Option<Nanos>>,
}

/// An operation that will ask for the channel.
pub(crate) struct Turn {
    /// When. Of those who ask at one moment reads come first, then who was issued first.
    ready: Nanos,
    span: Nanos,
    pub op: u64,
    /// Of a program: the die into whose register its data go.
    pub die: Option<u32>,
    ends: Option<Rc<Ends>>,
}

impl Turn {
    fn key(&self) -> (Nanos, bool, u64) {
        (self.ready, self.die.is_some(), self.op)
    }

    /// A program may ask one moment after its register is free: until then whatever has the
    /// register might still give way to a read.
    fn has_asked(&self, now: Nanos) -> bool {
        if self.die.is_some() { self.ready < now } else { self.ready <= now }
    }
}

/// A bus, and those who will ask for it, in the order in which they will.
#[derive(Default)]
pub(crate) struct Channel {
    free: Nanos,
    waiting: VecDeque<Turn>,
}

impl Channel {
    /// Asks at `now`, when all who asked before have been served, for `span`; until when.
    pub fn take(&mut self, now: Nanos, span: Nanos) -> Nanos {
        self.free = now.max(self.free) + span;
        self.free
    }

    /// A read will ask at `ready`.
    pub fn read_at(&mut self, op: u64, ready: Nanos, span: Nanos, ends: Rc<Ends>) {
        self.insert(Turn { ready, span, op, die: None, ends: Some(ends) });
    }

    /// A program for `die` will ask after `ready`.
    pub fn program_at(&mut self, op: u64, ready: Nanos, span: Nanos, die: u32) {
        self.insert(Turn { ready, span, op, die: Some(die), ends: None });
    }

    fn insert(&mut self, turn: Turn) {
        // The operation that is issued last usually asks last.
        if self.waiting.back().is_none_or(|last| last.key() <= turn.key()) {
            return self.waiting.push_back(turn);
        }
        let behind = self.waiting.partition_point(|t| t.key() <= turn.key());
        self.waiting.insert(behind, turn);
    }

    /// The operation will ask at another time.
    pub fn delay(&mut self, op: u64, ready: Nanos) {
        let at = self.waiting.iter().position(|t| t.op == op);
        if let Some(turn) = at.and_then(|at| self.waiting.remove(at)) {
            self.insert(Turn { ready, ..turn });
        }
    }

    /// Serves the next of those who asked up to `now`; who, and until when.
    pub fn serve(&mut self, now: Nanos) -> Option<(Turn, Nanos)> {
        let turn = self.waiting.pop_front_if(|t| t.has_asked(now))?;
        self.free = self.free.max(turn.ready) + turn.span;
        if let Some(ends) = &turn.ends {
            ends.moved.set(Some(self.free));
        }
        Some((turn, self.free))
    }

    /// The same as seen with other times; nobody waits for what is under way.
    pub fn rebased(&self, shift: impl Fn(Nanos) -> Nanos) -> Channel {
        let turn = |t: &Turn| Turn {
            ready: shift(t.ready),
            span: t.span,
            op: t.op,
            die: t.die,
            ends: t.ends.is_some().then(Rc::default),
        };
        Channel { free: shift(self.free), waiting: self.waiting.iter().map(turn).collect() }
    }
}
