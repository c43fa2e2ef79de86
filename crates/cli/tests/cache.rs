//! `tantalum cache` as a user meets it.

#![allow(clippy::disallowed_methods, reason = "tests write the files that they name")]

mod common;

use common::{ends, file};
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(["cache", "sim"]).args(arguments).stdin(Stdio::null());
    command.output().expect("the command starts")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let (out, err) = ends(&sim(&[arguments, &["--json"]].concat()), 0);
    assert_eq!(err, "");
    serde_json::from_str(&out).expect("it is JSON")
}

#[test]
fn all_policies_run_on_the_trace_that_is_built_in() {
    let (out, err) = ends(&sim(&["--quick"]), 0);
    assert_eq!(err, "");
    for policy in ["mvfifo", "gsc", "lc", "tac", "bcache-lru", "bcache-fifo", "lru", "clock"] {
        let is_row = |line: &&str| line.split('|').any(|cell| cell.trim() == policy);
        assert_eq!(out.lines().filter(is_row).count(), 2, "{policy}: {out}");
    }
    assert!(out.starts_with("pg15-tpcc-32mb: ") && !out.contains("seconds"), "{out}");
    assert_eq!(ends(&sim(&["--quick"]), 0).0, out, "the same bytes again");
    let packed =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/traces/pg15-tpcc-32mb.u32.xz");
    let table = |text: &str| text.split_once("\n\n").map(|(_, table)| table.to_string());
    assert_eq!(table(&ends(&sim(&["--quick", packed]), 0).0), table(&out));
}

#[test]
fn what_is_counted_is_json() {
    let json = json(&["--quick", "--policy", "gsc,none", "--size", "2000", "--ghosts", "--time"]);
    assert_eq!((&json["page_bytes"], &json["rounds"]), (&8192.into(), &1.into()));
    let (gsc, none) = (&json["rows"][0], &json["rows"][1]);
    assert_eq!((&gsc["policy"], &none["policy"]), (&"gsc".into(), &"none".into()));
    assert!(gsc["read_hits"].as_u64() > Some(0) && gsc["twice_gain"].as_f64() > Some(0.0));
    assert!(gsc["seconds"].as_f64() > Some(0.0));
    assert_eq!(none["writes"], none["slow_writes"]);
    assert_eq!((&none["flash_writes"], &none["slow_write_change"]), (&0.into(), &0.0.into()));
    assert_eq!(none["mean_write_bytes"], serde_json::Value::Null);
}

#[test]
fn other_formats_are_read_and_discards_forget() {
    let log = "fio version 2 iolog\n/f add\n/f open\n/f write 0 8192\n/f trim 0 4096\n\
               /f read 0 8192\n/f read 0 8192\n";
    let path = file("cache.fio", log);
    let path = path.to_str().unwrap();
    let json = json(&[path, "--policy", "lru", "--size", "4", "--page", "4KiB", "--rounds", "2"]);
    let row = &json["rows"][0];
    // In each round page 0 is discarded, and missed once.
    assert_eq!(
        (&row["reads"], &row["read_hits"], &row["writes"]),
        (&8.into(), &6.into(), &4.into())
    );
    assert_eq!((&row["frames_used"], &row["flash_bytes"]), (&2.into(), &16_384.into()));
}

#[test]
fn what_makes_no_sense_is_one_line() {
    let empty = file("cache.empty", "");
    let flushes = file("cache.flushes", "8,0 0 1 1.000000000 7 Q FN [db]\n");
    for (arguments, expected) in [
        (vec!["--size", "50", "--policy", "gsc"], "gsc needs at least 128 frames, and has 50"),
        (vec!["--size", "200", "--policy", "bcache-lru", "--ghosts"], "or its ghosts"),
        (vec!["--page", "1000"], "expected a power of two"),
        (vec!["--batch", "0"], "batches of 0 pages"),
        (vec!["--dirty", "101"], "101 %"),
        (vec!["--size", "5000000000"], "too large"),
        (vec!["no-such-file"], "cannot read the trace no-such-file"),
        (vec![empty.to_str().unwrap()], "empty"),
        (vec![flushes.to_str().unwrap()], "no reads and no writes"),
    ] {
        let (out, err) = ends(&sim(&arguments), 2);
        assert!(err.contains(expected) && err.lines().count() == 1 && out.is_empty(), "{err}");
    }
    for arguments in [["--policy", "fifo"], ["--size", "x"], ["--mode", "sideways"]] {
        ends(&sim(&arguments), 2);
    }
}
