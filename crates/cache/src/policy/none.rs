//! No flash cache: every fetch is a miss, and every dirty page goes to the slow store.

use super::contract::{Access, Exit, Hit, Occupancy, Policy, Pull};
use super::page::{Lsn, PageId, Version};
use super::work::{Source, Work};

/// See the module.
pub(super) struct NoCache;

impl Policy for NoCache {
    fn fetch(&mut self, _: Access, _: &mut Work) -> Option<Hit> {
        None
    }

    fn fetched(&mut self, _: Access, _: Lsn, _: &mut Work) {}

    fn evict(&mut self, exit: Exit, _: &mut dyn Pull, work: &mut Work) {
        if exit.dirty {
            work.slow_write(Version { page: exit.page, lsn: exit.lsn }, Source::Ram);
        }
    }

    fn forget(&mut self, _: PageId, _: &mut Work) {}

    fn flush(&mut self, _: &mut Work) {}

    fn clean(&mut self, _: &mut Work) {}

    fn occupancy(&self) -> Occupancy {
        Occupancy::default()
    }

    fn flash_bytes(&self) -> u64 {
        0
    }
}
