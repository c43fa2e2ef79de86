//! The file of crash explorations that comes with the project, and random drives.

use std::sync::atomic::{AtomicU64, Ordering};
use tantalum_drive::Design;
use tantalum_explore::{
    Blueprint, Case, CrashRow, Over, Plan, Reach, RowState, Survey, Watch, random_design, survey,
};
use tantalum_lab::file::crash::CrashFile;

const FILE: &str = include_str!("../../../../experiments/crash.toml");

fn file() -> CrashFile {
    CrashFile::parse("experiments/crash.toml", FILE).unwrap()
}

/// Counts, and ends it after so many cuts (0: never).
#[derive(Default)]
struct Count {
    expected: AtomicU64,
    cuts: AtomicU64,
    nested: AtomicU64,
    found: AtomicU64,
    last: u64,
}

impl Count {
    fn of(&self) -> [u64; 3] {
        [&self.cuts, &self.nested, &self.found].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Watch for Count {
    fn expect(&self, _row: usize, cuts: u64) {
        self.expected.fetch_max(cuts, Ordering::Relaxed);
    }
    fn cut(&self, _row: usize, depth: usize) {
        let count = if depth == 0 { &self.cuts } else { &self.nested };
        count.fetch_add(1, Ordering::Relaxed);
    }
    fn found(&self, _row: usize, _case: &Case) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }
    fn reducing(&self, _row: usize) {}
    fn reduced(&self, _row: usize, case: &Case) {
        assert!(case.reduced.is_some());
    }
    fn over(&self) -> Option<Over> {
        let ended = self.last > 0 && self.cuts.load(Ordering::Relaxed) >= self.last;
        ended.then_some(Over::Budget)
    }
}

fn plan(reach: Reach, threads: usize) -> Plan {
    Plan { reach, threads, stop_at_first: false }
}

fn explore(file: &CrashFile, rows: &[CrashRow], reach: Reach) -> Survey {
    let count = Count::default();
    let found = survey(&file.exploration(), rows, plan(reach, 2), &count);
    for row in &found.rows {
        let Some(case) = row.cases.first() else { continue };
        let test = case.reduced.as_ref().map(|r| r.to_test()).unwrap_or_default();
        panic!("{}, case {}: {:?}\n{test}", row.name, case.id, case.found);
    }
    let [cuts, nested, _] = count.of();
    assert_eq!(found.over, None);
    assert_eq!(found.count(RowState::Whole), rows.len());
    assert_eq!(count.expected.load(Ordering::Relaxed) * rows.len() as u64, cuts);
    assert_eq!(found.total().cuts.values().sum::<u64>(), cuts);
    assert_eq!(found.total().nested.iter().sum::<u64>(), nested);
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
    let found = explore(&file, &rows, Reach::Samples(16));
    for row in &found.rows {
        assert!(row.runs == 1 && row.tally.cuts.values().sum::<u64>() == 16, "{row:?}");
        assert!(row.tally.cycles > 20, "{row:?}");
    }
    let nested: u64 = found.total().nested.iter().sum();
    assert!(nested > 3 * rows.len() as u64, "{nested}");
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
            let spare = s.subject.room().unwrap().faults;
            assert!(count as u32 + s.faults <= spare, "{count} and {} of {spare}", s.faults);
            count
        })
        .sum();
    assert!(faults > 10, "{faults}");
    assert_eq!(random_design(9), random_design(9));
}

/// Two rows, small: `weak` has capacitors that hold too little for its dump.
const WEAK: &str = r#"
title = "weak"
random_times = 8
nested = 1
inner = 2
stride = 4
[mix.default]
commands = 40
then = 8
[drive]
geometry = { channels = 2, packages = 1, chips = 1, planes = 2, blocks = 24, pages = 4, page_bytes = 4096, oob_bytes = 448 }
space = { over_provisioning = 115.0, collect_below = 3 }
cache = { buffer_kib = 64, atomic_unit_kib = 16 }
map = { dirty_max = 1024, write_points = 1, dump_units = 4 }
[[row]]
design = "durassd"
[[row]]
design = "durassd"
name = "weak"
drive = { power = { joules = 0.00005 } }
"#;

/// What a row came to, in short.
fn told(found: &Survey) -> Vec<(RowState, u64, Vec<String>)> {
    let row = |row: &tantalum_explore::RowSurvey| {
        let ids = row.cases.iter().map(|case| case.id.clone()).collect();
        (row.state, row.tally.all_cuts(), ids)
    };
    found.rows.iter().map(row).collect()
}

/// A finding ends nothing but the row that has too many: the other row has all of its cuts, and
/// the number of threads changes nothing. Each finding is found again by its name.
#[test]
fn a_finding_does_not_end_the_exploration_and_is_found_again() {
    let file = CrashFile::parse("weak.toml", WEAK).unwrap();
    let rows = file.rows().unwrap();
    let count = Count::default();
    let found = survey(&file.exploration(), &rows, plan(Reach::Samples(200), 1), &count);
    let [durassd, weak] = &found.rows[..] else { panic!("two rows") };
    assert!(durassd.state == RowState::Whole && durassd.cases.is_empty(), "{durassd:?}");
    assert_eq!(durassd.tally.cuts.values().sum::<u64>(), 200);
    assert!(weak.cases.len() > 8, "{}", weak.cases.len());
    assert!(count.of()[2] >= weak.cases.len() as u64);
    assert!(weak.cases[0].reduced.is_some() && weak.cases[1].reduced.is_none());
    for case in [&weak.cases[0], &weak.cases[5], weak.cases.last().unwrap()] {
        let again =
            Case::repeat(&file.exploration(), &rows[1], &case.id).unwrap().expect("it fails again");
        assert_eq!(again.found, case.found);
    }
    for threads in [2, 5] {
        let other = survey(
            &file.exploration(),
            &rows,
            plan(Reach::Samples(200), threads),
            &Count::default(),
        );
        assert_eq!(told(&other), told(&found), "{threads} threads");
    }
    // Unless that is what is asked for.
    let first = Plan { stop_at_first: true, ..plan(Reach::Samples(200), 1) };
    let first = survey(&file.exploration(), &rows, first, &Count::default());
    assert_eq!(first.over, Some(Over::Found));
    assert_eq!(first.rows[1].cases.len(), 1);
    assert_eq!(first.rows[1].cases[0].id, weak.cases[0].id);
}

/// Rows that were not run, or not to their end, do not pass for clean ones; all rows have had
/// nearly as many cuts when it ends.
#[test]
fn what_was_not_run_is_not_clean_and_rows_get_equal_shares() {
    let mut file = file();
    file.nested = 0;
    let rows = file.rows().unwrap();
    // (More rows show no more, and take longer.)
    let rows = &rows[..40];
    let ended = |reach, threads, last| {
        let count = Count { last, ..Count::default() };
        survey(&file.exploration(), rows, plan(reach, threads), &count)
    };
    let found = ended(Reach::Samples(100), 1, 130);
    assert_eq!(found.over, Some(Over::Budget));
    assert_eq!(found.count(RowState::Part), 3, "64, 64 and 2 cuts");
    assert_eq!(found.count(RowState::NotRun), rows.len() - 3);
    assert!(found.rows.iter().all(|row| row.asked == Some(100)));
    for row in &found.rows {
        assert_eq!(row.state == RowState::NotRun, row.tally.all_cuts() == 0, "{row:?}");
    }
    let none = survey(&file.exploration(), rows, plan(Reach::Exhaustive(1), 2), &Ended);
    assert_eq!(none.count(RowState::NotRun), rows.len());
    // Without an end of its own it goes round and round.
    let last = 2 * 64 * rows.len() as u64 + 5;
    let found = ended(Reach::Endless, 1, last);
    let cuts = |row: &tantalum_explore::RowSurvey| row.tally.cuts.values().sum::<u64>();
    assert_eq!(found.rows.iter().map(cuts).sum::<u64>(), last);
    assert!(found.rows.iter().all(|row| (128..=133).contains(&cuts(row))), "{found:?}");
    assert_eq!(found.over, Some(Over::Budget));
}

/// Over before it began.
struct Ended;

impl Watch for Ended {
    fn expect(&self, _row: usize, _cuts: u64) {}
    fn cut(&self, _row: usize, _depth: usize) {}
    fn found(&self, _row: usize, _case: &Case) {}
    fn reducing(&self, _row: usize) {}
    fn reduced(&self, _row: usize, _case: &Case) {}
    fn over(&self) -> Option<Over> {
        Some(Over::Interrupted)
    }
}

/// A scenario can be made of any seed: an exploration that goes on and on meets all of them.
#[test]
fn every_seed_gives_random_drives_that_can_be_built() {
    let file = file();
    for row in file.swarm().unwrap() {
        for run in 0..1000 {
            let scenario = row.scenario(run);
            assert!(scenario.is_ok(), "{}, run {run}: {scenario:?}", row.name);
        }
    }
}

/// Two flushes of a cache volume with write-through cleaned side by side: one wrote an older version
/// of a page over the newer one of the other, which was lost with the flash device.
#[test]
fn two_flushes_of_a_cache_do_not_write_over_each_other() {
    let mut file = file();
    file.seed = 11;
    let rows = file.rows().unwrap();
    let row = rows.iter().find(|row| row.name == "ram/default/cache-loss").unwrap();
    let found = Case::repeat(&file.exploration(), row, "51.2777").unwrap();
    assert!(found.is_none(), "{:?}", found.map(|case| case.found.failure));
}

/// Once such a file explored nothing, and nothing was found.
#[test]
fn a_file_that_would_explore_nothing_is_refused_where_it_says_so() {
    for key in ["runs", "samples", "stride"] {
        let text = format!("title = \"t\"\nseed = 1\n{key} = 0\n[[row]]\ndesign = \"durassd\"\n");
        let refused = CrashFile::parse("none.toml", &text).unwrap_err().to_string();
        assert_eq!(refused, format!("none.toml:3: {key} = 0: must be at least 1"));
        let one = text.replace("= 0", "= 1");
        CrashFile::parse("one.toml", &one).unwrap();
    }
}
