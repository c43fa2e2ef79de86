//! A scenario: a subject and what is done to it; and its way forward, along which it is cut.

pub(crate) mod dive;

use crate::any::AnyBlueprint;
use crate::command::Command;
use crate::failure::{Failure, Stage};
use crate::play::Player;
use crate::points::{Moment, Point, Points};
use crate::scenario::dive::{Dive, Nested};
use crate::subject::{Blueprint, Subject};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use tantalum_rt::{Nanos, Runtime, Stream};

/// All that decides what happens until the power is cut, and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario<B = AnyBlueprint> {
    /// What it is done to.
    pub subject: B,
    /// Of the run, and of what each cut makes of operations in flight.
    pub seed: u64,
    /// Hosts that send the commands side by side.
    pub hosts: u32,
    /// What is done, from the first power-on on.
    pub commands: Vec<Command>,
    /// What is done after each recovery; the last quarter of it is cut again.
    pub then: Vec<Command>,
    /// Failures of media that may come in dumps and recoveries, beside those that
    /// the commands order.
    pub faults: u32,
}

/// How deep recoveries are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nesting {
    /// So many cuts, each in the recovery from the one before.
    pub depth: u32,
    /// So many points of each recovery, chosen at random; 0: all there are.
    pub inner: u32,
    /// The recovery is cut only for one in so many cuts; 0 and 1: for each.
    pub stride: u32,
}

/// What an exploration did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cuts of runs, by what they hit.
    pub cuts: BTreeMap<Moment, u64>,
    /// Cuts of recoveries, by depth: of recoveries, of recoveries of recoveries, …
    pub nested: Vec<u64>,
    /// Cuts while the power was failing already: they change nothing.
    pub void: u64,
    /// Recoveries that were checked, those after the work that follows included: cut-and-
    /// recover cycles.
    pub cycles: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        for (moment, count) in &other.cuts {
            *self.cuts.entry(*moment).or_default() += count;
        }
        self.nested.resize(self.nested.len().max(other.nested.len()), 0);
        for (sum, count) in self.nested.iter_mut().zip(&other.nested) {
            *sum += count;
        }
        self.void += other.void;
        self.cycles += other.cycles;
    }

    /// Cuts that were explored, nested ones included.
    pub fn all_cuts(&self) -> u64 {
        self.cuts.values().sum::<u64>() + self.nested.iter().sum::<u64>()
    }
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The cuts that lead to it: the first in time of the run, each further one in time since
    /// the restart before it. None, if the run failed by itself.
    pub cuts: Vec<Nanos>,
    /// The same as places among the points of the run, and of each recovery.
    pub path: Vec<usize>,
    /// When.
    pub stage: Stage,
    /// What.
    pub failure: Failure,
}

/// What an exploration calls on its way.
pub(super) struct Along<'a> {
    /// Called after each cut with its depth: 0, a cut of the run; 1, of its recovery; …
    pub cut: &'a dyn Fn(usize),
    /// Whether to end before the next cut.
    pub is_over: &'a dyn Fn() -> bool,
}

/// A run on its way forward.
struct Forward<S: Subject> {
    runtime: Runtime,
    player: Player<S>,
    ended: tantalum_rt::Join<Result<(), Failure>>,
}

impl<B: Blueprint> Scenario<B> {
    fn forward(&self, listen: bool) -> Result<Forward<B::Subject>, Found> {
        let runtime = Runtime::virtual_time(self.seed);
        let rt = runtime.handle();
        let subject = match self.subject.build(&rt) {
            Ok(subject) => subject,
            Err(error) => return Err(in_run(Failure::Start(error))),
        };
        let judge = subject.judge();
        let mut player = Player::new(&rt, subject, judge, self.hosts.max(1));
        if listen {
            player.subject.record_operations();
            player.heard = Some(Rc::default());
        }
        let ended = rt.spawn("the run", player.clone().run(Rc::from(&self.commands[..])));
        Ok(Forward { runtime, player, ended })
    }

    /// Every point of the run at which to cut, and `random` more at random times.
    ///
    /// # Errors
    /// If the run fails without any cut.
    pub fn points(&self, random: u32) -> Result<Vec<Point>, Found> {
        caught(|| {
            let Forward { mut runtime, player, ended } = self.forward(true)?;
            let rt = runtime.handle();
            let main = async move {
                match ended.await {
                    Ok(ended) => ended.map(|()| rt.now()),
                    Err(_) => unreachable!("the run is in no power domain"),
                }
            };
            let end = runtime.block_on(main).map_err(|e| in_run(e.into()))?.map_err(in_run)?;
            let mut points = Points::default();
            points.add_ops(&player.subject.take_operations());
            points.add_host(player.heard.iter().flat_map(|h| h.borrow().clone()));
            points.add_random(&mut Stream::new(self.seed, "random cuts"), random, end);
            Ok(points.since(Nanos::ZERO))
        })
    }

    /// Plays the run without any cut, and gives what `look` says of the subject then.
    ///
    /// # Errors
    /// If the run fails.
    pub fn run<T>(&self, look: impl FnOnce(&B::Subject) -> T) -> Result<T, Found> {
        caught(|| {
            let Forward { mut runtime, player, ended } = self.forward(false)?;
            let ended = runtime.block_on(ended).map_err(|e| in_run(e.into()))?;
            match ended {
                Ok(ended) => ended.map(|()| look(&player.subject)).map_err(in_run),
                Err(_) => unreachable!("the run is in no power domain"),
            }
        })
    }

    /// Cuts at these points, in order of time (with their places among all of the run), and
    /// in the recoveries from them. `tick` is told of each.
    ///
    /// # Errors
    /// The first thing that is not as it should be.
    pub fn explore(
        &self,
        points: &[(usize, Point)],
        nesting: Nesting,
        tally: &mut Tally,
        tick: &dyn Fn(),
    ) -> Result<(), Found> {
        let along = Along { cut: &|_| tick(), is_over: &|| false };
        let mut first = None;
        self.explore_along(points, nesting, tally, &along, &mut |found| {
            first = Some(found);
            false
        });
        first.map_or(Ok(()), Err)
    }

    /// The same, until it is over or `found` wants no more: `found` is given what each cut of
    /// the run (with the cuts below it) shows first, and says whether to go on. Gives how many
    /// of the points were explored.
    pub(super) fn explore_along(
        &self,
        points: &[(usize, Point)],
        nesting: Nesting,
        tally: &mut Tally,
        along: &Along<'_>,
        found: &mut dyn FnMut(Found) -> bool,
    ) -> usize {
        let mut explored = 0;
        let nested = Nested::Search(nesting);
        let ended = self.down(points, &nested, tally, along, &mut |below| {
            explored += 1;
            below.err().is_none_or(&mut *found)
        });
        if let Err(in_run) = ended {
            found(in_run);
        }
        explored
    }

    /// Cuts at these times and no others: see [`Found::cuts`].
    ///
    /// # Errors
    /// What is not as it should be.
    pub fn cut(&self, cuts: &[Nanos]) -> Result<(), Found> {
        let point = |at: &Nanos| (0, Point { at: *at, moment: Moment::Random });
        let first: Vec<_> = cuts.first().map(point).into_iter().collect();
        let rest = Nested::Route(cuts.get(1..).unwrap_or(&[]));
        if first.is_empty() {
            return self.points(0).map(drop);
        }
        self.first(&first, &rest)
    }

    /// The same along a path of places among points: see [`Found::path`].
    ///
    /// # Errors
    /// What is not as it should be.
    pub fn follow(&self, random: u32, path: &[usize]) -> Result<(), Found> {
        let points = self.points(random)?;
        let Some((first, rest)) = path.split_first() else { return Ok(()) };
        let Some(point) = points.get(*first) else { return Ok(()) };
        self.first(&[(*first, *point)], &Nested::Path(rest))
    }

    /// Cuts at these points, until something is found.
    fn first(&self, points: &[(usize, Point)], nested: &Nested<'_>) -> Result<(), Found> {
        let along = Along { cut: &|_| (), is_over: &|| false };
        let mut first = Ok(());
        self.down(points, nested, &mut Tally::default(), &along, &mut |below| {
            first = below;
            first.is_ok()
        })?;
        first
    }

    /// Goes forward, and gives `each` what came of the cut at each point, until it wants no more.
    fn down(
        &self,
        points: &[(usize, Point)],
        nested: &Nested<'_>,
        tally: &mut Tally,
        along: &Along<'_>,
        each: &mut dyn FnMut(Result<(), Found>) -> bool,
    ) -> Result<(), Found> {
        let tally = RefCell::new(tally);
        caught(|| {
            let Forward { mut runtime, player, ended } = self.forward(false)?;
            let dive = Dive::new(self, &tally, along);
            for (place, point) in points {
                if (along.is_over)() {
                    break;
                }
                runtime.run_until(point.at).map_err(|e| in_run(e.into()))?;
                if let Some(Err(failure)) = ended.take() {
                    return Err(in_run(failure));
                }
                *tally.borrow_mut().cuts.entry(point.moment).or_default() += 1;
                let below = dive.cut(&player, self.seed, point.at, nested, *place as u64);
                (along.cut)(0);
                if !each(below.map_err(|found| found.below(point.at, *place))) {
                    break;
                }
            }
            Ok(())
        })
    }
}

impl Found {
    /// The same finding, with the cut in front of its path under which it was found.
    pub(super) fn below(mut self, at: Nanos, place: usize) -> Found {
        self.cuts.insert(0, at);
        self.path.insert(0, place);
        self
    }

    pub(super) fn new(stage: Stage, failure: Failure) -> Found {
        Found { cuts: Vec::new(), path: Vec::new(), stage, failure }
    }
}

fn in_run(failure: Failure) -> Found {
    Found::new(Stage::Run, failure)
}

/// A panic is something that was found, too.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, Found>) -> Result<T, Found> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(in_run(Failure::Panic(text.unwrap_or("an assertion failed").to_string())))
    })
}
