//! The page of an experiment.

use super::format::{self, Unit};
use super::plot::{Bar, Bars, Line, Lines, Range};
use super::{figure, page, scrolling};
use crate::experiment::{Expect, Journal, Synchronous};
use crate::report::{Report, RowReport, Verdict};
use maud::{Markup, html};
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
    let body = html! {
        h1 { (report.title) }
        (summary(report, command))
        @for group in groups(report) {
            h2 { (group.title) }
            (scrolling(&format!("Results, {}", group.title), &table(&group.rows)))
        }
        (wrong(report, command))
        (throughput(report))
        (latency(report))
        (losses(report))
        (flash(report))
        (recovery(report))
        (over_time(report))
        (details(report))
    };
    page(&report.title, &body)
}

/// The rows of one workload.
struct Group<'r> {
    title: String,
    key: String,
    rows: Vec<&'r RowReport>,
}

fn groups(report: &Report) -> Vec<Group<'_>> {
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

fn title(workload: &str) -> String {
    match workload {
        "linkbench" => "LinkBench".into(),
        "ycsb-a" => "YCSB-A".into(),
        "tpcc" => "TPC-C".into(),
        job => job.into(),
    }
}

fn summary(report: &Report, command: &Command) -> Markup {
    let unexpected = report.unexpected().count();
    let rows = report.rows.len();
    html! {
        dl {
            dt { "Result" }
            dd {
                @if unexpected == 0 { span.good { "✓ all " (rows) " rows as expected" } }
                @else { span.bad { "✗ " (unexpected) " of " (rows) " rows not as expected" } }
            }
            dt { "Power cuts" } dd { (report.cuts) " for each row" }
            dt { "Seed" } dd { (report.seed) }
            dt { "Repeat it" } dd { code { (command.base) (command.rows) } }
        }
        p.soft { "Times are virtual: they say what the modelled drive would take, and are the same on every machine." }
    }
}

/// Titles that read otherwise for block jobs.
const RATE: &str = "tx/s";
const ACKED: &str = "commits acked";
const LOST: &str = "commits lost";

/// What tells the rows of a design apart.
fn settings(row: &RowReport) -> String {
    let parameters = row.parameters();
    match (!row.has_journal(), parameters.is_empty()) {
        (true, true) => format::MISSING.to_string(),
        (true, false) => parameters,
        (false, true) => format!("{} {}", row.journal, row.synchronous),
        (false, false) => format!("{} {} {parameters}", row.journal, row.synchronous),
    }
}

/// A column: title, whether it holds words, and the text of its cells.
type Column = (&'static str, bool, fn(&RowReport) -> String);

const COLUMNS: &[Column] = &[
    ("settings", true, settings),
    (RATE, false, |r| number(rate(r), Unit::Number)),
    ("p50", false, |r| time(r.findings.latency.count, r.findings.latency.p50_ns)),
    ("p99", false, |r| time(r.findings.latency.count, r.findings.latency.p99_ns)),
    (ACKED, false, |r| r.findings.commits_acknowledged.to_string()),
    (LOST, false, |r| r.findings.commits_lost.to_string()),
    ("DBs corrupt", false, |r| r.findings.databases_corrupt.to_string()),
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

fn table(rows: &[&RowReport]) -> Markup {
    let jobs = rows.iter().all(|r| r.is_job());
    html! {
        table {
            thead { tr {
                th.first scope="col" { "design" }
                th.word scope="col" { "result" }
                @for (title, words, _) in COLUMNS {
                    th.wrap.word[*words] scope="col" { @match *title {
                        RATE if jobs => "IOPS",
                        ACKED if jobs => "blocks acked",
                        LOST if jobs => "blocks lost",
                        title => (title),
                    } }
                }
            } }
            tbody { @for row in rows { tr {
                th.first scope="row" { (row.design) }
                td.word { (result(row)) }
                @for (_, words, text) in COLUMNS { td.word[*words] { (text(row)) } }
            } } }
        }
    }
}

fn result(row: &RowReport) -> Markup {
    html! {
        @if row.verdict == Verdict::AsExpected { span.good { "✓ " (row.result()) } }
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
                    @if row.verdict == Verdict::NothingLost {
                        li { "Lost nothing in " (row.findings.cuts) " power cuts, although it should." }
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

/// What a section's plots show: the value of a row's bar, a further one, and the text.
type Shown = fn(&RowReport) -> (Option<f64>, Option<f64>, String);

fn bars(report: &Report, what: &str, id: &str, shown: Shown) -> Markup {
    html! {
        div.plots.wide { @for (i, group) in groups(report).into_iter().enumerate() {
            @let bars: Vec<Bar> = group.rows.iter().map(|row| bar(row, shown)).collect();
            @if bars.iter().any(|b| b.value.is_some_and(f64::is_finite)) {
                (figure(&format!("{what}: {}", group.title), &Bars {
                    id: format!("{id}-{i}"),
                    title: format!("{what}, {}", group.title),
                    description: in_words(&group.rows, &bars),
                    bars,
                }))
            } @else { p { (group.title) ": " (format::MISSING) } }
        } }
    }
}

fn bar(row: &RowReport, shown: Shown) -> Bar {
    let (value, stroke, text) = shown(row);
    Bar {
        group: row.design.clone(),
        label: settings(row),
        value,
        stroke,
        text,
        hollow: row.findings.lost_anything(),
    }
}

fn in_words(rows: &[&RowReport], bars: &[Bar]) -> String {
    let words = rows.iter().zip(bars).map(|(r, b)| format!("{} {}: {}", r.design, b.label, b.text));
    words.collect::<Vec<_>>().join("; ")
}

fn throughput(report: &Report) -> Markup {
    html! {
        h2 { "Transactions per second" }
        p { "Of virtual time under load; for a block job, its requests. An outlined bar is a row that lost commits or damaged its database." }
        (bars(report, "Transactions per second", "rate", |r| {
            let loses = if r.findings.lost_anything() { ", loses" } else { "" };
            (rate(r), None, format!("{}{loses}", number(rate(r), Unit::Number)))
        }))
    }
}

fn losses(report: &Report) -> Markup {
    html! {
        h2 { "Commits lost" }
        p { "Acknowledged commits that a power cut undid, and how many were acknowledged in all; for a block job, acknowledged blocks." }
        (bars(report, "Commits lost", "lost", |r| {
            let f = &r.findings;
            let text = format!("{} of {}", f.commits_lost, f.commits_acknowledged);
            ((f.cuts > 0).then_some(f.commits_lost as f64), None, text)
        }))
    }
}

fn flash(report: &Report) -> Markup {
    html! {
        h2 { "Flash bytes" }
        p { "Bytes programmed into flash for each byte of row contents that was committed." }
        (bars(report, "Flash bytes per user byte", "flash", |r| {
            let x = r.findings.flash_bytes_per_user_byte;
            (x, None, number(x, Unit::Ratio))
        }))
        p { "Write amplification: bytes programmed into flash for each byte that the host wrote." }
        (bars(report, "Write amplification", "amplification", |r| {
            let x = r.findings.write_amplification();
            (x, None, number(x, Unit::Ratio))
        }))
    }
}

fn recovery(report: &Report) -> Markup {
    html! {
        h2 { "Recovery" }
        p { "From the return of the power to the first answer of the database: the bar is the median, the stroke the longest." }
        (bars(report, "Recovery time", "recovery", |r| {
            let t = &r.findings.recovery;
            let some = |ns: u64| (t.count > 0).then_some(ns as f64);
            let text = match t.count {
                0 => format::MISSING.into(),
                _ => format!("{} / {}", Nanos(t.p50_ns), Nanos(t.max_ns)),
            };
            (some(t.p50_ns), some(t.max_ns), text)
        }))
    }
}

/// Lines in a plot: so many can be told apart.
const MOST_LINES: usize = 8;

/// The rows of a group, by design; a design with many rows comes several times.
fn designs<'r>(group: &Group<'r>) -> Vec<(&'r str, Vec<&'r RowReport>)> {
    let mut designs: Vec<(&str, Vec<&RowReport>)> = Vec::new();
    for row in &group.rows {
        let open = |d: &&mut (&str, Vec<&RowReport>)| d.0 == row.design && d.1.len() < MOST_LINES;
        match designs.iter_mut().find(open) {
            Some((_, rows)) => rows.push(row),
            None => designs.push((&row.design, vec![row])),
        }
    }
    designs
}

/// A row's line: its style says the settings, so that they look alike in all plots;
/// where these do not tell rows apart, its place does.
fn line(row: &RowReport, place: usize, points: Vec<(f64, f64)>) -> Line {
    let (style, dashed) = match row.synchronous {
        _ if !row.has_journal() || !row.params.is_empty() => (place % 4, place / 4 % 2 == 1),
        Synchronous::Off => (0, row.journal == Journal::Delete),
        Synchronous::Normal => (1, row.journal == Journal::Delete),
        Synchronous::Full => (2, row.journal == Journal::Delete),
        Synchronous::Extra => (3, row.journal == Journal::Delete),
    };
    Line { label: settings(row), style, dashed, points }
}

fn latency(report: &Report) -> Markup {
    html! {
        h2 { "Latency" }
        p { "The share of operations, reads too, that took at most so long. Plots of one workload have the same axes." }
        @for (g, group) in groups(report).into_iter().enumerate() {
            @let all = || group.rows.iter().flat_map(|r| &r.findings.latency_quantiles);
            @if let (Some(least), Some(most)) = (all().map(|q| q.1).min(), all().map(|q| q.1).max()) {
                h3 { (group.title) }
                div.plots { @for (i, (design, rows)) in designs(&group).into_iter().enumerate() {
                    @let lines: Vec<Line> = rows.iter().enumerate().map(|(n, r)| line(r, n, cdf(r))).collect();
                    (figure(design, &Lines {
                        id: format!("latency-{g}-{i}"),
                        title: format!("Latency, {}, {design}", group.title),
                        description: medians(&rows),
                        x: ("latency", Range::Decades([least as f64, most as f64]), format::short_time),
                        y: ("share of operations", Range::To(1.0), percent),
                        lines,
                    }))
                } }
            } @else { p { (group.title) ": " (format::MISSING) } }
        }
    }
}

fn cdf(row: &RowReport) -> Vec<(f64, f64)> {
    row.findings.latency_quantiles.iter().map(|&(q, ns)| (ns as f64, q)).collect()
}

fn percent(share: f64) -> String {
    format!("{} %", format::short(share * 100.0))
}

fn medians(rows: &[&RowReport]) -> String {
    let words = rows.iter().map(|r| {
        let t = &r.findings.latency;
        let [p50, p99] = [t.p50_ns, t.p99_ns].map(|ns| time(t.count, ns));
        format!("{}: half within {p50}, 99 % within {p99}", settings(r))
    });
    words.collect::<Vec<_>>().join("; ")
}

fn over_time(report: &Report) -> Markup {
    html! {
        h2 { "Throughput over time" }
        p { "Over the virtual time under load; the outages and recoveries between are left out. Plots of one workload have the same axes." }
        @for (g, group) in groups(report).into_iter().enumerate() {
            @let rates: Vec<_> = group.rows.iter().map(|r| rates_of(r)).collect();
            @let most = |of: fn(&(f64, f64)) -> f64| rates.iter().flatten().map(of).fold(0.0, f64::max);
            @if rates.iter().any(|r| !r.is_empty()) {
                h3 { (group.title) }
                div.plots { @for (i, (design, rows)) in designs(&group).into_iter().enumerate() {
                    @let lines: Vec<Line> = rows.iter().enumerate()
                        .map(|(n, r)| line(r, n, rates_of(r))).collect();
                    (figure(design, &Lines {
                        id: format!("series-{g}-{i}"),
                        title: format!("Throughput over time, {}, {design}", group.title),
                        description: means(&rows),
                        x: ("time under load", Range::To(most(|p| p.0)), format::short_time),
                        y: ("transactions per second", Range::To(most(|p| p.1)), format::short),
                        lines,
                    }))
                } }
            } @else { p { (group.title) ": " (format::MISSING) } }
        }
    }
}

fn rates_of(row: &RowReport) -> Vec<(f64, f64)> {
    let series = row.findings.series.as_ref();
    thinned(series.map_or(Vec::new(), |s| s.rates(row.findings.load_ns)))
}

/// Not more points than the eye can tell apart in a small plot: means of neighbours.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    const MOST: usize = 50;
    let together = points.len().div_ceil(MOST).max(1);
    let mean = |some: &[(f64, f64)]| {
        let n = some.len() as f64;
        (some.iter().map(|p| p.0).sum::<f64>() / n, some.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(together).map(mean).collect()
}

fn means(rows: &[&RowReport]) -> String {
    let words = rows.iter().map(|r| {
        let load = Nanos(r.findings.load_ns);
        let mean = number(rate(r), Unit::Number);
        format!("{}: {mean} per second on average over {load}", settings(r))
    });
    words.collect::<Vec<_>>().join("; ")
}

fn details(report: &Report) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th.first scope="col" { "row" }
                th.word scope="col" { "expected" }
                @for title in ["seed", "trace hash", "cuts", "cuts in recovery", "transactions",
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
    html! { details { summary { "Every row's counts" } (scrolling("Counts of the rows", &table)) } }
}

fn rate(row: &RowReport) -> Option<f64> {
    (row.findings.load_ns > 0).then_some(row.findings.transactions_per_second)
}

fn number(value: Option<f64>, unit: Unit) -> String {
    format::value(value, unit)
}

fn time(count: u64, ns: u64) -> String {
    format::value((count > 0).then_some(ns as f64), Unit::Nanoseconds)
}
