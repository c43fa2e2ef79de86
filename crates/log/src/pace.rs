//! How long a device usually takes for a state of the log, and how long for a flush.
//!
//! 1. The newest [`WINDOW`] times count, and their median: a device that becomes slow is known to be
//!    slow soon, and one that once stood still is not.

use std::collections::VecDeque;
use tantalum_rt::Nanos;

const WINDOW: usize = 7;

/// What a device does not answer is waited for so many times as long as the bound for stalls.
pub(crate) const PATIENCE: u64 = 2;

/// What a device is given beside groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gift {
    State,
    Flush,
    /// Something of the log that it missed.
    Copy,
}

/// What is known of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paces {
    state: Pace,
    flush: Pace,
    copy: Pace,
}

impl Paces {
    pub fn of(&mut self, gift: Gift) -> &mut Pace {
        match gift {
            Gift::State => &mut self.state,
            Gift::Flush => &mut self.flush,
            Gift::Copy => &mut self.copy,
        }
    }
}

/// What is known of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    newest: VecDeque<Nanos>,
}

impl Pace {
    /// It took so long.
    pub fn learn(&mut self, took: Nanos) {
        if self.newest.len() == WINDOW {
            self.newest.pop_front();
        }
        self.newest.push_back(took);
    }

    /// What is usual; nothing if nothing is known.
    pub fn usual(&self) -> Nanos {
        let mut sorted: Vec<Nanos> = self.newest.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_time_is_not_usual_and_many_are() {
        let mut pace = Pace::default();
        assert_eq!(pace.usual(), Nanos::ZERO);
        (0..WINDOW).for_each(|_| pace.learn(Nanos(10)));
        pace.learn(Nanos(1000));
        assert_eq!(pace.usual(), Nanos(10));
        (0..WINDOW / 2).for_each(|_| pace.learn(Nanos(1000)));
        assert_eq!(pace.usual(), Nanos(1000));
    }
}
