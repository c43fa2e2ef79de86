//! Two traits for the stores of an engine's pages and log, so that different stores fit: a volume,
//! a cache over a slow volume, a log ring, a log over several devices.
//!
//! 1. **Pages.** Each page that leaves the pool is handed to the store, dirty or clean. From the
//!    first poll of that call on, a fetch of the page returns the version that was handed over, or
//!    a newer one.
//! 2. **Write-ahead.** The engine hands over a dirty page only after its log is durable up to the
//!    page's last change.
//! 3. **Durable.** Pages for which [`PageStore::write`] or [`PageStore::write_one`] has returned
//!    survive a power cut, as far as the host knows: without barriers it cannot know.
//! 4. **Log.** Records become durable in order. After a cut [`LogStore::recover`] says how far they
//!    reach.
//! 5. **Memory.** All state of a store in memory belongs to the power domain of its engine: a cut
//!    drops it.

use super::engine::EngineError;
use super::sequences::Written;
use super::window::LogWindow;
use super::{Change, Lsn, PageNo};
use std::rc::{Rc, Weak};
use tantalum_cache::flash::CacheStats;
use tantalum_device::IoError;
use tantalum_rt::Nanos;

/// A page and its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageVersion {
    /// The page.
    pub page: PageNo,
    /// The end of the record of its last change.
    pub lsn: Lsn,
}

/// Whether written pages stay in the pool, clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// They stay: they were written for a checkpoint.
    Stays,
    /// They leave the pool: their frames are needed.
    Leaves,
}

/// Which pages may be pulled from a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PullKind {
    /// Clean and dirty ones.
    #[default]
    Mixed,
    /// Clean ones.
    Clean,
    /// Dirty ones.
    Dirty,
    /// None.
    None,
}

/// The cold end of an engine's pool, from which a cache fills its batches.
pub trait ColdEnd {
    /// The log is durable up to here.
    fn stable(&self) -> Lsn;

    /// The coldest pages of these kinds that may leave, at most `most`, and whether each is dirty.
    /// They stay in the pool.
    fn coldest(&self, kind: PullKind, most: usize) -> Vec<(PageVersion, bool)>;

    /// A cache took this page, which may not change until it is durable.
    fn taken(&self, page: PageVersion);

    /// It is durable: the page leaves the pool.
    fn staged(&self, page: PageVersion);
}

/// Called with the index of a page in its batch when the page may be changed again, or its frame
/// reused. That may be before the page is durable.
pub type Landed = Rc<dyn Fn(usize)>;

/// The state of a page after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is whole, with this last change.
    Whole(Lsn),
    /// It was torn, and there is a whole copy with this last change.
    Copy(Lsn),
    /// It is torn or cannot be read, and there is no copy.
    Torn,
}

/// A store for pages that are not in the pool.
#[allow(async_fn_in_trait)]
pub trait PageStore: 'static {
    /// Reads a page. Returns its last change.
    ///
    /// # Errors
    /// The device's error, or that the read did not return the page.
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError>;

    /// Writes a batch of dirty pages. `landed` is called once for each. All are durable when this
    /// returns.
    ///
    /// # Errors
    /// The device's error.
    async fn write(
        &self,
        pages: &[PageVersion],
        after: After,
        landed: Landed,
    ) -> Result<(), EngineError>;

    /// Writes one dirty page that leaves the pool, for a reader that needs its frame. It is durable
    /// when this returns.
    ///
    /// # Errors
    /// The device's error.
    async fn write_one(&self, page: PageVersion) -> Result<(), EngineError>;

    /// Takes clean pages that leave the pool, as [`PageStore::fetch`] or a write had them. A store
    /// that is the pages' place has nothing to do. A cache may keep them.
    ///
    /// # Errors
    /// The device's error.
    async fn evict_clean(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        let _ = pages;
        Ok(())
    }

    /// Drops the page's content: the page will be written before it is fetched again.
    ///
    /// # Errors
    /// The device's error.
    async fn forget(&self, page: PageNo) -> Result<(), EngineError>;

    /// Prepares a checkpoint of the log at `lsn`: when this returns, a recovery finds every written
    /// page without records before `lsn`.
    ///
    /// # Errors
    /// The device's error.
    async fn checkpoint(&self, lsn: Lsn) -> Result<(), EngineError>;

    /// After a power cut: the state of each of the first `pages` pages.
    ///
    /// # Errors
    /// The device's error, except for pages that cannot be read.
    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError>;

    /// After a power cut: writes these pages over whatever is there. They are durable when this
    /// returns.
    ///
    /// # Errors
    /// The device's error.
    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError>;

    /// The engine over this store, whose cold end a cache may pull from.
    fn attach(&self, pool: Weak<dyn ColdEnd>) {
        let _ = pool;
    }

    /// A run without time, to fill a cache: RAM misses a page.
    fn warm_fetch(&self, page: PageNo) {
        let _ = page;
    }

    /// The same: pages leave the pool, dirty or clean, all of them as they were loaded. Returns
    /// whether the cache is filled, as it would be after a long run.
    ///
    /// # Errors
    /// The device's error.
    async fn warm_evict(&self, pages: &[(PageNo, bool)]) -> Result<bool, EngineError> {
        let _ = pages;
        Ok(true)
    }

    /// The cache was filled: from now on time counts.
    ///
    /// # Errors
    /// The device's error.
    async fn warm_end(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The counters of the store so far.
    fn counts(&self) -> StoreCounts;
}

/// Counters of a page store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Flushes that the device has completed.
    pub flushes: u64,
    /// Atomic groups of pages written.
    pub groups: u64,
    /// Those of a flash cache, if there is one.
    pub cache: Option<CacheCounts>,
}

/// Counters of a flash cache under an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Pages that RAM missed.
    pub fetches: u64,
    /// Of these, found in the cache.
    pub hits: u64,
    /// Dirty pages that left RAM, pulled ones too.
    pub dirty_exits: u64,
    /// Pages written to the slow store.
    pub slow_writes: u64,
    /// Write commands to the flash device, and their bytes.
    pub flash_writes: u64,
    /// See there.
    pub flash_bytes: u64,
    /// Of these commands, those that begin where the write before ended.
    pub flash_sequential: u64,
    /// Those that begin where the command before ended, which may be a read.
    pub flash_adjoining: u64,
    /// Frames in the cache.
    pub frames: u64,
    /// Frames in use, and those whose version is the newest, at present.
    pub used: u64,
    /// See there.
    pub valid: u64,
}

impl CacheCounts {
    /// What a flash cache has counted, and the writes to its flash device.
    pub fn of(cache: &CacheStats, flash: Written) -> CacheCounts {
        CacheCounts {
            fetches: cache.fetches,
            hits: cache.hits,
            dirty_exits: cache.dirty_evictions + cache.pulled_dirty,
            slow_writes: cache.slow_writes,
            frames: cache.frames,
            used: cache.used,
            valid: cache.pages,
            ..CacheCounts::default()
        }
        .on(flash)
    }

    /// The same, with these writes to the flash device.
    #[must_use]
    pub fn on(self, flash: Written) -> CacheCounts {
        CacheCounts {
            flash_writes: flash.commands,
            flash_bytes: flash.bytes,
            flash_sequential: flash.sequential,
            flash_adjoining: flash.adjoining,
            ..self
        }
    }

    /// What was counted since `before`. What is in use is as it is now.
    #[must_use]
    pub fn since(&self, before: &CacheCounts) -> CacheCounts {
        self.each(before, |now, then| now - then)
    }

    /// Both together. What is in use is as it is here.
    #[must_use]
    pub fn and(&self, other: &CacheCounts) -> CacheCounts {
        self.each(other, |a, b| a + b)
    }

    fn each(&self, other: &CacheCounts, of: impl Fn(u64, u64) -> u64) -> CacheCounts {
        CacheCounts {
            fetches: of(self.fetches, other.fetches),
            hits: of(self.hits, other.hits),
            dirty_exits: of(self.dirty_exits, other.dirty_exits),
            slow_writes: of(self.slow_writes, other.slow_writes),
            flash_writes: of(self.flash_writes, other.flash_writes),
            flash_bytes: of(self.flash_bytes, other.flash_bytes),
            flash_sequential: of(self.flash_sequential, other.flash_sequential),
            flash_adjoining: of(self.flash_adjoining, other.flash_adjoining),
            ..*self
        }
    }
}

/// A write-ahead log.
#[allow(async_fn_in_trait)]
pub trait LogStore: 'static {
    /// Its records between checkpoint and end.
    fn window(&self) -> &LogWindow;

    /// Makes the log on devices that hold none, if it needs that. Once, before everything else.
    ///
    /// # Errors
    /// The device's error.
    async fn load(&self) -> Result<(), IoError> {
        Ok(())
    }

    /// Begins the log at [`LogStore::checkpoint`], as after a recovery.
    ///
    /// # Errors
    /// The device's error.
    async fn begin(&self) -> Result<(), IoError>;

    /// Appends a record for a change of a page. Returns the record's begin and end. Wait for room first
    /// ([`LogStore::room`]).
    fn append(&self, change: Change) -> (Lsn, Lsn);

    /// Waits until everything up to `lsn` is durable, and writes it if needed.
    ///
    /// # Errors
    /// The device's error.
    async fn flush(&self, lsn: Lsn) -> Result<(), IoError>;

    /// The log is durable at least up to here.
    fn durable(&self) -> Lsn;

    /// Makes a commit durable and counts it as acknowledged.
    ///
    /// # Errors
    /// The device's error.
    async fn commit(&self, lsn: Lsn) -> Result<(), IoError> {
        self.flush(lsn).await?;
        self.window().acknowledge(lsn);
        Ok(())
    }

    /// The most bytes between checkpoint and end.
    fn capacity(&self) -> u64 {
        self.window().capacity()
    }

    /// How full the log is; from 1.0 on no record may be appended. It is at least the bytes
    /// between checkpoint and end, as a share of [`LogStore::capacity`].
    fn fullness(&self) -> f64 {
        self.window().fullness()
    }

    /// Whether a record may be appended.
    fn has_room(&self) -> bool {
        self.fullness() < 1.0
    }

    /// Waits until a record may be appended.
    async fn room(&self) {
        self.window().room(|| self.has_room()).await;
    }

    /// The place where a recovery would begin.
    fn checkpoint(&self) -> Lsn {
        self.window().checkpoint()
    }

    /// Writes a checkpoint: all changes before `lsn` are durable in the page store. The log before
    /// it may be overwritten.
    ///
    /// # Errors
    /// The device's error.
    async fn write_checkpoint(&self, lsn: Lsn) -> Result<(), IoError> {
        if lsn <= self.checkpoint() {
            return Ok(());
        }
        self.flush(lsn).await?;
        self.put_checkpoint(lsn).await?;
        self.window().move_to(lsn);
        Ok(())
    }

    /// Makes the place of a checkpoint durable, for [`LogStore::write_checkpoint`]: the log is
    /// durable up to `lsn`, which is after the last checkpoint.
    ///
    /// # Errors
    /// The device's error.
    async fn put_checkpoint(&self, lsn: Lsn) -> Result<(), IoError>;

    /// After a power cut: the newest checkpoint, and how far the records reach from there.
    ///
    /// # Errors
    /// The device's error.
    async fn recover(&self) -> Result<(Lsn, Lsn), IoError>;

    /// After a power cut: begins the log anew, after `lsn` and after everything that it ever held.
    /// Returns where.
    ///
    /// # Errors
    /// The device's error.
    async fn restart(&self, lsn: Lsn) -> Result<Lsn, IoError>;

    /// The counters of the log since it was begun.
    fn counts(&self) -> LogCounts;
}

/// Counters of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Writes of records.
    pub writes: u64,
    /// Their bytes, in whole blocks.
    pub bytes: u64,
    /// Writes that were issued again on another device.
    pub again: u64,
    /// Those of them that were done first.
    pub again_won: u64,
    /// How long it took to read the log when it was opened.
    pub opening: Nanos,
    /// Writes by the bytes of their records: up to 1 KiB, up to 2 KiB and so on; empty if the store
    /// does not know.
    pub sizes: Vec<u64>,
}

/// A shared log.
impl<L: LogStore> LogStore for Rc<L> {
    fn window(&self) -> &LogWindow {
        (**self).window()
    }

    async fn load(&self) -> Result<(), IoError> {
        (**self).load().await
    }

    async fn begin(&self) -> Result<(), IoError> {
        (**self).begin().await
    }

    fn append(&self, change: Change) -> (Lsn, Lsn) {
        (**self).append(change)
    }

    async fn flush(&self, lsn: Lsn) -> Result<(), IoError> {
        (**self).flush(lsn).await
    }

    fn durable(&self) -> Lsn {
        (**self).durable()
    }

    fn fullness(&self) -> f64 {
        (**self).fullness()
    }

    async fn put_checkpoint(&self, lsn: Lsn) -> Result<(), IoError> {
        (**self).put_checkpoint(lsn).await
    }

    async fn recover(&self) -> Result<(Lsn, Lsn), IoError> {
        (**self).recover().await
    }

    async fn restart(&self, lsn: Lsn) -> Result<Lsn, IoError> {
        (**self).restart(lsn).await
    }

    fn counts(&self) -> LogCounts {
        (**self).counts()
    }
}
