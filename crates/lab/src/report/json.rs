//! A report as JSON: what `tantalum run --json` writes.
//!
//! It holds nothing that depends on the machine or the day: the same experiment with the
//! same seed gives the same bytes. 64-bit seeds and hashes are strings of hexadecimal
//! digits, since readers that know only floating-point numbers would round them.

use crate::report::figures::DriveFigures;
use crate::report::json_layout;
use crate::report::measures::Named;
use crate::report::published::Published;
use crate::report::ratio::RatioReport;
use crate::report::{Report, RowFindings, RowReport, Times};
use serde_json::{Map, Value, json};

/// The report as JSON, with a line break at its end.
pub fn to_json(report: &Report) -> String {
    written(&document(report))
}

/// The same for a run that was interrupted: the report has the rows that had ended, and these are the
/// names of the others.
pub fn interrupted(report: &Report, missing: &[&str]) -> String {
    let mut document = document(report);
    document["interrupted"] = true.into();
    document["missing"] = missing.into();
    written(&document)
}

fn written(document: &Value) -> String {
    // Values and a writer in memory: this does not fail.
    json_layout::to_json(document).unwrap_or_default()
}

fn document(report: &Report) -> Value {
    let rows: Vec<Value> = report.rows.iter().map(row).collect();
    let mut document = json!({
        "experiment": report.title,
        "seed": report.seed,
        "cuts": report.cuts,
        "published": report.published,
        "nearness": report.nearness(),
        "deviations": report.deviations(),
        "ratios": report.ratios.iter().map(ratio).collect::<Vec<_>>(),
        "rows": rows,
    });
    let folded = report.folded();
    let repeated: Vec<Value> = folded.rows.iter().filter_map(repeated).collect();
    // (Without repetitions the rows have everything.)
    if !repeated.is_empty() {
        document["repeated"] = repeated.into();
    }
    document
}

fn repeated(row: &RowReport) -> Option<Value> {
    let (f, spread) = (&row.findings, row.spread?);
    let rate = f.transactions_per_second;
    Some(json!({
        "name": row.name,
        "repetitions": spread.repetitions,
        "per_second": { "median": rate, "least": spread.least, "most": spread.most },
        "latency_us": { "p50": us(f.latency.p50_ns), "p99": us(f.latency.p99_ns) },
        "acknowledged": f.commits_acknowledged,
        "lost": f.commits_lost,
        "verdict": row.verdict,
    }))
}

fn ratio(found: &RatioReport) -> Value {
    let asked = &found.asked;
    json!({
        "what": asked.what,
        "measure": asked.measure,
        "to_measure": asked.to_measure.unwrap_or(asked.measure),
        "of": asked.of,
        "to": asked.to,
        "minus": asked.minus,
        "published": asked.published,
        "more_than": asked.more_than,
        "aim": asked.aim,
        "within": asked.within,
        "fitted": asked.fitted,
        "deviation_percent": found.deviation_percent(),
        "ours": found.ours,
        "median": found.median(),
        "agrees": found.agrees(),
    })
}

fn row(row: &RowReport) -> Value {
    let mut all = measured(row);
    all["published"] = row.published_number(Named::default()).into();
    all["deviation_percent"] = row.deviation_percent().into();
    if let Some(first) = row.published.first() {
        all["fitted"] = first.fitted.into();
    }
    let others = row.published.iter().filter(|p| p.measure != Named::default());
    let others: Vec<Value> = others.map(|p| other(row, p)).collect();
    if !others.is_empty() {
        all["published_of"] = others.into();
    }
    all
}

/// What was published of another measure than throughput.
fn other(row: &RowReport, p: &Published) -> Value {
    json!({
        "measure": p.measure,
        "published": p.number,
        "ours": p.measure.of(row),
        "deviation_percent": p.deviation_percent(row),
    })
}

/// A row without what was published for it.
pub(crate) fn measured(row: &RowReport) -> Value {
    let f = &row.findings;
    let is_job = row.is_job();
    let mut params = Map::new();
    if row.has_journal() {
        params.insert("journal".into(), row.journal.to_string().into());
        params.insert("synchronous".into(), row.synchronous.to_string().into());
    }
    for (key, value) in &row.params {
        params.insert(key.clone(), serde_json::to_value(value).unwrap_or(Value::Null));
    }
    let rate = if is_job { "iops" } else { "tx_per_s" };
    let mut all = json!({
        "name": row.name,
        "design": row.design,
        "model": row.model,
        "workload": row.workload.to_string(),
        "params": params,
        "seed": format!("{:016x}", row.seed),
        "expect": row.expect,
        "verdict": row.verdict,
        "error": row.error,
        "precondition": f.preconditioned.as_ref().map(|p| json!({
            "ended": p.ended,
            "drive_writes": p.drive_writes,
            "write_amplification": p.write_amplification,
            "time_s": p.time_ns as f64 / 1e9,
        })),
        rate: f.transactions_per_second,
        "transactions": f.transactions,
        "load_s": f.load_ns as f64 / 1e9,
        "utilisation": (f.load_ns > 0).then(|| f.busy_ns as f64 / f.load_ns as f64),
        "latency_us": {
            "mean": us(f.latency.mean_ns),
            "p50": us(f.latency.p50_ns),
            "p99": us(f.latency.p99_ns),
            "p999": us(f.latency.p999_ns),
            "max": us(f.latency.max_ns),
            "quantiles": f.latency_quantiles.iter().map(|&(q, ns)| (q, us(ns))).collect::<Vec<_>>(),
        },
        "series": f.series.as_ref().map(|s| json!({
            "slice_ms": s.slice_ns as f64 / 1e6,
            "transactions": s.transactions,
        })),
        "operations": operations(f),
        "replay": f.replay,
        "user_bytes_written": f.user_bytes,
        "host_bytes_written": f.host_bytes,
        "flash_bytes_written": f.flash_bytes,
        "write_amplification": f.write_amplification(),
        "flash_bytes_per_user_byte": f.flash_bytes_per_user_byte,
        "drive": f.drives.as_ref().map(|d| drive(f, d)),
        "cuts": f.cuts,
        "cuts_in_recovery": f.cuts_in_recovery,
        "cuts_with_loss": f.cuts_with_loss,
        "acknowledged": f.commits_acknowledged,
        "lost": f.commits_lost,
        "corrupt": f.databases_corrupt,
        "violations": f.violations,
        "blocks_compared": f.blocks_compared,
        "recovery_us": times(&f.recovery),
        "drive_recovery_us": times(&f.drive_recovery),
        "measures": (!f.measures.is_empty()).then_some(&f.measures),
        "problems": f.problems,
        "problems_total": f.problems_total,
        "trace_hash": format!("{:016x}", f.trace_hash),
    });
    if f.refused > 0 {
        all["refused"] = f.refused.into();
    }
    if f.full {
        all["full"] = true.into();
    }
    all
}

/// Of each operation name, count, count in a minute, and latencies: median, 99 of 100, the
/// longest, the mean, 95 of 100.
fn operations(f: &RowFindings) -> Vec<Value> {
    let minutes = f.load_ns as f64 / 60e9;
    let each = f.operations.iter().map(|(name, times)| {
        let rate = (minutes > 0.0).then(|| times.count as f64 / minutes);
        let Times { p50_ns, p95_ns, p99_ns, max_ns, mean_ns, .. } = *times;
        let [p50, p99, max, mean, p95] = [p50_ns, p99_ns, max_ns, mean_ns, p95_ns].map(us);
        json!([name, times.count, rate, p50, p99, max, mean, p95])
    });
    each.collect()
}

fn drive(f: &RowFindings, d: &DriveFigures) -> Value {
    let part = |i: usize| f.amplification_parts().map(|parts| parts[i]);
    let (load, outside) = (&d.under_load, &d.outside_load);
    json!({
        "drives": d.drives,
        "raw_bytes": d.raw_bytes,
        "capacity_bytes": d.capacity_bytes,
        "over_provisioning_percent": d.over_provisioning_percent(),
        "spare_left_percent": d.spare_left_percent,
        "amplification": {
            "host": part(0),
            "collection": part(1),
            "map": part(2),
            "overall": f.overall_amplification(),
        },
        "programmed_bytes": {
            "host": load.host_bytes,
            "collection": load.collection_bytes,
            "map": load.map_bytes,
            "dump": d.dump_bytes,
        },
        "dumps": d.dumps,
        "buffer_wait_s": load.buffer_wait_ns as f64 / 1e9,
        "space_wait_s": load.space_wait_ns as f64 / 1e9,
        "units": {
            "data": d.data_units,
            "spare_left": d.spare_left_units,
            "free": d.free_units,
            "free_least": d.free_units_least,
            "retired": load.retired_units,
        },
        "power": d.power.map(|p| json!({
            "losses": p.losses,
            "incomplete": p.incomplete,
            "budget_j": p.budget_j,
            "most_spent_j": p.most_spent_j,
            "most_missing_j": p.most_missing_j,
            "longest_us": us(p.longest_ns),
        })),
        "restarts": {
            "count": d.restarts.count,
            "early": d.restarts.early,
            "phases": d.restarts.phases.iter().map(|(name, mean, max)| {
                (name.to_string(), json!({"mean_us": us(*mean), "max_us": us(*max)}))
            }).collect::<serde_json::Map<_, _>>(),
        },
        "erases": load.erases,
        "outside_load": {
            "host_bytes_written": d.outside_host_bytes,
            "programmed_bytes": {
                "host": outside.host_bytes,
                "collection": outside.collection_bytes,
                "map": outside.map_bytes,
            },
            "erases": outside.erases,
            "retired": outside.retired_units,
        },
        "wear": {
            "min": d.wear.min,
            "mean": d.wear.mean,
            "max": d.wear.max,
            "spread": d.wear.spread(),
            "bucket": d.wear.bucket,
            "histogram": d.wear.histogram,
        },
    })
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn times(times: &Times) -> Value {
    json!({ "p50": us(times.p50_ns), "max": us(times.max_ns) })
}
