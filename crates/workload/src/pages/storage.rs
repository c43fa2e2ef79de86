//! What an engine stores its pages and its log in: two traits, so that a volume, a cache over a
//! slow volume, a log ring or a log over several devices can each take the place of another.
//!
//! 1. **Pages.** A page that leaves the pool is handed over, dirty or clean. From the first poll of
//!    that call on, a fetch of the page finds the version that was handed over, or a newer one.
//! 2. **Write-ahead.** The engine hands over a dirty page only after its log is durable up to the
//!    page's last change.
//! 3. **Durable.** What [`PageStore::write`] and [`PageStore::write_one`] returned for survives a
//!    power cut, as far as the host can know: without barriers it cannot.
//! 4. **Log.** Records become durable in their order. After a cut [`LogStore::recover`] says how
//!    far they reach.
//! 5. All state of a store in memory belongs to the power domain of its engine: a cut drops it.

use super::engine::EngineError;
use super::{Lsn, PageNo};
use std::rc::Rc;
use tantalum_device::IoError;

/// A page and its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageVersion {
    /// Which page.
    pub page: PageNo,
    /// Where the record of its last change ends.
    pub lsn: Lsn,
}

/// Whether pages that are written stay in the pool, clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// They stay: a checkpoint wanted them written.
    Stays,
    /// They leave the pool: their frames are wanted.
    Leaves,
}

/// Called with the place of a page in its batch when it may be changed again, or its frame taken.
/// It may be called before the page is durable.
pub type Landed = Rc<dyn Fn(usize)>;

/// What a store says of a page after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is there, with this last change.
    Whole(Lsn),
    /// It was torn, and there is a whole copy with this last change.
    Copy(Lsn),
    /// It is torn or cannot be read, and there is no copy.
    Torn,
}

/// Where pages are that are not in the pool.
#[allow(async_fn_in_trait)]
pub trait PageStore: 'static {
    /// Reads a page: where its last change ends.
    ///
    /// # Errors
    /// The device's, or that what was read is not the page.
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError>;

    /// Writes a batch of dirty pages. `landed` is called once for each; all are durable when this
    /// returns.
    ///
    /// # Errors
    /// The device's.
    async fn write(
        &self,
        pages: &[PageVersion],
        after: After,
        landed: Landed,
    ) -> Result<(), EngineError>;

    /// Writes one dirty page that leaves the pool, for a reader who needs its frame. It is durable
    /// when this returns.
    ///
    /// # Errors
    /// The device's.
    async fn write_one(&self, page: PageVersion) -> Result<(), EngineError>;

    /// Clean pages leave the pool: they are as [`PageStore::fetch`] or a write had them. A store
    /// that is a place below the pool has nothing to do; a cache may take them.
    ///
    /// # Errors
    /// The device's.
    async fn evict_clean(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        let _ = pages;
        Ok(())
    }

    /// The page's content is void: it will be written before it is fetched again.
    ///
    /// # Errors
    /// The device's.
    async fn forget(&self, page: PageNo) -> Result<(), EngineError>;

    /// A checkpoint of the log is to move to `lsn`: when this returns, a recovery finds every page
    /// that was written, without records before `lsn`.
    ///
    /// # Errors
    /// The device's.
    async fn checkpoint(&self, lsn: Lsn) -> Result<(), EngineError>;

    /// After a power cut: what there is of each of the first `pages` pages.
    ///
    /// # Errors
    /// The device's, other than for pages that cannot be read.
    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError>;

    /// After a power cut: writes these pages over whatever is there. They are durable when this
    /// returns.
    ///
    /// # Errors
    /// The device's.
    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError>;

    /// What the device under it has done so far.
    fn counts(&self) -> StoreCounts;
}

/// What a page store has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Flushes that the device has completed.
    pub flushes: u64,
    /// Atomic groups of pages written.
    pub groups: u64,
}

/// A write-ahead log.
#[allow(async_fn_in_trait)]
pub trait LogStore: 'static {
    /// Begins the log where it goes on ([`LogStore::checkpoint`]), as after a recovery.
    ///
    /// # Errors
    /// The device's.
    async fn begin(&self) -> Result<(), IoError>;

    /// Appends a record of `bytes`: this page changes, and its last change before ended at
    /// `before`. Where the record begins and ends. Ask for room first ([`LogStore::room`]).
    fn append(&self, page: PageNo, before: Lsn, bytes: u32) -> (Lsn, Lsn);

    /// Waits until everything up to `lsn` is durable, and has it written if need be.
    ///
    /// # Errors
    /// The device's.
    async fn flush(&self, lsn: Lsn) -> Result<(), IoError>;

    /// Makes a commit durable and counts it as acknowledged.
    ///
    /// # Errors
    /// The device's.
    async fn commit(&self, lsn: Lsn) -> Result<(), IoError>;

    /// Bytes that may lie between checkpoint and end.
    fn capacity(&self) -> u64;

    /// Bytes between checkpoint and end, for each byte of [`LogStore::capacity`].
    fn fullness(&self) -> f64;

    /// Whether a record may be appended.
    fn has_room(&self) -> bool {
        self.fullness() < 1.0
    }

    /// Waits until a record may be appended.
    async fn room(&self);

    /// Where a recovery would begin.
    fn checkpoint(&self) -> Lsn;

    /// Writes a checkpoint: all changes before `lsn` are in the page store, durable. The log before
    /// it may be used again.
    ///
    /// # Errors
    /// The device's.
    async fn write_checkpoint(&self, lsn: Lsn) -> Result<(), IoError>;

    /// After a power cut: the newest checkpoint, and how far the records reach from there.
    ///
    /// # Errors
    /// The device's.
    async fn recover(&self) -> Result<(Lsn, Lsn), IoError>;

    /// After a power cut: the log begins anew. It goes on behind `lsn`, and behind all it ever
    /// held; where.
    ///
    /// # Errors
    /// The device's.
    async fn restart(&self, lsn: Lsn) -> Result<Lsn, IoError>;

    /// Writes of the log so far, and their bytes.
    fn written(&self) -> (u64, u64);
}

/// A log that others look at, too.
impl<L: LogStore> LogStore for Rc<L> {
    async fn begin(&self) -> Result<(), IoError> {
        (**self).begin().await
    }

    fn append(&self, page: PageNo, before: Lsn, bytes: u32) -> (Lsn, Lsn) {
        (**self).append(page, before, bytes)
    }

    async fn flush(&self, lsn: Lsn) -> Result<(), IoError> {
        (**self).flush(lsn).await
    }

    async fn commit(&self, lsn: Lsn) -> Result<(), IoError> {
        (**self).commit(lsn).await
    }

    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn fullness(&self) -> f64 {
        (**self).fullness()
    }

    async fn room(&self) {
        (**self).room().await;
    }

    fn checkpoint(&self) -> Lsn {
        (**self).checkpoint()
    }

    async fn write_checkpoint(&self, lsn: Lsn) -> Result<(), IoError> {
        (**self).write_checkpoint(lsn).await
    }

    async fn recover(&self) -> Result<(Lsn, Lsn), IoError> {
        (**self).recover().await
    }

    async fn restart(&self, lsn: Lsn) -> Result<Lsn, IoError> {
        (**self).restart(lsn).await
    }

    fn written(&self) -> (u64, u64) {
        (**self).written()
    }
}
