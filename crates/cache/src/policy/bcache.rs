//! A cache in the manner of Linux' bcache (drivers/md/bcache), with which FaCE compares itself.
//!
//! 1. Pages enter when they are read from the slow store, and dirty exits enter: each is one write
//!    of one page to one of six open buckets of 512 KiB.
//! 2. Buckets are emptied as a whole: the one read the longest ago (LRU) or filled the longest ago
//!    (FIFO). Its dirty pages go to the slow store first.
//! 3. A run of consecutive pages of 4 MiB or more bypasses the cache from there on: what is read is
//!    not admitted, what is written goes to the slow store. Of reads only misses count.
//! 4. Changes of the index go to a journal behind the buckets: a block of 4 KiB after 128 of them.

use super::buckets::Buckets;
use super::contract::{Access, Exit, Hit, Mode, Occupancy, Policy, Pull};
use super::page::{Lsn, PageId, Version};
use super::runs::Runs;
use super::work::{Source, Work};

/// Bytes of a bucket.
pub(super) const BUCKET: u64 = 512 << 10;
/// The length of a run from which on it is bypassed, in bytes.
const BYPASS: u64 = 4 << 20;
/// Bytes of a block of the journal.
const BLOCK: u64 = 4096;
/// Changes of the index in a block.
const CHANGES: u32 = 128;
/// Blocks of the journal, which is a ring.
const BLOCKS: u64 = 256;

/// See the module.
pub(super) struct Bcache {
    buckets: Buckets,
    runs: Runs,
    bypass: u64,
    lru: bool,
    mode: Mode,
    changes: u32,
    block: u64,
}

impl Bcache {
    /// So many buckets of so many pages each.
    pub fn new(buckets: u32, pages: u32, page_bytes: u64, lru: bool, mode: Mode) -> Bcache {
        Bcache {
            buckets: Buckets::new(buckets, pages, page_bytes),
            runs: Runs::default(),
            bypass: BYPASS / page_bytes,
            lru,
            mode,
            changes: 0,
            block: 0,
        }
    }

    fn journal(&mut self, work: &mut Work) {
        self.changes += 1;
        if self.changes == CHANGES {
            self.changes = 0;
            work.metadata_write(self.journal_start() + self.block * BLOCK, BLOCK);
            self.block = (self.block + 1) % BLOCKS;
        }
    }

    fn journal_start(&self) -> u64 {
        self.buckets.bytes().next_multiple_of(BLOCK)
    }

    fn append(&mut self, version: Version, client: u32, dirty: bool, work: &mut Work) {
        self.buckets.append(version, client, dirty, work);
        self.journal(work);
    }

    fn drop_page(&mut self, page: PageId, work: &mut Work) {
        if self.buckets.invalidate(page) {
            self.journal(work);
        }
    }
}

impl Policy for Bcache {
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit> {
        let frame = self.buckets.find(access.page)?;
        if self.lru {
            self.buckets.touch(frame);
        }
        Some(self.buckets.read(frame, work))
    }

    fn fetched(&mut self, access: Access, lsn: Lsn, work: &mut Work) {
        let length = self.runs.take(access.page);
        if length < self.bypass && self.buckets.find(access.page).is_none() {
            self.append(Version { page: access.page, lsn }, access.client, false, work);
        }
    }

    fn evict(&mut self, exit: Exit, _: &mut dyn Pull, work: &mut Work) {
        let held = self.buckets.find(exit.page);
        let enters = if held.is_some() { exit.fdirty } else { exit.dirty };
        if !enters {
            return;
        }
        if let Some(frame) = held {
            let newest = self.buckets.lsn(frame);
            assert!(exit.lsn >= newest, "an exit is older than the version on flash");
        }
        let version = Version { page: exit.page, lsn: exit.lsn };
        let bypassed = self.runs.take(exit.page) >= self.bypass;
        let back = exit.dirty && self.mode == Mode::Back && !bypassed;
        if exit.dirty && !back {
            work.slow_write(version, Source::Ram);
        }
        match bypassed {
            true => self.drop_page(exit.page, work),
            false => self.append(version, exit.client, back, work),
        }
    }

    fn forget(&mut self, page: PageId, work: &mut Work) {
        self.drop_page(page, work);
    }

    fn flush(&mut self, _: &mut Work) {}

    fn clean(&mut self, work: &mut Work) {
        self.buckets.clean(work);
    }

    fn occupancy(&self) -> Occupancy {
        self.buckets.occupancy()
    }

    fn flash_bytes(&self) -> u64 {
        self.journal_start() + BLOCKS * BLOCK
    }
}
