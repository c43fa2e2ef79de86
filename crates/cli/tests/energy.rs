//! `tantalum energy` as a user meets it.

#![allow(clippy::disallowed_methods, reason = "tests start the command")]

use serde_json::Value;
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
        text.contains("full count, J") && text.contains("collection metadata is in the latter")
    );
}

#[test]
fn what_can_not_be_is_refused() {
    for (arguments, says) in [
        (["--design", "durasd"], "did you mean \"durassd\"?"),
        (["--design", "disk-15k"], "is a magnetic disk"),
        (["--volts", "2"], "2.7 V"),
        (["--volts", "-3"], "can not be charged to -3 V"),
        (["--least-volts", "0"], "above 0"),
        (["--years", "900"], "900"),
    ] {
        let output = energy(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(says), "{message}");
    }
}
