//! `tantalum energy` as a user meets it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Output};

fn energy(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.arg("energy").args(arguments).output().expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = energy(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn the_published_drive_needs_what_was_published() {
    let report = json(&[]);
    let drives = report["drives"].as_array().unwrap();
    let terms = |i: usize| {
        let paper = &drives[i]["paper"];
        let [d, c] = ["durability_j", "consistency_j"].map(|t| paper[t].as_f64().unwrap());
        (format!("{d:.4}"), format!("{c:.4}"))
    };
    assert_eq!(terms(0), ("3.5761".into(), "0.0201".into()));
    assert_eq!(terms(1), ("0.0618".into(), "0.0201".into()));
    assert_eq!(terms(2), ("0.0618".into(), "0.0069".into()));
    assert!(drives.iter().all(|d| d["capacitors"].as_array().unwrap().len() == 3));
    // The fields of full protection are also at the top level.
    for (key, value) in drives[0].as_object().unwrap() {
        assert_eq!(&report[key], value, "{key}");
    }
}

#[test]
fn what_is_saved_is_told_by_each_count() {
    let report = json(&[]);
    let savings = report["savings"].as_array().unwrap();
    let told = |drive: &str, count: &str| {
        let mut of = savings.iter().filter(|s| s["drive"] == drive && s["count"] == count);
        format!("{:.2}", of.next().expect("it is told")["percent"].as_f64().unwrap())
    };
    let text = String::from_utf8(energy(&[]).stdout).unwrap();
    for (drive, count, percent, words) in [
        ("journaling", "memory", "97.87", "protected memory"),
        ("journaling", "paper", "97.72", "energy, paper's count"),
        ("journaling", "full", "97.33", "energy, full count"),
        ("journaling, erase abort", "paper", "98.09", "energy, paper's count"),
        ("journaling, erase abort", "full", "97.69", "energy, full count"),
    ] {
        assert_eq!(told(drive, count), percent, "{drive}, {count}");
        let mut lines = text.lines();
        let line = lines.find(|l| l.starts_with(&format!("| {drive}: {words}")));
        assert!(line.is_some_and(|l| l.ends_with(&format!("{percent} |"))), "{text}");
    }
    assert!(json(&["--design", "spartan-es"]).get("savings").is_none());
}

/// Names of the fields of a value, `[]` for each member of a list.
fn fields(value: &Value, name: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => {
            let dot = if name.is_empty() { "" } else { "." };
            all.iter().for_each(|(k, v)| fields(v, &format!("{name}{dot}{k}"), found));
        }
        Value::Array(all) => all.iter().for_each(|v| fields(v, &format!("{name}[]"), found)),
        _ => _ = found.insert(name.to_string()),
    }
}

#[test]
fn every_field_is_documented() {
    let text = include_str!("../../../../docs/json.md");
    let (_, text) = text.split_once("## `tantalum energy --json`").unwrap();
    let (text, _) = text.split_once("\n## ").unwrap();
    let documented = text.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<String> = documented.map(String::from).collect();
    let mut found = BTreeSet::new();
    fields(&json(&[]), "", &mut found);
    fields(&json(&["--design", "spartan-es"]), "", &mut found);
    found.retain(|name| !name.starts_with("drives[]."));
    assert_eq!(found, documented);
}

#[test]
fn a_preset_has_a_budget_of_its_own_and_higher_volts_need_fewer_farads() {
    let farads = |arguments: &[&str]| {
        let report = json(&[&["--design", "durassd"], arguments].concat());
        assert_eq!(report["name"], "durassd");
        report["farads"].as_f64().unwrap()
    };
    assert!(farads(&["--volts", "10"]) < farads(&[]));
    assert_eq!(json(&["--design", "volatile"])["farads"], 0.0);
}

#[test]
fn components_add_up_to_both_counts() {
    let published = json(&[]);
    let presets = ["durassd", "full-protection", "slc"].map(|p| json(&["--design", p]));
    for drive in published["drives"].as_array().unwrap().iter().chain(&presets) {
        for (key, budget) in [("energy_j", "full"), ("paper_j", "paper")] {
            let parts = drive["components"].as_array().unwrap();
            let sum: f64 = parts.iter().map(|c| c[key].as_f64().unwrap()).sum();
            let whole = drive[budget]["durability_j"].as_f64().unwrap();
            assert!((sum - whole).abs() < 1e-9, "{key} {sum} {whole}: {drive}");
        }
    }
    let text = String::from_utf8(energy(&["--design", "durassd"]).stdout).unwrap();
    assert!(
        text.contains("full count, J") && text.contains("includes collection metadata: this drive")
    );
}

#[test]
fn invalid_arguments_are_refused() {
    for (arguments, says) in [
        (["--design", "durasd"], "did you mean \"durassd\"?"),
        (["--design", "disk-15k"], "is a magnetic disk"),
        (["--volts", "2"], "2.7 V"),
        (["--volts", "-3"], "a number of at least 0"),
        (["--least-volts", "0"], "above 0"),
        (["--years", "900"], "900"),
    ] {
        let output = energy(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(says), "{message}");
    }
}
