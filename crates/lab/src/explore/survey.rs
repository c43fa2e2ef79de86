//! Many runs of many rows, over several threads.
//!
//! 1. What is found does not depend on the number of threads: of each row the first case
//!    in the order of runs and points, and nothing behind it is counted.
//! 2. Each piece of work has its own runtimes, on one thread.

use super::file::{CrashFile, CrashRow};
use super::points::Point;
use super::reduce::{Reduced, reduce};
use super::scenario::{Found, Nesting, Scenario, Tally};
use crate::parallel::side_by_side;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use tantalum_rt::Stream;

/// Cuts of one run, when points are chosen at random.
const CUTS_OF_A_RUN: u64 = 64;

/// Points that are explored in one go.
const CHUNK: usize = 128;

/// Cuts that are spent on making a case shorter.
const REDUCTION: u64 = 20_000;

/// Which points are explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All there are, of so many runs of each row.
    Exhaustive(u64),
    /// So many of each row, at random.
    Samples(u64),
    /// So many runs of each row, some points of each.
    Runs(u64),
}

impl Reach {
    fn runs(self) -> u64 {
        match self {
            Reach::Exhaustive(runs) | Reach::Runs(runs) => runs,
            Reach::Samples(cuts) => cuts.div_ceil(CUTS_OF_A_RUN),
        }
    }

    /// How many points of this run are chosen; `None`: all.
    fn of_run(self, run: u64) -> Option<u64> {
        match self {
            Reach::Exhaustive(_) => None,
            Reach::Runs(_) => Some(CUTS_OF_A_RUN),
            Reach::Samples(cuts) => Some(CUTS_OF_A_RUN.min(cuts - run * CUTS_OF_A_RUN)),
        }
    }
}

/// Something that was found, by the name that repeats it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The number of the run, and the places of its cuts among all points: `3.412.17`.
    pub id: String,
    /// What it is.
    pub scenario: Scenario,
    /// How it fails.
    pub found: Found,
    /// The same, shorter; `None` if there was no time for it.
    pub reduced: Option<Reduced>,
}

/// What came of a row.
#[derive(Clone, Debug)]
pub struct RowSurvey {
    /// Its name.
    pub name: String,
    /// Runs that were explored.
    pub runs: u64,
    /// What was done.
    pub tally: Tally,
    /// What was found first.
    pub case: Option<Case>,
}

/// What came of all.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Of the file.
    pub title: String,
    /// Of the file, or another one.
    pub seed: u64,
    /// Row by row.
    pub rows: Vec<RowSurvey>,
    /// Whether it was ended before all was done.
    pub interrupted: bool,
}

impl Survey {
    /// All that was done.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.rows.iter().for_each(|row| total.add(&row.tally));
        total
    }
}

/// Who wants to know how it gets on; called from several threads.
pub trait Watch: Sync {
    /// So many cuts will be made at least, as far as is known.
    fn expect(&self, cuts: u64);
    /// A cut was explored.
    fn cut(&self);
    /// A case of this row is being made shorter.
    fn reducing(&self, row: &str);
    /// Whether to end now.
    fn is_over(&self) -> bool;
}

/// A piece of work: a run of a row, and the part of its points that is explored.
struct Piece {
    row: usize,
    run: u64,
    points: Vec<(usize, Point)>,
}

/// What came of a piece.
type Done = (Tally, Option<(Scenario, Found)>);

/// Explores these rows, `threads` pieces at a time.
pub fn survey(
    file: &CrashFile,
    rows: &[CrashRow],
    reach: Reach,
    threads: usize,
    watch: &dyn Watch,
) -> Survey {
    let nesting = file.nesting();
    // First the points of all runs: what fails without a cut has none.
    let runs: Vec<(usize, u64)> =
        (0..rows.len()).flat_map(|row| (0..reach.runs()).map(move |run| (row, run))).collect();
    let lists = side_by_side(threads, &|| watch.is_over(), &runs, |&(row, run)| {
        let row = &rows[row];
        let scenario = match row.scenario(run) {
            Ok(scenario) => scenario,
            Err(_) => unreachable!("the rows have been checked"),
        };
        let points = scenario.points(file.random_times);
        points
            .map(|points| chosen(points, reach.of_run(run), scenario.seed))
            .map_err(|found| Box::new((scenario, found)))
    });
    let mut pieces: Vec<Piece> = Vec::new();
    let mut early: BTreeMap<usize, (u64, Scenario, Found)> = BTreeMap::new();
    for (&(row, run), list) in runs.iter().zip(lists) {
        match list {
            Some(Ok(points)) => {
                let parts = points.chunks(CHUNK).map(<[_]>::to_vec);
                pieces.extend(parts.map(|points| Piece { row, run, points }));
            }
            Some(Err(failed)) => {
                let (scenario, found) = *failed;
                early.entry(row).or_insert((run, scenario, found));
            }
            None => {}
        }
    }
    pieces.retain(|p| early.get(&p.row).is_none_or(|e| p.run < e.0));
    watch.expect(pieces.iter().map(|p| p.points.len() as u64).sum());
    // Of each row the first piece with which something is wrong.
    let bad: Vec<AtomicUsize> = rows.iter().map(|_| AtomicUsize::new(usize::MAX)).collect();
    let numbered: Vec<(usize, &Piece)> = pieces.iter().enumerate().collect();
    let done = side_by_side(threads, &|| watch.is_over(), &numbered, |&(number, piece)| {
        if bad[piece.row].load(Ordering::Relaxed) < number {
            return None;
        }
        let done = explore(&rows[piece.row], piece, nesting, watch);
        if done.1.is_some() {
            bad[piece.row].fetch_min(number, Ordering::Relaxed);
        }
        Some(done)
    });
    let interrupted = watch.is_over();
    let mut surveys: Vec<RowSurvey> = rows.iter().map(RowSurvey::of).collect();
    let mut last = vec![None; rows.len()];
    for (piece, done) in pieces.iter().zip(done) {
        let survey = &mut surveys[piece.row];
        let (Some(Some((tally, found))), None) = (done, &survey.case) else { continue };
        survey.tally.add(&tally);
        if last[piece.row].replace(piece.run) != Some(piece.run) {
            survey.runs += 1;
        }
        survey.case = found.map(|(scenario, found)| Case::of(piece.run, scenario, found));
    }
    for (row, (run, scenario, found)) in early {
        let case = || Case::of(run, scenario, found);
        surveys[row].case = surveys[row].case.take().or_else(|| Some(case()));
    }
    for case in surveys.iter_mut().filter_map(|s| Some((&s.name, s.case.as_mut()?))) {
        if !interrupted && !watch.is_over() {
            watch.reducing(case.0);
            case.1.reduced = Some(reduce(&case.1.scenario, &case.1.found, REDUCTION));
        }
    }
    Survey { title: file.title.clone(), seed: file.seed, rows: surveys, interrupted }
}

/// Some of the points, or all, with their places.
fn chosen(points: Vec<Point>, count: Option<u64>, seed: u64) -> Vec<(usize, Point)> {
    let mut all: Vec<(usize, Point)> = points.into_iter().enumerate().collect();
    if let Some(count) = count {
        let mut dice = Stream::new(seed, "points");
        while all.len() as u64 > count {
            all.swap_remove(dice.below(all.len() as u64) as usize);
        }
        all.sort_unstable_by_key(|p| p.0);
    }
    all
}

fn explore(row: &CrashRow, piece: &Piece, nesting: Nesting, watch: &dyn Watch) -> Done {
    let mut tally = Tally::default();
    let Ok(scenario) = row.scenario(piece.run) else { unreachable!("the rows have been checked") };
    let found = scenario.explore(&piece.points, nesting, &mut tally, &|| watch.cut());
    (tally, found.err().map(|found| (scenario, found)))
}

impl RowSurvey {
    fn of(row: &CrashRow) -> RowSurvey {
        RowSurvey { name: row.name.clone(), runs: 0, tally: Tally::default(), case: None }
    }
}

impl Case {
    fn of(run: u64, scenario: Scenario, found: Found) -> Case {
        let places = found.path.iter().map(|place| format!(".{place}"));
        Case { id: format!("{run}{}", places.collect::<String>()), scenario, found, reduced: None }
    }

    /// Repeats the case of this name; `None` if nothing is wrong with it.
    ///
    /// # Errors
    /// If it is no name of a case.
    pub fn repeat(file: &CrashFile, row: &CrashRow, id: &str) -> Result<Option<Case>, String> {
        let no = || format!("\"{id}\" is no case: a number of a run and places, as in 3.412.17");
        let numbers: Result<Vec<u64>, _> = id.split('.').map(str::parse).collect();
        let numbers = numbers.map_err(|_| no())?;
        let (run, path) = numbers.split_first().ok_or_else(no)?;
        let path: Vec<usize> = path.iter().map(|p| *p as usize).collect();
        let scenario = row.scenario(*run).map_err(|e| e.to_string())?;
        let Err(found) = scenario.follow(file.random_times, &path) else { return Ok(None) };
        let reduced = Some(reduce(&scenario, &found, REDUCTION));
        Ok(Some(Case { id: id.to_string(), scenario, found, reduced }))
    }
}
