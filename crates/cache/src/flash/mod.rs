//! The flash cache on devices: pages that leave RAM go to flash in sequential batches, and to the
//! slow store when they leave flash (Kang, Lee, Moon, "Flash as cache extension for online
//! transactional workloads", VLDB Journal 2016).
//!
//! 1. **Part of the database.** A page that was evicted is durable. A restart after any crash, also
//!    one within a restart, finds its newest version, or a newer one whose eviction was under way.
//! 2. **Never stale.** A fetch returns the newest version that left RAM, or an error. A frame whose
//!    checksum does not fit is never served.
//! 3. **Order.** What leaves the front of the ring stays readable until what replaces it is durable:
//!    a superseded version until the newer one's batch is, a second chance until its new batch is, a
//!    dirty page until the slow store was flushed. No write lies over what only it carries
//!    (`ring.rs`).
//! 4. **Forgotten pages stay forgotten**: by a tombstone, which is durable before the call ends.
//! 5. **The log first.** A dirty page whose log record is not durable is refused.
//! 6. **One owner.** The clean mark is gone before the first write. Flash and slow store that do not
//!    belong together, or of which one is an older copy, are refused.
//! 7. **Bounded.** Memory, and the time that dirty pages wait while the slow store refuses a page.
//! 8. **Resized** while it is used (`resize.rs`): a crash leaves the old size or the new one.
//! 9. Devices that lose what they acknowledged get forced writes and flushes, as their promises call
//!    for (`tantalum_device::DurableBy`).
//! 10. **Scans are kept out**, if that is asked for: a clean page does not enter that makes a run of
//!     consecutive pages longer than the bound. Dirty pages always enter.
//! 11. On devices that carry stamps a page has in memory the stamps of its blocks, eight bytes for
//!     each, little-endian; the bytes of everything else lie [`Beside`] the device.
//!
//! `core.rs` says how a page goes through the files. `format/` has every byte on the devices.

mod cache;
mod carrier;
mod core;
mod create;
mod describe;
mod error;
mod evict;
mod fetch;
pub(crate) mod format;
mod front;
mod ghosts;
mod host;
mod index;
mod keeper;
mod medium;
mod open;
mod options;
mod pending;
mod recover;
mod resize;
mod ring;
mod scrub;
mod slow;
mod stats;
mod writer;

pub use crate::policy::{Admit, GhostCounts};
pub use cache::FlashCache;
pub use carrier::Beside;
pub(crate) use create::{FLASH, SLOW, io};
pub use describe::{Checked, FlashDescription, StoreDescription, StoreState};
pub use error::{CacheError, OpenError};
pub use evict::Staged;
pub use fetch::Fetched;
pub(crate) use format::FRAMES_MAX;
pub use format::{Mode, Uuid, page_sizes};
pub use host::{Host, NoHost, PageOut};
pub(crate) use open::{complete, replace};
pub use options::{FormatOptions, OpenOptions, Replacement, RestartBy};
pub use scrub::Scrubbed;
pub(crate) use slow::LABEL_BYTES;
pub use slow::{DeviceStore, LabelEnd, SlowStore};
pub use stats::{CacheStats, RestartStats};
