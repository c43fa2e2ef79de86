//! The file of crash explorations that comes with the project, and random drives.

use std::sync::atomic::{AtomicU64, Ordering};
use tantalum_drive::Design;
use tantalum_lab::explore::{CrashFile, CrashRow, Reach, Survey, Watch, random_design, survey};

const FILE: &str = include_str!("../../../experiments/crash.toml");

fn file() -> CrashFile {
    CrashFile::parse("experiments/crash.toml", FILE).unwrap()
}

/// Counts, and never ends anything.
#[derive(Default)]
struct Count {
    expected: AtomicU64,
    cuts: AtomicU64,
}

impl Watch for Count {
    fn expect(&self, cuts: u64) {
        self.expected.store(cuts, Ordering::Relaxed);
    }
    fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }
    fn reducing(&self, _row: &str) {}
    fn is_over(&self) -> bool {
        false
    }
}

fn explore(file: &CrashFile, rows: &[CrashRow], reach: Reach) -> Survey {
    let count = Count::default();
    let found = survey(file, rows, reach, 2, &count);
    for row in &found.rows {
        let Some(case) = &row.case else { continue };
        let test = case.reduced.as_ref().map(|r| r.to_test()).unwrap_or_default();
        panic!("{}, case {}: {:?}\n{test}", row.name, case.id, case.found);
    }
    let (expected, cuts) = (&count.expected, &count.cuts);
    assert!(expected.load(Ordering::Relaxed) <= cuts.load(Ordering::Relaxed));
    assert_eq!(found.total().all_cuts(), cuts.load(Ordering::Relaxed));
    found
}

#[test]
fn every_preset_is_in_the_file_and_every_row_of_it_is_clean() {
    let file = file();
    let rows = file.rows().unwrap();
    for preset in Design::presets() {
        let named = rows.iter().any(|r| r.name.starts_with(&format!("{preset}/")));
        assert!(named, "{preset} is in no row of experiments/crash.toml: add it to one");
    }
    let found = explore(&file, &rows, Reach::Samples(48));
    for row in &found.rows {
        assert!(row.runs == 1 && row.tally.cuts.values().sum::<u64>() == 48, "{row:?}");
        assert!(row.tally.cycles > 60, "{row:?}");
    }
    let nested: u64 = found.total().nested.iter().sum();
    assert!(nested > 10 * rows.len() as u64, "{nested}");
}

/// Random designs on random geometries, with failures of the medium as far as there are units
/// to spare, and a phase without them in which all must come back and go on working.
#[test]
fn random_drives_survive_cuts_and_failures() {
    let file = file();
    let rows = file.swarm().unwrap();
    assert!(rows.iter().any(|r| r.what.faults > 0));
    let found = explore(&file, &rows, Reach::Runs(3));
    assert!(found.rows.iter().all(|r| r.runs == 3), "{found:?}");
    let failing = rows.iter().find(|r| r.what.faults > 0).unwrap();
    let faults: usize = (0..40)
        .map(|run| failing.scenario(run).unwrap())
        .map(|s| {
            let count = s.commands.iter().filter(|c| c.is_fault()).count();
            let spare = s.design.check().unwrap().spare_units;
            assert!(count as u32 + s.faults <= spare, "{count} and {} of {spare}", s.faults);
            count
        })
        .sum();
    assert!(faults > 10, "{faults}");
    assert_eq!(random_design(9), random_design(9));
}
