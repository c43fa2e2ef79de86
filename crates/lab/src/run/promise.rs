//! What a drive and SQLite's settings promise together: only what breaks this is a
//! violation.

use crate::file::experiment::{Journal, Synchronous};
use tantalum_device::Caps;

/// What must hold after a power cut.
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
    /// and the deleted journal may come back, and `FULL` for the latter; one that is cut off or
    /// overwritten is synced by `FULL`. Atomic groups survive, once they have completed, whatever
    /// the device says of writes; but what does not fit goes through a journal (of which `FULL`
    /// then syncs the deletion, too).
    pub fn of(caps: &Caps, journal: Journal, synchronous: Synchronous) -> Promise {
        if caps.ack.survives() {
            return Promise { commits: true, sound: true };
        }
        if !caps.flush {
            // The device ignores whatever SQLite syncs.
            return Promise { commits: false, sound: false };
        }
        let (commits, sound) = match (journal, synchronous) {
            (_, Synchronous::Off) => (false, false),
            (Journal::Wal, Synchronous::Normal) | (Journal::Delete, Synchronous::Full) => {
                (false, true)
            }
            (_, Synchronous::Extra | Synchronous::Full) => (true, true),
            (_, Synchronous::Normal) => (false, false),
        };
        Promise { commits, sound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Ack, Payload};

    #[test]
    fn what_settings_promise() {
        let mut caps = Caps {
            block_size: 4096,
            blocks: 1,
            thin: false,
            ack: Ack::Volatile,
            flush: true,
            ordered: false,
            atomic_unit: 4096,
            atomic_group: None,
            payload: Payload::Bytes,
        };
        use Journal::*;
        use Synchronous::*;
        let told = |caps: &Caps, journal, synchronous| {
            let promise = Promise::of(caps, journal, synchronous);
            (promise.commits, promise.sound)
        };
        for journal in [Wal, Delete, Truncate, Persist, BatchAtomic] {
            assert_eq!(told(&caps, journal, Extra), (true, true));
            assert_eq!(told(&caps, journal, Full), (journal != Delete, true));
            assert_eq!(told(&caps, journal, Normal), (false, journal == Wal));
            assert_eq!(told(&caps, journal, Off), (false, false));
        }
        caps.flush = false;
        assert_eq!(told(&caps, BatchAtomic, Extra), (false, false));
        caps.ack = Ack::OnMedia;
        assert_eq!(told(&caps, Delete, Off), (true, true));
    }
}
