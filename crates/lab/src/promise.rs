//! What a drive and SQLite's settings promise together: only what breaks this is a
//! violation.

use crate::experiment::{Journal, Synchronous};
use tantalum_device::Caps;

/// What must be so after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Every acknowledged commit is there.
    pub commits: bool,
    /// The database is sound: structure, rows, invariants.
    pub sound: bool,
}

impl Promise {
    /// Of a database with these settings on a device with these capabilities.
    ///
    /// Where completed writes survive, everything does; on a device whose flushes do
    /// nothing, nothing need be there. Elsewhere it takes syncs
    /// (SQLite's documentation of `PRAGMA synchronous`): with a write-ahead log `FULL` keeps
    /// every commit, and `NORMAL` the database sound; with a rollback journal that is
    /// deleted it takes `EXTRA` for the former, since `FULL` does not sync the directory
    /// and the deleted journal may come back, and `FULL` for the latter.
    pub fn of(caps: &Caps, journal: Journal, synchronous: Synchronous) -> Promise {
        if caps.ack.survives() {
            return Promise { commits: true, sound: true };
        }
        if !caps.flush {
            // Whatever SQLite syncs, nothing comes of it.
            return Promise { commits: false, sound: false };
        }
        let (commits, sound) = match (journal, synchronous) {
            (_, Synchronous::Off) => (false, false),
            (_, Synchronous::Extra) | (Journal::Wal, Synchronous::Full) => (true, true),
            (Journal::Wal, Synchronous::Normal) | (Journal::Delete, Synchronous::Full) => {
                (false, true)
            }
            (Journal::Delete, Synchronous::Normal) => (false, false),
        };
        Promise { commits, sound }
    }
}
