//! Experiments on a drive that promises more than it can keep: who is refused goes on.

use std::sync::Arc;
use tantalum_lab::experiment::Experiment;
use tantalum_lab::report::Verdict;
use tantalum_lab::runner;

#[test]
fn what_is_refused_ends_no_job() {
    let text = include_str!("../../../experiments/thin.toml");
    let experiment = Experiment::parse("experiments/thin.toml", text).unwrap();
    let rows = experiment.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: runner::Watch = Arc::new(|_| ());
    let report = runner::run(&experiment, &rows, 2, &watch);
    assert_eq!(report.rows.len(), 4);
    for row in &report.rows {
        let f = &row.findings;
        assert_eq!(row.verdict, Verdict::AsExpected, "{row:#?}");
        assert_eq!((f.cuts, f.violations), (experiment.cuts, 0), "{row:#?}");
        assert!(f.refused > 100 && f.blocks_compared > 1000, "{row:#?}");
        let done = |name: &str| f.operations.get(name).map_or(0, |times| times.count);
        assert!(done("write") > 100, "{row:#?}");
        let mixed = row.name.starts_with("mixed");
        assert!(!mixed || (done("read") > 100 && done("discard") > 100), "{row:#?}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    for row in json["rows"].as_array().unwrap() {
        assert!(row["refused"].as_u64() > Some(0), "{row}");
    }
}
