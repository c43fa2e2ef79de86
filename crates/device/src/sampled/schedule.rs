//! What happens by itself as time passes: stalls and modes.
//!
//! A span is drawn when a time is asked for that the spans so far do not reach. So the spans depend
//! on the random stream alone, and not on when they are asked for.

use super::model::{Mode, Stall};
use std::collections::VecDeque;
use tantalum_rt::{Nanos, Stream};

/// Spans are forgotten when time is past them by so much: no command that began earlier asks.
const KEPT: usize = 64;

pub(super) struct Schedule {
    dice: Stream,
    /// Begin, end, and which mode it is.
    spans: VecDeque<(Nanos, Nanos, usize)>,
    /// The end of the last one.
    until: Nanos,
}

impl Schedule {
    pub fn new(dice: Stream) -> Schedule {
        Schedule { dice, spans: VecDeque::new(), until: Nanos::ZERO }
    }

    fn add(&mut self, begin: Nanos, end: Nanos, which: usize) {
        self.spans.push_back((begin, end, which));
        self.until = end;
        if self.spans.len() > KEPT {
            self.spans.pop_front();
        }
    }

    /// Which of `modes` there is at `now`: each lasts a while, then the next is drawn by weight.
    pub fn mode_at(&mut self, now: Nanos, modes: &[Mode]) -> usize {
        while self.until <= now {
            let all: u64 = modes.iter().map(|m| m.weight).sum();
            let mut pick = self.dice.below(all);
            let which = modes.iter().position(|m| {
                let hit = pick < m.weight;
                pick = pick.saturating_sub(m.weight);
                hit
            });
            let which = which.unwrap_or(0);
            let [least, most] = modes[which].lasts_ms;
            let lasts = Nanos::from_millis(self.dice.range(least, most + 1));
            self.add(self.until, self.until + lasts, which);
        }
        self.spans.iter().rev().find(|s| s.0 <= now).map_or(0, |s| s.2)
    }
}

impl Stall {
    pub(super) fn schedule(&self, dice: Stream) -> Schedule {
        Schedule::new(dice)
    }

    /// When a command ends that would be under way from `begin` to `end` without stalls.
    pub(super) fn delayed(&self, s: &mut Schedule, begin: Nanos, end: Nanos) -> Nanos {
        let mut end = end;
        let mut next = 0;
        loop {
            if next == s.spans.len() {
                if s.until > end {
                    return end;
                }
                let ([a, b], [c, d]) = (self.every_ms, self.lasts_ms);
                let start = s.until + Nanos::from_millis(s.dice.range(a, b + 1));
                let stop = start + Nanos::from_millis(s.dice.range(c, d + 1));
                s.add(start, stop, 0);
                next = s.spans.len() - 1;
            }
            let (start, stop, _) = s.spans[next];
            if start >= end {
                return end;
            }
            // What is left of it when the command begins.
            if stop > begin {
                end += stop - start.max(begin);
            }
            next += 1;
        }
    }
}
