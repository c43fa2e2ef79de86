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
