//! The command as a user meets it: its output and exit codes.

use crate::common::{ends, file, path};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tantalum_lab::file::experiment::Scene;
use tantalum_lab::subject::Model;
use tantalum_testing::{Signal, send};

const SMALL: &str = r#"
title = "small"
cuts = 3
[run]
clients = 2
run_ms = [20, 60]
[ycsb]
records = 100
[drive.geometry]
blocks = 64
pages = 64
[[row]]
workload = "ycsb-a"
design = ["volatile", "durassd"]
"#;

fn tantalum(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the command starts")
}

#[test]
fn a_small_experiment_prints_a_table_and_repeats_to_the_byte() {
    let experiment = file("small.toml", SMALL);
    let experiment = experiment.to_str().unwrap();
    let (out, _) = ends(&tantalum(&["run", experiment]), 0);
    assert!(out.contains("YCSB-A") && out.contains("durassd"), "{out}");
    let json =
        |threads| ends(&tantalum(&["run", experiment, "--json", "-", "--threads", threads]), 0).0;
    let (one, two) = (json("1"), json("2"));
    assert_eq!(one, two);
    assert!(one.contains("\"cuts\": 3") && one.contains("\"lost\": 0"), "{one}");
    let other = ends(&tantalum(&["run", experiment, "--json", "-", "--seed", "9"]), 0).0;
    assert_ne!(one, other);
}

#[test]
fn a_broken_expectation_ends_in_1_and_says_how_to_repeat_it() {
    let lossy = SMALL.replace(
        "[\"volatile\", \"durassd\"]",
        "\"volatile\"\nsynchronous = \"off\"\nexpect = \"lossless\"",
    );
    let experiment = file("lossy.toml", &lossy);
    let experiment = experiment.to_str().unwrap();
    let (out, err) =
        ends(&tantalum(&["run", experiment, "--cuts", "6", "--set", "run.run_ms=[20, 70]"]), 1);
    assert!(out.contains("LOST"), "{out}");
    assert!(err.contains("must lose nothing, but lost"), "{err}");
    let row = "ycsb-a/volatile/wal/off";
    let repeat =
        format!("run {experiment} --set 'run.run_ms=[20, 70]' --seed 1 --cuts 6 --row {row}\n");
    assert!(err.contains(&repeat), "{err}");
}

#[test]
fn mistakes_end_in_2_and_are_named() {
    let experiment = |name: &str, from: &str, to: &str| {
        file(name, SMALL.replace(from, to)).to_str().unwrap().to_string()
    };
    let key = experiment("key.toml", "cuts", "cutz");
    let design = experiment("design.toml", "\"durassd\"", "\"durasdd\"");
    let small = experiment("tiny.toml", "blocks = 64", "blocks = 2");
    let over = experiment("over.toml", "pages = 64", "page = 64");
    let fine = experiment("fine.toml", "", "");
    let one = file("one.out", "").to_str().unwrap().to_string();
    let same = one.replace("one.out", "./one.out");
    let drawing = format!("flash={one}");
    let idle = experiment("idle.toml", "\"ycsb-a\"", "\"idle\"");
    let job = "[job.idle]\ncommands = 0\n[drive.geometry]";
    let text = std::fs::read_to_string(&idle).unwrap().replace("[drive.geometry]", job);
    std::fs::write(&idle, &text).unwrap();
    let trace = "[trace.idle]\nfile = \"broken.log\"\n[drive.geometry]";
    let broken = file("broken.toml", text.replace(job, trace)).to_str().unwrap().to_string();
    file("broken.log", "fio version 3 iolog\n0 /d write 0 4096\n9 /d write 0 x\n");
    let negative = experiment("negative.toml", "clients = 2", "clients = -2");
    let cases: [(&[&str], &str); 19] = [
        (&["run", &negative], "negative.toml:5: run.clients: invalid value: whole number `-2`"),
        (
            &["run", &fine, "--set", "run.clients=-1"],
            "run.clients: invalid value: whole number `-1`",
        ),
        (&["run", &idle], "idle.toml:10: job.idle: `commands` is 0, but must be at least 1"),
        (&["run", &broken], "broken.log, line 3: expected"),
        (&["run", &fine, "--json", &one, "--html", &same], "--html and --json are both"),
        (&["run", &fine, "--log-writes", &one, "--svg", &drawing], "--svg and --log-writes are"),
        (&["run", &fine, "--json", &fine], "--json and EXPERIMENT are both"),
        (&["compare", &fine, &one, "--html", &one], "--html and B are both"),
        (&["crash", &fine, "--json", &fine], "--json and EXPERIMENT are both"),
        (
            &["run", "nowhere.toml"],
            "cannot read the experiment file nowhere.toml: there is no such file: ",
        ),
        (&["run", &key], "unknown key \"cutz\"; did you mean \"cuts\"?"),
        (&["run", &design], "unknown design \"durasdd\"; did you mean \"durassd\"?"),
        (&["run", &small], "raise space.over_provisioning or geometry.blocks"),
        (&["run", &over], "a design has no `geometry.page`; did you mean `geometry.pages`?"),
        (&["run", &fine, "--row", "nothing"], "ycsb-a/durassd/wal/full"),
        (&["run", &fine, "--set", "run.clinets=1"], "did you mean \"clients\"?"),
        (&["run", &fine, "--set", "ycsb.records=100000000"], "lower ycsb.records"),
        (&["run", &fine, "--json", "/nowhere/x.json"], "cannot write /nowhere/x.json"),
        (&["designs", "durasd"], "did you mean \"durassd\"? (`tantalum designs` lists all)"),
    ];
    for (arguments, expected) in cases {
        let (_, err) = ends(&tantalum(arguments), 2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
    }
    ends(&tantalum(&["run", &fine, "--cuts", "0"]), 2);
    for arguments in [&["drive", "create", "-5"][..], &["run", "--init", "-5"]] {
        let (_, err) = ends(&tantalum(arguments), 2);
        assert!(err.contains("`./-5`") && !Path::new("-5").exists(), "{err}");
    }
    // Of many rows an error names a few; all are listed on request.
    let (rows, _) = ends(&tantalum(&["run", "fsync-frequency", "--list"]), 0);
    assert!(rows.lines().count() > 50, "{rows}");
    let (_, err) = ends(&tantalum(&["run", "fsync-frequency", "--row", "durasd"]), 2);
    assert!(err.len() < 700 && err.contains("--list prints all"), "{err}");
    let (rows, _) = ends(&tantalum(&["crash", "crash", "--row", "ram/", "--list"]), 0);
    assert!(rows.lines().all(|row| row.contains("ram/")) && !rows.is_empty(), "{rows}");
    let (_, err) = ends(&tantalum(&["compare", &fine, &one, "--fail-over", "-3"]), 2);
    assert!(err.contains("it must not be negative"), "{err}");
    // Paths like these are never replaced by a file.
    let (_, err) = ends(&tantalum(&["run", &key, "--json", "/dev/null", "--html", "/dev/null"]), 2);
    assert!(err.contains("unknown key"), "{err}");
    ends(&tantalum(&["run", &fine, "--set", "cuts"]), 2);
}

#[test]
fn values_can_be_set_and_two_runs_compared() {
    let one = SMALL.replace("[\"volatile\", \"durassd\"]", "\"durassd\"");
    let experiment = file("set.toml", &one);
    let experiment = experiment.to_str().unwrap();
    let json = experiment.replace(".toml", ".json");
    std::fs::write(&json, "x".repeat(1 << 20)).expect("the scratch folder can be written");
    let sets = ["--set", "cuts=4", "--set", "drive.cache.flush=drain"];
    let mut arguments = vec!["run", experiment, "--check-determinism", "--json", &json];
    arguments.extend(sets);
    let (out, err) = ends(&tantalum(&arguments), 0);
    assert!(out.contains("4 power cuts for each row"), "{out}");
    assert!(err.contains("the trace hashes of all rows are equal"), "{err}");
    let written = std::fs::read_to_string(&json).expect("it is there");
    assert!(written.ends_with("}\n") && written.contains("\"cuts\": 4"), "{written}");
}

/// A row that is expected to lose data is cut until it does, even if fewer cuts were requested, and
/// does not pass if it never does.
#[test]
fn a_row_that_is_to_lose_something_is_held_to_it_with_few_cuts_too() {
    let lossy = |name: &str, row: &str| {
        let text = SMALL.replace("[\"volatile\", \"durassd\"]", row);
        file(name, text).to_str().expect("its name is text").to_string()
    };
    let kept = lossy("lossy-kept.toml", "\"durassd\"\nexpect = \"lossy\"");
    for few in [&["--cuts", "3"][..], &["--quick"]] {
        let (out, err) = ends(&tantalum(&[&["run", &kept], few].concat()), 1);
        assert!(out.contains("NO LOSS?"), "{out}");
        assert!(err.contains("lost nothing in 10 power cuts"), "{err}");
        assert!(err.contains("are cut until they do, up to 10 times"), "{err}");
    }
    let loses = "\"volatile\"\nsynchronous = \"off\"\nexpect = \"lossy\"";
    let (out, _) = ends(&tantalum(&["run", &lossy("lossy-loses.toml", loses), "--cuts", "1"]), 0);
    assert!(out.contains("loses"), "{out}");
}

#[test]
#[cfg(unix)]
fn an_interrupt_ends_it_at_once_and_leaves_results_alone() {
    let experiment = file("long.toml", SMALL.replace("cuts = 3", "cuts = 1000000"));
    let [json, log] = ["json", "log"].map(|end| experiment.with_extension(end));
    for file in [&json, &log] {
        let _ = std::fs::remove_file(file);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.arg("run").arg(&experiment).arg("--json").arg(&json).arg("--log-writes").arg(&log);
    command.args(["--row", "ycsb-a/durassd"]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("the command starts");
    // The log is created when everything is ready to run.
    while !log.exists() {
        assert_eq!(child.try_wait().expect("it can be asked"), None, "it ended by itself");
        std::thread::yield_now();
    }
    send(Signal::INT, &child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let _ = std::fs::remove_file(&log);
    // There was no file, and there is none.
    let folder = json.parent().expect("it is in a folder");
    let left = std::fs::read_dir(folder).expect("it is there").filter_map(|e| {
        e.ok()?.file_name().into_string().ok().filter(|name| name.starts_with("long.json"))
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

/// What has ended is printed, and what is missing is counted. SIGTERM is one, as Ctrl-C is above.
#[test]
#[cfg(unix)]
fn an_interrupt_prints_the_rows_that_have_ended() {
    // The second row is loaded for a long time.
    let rows = "\"durassd\"\nparams = { \"ycsb.records\" = [100, 300000] }";
    let text = SMALL.replace("[\"volatile\", \"durassd\"]", rows);
    let experiment = file("interrupted.toml", text);
    let page = path("interrupted.html");
    let (out, said) = interrupted(&experiment, &[]);
    assert!(out.contains("records=100") && !out.contains("records=300000"), "{out}");
    assert!(said.starts_with("small: 2 rows, 3 power cuts each, 1 at a time\n"), "{said}");
    let (before, missing) = said.rsplit_once("interrupted: ").expect("it says so");
    let missing = missing.strip_prefix("1 of 2 rows is missing: ").expect(before);
    assert!(missing.contains("records=300000") && missing.lines().count() == 1, "{missing}");

    let page = page.to_str().expect("text");
    let (out, said) = interrupted(&experiment, &["--json", "-", "--html", page]);
    let json: Value = serde_json::from_str(&out).expect("JSON, and nothing else");
    assert_eq!(
        (&json["interrupted"], json["rows"].as_array().map(Vec::len)),
        (&true.into(), Some(1))
    );
    let missing = json["missing"].as_array().expect("a list");
    assert!(missing[0].as_str().is_some_and(|name| name.contains("records=300000")), "{json}");
    assert!(said.ends_with(&format!("\nnot written: {page}\n")), "{said}");
    assert!(!Path::new(page).exists());
}

/// What a run that is terminated after its first row prints, on standard output and error.
#[cfg(unix)]
fn interrupted(experiment: &Path, more: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.arg("run").arg(experiment).args(["--threads", "1"]).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut err = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains("1 of 2: ycsb-a/durassd") {
        assert_ne!(err.read_line(&mut said).expect("it can be read"), 0, "{said}");
    }
    send(Signal::TERM, &child);
    err.read_to_string(&mut said).expect("it can be read");
    (ends(&child.wait_with_output().expect("it ends"), 130).0, said)
}

#[test]
fn differences_that_cannot_be_judged_are_few() {
    let experiment = file("two-seeds.toml", format!("{SMALL}synchronous = [\"full\", \"off\"]\n"));
    let experiment = experiment.to_str().expect("text");
    let [a, b] = ["two-seeds-a.json", "two-seeds-b.json"].map(path);
    let [a, b] = [&a, &b].map(|file| file.to_str().expect("text"));
    for (seed, file) in [("1", a), ("2", b)] {
        ends(&tantalum(&["run", experiment, "--seed", seed, "--json", file]), 0);
    }
    let (told, _) = ends(&tantalum(&["compare", a, b]), 0);
    assert_eq!(
        told.lines().filter(|line| line.ends_with("|?     |") || line.ends_with("|?|")).count(),
        10,
        "{told}"
    );
    let more = told.lines().find_map(|line| line.strip_suffix(" more: --all")).expect(&told);
    assert!(more.parse::<u32>().is_ok_and(|more| more > 0), "{told}");
    assert!(told.lines().count() < 30, "{told}");
}

#[test]
fn quiet_commands_say_nothing_on_standard_error() {
    let experiment = file("quiet.toml", SMALL);
    let experiment = experiment.to_str().expect("text");
    let limits = ["--samples", "20", "--row", "durassd"];
    for words in [
        &["run", experiment, "--check-determinism"][..],
        &[&["crash", "crash"][..], &limits].concat(),
        &["cache", "sim", "--quick", "--policy", "lru"],
        &["search"],
    ] {
        let (_, loud) = ends(&tantalum(words), 0);
        let (out, quiet) = ends(&tantalum(&[&["--quiet"], words].concat()), 0);
        assert!(quiet.is_empty() && !out.is_empty(), "{words:?}: {quiet}");
        assert!(!loud.is_empty() || words[0] != "run", "{words:?}");
    }
}

#[test]
fn lists_are_json_where_that_is_asked_for() {
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&ends(&tantalum(words), 0).0).expect("JSON, and nothing else")
    };
    let built_in = json(&["run", "--json", "-"]);
    assert_eq!(built_in["built_in"][0]["name"], "first", "{built_in}");
    let jobs = json(&["search", "--json", "-"]);
    assert!(jobs["built_in"][0]["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty()), "{jobs}");
    let list = json(&["run", "first", "--list", "--json", "-"]);
    let (names, _) = ends(&tantalum(&["run", "first", "--list"]), 0);
    let listed = list["list"].as_array().expect("a list").iter().map(|row| &row["name"]);
    assert!(listed.eq(names.lines().map(Value::from).collect::<Vec<_>>().iter()));
    assert_eq!(list["list"][0]["workload"], "linkbench", "{list}");
}

/// Once such options did nothing, or explored what is built in.
#[test]
fn options_without_an_experiment_are_refused() {
    let page = path("nameless.html");
    let page = page.to_str().expect("text");
    let cases: [(&[&str], &str, &str); 11] = [
        (&["run", "--quick"], "--quick", "an experiment; name one: `tantalum run first --quick`"),
        (&["run", "--html", page], "--html", "`tantalum run first --html "),
        (&["run", "--set", "cuts=3"], "--set", "`tantalum run first --set cuts=3`"),
        (
            &["run", "--set", "cuts=3", "--set", "run.run_ms=[1, 2]"],
            "--set",
            "`tantalum run first --set cuts=3 --set 'run.run_ms=[1, 2]'`",
        ),
        (&["run", "--row", "first"], "--row", "`tantalum run first --row first`"),
        (&["run", "--json", page, "--list"], "--list", "`tantalum run first --json "),
        (&["crash", "--list"], "--list", "an exploration; name one: `tantalum crash crash --list`"),
        (&["crash", "--for", "1s"], "--for", "`tantalum crash crash --for 1s`"),
        (&["crash", "--json", page, "--stop-at-first"], "--stop-at-first", "`tantalum crash crash"),
        (&["search", "--all"], "--all", "an experiment; name one: `tantalum search spartan --all`"),
        (
            &["search", "--workload", "random", "--recovery-max", "1s"],
            "--workload",
            "`tantalum search spartan --workload random --recovery-max 1s`",
        ),
    ];
    for (arguments, option, expected) in cases {
        let (out, err) = ends(&tantalum(arguments), 2);
        assert!(err.starts_with(&format!("error: {option}: it is for a")), "{arguments:?}: {err}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{arguments:?}: {err}");
        assert!(out.is_empty() && !Path::new(page).exists(), "{arguments:?}: {out}");
    }
    // The list itself may be JSON, also in a file.
    for verb in ["run", "crash", "search"] {
        let (printed, _) = ends(&tantalum(&[verb, "--json", "-"]), 0);
        let (out, err) = ends(&tantalum(&[verb, "--json", page]), 0);
        assert!(out.is_empty() && err.is_empty(), "{out}{err}");
        assert_eq!(std::fs::read_to_string(page).expect("it was written"), printed);
        let list: Value = serde_json::from_str(&printed).expect("JSON");
        assert!(list["built_in"][0]["name"].is_string(), "{list}");
    }
}

/// What was set stays, and `--quick` makes the rest small.
#[test]
fn what_is_set_stays_with_quick() {
    let experiment = file("quick-set.toml", SMALL);
    let experiment = experiment.to_str().expect("text");
    let run = |sets: &[&str]| -> Value {
        let words = ["run", experiment, "--quick", "--row", "durassd", "--json", "-"];
        serde_json::from_str(&ends(&tantalum(&[&words[..], sets].concat()), 0).0).expect("JSON")
    };
    let few = run(&["--set", "cuts=8", "--set", "repetitions=2"]);
    assert_eq!(few["cuts"], 8, "{few}");
    assert_eq!(few["rows"].as_array().map(Vec::len), Some(2), "{few}");
    assert_eq!(few["repeated"][0]["repetitions"], 2, "{few}");
    assert_eq!(run(&["--set", "seed=2"])["cuts"], 3);
    assert_eq!(run(&["--set", "seed=2", "--cuts", "8"])["cuts"], 8);
}

#[test]
fn experiments_are_built_in_and_one_can_be_started_from() {
    let (list, _) = ends(&tantalum(&["run"]), 0);
    assert!(list.contains("\n  first ") && list.contains("\n  linkbench "), "{list}");
    assert!(list.contains("`tantalum run --init FILE`"), "{list}");
    let few = ["run", "first", "--quick", "--row", "ycsb-a/durassd/wal/full", "--json", "-"];
    let (report, _) = ends(&tantalum(&few), 0);
    assert!(report.contains("ycsb-a/durassd/wal/full"), "{report}");
    let own = file("own.toml", "").to_str().unwrap().to_string();
    ends(&tantalum(&["run", "--init", &own]), 2);
    std::fs::remove_file(&own).expect("it was there");
    let (_, said) = ends(&tantalum(&["run", "--init", &own]), 0);
    assert!(said.contains(&format!("run it with: tantalum run {own}")), "{said}");
    ends(&tantalum(&["run", &own, "--quick", "--row", "mine/durassd"]), 0);
    for (arguments, expected) in [
        (&["run", "frist"][..], "did you mean the built-in experiment \"first\"?"),
        (&["run", "experiments/crash.toml"], "`tantalum crash experiments/crash.toml` takes it"),
        (&["crash", &own], &format!("{own}: it is an experiment; `tantalum run {own}` takes it")),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
        let output = command.args(arguments).output().expect("the command starts");
        let (_, err) = ends(&output, 2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    let (said, _) = ends(&tantalum(&["explain", "engine.clients"]), 0);
    assert!(said.contains("default: 128"), "{said}");
}

/// A file of another command is told as what it is, by name or path, also with a mistake in it.
#[test]
fn files_of_other_commands_are_told_with_the_command_that_takes_them() {
    let experiment = file("kind-run.toml", SMALL.replace("records = 100", "recordz = 100"));
    let exploration = "title = 'x'\nsamples = 3\ncutz = 1\n[[row]]\ndesign = 'durassd'\n";
    let exploration = file("kind-crash.toml", exploration);
    let [experiment, exploration] = [&experiment, &exploration].map(|p| p.to_str().unwrap());
    let limits = ["--workload", "x", "--recovery-max", "1s", "--slowdown-max", "5%"];
    let searched = [&["search", "crash"], &limits[..]].concat();
    let cases: [(&[&str], String); 7] = [
        (&["run", "crash"], "crash: it is an exploration; `tantalum crash crash` takes it".into()),
        (&["run", exploration], format!("`tantalum crash {exploration}` takes it")),
        (&["crash", "first"], "first: it is an experiment; `tantalum run first` takes it".into()),
        (&["crash", experiment], format!("`tantalum run {experiment}` takes it")),
        (&searched, "crash: it is an exploration; `tantalum crash crash` takes it".into()),
        (&["search", exploration], format!("`tantalum crash {exploration}` takes it")),
        (&["search", experiment], "unknown key \"recordz\"; did you mean \"records\"?".into()),
    ];
    for (arguments, expected) in cases {
        let (_, err) = ends(&tantalum(arguments), 2);
        assert!(err.contains(&expected) && err.lines().count() == 1, "{arguments:?}: {err}");
    }
}

/// The same wherever a design, an experiment, numbers or a description is read. Once a design was
/// read as an experiment, and an experiment as a description, and an unknown key was named.
#[cfg(feature = "live")]
#[test]
fn files_of_another_kind_are_told_wherever_they_are_read() {
    let of = |name: &str, text: &str| file(name, text).to_str().expect("text").to_string();
    let (design, _) = ends(&tantalum(&["designs", "durassd"]), 0);
    let design = of("kind-design.toml", &design);
    let experiment = of("kind-experiment.toml", SMALL);
    let log = of("kind-log.toml", "devices = [\"a\", \"b\"]\n");
    let cache = of("kind-cache.toml", "flash = \"a\"\nslow = \"b\"\n");
    let numbers = of("kind-numbers.toml", "read_4k_us = 100.0\n");
    let image = path("kind.img");
    let image = image.to_str().expect("text");
    let told = |name: &str, what: &str, takes: &str| {
        format!("error: {name}: it is {what}; `tantalum {takes}` takes it\n")
    };
    let create = format!("drive create disk.img --design {design}");
    let a_design = told(&design, "a design", &create);
    let an_experiment = told(&experiment, "an experiment", &format!("run {experiment}"));
    let a_log = told(&log, "the description of a log", &format!("log inspect {log}"));
    let a_cache = told(&cache, "the description of a cache", &format!("cache inspect {cache}"));
    let fit = format!("fit {numbers} --design tlc-modern");
    let numbers_told = told(&numbers, "a file of numbers", &fit);
    let at = ["--tcp", "0"];
    let cases: [(&[&str], &str); 24] = [
        (&["run", &design], &a_design),
        (&["run", &log], &a_log),
        (&["crash", &design], &a_design),
        (&["search", &design], &a_design),
        (&["energy", "--design", &experiment], &an_experiment),
        (&["energy", "--design", &cache], &a_cache),
        (&["drive", "create", image, "--design", &experiment], &an_experiment),
        (&["drive", "create", image, "--design", &numbers], &numbers_told),
        (&["drive", "serve", "--design", &experiment, at[0], at[1]], &an_experiment),
        (&["drive", "serve", &design, at[0], at[1]], &a_design),
        (&["fit", &experiment, "--design", "slc"], &an_experiment),
        (&["fit", &design, "--design", "slc"], &a_design),
        (&["fit", &numbers, "--design", &experiment], &an_experiment),
        (&["fit", &numbers, "--design", &numbers], &numbers_told),
        (&["log", "inspect", &experiment], &an_experiment),
        (&["log", "inspect", &cache], &a_cache),
        (&["log", "check", &design], &a_design),
        (&["log", "serve", &experiment, at[0], at[1]], &an_experiment),
        (&["log", "mount", &experiment, "m"], &an_experiment),
        (&["cache", "inspect", &experiment], &an_experiment),
        (&["cache", "inspect", &log], &a_log),
        (&["cache", "check", &numbers], &numbers_told),
        (&["cache", "serve", &experiment, at[0], at[1]], &an_experiment),
        (&["cache", "mount", &experiment, "m"], &an_experiment),
    ];
    for (arguments, expected) in cases {
        let (_, err) = ends(&tantalum(arguments), 2);
        assert_eq!(err, expected, "{arguments:?}");
    }
    // A file that may be anything is read as what the command is for.
    let other = of("kind-other.toml", "zzz = 1\n");
    for (noun, key) in [("log", "devices"), ("cache", "flash")] {
        for arguments in [
            &[noun, "serve", &other, at[0], at[1]][..],
            &[noun, "mount", &other, "m"],
            &[noun, "inspect", &other],
        ] {
            let (_, err) = ends(&tantalum(arguments), 2);
            let known = format!("unknown key \"zzz\"; known are: {key}, ");
            assert!(err.contains(&known) && err.lines().count() == 1, "{arguments:?}: {err}");
        }
    }
}

/// Once `log mount` and `cache mount` said how to make a drive.
#[cfg(feature = "live")]
#[test]
fn what_is_not_there_is_made_by_the_commands_of_its_kind() {
    for (noun, name, advice) in [
        ("drive", "nofile", "`tantalum drive create nofile --design durassd` makes one"),
        ("log", "nofile", "`tantalum log create nofile.toml --device PATH` makes it"),
        ("log", "nofile.toml", "`tantalum log create nofile.toml --device PATH` makes it"),
        ("cache", "nofile", "`tantalum cache create nofile.toml --flash PATH --slow PATH` makes"),
        ("cache", "nofile.toml", "`tantalum cache create nofile.toml --flash PATH --slow PATH`"),
    ] {
        let (_, err) = ends(&tantalum(&[noun, "mount", name, "m"]), 2);
        let expected = format!("error: there is no \"{name}\": {advice}");
        assert!(err.starts_with(&expected) && err.lines().count() == 1, "{err}");
    }
    for noun in ["log", "cache"] {
        let (_, err) = ends(&tantalum(&[noun, "serve", "nofile.toml", "--tcp", "0"]), 2);
        assert!(err.contains(&format!("`tantalum {noun} create nofile.toml --")), "{err}");
        // No image is mounted below them.
        let image = file("kind.img", "x");
        let image = image.to_str().expect("text");
        let (_, err) = ends(&tantalum(&[noun, "mount", image, "m"]), 2);
        assert!(err.contains("kind.img\": a description has a name that ends with .toml"), "{err}");
    }
}

/// Results that are too far off what was published end in 1.
#[test]
fn results_are_held_to_published_numbers() {
    let with = |published: &str| {
        let row = SMALL.replace("[\"volatile\", \"durassd\"]", "\"durassd\"");
        let text = format!("{row}{published}\n[published]\nsource = \"a paper\"\n");
        file(&format!("published-{}.toml", published.len()), text)
    };
    let run = |file: &Path, within: &str, code| {
        let file = file.to_str().expect("its name is text");
        ends(&tantalum(&["run", file, "--json", "-", "--published-within", within]), code)
    };
    let (json, _) = run(&with("published = [1000]"), "1e9", 0);
    let report: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let ours = report["rows"][0]["tx_per_s"].as_f64().expect("a number");
    let near = with(&format!("published = [{:.0}]", ours * 1.1));
    let (_, err) = run(&near, "5", 1);
    assert!(err.contains("off from the published numbers by 9.1 % on average"), "{err}");
    run(&near, "10", 0);
    let (_, err) = run(&with(""), "10", 1);
    assert!(err.contains("no row or ratio that ran has a published number"), "{err}");
}

#[test]
fn designs_can_be_listed_shown_and_completed() {
    let (names, _) = ends(&tantalum(&["designs"]), 0);
    assert!(
        names.lines().any(|l| l.starts_with("  durassd ") && l.contains("durable cache")),
        "{names}"
    );
    let (text, _) = ends(&tantalum(&["designs", "durassd"]), 0);
    assert!(text.contains("mode = \"protected\""), "{text}");
    let (script, _) = ends(&tantalum(&["completions", "bash"]), 0);
    assert!(script.contains("tantalum"), "{script}");
    let (version, _) = ends(&tantalum(&["--version"]), 0);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}

/// The printed text of a preset is a design: in an experiment file it gives the same drive, and it
/// has the keys that the preset leaves out.
#[test]
fn a_design_with_every_key_can_be_given_back() {
    let (names, _) = ends(&tantalum(&["designs"]), 0);
    let names = names.lines().filter_map(|line| line.strip_prefix("  "));
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let printed = |more: &[&str]| -> toml::Table {
            let arguments: Vec<_> = ["designs", name].iter().chain(more).copied().collect();
            let (text, _) = ends(&tantalum(&arguments), 0);
            text.parse().expect("valid TOML")
        };
        let (text, all) = (printed(&[]), printed(&["--all"]));
        assert!(keys(&all, "").is_superset(&keys(&text, "")), "{name}");
        let given_back = |own: toml::Table| {
            let scene = Scene {
                design: [("mine".to_string(), own)].into_iter().collect(),
                ..Scene::default()
            };
            Model::of("mine", &scene).expect("it can be built")
        };
        let preset = Model::of(name, &Scene::default()).expect("a preset");
        assert_eq!(given_back(all.clone()), preset, "{name}");
        assert_eq!(given_back(text), preset, "{name}");
    }
    let (all, _) = ends(&tantalum(&["designs", "ssd-a", "--all"]), 0);
    let (text, _) = ends(&tantalum(&["designs", "ssd-a"]), 0);
    for key in ["read_priority", "spread_max", "shear_bytes", "idle_us"] {
        assert!(all.contains(key) && !text.contains(key), "{key} in\n{all}");
    }
    ends(&tantalum(&["designs", "--all"]), 2);
    // The second words are those of before: they still work.
    for words in [["drive", "bench"], ["bench", "drive"]] {
        let (_, disk) = ends(&tantalum(&[&words[..], &["--design", "disk-15k"]].concat()), 2);
        assert!(disk.contains("is a magnetic disk"), "{disk}");
    }
    for words in [["cache", "bench"], ["bench", "cache"]] {
        ends(&tantalum(&[&words[..], &["--page", "nope"]].concat()), 2);
        ends(&tantalum(&[&words[..], &["--help"]].concat()), 0);
    }
}

/// The keys of a table and of its tables, separated by dots.
fn keys(table: &toml::Table, above: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (key, value) in table {
        let key = format!("{above}{key}");
        if let Some(inner) = value.as_table() {
            all.extend(keys(inner, &format!("{key}.")));
        }
        all.insert(key);
    }
    all
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    drop(child.stdout.take());
    let (_, err) = ends(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(err, "");
}

#[test]
fn deviations_of_reports_are_added_up() {
    let report = |name: &str, deviations: &str| {
        let text =
            format!("{{ \"experiment\": \"{name}\", \"rows\": [], \"deviations\": {deviations} }}");
        file(&format!("published-{name}.json"), text).to_str().unwrap().to_string()
    };
    let of = |n: u32, mean: f64, worst: f64| {
        format!("{{ \"numbers\": {n}, \"mean_percent\": {mean}, \"worst_percent\": {worst} }}")
    };
    let both = format!("{{ \"fitted\": {}, \"predicted\": {} }}", of(3, 2.0, 4.0), of(1, 9.0, 9.0));
    let one = format!("{{ \"fitted\": {}, \"predicted\": null }}", of(1, 10.0, 10.0));
    let [a, b, none] = [("disks", both.as_str()), ("drives", &one), ("bare", "null")]
        .map(|(name, deviations)| report(name, deviations));
    let (said, _) = ends(&tantalum(&["published", &a, &b]), 0);
    let cells = |first: &str| {
        let line = said.lines().find(|l| l.starts_with(&format!("|{first}"))).unwrap();
        line.split('|').map(|c| c.trim().to_string()).collect::<Vec<_>>()[2..8].join(",")
    };
    assert_eq!(cells("disks"), "3,2.0 %,4.0 %,1,9.0 %,9.0 %");
    assert_eq!(cells("drives"), "1,10.0 %,10.0 %,,,");
    assert_eq!(cells("all"), "4,4.0 %,10.0 %,1,9.0 %,9.0 %");
    let total = "fitted: 4 numbers, off by 4.0 % on average, 10.0 % at most; predicted: 1 number";
    assert!(said.contains(total), "{said}");
    for (arguments, expected) in [
        (&["published", &a, &none][..], "nothing was published for the experiment of"),
        (&["published", "nowhere.json"], "cannot read the report nowhere.json"),
        (&["published"], "REPORT.json"),
    ] {
        let (_, err) = ends(&tantalum(arguments), 2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn a_run_has_a_page_and_two_runs_compare() {
    let experiment = file("pages.toml", SMALL.replace("\"volatile\", \"durassd\"", "\"volatile\""));
    let experiment = experiment.to_str().unwrap();
    let scratch = |name: &str| path(name).to_str().unwrap().to_string();
    let [a, b, page, again] =
        ["pages-a.json", "pages-b.json", "pages-1.html", "pages-2.html"].map(scratch);
    ends(&tantalum(&["run", experiment, "--json", &a, "--html", &page]), 0);
    ends(&tantalum(&["run", experiment, "--html", &again, "--threads", "1"]), 0);
    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html, std::fs::read_to_string(&again).unwrap());
    assert!(html.contains(&format!("tantalum run {experiment} --seed 1 --cuts 3<")), "{html}");
    assert!(html.contains("✓ its one row is as expected"), "{html}");

    let (same, _) = ends(&tantalum(&["compare", &a, &a, "--all", "--fail-over", "0"]), 0);
    assert!(same.contains("ycsb-a/volatile/wal/full") && same.contains("1.000"), "{same}");
    let (same, _) = ends(&tantalum(&["compare", &a, &a]), 0);
    assert!(same.contains("\n0 of ") && !same.contains("1.000"), "{same}");
    let text = std::fs::read_to_string(&a).unwrap();
    let mut slower: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rate = &mut slower["rows"][0]["tx_per_s"];
    *rate = (rate.as_f64().unwrap() / 2.0).into();
    let slower = slower.to_string();
    std::fs::write(&b, slower).unwrap();
    let (slower, _) = ends(&tantalum(&["compare", &a, &b, "--html", &page]), 0);
    // Of one run it is not known how far chance goes.
    assert!(slower.contains("0.500|?") && slower.contains("\n0 of "), "{slower}");
    assert!(slower.contains("?: 1 difference of more than 1 % cannot be judged"), "{slower}");
    assert!(slower.contains("--set repetitions=5"), "{slower}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("? not judged") && !html.contains("▼ worse"));
    ends(&tantalum(&["compare", &b, &a, "--fail-over", "5"]), 0);
    let (json, _) = ends(&tantalum(&["compare", &a, &b, "--json"]), 0);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rate = &json["rows"][0]["measures"][0];
    assert_eq!((&rate["ratio"], &rate["telling"]), (&0.5.into(), &Value::Null), "{rate}");
    assert_eq!(rate["worse_percent"], 50.0, "{rate}");
    let (_, err) = ends(&tantalum(&["compare", &a, &b, "--fail-over", "5"]), 1);
    assert!(err.contains("ycsb-a/volatile/wal/full: transactions/s from"), "{err}");

    // Repetitions show it.
    ends(&tantalum(&["run", experiment, "--json", &a, "--set", "repetitions=2"]), 0);
    let text = std::fs::read_to_string(&a).unwrap();
    let mut slower: Value = serde_json::from_str(&text).unwrap();
    for row in slower["rows"].as_array_mut().unwrap() {
        row["tx_per_s"] = (row["tx_per_s"].as_f64().unwrap() / 4.0).into();
    }
    std::fs::write(&b, slower.to_string()).unwrap();
    let (slower, _) = ends(&tantalum(&["compare", &a, &b, "--html", &page]), 0);
    assert!(slower.contains("0.250|worse") && slower.contains("\n1 of "), "{slower}");
    assert!(!slower.contains("cannot be judged"), "{slower}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("▼ worse"));

    let cases: [(&[&str], &str); 4] = [
        (&["compare", &a, "nowhere.json"], "cannot read the report nowhere.json"),
        (&["compare", &a, experiment], "`tantalum run EXPERIMENT --json"),
        (&["compare", &a, &b, "--fail-over=-1"], "it must not be negative"),
        (&["compare", &a, &b, "--fail-over", "x"], "expected a percentage"),
    ];
    for (arguments, expected) in cases {
        let (_, err) = ends(&tantalum(arguments), 2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    let (_, err) = ends(&tantalum(&["run", experiment, "--html", "/nowhere/x.html"]), 2);
    assert!(err.contains("cannot write /nowhere/x.html"), "{err}");
}

#[test]
fn a_recorded_run_is_the_run_itself_and_its_log_can_be_read() {
    let experiment = file("recorded.toml", SMALL);
    let log = file("recorded.log", "");
    let (experiment, log) = (experiment.to_str().unwrap(), log.to_str().unwrap());
    let one_row = ["run", experiment, "--row", "durassd", "--json", "-"];
    let plain = ends(&tantalum(&one_row), 0).0;
    let (recorded, said) = ends(&tantalum(&[&one_row[..], &["--log-writes", log]].concat()), 0);
    assert_eq!(plain, recorded);
    let (info, _) = ends(&tantalum(&["trace", "info", log]), 0);
    let count = |what: &str| {
        let line = info.lines().find(|l| l.starts_with(what)).expect("the line is there");
        line.split_whitespace().nth(1).unwrap().trim_end_matches(',').parse::<u64>().unwrap()
    };
    assert!(count("writes") > 100 && count("flushes") > 10, "{info}");
    assert!(count("marks") >= 3, "a mark at each cut: {info}");
    // The file has more than the data of its writes, and both are told.
    let size = std::fs::metadata(log).expect("the log is there").len();
    let size = tantalum_device::bytes_in_words(size);
    let told = format!("{log}: {size} in all: {} writes of ", count("writes"));
    assert!(said.contains(&told), "{told}: {said}");
    // One log of several rows has no meaning.
    let (_, error) = ends(&tantalum(&["run", experiment, "--log-writes", log]), 2);
    assert!(error.contains("--row"), "{error}");
}

/// The same fault ends every command with the same code.
#[cfg(feature = "live")]
#[test]
fn what_is_not_there_is_an_invalid_request_everywhere() {
    let gone = "/nowhere/at-all";
    let toml = "/nowhere/at-all.toml";
    let unix = ["--unix", "/nowhere/socket"];
    let commands: &[&[&str]] = &[
        &["run", gone],
        &["crash", gone],
        &["search", gone, "--workload", "x", "--recovery-max", "1s"],
        &["fit", gone, "--design", "durassd"],
        &["compare", gone, gone],
        &["published", gone],
        &["designs", gone],
        &["energy", "--design", gone],
        &["explain", "nothing.like-it"],
        &["trace", "info", gone],
        &["drive", "create", "/nowhere/at-all/disk.img"],
        &["drive", "inspect", gone],
        &["drive", "check", gone],
        &["drive", "serve", gone, unix[0], unix[1]],
        &["drive", "serve", "--file", gone, unix[0], unix[1]],
        &["drive", "mount", gone, "/nowhere/mounted"],
        &["drive", "cut", gone],
        &["drive", "restore", gone],
        &["drive", "status", gone],
        &["drive", "stats", gone],
        &["drive", "top", gone],
        &["log", "inspect", toml],
        &["log", "check", toml],
        &["log", "recover", toml],
        &["log", "serve", toml, unix[0], unix[1]],
        &["cache", "inspect", toml],
        &["cache", "check", toml],
        &["cache", "scrub", toml],
        &["cache", "detach", toml],
        &["cache", "serve", toml, unix[0], unix[1]],
        &["cache", "sim", gone],
    ];
    for command in commands {
        let (_, err) = ends(&tantalum(command), 2);
        assert!(err.starts_with("error: "), "{command:?}: {err}");
    }
    // Each of these says what makes such a file.
    for (command, advice) in [
        (&["drive", "inspect", gone][..], "`tantalum drive create /nowhere/at-all --design"),
        (&["drive", "check", gone], "`tantalum drive create /nowhere/at-all --design"),
        (&["compare", gone, gone], "`tantalum run EXPERIMENT --json /nowhere/at-all` writes one"),
        (&["published", gone], "`tantalum run EXPERIMENT --json /nowhere/at-all` writes one"),
        (&["fit", gone, "--design", "durassd"], "the script measure-drive of the repository"),
        (&["trace", "info", gone], "`tantalum run EXPERIMENT --row ROW --log-writes FILE`"),
        (&["cache", "sim", gone], "name a recorded trace, or none"),
        (&["log", "inspect", toml], "`tantalum log create /nowhere/at-all.toml --device PATH`"),
        (&["cache", "inspect", toml], "`tantalum cache create /nowhere/at-all.toml --flash"),
        (&["crash", "--for", "250"], "\"250\" has no unit: use ns, us, ms, s, m or h"),
    ] {
        let (_, err) = ends(&tantalum(command), 2);
        assert!(err.contains(advice) && !err.contains("os error"), "{command:?}: {err}");
    }
}
