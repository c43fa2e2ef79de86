//! The flash log: a synchronous write-ahead log over several cheap devices (Chen, "FlashLogging:
//! Exploiting Flash Devices for Synchronous Logging Performance", SIGMOD 2009).

#![allow(dead_code)]
mod area;
mod format;
mod hedge;
mod latency;
mod lsn;
mod plan;
mod planted;
mod record;
mod ring;
mod state;
mod superblock;
mod width;

pub use hedge::HedgeOptions;
pub use lsn::Lsn;
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use record::Record;
pub use state::Standing;
pub use superblock::Role;
