//! Experiments on a drive that promises more than it can keep: who is refused goes on, or ends
//! with all that was acknowledged.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::Verdict;
use tantalum_lab::run::runner;
use tantalum_lab_page as page;

#[test]
fn what_is_refused_ends_no_job_and_costs_no_database_a_commit() {
    let text = include_str!("../../../../experiments/thin.toml");
    let experiment = Experiment::parse("experiments/thin.toml", text).unwrap();
    let rows = experiment.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: runner::Watch = Arc::new(|_| ());
    let report = runner::run(&experiment, &rows, 2, &watch);
    let (databases, jobs): (Vec<_>, Vec<_>) = report.rows.iter().partition(|r| r.has_journal());
    assert_eq!((databases.len(), jobs.len()), (2, 4));
    for row in jobs {
        let f = &row.findings;
        assert_eq!(row.verdict, Verdict::AsExpected, "{row:#?}");
        assert_eq!((f.cuts, f.violations), (experiment.cuts, 0), "{row:#?}");
        assert!(f.refused > 100 && f.blocks_compared > 1000, "{row:#?}");
        let done = |name: &str| f.operations.get(name).map_or(0, |times| times.count);
        assert!(done("write") > 100, "{row:#?}");
        let mixed = row.name.starts_with("mixed");
        assert!(!mixed || (done("read") > 100 && done("discard") > 100), "{row:#?}");
    }
    for row in databases {
        // It grows until there is no room; what it had committed by then is there.
        let f = &row.findings;
        assert_eq!(row.verdict, Verdict::AsExpected, "{row:#?}");
        assert!(f.full && row.error.is_none() && f.refused > 0, "{row:#?}");
        assert!((1..=experiment.cuts).contains(&f.cuts), "{row:#?}");
        assert_eq!((f.commits_lost, f.databases_corrupt, f.violations), (0, 0, 0), "{row:#?}");
        assert!(f.commits_acknowledged > 100 && f.blocks_compared > 1000, "{row:#?}");
        assert_eq!(f.recovery.count, u64::from(f.cuts), "it was opened: {row:#?}");
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    for row in json["rows"].as_array().unwrap() {
        assert!(row["refused"].as_u64() > Some(0), "{row}");
        let database = row["workload"] == "linkbench";
        assert_eq!(row.get("full"), database.then_some(&true.into()), "{row}");
    }
    let command = page::Command { base: "tantalum run thin.toml".into(), rows: String::new() };
    let page = page::experiment(&report, &command);
    let note = "linkbench/durassd/wal/full: ";
    assert!(page.contains(&format!("<li>{note}full after")), "the page says where a row ended");
}
