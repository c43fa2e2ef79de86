//! What an interrupt prints of simulations, benchmarks and measurements, and what it leaves.

use crate::common::live::tantalum;
use crate::common::{ends, file, path};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use tantalum_testing::{Signal, send};

/// So many equal rows: they take longer than any command is waited for.
const MANY: usize = 1000;

fn begun(words: &[&str]) -> Child {
    let mut command = tantalum(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// Standard output and error of a command that is terminated when it has done enough. A slow machine
/// gets more time.
fn terminated(words: &[&str], is_enough: impl Fn(&str, &str) -> bool) -> (String, String) {
    let mut seen = String::new();
    for seconds in [2, 4, 8, 16, 32, 64] {
        let child = begun(words);
        std::thread::sleep(Duration::from_secs(seconds));
        send(Signal::TERM, &child);
        let output = child.wait_with_output().expect("it ends");
        let [out, err] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
        if output.status.code() == Some(130) && is_enough(&out, &err) {
            return (out.into_owned(), err.into_owned());
        }
        seen = format!("{words:?} after {seconds} s, {}: {out}{err}", output.status);
    }
    panic!("{seen}")
}

/// Some rows have ended.
fn has_rows(out: &str, _: &str) -> bool {
    serde_json::from_str(out).is_ok_and(|rows: Value| rows[0].is_object())
}

/// The command has noticed the interrupt.
fn has_noticed(_: &str, err: &str) -> bool {
    err.contains("interrupted: ")
}

/// Checks that some of [`MANY`] rows are printed as JSON, and that `said` counts the others.
fn some_rows(printed: &str, said: &str, name: &str) {
    let rows: Value = serde_json::from_str(printed).expect("JSON, and nothing else");
    let ended = rows.as_array().expect("an array").len();
    assert!((1..MANY).contains(&ended), "{ended}");
    let missing = format!("interrupted: {} of {MANY} rows ", MANY - ended);
    assert!(said.starts_with(&missing) && said.contains(&format!(" missing: {name}")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn folder(name: &str) -> PathBuf {
    let folder = path(name);
    std::fs::create_dir(&folder).expect("a folder");
    folder
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("the folder is there").next().is_none()
}

/// The second trace is standard input, which does not end.
#[test]
fn replays_that_have_ended_are_printed() {
    let head = "fio version 2 iolog\n/f add\n/f open\n";
    let trace = file("interrupted.fio", format!("{head}/f write 0 8192\n/f read 0 8192\n"));
    let trace = trace.to_str().expect("text");
    let words = ["cache", "sim", trace, "-", "--policy", "lru,clock", "--size", "2000"];
    for json in [&[][..], &["--json"]] {
        let mut child = begun(&[&words[..], json].concat());
        // Once the command has read more than a pipe takes, the first trace was replayed.
        let mut input = child.stdin.take().expect("it is piped");
        let more = "/f write 0 8192\n".repeat(1 << 16);
        input.write_all(head.as_bytes()).expect("it reads");
        input.write_all(more.as_bytes()).expect("it reads");
        send(Signal::INT, &child);
        let (out, said) = ends(&child.wait_with_output().expect("it ends"), 130);
        drop(input);
        let missing = "missing: -: lru at 2000 pages, -: clock at 2000 pages\n";
        assert_eq!(said, format!("interrupted: 2 of 4 rows are {missing}"));
        if json.is_empty() {
            assert!(out.contains("|lru") && out.contains("|clock"), "{out}");
            continue;
        }
        let told: Value = serde_json::from_str(&out).expect("JSON, and nothing else");
        let rows = told["rows"].as_array().expect("an array");
        assert!(rows.len() == 2 && rows.iter().all(|row| row["trace"] == trace), "{told}");
    }
}

#[test]
fn runs_of_the_simulation_that_have_ended_are_printed() {
    let words = ["drive", "bench", "--thousandths", "500"];
    for json in [&[][..], &["--json"]] {
        let mut child = begun(&[&words[..], json].concat());
        let mut err = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut said = String::new();
        while !said.contains("70 % of the range") {
            assert_ne!(err.read_line(&mut said).expect("it can be read"), 0, "{said}");
        }
        send(Signal::TERM, &child);
        err.read_to_string(&mut said).expect("it can be read");
        let (out, _) = ends(&child.wait_with_output().expect("it ends"), 130);
        assert!(out.contains("4 KiB random write, whole range") && !out.contains("70 %"), "{out}");
        let missing = "missing: 4 KiB random write, 70 % of the range, 2 M requests, timers of the \
                       bare runtime\n";
        assert!(said.ends_with(&format!("\ninterrupted: 2 of 3 rows are {missing}")), "{said}");
        if !json.is_empty() {
            let told: Value = serde_json::from_str(&out).expect("JSON, and nothing else");
            assert_eq!(told["runs"].as_array().map(Vec::len), Some(1), "{told}");
        }
    }
}

#[test]
fn the_medians_of_the_rounds_that_have_ended_are_printed() {
    let words = ["cache", "bench", "--rounds", "1000", "--threads", "1", "--pages", "1024"];
    let (out, said) =
        terminated(&[&words[..], &["--operations", "200000", "--json"]].concat(), has_rows);
    let runs: Value = serde_json::from_str(&out).expect("JSON, and nothing else");
    let runs = runs.as_array().expect("an array");
    assert!(runs.len() == 4 && runs.iter().all(|run| run["per_second"].is_f64()), "{runs:?}");
    assert!(said.starts_with("interrupted after "), "{said}");
    assert!(said.ends_with(" of 1000 rounds: these are their medians\n"), "{said}");
}

#[test]
fn an_interrupted_benchmark_of_a_cache_prints_its_runs_and_leaves_no_file() {
    let folder = folder("interrupted-cache");
    let at = folder.to_str().expect("text");
    let tasks = ["1"; MANY].join(",");
    let words = ["cache", "bench", "--flash", at, "--slow", at, "--mode", "through", "--json"];
    let sizes = ["--flash-size", "32MiB", "--slow-size", "64MiB", "--for", "100ms"];
    let (out, said) = terminated(&[&words[..], &sizes, &["--tasks", &tasks]].concat(), has_rows);
    some_rows(&out, &said, "1 task");
    assert!(is_empty(&folder), "nothing is left");
    // A run that takes long ends, too, and without rows nothing is printed.
    let models = ["--flash", "model:ssd-840pro:32MiB", "--slow", "model:disk-15k6:64MiB"];
    let long = ["--tasks", "8", "--for", "1000h"];
    let (out, said) = terminated(&[&["cache", "bench"][..], &models, &long].concat(), has_noticed);
    assert_eq!((&*out, &*said), ("", "interrupted: 1 of 1 row is missing: 8 tasks\n"));
}

#[test]
fn an_interrupted_benchmark_of_a_log_prints_its_runs_and_leaves_no_file() {
    let folder = folder("interrupted-log");
    let threads = ["1"; MANY].join(",");
    let words = ["log", "bench", folder.to_str().expect("text"), "--size", "8MiB", "--json"];
    let (out, said) =
        terminated(&[&words[..], &["--for", "100ms", "--threads", &threads]].concat(), has_rows);
    some_rows(&out, &said, "1 thread");
    assert!(is_empty(&folder), "nothing is left");
    let long = ["log", "bench", "--model", "usb-a", "--threads", "4", "--for", "1000h"];
    let (out, said) = terminated(&long, has_noticed);
    assert_eq!((&*out, &*said), ("", "interrupted: 1 of 1 row is missing: 4 threads\n"));
}

#[test]
fn an_interrupted_calibration_prints_what_was_measured_and_leaves_no_file() {
    let folder = folder("interrupted-stick");
    let preset = path("interrupted-stick.toml");
    let output = preset.to_str().expect("text");
    let words = ["log", "calibrate", folder.to_str().expect("text"), "--size", "16MiB"];
    let long = ["--for", "2s"];
    let (out, said) = terminated(&[&words[..], &long, &["-o", output]].concat(), |_, err| {
        err.contains("| measured ") && has_noticed("", err)
    });
    assert_eq!(out, "");
    assert!(said.contains("| writes of 128 KiB in sequence") && said.contains("| measured "));
    let (_, end) = said.split_once("\ninterrupted: ").expect("it says so");
    assert!(end.contains(" rows are missing: ") && end.contains(" more\n"), "{said}");
    let not_written =
        format!("\nthere is no preset: it needs all measurements\nnot written: {output}\n");
    assert!(end.ends_with(&not_written), "{said}");
    assert!(!preset.exists() && is_empty(&folder), "nothing is left");
    let (out, _) = terminated(&[&words[..], &long, &["--json"]].concat(), |out, _| {
        serde_json::from_str(out).is_ok_and(|told: Value| told["measurements"][0].is_object())
    });
    let told: Value = serde_json::from_str(&out).expect("JSON, and nothing else");
    assert!(told["preset"].is_null() && told["measurements"][0]["preset"].is_null(), "{told}");
    assert!(told["measurements"][0]["measured"]["p50_ns"].is_u64(), "{told}");
}
