//! The measures of a row: each has a name, a unit and a place in the JSON of the row.
//!
//! 1. This is the only list of measures. Published numbers and ratios name its entries, and the
//!    comparison of two reports walks through it.
//! 2. A measure that a row did not take is missing, not 0.

use crate::file::parse;
use crate::report::units::Unit;
use crate::report::{RowReport, json};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Whether more of a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// It is.
    More,
    /// Less is.
    Less,
}

/// Something that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
}

pub(crate) const fn more(name: &'static str, unit: Unit) -> Measure {
    Measure { name, unit, better: Better::More }
}

pub(crate) const fn less(name: &'static str, unit: Unit) -> Measure {
    Measure { name, unit, better: Better::Less }
}

/// Which rows have a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Of every row.
    All,
    /// Of databases, which commit transactions.
    Databases,
    /// Of block jobs and traces, which have requests.
    Jobs,
}

/// A measure of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfRow {
    /// Its name in experiment files; empty if they cannot name it. Two entries with one key are the
    /// same measure, one of databases and one of jobs.
    key: &'static str,
    pub measure: Measure,
    of: Of,
    /// Its place in the JSON of a row.
    path: &'static str,
    /// The place of the number by which it is divided; empty if it is not divided.
    per: &'static str,
    /// The place of a number that must be above 0, or the measure is missing; empty if none must.
    needs: &'static str,
    /// Whether comparisons have it.
    pub is_compared: bool,
}

/// A measure that comparisons have.
const fn both(
    key: &'static str,
    measure: Measure,
    of: Of,
    path: &'static str,
    needs: &'static str,
) -> OfRow {
    OfRow { key, measure, of, path, per: "", needs, is_compared: true }
}

/// One that only files name.
const fn named(key: &'static str, measure: Measure, path: &'static str) -> OfRow {
    OfRow { key, measure, of: Of::All, path, per: "", needs: "", is_compared: false }
}

/// One of the `measures` in the JSON of a database, which only files name.
const fn counted(key: &'static str, name: &'static str, path: &'static str) -> OfRow {
    named(key, less(name, Unit::Number), path)
}

const TIME: Unit = Unit::Microseconds;
const DONE: &str = "/transactions";

/// All measures, in the order in which comparisons show them.
pub(crate) const OF_ROWS: &[OfRow] = &[
    both("throughput", more("transactions/s", Unit::Number), Of::Databases, "/tx_per_s", "/load_s"),
    both("throughput", more("requests/s", Unit::Number), Of::Jobs, "/iops", "/load_s"),
    both("p50", less("latency p50", TIME), Of::All, "/latency_us/p50", DONE),
    OfRow { needs: DONE, ..named("p90", less("latency p90", TIME), "/latency_us/quantiles/20/1") },
    OfRow { needs: DONE, ..named("p95", less("latency p95", TIME), "/latency_us/quantiles/21/1") },
    both("p99", less("latency p99", TIME), Of::All, "/latency_us/p99", DONE),
    OfRow { needs: DONE, ..named("p99.9", less("latency p99.9", TIME), "/latency_us/p999") },
    OfRow { needs: DONE, ..named("mean", less("latency, mean", TIME), "/latency_us/mean") },
    OfRow { needs: DONE, ..named("max", less("latency, longest", TIME), "/latency_us/max") },
    both("lost", less("commits lost", Unit::Count), Of::Databases, "/lost", "/cuts"),
    both("lost", less("blocks lost", Unit::Count), Of::Jobs, "/lost", "/cuts"),
    both("corrupt", less("databases corrupt", Unit::Count), Of::Databases, "/corrupt", "/cuts"),
    named("utilisation", more("time with a command under way, share", Unit::Ratio), "/utilisation"),
    named(
        "log-utilisation",
        more("the same of the log's device", Unit::Ratio),
        "/measures/log_utilisation",
    ),
    named("user-bytes", less("bytes written by the user", Unit::Number), "/user_bytes_written"),
    named("host-bytes", less("bytes written by the host", Unit::Number), "/host_bytes_written"),
    OfRow {
        per: DONE,
        ..named(
            "flash-bytes",
            less("flash bytes per operation", Unit::Number),
            "/flash_bytes_written",
        )
    },
    both(
        "flash-per-user-byte",
        less("flash bytes per user byte", Unit::Ratio),
        Of::All,
        "/flash_bytes_per_user_byte",
        "",
    ),
    both(
        "write-amplification",
        less("write amplification", Unit::Ratio),
        Of::All,
        "/write_amplification",
        "",
    ),
    both(
        "write-amplification-host",
        less("write amplification, host data", Unit::Ratio),
        Of::All,
        "/drive/amplification/host",
        "",
    ),
    both(
        "write-amplification-moved",
        less("write amplification, moved data", Unit::Ratio),
        Of::All,
        "/drive/amplification/collection",
        "",
    ),
    both(
        "write-amplification-map",
        less("write amplification, map", Unit::Ratio),
        Of::All,
        "/drive/amplification/map",
        "",
    ),
    both(
        "dump-bytes",
        less("bytes dumped", Unit::Count),
        Of::All,
        "/drive/programmed_bytes/dump",
        "",
    ),
    both("buffer-wait", less("wait for the buffer, s", Unit::Ratio), Of::All, BUFFER, ""),
    both("space-wait", less("wait for free units, s", Unit::Ratio), Of::All, SPACE, ""),
    both("free-units", more("free units, fewest", Unit::Count), Of::All, FREE, ""),
    both("bad-units", less("units gone bad", Unit::Count), Of::All, "/drive/units/retired", ""),
    both("erases", less("erases", Unit::Count), Of::All, "/drive/erases", ""),
    both("wear", less("wear, mean", Unit::Ratio), Of::All, "/drive/wear/mean", ""),
    both("wear-spread", less("wear, spread", Unit::Count), Of::All, "/drive/wear/spread", ""),
    both(
        "answered",
        less("recovery, median", TIME),
        Of::All,
        "/recovery_us/p50",
        "/recovery_us/p50",
    ),
    OfRow {
        needs: "/drive_recovery_us/max",
        ..named("recovery", less("recovery of the drive, longest", TIME), "/drive_recovery_us/max")
    },
    OfRow {
        per: "/drive/raw_bytes",
        ..named(
            "capacity-share",
            more("capacity per byte of flash", Unit::Ratio),
            "/drive/capacity_bytes",
        )
    },
    named(
        "slowest-second",
        more("requests in the slowest whole second", Unit::Number),
        "/measures/slowest_second",
    ),
    named("hit-rate", more("page uses that hit, share", Unit::Ratio), "/measures/page_hit_rate"),
    counted("hedges", "writes again per request", "/measures/hedges_per_request"),
    counted("device-bytes", "bytes written per request", "/measures/device_bytes_per_request"),
    counted("host-bytes-per-commit", "host bytes per commit", "/measures/host_bytes_per_commit"),
    counted("flash-bytes-per-commit", "flash bytes per commit", "/measures/flash_bytes_per_commit"),
    counted("writes-per-commit", "writes per commit", "/measures/writes_per_commit"),
    counted("groups-per-commit", "atomic groups per commit", "/measures/groups_per_commit"),
    counted("flushes-per-commit", "flushes per commit", "/measures/flushes_per_commit"),
    counted("page-uses", "page uses per transaction", "/measures/page_uses_per_transaction"),
    counted("page-reads", "page reads per transaction", "/measures/page_reads_per_transaction"),
    counted("page-writes", "page writes per transaction", "/measures/page_writes_per_transaction"),
    counted(
        "single-page-writes",
        "single-page writes per transaction",
        "/measures/single_page_writes_per_transaction",
    ),
    counted(
        "blocked-reads",
        "reads blocked by writes per transaction",
        "/measures/reads_blocked_by_writes_per_transaction",
    ),
    counted("flushes", "flushes per transaction", "/measures/flushes_per_transaction"),
    counted("groups", "atomic groups per transaction", "/measures/groups_per_transaction"),
    counted("log-again", "log writes issued again, share", "/measures/log_writes_again"),
    named(
        "log-to-10-kib",
        more("log writes of at most 10 KiB, share", Unit::Ratio),
        "/measures/log_writes_to_10_kib",
    ),
    named(
        "log-to-15-kib",
        more("log writes of at most 15 KiB, share", Unit::Ratio),
        "/measures/log_writes_to_15_kib",
    ),
    named(
        "log-to-36-kib",
        more("log writes of at most 36 KiB, share", Unit::Ratio),
        "/measures/log_writes_to_36_kib",
    ),
    counted("log-bytes", "log bytes per transaction", "/measures/log_bytes_per_transaction"),
    named(
        "cache-hits",
        more("hits of the flash cache, share", Unit::Ratio),
        "/measures/cache_hit_rate",
    ),
    named(
        "cache-write-reduction",
        more("page writes saved by the flash cache, share", Unit::Ratio),
        "/measures/cache_write_reduction",
    ),
    named(
        "cache-write-kib",
        more("KiB of a write of the cache's drive", Unit::Number),
        "/measures/cache_write_kib",
    ),
    named(
        "cache-sequential",
        more("sequential writes of the cache's drive, share", Unit::Ratio),
        "/measures/cache_sequential",
    ),
    named(
        "cache-adjoining",
        more("writes of the cache's drive behind the command before, share", Unit::Ratio),
        "/measures/cache_adjoining",
    ),
    named(
        "cache-old-versions",
        less("frames with old versions, share", Unit::Ratio),
        "/measures/cache_old_versions",
    ),
    named(
        "cache-amplification",
        less("write amplification of the cache's drive", Unit::Ratio),
        "/measures/cache_write_amplification",
    ),
    named(
        "cache-utilisation",
        less("time with a command of the cache's drive, share", Unit::Ratio),
        "/measures/cache_utilisation",
    ),
    named(
        "cache-mib-s",
        more("MiB/s read from and written to the cache's drive", Unit::Number),
        "/measures/cache_mib_s",
    ),
    named("restart", less("restart, s", Unit::Number), "/measures/restart_s"),
    named(
        "restart-metadata",
        less("restart until the cache is open, s", Unit::Number),
        "/measures/restart_metadata_s",
    ),
    named(
        "restart-from-flash",
        more("pages read to redo the log that flash had, share", Unit::Ratio),
        "/measures/restart_reads_from_flash",
    ),
    named(
        "restart-throughput",
        more("transactions/s after a restart", Unit::Number),
        "/measures/restart_tx_per_s",
    ),
    // A deviation upwards is as bad as one downwards (`read`).
    both("", less("off what was published, %", Unit::Number), Of::All, "/deviation_percent", ""),
];

const BUFFER: &str = "/drive/buffer_wait_s";
const SPACE: &str = "/drive/space_wait_s";
const FREE: &str = "/drive/units/free_least";

impl OfRow {
    /// Reads it from the JSON of a row. The sign of a deviation is dropped; no other measure has one.
    pub fn read(&self, row: &Value) -> Option<f64> {
        let number = |path: &str| row.pointer(path).and_then(Value::as_f64);
        let is_there = |path: &str| path.is_empty() || number(path).is_some_and(|n| n > 0.0);
        let not_its = if row.get("iops").is_some() { Of::Databases } else { Of::Jobs };
        if self.of == not_its || !is_there(self.needs) || !is_there(self.per) {
            return None;
        }
        let by = if self.per.is_empty() { 1.0 } else { number(self.per)? };
        Some(number(self.path)?.abs() / by)
    }
}

/// A measure as experiment files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named(&'static str);

impl Default for Named {
    fn default() -> Named {
        Named("throughput")
    }
}

impl Named {
    /// Looks a measure up by its name in experiment files.
    ///
    /// # Errors
    /// If there is none of that name: the nearest name, or all of them.
    pub fn parse(key: &str) -> Result<Named, String> {
        let found = keys().find(|k| *k == key).map(Named);
        found.ok_or_else(|| parse::unknown("there is no measure", key, keys()))
    }

    /// As files write it.
    pub fn key(self) -> &'static str {
        self.0
    }

    /// In words.
    pub fn name(self) -> String {
        self.0.replace('-', " ")
    }

    /// What it is counted in.
    pub fn unit(self) -> Unit {
        self.all().next().map_or(Unit::Number, |m| m.measure.unit)
    }

    fn all(self) -> impl Iterator<Item = &'static OfRow> {
        OF_ROWS.iter().filter(move |m| m.key == self.0)
    }

    /// Of a row; `None` if it failed, did nothing or has no such measure.
    pub fn of(self, row: &RowReport) -> Option<f64> {
        if row.error.is_some() || row.findings.transactions == 0 {
            return None;
        }
        let measured = json::measured(row);
        self.all().find_map(|m| m.read(&measured)).filter(|n| n.is_finite())
    }
}

/// The names of all measures that files may name.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let mut keys: Vec<&str> = OF_ROWS.iter().map(|m| m.key).filter(|k| !k.is_empty()).collect();
    keys.dedup();
    keys.into_iter()
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Named, D::Error> {
        Named::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::QUANTILES;
    use std::collections::BTreeSet;

    #[test]
    fn the_places_of_quantiles_are_those_of_their_numbers() {
        for (key, at, quantile) in [("p90", 20, 0.9), ("p95", 21, 0.95)] {
            let measure = OF_ROWS.iter().find(|m| m.key == key).unwrap();
            assert_eq!(measure.path, format!("/latency_us/quantiles/{at}/1"));
            assert_eq!(QUANTILES[at], quantile);
        }
    }

    #[test]
    fn a_name_is_one_measure() {
        let all: Vec<&str> = keys().collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        for key in all {
            assert_eq!(Named::parse(key).unwrap().key(), key);
        }
    }
}
