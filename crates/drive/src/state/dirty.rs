//! Changed map entries that the map log does not have yet.

use crate::format::entries::{MAP_PAGE_ENTRIES, map_page};
use crate::format::words::Lpn;
use crate::planted::planted;
use crate::state::changes::Changes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A change of what a dump has of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapChange {
    /// A map page had no dirty entry before.
    Begun(u32),
    /// An entry is dirty, perhaps anew.
    Entry(Lpn),
    /// Fewer entries of a map page are dirty.
    Stored(u32),
    /// The newest image of a map page is in another place.
    Image(u32),
}

/// Changed map entries that the log does not have yet, of a drive whose memory is
/// protected. Bounded, since the emergency dump must store them.
#[derive(Clone)]
pub struct Dirty {
    bits: Vec<u64>,
    /// Dirty entries of each map page.
    counts: Vec<u32>,
    queue: VecDeque<u32>,
    queued: Vec<bool>,
    /// Entries changed while their map page is on its way to flash.
    storing: FxHashMap<u32, Vec<Lpn>>,
    total: u32,
    dirty_pages: u32,
    /// What has changed, of images of map pages, too.
    pub changes: Changes<MapChange>,
}

impl Dirty {
    /// Nothing is dirty, of `pages` map pages.
    pub fn new(pages: u32) -> Dirty {
        let pages = pages as usize;
        Dirty {
            bits: vec![0; pages * (MAP_PAGE_ENTRIES / 64) as usize],
            counts: vec![0; pages],
            queue: VecDeque::new(),
            queued: vec![false; pages],
            storing: FxHashMap::default(),
            total: 0,
            dirty_pages: 0,
            changes: Changes::default(),
        }
    }

    /// Which of the entries of a map page are dirty, as bits.
    pub fn page_bits(&self, page: u32) -> &[u64] {
        let words = (MAP_PAGE_ENTRIES / 64) as usize;
        &self.bits[page as usize * words..][..words]
    }

    /// An entry changed.
    pub fn mark(&mut self, lpn: Lpn) {
        let page = map_page(lpn);
        if self.changes.is_watched() {
            self.changes.note(MapChange::Entry(lpn));
            if self.counts[page as usize] == 0 {
                self.changes.note(MapChange::Begun(page));
            }
        }
        if let Some(again) = self.storing.get_mut(&page) {
            again.push(lpn);
        }
        if !self.has(lpn) {
            self.bits[(lpn.0 / 64) as usize] |= 1 << (lpn.0 % 64);
            self.dirty_pages += u32::from(self.counts[page as usize] == 0);
            self.counts[page as usize] += 1;
            self.total += 1;
            if !self.queued[page as usize] {
                self.queued[page as usize] = true;
                self.queue.push_back(page);
            }
        }
    }

    /// Whether an entry is dirty.
    pub fn has(&self, lpn: Lpn) -> bool {
        self.bits[(lpn.0 / 64) as usize] >> (lpn.0 % 64) & 1 == 1
    }

    /// How many entries are dirty.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// How many map pages have dirty entries.
    pub fn dirty_pages(&self) -> u32 {
        self.dirty_pages
    }

    /// Whether a map page has.
    pub fn is_dirty(&self, page: u32) -> bool {
        self.counts[page as usize] > 0
    }

    /// How many map pages wait to be stored.
    pub fn pages(&self) -> usize {
        self.queue.len()
    }

    /// The map pages that have been dirty longest, at most `most`; they are being
    /// stored from now on.
    pub fn begin_store(&mut self, most: usize, pages: &mut Vec<u32>) {
        pages.clear();
        while pages.len() < most {
            let Some(page) = self.queue.pop_front() else { break };
            self.queued[page as usize] = false;
            if self.counts[page as usize] > 0 {
                self.begin_page(page);
                pages.push(page);
            }
        }
    }

    /// This map page is being stored from now on.
    pub fn begin_page(&mut self, page: u32) {
        self.storing.entry(page).or_default();
    }

    /// The map page is on flash as it was when its store began.
    pub fn end_store(&mut self, page: u32) {
        let again = self.storing.remove(&page).unwrap_or_default();
        self.changes.note(MapChange::Stored(page));
        let words = (MAP_PAGE_ENTRIES / 64) as usize;
        let first = page as usize * words;
        self.bits[first..first + words].fill(0);
        self.dirty_pages -= u32::from(self.counts[page as usize] > 0);
        self.total -= std::mem::take(&mut self.counts[page as usize]);
        for lpn in again.into_iter().filter(|_| !planted!(DirtyForgotten)) {
            self.mark(lpn);
        }
    }

    /// All dirty entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Lpn> {
        let words = MAP_PAGE_ENTRIES / 64;
        let pages = self.counts.iter().enumerate().filter(|c| *c.1 > 0);
        pages.flat_map(move |(page, _)| {
            let first = page as u32 * words;
            (first..first + words).flat_map(|w| {
                let bits = self.bits[w as usize];
                (0..64).filter(move |b| bits >> b & 1 == 1).map(move |b| Lpn(w * 64 + b))
            })
        })
    }
}
