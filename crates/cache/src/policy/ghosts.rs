//! Ghost entries: what the cache's own policy would hit with its size, and with twice its size.
//!
//! Two miniature caches without data see a sample of the pages (Waldspurger, Saemundsson, Ahmad,
//! Park, "Cache modeling and optimization using miniature simulations", USENIX ATC 2017): every page
//! whose hash falls into a share of one in `n`, with frames divided by `n`. One has as many frames
//! as the cache, one twice as many. The gain is the difference of the two, in which what is special
//! about the sample cancels out.
//!
//! 1. Nothing of the cache depends on its ghosts.
//! 2. **Bounded**: three times the cache's frames divided by `n`.
//! 3. A page is in the sample always or never, whatever the order of events.

use super::config::{Config, ConfigError, Kind};
use super::contract::{Access, Exit, NoPull, Policy};
use super::guarded::Guard;
use super::page::{Lsn, PageId};
use super::work::Work;

/// See the module.
pub struct Ghosts {
    caches: [Box<dyn Policy>; 2],
    hits: [u64; 2],
    fetches: u64,
    one_in: u64,
    on_exit: bool,
    guard: Option<Guard>,
    work: Work,
}

/// What the ghosts say: shares of the fetches in the sample that were hits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// With the cache's size.
    pub now: f64,
    /// With twice its size.
    pub twice: f64,
}

impl Estimate {
    /// What twice the size would add to the hit rate. May be slightly below zero.
    pub fn gain(&self) -> f64 {
        self.twice - self.now
    }
}

impl Ghosts {
    /// Ghosts of a cache, of one in so many pages.
    ///
    /// # Errors
    /// The miniature caches are too small for the policy.
    pub fn new(config: &Config, one_in: u32) -> Result<Ghosts, ConfigError> {
        let one_in = one_in.max(1);
        let mini = |times: u32| {
            let least = if config.kind == Kind::Gsc { 2 } else { 1 };
            let frames = u64::from(config.usable_frames()) * u64::from(times) / u64::from(one_in);
            let frames = u32::try_from(frames).unwrap_or(u32::MAX);
            let batch = (config.batch / one_in).max(least);
            Config { frames, batch, scan: None, ..config.clone() }.build()
        };
        Ok(Ghosts {
            caches: [mini(1)?, mini(2)?],
            hits: [0; 2],
            fetches: 0,
            one_in: u64::from(one_in),
            on_exit: config.kind.is_on_exit(),
            guard: config.scan.map(Guard::new),
            work: Work::new(),
        })
    }

    fn is_sampled(&self, page: PageId) -> bool {
        mixed(page.0).is_multiple_of(self.one_in)
    }

    /// RAM misses a page: to be told of every fetch of the cache.
    pub fn fetch(&mut self, access: Access, lsn: Lsn) {
        // On entry, a page that the cache misses would enter now.
        let admitted = self.on_exit || self.guard.as_mut().is_none_or(|g| g.admits(access.page));
        if !self.is_sampled(access.page) {
            return;
        }
        self.fetches += 1;
        for (cache, hits) in self.caches.iter_mut().zip(&mut self.hits) {
            match cache.fetch(access, &mut self.work) {
                Some(_) => *hits += 1,
                None if admitted => cache.fetched(access, lsn, &mut self.work),
                None => {}
            }
            end(&mut self.work, cache.as_mut());
        }
    }

    /// A page leaves RAM: to be told of every exit.
    pub fn evict(&mut self, exit: Exit) {
        let clean = !exit.dirty && !exit.fdirty;
        let admitted =
            !clean || !self.on_exit || self.guard.as_mut().is_none_or(|g| g.admits(exit.page));
        if !self.is_sampled(exit.page) || !admitted {
            return;
        }
        for cache in &mut self.caches {
            cache.evict(exit, &mut NoPull, &mut self.work);
            end(&mut self.work, cache.as_mut());
        }
    }

    /// A page does not exist any more.
    pub fn forget(&mut self, page: PageId) {
        if self.is_sampled(page) {
            for cache in &mut self.caches {
                cache.forget(page, &mut self.work);
                end(&mut self.work, cache.as_mut());
            }
        }
    }

    /// What was found since the start, or since [`Ghosts::restart`].
    pub fn estimate(&self) -> Estimate {
        let share = |hits: u64| hits as f64 / self.fetches.max(1) as f64;
        Estimate { now: share(self.hits[0]), twice: share(self.hits[1]) }
    }

    /// Counts from zero; the ghosts stay.
    pub fn restart(&mut self) {
        (self.hits, self.fetches) = ([0; 2], 0);
    }
}

/// Ends all work: a ghost has no devices.
fn end(work: &mut Work, cache: &mut dyn Policy) {
    work.copied().for_each(|version| cache.cleaned(version));
    work.clear();
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that mixes well.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
