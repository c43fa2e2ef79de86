//! Protection from scans, before any policy.
//!
//! 1. Clean pages that would enter (read from the slow store, or leaving RAM clean) are looked at as
//!    one stream. A page that makes a run of consecutive pages longer than the bound does not enter.
//!    Those that are cached count, too: a scan passes them.
//! 2. Dirty pages always enter: a scan does not write.
//! 3. Nothing that is cached is touched: a version that is not admitted leaves an older copy only if
//!    that is as new.

use super::contract::{Access, Exit, Hit, Occupancy, Policy, Pull};
use super::page::{Lsn, PageId, Version};
use super::runs::Runs;
use super::work::Work;
use std::ops::Range;

/// The rule by itself.
#[derive(Clone)]
pub(crate) struct Guard {
    runs: Runs,
    longest: u64,
}

impl Guard {
    /// Runs of up to `longest` pages enter.
    pub fn new(longest: u32) -> Guard {
        Guard { runs: Runs::default(), longest: u64::from(longest) }
    }

    /// Whether a clean page may enter.
    pub fn admits(&mut self, page: PageId) -> bool {
        self.runs.take(page) <= self.longest
    }

    /// Clean pages side by side, one after the other. Those that may enter are the first ones, since
    /// each makes the run of the one before longer. Returns where they end.
    pub fn admits_of(&mut self, pages: Range<u64>) -> u64 {
        let first = pages.start;
        first + pages.filter(|page| self.admits(PageId(*page))).count() as u64
    }
}

/// See the module.
pub(super) struct Guarded {
    policy: Box<dyn Policy>,
    /// One for each of the two ways in, since a page goes both.
    entries: Guard,
    exits: Guard,
}

impl Guarded {
    pub fn new(policy: Box<dyn Policy>, longest: u32) -> Guarded {
        Guarded { policy, entries: Guard::new(longest), exits: Guard::new(longest) }
    }
}

impl Policy for Guarded {
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit> {
        self.policy.fetch(access, work)
    }

    fn fetched(&mut self, access: Access, lsn: Lsn, work: &mut Work) {
        if self.entries.admits(access.page) {
            self.policy.fetched(access, lsn, work);
        }
    }

    fn evict(&mut self, exit: Exit, pull: &mut dyn Pull, work: &mut Work) {
        let clean = !exit.dirty && !exit.fdirty;
        if !clean || self.exits.admits(exit.page) {
            let mut pull = Pulled { pull, guard: &mut self.exits };
            self.policy.evict(exit, &mut pull, work);
        }
    }

    fn forget(&mut self, page: PageId, work: &mut Work) {
        self.policy.forget(page, work);
    }

    fn flush(&mut self, work: &mut Work) {
        self.policy.flush(work);
    }

    fn clean(&mut self, work: &mut Work) {
        self.policy.clean(work);
    }

    fn cleaned(&mut self, version: Version) {
        self.policy.cleaned(version);
    }

    fn occupancy(&self) -> Occupancy {
        self.policy.occupancy()
    }

    fn flash_bytes(&self) -> u64 {
        self.policy.flash_bytes()
    }
}

/// Pulled pages pass the same rule: those that do not are dropped, and the next one is pulled.
struct Pulled<'a> {
    pull: &'a mut dyn Pull,
    guard: &'a mut Guard,
}

/// How many pages of a scan a pull drops at most before it gives up.
const DROPPED_MAX: usize = 1024;

impl Pull for Pulled<'_> {
    fn pull(&mut self) -> Option<Exit> {
        for _ in 0..DROPPED_MAX {
            let exit = self.pull.pull()?;
            if exit.dirty || exit.fdirty || self.guard.admits(exit.page) {
                return Some(exit);
            }
        }
        None
    }
}
