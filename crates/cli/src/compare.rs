//! `tantalum compare`: two reports in, a table of ratios out.

use crate::counted::counted;
use crate::{input, out, table};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tantalum_lab::report::compare::{
    self, Comparison, Difference, Document, Pair, RowPair, SMALL_PERCENT, Side,
};
use tantalum_lab::report::measures::Measure;
use tantalum_lab::report::units;
use tantalum_lab_page as page;

/// Arguments of `tantalum compare`.
#[derive(Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "\
Examples:
  tantalum compare before.json after.json
  tantalum compare before.json after.json --all
  tantalum compare before.json after.json --json | jq '.rows[].measures[] | select(.telling)'
  tantalum compare before.json after.json --html compare.html
  tantalum compare before.json after.json --fail-over 5

Both files are reports of `tantalum run --json`, or both of `tantalum drive bench --json`.
Rows are matched by name. B/A is the second value divided by the first. What is shown is
beyond chance: further apart than the repetitions of a row. Without repetitions that is not
known, and what differs by more than 1 % has a question mark; the 10 that differ most are
shown. --all shows every measure.
`tantalum run EXPERIMENT --set repetitions=5` repeats each row.
Exit codes: 0; 1, something is worse by more than --fail-over allows; 2, the files cannot
be compared.")]
pub struct CompareArguments {
    /// The first report, the divisor of ratios
    a: PathBuf,
    /// The second report
    b: PathBuf,
    /// Show every measure of every row, also what has not changed
    #[arg(long)]
    all: bool,
    /// Print every measure of every row as JSON
    #[arg(long)]
    json: bool,
    /// Write the comparison as a page to this file; it needs no other file and no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// End with 1 if a measure of a row is worse in the second report by more than this, or if a
    /// row is no longer as expected; applies only if both made the same number of cuts
    #[arg(long, value_name = "PERCENT", value_parser = crate::units::percent)]
    fail_over: Option<f64>,
}

/// Runs the command; returns the exit code.
pub fn compare(arguments: &CompareArguments) -> u8 {
    let files = [&arguments.a, &arguments.b].map(|p| p.display().to_string());
    let inputs = [("A", arguments.a.as_path()), ("B", arguments.b.as_path())];
    if let Err(message) = out::distinct(inputs, arguments.html.as_deref().map(|p| ("--html", p))) {
        return out::error(message, out::USAGE);
    }
    let documents = match (read(&arguments.a), read(&arguments.b)) {
        (Ok(a), Ok(b)) => [a, b],
        (Err(message), _) | (_, Err(message)) => return out::error(message, out::USAGE),
    };
    let comparison = match compare::compare([&files[0], &files[1]], &documents) {
        Ok(comparison) => comparison,
        Err(e) => return out::error(e, out::USAGE),
    };
    let html = match arguments.html.as_deref().map(out::Sink::open).transpose() {
        Ok(html) => html,
        Err(message) => return out::error(message, out::USAGE),
    };
    let shown = match arguments.json {
        true => format!("{:#}\n", as_json(&comparison)),
        false => text(&comparison, arguments.all),
    };
    let mut code = out::bytes(shown.as_bytes());
    if let Some(html) = html {
        code = code.max(html.put(&page::comparison(&comparison)));
    }
    if let Some(percent) = arguments.fail_over {
        for words in comparison.worse_by(percent) {
            code = out::error(words, out::FAILED);
        }
    }
    code
}

/// Reads a report of `run` or `bench`.
///
/// # Errors
/// Why it cannot, in a line.
pub fn read(path: &Path) -> Result<Document, String> {
    let name = path.display().to_string();
    let advice = format!("`tantalum run EXPERIMENT --json {name}` writes one");
    let text = input::text("the report", path, advice)?;
    compare::read(&name, &text).map_err(|e| e.to_string())
}

/// The comparison as docs/json.md has it.
fn as_json(c: &Comparison) -> Value {
    let side = |side: &Side| json!({"file": side.file, "about": side.about, "alone": side.alone});
    let measures = |row: &RowPair| -> Vec<Value> {
        let each = c.measures.iter().zip(&row.pairs).enumerate();
        let known = each.filter(|(_, (_, pair))| pair.a.is_some() || pair.b.is_some());
        let measure = |(i, (measure, pair)): (usize, (&Measure, &Pair))| {
            json!({
                "name": measure.name,
                "a": pair.a,
                "b": pair.b,
                "ratio": pair.ratio(),
                "telling": match row.difference(i) {
                    Difference::Chance => Some(false),
                    Difference::Real => Some(true),
                    Difference::Unknown => None,
                },
                "worse_percent": Some(pair.worse_percent(measure.better)).filter(|p| p.is_finite()),
            })
        };
        known.map(measure).collect()
    };
    let row = |row: &RowPair| {
        json!({
            "name": row.name,
            "results": row.results,
            "broken": row.broken,
            "measures": measures(row),
        })
    };
    json!({
        "a": side(&c.a),
        "b": side(&c.b),
        "differ": c.differ,
        "equal_cuts": c.equal_cuts,
        "rows": c.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn text(c: &Comparison, all: bool) -> String {
    let mut text = format!("A  {}: {}\nB  {}: {}\n", c.a.file, c.a.about, c.b.file, c.b.about);
    for (letter, side) in [("A", &c.a), ("B", &c.b)] {
        for name in &side.alone {
            text += &format!("only in {letter}: {name}\n");
        }
    }
    for words in &c.differ {
        text += &format!("beware: {words}\n");
    }
    if !all {
        return text + &changes(c);
    }
    for row in &c.rows {
        let result = match &row.results {
            Some([a, b]) if a == b => format!("  ({a})"),
            Some([a, b]) => format!("  ({a}; now {b})"),
            None => String::new(),
        };
        let table = table::shown(measures(c, &row.pairs), |_| None);
        text += &format!("\n{}{result}\n{table}\n", row.name);
    }
    text
}

/// So many differences that cannot be judged are shown: those that are largest.
const UNJUDGED_SHOWN: usize = 10;

/// How far two values are apart, whichever is the larger one.
fn distance(pair: &Pair) -> f64 {
    pair.ratio().map_or(f64::INFINITY, |ratio| ratio.ln().abs())
}

/// The judgement of a difference.
fn is_better(cell: &str) -> Option<bool> {
    match cell {
        "better" => Some(true),
        "worse" => Some(false),
        _ => None,
    }
}

/// What differs by more than chance, in one table, and how much does not.
fn changes(c: &Comparison) -> String {
    let mut text = String::new();
    for row in c.rows.iter().filter(|row| row.broken) {
        if let Some([a, b]) = &row.results {
            text += &format!("no longer as expected: {}: {a}; now {b}\n", row.name);
        }
    }
    let (mut shown, mut not_judged, mut known) = (Vec::new(), Vec::new(), 0);
    for row in &c.rows {
        for (i, (measure, pair)) in c.measures.iter().zip(&row.pairs).enumerate() {
            let is_count = measure.unit == units::Unit::Count && !c.equal_cuts;
            known += usize::from(pair.a.is_some() && pair.b.is_some());
            let difference = row.difference(i);
            if difference == Difference::Chance || is_count {
                continue;
            }
            let is_worse = pair.worse_percent(measure.better) > 0.0;
            let mark = match (difference, is_worse) {
                (Difference::Real, true) => "worse",
                (Difference::Real, false) => "better",
                _ => "?",
            };
            let cells = [
                row.name.clone(),
                measure.name.to_string(),
                units::value(pair.a, measure.unit),
                units::value(pair.b, measure.unit),
                units::ratio(pair.ratio()),
                mark.to_string(),
            ];
            match difference {
                Difference::Real => shown.push(cells),
                _ => not_judged.push((distance(pair), cells)),
            }
        }
    }
    let (shown, not_judged) = {
        let mut table = new_table();
        table.set_header(["row", "measure", "A", "B", "B/A", ""]);
        table.add_rows(&shown);
        not_judged.sort_by(|a, b| b.0.total_cmp(&a.0));
        table.add_rows(not_judged.iter().take(UNJUDGED_SHOWN).map(|(_, cells)| cells));
        if !table.is_empty() {
            align(&mut table, &[2, 3, 4]);
            text += &format!("\n{}\n", table::shown(table, is_better));
        }
        (shown.len() as u64, not_judged.len() as u64)
    };
    if let more @ 1.. = not_judged.saturating_sub(UNJUDGED_SHOWN as u64) {
        text += &format!("{more} more: --all\n");
    }
    let rows = counted(c.rows.len() as u64, "row", "rows");
    let measures = counted(known as u64, "measure", "measures");
    text += &format!(
        "\n{shown} of {measures} of {rows} differ by more than chance; --all shows all of them\n"
    );
    text + &if not_judged > 0 { without_repetitions(c, not_judged) } else { String::new() }
}

/// Why some differences have a question mark, and how to judge them.
fn without_repetitions(c: &Comparison, not_judged: u64) -> String {
    let these = counted(not_judged, "difference", "differences");
    let then = match c.rows.iter().any(|row| row.results.is_some()) {
        true => {
            "`tantalum run EXPERIMENT --set repetitions=5 --json FILE` makes reports that can be judged"
        }
        false => "measure several times, and see how far the reports of one program are apart",
    };
    format!(
        "?: {these} of more than {SMALL_PERCENT} % cannot be judged, since rows without repetitions do \
         not show how far chance goes:\n{then}\n"
    )
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// These columns are of numbers.
fn align(table: &mut Table, numbers: &[usize]) {
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if numbers.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn measures(c: &Comparison, pairs: &[Pair]) -> Table {
    let mut table = new_table();
    table.set_header(["measure", "A", "B", "B/A"]);
    for (measure, pair) in c.measures.iter().zip(pairs) {
        if pair.a.is_none() && pair.b.is_none() {
            continue;
        }
        table.add_row([
            measure.name.to_string(),
            units::value(pair.a, measure.unit),
            units::value(pair.b, measure.unit),
            units::ratio(pair.ratio()),
        ]);
    }
    align(&mut table, &[1, 2, 3]);
    table
}
