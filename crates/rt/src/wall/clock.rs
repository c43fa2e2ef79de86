//! The wall clock: how a runtime waits.

use super::outside::Outside;
use super::scale::Scale;
use crate::clock::{Clock, Idle};
use crate::sys::{spin_loop, yield_now};
use crate::{Nanos, Rt};
use std::rc::Rc;
use std::time::Duration;

/// The number of polls without an idle moment after which completions from outside are taken.
const POLLS_BETWEEN_LOOKS: u64 = 64;
/// How often due timers go first before the kernel is told of new operations.
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
    /// The most that is spun, ns.
    spin: Nanos,
    /// How late the kernel ends a wait.
    late: Estimate,
    /// How long an idle runtime waits until something comes.
    lull: Estimate,
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
            spin,
            late: Estimate::new(spin, spin),
            lull: Estimate::new(spin, Nanos::MAX),
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

    /// Whether time may jump. It may if a task waits for an announced command, or if nothing from
    /// outside is expected that the jump could overtake.
    fn may_jump(&self) -> bool {
        self.scale == Scale::Jump && (self.rt.has_commands() || !self.expects_something())
    }

    /// Whether anything from outside is expected: an operation that a task waits for, or a letter
    /// of another thread.
    fn expects_something(&self) -> bool {
        self.outside.is_busy() || self.rt.inbox().has_channels()
    }

    /// Whether something has come, without asking the kernel.
    fn has_come(&self) -> bool {
        self.outside.take(&self.rt, false)
            | self.outside.fire(&self.rt, self.real)
            | self.rt.inbox().any()
    }

    /// A timer is due and goes first. After [`TIMERS_BEFORE_OTHERS`] of them in a row the kernel is
    /// told of new operations.
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
            self.late.learn(late);
        }
        came
    }

    /// Waits until `until`, of real time, or until something comes.
    fn wait(&mut self, until: Option<Nanos>) -> Idle {
        let began = self.real;
        let margin = self.late.upper().min(self.spin);
        // While a task waits for an announced command, the simulation goes on and nothing from
        // outside is taken.
        let is_lull = self.outside.is_busy() && !self.rt.has_commands();
        // It will come soon: sleeping would take longer.
        let comes_soon = is_lull && self.lull.upper() <= self.spin;
        let awake = if comes_soon { began.saturating_add(self.spin) } else { began };
        let mut slept = false;
        loop {
            let now = self.real;
            let left = until.map(|u| u.saturating_sub(now));
            if left == Some(Nanos::ZERO) {
                return Idle::Reached;
            }
            let left = left.map(|l| l.saturating_sub(margin));
            let is_due = left == Some(Nanos::ZERO);
            let came = if !is_due && now >= awake {
                slept = true;
                self.sleep(left)
            } else if self.outside.has_unsent() {
                self.outside.wait(&self.rt, Some(Duration::ZERO))
            } else {
                // The sender may need this processor.
                if is_due {
                    spin_loop()
                } else {
                    yield_now()
                };
                self.outside.take(&self.rt, true)
            };
            let now = self.look_up();
            if came && is_lull {
                // It also came late if the processor had been asleep.
                let late = if slept && !comes_soon { self.late.mean() } else { Nanos::ZERO };
                self.lull.learn(now.saturating_sub(began).saturating_sub(late));
            }
            if came | self.rt.inbox().any() | self.outside.fire(&self.rt, now) {
                return Idle::Woken;
            }
        }
    }
}

impl Clock for WallClock {
    fn now(&self) -> Nanos {
        self.scale.virtual_time(self.real).saturating_add(self.jumped)
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
                self.jumped = self.jumped.saturating_add(deadline - now);
                return self.due();
            }
        }
        self.put_off = 0;
        let real = deadline.map(|d| self.real_of(d));
        let until = real.into_iter().chain(self.outside.next_timer()).min();
        if until.is_none() && !self.expects_something() {
            // In this order: the last thread that could post may have posted and gone since
            // `has_come`.
            return if self.rt.inbox().any() { Idle::Woken } else { Idle::Nothing };
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

/// How long something takes, from how long it has taken: mean and twice the mean deviation (as
/// TCP reckons its time-outs, Jacobson 1988, appendix A).
struct Estimate {
    most: i64,
    mean: i64,
    deviation: i64,
}

impl Estimate {
    /// A time of more than twice `budget` counts as twice `budget`: another thread had the
    /// processor, or nothing was expected.
    fn new(budget: Nanos, mean: Nanos) -> Estimate {
        let most = 2 * budget.0.min(1 << 40) as i64;
        Estimate { most, mean: mean.0.min(most as u64) as i64, deviation: 0 }
    }

    /// It will hardly take longer.
    fn upper(&self) -> Nanos {
        Nanos((self.mean + 2 * self.deviation).max(0) as u64)
    }

    fn mean(&self) -> Nanos {
        Nanos(self.mean.max(0) as u64)
    }

    fn learn(&mut self, took: Nanos) {
        let error = took.0.min(self.most as u64) as i64 - self.mean;
        self.mean += error / 8;
        self.deviation += (error.abs() - self.deviation) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_follows_what_is_steady_and_forgets_what_is_not() {
        let budget = Nanos::from_micros(60);
        let mut lull = Estimate::new(budget, Nanos::MAX);
        assert!(lull.upper() > budget, "nothing is expected before anything was seen");
        (0..50).for_each(|_| lull.learn(Nanos::from_micros(20)));
        assert!(lull.upper() <= budget && lull.mean() >= Nanos::from_micros(20), "steady");
        lull.learn(Nanos::from_secs(3600));
        assert!(lull.upper() > budget, "a single hour, counted as twice the budget");
        (0..50).for_each(|_| lull.learn(Nanos::from_micros(20)));
        assert!(lull.upper() <= budget, "and is forgotten");
        // Half of the times are above the budget: the estimate must not be relied on.
        (0..50).for_each(|i| lull.learn(Nanos::from_micros(if i % 2 == 0 { 5 } else { 100 })));
        assert!(lull.upper() > budget);
    }

    #[test]
    fn without_a_budget_nothing_is_estimated() {
        let mut never = Estimate::new(Nanos::ZERO, Nanos::MAX);
        never.learn(Nanos::from_micros(1));
        assert_eq!((never.upper(), never.mean()), (Nanos::ZERO, Nanos::ZERO));
    }
}
