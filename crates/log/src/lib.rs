//! The flash log: a synchronous write-ahead log over several cheap devices (Chen, "FlashLogging:
//! Exploiting Flash Devices for Synchronous Logging Performance", SIGMOD 2009).
//!
//! Cheap devices are quick on average, and now and then one write takes very long. So the log has
//! several of them, gives each group of records whole to one that is free, and writes what takes
//! too long again elsewhere. An archive, a device that is good at large sequential writes, may take
//! everything in large pieces beside that.
//!
//! ```
//! use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
//! use tantalum_log::{CreateOptions, Log, LogDevice, OpenOptions};
//! use tantalum_rt::Runtime;
//!
//! let mut runtime = Runtime::virtual_time(1);
//! let rt = runtime.handle();
//! let done = runtime.block_on(async move {
//!     let caps = Caps::power_safe(2048, Payload::Bytes);
//!     let ram = || RamDevice::new(&rt, RamOptions::new(caps));
//!     let devices = vec![LogDevice::new("sda", ram()), LogDevice::new("sdb", ram())];
//!     Log::create(&rt, &devices, None, &CreateOptions::default()).await.unwrap();
//!
//!     let log = Log::open(&rt, devices, OpenOptions::default()).await.unwrap();
//!     let begin = log.commit(b"begin").await?;
//!     let end = log.append(b"end").await?;
//!     log.wait_durable(end.end).await?;
//!
//!     let mut records = log.read(begin.lsn)?;
//!     assert_eq!(records.next().await?.unwrap().bytes, b"begin");
//!     assert_eq!(records.next().await?.unwrap().bytes, b"end");
//!     assert_eq!(records.next().await?, None);
//!     log.checkpoint(end.lsn, 1).await
//! });
//! done.unwrap().unwrap();
//! ```
//!
//! # Promises
//!
//! 1. **Durable.** What [`Log::commit`], [`Log::flush`] or [`Log::wait_durable`] said is durable is
//!    there at every later opening until a checkpoint gives it up: after any power loss, and with
//!    two copies after the loss of any one device.
//! 2. **Order.** The log that is opened is a prefix of what was appended: nothing is out of order,
//!    there is no gap, and each record is whole.
//! 3. **Nothing old.** Nothing of an earlier lap, of another log, or of what an earlier epoch had in
//!    flight ever counts.
//! 4. **No quiet loss.** If acknowledged bytes are missing, that is an error that says where
//!    ([`Damage`]), and not an earlier end of the log; as long as a later write told of them. (The
//!    last write before a cut is told of by none.)
//! 5. **Nothing is written over** before the checkpoint is past it, and that is durable.
//! 6. **Bounded.** Memory is [`OpenOptions::memory`], and one write for each lane. Whatever was
//!    accepted finds room on the devices, unless a device fails.
//! 7. **A wrong device** changes nothing: [`OpenError`].
//!
//! # Map
//!
//! A record goes this way: `log.rs` (append) → `ring.rs` (memory) → `plan/choose.rs` (a group, and
//! the lane for it) → `area.rs` (its place) → `encode.rs` and `format.rs` (its blocks) → `tasks.rs`
//! and `member.rs` (written, and durable) → `plan/done.rs` (acknowledged). The plan is all that is
//! decided, without I/O and without a runtime. Back it comes: `open.rs` (who the devices are) →
//! `scan.rs` (sections) → `feed.rs` (chunks, ahead) → `merge.rs` (one log of many streams) →
//! `records.rs`; `recover.rs` finds the end, and `copies.rs` what has one copy. `docs/log.md` has
//! the format byte by byte.
//!
//! Plan and memory lie under one lock (`works.rs`). With threads ([`BlockingLog`]) whoever commits
//! writes by itself: `blocking/front.rs` is in the place of `tasks.rs` then.
//!
//! A [`LogVolume`] makes a block device of a log and a backing, for programs that know no log
//! (`volume/mod.rs`).
//!
//! # What it does not promise
//!
//! Virtual devices on one disk ([`CreateOptions::partitions`]) share its stalls. Hedging and copies
//! never count two parts of one device as two devices; but two devices given to a log may be parts
//! of one disk, and nothing tells.

mod area;
#[cfg(feature = "blocking")]
pub mod blocking;
mod catch_up;
mod copies;
mod copy;
mod core;
mod create;
mod cutter;
mod describe;
mod encode;
mod error;
mod feed;
mod format;
mod hedge;
mod keep;
mod latency;
mod layout;
mod log;
mod lsn;
mod member;
mod merge;
mod open;
mod options;
mod pace;
#[cfg(feature = "blocking")]
mod pen;
mod plan;
mod planted;
mod record;
mod records;
mod recover;
mod replace;
mod ring;
mod scan;
mod state;
mod stats;
mod superblock;
mod sys;
mod tasks;
#[cfg(feature = "blocking")]
mod threads;
mod volume;
mod wait;
mod width;
mod works;

#[cfg(feature = "blocking")]
pub use blocking::{BlockingError, BlockingLog, BlockingOptions, BlockingRecords};
pub use copies::OneCopy;
pub use describe::{DeviceDescription, LogDescription, StateDescription};
pub use error::{Damage, LogError, OpenError};
pub use hedge::HedgeOptions;
pub use log::{Appended, Log};
pub use lsn::Lsn;
pub use options::{Barrier, CreateOptions, Expects, LogDevice, OpenOptions, WhenFull};
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use record::Record;
pub use records::Records;
pub(crate) use state::Standing;
pub use stats::{DeviceHealth, DeviceStats, LogStats};
pub use superblock::Role;
pub use volume::{
    BackingDescription, Identity, LabelDescription, LogVolume, ReplaceError, VolumeDevice,
    VolumeError, VolumeOptions, VolumeStats,
};
