//! Every medium operation of a short run as a cut point, for each preset: before it, at
//! its beginning, inside it, just before and at its end; and the same for the recovery
//! that follows.

use crate::designs::tiny;
use std::collections::BTreeSet;
use std::rc::Rc;
use tantalum_device::{Block, Blocks, Durability, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_lab::oracle::{Host, Oracle};
use tantalum_rt::{Nanos, Rt, Runtime};

/// Writes, flushes and discards of two hosts, the same in every run until the cut.
async fn load(rt: Rt, host: Host<tantalum_drive::DriveLink>, which: u64, commands: u64) {
    let mut dice = rt.stream(&format!("host {which}"));
    for _ in 0..commands {
        let count = dice.range(1, 7);
        let range = Blocks { start: Block(dice.below(190)), count };
        let ended = match dice.below(12) {
            0 => host.flush().await,
            1 => host.discard(range).await,
            2 => host.write(range, Durability::Fua).await,
            3 => host.read(range).await,
            _ => host.write(range, Durability::Normal).await,
        };
        if ended.is_err() {
            return;
        }
    }
}

/// A run that is cut at these times, the second and later ones while it recovers; the
/// times at which the medium did something in the last stretch.
fn run(design: &Design, cuts: &[Nanos]) -> BTreeSet<Nanos> {
    let mut runtime = Runtime::virtual_time(11);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
    let (design, cuts) = (design.clone(), cuts.to_vec());
    runtime.block_on(scenario(rt, drive, design, cuts)).unwrap()
}

async fn scenario(rt: Rt, drive: Drive, design: Design, cuts: Vec<Nanos>) -> BTreeSet<Nanos> {
    drive.power_on().await.unwrap();
    let oracle = Rc::new(Oracle::new(drive.caps()));
    drive.array().record_ops();
    let tasks: Vec<_> = (0..2)
        .map(|i| rt.spawn("host", load(rt.clone(), oracle.host(drive.device()), i, 90)))
        .collect();
    let Some((first, nested)) = cuts.split_first() else {
        for task in tasks {
            task.await.unwrap();
        }
        // Short as it is, the run has all that can go wrong.
        let stats = drive.stats();
        assert!(stats.gc_copied_bytes > 0 && stats.erases > 10, "{stats:?}");
        return points(&drive);
    };
    rt.sleep_until(*first).await;
    drive.cut();
    drive.off().await;
    drive.array().take_ops();
    for cut in nested {
        let d = drive.clone();
        let start = rt.spawn("start", async move { d.power_on().await });
        rt.sleep_until(*cut).await;
        drive.cut();
        drive.off().await;
        drive.array().take_ops();
        let _ = start.await;
    }
    let label = || format!("{} cut at {cuts:?}", design.name);
    drive.power_on().await.unwrap_or_else(|e| panic!("{}: {e}", label()));
    let seen = points(&drive);
    let found = oracle.check(&drive.device()).await.unwrap();
    assert!(found.is_empty(), "{}: {found:?}", label());
    // It must go on working, and keep what it then promises.
    load(rt.clone(), oracle.host(drive.device()), 7, 60).await;
    drive.cut();
    drive.off().await;
    drive.power_on().await.unwrap_or_else(|e| panic!("{}, second start: {e}", label()));
    let found = oracle.check(&drive.device()).await.unwrap();
    assert!(found.is_empty(), "{}, second check: {found:?}", label());
    seen
}

fn points(drive: &Drive) -> BTreeSet<Nanos> {
    let mut points = BTreeSet::new();
    for op in drive.array().take_ops() {
        points.insert(op.issued);
        points.insert(op.start);
        points.insert(op.start + Nanos(1));
        points.insert(Nanos((op.start.0 + op.end.0) / 2));
        points.insert(op.end - Nanos(1));
        points.insert(op.end);
    }
    points
}

#[test]
fn every_operation_of_a_short_run_is_a_cut_point() {
    for preset in Design::presets() {
        let design = tiny(preset);
        let points = run(&design, &[]);
        assert!(points.len() > 500, "{preset}: {} points", points.len());
        for at in &points {
            run(&design, &[*at]);
        }
    }
}

#[test]
fn every_operation_of_a_recovery_is_a_cut_point() {
    for (i, preset) in Design::presets().iter().enumerate() {
        let design = tiny(preset);
        let points: Vec<Nanos> = run(&design, &[]).into_iter().collect();
        // Some cuts of the run (fewer where a preset differs in times only); at each, all of
        // the recovery; at some of those, all of the recovery of the recovery.
        let some = if i < 3 { 12 } else { 4 };
        for first in points.iter().skip(37).step_by(points.len() / some) {
            let nested: Vec<Nanos> = run(&design, &[*first]).into_iter().collect();
            assert!(nested.len() > 20, "{preset}: {} points", nested.len());
            for second in &nested {
                run(&design, &[*first, *second]);
            }
            let second = nested[nested.len() / 2];
            for third in run(&design, &[*first, second]).into_iter().step_by(3) {
                run(&design, &[*first, second, third]);
            }
        }
    }
}
