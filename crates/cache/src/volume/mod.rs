//! The cache volume: a block device over a flash cache, for software that knows nothing of it.
//!
//! 1. **Promises.** Acknowledged writes may be lost until a flush: a flush ends when everything is
//!    durable on flash, and with write-through on the slow device, too. One write up to a page is
//!    all or nothing, wherever it begins.
//! 2. **On entry.** A block device sees no page leave RAM clean. So a page that is read from the
//!    slow device enters the cache, if there is room at that moment. A host that tells of exits
//!    ([`BlockDevice::left`](tantalum_device::BlockDevice::left)) can have it so that pages enter
//!    only then ([`CleanEntry`]).
//! 3. **One command at a time for a page.** Commands that overlap are carried out in the order in
//!    which they came; reads go side by side.
//! 4. **Discarded blocks** read as zeros. Few pages get zeros by writes. Of more pages, only those
//!    that the cache has do. All others get a tombstone, and then the slow device discards them, for
//!    good: a cut meanwhile may leave a part of such a page, if that device tears it.
//! 5. **One slow device, one cache.** The slow device begins with the cache's label, and the blocks
//!    of the volume lie behind it. So nobody takes it for the volume.
//! 6. **A lost flash device.** If the slow device has every page, and the flash device is blank, a
//!    new cache is made on it, and the volume goes on with everything that was flushed. Otherwise it
//!    is refused.
//!
//! A command goes this way: `device.rs` → `core.rs` (its turn in `claims.rs`, then the cache).
//! `open.rs` makes and starts a volume, `plug.rs` is the box,
//! `resize.rs` gives its cache another size, `live.rs` is what it shows of itself.

mod claims;
mod core;
mod device;
mod error;
mod live;
mod open;
mod options;
mod plug;
mod resize;

pub use device::VolumeDevice;
pub use error::VolumeError;
pub use open::BATCH_PAGES;
pub use options::{CleanEntry, VolumeOptions};
pub use plug::CacheVolume;
pub use resize::ResizeError;
