//! The flash log: a synchronous write-ahead log over several cheap devices (Chen, "FlashLogging:
//! Exploiting Flash Devices for Synchronous Logging Performance", SIGMOD 2009).

mod format;
mod lsn;
mod planted;
mod record;
mod ring;
mod state;
mod superblock;

pub use lsn::Lsn;
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use record::Record;
pub use state::Standing;
pub use superblock::Role;
