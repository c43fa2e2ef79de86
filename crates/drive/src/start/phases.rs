//! The times of the restarts of a drive, phase by phase.

use crate::start::report::RecoveryReport;
use tantalum_rt::Nanos;

/// Phases of a restart, in the order in which they come. Those up to `mark` come before the
/// first command; of a drive that takes commands early, the others come after it.
pub const PHASES: [&str; 10] =
    ["find", "dump", "areas", "mark", "ready", "units", "map", "space", "whole", "journal"];

/// A phase of several restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// All of them together.
    pub sum: Nanos,
    /// The longest.
    pub max: Nanos,
}

/// The restarts of a drive that got to taking commands. The very first start does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// How many.
    pub count: u64,
    /// Of these, with commands taken before all was known.
    pub early: u64,
    /// Restarts that were finished to the end, and not cut before.
    pub finished: u64,
    /// By the names in [`PHASES`]: looking for the dump; reading it, and what its journal names;
    /// erasing the next dump area; marking that a dump is due; all up to the first command; the
    /// first pages of the units; the map log; the ends of open units; all of it; and of `dump`,
    /// what the journal names.
    pub phases: [Phase; PHASES.len()],
}

impl RecoveryReport {
    /// What each phase of [`PHASES`] took.
    pub fn phases(&self) -> [Nanos; PHASES.len()] {
        [
            self.find,
            self.dump_replay,
            self.areas,
            self.mark,
            self.total,
            self.scan,
            self.map_load,
            self.space,
            self.whole,
            self.scanned,
        ]
    }
}

impl Recoveries {
    /// One more, finished or cut.
    pub(crate) fn add(&mut self, r: &RecoveryReport) {
        self.count += 1;
        self.early += u64::from(r.early);
        self.finished += u64::from(r.whole > Nanos::ZERO);
        for (phase, took) in self.phases.iter_mut().zip(r.phases()) {
            phase.sum += took;
            phase.max = phase.max.max(took);
        }
    }

    /// These and those.
    pub fn with(mut self, other: &Recoveries) -> Recoveries {
        self.count += other.count;
        self.early += other.early;
        self.finished += other.finished;
        for (phase, more) in self.phases.iter_mut().zip(&other.phases) {
            phase.sum += more.sum;
            phase.max = phase.max.max(more.max);
        }
        self
    }
}
