//! Rows of block jobs on software SSDs: what they tell of reads and writes, and what is left
//! of them when a drive comes to its end.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::{Report, Verdict};
use tantalum_lab::run::runner;
use tantalum_lab_page::{self as page, Command};

/// Four dies with little spare space, on which units soon fail.
const FILE: &str = r#"
title = "reads, writes, and the end"
cuts = 2
[run]
run_ms = [RUN, RUN]
outage_ms = [10, 10]
[job.mixed]
pattern = "random"
queue_depth = 4
reads = 0.5
fsync_every = 16
commands = 10000000
[job.writes]
pattern = "random"
queue_depth = 4
commands = 10000000
[drive]
geometry = { channels = 1, packages = 1, blocks = 64, pages = 16 }
wear = { endurance = ENDURANCE }
map = { dirty_max = 1024, write_points = 4, dump_units = 4 }
cache = { buffer_kib = 128 }
space = { over_provisioning = 40.0 }
[[row]]
workload = WORKLOADS
design = "volatile"
"#;

fn report(run_ms: u32, endurance: u32, workloads: &str) -> Report {
    let text = FILE
        .replace("RUN", &run_ms.to_string())
        .replace("ENDURANCE", &endurance.to_string())
        .replace("WORKLOADS", workloads);
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let watch: runner::Watch = Arc::new(|_| ());
    runner::run(&experiment, &experiment.rows().unwrap(), 2, &watch)
}

#[test]
fn reads_and_writes_have_latencies_of_their_own() {
    let report = report(100, 3000, r#"["mixed", "writes"]"#);
    let mixed = &report.rows[0];
    let [read, write] = mixed.reads_and_writes().expect("it did both");
    let f = &mixed.findings;
    assert_eq!(read.count + write.count, f.transactions);
    assert!(read.count > f.transactions / 3 && write.count > f.transactions / 3, "{f:?}");
    // Some reads wait for a program on their die; for writes there is nearly always room.
    assert!(read.p99_ns > write.p99_ns, "{read:?} {write:?}");
    for t in [read, write] {
        assert!(t.p50_ns <= t.p99_ns && t.p99_ns <= t.max_ns && t.mean_ns <= t.max_ns, "{t:?}");
    }
    let fsyncs = f.operations["flush"].count;
    assert!((write.count / 20..=write.count / 13).contains(&fsyncs), "{fsyncs}");
    let all = (read.count * read.mean_ns + write.count * write.mean_ns) / f.transactions;
    assert!(all.abs_diff(f.latency.mean_ns) * 100 < all, "{all} {f:?}");
    let writes = &report.rows[1];
    assert!(writes.reads_and_writes().is_none());
    assert_eq!(writes.findings.operations["write"].count, writes.findings.transactions);

    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let names = |row: usize| {
        let operations = json["rows"][row]["operations"].as_array().unwrap();
        operations.iter().map(|o| o[0].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(0), names(1)),
        (vec!["flush".into(), "read".into(), "write".into()], vec!["write".into()])
    );
    let command = Command { base: "x".into(), rows: String::new() };
    let page = page::experiment(&report, &command);
    assert!(page.contains(">read p50<") && page.contains(">write p99<"), "{page}");
}

#[test]
fn a_row_that_ends_early_keeps_what_it_measured() {
    // Longer than the drive lives.
    let run_ms = 3_600_000;
    let report = report(run_ms, 5, r#""writes""#);
    let row = &report.rows[0];
    let f = &row.findings;
    assert_eq!(row.verdict, Verdict::Failed);
    let error = row.error.as_deref().expect("its drive is at its end");
    assert!(error.contains("only be read"), "{error}");
    assert!(f.load_ns > 1_000_000_000 && f.load_ns < u64::from(run_ms) * 1_000_000, "{f:?}");
    assert!(f.transactions > 1000 && f.transactions_per_second > 10.0, "{f:?}");
    assert_eq!(f.cuts, 0);
    assert!(f.commits_acknowledged > 0 && f.host_bytes > 0 && f.write_amplification() > Some(1.0));
    let drives = f.drives.as_ref().expect("it has flash");
    assert!(drives.under_load.erases > 100 && drives.under_load.retired_units > 0, "{drives:?}");
    assert!(drives.wear.max >= 5 && drives.free_units_least.is_some(), "{drives:?}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let row = &json["rows"][0];
    for path in ["/load_s", "/iops", "/drive/units/retired", "/drive/wear/max", "/drive/erases"] {
        assert!(row.pointer(path).unwrap().as_f64() > Some(0.0), "{path}");
    }
    let command = Command { base: "x".into(), rows: String::new() };
    let page = page::experiment(&report, &command);
    assert!(page.contains("FAILED") && page.contains("only be read"), "{page}");
}

/// Jobs through the host's page cache, and one that does the same with direct I/O.
const BUFFERED: &str = r#"
title = "buffered"
cuts = 3
[run]
run_ms = [40, 60]
outage_ms = [10, 10]
[job.direct]
range = 0.3
commands = 10000000
[job.never]
range = 0.3
buffered = {}
commands = 10000000
[job.each]
fsync_every = 1
fsync = { tick_ms = 3, journal_at = 0.1 }
range = 0.3
buffered = {}
commands = 10000000
[job.busy]
pattern = { zipf = 0.9 }
queue_depth = 8
reads = 0.4
discards = 0.02
fua = 0.05
fsync_every = 20
fsync = { barriers = BARRIERS, tick_ms = 5, journal_at = 0.01 }
range = 0.02
buffered = { cache_pages = 2000, dirty_expire_ms = 5, writeback_ms = 5 }
commands = 10000000
[job.groups]
batch = { writes = 20, how = "group" }
range = 0.3
buffered = {}
commands = 10000000
[drive]
geometry = { channels = 1, packages = 1, blocks = 64, pages = 16 }
map = { dirty_max = 1024, write_points = 4, dump_units = 4 }
cache = { buffer_kib = 128 }
space = { over_provisioning = 40.0 }
[[row]]
workload = ["direct", "never", "each", "busy", "groups"]
design = ["durassd", "volatile"]
"#;

/// What was acknowledged and not synced is lost, and breaks no promise; what was synced is there.
#[test]
fn buffered_writes_are_lost_until_they_are_synced() {
    for barriers in ["true", "false"] {
        let text = BUFFERED.replace("BARRIERS", barriers);
        let experiment = Experiment::parse("x.toml", &text).unwrap();
        let watch: runner::Watch = Arc::new(|_| ());
        let report = runner::run(&experiment, &experiment.rows().unwrap(), 2, &watch);
        for row in &report.rows {
            let f = &row.findings;
            assert_eq!((row.error.as_deref(), f.violations, f.cuts), (None, 0, 3), "{}", row.name);
            assert!(f.commits_acknowledged > 50, "{}: {f:?}", row.name);
            let lost = match row.name.split('/').next() {
                Some("never") => f.commits_lost > 1000,
                // At each cut one write may have been acknowledged whose fsync had not ended.
                Some("each") => f.commits_lost <= 3,
                Some("direct") if row.name.contains("durassd") => f.commits_lost == 0,
                Some("groups") => f.commits_lost == 0,
                _ => true,
            };
            assert!(lost, "{} lost {}", row.name, f.commits_lost);
        }
        let busy = report.rows.iter().find(|row| row.name == "busy/durassd").unwrap();
        let [read, write] = busy.reads_and_writes().expect("it did both");
        // Half of the reads or more find what is cached. Forced writes go to the drive.
        assert_eq!(read.p50_ns / 100, 36, "{read:?}");
        assert_eq!(write.p50_ns / 100, 36, "{write:?}");
        let forced = &busy.findings.operations["fua"];
        assert!(forced.count > 0 && forced.p50_ns > 20_000, "{forced:?}");
    }
}
