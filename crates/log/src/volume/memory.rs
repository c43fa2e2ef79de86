//! What a volume has in memory: the changes that are not destaged.
//!
//! 1. Only what is durable in the log is read, or written to the backing. A change that is not
//!    durable yet waits, and changes take effect in the order of the log.
//! 2. A read sees the state of one moment: that of its end. What is destaged while it runs is held
//!    for it.
//! 3. A change is charged from when it is appended until the checkpoint has passed it. So what the
//!    log has since its checkpoint fits into memory again.
//! 4. Whoever destages up to an LSN writes the newest durable content of every block that a change
//!    before that LSN has changed, unless a later durable change replaced it.

use crate::Lsn;
use crate::volume::entry::Entry;
use crate::volume::map::{Content, Map, Piece};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub(crate) struct Memory {
    block: usize,
    map: Map,
    /// Changes that are not known to be durable, with the ends of their records.
    pending: VecDeque<(Lsn, Entry)>,
    /// The ends of durable records, and their charges.
    applied: VecDeque<(Lsn, u64)>,
    used: u64,
    limit: u64,
    /// Reads under way: their blocks, and what was destaged of these meanwhile.
    readers: BTreeMap<u64, (Range<u64>, Map)>,
    next_reader: u64,
}

impl Memory {
    pub fn new(block: usize, limit: u64) -> Memory {
        Memory {
            block,
            map: Map::new(block),
            pending: VecDeque::new(),
            applied: VecDeque::new(),
            used: 0,
            limit,
            readers: BTreeMap::new(),
            next_reader: 0,
        }
    }

    /// Whether there is room for a change. For one change there always is, if there is no other.
    pub fn has_room(&self, charge: u64) -> bool {
        self.used == 0 || self.used + charge <= self.limit
    }

    pub fn is_full(&self) -> bool {
        self.used > self.limit
    }

    /// Whether destaging should begin.
    pub fn is_half_full(&self) -> bool {
        self.used * 2 >= self.limit
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// A change whose record ends at `end` was appended.
    pub fn append(&mut self, end: Lsn, entry: Entry) {
        self.used += entry.charge();
        self.pending.push_back((end, entry));
    }

    /// Where the last change ends that is not known to be durable.
    pub fn pending(&self) -> Option<Lsn> {
        self.pending.back().map(|(end, _)| *end)
    }

    /// Everything before `durable` is durable, and takes effect. Whether there was anything.
    pub fn settle(&mut self, durable: Lsn) -> bool {
        let mut any = false;
        while let Some((end, entry)) = self.pending.pop_front_if(|(end, _)| *end <= durable) {
            for e in &entry.extents {
                let content = match e.data {
                    None => Content::Zeros,
                    Some(at) => Content::Bytes(entry.bytes.clone(), at),
                };
                self.map.insert(Piece { blocks: e.at..e.at + e.count, lsn: end, content });
            }
            self.applied.push_back((end, entry.charge()));
            any = true;
        }
        any
    }

    /// Whether something can be destaged.
    pub fn has_durable(&self) -> bool {
        !self.applied.is_empty()
    }

    /// Up to where to destage for `charge` to become free; everything, if that is less. `None`:
    /// there is nothing.
    pub fn portion(&self, charge: u64) -> Option<Lsn> {
        let mut sum = 0;
        let enough = self.applied.iter().find(|(_, c)| {
            sum += c;
            sum >= charge
        });
        enough.or(self.applied.back()).map(|(end, _)| *end)
    }

    /// What to write to the backing to destage up to `lsn`, ascending.
    pub fn chosen(&self, lsn: Lsn) -> Vec<Piece> {
        self.map.up_to(lsn).cloned().collect()
    }

    /// The backing has everything up to `lsn`, for good, and the checkpoint is there.
    pub fn destaged(&mut self, lsn: Lsn) {
        for (range, held) in self.readers.values_mut() {
            let leaving = self.map.within(range.clone()).filter(|p| p.lsn <= lsn);
            leaving.for_each(|p| held.insert(p));
        }
        self.map.forget(lsn);
        while let Some((_, charge)) = self.applied.pop_front_if(|(end, _)| *end <= lsn) {
            self.used -= charge;
        }
    }

    /// What is here of these blocks, ascending, cut to them.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + '_ {
        self.map.within(range)
    }

    /// A read of these blocks begins: what of them has to be read from the backing.
    pub fn begin_read(&mut self, range: Range<u64>) -> (u64, Vec<Range<u64>>) {
        let gaps = self.map.gaps(range.clone());
        let reader = self.next_reader;
        self.next_reader += 1;
        self.readers.insert(reader, (range, Map::new(self.block)));
        (reader, gaps)
    }

    /// A read ends: what is in `buf` is from the backing, and this puts the newest over it.
    pub fn end_read(&mut self, reader: u64, buf: &mut [u8]) {
        if let Some((range, held)) = self.readers.get(&reader) {
            held.overlay(range.start, buf);
            self.map.overlay(range.start, buf);
        }
    }

    /// A read has ended or was given up.
    pub fn forget_read(&mut self, reader: u64) {
        self.readers.remove(&reader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: usize = 4;
    const BLOCKS: u64 = 16;

    #[derive(Clone, Debug)]
    enum Step {
        Append(Vec<(u64, usize)>),
        Discard(u64, u64),
        Settle(u64),
        /// Destage: how much, and what of it is written before the reads under way look.
        Destage(u64, usize),
        BeginRead(u64, u64),
        EndRead(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let extents = proptest::collection::vec((0..BLOCKS - 4, 1..4usize), 1..3);
        prop_oneof![
            4 => extents.prop_map(Step::Append),
            1 => (0..BLOCKS, 0..8u64).prop_map(|(at, n)| Step::Discard(at, n.min(BLOCKS - at))),
            3 => (0..4u64).prop_map(Step::Settle),
            2 => (0..2000u64, 0..6usize).prop_map(|(charge, n)| Step::Destage(charge, n)),
            2 => (0..BLOCKS, 1..8u64).prop_map(|(at, n)| Step::BeginRead(at, n.min(BLOCKS - at))),
            2 => (0..4usize).prop_map(Step::EndRead),
        ]
    }

    /// Blocks of a device.
    type Disk = Vec<u8>;

    fn put(disk: &mut Disk, piece: &Piece) {
        let bytes = piece.blocks.start as usize * BLOCK..piece.blocks.end as usize * BLOCK;
        piece.content.copy(&mut disk[bytes]);
    }

    /// Copies what is in `gaps` of a read of the blocks from `base` on.
    fn look(disk: &Disk, gaps: &[Range<u64>], base: u64, seen: &mut [u8]) {
        let from = |at: u64, base| (at - base) as usize * BLOCK;
        for gap in gaps {
            let here = &disk[from(gap.start, 0)..from(gap.end, 0)];
            seen[from(gap.start, base)..from(gap.end, base)].copy_from_slice(here);
        }
    }

    struct Read {
        reader: u64,
        range: Range<u64>,
        gaps: Vec<Range<u64>>,
        seen: Disk,
    }

    proptest! {
        /// Reads see the newest durable state, whatever is destaged meanwhile; and the backing with
        /// the changes beyond the checkpoint is that state, too.
        #[test]
        fn reads_and_restarts_see_what_is_durable(
            steps in proptest::collection::vec(step(), 0..60),
        ) {
            let mut memory = Memory::new(BLOCK, 4000);
            let mut disk: Disk = vec![0; BLOCKS as usize * BLOCK];
            let mut newest = disk.clone();
            // The records, of which the first so many are durable or given up.
            let mut records: Vec<Entry> = Vec::new();
            let (mut durable, mut checkpoint) = (0, 0);
            let mut reads: Vec<Read> = Vec::new();
            let apply = |disk: &mut Disk, entry: &Entry| {
                for e in &entry.extents {
                    let content = match e.data {
                        None => Content::Zeros,
                        Some(at) => Content::Bytes(entry.bytes.clone(), at),
                    };
                    put(disk, &Piece { blocks: e.at..e.at + e.count, lsn: Lsn(0), content });
                }
            };
            for step in steps {
                match step {
                    Step::Append(_) | Step::Discard(..) => {
                        let data = [records.len() as u8 + 1; 4 * BLOCK];
                        let entry = match step {
                            Step::Discard(at, count) => Entry::discard(at, count),
                            Step::Append(extents) => {
                                let each = extents.iter().map(|(at, n)| (*at, &data[..n * BLOCK]));
                                Entry::write(&each.collect::<Vec<_>>(), BLOCK)
                            }
                            _ => continue,
                        };
                        records.push(entry.clone());
                        memory.append(Lsn(records.len() as u64), entry);
                    }
                    Step::Settle(more) => {
                        let to = (durable + more as usize).min(records.len());
                        records[durable..to].iter().for_each(|r| apply(&mut newest, r));
                        durable = to;
                        memory.settle(Lsn(durable as u64));
                    }
                    Step::Destage(charge, early) => {
                        let Some(lsn) = memory.portion(charge) else { continue };
                        let pieces = memory.chosen(lsn);
                        let (before, after) = pieces.split_at(early.min(pieces.len()));
                        before.iter().for_each(|p| put(&mut disk, p));
                        // What reads have read of the backing so far is of this moment.
                        for r in &mut reads {
                            look(&disk, &r.gaps, r.range.start, &mut r.seen);
                        }
                        after.iter().for_each(|p| put(&mut disk, p));
                        memory.destaged(lsn);
                        checkpoint = lsn.0 as usize;
                        prop_assert!(checkpoint <= durable);
                    }
                    Step::BeginRead(at, count) => {
                        let range = at..at + count;
                        let (reader, gaps) = memory.begin_read(range.clone());
                        let mut seen = vec![0xEE; count as usize * BLOCK];
                        look(&disk, &gaps, at, &mut seen);
                        reads.push(Read { reader, range, gaps, seen });
                    }
                    Step::EndRead(i) => {
                        if i >= reads.len() {
                            continue;
                        }
                        let Read { reader, range, mut seen, .. } = reads.remove(i);
                        memory.end_read(reader, &mut seen);
                        memory.forget_read(reader);
                        let wanted = range.start as usize * BLOCK..range.end as usize * BLOCK;
                        prop_assert_eq!(&seen[..], &newest[wanted]);
                    }
                }
                let mut restarted = disk.clone();
                records[checkpoint..durable].iter().for_each(|r| apply(&mut restarted, r));
                prop_assert_eq!(&restarted, &newest);
                let charged: u64 = records[checkpoint..].iter().map(Entry::charge).sum();
                prop_assert_eq!(memory.used(), charged);
            }
        }
    }
}
