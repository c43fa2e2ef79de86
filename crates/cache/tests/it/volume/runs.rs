//! Long runs with random cuts, some of them while the volume starts, held to its promises.

use super::rig::{Boxes, Shape};
use std::rc::Rc;
use tantalum_cache::flash::{Admit, Replacement};
use tantalum_device::{Ack, PowerCycle};
use tantalum_oracle::harness::{CrashPlan, CrashReport, CutAt, torture};
use tantalum_rt::{Nanos, Runtime};

fn plan() -> CrashPlan {
    CrashPlan {
        rounds: 12,
        depth: 6,
        commands: 400,
        think: Nanos::from_micros(200),
        cut: CutAt::Within(Nanos::from_millis(40)),
        restart_within: Nanos::from_millis(12),
        ..CrashPlan::default()
    }
}

/// The report, and the bytes written to flash and to the slow device.
pub fn run(shape: &Shape, seed: u64, plan: &CrashPlan) -> (CrashReport, u64, u64) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let boxes = Boxes::new(&rt, shape);
    let (volume, plan) = (boxes.volume(&rt, shape), *plan);
    let report = runtime.block_on(async move {
        volume.format(false).await.unwrap();
        let report = torture(rt, Rc::new(volume.clone()), plan).await;
        if let (Some(_), Some(why)) = (&report.start_error, volume.start_failure()) {
            panic!("{why}");
        }
        volume.cut();
        report
    });
    assert_eq!(shape.loses_flash > 0, boxes.flash.lost.get() > 0);
    (report.unwrap(), boxes.flash.now().bytes_written(), boxes.slow.bytes_written())
}

fn hold(shape: &Shape, seed: u64) {
    let (report, flash, slow) = run(shape, seed, &plan());
    assert!(report.is_clean(), "{report}\n{shape:?}");
    assert!(report.cuts >= 12 && report.succeeded > 200, "{report}\n{shape:?}");
    let laps = flash / shape.flash_bytes;
    assert!(shape.loses_flash > 0 || laps >= 4, "{laps} laps only: {shape:?}");
    assert!(slow > 20_000, "{slow} bytes on the slow device only: {shape:?}");
}

#[test]
fn random_cuts_back_and_through() {
    for seed in 40..44 {
        hold(&Shape::volatile(), seed);
        hold(&Shape::through(), seed);
    }
}

#[test]
fn random_cuts_with_parts_of_pages_and_torn_blocks() {
    for seed in 50..54 {
        hold(&Shape { atomic: 64, ..Shape::wide() }, seed);
        hold(&Shape { atomic: 64, mode: Shape::through().mode, ..Shape::wide() }, seed);
    }
}

#[test]
fn random_cuts_of_other_kinds_of_caches_and_devices() {
    hold(&Shape { replacement: Replacement::Basic, ..Shape::volatile() }, 60);
    hold(&Shape { replacement: Replacement::Basic, ..Shape::through() }, 61);
    hold(&Shape { ack: Ack::PowerSafe, ..Shape::volatile() }, 62);
    hold(&Shape { ack: Ack::PowerSafe, ..Shape::wide() }, 63);
    hold(&Shape { admit: Admit::Dirty, ..Shape::wide() }, 64);
    hold(&Shape { admit: Admit::Dirty, ..Shape::through() }, 65);
}

#[test]
fn the_flash_device_is_lost_again_and_again_under_write_through() {
    for loses_flash in 1..5 {
        hold(&Shape { loses_flash, ..Shape::through() }, 70 + loses_flash);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let hash = |seed| run(&Shape::wide(), seed, &plan()).0.trace_hash;
    assert_eq!(hash(80), hash(80));
    assert_ne!(hash(80), hash(81));
}

/// The same for long: `cargo test -p tantalum-cache --test it volume:: -- --ignored`.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn very_many_random_cuts() {
    for seed in 1000..1100 {
        for mode in [Shape::volatile().mode, Shape::through().mode] {
            hold(&Shape { mode, ..Shape::volatile() }, seed);
            hold(&Shape { mode, atomic: 64, ..Shape::wide() }, seed);
            hold(&Shape { mode, replacement: Replacement::Basic, ..Shape::wide() }, seed);
        }
        hold(&Shape { loses_flash: 1 + seed % 4, ..Shape::through() }, seed);
    }
}
