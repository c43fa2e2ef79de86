//! Long runs with random cuts, some of them while the volume starts, held to its promises.

use super::rig::{Boxes, Shape};
use std::rc::Rc;
use tantalum_device::PowerCycle;
use tantalum_oracle::harness::{CrashPlan, CrashReport, CutAt, torture};
use tantalum_rt::{Nanos, Runtime};

fn plan() -> CrashPlan {
    CrashPlan {
        rounds: 12,
        depth: 6,
        commands: 400,
        range: 48,
        think: Nanos::from_micros(200),
        cut: CutAt::Within(Nanos::from_millis(30)),
        restart_within: Nanos::from_millis(12),
        ..CrashPlan::default()
    }
}

/// The report, and the bytes written to the log and to the backing.
pub fn run(shape: &Shape, seed: u64, plan: &CrashPlan) -> (CrashReport, u64, u64) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let boxes = Boxes::new(&rt, shape);
    let (volume, create, plan) = (boxes.volume(&rt, shape), shape.create(), *plan);
    let report = runtime.block_on(async move {
        volume.format(&create).await.unwrap();
        let report = torture(rt, Rc::new(volume.clone()), plan).await;
        if let (Some(_), Some(why)) = (&report.start_error, volume.start_failure()) {
            panic!("{why}");
        }
        volume.cut();
        report
    });
    (report.unwrap(), boxes.log_written(), boxes.backing.bytes_written())
}

fn hold(shape: &Shape, seed: u64) -> (u64, u64) {
    let (report, log, backing) = run(shape, seed, &plan());
    assert!(report.is_clean(), "{report}\n{shape:?}");
    assert!(report.cuts >= 12 && report.succeeded > 200, "{report}\n{shape:?}");
    assert!(backing > 20_000, "{backing} bytes destaged only: {shape:?}");
    (log, backing)
}

#[test]
fn random_cuts_over_one_to_three_devices() {
    for array in 1..=3 {
        hold(&Shape::volatile(array), 40 + array as u64);
    }
}

#[test]
fn random_cuts_while_memory_is_short() {
    for array in 1..=3 {
        hold(&Shape::tight(array), 50 + array as u64);
    }
}

#[test]
fn random_cuts_with_an_archive_or_copies() {
    hold(&Shape { archive: true, ..Shape::volatile(2) }, 60);
    hold(&Shape { archive: true, ..Shape::tight(1) }, 61);
    hold(&Shape { copies: 2, ..Shape::volatile(2) }, 62);
    hold(&Shape { copies: 2, archive: true, ..Shape::tight(3) }, 63);
}

#[test]
fn random_cuts_while_a_small_log_goes_round_many_times() {
    let linger = Nanos::from_secs(1);
    for (array, seed) in [(1, 70), (2, 71)] {
        let log_bytes = if array == 1 { 112 << 10 } else { 72 << 10 };
        let shape = Shape { log_bytes, linger, memory: 1 << 20, ..Shape::volatile(array) };
        let (log, _) = hold(&shape, seed);
        let laps = log / (log_bytes * array as u64);
        assert!(laps >= 4, "{laps} laps only: {shape:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let shape = Shape { archive: true, ..Shape::tight(2) };
    let hash = |seed| run(&shape, seed, &plan()).0.trace_hash;
    assert_eq!(hash(80), hash(80));
    assert_ne!(hash(80), hash(81));
}

/// The same for long: `cargo test -p tantalum-log --test it volume:: -- --ignored`.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn very_many_random_cuts() {
    for seed in 1000..1100 {
        for array in 1..=3 {
            hold(&Shape::tight(array), seed);
            hold(&Shape { archive: true, ..Shape::volatile(array) }, seed);
        }
        hold(&Shape { copies: 2, ..Shape::tight(2) }, seed);
    }
}
