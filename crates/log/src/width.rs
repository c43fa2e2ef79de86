//! How many groups are in flight at once: as many as pay.
//!
//! Several devices of their own write more at once. Several parts of one disk only make the groups
//! smaller. Nobody tells which it is, so it is measured.
//!
//! 1. What is compared is the bytes that became durable per time, over windows in which bytes
//!    waited at the end of each group: without that it says nothing of the width. If threads write,
//!    whoever finds a place forms a group at once, and bytes hardly wait: then a window is one in
//!    which bytes waited, or all other places were taken, at the end of most groups.
//! 2. One step at a time is tried. It is kept if it gains more than [`GAIN`] percent; else the
//!    width is what it was, and the next trial comes later, up to [`HOLD_MAX`] windows. If threads
//!    write, one group less is kept, too, if it loses less than [`LOSS`] percent: each of several
//!    steps may gain too little to be seen, and what does not pay costs threads their groups.

use tantalum_rt::Nanos;

/// Groups in a window.
const WINDOW: u32 = 48;
/// Groups in a window at whose end nothing waited, at most, if threads write.
const SLACK: u32 = WINDOW / 4;
const GAIN: u128 = 4;
const LOSS: u128 = 1;
const HOLD_MIN: u32 = 2;
const HOLD_MAX: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Width {
    most: usize,
    now: usize,
    threads: bool,
    /// The width before the trial, and its rate.
    trial: Option<(usize, u128)>,
    /// Windows until the next trial; how many the last pause had.
    wait: u32,
    hold: u32,
    up: bool,
    /// The window: its beginning, groups, bytes.
    since: Option<Nanos>,
    groups: u32,
    slack: u32,
    bytes: u64,
}

impl Width {
    /// At most `most`, and that at first.
    pub fn new(most: usize) -> Width {
        let most = most.max(1);
        Width {
            most,
            now: most,
            threads: false,
            trial: None,
            wait: HOLD_MIN,
            hold: HOLD_MIN,
            up: false,
            since: None,
            groups: 0,
            slack: 0,
            bytes: 0,
        }
    }

    /// How many groups may be in flight.
    pub fn now(&self) -> usize {
        self.now
    }

    /// There are more or fewer devices.
    pub fn set_most(&mut self, most: usize) {
        let now = self.now.clamp(1, most.max(1));
        *self = Width { now, threads: self.threads, ..Width::new(most) };
    }

    /// From now on threads write.
    #[cfg(feature = "blocking")]
    pub fn set_threads(&mut self) {
        self.threads = true;
    }

    /// A group has become durable; `waiting`: bytes wait for the next one; `others`: groups that are
    /// still in flight.
    pub fn group_done(&mut self, now: Nanos, bytes: u64, waiting: bool, others: usize) {
        if self.most == 1 {
            return;
        }
        let full = self.threads && self.now > 1 && others + 1 >= self.now;
        let waiting = waiting || full;
        let Some(since) = self.since else {
            if waiting {
                self.begin(now);
            }
            return;
        };
        self.slack += u32::from(!waiting);
        if self.slack > if self.threads { SLACK } else { 0 } {
            self.since = None;
            return;
        }
        self.groups += 1;
        self.bytes += bytes;
        let span = now.saturating_sub(since);
        if self.groups >= WINDOW && span > Nanos::ZERO {
            let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(span.0);
            self.judge(rate);
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Nanos) {
        (self.since, self.groups, self.slack, self.bytes) = (Some(now), 0, 0, 0);
    }

    fn judge(&mut self, rate: u128) {
        if let Some((before, old)) = self.trial.take() {
            let level = self.threads && self.now < before && rate * 100 > old * (100 - LOSS);
            if rate * 100 > old * (100 + GAIN) || level {
                self.hold = HOLD_MIN;
                self.step(rate);
                return;
            }
            self.now = before;
            self.up = !self.up;
            self.hold = (self.hold * 2).min(HOLD_MAX);
            self.wait = self.hold;
            return;
        }
        self.wait = self.wait.saturating_sub(1);
        if self.wait == 0 {
            self.step(rate);
        }
    }

    /// Tries one more, or one less.
    fn step(&mut self, rate: u128) {
        let (up, down) = (self.now < self.most, self.now > 1);
        if (self.up && !up) || (!self.up && !down) {
            self.up = !self.up;
        }
        self.trial = Some((self.now, rate));
        self.now = if self.up { self.now + 1 } else { self.now - 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds groups of devices whose rate depends on the width, and counts how often each was used.
    fn settle_of(mut width: Width, rate: impl Fn(usize) -> u64) -> Vec<u32> {
        let mut used = vec![0; width.most + 1];
        let mut now = 0;
        for _ in 0..40_000 {
            now += 1_000_000_000 / rate(width.now());
            width.group_done(Nanos(now), 1, true, 0);
            used[width.now()] += 1;
        }
        used
    }

    fn settle(most: usize, rate: impl Fn(usize) -> u64) -> Vec<u32> {
        settle_of(Width::new(most), rate)
    }

    #[cfg(feature = "blocking")]
    fn settle_of_threads(most: usize, rate: impl Fn(usize) -> u64) -> Vec<u32> {
        let mut width = Width::new(most);
        width.set_threads();
        settle_of(width, rate)
    }

    /// Each part more costs too little to be seen alone.
    #[cfg(feature = "blocking")]
    #[test]
    fn of_one_disk_threads_use_one_part_if_the_others_cost_little() {
        for rates in [[0, 1000, 970, 941, 913], [0, 1000, 1000, 1000, 1000]] {
            let used = settle_of_threads(4, |w| rates[w]);
            assert!(used[1] > 38_000, "{used:?}");
        }
        let used = settle_of_threads(4, |w| 1000 * w as u64);
        assert!(used[4] > 30_000, "{used:?}");
    }

    #[test]
    fn independent_devices_are_all_used() {
        let used = settle(4, |w| 1000 * w as u64);
        assert!(used[4] > 30_000, "{used:?}");
    }

    #[test]
    fn of_one_disk_one_part_is_used() {
        let used = settle(4, |w| 1000 - 150 * w as u64);
        assert!(used[1] > 30_000, "{used:?}");
    }

    #[test]
    fn the_best_may_lie_between() {
        let used = settle(4, |w| [0, 600, 1000, 800, 700][w]);
        assert!(used[2] > 30_000, "{used:?}");
    }

    #[test]
    fn without_load_nothing_is_learned() {
        let mut width = Width::new(4);
        for i in 0..100_000 {
            width.group_done(Nanos(i), 1, false, 0);
        }
        assert_eq!(width.now(), 4);
    }
}
