//! The drives of the rows: write amplification and its parts, waits, wear.

use crate::experiment::{Group, groups, number, settings, words_cell};
use crate::lines::{Lines, Range, Scale};
use crate::sections::{MANY_ROWS, Shown, Value, bars, designs, line, most, percent};
use crate::{figure, scrolling};
use maud::{Markup, html};
use tantalum_drive::Wear as Worn;
use tantalum_lab::report::figures::{DriveFigures, Wear};
use tantalum_lab::report::units::{self, Unit};
use tantalum_lab::report::{Report, RowReport};
use tantalum_lab::run::precondition::Ended;
use tantalum_rt::Nanos;

pub(crate) const AMPLIFICATION: Shown = Shown {
    what: |_| "Write amplification",
    id: "amplification",
    bar: |r| {
        let value = r.findings.write_amplification();
        let parts = r.findings.amplification_parts().map_or(Vec::new(), Vec::from);
        Value { value, text: number(value, Unit::Ratio), parts, stroke: None }
    },
    parts: &["host", "moved", "map"],
};

/// The section; nothing if no row has flash.
pub(crate) fn drives(report: &Report) -> Markup {
    if report.rows.iter().all(|r| r.findings.drives.is_none()) {
        return html! {};
    }
    html! {
        h2 { "Drives" }
        p { "Over-provisioning is all flash beyond the capacity. Spare left is the part of it for superseded data when the drive holds its full capacity: without map log, dump areas, open units and the units that garbage collection keeps free. Write amplification is that under load; overall is that from the first load to the last cut, including what was programmed between the loads (recovery, checks, warm-up), where a drive continues garbage collection. Erases between the loads are those outside load. Waits for the buffer are summed over the commands that waited, waits for free erase units over the dies. Wear is that of all erase units at the end, and, as mean / most, that of the units of one use at the last cut." }
        @for group in groups(report) {
            @if group.rows.iter().any(|r| r.findings.drives.is_some()) {
                h3 { (group.title) }
                (scrolling(&format!("Drives, {}", group.title), group.rows.len(), &table(&group)))
            }
        }
        (preconditioning(report))
        h3 { "Write amplification" }
        p { "Bytes programmed into flash under load for each byte that the host wrote: host data, data moved by garbage collection, and the map." }
        (bars(report, &AMPLIFICATION))
        @if report.rows.iter().any(|r| wear_of(r).is_some()) {
            h3 { "Wear" }
            p { "How often erase units were erased since the drive was new, and the share of units with that count. Rows without erases are left out." }
            @if report.rows.len() > MANY_ROWS { details { summary { "Histograms of all rows" } (wear(report)) } }
            @else { (wear(report)) }
        }
    }
}

/// A column: its title, and the text of its cells.
type Column = (&'static str, fn(&RowReport, &DriveFigures) -> String);

const COLUMNS: &[Column] = &[
    ("over-prov.", |_, d| format!("{} %", units::short(round(d.over_provisioning_percent())))),
    ("spare left", |_, d| match d.spare_left_units {
        0 => "none".into(),
        _ => format!("{} %", units::short(round(d.spare_left_percent))),
    }),
    ("write ampl.", |r, _| number(r.findings.write_amplification(), Unit::Ratio)),
    ("overall", |r, _| number(r.findings.overall_amplification(), Unit::Ratio)),
    ("of host data", |r, _| part(r, 0)),
    ("of moved", |r, _| part(r, 1)),
    ("of map", |r, _| part(r, 2)),
    ("dumped, MiB", |_, d| number(Some(d.dump_bytes as f64 / f64::from(1 << 20)), Unit::Number)),
    ("wait for buffer", |_, d| Nanos(d.under_load.buffer_wait_ns).to_string()),
    ("wait for free units", |_, d| Nanos(d.under_load.space_wait_ns).to_string()),
    ("free units", |_, d| d.free_units.to_string()),
    ("fewest free", |_, d| d.free_units_least.map_or(units::MISSING.into(), |n| n.to_string())),
    ("units gone bad", |_, d| d.under_load.retired_units.to_string()),
    ("erases", |_, d| d.under_load.erases.to_string()),
    ("outside load", |_, d| d.outside_load.erases.to_string()),
    ("wear min", |_, d| d.wear.min.to_string()),
    ("wear mean", |_, d| number(Some(d.wear.mean), Unit::Ratio)),
    ("wear max", |_, d| d.wear.max.to_string()),
    ("wear spread", |_, d| d.wear.spread().to_string()),
    ("of data units", |_, d| worn(d.roles.data)),
    ("of map log units", |_, d| worn(d.roles.map)),
    ("of dump units", |_, d| worn(d.roles.dump)),
];

/// The results of the preconditioning, row by row; nothing if no drive was preconditioned.
fn preconditioning(report: &Report) -> Markup {
    let of = |r: &RowReport| r.findings.preconditioned.clone();
    if report.rows.iter().all(|r| of(r).is_none()) {
        return html! {};
    }
    html! {
        h3 { "Preconditioning" }
        p { "The preconditioning of each drive before its row began. Steady: the write amplification of successive windows kept within the bound of the experiment. Drive writes: bytes written by then, for each byte of the capacity. Write amplification is over the last windows; times are virtual." }
        @for group in groups(report) {
            @if group.rows.iter().any(|r| of(r).is_some()) {
                (scrolling(&format!("Preconditioning, {}", group.title), group.rows.len(), &html! {
                    table {
                        thead { tr {
                            th.first scope="col" { "design" }
                            th.word scope="col" { (group.title) ", settings" }
                            th.word scope="col" { "ended" }
                            @for title in ["drive writes", "write ampl.", "time"] { th.wrap scope="col" { (title) } }
                        } }
                        tbody { @for row in &group.rows { tr {
                            th.first scope="row" { (row.design) }
                            (words_cell(&settings(row)))
                            @match of(row) {
                                Some(p) => {
                                    td.word { (ended(p.ended)) }
                                    td { (number(Some(p.drive_writes), Unit::Ratio)) }
                                    td { (number(Some(p.write_amplification), Unit::Ratio)) }
                                    td { (Nanos(p.time_ns)) }
                                }
                                None => { td.word { "not preconditioned" } td {} td {} td {} }
                            }
                        } } }
                    }
                }))
            }
        }
    }
}

fn ended(how: Ended) -> Markup {
    html! {
        @match how {
            Ended::Filled => "filled, no overwrites requested",
            Ended::Steady => span.good { "✓ steady" },
            Ended::Bound => span.bad { "✗ not steady when the bound was reached" },
        }
    }
}

/// The mean and the most of erase units of one use.
fn worn(units: Option<Worn>) -> String {
    let words = |w: Worn| format!("{} / {}", number(Some(w.mean()), Unit::Ratio), w.max);
    units.map_or(units::MISSING.into(), words)
}

fn round(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

fn part(row: &RowReport, part: usize) -> String {
    number(row.findings.amplification_parts().map(|parts| parts[part]), Unit::Ratio)
}

fn table(group: &Group<'_>) -> Markup {
    html! {
        table {
            thead { tr {
                th.first scope="col" { "design" }
                th.word scope="col" { "settings" }
                @for (title, _) in COLUMNS { th.wrap scope="col" { (title) } }
            } }
            tbody { @for row in &group.rows { tr {
                th.first scope="row" { (row.design) }
                (words_cell(&settings(row)))
                @for (_, text) in COLUMNS {
                    td { (row.findings.drives.as_ref().map_or(units::MISSING.into(), |d| text(row, d))) }
                }
            } } }
        }
    }
}

fn wear(report: &Report) -> Markup {
    html! {
        @for (g, group) in groups(report).into_iter().enumerate() {
            @let worn = |rows: &[&RowReport]| rows.iter().any(|r| wear_of(r).is_some());
            @let all = || group.rows.iter().filter_map(|r| wear_of(r));
            @if worn(&group.rows) {
                h4 { (group.title) }
                @let ends = all().map(|w| f64::from(w.max) + f64::from(w.bucket));
                @let least = all().map(|w| w.min).min().unwrap_or(0);
                @let top = most(all().flat_map(outline).map(|p| p.1));
                @let range = Range::Between([f64::from(least), most(ends)]);
                div.plots { @for (i, (design, rows)) in designs(&group).into_iter().enumerate() {
                    @if worn(&rows) { (figure(&design, &Lines {
                        id: format!("wear-{g}-{i}"),
                        title: format!("Wear, {}, {design}", group.title),
                        description: in_words(&rows),
                        x: Scale::new("times erased", range, units::short),
                        y: Scale::new("share of units", Range::To(top), percent),
                        lines: rows.iter().enumerate().filter_map(|(n, r)| {
                            Some(line(r, n, outline(wear_of(r)?)))
                        }).collect(),
                    })) }
                } }
            }
        }
    }
}

fn wear_of(row: &RowReport) -> Option<&Wear> {
    row.findings.drives.as_ref().map(|d| &d.wear).filter(|w| w.max > 0)
}

/// The outline of a histogram, beginning and ending at the axis.
fn outline(wear: &Wear) -> Vec<(f64, f64)> {
    let units = wear.units().max(1) as f64;
    let mut points = vec![(f64::from(wear.min), 0.0)];
    let mut end = f64::from(wear.min);
    for &(from, count) in &wear.histogram {
        let height = count as f64 / units;
        end = f64::from(from) + f64::from(wear.bucket);
        points.extend([(f64::from(from), height), (end, height)]);
    }
    points.push((end, 0.0));
    points
}

fn in_words(rows: &[&RowReport]) -> String {
    let words = rows.iter().filter_map(|r| {
        let w = wear_of(r)?;
        Some(format!("{}: {} to {} times, {:.2} on average", settings(r), w.min, w.max, w.mean))
    });
    words.collect::<Vec<_>>().join("; ")
}
