//! The explorer proves itself: each defect that can be planted in a drive is found, and a
//! drive without one is clean under the same cuts.

use crate::designs::{tiny, with_spare};
use crate::groups::moving;
use crate::parts;
use tantalum_device::Payload;
use tantalum_drive::{Defect, FlushMode, ForcedAccess, GroupScheme, plant};
use tantalum_explore::{
    Command, DriveBlueprint, Found, Ingredients, Nesting, Scenario, Tally, reduce,
};
use tantalum_oracle::harness::Mix;
use tantalum_rt::Stream;

/// Runs for each design, to which one of forced writes comes; and cuts for each run.
const RUNS: u64 = 8;
const CUTS: u64 = 160;

/// The `run`-th scenario of the hunt, on this preset; with atomic groups or without.
fn scenario(preset: &str, run: u64, groups: Option<GroupScheme>) -> Scenario<DriveBlueprint> {
    let mut what = Ingredients { pause: 1, hosts: 1 + run as u32 % 3, ..Ingredients::default() };
    let mut design = if run % 2 == 1 { with_spare(preset) } else { tiny(preset) };
    if run % 4 > 1 {
        // Flushes store the map, however much of it might be dirty.
        design.cache.flush = FlushMode::Drain;
    }
    what.faults = 20;
    if let Some(scheme) = groups {
        design.atomic.scheme = scheme;
        what.hosts += 3;
        what.mix.group = 4;
    }
    if run % 3 == 1 {
        what.range = 40;
    }
    what.scenario(DriveBlueprint { design, payload: Payload::Stamps }, run).unwrap()
}

/// Small discards from many hosts fill a journal that is as small as can be, after all was
/// discarded: whole units are void at a restart, and spilled entries name them.
fn storm(preset: &str, run: u64) -> Scenario<DriveBlueprint> {
    let mut what =
        Ingredients { commands: 400, hosts: 16, max_blocks: 2, ..Ingredients::default() };
    what.mix = Mix { write: 16, fua: 0, group: 0, flush: 0, discard: 12, read: 0 };
    what.wipe = 1;
    let mut design = tiny(preset);
    design.map.journal_entries -= 10;
    design.map.checkpoint_share = 0.0;
    design.map.checkpoint_idle = false;
    what.scenario(DriveBlueprint { design, payload: Payload::Stamps }, run).unwrap()
}

/// Many writes with forced unit access on few blocks: copies that are being programmed hold back
/// newer ones, for which a host waits.
fn forced(preset: &str, run: u64, groups: Option<GroupScheme>) -> Scenario<DriveBlueprint> {
    let mut what = Ingredients { hosts: 4, max_blocks: 3, range: 16, ..Ingredients::default() };
    what.mix = Mix { write: 10, fua: 8, group: 0, flush: 0, discard: 1, read: 1 };
    let mut design = tiny(preset);
    design.cache.fua = ForcedAccess::OwnPages;
    if let Some(scheme) = groups {
        design.atomic.scheme = scheme;
        what.mix.group = 4;
    }
    what.scenario(DriveBlueprint { design, payload: Payload::Stamps }, run).unwrap()
}

/// Looks for anything that is wrong with a preset, whatever is planted; after how many cuts
/// it was found.
fn hunt(
    preset: &str,
    groups: Option<GroupScheme>,
    cuts: &mut u64,
) -> Option<(Scenario<DriveBlueprint>, Found)> {
    for run in 0..=RUNS {
        let scenario = match groups == Some(GroupScheme::Record) && run == RUNS - 1 {
            true => moving("volatile", run),
            false if preset.starts_with("spartan-e") && run == RUNS - 1 => storm(preset, run),
            false if run == RUNS => forced(preset, run, groups),
            false => scenario(preset, run, groups),
        };
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
        | Defect::GroupAdmittedInParts
        | Defect::SplitAdmission => "durassd",
        Defect::UnitNotEntered
        | Defect::StaleNotEntered
        | Defect::DumpSkipsSpilled
        | Defect::ForgottenNotEntered
        | Defect::VoidUnitsFreed => "spartan-e",
        Defect::SummaryStale | Defect::SummaryOfPart | Defect::SummaryCountsFailed => "spartan-es",
        _ => "volatile",
    }
}

#[test]
fn each_planted_defect_is_found() {
    assert!(Defect::ALL.len() >= 12);
    for &defect in Defect::ALL {
        plant(Some(defect));
        let name = format!("{defect:?}");
        let groups = match () {
            () if name.starts_with("Group") => Some(GroupScheme::Record),
            () if name.starts_with("Flag") => Some(GroupScheme::Flag),
            () => None,
        };
        let found = match defect {
            Defect::RestUnchecked | Defect::DiscardTakesSector => (0..RUNS).find_map(|run| {
                let scenario = parts::scenario("volatile", run);
                let found = parts::explore(&scenario, 20, &mut Tally::default());
                found.err().map(|found| (scenario, *found))
            }),
            _ => hunt(preset(defect), groups, &mut 0),
        };
        plant(None);
        let Some((_, found)) = found else { panic!("{defect:?} is not found") };
        println!("{defect:?}: {}: {}", found.stage, found.failure);
    }
}

#[test]
fn without_a_defect_nothing_is_found() {
    use GroupScheme::{Flag, Record};
    for (preset, groups) in [
        ("volatile", None),
        ("volatile", Some(Record)),
        ("volatile", Some(Flag)),
        ("durassd", Some(Record)),
        ("spartan-e", None),
        ("spartan-es", Some(Record)),
        ("ssd-a", Some(Flag)), // Protected memory has no flags.
    ] {
        let mut cuts = 0;
        let found = hunt(preset, groups, &mut cuts);
        assert!(found.is_none(), "{preset}, after {cuts} cuts: {found:?}");
        assert!(cuts > RUNS * CUTS, "{preset}: {cuts} cuts");
    }
}

/// A write of two pages is all it takes to see that an atomic unit comes in two steps; and it
/// is that defect and no other which the short case shows.
#[test]
fn a_case_is_reduced_to_the_commands_that_matter() {
    plant(Some(Defect::SplitAdmission));
    let (scenario, found) = hunt("durassd", None, &mut 0).unwrap();
    let reduced = reduce(&scenario, &found, 5_000);
    let again = reduced.scenario.cut(&reduced.found.cuts);
    plant(None);
    assert!(scenario.commands.len() > 100 && reduced.scenario.then.is_empty(), "{reduced:?}");
    let [Command::Write(at, 2)] = reduced.scenario.commands[..] else { panic!("{reduced:?}") };
    assert_eq!(again.unwrap_err().failure, reduced.found.failure);
    assert_eq!(reduced.scenario.cut(&reduced.found.cuts), Ok(()));
    let test = reduced.to_test();
    for line in [
        format!("Command::Write({at}, 2),"),
        format!("let cuts: [Nanos; 1] = [Nanos({})];", reduced.found.cuts[0].0),
        format!("seed: {},", scenario.seed),
        "assert!(found.is_ok(), \"{found:?}\");".to_string(),
    ] {
        assert!(test.contains(&line), "{line}: {test}");
    }
}
