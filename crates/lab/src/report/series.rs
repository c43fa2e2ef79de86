//! Transactions over the virtual time of the load, in slices.
//!
//! # Invariants
//!
//! 1. The sum over the slices is the number of transactions added.
//! 2. There are at most [`MOST_SLICES`]; when time goes on past the last one, every
//!    two are merged and a slice is twice as long.

use serde::Serialize;
use tantalum_rt::Nanos;

/// Slices of a series, at most.
pub const MOST_SLICES: usize = 200;

/// The length of a slice at first.
const FIRST_SLICE: Nanos = Nanos::from_millis(5);

/// How many transactions ended in each slice of the time under load (outages and
/// recoveries are left out of that time).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The length of a slice; the last one may be cut short by the end of the load.
    pub slice_ns: u64,
    /// The transactions of each slice, from the start of the load.
    pub transactions: Vec<u64>,
}

impl Default for Series {
    fn default() -> Series {
        Series { slice_ns: FIRST_SLICE.0, transactions: Vec::new() }
    }
}

impl Series {
    /// Adds a transaction that ended after so much load.
    pub fn add(&mut self, after: Nanos) {
        let count = self.slice(after);
        *count += 1;
    }

    /// The load went on for so long: slices up to there exist, if only with nothing
    /// in them.
    pub fn extend_to(&mut self, load: Nanos) {
        if load.0 > 0 {
            self.slice(Nanos(load.0 - 1));
        }
    }

    fn slice(&mut self, after: Nanos) -> &mut u64 {
        let index = |slice_ns: u64| (after.0 / slice_ns.max(1)) as usize;
        while index(self.slice_ns) >= MOST_SLICES {
            self.slice_ns = self.slice_ns.max(1).saturating_mul(2);
            self.transactions = self.transactions.chunks(2).map(|two| two.iter().sum()).collect();
        }
        let index = index(self.slice_ns);
        if self.transactions.len() <= index {
            self.transactions.resize(index + 1, 0);
        }
        &mut self.transactions[index]
    }

    /// Rates: the middle of each slice in nanoseconds of load, and the transactions
    /// per second in it. The load ended at `load_ns`; a last slice much shorter than
    /// the others says little and is left out.
    pub fn rates(&self, load_ns: u64) -> Vec<(f64, f64)> {
        let slices = self.transactions.iter().zip(0_u64..).filter_map(|(&count, i)| {
            let start = i.saturating_mul(self.slice_ns);
            let length = load_ns.saturating_sub(start).min(self.slice_ns);
            let telling = length > 0 && length >= self.slice_ns / 2;
            let middle = start as f64 + length as f64 / 2.0;
            telling.then(|| (middle, count as f64 * 1e9 / length as f64))
        });
        slices.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_per_second_and_a_stump_is_left_out() {
        let mut series = Series::default();
        for ms in [0, 1, 4, 5, 9, 10] {
            series.add(Nanos::from_millis(ms));
        }
        assert_eq!(series.transactions, [3, 2, 1]);
        assert_eq!(series.rates(11_000_000), [(2.5e6, 600.0), (7.5e6, 400.0)]);
        assert_eq!(series.rates(14_000_000).last(), Some(&(12e6, 250.0)));
        assert_eq!(series.rates(0), []);
    }

    proptest! {
        /// Invariants 1 and 2, and every transaction is in the slice of its time.
        #[test]
        fn nothing_gets_lost_in_merging(times in prop::collection::vec(0_u64..u64::MAX / 2, 0..80)) {
            let mut series = Series::default();
            for &t in &times {
                series.add(Nanos(t));
            }
            prop_assert!(series.transactions.len() <= MOST_SLICES);
            let mut model = vec![0; series.transactions.len()];
            for &t in &times {
                model[(t / series.slice_ns) as usize] += 1;
            }
            prop_assert_eq!(&series.transactions, &model);
            let before = series.clone();
            series.extend_to(Nanos(times.iter().max().map_or(0, |t| t + 1)));
            prop_assert_eq!(series, before);
        }
    }
}
