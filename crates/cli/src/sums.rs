//! `tantalum published`: how far reports are off what was published, each and together.

use crate::{compare, out, table};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};
use std::path::PathBuf;
use tantalum_lab::report::published::{Deviation, Deviations};
use tantalum_lab::report::sums::{self, Sum};

/// Arguments of `tantalum published`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum run tpcc --json tpcc.json
  tantalum published tpcc.json linkbench.json
  tantalum published tpcc.json linkbench.json --json

The files are reports of `tantalum run --json`. Deviations are in per cent of the published number.
Exit codes: 0; 2, a file is no report, or nothing was published for its experiment.")]
pub struct PublishedArguments {
    /// The reports, a row for each
    #[arg(required = true, value_name = "REPORT.json")]
    reports: Vec<PathBuf>,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// Runs the command; returns the exit code.
pub fn published(arguments: &PublishedArguments) -> u8 {
    let read = |path: &PathBuf| {
        let document = compare::read(path)?;
        sums::of(&path.display().to_string(), &document)
    };
    match arguments.reports.iter().map(read).collect::<Result<Vec<Sum>, String>>() {
        Ok(all) if arguments.json => out::json(&document(&all)),
        Ok(all) => out::bytes(text(&all).as_bytes()),
        Err(message) => out::error(message, out::USAGE),
    }
}

/// All of them as docs/json.md has it.
fn document(all: &[Sum]) -> Value {
    let sum = |sum: &Sum| json!({ "experiment": sum.title, "deviations": sum.deviations });
    json!({
        "reports": all.iter().map(sum).collect::<Vec<_>>(),
        "total": sums::total(all),
    })
}

fn text(all: &[Sum]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let numbers = ["fitted\nnumbers", "predicted\nnumbers"];
    let [mean, worst] = ["off by,\nmean", "off by,\nworst"];
    table.set_header(["experiment", numbers[0], mean, worst, numbers[1], mean, worst]);
    for sum in all {
        table.add_row(row(&sum.title, &sum.deviations));
    }
    let total = sums::total(all);
    table.add_row(row("all", &total));
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let table = table::shown(table, |_| None);
    format!("{table}\n\n{total}\n{LEGEND}")
}

const LEGEND: &str = "\
fitted: parameters of the models were fitted to these published numbers; predicted: they were not.
off by: how far ours are from the published number, in per cent of it
";

fn row(title: &str, of: &Deviations) -> Vec<String> {
    let cells = |d: Option<Deviation>| match d {
        None => ["".into(), "".into(), "".into()],
        Some(d) => [
            d.numbers.to_string(),
            format!("{:.1} %", d.mean_percent),
            format!("{:.1} %", d.worst_percent),
        ],
    };
    let first = std::iter::once(title.to_string());
    first.chain(cells(of.fitted)).chain(cells(of.predicted)).collect()
}
