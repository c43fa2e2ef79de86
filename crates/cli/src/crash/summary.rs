//! The result of an exploration as a table, and its coverage in words.

use crate::counted::{counted, were};
use crate::table;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::fmt::Write;
use tantalum_explore::{Moment, Over, Reach, RowState, RowSurvey, Survey};

/// The table, and the text below it. `budget`: the time of `--for`, in words.
pub fn summary(found: &Survey, reach: Reach, budget: Option<&str>, cpu_seconds: f64) -> String {
    let how = match reach {
        Reach::Exhaustive(1) => "every point of one run of each row".to_string(),
        Reach::Exhaustive(runs) => format!("every point of {runs} runs of each row"),
        Reach::Samples(cuts) => {
            format!("{} of each row", counted(cuts, "random point", "random points"))
        }
        Reach::Runs(runs) => {
            format!("random points of {} of each row", counted(runs, "run", "runs"))
        }
        Reach::Endless => "random points of each row".to_string(),
    };
    let within = match (reach, budget) {
        (_, None) => String::new(),
        (Reach::Endless, Some(budget)) => format!(" for {budget}"),
        (_, Some(budget)) => format!(", for {budget} at most"),
    };
    let mut text = format!("{}\n{how}{within}, seed {}\n\n", found.title, found.seed);
    let total = found.total();
    let rate = total.cycles as f64 / cpu_seconds.max(1e-9);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}\n\n{}, {}, {rate:.0} per CPU-second: {}",
        table::ranked(table(found, reach), &ranks(), is_clean),
        counted(total.all_cuts(), "cut", "cuts"),
        counted(total.cycles, "cut-and-recover cycle", "cut-and-recover cycles"),
        outcome(found),
    );
    if let Some(over) = found.over {
        let _ = writeln!(text, "{}", covered(found, reach, over, budget.unwrap_or("its time")));
    }
    text
}

/// So many rows that were not run have a line each in the table; more are one line.
const FEW: usize = 3;

fn table(found: &Survey, reach: Reach) -> Table {
    let mut table = Table::new();
    table
        .load_preset(comfy_table::presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled);
    let moments = Moment::ALL.iter().map(ToString::to_string);
    let titles = ["row", "runs", "cuts"].map(String::from).into_iter().chain(moments);
    let more = ["nested", "cycles", "result"].map(String::from);
    table.set_header(titles.chain(more).collect::<Vec<_>>());
    let not_run = found.count(RowState::NotRun);
    let is_shown = |row: &&RowSurvey| not_run <= FEW || row.state != RowState::NotRun;
    for row in found.rows.iter().filter(is_shown) {
        table.add_row(line(row, reach));
    }
    if not_run > FEW {
        let name = counted(not_run as u64, "row", "rows");
        let zeros = std::iter::repeat_n("0".to_string(), 2 + Moment::ALL.len());
        let last = ["-", "0", "not run"].map(String::from);
        table.add_row([name].into_iter().chain(zeros).chain(last).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut().skip(1).take(Moment::ALL.len() + 4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The ranks of the columns: where they do not all fit, moments are left out first.
fn ranks() -> Vec<u8> {
    let moments = Moment::ALL.iter().map(|_| 3);
    [0, 1, 0].into_iter().chain(moments).chain([2, 1, 0]).collect()
}

fn line(row: &RowSurvey, reach: Reach) -> Vec<String> {
    let tally = &row.tally;
    let of = |moment: &Moment| tally.cuts.get(moment).copied().unwrap_or(0).to_string();
    let mut cells = vec![row.name.clone(), row.runs.to_string(), tally.all_cuts().to_string()];
    cells.extend(Moment::ALL.iter().map(of));
    let nested: Vec<String> = tally.nested.iter().map(ToString::to_string).collect();
    let nested = if nested.is_empty() { "-".into() } else { nested.join("+") };
    cells.extend([nested, tally.cycles.to_string(), result(row, reach)]);
    cells
}

/// The result of a row. A row that was not run is not clean, and one that was run in part says so.
fn result(row: &RowSurvey, reach: Reach) -> String {
    let found = match row.cases.len() {
        0 => "clean".to_string(),
        1 => "FOUND".to_string(),
        n => format!("{n} FOUND"),
    };
    match row.state {
        RowState::NotRun => "not run".to_string(),
        RowState::Whole => found,
        RowState::GivenUp => format!("{found}, given up"),
        // An endless exploration is never complete.
        RowState::Part if reach == Reach::Endless => found,
        RowState::Part => {
            let cuts: u64 = row.tally.cuts.values().sum();
            let of = row.asked.map_or("in part".to_string(), |asked| format!("{cuts} of {asked}"));
            format!("{of}: {found}")
        }
    }
}

/// Whether the result of a row is good.
fn is_clean(result: &str) -> Option<bool> {
    match () {
        () if result.contains("FOUND") => Some(false),
        () if result == "clean" => Some(true),
        () => None,
    }
}

/// Findings in the rows that were run.
fn outcome(found: &Survey) -> String {
    let (rows, not_run) = (found.rows.len(), found.count(RowState::NotRun));
    match found.rows.iter().filter(|row| !row.cases.is_empty()).count() {
        0 if not_run == rows => "nothing was run".to_string(),
        0 if found.over.is_some() => "nothing found in the rows that ran".to_string(),
        0 => "nothing found".to_string(),
        n => format!("something found in {n} of {}", counted(rows as u64, "row", "rows")),
    }
}

/// Why the exploration ended early, and what it had covered by then.
fn covered(found: &Survey, reach: Reach, over: Over, budget: &str) -> String {
    let why = match over {
        Over::Interrupted => "interrupted".to_string(),
        Over::Budget => format!("ended after {budget}"),
        Over::Found => "ended at the first finding".to_string(),
    };
    let rows = counted(found.rows.len() as u64, "row", "rows");
    let not_run = found.count(RowState::NotRun);
    let part = found.count(RowState::Part);
    let mut parts = Vec::new();
    if not_run > 0 {
        parts.push(format!("{not_run} of {rows} {} not run", were(not_run as u64)));
    }
    if part > 0 && reach != Reach::Endless {
        parts.push(format!("{part} {} run in part", were(part as u64)));
    }
    let ran = found.rows.iter().filter(|row| row.state != RowState::NotRun);
    let cuts: Vec<u64> = ran.map(|row| row.tally.cuts.values().sum()).collect();
    if let (Some(least), Some(most)) = (cuts.iter().min(), cuts.iter().max()) {
        let which = if not_run > 0 { "each of the others" } else { "each row" };
        parts.push(format!("{which} had {least} to {most} cuts of its runs"));
    }
    format!("{why}: {}", parts.join(", "))
}
