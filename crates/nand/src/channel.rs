//! The buses between drive and dies. Each moves one transfer at a time, in the order of requests.
//!
//! 1. A channel is not kept free for an operation that will request it later.
//! 2. The result depends only on which operation requested the channel when, and not on how often
//!    it is computed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// When an operation ends, for the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// When its die ends it, as far as is known. The time is never too late.
    pub die: Cell<Nanos>,
    /// When the transfer of a read ends, if the power holds until then. It is known once the read
    /// requests the channel.
    pub moved: Cell<Option<Nanos>>,
}

/// An operation that will request the channel.
pub(crate) struct Turn {
    /// When it requests it. At the same moment reads come first, then operations in order of issue.
    ready: Nanos,
    span: Nanos,
    pub op: u64,
    /// For a program: the die that gets its data.
    pub die: Option<u32>,
    ends: Option<Rc<Ends>>,
}

impl Turn {
    fn key(&self) -> (Nanos, bool, u64) {
        (self.ready, self.die.is_some(), self.op)
    }

    /// A program may request the channel one moment after its register is free: until then a read
    /// may still delay the operation that has the register.
    fn has_asked(&self, now: Nanos) -> bool {
        if self.die.is_some() { self.ready < now } else { self.ready <= now }
    }
}

/// A bus, and its future requests in order.
#[derive(Default)]
pub(crate) struct Channel {
    free: Nanos,
    waiting: VecDeque<Turn>,
}

impl Channel {
    /// Requests the bus for `span` at `now`, after all earlier requests were served. Returns the
    /// end of the transfer.
    pub fn take(&mut self, now: Nanos, span: Nanos) -> Nanos {
        self.free = now.max(self.free) + span;
        self.free
    }

    /// A read will request the bus at `ready`.
    pub fn read_at(&mut self, op: u64, ready: Nanos, span: Nanos, ends: Rc<Ends>) {
        self.insert(Turn { ready, span, op, die: None, ends: Some(ends) });
    }

    /// A program for `die` will request the bus after `ready`.
    pub fn program_at(&mut self, op: u64, ready: Nanos, span: Nanos, die: u32) {
        self.insert(Turn { ready, span, op, die: Some(die), ends: None });
    }

    fn insert(&mut self, turn: Turn) {
        // The operation that is issued last usually requests last.
        if self.waiting.back().is_none_or(|last| last.key() <= turn.key()) {
            return self.waiting.push_back(turn);
        }
        let behind = self.waiting.partition_point(|t| t.key() <= turn.key());
        self.waiting.insert(behind, turn);
    }

    /// Moves the request of an operation to another time.
    pub fn delay(&mut self, op: u64, ready: Nanos) {
        let at = self.waiting.iter().position(|t| t.op == op);
        if let Some(turn) = at.and_then(|at| self.waiting.remove(at)) {
            self.insert(Turn { ready, ..turn });
        }
    }

    /// Serves the next request up to `now`. Returns it with the end of its transfer.
    pub fn serve(&mut self, now: Nanos) -> Option<(Turn, Nanos)> {
        let turn = self.waiting.pop_front_if(|t| t.has_asked(now))?;
        self.free = self.free.max(turn.ready) + turn.span;
        if let Some(ends) = &turn.ends {
            ends.moved.set(Some(self.free));
        }
        Some((turn, self.free))
    }

    /// A copy with shifted times. No task waits for its operations.
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
