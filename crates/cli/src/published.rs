//! Published numbers beside ours, for a terminal.

use crate::counted::counted;
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width};
use std::fmt::Write;
use std::ops::Range;
use tantalum_lab::report::Report;
use tantalum_lab::report::measures::Named;
use tantalum_lab::report::panels::{Panel, Panels, Point};
use tantalum_lab::report::ratio::RatioReport;

/// The tables; empty if nothing was published.
pub fn tables(report: &Report, width: usize) -> String {
    let mut text = String::new();
    if let Some(near) = report.nearness() {
        let source = report.published.as_ref();
        let (what, from) = source.map_or(("", ""), |s| (s.what.as_str(), s.source.as_str()));
        let _ = write!(
            text,
            "\nPublished and ours: {what}\n{from}\n{}\n",
            numbers(&Panels::of(report), width)
        );
        let _ = write!(
            text,
            "{}: off by {:.1} % on average, {:.1} % at most",
            counted(near.rows.into(), "number", "numbers"),
            near.mean_percent,
            near.worst_percent
        );
        let aims = source.and_then(|s| Some((s.mean_within?, s.each_within?)));
        if let Some((mean, each)) = aims {
            let _ = write!(text, " (aimed at: {mean} % and {each} %)");
            let all = report.rows.iter().flat_map(|r| r.deviations().map(move |d| (r, d)));
            for (row, (measure, _)) in all.filter(|(_, (_, d))| d.abs() > each) {
                let _ = write!(text, "\n  beyond: {}{}", row.name, of(measure));
            }
        }
        text.push('\n');
    }
    if !report.ratios.is_empty() {
        let _ = write!(text, "\nRatios, published and ours\n{}\n", ratios(&report.ratios, width));
    }
    if let Some(deviations) = report.deviations() {
        let _ = writeln!(text, "\n{deviations}");
    }
    text
}

/// Fewer columns than this beside each other make a table that is hard to read.
const FEW: usize = 3;

/// A line for each device and a column for each set of parameters, with as many columns as fit; a
/// line for each number, if few fit.
fn numbers(Panels { key, panels }: &Panels, width: usize) -> String {
    let columns = Panels::places(panels);
    let wide = |n: usize| {
        let some = &columns[..n.min(columns.len())];
        some.iter().map(|c| c.chars().count().max(6) + 1).sum::<usize>() + 30
    };
    let fit = (1..=columns.len()).rev().find(|n| wide(*n) <= width).unwrap_or(1).max(1);
    if fit < FEW && fit < columns.len() {
        return lines(panels, &columns, key).to_string();
    }
    let mut text = String::new();
    for some in columns.chunks(fit) {
        let mut table = blank();
        let mut header = vec!["design".to_string(), key.clone()];
        header.extend(some.iter().cloned());
        table.set_header(header);
        for panel in panels.iter().filter(|panel| some.iter().any(|c| panel.at(c).is_some())) {
            let mut add = |first: &str, what: &str, of: &dyn Fn(&Point) -> String| {
                let mut cells = vec![first.to_string(), what.to_string()];
                cells.extend(some.iter().map(|c| panel.at(c).map_or(String::new(), of)));
                table.add_row(cells);
            };
            let name = format!("{}{}", panel.name, of(panel.measure));
            add(&name, "published", &|p| figure(Some(p.published)));
            add("", "ours", &|p| figure(p.median()));
            add("", "", &|p| p.deviation_percent().map_or("-".into(), |d| format!("{d:+.0} %")));
        }
        align(&mut table, 2..usize::MAX);
        let _ = write!(text, "{}{table}", if text.is_empty() { "" } else { "\n\n" });
    }
    text
}

/// A line for each number.
fn lines(panels: &[Panel], columns: &[String], key: &str) -> Table {
    let mut table = blank();
    table.set_header(["design", key, "published", "ours", ""]);
    for panel in panels {
        let name = format!("{}{}", panel.name, of(panel.measure));
        for (column, point) in columns.iter().filter_map(|c| Some((c, panel.at(c)?))) {
            let [published, ours] = [Some(point.published), point.median()].map(figure);
            let off = point.deviation_percent().map_or("-".into(), |d| format!("{d:+.0} %"));
            table.add_row([&name, column, &published, &ours, &off]);
        }
    }
    align(&mut table, 2..usize::MAX);
    table
}

/// The words behind a row's name for its measure; none for throughput.
fn of(measure: Named) -> String {
    match measure == Named::default() {
        true => String::new(),
        false => format!(", {}", measure.name()),
    }
}

fn figure(n: Option<f64>) -> String {
    match n {
        None => "-".into(),
        Some(n) if n < 10.0 => format!("{n:.2}"),
        Some(n) => format!("{n:.0}"),
    }
}

/// A line for each of them; where the table would be too wide, the words take several.
fn ratios(all: &[RatioReport], width: usize) -> Table {
    let mut table = blank();
    table.set_header(["what", "of", "published", "ours", "", "spread", ""]);
    for found in all {
        let shown = |n: f64| found.shown(n, " x");
        let published = found.claim(" x", "-").unwrap_or("-".into());
        let off = found.deviation_percent().map_or(String::new(), |d| format!("{d:+.0} %"));
        let spread = match (found.ours.first(), found.ours.last()) {
            (Some(low), Some(high)) if found.ours.len() > 1 => {
                format!("{}-{}", found.shown(*low, ""), found.shown(*high, ""))
            }
            _ => String::new(),
        };
        let is_aim = found.asked.aim.is_some();
        let [yes, no] = if is_aim { ["met", "missed"] } else { ["agrees", "differs"] };
        let agrees = found.agrees().map_or("", |a| if a { yes } else { no });
        let ours = found.median().map_or("-".into(), shown);
        let (what, of) = (found.asked.what.as_str(), found.measured());
        table.add_row([what, &of, &published, &ours, &off, &spread, agrees]);
    }
    align(&mut table, 2..6);
    let others = || table.column_max_content_widths().into_iter().skip(1).map(|w| w + 1);
    let room = width.saturating_sub(others().map(usize::from).sum::<usize>() + 2).max(20);
    let first = table.column_mut(0).expect("it has columns");
    let room = Width::Fixed(room.try_into().unwrap_or(u16::MAX));
    first.set_constraint(ColumnConstraint::UpperBoundary(room));
    table
}

fn blank() -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table
}

/// Aligns these columns to the right.
fn align(table: &mut Table, numbers: Range<usize>) {
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if numbers.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels(places: &[&str]) -> Panels {
        let panel = |name: &str, measure: Named, ours: &[f64]| {
            let point = |(i, at): (usize, &&str)| Point {
                at: at.to_string(),
                published: 100.0 * (i + 1) as f64,
                ours: ours.to_vec(),
            };
            let points = places.iter().enumerate().map(point).collect();
            Panel { workload: "job".into(), measure, name: name.into(), points }
        };
        let p99 = Named::parse("p99").expect("a measure");
        let mut panels =
            vec![panel("fast", Named::default(), &[110.0]), panel("slow", p99, &[5.0, 7.5, 400.0])];
        panels[1].points[0].ours.clear(); // Its row failed.
        panels[1].points.pop();
        Panels { key: "depth".into(), panels }
    }

    /// The cells of a table.
    fn cells(shown: &str) -> Vec<Vec<&str>> {
        let rows = shown.lines().filter(|line| !line.chars().all(|c| "|-:+ ".contains(c)));
        rows.map(|row| row[1..row.len() - 1].split('|').map(str::trim).collect()).collect()
    }

    #[test]
    fn numbers_are_beside_each_other_where_there_is_room() {
        let of_p99 = format!("slow, {}", Named::parse("p99").expect("a measure").name());
        let shown = numbers(&panels(&["1", "2", "3"]), 80);
        let expected: [[&str; 5]; 7] = [
            ["design", "depth", "1", "2", "3"],
            ["fast", "published", "100", "200", "300"],
            ["", "ours", "110", "110", "110"],
            ["", "", "+10 %", "-45 %", "-63 %"],
            [&of_p99, "published", "100", "200", ""],
            ["", "ours", "-", "7.50", ""],
            ["", "", "-", "-96 %", ""],
        ];
        assert_eq!(cells(&shown), expected, "{shown}");
    }

    #[test]
    fn numbers_whose_parameters_are_long_are_one_below_the_other() {
        let of_p99 = format!("slow, {}", Named::parse("p99").expect("a measure").name());
        let long = ["queue_depth=1 size=4096", "queue_depth=2 size=4096", "queue_depth=4 size=512"];
        let shown = numbers(&panels(&long), 80);
        let expected: [[&str; 5]; 6] = [
            ["design", "depth", "published", "ours", ""],
            ["fast", long[0], "100", "110", "+10 %"],
            ["fast", long[1], "200", "110", "-45 %"],
            ["fast", long[2], "300", "110", "-63 %"],
            [&of_p99, long[0], "100", "-", "-"],
            [&of_p99, long[1], "200", "7.50", "-96 %"],
        ];
        assert_eq!(cells(&shown), expected, "{shown}");
        let width = shown.lines().map(|line| line.chars().count()).max();
        assert!(width.is_some_and(|width| width <= 80), "{shown}");
        // With room for all, or few in all, they are beside each other.
        let header = |places: &[&str], width| {
            let shown = numbers(&panels(places), width);
            cells(&shown)[0].iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(header(&long, 110)[2..], long);
        assert_eq!(header(&long[..2], 80)[2..], long[..2]);
    }

    #[test]
    fn words_of_ratios_take_several_lines_where_there_is_little_room() {
        let ratio = |keys: &str, ours: &[f64]| {
            let keys = format!(
                "what = \"hits, lazy cleaning less group second chance, the most of all sizes\"\n\
                 of = \"a\"\nmeasure = \"cache-hits\"\n{keys}"
            );
            RatioReport { asked: toml::from_str(&keys).expect("a ratio"), ours: ours.to_vec() }
        };
        let all = [
            ratio("minus = \"b\"\npublished = [0.0, 0.03]", &[0.036]),
            ratio("to = \"b\"\npublished = 1.2", &[1.0, 1.1]),
            ratio("more_than = 0.8", &[]),
        ];
        let of = Named::parse("cache-hits").expect("a measure").name();
        let shown = ratios(&all, 80).to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let seen: Vec<_> = cells(&shown).into_iter().filter(|row| !row[1].is_empty()).collect();
        let expected: [[&str; 6]; 4] = [
            ["of", "published", "ours", "", "spread", ""],
            [&of, "0 to 0.03", "+0.036", "", "", "differs"],
            [&of, "1.2 x", "1.10 x", "-8 %", "1.00-1.10", "agrees"],
            [&of, "> 0.8", "-", "", "", ""],
        ];
        assert!(seen.iter().map(|row| &row[1..]).eq(expected), "{shown}");
        // With room for all each has one line.
        assert_eq!(ratios(&all, 200).to_string().lines().count(), 5);
    }
}
