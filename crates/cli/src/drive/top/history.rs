//! Samples of a drive, and the rates that follow from their differences.

use std::collections::VecDeque;
use tantalum_device::bytes_in_words;
use tantalum_export::control::{CommandCounts, StatsReport, StatusReport};

/// Samples that are kept: one for each column of a wide screen.
const SAMPLES: usize = 256;
/// Rates and histograms cover this many of the last samples.
const WINDOW: usize = 10;

/// One sample of a drive.
pub struct Sample {
    pub status: StatusReport,
    pub stats: StatsReport,
}

/// The last samples, the newest last.
#[derive(Default)]
pub struct History {
    samples: VecDeque<Sample>,
}

/// Commands and bytes per second of real time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    pub commands: f64,
    pub bytes: f64,
}

/// Latencies in a window: counts by bucket; the last bucket is for latencies above all bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    pub counts: Vec<u64>,
}

impl Latency {
    /// The upper bound, in ns, of the bucket with the quantile `q`; `None` without latencies.
    pub fn quantile(&self, bounds: &[u64], q: f64) -> Option<u64> {
        let all: u64 = self.counts.iter().sum();
        let rank = ((all as f64 * q).ceil() as u64).max(1);
        let mut sum = 0;
        let place = self.counts.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        place.map(|place| bounds.get(place).copied().unwrap_or(u64::MAX))
    }
}

/// Kinds of commands that write.
pub const WRITES: [&str; 3] = ["write", "fua", "group"];

impl History {
    /// Adds a sample. Samples of another process are removed.
    pub fn add(&mut self, sample: Sample) {
        if self.last().is_some_and(|last| last.status.pid != sample.status.pid) {
            self.samples.clear();
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The newest sample.
    pub fn last(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// The first sample of the window.
    fn window(&self) -> Option<&Sample> {
        self.samples.get(self.samples.len().saturating_sub(WINDOW + 1))
    }

    /// The rate of these kinds of commands between two samples, in real time.
    fn rate_between(from: &Sample, to: &Sample, kinds: &[&str]) -> Rate {
        let seconds = to.stats.real_now_ns.saturating_sub(from.stats.real_now_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return Rate::default();
        }
        let sum = |get: fn(&CommandCounts) -> u64| {
            let of = |s: &Sample| -> u64 {
                kinds.iter().filter_map(|k| s.stats.commands.get(*k)).map(get).sum()
            };
            of(to).saturating_sub(of(from)) as f64 / seconds
        };
        Rate { commands: sum(|c| c.done), bytes: sum(|c| c.bytes) }
    }

    /// The rate of these kinds of commands in the window.
    pub fn rate(&self, kinds: &[&str]) -> Rate {
        let last = self.samples.len().saturating_sub(1);
        match (self.samples.get(last.saturating_sub(1)), self.last()) {
            (Some(from), Some(to)) => History::rate_between(from, to, kinds),
            _ => Rate::default(),
        }
    }

    /// Commands per second for each sample but the first, the newest last, at most `columns`.
    pub fn rates(&self, kinds: &[&str], columns: usize) -> Vec<u64> {
        let first = self.samples.len().saturating_sub(columns + 1);
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1)).skip(first);
        pairs.map(|(from, to)| History::rate_between(from, to, kinds).commands as u64).collect()
    }

    /// Latencies in the window.
    pub fn latency(&self, kinds: &[&str]) -> Latency {
        let (Some(from), Some(to)) = (self.window(), self.last()) else {
            return Latency::default();
        };
        let cumulative = |s: &Sample| -> Vec<u64> {
            let mut all = vec![0; s.stats.latency_bounds_ns.len() + 1];
            for c in kinds.iter().filter_map(|k| s.stats.commands.get(*k)) {
                let within = c.latency.within.iter().chain([&c.done]);
                all.iter_mut().zip(within).for_each(|(sum, n)| *sum += n);
            }
            all
        };
        let mut before = 0;
        let counts = cumulative(to).into_iter().zip(cumulative(from)).map(|(to, from)| {
            let here = to.saturating_sub(from);
            here.saturating_sub(std::mem::replace(&mut before, here))
        });
        Latency { counts: counts.collect() }
    }

    /// The growth of this field in the window, per second of real time.
    pub fn pace(&self, name: &str) -> f64 {
        let (Some(from), Some(to)) = (self.window(), self.last()) else { return 0.0 };
        let seconds = to.stats.real_now_ns.saturating_sub(from.stats.real_now_ns) as f64 / 1e9;
        let of = |sample: &Sample| sample.stats.values.number(name).unwrap_or_default();
        match seconds > 0.0 {
            true => (of(to) - of(from)).max(0.0) / seconds,
            false => 0.0,
        }
    }

    /// The text of a box's line, with its placeholders filled in.
    pub fn resolve(&self, text: &str) -> String {
        let mut told = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((asked, behind)) = after.split_once('}') else { break };
            told.push_str(before);
            told.push_str(&self.growth(asked));
            rest = behind;
        }
        told + rest
    }

    /// The value of a placeholder: `NAME/s`, or `A/B`.
    fn growth(&self, asked: &str) -> String {
        let Some((name, by)) = asked.split_once('/') else { return "?".to_string() };
        let pace = self.pace(name);
        if by != "s" {
            let by = self.pace(by);
            return if by > 0.0 { format!("{:.2}", pace / by) } else { "-".to_string() };
        }
        let fields = self.last().map(|last| &last.stats.fields);
        let described = fields.and_then(|all| all.iter().find(|field| field.name == name));
        match described.map(|field| field.unit.as_str()) {
            Some("bytes") => bytes_in_words(pace as u64),
            _ => short(pace),
        }
    }
}

/// A number in few characters.
pub fn short(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}
