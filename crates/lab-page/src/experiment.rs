//! The page of an experiment.

use crate::sections::{MANY_ROWS, flash, latency, losses, over_time, recovery, throughput};
use crate::{drives, page, published, scrolling};
use maud::{Markup, html};
use tantalum_lab::file::experiment::Expect;
use tantalum_lab::report::gains;
use tantalum_lab::report::terms::Terms;
use tantalum_lab::report::units::{self, Unit};
use tantalum_lab::report::{Report, RowReport, Times, Verdict};
use tantalum_rt::Nanos;

/// The command line that made a report.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program, experiment file, seed, cuts: all but the choice of rows.
    pub base: String,
    /// The choice of rows, if one was made.
    pub rows: String,
}

/// The page of a report that this command made.
pub fn experiment(report: &Report, command: &Command) -> String {
    let folded = &report.folded();
    let body = html! {
        h1 { (report.title) }
        (summary(report, folded, command))
        (published::published(report))
        @for group in groups(folded) {
            h2 { (group.title) }
            (scrolling(&format!("Results, {}", group.title), group.rows.len(), &table(&group)))
            (gains(&group))
            (notes(&group))
        }
        (wrong(report, command))
        (throughput(folded))
        (latency(folded))
        (losses(folded))
        (flash(folded))
        (drives::drives(folded))
        (recovery(folded))
        @if folded.rows.len() > MANY_ROWS {
            details { summary { "Throughput over time" } (over_time(folded)) }
        } @else { (over_time(folded)) }
        (details(report))
    };
    page(&report.title, &body)
}

/// What its designs do beside the first one, and what they lose.
fn gains(group: &Group<'_>) -> Markup {
    let lines = gains::lines(&group.rows);
    html! { @if !lines.is_empty() { ul { @for line in lines { li { (line) } } } } }
}

/// The notes on its rows.
fn notes(group: &Group<'_>) -> Markup {
    html! {
        @if group.rows.iter().any(|r| !r.notes().is_empty()) {
            ul { @for row in &group.rows { @for note in row.notes() {
                li { (row.name) ": " (note) }
            } } }
        }
    }
}

/// The rows of one workload.
pub(crate) struct Group<'r> {
    /// The workload's name.
    pub title: String,
    key: String,
    /// The rows, in the order of the report.
    pub rows: Vec<&'r RowReport>,
}

impl Group<'_> {
    /// The terms for the counts of its rows.
    pub fn terms(&self) -> &'static Terms {
        Terms::of(self.rows.iter().copied())
    }
}

pub(crate) fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &report.rows {
        let key = row.workload.to_string();
        match groups.iter_mut().find(|g| g.key == key) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { title: title(&key), key, rows: vec![row] }),
        }
    }
    groups
}

/// "1 power cut", "2 power cuts".
fn cuts(n: u32) -> String {
    format!("{n} power cut{}", if n == 1 { "" } else { "s" })
}

fn title(workload: &str) -> String {
    match workload {
        "linkbench" => "LinkBench".into(),
        "ycsb-a" => "YCSB-A".into(),
        "tpcc" => "TPC-C".into(),
        job => job.into(),
    }
}

fn summary(report: &Report, folded: &Report, command: &Command) -> Markup {
    let unexpected = report.unexpected().count();
    let (kept, broken) = match report.rows.len() {
        1 => ("✓ its one row is".to_string(), "✗ its one row is not".to_string()),
        rows => (format!("✓ all {rows} rows"), format!("✗ {unexpected} of {rows} rows not")),
    };
    html! {
        dl {
            dt { "Result" }
            dd {
                @if unexpected == 0 { span.good { (kept) " as expected" } }
                @else { span.bad { (broken) " as expected" } }
            }
            dt { "Power cuts" } dd { (report.cuts) " for each row" }
            @if let Some(n) = folded.rows.iter().filter_map(|r| r.spread).map(|s| s.repetitions).max() {
                dt { "Repetitions" }
                dd { (n) " of each row: rates, latencies and recoveries are medians; acknowledged and lost commits are sums; distributions and figures of drives are those of the repetition with the median rate" }
            }
            dt { "Seed" } dd { (report.seed) }
            dt { "Repeat it" } dd { code { (command.base) (command.rows) } }
        }
        p.soft { "Times are virtual: they are those of the modelled drive, the same on every machine." }
    }
}

/// The settings that distinguish the rows of a design.
pub(crate) fn settings(row: &RowReport) -> String {
    let parameters = row.parameters();
    match (!row.has_journal(), parameters.is_empty()) {
        (true, true) => units::MISSING.to_string(),
        (true, false) => parameters,
        (false, true) => format!("{} {}", row.journal, row.synchronous),
        (false, false) => format!("{} {} {parameters}", row.journal, row.synchronous),
    }
}

/// A column: its title (`{rate}` and `{writes}` stand for the terms of the workload), whether it
/// holds words, and the text of its cells.
type Column = (&'static str, bool, fn(&RowReport) -> String);

const COLUMNS: &[Column] = &[
    ("settings", true, settings),
    ("{rate}", false, |r| number(rate(r), Unit::Number)),
    ("{rate}, spread", false, |r| spread(r).unwrap_or_else(|| units::MISSING.into())),
    ("p50", false, |r| time(r.findings.latency.count, r.findings.latency.p50_ns)),
    ("p99", false, |r| time(r.findings.latency.count, r.findings.latency.p99_ns)),
    ("read p50", false, |r| command(r, 0, |t| t.p50_ns)),
    ("read p99", false, |r| command(r, 0, |t| t.p99_ns)),
    ("write p50", false, |r| command(r, 1, |t| t.p50_ns)),
    ("write p99", false, |r| command(r, 1, |t| t.p99_ns)),
    ("{writes} acked", false, |r| r.findings.commits_acknowledged.to_string()),
    ("{writes} lost", false, |r| r.findings.commits_lost.to_string()),
    ("DBs corrupt", false, |r| {
        if r.is_job() { units::MISSING.into() } else { r.findings.databases_corrupt.to_string() }
    }),
    ("promises broken", false, |r| r.findings.violations.to_string()),
    ("flash/ user byte", false, |r| number(r.findings.flash_bytes_per_user_byte, Unit::Ratio)),
    ("write ampl.", false, |r| number(r.findings.write_amplification(), Unit::Ratio)),
    ("recovery median", false, |r| time(r.findings.recovery.count, r.findings.recovery.p50_ns)),
    ("recovery max", false, |r| time(r.findings.recovery.count, r.findings.recovery.max_ns)),
];

fn expected(row: &RowReport) -> &'static str {
    match row.expect {
        Expect::Promised => "as promised",
        Expect::Lossless => "no loss",
        Expect::Lossy => "some loss",
    }
}

fn table(group: &Group<'_>) -> Markup {
    let (rows, terms) = (&group.rows, group.terms());
    let title = |t: &str| t.replace("{rate}", terms.rate).replace("{writes}", terms.writes);
    // Empty columns are left out.
    let said = |c: &&Column| rows.iter().any(|r| (c.2)(r) != units::MISSING);
    let columns: Vec<&Column> = COLUMNS.iter().filter(said).collect();
    html! {
        table {
            thead { tr {
                th.first scope="col" { "design" }
                th.word scope="col" { "result" }
                @for (name, words, _) in &columns {
                    th.wrap.word[*words] scope="col" { (title(name)) }
                }
            } }
            tbody { @for row in rows { tr {
                th.first scope="row" { (row.design) }
                td.word { (result(row)) }
                @for (_, words, text) in &columns {
                    @if *words { (words_cell(&text(row))) } @else { td { (text(row)) } }
                }
            } } }
        }
    }
}

/// A cell of words, which wrap if they are many.
pub(crate) fn words_cell(words: &str) -> Markup {
    html! { td.word.fold[words.chars().count() > 30] { (words) } }
}

fn result(row: &RowReport) -> Markup {
    html! {
        // A loss that was expected is neither good nor bad.
        @if row.verdict == Verdict::AsExpected && row.findings.lost_anything() { "○ " (row.result()) }
        @else if row.verdict == Verdict::AsExpected { span.good { "✓ " (row.result()) } }
        @else { span.bad { "✗ " (row.result()) } }
    }
}

/// The rows that are not as expected, in words.
fn wrong(report: &Report, command: &Command) -> Markup {
    html! {
        @if report.unexpected().next().is_some() {
            h2 { "Not as expected" }
            @for row in report.unexpected() {
                h3 { (row.name) ": " (result(row)) }
                ul {
                    @if let Some(error) = &row.error { li { (error) } }
                    @if let Some(shortage) = row.shortage() { li { (shortage) } }
                    @if row.verdict == Verdict::NothingLost {
                        li { "Lost nothing in " (cuts(row.findings.cuts)) ", although a loss was expected." }
                    }
                    @for problem in &row.findings.problems { li { (problem) } }
                    @if row.findings.problems_total > row.findings.problems.len() as u64 {
                        li { "(" (row.findings.problems_total) " in all)" }
                    }
                }
                p { "Repeat it: " code { (command.base) " --row " (row.name) } }
            }
        }
    }
}

fn details(report: &Report) -> Markup {
    let operations = Terms::of(&report.rows).operations;
    let table = html! {
        table {
            thead { tr {
                th.first scope="col" { "row" }
                th.word scope="col" { "expected" }
                @for title in ["seed", "trace hash", "cuts", "cuts in recovery", operations,
                    "load", "user bytes", "host bytes", "flash bytes", "drive recovery, median"] {
                    th scope="col" { (title) }
                }
            } }
            tbody { @for r in &report.rows {
                @let f = &r.findings;
                tr {
                    th.first scope="row" { (r.name) }
                    td.word { (expected(r)) }
                    td { code { (format!("{:016x}", r.seed)) } }
                    td { code { (format!("{:016x}", f.trace_hash)) } }
                    td { (f.cuts) } td { (f.cuts_in_recovery) } td { (f.transactions) }
                    td { (Nanos(f.load_ns)) } td { (f.user_bytes) } td { (f.host_bytes) }
                    td { (number(f.flash_bytes.map(|b| b as f64), Unit::Count)) }
                    td { (time(f.drive_recovery.count, f.drive_recovery.p50_ns)) }
                }
            } }
        }
    };
    html! { details { summary { "Every row's counts" } (scrolling("Counts of the rows", report.rows.len(), &table)) } }
}

pub(crate) fn rate(row: &RowReport) -> Option<f64> {
    (row.findings.load_ns > 0).then_some(row.findings.transactions_per_second)
}

/// The range from the slowest repetition to the fastest, if there are several.
pub(crate) fn spread(row: &RowReport) -> Option<String> {
    let [least, most] =
        row.spread.map(|s| [s.least, s.most])?.map(|n| number(Some(n), Unit::Number));
    Some(format!("{least}–{most}"))
}

/// A latency of a row's reads (0) or writes (1), if it has both.
fn command(row: &RowReport, which: usize, of: fn(&Times) -> u64) -> String {
    row.reads_and_writes().map_or(units::MISSING.into(), |both| time(1, of(both[which])))
}

pub(crate) fn number(value: Option<f64>, unit: Unit) -> String {
    units::value(value, unit)
}

pub(crate) fn time(count: u64, ns: u64) -> String {
    units::value((count > 0).then_some(ns as f64), Unit::Nanoseconds)
}
