//! The table of an experiment, for a terminal of any width and without colours.

use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::fmt::Write;
use tantalum_lab::experiment::WorkloadKind;
use tantalum_lab::report::{Report, RowReport, Verdict};
use tantalum_rt::Nanos;

/// Narrower than this, a table leaves columns out.
const WIDE: u16 = 100;

/// The columns: title, whether a narrow table has it, the cell's text.
type Column = (&'static str, bool, fn(&RowReport) -> String);

const COLUMNS: &[Column] = &[
    ("design", true, |r| r.design.clone()),
    ("journal", true, |r| r.journal.to_string()),
    ("sync", true, |r| r.synchronous.to_string()),
    ("tx/s", true, |r| format!("{:.0}", r.findings.transactions_per_second)),
    ("p50", false, |r| time(r.findings.latency.p50_ns)),
    ("p99", true, |r| time(r.findings.latency.p99_ns)),
    ("flash B/\nuser B", false, |r| {
        r.findings.flash_bytes_per_user_byte.map_or("-".into(), |x| format!("{x:.1}"))
    }),
    ("commits\nacked", true, |r| r.findings.commits_acknowledged.to_string()),
    ("commits\nlost", true, |r| r.findings.commits_lost.to_string()),
    ("DBs\ncorrupt", true, |r| r.findings.databases_corrupt.to_string()),
    ("recovery\nmedian", false, |r| time(r.findings.recovery.p50_ns)),
    ("recovery\nmax", true, |r| time(r.findings.recovery.max_ns)),
    ("result", true, |r| result(r).into()),
];

/// All tables of a report, one for each workload.
pub fn tables(report: &Report) -> String {
    let width = Table::new().width().unwrap_or(WIDE);
    let mut text = format!(
        "{}\n{} power cuts for each row, seed {}; times are virtual\n",
        report.title, report.cuts, report.seed
    );
    for workload in [WorkloadKind::LinkBench, WorkloadKind::YcsbA] {
        let rows: Vec<_> = report.rows.iter().filter(|r| r.workload == workload).collect();
        if !rows.is_empty() {
            let title = match workload {
                WorkloadKind::LinkBench => "LinkBench",
                WorkloadKind::YcsbA => "YCSB-A",
            };
            let _ = writeln!(text, "\n{title}\n{}", table(&rows, width));
        }
    }
    text
}

fn table(rows: &[&RowReport], width: u16) -> Table {
    let columns: Vec<_> = COLUMNS.iter().filter(|c| c.1 || width >= WIDE).collect();
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|c| c.0));
    for row in rows {
        table.add_row(columns.iter().map(|c| c.2(row)));
    }
    for (column, (title, ..)) in table.column_iter_mut().zip(&columns) {
        column.set_padding((0, 0));
        if !matches!(*title, "design" | "journal" | "sync" | "result") {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn time(ns: u64) -> String {
    if ns == 0 { "-".into() } else { Nanos(ns).to_string() }
}

fn result(row: &RowReport) -> &'static str {
    match row.verdict {
        Verdict::Failed => "FAILED",
        Verdict::Lost => "LOST",
        Verdict::NothingLost => "NO LOSS?",
        Verdict::AsExpected if row.findings.lost_anything() => "loses",
        Verdict::AsExpected => "kept",
    }
}
