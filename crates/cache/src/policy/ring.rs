//! A ring of batches of frames: versions enter at the rear, and whole batches leave at the front.
//!
//! 1. At most one version of a page is valid, and the table names exactly the valid frames.
//! 2. The open batch is filled in memory and written in one piece. All frames before it are on
//!    flash.
//! 3. **A batch to spare.** Flash has one position more than batches in use: a batch that left at
//!    the front is overwritten by the batch after the next, never by the one which its pages entered
//!    again.
//! 4. On flash a batch is a descriptor (4 KiB, or more if its entries of 32 bytes take more) and its
//!    frames. A batch of one frame has none.

use super::page::{PageId, Version};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Bytes of an entry in descriptors and segments.
pub(super) const ENTRY: u64 = 32;
/// Bytes of a descriptor before its entries.
const HEAD: u64 = 64;
/// Descriptors are multiples of this.
const BLOCK: u64 = 4096;

/// A frame's entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub version: Version,
    pub valid: bool,
    pub dirty: bool,
    pub referenced: bool,
}

/// A batch that was completed, or is at the front.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub position: u32,
    pub pages: u32,
}

/// See the module.
pub(super) struct Ring {
    table: FxHashMap<PageId, u32>,
    /// Of each position, its frames.
    entries: Vec<Entry>,
    /// Of each position, how many frames are in use.
    filled: Vec<u32>,
    batch: u32,
    front: u32,
    /// Batches on flash, from the front on; behind them is the open one.
    full: u32,
    page_bytes: u64,
    used: u64,
    dirty: u64,
}

impl Ring {
    /// A ring of so many batches.
    pub fn new(batches: u32, batch: u32, page_bytes: u64) -> Ring {
        let positions = batches as usize + 1;
        let frames = positions * batch as usize;
        Ring {
            table: FxHashMap::with_capacity_and_hasher(frames, Default::default()),
            entries: vec![Entry::default(); frames],
            filled: vec![0; positions],
            batch,
            front: 0,
            full: 0,
            page_bytes,
            used: 0,
            dirty: 0,
        }
    }

    fn positions(&self) -> u32 {
        self.filled.len() as u32
    }

    fn open(&self) -> u32 {
        (self.front + self.full) % self.positions()
    }

    fn descriptor(&self) -> u64 {
        match self.batch {
            1 => 0,
            frames => (HEAD + ENTRY * u64::from(frames)).next_multiple_of(BLOCK),
        }
    }

    fn batch_bytes(&self) -> u64 {
        self.descriptor() + u64::from(self.batch) * self.page_bytes
    }

    /// The bytes of all positions.
    pub fn bytes(&self) -> u64 {
        u64::from(self.positions()) * self.batch_bytes()
    }

    /// Where a batch is written, descriptor first, and how long it is.
    pub fn place(&self, batch: Batch) -> (u64, u64) {
        let offset = u64::from(batch.position) * self.batch_bytes();
        (offset, self.descriptor() + u64::from(batch.pages) * self.page_bytes)
    }

    /// A frame's first byte; `None` in the open batch.
    pub fn offset(&self, frame: u32) -> Option<u64> {
        let position = frame / self.batch;
        (position != self.open()).then(|| self.byte(frame))
    }

    /// A frame's first byte.
    pub fn byte(&self, frame: u32) -> u64 {
        let in_batch = u64::from(frame % self.batch) * self.page_bytes;
        u64::from(frame / self.batch) * self.batch_bytes() + self.descriptor() + in_batch
    }

    pub fn find(&self, page: PageId) -> Option<u32> {
        self.table.get(&page).copied()
    }

    /// The pages among these that have a valid version.
    pub fn pages_in(&self, pages: &Range<u64>) -> Vec<PageId> {
        self.table.keys().filter(|page| pages.contains(&page.0)).copied().collect()
    }

    pub fn entry(&self, frame: u32) -> Entry {
        self.entries[frame as usize]
    }

    pub fn reference(&mut self, frame: u32) {
        self.entries[frame as usize].referenced = true;
    }

    pub fn mark_clean(&mut self, frame: u32) {
        let entry = &mut self.entries[frame as usize];
        self.dirty -= u64::from(entry.dirty);
        entry.dirty = false;
    }

    /// The page has no valid version any more.
    pub fn invalidate(&mut self, page: PageId) {
        if let Some(frame) = self.table.remove(&page) {
            self.mark_clean(frame);
            self.entries[frame as usize].valid = false;
        }
    }

    /// Whether the front batch must leave before a version can enter.
    pub fn is_at_its_end(&self) -> bool {
        self.full + 1 == self.positions()
    }

    /// How many versions the open batch has.
    pub fn open_pages(&self) -> u32 {
        self.filled[self.open() as usize]
    }

    pub fn open_is_full(&self) -> bool {
        self.open_pages() == self.batch
    }

    /// Puts a version into the open batch. Its page has no valid version.
    pub fn push(&mut self, entry: Entry) {
        assert!(!self.is_at_its_end() && !self.open_is_full(), "the front batch left in time");
        let position = self.open();
        let frame = position * self.batch + self.filled[position as usize];
        self.filled[position as usize] += 1;
        let was = self.table.insert(entry.version.page, frame);
        assert!(was.is_none(), "at most one version of a page is valid");
        self.entries[frame as usize] = Entry { valid: true, ..entry };
        self.used += 1;
        self.dirty += u64::from(entry.dirty);
    }

    /// Ends the open batch: it has to be written now.
    pub fn complete(&mut self) -> Batch {
        let position = self.open();
        let batch = Batch { position, pages: self.filled[position as usize] };
        self.full += 1;
        batch
    }

    /// The versions of a batch, valid or not, in order.
    pub fn versions(&self, batch: Batch) -> impl Iterator<Item = Version> + '_ {
        let first = (batch.position * self.batch) as usize;
        self.entries[first..first + batch.pages as usize].iter().map(|e| e.version)
    }

    /// Takes the front batch out of the ring; its valid entries come to `out` with their frames.
    pub fn take_front(&mut self, out: &mut Vec<(u32, Entry)>) -> Batch {
        assert!(self.full > 0, "the ring has a batch");
        let position = self.front;
        let pages = std::mem::take(&mut self.filled[position as usize]);
        let first = position * self.batch;
        for frame in first..first + pages {
            let entry = self.entry(frame);
            if entry.valid {
                out.push((frame, entry));
                self.invalidate(entry.version.page);
            }
        }
        self.used -= u64::from(pages);
        self.front = (position + 1) % self.positions();
        self.full -= 1;
        Batch { position, pages }
    }

    /// The frames with dirty versions, in ring order.
    pub fn dirty_frames(&self) -> Vec<u32> {
        let positions = (0..=self.full).map(|i| (self.front + i) % self.positions());
        let frames = positions.flat_map(|p| (0..self.filled[p as usize]).map(move |i| (p, i)));
        frames.map(|(p, i)| p * self.batch + i).filter(|&f| self.entry(f).dirty).collect()
    }

    /// Frames in use, valid and dirty.
    pub fn occupancy(&self) -> (u64, u64, u64) {
        (self.used, self.table.len() as u64, self.dirty)
    }
}
