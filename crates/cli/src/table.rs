//! The table of an experiment, for a terminal of any width; results have colours where it shows them.

use crate::counted::counted;
use crate::{out, published};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use std::fmt::Write;
use tantalum_lab::file::experiment::WorkloadKind;
use tantalum_lab::report::figures::{DriveFigures, RestartFigures};
use tantalum_lab::report::gains;
use tantalum_lab::report::terms::Terms;
use tantalum_lab::report::{Report, RowReport, Times};
use tantalum_rt::Nanos;

/// The width of tables where neither a terminal nor COLUMNS gives one.
const USUAL_WIDTH: usize = 104;

/// The columns: title, rank (if the table is too wide, the columns of the highest rank are left out
/// first; rank 0 never), the cell's text.
type Column = (&'static str, u8, fn(&RowReport) -> String);

const COLUMNS: &[Column] = &[
    ("design", 0, |r| r.design.clone()),
    ("journal", 0, |r| if r.has_journal() { r.journal.to_string() } else { String::new() }),
    ("sync", 0, |r| if r.has_journal() { r.synchronous.to_string() } else { String::new() }),
    ("params", 0, RowReport::parameters),
    ("{rate}", 0, |r| format!("{:.0}", r.findings.transactions_per_second)),
    ("{rate}\nspread", 1, |r| spread_of(r)),
    ("p50", 6, |r| time(r.findings.latency.p50_ns)),
    ("p99", 3, |r| time(r.findings.latency.p99_ns)),
    ("read\np50", 6, |r| command(r, 0, |t| t.p50_ns)),
    ("read\np99", 3, |r| command(r, 0, |t| t.p99_ns)),
    ("write\np50", 6, |r| command(r, 1, |t| t.p50_ns)),
    ("write\np99", 3, |r| command(r, 1, |t| t.p99_ns)),
    ("flash KB/\ncommit", 2, |r| measured(r, "flash_bytes_per_commit", 1e3)),
    ("flushes/\ncommit", 2, |r| measured(r, "flushes_per_commit", 1.0)),
    ("groups/\ncommit", 2, |r| measured(r, "groups_per_commit", 1.0)),
    ("flash B/\nuser B", 5, |r| ratio(r.findings.flash_bytes_per_user_byte)),
    ("flash B/\ndrive B", 8, |r| ratio(r.findings.write_amplification())),
    ("{writes}\nacked", 2, |r| r.findings.commits_acknowledged.to_string()),
    ("{writes}\nlost", 0, |r| r.findings.commits_lost.to_string()),
    ("DBs\ncorrupt", 0, |r| {
        if r.is_job() { "-".into() } else { r.findings.databases_corrupt.to_string() }
    }),
    ("recovery\nmedian", 7, |r| time(r.findings.recovery.p50_ns)),
    ("recovery\nmax", 4, |r| time(r.findings.recovery.max_ns)),
    ("result", 0, |r| r.result().into()),
];

/// A measure of a row, in multiples of `unit`.
fn measured(r: &RowReport, name: &str, unit: f64) -> String {
    r.findings.measures.get(name).map_or(String::new(), |value| format!("{:.2}", value / unit))
}

/// All tables of a report, one for each workload.
pub fn tables(report: &Report) -> String {
    let text = tables_within(report, known_width());
    if out::has_colours() { painted(&text, result) } else { text }
}

/// How good the result of a row is, for its colour; `None`: neither good nor bad.
type Judge = fn(&str) -> Option<bool>;

/// A table of another command: as narrow as the terminal, or as COLUMNS says. Where neither gives a
/// width, its rows are not broken, for other programs to read. The last column has colours where
/// the terminal shows them.
pub fn shown(table: Table, is_good: Judge) -> String {
    ranked(table, &[], is_good)
}

/// The same of a table whose columns have these ranks, as those in [`COLUMNS`] have. A column
/// without one has rank 0.
pub fn ranked(table: Table, ranks: &[u8], is_good: Judge) -> String {
    shown_within(table, ranks, known_width(), is_good, out::has_colours())
}

fn shown_within(
    mut table: Table,
    ranks: &[u8],
    width: Option<usize>,
    is_good: Judge,
    colours: bool,
) -> String {
    if let Some(width) = width {
        narrow(&mut table, ranks, width);
    }
    let text = table.to_string();
    let text = match colours {
        true => painted(&text, is_good).trim_end_matches('\n').to_string(),
        false => text,
    };
    text + &left_out(&hidden(&table), width.unwrap_or(USUAL_WIDTH))
}

/// The titles of the columns that a table does not show.
fn hidden(table: &Table) -> Vec<String> {
    let titles = table.header().into_iter().flat_map(|header| header.cell_iter());
    let hidden = table.column_iter().zip(titles).filter(|(column, _)| column.is_hidden());
    hidden.map(|(_, title)| title.content()).collect()
}

/// What stands below a table without these columns, each of its lines after a line break; empty if
/// the table shows all.
fn left_out(titles: &[String], width: usize) -> String {
    if titles.is_empty() {
        return String::new();
    }
    let in_a_line = |title: &String| match title.split_once('\n') {
        Some((first, rest)) if first.ends_with(['/', '-']) => format!("{first}{rest}"),
        Some((first, rest)) => format!("{first} {rest}"),
        None => title.clone(),
    };
    let titles = titles.iter().map(in_a_line).collect::<Vec<_>>().join("; ");
    let said = format!(
        "not shown: {titles} (a wider terminal or COLUMNS=200 shows them, --json has them)"
    );
    lines(&said, width).iter().flat_map(|line| ["\n", line]).collect()
}

/// The words of a text, in lines of at most so many columns.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut used) = (Vec::new(), 0);
    for word in text.split_whitespace() {
        let long = word.chars().count();
        match lines.last_mut() {
            Some(line) if used + 1 + long <= width => {
                *line += " ";
                *line += word;
                used += 1 + long;
            }
            _ => {
                lines.push(word.to_string());
                used = long;
            }
        }
    }
    lines
}

/// A line in which `text` is behind `start`. As wide as the terminal, or as COLUMNS says: what does not
/// fit is below, under the text. Where neither gives a width it is one line.
pub fn behind(start: &str, text: &str) -> String {
    behind_within(start, text, known_width())
}

fn behind_within(start: &str, text: &str, width: Option<usize>) -> String {
    let indent = start.chars().count();
    // Where hardly a word fits, the terminal breaks lines as well.
    match width.map(|width| width.saturating_sub(indent)).filter(|room| *room >= 20) {
        Some(room) => start.to_string() + &lines(text, room).join(&format!("\n{:indent$}", "")),
        None => format!("{start}{text}"),
    }
}

/// Makes the table this narrow: without its columns of the highest ranks; or else with as many of
/// them as fit if cells are wrapped between words.
fn narrow(table: &mut Table, ranks: &[u8], width: usize) {
    let levels = || (0..=ranks.iter().copied().max().unwrap_or(0)).rev();
    for most in levels() {
        hide(table, ranks, most);
        if !is_wider(table, width) {
            return;
        }
    }
    for most in levels() {
        hide(table, ranks, most);
        fit(table, width);
        if !is_wider(table, width) {
            return;
        }
    }
    // Not even words fit: they are broken.
    hide(table, ranks, 0);
}

/// Shows the columns up to this rank, and no others.
fn hide(table: &mut Table, ranks: &[u8], most: u8) {
    let ranks = ranks.iter().chain(std::iter::repeat(&0));
    for (column, rank) in table.column_iter_mut().zip(ranks) {
        match *rank > most {
            true => column.set_constraint(ColumnConstraint::Hidden),
            false => column.remove_constraint(),
        };
    }
}

/// Wraps cells until the table has this width: between words, and not in a word or a number. The
/// table is wider if the words are.
fn fit(table: &mut Table, width: usize) {
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    // Of each column: the longest word, and the longest line.
    let mut of: Vec<(usize, usize)> = Vec::new();
    let longest = |parts: &mut dyn Iterator<Item = &str>| parts.map(|s| s.chars().count()).max();
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (i, cell) in row.cell_iter().enumerate() {
            let content = cell.content();
            of.resize(of.len().max(i + 1), (0, 0));
            of[i].0 = of[i].0.max(longest(&mut content.split_whitespace()).unwrap_or(0));
            of[i].1 = of[i].1.max(longest(&mut content.lines()).unwrap_or(0));
        }
    }
    let shown = || table.column_iter().zip(&of).filter(|(column, _)| !column.is_hidden());
    // Each column has a bar behind it, and there is one before the first.
    let around = |column: &comfy_table::Column| usize::from(column.padding_width()) + 1;
    let all: usize = shown().map(|(column, (_, line))| line + around(column)).sum();
    let mut over = (all + 1).saturating_sub(width);
    let hidden: Vec<bool> = table.column_iter().map(|column| column.is_hidden()).collect();
    // The column that is the furthest above its longest word gives first.
    let slack = |at: &(usize, &mut (usize, usize))| at.1.1 - at.1.0;
    while over > 0 {
        let shown = of.iter_mut().enumerate().filter(|(i, _)| !hidden[*i]);
        let Some((_, most)) = shown.filter(|at| slack(at) > 0).max_by_key(slack) else { break };
        most.1 -= 1;
        over -= 1;
    }
    for (column, (_, line)) in table.column_iter_mut().zip(of) {
        if !column.is_hidden() {
            let exact = u16::try_from(line).unwrap_or(u16::MAX);
            let exact = exact.saturating_add(column.padding_width());
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(exact)));
        }
    }
}

/// The results of rows of experiments.
fn result(cell: &str) -> Option<bool> {
    match cell {
        "kept" => Some(true),
        "FAILED" | "BROKEN" | "LOST" | "NO LOSS?" | "TOO FEW CUTS" => Some(false),
        _ => None,
    }
}

/// The text with the results in colours: green for what is good, red for what is bad.
fn painted(text: &str, is_good: Judge) -> String {
    let mut painted = String::with_capacity(text.len());
    for line in text.lines() {
        let cell = line.strip_suffix('|').and_then(|line| line.rsplit_once('|'));
        let paint = cell.and_then(|(_, cell)| is_good(cell.trim()));
        let paint = paint.map(|is_good| if is_good { "32" } else { "1;31" });
        let _ = match (cell, paint) {
            (Some((before, cell)), Some(paint)) => {
                writeln!(painted, "{before}|\x1b[{paint}m{cell}\x1b[0m|")
            }
            _ => writeln!(painted, "{line}"),
        };
    }
    painted
}

/// The width of a line: the terminal's, or COLUMNS where there is no terminal.
#[allow(clippy::disallowed_methods, reason = "the edge: the user's terminal")]
fn known_width() -> Option<usize> {
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let known = Table::new().width().map(usize::from).or_else(columns);
    known.filter(|w| *w > 0)
}

fn tables_within(report: &Report, known: Option<usize>) -> String {
    let width = known.unwrap_or(USUAL_WIDTH);
    let folded = report.folded();
    let repetitions = folded.rows.iter().filter_map(|r| r.spread).map(|s| s.repetitions).max();
    let repeated = repetitions
        .map_or(String::new(), |n| format!("; medians of {n} repetitions, losses summed"));
    let mut text = format!(
        "{}\n{} for each row, seed {}; times are virtual{repeated}\n",
        report.title,
        counted(report.cuts.into(), "power cut", "power cuts"),
        report.seed
    );
    let mut rest: &[RowReport] = &folded.rows;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|r| r.workload == first.workload).count();
        let (rows, left) = rest.split_at(count);
        rest = left;
        let title = match &first.workload {
            WorkloadKind::LinkBench => "LinkBench",
            WorkloadKind::YcsbA => "YCSB-A",
            WorkloadKind::Tpcc => "TPC-C",
            WorkloadKind::Pages(name) | WorkloadKind::Job(name) => name,
        };
        let (table, without) = table(rows, width);
        let _ = writeln!(text, "\n{title}\n{table}{}", left_out(&without, width));
        for line in gains::lines(&rows.iter().collect::<Vec<_>>()) {
            let _ = writeln!(text, "{}", behind_within("", &line, known));
        }
        for row in rows {
            for note in row.notes() {
                let _ = writeln!(text, "{}: {note}", row.name);
            }
            let Some(error) = &row.error else { continue };
            let load = Nanos(row.findings.load_ns);
            let _ = writeln!(text, "{} ended early, after {load} of load: {error}", row.name);
        }
    }
    text + &drives(report, width) + &published::tables(report, width)
}

/// A line for each design with flash: its figures, from the least to the most of its rows. Empty if
/// there is none.
fn drives(report: &Report, width: usize) -> String {
    let mut designs: Vec<(&str, Vec<(&RowReport, &DriveFigures)>)> = Vec::new();
    for row in &report.rows {
        let Some(figures) = &row.findings.drives else { continue };
        match designs.iter_mut().find(|d| d.0 == row.design) {
            Some((_, rows)) => rows.push((row, figures)),
            None => designs.push((&row.design, vec![(row, figures)])),
        }
    }
    if designs.is_empty() {
        return String::new();
    }
    let mut table = table_of_drives(&designs);
    let ranks: Vec<u8> = [0].into_iter().chain(SPREADS.iter().map(|s| s.1)).collect();
    narrow(&mut table, &ranks, width);
    format!(
        "\nDrives, from the least to the most of their rows\n{table}{}\n{}{}",
        left_out(&hidden(&table), width),
        restarts(report, width),
        short_of_power(report)
    )
}

fn is_wider(table: &Table, width: usize) -> bool {
    table.lines().any(|line| line.chars().count() > width)
}

/// The table of drives, with all columns.
fn table_of_drives(designs: &[(&str, Vec<(&RowReport, &DriveFigures)>)]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["design"].into_iter().chain(SPREADS.iter().map(|s| s.0)));
    for (design, rows) in designs {
        let cell = |&(title, _, digits, of): &(&str, u8, usize, Spread)| match title == SPARE_LEFT {
            true if rows.iter().all(|(_, d)| d.spare_left_units == 0) => "none".to_string(),
            _ => spread(rows.iter().filter_map(|(r, d)| of(r, d)), digits),
        };
        table.add_row([design.to_string()].into_iter().chain(SPREADS.iter().map(cell)));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Times of restarts, for drives that take commands before they know the whole map: a line for each
/// design.
fn restarts(report: &Report, width: usize) -> String {
    let mut designs: Vec<(&str, Vec<&RestartFigures>)> = Vec::new();
    for row in &report.rows {
        let Some(of_row) = row.findings.drives.as_ref().map(|d| &d.restarts) else { continue };
        match designs.iter_mut().find(|d| d.0 == row.design) {
            _ if of_row.early == 0 => {}
            Some((_, rows)) => rows.push(of_row),
            None => designs.push((&row.design, vec![of_row])),
        }
    }
    let mut text = String::new();
    for (design, rows) in designs {
        let of = |name: &str| {
            let mean = |r: &&RestartFigures| Some(r.phases.iter().find(|p| p.0 == name)?.1);
            let means = rows.iter().filter_map(mean).map(|ns| ns as f64 / 1e6);
            format!("{name} {}", spread(means, 2))
        };
        let (first, then) = (["find", "dump", "areas", "mark"], ["units", "map", "space"]);
        let list = |names: &[&str]| names.iter().map(|n| of(n)).collect::<Vec<_>>().join(", ");
        let ready = format!("{design}: {}: {};", of("ready"), list(&first));
        let whole = format!("then {}: {}", list(&then), of("whole"));
        let is_wide = ready.chars().count() + 1 + whole.chars().count() > width;
        let gap = if is_wide { "\n  " } else { " " };
        let _ = writeln!(text, "{ready}{gap}{whole}");
    }
    match text.is_empty() {
        true => text,
        false => {
            format!("\nRestarts by phase, ms, from the least to the most of their rows\n{text}")
        }
    }
}

/// A line for each row whose capacitors were too small.
fn short_of_power(report: &Report) -> String {
    let mut text = String::new();
    for row in &report.rows {
        if let Some(shortage) = row.shortage() {
            let _ = writeln!(text, "{}: {shortage}", row.name);
        }
    }
    text
}

/// A figure of the drives of a row.
type Spread = fn(&RowReport, &DriveFigures) -> Option<f64>;

/// The title of a column that may say "none".
const SPARE_LEFT: &str = "spare\nleft %";

/// Title, rank as that of [`COLUMNS`], decimal places, figure.
const SPREADS: &[(&str, u8, usize, Spread)] = &[
    ("over-\nprov. %", 0, 1, |_, d| Some(d.over_provisioning_percent())),
    (SPARE_LEFT, 1, 1, |_, d| Some(d.spare_left_percent)),
    ("flash B/\ndrive B", 0, 2, |r, _| r.findings.write_amplification()),
    ("overall", 0, 2, |r, _| r.findings.overall_amplification()),
    ("of it\nmoved", 2, 2, |r, _| r.findings.amplification_parts().map(|parts| parts[1])),
    ("of it\nmap", 2, 2, |r, _| r.findings.amplification_parts().map(|parts| parts[2])),
    ("buffer\nwait, s", 6, 2, |_, d| Some(d.under_load.buffer_wait_ns as f64 / 1e9)),
    ("space\nwait, s", 6, 2, |_, d| Some(d.under_load.space_wait_ns as f64 / 1e9)),
    ("fewest\nfree", 3, 0, |_, d| d.free_units_least.map(|n| n as f64)),
    ("erases", 0, 0, |_, d| Some((d.under_load.erases + d.outside_load.erases) as f64)),
    ("most\nworn", 4, 0, |_, d| Some(d.wear.max.into())),
    ("wear\nspread", 5, 0, |_, d| Some(d.wear.spread().into())),
];

/// The range of these figures.
fn spread(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let [least, most] = [low, high].map(|v| format!("{v:.digits$}"));
    match low <= high {
        false => "-".into(),
        true if least == most => least,
        true => format!("{least}-{most}"),
    }
}

/// The table with as many columns as fit, and the titles of the others. If even the fewest columns
/// do not fit, long cells are wrapped.
fn table(rows: &[RowReport], width: usize) -> (Table, Vec<String>) {
    for most in (0..=COLUMNS.iter().map(|c| c.1).max().unwrap_or(0)).rev() {
        let (table, without) = table_without(rows, most);
        if !is_wider(&table, width) {
            return (table, without);
        }
    }
    let (mut table, without) = table_without(rows, 0);
    fit(&mut table, width);
    (table, without)
}

/// The table without columns of a higher rank than `most`, and the titles of these.
fn table_without(rows: &[RowReport], most: u8) -> (Table, Vec<String>) {
    // A column that is empty is in no table. Block jobs have titles of their own.
    let said = |c: &&Column| rows.iter().any(|r| !matches!((c.2)(r).as_str(), "" | "-"));
    let (columns, without): (Vec<_>, Vec<_>) =
        COLUMNS.iter().filter(said).partition(|c| c.1 <= most);
    let terms = Terms::of(rows);
    let title = |t: &str| t.replace("{rate}", terms.rate).replace("{writes}", terms.writes);
    let without = without.iter().map(|c: &&Column| title(c.0)).collect();
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|c| title(c.0)));
    for row in rows {
        table.add_row(columns.iter().map(|c| c.2(row)));
    }
    for (column, (title, ..)) in table.column_iter_mut().zip(&columns) {
        column.set_padding((0, 0));
        if !matches!(*title, "design" | "journal" | "sync" | "params" | "result") {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    (table, without)
}

/// The range from the slowest repetition to the fastest.
fn spread_of(row: &RowReport) -> String {
    row.spread.map_or("-".into(), |s| format!("{:.0}-{:.0}", s.least, s.most))
}

/// A latency of a row's reads (0) or writes (1), if it has both.
fn command(row: &RowReport, which: usize, of: fn(&Times) -> u64) -> String {
    row.reads_and_writes().map_or("-".into(), |both| time(of(both[which])))
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |x| format!("{x:.1}"))
}

fn time(ns: u64) -> String {
    if ns == 0 { "-".into() } else { Nanos(ns).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tantalum_lab::file::experiment::Experiment;
    use tantalum_lab::report::figures::{Counts, Wear};
    use tantalum_lab::report::{RowFindings, Verdict};

    fn report(params: &str) -> Report {
        let file = format!(
            "title = 't'\ncuts = 60\n[[row]]\nworkload = 'ycsb-a'\ndesign = 'volatile'\n{params}"
        );
        let e = Experiment::parse("x.toml", &file).unwrap();
        let times = Times { count: 9, p50_ns: 187_800, p99_ns: 20_300_000, ..Times::default() };
        let recovery = Times { p50_ns: 184_940_000, max_ns: 244_970_000, ..times };
        let under_load = Counts { map_bytes: 1 << 20, erases: 1234, ..Counts::default() };
        let wear = Wear::of([3, 9].into_iter());
        let figures = DriveFigures {
            raw_bytes: 5 << 30,
            capacity_bytes: 4 << 30,
            under_load,
            spare_left_percent: 4.5,
            spare_left_units: 45,
            wear,
            ..DriveFigures::default()
        };
        let findings = RowFindings {
            cuts: 60,
            transactions: 9,
            transactions_per_second: 2478.0,
            latency: times,
            recovery,
            commits_acknowledged: 23_034,
            host_bytes: 1 << 20,
            flash_bytes: Some(3 << 20),
            flash_bytes_per_user_byte: Some(1552.7),
            drives: Some(figures),
            ..RowFindings::default()
        };
        let rows = e.rows().unwrap();
        let row = |r| RowReport::new(r, 1, findings.clone(), None);
        Report {
            title: "t".into(),
            seed: 1,
            cuts: 60,
            published: None,
            ratios: Vec::new(),
            rows: rows.iter().map(row).collect(),
        }
    }

    fn widest(text: &str) -> usize {
        // (The first two lines are words, not a table.)
        text.lines().skip(2).map(|l| l.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn what_does_not_fit_is_below_under_the_text() {
        let text = "a design of a drive with a name";
        assert_eq!(behind_within("  d  ", text, None), format!("  d  {text}"));
        assert_eq!(behind_within("  d  ", text, Some(36)), format!("  d  {text}"));
        let narrow = "  d  a design of a drive\n     with a name";
        assert_eq!(behind_within("  d  ", text, Some(27)), narrow);
        assert_eq!(behind_within("  d  ", text, Some(10)), format!("  d  {text}"));
        assert_eq!(lines("", 10), Vec::<String>::new());
        assert_eq!(lines("unbreakable x", 5), ["unbreakable", "x"]);
    }

    #[test]
    fn a_table_keeps_to_the_width_and_to_what_matters() {
        let report = report("");
        let mut columns = BTreeMap::new();
        for width in [60, 70, 80, 104, 200] {
            let text = tables_within(&report, Some(width));
            assert!(widest(&text) <= width, "{width}:\n{text}");
            for title in ["design", "journal", "sync", "tx/s", "lost", "corrupt", "result"] {
                assert!(text.contains(title), "{width}:\n{text}");
            }
            let (first, drives) = text.split_once("\nDrives").unwrap();
            let is_whole = width == 200;
            assert_eq!(text.contains("not shown: "), !is_whole, "{width}:\n{text}");
            let line = first.lines().rfind(|line| line.starts_with('|')).unwrap_or_default();
            // Over-provisioning and its effects are shown at any width, and no number is broken.
            let line_of_drives = drives.lines().rfind(|line| line.starts_with("|volatile"));
            let line_of_drives = line_of_drives.expect("the drive").replace(' ', "");
            let all = match width {
                200 => "|volatile|25.0|4.5|3.00|1.00|0.00|1.00|0.00|0.00|-|1234|9|6|",
                _ => "|volatile|25.0|",
            };
            assert!(line_of_drives.starts_with(all), "{width}:\n{text}");
            for title in ["over-", "drive B", "overall", "erases"] {
                assert!(drives.contains(title), "{width}: {title}\n{text}");
            }
            columns.insert(width, line.matches('|').count());
        }
        assert!(columns.values().is_sorted() && columns[&60] < columns[&80], "{columns:?}");
        // All columns but params, spread, reads and writes of jobs, and costs of commits.
        assert_eq!(columns[&200], COLUMNS.len() - 9 + 1, "{columns:?}");
    }

    /// What is not shown is named, once, and nothing that is shown.
    #[test]
    fn columns_that_are_left_out_are_named() {
        let said = |text: &str| {
            let from = text.split_once("not shown: ").map_or("", |(_, rest)| rest);
            let (titles, _) = from.split_once(" (a").unwrap_or_default();
            titles.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = tables_within(&report(""), Some(80));
        let (first, drives) = text.split_once("\nDrives").unwrap();
        assert_eq!(said(first), "p50; flash B/user B; flash B/drive B; recovery median", "{text}");
        let (shown, _) = drives.split_once("not shown: ").expect("columns are left out");
        assert!(said(drives).starts_with("buffer wait, s") && !shown.contains("buffer"), "{text}");
        for text in [&text, &tables_within(&report(""), Some(60))] {
            let unwrapped = text.replace('\n', " ");
            assert!(unwrapped.contains("--json has them"), "{text}");
        }

        let mut table = Table::new();
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["row", "flash KB/\ncommit", "over-\nprov."]).add_row(["a", "1", "2"]);
        let text = shown_within(table, &[0, 2, 1], Some(17), |_| None, false);
        assert!(text.ends_with("COLUMNS=200 shows\nthem, --json has\nthem)"), "{text}");
        assert_eq!(said(&text), "flash KB/commit", "{text}");
    }

    #[test]
    fn results_are_painted_and_nothing_else_is() {
        let text = "|design|result|\n|a     |kept  |\n|b     |loses |\n|c     |LOST  |\nkept\n";
        assert_eq!(
            painted(text, result),
            "|design|result|\n|a     |\x1b[32mkept  \x1b[0m|\n|b     |loses |\n\
             |c     |\x1b[1;31mLOST  \x1b[0m|\nkept\n"
        );
    }

    #[test]
    fn other_tables_fit_the_width_and_have_colours_where_asked() {
        let table = || {
            let mut table = Table::new();
            table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
            table.set_content_arrangement(ContentArrangement::Disabled);
            table.set_header(["a row with a long name", "what happened to it", ""]);
            table.add_row(["the first of all of the rows", "nothing that is bad", "clean"]);
            table.add_row(["the second of the rows", "something that is bad", "FOUND"]);
            table
        };
        let judge: Judge = |cell| match cell {
            "clean" => Some(true),
            "FOUND" => Some(false),
            _ => None,
        };
        let most = |text: &str| text.lines().map(|line| line.chars().count()).max();
        let plain = shown_within(table(), &[], None, judge, false);
        assert_eq!(plain.lines().count(), 4, "{plain}");
        assert_eq!(shown_within(table(), &[], Some(200), judge, false), plain);
        let narrow = shown_within(table(), &[], Some(50), judge, false);
        assert!(most(&narrow) <= Some(50) && most(&plain) > Some(50), "{narrow}");
        assert!(!plain.contains('\x1b') && !narrow.contains('\x1b'));
        let coloured = shown_within(table(), &[], None, judge, true);
        assert!(coloured.contains("\x1b[32m clean \x1b[0m|"), "{coloured}");
        assert!(coloured.contains("\x1b[1;31m FOUND \x1b[0m|"), "{coloured}");
        assert_eq!(coloured.matches("\x1b[0m").count(), 2);
    }

    /// All words of the table's cells.
    fn words(table: &str) -> Vec<&str> {
        table
            .split(|c: char| c == '|' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn no_word_or_number_is_broken() {
        let table = || {
            let mut table = Table::new();
            table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
            table.set_content_arrangement(ContentArrangement::Disabled);
            table.set_header(["row", "before it", "8041-8043", "kept of the map", "result"]);
            for n in 0..9 {
                let row = format!("an/experiment/tile-{n}/default");
                let cells = ["before anything else", "0.70-1.46", "journal of 176", "2 FOUND"];
                table.add_row([row].into_iter().chain(cells.map(String::from)));
            }
            table
        };
        let whole = table().to_string();
        let known = words(&whole);
        for (ranks, width) in [(&[][..], 75), (&[0, 2, 1], 80), (&[0, 2, 1], 70), (&[0, 2, 1], 60)]
        {
            let narrow = shown_within(table(), ranks, Some(width), |_| None, false);
            assert!(narrow.lines().all(|line| line.chars().count() <= width), "{width}:\n{narrow}");
            let (rows, _) = narrow.split_once("\nnot shown: ").unwrap_or((&narrow, ""));
            for word in words(rows).iter().filter(|word| !word.starts_with('-')) {
                assert!(known.contains(word), "{width}: {word}\n{narrow}");
            }
            // What is of no rank stays.
            assert!(narrow.contains("/tile-8/default") && narrow.contains("FOUND"), "{narrow}");
        }
        // The column of the highest rank is the first that is left out.
        let narrow = shown_within(table(), &[0, 2, 1], Some(80), |_| None, false);
        assert!(narrow.contains("0.70-1.46") && !narrow.contains("anything"), "{narrow}");
    }

    #[test]
    fn what_ended_early_has_its_figures_and_its_reason() {
        let mut report = report("");
        report.rows[0].error = Some("the drive is worn out".into());
        report.rows[0].verdict = Verdict::Failed;
        report.rows[0].findings.load_ns = 8_100_000_000;
        let text = tables_within(&report, Some(104));
        let line = text.lines().find(|l| l.contains("FAILED")).expect("its row");
        assert!(line.contains("2478"), "{text}");
        assert!(
            text.contains("ended early, after 8.10 s of load: the drive is worn out"),
            "{text}"
        );
    }

    #[test]
    fn repetitions_are_one_row_with_their_median_and_spread() {
        let mut report = report("");
        let again = |n: usize| {
            let mut row = report.rows[0].clone();
            row.findings.transactions_per_second += 100.0 * n as f64;
            row.findings.commits_lost = n as u64;
            row.name += &format!("/repetition={n}");
            row
        };
        let more = [again(2), again(3)];
        assert!(!tables_within(&report, Some(200)).contains("spread\n"));
        report.rows.extend(more);
        let text = tables_within(&report, Some(200));
        assert!(text.contains("medians of 3 repetitions"), "{text}");
        assert_eq!(text.matches("|wal").count(), 1, "{text}");
        let line = text.lines().find(|l| l.contains("|wal")).unwrap().replace(' ', "");
        assert!(line.contains("|2678|2478-2778|") && line.contains("|69102|5|"), "{text}");
        assert!(widest(&tables_within(&report, Some(60))) <= 60);
    }

    #[test]
    fn long_parameters_are_wrapped_where_lines_are_short() {
        let text =
            "params = { 'run.clients' = 8, 'run.page_bytes' = 16384, 'run.cache_pages' = 1000 }";
        let text = tables_within(&report(text), Some(70));
        assert!(widest(&text) <= 70, "{text}");
        assert!(text.contains("clients=8") && text.contains("page_bytes=16384"), "{text}");
    }
}
