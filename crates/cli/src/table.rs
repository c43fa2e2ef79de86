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
    ("journal", true, |r| if is_job(r) { String::new() } else { r.journal.to_string() }),
    ("sync", true, |r| if is_job(r) { String::new() } else { r.synchronous.to_string() }),
    ("params", true, params),
    ("tx/s", true, |r| format!("{:.0}", r.findings.transactions_per_second)),
    ("p50", false, |r| time(r.findings.latency.p50_ns)),
    ("p99", true, |r| time(r.findings.latency.p99_ns)),
    ("flash B/\nuser B", false, |r| ratio(r.findings.flash_bytes_per_user_byte)),
    ("flash B/\ndrive B", false, |r| ratio(r.findings.write_amplification())),
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
    let mut rest: &[RowReport] = &report.rows;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|r| r.workload == first.workload).count();
        let (rows, behind) = rest.split_at(count);
        rest = behind;
        let title = match &first.workload {
            WorkloadKind::LinkBench => "LinkBench",
            WorkloadKind::YcsbA => "YCSB-A",
            WorkloadKind::Job(name) => name,
        };
        let _ = writeln!(text, "\n{title}\n{}", table(rows, width));
    }
    text
}

fn table(rows: &[RowReport], width: u16) -> Table {
    // A column in which no row has anything is left out; a block job has its own words.
    let said = |c: &&Column| rows.iter().any(|r| !matches!((c.2)(r).as_str(), "" | "-"));
    let columns: Vec<_> = COLUMNS.iter().filter(|c| c.1 || width >= WIDE).filter(said).collect();
    let jobs = rows.iter().all(is_job);
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|c| match c.0 {
        "tx/s" if jobs => "IOPS",
        "commits\nacked" if jobs => "blocks\nacked",
        "commits\nlost" if jobs => "blocks\nlost",
        title => title,
    }));
    for row in rows {
        table.add_row(columns.iter().map(|c| c.2(row)));
    }
    for (column, (title, ..)) in table.column_iter_mut().zip(&columns) {
        column.set_padding((0, 0));
        if !matches!(*title, "design" | "journal" | "sync" | "params" | "result") {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn is_job(row: &RowReport) -> bool {
    matches!(row.workload, WorkloadKind::Job(_))
}

fn params(row: &RowReport) -> String {
    let each = row.params.iter().map(|(key, value)| {
        // The last part of a dotted key is enough beside its value.
        format!("{}={value}", key.rsplit('.').next().unwrap_or(key))
    });
    each.collect::<Vec<_>>().join(" ")
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |x| format!("{x:.1}"))
}

fn time(ns: u64) -> String {
    if ns == 0 { "-".into() } else { Nanos(ns).to_string() }
}

fn result(row: &RowReport) -> &'static str {
    match row.verdict {
        Verdict::Failed => "FAILED",
        Verdict::Violated => "BROKEN",
        Verdict::Lost => "LOST",
        Verdict::NothingLost => "NO LOSS?",
        Verdict::AsExpected if row.findings.lost_anything() => "loses",
        Verdict::AsExpected => "kept",
    }
}
