//! Repetitions of a row as one row: what tables and pages show.
//!
//! 1. Losses, damage, broken promises, and the commits and cuts that they belong to, are
//!    summed, and the verdict is the worst: nothing that went wrong disappears in a median.
//! 2. Throughput, p50 and p99 of latency, the median recovery and flash bytes for each user
//!    byte are medians, each of its own; the longest time is the longest of all. What
//!    else there is (distributions, figures of drives) is that of the repetition with the
//!    median throughput.
//! 3. The measures of a failed repetition are in no median; its failure is in the verdict.

use crate::report::published::median;
use crate::report::{Report, RowReport, Times, Verdict};

/// How far the throughput of a row's repetitions is apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many repetitions there are, those that failed included.
    pub repetitions: u32,
    /// The least throughput.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// A row's name without its repetition.
pub fn base(name: &str) -> &str {
    match name.rsplit_once("/repetition=") {
        Some((base, number)) if !number.contains('/') => base,
        _ => name,
    }
}

impl Report {
    /// The same report with the repetitions of each row as one row, where its first one was.
    #[must_use]
    pub fn folded(&self) -> Report {
        let mut groups: Vec<(&str, Vec<&RowReport>)> = Vec::new();
        for row in &self.rows {
            let name = base(&row.name);
            match groups.iter_mut().find(|g| g.0 == name) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((name, vec![row])),
            }
        }
        let rows = groups.into_iter().map(|(name, rows)| match rows[..] {
            [only] => only.clone(),
            _ => fold(name, &rows),
        });
        Report { rows: rows.collect(), ..self.clone() }
    }
}

fn fold(name: &str, rows: &[&RowReport]) -> RowReport {
    let mut ran: Vec<&RowReport> = rows.iter().copied().filter(|r| r.error.is_none()).collect();
    let rate = |r: &&RowReport| r.findings.transactions_per_second;
    ran.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let middle = ran.get(ran.len() / 2).copied().unwrap_or(rows[0]);
    let mut row = RowReport { name: name.to_string(), ..middle.clone() };
    row.verdict = rows.iter().map(|r| r.verdict).max_by_key(badness).unwrap_or(row.verdict);
    row.error = rows.iter().find_map(|r| r.error.clone());
    if let (Some(least), Some(most)) = (ran.first().map(rate), ran.last().map(rate)) {
        row.spread = Some(Spread { repetitions: rows.len() as u32, least, most });
    }
    let f = &mut row.findings;
    f.cuts = rows.iter().map(|r| r.findings.cuts).sum();
    f.commits_acknowledged = rows.iter().map(|r| r.findings.commits_acknowledged).sum();
    f.commits_lost = rows.iter().map(|r| r.findings.commits_lost).sum();
    f.databases_corrupt = rows.iter().map(|r| r.findings.databases_corrupt).sum();
    f.violations = rows.iter().map(|r| r.findings.violations).sum();
    f.refused = rows.iter().map(|r| r.findings.refused).sum();
    f.full = rows.iter().any(|r| r.findings.full);
    let median_of = |what: fn(&RowReport) -> Option<f64>| {
        let mut each: Vec<f64> = ran.iter().filter_map(|r| what(r)).collect();
        each.sort_by(f64::total_cmp);
        median(&each)
    };
    f.flash_bytes_per_user_byte = median_of(|r| r.findings.flash_bytes_per_user_byte);
    let put = |time: &mut u64, found: Option<f64>| *time = found.map_or(*time, |ns| ns as u64);
    put(&mut f.latency.p50_ns, median_of(|r| known(&r.findings.latency, |t| t.p50_ns)));
    put(&mut f.latency.p99_ns, median_of(|r| known(&r.findings.latency, |t| t.p99_ns)));
    put(&mut f.recovery.p50_ns, median_of(|r| known(&r.findings.recovery, |t| t.p50_ns)));
    let longest = |of: fn(&RowReport) -> u64| ran.iter().map(|r| of(r)).max();
    f.latency.max_ns = longest(|r| r.findings.latency.max_ns).unwrap_or(0);
    f.recovery.max_ns = longest(|r| r.findings.recovery.max_ns).unwrap_or(0);
    row
}

/// A time, if there were any.
fn known(times: &Times, of: fn(&Times) -> u64) -> Option<f64> {
    (times.count > 0).then(|| of(times) as f64)
}

fn badness(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::AsExpected => 0,
        Verdict::NotJudged => 1,
        Verdict::NothingLost => 2,
        Verdict::Lost => 3,
        Verdict::Violated => 4,
        Verdict::Failed => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::experiment::Experiment;
    use crate::report::RowFindings;

    fn report(repetitions: u32, of: impl Fn(usize) -> (RowFindings, Option<String>)) -> Report {
        let text = format!(
            "title = 't'\ncuts = 2\nrepetitions = {repetitions}\n[[row]]\nworkload = 'ycsb-a'\n\
             design = ['volatile', 'durassd']\nexpect = 'lossless'"
        );
        let rows = Experiment::parse("x.toml", &text).unwrap().rows().unwrap();
        let row = |(i, row)| {
            let (findings, error) = of(i);
            RowReport::new(row, 1, findings, error)
        };
        Report {
            title: "t".into(),
            seed: 1,
            cuts: 2,
            published: None,
            ratios: Vec::new(),
            rows: rows.iter().enumerate().map(row).collect(),
        }
    }

    fn found(rate: f64, p99_ns: u64, lost: u64) -> RowFindings {
        let times = |p99_ns| Times { count: 7, p99_ns, max_ns: 2 * p99_ns, ..Times::default() };
        RowFindings {
            cuts: 2,
            transactions: 9,
            transactions_per_second: rate,
            latency: times(p99_ns),
            commits_acknowledged: 100,
            commits_lost: lost,
            ..RowFindings::default()
        }
    }

    #[test]
    fn medians_of_figures_and_sums_of_losses() {
        // Two designs in each repetition: 30 and 31, 10 and 11, 20 and 21.
        let rates = [30.0, 31.0, 10.0, 11.0, 20.0, 21.0];
        let p99 = [5, 6, 9, 10, 7, 8];
        let all = report(3, |i| (found(rates[i], p99[i], u64::from(i == 3)), None));
        let folded = all.folded();
        let names: Vec<&str> = folded.rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["ycsb-a/volatile/wal/full", "ycsb-a/durassd/wal/full"]);
        let [one, two] = &folded.rows[..] else { panic!("two rows") };
        assert_eq!(one.findings.transactions_per_second, 20.0);
        assert_eq!(one.spread, Some(Spread { repetitions: 3, least: 10.0, most: 30.0 }));
        assert_eq!((one.findings.latency.p99_ns, one.findings.latency.max_ns), (7, 18));
        assert_eq!((one.findings.commits_acknowledged, one.findings.cuts), (300, 6));
        assert_eq!((one.findings.commits_lost, one.verdict), (0, Verdict::AsExpected));
        // One repetition lost something: it is in the sum and in the verdict.
        assert_eq!((two.findings.commits_lost, two.verdict), (1, Verdict::Lost));
    }

    #[test]
    fn a_repetition_that_failed_is_in_the_verdict_alone() {
        let failed = |i| (i == 2).then(|| "it ended".to_string());
        let all = report(3, |i| (found(10.0 * i as f64, 5, 0), failed(i)));
        let folded = all.folded();
        let [one, two] = &folded.rows[..] else { panic!("two rows") };
        assert_eq!((one.verdict, one.error.as_deref()), (Verdict::Failed, Some("it ended")));
        assert_eq!(one.findings.transactions_per_second, 40.0);
        assert_eq!(one.spread.map(|s| (s.repetitions, s.least)), Some((3, 0.0)));
        assert_eq!(two.verdict, Verdict::AsExpected);
    }

    #[test]
    fn what_is_not_repeated_stays_as_it_is() {
        let all = report(1, |i| (found(i as f64, 5, 0), None));
        let folded = all.folded();
        assert!(folded.rows.iter().all(|r| r.spread.is_none()));
        assert_eq!(folded.to_json(), all.to_json());
        assert_eq!(base("a/b/repetition=2"), "a/b");
        assert_eq!(base("a/b"), "a/b");
    }
}
