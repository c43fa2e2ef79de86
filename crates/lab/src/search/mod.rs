//! The inverse question: the least energy in capacitors with which a drive meets given limits for
//! its speed and for its start after a power loss.
//!
//! 1. Candidates are tried from those that need the least energy on, level by level; the search
//!    ends with the first level on which one meets the limits, and of those it is the fastest. No
//!    candidate that needs less meets them, except perhaps one that was left out.
//! 2. A candidate is left out if it could meet the limits only if a larger buffer or journal made a
//!    drive slower by more than [`MARGIN`], or quicker to start by more than a fifth. With `all`
//!    none is left out.
//! 3. What is found follows from the experiment and the seed alone, not from the number of
//!    threads.

mod describe;
mod grid;
mod json;
#[cfg(test)]
mod tests;
mod trial;

pub use grid::{Candidate, Choice, Keeps};

use crate::file::experiment::{Expect, Experiment, Journal, Row, Scene, Synchronous, WorkloadKind};
use crate::file::parse;
use crate::file::quick::Quick;
use crate::run::memory;
use crate::subject::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tantalum_drive::Design;
use tantalum_explore::side_by_side;
use tantalum_rt::Nanos;
use trial::{Load, Trial};

/// How much slower something larger may be, as a share of full protection.
pub const MARGIN: f64 = 0.02;

/// Candidates that are tried between two looks at what is left, at least.
const WAVE: usize = 16;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The longest time from the return of the power to a drive that takes commands.
    pub recovery: Nanos,
    /// How much fewer commands in a second than with full protection, as a share of those.
    pub slowdown: f64,
}

/// How much is spent on each candidate, and on how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Power cuts of each.
    pub cuts: u32,
    /// As much is programmed while it is measured as all dies can program in this time; and
    /// whole rounds of its journal.
    pub measured: Nanos,
    /// Whether all candidates are tried.
    pub all: bool,
}

/// A search, ready to run.
#[derive(Clone, Debug)]
pub struct Search {
    workload: String,
    base: String,
    scene: Scene,
    limits: Limits,
    effort: Effort,
    load: Load,
    reference: (Design, f64),
    grid: Vec<Candidate>,
}

/// The result of a candidate.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which.
    pub candidate: Candidate,
    /// Commands in a second.
    pub rate: f64,
    /// How much less than full protection, as a share of it; negative if more.
    pub slowdown: f64,
    /// The longest restart.
    pub recovery: Nanos,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The experiment's title.
    pub title: String,
    /// The block job.
    pub workload: String,
    /// The design around which it was searched.
    pub base: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// What was wanted.
    pub limits: Limits,
    /// Full protection: joules.
    pub reference_j: f64,
    /// Commands in a second.
    pub reference_rate: f64,
    /// The longest restart.
    pub reference_recovery: Nanos,
    /// Candidates there are.
    pub candidates: usize,
    /// Of these, left out since they could not meet the limits.
    pub left_out: usize,
    /// Those that were tried, the least energy first.
    pub tried: Vec<Tried>,
    /// Those that failed, and how.
    pub failed: Vec<(Candidate, String)>,
    /// Of the tried, those that no other one beats in energy, slowdown and restart at once.
    pub pareto: Vec<usize>,
    /// Of the tried, the one that was looked for.
    pub winner: Option<usize>,
    /// Of the tried, the one that is nearest to the limits, if none meets them.
    pub nearest: Option<usize>,
    /// The winner, or the nearest, as a design of an experiment file.
    pub toml: Option<String>,
    /// Keys of the file's `[drive]` that would change that design.
    pub conflicts: Vec<String>,
    /// Whether it was ended before all was done.
    pub interrupted: bool,
}

/// An observer of its progress. It is called from several threads.
pub trait Watch: Sync {
    /// A candidate was tried, or so many were left out.
    fn done(&self, candidates: usize);
    /// Whether to end now.
    fn is_over(&self) -> bool;
}

impl Search {
    /// A search for drives under a block job of an experiment, around a design.
    ///
    /// # Errors
    /// In a line: there is no such job or design, or it is none that can be searched.
    pub fn new(
        experiment: &Experiment,
        workload: &str,
        base: &str,
        limits: Limits,
        effort: Effort,
    ) -> Result<Search, String> {
        let scene = experiment.scene(&BTreeMap::new())?;
        let Some(job) = scene.job.get(workload) else {
            let other = experiment.trace.contains_key(workload)
                || experiment.engine.contains_key(workload)
                || experiment.tree.contains_key(workload);
            let jobs = scene.job.keys().map(String::as_str);
            return Err(match other {
                true => {
                    format!("\"{workload}\" is no [job]: designs are searched under block jobs")
                }
                false => parse::unknown("unknown workload", workload, jobs),
            });
        };
        let Model::Ssd(design) = Model::of(base, &scene)? else {
            return Err(format!("design \"{base}\": only a single SSD can be searched around"));
        };
        if !design.is_protected() {
            return Err(format!(
                "design \"{base}\" has no capacitors: search around one with cache.mode = \"protected\""
            ));
        }
        let load = Load {
            job: job.clone(),
            precondition: scene.precondition.clone(),
            seed: experiment.row_seed(workload),
            cuts: effort.cuts,
            measured: effort.measured,
        };
        let reference = grid::full_protection(&design)?;
        let grid = grid::grid(&design);
        if grid.is_empty() {
            return Err(format!("design \"{base}\": no candidate can be built around it"));
        }
        let (workload, base) = (workload.to_string(), base.to_string());
        Ok(Search { workload, base, scene, limits, effort, load, reference, grid })
    }

    /// Whether so many drives at a time fit into the machine's memory.
    ///
    /// # Errors
    /// In a line: how much is needed, and how much there is.
    pub fn check_memory(&self, experiment: &Experiment, threads: usize) -> Result<(), String> {
        let row = Row {
            name: format!("{}/{}", self.workload, self.base),
            workload: WorkloadKind::Job(self.workload.clone()),
            design: self.base.clone(),
            journal: Journal::Wal,
            synchronous: Synchronous::Full,
            expect: Expect::Promised,
            params: BTreeMap::new(),
            published: Vec::new(),
            scene: self.scene.clone(),
            quick: Quick::default(),
        };
        let at_once = threads.clamp(1, self.grid.len());
        memory::check(experiment, &vec![row; at_once], at_once)
    }

    /// All candidates, those that need the least energy first.
    pub fn candidates(&self) -> &[Candidate] {
        &self.grid
    }

    /// Searches, with so many candidates at a time.
    ///
    /// # Errors
    /// In a line: full protection cannot be run.
    pub fn run(
        &self,
        experiment: &Experiment,
        threads: usize,
        watch: &dyn Watch,
    ) -> Result<Findings, String> {
        let full = self.try_on(&self.reference.0)?;
        let (done, left_out) = (BTreeMap::new(), BTreeSet::new());
        let mut state = State { search: self, full, done, left_out, threads, watch };
        if !self.effort.all {
            state.probe();
        }
        state.in_order();
        Ok(state.findings(experiment))
    }

    fn try_on(&self, design: &Design) -> Result<Trial, String> {
        let trial = catch_unwind(AssertUnwindSafe(|| self.load.on(design)));
        trial.unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Err(format!("panicked: {}", words.unwrap_or_else(|| "no message".into())))
        })
    }
}

/// A search under way: what is known of candidates, by their places in the grid.
struct State<'a> {
    search: &'a Search,
    full: Trial,
    done: BTreeMap<usize, Result<Trial, String>>,
    left_out: BTreeSet<usize>,
    threads: usize,
    watch: &'a dyn Watch,
}

/// Candidates that differ in sizes only, and what is known of their buffers.
#[derive(Default)]
struct Family {
    members: Vec<usize>,
    /// Rising.
    buffers: Vec<u32>,
    /// So many of them are too small.
    too_small: usize,
    /// From here on they need not be tried for that; none yet if behind the last.
    enough: usize,
}

impl Family {
    /// Which buffer is tried next: the largest first, then the middle.
    fn place(&self) -> usize {
        match self.enough == self.buffers.len() {
            true => self.buffers.len() - 1,
            false => (self.too_small + self.enough) / 2,
        }
    }

    /// The largest journal with it.
    fn probe(&self, grid: &[Candidate]) -> Option<usize> {
        let buffer = self.buffers.get(self.place())?;
        let with_it =
            self.members.iter().copied().filter(|i| grid[*i].choice.buffer_kib == *buffer);
        with_it.max_by_key(|i| (grid[*i].choice.programs, grid[*i].choice.erase_abort))
    }
}

impl State<'_> {
    fn slowdown(&self, trial: &Trial) -> f64 {
        1.0 - trial.rate / self.full.rate.max(1e-9)
    }

    fn is_too_slow(&self, trial: &Trial) -> bool {
        self.slowdown(trial) > self.search.limits.slowdown + MARGIN
    }

    fn meets(&self, trial: &Trial) -> bool {
        let limits = &self.search.limits;
        trial.recovery <= limits.recovery && self.slowdown(trial) <= limits.slowdown
    }

    fn leave_out(&mut self, candidates: impl Iterator<Item = usize>) {
        let before = self.left_out.len();
        for i in candidates {
            if !self.done.contains_key(&i) {
                self.left_out.insert(i);
            }
        }
        if self.left_out.len() > before {
            self.watch.done(self.left_out.len() - before);
        }
    }

    /// Looks for the smallest buffer with which each family can be fast enough, halving: tries the
    /// largest journal with each, and leaves out what is smaller than one that is too slow.
    fn probe(&mut self) {
        let grid = &self.search.grid;
        let mut families: Vec<Family> = Vec::new();
        for (i, c) in grid.iter().enumerate() {
            match families.iter_mut().find(|f| grid[f.members[0]].choice.is_family(&c.choice)) {
                Some(family) => family.members.push(i),
                None => families.push(Family { members: vec![i], ..Family::default() }),
            }
        }
        for family in &mut families {
            let buffers = family.members.iter().map(|i| grid[*i].choice.buffer_kib);
            family.buffers = buffers.collect::<BTreeSet<u32>>().into_iter().collect();
            family.enough = family.buffers.len();
        }
        loop {
            let open = families.iter().filter(|f| f.too_small < f.enough);
            let probes: Vec<usize> = open.filter_map(|f| f.probe(grid)).collect();
            if probes.is_empty() || self.watch.is_over() {
                return;
            }
            self.try_all(&probes);
            for family in families.iter_mut().filter(|f| f.too_small < f.enough) {
                let Some(probe) = family.probe(grid) else { continue };
                let slow = matches!(self.done.get(&probe), Some(Ok(t)) if self.is_too_slow(t));
                if !slow {
                    family.enough = family.place();
                    continue;
                }
                family.too_small = family.place() + 1;
                let buffer = grid[probe].choice.buffer_kib;
                let smaller = |i: &usize| grid[*i].choice.buffer_kib <= buffer;
                self.leave_out(family.members.iter().copied().filter(smaller));
            }
        }
    }

    /// Tries level by level, up to the first with one that meets the limits.
    fn in_order(&mut self) {
        let grid = &self.search.grid;
        let mut next = 0;
        while next < grid.len() && !self.watch.is_over() {
            let mut wave = Vec::new();
            while next < grid.len() && wave.len() < WAVE {
                let level = grid[next].level();
                let end = next + grid[next..].iter().take_while(|c| c.level() == level).count();
                let hopeless: Vec<usize> = (next..end).filter(|i| self.is_hopeless(*i)).collect();
                self.leave_out(hopeless.into_iter());
                let open = |i: &usize| !self.done.contains_key(i) && !self.left_out.contains(i);
                wave.extend((next..end).filter(open));
                next = end;
            }
            self.try_all(&wave);
            let found =
                (0..next).any(|i| matches!(self.done.get(&i), Some(Ok(t)) if self.meets(t)));
            if found && !self.search.effort.all {
                return;
            }
        }
    }

    /// Whether what was tried tells that this one cannot meet the limits.
    fn is_hopeless(&self, candidate: usize) -> bool {
        if self.search.effort.all {
            return false;
        }
        let grid = &self.search.grid;
        let own = &grid[candidate].choice;
        let limit = self.search.limits.recovery.0;
        let erase = grid[candidate].design.timing.erase_us * 1_000;
        self.done.iter().any(|(i, result)| {
            let (other, Ok(trial)) = (&grid[*i].choice, result) else { return false };
            if !own.is_family(other) {
                return false;
            }
            let smaller = other.buffer_kib <= own.buffer_kib && other.programs <= own.programs;
            let same = (other.buffer_kib, other.programs) == (own.buffer_kib, own.programs);
            // Finishing an erase changes nothing under load, and spares the restart that erase.
            let spared = if own.erase_abort == other.erase_abort { 0 } else { 2 * erase };
            smaller && trial.recovery.0 > limit + limit / 5 + spared
                || same && self.is_too_slow(trial)
        })
    }

    fn try_all(&mut self, candidates: &[usize]) {
        let (search, watch) = (self.search, self.watch);
        let results = side_by_side(self.threads, &|| watch.is_over(), candidates, |i| {
            let result = search.try_on(&search.grid[*i].design);
            watch.done(1);
            result
        });
        let tried = candidates.iter().zip(results);
        self.done.extend(tried.filter_map(|(i, result)| Some((*i, result?))));
    }

    fn findings(self, experiment: &Experiment) -> Findings {
        let (search, limits) = (self.search, self.search.limits);
        let (mut tried, mut failed) = (Vec::new(), Vec::new());
        for (i, result) in &self.done {
            let candidate = search.grid[*i].clone();
            match result {
                Ok(trial) => tried.push(Tried {
                    candidate,
                    rate: trial.rate,
                    slowdown: self.slowdown(trial),
                    recovery: trial.recovery,
                }),
                Err(e) => failed.push((candidate, e.clone())),
            }
        }
        let order = |t: &Tried| (t.candidate.level(), t.recovery, t.candidate.choice);
        let winner = (0..tried.len()).filter(|i| tried[*i].meets(&limits)).min_by(|a, b| {
            let (a, b) = (&tried[*a], &tried[*b]);
            let level = a.candidate.level().cmp(&b.candidate.level());
            level.then(a.slowdown.total_cmp(&b.slowdown)).then(order(a).cmp(&order(b)))
        });
        let misses = |i: &usize| tried[*i].misses(&limits);
        let nearest = (0..tried.len()).min_by(|a, b| misses(a).total_cmp(&misses(b)));
        let nearest = if winner.is_some() { None } else { nearest };
        let told = winner.or(nearest).map(|i| &tried[i].candidate.design);
        let described = told.map(|d| describe::design(d, &search.base, &search.scene));
        let (toml, conflicts) = described.unzip();
        Findings {
            title: experiment.title.clone(),
            workload: search.workload.clone(),
            base: search.base.clone(),
            seed: experiment.seed,
            limits,
            reference_j: search.reference.1,
            reference_rate: self.full.rate,
            reference_recovery: self.full.recovery,
            candidates: search.grid.len(),
            left_out: self.left_out.len(),
            pareto: pareto(&tried),
            tried,
            failed,
            winner,
            nearest,
            toml,
            conflicts: conflicts.unwrap_or_default(),
            interrupted: self.watch.is_over(),
        }
    }
}

impl Tried {
    /// Whether it is within both limits.
    pub fn meets(&self, limits: &Limits) -> bool {
        self.recovery <= limits.recovery && self.slowdown <= limits.slowdown
    }

    /// By which factor it misses the limit that it misses most; at most 1 if it meets both.
    fn misses(&self, limits: &Limits) -> f64 {
        let recovery = self.recovery.0 as f64 / limits.recovery.0.max(1) as f64;
        let rate = (1.0 - limits.slowdown) / (1.0 - self.slowdown).max(1e-9);
        recovery.max(rate)
    }
}

/// The places of those that no other one matches everywhere and beats somewhere.
fn pareto(tried: &[Tried]) -> Vec<usize> {
    let better = |a: &Tried, b: &Tried| {
        let level = |t: &Tried| t.candidate.level();
        let as_good = level(a) <= level(b) && a.recovery <= b.recovery && a.slowdown <= b.slowdown;
        as_good && (level(a) < level(b) || a.recovery < b.recovery || a.slowdown < b.slowdown)
    };
    let best = |i: &usize| !tried.iter().any(|other| better(other, &tried[*i]));
    (0..tried.len()).filter(best).collect()
}
