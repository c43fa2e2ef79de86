//! Buckets of frames, each filled from its start to its end and emptied as a whole.
//!
//! 1. A page has one valid frame at most; the table names exactly the valid frames.
//! 2. A bucket is free, open (being filled) or full. Frames are written once between two times at
//!    which their bucket was free.
//! 3. The order has exactly the full buckets.

use super::contract::{Hit, Occupancy};
use super::list::{List, NONE};
use super::page::{Lsn, PageId, Version};
use super::work::{Source, Work};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// How many buckets are filled at a time.
const OPEN: usize = 6;

#[derive(Clone, Copy, Default)]
struct Frame {
    version: Version,
    valid: bool,
    dirty: bool,
}

/// A bucket that is being filled, and what was written there last.
#[derive(Clone, Copy)]
struct Open {
    bucket: u32,
    client: Option<u32>,
    /// The page behind the last one.
    next: u64,
    used: u64,
}

/// See the module.
pub(super) struct Buckets {
    table: FxHashMap<PageId, u32>,
    frames: Vec<Frame>,
    filled: Vec<u32>,
    open: Vec<Open>,
    free: VecDeque<u32>,
    full: List,
    pages: u32,
    page_bytes: u64,
    now: u64,
    used: u64,
    dirty: u64,
}

impl Buckets {
    /// Buckets of so many pages. There are at least two.
    pub fn new(buckets: u32, pages: u32, page_bytes: u64) -> Buckets {
        let frames = buckets as usize * pages as usize;
        let open = OPEN.min(buckets as usize / 2).max(1);
        let closed = Open { bucket: NONE, client: None, next: 0, used: 0 };
        Buckets {
            table: FxHashMap::with_capacity_and_hasher(frames, Default::default()),
            frames: vec![Frame::default(); frames],
            filled: vec![0; buckets as usize],
            open: vec![closed; open],
            free: (0..buckets).collect(),
            full: List::new(buckets as usize),
            pages,
            page_bytes,
            now: 0,
            used: 0,
            dirty: 0,
        }
    }

    pub fn find(&self, page: PageId) -> Option<u32> {
        self.table.get(&page).copied()
    }

    pub fn lsn(&self, frame: u32) -> Lsn {
        self.frames[frame as usize].version.lsn
    }

    fn offset(&self, frame: u32) -> u64 {
        u64::from(frame) * self.page_bytes
    }

    /// Reads a frame for RAM.
    pub fn read(&self, frame: u32, work: &mut Work) -> Hit {
        let Frame { version, dirty, .. } = self.frames[frame as usize];
        let offset = self.offset(frame);
        work.flash_read(offset, self.page_bytes);
        Hit { lsn: version.lsn, dirty, frame: Some(offset) }
    }

    /// Makes the frame's bucket, if it is full, the last that is emptied.
    pub fn touch(&mut self, frame: u32) {
        let bucket = frame / self.pages;
        if self.filled[bucket as usize] == self.pages {
            self.full.move_to_head(bucket);
        }
    }

    /// Whether the page has a valid version; it has none any more.
    pub fn invalidate(&mut self, page: PageId) -> bool {
        let Some(frame) = self.table.remove(&page) else {
            return false;
        };
        let frame = &mut self.frames[frame as usize];
        self.dirty -= u64::from(frame.dirty);
        (frame.valid, frame.dirty) = (false, false);
        true
    }

    /// Appends a version to an open bucket: to that where the page before it was written, else to
    /// that where the client wrote last, else to that which was not written to for the longest time.
    pub fn append(&mut self, version: Version, client: u32, dirty: bool, work: &mut Work) {
        self.invalidate(version.page);
        let at = self.pick(version.page, client);
        if self.open[at].bucket == NONE {
            self.open[at].bucket = self.empty_bucket(work);
        }
        self.now += 1;
        let bucket = self.open[at].bucket;
        let filled = &mut self.filled[bucket as usize];
        let frame = bucket * self.pages + *filled;
        *filled += 1;
        let next = version.page.0.wrapping_add(1);
        self.open[at] = Open { bucket, client: Some(client), next, used: self.now };
        if *filled == self.pages {
            self.open[at].bucket = NONE;
            self.full.push_head(bucket);
        }
        self.frames[frame as usize] = Frame { version, valid: true, dirty };
        self.table.insert(version.page, frame);
        self.used += 1;
        self.dirty += u64::from(dirty);
        work.flash_write(self.offset(frame), self.page_bytes, [version]);
    }

    fn pick(&self, page: PageId, client: u32) -> usize {
        let written = |o: &Open| o.client.is_some();
        let follows = self.open.iter().position(|o| written(o) && o.next == page.0);
        let same = || self.open.iter().position(|o| o.client == Some(client));
        let oldest = || (0..self.open.len()).min_by_key(|&i| self.open[i].used);
        follows.or_else(same).or_else(oldest).expect("a bucket is open")
    }

    /// A free bucket; if there is none, the first full one in order is emptied.
    fn empty_bucket(&mut self, work: &mut Work) -> u32 {
        if let Some(bucket) = self.free.pop_front() {
            return bucket;
        }
        let bucket = self.full.tail();
        assert_ne!(bucket, NONE, "fewer buckets are open than there are");
        self.full.remove(bucket);
        let first = bucket * self.pages;
        for frame in first..first + self.pages {
            self.clean_frame(frame, work);
            let Frame { version, valid, .. } = self.frames[frame as usize];
            if valid {
                self.invalidate(version.page);
            }
        }
        self.used -= u64::from(self.pages);
        self.filled[bucket as usize] = 0;
        bucket
    }

    fn clean_frame(&mut self, frame: u32, work: &mut Work) {
        let offset = self.offset(frame);
        let frame = &mut self.frames[frame as usize];
        if frame.dirty {
            work.flash_read(offset, self.page_bytes);
            work.slow_write(frame.version, Source::Cache(Some(offset)));
            frame.dirty = false;
            self.dirty -= 1;
        }
    }

    /// Writes every dirty version to the slow store.
    pub fn clean(&mut self, work: &mut Work) {
        for frame in 0..self.frames.len() as u32 {
            self.clean_frame(frame, work);
        }
    }

    pub fn occupancy(&self) -> Occupancy {
        Occupancy { used: self.used, valid: self.table.len() as u64, dirty: self.dirty }
    }

    pub fn bytes(&self) -> u64 {
        self.frames.len() as u64 * self.page_bytes
    }
}
