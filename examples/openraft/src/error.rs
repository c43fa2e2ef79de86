//! Why a store was not opened.

use std::io;
use tantalum_log::{BlockingError, LogError, Lsn};

/// Why a store was not opened. The log was not changed, but for a new epoch.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log was not opened.
    #[error("{0}")]
    Log(#[from] BlockingError),
    /// The log cannot be read.
    #[error("{0}")]
    Read(#[from] LogError),
    /// The log holds something else.
    #[error(
        "the record at {0} is not of a Raft store: name the devices of the store, or a new log"
    )]
    Foreign(Lsn),
    /// The record is of a newer version.
    #[error(
        "the record at {lsn} has version {version}, and this program knows up to {}: use a newer \
         program",
        crate::record::VERSION
    )]
    Newer {
        /// Where it is.
        lsn: Lsn,
        /// Its version.
        version: u8,
    },
    /// The record is of this store, and cannot be understood.
    #[error("the record at {lsn} cannot be decoded ({what}): use the program that wrote the log")]
    Undecodable {
        /// Where it is.
        lsn: Lsn,
        /// What is wrong.
        what: String,
    },
    /// Records contradict each other.
    #[error("the record at {lsn} does not follow from those before it: {what}; restore a copy")]
    Contradiction {
        /// Where it is.
        lsn: Lsn,
        /// What is wrong.
        what: String,
    },
    /// There is no thread for the store.
    #[error("the store has no thread of its own: {0}")]
    Thread(#[source] io::Error),
}

/// Why a call of openraft failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("a record could not be encoded: {0}")]
    Encode(#[from] postcard::Error),
    #[error("the call does not follow from those before it: {0}")]
    Order(String),
}
