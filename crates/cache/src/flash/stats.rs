//! What a cache has done and how it is.

use crate::policy::GhostCounts;

/// How the cache was found when it was opened.
///
/// See [`CacheStats`] for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartStats {
    /// It was closed: the segments had the whole directory.
    pub clean: bool,
    /// Pages found in the cache.
    pub found: u64,
    /// Segments read and whole.
    pub segments: u64,
    /// Descriptors read.
    pub descriptors: u64,
    /// Batches whose frames were read and compared.
    pub compared: u64,
    /// Frames whose entries were rebuilt from descriptors. They count as dirty.
    pub rebuilt: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// What a cache has done since it was opened, in pages where nothing else is said.
///
/// ```
/// use std::rc::Rc;
/// use tantalum_cache::flash::{DeviceStore, FlashCache, FormatOptions, NoHost, OpenOptions};
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let done = runtime.block_on(async move {
///     let device = |blocks| {
///         RamDevice::new(&rt, RamOptions::new(Caps::power_safe(blocks, Payload::Bytes)))
///     };
///     let (flash, slow) = (device(4096), DeviceStore::new(device(10_000), 4096)?);
///     FlashCache::format(&rt, &flash, &slow, &FormatOptions::default()).await?;
///     let open = || {
///         let (flash, slow) = (flash.clone(), slow.clone());
///         FlashCache::open(&rt, flash, slow, Rc::new(NoHost), OpenOptions::default())
///     };
///
///     let cache = open().await?;
///     let mut page = vec![0; 4096];
///     for lsn in 1..=3 {
///         cache.fetch(7, &mut page).await?;
///         cache.evict(7, &page, true, lsn).await?;
///     }
///     let stats = cache.stats();
///     assert_eq!((stats.fetches, stats.hits), (3, 2)); // the first one from the slow store
///     assert_eq!((stats.dirty_evictions, stats.pages), (3, 1));
///     cache.close().await?;
///
///     let restart = open().await?.stats().restart;
///     assert_eq!((restart.clean, restart.found), (true, 1));
///     Ok::<(), Box<dyn std::error::Error>>(())
/// });
/// done.unwrap().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Fetches.
    pub fetches: u64,
    /// Of these, found in the cache.
    pub hits: u64,
    /// Evictions.
    pub evictions: u64,
    /// Of these, dirty ones.
    pub dirty_evictions: u64,
    /// Evictions that were not written to flash: it had the page, had no room for a clean one, or kept
    /// it out; or pages like this one do not enter ([`OpenOptions::admit`]).
    ///
    /// [`OpenOptions::admit`]: crate::flash::OpenOptions::admit
    pub dropped: u64,
    /// Of these, clean pages of scans that were kept out ([`OpenOptions::scan`]).
    ///
    /// [`OpenOptions::scan`]: crate::flash::OpenOptions::scan
    pub kept_out: u64,
    /// Pages pulled from the pool.
    pub pulled: u64,
    /// Of these, dirty ones.
    pub pulled_dirty: u64,
    /// Pages that were forgotten, as asked for.
    pub forgotten: u64,
    /// Second chances.
    pub second_chances: u64,
    /// Pages written to the slow store.
    pub slow_writes: u64,
    /// Flushes of the slow store.
    pub slow_flushes: u64,
    /// Tries of the slow store that failed.
    pub slow_refusals: u64,
    /// Writes of batches: one for each part.
    pub batches: u64,
    /// Bytes of batches and segments written.
    pub flash_bytes: u64,
    /// Segments written.
    pub segments: u64,
    /// Damaged frames of clean pages: they were read from the slow store.
    pub repaired: u64,
    /// Damaged frames of dirty pages: an error.
    pub damaged: u64,
    /// Pages in the cache.
    pub pages: u64,
    /// Of these, dirty ones.
    pub dirty: u64,
    /// Frames in use, those with superseded versions too.
    pub used: u64,
    /// Frames of the ring.
    pub frames: u64,
    /// What its ghosts counted since it was opened, or got another size; `None`: it has none
    /// ([`OpenOptions::ghosts`]).
    ///
    /// [`OpenOptions::ghosts`]: crate::flash::OpenOptions::ghosts
    pub ghosts: Option<GhostCounts>,
    /// How the cache was found when it was opened.
    pub restart: RestartStats,
}

impl CacheStats {
    /// What twice the size would add to the share of fetches that are hits, as far as its ghosts know.
    /// It may be slightly below zero. `None`: it has no ghosts, or these saw no fetch.
    pub fn gain_of_twice(&self) -> Option<f64> {
        let counts = self.ghosts.filter(|counts| counts.fetches > 0)?;
        Some(counts.estimate().gain())
    }
}
