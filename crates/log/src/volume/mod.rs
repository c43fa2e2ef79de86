//! The log volume: a block device whose writes go to the flash log, and later to a backing.
//!
//! An unmodified database has its log directory on it: its small synchronous writes cost what a
//! write to the flash log costs, and the backing gets them later, merged and in the order of its
//! blocks.
//!
//! 1. **Durable, in order.** A write, discard or group is a record of the log. It is acknowledged
//!    when that is durable. What survives a power loss is a prefix of what arrived, and has
//!    everything that was acknowledged.
//! 2. **One state.** Reads see what is durable, and nothing else. What they have seen survives.
//! 3. **Nothing is given up early.** The log gives up a record only when the backing has its
//!    blocks, for good.
//! 4. **Bounded.** Memory is [`VolumeOptions::memory`], or one change. What does not fit waits
//!    until enough is destaged.
//! 5. **The right backing.** A backing of another log, or an older copy of the log or the backing,
//!    is refused with one line, and nothing is changed ([`VolumeError`]).
//!
//! A change goes this way: `device.rs` → `core.rs` (its turn, the log) → `memory.rs` and `map.rs`
//! (read from there) → `destage.rs` (the backing, then the checkpoint). `entry.rs` is a change as a
//! record, `label.rs` binds the backing to the log, `describe.rs` says whether it does, `open.rs`
//! makes and starts a volume, `plug.rs` is the box, `replace.rs` puts a new device in the place of a
//! lost one.

mod core;
mod describe;
mod destage;
mod device;
mod entry;
mod error;
mod label;
mod live;
mod map;
mod memory;
mod open;
mod options;
mod places;
mod plug;
mod replace;

pub use core::VolumeStats;
pub use describe::{BackingDescription, LabelDescription};
pub use device::VolumeDevice;
pub use error::{Identity, VolumeError};
pub use options::VolumeOptions;
pub use plug::LogVolume;
pub use replace::ReplaceError;
