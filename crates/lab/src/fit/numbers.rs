//! The numbers that were measured on a drive.

use crate::file::parse;
use tantalum_workload::jobs::{Job, Pattern};

/// Something that is measured of a drive, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its key in a file of numbers.
    pub key: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Its unit.
    pub unit: Unit,
    reads: bool,
    pattern: Pattern,
    block_size: u64,
    queue_depth: u32,
    /// Writes from one fsync to the next; 0: none.
    pub fsync_every: u64,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds from the issue of a command to its end, on average.
    Microseconds,
    /// Commands in a second.
    PerSecond,
    /// 10⁶ bytes in a second.
    Megabytes,
}

impl Unit {
    /// Numbers that a drive can have.
    fn range(self) -> (f64, f64) {
        match self {
            Unit::Microseconds => (0.1, 1e7),
            Unit::PerSecond => (0.1, 1e9),
            Unit::Megabytes => (0.01, 1e6),
        }
    }

    /// What a user reads.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Microseconds => "µs",
            Unit::PerSecond => "1/s",
            Unit::Megabytes => "MB/s",
        }
    }
}

const fn random(key: &'static str, what: &'static str, reads: bool, depth: u32) -> Number {
    let unit = if depth == 1 { Unit::Microseconds } else { Unit::PerSecond };
    let (pattern, block_size, queue_depth) = (Pattern::Random, 4096, depth);
    Number { key, what, unit, reads, pattern, block_size, queue_depth, fsync_every: 0 }
}

const fn sequential(key: &'static str, what: &'static str, reads: bool) -> Number {
    let (unit, pattern) = (Unit::Megabytes, Pattern::Sequential);
    let (block_size, queue_depth) = (128 * 1024, 32);
    Number { key, what, unit, reads, pattern, block_size, queue_depth, fsync_every: 0 }
}

const fn fsync(key: &'static str, what: &'static str, fsync_every: u64) -> Number {
    Number { fsync_every, unit: Unit::PerSecond, ..random(key, what, false, 1) }
}

/// All numbers that there are.
pub const NUMBERS: &[Number] = &[
    random("read_4k_us", "4 KiB random read, depth 1", true, 1),
    random("read_4k_iops_32", "4 KiB random reads, depth 32", true, 32),
    random("read_4k_iops_128", "4 KiB random reads, depth 128", true, 128),
    random("write_4k_us", "4 KiB random write, depth 1", false, 1),
    Number {
        block_size: 16 * 1024,
        ..random("write_16k_us", "16 KiB random write, depth 1", false, 1)
    },
    random("write_4k_iops_32", "4 KiB random writes, depth 32", false, 32),
    random("write_4k_iops_128", "4 KiB random writes, depth 128", false, 128),
    sequential("read_mb_s", "128 KiB sequential reads, depth 32", true),
    sequential("write_mb_s", "128 KiB sequential writes, depth 32", false),
    fsync("fsync_1_per_s", "4 KiB writes, an fsync after each", 1),
    fsync("fsync_32_per_s", "4 KiB writes, an fsync after 32", 32),
    fsync("fsync_256_per_s", "4 KiB writes, an fsync after 256", 256),
];

impl Number {
    /// The job that measures it, without an end.
    pub(super) fn job(&self) -> Job {
        Job {
            pattern: self.pattern,
            block_size: self.block_size,
            reads: self.reads.then_some(1.0),
            queue_depth: self.queue_depth,
            fsync_every: self.fsync_every,
            ..Job::default()
        }
    }

    /// Whether the drive has to be written before.
    pub(super) fn reads(&self) -> bool {
        self.reads
    }

    /// The number, from commands in a time.
    pub(super) fn of(&self, commands: f64, seconds: f64) -> f64 {
        match self.unit {
            Unit::Microseconds => seconds * 1e6 / commands * f64::from(self.queue_depth),
            Unit::PerSecond => commands / seconds,
            Unit::Megabytes => commands * self.block_size as f64 / 1e6 / seconds,
        }
    }
}

/// The numbers of a file, in the order of [`NUMBERS`].
///
/// # Errors
/// In a line: the file is no TOML, a key is unknown, a value is beyond what a drive can have, or
/// there is none.
pub fn parse_numbers(text: &str) -> Result<Vec<(Number, f64)>, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map(|span| text[..span.start].lines().count().max(1));
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{line}{}", e.message())
    })?;
    let known = || NUMBERS.iter().map(|n| n.key);
    for (key, value) in &table {
        if !known().any(|k| k == key) {
            return Err(parse::unknown("unknown number", key, known()));
        }
        let number = value.as_float().or(value.as_integer().map(|i| i as f64));
        let unit = NUMBERS.iter().find(|n| n.key == key).map_or(Unit::PerSecond, |n| n.unit);
        let (least, most) = unit.range();
        if !number.is_some_and(|n| (least..=most).contains(&n)) {
            let unit = unit.name();
            return Err(format!(
                "{key} is {value}; it must be a number of {unit}, {least} to {most}"
            ));
        }
    }
    let value = |n: &Number| {
        let value = table.get(n.key)?;
        value.as_float().or(value.as_integer().map(|i| i as f64))
    };
    let found: Vec<_> = NUMBERS.iter().filter_map(|n| Some((*n, value(n)?))).collect();
    match found.is_empty() {
        true => Err(format!(
            "there is no number in it; known are: {}",
            known().collect::<Vec<_>>().join(", ")
        )),
        false => Ok(found),
    }
}
