//! `tantalum search` as a user meets it.

use crate::common::{ends, file};
use std::process::{Command, Output, Stdio};

const SMALL: &str = include_str!("../../../lab/src/search/tiny.toml");

fn search(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    let command = command.arg("search").args(arguments).stdin(Stdio::null());
    command.output().expect("the command starts")
}

fn with<'a>(experiment: &'a str, recovery: &'a str, slowdown: &'a str) -> Vec<&'a str> {
    let own = ["--workload", "random", "--base", "base", "--load", "20ms", "--cuts", "1"];
    let limits = [experiment, "--recovery-max", recovery, "--slowdown-max", slowdown];
    limits.into_iter().chain(own).collect()
}

#[test]
fn what_is_found_is_a_design_that_can_be_run() {
    let small = file("search-small.toml", SMALL);
    let small = small.to_str().unwrap();
    let scratch = |name: &str| file(name, "").to_str().unwrap().to_string();
    let [json, html, svg] = ["search.json", "search.html", "search.svg"].map(scratch);
    let mut arguments = with(small, "10s", "20%");
    arguments.extend(["--json", &json, "--html", &html, "--svg", &svg]);
    let (out, err) = ends(&search(&arguments), 0);
    assert!(out.contains("FOUND") && out.contains("full protection"), "{out}");
    assert!(err.is_empty(), "{err}");
    let written = |name: &str| std::fs::read_to_string(name).expect("it was written");
    assert!(written(&html).contains("The least energy: random"));
    assert!(written(&svg).starts_with("<svg") && written(&svg).contains("found"));
    let told: serde_json::Value = serde_json::from_str(&written(&json)).expect("it is JSON");
    assert_eq!(told["winner"]["meets"], true);
    assert_eq!(told["conflicts"], serde_json::json!([]));
    // The same search with another number of threads.
    let mut again = with(small, "10s", "20");
    again.extend(["--json", "-", "--threads", "1"]);
    assert_eq!(ends(&search(&again), 0).0, written(&json));
    // The design that was printed runs.
    let (_, design) = out.split_once("\n[design.found]").expect("a design is printed");
    let rows = "[[row]]\nworkload = \"random\"\ndesign = [\"base\", \"found\"]\n";
    let with_it = SMALL.replace("[[row]]\nworkload = \"random\"\ndesign = \"base\"\n", rows);
    let with_it = with_it.replace("[[row]]", &format!("[design.found]{design}\n[[row]]"));
    let found = file("search-found.toml", with_it);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    let command = command.args(["run", found.to_str().unwrap(), "--row", "found"]);
    ends(&command.output().expect("it starts"), 0);
}

#[test]
fn a_search_without_a_result_tells_the_nearest() {
    let small = file("search-none.toml", SMALL);
    let (out, err) = ends(&search(&with(small.to_str().unwrap(), "1us", "0%")), 1);
    assert!(out.contains("nearest") && !out.contains("[design.found]"), "{out}");
    assert!(err.contains("nothing meets the limits; the nearest is buffer of"), "{err}");
    assert!(err.contains("too long"), "{err}");
}

/// Keys of `[drive]` override those of a design, also of the design that was found.
#[test]
fn keys_of_the_file_that_would_change_it_are_named() {
    let text = SMALL.replace("[design.base]", "cache = { buffer_kib = 64 }\n[design.base]");
    let small = file("search-conflict.toml", text);
    let (out, _) = ends(&search(&with(small.to_str().unwrap(), "10s", "90%")), 0);
    assert!(out.contains("take precedence: remove cache.buffer_kib"), "{out}");
}

/// Without an experiment those are listed that have jobs, and what is missing is named.
#[test]
fn jobs_are_built_in_and_one_can_be_started_from() {
    let (list, _) = ends(&search(&[]), 0);
    assert!(list.contains("\n  spartan ") && list.contains("jesd219-mix, linkbench-mix"), "{list}");
    assert!(
        !list.contains("\n  first ") && list.contains("`tantalum search --init FILE`"),
        "{list}"
    );
    let own = file("search-own.toml", "");
    std::fs::remove_file(&own).expect("it was there");
    let own = own.to_str().expect("its name is text");
    let (_, said) = ends(&search(&["--init", own]), 0);
    let (_, command) = said.split_once("run it with: tantalum search ").expect("a command");
    let words: Vec<&str> = command.split_whitespace().collect();
    let (out, _) = ends(&search(&[&words[..], &["--load", "20ms", "--cuts", "1"]].concat()), 0);
    assert!(out.contains("FOUND"), "{out}");
    for (arguments, expected) in [
        (&[own][..], "search-own.toml\" with --workload: load"),
        (&[own, "--workload", "load"], "give both limits: --recovery-max, as in 1s"),
        (&["first"], "\"first\" has no block job: describe one under [job.NAME]"),
    ] {
        let (_, err) = ends(&search(arguments), 2);
        assert!(err.contains(expected) && err.lines().count() == 1, "{arguments:?}: {err}");
    }
}

#[test]
fn mistakes_end_in_2_and_are_named() {
    let small = file("search-fine.toml", SMALL);
    let small = small.to_str().unwrap();
    let changed = |from: &str, to: &str| -> Vec<String> {
        let change = |a: &str| if a == from { to.to_string() } else { a.to_string() };
        with(small, "10s", "5%").into_iter().map(change).collect()
    };
    for (arguments, expected) in [
        (changed("random", "randm"), "unknown workload \"randm\"; did you mean \"random\"?"),
        (changed("base", "bas"), "did you mean \"base\"?"),
        (changed("base", "volatile"), "has no capacitors"),
        (changed("10s", "10"), "has no unit: use ns"),
        (changed("10s", "ten s"), "is no unit of time"),
        (changed("10s", ".s"), "does not begin with a number"),
        (changed("5%", "100%"), "it should be from 0% to less than 100%"),
        (changed(small, "nowhere.toml"), "cannot read the experiment file nowhere.toml"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (_, err) = ends(&search(&arguments), 2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    // An experiment that is built in.
    let built_in =
        ["spartan", "--workload", "rndom", "--recovery-max", "1s", "--slowdown-max", "5%"];
    let (_, err) = ends(&search(&built_in), 2);
    assert!(err.contains("error: spartan: ") && err.contains("did you mean \"random\"?"), "{err}");
    let (help, _) = ends(&search(&["--help"]), 0);
    assert!(help.contains("--slowdown-max <PERCENT>") && help.contains("Exit codes"), "{help}");
}
