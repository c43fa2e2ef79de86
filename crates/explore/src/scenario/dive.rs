//! One cut and what comes of it, in a runtime of its own; and the cuts of its recovery.

use crate::command::Command;
use crate::failure::{Failure, Stage};
use crate::play::Player;
use crate::points::{Point, Points};
use crate::scenario::{Along, Found, Nesting, Scenario, Tally, caught};
use crate::subject::{Blueprint, Fault, Judge, Subject};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_rt::{Nanos, Runtime, Stream, mix64};

/// Which points of recoveries are cut.
#[derive(Clone, Copy)]
pub(super) enum Nested<'a> {
    /// Chosen at random, as many as this says.
    Search(Nesting),
    /// These times, each in the recovery from the one before.
    Route(&'a [Nanos]),
    /// These places, each in the recovery from the one before.
    Path(&'a [usize]),
}

impl<'a> Nested<'a> {
    /// Whether the recovery from the `place`-th cut is cut.
    fn goes_on(&self, place: u64) -> bool {
        match self {
            Nested::Search(n) => n.depth > 0 && place.is_multiple_of(n.stride.max(1).into()),
            Nested::Route(times) => !times.is_empty(),
            Nested::Path(places) => !places.is_empty(),
        }
    }

    /// Which of these points are cut, and which points of the recoveries from them.
    fn choose(&self, all: &[Point], seed: u64) -> (Vec<(usize, Point)>, Nested<'a>) {
        let every = || all.iter().copied().enumerate();
        match *self {
            Nested::Search(n) => {
                let below = Nested::Search(Nesting { depth: n.depth - 1, stride: 1, ..n });
                if n.inner == 0 || n.inner as usize >= all.len() {
                    return (every().collect(), below);
                }
                let mut dice = Stream::new(seed, "cuts of a recovery");
                let mut places: Vec<usize> =
                    (0..n.inner).map(|_| dice.below(all.len() as u64) as usize).collect();
                places.sort_unstable();
                places.dedup();
                (places.into_iter().map(|i| (i, all[i])).collect(), below)
            }
            Nested::Route(times) => {
                let moment = crate::Moment::Random;
                let first = times.iter().take(1).map(|at| (0, Point { at: *at, moment }));
                (first.collect(), Nested::Route(times.get(1..).unwrap_or(&[])))
            }
            Nested::Path(places) => {
                let first = places.iter().take(1).filter_map(|p| Some((*p, *all.get(*p)?)));
                (first.collect(), Nested::Path(places.get(1..).unwrap_or(&[])))
            }
        }
    }
}

/// One of the cuts.
#[derive(Clone, Copy)]
struct Cut<'a> {
    seed: u64,
    /// What is cut of the recovery from it.
    nested: &'a Nested<'a>,
    /// Its place among the points of what is cut.
    place: u64,
    /// The number of cuts above it, each in the recovery from the one before.
    depth: usize,
}

/// What all cuts of a run share.
pub(super) struct Dive<'a, B> {
    scenario: &'a Scenario<B>,
    tally: &'a RefCell<&'a mut Tally>,
    along: &'a Along<'a>,
    then: Rc<[Command]>,
    last: Rc<[Command]>,
    /// Within so much time the last commands are cut.
    last_cut: Nanos,
}

impl<'a, B: Blueprint> Dive<'a, B> {
    pub fn new(
        scenario: &'a Scenario<B>,
        tally: &'a RefCell<&'a mut Tally>,
        along: &'a Along<'a>,
    ) -> Dive<'a, B> {
        let (then, last) = scenario.then.split_at((scenario.then.len() * 3).div_ceil(4));
        // Without power cycles, since a cut while the power is off changes nothing.
        let last: Vec<Command> = last.iter().copied().filter(|c| *c != Command::Cycle).collect();
        let (then, last, last_cut) = (Rc::from(then), Rc::from(last), scenario.subject.step() * 3);
        Dive { scenario, tally, along, then, last, last_cut }
    }

    /// Cuts the power at this moment of a run (or recovery) that began with `seed`.
    pub fn cut(
        &self,
        player: &Player<B::Subject>,
        seed: u64,
        at: Nanos,
        nested: &Nested<'_>,
        place: u64,
    ) -> Result<(), Found> {
        let seed = mix64(seed ^ mix64(at.0));
        self.cut_below(player, Cut { seed, nested, place, depth: 0 })
    }

    fn cut_below(&self, player: &Player<B::Subject>, cut: Cut<'_>) -> Result<(), Found> {
        let mut stage = Stage::Dying;
        let result = caught(|| self.dive(player, cut, &mut stage));
        result.map_err(|mut found| {
            if found.stage == Stage::Run {
                found.stage = stage;
            }
            found
        })
    }

    fn dive(
        &self,
        player: &Player<B::Subject>,
        cut: Cut<'_>,
        stage: &mut Stage,
    ) -> Result<(), Found> {
        let Cut { seed, nested, place, depth } = cut;
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let Some(subject) = player.subject.cut_copy(&rt) else {
            self.tally.borrow_mut().void += 1;
            return Ok(());
        };
        let copy = Player::new(&rt, subject, player.judge.fork(), player.hosts);
        let mut dice = Stream::new(seed, "after a cut");
        self.order_faults(&copy, &mut dice, depth);
        ends(&mut runtime, copy.clone().off(), *stage)?;

        *stage = Stage::Recovery;
        let below = nested.goes_on(place).then(|| {
            let runtime = Runtime::virtual_time(seed);
            let subject = copy.subject.cut_copy(&runtime.handle());
            (subject.expect("what is off is not dying"), runtime)
        });
        if below.is_some() {
            copy.subject.record_operations();
        }
        let (began, starting) = (rt.now(), copy.clone());
        // (The rest of a start that goes on while commands are taken is cut, too.)
        let settles = below.is_some();
        let start = async move {
            starting.start().await?;
            if settles { starting.settle().await } else { Ok(()) }
        };
        ends(&mut runtime, start, *stage)?;
        let ops = copy.subject.take_operations();
        let again = copy.clone();
        ends(&mut runtime, async move { again.examine().await }, *stage)?;
        self.tally.borrow_mut().cycles += 1;
        copy.subject.fail_nothing();
        self.work_on(&mut runtime, copy, &mut dice, stage)?;

        let Some((subject, runtime)) = below else { return Ok(()) };
        *stage = Stage::Recovery;
        let mut points = Points::default();
        points.add_ops(&ops);
        let (points, nested) = nested.choose(&points.since(began), seed);
        let rt = runtime.handle();
        let copy = Player::new(&rt, subject, player.judge.fork(), player.hosts);
        self.cut_recovery(runtime, &copy, &points, Cut { nested: &nested, ..cut }, *stage)
    }

    /// The work after a recovery, and one more cut.
    fn work_on(
        &self,
        runtime: &mut Runtime,
        copy: Player<B::Subject>,
        dice: &mut Stream,
        stage: &mut Stage,
    ) -> Result<(), Found> {
        *stage = Stage::Then;
        let cut = Nanos(dice.below(self.last_cut.0 + 1));
        let going_on = copy.go_on(self.then.clone(), self.last.clone(), cut);
        match runtime.block_on(going_on) {
            Ok(Ok(())) => {
                self.tally.borrow_mut().cycles += 1;
                Ok(())
            }
            Ok(Err((again, failure))) => {
                let stage = if again { Stage::Again } else { Stage::Then };
                Err(Found::new(stage, failure))
            }
            Err(e) => Err(Found::new(*stage, e.into())),
        }
    }

    /// Repeats a recovery, and cuts it at these points.
    fn cut_recovery(
        &self,
        mut runtime: Runtime,
        copy: &Player<B::Subject>,
        points: &[(usize, Point)],
        of: Cut<'_>,
        stage: Stage,
    ) -> Result<(), Found> {
        let depth = of.depth;
        let starting = copy.clone();
        let start = async move { starting.start().await };
        let started = runtime.handle().spawn("a start", start);
        for (place, point) in points.iter().copied() {
            if (self.along.is_over)() {
                break;
            }
            runtime.run_until(point.at).map_err(|e| Found::new(stage, e.into()))?;
            {
                let mut tally = self.tally.borrow_mut();
                let depths = tally.nested.len().max(depth + 1);
                tally.nested.resize(depths, 0);
                tally.nested[depth] += 1;
            }
            let seed = mix64(of.seed ^ mix64(point.at.0));
            let cut = Cut { seed, place: place as u64, depth: depth + 1, ..of };
            let found = self.cut_below(copy, cut);
            (self.along.cut)(depth + 1);
            found.map_err(|found| found.below(point.at, place))?;
        }
        drop(started);
        Ok(())
    }

    /// Now and then orders a failure in a dump or a recovery, as far as faults are left.
    fn order_faults(&self, copy: &Player<B::Subject>, dice: &mut Stream, depth: usize) {
        let left = (self.scenario.faults as usize).saturating_sub(2 * depth);
        if left >= 1 && dice.chance(1, 3) {
            copy.subject.fail(Fault::Program, dice.below(8));
        }
        if left >= 2 && dice.chance(1, 3) {
            copy.subject.fail(Fault::Erase, dice.below(4));
        }
    }
}

/// The result of a future that cannot fail otherwise.
fn ends(
    runtime: &mut Runtime,
    future: impl Future<Output = Result<(), Failure>> + 'static,
    stage: Stage,
) -> Result<(), Found> {
    let ended = runtime.block_on(future).map_err(Failure::from).and_then(|ended| ended);
    ended.map_err(|failure| Found::new(stage, failure))
}
