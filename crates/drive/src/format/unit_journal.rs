//! Entries of the journal of units, as they are dumped and spilled.

use crate::format::words::{Lpn, Ppa};
use tantalum_nand::{SECTOR_BYTES, Unit};

/// Entries of the journal of units in a sector.
pub const SECTOR_ENTRIES: usize = SECTOR_BYTES as usize / ENTRY_BYTES;

/// Bytes of an entry, in memory as on flash.
pub const ENTRY_BYTES: usize = 16;

/// The end of a range that reaches to the last written page of its unit.
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
        /// Only data born before this sequence number were discarded.
        sequence: u64,
    },
    /// The data in this sector of this page were out of date when they landed.
    Stale {
        /// The place.
        place: Ppa,
        /// The sequence number of the page, in case its unit was erased since.
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
    /// Entries that come before those in memory are in this sector of the map log.
    Spilled {
        /// Where.
        place: Ppa,
    },
    /// A unit was erased: entries before this one that name it are void.
    Forgotten {
        /// Which.
        unit: Unit,
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
            Entry::Spilled { place } => (6, 0, u64::from(place.0)),
            Entry::Forgotten { unit } => (7, 0, u64::from(unit.0)),
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
            6 => Entry::Spilled { place: Ppa(tail as u32) },
            7 => Entry::Forgotten { unit: Unit(tail as u32) },
            _ => return None,
        })
    }

    /// The unit whose pages it names.
    pub fn names(&self) -> Option<Unit> {
        match self {
            Entry::Written { unit, .. } | Entry::Failed { unit, .. } => Some(*unit),
            _ => None,
        }
    }

    pub fn is_range(&self) -> bool {
        matches!(self, Entry::Written { .. })
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
            Entry::Spilled { place: Ppa(8) },
            Entry::Forgotten { unit: Unit(5) },
        ] {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
        assert_eq!(Entry::decode(&[0; ENTRY_BYTES]), None);
        assert_eq!(Entry::decode(&[]), None);
    }
}
