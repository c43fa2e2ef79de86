//! The crash explorer over the presets: every medium operation of a short run as a cut
//! point, before it, at its beginning, inside, just before and at its end; the boundaries of
//! the host's commands; and the same in the recoveries that follow.

use crate::designs::tiny;
use std::cell::Cell;
use tantalum_device::{Payload, PowerCycle};
use tantalum_drive::{Design, Drive, ForcedAccess, GroupScheme};
use tantalum_explore::{DriveBlueprint, Ingredients, Moment, Nesting, Point, Scenario, Tally};
use tantalum_nand::{PageAddr, PageState, Unit};
use tantalum_oracle::Oracle;
use tantalum_oracle::harness::Mix;
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

fn scenario(preset: &str, seed: u64, what: &Ingredients) -> Scenario<DriveBlueprint> {
    what.scenario(DriveBlueprint { design: tiny(preset), payload: Payload::Stamps }, seed).unwrap()
}

fn explore(
    scenario: &Scenario<DriveBlueprint>,
    points: &[(usize, Point)],
    nesting: Nesting,
) -> Tally {
    let (mut tally, ticks) = (Tally::default(), Cell::new(0));
    let tick = || ticks.set(ticks.get() + 1);
    let found = scenario.explore(points, nesting, &mut tally, &tick);
    found.unwrap_or_else(|f| {
        panic!("{}, seed {}: {f:?}", scenario.subject.design.name, scenario.seed)
    });
    assert_eq!(tally.all_cuts(), ticks.get());
    tally
}

/// Presets whose mechanisms are those of `volatile` or `durassd`: on a small geometry they differ from
/// them in times.
const OTHER_TIMES: [&str; 6] = ["ssd-b", "ssd-840pro", "ssd-850evo", "dc-s3500", "p3700", "slc"];

#[test]
fn every_operation_of_a_short_run_is_a_cut_point() {
    for preset in Design::presets() {
        let scenario = scenario(preset, 11, &Ingredients::default());
        // Short as it is, the run has all that can go wrong.
        let stats = scenario.run(Drive::stats).unwrap();
        assert!(stats.gc_copied_bytes > 0 && stats.erases > 10, "{preset}: {stats:?}");
        // Of a drive that is another one with other times every fifth point is cut.
        let stride = if OTHER_TIMES.contains(preset) { 5 } else { 1 };
        if stride > 1 {
            let design = &scenario.subject.design;
            let like = tiny(if design.is_protected() { "durassd" } else { "volatile" });
            assert_eq!((&design.cache, &design.map), (&like.cache, &like.map), "{preset}");
        }
        let points = scenario.points(50).unwrap().into_iter().enumerate();
        let points: Vec<_> = points.step_by(stride).collect();
        let tally = explore(&scenario, &points, Nesting::default());
        let of = |moment| tally.cuts.get(&moment).copied().unwrap_or(0) * stride as u64;
        assert!(of(Moment::Inside) > 500 && of(Moment::Ending) > 100, "{preset}: {tally:?}");
        assert!(of(Moment::Host) > 20 && of(Moment::Begin) > 100, "{preset}: {tally:?}");
        // Each is a cut with its recovery, and another one after some work.
        assert_eq!(tally.cycles, 2 * tally.all_cuts(), "{preset}: {tally:?}");
    }
}

/// Writes with forced unit access, which wait for their own pages, among plain ones, discards and
/// groups: on drives that may lose what they acknowledged, every point is cut.
#[test]
fn forced_writes_among_others_are_there_after_every_cut() {
    let mix = Mix { write: 8, fua: 6, group: 2, flush: 1, discard: 2, read: 1 };
    for (i, preset) in ["volatile", "shearing", "tlc-modern", "ssd-a"].into_iter().enumerate() {
        for scheme in [GroupScheme::Record, GroupScheme::Flag] {
            // Few blocks: pages are written again while they are on their way to flash.
            let hosts = 2 + 2 * i as u32;
            let what = Ingredients { commands: 120, hosts, mix, range: 24, ..Default::default() };
            let mut scenario = scenario(preset, 31 + i as u64, &what);
            scenario.subject.design.atomic.scheme = scheme;
            scenario.subject.design.cache.fua = ForcedAccess::OwnPages;
            let points: Vec<_> = scenario.points(20).unwrap().into_iter().enumerate().collect();
            let nesting = Nesting { depth: 1, inner: 2, stride: 16 };
            let tally = explore(&scenario, &points, nesting);
            assert!(tally.all_cuts() > 500, "{preset}: {tally:?}");
        }
    }
}

#[test]
fn every_operation_of_a_recovery_is_a_cut_point() {
    for (i, preset) in Design::presets().iter().enumerate() {
        let scenario = scenario(preset, 12, &Ingredients::default());
        let points: Vec<_> = scenario.points(0).unwrap().into_iter().enumerate().collect();
        // Some cuts of the run (fewer where a preset differs in times only); at each, all of
        // the recovery; at others, some of the recovery of the recovery of the recovery.
        let some = points.len() / if i < 3 { 12 } else { 4 };
        let one: Vec<_> = points.iter().copied().skip(37).step_by(some).collect();
        let tally = explore(&scenario, &one, Nesting { depth: 1, inner: 0, stride: 1 });
        assert!(tally.nested[0] > 20 * one.len() as u64, "{preset}: {tally:?}");
        let few: Vec<_> = points.iter().copied().skip(23).step_by(some).collect();
        let tally = explore(&scenario, &few, Nesting { depth: 3, inner: 5, stride: 1 });
        assert!(tally.nested.len() == 3 && tally.nested[2] > 25 * few.len() as u64, "{tally:?}");
    }
}

#[test]
fn random_runs_with_restarts_and_pauses_are_cut_at_random_points() {
    for (i, preset) in Design::presets().iter().enumerate() {
        let (mut total, mut faults) = (Tally::default(), 0);
        for seed in 0..6 {
            let mut what =
                Ingredients { pause: 1, hosts: 1 + seed as u32 % 4, ..Default::default() };
            what.cycle = u64::from(seed % 2 == 0);
            what.faults = 2;
            what.range = if seed % 3 == 0 { 24 } else { 0 };
            let mut scenario = scenario(preset, 100 * i as u64 + seed, &what);
            if seed == 5 {
                scenario.subject.payload = Payload::Bytes;
            }
            let mut dice = Stream::new(seed, "points");
            let points = scenario.points(40);
            let points = points.unwrap_or_else(|found| panic!("{preset}, seed {seed}: {found:?}"));
            let mut points: Vec<_> = points.into_iter().enumerate().collect();
            points.retain(|_| dice.chance(1, 30));
            total.add(&explore(&scenario, &points, Nesting { depth: 1, inner: 2, stride: 3 }));
            faults += scenario.commands.iter().filter(|command| command.is_fault()).count();
        }
        // All six were cut, at moments of all kinds, and their recoveries too.
        println!("{preset}: {faults} faults, {total:?}");
        let of = |moment: &Moment| total.cuts.get(moment).copied().unwrap_or(0);
        assert!(Moment::ALL.iter().all(|moment| of(moment) > 0), "{preset}: {total:?}");
        assert!(total.all_cuts() > 300 && total.nested[0] > 50, "{preset}: {total:?}");
    }
}

/// What is on flash.
fn cells(drive: &Drive) -> Vec<(PageState, Vec<u64>)> {
    let g = drive.array().geometry().clone();
    let mut words = vec![0; drive.array().oob_words()];
    let pages = (0..g.units()).flat_map(|u| (0..g.unit_pages()).map(move |page| (u, page)));
    pages
        .map(|(u, page)| {
            let state = drive.array().inspect(PageAddr { unit: Unit(u), page }, &mut words);
            (state, words.clone())
        })
        .collect()
}

/// A run of some writes up to this time.
fn running(preset: &str, until: Nanos) -> (Runtime, Rt, Drive) {
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, &tiny(preset), Payload::Stamps).unwrap();
    let (d, mut dice) = (drive.clone(), rt.stream("writes"));
    let writer = async move {
        if d.power_on().await.is_err() {
            return;
        }
        let host = Oracle::new(d.caps()).host(d.device());
        for _ in 0..300 {
            let (start, count) = (tantalum_device::Block(dice.below(180)), dice.range(1, 7));
            let range = tantalum_device::Blocks { start, count };
            if host.write(range, tantalum_device::Durability::Normal).await.is_err() {
                return;
            }
        }
    };
    rt.spawn("writes", writer);
    runtime.run_until(until).unwrap();
    (runtime, rt, drive)
}

/// A copy that is cut becomes, to the last cell, what the drive becomes when it is cut; and
/// the drive goes on as if nothing had been.
#[test]
fn a_copy_that_is_cut_is_the_drive_that_is_cut() {
    for preset in Design::presets() {
        for us in (0..40_000).step_by(997) {
            let until = Nanos(us * 1000 + us % 7);
            let (mut runtime, rt, drive) = running(preset, until);
            let mut other = Runtime::virtual_time(3);
            let copy = drive.cut_copy(&other.handle()).unwrap();
            let c = copy.clone();
            other.block_on(async move { c.off().await }).unwrap();
            let d = drive.clone();
            drive.cut();
            runtime.block_on(async move { d.off().await }).unwrap();
            assert_eq!(cells(&copy), cells(&drive), "{preset} at {until}");
            assert_eq!(other.handle().now() + until, rt.now(), "{preset} at {until}");
        }
        let hash = |copies: bool| {
            let (mut runtime, rt, drive) = running(preset, Nanos::ZERO);
            for us in (0..40_000).step_by(499) {
                runtime.run_until(Nanos(us * 1000)).unwrap();
                let other = Runtime::virtual_time(us);
                if copies {
                    assert!(drive.cut_copy(&other.handle()).is_some());
                    assert_eq!(drive.audit(), Ok(()));
                }
            }
            rt.trace_hash()
        };
        assert_eq!(hash(true), hash(false), "{preset}");
    }
}
