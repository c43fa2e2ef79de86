//! How many groups are in flight at once: as many as pay.
//!
//! Several devices of their own write more at once. Several parts of one disk only make the groups
//! smaller. What pays is measured.
//!
//! 1. What is compared is the bytes that became durable per time, over windows in which bytes
//!    waited at the end of each group: without that it says nothing of the width. If threads write,
//!    whoever finds a place forms a group at once, and bytes hardly wait. Then most groups of a
//!    window are such that bytes waited at their end, or all other places were taken, or several
//!    threads waited for one group, since there was none for each.
//! 2. One step at a time is tried. It is kept if it gains more than [`GAIN`] percent; else the
//!    width is what it was, and the next trial comes later, up to [`HOLD_MAX`] windows, or the last
//!    of [`HOLD_DISKS`] if it is of more groups than disks. If threads
//!    write, one group less is kept, too, if it loses less than [`LOSS`] percent: each of several
//!    steps may gain too little to be seen, and what does not pay costs threads their groups.
//! 3. A disk may write ten times as much in one window as in the next, so windows are compared in
//!    pairs: the width and one more by turns. More groups in flight than there are disks must gain
//!    more than [`GAIN`] percent in each of [`MORE`] pairs. Once they are in flight, they stay if
//!    they gain as much in most of [`FEWER`] pairs. This holds if threads write: only then the
//!    disks are known, and there is one group for each at first.

use tantalum_rt::Nanos;

/// Groups in a window.
const WINDOW: u32 = 48;
/// Groups in a window at whose end nothing waited, at most, if threads write.
const SLACK: u32 = WINDOW / 4;
const GAIN: u128 = 4;
const LOSS: u128 = 1;
const MORE: u32 = 4;
const FEWER: u32 = 5;
const HOLD_MIN: u32 = 2;
const HOLD_MAX: u32 = 64;
/// The first pause before more groups than disks are tried, and the longest one: that seldom pays.
const HOLD_DISKS: [u32; 2] = [32, 256];

/// What says, at the end of a group, whether there is more to write than places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes wait for the next group.
    pub waiting: bool,
    /// Several wait for the group, or for what is behind it.
    pub shared: bool,
    /// Groups that are still in flight.
    pub others: usize,
}

/// The width and another one, in windows by turns.
#[derive(Clone, Debug)]
struct Trial {
    width: usize,
    other: usize,
    /// The rate of the first window of the pair.
    first: Option<u128>,
    pairs: u32,
    /// Pairs in which the other width was better.
    better: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Width {
    most: usize,
    now: usize,
    /// Of how many disks the devices are, if threads write.
    disks: Option<usize>,
    trial: Option<Trial>,
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
            disks: None,
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
        *self = Width { now, disks: self.disks, ..Width::new(most) };
    }

    /// From now on threads write, to devices of so many disks.
    #[cfg(feature = "blocking")]
    pub fn set_threads(&mut self, disks: usize) {
        (self.disks, self.trial, self.since) = (Some(disks), None, None);
        self.now = self.now.min(disks.max(1));
        if disks <= 1 {
            // There is nothing but more groups than disks to try.
            self.hold = HOLD_DISKS[0];
        }
        self.wait = self.hold;
    }

    /// A group has become durable.
    pub fn group_done(&mut self, now: Nanos, bytes: u64, load: Load) {
        if self.most == 1 {
            return;
        }
        let taken = self.now > 1 && load.others + 1 >= self.now;
        let threads = self.disks.is_some();
        let waiting = load.waiting || (threads && (taken || load.shared));
        let Some(since) = self.since else {
            if waiting {
                self.begin(now);
            }
            return;
        };
        self.slack += u32::from(!waiting);
        if self.slack > if threads { SLACK } else { 0 } {
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
        let Some(trial) = &mut self.trial else {
            self.wait = self.wait.saturating_sub(1);
            if self.wait == 0 {
                self.step(rate);
            }
            return;
        };
        let Some(first) = trial.first.take() else {
            trial.first = Some(rate);
            self.now = trial.width + trial.other - self.now;
            return;
        };
        let (of_width, of_other) =
            if self.now == trial.other { (first, rate) } else { (rate, first) };
        trial.pairs += 1;
        let fewer = trial.other < trial.width;
        let above = self.disks.is_some_and(|disks| trial.width.max(trial.other) > disks);
        let better = match (fewer, self.disks) {
            // What is not clearly better with more groups is better with fewer.
            (true, Some(_)) if above => of_width * 100 <= of_other * (100 + GAIN),
            (true, Some(_)) => of_other * 100 > of_width * (100 - LOSS),
            _ => of_other * 100 > of_width * (100 + GAIN),
        };
        trial.better += u32::from(better);
        let (pairs, needed) = match (above, fewer) {
            (false, _) => (1, 1),
            (true, false) => (MORE, MORE),
            (true, true) => (FEWER, FEWER / 2 + 1),
        };
        if trial.better >= needed {
            let taken = trial.other;
            let measured = self.now == taken;
            (self.trial, self.hold, self.wait, self.now) = (None, HOLD_MIN, 1, taken);
            if measured {
                self.step(rate);
            }
        } else if trial.pairs - trial.better > pairs - needed {
            self.now = trial.width;
            self.trial = None;
            self.up = !self.up;
            self.hold = (self.hold * 2).min(if above { HOLD_DISKS[1] } else { HOLD_MAX });
            self.wait = self.hold;
        }
    }

    /// Tries one more, or one less. This was the rate of the width.
    fn step(&mut self, rate: u128) {
        let (up, down) = (self.now < self.most, self.now > 1);
        if (self.up && !up) || (!self.up && !down) {
            self.up = !self.up;
        }
        let (width, other) = (self.now, if self.up { self.now + 1 } else { self.now - 1 });
        self.trial = Some(Trial { width, other, first: Some(rate), pairs: 0, better: 0 });
        self.now = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: Load = Load { waiting: true, shared: false, others: 0 };

    /// Feeds groups of devices whose rate depends on the width, and counts how often each was used.
    fn settle_of(width: Width, rate: impl Fn(usize) -> u64) -> Vec<u32> {
        settle_at(width, |_, width| rate(width))
    }

    /// The same, if the rate depends on the number of the window, too.
    fn settle_at(mut width: Width, rate: impl Fn(u32, usize) -> u64) -> Vec<u32> {
        let mut used = vec![0; width.most + 1];
        let mut now = 0;
        for i in 0..40_000 {
            now += 1_000_000_000 / rate(i / WINDOW, width.now());
            width.group_done(Nanos(now), 1, LOADED);
            used[width.now()] += 1;
        }
        used
    }

    fn settle(most: usize, rate: impl Fn(usize) -> u64) -> Vec<u32> {
        settle_of(Width::new(most), rate)
    }

    #[cfg(feature = "blocking")]
    fn settle_of_threads(disks: usize, rate: impl Fn(usize) -> u64) -> Vec<u32> {
        let mut width = Width::new(4);
        width.set_threads(disks);
        settle_of(width, rate)
    }

    /// Each part more costs too little to be seen alone.
    #[cfg(feature = "blocking")]
    #[test]
    fn of_one_disk_threads_use_one_part_if_the_others_cost_little() {
        for disks in [1, 4] {
            for rates in [[0, 1000, 970, 941, 913], [0, 1000, 1000, 1000, 1000]] {
                let used = settle_of_threads(disks, |w| rates[w]);
                assert!(used[1] > 38_000, "{used:?}");
            }
            let used = settle_of_threads(disks, |w| 1000 * w as u64);
            assert!(used[4] > 30_000, "{used:?}");
        }
    }

    /// A disk that is up to ten times as fast in one window as in the next.
    #[cfg(feature = "blocking")]
    #[test]
    fn a_disk_of_many_speeds_does_not_mislead_threads() {
        let mut of_one = 0;
        for seed in 0..20 {
            let mut width = Width::new(4);
            width.set_threads(1);
            let mut speed = tantalum_rt::Stream::new(seed, "speed");
            let speeds: Vec<u64> = (0..1000).map(|_| 100 + speed.below(900)).collect();
            let rates = [0, 1000, 850, 750, 700];
            let used = settle_at(width, |window, w| speeds[window as usize] * rates[w] / 100);
            of_one += used[1];
        }
        assert!(of_one > 20 * 36_000, "{of_one} of {} groups", 20 * 40_000);
    }

    /// A group for which several wait says that there were more threads than places.
    #[cfg(feature = "blocking")]
    #[test]
    fn groups_that_threads_share_are_judged_though_nothing_waits() {
        let shared = Load { waiting: false, shared: true, others: 0 };
        for (load, learned) in [(shared, true), (Load { shared: false, ..shared }, false)] {
            let mut width = Width::new(4);
            width.set_threads(4);
            (1..2000).for_each(|i| width.group_done(Nanos(1000 * i), 1, load));
            assert_eq!(width.now() < 4, learned);
        }
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
            width.group_done(Nanos(i), 1, Load { waiting: false, ..LOADED });
        }
        assert_eq!(width.now(), 4);
    }
}
