//! An exact and compact record of which blocks were read, and how often each was written.
//!
//! 1. Blocks are kept in regions of [`REGION`] blocks. A region is a sorted list while it has few
//!    blocks (6 bytes each), and an array once it has many (4 bytes for each block of the region).
//! 2. So a block costs at most 16 bytes, and its region about 150.
//! 3. Above a budget nothing more is recorded, and [`Blocks::is_complete`] is false.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Blocks in a region.
const REGION: u64 = 4096;
/// A region with more blocks than this becomes an array.
const SPARSE: usize = 1024;
/// Bytes that a region takes besides its blocks, rounded up.
const REGION_BYTES: u64 = 150;

/// A block's record: the lowest bit says that it was read, the other bits count writes.
type Record = u32;
const READ: Record = 1;
const WRITE: Record = 2;

enum Region {
    Sparse { at: Vec<u16>, records: Vec<Record> },
    Dense(Box<[Record]>),
}

/// Blocks of several devices, with their records.
pub(super) struct Blocks {
    regions: FxHashMap<(u32, u64), Region>,
    bytes: u64,
    budget: u64,
    complete: bool,
}

/// The totals over all blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub touched: u64,
    pub read: u64,
    pub written: u64,
    /// How many blocks were written how often.
    pub by_writes: BTreeMap<u32, u64>,
}

impl Blocks {
    /// An empty record that uses about `budget` bytes at most.
    pub fn new(budget: u64) -> Blocks {
        Blocks { regions: FxHashMap::default(), bytes: 0, budget, complete: true }
    }

    /// Whether everything was recorded.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Records one read or write of the blocks from `first` to `last`, both included.
    pub fn add(&mut self, device: u32, first: u64, last: u64, write: bool) {
        let mut block = first;
        while self.complete && block <= last {
            let region = block / REGION;
            let end = last.min(region * REGION + (REGION - 1));
            let from = (block % REGION) as u16;
            let to = (end % REGION) as u16;
            self.add_in_region((device, region), from, to, write);
            block = end + 1;
        }
    }

    fn add_in_region(&mut self, key: (u32, u64), from: u16, to: u16, write: bool) {
        // The most that this can cost is a new region as an array.
        if self.bytes + REGION_BYTES + REGION * 4 > self.budget {
            self.complete = false;
            self.regions = FxHashMap::default();
            return;
        }
        let region = self.regions.entry(key).or_insert_with(|| {
            self.bytes += REGION_BYTES;
            Region::Sparse { at: Vec::new(), records: Vec::new() }
        });
        let before = region.bytes();
        for block in from..=to {
            region.add(block, write);
        }
        self.bytes = self.bytes + region.bytes() - before;
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let all = self.regions.values().flat_map(|region| match region {
            Region::Sparse { records, .. } => records.iter(),
            Region::Dense(records) => records.iter(),
        });
        for &record in all.filter(|r| **r != 0) {
            totals.touched += 1;
            totals.read += u64::from(record & READ);
            let writes = record / WRITE;
            if writes > 0 {
                totals.written += 1;
                *totals.by_writes.entry(writes).or_default() += 1;
            }
        }
        totals
    }
}

impl Region {
    fn bytes(&self) -> u64 {
        match self {
            Region::Sparse { at, records } => (at.capacity() * 2 + records.capacity() * 4) as u64,
            Region::Dense(records) => records.len() as u64 * 4,
        }
    }

    fn add(&mut self, block: u16, write: bool) {
        let record = self.record(block);
        // The count of writes stays at its maximum of 2^31 - 1.
        *record = if write { record.checked_add(WRITE).unwrap_or(*record) } else { *record | READ };
    }

    fn record(&mut self, block: u16) -> &mut Record {
        if let Region::Sparse { at, records } = self
            && at.len() >= SPARSE
            && at.binary_search(&block).is_err()
        {
            let mut dense = vec![0; REGION as usize].into_boxed_slice();
            for (at, record) in at.iter().zip(records) {
                dense[usize::from(*at)] = *record;
            }
            *self = Region::Dense(dense);
        }
        match self {
            Region::Dense(records) => &mut records[usize::from(block)],
            Region::Sparse { at, records } => {
                let index = at.binary_search(&block).unwrap_or_else(|index| {
                    at.insert(index, block);
                    records.insert(index, 0);
                    index
                });
                &mut records[index]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_map(
            adds in prop::collection::vec((0..2_u32, 0..20_000_u64, 0..3_000_u64, any::<bool>()), 0..40)
        ) {
            let mut blocks = Blocks::new(1 << 30);
            let mut model: BTreeMap<(u32, u64), (bool, u32)> = BTreeMap::new();
            for (device, first, more, write) in adds {
                blocks.add(device, first, first + more, write);
                for block in first..=first + more {
                    let (read, writes) = model.entry((device, block)).or_default();
                    *read |= !write;
                    *writes += u32::from(write);
                }
            }
            let mut expected = Totals { touched: model.len() as u64, ..Totals::default() };
            for (read, writes) in model.into_values() {
                expected.read += u64::from(read);
                if writes > 0 {
                    expected.written += 1;
                    *expected.by_writes.entry(writes).or_default() += 1;
                }
            }
            prop_assert!(blocks.is_complete());
            prop_assert_eq!(blocks.totals(), expected);
        }
    }

    #[test]
    fn scattered_blocks_are_cheap_and_the_budget_holds() {
        let mut blocks = Blocks::new(1 << 20);
        for n in 0..1_000 {
            blocks.add(0, n * REGION, n * REGION, true);
        }
        assert!(blocks.is_complete() && blocks.bytes < 200_000, "{}", blocks.bytes);
        blocks.add(0, 0, u64::MAX / 4096, true);
        assert!(!blocks.is_complete() && blocks.bytes <= 1 << 20);
        assert_eq!(blocks.totals(), Totals::default());
    }
}
