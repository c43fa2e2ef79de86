//! The drives under the crash harness: whatever they promise survives.

use crate::designs::{small, with_spare};
use tantalum_device::Payload;
use tantalum_drive::{Design, Drive};
use tantalum_lab::crash::{CrashPlan, CutAt, crash_run};
use tantalum_lab::explore::random_design;
use tantalum_rt::{Nanos, Rt, Stream};

fn clean(design: &Design, payload: Payload, seed: u64, plan: &CrashPlan) -> u64 {
    clean_with(design, payload, seed, plan, (0, 0))
}

/// So many programs and erases of a million fail.
fn clean_with(
    design: &Design,
    payload: Payload,
    seed: u64,
    plan: &CrashPlan,
    rates: (u64, u64),
) -> u64 {
    let repeat = || format!("seed {seed} of {}", design_line(design));
    let make = |rt: &Rt| {
        let drive = Drive::new(rt, design, payload).unwrap();
        drive.array().set_failure_rates(rates.0, rates.1);
        drive
    };
    let report = crash_run(seed, plan, make).unwrap_or_else(|e| panic!("{}: {e}", repeat()));
    assert!(report.is_clean(), "{}: {report}", repeat());
    report.trace_hash
}

fn design_line(d: &Design) -> String {
    format!("{} {:?} {:?} {:?} {:?} {:?}", d.name, d.geometry, d.space, d.wear, d.cache, d.map)
}

#[test]
fn random_commands_and_cuts() {
    for preset in Design::presets() {
        let design = small(preset);
        for seed in 0..100 {
            let plan = CrashPlan {
                rounds: 6,
                cut: CutAt::Within(Nanos::from_millis(40)),
                range: if seed % 3 == 0 { 64 } else { u64::MAX },
                restart_within: Nanos::from_millis(8),
                ..CrashPlan::default()
            };
            let payload = if seed % 10 == 0 { Payload::Bytes } else { Payload::Stamps };
            clean(&design, payload, seed, &plan);
        }
    }
}

#[test]
fn random_geometries_full_drives_and_cuts() {
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
        clean(&design, Payload::Stamps, seed, &plan);
    }
}

/// The medium fails now and then, on top of the cuts: until the drive's life ends, and
/// after.
#[test]
fn random_failures_and_cuts() {
    for preset in Design::presets() {
        for seed in 0..100 {
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
            clean_with(&design, Payload::Stamps, seed, &plan, rates);
        }
    }
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
        clean_with(&design, Payload::Stamps, seed, &plan, (1_000, 5_000));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for preset in Design::presets() {
        let plan = CrashPlan { rounds: 3, ..CrashPlan::default() };
        let design = small(preset);
        let run = |seed| clean(&design, Payload::Stamps, seed, &plan);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
