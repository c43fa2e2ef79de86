//! One change of a volume, as a record of the log. All numbers are little-endian.
//!
//! ```text
//! 0  1 kind: 1 write, 2 discard
//! 1  3 zeros
//! 4  4 n, extents
//! 8  . for each extent: its first block (8), its blocks (8)
//!    . of a write: the data of the extents, one behind the other
//! ```
//!
//! 1. What was encoded is parsed to the same. Whatever else is parsed is refused, or is a change
//!    within the volume: never a panic.

use crate::format::number;
use std::rc::Rc;

const HEAD: usize = 8;
const EXTENT: usize = 16;
const WRITE: u8 = 1;
const DISCARD: u8 = 2;
/// What a record and each of its extents cost in memory beside the bytes: places in the map. An
/// extent adds at most two of these.
const COST: u64 = 192;

/// Where an extent is, and where in the record its data are; `None`: zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub at: u64,
    pub count: u64,
    pub data: Option<usize>,
}

/// A change: a record and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub bytes: Rc<Vec<u8>>,
    pub extents: Vec<Placed>,
}

/// The bytes of a record with so many extents and bytes of data.
pub(crate) fn record_bytes(extents: usize, data: u64) -> u64 {
    (HEAD + extents * EXTENT) as u64 + data
}

impl Entry {
    /// A write of these extents as one. Each is a whole number of blocks.
    pub fn write(extents: &[(u64, &[u8])], block: usize) -> Entry {
        let data: usize = extents.iter().map(|(_, d)| d.len()).sum();
        let mut bytes = Vec::with_capacity(record_bytes(extents.len(), data as u64) as usize);
        let ranges = extents.iter().map(|(at, d)| (*at, (d.len() / block) as u64));
        head(&mut bytes, WRITE, ranges);
        let mut placed = Vec::with_capacity(extents.len());
        for (at, data) in extents {
            let count = (data.len() / block) as u64;
            placed.push(Placed { at: *at, count, data: Some(bytes.len()) });
            bytes.extend_from_slice(data);
        }
        Entry { bytes: Rc::new(bytes), extents: placed }
    }

    /// A discard.
    pub fn discard(at: u64, count: u64) -> Entry {
        let mut bytes = Vec::new();
        head(&mut bytes, DISCARD, [(at, count)].into_iter());
        Entry { bytes: Rc::new(bytes), extents: vec![Placed { at, count, data: None }] }
    }

    /// What a record of a volume of so many blocks says; `None` if it is no such record.
    pub fn parse(bytes: Vec<u8>, block: usize, blocks: u64) -> Option<Entry> {
        if bytes.len() < HEAD {
            return None;
        }
        let (kind, n) = (bytes[0], number(&bytes, 4, 4) as usize);
        let mut data = HEAD.checked_add(n.checked_mul(EXTENT)?)?;
        if data > bytes.len() || !matches!(kind, WRITE | DISCARD) {
            return None;
        }
        let mut extents = Vec::with_capacity(n);
        for i in 0..n {
            let from = HEAD + i * EXTENT;
            let (at, count) = (number(&bytes, from, 8), number(&bytes, from + 8, 8));
            if at.checked_add(count)? > blocks {
                return None;
            }
            let place = (kind == WRITE).then_some(data);
            if place.is_some() {
                data = data.checked_add(usize::try_from(count).ok()?.checked_mul(block)?)?;
            }
            extents.push(Placed { at, count, data: place });
        }
        (data == bytes.len()).then(|| Entry { bytes: Rc::new(bytes), extents })
    }

    /// Bytes of memory that it takes, at most.
    pub fn charge(&self) -> u64 {
        self.bytes.len() as u64 + COST * (1 + self.extents.len() as u64)
    }
}

fn head(bytes: &mut Vec<u8>, kind: u8, ranges: impl ExactSizeIterator<Item = (u64, u64)>) {
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
    for (at, count) in ranges {
        bytes.extend_from_slice(&at.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_encoded_is_parsed(
            extents in proptest::collection::vec((0..50u64, 0..5usize), 0..5),
            discard in (0..50u64, 0..50u64),
        ) {
            let data = [7; 5 * 16];
            let extents: Vec<(u64, &[u8])> =
                extents.iter().map(|(at, n)| (*at, &data[..n * 16])).collect();
            for entry in [Entry::write(&extents, 16), Entry::discard(discard.0, discard.1)] {
                let parsed = Entry::parse(entry.bytes.to_vec(), 16, 100);
                prop_assert_eq!(parsed, Some(entry));
            }
        }

        #[test]
        fn anything_else_is_refused_or_within_the_volume(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in 0..4u8, n in 0..4u8, small in any::<bool>(),
        ) {
            if bytes.len() > 8 {
                bytes[..8].copy_from_slice(&[kind, 0, 0, 0, n, 0, 0, 0]);
                if small {
                    let numbers = bytes[8..].iter_mut().enumerate();
                    numbers.filter(|(i, _)| i % 8 > 0).for_each(|(_, b)| *b = 0);
                }
            }
            let length = bytes.len();
            if let Some(entry) = Entry::parse(bytes, 16, 100) {
                for e in entry.extents {
                    prop_assert!(e.at + e.count <= 100);
                    prop_assert!(e.data.is_none_or(|d| d + e.count as usize * 16 <= length));
                }
            }
        }
    }
}
