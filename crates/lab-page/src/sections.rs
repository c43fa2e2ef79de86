//! Sections of an experiment's page: one kind of plot for each measure, with a plot for each
//! workload, or for each design if there are many rows.

use crate::experiment::{Group, groups, number, rate, settings, spread, time};
use crate::figure;
use crate::lines::{Line, Lines, Range, Scale};
use crate::plot::{Bar, Bars, Look};
use maud::{Markup, html};
use tantalum_lab::file::experiment::{Journal, Synchronous};
use tantalum_lab::report::terms::{JOB, Terms};
use tantalum_lab::report::units::{self, Unit};
use tantalum_lab::report::{Report, RowReport};
use tantalum_rt::Nanos;

/// A workload with more rows than this has a plot for each design.
pub(crate) const MANY_ROWS: usize = 24;

/// The rows of a workload for plots of bars: captions and rows.
pub(crate) fn plots<'r>(group: &Group<'r>) -> Vec<(String, Vec<&'r RowReport>)> {
    if group.rows.len() <= MANY_ROWS {
        return vec![(group.title.clone(), group.rows.clone())];
    }
    let mut plots: Vec<(String, Vec<&RowReport>)> = Vec::new();
    for row in &group.rows {
        let caption = format!("{}, {}", group.title, row.design);
        match plots.iter_mut().find(|p| p.0 == caption) {
            Some((_, rows)) => rows.push(row),
            None => plots.push((caption, vec![row])),
        }
    }
    plots
}

/// The largest of these that is a number.
pub(crate) fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// What the plots of a section show.
pub(crate) struct Shown {
    /// Its name, in the terms of a workload.
    pub what: fn(&Terms) -> &'static str,
    /// The beginning of ids on the page.
    pub id: &'static str,
    /// The value of a row's bar.
    pub bar: fn(&RowReport) -> Value,
    /// The names of the parts of bars.
    pub parts: &'static [&'static str],
}

/// What a row's bar shows.
#[derive(Default)]
pub(crate) struct Value {
    /// Its length.
    pub value: Option<f64>,
    /// A further value.
    pub stroke: Option<f64>,
    /// Its parts.
    pub parts: Vec<f64>,
    /// The text beside it.
    pub text: String,
}

impl Shown {
    /// The bars of these rows of one workload; `None` if they have no values.
    pub(crate) fn of(&self, g: usize, group: &Group<'_>) -> Vec<(String, Bars)> {
        let all = group.rows.iter().map(|r| (self.bar)(r));
        let most = most(all.flat_map(|v| [v.value, v.stroke]).flatten());
        let plots = plots(group);
        // If only the design distinguishes rows, it is their label.
        let bare = group.rows.iter().all(|r| settings(r) == units::MISSING);
        let split = plots.len() > 1;
        let what = (self.what)(group.terms());
        let plots = plots.into_iter().enumerate().map(|(i, (caption, rows))| {
            let bars: Vec<Bar> = rows.iter().map(|row| self.bar(row, split, bare)).collect();
            let bars = Bars {
                id: format!("{}-{g}-{i}", self.id),
                title: format!("{what}, {caption}"),
                description: in_words(&rows, &bars),
                parts: self.parts,
                most,
                bars,
            };
            (caption, bars)
        });
        let has_value = |b: &Bars| b.bars.iter().any(|b| b.value.is_some_and(f64::is_finite));
        plots.filter(|(_, bars)| has_value(bars)).collect()
    }

    /// The bar of a row. `split`: the plot has one design, which its caption names.
    fn bar(&self, row: &RowReport, split: bool, bare: bool) -> Bar {
        let Value { value, stroke, parts, text } = (self.bar)(row);
        Bar {
            group: if split || bare { String::new() } else { row.design.clone() },
            label: if bare { row.design.clone() } else { settings(row) },
            value,
            stroke,
            text,
            look: if row.findings.lost_anything() { Look::Lossy } else { Look::Filled },
            parts,
        }
    }
}

/// A word with a capital letter.
pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// The plots of all workloads.
pub(crate) fn bars(report: &Report, shown: &Shown) -> Markup {
    html! {
        div.plots.wide { @for (g, group) in groups(report).into_iter().enumerate() {
            @let plots = shown.of(g, &group);
            @if plots.is_empty() { p { (group.title) ": " (units::MISSING) } }
            @else if plots.iter().flat_map(|p| &p.1.bars).all(|b| b.value == Some(0.0)) {
                p { (group.title) ": none in any row" }
            } @else { @for (caption, plot) in plots {
                (figure(&format!("{}: {caption}", (shown.what)(group.terms())), &plot))
            } }
        } }
    }
}

fn in_words(rows: &[&RowReport], bars: &[Bar]) -> String {
    let words = rows.iter().zip(bars).map(|(r, b)| match b.label == r.design {
        true => format!("{}: {}", b.label, b.text),
        false => format!("{} {}: {}", r.design, b.label, b.text),
    });
    words.collect::<Vec<_>>().join("; ")
}

pub(crate) const THROUGHPUT: Shown = Shown {
    what: |terms| terms.throughput,
    id: "rate",
    bar: |r| {
        let loses = match r.findings.commits_lost {
            0 if r.findings.lost_anything() => ", damaged".to_string(),
            0 => String::new(),
            lost => format!(", loses {lost}"),
        };
        let apart = spread(r).map_or(String::new(), |s| format!(" ({s})"));
        let text = format!("{}{loses}{apart}", number(rate(r), Unit::Number));
        Value { value: rate(r), stroke: r.spread.map(|s| s.most), text, ..Value::default() }
    },
    parts: &[],
};

pub(crate) const LOSSES: Shown = Shown {
    what: |terms| terms.losses,
    id: "lost",
    bar: |r| {
        let f = &r.findings;
        let text = format!("{} of {}", f.commits_lost, f.commits_acknowledged);
        Value { value: (f.cuts > 0).then_some(f.commits_lost as f64), text, ..Value::default() }
    },
    parts: &[],
};

pub(crate) const FLASH: Shown = Shown {
    what: |_| "Flash bytes per user byte",
    id: "flash",
    bar: |r| {
        let value = r.findings.flash_bytes_per_user_byte;
        Value { value, text: number(value, Unit::Ratio), ..Value::default() }
    },
    parts: &[],
};

pub(crate) const RECOVERY: Shown = Shown {
    what: |_| "Recovery time",
    id: "recovery",
    bar: |r| {
        let t = &r.findings.recovery;
        let some = |ns: u64| (t.count > 0).then_some(ns as f64);
        let text = match t.count {
            0 => units::MISSING.into(),
            _ => format!("{} / {}", Nanos(t.p50_ns), Nanos(t.max_ns)),
        };
        Value { value: some(t.p50_ns), stroke: some(t.max_ns), text, parts: Vec::new() }
    },
    parts: &[],
};

pub(crate) fn throughput(report: &Report) -> Markup {
    let terms = Terms::of(&report.rows);
    html! {
        h2 { (terms.throughput) }
        p {
            (capital(terms.operations)) " in a second of virtual time under load. "
            @if report.rows.iter().any(|r| r.spread.is_some()) { "The bar is the median of the repetitions and the stroke the most. " }
            "An outlined bar is a row that "
            @if *terms == JOB { "lost acknowledged blocks." } @else { "lost " (terms.writes) " or damaged its database." }
        }
        (bars(report, &THROUGHPUT))
    }
}

pub(crate) fn losses(report: &Report) -> Markup {
    let terms = Terms::of(&report.rows);
    html! {
        h2 { (terms.losses) }
        p { "Acknowledged " (terms.writes) " that a power cut undid, of all that were acknowledged." }
        (bars(report, &LOSSES))
    }
}

/// The section of flash bytes; nothing if no workload has row contents.
pub(crate) fn flash(report: &Report) -> Markup {
    let some = report.rows.iter().any(|r| r.findings.flash_bytes_per_user_byte.is_some());
    html! {
        @if some {
            h2 { "Flash bytes" }
            p { "Bytes programmed into flash for each committed byte of row contents." }
            (bars(report, &FLASH))
        }
    }
}

pub(crate) fn recovery(report: &Report) -> Markup {
    html! {
        h2 { "Recovery" }
        p { "From the return of the power to the first answer of " (Terms::of(&report.rows).answers) ": the bar is the median, the stroke the longest." }
        (bars(report, &RECOVERY))
    }
}

/// The most lines in a plot that can be distinguished.
const MOST_LINES: usize = 8;

/// The rows of a group, by design; a design with many rows is split into parts of about equal size.
pub(crate) fn designs<'r>(group: &Group<'r>) -> Vec<(String, Vec<&'r RowReport>)> {
    let mut designs: Vec<(&str, Vec<&RowReport>)> = Vec::new();
    for row in &group.rows {
        match designs.iter_mut().find(|d| d.0 == row.design) {
            Some((_, rows)) => rows.push(row),
            None => designs.push((&row.design, vec![row])),
        }
    }
    let mut plots = Vec::new();
    for (design, rows) in designs {
        let count = rows.len().div_ceil(MOST_LINES);
        let each = rows.len().div_ceil(count);
        for (i, some) in rows.chunks(each).enumerate() {
            let which = if count > 1 { format!(" ({} of {count})", i + 1) } else { String::new() };
            plots.push((format!("{design}{which}"), some.to_vec()));
        }
    }
    plots
}

/// The line of a row. Its style follows from the settings, so that equal settings look alike in all
/// plots; if settings do not distinguish the rows, the style follows from its place.
pub(crate) fn line(row: &RowReport, place: usize, points: Vec<(f64, f64)>) -> Line {
    let (style, dashed) = match row.synchronous {
        _ if !row.has_journal() || !row.params.is_empty() => (place % 4, place / 4 % 2 == 1),
        Synchronous::Off => (0, row.journal != Journal::Wal),
        Synchronous::Normal => (1, row.journal != Journal::Wal),
        Synchronous::Full => (2, row.journal != Journal::Wal),
        Synchronous::Extra => (3, row.journal != Journal::Wal),
    };
    Line { label: settings(row), style, dashed, marked: false, points }
}

pub(crate) fn latency(report: &Report) -> Markup {
    html! {
        h2 { "Latency" }
        p { "The share of operations, including reads, that took at most this long. Plots of one workload have the same axes." }
        @for (g, group) in groups(report).into_iter().enumerate() {
            @let all = || group.rows.iter().flat_map(|r| &r.findings.latency_quantiles);
            @if let (Some(least), Some(most)) = (all().map(|q| q.1).min(), all().map(|q| q.1).max()) {
                h3 { (group.title) }
                div.plots { @for (i, (design, rows)) in designs(&group).into_iter().enumerate() {
                    @let lines: Vec<Line> = rows.iter().enumerate().map(|(n, r)| line(r, n, cdf(r))).collect();
                    (figure(&design, &Lines {
                        id: format!("latency-{g}-{i}"),
                        title: format!("Latency, {}, {design}", group.title),
                        description: medians(&rows),
                        x: Scale::new("latency", Range::Decades([least as f64, most as f64]), units::short_time),
                        y: Scale::new("share of operations", Range::To(1.0), percent),
                        lines,
                    }))
                } }
            } @else { p { (group.title) ": " (units::MISSING) } }
        }
    }
}

fn cdf(row: &RowReport) -> Vec<(f64, f64)> {
    row.findings.latency_quantiles.iter().map(|&(q, ns)| (ns as f64, q)).collect()
}

pub(crate) fn percent(share: f64) -> String {
    format!("{} %", units::short(share * 100.0))
}

fn medians(rows: &[&RowReport]) -> String {
    let words = rows.iter().map(|r| {
        let t = &r.findings.latency;
        let [p50, p99] = [t.p50_ns, t.p99_ns].map(|ns| time(t.count, ns));
        format!("{}: half within {p50}, 99 % within {p99}", settings(r))
    });
    words.collect::<Vec<_>>().join("; ")
}

pub(crate) fn over_time(report: &Report) -> Markup {
    html! {
        h2 { "Throughput over time" }
        p { "Over the virtual time under load, without outages and recoveries. Plots of one workload have the same axes." }
        @for (g, group) in groups(report).into_iter().enumerate() {
            @let rates: Vec<_> = group.rows.iter().map(|r| rates_of(r)).collect();
            @let end = most(rates.iter().flatten().map(|p| p.0));
            @let top = most(rates.iter().flatten().map(|p| p.1));
            @let per_second = format!("{} per second", group.terms().operations);
            @if rates.iter().any(|r| !r.is_empty()) {
                h3 { (group.title) }
                div.plots { @for (i, (design, rows)) in designs(&group).into_iter().enumerate() {
                    @let lines: Vec<Line> = rows.iter().enumerate()
                        .map(|(n, r)| line(r, n, rates_of(r))).collect();
                    (figure(&design, &Lines {
                        id: format!("series-{g}-{i}"),
                        title: format!("Throughput over time, {}, {design}", group.title),
                        description: means(&rows),
                        x: Scale::new("time under load", Range::To(end), units::short_time),
                        y: Scale::new(&per_second, Range::To(top), units::short),
                        lines,
                    }))
                } }
            } @else { p { (group.title) ": " (units::MISSING) } }
        }
    }
}

fn rates_of(row: &RowReport) -> Vec<(f64, f64)> {
    let series = row.findings.series.as_ref();
    thinned(series.map_or(Vec::new(), |s| s.rates(row.findings.load_ns)))
}

/// The points, reduced to as many as are visible in a small plot: means of neighbours.
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
