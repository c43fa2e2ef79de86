//! The mapping table: where on flash each logical page is.
//!
//! 1. An entry names a sector that has been programmed, or none.
//! 2. Each change has a version; versions only grow.
//! 3. Map pages never touched are all empty: nothing need be read or stored of them. At a restart
//!    map pages are unknown until they are loaded. Only the dump's entries change an unknown page,
//!    and no task reads it.
//! 4. Mapped logical pages are counted, whatever changes them.
//! 5. Behind the logical pages each erase unit has an entry, in map pages of their own: whether it
//!    is bad; and behind these there is one more: whether the drive's life is over. So all of these
//!    become durable by the same mechanism.

use crate::format::entries::{MAP_PAGE_ENTRIES, end_entry, entry_name, map_page, unit_entry};
use crate::format::words::{Lpn, Ppa, Version};
use tantalum_nand::Unit;
use tantalum_rt::{large_pages, prefetch};

/// The table, one 4-byte entry a logical page, whole in memory.
#[derive(Clone)]
pub struct Map {
    /// Address + 1; 0 is none, so that a fresh table is untouched memory.
    entries: Vec<u32>,
    logical: u32,
    /// Logical pages that are somewhere.
    live: u32,
    version: Version,
    touched: Vec<bool>,
    /// Of a restart: the map page is loaded, or nothing is stored of it.
    known: Vec<bool>,
}

impl Map {
    /// Nothing is known: of `logical` pages and `units` erase units.
    pub fn new(logical: u32, units: u32) -> Map {
        let entries = end_entry(logical, units).0 + 1;
        let pages = entries.div_ceil(MAP_PAGE_ENTRIES);
        let mut entries = vec![0; entries as usize];
        large_pages(&mut entries);
        Map {
            entries,
            logical,
            live: 0,
            version: Version(0),
            touched: vec![false; pages as usize],
            known: vec![false; pages as usize],
        }
    }

    /// Where a logical page is; nowhere, if there is no such page.
    pub fn get(&self, lpn: Lpn) -> Option<Ppa> {
        self.entries.get(lpn.0 as usize)?.checked_sub(1).map(Ppa)
    }

    /// The entry of a logical page is needed soon: the processor may fetch it meanwhile. The
    /// tables of all but the smallest drives are larger than its caches.
    pub fn look_ahead(&self, lpn: Lpn) {
        if let Some(entry) = self.entries.get(lpn.0 as usize) {
            prefetch(entry);
        }
    }

    /// The version of the newest change.
    pub fn version(&self) -> Version {
        self.version
    }

    /// At recovery: versions go on above `version`.
    pub fn advance(&mut self, version: Version) {
        self.version = self.version.max(version);
    }

    /// A version of its own, without a change.
    pub fn bump(&mut self) -> Version {
        self.version.0 += 1;
        self.version
    }

    /// Changes an entry; the change's version and the entry's old value.
    pub fn set(&mut self, lpn: Lpn, to: Option<Ppa>) -> (Version, Option<Ppa>) {
        self.version.0 += 1;
        (self.version, self.put(lpn, to))
    }

    /// At recovery: puts a stored value in place, without a version of its own.
    pub fn put(&mut self, lpn: Lpn, to: Option<Ppa>) -> Option<Ppa> {
        let entry = &mut self.entries[lpn.0 as usize];
        let old = entry.checked_sub(1).map(Ppa);
        if old.is_none() {
            // (Else something has touched it before.)
            self.touched[map_page(lpn) as usize] = true;
        }
        *entry = to.map_or(0, |p| p.0 + 1);
        if lpn.0 < self.logical {
            self.live -= u32::from(old.is_some());
            self.live += u32::from(to.is_some());
        }
        old
    }

    /// The entries of a map page as they are stored: 4 bytes each, little-endian,
    /// zeros beyond the end of the table.
    pub fn encode_page(&self, page: u32, out: &mut [u8]) {
        let (start, end) = self.page_range(page);
        out.fill(0);
        for (entry, bytes) in self.entries[start..end].iter().zip(out.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&entry.to_le_bytes());
        }
    }

    /// Whether a map page is loaded.
    pub fn is_known(&self, page: u32) -> bool {
        self.known[page as usize]
    }

    /// All map pages are, or nothing is stored of them.
    pub fn know_all(&mut self) {
        self.known.fill(true);
    }

    /// From now on the entries of this map page count.
    pub fn know(&mut self, page: u32) {
        self.known[page as usize] = true;
    }

    /// At recovery: puts a stored map page in place, unless it is known; but for the entries
    /// that are newer.
    pub fn learn_page(&mut self, page: u32, bytes: &[u8], is_newer: impl Fn(Lpn) -> bool) {
        if std::mem::replace(&mut self.known[page as usize], true) {
            return;
        }
        self.touched[page as usize] = true;
        self.live -= self.live_in(page);
        let (start, end) = self.page_range(page);
        for (i, bytes) in (start..end).zip(bytes.chunks_exact(4)) {
            if !is_newer(Lpn(i as u32)) {
                self.entries[i] = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        self.live += self.live_in(page);
    }

    fn live_in(&self, page: u32) -> u32 {
        let (start, end) = self.page_range(page);
        let entries = &self.entries[start..end.min(self.logical as usize).max(start)];
        entries.iter().filter(|entry| **entry != 0).count() as u32
    }

    /// Logical pages that are mapped.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// The logical pages of which a map page tells, as numbers.
    pub fn entries_of(&self, page: u32) -> std::ops::Range<u32> {
        let (start, end) = self.page_range(page);
        start as u32..end as u32
    }

    fn page_range(&self, page: u32) -> (usize, usize) {
        let start = (page * MAP_PAGE_ENTRIES) as usize;
        (start, (start + MAP_PAGE_ENTRIES as usize).min(self.entries.len()))
    }

    /// All mapped logical pages.
    pub fn mapped(&self) -> impl Iterator<Item = (Lpn, Ppa)> {
        self.entries().take_while(|(lpn, _)| lpn.0 < self.logical)
    }

    /// The erase units that are bad.
    pub fn bad_units(&self) -> impl Iterator<Item = Unit> {
        let first = unit_entry(self.logical, Unit(0)).0;
        let end = self.end().0;
        let units = self.entries().filter(move |e| (first..end).contains(&e.0.0));
        units.map(move |e| Unit(e.0.0 - first))
    }

    /// The entry that says whether the drive's life is over: it is, if that is not empty.
    pub fn end(&self) -> Lpn {
        Lpn(self.entries.len() as u32 - 1)
    }

    /// The name of an entry, for people.
    pub fn name(&self, entry: Lpn) -> String {
        let units = self.end().0 - unit_entry(self.logical, Unit(0)).0;
        entry_name(self.logical, units, entry)
    }

    /// All entries that are not empty, those of erase units included.
    pub fn entries(&self) -> impl Iterator<Item = (Lpn, Ppa)> {
        let touched = self.touched.iter().enumerate().filter(|t| *t.1);
        touched.flat_map(|(page, _)| {
            let (start, end) = self.page_range(page as u32);
            (start..end).filter_map(|i| Some((Lpn(i as u32), self.get(Lpn(i as u32))?)))
        })
    }
}
