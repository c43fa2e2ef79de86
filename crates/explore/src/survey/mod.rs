//! Many runs of many rows, over several threads: what is asked for, and what came of it.
//!
//! 1. What an exploration that was not ended early reports does not depend on the number of
//!    threads: all cuts that were asked for are explored, and reported in the order of runs and
//!    points. A row is given up behind its [`MOST`]-th finding in that order.
//! 2. A finding follows from the seed, the row and the case alone: whatever ended the exploration,
//!    [`Case::repeat`] finds it again.
//! 3. A row that was not run, or not to its end, is never reported as clean ([`RowState`]).

pub(crate) mod work;

use crate::parallel::side_by_side;
use crate::reduce::{Reduced, reduce, reduce_until};
use crate::row::{CrashRow, Exploration};
use crate::scenario::{Found, Scenario, Tally};
use crate::survey::work::Work;

/// Cuts of one run, when points are chosen at random.
pub(super) const CUTS_OF_A_RUN: u64 = 64;

/// Cuts that are spent on making a case shorter.
const REDUCTION: u64 = 20_000;

/// The same for all cases of an exploration together.
const ALL_REDUCTIONS: u64 = 100_000;

/// A row with so many findings is given up.
pub const MOST: usize = 64;

/// Which points are explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All there are, of so many runs of each row.
    Exhaustive(u64),
    /// So many of each row, at random.
    Samples(u64),
    /// So many runs of each row, some points of each.
    Runs(u64),
    /// Run after run, some points of each, until [`Watch::over`] ends it.
    Endless,
}

impl Reach {
    /// Runs of each row.
    pub(super) fn runs(self) -> u64 {
        match self {
            Reach::Exhaustive(runs) | Reach::Runs(runs) => runs,
            Reach::Samples(cuts) => cuts.div_ceil(CUTS_OF_A_RUN),
            Reach::Endless => u64::MAX,
        }
    }

    /// How many points of this run are chosen; `None`: all.
    pub(super) fn of_run(self, run: u64) -> Option<u64> {
        match self {
            Reach::Exhaustive(_) => None,
            Reach::Runs(_) | Reach::Endless => Some(CUTS_OF_A_RUN),
            Reach::Samples(cuts) => Some(CUTS_OF_A_RUN.min(cuts - run * CUTS_OF_A_RUN)),
        }
    }
}

/// How an exploration goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which points are explored.
    pub reach: Reach,
    /// Pieces of work at the same time.
    pub threads: usize,
    /// Whether the first finding ends it.
    pub stop_at_first: bool,
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
    /// The same, shorter; `None` if it was not made shorter.
    pub reduced: Option<Reduced>,
}

/// How far a row came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// It had no cut.
    NotRun,
    /// It had some of the cuts that were asked for.
    Part,
    /// It had all of them.
    Whole,
    /// It was ended because it had too many findings.
    GivenUp,
}

/// What came of a row.
#[derive(Clone, Debug)]
pub struct RowSurvey {
    /// Its name.
    pub name: String,
    /// How far it came.
    pub state: RowState,
    /// Runs that were explored.
    pub runs: u64,
    /// Cuts of its runs that were asked for, as far as that is known: `None` if there was no
    /// such number, or runs were not reached.
    pub asked: Option<u64>,
    /// What was done.
    pub tally: Tally,
    /// What was found, in the order of runs and points; at most [`MOST`].
    pub cases: Vec<Case>,
}

/// Why an exploration ended before all was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The user wanted no more.
    Interrupted,
    /// There was no more time.
    Budget,
    /// Something was found, and the first finding was to end it.
    Found,
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
    /// Why it ended before all was done; `None`: it did not.
    pub over: Option<Over>,
}

impl Survey {
    /// All that was done.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.rows.iter().for_each(|row| total.add(&row.tally));
        total
    }

    /// How many rows ended so.
    pub fn count(&self, state: RowState) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }
}

/// An observer of its progress. It is called from several threads. Rows are given by their number.
pub trait Watch: Sync {
    /// The runs of this row will have so many cuts, as far as is known.
    fn expect(&self, row: usize, cuts: u64);
    /// A cut was explored: at depth 0 one of a run, at 1 one of its recovery, and so on.
    fn cut(&self, row: usize, depth: usize);
    /// Something was found, right now. (It is not in the survey if it lies behind the finding
    /// with which its row is given up.)
    fn found(&self, row: usize, case: &Case);
    /// The first case of this row is being made shorter.
    fn reducing(&self, row: usize);
    /// It was made shorter, as far as there was time.
    fn reduced(&self, row: usize, case: &Case);
    /// Whether to end now, and why.
    fn over(&self) -> Option<Over>;
}

/// Explores these rows.
pub fn survey(
    exploration: &Exploration,
    rows: &[CrashRow],
    plan: Plan,
    watch: &dyn Watch,
) -> Survey {
    let (mut surveys, over) = Work::new(exploration, rows, plan, watch).done();
    if over != Some(Over::Interrupted) {
        shorten(&mut surveys, plan.threads, watch);
    }
    Survey { title: exploration.title.clone(), seed: exploration.seed, rows: surveys, over }
}

/// Makes the first case of each row shorter.
fn shorten(rows: &mut [RowSurvey], threads: usize, watch: &dyn Watch) {
    let interrupted = || watch.over() == Some(Over::Interrupted);
    let first = |(number, row): (usize, &RowSurvey)| Some((number, row.cases.first()?.clone()));
    let cases: Vec<(usize, Case)> = rows.iter().enumerate().filter_map(first).collect();
    let cuts = REDUCTION.min(ALL_REDUCTIONS / cases.len().max(1) as u64);
    let shorter = side_by_side(threads, &interrupted, &cases, |(row, case)| {
        watch.reducing(*row);
        let reduced = reduce_until(&case.scenario, &case.found, cuts, &interrupted);
        let case = Case { reduced: Some(reduced), ..case.clone() };
        watch.reduced(*row, &case);
        case
    });
    for ((row, _), case) in cases.iter().zip(shorter) {
        if let Some(case) = case {
            rows[*row].cases[0] = case;
        }
    }
}

impl Case {
    pub(super) fn of(run: u64, scenario: Scenario, found: Found) -> Case {
        let places = found.path.iter().map(|place| format!(".{place}"));
        Case { id: format!("{run}{}", places.collect::<String>()), scenario, found, reduced: None }
    }

    /// Repeats the case of this name; `None` if nothing is wrong with it.
    ///
    /// # Errors
    /// If it is no name of a case.
    pub fn repeat(
        exploration: &Exploration,
        row: &CrashRow,
        id: &str,
    ) -> Result<Option<Case>, String> {
        let no = || format!("\"{id}\" is no case: a number of a run and places, as in 3.412.17");
        let numbers: Result<Vec<u64>, _> = id.split('.').map(str::parse).collect();
        let numbers = numbers.map_err(|_| no())?;
        let (run, path) = numbers.split_first().ok_or_else(no)?;
        let path: Vec<usize> = path.iter().map(|p| *p as usize).collect();
        let scenario = row.scenario(*run)?;
        let Err(found) = scenario.follow(exploration.random_times, &path) else { return Ok(None) };
        let reduced = Some(reduce(&scenario, &found, REDUCTION));
        Ok(Some(Case { id: id.to_string(), scenario, found, reduced }))
    }
}
