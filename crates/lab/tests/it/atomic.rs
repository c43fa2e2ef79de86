//! Atomic groups beside other ways to write the same: what was published, and what was promised.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::{Report, Verdict};
use tantalum_lab::run::runner;

/// Runs these rows of an experiment, shortly.
fn quick(text: &str, wanted: impl Fn(&str) -> bool) -> Report {
    let shorter = [
        ("run.warm_up_ms".to_string(), toml::Value::Integer(100)),
        ("run.run_ms".to_string(), toml::Value::Array(vec![toml::Value::Integer(300); 2])),
        ("cuts".to_string(), toml::Value::Integer(1)),
    ];
    let e = Experiment::parse_with("an experiment", text, &shorter).unwrap();
    let rows: Vec<_> = e.rows().unwrap().into_iter().filter(|row| wanted(&row.name)).collect();
    runner::check(&rows).unwrap();
    let watch: runner::Watch = Arc::new(|_| ());
    runner::run(&e, &rows, 2, &watch)
}

#[test]
fn groups_cost_less_than_the_same_writes_apart() {
    let report = quick(include_str!("../../../../experiments/atomic-latency.toml"), |_| true);
    let rate = |name: &str| {
        let row = report.rows.iter().find(|row| row.name.starts_with(name));
        row.unwrap_or_else(|| panic!("no row {name}")).findings.transactions_per_second
    };
    for row in &report.rows {
        assert_eq!(row.verdict, Verdict::AsExpected, "{row:#?}");
        let group = row.name.ends_with("group") || row.name.ends_with("flag");
        assert!(!group || row.findings.commits_lost == 0, "{row:#?}");
        for (measure, off) in row.deviations() {
            let most = if row.name.contains("buffered") { 25.0 } else { 10.0 };
            assert!(off.abs() < most, "{}: {off} % in {measure:?}", row.name);
        }
    }
    // Nine latencies of direct writes, and six of buffered ones.
    assert_eq!(report.nearness().map(|n| n.rows), Some(15));
    for pattern in ["random", "strided", "sequential"] {
        let of = |how| rate(&format!("{pattern}/card/job.{pattern}.batch.how={how}"));
        assert!(of("group") >= of("unordered"), "{pattern}");
        assert!(of("group") >= 4.0 * of("flushed"), "{pattern}");
    }
    for drive in ["durassd", "volatile"] {
        let of = |how| rate(&format!("many/{drive}/job.many.batch.how={how}"));
        assert!(of("group") >= 0.95 * of("unordered"), "{drive}");
    }
    assert!(rate("many/volatile-flag") < rate("many/volatile/job.many.batch.how=group"));
}

#[test]
fn sqlite_gains_from_groups() {
    let drives = ["durassd", "volatile"];
    let journals = ["delete", "wal", "batch-atomic"];
    let name = |drive: &str, journal: &str| format!("ycsb-a/{drive}/{journal}/full");
    let wanted = |row: &str| drives.iter().any(|d| journals.iter().any(|j| name(d, j) == row));
    let report = quick(include_str!("../../../../experiments/atomic-sqlite.toml"), wanted);
    assert_eq!(report.rows.len(), 6);
    for drive in drives {
        let of = |journal: &str| {
            let row = report.rows.iter().find(|row| row.name == name(drive, journal));
            &row.expect("it was asked for").findings
        };
        let [delete, wal, groups] = journals.map(of);
        let rates = [delete, wal, groups].map(|f| f.transactions_per_second);
        assert!(rates[2] >= 2.0 * rates[0] && rates[2] > rates[1], "{drive}: {rates:?}");
        let flash = [delete, groups].map(|f| f.measures["flash_bytes_per_commit"]);
        assert!(flash[1] <= 0.5 * flash[0], "{drive}: {flash:?}");
        assert!(groups.measures["groups_per_commit"] > 0.0);
        assert_eq!((groups.commits_lost, groups.databases_corrupt), (0, 0));
    }
}
