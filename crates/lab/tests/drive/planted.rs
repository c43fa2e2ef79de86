//! The explorer proves itself: each defect that can be planted in a drive is found, and a
//! drive without one is clean under the same cuts.

use crate::designs::{tiny, with_spare};
use tantalum_device::Payload;
use tantalum_drive::{Defect, FlushMode, plant};
use tantalum_lab::explore::{Found, Ingredients, Nesting, Scenario, Tally};
use tantalum_rt::Stream;

/// Runs for each design, and cuts for each run.
const RUNS: u64 = 8;
const CUTS: u64 = 160;

/// The `run`-th scenario of the hunt, on this preset.
fn scenario(preset: &str, run: u64) -> Scenario {
    let mut what = Ingredients { pause: 1, hosts: 1 + run as u32 % 3, ..Ingredients::default() };
    let mut dice = Stream::new(run, "commands");
    let mut design = if run % 2 == 1 { with_spare(preset) } else { tiny(preset) };
    if run % 4 > 1 {
        // Flushes store the map, however much of it might be dirty.
        design.cache.flush = FlushMode::Drain;
    }
    let layout = design.check().unwrap();
    what.faults = layout.spare_units / 2;
    if run % 3 == 1 {
        what.range = 40;
    }
    let blocks = layout.logical.into();
    let mut commands = what.list(&mut dice, what.commands, blocks);
    what.spoil(&mut dice, &mut commands, what.faults);
    Scenario {
        design,
        payload: Payload::Stamps,
        seed: run,
        hosts: what.hosts,
        commands,
        then: what.list(&mut dice, what.then, blocks),
        faults: what.faults,
    }
}

/// Looks for anything that is wrong with a preset, whatever is planted; after how many cuts
/// it was found.
fn hunt(preset: &str, cuts: &mut u64) -> Option<(Scenario, Found)> {
    for run in 0..RUNS {
        let scenario = scenario(preset, run);
        let mut dice = Stream::new(run, "points");
        let mut tally = Tally::default();
        let found = scenario.points(20).and_then(|points| {
            let count = points.len() as u64;
            let mut points: Vec<_> = points.into_iter().enumerate().collect();
            points.retain(|_| dice.chance(CUTS, count.max(CUTS)));
            let nesting = Nesting { depth: 1, inner: 2, stride: 2 };
            scenario.explore(&points, nesting, &mut tally, &|| ())
        });
        *cuts += tally.all_cuts();
        if let Err(found) = found {
            return Some((scenario, found));
        }
    }
    None
}

/// Where a defect shows: some have to do with the emergency dump, and some with its absence.
fn preset(defect: Defect) -> &'static str {
    match defect {
        Defect::DumpSkipsHeld
        | Defect::DumpSkipsEntry
        | Defect::DumpErasedEarly
        | Defect::ReplaySkipsPage
        | Defect::ReplayedIsStored
        | Defect::DirtyForgotten
        | Defect::OlderImage
        | Defect::AckEarly
        | Defect::SplitAdmission => "durassd",
        _ => "volatile",
    }
}

#[test]
fn each_planted_defect_is_found() {
    assert!(Defect::ALL.len() >= 12);
    for defect in Defect::ALL {
        plant(Some(*defect));
        let found = hunt(preset(*defect), &mut 0);
        plant(None);
        let Some((_, found)) = found else { panic!("{defect:?} is not found") };
        println!("{defect:?}: {}: {}", found.stage, found.failure);
    }
}

#[test]
fn without_a_defect_nothing_is_found() {
    for preset in ["volatile", "durassd"] {
        let mut cuts = 0;
        let found = hunt(preset, &mut cuts);
        assert!(found.is_none(), "{preset}, after {cuts} cuts: {found:?}");
        assert!(cuts > RUNS * CUTS, "{preset}: {cuts} cuts");
    }
}
