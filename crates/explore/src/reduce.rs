//! From a case that fails to the shortest list of commands that still fails.
//!
//! 1. What is given back has failed when it was tried last, with the cuts that it names.
//! 2. Commands that are dropped move all that comes after them, the point of the cut too: a
//!    shorter list counts if it fails at any of its points.
//! 3. It ends after so many cuts, with the shortest list so far.
//!
//! Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (TSE
//! 2002), from which the way of dropping parts is.

use crate::any::AnyBlueprint;
use crate::command::Command;
use crate::failure::Stage;
use crate::scenario::{Found, Nesting, Scenario, Tally};
use crate::subject::Blueprint;
use std::fmt::Write;

/// Points of each recovery that are tried, if the case is one of cut recoveries.
const INNER: u32 = 12;

/// Within this distance of the likely point of failure all points are tried. Of the others one in
/// so many is.
const NEAR: usize = 40;
const STEP: usize = 12;

/// A case that fails, as short as it could be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced<B = AnyBlueprint> {
    /// The scenario.
    pub scenario: Scenario<B>,
    /// How it fails.
    pub found: Found,
    /// Scenarios that were tried.
    pub tries: u32,
}

/// Shortens a case that failed. `cuts`: how many may be spent on it.
pub fn reduce<B: Blueprint>(scenario: &Scenario<B>, found: &Found, cuts: u64) -> Reduced<B> {
    reduce_until(scenario, found, cuts, &|| false)
}

/// The same, ended earlier if `is_over` says so.
pub(super) fn reduce_until<B: Blueprint>(
    scenario: &Scenario<B>,
    found: &Found,
    cuts: u64,
    is_over: &dyn Fn() -> bool,
) -> Reduced<B> {
    let best = Reduced { scenario: scenario.clone(), found: found.clone(), tries: 0 };
    let mut search = Search { best, left: cuts, from_end: 0, is_over };
    search.fewer_cuts();
    search.shorter_then();
    loop {
        let before = search.best.scenario.clone();
        search.drop_parts(of_commands);
        search.smaller_commands();
        search.fewer_hosts();
        search.fewer_cuts();
        search.shorter_then();
        if search.left == 0 || search.best.scenario == before {
            return search.best;
        }
    }
}

/// One of a scenario's lists.
type List<B> = fn(&mut Scenario<B>) -> &mut Vec<Command>;

fn of_commands<B>(scenario: &mut Scenario<B>) -> &mut Vec<Command> {
    &mut scenario.commands
}

fn of_then<B>(scenario: &mut Scenario<B>) -> &mut Vec<Command> {
    &mut scenario.then
}

struct Search<'a, B> {
    best: Reduced<B>,
    left: u64,
    /// How many points of the run come after the one at which it failed.
    from_end: usize,
    is_over: &'a dyn Fn() -> bool,
}

impl<B: Blueprint> Search<'_, B> {
    /// Whether this fails; if so it is the best from now on.
    fn fails(&mut self, candidate: Scenario<B>) -> bool {
        if (self.is_over)() {
            self.left = 0;
        }
        if self.left == 0 {
            return false;
        }
        self.best.tries += 1;
        match self.look(&candidate) {
            Ok(()) => false,
            Err(found) => {
                self.best.scenario = candidate;
                self.best.found = found;
                true
            }
        }
    }

    fn look(&mut self, candidate: &Scenario<B>) -> Result<(), Found> {
        let cuts = &self.best.found.cuts;
        self.left = self.left.saturating_sub(1 + cuts.len() as u64);
        candidate.cut(cuts)?;
        if cuts.is_empty() {
            return Ok(());
        }
        let depth = cuts.len() as u32 - 1;
        let nesting = Nesting { depth, inner: INNER, stride: 1 };
        let points: Vec<_> = candidate.points(0)?.into_iter().enumerate().collect();
        // Points about as far from the end as before, and some of all others.
        let likely = points.len().saturating_sub(self.from_end);
        let near = |place: usize| place.abs_diff(likely) <= NEAR;
        let (near, far): (Vec<_>, Vec<_>) = points.iter().partition(|p| near(p.0));
        let far = far.into_iter().step_by(STEP).collect();
        for part in [near, far] {
            let mut tally = Tally::default();
            let found = candidate.explore(&part, nesting, &mut tally, &|| ());
            self.left = self.left.saturating_sub(tally.all_cuts());
            if let Err(found) = found {
                let place = found.path.first().copied().unwrap_or(points.len());
                self.from_end = points.len() - place;
                return Err(found);
            }
        }
        Ok(())
    }

    /// Whether it fails with fewer of its cuts.
    fn fewer_cuts(&mut self) {
        for count in 0..self.best.found.cuts.len() {
            self.best.tries += 1;
            let cuts = &self.best.found.cuts[..count];
            if let Err(found) = self.best.scenario.cut(cuts) {
                self.best.found = found;
                return;
            }
        }
    }

    /// What comes after the recovery matters only if it was reached.
    fn shorter_then(&mut self) {
        match self.best.found.stage {
            Stage::Run | Stage::Dying | Stage::Recovery => {
                let mut candidate = self.best.scenario.clone();
                if !std::mem::take(&mut candidate.then).is_empty() {
                    self.fails(candidate);
                }
            }
            Stage::Then | Stage::Again => self.drop_parts(of_then),
        }
    }

    /// Drops ever smaller parts of a list, as long as it goes on to fail.
    fn drop_parts(&mut self, list: List<B>) {
        let mut part = list(&mut self.best.scenario.clone()).len().div_ceil(2);
        while part > 0 && self.left > 0 {
            let mut end = list(&mut self.best.scenario.clone()).len();
            let mut dropped = false;
            while end > 0 {
                let start = end.saturating_sub(part);
                let mut candidate = self.best.scenario.clone();
                let all = list(&mut candidate);
                end = end.min(all.len());
                all.drain(start.min(end)..end);
                dropped |= self.fails(candidate);
                end = start;
            }
            if !dropped || part > 1 {
                part /= 2;
            }
        }
    }

    /// Makes each command that names blocks as small as it can be.
    fn smaller_commands(&mut self) {
        for list in [of_commands as List<B>, of_then] {
            for i in 0..list(&mut self.best.scenario.clone()).len() {
                let command = list(&mut self.best.scenario.clone())[i];
                let own = command.blocks().map_or(0, |b| b.count);
                for count in [1, 2, own / 2] {
                    let Some(shorter) = command.shorter(count) else { continue };
                    let mut candidate = self.best.scenario.clone();
                    list(&mut candidate)[i] = shorter;
                    if self.fails(candidate) {
                        break;
                    }
                }
            }
        }
    }

    fn fewer_hosts(&mut self) {
        for hosts in 1..self.best.scenario.hosts {
            let candidate = Scenario { hosts, ..self.best.scenario.clone() };
            if self.fails(candidate) {
                return;
            }
        }
    }
}

impl<B: Blueprint> Reduced<B> {
    /// The case as a test, to be pasted into a file of tests.
    pub fn to_test(&self) -> String {
        let Scenario { subject, seed, hosts, commands, then, faults } = &self.scenario;
        let mut out = String::new();
        let list = |commands: &[Command]| {
            let lines: String = commands.iter().map(|c| format!("            {c},\n")).collect();
            if lines.is_empty() { "vec![]".to_string() } else { format!("vec![\n{lines}        ]") }
        };
        let cuts: Vec<_> = self.found.cuts.iter().map(|at| format!("Nanos({})", at.0)).collect();
        let told = format!("{}: {}", self.found.stage, self.found.failure).replace('\n', " ");
        let name = subject.name().replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_lowercase();
        let imports = match (commands.is_empty(), then.is_empty()) {
            (true, true) => "Scenario",
            _ => "{Command, Scenario}",
        };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "/// Found by the crash explorer, {told}\n\
             #[test]\n\
             fn {name}_survives_these_cuts() {{\n    \
                 use tantalum_explore::{imports};\n    \
                 use tantalum_rt::Nanos;\n    \
                 let subject = {};\n    \
                 let scenario = Scenario {{\n        \
                     subject,\n        \
                     seed: {seed},\n        \
                     hosts: {hosts},\n        \
                     commands: {},\n        \
                     then: {},\n        \
                     faults: {faults},\n    \
                 }};\n    \
                 let cuts: [Nanos; {}] = [{}];\n    \
                 let found = scenario.cut(&cuts);\n    \
                 assert!(found.is_ok(), \"{{found:?}}\");\n\
             }}\n",
            subject.to_rust(),
            list(commands),
            list(then),
            cuts.len(),
            cuts.join(", "),
        );
        out
    }
}
