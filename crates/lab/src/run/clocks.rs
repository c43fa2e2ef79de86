//! How long what happened in a row took: histograms, and their summaries.
//!
//! 1. Memory is bounded: three digits are kept, up to a day.
//! 2. Times that are kept apart are in no summary of all operations.

use crate::report::{QUANTILES, Quantiles, RowFindings, Times};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use tantalum_rt::Nanos;

/// How long operations took: all, and those of each name.
#[derive(Default)]
pub(crate) struct Clocks {
    all: Clocked,
    each: BTreeMap<&'static str, Clocked>,
}

impl Clocks {
    /// Adds an operation.
    pub(crate) fn add(&mut self, operation: &'static str, took: Nanos) {
        self.all.add(took);
        self.add_apart(operation, took);
    }

    /// Adds what has a name, but is none of the operations that are counted together.
    pub(crate) fn add_apart(&mut self, name: &'static str, took: Nanos) {
        self.each.entry(name).or_default().add(took);
    }

    /// Says it all.
    pub(crate) fn tell(&self, findings: &mut RowFindings) {
        findings.latency = self.all.times();
        findings.latency_quantiles = self.all.quantiles();
        findings.operations = self.each.iter().map(|(name, c)| (*name, c.times())).collect();
    }
}

/// Collects times.
pub struct Clocked(Histogram<u64>);

impl Default for Clocked {
    fn default() -> Clocked {
        let longest = Nanos::from_secs(24 * 3600).0;
        Clocked(Histogram::new_with_bounds(1, longest, 3).expect("constant and within bounds"))
    }
}

impl Clocked {
    /// Adds one; longer than a day counts as a day.
    pub fn add(&mut self, time: Nanos) {
        self.0.saturating_record(time.0);
    }

    /// Their summary (to three digits).
    pub fn times(&self) -> Times {
        if self.0.is_empty() {
            return Times::default();
        }
        Times {
            count: self.0.len(),
            mean_ns: self.0.mean().round() as u64,
            p50_ns: self.0.value_at_quantile(0.5),
            p95_ns: self.0.value_at_quantile(0.95),
            p99_ns: self.0.value_at_quantile(0.99),
            p999_ns: self.0.value_at_quantile(0.999),
            max_ns: self.0.max(),
        }
    }

    /// Their distribution (to three digits); empty if there are none.
    pub fn quantiles(&self) -> Quantiles {
        if self.0.is_empty() {
            return Vec::new();
        }
        QUANTILES.iter().map(|&q| (q, self.0.value_at_quantile(q))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_three_digits() {
        let mut c = Clocked::default();
        assert_eq!(c.times(), Times::default());
        for us in 1..=100 {
            c.add(Nanos::from_micros(us));
        }
        let t = c.times();
        assert_eq!(t.count, 100);
        for (found, expected) in [
            (t.mean_ns, 50_500),
            (t.p50_ns, 50_000),
            (t.p95_ns, 95_000),
            (t.p99_ns, 99_000),
            (t.max_ns, 100_000),
        ] {
            assert!(found.abs_diff(expected) * 1000 <= expected, "{found} {expected}");
        }
        assert!(Clocked::default().quantiles().is_empty());
        let quantiles = c.quantiles();
        assert!(quantiles.contains(&(0.5, t.p50_ns)) && quantiles.contains(&(0.99, t.p99_ns)));
        assert!(quantiles.is_sorted(), "{quantiles:?}");
    }

    #[test]
    fn what_is_apart_has_its_own_times_only() {
        let mut clocks = Clocks::default();
        clocks.add("read", Nanos::from_micros(10));
        clocks.add("write", Nanos::from_micros(30));
        clocks.add_apart("flush", Nanos::from_micros(900));
        let mut f = RowFindings::default();
        clocks.tell(&mut f);
        let of = |name: &str| f.operations[name].count;
        assert_eq!((f.latency.count, of("read"), of("write"), of("flush")), (2, 1, 1, 1));
        assert!(f.latency.max_ns < 31_000 && f.operations["flush"].mean_ns > 890_000, "{f:?}");
    }
}
