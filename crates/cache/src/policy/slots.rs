//! Frames in which a page keeps its place: one frame for each page, overwritten in place.
//!
//! 1. A page has one slot at most, and the table names exactly the slots in use.
//! 2. Slot `n` is the frame at byte `n` × page size.

use super::contract::{Hit, Occupancy};
use super::page::{Lsn, PageId, Version};
use super::work::{Source, Work};
use rustc_hash::FxHashMap;

/// A slot in use.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    pub version: Version,
    pub dirty: bool,
}

/// See the module.
pub(super) struct Slots {
    table: FxHashMap<PageId, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    dirty: u64,
    page_bytes: u64,
}

impl Slots {
    pub fn new(frames: usize, page_bytes: u64) -> Slots {
        Slots {
            table: FxHashMap::with_capacity_and_hasher(frames, Default::default()),
            slots: vec![Slot::default(); frames],
            free: (0..frames as u32).rev().collect(),
            dirty: 0,
            page_bytes,
        }
    }

    pub fn find(&self, page: PageId) -> Option<u32> {
        self.table.get(&page).copied()
    }

    pub fn get(&self, slot: u32) -> Slot {
        self.slots[slot as usize]
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// The slot that [`Slots::enter`] takes next.
    pub fn next_free(&self) -> u32 {
        *self.free.last().expect("the policy made room")
    }

    pub fn frames(&self) -> usize {
        self.slots.len()
    }

    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    pub fn bytes(&self) -> u64 {
        self.slots.len() as u64 * self.page_bytes
    }

    /// The slots in use that are dirty, in order.
    pub fn dirty_slots(&self) -> impl Iterator<Item = u32> + use<> {
        let dirty: Vec<u32> =
            (0..self.slots.len() as u32).filter(|&n| self.slots[n as usize].dirty).collect();
        dirty.into_iter()
    }

    fn offset(&self, slot: u32) -> u64 {
        u64::from(slot) * self.page_bytes
    }

    /// Reads a slot for RAM.
    pub fn read(&self, slot: u32, work: &mut Work) -> Hit {
        let Slot { version, dirty } = self.get(slot);
        let offset = self.offset(slot);
        work.flash_read(offset, self.page_bytes);
        Hit { lsn: version.lsn, dirty, frame: Some(offset) }
    }

    /// Puts a page that has no slot into a free one, and writes it there.
    pub fn enter(&mut self, version: Version, dirty: bool, work: &mut Work) -> u32 {
        let slot = self.free.pop().expect("the policy made room");
        let was = self.table.insert(version.page, slot);
        assert!(was.is_none(), "a page has one slot at most");
        self.write(slot, version, dirty, work);
        slot
    }

    /// Overwrites a slot with a version of the same page.
    pub fn overwrite(&mut self, slot: u32, lsn: Lsn, dirty: bool, work: &mut Work) {
        let Version { page, lsn: held } = self.get(slot).version;
        assert!(lsn >= held, "an exit is older than the version on flash");
        self.write(slot, Version { page, lsn }, dirty, work);
    }

    fn write(&mut self, slot: u32, version: Version, dirty: bool, work: &mut Work) {
        self.mark(slot, dirty);
        self.slots[slot as usize].version = version;
        work.flash_write(self.offset(slot), self.page_bytes, [version]);
    }

    /// Sets whether a slot is dirty.
    fn mark(&mut self, slot: u32, dirty: bool) {
        let slot = &mut self.slots[slot as usize];
        self.dirty = self.dirty - u64::from(slot.dirty) + u64::from(dirty);
        slot.dirty = dirty;
    }

    /// Writes a slot to the slow store if it is dirty.
    pub fn clean(&mut self, slot: u32, work: &mut Work) {
        let Slot { version, dirty } = self.get(slot);
        if dirty {
            let offset = self.offset(slot);
            work.flash_read(offset, self.page_bytes);
            work.slow_write(version, Source::Cache(Some(offset)));
            self.mark(slot, false);
        }
    }

    /// Frees a slot; what it has is lost.
    pub fn free(&mut self, slot: u32) {
        self.mark(slot, false);
        self.table.remove(&self.get(slot).version.page);
        self.free.push(slot);
    }

    pub fn occupancy(&self) -> Occupancy {
        let used = self.table.len() as u64;
        Occupancy { used, valid: used, dirty: self.dirty }
    }
}
