//! `tantalum crash` as a user meets it.

use crate::common::ends;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use tantalum_testing::{Signal, send};

const SMALL: &str = r#"
title = "small"
samples = 40
random_times = 8
nested = 1
inner = 2
stride = 4
[mix.default]
commands = 40
then = 8
[drive]
geometry = { channels = 2, packages = 1, chips = 1, planes = 2, blocks = 24, pages = 4, page_bytes = 4096, oob_bytes = 448 }
space = { over_provisioning = 115.0, collect_below = 3 }
cache = { buffer_kib = 64 }
map = { dirty_max = 1024, write_points = 1 }
[[row]]
design = "volatile"
drive = { cache = { atomic_unit_kib = 4 }, map = { dump_units = 0 } }
[[row]]
design = "durassd"
drive = { cache = { atomic_unit_kib = 16 }, map = { dump_units = 4 } }
"#;

fn crash(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    let command = command.arg("crash").args(arguments).stdin(Stdio::null());
    command.output().expect("the command starts")
}

fn file(name: &str, text: &str) -> String {
    crate::common::file(name, text).to_str().expect("its name is text").to_string()
}

#[test]
fn drives_that_keep_their_promises_are_clean_with_any_number_of_threads() {
    let small = file("crash-small.toml", SMALL);
    let (out, err) = ends(&crash(&[&small]), 0);
    assert!(out.contains("volatile/default") && out.contains("durassd/default"), "{out}");
    assert!(out.contains("per CPU-second: nothing found"), "{out}");
    assert!(err.starts_with("seed 1: 2 rows, 40 cuts of the runs of each\n"), "{err}");
    let json = |threads, seed| {
        let arguments = [&*small, "--json", "-", "--threads", threads, "--seed", seed];
        ends(&crash(&arguments), 0).0
    };
    let one = json("1", "3");
    assert_eq!(one, json("3", "3"));
    assert_ne!(one, json("1", "4"));
    let told: serde_json::Value = serde_json::from_str(&one).expect("it is JSON");
    let row = &told["rows"][1];
    assert!(row["name"] == "durassd/default" && row["state"] == "whole", "{one}");
    assert!(row["asked"] == 40 && row["found"] == serde_json::json!([]), "{one}");
    assert!(told["ended_by"].is_null(), "{one}");
    let sum: u64 = row["cuts"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(sum, 40, "{one}");
    assert!(row["nested_cuts"][0].as_u64() > Some(5), "{one}");
}

#[test]
fn all_points_of_a_row_and_random_drives_can_be_explored() {
    let small = file("crash-all.toml", SMALL);
    let arguments = [&*small, "--exhaustive", "--nested", "0", "--row", "vola", "--json", "-"];
    let (out, _) = ends(&crash(&arguments), 0);
    let told: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(told["rows"].as_array().map(Vec::len), Some(1), "{out}");
    let cuts = &told["rows"][0]["cuts"];
    assert!(cuts["inside"].as_u64() > Some(100) && cuts["host"].as_u64() > Some(10), "{out}");
    assert_eq!(told["rows"][0]["nested_cuts"], serde_json::json!([]), "{out}");
    let (out, _) = ends(&crash(&[&small, "--swarm", "2"]), 0);
    assert!(out.contains("random/default") && out.contains("of 2 runs"), "{out}");
}

/// An exploration with too little energy in the capacitors: the drive loses its dump, which is
/// found.
fn weak(name: &str) -> String {
    file(name, &SMALL.replace("[drive]\n", "[drive]\npower = { joules = 0.00005 }\n"))
}

/// The command in this text that repeats a finding, without the program.
fn repeats(text: &str) -> Vec<&str> {
    let repeat = text.lines().find_map(|line| line.split_once("repeat it with: "));
    let (_, repeat) = repeat.unwrap_or_else(|| panic!("it says how: {text}"));
    repeat.split_whitespace().skip_while(|w| *w != "crash").skip(1).collect()
}

#[test]
fn what_is_found_ends_in_1_and_can_be_repeated() {
    let weak = weak("crash-weak.toml");
    let json = weak.replace(".toml", ".json");
    let arguments = [&*weak, "--row", "durassd", "--seed", "5", "--json", &json];
    let (out, err) = ends(&crash(&arguments), 1);
    assert!(out.contains("FOUND") && out.contains("something found in 1 of 1 row"), "{out}");
    assert!(err.contains("it does not start") && err.contains("are enough:"), "{err}");
    assert!(err.contains("fn durassd_survives_these_cuts()"), "{err}");
    let told = std::fs::read_to_string(&json).expect("it was written");
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    let found = &told["rows"][0]["found"][0];
    assert!(found["reduced"]["commands"].as_u64() <= Some(2), "{found}");
    let (again, other) = ends(&crash(&repeats(&err)), 1);
    assert!(again.is_empty() && other.contains("it does not start"), "{other}");
    let failure = |text: &str| text.lines().find(|l| l.starts_with("error: ")).map(str::to_string);
    assert_eq!(failure(&err), failure(&other));
}

/// Each finding is a line of the file, with the command that repeats it; earlier lines stay.
#[test]
fn findings_are_kept_in_a_file_and_do_not_end_the_exploration() {
    let weak = weak("crash-kept.toml");
    let kept = file("crash-kept.jsonl", "what was there\n");
    let arguments = [&*weak, "--seed", "random", "--findings", &kept, "--json", "-"];
    let (out, err) = ends(&crash(&arguments), 1);
    let told: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    let seed = told["seed"].as_u64().expect("a number");
    assert!(err.starts_with(&format!("seed {seed}: 2 rows, ")), "{err}");
    assert!(told["rows"].as_array().unwrap().iter().all(|row| row["state"] == "whole"), "{out}");
    let found = told["rows"][1]["found"].as_array().expect("a list");
    assert!(told["rows"][0]["found"] == serde_json::json!([]) && found.len() > 1, "{out}");
    let text = std::fs::read_to_string(&kept).expect("it is there");
    let (old, new) = text.split_once('\n').expect("lines");
    assert_eq!(old, "what was there");
    let lines: Vec<serde_json::Value> =
        new.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), found.len() + 1, "{text}");
    let mut cases: Vec<&str> = lines.iter().filter_map(|l| l["failure"].as_str()).collect();
    assert_eq!(cases.len(), found.len(), "{text}");
    cases.dedup();
    assert!(cases[0].contains("it does not start"), "{text}");
    let shorter = lines.iter().find(|line| !line["reduced"].is_null()).expect("one is shorter");
    assert_eq!(shorter["case"], found[0]["case"]);
    // The command of a line repeats its case.
    let line = lines.iter().find(|line| line["case"] == found[1]["case"]).expect("it is there");
    let repeat = format!("repeat it with: {}", line["repeat"].as_str().expect("a command"));
    let (_, again) = ends(&crash(&repeats(&repeat)), 1);
    assert!(again.contains(line["case"].as_str().unwrap()), "{again}");
    assert!(again.contains(line["failure"].as_str().unwrap()), "{again}");
    // With --stop-at-first the first finding ends the exploration.
    let first = [&*weak, "--stop-at-first", "--threads", "1", "--json", "-"];
    let told: serde_json::Value = serde_json::from_str(&ends(&crash(&first), 1).0).expect("JSON");
    assert!(told["ended_by"] == "finding", "{told}");
    assert_eq!(told["rows"][1]["found"].as_array().map(Vec::len), Some(1), "{told}");
}

/// Rows that never ran are not clean, and a row that was ended early does not count as complete.
#[test]
fn what_was_interrupted_says_what_was_not_run() {
    let big = SMALL.replace("samples = 40", "samples = 100000000");
    let big = big.replace("commands = 40", "commands = 20000");
    let many: String = (0..60).map(|i| format!("[[row]]\ndesign = \"durassd\"\nname = \"{i}\"\ndrive = {{ cache = {{ atomic_unit_kib = 16 }}, map = {{ dump_units = 4 }} }}\n")).collect();
    let big = file("crash-interrupted.toml", &format!("{big}{many}"));
    let json = big.replace(".toml", ".json");
    // Wait until the exploration runs: by then it has printed its seed, and can be interrupted.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    let arguments = ["crash", &big, "--threads", "1", "--json", &json];
    let command = command.args(arguments).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let pid = child.id();
    let mut first = String::new();
    let err = child.stderr.as_mut().expect("it is piped");
    let mut byte = [0];
    while !first.ends_with('\n') && err.read(&mut byte).expect("it can be read") == 1 {
        first.push(byte[0].into());
    }
    assert!(first.starts_with("seed 1: 62 rows, 100000000 cuts"), "{first}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).expect("a line");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask") & 2 != 0;
    assert!(caught, "Ctrl-C is caught before the first line is printed");
    send(Signal::INT, &child);
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = ends(&output, 130);
    assert!(out.contains("not run") && !out.contains(": nothing found\n"), "{out}");
    assert!(out.contains("nothing found in the rows that ran") || out.contains("nothing was run"));
    assert!(out.contains("interrupted: ") && out.contains("of 62 rows were not run"), "{out}");
    assert!(err.contains("interrupted"), "{err}");
    // Many rows that were not run are one line of the table.
    let is_not_run = |line: &&str| line.starts_with('|') && line.contains("not run");
    let not_run: Vec<&str> = out.lines().filter(is_not_run).collect();
    assert!(not_run.len() == 1 && not_run[0].contains(" rows "), "{out}");
    assert!(!out.contains("| clean "), "no row was run to its end: {out}");
    let told = std::fs::read_to_string(&json).expect("it was written");
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(told["ended_by"], "interrupt");
    assert_eq!(told["rows"][61]["state"], "not-run");
}

/// If the time is too short for a row, the command says so and does not succeed; otherwise it ends
/// with its coverage.
#[test]
fn a_budget_ends_it_and_says_what_was_covered() {
    let small = file("crash-budget.toml", SMALL);
    let (out, err) = ends(&crash(&[&small, "--for", "1us", "--seed", "9"]), 3);
    assert!(out.contains("random points of each row for ") && out.contains("seed 9\n"), "{out}");
    assert!(out.contains("nothing was run") && out.contains("2 of 2 rows were not run"), "{out}");
    assert!(!out.contains("clean"), "{out}");
    assert!(err.contains("error: 2 of 2 rows were not run: give a longer --for"), "{err}");
    let (_, err) = ends(&crash(&[&small, "--for", "1us", "--row", "volatile"]), 3);
    assert!(err.contains("error: 1 of 1 row was not run"), "{err}");
    // However slow the machine is, two rows of forty cuts are done within an hour.
    let (out, _) = ends(&crash(&[&small, "--for", "1h", "--samples", "40"]), 0);
    assert!(out.contains(", for 1h 0m at most") && out.contains(": nothing found\n"), "{out}");
    for (time, said) in
        [("x", "is no unit of time"), ("0s", "must be longer than 0"), ("1d", "no unit")]
    {
        let (_, err) = ends(&crash(&[&small, "--for", time]), 2);
        assert!(err.contains(said), "{err}");
    }
}

/// Without a file the built-in ones are listed, and nothing is explored.
#[test]
fn explorations_are_built_in_and_one_can_be_started_from() {
    let (list, err) = ends(&crash(&[]), 0);
    assert!(list.contains("\n  crash ") && list.contains("two cores"), "{list}");
    assert!(list.contains("`tantalum crash --init FILE`") && err.is_empty(), "{list}{err}");
    let (rows, _) = ends(&crash(&["crash", "--list"]), 0);
    let (listed, _) = ends(&crash(&["crash", "--list", "--json", "-"]), 0);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("it is JSON");
    let names = listed["list"].as_array().expect("a list").iter().map(|row| &row["name"]);
    assert!(names.eq(rows.lines()), "{listed}");
    let (json, _) = ends(&crash(&["--json", "-"]), 0);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["built_in"][0]["name"], "crash", "{json}");
    let own = file("crash-own.toml", "");
    let (_, there) = ends(&crash(&["--init", &own]), 2);
    assert!(there.contains("it is there already: name another one, or remove it"), "{there}");
    std::fs::remove_file(&own).expect("it was there");
    let (_, said) = ends(&crash(&["--init", &own]), 0);
    assert!(said.contains(&format!("run it with: tantalum crash {own}")), "{said}");
    let (out, _) = ends(&crash(&[&own, "--samples", "20"]), 0);
    assert!(out.contains("volatile/default") && out.contains("nothing found"), "{out}");
}

#[test]
fn mistakes_end_in_2_and_are_named() {
    let wrong = |name: &str, from: &str, to: &str| file(name, &SMALL.replace(from, to));
    let fine = file("crash-fine.toml", SMALL);
    let key = wrong("crash-key.toml", "nested", "nestet");
    let mix =
        wrong("crash-mix.toml", "design = \"volatile\"", "design = \"volatile\"\nmix = \"defalt\"");
    let design = wrong("crash-design.toml", "\"volatile\"", "\"volatle\"");
    let disk = wrong("crash-disk.toml", "\"volatile\"", "\"disk-15k\"");
    let hosts = wrong("crash-hosts.toml", "commands = 40", "hosts = 0");
    let small = wrong("crash-tiny.toml", "blocks = 24", "blocks = 4");
    let same: [&str; 5] = [&fine, "--json", &key, "--findings", &key];
    let random = ["--row", "volatile", "--case", "0.1", "--seed", "random"];
    let random = [&[&*fine], &random[..]].concat();
    let cases: [(&[&str], &str); 13] = [
        (&same, "--findings and --json are both"),
        (&random, "give that to --seed"),
        (&[&fine, "--findings", "/nowhere/x"], "cannot write /nowhere/x"),
        (&["nowhere.toml"], "cannot read the experiment file nowhere.toml"),
        (&[&key], "unknown key \"nestet\"; did you mean \"nested\"?"),
        (&[&mix], "unknown mix \"defalt\"; did you mean \"default\"?"),
        (&[&design], "unknown design \"volatle\"; did you mean \"volatile\"?"),
        (&[&disk], "it is no drive: set subject = \"disk\""),
        (&[&hosts], "hosts = 0: must be 1 to 256"),
        (&[&small], "raise space.over_provisioning or geometry.blocks"),
        (&[&fine, "--row", "nothing"], "rows are: volatile/default, durassd/default"),
        (&[&fine, "--case", "1.2"], "choose it with --row"),
        (&[&fine, "--row", "volatile", "--case", "x"], "\"x\" is no case"),
    ];
    for (arguments, expected) in cases {
        let (_, err) = ends(&crash(arguments), 2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
    }
    ends(&crash(&[&fine, "--samples", "0"]), 2);
    ends(&crash(&[&fine, "--samples", "3", "--exhaustive"]), 2);
    ends(&crash(&[&fine, "--case", "0.1", "--for", "2s"]), 2);
    ends(&crash(&[&fine, "--case", "0.1", "--json", "-"]), 2);
    ends(&crash(&[&fine, "--seed", "some"]), 2);
    let (out, _) = ends(&crash(&[&fine, "--row", "volatile", "--case", "0.17"]), 0);
    assert!(out.contains("nothing is wrong"), "{out}");
}
