//! The simulator: recorded page I/Os through a policy, with its work counted.
//!
//! 1. A read is a page that RAM misses. One that flash misses, too, is read from the slow store. In
//!    either case the page leaves RAM clean at once, since recordings below a pool have no clean
//!    exits.
//! 2. A write is a dirty page that leaves RAM, newer than every copy. A discard forgets the page.
//! 3. Nothing is pulled: there is no RAM to pull from.
//! 4. Each operation has ended before the next event.

mod counts;

pub use counts::Counts;

use super::config::{Config, ConfigError};
use super::contract::{Access, Exit, NoPull, Occupancy, Policy};
use super::ghosts::{Estimate, Ghosts};
use super::page::{Lsn, PageId};
use super::work::Work;

/// What was recorded of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEvent {
    /// It was read.
    Read,
    /// It was written: a dirty page left RAM.
    Write,
    /// It was discarded.
    Forget,
}

/// A recorded event of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageIo {
    /// The page.
    pub page: PageId,
    /// Who did it; 0 where the recording does not say.
    pub client: u32,
    /// What.
    pub event: PageEvent,
}

/// A policy that is replayed to.
///
/// ```
/// use tantalum_cache::policy::sim::{PageEvent, PageIo, Sim};
/// use tantalum_cache::policy::{Config, Kind, PageId};
///
/// let mut sim = Sim::new(&Config::new(Kind::Lru, 2, 8192), None)?;
/// for page in [1, 2, 1, 3, 2] {
///     sim.step(PageIo { page: PageId(page), client: 0, event: PageEvent::Read });
/// }
/// // Page 3 took the place of page 2, so only the second read of page 1 is a hit.
/// assert_eq!((sim.counts().reads, sim.counts().read_hits), (5, 1));
/// # Ok::<(), tantalum_cache::policy::ConfigError>(())
/// ```
pub struct Sim {
    policy: Box<dyn Policy>,
    ghosts: Option<Ghosts>,
    work: Work,
    counts: Counts,
    now: u64,
}

impl Sim {
    /// An empty cache; with `ghosts`, ghost entries of one in so many pages.
    ///
    /// # Errors
    /// The configuration makes no cache, or its ghosts would be too few.
    pub fn new(config: &Config, ghosts: Option<u32>) -> Result<Sim, ConfigError> {
        Ok(Sim {
            policy: config.build()?,
            ghosts: ghosts.map(|one_in| Ghosts::new(config, one_in)).transpose()?,
            work: Work::new(),
            counts: Counts::new(config.page_bytes),
            now: 0,
        })
    }

    /// Replays one event.
    pub fn step(&mut self, io: PageIo) {
        self.now += 1;
        match io.event {
            PageEvent::Read => self.read(io, Lsn(self.now)),
            PageEvent::Write => self.write(io, Lsn(self.now)),
            PageEvent::Forget => self.forget(io.page),
        }
        self.counts.carry_out(&self.work);
        self.work.copied().for_each(|version| self.policy.cleaned(version));
        self.work.clear();
    }

    fn read(&mut self, io: PageIo, lsn: Lsn) {
        let access = Access { page: io.page, client: io.client };
        self.counts.reads += 1;
        match self.policy.fetch(access, &mut self.work) {
            Some(_) => self.counts.read_hits += 1,
            None => self.policy.fetched(access, lsn, &mut self.work),
        }
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.fetch(access, lsn);
        }
        self.evict(Exit { page: io.page, client: io.client, lsn, dirty: false, fdirty: false });
    }

    fn write(&mut self, io: PageIo, lsn: Lsn) {
        self.counts.writes += 1;
        self.evict(Exit { page: io.page, client: io.client, lsn, dirty: true, fdirty: true });
    }

    fn evict(&mut self, exit: Exit) {
        self.policy.evict(exit, &mut NoPull, &mut self.work);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.evict(exit);
        }
    }

    fn forget(&mut self, page: PageId) {
        self.policy.forget(page, &mut self.work);
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.forget(page);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What is on flash now.
    pub fn occupancy(&self) -> Occupancy {
        self.policy.occupancy()
    }

    /// The bytes of flash that the policy uses.
    pub fn flash_bytes(&self) -> u64 {
        self.policy.flash_bytes()
    }

    /// What the ghosts say.
    pub fn estimate(&self) -> Option<Estimate> {
        self.ghosts.as_ref().map(Ghosts::estimate)
    }
}
