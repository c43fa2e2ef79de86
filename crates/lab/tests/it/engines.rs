//! The experiments with databases as models at the level of pages, small: nothing is lost
//! that must not be, and the effects point the way that was published.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::{Report, Verdict};
use tantalum_lab::run::runner;

/// Runs the rows of an experiment file whose names contain all of `words`. Each is cut.
fn run(text: &str, words: &[&str]) -> Report {
    let report = uncut(text, words);
    // A row that is to lose something is cut until it does.
    report.rows.iter().for_each(|row| assert!(row.findings.cuts >= 3, "{}", row.name));
    report
}

/// The same of an experiment that measures, and need not cut.
fn uncut(text: &str, words: &[&str]) -> Report {
    let experiment = Experiment::parse("x.toml", text).unwrap().quick();
    let mut rows = experiment.rows().unwrap();
    rows.retain(|r| words.iter().all(|w| r.name.contains(w)));
    assert!(!rows.is_empty());
    let progress: runner::Watch = Arc::new(|_| ());
    let report = runner::run(&experiment, &rows, 1, &progress);
    for row in &report.rows {
        assert_eq!(row.verdict, Verdict::AsExpected, "{}: {:?}", row.name, row.error);
        assert!(row.findings.transactions > 0, "{}", row.name);
    }
    report
}

fn rate(report: &Report, words: &[&str]) -> f64 {
    let of = |name: &str| words.iter().all(|w| name.contains(w));
    let row = report.rows.iter().find(|r| of(&r.name)).expect("it ran");
    row.findings.transactions_per_second
}

#[test]
fn barriers_and_double_writes_cost_an_engine_what_was_published() {
    let text = include_str!("../../../../experiments/linkbench.toml");
    let report = run(text, &["innodb-linkbench/durassd", "page_bytes=4096"]);
    assert_eq!(report.rows.len(), 4);
    let [on, off] = ["barriers=true", "barriers=false"];
    let [copies, none] = ["double_write=true", "double_write=false"];
    let rate = |words: &[&str]| rate(&report, words);
    // Published: 6, 2 and 1.25.
    let barriers = rate(&[off, copies]) / rate(&[on, copies]);
    assert!((4.5..7.5).contains(&barriers), "{barriers}");
    let twice = rate(&[on, none]) / rate(&[on, copies]);
    assert!((1.5..2.75).contains(&twice), "{twice}");
    let without = rate(&[off, none]) / rate(&[off, copies]);
    assert!((1.1..1.4).contains(&without), "{without}");
    let bytes = |words: &[&str]| {
        let of = |name: &str| words.iter().all(|w| name.contains(w));
        let row = report.rows.iter().find(|r| of(&r.name)).expect("it ran");
        let f = &row.findings;
        assert!(f.measures["page_reads_per_transaction"] > 0.0);
        f.flash_bytes.expect("a drive with flash") as f64 / f.transactions as f64
    };
    // Published: more than 2.
    let written = bytes(&[on, copies]) / bytes(&[off, none]);
    assert!((2.0..2.5).contains(&written), "{written}");
}

#[test]
fn an_engine_tells_the_latency_of_each_kind_of_operation() {
    let linkbench = include_str!("../../../../experiments/linkbench.toml");
    let tpcc = include_str!("../../../../experiments/tpcc.toml");
    let off = ["/durassd", "page_bytes=4096", "barriers=false"];
    for (text, share, names) in
        [(linkbench, ("get link list", 0.507), 10), (tpcc, ("new order", 0.45), 5)]
    {
        let json = run(text, &off).to_json();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let row = &json["rows"][0];
        let operations = row["operations"].as_array().unwrap();
        assert_eq!(operations.len(), names, "{operations:?}");
        let number = |o: &serde_json::Value, at: usize| o[at].as_f64().unwrap();
        for o in operations {
            let [p50, p99, max, mean, p95] = [3, 4, 5, 6, 7].map(|at| number(o, at));
            assert!(0.0 < p50 && p50 <= p95 && p95 <= p99 && p99 <= max && mean <= max, "{o}");
        }
        let all = row["transactions"].as_f64().unwrap();
        assert_eq!(operations.iter().map(|o| number(o, 1)).sum::<f64>(), all);
        let most = operations.iter().find(|o| o[0] == share.0).unwrap();
        assert!((number(most, 1) / all - share.1).abs() < 0.05, "{most}");
    }
}

#[test]
fn atomic_groups_are_cheaper_than_double_writes() {
    let text = include_str!("../../../../experiments/atomic-innodb.toml");
    // Published for a card: 1.23.
    for (design, gain) in [("card", 1.1..1.36), ("durassd", 1.5..1.9), ("volatile", 2.2..3.4)] {
        let report = run(text, &[&format!("innodb/{design}/")]);
        assert_eq!(report.rows.len(), 3);
        let row = |word: &str| {
            let named = report.rows.iter().find(|r| r.name.contains(word));
            &named.expect("it ran").findings
        };
        let [groups, twice, once] =
            ["atomic", "true", "false"].map(|how| row(&format!("innodb.double_write={how}")));
        let rates = [groups, twice, once].map(|f| f.transactions_per_second);
        assert!(gain.contains(&(rates[0] / rates[1])), "{design}: {rates:?}");
        // And hardly dearer than pages that may tear, or cheaper (0.98 to 1.42 in long runs).
        let alone = rates[0] / rates[2];
        assert!((0.9..1.5).contains(&alone), "{design}: {rates:?}");
        let bytes = [groups, twice]
            .map(|f| f.flash_bytes.expect("a drive with flash") as f64 / f.transactions as f64);
        // Published: down to a half.
        assert!((0.45..0.56).contains(&(bytes[0] / bytes[1])), "{design}: {bytes:?}");
        // No page tears, and none has to be repaired.
        assert!(groups.measures["groups_per_transaction"] > 0.0, "{design}");
        assert!(groups.measures["pages_repaired"] == 0.0 && !groups.lost_anything(), "{design}");
    }
}

#[test]
fn without_barriers_a_volatile_cache_loses_an_engines_commits() {
    let text = include_str!("../../../../experiments/linkbench.toml");
    let report = run(text, &["innodb-linkbench/volatile"]);
    let f = &report.rows[0].findings;
    assert!(f.commits_lost > 0 && f.databases_corrupt > 0 && f.violations == 0, "{f:?}");
}

#[test]
fn a_barrier_behind_each_page_costs_more_than_one_behind_a_batch() {
    let text = include_str!("../../../../experiments/tpcc.toml");
    let report = run(text, &["engine-tpcc/durassd", "page_bytes=4096"]);
    let [on, off] = ["barriers=true", "barriers=false"].map(|w| rate(&report, &[w]));
    // Published: 15 to 23.
    assert!((15.0..23.0).contains(&(off / on)), "{off} {on}");
}

#[test]
fn updates_that_share_an_fsync_share_its_cost() {
    let text = include_str!("../../../../experiments/ycsb.toml");
    let report = run(text, &["append-tree/durassd", "updates=1.0"]);
    let many = |barriers| rate(&report, &[barriers, "fsync_every=100/"]);
    let one = |barriers| rate(&report, &[barriers, "fsync_every=1/"]);
    // Published: more than 20, and 2 to 2.6.
    let on = many("barriers=true") / one("barriers=true");
    assert!((20.0..30.0).contains(&on), "{on}");
    let off = many("barriers=false") / one("barriers=false");
    assert!((2.0..2.7).contains(&off), "{off}");
}

/// Pages on flash of stamps; the log on a disk, on flash that carries real bytes, or on flash that
/// keeps nothing: each drive keeps its own promises, and the log's is what commits depend on.
#[test]
fn the_log_may_be_on_a_drive_of_another_kind() {
    let text = include_str!("../../../../experiments/linkbench.toml");
    let (head, _) = text.split_once("[[row]]").unwrap();
    let row = |design: &str, expect: &str, keys: &str| {
        let params: String = keys
            .lines()
            .map(|key| format!("\"engine.innodb-linkbench.{}\"\n", key.trim()))
            .map(|line| line.replacen(" =", "\" =", 1).replacen("\"\n", "\n", 1))
            .collect();
        let row = "[[row]]\nworkload = \"innodb-linkbench\"";
        format!(
            "{head}\n{row}\ndesign = \"{design}\"\nexpect = \"{expect}\"\n[row.params]\n{params}"
        )
    };
    let run = |design: &str, expect: &str, keys: &str| {
        let report = run(&row(design, expect, keys), &[""]);
        assert_eq!(report.rows.len(), 1);
        report.rows[0].findings.clone()
    };
    let off = "barriers = false\ndouble_write = false";
    let like = |log: &str| format!("log_design = \"{log}\"\n{off}");
    let own = run("durassd", "lossless", off);
    // (A row's seed follows from its name: the same drives, other transactions.)
    let near = |keys: &str| {
        let found = run("durassd", "lossless", keys);
        let ratio = found.transactions_per_second / own.transactions_per_second;
        assert!((0.8..1.25).contains(&ratio), "{keys}: {ratio}");
    };
    near(&like("durassd"));
    near(&format!("{}\nlog_bytes = true", like("durassd")));
    run("durassd", "lossy", &like("volatile"));
    let disk = run("durassd", "lossless", "barriers = true\nlog_design = \"disk-15k\"");
    assert!(disk.transactions_per_second < own.transactions_per_second);
    let text = row("durassd", "lossless", "log_design = \"durasd\"");
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let told = runner::check(&experiment.rows().unwrap()).unwrap_err();
    assert!(told.contains("log_design") && told.contains("\"durassd\""), "{told}");
}

/// A database that is too large for its drives is told once for all rows, with the largest that fits.
#[test]
fn a_database_that_is_too_large_is_told_once() {
    let text = include_str!("../../../../experiments/linkbench.toml");
    let check = |mib: u64| {
        let size = toml::Value::Integer(mib as i64);
        let sets = [("engine.innodb-linkbench.database_mib".to_string(), size)];
        let experiment = Experiment::parse_with("x.toml", text, &sets).unwrap();
        runner::check(&experiment.rows().unwrap())
    };
    let told = check(60_000).unwrap_err();
    assert!(told.contains("engine.innodb-linkbench: database_mib = 60000 is too large"), "{told}");
    assert!(told.contains(" rows, the first of them \""), "{told}");
    let most = told.split(" at most ").nth(1).and_then(|rest| rest.split(' ').next());
    let most: u64 = most.and_then(|number| number.parse().ok()).expect(&told);
    assert_eq!(check(most), Ok(()));
    assert!(check(most + 1).unwrap_err().ends_with(&format!("at most {most} MiB fit")));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let text = include_str!("../../../../experiments/tpcc.toml");
    let once = || run(text, &["engine-tpcc/durassd", "page_bytes=16384", "barriers=false"]);
    assert_eq!(once().to_json(), once().to_json());
}

/// TPC-C with its log on a flash log: nothing is lost, whatever the devices hold back, the log is
/// several times as quick as the disk, and the same seed gives the same run.
#[test]
fn the_log_may_be_a_flash_log() {
    let text = include_str!("../../../../experiments/flash-log.toml");
    let disk = rate(&run(text, &["clients=32", "disk-10k"]), &[""]);
    let once = || run(text, &["orders.log=a"]);
    let report = once();
    assert_eq!(report.to_json(), once().to_json());
    let flash = rate(&report, &["log=a"]);
    assert!(flash > disk * 4.0, "{flash} {disk}");

    let (head, _) = text.split_once("[[row]]").unwrap();
    let held = "[log.held]\ndevices = [\"small\", \"small\"]\ncopies = 2\nblock_bytes = 4096\n\
                [design.small]\nbase = \"volatile\"\ngeometry = { blocks = 16 }\n\
                space = { over_provisioning = 40.0 }\n";
    let row = "[[row]]\nworkload = \"orders\"\ndesign = \"durassd\"\nexpect = \"lossless\"\n\
               [row.params]\n\"engine.orders.barriers\" = false\n\"engine.orders.log\" = ";
    run(&format!("{head}\n{held}\n{row}\"held\""), &[""]);

    let told = |log: &str, more: &str| {
        let text = format!("{head}\n{held}\n{row}\"{log}\"\n{more}");
        Experiment::parse("x.toml", &text).unwrap_err().to_string()
    };
    let unknown = told("hold", "");
    assert!(unknown.contains("[log.NAME]") && unknown.contains("\"held\""), "{unknown}");
    let both = told("held", "\"engine.orders.log_design\" = \"disk-10k\"");
    assert!(both.contains("must be left out"), "{both}");
}

/// Flash cache and rivals, of which the same seed gives the same report.
#[test]
fn an_engine_over_a_flash_cache_runs_the_same_again() {
    let text = include_str!("../../../../experiments/flash-cache.toml");
    for words in [["policy=gsc", "flash.size_mib=409"], ["policy=lc", "flash.size_mib=409"]] {
        let report = uncut(text, &words);
        assert!(report.rows.iter().all(|row| !row.findings.lost_anything()));
        assert_eq!(uncut(text, &words).to_json(), report.to_json());
    }
}
