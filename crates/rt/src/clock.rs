//! The clock: what the runtime asks for the time, and what it does when no task
//! is ready.

use crate::Nanos;

/// How an idle wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The deadline has come.
    Reached,
    /// Something from outside (a command from another thread, a completed
    /// operation) may have woken a task before the deadline.
    Woken,
    /// No deadline was given and nothing from outside can ever come: the run is
    /// at its end.
    Nothing,
}

/// A source of time. The virtual clock jumps; a wall clock sleeps, spins or
/// waits for I/O in [`Clock::idle`].
pub trait Clock {
    /// The time now. Never goes back.
    fn now(&self) -> Nanos;

    /// No task is ready: wait until `deadline`, or until something from outside
    /// wakes a task. After [`Idle::Reached`], [`Clock::now`] is at least `deadline`.
    fn idle(&mut self, deadline: Option<Nanos>) -> Idle;

    /// The number of polls without an idle moment after which [`Clock::look_outside`] is called.
    fn polls_between_looks(&self) -> u64 {
        u64::MAX
    }

    /// Takes in what has come from outside, without waiting. It is called when tasks have run for
    /// long and some are still ready. Returns whether anything came.
    fn look_outside(&mut self) -> bool {
        false
    }
}

/// The clock of simulations: it stands still while tasks run, and jumps to the
/// next timer when none is ready.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: Nanos,
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.now
    }

    fn idle(&mut self, deadline: Option<Nanos>) -> Idle {
        match deadline {
            Some(t) => {
                self.now = self.now.max(t);
                Idle::Reached
            }
            None => Idle::Nothing,
        }
    }
}
