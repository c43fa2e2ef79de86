//! The journal of units: of the map capacitors keep only which erase units were written
//! since when; what is in them is told by the words beside their pages (SpartanSSD, the
//! block-level entries of elastic journaling).
//!
//! 1. A *checkpoint* stores every map page that has changed when it begins. When it is
//!    complete the entries made before it began are void.
//! 2. Every page with data that was mapped after the last complete checkpoint began is in the
//!    journal: in a range of pages of its unit. A checkpoint that begins enters every unit
//!    that is being written anew, from the first page on that is not mapped yet.
//! 3. Pages of these ranges that were not mapped do not count: those that ended after the
//!    power was cut are beyond the end of the range (its unit is entered anew behind them), and
//!    copies that were out of date when they landed, and pages that failed, are in the
//!    journal as such. Any other page of a range can be read, or its content is unknown.
//! 4. Discards are in the journal with the sequence number of their time: they cover what
//!    was born before it.
//! 5. So of each logical page that has a copy in a range, or was discarded, the newest of
//!    these by birth is its state; of all others the stored map has it.
//! 6. Its size is bounded: with less room than an operation may need for entries, nothing
//!    more is mapped before a checkpoint is complete.

use crate::types::{Lpn, Ppa};
use std::collections::VecDeque;
use tantalum_nand::Unit;

/// Bytes of an entry, in memory as on flash.
pub const ENTRY_BYTES: usize = 16;

/// The end of a range that is as long as its unit was written.
pub const OPEN: u32 = (1 << 28) - 1;

const SEQUENCE: u64 = (1 << 56) - 1;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Data may be in these pages of a unit.
    Written {
        /// Which.
        unit: Unit,
        /// The first page.
        from: u32,
        /// The page behind the last, or [`OPEN`].
        until: u32,
    },
    /// Logical pages were discarded.
    Gone {
        /// The first.
        first: Lpn,
        /// How many.
        count: u32,
        /// What was born later is not.
        sequence: u64,
    },
    /// What this page has in this place was out of date when it landed.
    Stale {
        /// The place.
        place: Ppa,
        /// The page, in case that its unit was erased since.
        sequence: u64,
    },
    /// The program of these pages failed: they hold nothing.
    Failed {
        /// Which unit.
        unit: Unit,
        /// The first page.
        from: u32,
        /// The page behind the last.
        until: u32,
    },
    /// A unit is bad; or the drive's life is over.
    Bad {
        /// Which; the one behind the last for the life.
        unit: Unit,
    },
}

impl Entry {
    /// As it is dumped.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let (kind, head, tail) = match *self {
            Entry::Written { unit, from, until } => {
                (1, u64::from(from) << 28 | u64::from(until), u64::from(unit.0))
            }
            Entry::Gone { first, count, sequence } => {
                (2, sequence, u64::from(first.0) << 32 | u64::from(count))
            }
            Entry::Stale { place, sequence } => (3, sequence, u64::from(place.0)),
            Entry::Bad { unit } => (4, 0, u64::from(unit.0)),
            Entry::Failed { unit, from, until } => {
                (5, u64::from(from) << 28 | u64::from(until), u64::from(unit.0))
            }
        };
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&(kind << 56 | head & SEQUENCE).to_le_bytes());
        bytes[8..].copy_from_slice(&tail.to_le_bytes());
        bytes
    }

    /// From these bytes; `None` if they are no entry.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (head, tail) = (word(0)?, word(8)?);
        let sequence = head & SEQUENCE;
        Some(match head >> 56 {
            1 => Entry::Written {
                unit: Unit(tail as u32),
                from: (sequence >> 28) as u32,
                until: sequence as u32 & OPEN,
            },
            2 => Entry::Gone { first: Lpn((tail >> 32) as u32), count: tail as u32, sequence },
            3 => Entry::Stale { place: Ppa(tail as u32), sequence },
            4 => Entry::Bad { unit: Unit(tail as u32) },
            5 => Entry::Failed {
                unit: Unit(tail as u32),
                from: (sequence >> 28) as u32,
                until: sequence as u32 & OPEN,
            },
            _ => return None,
        })
    }
}

/// The journal.
#[derive(Clone, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
    /// Of these the first are from before the checkpoint that is under way.
    older: usize,
    /// Ranges among them.
    ranges: u32,
}

impl Journal {
    /// One more.
    pub fn push(&mut self, entry: Entry) {
        // A large discard comes in steps.
        if let (
            Some(Entry::Gone { first, count, sequence }),
            Entry::Gone { first: next, count: more, sequence: then },
        ) = (self.entries.back_mut(), entry)
            && first.0.checked_add(*count) == Some(next.0)
            && count.checked_add(more).is_some()
            && *sequence == then
            && self.entries.len() > self.older
        {
            if let Some(Entry::Gone { count, .. }) = self.entries.back_mut() {
                *count += more;
            }
            return;
        }
        self.ranges += u32::from(matches!(entry, Entry::Written { .. }));
        self.entries.push_back(entry);
    }

    /// A unit is erased: what was in it does not count any more.
    pub fn forget(&mut self, unit: Unit) {
        let of = |entry: &Entry| match entry {
            Entry::Written { unit: u, .. } | Entry::Failed { unit: u, .. } => *u == unit,
            _ => false,
        };
        let is_range = |entry: &&Entry| matches!(entry, Entry::Written { .. });
        self.older -= self.entries.iter().take(self.older).filter(|e| of(e)).count();
        self.ranges -= self.entries.iter().filter(|e| of(e)).filter(is_range).count() as u32;
        self.entries.retain(|entry| !of(entry));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries since the last checkpoint began, and ranges among all.
    pub fn young(&self) -> (usize, u32) {
        (self.entries.len() - self.older, self.ranges)
    }

    /// All, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries.iter().copied()
    }

    /// A checkpoint begins, while these units are being written, each mapped up to a page.
    pub fn begin_checkpoint(&mut self, writing: impl Iterator<Item = (Unit, u32)>) {
        self.older = self.entries.len();
        for (unit, from) in writing {
            self.push(Entry::Written { unit, from, until: OPEN });
        }
    }

    /// It is complete.
    pub fn end_checkpoint(&mut self) {
        let void = self.entries.drain(..std::mem::take(&mut self.older));
        self.ranges -= void.filter(|e| matches!(e, Entry::Written { .. })).count() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_their_bytes_say() {
        for entry in [
            Entry::Written { unit: Unit(7), from: 0, until: OPEN },
            Entry::Written { unit: Unit(u32::MAX), from: 70_000, until: 70_001 },
            Entry::Gone { first: Lpn(u32::MAX), count: u32::MAX, sequence: SEQUENCE },
            Entry::Stale { place: Ppa(9), sequence: 1 },
            Entry::Bad { unit: Unit(3) },
            Entry::Failed { unit: Unit(3), from: 1, until: 2 },
        ] {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES]), None);
        assert_eq!(Entry::decode(&[]), None);
    }

    /// What a damaged dump says must not stop the drive from saying so.
    #[test]
    fn no_entry_is_too_large() {
        let mut journal = Journal::default();
        let gone = |first, count| Entry::Gone { first: Lpn(first), count, sequence: 9 };
        for entry in [gone(u32::MAX, u32::MAX), gone(0, 1), gone(1, u32::MAX)] {
            journal.push(entry);
        }
        assert_eq!(journal.len(), 3);
    }

    #[test]
    fn a_checkpoint_voids_what_was_there_when_it_began() {
        let mut journal = Journal::default();
        let written = |n, from| Entry::Written { unit: Unit(n), from, until: OPEN };
        journal.push(written(1, 0));
        journal.push(Entry::Gone { first: Lpn(5), count: 2, sequence: 9 });
        journal.push(Entry::Gone { first: Lpn(7), count: 3, sequence: 9 });
        journal.push(Entry::Gone { first: Lpn(10), count: 1, sequence: 10 });
        assert_eq!((journal.len(), journal.young()), (3, (3, 1)));
        journal.begin_checkpoint([(Unit(1), 4)].into_iter());
        journal.push(Entry::Gone { first: Lpn(11), count: 1, sequence: 10 });
        assert_eq!((journal.len(), journal.young()), (5, (2, 2)));
        journal.end_checkpoint();
        let left: Vec<_> = journal.entries().collect();
        assert_eq!(left, [written(1, 4), Entry::Gone { first: Lpn(11), count: 1, sequence: 10 }]);
        assert_eq!(journal.young(), (2, 1));
    }
}
