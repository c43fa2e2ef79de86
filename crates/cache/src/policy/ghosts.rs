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
//! 4. A frame that stays empty is one of a page that nobody asks for.

use super::config::{Config, ConfigError, Kind};
use super::contract::{Access, Exit, NoPull, Policy};
use super::guarded::Guard;
use super::page::{Lsn, PageId};
use super::work::Work;
use std::ops::Range;

/// See the module.
///
/// ```
/// use tantalum_cache::policy::{Access, Config, Exit, Ghosts, Kind, Lsn, PageId};
///
/// // Of a cache of 1,000 frames; every page is in the sample.
/// let mut ghosts = Ghosts::new(&Config::new(Kind::Gsc, 1000, 4096), 1)?;
/// // A loop over 1,500 pages: they fit in twice the frames.
/// for _ in 0..4 {
///     for page in (0..1500).map(PageId) {
///         ghosts.fetch(Access { page, client: 0 }, Lsn(1));
///         let exit = Exit { page, client: 0, lsn: Lsn(1), dirty: false, fdirty: false };
///         ghosts.evict(exit);
///     }
/// }
/// assert!(ghosts.estimate().gain() > 0.5);
/// # Ok::<(), tantalum_cache::policy::ConfigError>(())
/// ```
pub struct Ghosts {
    caches: [Box<dyn Policy>; 2],
    counts: GhostCounts,
    one_in: u64,
    /// Empty frames of the cache that are no whole one of the ghosts.
    empty: u64,
    /// Empty frames of the ghosts so far.
    blanks: u64,
    on_exit: bool,
    guard: Option<Guard>,
    work: Work,
}

/// What the ghosts counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GhostCounts {
    /// Fetches of pages in the sample.
    pub fetches: u64,
    /// Of these, hits with the cache's size.
    pub hits: u64,
    /// Of these, hits with twice its size.
    pub twice_hits: u64,
}

impl GhostCounts {
    /// The hit rates.
    pub fn estimate(&self) -> Estimate {
        let share = |hits: u64| hits as f64 / self.fetches.max(1) as f64;
        Estimate { now: share(self.hits), twice: share(self.twice_hits) }
    }
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

/// So many pages are forgotten one by one.
const FEW: u64 = 1024;
/// Pages that nobody asks for have the highest numbers, more than a cache has frames.
const BLANKS: u64 = 1 << 31;

impl Ghosts {
    /// Ghosts of a cache, of one in so many pages.
    ///
    /// # Errors
    /// The miniature caches are too small for the policy.
    pub fn new(config: &Config, one_in: u32) -> Result<Ghosts, ConfigError> {
        let frames = u64::from(config.usable_frames());
        Ghosts::of_sizes(config, [frames, 2 * frames], one_in)
    }

    /// The same, of a cache that has so many frames now, and would have so many with twice its size.
    ///
    /// # Errors
    /// As [`Ghosts::new`].
    pub(crate) fn of_sizes(
        config: &Config,
        frames: [u64; 2],
        one_in: u32,
    ) -> Result<Ghosts, ConfigError> {
        let one_in = one_in.max(1);
        let mini = |frames: u64| {
            let least = if config.kind == Kind::Gsc { 2 } else { 1 };
            let frames = u32::try_from(frames / u64::from(one_in)).unwrap_or(u32::MAX);
            let batch = (config.batch / one_in).max(least);
            Config { frames, batch, scan: None, ..config.clone() }.build()
        };
        Ok(Ghosts {
            caches: [mini(frames[0])?, mini(frames[1])?],
            counts: GhostCounts::default(),
            one_in: u64::from(one_in),
            empty: 0,
            blanks: 0,
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
        let GhostCounts { fetches, hits, twice_hits } = &mut self.counts;
        *fetches += 1;
        for (cache, hits) in self.caches.iter_mut().zip([hits, twice_hits]) {
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
        if self.is_sampled(exit.page) && admitted {
            self.put(exit);
        }
    }

    fn put(&mut self, exit: Exit) {
        for cache in &mut self.caches {
            cache.evict(exit, &mut NoPull, &mut self.work);
            end(&mut self.work, cache.as_mut());
        }
    }

    /// So many frames of the cache stay empty: a batch was written before it was full (4).
    pub(crate) fn skip(&mut self, frames: u64) {
        self.empty += frames;
        while self.empty >= self.one_in {
            self.empty -= self.one_in;
            let page = PageId(u64::MAX - self.blanks % BLANKS);
            self.blanks += 1;
            self.put(Exit { page, client: 0, lsn: Lsn(0), dirty: false, fdirty: false });
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

    /// Pages do not exist any more.
    pub(crate) fn forget_range(&mut self, pages: Range<u64>) {
        if pages.end.saturating_sub(pages.start) <= FEW {
            return pages.for_each(|page| self.forget(PageId(page)));
        }
        for cache in &mut self.caches {
            cache.forget_range(pages.clone(), &mut self.work);
            end(&mut self.work, cache.as_mut());
        }
    }

    /// What was counted since the start, or since [`Ghosts::restart`].
    pub fn counts(&self) -> GhostCounts {
        self.counts
    }

    /// What was found since then.
    pub fn estimate(&self) -> Estimate {
        self.counts.estimate()
    }

    /// Counts from zero; the ghosts stay.
    pub fn restart(&mut self) {
        self.counts = GhostCounts::default();
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
