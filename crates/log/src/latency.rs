//! How long the writes of a device take, learned while it is used.
//!
//! 1. Sizes fall into classes, each twice as large as the one before. A class knows its newest
//!    [`WINDOW`] latencies, so that it follows a device that changes.
//! 2. Latencies that were measured before ([`Latencies::of`]) count as learned, until newer ones
//!    take their place.
//! 3. A class that has seen too little is judged by the next larger one that has not; else by the
//!    next smaller one, in proportion to the size. If there is none, nothing is known.

use std::collections::VecDeque;
use tantalum_device::{CommandKind, SampledModel, StreamKind};
use tantalum_rt::Nanos;

/// Latencies that a class remembers.
const WINDOW: usize = 128;
const CLASSES: usize = 16;
/// Latencies that a class gets from a table: quantiles at even steps, and both ends.
const STEPS: u32 = 63;

#[derive(Clone, Debug, Default)]
struct Window {
    newest: VecDeque<u64>,
    sorted: Vec<u64>,
}

/// What is known of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    classes: [Window; CLASSES],
}

impl Window {
    fn learn(&mut self, latency: u64) {
        if self.newest.len() == WINDOW
            && let Some(oldest) = self.newest.pop_front()
        {
            let at = self.sorted.partition_point(|l| *l < oldest);
            self.sorted.remove(at);
        }
        self.newest.push_back(latency);
        let at = self.sorted.partition_point(|l| *l < latency);
        self.sorted.insert(at, latency);
    }

    /// The least latency that `percent` of all do not exceed.
    fn quantile(&self, percent: u32) -> u64 {
        let rank = (self.sorted.len() * percent as usize).div_ceil(100);
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }
}

fn class(units: u32) -> usize {
    (units.max(1).next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1)
}

impl Latencies {
    /// What the table of a device says of writes in units of so many bytes.
    pub fn of(table: &SampledModel, unit: u32) -> Latencies {
        let mut known = Latencies::default();
        for (i, class) in known.classes.iter_mut().enumerate() {
            let bytes = u64::from(unit) << i;
            let times = table.quantiles(CommandKind::Fua, StreamKind::Sequential, bytes, STEPS);
            times.into_iter().for_each(|time| class.learn(time.0));
        }
        known
    }

    /// A write of so many units took so long.
    pub fn learn(&mut self, units: u32, latency: Nanos) {
        self.classes[class(units)].learn(latency.0);
    }

    /// What `percent` of the writes of so many units do not exceed; `None` if no class has seen
    /// `least` writes.
    pub fn quantile(&self, units: u32, percent: u32, least: u32) -> Option<Nanos> {
        let own = class(units);
        let knows = |i: &usize| self.classes[*i].newest.len() >= least.max(1) as usize;
        if let Some(i) = (own..CLASSES).find(knows) {
            return Some(Nanos(self.classes[i].quantile(percent)));
        }
        let i = (0..own).rev().find(knows)?;
        Some(Nanos(self.classes[i].quantile(percent).saturating_mul(1 << (own - i))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tantalum_device::LatencyRow;

    proptest! {
        #[test]
        fn a_quantile_is_that_of_the_newest(
            all in proptest::collection::vec(0..1000u64, 1..400), percent in 0..=100u32,
        ) {
            let mut latencies = Latencies::default();
            for l in &all {
                latencies.learn(8, Nanos(*l));
            }
            let mut newest = all[all.len().saturating_sub(WINDOW)..].to_vec();
            newest.sort_unstable();
            let below = |l: u64| newest.iter().filter(|n| **n <= l).count() * 100;
            let told = latencies.quantile(8, percent, 1).unwrap().0;
            prop_assert!(below(told) >= newest.len() * percent as usize);
            let less = newest.iter().rev().find(|n| **n < told);
            prop_assert!(less.is_none_or(|l| below(*l) < newest.len() * percent as usize));
        }
    }

    #[test]
    fn a_table_counts_until_newer_latencies_take_its_place() {
        let row = LatencyRow { command: "write".into(), stream: None, bytes: 512, us: vec![1, 64] };
        let table = SampledModel::plain(512, 1000, vec![row]);
        let mut latencies = Latencies::of(&table, 512);
        let median = |of: &Latencies, units| of.quantile(units, 50, 16).map(|l| l.0 / 1000);
        let about = |latencies: &Latencies, units: u32, us: u64| {
            let median = median(latencies, units).unwrap();
            assert!(median.abs_diff(us) <= units.into(), "{units} units: {median} µs");
        };
        about(&latencies, 1, 32);
        about(&latencies, 4, 4 * 32);
        (0..WINDOW).for_each(|_| latencies.learn(1, Nanos::from_micros(500)));
        about(&latencies, 1, 500);
        about(&latencies, 4, 4 * 32);
    }

    #[test]
    fn other_sizes_say_something() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(4, 50, 1), None);
        latencies.learn(4, Nanos(100));
        assert_eq!(latencies.quantile(1, 50, 1), Some(Nanos(100)));
        assert_eq!(latencies.quantile(16, 50, 1), Some(Nanos(400)));
        assert_eq!(latencies.quantile(4, 50, 2), None);
    }
}
