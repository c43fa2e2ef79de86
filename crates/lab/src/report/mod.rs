//! What an experiment found: one record for each row, the same bytes for the same
//! seed, and whether each row kept to what was expected of it.

pub mod compare;
pub mod crash;
pub mod figures;
pub mod gains;
pub mod json;
pub mod json_layout;
pub mod measures;
pub mod panels;
pub mod published;
pub mod ratio;
pub mod repeated;
pub mod series;
pub mod sums;
pub mod terms;
pub mod units;

use crate::file::experiment::{Expect, Journal, Row, Synchronous, WorkloadKind};
use crate::report::figures::{Counts, DriveFigures};
use crate::report::published::{Published, Source};
use crate::report::ratio::RatioReport;
use crate::report::repeated::Spread;
use crate::report::series::Series;
use crate::run::precondition::Preconditioned;
use crate::run::row::Traffic;
use crate::subject::Model;
use serde::Serialize;
use std::collections::BTreeMap;
use tantalum_device::Latencies;
use tantalum_drive::Drive;
use tantalum_rt::Nanos;
use tantalum_workload::replay::Played;

/// A row that is expected to lose something is not judged by fewer cuts than this. It is cut
/// further, up to so many times, until it loses something.
pub const CUTS_TO_SHOW_LOSS: u32 = 10;

/// Problems listed in words; further ones are only counted.
const PROBLEMS_LISTED: usize = 12;

/// The quantiles of a distribution in a report.
pub(crate) const QUANTILES: [f64; 29] = [
    0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7,
    0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0,
];

/// A distribution as a list of quantiles and nanoseconds, both rising.
pub type Quantiles = Vec<(f64, u64)>;

/// The distribution of latencies that were collected elsewhere; empty if there are none.
pub(crate) fn quantiles_of(latencies: &Latencies) -> Quantiles {
    if latencies.count() == 0 {
        return Vec::new();
    }
    QUANTILES.iter().map(|&q| (q, latencies.quantile(q).0)).collect()
}

/// The whole run.
///
/// See [the crate](crate) for an example.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the experiment shows.
    pub title: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// Power cuts asked for, for each row.
    pub cuts: u32,
    /// Where published numbers come from, if there are any.
    pub published: Option<Source>,
    /// Rows of it beside each other.
    pub ratios: Vec<RatioReport>,
    /// Its rows.
    pub rows: Vec<RowReport>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct RowReport {
    /// The row's name.
    pub name: String,
    /// Which benchmark.
    pub workload: WorkloadKind,
    /// Which preset, or which design of the file.
    pub design: String,
    /// All that the device consists of; `None` if there is no such design.
    pub model: Option<Model>,
    /// SQLite's journal mode.
    pub journal: Journal,
    /// SQLite's `synchronous`.
    pub synchronous: Synchronous,
    /// What the row must show.
    pub expect: Expect,
    /// Its parameters, where the file gives any.
    pub params: BTreeMap<String, toml::Value>,
    /// What was published for it, in the order of the file.
    pub published: Vec<Published>,
    /// The row's own seed.
    pub seed: u64,
    /// Whether it showed that.
    pub verdict: Verdict,
    /// What it found; what it had found so far if it ended early.
    pub findings: RowFindings,
    /// Why it ended early, if it did.
    pub error: Option<String>,
    /// If it stands for several repetitions ([`Report::folded`]): how far they are apart.
    #[serde(skip)]
    pub spread: Option<Spread>,
}

/// Whether a row showed what was expected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It did.
    AsExpected,
    /// What drive and settings promise was broken.
    Violated,
    /// Something was lost that must not be.
    Lost,
    /// Something was to be lost, and was not; but the row ended after too few cuts to say so.
    NotJudged,
    /// Nothing was lost although it was expected: the model is too kind.
    NothingLost,
    /// The run of the row failed.
    Failed,
}

/// Times in nanoseconds, in a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How many there were.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// One in twenty takes longer.
    pub p95_ns: u64,
    /// One in a hundred takes longer.
    pub p99_ns: u64,
    /// One in a thousand takes longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Times {
    /// Of latencies that were collected elsewhere.
    pub(crate) fn of(latencies: &Latencies) -> Times {
        Times {
            count: latencies.count(),
            mean_ns: latencies.mean().0,
            p50_ns: latencies.p50().0,
            p95_ns: latencies.quantile(0.95).0,
            p99_ns: latencies.p99().0,
            p999_ns: latencies.quantile(0.999).0,
            max_ns: latencies.max().0,
        }
    }
}

/// What a row measured and found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RowFindings {
    /// How the drive was preconditioned, if it was.
    pub preconditioned: Option<Preconditioned>,
    /// Power cuts made under load.
    pub cuts: u32,
    /// Further power cuts made while drive or database recovered.
    pub cuts_in_recovery: u32,
    /// Virtual time under load, without outages and recoveries.
    pub load_ns: u64,
    /// Operations of the benchmark that ended well (all are transactions).
    pub transactions: u64,
    /// Those per second of virtual time.
    pub transactions_per_second: f64,
    /// How long they took.
    pub latency: Times,
    /// Their distribution; empty if there were none.
    pub latency_quantiles: Quantiles,
    /// Operations by their names: how many, and how long they took; of benchmarks on SQLite or on
    /// an engine as a model, and of block jobs and traces by kinds of commands, flushes too.
    pub operations: BTreeMap<&'static str, Times>,
    /// How much of a recorded trace was played; `None` for other rows.
    pub replay: Option<Played>,
    /// Operations over the time under load; `None` if there were none.
    pub series: Option<Series>,
    /// Transactions that wrote and whose COMMIT was acknowledged.
    pub commits_acknowledged: u64,
    /// Of those, the ones that a power cut undid. If the ledger could not be read, all since the
    /// last cut count.
    pub commits_lost: u64,
    /// Cuts that lost at least one.
    pub cuts_with_loss: u32,
    /// Cuts after which the database could not be opened or read, failed its
    /// integrity check, or broke an invariant of the benchmark.
    pub databases_corrupt: u32,
    /// Promises broken: acknowledged commits lost, databases damaged and blocks wrong
    /// although drive and settings promise otherwise.
    pub violations: u64,
    /// Blocks compared with what the drive promised, over all restarts.
    pub blocks_compared: u64,
    /// How often the ledger had more commits than could have been in flight. That is an error of
    /// the experiment itself.
    pub ledger_ahead: u64,
    /// Writes that the drive refused under load for want of space: it promises more than it can
    /// keep.
    pub refused: u64,
    /// A database had no room for a transaction: it was cut and checked once more, and the row
    /// ended there.
    pub full: bool,
    /// Bytes of row contents written by acknowledged commits.
    pub user_bytes: u64,
    /// How long under load at least one command was under way.
    pub busy_ns: u64,
    /// Bytes the host wrote to the drive under load.
    pub host_bytes: u64,
    /// Bytes programmed into flash under load; `None` for a device without flash.
    pub flash_bytes: Option<u64>,
    /// Flash bytes for each user byte.
    pub flash_bytes_per_user_byte: Option<f64>,
    /// What the row's SSDs did, and how they are after the last cut; `None` without flash.
    pub drives: Option<DriveFigures>,
    /// From the return of the power to a drive that takes commands.
    pub drive_recovery: Times,
    /// From the return of the power to an answer from the database.
    pub recovery: Times,
    /// The last look at the drive that was counted.
    #[serde(skip)]
    pub last_look: Option<Traffic>,
    /// What else was measured of a database as a model, by name; empty for other rows.
    pub measures: BTreeMap<&'static str, f64>,
    /// What was wrong, in words, the first few.
    pub problems: Vec<String>,
    /// How many problems there were in all.
    pub problems_total: u64,
    /// The hash of everything that happened in the row's runtime.
    pub trace_hash: u64,
}

impl RowFindings {
    /// Adds what went to the drive under load, between two looks at it, both while its power
    /// is on; and what it did since the last such look, as outside of the load.
    pub fn count_traffic(&mut self, from: Traffic, to: Traffic) {
        if let Some(last) = self.last_look
            && let Some(drives) = &mut self.drives
        {
            let host = from.host_bytes.saturating_sub(last.host_bytes);
            drives.count_outside(last.counts, from.counts, host);
        }
        self.last_look = Some(to);
        self.host_bytes += to.host_bytes - from.host_bytes;
        self.busy_ns += to.busy.saturating_sub(from.busy).0;
        let counts = (from.counts, to.counts);
        if let (Some(to), Some(from)) = (to.flash_bytes, from.flash_bytes) {
            self.flash_bytes = Some(self.flash_bytes.unwrap_or(0) + to - from);
            self.drives.get_or_insert_default().count_load(counts.0, counts.1);
        }
    }

    /// Looks at the SSDs before a cut, while they have power.
    pub fn look_before_cut(&mut self, drives: &[Drive]) {
        if !drives.is_empty() {
            self.drives.get_or_insert_default().look_at_roles(drives);
        }
    }

    /// Looks at the SSDs after a cut, when their dumps are done.
    pub fn look_at(&mut self, drives: &[Drive]) {
        if !drives.is_empty() {
            self.drives.get_or_insert_default().look_at(drives);
        }
    }

    /// The parts of the write amplification: programmed with data of the host, by the
    /// collection, with the map.
    pub fn amplification_parts(&self) -> Option<[f64; 3]> {
        let drives = self.drives.as_ref().filter(|_| self.host_bytes > 0)?;
        Some(drives.under_load.programmed().map(|b| b as f64 / self.host_bytes as f64))
    }

    /// Bytes programmed for each byte that the host wrote to the drive.
    pub fn write_amplification(&self) -> Option<f64> {
        let flash = self.flash_bytes.filter(|_| self.host_bytes > 0)?;
        Some(flash as f64 / self.host_bytes as f64)
    }

    /// The same from the first load to the last cut, with what was written and programmed
    /// outside of the load: a drive that is given a rest collects in it, for free.
    pub fn overall_amplification(&self) -> Option<f64> {
        let drives = self.drives.as_ref()?;
        let host = self.host_bytes + drives.outside_host_bytes;
        let sum = |counts: &Counts| counts.programmed().iter().sum::<u64>();
        let flash = sum(&drives.under_load) + sum(&drives.outside_load);
        (host > 0).then(|| flash as f64 / host as f64)
    }

    /// What a commit costs its drives, among the measures.
    pub(crate) fn measure_commits(&mut self) {
        let Some(drives) = self.drives.as_ref().filter(|_| self.commits_acknowledged > 0) else {
            return;
        };
        let (load, all) = (drives.under_load, self.commits_acknowledged as f64);
        let flash = load.programmed().iter().sum::<u64>() as f64;
        self.measures.extend([
            ("host_bytes_per_commit", self.host_bytes as f64 / all),
            ("flash_bytes_per_commit", flash / all),
            ("writes_per_commit", load.writes as f64 / all),
            ("groups_per_commit", load.groups as f64 / all),
            ("flushes_per_commit", load.flushes as f64 / all),
        ]);
    }

    /// Notes a problem.
    pub fn problem(&mut self, words: String) {
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_LISTED {
            self.problems.push(words);
        }
    }

    /// Whether anything was lost or damaged.
    pub fn lost_anything(&self) -> bool {
        self.commits_lost > 0 || self.databases_corrupt > 0
    }

    /// Rates and ratios, from the counts.
    pub fn finish(&mut self) {
        let seconds = Nanos(self.load_ns).as_secs_f64();
        if seconds > 0.0 {
            self.transactions_per_second = self.transactions as f64 / seconds;
        }
        self.flash_bytes_per_user_byte = self
            .flash_bytes
            .filter(|_| self.user_bytes > 0)
            .map(|flash| flash as f64 / self.user_bytes as f64);
        if let Some(series) = &mut self.series {
            series.extend_to(Nanos(self.load_ns));
        }
    }
}

impl RowReport {
    /// What its capacitors lacked, if a dump was not complete for lack of energy.
    pub fn shortage(&self) -> Option<String> {
        self.findings.drives.as_ref().and_then(|d| d.power)?.shortage()
    }

    /// The record of a row that found this; `error` if it ended early.
    pub fn new(row: &Row, seed: u64, findings: RowFindings, error: Option<String>) -> RowReport {
        let verdict = match row.expect {
            _ if error.is_some() || findings.ledger_ahead > 0 => Verdict::Failed,
            // A row that did nothing, or whose writes were never acknowledged, shows nothing.
            _ if findings.transactions == 0
                || (findings.commits_acknowledged == 0 && findings.host_bytes > 0) =>
            {
                Verdict::Failed
            }
            _ if findings.violations > 0 => Verdict::Violated,
            Expect::Lossless if findings.lost_anything() => Verdict::Lost,
            Expect::Lossy if findings.lost_anything() => Verdict::AsExpected,
            Expect::Lossy if findings.cuts < CUTS_TO_SHOW_LOSS => Verdict::NotJudged,
            Expect::Lossy => Verdict::NothingLost,
            _ => Verdict::AsExpected,
        };
        RowReport {
            name: row.name.clone(),
            workload: row.workload.clone(),
            design: row.design.clone(),
            model: row.model().ok(),
            journal: row.journal,
            synchronous: row.synchronous,
            expect: row.expect,
            params: row.params.clone(),
            published: row.published.clone(),
            seed,
            verdict,
            findings,
            error,
            spread: None,
        }
    }

    /// Whether it ran a block job: then its transactions are requests, and it has no
    /// journal.
    pub fn is_job(&self) -> bool {
        matches!(self.workload, WorkloadKind::Job(_))
    }

    /// Whether it ran on SQLite, so that journal and `synchronous` say something.
    pub fn has_journal(&self) -> bool {
        self.workload.has_journal()
    }

    /// How long reads and writes took, if it is a block job or a trace that did both.
    pub fn reads_and_writes(&self) -> Option<[&Times; 2]> {
        let of = |name| self.findings.operations.get(name).filter(|_| self.is_job());
        Some([of("read")?, of("write").or_else(|| of("fua"))?])
    }

    /// Its parameters with their values; of a dotted key the last part.
    pub fn parameters(&self) -> String {
        let each = self
            .params
            .iter()
            .map(|(key, value)| format!("{}={value}", key.rsplit('.').next().unwrap_or(key)));
        each.collect::<Vec<_>>().join(" ")
    }

    /// Further notes: what its drive refused, and whether that ended it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let RowFindings { refused, full, load_ns, .. } = self.findings;
        if refused > 0 {
            let writes = if refused == 1 { "write" } else { "writes" };
            notes.push(format!("{refused} {writes} refused, no space left"));
        }
        if full && self.error.is_none() {
            let load = Nanos(load_ns);
            notes.push(format!("full after {load} of load; cut once more, checked, ended there"));
        }
        notes
    }

    /// The result of the row in a word: capitals where it is not as expected.
    pub fn result(&self) -> &'static str {
        match self.verdict {
            Verdict::Failed => "FAILED",
            Verdict::Violated => "BROKEN",
            Verdict::Lost => "LOST",
            Verdict::NotJudged => "TOO FEW CUTS",
            Verdict::NothingLost => "NO LOSS?",
            Verdict::AsExpected if self.findings.lost_anything() => "loses",
            Verdict::AsExpected => "kept",
        }
    }
}

impl Report {
    /// The rows that did not show what was expected.
    pub fn unexpected(&self) -> impl Iterator<Item = &RowReport> {
        self.rows.iter().filter(|r| r.verdict != Verdict::AsExpected)
    }

    /// The report as JSON, with a line break at its end. It holds nothing that
    /// depends on the machine or the day.
    pub fn to_json(&self) -> String {
        crate::report::json::to_json(self)
    }

    /// The same for a run that was interrupted, of which these rows are missing.
    pub fn to_json_without(&self, missing: &[&str]) -> String {
        crate::report::json::interrupted(self, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::experiment::Scene;

    fn row(expect: Expect) -> Row {
        Row {
            name: "x".into(),
            workload: WorkloadKind::YcsbA,
            design: "d".into(),
            journal: Journal::Wal,
            synchronous: Synchronous::Full,
            expect,
            params: BTreeMap::new(),
            published: Vec::new(),
            scene: Scene::default(),
            quick: Default::default(),
        }
    }

    fn verdict(expect: Expect, cuts: u32, lost: u64, corrupt: u32) -> Verdict {
        let findings = RowFindings {
            cuts,
            transactions: 100,
            commits_acknowledged: 100,
            commits_lost: lost,
            databases_corrupt: corrupt,
            ..RowFindings::default()
        };
        RowReport::new(&row(expect), 1, findings, None).verdict
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(Expect::Lossless, 50, 0, 0), Verdict::AsExpected);
        assert_eq!(verdict(Expect::Lossless, 50, 1, 0), Verdict::Lost);
        assert_eq!(verdict(Expect::Lossless, 50, 0, 1), Verdict::Lost);
        assert_eq!(verdict(Expect::Lossy, 50, 0, 1), Verdict::AsExpected);
        assert_eq!(verdict(Expect::Lossy, 50, 0, 0), Verdict::NothingLost);
        assert_eq!(verdict(Expect::Lossy, 10, 0, 0), Verdict::NothingLost);
        assert_eq!(verdict(Expect::Lossy, 3, 0, 0), Verdict::NotJudged);
        assert_eq!(verdict(Expect::Lossy, 3, 1, 0), Verdict::AsExpected);
        assert_eq!(verdict(Expect::Promised, 50, 9, 9), Verdict::AsExpected);
        let told = |f| RowReport::new(&row(Expect::Promised), 1, f, None).verdict;
        let some = RowFindings { transactions: 1, ..RowFindings::default() };
        assert_eq!(told(RowFindings { ledger_ahead: 1, ..some.clone() }), Verdict::Failed);
        assert_eq!(told(RowFindings { violations: 1, ..some }), Verdict::Violated);
        // Nothing written, nothing shown.
        assert_eq!(told(RowFindings::default()), Verdict::Failed);
    }

    #[test]
    fn rates_come_from_the_counts() {
        let mut f = RowFindings {
            load_ns: 2_000_000_000,
            transactions: 100,
            user_bytes: 10,
            flash_bytes: Some(45),
            ..RowFindings::default()
        };
        f.finish();
        assert_eq!(f.transactions_per_second, 50.0);
        assert_eq!(f.flash_bytes_per_user_byte, Some(4.5));
        let mut none = RowFindings::default();
        none.finish();
        assert_eq!(none.flash_bytes_per_user_byte, None);
    }
}
