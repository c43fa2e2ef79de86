//! What can go wrong with a cache: one line that says what, where, and what to do.

use crate::flash::slow::LabelEnd;
use tantalum_device::IoError;
use tantalum_rt::Nanos;

/// Why a cache was not formatted or opened. Unless it is an I/O error, nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An option or a device does not suit.
    #[error("{0}")]
    Unsuitable(String),
    /// The flash device is in use by something.
    #[error("{device} holds {what}: use `force` to destroy that")]
    NotBlank {
        /// Which device.
        device: &'static str,
        /// What it holds.
        what: &'static str,
    },
    /// There is no cache on the flash device.
    #[error("the flash device holds no cache: name the device of a cache, or format it")]
    NoCache,
    /// No copy of a superblock or label is whole.
    #[error("no copy of the {what} on {device} is whole: restore the device from a copy")]
    Head {
        /// What is damaged.
        what: &'static str,
        /// On which device.
        device: &'static str,
    },
    /// A newer program has written it.
    #[error("{device} was written by a newer program, as version {version}: use a newer program")]
    Newer {
        /// Which device.
        device: &'static str,
        /// The version of its format.
        version: u32,
    },
    /// The flash device is smaller than the cache.
    #[error(
        "the flash device has {is} bytes and the cache was formatted for {was}: use the device as it was"
    )]
    TooSmall {
        /// Bytes of the device when the cache was formatted.
        was: u64,
        /// Bytes of the device.
        is: u64,
    },
    /// The slow store has no room for dirty pages of the cache. (After a crash more pages count as
    /// dirty than are.)
    #[error(
        "the slow store has {pages} pages and the cache has page {page} for it: use the store as it was"
    )]
    StoreTooSmall {
        /// The last dirty page of the cache, counted from 0.
        page: u64,
        /// Pages of the store.
        pages: u64,
    },
    /// The slow store has become smaller since the last start.
    #[error(
        "the slow store has {is} bytes and had {was} when it was used last: use the store as it was"
    )]
    StoreShrank {
        /// Bytes of the store at the last start.
        was: u64,
        /// Bytes of the store.
        is: u64,
    },
    /// The slow store has no label where this cache would have one.
    #[error(
        "the slow store has no label of a cache: name the slow store of this cache, as it was; if its \
         label was overwritten, restore it from a copy"
    )]
    NoLabel,
    /// Flash and slow store do not belong together.
    #[error(
        "the flash device and the slow store belong to different caches: name those of one cache"
    )]
    OtherStore,
    /// The label of this cache is at the other end of the slow device.
    #[error(
        "the slow store has the label of this cache at its {is}, and was opened with that at the \
         other end: open it with the label at its {is}"
    )]
    LabelElsewhere {
        /// Where it is: at the end, if the store [adopted] what is on its device.
        ///
        /// [adopted]: crate::flash::DeviceStore::adopting
        is: LabelEnd,
    },
    /// The slow store is newer than the cache.
    #[error(
        "the slow store is at epoch {slow} of the cache and the flash device at {flash}: the store \
         was used without the cache, or {older} is an older copy; format the cache anew, or name \
         the devices themselves"
    )]
    OtherEpoch {
        /// Epoch on the label.
        slow: u64,
        /// Epoch of the superblock.
        flash: u64,
        /// Which one is older.
        older: &'static str,
    },
    /// The cache was given up: [`FlashCache::detach`](crate::flash::FlashCache::detach) or
    /// [`FlashCache::leave_alone`](crate::flash::FlashCache::leave_alone).
    #[error(
        "the cache on the flash device was given up, and the slow store is used without the cache: it \
         has every page; format the cache anew to use one again"
    )]
    GivenUp,
    /// The slow store lacks pages that only the cache has.
    #[error(
        "the slow store lacks dirty pages that are on the flash device of its cache: open it with \
         that device"
    )]
    NeedsCache,
    /// A batch that was durable is damaged, and may have held dirty pages.
    #[error(
        "the descriptor of batch {batch}, at byte {at} of the flash device, is damaged: restore the \
         device from a copy, or format the cache and lose what only it has"
    )]
    Damaged {
        /// The batch.
        batch: u64,
        /// Where it lies.
        at: u64,
    },
    /// A command of a device failed.
    #[error("{device}: {error}")]
    Io {
        /// Which device.
        device: &'static str,
        /// Its error.
        error: IoError,
    },
}

/// Why a call of a cache failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// Nothing is changed any more; pages can still be fetched.
    #[error("the cache takes no changes: {0}; open it again")]
    Stopped(String),
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The log record of a dirty page is not durable.
    #[error(
        "page {page} has LSN {lsn} and the log is durable up to {stable}: make the log durable \
         before a page leaves RAM"
    )]
    LogFirst {
        /// The page.
        page: u64,
        /// Its LSN.
        lsn: u64,
        /// How far the log is durable.
        stable: u64,
    },
    /// The cache has a newer version of the page.
    #[error(
        "page {page} has LSN {lsn} and the cache holds it with {newer}: evict the newest version"
    )]
    Older {
        /// The page.
        page: u64,
        /// Its LSN.
        lsn: u64,
        /// The one in the cache.
        newer: u64,
    },
    /// The frame of a dirty page is damaged: its newest version is lost.
    #[error(
        "page {page}, LSN {lsn}, is damaged on the flash device and the slow store has only an \
         older version: restore the page from its log, and evict or forget it"
    )]
    Damaged {
        /// The page.
        page: u64,
        /// The LSN of what is lost.
        lsn: u64,
    },
    /// The slow store refuses a page, so the cache has no room.
    #[error(
        "the cache is full: for {waited} the slow store has refused page {page} ({error}); make it \
         take that page, or forget the page"
    )]
    Full {
        /// The page.
        page: u64,
        /// For how long.
        waited: Nanos,
        /// The error of the slow store.
        error: IoError,
    },
    /// A command of the flash device failed.
    #[error("the flash device: {0}")]
    Flash(IoError),
    /// A command of the slow store failed.
    #[error("the slow store: {0}")]
    Slow(IoError),
}
