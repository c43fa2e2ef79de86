//! The window of a log: its records between checkpoint and end, of which it has room for so many
//! bytes.
//!
//! 1. The checkpoint only moves forward. Then the journal gives up the records before it, and
//!    clients that wait for room look again.

use super::Lsn;
use super::journal::{Change, Journal};
use std::cell::Cell;
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// The largest record in bytes, without a page.
pub const MAX_RECORD: u32 = 4096;

/// The records of a log between checkpoint and end.
pub struct LogWindow {
    pub(super) journal: Journal,
    capacity: u64,
    checkpoint: Cell<Lsn>,
    room: WaitQueue,
}

impl LogWindow {
    /// Of the log that goes on where the journal ends, for at most so many bytes. Its checkpoint
    /// and end are there. `waiting` is what clients wait for, in words.
    pub fn new(rt: &Rt, journal: Journal, capacity: u64, waiting: &'static str) -> LogWindow {
        let checkpoint = Cell::new(journal.next());
        LogWindow { journal, capacity, checkpoint, room: WaitQueue::new(rt, waiting) }
    }

    /// Appends a record of 1 to 4,096 bytes to the journal, beside the page if it has that. Returns its
    /// begin and end.
    pub fn append(&self, change: Change) -> (Lsn, Lsn) {
        let bytes = change.bytes.clamp(1, MAX_RECORD);
        self.journal.append(Change { bytes, ..change })
    }

    /// A commit that is durable counts as acknowledged.
    pub fn acknowledge(&self, lsn: Lsn) {
        self.journal.acknowledge(lsn);
    }

    /// The most bytes between checkpoint and end.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The bytes between checkpoint and end, as a share of the capacity.
    pub fn fullness(&self) -> f64 {
        let age = self.journal.next().0 - self.checkpoint.get().0;
        age as f64 / self.capacity as f64
    }

    /// Waits until there is room, as `has_room` says. It looks again after each checkpoint.
    pub async fn room(&self, has_room: impl Fn() -> bool) {
        self.room.until(has_room).await;
    }

    /// The journal was restarted: checkpoint and end are where it goes on.
    pub fn restart(&self) {
        self.checkpoint.set(self.journal.next());
        self.room.notify_all();
    }

    /// The place where a recovery would begin.
    pub fn checkpoint(&self) -> Lsn {
        self.checkpoint.get()
    }

    /// The checkpoint is durable at `lsn`.
    pub fn move_to(&self, lsn: Lsn) {
        self.checkpoint.set(lsn);
        self.journal.settle(lsn);
        self.room.notify_all();
    }
}
