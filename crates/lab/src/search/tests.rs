//! A search on a tiny drive, held to what trying everything gives.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const TINY: &str = include_str!("tiny.toml");

/// Workloads that cannot be searched with.
const OTHERS: &str = "[job.reads]\nreads = 1.0\ncommands = 1000\n[trace.t]\nfile = \"x\"\n";

struct Nobody;

impl Watch for Nobody {
    fn done(&self, _: usize) {}

    fn is_over(&self) -> bool {
        false
    }
}

fn limits(recovery_ms: u64, slowdown: f64) -> Limits {
    Limits { recovery: Nanos::from_millis(recovery_ms), slowdown }
}

fn search(limits: Limits, all: bool) -> (Experiment, Search) {
    let e = Experiment::parse("tiny.toml", TINY).unwrap();
    let effort = Effort { cuts: 1, measured: Nanos::from_millis(40), all };
    let search = Search::new(&e, "random", "base", limits, effort).unwrap();
    (e, search)
}

fn run(limits: Limits, all: bool, threads: usize) -> Findings {
    let (e, search) = search(limits, all);
    search.run(&e, threads, &Nobody).unwrap()
}

/// Whatever the limits, a search finds what trying everything finds.
#[test]
fn the_winner_is_the_least_of_all() {
    let all = run(limits(1, 0.0), true, 2);
    assert_eq!((all.tried.len() + all.failed.len(), all.left_out), (all.candidates, 0));
    assert!(all.failed.is_empty(), "{:?}", all.failed);
    // Limits at quarters of what there is.
    let mut slowdowns: Vec<f64> = all.tried.iter().map(|t| t.slowdown).collect();
    let mut recoveries: Vec<Nanos> = all.tried.iter().map(|t| t.recovery).collect();
    slowdowns.sort_by(f64::total_cmp);
    recoveries.sort();
    let of = |share: usize, n: usize| (n - 1) * share / 4;
    for (slow, late) in [(1, 3), (2, 2), (3, 1)] {
        let limits = Limits {
            slowdown: slowdowns[of(slow, slowdowns.len())].max(0.0),
            recovery: recoveries[of(late, recoveries.len())],
        };
        let best = all.tried.iter().filter(|t| t.meets(&limits)).map(|t| t.candidate.level()).min();
        let found = run(limits, false, 2);
        let winner = found.winner.map(|i| &found.tried[i]);
        assert_eq!(winner.map(|t| t.candidate.level()), best, "{limits:?}");
        assert!(winner.is_none_or(|t| t.meets(&limits)));
        assert!(found.tried.len() < all.tried.len() || winner.is_none());
        let told = found.toml.expect("a winner, or the nearest");
        let (_, search) = search(limits, false);
        let place = found.winner.or(found.nearest).unwrap();
        assert!(is_exact(&told, &found.tried[place].candidate.design, &search.scene), "{told}");
        assert_eq!(found.conflicts, [""; 0]);
    }
}

/// Whether an experiment file with this table has this design.
fn is_exact(text: &str, design: &Design, scene: &Scene) -> bool {
    let mut scene = scene.clone();
    let file: toml::Table = text.parse().expect("valid TOML");
    let own = file["design"]["found"].as_table().expect("a table").clone();
    scene.design.insert("found".into(), own);
    let Ok(Model::Ssd(found)) = Model::of("found", &scene) else { return false };
    *found == Design { name: "found".into(), ..design.clone() }
}

#[test]
fn a_seed_makes_a_search_with_any_number_of_threads() {
    let volts = tantalum_drive::Voltages::new(5.0, 2.7).unwrap();
    let json = |threads| run(limits(10_000, 0.2), false, threads).to_json(volts);
    let one = json(1);
    assert_eq!(one, json(3));
    let told: serde_json::Value = serde_json::from_str(&one).unwrap();
    let winner = &told["winner"];
    assert!(winner["meets"] == true && winner["energy_j"].as_f64() > Some(0.0), "{winner}");
    assert!(winner["energy_j"].as_f64() < told["full_protection"]["energy_j"].as_f64());
    // The limits can be kept by the winner alone of all that need as little.
    for t in told["tried"].as_array().unwrap() {
        let less = t["energy_j"].as_f64() < winner["energy_j"].as_f64().map(|j| j * 0.999);
        assert!(!less || t["meets"] == false, "{t}");
    }
}

#[test]
fn where_nothing_meets_the_limits_the_nearest_is_told() {
    let found = run(limits(0, 0.5), false, 2);
    assert_eq!(found.winner, None);
    let nearest = &found.tried[found.nearest.expect("some were tried")];
    assert!(found.tried.iter().all(|t| t.recovery >= nearest.recovery));
    assert!(found.toml.is_some());
}

/// Ends after so many candidates.
struct Impatient(AtomicUsize);

impl Watch for Impatient {
    fn done(&self, _: usize) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 3
    }
}

#[test]
fn what_is_known_when_it_is_interrupted_is_kept() {
    let (e, search) = search(limits(0, 0.0), true);
    let found = search.run(&e, 1, &Impatient(AtomicUsize::new(0))).unwrap();
    assert!(found.interrupted);
    assert_eq!(found.tried.len(), 3);
    assert!(!found.pareto.is_empty());
}

#[test]
fn what_can_not_be_searched_is_refused() {
    let e = Experiment::parse("tiny.toml", &format!("{TINY}{OTHERS}")).unwrap();
    let effort = Effort { cuts: 1, measured: Nanos::from_millis(10), all: false };
    let told = |workload: &str, base: &str| {
        let search = Search::new(&e, workload, base, limits(1, 0.0), effort);
        search.and_then(|s| s.run(&e, 1, &Nobody)).expect_err("refused")
    };
    assert_eq!(told("randm", "base"), "unknown workload \"randm\"; did you mean \"random\"?");
    assert!(told("t", "base").contains("is no [job]"));
    assert!(told("random", "bas").contains("did you mean \"base\"?"));
    assert!(told("random", "volatile").contains("has no capacitors"));
    assert!(told("random", "disk-15k").contains("only a single SSD"));
    assert!(told("reads", "base").contains("the job does not write"));
    let search = Search::new(&e, "random", "base", limits(1, 0.0), effort).unwrap();
    assert_eq!(search.check_memory(&e, 2), Ok(()));
}
