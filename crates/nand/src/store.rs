//! The cells in memory: payload, out-of-band words and page states by unit, shared with snapshots
//! until written (copy on write).
//!
//! Memory is proportional to what is programmed: an erased unit takes none, and a drive of 480 GB
//! that is full of stamps fits into a few GB. So only the low halves of out-of-band words are kept
//! for each page, and a page of zeros is not kept at all.

use crate::geometry::SECTOR_BYTES;
use crate::{Geometry, PageAddr, Unit};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Data, DataMut, Payload};

/// The state of a page, as a read finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageState {
    /// Not programmed since the last erase.
    #[default]
    Erased,
    /// The page was programmed.
    Programmed,
    /// Torn or worn: the page cannot be read.
    Uncorrectable,
}

/// The bytes of a page. (Not `Rc<[u8]>`: with the counts before it a page would just exceed the
/// allocator's block of its size, and be copied once more when it is put together.)
type Page = Rc<Vec<u8>>;

/// A page of real bytes, put together from its sectors.
fn page_of(sectors: &[Data<'_>]) -> Page {
    let mut page = Vec::with_capacity(sectors.len() * SECTOR_BYTES as usize);
    for sector in sectors {
        if let Data::Bytes(bytes) = sector {
            page.extend_from_slice(bytes);
        }
    }
    Rc::new(page)
}

/// The pages of one unit. There are none while the unit is erased.
#[derive(Clone)]
pub(crate) struct Cells {
    oob: Oob,
    payload: PageStore,
    /// Pages with real bytes in an array of stamps (the drive's own metadata).
    aside: BTreeMap<u32, Page>,
    torn: Vec<u32>,
}

/// The out-of-band words of a unit. The high half of each word is kept for the first page only.
/// Words of other pages with another high half are kept in `aside`.
#[derive(Clone)]
struct Oob {
    high: Vec<u32>,
    low: Vec<u32>,
    aside: BTreeMap<u32, u64>,
}

impl Oob {
    fn new(words: usize, pages: usize) -> Oob {
        Oob { high: vec![0; words], low: vec![0; words * pages], aside: BTreeMap::new() }
    }

    /// Sets the words of whole pages from page `first` on, which have none yet.
    fn put(&mut self, first: usize, words: &[u64]) {
        let width = self.high.len();
        if first == 0 {
            for (high, word) in self.high.iter_mut().zip(words) {
                *high = (word >> 32) as u32;
            }
        }
        let mut at = first * width;
        for page in words.chunks_exact(width.max(1)) {
            for (word, high) in page.iter().zip(&self.high) {
                self.low[at] = *word as u32;
                if (word >> 32) as u32 != *high {
                    self.aside.insert(at as u32, *word);
                }
                at += 1;
            }
        }
    }

    fn get(&self, page: usize, out: &mut [u64]) {
        let start = page * self.high.len();
        for ((word, low), high) in out.iter_mut().zip(&self.low[start..]).zip(&self.high) {
            *word = u64::from(*high) << 32 | u64::from(*low);
        }
        if !self.aside.is_empty() {
            for (at, word) in self.aside.range(start as u32..(start + out.len()) as u32) {
                out[*at as usize - start] = *word;
            }
        }
    }

    /// Removes the words of pages `first..end`, the last ones that have any.
    fn clear(&mut self, first: usize, end: usize) {
        let width = self.high.len();
        self.low[first * width..end * width].fill(0);
        self.aside.split_off(&((first * width) as u32));
    }
}

#[derive(Clone)]
enum PageStore {
    /// A page of zeros takes no memory.
    Bytes(Vec<Option<Page>>),
    Stamps(Vec<u64>),
}

/// One unit.
#[derive(Clone, Default)]
pub(crate) struct UnitState {
    /// The pages in memory. For an image they are only kept if they were overwritten since.
    pub cells: Option<Rc<Cells>>,
    /// The first page that is not programmed. A unit is programmed page by page, in the order of
    /// their numbers.
    pub next: u32,
    pub erase_count: u32,
    /// An erase was torn: the unit is unusable until it is erased again.
    pub half_erased: bool,
}

/// All units, in memory.
#[derive(Clone)]
pub(crate) struct RamStore {
    units: Vec<UnitState>,
    kind: Payload,
    words: usize,
    page_sectors: usize,
    unit_pages: usize,
}

impl RamStore {
    pub fn new(geometry: &Geometry, kind: Payload, words: usize) -> RamStore {
        RamStore {
            units: vec![UnitState::default(); geometry.units() as usize],
            kind,
            words,
            page_sectors: geometry.page_sectors() as usize,
            unit_pages: geometry.unit_pages() as usize,
        }
    }

    pub fn unit(&self, unit: Unit) -> &UnitState {
        &self.units[unit.0 as usize]
    }

    pub fn unit_mut(&mut self, unit: Unit) -> &mut UnitState {
        &mut self.units[unit.0 as usize]
    }

    fn blank(&self) -> Cells {
        Cells {
            oob: Oob::new(self.words, self.unit_pages),
            payload: match self.kind {
                Payload::Bytes => PageStore::Bytes(vec![None; self.unit_pages]),
                Payload::Stamps => PageStore::Stamps(vec![0; self.unit_pages * self.page_sectors]),
            },
            aside: BTreeMap::new(),
            torn: Vec::new(),
        }
    }

    /// Writes pages after those that the unit has. The rules have been checked.
    pub fn fill(&mut self, at: PageAddr, sectors: &[Data<'_>], oob: &[u64]) {
        let ps = self.page_sectors;
        if self.unit(at.unit).cells.is_none() {
            let blank = Rc::new(self.blank());
            self.unit_mut(at.unit).cells = Some(blank);
        }
        let unit = self.unit_mut(at.unit);
        let cells = Rc::make_mut(unit.cells.as_mut().expect("just put there"));
        let first = at.page as usize;
        cells.oob.put(first, oob);
        let pages = sectors.chunks(ps).zip(first..);
        match (&mut cells.payload, sectors.first().map(Data::kind)) {
            (PageStore::Stamps(to), Some(Payload::Stamps)) => {
                for (to, sector) in to[first * ps..].iter_mut().zip(sectors) {
                    DataMut::Stamps(std::slice::from_mut(to)).copy_from(*sector);
                }
            }
            (PageStore::Bytes(to), Some(Payload::Bytes)) => {
                for (page, at) in pages {
                    let is_zero = page.iter().all(Data::is_zero);
                    to[at] = (!is_zero).then(|| page_of(page));
                }
            }
            (PageStore::Stamps(_), Some(Payload::Bytes)) => {
                cells.aside.extend(pages.map(|(page, at)| (at as u32, page_of(page))));
            }
            (PageStore::Bytes(_), Some(Payload::Stamps)) => unreachable!("refused by the array"),
            (_, None) => {}
        }
    }

    /// Undoes the program of these pages, the last of their unit. With `failed` it also undoes the
    /// tearing.
    pub fn undo(&mut self, at: PageAddr, count: u32, failed: bool) {
        let ps = self.page_sectors;
        let unit = self.unit_mut(at.unit);
        unit.next = at.page;
        let Some(cells) = &mut unit.cells else { return };
        let cells = Rc::make_mut(cells);
        let (first, end) = (at.page as usize, (at.page + count) as usize);
        cells.oob.clear(first, end);
        match &mut cells.payload {
            PageStore::Bytes(pages) => pages[first..end].fill(None),
            PageStore::Stamps(stamps) => stamps[first * ps..end * ps].fill(0),
        }
        cells.aside.retain(|page, _| *page < at.page);
        if failed {
            cells.torn.retain(|page| !(at.page..at.page + count).contains(page));
        }
    }

    pub fn state(&self, at: PageAddr) -> PageState {
        let unit = self.unit(at.unit);
        if unit.half_erased {
            return PageState::Uncorrectable;
        }
        match &unit.cells {
            Some(cells) if cells.torn.contains(&at.page) => PageState::Uncorrectable,
            Some(_) if at.page < unit.next => PageState::Programmed,
            _ => PageState::Erased,
        }
    }

    /// The cells of a page, if it can be read.
    fn readable(&self, at: PageAddr) -> Option<&Cells> {
        let programmed = self.state(at) == PageState::Programmed;
        self.unit(at.unit).cells.as_deref().filter(|_| programmed)
    }

    /// Copies sectors of a page from `first` on, as many as `out` has room for; zeros if the page
    /// is not programmed.
    pub fn copy_out(&self, at: PageAddr, first: usize, mut out: DataMut<'_>) {
        let Some(cells) = self.readable(at) else { return out.zero() };
        let page = at.page as usize;
        let bytes = |page: &[u8], out: &mut [u8]| {
            let from = first * SECTOR_BYTES as usize;
            out.copy_from_slice(&page[from..from + out.len()]);
        };
        match (&cells.payload, &mut out) {
            (PageStore::Stamps(from), DataMut::Stamps(to)) => {
                let from = &from[page * self.page_sectors + first..];
                to.copy_from_slice(&from[..to.len()]);
            }
            (PageStore::Bytes(from), DataMut::Bytes(to)) => match &from[page] {
                Some(p) => bytes(p, to),
                None => to.fill(0),
            },
            (PageStore::Stamps(_), DataMut::Bytes(to)) => match cells.aside.get(&at.page) {
                Some(p) => bytes(p, to),
                None => to.fill(0),
            },
            (PageStore::Bytes(_), DataMut::Stamps(to)) => to.fill(0),
        }
    }

    /// Copies the out-of-band words of a page; zeros if the page is not programmed.
    pub fn copy_oob(&self, at: PageAddr, out: &mut [u64]) {
        match self.readable(at) {
            Some(cells) => cells.oob.get(at.page as usize, out),
            None => out.fill(0),
        }
    }

    /// Makes the page unreadable.
    pub fn tear(&mut self, at: PageAddr) {
        if self.unit(at.unit).cells.is_none() {
            let blank = Rc::new(self.blank());
            self.unit_mut(at.unit).cells = Some(blank);
        }
        let cells = self.unit_mut(at.unit).cells.as_mut().expect("just put there");
        let cells = Rc::make_mut(cells);
        if !cells.torn.contains(&at.page) {
            cells.torn.push(at.page);
        }
    }

    pub fn kind(&self) -> Payload {
        self.kind
    }

    pub fn words(&self) -> usize {
        self.words
    }

    /// The kind of payload of a page.
    pub fn payload_of(&self, at: PageAddr) -> Payload {
        let is_aside = |cells: &Rc<Cells>| cells.aside.contains_key(&at.page);
        match &self.unit(at.unit).cells {
            Some(cells) if is_aside(cells) => Payload::Bytes,
            _ => self.kind,
        }
    }

    pub fn page_sectors(&self) -> usize {
        self.page_sectors
    }
}
