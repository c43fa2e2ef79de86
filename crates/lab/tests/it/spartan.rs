//! The experiment on power loss under a capacitor budget, small.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::Verdict;
use tantalum_lab::run::runner;

/// The designs of the file on a smaller array, under random writes for a second: what was
/// published as better is better, and nobody draws more than is in the capacitors.
#[test]
fn little_energy_costs_little_if_units_are_journalled() {
    let text = include_str!("../../../../experiments/spartan.toml");
    let value = |text: &str| format!("x = {text}").parse::<toml::Table>().unwrap()["x"].clone();
    let sets = [
        ("drive.geometry.blocks", "80"),
        ("drive.space", "{ over_provisioning = 40.0 }"),
        ("precondition.fill", "0.6"),
        ("run.warm_up_ms", "300"),
        ("run.run_ms", "[700, 700]"),
        ("cuts", "1"),
    ];
    let sets: Vec<_> = sets.iter().map(|(k, v)| (k.to_string(), value(v))).collect();
    let e = Experiment::parse_with("experiments/spartan.toml", text, &sets).unwrap();
    let mut rows = e.rows().unwrap();
    assert_eq!(rows.len(), 5 * 7);
    runner::check(&rows).unwrap();
    rows.retain(|r| r.name.starts_with("random/"));
    let watch: runner::Watch = Arc::new(|_: runner::Progress<'_>| {});
    let report = runner::run(&e, &rows, 2, &watch);
    for row in &report.rows {
        assert_eq!(row.verdict, Verdict::AsExpected, "{}: {:?}", row.name, row.findings.problems);
        // Without capacitors there is no energy to be counted.
        let power = row.findings.drives.as_ref().unwrap().power;
        assert_eq!(power.is_some(), row.design != "no-capacitors", "{}", row.name);
        if let Some(p) = power {
            let kept = p.losses == 1 && p.incomplete == 0 && p.most_missing_j == 0.0;
            assert!(kept, "{}: {p:?}", row.name);
        }
    }
    let rate = |design: &str| {
        let row = report.rows.iter().find(|r| r.design == design).expect("it ran");
        row.findings.transactions_per_second
    };
    assert!(rate("spartan-e") > 0.89 * rate("full-protection"));
    assert!(rate("spartan-es") > 0.95 * rate("spartan-e"));
    assert!(rate("spartan-e") > 2.0 * rate("durassd-bounded"));
    assert!(rate("spartan-e") > 1.1 * rate("spartan-b"));
}
