//! The pieces of an exploration, dealt to threads.
//!
//! 1. Rows get equal shares: the next piece is of the row to which the fewest cuts were dealt,
//!    the first of the file among equals.
//! 2. Memory does not grow with the number of cuts: a run is opened (its points listed) when its
//!    turn comes, and forgotten when it is explored. What came of a piece waits only for the
//!    pieces of its row that were dealt before it.
//! 3. What came of the pieces of a row is added up in the order of runs and points.
//! 4. Each piece of work has its own runtimes, on one thread.

use crate::points::Point;
use crate::row::{CrashRow, Exploration};
use crate::scenario::{Along, Nesting, Scenario, Tally};
use crate::survey::{CUTS_OF_A_RUN, Case, MOST, Over, Plan, Reach, RowState, RowSurvey, Watch};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tantalum_rt::Stream;

/// Points that are explored in one go.
const CHUNK: usize = 128;

/// Points to explore, with their places.
type Chosen = Vec<(usize, Point)>;

/// The place of a piece in its row: the run, and which part of it.
type Place = (u64, usize);

/// An exploration under way.
pub(super) struct Work<'a> {
    all: &'a Exploration,
    rows: &'a [CrashRow],
    plan: Plan,
    watch: &'a dyn Watch,
    desk: Mutex<Desk>,
    /// A piece ended, or there is another one.
    changed: Condvar,
}

/// What the threads share.
struct Desk {
    rows: Vec<Line>,
    /// Pieces that are being explored.
    busy: usize,
    over: Option<Over>,
}

/// One row.
struct Line {
    /// The run that is opened next.
    next: u64,
    /// Further parts of runs that were opened.
    parts: VecDeque<(Place, Chosen)>,
    /// Cuts that were dealt.
    dealt: u64,
    /// Points that were chosen of the runs that were opened, and how many these are.
    chosen: (u64, u64),
    /// Of runs that were opened and are not added up: how many parts they have.
    opened: BTreeMap<u64, usize>,
    /// The piece that is added up next.
    turn: Place,
    /// What waits for that.
    done: BTreeMap<Place, Done>,
    /// Whether some piece was not explored to its end.
    cut_short: bool,
    survey: RowSurvey,
}

/// What came of a piece.
struct Done {
    tally: Tally,
    cases: Vec<Case>,
    whole: bool,
}

/// A piece of work.
enum Task {
    /// Lists the points of this run of this row, and explores the first part of them.
    Open(usize, u64),
    /// Explores these.
    Part(usize, Place, Chosen),
}

impl<'a> Work<'a> {
    pub fn new(
        all: &'a Exploration,
        rows: &'a [CrashRow],
        plan: Plan,
        watch: &'a dyn Watch,
    ) -> Work<'a> {
        let lines = rows.iter().map(|row| Line::of(row, plan.reach)).collect();
        let desk = Mutex::new(Desk { rows: lines, busy: 0, over: None });
        Work { all, rows, plan, watch, desk, changed: Condvar::new() }
    }

    /// Does it all; what came of each row, and why it ended if that was early.
    pub fn done(self) -> (Vec<RowSurvey>, Option<Over>) {
        if let Reach::Samples(_) | Reach::Runs(_) = self.plan.reach {
            (0..self.rows.len()).for_each(|row| self.expect(row, &self.desk().rows[row]));
        }
        #[allow(clippy::disallowed_methods, reason = "the edge: a runtime a thread")]
        std::thread::scope(|scope| {
            for _ in 1..self.plan.threads {
                scope.spawn(|| self.thread());
            }
            self.thread();
        });
        let desk = self.desk.into_inner().unwrap_or_else(PoisonError::into_inner);
        let reach = self.plan.reach;
        let rows: Vec<RowSurvey> = desk.rows.into_iter().map(|line| line.end(reach)).collect();
        // It may have ended just when it was done.
        let short = |row: &RowSurvey| matches!(row.state, RowState::NotRun | RowState::Part);
        let over = desk.over.filter(|_| rows.iter().any(short));
        (rows, over)
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, row: usize, line: &Line) {
        if let Some(cuts) = line.expected(self.plan.reach) {
            self.watch.expect(row, cuts);
        }
    }

    fn thread(&self) {
        while let Some(task) = self.take() {
            // Even if it panics, the other threads must not wait for it.
            let _ended = Ended(self);
            match task {
                Task::Open(row, run) => self.open(row, run),
                Task::Part(row, place, points) => self.explore(row, place, &points, None),
            }
        }
    }

    /// The next piece; `None` if there will be none.
    fn take(&self) -> Option<Task> {
        let mut desk = self.desk();
        loop {
            desk.over = desk.over.or_else(|| self.watch.over());
            if desk.over.is_some() {
                return None;
            }
            if let Some(task) = desk.deal(self.plan.reach) {
                desk.busy += 1;
                return Some(task);
            }
            if desk.busy == 0 {
                return None;
            }
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, row: usize, run: u64) {
        let Ok(scenario) = self.rows[row].scenario(run) else {
            unreachable!("{}, run {run}: the rows have been checked", self.rows[row].name)
        };
        let points = match scenario.points(self.all.random_times) {
            Ok(points) => chosen(points, self.plan.reach.of_run(run), scenario.seed),
            Err(found) => {
                // What fails without a cut is the only piece of its run.
                let case = Case::of(run, scenario, found);
                self.found(row, &case);
                self.desk().rows[row].open(run, 0, 1);
                let done = Done { tally: Tally::default(), cases: vec![case], whole: true };
                return self.add(row, (run, 0), done);
            }
        };
        let mut parts = points.chunks(CHUNK).map(<[_]>::to_vec).enumerate();
        let first = parts.next();
        {
            let mut desk = self.desk();
            let line = &mut desk.rows[row];
            line.open(run, points.len() as u64, points.len().div_ceil(CHUNK));
            line.parts.extend(parts.map(|(part, points)| ((run, part), points)));
            self.expect(row, line);
        }
        self.changed.notify_all();
        if let Some((_, points)) = first {
            self.explore(row, (run, 0), &points, Some(scenario));
        }
    }

    fn explore(&self, row: usize, place: Place, points: &Chosen, scenario: Option<Scenario>) {
        let Some(scenario) = scenario.or_else(|| self.rows[row].scenario(place.0).ok()) else {
            unreachable!("it has been opened")
        };
        let mut tally = Tally::default();
        let mut cases = Vec::new();
        let over = || self.watch.over().is_some();
        let along = Along { cut: &|depth| self.watch.cut(row, depth), is_over: &over };
        let nesting: Nesting = self.all.nesting;
        let explored = scenario.explore_along(points, nesting, &mut tally, &along, &mut |found| {
            let case = Case::of(place.0, scenario.clone(), found);
            self.found(row, &case);
            cases.push(case);
            !self.plan.stop_at_first && cases.len() < MOST
        });
        // (A run that fails by itself has no further points; nor does a row that is given up.)
        let whole = explored == points.len() || cases.len() >= MOST || is_of_run(cases.last());
        self.add(row, place, Done { tally, cases, whole });
    }

    fn found(&self, row: usize, case: &Case) {
        self.watch.found(row, case);
        if self.plan.stop_at_first {
            self.desk().over.get_or_insert(Over::Found);
        }
    }

    fn add(&self, row: usize, place: Place, done: Done) {
        let mut desk = self.desk();
        let line = &mut desk.rows[row];
        line.done.insert(place, done);
        line.add_up();
    }
}

/// Whether it failed without any of the cuts.
fn is_of_run(case: Option<&Case>) -> bool {
    case.is_some_and(|case| case.found.path.is_empty())
}

/// Says at its end that a piece has ended.
struct Ended<'a>(&'a Work<'a>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.desk().busy -= 1;
        self.0.changed.notify_all();
    }
}

impl Desk {
    fn deal(&mut self, reach: Reach) -> Option<Task> {
        let open = |line: &&mut Line| line.has_more(reach);
        let rows = self.rows.iter_mut().enumerate();
        let (row, line) =
            rows.filter(|(_, line)| open(line)).min_by_key(|(row, line)| (line.dealt, *row))?;
        if let Some((place, points)) = line.parts.pop_front() {
            line.dealt += points.len() as u64;
            return Some(Task::Part(row, place, points));
        }
        let run = line.next;
        line.next += 1;
        line.dealt += reach.of_run(run).unwrap_or(CHUNK as u64);
        Some(Task::Open(row, run))
    }
}

impl Line {
    fn of(row: &CrashRow, reach: Reach) -> Line {
        let asked = match reach {
            Reach::Samples(cuts) => Some(cuts),
            Reach::Runs(runs) => Some(runs * CUTS_OF_A_RUN),
            Reach::Exhaustive(_) | Reach::Endless => None,
        };
        Line {
            next: 0,
            parts: VecDeque::new(),
            dealt: 0,
            chosen: (0, 0),
            opened: BTreeMap::new(),
            turn: (0, 0),
            done: BTreeMap::new(),
            cut_short: false,
            survey: RowSurvey {
                name: row.name.clone(),
                state: RowState::NotRun,
                runs: 0,
                asked,
                tally: Tally::default(),
                cases: Vec::new(),
            },
        }
    }

    fn has_more(&self, reach: Reach) -> bool {
        let given_up = self.survey.state == RowState::GivenUp;
        !given_up && (!self.parts.is_empty() || self.next < reach.runs())
    }

    /// How many cuts its runs will have, as far as is known.
    fn expected(&self, reach: Reach) -> Option<u64> {
        let (cuts, runs) = self.chosen;
        match reach {
            Reach::Endless => None,
            // The runs that were not opened are taken to be like the others.
            Reach::Exhaustive(all) => Some(cuts + cuts / runs.max(1) * (all - runs.min(all))),
            Reach::Samples(_) | Reach::Runs(_) => {
                // A run may have fewer points than are asked for.
                let opened = (runs * CUTS_OF_A_RUN).min(self.survey.asked?);
                Some(self.survey.asked? - opened + cuts)
            }
        }
    }

    /// A run was opened: so many points, in so many parts.
    fn open(&mut self, run: u64, points: u64, parts: usize) {
        self.chosen = (self.chosen.0 + points, self.chosen.1 + 1);
        self.opened.insert(run, parts);
    }

    /// Adds up the pieces whose turn has come.
    fn add_up(&mut self) {
        while let Some(parts) = self.opened.get(&self.turn.0) {
            if self.turn.1 == *parts {
                self.opened.remove(&self.turn.0);
                self.turn = (self.turn.0 + 1, 0);
                continue;
            }
            let Some(done) = self.done.remove(&self.turn) else { return };
            self.add(self.turn, done);
            self.turn.1 += 1;
        }
    }

    fn add(&mut self, place: Place, done: Done) {
        let survey = &mut self.survey;
        if survey.state == RowState::GivenUp {
            return;
        }
        survey.tally.add(&done.tally);
        survey.runs += u64::from(place.1 == 0);
        survey.state = RowState::Part;
        self.cut_short |= !done.whole;
        survey.cases.extend(done.cases);
        if survey.cases.len() >= MOST {
            survey.cases.truncate(MOST);
            survey.state = RowState::GivenUp;
            self.parts.clear();
        }
    }

    /// What came of the row.
    fn end(mut self, reach: Reach) -> RowSurvey {
        self.add_up();
        // Pieces whose turn never came, because a piece before them was not explored.
        while let Some((place, done)) = self.done.pop_first() {
            self.add(place, done);
        }
        let (more, unopened) = (self.has_more(reach), self.opened.len());
        let survey = &mut self.survey;
        if survey.tally.all_cuts() == 0 && survey.cases.is_empty() && (more || self.cut_short) {
            survey.state = RowState::NotRun;
        } else if survey.state != RowState::GivenUp {
            let whole = !more && !self.cut_short && unopened == 0;
            survey.state = if whole { RowState::Whole } else { RowState::Part };
        }
        if let Reach::Exhaustive(runs) = reach {
            survey.asked = (self.chosen.1 == runs).then_some(self.chosen.0);
        }
        self.survey
    }
}

/// Some of the points, or all, with their places.
fn chosen(points: Vec<Point>, count: Option<u64>, seed: u64) -> Chosen {
    let mut all: Chosen = points.into_iter().enumerate().collect();
    if let Some(count) = count {
        let mut dice = Stream::new(seed, "points");
        while all.len() as u64 > count {
            all.swap_remove(dice.below(all.len() as u64) as usize);
        }
        all.sort_unstable_by_key(|p| p.0);
    }
    all
}
