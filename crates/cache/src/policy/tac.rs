//! Temperature-aware caching (Canim, Mihaila, Bhattacharjee, Ross, Lang, "SSD bufferpool extensions
//! for database systems", PVLDB 2010), as FaCE compares itself with it.
//!
//! 1. Pages enter when they are read from the slow store. If the cache is full, a page enters only
//!    if its extent is hotter than the coldest extent with cached pages, in the place of one of its
//!    pages.
//! 2. Write-through: a dirty exit goes to the slow store, and to flash if the page has a frame there.
//!    No frame is ever dirty.
//! 3. Each entry costs two random writes of metadata, one before the frame is overwritten (it is
//!    valid no more) and one after (it is, with its new page): 4 KiB each, in a table behind the
//!    frames with 32 bytes for each of them.

use super::contract::{Access, Exit, Hit, Occupancy, Policy, Pull};
use super::page::{Lsn, PageId, Version};
use super::slots::Slots;
use super::temperature::Temperatures;
use super::work::{Source, Work};

/// Bytes of a write of metadata.
const BLOCK: u64 = 4096;
/// Bytes of a frame's entry.
const ENTRY: u64 = 32;

/// See the module.
pub(super) struct Tac {
    slots: Slots,
    heat: Temperatures,
}

impl Tac {
    pub fn new(frames: usize, page_bytes: u64) -> Tac {
        Tac { slots: Slots::new(frames, page_bytes), heat: Temperatures::new(frames) }
    }

    fn write_entry(&self, slot: u32, work: &mut Work) {
        let block = u64::from(slot) * ENTRY / BLOCK;
        work.metadata_write(self.slots.bytes().next_multiple_of(BLOCK) + block * BLOCK, BLOCK);
    }

    fn drop_slot(&mut self, slot: u32) {
        self.heat.left(self.slots.get(slot).version.page, slot);
        self.slots.free(slot);
    }
}

impl Policy for Tac {
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit> {
        self.heat.heat(access.page);
        let slot = self.slots.find(access.page)?;
        Some(self.slots.read(slot, work))
    }

    fn fetched(&mut self, access: Access, lsn: Lsn, work: &mut Work) {
        if self.slots.find(access.page).is_some() {
            return;
        }
        if self.slots.is_full() {
            let Some((coldest, slot)) = self.heat.coldest() else {
                return;
            };
            if self.heat.of(access.page) <= coldest {
                return;
            }
            self.drop_slot(slot);
        }
        self.write_entry(self.slots.next_free(), work);
        let slot = self.slots.enter(Version { page: access.page, lsn }, false, work);
        self.write_entry(slot, work);
        self.heat.entered(access.page, slot);
    }

    fn evict(&mut self, exit: Exit, _: &mut dyn Pull, work: &mut Work) {
        if exit.dirty {
            work.slow_write(Version { page: exit.page, lsn: exit.lsn }, Source::Ram);
        }
        if exit.fdirty
            && let Some(slot) = self.slots.find(exit.page)
        {
            self.slots.overwrite(slot, exit.lsn, false, work);
        }
    }

    fn forget(&mut self, page: PageId, work: &mut Work) {
        if let Some(slot) = self.slots.find(page) {
            self.drop_slot(slot);
            self.write_entry(slot, work);
        }
    }

    fn flush(&mut self, _: &mut Work) {}

    fn clean(&mut self, _: &mut Work) {}

    fn occupancy(&self) -> Occupancy {
        self.slots.occupancy()
    }

    fn flash_bytes(&self) -> u64 {
        let table = (self.slots.frames() as u64 * ENTRY).next_multiple_of(BLOCK);
        self.slots.bytes().next_multiple_of(BLOCK) + table
    }
}
