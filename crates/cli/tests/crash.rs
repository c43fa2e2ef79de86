//! `tantalum crash` as a user meets it.

#![allow(clippy::disallowed_methods, reason = "tests write the files that they name")]

mod common;

use common::ends;
use std::process::{Command, Output, Stdio};

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
    common::file(name, text).to_str().expect("its name is text").to_string()
}

#[test]
fn drives_that_keep_their_promises_are_clean_with_any_number_of_threads() {
    let small = file("crash-small.toml", SMALL);
    let (out, err) = ends(&crash(&[&small]), 0);
    assert!(out.contains("volatile/default") && out.contains("durassd/default"), "{out}");
    assert!(out.contains("per CPU-second: nothing found"), "{out}");
    assert!(err.is_empty(), "{err}");
    let json = |threads, seed| {
        let arguments = [&*small, "--json", "-", "--threads", threads, "--seed", seed];
        ends(&crash(&arguments), 0).0
    };
    let one = json("1", "3");
    assert_eq!(one, json("3", "3"));
    assert_ne!(one, json("1", "4"));
    let told: serde_json::Value = serde_json::from_str(&one).expect("it is JSON");
    let row = &told["rows"][1];
    assert!(row["name"] == "durassd/default" && row["found"].is_null(), "{one}");
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

/// Capacitors that hold too little: the drive loses its dump, and that is found.
#[test]
fn what_is_found_ends_in_1_and_can_be_repeated() {
    let weak = SMALL.replace("[drive]\n", "[drive]\npower = { joules = 0.00005 }\n");
    let weak = file("crash-weak.toml", &weak);
    let json = weak.replace(".toml", ".json");
    let arguments = [&*weak, "--row", "durassd", "--seed", "5", "--json", &json];
    let (out, err) = ends(&crash(&arguments), 1);
    assert!(out.contains("FOUND") && out.contains("something found in 1 of 1 rows"), "{out}");
    assert!(err.contains("the drive does not start") && err.contains("are enough:"), "{err}");
    assert!(err.contains("fn durassd_survives_these_cuts()"), "{err}");
    let told = std::fs::read_to_string(&json).expect("it was written");
    let told: serde_json::Value = serde_json::from_str(&told).expect("it is JSON");
    let found = &told["rows"][0]["found"];
    assert!(found["reduced"]["commands"].as_u64() <= Some(2), "{found}");
    let repeat = err.lines().find_map(|line| line.split_once("repeat it with: "));
    let (_, repeat) = repeat.expect("it says how");
    let words: Vec<&str> = repeat.split_whitespace().skip_while(|w| *w != "crash").collect();
    let (again, other) = ends(&crash(&words[1..]), 1);
    assert!(again.is_empty() && other.contains("the drive does not start"), "{other}");
    let failure = |text: &str| text.lines().next().map(str::to_string);
    assert_eq!(failure(&err), failure(&other));
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
    let cases: [(&[&str], &str); 10] = [
        (&["nowhere.toml"], "can not read the experiment file nowhere.toml"),
        (&[&key], "unknown key \"nestet\"; did you mean \"nested\"?"),
        (&[&mix], "unknown mix \"defalt\"; did you mean \"default\"?"),
        (&[&design], "unknown design \"volatle\"; did you mean \"volatile\"?"),
        (&[&disk], "only SSDs are explored"),
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
    let (out, _) = ends(&crash(&[&fine, "--row", "volatile", "--case", "0.17"]), 0);
    assert!(out.contains("nothing is wrong"), "{out}");
}
