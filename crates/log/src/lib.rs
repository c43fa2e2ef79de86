//! The flash log: a synchronous write-ahead log over several cheap devices (Chen, "FlashLogging:
//! Exploiting Flash Devices for Synchronous Logging Performance", SIGMOD 2009).

mod area;
mod core;
mod create;
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
mod plan;
mod planted;
mod record;
mod records;
mod recover;
mod ring;
mod scan;
mod state;
mod stats;
mod superblock;
mod tasks;
mod wait;
mod width;

pub use error::{Damage, LogError, OpenError};
pub use hedge::HedgeOptions;
pub use log::{Appended, Log};
pub use lsn::Lsn;
pub use options::{Barrier, CreateOptions, LogDevice, OpenOptions, WhenFull};
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use record::Record;
pub use records::Records;
pub(crate) use state::Standing;
pub use stats::{DeviceHealth, DeviceStats, LogStats};
pub use superblock::Role;
