//! The locks on one database file: SQLite's rollback locks, and the eight locks of
//! its write-ahead log. Pure; they live in the memory of the mount and end with it.
//!
//! A connection that has found a hot journal goes from shared to exclusive in one step, or stays at
//! shared. If it were pending for a moment, another connection would take the journal for that of a
//! living writer, and read a database that must be rolled back.

use std::ops::Range;

/// The lock of a connection on the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    /// Waits for readers to finish; no new readers are admitted.
    Pending,
    Exclusive,
}

impl Level {
    pub fn from_code(code: i32) -> Option<Level> {
        Some(match code {
            0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            4 => Level::Exclusive,
            _ => return None,
        })
    }
}

/// The rollback locks of one file. Connections are identified by number.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    /// Connections at [`Level::Shared`] or above.
    readers: u32,
    /// The connection above [`Level::Shared`], and its level.
    writer: Option<(u64, Level)>,
}

impl FileLocks {
    /// Raises the lock of connection `id` from `have`; returns its new level, which is below `want`
    /// if other locks conflict.
    pub fn raise(&mut self, id: u64, have: Level, want: Level) -> Level {
        if have >= want {
            return have;
        }
        let other = self.writer.filter(|w| w.0 != id).map(|w| w.1);
        if want == Level::Shared {
            if other >= Some(Level::Pending) {
                return have;
            }
            self.readers += 1;
            return Level::Shared;
        }
        // Only a reader may become the writer.
        if have == Level::None || other.is_some() {
            return have;
        }
        let level = match want {
            Level::Exclusive if self.readers > 1 => match have {
                Level::Shared => return have,
                _ => Level::Pending,
            },
            _ => want,
        };
        self.writer = Some((id, level));
        level
    }

    /// Lowers the lock of connection `id` to [`Level::Shared`] or [`Level::None`].
    pub fn lower(&mut self, id: u64, have: Level, to: Level) -> Level {
        if have <= to {
            return have;
        }
        if self.writer.is_some_and(|w| w.0 == id) {
            self.writer = None;
        }
        if to == Level::None {
            self.readers -= 1;
        }
        to
    }

    /// Whether a connection is about to write, or writes.
    pub fn is_reserved(&self) -> bool {
        self.writer.is_some()
    }
}

pub(crate) const SHM_LOCKS: usize = 8;

/// The locks of a write-ahead log, for all connections.
#[derive(Debug, Default)]
pub(crate) struct ShmLocks {
    shared: [u32; SHM_LOCKS],
    exclusive: [bool; SHM_LOCKS],
}

/// The locks of one connection: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShmHeld {
    shared: u8,
    exclusive: u8,
}

impl ShmLocks {
    /// Takes all locks of the range or none; returns whether it has them.
    pub fn lock(&mut self, held: &mut ShmHeld, range: Range<usize>, exclusive: bool) -> bool {
        let free = |i: usize| {
            let mine = u32::from(held.shared >> i & 1);
            let alone = !exclusive || self.shared[i] == mine;
            (!self.exclusive[i] && alone) || held.exclusive >> i & 1 == 1
        };
        if !range.clone().all(free) {
            return false;
        }
        for i in range {
            let bit = 1 << i;
            if exclusive && held.exclusive & bit == 0 {
                held.exclusive |= bit;
                self.exclusive[i] = true;
            }
            if !exclusive && held.shared & bit == 0 {
                held.shared |= bit;
                self.shared[i] += 1;
            }
        }
        true
    }

    pub fn unlock(&mut self, held: &mut ShmHeld, range: Range<usize>) {
        for i in range {
            let bit = 1 << i;
            if held.exclusive & bit != 0 {
                self.exclusive[i] = false;
            }
            if held.shared & bit != 0 {
                self.shared[i] -= 1;
            }
            held.exclusive &= !bit;
            held.shared &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Level::*;

    #[test]
    fn readers_share_and_one_writer_reserves() {
        let mut l = FileLocks::default();
        assert_eq!(l.raise(1, None, Shared), Shared);
        assert_eq!(l.raise(2, None, Shared), Shared);
        assert_eq!(l.raise(1, Shared, Reserved), Reserved);
        assert_eq!(l.raise(2, Shared, Reserved), Shared, "there is one already");
        assert_eq!(l.raise(3, None, Shared), Shared, "a reservation keeps nobody out");
        assert!(l.is_reserved());
    }

    #[test]
    fn a_pending_writer_lets_readers_leave_and_none_in() {
        let mut l = FileLocks::default();
        assert_eq!(l.raise(1, None, Shared), Shared);
        assert_eq!(l.raise(2, None, Shared), Shared);
        assert_eq!(l.raise(1, Shared, Reserved), Reserved);
        assert_eq!(l.raise(1, Reserved, Exclusive), Pending);
        assert_eq!(l.raise(3, None, Shared), None);
        assert_eq!(l.lower(2, Shared, None), None);
        assert_eq!(l.raise(1, Pending, Exclusive), Exclusive);
        assert_eq!(l.raise(2, None, Shared), None);
        assert_eq!(l.lower(1, Exclusive, Shared), Shared);
        assert_eq!(l.raise(2, None, Shared), Shared);
        assert!(!l.is_reserved());
    }

    #[test]
    fn two_that_find_a_hot_journal_do_not_both_roll_back() {
        let mut l = FileLocks::default();
        assert_eq!(l.raise(1, None, Shared), Shared);
        assert_eq!(l.raise(2, None, Shared), Shared);
        assert_eq!(l.raise(1, Shared, Exclusive), Shared);
        assert!(!l.is_reserved(), "or the other takes the journal for a living one");
        assert_eq!(l.raise(2, Shared, Exclusive), Shared);
        assert_eq!(l.lower(2, Shared, None), None);
        assert_eq!(l.raise(1, Shared, Exclusive), Exclusive);
        assert!(l.is_reserved());
    }

    #[test]
    fn log_locks_are_all_or_none() {
        let mut l = ShmLocks::default();
        let (mut a, mut b) = (ShmHeld::default(), ShmHeld::default());
        assert!(l.lock(&mut a, 4..5, false));
        assert!(l.lock(&mut b, 4..5, false));
        assert!(!l.lock(&mut b, 3..8, true), "4 is shared with another");
        assert!(l.lock(&mut b, 0..1, true));
        assert!(!l.lock(&mut a, 0..1, false));
        l.unlock(&mut a, 0..8);
        l.unlock(&mut b, 4..5);
        assert!(l.lock(&mut b, 3..8, true));
        assert!(!l.lock(&mut a, 5..6, true));
        l.unlock(&mut b, 0..8);
        assert!(l.lock(&mut a, 0..8, true));
    }
}
