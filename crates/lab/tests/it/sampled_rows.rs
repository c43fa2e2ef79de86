//! Rows on sampled devices, and on disks and sampled devices with blocks of 512 bytes.

use std::sync::Arc;
use tantalum_explore::{Blueprint, Over, Plan, Reach, RowState, Watch, survey};
use tantalum_lab::file::crash::CrashFile;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::{Report, Verdict};
use tantalum_lab::run::runner;

/// A block job, databases as models and one on SQLite, on one flash stick, on four on one bus, and
/// on a disk; all of them have blocks of 512 bytes.
const FILE: &str = r#"
title = "small blocks"
cuts = 4
[run]
run_ms = [200, 900]
outage_ms = [10, 10]
[ycsb]
records = 60
[job.sectors]
pattern = "random"
block_size = 512
sizes = [[512, 3], [4096, 1], [1536, 1]]
reads = 0.3
fsync_every = 8
queue_depth = 4
range = 0.01
commands = 10000000
[engine.pages]
database_mib = 16
page_bytes = 4096
buffer_percent = 20.0
log_mib = 4
log_device = "same"
clients = 8
batch_pages = 16
warmup = 100
transactions = 200
[tree.tree]
operations = 200
updates = 1.0
[design.stick]
base = "usb-flash"
ack = "volatile"
blocks = 262144
start_ms = 1
queue_depth = 4
overlap = { recent = 1, percent = 100 }
outlier = [{ command = "write", one_in = 500, us = [1000, 9000] }]
latency = [
  { command = "read", bytes = 4096, us = [60, 80, 200] },
  { command = "write", bytes = 512, us = [80, 120, 400] },
  { command = "write", bytes = 65536, us = [1500, 2000, 4000] },
  { command = "flush", bytes = 65536, us = [300, 500, 2000] },
]
[design.sticks]
raid0 = { of = "stick", members = 4, chunk_kib = 64, bus_mb_s = 40 }
[design.disk]
base = "disk-15k"
block_bytes = 512
blocks = 262144
[[row]]
workload = ["sectors", "pages", "tree", "ycsb-a"]
design = ["stick", "sticks", "disk"]
expect = "EXPECT"
"#;

fn run(text: &str) -> Report {
    let experiment = Experiment::parse("small.toml", text).unwrap();
    let rows = experiment.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: runner::Watch = Arc::new(|_| ());
    runner::run(&experiment, &rows, 2, &watch)
}

#[test]
fn rows_on_small_blocks_run_and_are_judged_and_a_seed_gives_the_same_bytes() {
    let text = FILE.replace("EXPECT", "promised");
    let report = run(&text);
    assert_eq!(report.rows.len(), 12);
    for row in &report.rows {
        let f = &row.findings;
        assert_eq!(row.verdict, Verdict::AsExpected, "{}: {:?} {f:?}", row.name, row.error);
        assert!(f.transactions > 0 && f.cuts == 4 && f.blocks_compared > 0, "{}: {f:?}", row.name);
        assert!(f.host_bytes > 0 && f.violations == 0, "{}: {f:?}", row.name);
    }
    assert_eq!(run(&text).to_json(), report.to_json());
}

/// A page of eight blocks tears where none of them does.
#[test]
fn without_copies_pages_over_small_blocks_tear() {
    let head = FILE.split("[[row]]").next().unwrap().replace("cuts = 4", "cuts = 20");
    let rows = "[[row]]\nworkload = \"pages\"\ndesign = \"stick\"\nexpect = \"lossy\"\n\
                params = { \"engine.pages.double_write\" = false }";
    for row in run(&format!("{head}{rows}")).rows {
        let f = &row.findings;
        assert_eq!(row.verdict, Verdict::AsExpected, "{}: {:?} {f:?}", row.name, row.error);
        assert!(f.databases_corrupt > 0 && f.violations == 0, "{}: {f:?}", row.name);
    }
}

#[test]
fn what_a_design_without_flash_cannot_be_is_told_with_key_and_line() {
    let text = FILE.replace("EXPECT", "promised");
    let text = text.trim_start();
    let line = |what: &str| 1 + text.lines().position(|l| l.starts_with(what)).unwrap();
    let (stick, disk) = (line("[design.stick]"), line("[design.disk]"));
    let row = line("[[row]]");
    let job = line("[job.sectors]");
    for (from, to, at, told) in [
        (
            "start_ms = 1",
            "start_sm = 1",
            stick + 4,
            "unknown key \"start_sm\"; did you mean \"start_ms\"?",
        ),
        ("start_ms = 1", "start_ms = \"a\"", stick + 4, "start_ms: invalid type"),
        ("blocks = 262144\nstart", "blocks = 0\nstart", stick + 3, "blocks must be at least 1"),
        (
            "start_ms = 1",
            "stall = [{ every_ms = [5, 4], lasts_ms = [1, 1] }]",
            stick + 4,
            "a stall's every_ms = [5, 4]",
        ),
        (
            "start_ms = 1",
            "mode = [{ weight = 0, lasts_ms = [1, 1] }]",
            stick + 4,
            "a mode's weight is 1 to",
        ),
        ("command = \"read\"", "command = \"discard\"", stick + 8, "there is no latency of a read"),
        (
            "us = [80, 120, 400]",
            "us = [80, 120, 40]",
            stick + 10,
            "latency of write, 512 bytes: us must ascend",
        ),
        (
            "outlier = [{ command = \"write\"",
            "outlier = [{ command = \"wriet\"",
            stick + 7,
            "an outlier's command is \"wriet\": known are: read, write",
        ),
        ("base = \"usb-flash\"", "base = \"usb-flsh\"", 0, "did you mean \"usb-flash\"?"),
        ("bus_mb_s = 40", "bus_mb_s = 0", line("raid0"), "bus_mb_s must be at least 1"),
        (
            "of = \"stick\"",
            "of = \"volatile\"",
            line("raid0"),
            "only disks and sampled devices share a bus",
        ),
        ("block_bytes = 512", "block_bytes = 500", disk + 2, "block_bytes is 500"),
        ("block_bytes = 512", "blok_bytes = 512", disk + 2, "did you mean \"block_bytes\"?"),
        ("expect", "disk = { block_bytes = 500 }\nexpect", row + 3, "block_bytes is 500"),
        (
            "expect",
            "sampled = { streams = 9999 }\nexpect",
            row + 3,
            "streams is 9999, at most 1024",
        ),
        (
            "expect",
            "params = { \"sampled.queue_depth\" = [1, 0] }\nexpect",
            row + 3,
            "queue_depth must be at least 1",
        ),
        ("block_bytes = 512", "block_bytes = 4096", job + 2, "not a multiple of the device's 4096"),
        ("block_bytes = 512", "block_bytes = 8192", job + 2, "not a multiple of the device's 8192"),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text);
        let error = match Experiment::parse("small.toml", &other) {
            Err(e) => e.to_string(),
            Ok(e) => runner::check(&e.rows().unwrap()).expect_err(to),
        };
        assert!(error.contains(told), "{to}: {error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(at == 0 || error.starts_with(&format!("small.toml:{at}: ")), "{to}: {at}: {error}");
    }
}

/// What has blocks of a fixed size says so.
#[test]
fn what_is_fixed_is_told_with_key_and_line() {
    let file = |head: &str, row: &str| format!("title = \"t\"\ncuts = 1\n{head}\n[[row]]\n{row}");
    let ssd = "workload = \"ycsb-a\"\ndesign = \"durassd\"";
    for (text, told) in [
        (
            file("[drive]\nblock_bytes = 512", ssd),
            "f.toml:4: design \"durassd\": block_bytes: the blocks of an SSD are `link.logical_bytes`",
        ),
        (
            file(
                "[design.x]\nbase = \"durassd\"\nblock_bytes = 512",
                "workload = \"ycsb-a\"\ndesign = \"x\"",
            ),
            "f.toml:5: design \"x\": block_bytes: the blocks of an SSD are `link.logical_bytes`",
        ),
        (
            file(
                "[design.x]\nbase = \"usb-flash\"\nblock_bytes = 131072",
                "workload = \"ycsb-a\"\ndesign = \"x\"",
            ),
            "f.toml:5: row \"ycsb-a/x/wal/full\": block_bytes = 131072: the files of SQLite need",
        ),
        (
            file(
                "[engine.e]\npage_bytes = 4096\n[design.x]\nbase = \"disk-15k\"\nblock_bytes = 8192",
                "workload = \"e\"\ndesign = \"x\"",
            ),
            "f.toml:4: engine.e: a page of 4096 bytes must be a whole number of the drive's blocks",
        ),
        (
            file(
                "[tree.e]\n[design.x]\nbase = \"disk-15k\"\nblock_bytes = 8192",
                "workload = \"e\"\ndesign = \"x\"",
            ),
            "f.toml:3: tree.e: a node of 4096 bytes must be a whole number",
        ),
    ] {
        let error = Experiment::parse("f.toml", &text).expect_err(&text).to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

const CRASH: &str = r#"
title = "sampled devices"
random_times = 8
nested = 1
inner = 2
[mix.default]
commands = 40
then = 8
[design.stick]
base = "usb-flash"
ack = "volatile"
blocks = 96
start_ms = 1
[design.sticks]
raid0 = { of = "stick", members = 3, chunk_kib = 4, bus_mb_s = 20 }
[[row]]
subject = "sampled"
design = ["stick"]
[[row]]
subject = "sampled"
design = "stick"
name = "safe"
sampled = { ack = "power-safe", ordered = true }
payload = "bytes"
[[row]]
subject = "raid0"
design = "sticks"
[[row]]
subject = "disk"
design = "disk-15k"
disk = { blocks = 480, block_bytes = 512, track_blocks = 120, spin_up_ms = 3 }
"#;

struct Quiet;

impl Watch for Quiet {
    fn expect(&self, _row: usize, _cuts: u64) {}
    fn cut(&self, _row: usize, _depth: usize) {}
    fn found(&self, _row: usize, _case: &tantalum_explore::Case) {}
    fn reducing(&self, _row: usize) {}
    fn reduced(&self, _row: usize, _case: &tantalum_explore::Case) {}
    fn over(&self) -> Option<Over> {
        None
    }
}

#[test]
fn sampled_devices_are_explored_and_are_clean() {
    let file = CrashFile::parse("crash.toml", CRASH).unwrap();
    let rows = file.rows().unwrap();
    assert_eq!(rows.len(), 4);
    let plan = Plan { reach: Reach::Samples(200), threads: 2, stop_at_first: false };
    let found = survey(&file.exploration(), &rows, plan, &Quiet);
    for row in &found.rows {
        assert!(row.state == RowState::Whole && row.cases.is_empty(), "{row:?}");
        assert_eq!(row.tally.cuts.values().sum::<u64>(), 200, "{row:?}");
    }
    // What is printed for a test makes the same.
    let subject = rows[0].subject.clone().unwrap();
    let printed = subject.to_rust();
    let text = printed.split("r#\"").nth(1).unwrap().split("\"#").next().unwrap();
    let again =
        tantalum_explore::SampledBlueprint::from_toml(text, tantalum_device::Payload::Stamps, None);
    let again = tantalum_explore::BoxBlueprint::Sampled(again.unwrap());
    assert_eq!(tantalum_explore::AnyBlueprint::from(again), subject);
}

#[test]
fn what_is_wrong_in_a_crash_file_is_told_with_key_and_line() {
    let text = CRASH.trim_start();
    let line = |what: &str| 1 + text.lines().position(|l| l.starts_with(what)).unwrap();
    for (from, to, at, told) in [
        ("ordered = true", "orderd = true", line("sampled ="), "did you mean \"ordered\"?"),
        ("ack = \"volatile\"", "ack = \"safe\"", line("ack ="), "unknown value \"safe\""),
        ("block_bytes = 512", "block_bytes = 500", line("disk ="), "block_bytes is 500"),
        ("chunk_kib = 4", "chunk_kib = 3", 0, "chunks of 4 to 65536 KiB"),
        ("subject = \"sampled\"", "subject = \"disk\"", 0, "set subject = \"sampled\""),
        ("subject = \"raid0\"", "subject = \"sampled\"", 0, "set subject = \"raid0\""),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text);
        let error = match CrashFile::parse("crash.toml", &other) {
            Err(e) => e.to_string(),
            Ok(file) => file.rows().expect_err(to),
        };
        assert!(error.contains(told), "{to}: {error}");
        assert!(at == 0 || error.starts_with(&format!("crash.toml:{at}: ")), "{to}: {error}");
    }
}
