//! Changed map entries that the map log does not have yet.

use crate::format::entries::{MAP_PAGE_ENTRIES, map_page};
use crate::format::words::Lpn;
use crate::planted::planted;
use crate::state::changes::Changes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tantalum_rt::{large_pages, prefetch};

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
    pages: Vec<MapPage>,
    queue: VecDeque<u32>,
    /// Entries changed while their map page is on its way to flash.
    storing: FxHashMap<u32, Vec<Lpn>>,
    total: u32,
    dirty_pages: u32,
    /// What has changed, of images of map pages, too.
    pub changes: Changes<MapChange>,
}

/// What is known of a map page, in one place: it is asked for with each change.
#[derive(Clone, Copy, Default)]
struct MapPage {
    /// Its dirty entries.
    count: u16,
    /// It waits to be stored.
    queued: bool,
    /// It is on its way to flash.
    storing: bool,
}

const _: () = assert!(MAP_PAGE_ENTRIES <= u16::MAX as u32);

impl Dirty {
    /// Nothing is dirty, of `pages` map pages.
    pub fn new(pages: u32) -> Dirty {
        let pages = pages as usize;
        let mut bits = vec![0; pages * (MAP_PAGE_ENTRIES / 64) as usize];
        large_pages(&mut bits);
        Dirty {
            bits,
            pages: vec![MapPage::default(); pages],
            queue: VecDeque::new(),
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

    /// An entry changes soon: the processor may fetch what is known of it meanwhile.
    pub fn look_ahead(&self, lpn: Lpn) {
        if let Some(word) = self.bits.get((lpn.0 / 64) as usize) {
            prefetch(word);
        }
        if let Some(page) = self.pages.get(map_page(lpn) as usize) {
            prefetch(page);
        }
    }

    /// An entry changed.
    pub fn mark(&mut self, lpn: Lpn) {
        let number = map_page(lpn);
        let page = &mut self.pages[number as usize];
        if self.changes.is_watched() {
            self.changes.note(MapChange::Entry(lpn));
            if page.count == 0 {
                self.changes.note(MapChange::Begun(number));
            }
        }
        if page.storing
            && let Some(again) = self.storing.get_mut(&number)
        {
            again.push(lpn);
        }
        let (word, bit) = (&mut self.bits[(lpn.0 / 64) as usize], 1 << (lpn.0 % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.dirty_pages += u32::from(page.count == 0);
            page.count += 1;
            self.total += 1;
            if !page.queued {
                page.queued = true;
                self.queue.push_back(number);
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
        self.pages[page as usize].count > 0
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
            self.pages[page as usize].queued = false;
            if self.is_dirty(page) {
                self.begin_page(page);
                pages.push(page);
            }
        }
    }

    /// This map page is being stored from now on.
    pub fn begin_page(&mut self, page: u32) {
        self.pages[page as usize].storing = true;
        self.storing.entry(page).or_default();
    }

    /// The map page is on flash as it was when its store began.
    pub fn end_store(&mut self, page: u32) {
        let again = self.storing.remove(&page).unwrap_or_default();
        self.changes.note(MapChange::Stored(page));
        let words = (MAP_PAGE_ENTRIES / 64) as usize;
        let first = page as usize * words;
        self.bits[first..first + words].fill(0);
        let info = &mut self.pages[page as usize];
        info.storing = false;
        self.dirty_pages -= u32::from(info.count > 0);
        self.total -= u32::from(std::mem::take(&mut info.count));
        for lpn in again.into_iter().filter(|_| !planted!(DirtyForgotten)) {
            self.mark(lpn);
        }
    }

    /// All dirty entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Lpn> {
        let words = MAP_PAGE_ENTRIES / 64;
        let pages = self.pages.iter().enumerate().filter(|page| page.1.count > 0);
        pages.flat_map(move |(page, _)| {
            let first = page as u32 * words;
            (first..first + words).flat_map(|w| {
                let bits = self.bits[w as usize];
                (0..64).filter(move |b| bits >> b & 1 == 1).map(move |b| Lpn(w * 64 + b))
            })
        })
    }
}
