//! The drives under the crash harness: whatever they promise survives.

use crate::designs::{small, with_spare};
use std::cell::RefCell;
use tantalum_device::Payload;
use tantalum_drive::{Design, Drive};
use tantalum_explore::random_design;
use tantalum_oracle::harness::{CrashPlan, CrashReport, CutAt, crash_run};
use tantalum_rt::{Nanos, Rt, Stream};

fn clean(design: &Design, payload: Payload, seed: u64, plan: &CrashPlan) -> CrashReport {
    clean_with(design, payload, seed, plan, (0, 0)).0
}

/// What runs came to, all together: a run in which nothing happens is clean, too.
#[derive(Debug, Default)]
struct Seen {
    cuts: u64,
    cut_starts: u64,
    checks: u64,
    interrupted: u64,
    bad_units: u64,
}

impl Seen {
    fn add(&mut self, report: &CrashReport) {
        self.cuts += report.cuts;
        self.cut_starts += report.cut_starts;
        self.checks += report.checks;
        self.interrupted += report.interrupted;
    }
}

/// So many programs and erases of a million fail.
fn clean_with(
    design: &Design,
    payload: Payload,
    seed: u64,
    plan: &CrashPlan,
    rates: (u64, u64),
) -> (CrashReport, u32) {
    let repeat = || format!("seed {seed} of {}", design_line(design));
    let made = RefCell::new(None);
    let make = |rt: &Rt| {
        let drive = Drive::new(rt, design, payload).unwrap();
        drive.array().set_failure_rates(rates.0, rates.1);
        made.replace(Some(drive.clone()));
        drive
    };
    let report = crash_run(seed, plan, make).unwrap_or_else(|e| panic!("{}: {e}", repeat()));
    assert!(report.is_clean(), "{}: {report}", repeat());
    let bad = made.take().map_or(0, |drive: Drive| drive.bad_units());
    (report, bad)
}

fn design_line(d: &Design) -> String {
    format!("{} {:?} {:?} {:?} {:?} {:?}", d.name, d.geometry, d.space, d.wear, d.cache, d.map)
}

#[test]
fn random_commands_and_cuts() {
    for preset in Design::presets() {
        let design = small(preset);
        let mut seen = Seen::default();
        for seed in 0..50 {
            let plan = CrashPlan {
                rounds: 6,
                cut: CutAt::Within(Nanos::from_millis(40)),
                range: if seed % 3 == 0 { 64 } else { u64::MAX },
                restart_within: Nanos::from_millis(8),
                ..CrashPlan::default()
            };
            let payload = if seed % 10 == 0 { Payload::Bytes } else { Payload::Stamps };
            seen.add(&clean(&design, payload, seed, &plan));
        }
        // Six cuts of each run, each of them checked; many within a command, some within a start.
        println!("{preset}: {seen:?}");
        assert!(seen.cuts >= 300 && seen.checks >= 300, "{preset}: {seen:?}");
        assert!(seen.interrupted > 300 && seen.cut_starts > 25, "{preset}: {seen:?}");
    }
}

#[test]
fn random_geometries_full_drives_and_cuts() {
    let mut seen = Seen::default();
    for seed in 0..400 {
        let design = random_design(seed);
        let mut dice = Stream::new(seed, "a random plan");
        let plan = CrashPlan {
            rounds: 4,
            depth: dice.range(1, 33) as u32,
            commands: dice.range(50, 1500) as u32,
            max_blocks: dice.range(1, 40),
            range: if dice.chance(1, 4) { dice.range(8, 200) } else { u64::MAX },
            cut: CutAt::Within(Nanos::from_millis(dice.range(1, 800))),
            restart_within: Nanos::from_millis(10),
            restarts: dice.below(4) as u32,
            ..CrashPlan::default()
        };
        seen.add(&clean(&design, Payload::Stamps, seed, &plan));
    }
    println!("{seen:?}");
    assert!(seen.cuts >= 1600 && seen.checks >= 1600, "{seen:?}");
    assert!(seen.interrupted > 1600 && seen.cut_starts > 200, "{seen:?}");
}

/// The medium fails now and then, on top of the cuts: until the drive's life ends, and
/// after.
#[test]
fn random_failures_and_cuts() {
    for preset in Design::presets() {
        let mut seen = Seen::default();
        for seed in 0..50 {
            let mut design = with_spare(preset);
            let mut dice = Stream::new(seed, "a random plan");
            design.geometry.blocks += dice.below(20) as u32;
            let plan = CrashPlan {
                rounds: 8,
                commands: dice.range(50, 600) as u32,
                cut: CutAt::Within(Nanos::from_millis(dice.range(5, 200))),
                restart_within: Nanos::from_millis(8),
                restarts: dice.below(4) as u32,
                ..CrashPlan::default()
            };
            let rates = (dice.below(3_000), dice.below(20_000));
            let (report, bad) = clean_with(&design, Payload::Stamps, seed, &plan, rates);
            seen.add(&report);
            seen.bad_units += u64::from(bad);
        }
        println!("{preset}: {seen:?}");
        assert!(seen.bad_units > 5 && seen.interrupted > 200, "{preset}: {seen:?}");
    }
    let mut seen = Seen::default();
    for seed in 0..150 {
        let plan = CrashPlan {
            rounds: 5,
            commands: 500,
            cut: CutAt::Within(Nanos::from_millis(100)),
            restart_within: Nanos::from_millis(10),
            ..CrashPlan::default()
        };
        let mut design = random_design(seed);
        design.space.over_provisioning *= 1.3;
        let (report, bad) = clean_with(&design, Payload::Stamps, seed, &plan, (1_000, 5_000));
        seen.add(&report);
        seen.bad_units += u64::from(bad);
    }
    println!("{seen:?}");
    assert!(seen.bad_units > 0 && seen.interrupted > 100, "{seen:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for preset in Design::presets() {
        let plan = CrashPlan { rounds: 3, ..CrashPlan::default() };
        let design = small(preset);
        let run = |seed| clean(&design, Payload::Stamps, seed, &plan).trace_hash;
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
