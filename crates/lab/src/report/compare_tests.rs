use super::*;
use serde_json::json;

fn row(name: &str, rate: f64, lost: u64) -> Value {
    json!({
        "name": name, "verdict": "as-expected", "tx_per_s": rate, "load_s": 1.0,
        "transactions": 10, "latency_us": {"p50": 100.0, "p99": 1000.0}, "cuts": 5,
        "lost": lost, "corrupt": 0, "flash_bytes_per_user_byte": null,
        "recovery_us": {"p50": 5000.0},
    })
}

fn report(rows: &[Value]) -> Document {
    let text = json!({"experiment": "x", "seed": 1, "cuts": 5, "rows": rows}).to_string();
    read("x.json", &text).unwrap()
}

fn both(a: &[Value], b: &[Value]) -> Comparison {
    compare(["a", "b"], &[report(a), report(b)]).unwrap()
}

/// A measure of a row, by its name.
fn pair(c: &Comparison, row: usize, measure: &str) -> Pair {
    c.rows[row].pairs[c.measures.iter().position(|m| m.name == measure).unwrap()]
}

#[test]
fn rows_are_matched_by_name_whatever_their_order() {
    let a = [row("one", 100.0, 0), row("two", 200.0, 3), row("gone", 1.0, 0)];
    let b = [row("new", 1.0, 0), row("two", 100.0, 6), row("one", 150.0, 0)];
    let c = both(&a, &b);
    let names: Vec<_> = c.rows.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(
        (c.a.alone.as_slice(), c.b.alone.as_slice()),
        (&["gone".into()][..], &["new".into()][..])
    );
    assert_eq!(c.rows[0].pairs[0].ratio(), Some(1.5));
    assert_eq!(c.rows[1].pairs[0].ratio(), Some(0.5));
    assert_eq!(pair(&c, 1, "commits lost"), Pair { a: Some(3.0), b: Some(6.0) });
    // Nothing lost on both sides is no ratio, and no flash is no number.
    assert_eq!(pair(&c, 0, "commits lost").ratio(), None);
    assert_eq!(pair(&c, 0, "flash bytes per user byte"), Pair { a: None, b: None });
    assert_eq!(c.rows[1].results, Some(["loses".into(), "loses".into()]));
}

/// Noise between repetitions is no difference, however large; what is beyond it is one.
#[test]
fn repetitions_are_one_row_and_what_is_within_their_spread_tells_nothing() {
    let three = |rates: [f64; 3], lost: u64| {
        let of = |(i, rate): (usize, f64)| row(&format!("one/repetition={}", i + 1), rate, lost);
        rates.into_iter().enumerate().map(of).collect::<Vec<_>>()
    };
    let c = both(&three([100.0, 120.0, 140.0], 1), &three([90.0, 100.0, 110.0], 1));
    assert_eq!(c.rows.len(), 1);
    assert_eq!((c.rows[0].name.as_str(), c.rows[0].pairs[0].ratio()), ("one", Some(100.0 / 120.0)));
    assert_eq!(pair(&c, 0, "commits lost"), Pair { a: Some(3.0), b: Some(3.0) });
    assert_eq!((c.rows[0].difference(0), c.worse_by(5.0)), (Difference::Chance, Vec::new()));
    let c = both(&three([100.0, 120.0, 140.0], 1), &three([90.0, 95.0, 99.0], 1));
    assert_eq!((c.rows[0].difference(0), c.worse_by(5.0).len()), (Difference::Real, 1));
    // Without repetitions, also of one side alone, a hundredth is nothing, and what is more cannot be
    // judged. The gate holds it to its bound.
    let single = |rate| both(&[row("one", 100.0, 0)], &[row("one", rate, 0)]);
    assert_eq!(single(100.5).rows[0].difference(0), Difference::Chance);
    assert_eq!(single(102.0).rows[0].difference(0), Difference::Unknown);
    assert_eq!(single(50.0).worse_by(5.0).len(), 1);
    let c = both(&three([100.0, 120.0, 140.0], 1), &[row("one", 10.0, 1)]);
    assert_eq!(c.rows[0].difference(0), Difference::Unknown);
}

#[test]
fn what_was_not_measured_is_missing() {
    let nothing = json!({
        "name": "one", "verdict": "failed", "tx_per_s": 0.0, "load_s": 0.0, "transactions": 0,
        "latency_us": {"p50": 0.0, "p99": 0.0}, "cuts": 0, "lost": 0, "corrupt": 0,
        "recovery_us": {"p50": 0.0},
    });
    let c = both(&[nothing], &[row("one", 1.0, 0)]);
    assert!(c.rows[0].pairs.iter().all(|p| p.a.is_none() && p.ratio().is_none()), "{c:?}");
}

#[test]
fn block_jobs_have_requests_and_blocks_and_no_databases() {
    let mut job = row("one", 1.0, 3);
    let fields = job.as_object_mut().unwrap();
    fields.remove("tx_per_s");
    fields.insert("iops".into(), 5.0.into());
    let mut slower = job.clone();
    slower["iops"] = 4.0.into();
    slower["lost"] = 6.into();
    let c = both(&[job], &[slower]);
    assert_eq!(pair(&c, 0, "requests/s").ratio(), Some(0.8));
    assert_eq!(pair(&c, 0, "blocks lost").ratio(), Some(2.0));
    for other in ["transactions/s", "commits lost", "databases corrupt"] {
        assert_eq!(pair(&c, 0, other), Pair { a: None, b: None }, "{other}");
    }
    let words = c.worse_by(10.0).join("; ");
    assert!(words.contains("one: requests/s from 5.0 to 4.0"), "{words}");
    assert!(words.contains("one: blocks lost from 3 to 6"), "{words}");
    // A database does not have the measures of a job.
    let c = both(&[row("one", 1.0, 3)], &[row("one", 2.0, 3)]);
    for other in ["requests/s", "blocks lost"] {
        assert_eq!(pair(&c, 0, other), Pair { a: None, b: None }, "{other}");
    }
    assert_eq!(pair(&c, 0, "databases corrupt"), Pair { a: Some(0.0), b: Some(0.0) });
}

#[test]
fn worse_has_a_direction() {
    let more = |a, b| Pair { a: Some(a), b: Some(b) }.worse_percent(Better::More);
    let less = |a, b| Pair { a: Some(a), b: Some(b) }.worse_percent(Better::Less);
    assert_eq!((more(100.0, 80.0), more(80.0, 100.0), more(0.0, 0.0)), (20.0, 0.0, 0.0));
    assert_eq!((less(100.0, 80.0), less(80.0, 100.0), less(0.0, 0.0)), (0.0, 25.0, 0.0));
    assert_eq!(less(0.0, 1.0), f64::INFINITY);
    assert_eq!(Pair { a: None, b: Some(1.0) }.worse_percent(Better::Less), 0.0);
}

#[test]
fn the_gate_names_what_is_worse() {
    let c = both(&[row("one", 100.0, 0)], &[row("one", 90.0, 0)]);
    assert!(c.worse_by(11.0).is_empty());
    let words = c.worse_by(9.0);
    assert_eq!(words, ["one: transactions/s from 100 to 90.0, worse by 10.0 %"]);
    // One lost where none was, and a row that fails, are beyond any percentage.
    let lost = both(&[row("one", 100.0, 0)], &[row("one", 100.0, 1)]).worse_by(1e9);
    assert_eq!(lost, ["one: commits lost from 0 to 1"]);
    let mut failed = row("one", 100.0, 0);
    failed["verdict"] = "failed".into();
    let failed = both(&[row("one", 100.0, 0)], &[failed]).worse_by(1e9);
    assert_eq!(failed, ["one: the result was \"kept\", and is \"failed\""]);
}

#[test]
fn reports_of_other_cuts_and_seeds_say_so_and_are_not_compared_in_counts() {
    let other = |seed: u64, cuts: u64| {
        let rows = [row("one", 100.0, cuts)];
        let text = json!({"experiment": "x", "seed": seed, "cuts": cuts, "rows": rows});
        read("y.json", &text.to_string()).unwrap()
    };
    let same = compare(["a", "b"], &[other(1, 5), other(1, 5)]).unwrap();
    assert!(same.differ.is_empty() && same.equal_cuts);
    let seeds = compare(["a", "b"], &[other(1, 5), other(2, 5)]).unwrap();
    assert_eq!(
        (seeds.differ.join("; ").as_str(), seeds.equal_cuts),
        ("the seeds differ, 1 and 2", true)
    );
    let cuts = compare(["a", "b"], &[other(1, 5), other(1, 50)]).unwrap();
    assert!(cuts.differ[0].contains("5 and 50") && !cuts.equal_cuts, "{:?}", cuts.differ);
    // Ten times the losses of ten times the cuts; the rate still counts.
    assert!(cuts.worse_by(0.0).is_empty(), "{:?}", cuts.worse_by(0.0));
}

#[test]
fn reports_of_the_benchmark_compare_too() {
    let bench = |rate: f64| {
        let run = json!({"name": "w", "requests_per_cpu_second": rate, "peak_rss_mib": null});
        read("x", &json!({"runs": [run], "timer_events_per_second": 5.0}).to_string()).unwrap()
    };
    let c = compare(["a", "b"], &[bench(1e6), bench(2e6)]).unwrap();
    assert_eq!(c.rows[0].pairs[0].ratio(), Some(2.0));
    assert_eq!(c.rows[0].pairs[2], Pair { a: None, b: None });
    assert_eq!((c.rows[1].name.as_str(), c.rows[1].pairs[3].ratio()), ("bare runtime", Some(1.0)));
}

#[test]
fn other_files_are_refused_with_their_names() {
    let cases = [
        ("", "\"f.json\" is not JSON"),
        ("{\"rows\": [", "\"f.json\" is not JSON"),
        ("[]", "\"f.json\" is neither"),
        ("{\"rows\": []}", "\"f.json\" is neither"),
        ("{\"experiment\": \"x\", \"rows\": 7}", "\"rows\" is not a list"),
        ("{\"experiment\": \"x\", \"rows\": [{}]}", "\"rows\" is not a list of things with names"),
        ("{\"runs\": [{\"nam\": 1}]}", "\"runs\" is not a list"),
    ];
    for (text, expected) in cases {
        let error = read("f.json", text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let bench = read("b", "{\"runs\": []}").unwrap();
    let kinds = compare(["a", "b"], &[report(&[row("one", 1.0, 0)]), bench]).unwrap_err();
    assert!(matches!(kinds, CompareError::Kinds { .. }));
    let apart = [report(&[row("one", 1.0, 0)]), report(&[row("two", 1.0, 0)])];
    let nothing = compare(["a", "b"], &apart).unwrap_err();
    let nothing = nothing.to_string();
    assert!(nothing.contains("\"a\" and \"b\" have no row of the same name: compare"), "{nothing}");
}
