//! The wall clock: how a runtime waits.

use super::outside::Outside;
use super::scale::Scale;
use crate::clock::{Clock, Idle};
use crate::{Nanos, Rt};
use std::rc::Rc;
use std::time::Duration;

/// After how many polls without an idle moment the world outside gets a look.
const POLLS_BETWEEN_LOOKS: u64 = 64;
/// How often due timers go first before the kernel is told of what was begun.
const TIMERS_BEFORE_OTHERS: u32 = 16;

/// Real time; see [`crate::wall`].
pub struct WallClock {
    rt: Rt,
    outside: Rc<Outside>,
    scale: Scale,
    /// Real time as it was last looked up.
    real: Nanos,
    /// How far the clock has jumped ahead ([`Scale::Jump`]).
    jumped: Nanos,
    margin: Margin,
    put_off: u32,
}

impl WallClock {
    pub(super) fn new(rt: Rt, outside: Rc<Outside>, scale: Scale, spin: Nanos) -> WallClock {
        WallClock {
            rt,
            real: outside.real_now(),
            outside,
            scale,
            jumped: Nanos::ZERO,
            margin: Margin::new(spin),
            put_off: 0,
        }
    }

    fn look_up(&mut self) -> Nanos {
        self.real = self.outside.real_now();
        self.real
    }

    /// The real time at which the clock shows `at`, if it does not jump.
    fn real_of(&self, at: Nanos) -> Nanos {
        self.scale.real(at.saturating_sub(self.jumped))
    }

    /// Whether time may jump: somebody waits for an announced command, or nothing from
    /// outside is to come that could be overtaken.
    fn may_jump(&self) -> bool {
        self.scale == Scale::Jump && (self.rt.has_commands() || !self.expects_something())
    }

    fn expects_something(&self) -> bool {
        self.outside.is_busy() || self.rt.inbox().has_channels()
    }

    /// Whether something has come, without asking the kernel.
    fn has_come(&self) -> bool {
        self.outside.take(&self.rt, false)
            | self.outside.fire(&self.rt, self.real)
            | self.rt.inbox().any()
    }

    /// A timer is due: it goes first, but not for ever.
    fn due(&mut self) -> Idle {
        self.put_off += 1;
        if self.put_off < TIMERS_BEFORE_OTHERS {
            return Idle::Reached;
        }
        self.put_off = 0;
        self.look_outside();
        Idle::Reached
    }

    /// Waits in the kernel for `span` or what comes earlier. Whether something came.
    fn sleep(&mut self, span: Option<Nanos>) -> bool {
        if !self.rt.inbox().fall_asleep() {
            return true;
        }
        let until = span.map(|s| self.look_up().saturating_add(s));
        let came = self.outside.wait(&self.rt, span.map(|s| Duration::from_nanos(s.0)));
        self.rt.inbox().wake_up();
        let now = self.look_up();
        let late = until.map(|u| now.saturating_sub(u));
        if let Some(late) = late.filter(|l| !came && *l > Nanos::ZERO) {
            self.margin.learn(late);
        }
        came
    }

    /// Waits until `until`, of real time, or until something comes.
    fn wait(&mut self, until: Option<Nanos>) -> Idle {
        loop {
            let now = self.real;
            let left = until.map(|u| u.saturating_sub(now));
            if left == Some(Nanos::ZERO) {
                return Idle::Reached;
            }
            let left = left.map(|l| l.saturating_sub(self.margin.get()));
            let came = if left != Some(Nanos::ZERO) {
                self.sleep(left)
            } else if self.outside.has_unsent() {
                self.outside.wait(&self.rt, Some(Duration::ZERO))
            } else {
                std::hint::spin_loop();
                self.outside.take(&self.rt, true)
            };
            let now = self.look_up();
            if came | self.rt.inbox().any() | self.outside.fire(&self.rt, now) {
                return Idle::Woken;
            }
        }
    }
}

impl Clock for WallClock {
    fn now(&self) -> Nanos {
        self.scale.virtual_time(self.real) + self.jumped
    }

    fn idle(&mut self, deadline: Option<Nanos>) -> Idle {
        let jumps = deadline.is_some() && self.may_jump();
        if !jumps || self.put_off == 0 {
            self.look_up();
        }
        if self.has_come() {
            return Idle::Woken;
        }
        if let Some(deadline) = deadline {
            let now = self.now();
            if deadline <= now {
                return self.due();
            }
            if jumps {
                self.jumped += deadline - now;
                return self.due();
            }
        }
        self.put_off = 0;
        let real = deadline.map(|d| self.real_of(d));
        let until = real.into_iter().chain(self.outside.next_timer()).min();
        if until.is_none() && !self.expects_something() {
            return Idle::Nothing;
        }
        self.wait(until)
    }

    fn polls_between_looks(&self) -> u64 {
        POLLS_BETWEEN_LOOKS
    }

    fn look_outside(&mut self) -> bool {
        let came = match self.outside.has_unsent() {
            true => self.outside.wait(&self.rt, Some(Duration::ZERO)),
            false => self.outside.take(&self.rt, true),
        };
        let now = self.look_up();
        came | self.outside.fire(&self.rt, now)
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        self.outside.close();
    }
}

/// How much earlier than wanted to ask the kernel for an end of waiting: as much as it has
/// been late, mean and twice the mean deviation (as TCP reckons its time-outs, Jacobson
/// 1988, appendix A), up to the budget for spinning.
struct Margin {
    budget: i64,
    mean: i64,
    deviation: i64,
}

impl Margin {
    fn new(budget: Nanos) -> Margin {
        let budget = budget.0.min(1 << 40) as i64;
        Margin { budget, mean: budget, deviation: 0 }
    }

    fn get(&self) -> Nanos {
        Nanos((self.mean + 2 * self.deviation).clamp(0, self.budget) as u64)
    }

    /// The kernel was late by so much. What is far beyond the budget is no lateness of
    /// timers: another thread had the processor.
    fn learn(&mut self, late: Nanos) {
        let late = (late.0.min(1 << 40) as i64).min(2 * self.budget);
        let error = late - self.mean;
        self.mean += error / 8;
        self.deviation += (error.abs() - self.deviation) / 4;
    }
}
