//! The cells in memory: payload, out-of-band words and page states by unit, shared with snapshots
//! until written (copy on write).
//!
//! Memory is proportional to what is programmed: an erased unit takes none, and a drive of 480 GB
//! that is full of stamps fits into a few GB. So only the low halves of out-of-band words are kept
//! for each page, and a page of zeros is not kept at all.

use crate::geometry::SECTOR_BYTES;
use crate::pool::{Block, Pool};
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
    /// The low halves of the words of each page, and its stamps if the array keeps some ([`Shape`]).
    block: Block,
    /// The pages of an array of bytes. A page of zeros takes no room.
    bytes: Vec<Option<Page>>,
    rare: Option<Box<Rare>>,
}

/// What few units have.
#[derive(Clone, Default)]
struct Rare {
    /// Out-of-band words, by their number in the unit, with another high half than that word of the
    /// first page.
    words: BTreeMap<u32, u64>,
    /// Pages with real bytes in an array of stamps (the drive's own metadata).
    aside: BTreeMap<u32, Page>,
    torn: Vec<u32>,
}

/// What is where in the block of a unit: the high halves of the words of the first page, which are
/// those of all pages unless a word is kept aside; then for each page the low halves of its words,
/// and after these its stamps, low half first. So a row is in one place.
#[derive(Clone, Copy)]
struct Shape {
    words: usize,
    /// Of a page. None in an array of bytes.
    stamps: usize,
}

/// High halves take whole cache lines, so that rows lie well behind them.
const LINE: usize = 16;

impl Shape {
    fn size(self, pages: usize) -> usize {
        self.page(pages)
    }

    /// Where the words of a page begin.
    fn page(self, page: usize) -> usize {
        self.words.next_multiple_of(LINE) + page * (self.words + 2 * self.stamps)
    }

    /// Where its stamps begin.
    fn stamps_of(self, page: usize) -> usize {
        self.page(page) + self.words
    }
}

impl Cells {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The words of whole pages from page `first` on, which have none.
    fn put_words(&mut self, shape: Shape, first: usize, words: &[u64]) {
        let mut block = self.block.words_mut();
        let (high, low) = block.split_at_mut(shape.page(first));
        if first == 0 {
            for (high, word) in high.iter_mut().zip(words) {
                *high = (word >> 32) as u32;
            }
        }
        let pages = words.chunks_exact(shape.words.max(1));
        let stride = shape.words + 2 * shape.stamps;
        let mut aside = false;
        for (words, low) in pages.zip(low.chunks_exact_mut(stride.max(1))) {
            for ((word, low), high) in words.iter().zip(low).zip(&*high) {
                *low = *word as u32;
                aside |= (word >> 32) as u32 != *high;
            }
        }
        if !aside {
            return;
        }
        let high: Vec<u32> = high[..shape.words].to_vec();
        drop(block);
        for (i, word) in words.iter().enumerate() {
            if (word >> 32) as u32 != high[i % shape.words] {
                self.rare().words.insert((first * shape.words + i) as u32, *word);
            }
        }
    }

    fn words(&self, shape: Shape, block: &[u32], page: usize, out: &mut [u64]) {
        let low = &block[shape.page(page)..];
        for ((word, low), high) in out.iter_mut().zip(low).zip(block) {
            *word = u64::from(*high) << 32 | u64::from(*low);
        }
        if let Some(rare) = &self.rare
            && !rare.words.is_empty()
        {
            let start = page * shape.words;
            for (at, word) in rare.words.range(start as u32..(start + out.len()) as u32) {
                out[*at as usize - start] = *word;
            }
        }
    }

    fn put_stamps<'a>(
        &mut self,
        shape: Shape,
        first: usize,
        stamps: impl Iterator<Item = &'a u64>,
    ) {
        let mut block = self.block.words_mut();
        let (mut page, mut at) = (first, 0);
        let mut room = shape.stamps_of(page);
        for stamp in stamps {
            if at == shape.stamps {
                (page, at) = (page + 1, 0);
                room = shape.stamps_of(page);
            }
            let halves = &mut block[room + 2 * at..][..2];
            (halves[0], halves[1]) = (*stamp as u32, (stamp >> 32) as u32);
            at += 1;
        }
    }

    /// Copies sectors of a page, from sector `first` on, as many as `out` has room for.
    fn payload(&self, shape: Shape, block: &[u32], at: (u32, usize), out: &mut DataMut<'_>) {
        let (page, first) = at;
        match out {
            DataMut::Stamps(to) if shape.stamps == 0 => to.fill(0),
            DataMut::Stamps(to) => {
                let from = &block[shape.stamps_of(page as usize) + 2 * first..];
                for (to, from) in to.iter_mut().zip(from.chunks_exact(2)) {
                    *to = u64::from(from[1]) << 32 | u64::from(from[0]);
                }
            }
            DataMut::Bytes(to) => {
                let from = match shape.stamps {
                    0 => self.bytes[page as usize].as_ref(),
                    _ => self.rare.as_ref().and_then(|rare| rare.aside.get(&page)),
                };
                match from {
                    Some(from) => {
                        let first = first * SECTOR_BYTES as usize;
                        to.copy_from_slice(&from[first..first + to.len()]);
                    }
                    None => to.fill(0),
                }
            }
        }
    }
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
    shape: Shape,
    page_sectors: usize,
    unit_pages: usize,
    /// Of the cells of this store and of its copies.
    pool: Rc<Pool>,
}

impl RamStore {
    pub fn new(geometry: &Geometry, kind: Payload, words: usize) -> RamStore {
        let page_sectors = geometry.page_sectors() as usize;
        let unit_pages = geometry.unit_pages() as usize;
        let stamps = if kind == Payload::Stamps { page_sectors } else { 0 };
        let shape = Shape { words, stamps };
        let units = geometry.units() as usize;
        RamStore {
            units: vec![UnitState::default(); units],
            kind,
            shape,
            page_sectors,
            unit_pages,
            pool: Rc::new(Pool::new(shape.size(unit_pages), units)),
        }
    }

    pub fn unit(&self, unit: Unit) -> &UnitState {
        &self.units[unit.0 as usize]
    }

    pub fn unit_mut(&mut self, unit: Unit) -> &mut UnitState {
        &mut self.units[unit.0 as usize]
    }

    /// The cells of a unit, to be changed.
    fn cells_mut(&mut self, unit: Unit) -> &mut Cells {
        let (pool, kind, pages) = (&self.pool, self.kind, self.unit_pages);
        let cells = self.units[unit.0 as usize].cells.get_or_insert_with(|| {
            let bytes = if kind == Payload::Bytes { vec![None; pages] } else { Vec::new() };
            Rc::new(Cells { block: Block::new(pool), bytes, rare: None })
        });
        Rc::make_mut(cells)
    }

    /// Writes pages after those that the unit has. The rules have been checked.
    pub fn fill(&mut self, at: PageAddr, sectors: &[Data<'_>], oob: &[u64]) {
        let (kind, shape, ps) = (self.kind, self.shape, self.page_sectors);
        let cells = self.cells_mut(at.unit);
        let first = at.page as usize;
        cells.put_words(shape, first, oob);
        let pages = sectors.chunks(ps).zip(first..);
        match (kind, sectors.first().map(Data::kind)) {
            (Payload::Stamps, Some(Payload::Stamps)) => {
                let stamps = sectors.iter().filter_map(|sector| match sector {
                    Data::Stamps(stamps) => stamps.first(),
                    Data::Bytes(_) => None,
                });
                cells.put_stamps(shape, first, stamps);
            }
            (Payload::Bytes, Some(Payload::Bytes)) => {
                for (page, at) in pages {
                    let is_zero = page.iter().all(Data::is_zero);
                    cells.bytes[at] = (!is_zero).then(|| page_of(page));
                }
            }
            (Payload::Stamps, Some(Payload::Bytes)) => {
                cells.put_stamps(shape, first, sectors.iter().map(|_| &0));
                cells.rare().aside.extend(pages.map(|(page, at)| (at as u32, page_of(page))));
            }
            (Payload::Bytes, Some(Payload::Stamps)) => unreachable!("refused by the array"),
            (_, None) => {}
        }
    }

    /// Undoes the program of these pages, the last of their unit. With `failed` it also undoes the
    /// tearing.
    pub fn undo(&mut self, at: PageAddr, count: u32, failed: bool) {
        let words = self.shape.words;
        self.unit_mut(at.unit).next = at.page;
        if self.unit(at.unit).cells.is_none() {
            return;
        }
        // (Pages behind the last one mean nothing.)
        let cells = self.cells_mut(at.unit);
        let (first, end) = (at.page as usize, (at.page + count) as usize);
        if !cells.bytes.is_empty() {
            cells.bytes[first..end].fill(None);
        }
        let Some(rare) = &mut cells.rare else { return };
        rare.words.split_off(&((first * words) as u32));
        rare.aside.retain(|page, _| *page < at.page);
        if failed {
            rare.torn.retain(|page| !(at.page..at.page + count).contains(page));
        }
    }

    pub fn state(&self, at: PageAddr) -> PageState {
        let unit = self.unit(at.unit);
        if unit.half_erased {
            return PageState::Uncorrectable;
        }
        let Some(cells) = &unit.cells else { return PageState::Erased };
        match &cells.rare {
            Some(rare) if rare.torn.contains(&at.page) => PageState::Uncorrectable,
            _ if at.page < unit.next => PageState::Programmed,
            _ => PageState::Erased,
        }
    }

    /// The state of a page, and what is in it, where there is room for that: the payload from sector
    /// `first` on, and the out-of-band words. Zeros, if it is not programmed.
    pub fn read(
        &self,
        at: PageAddr,
        first: usize,
        data: Option<DataMut<'_>>,
        oob: Option<&mut [u64]>,
    ) -> PageState {
        let state = self.state(at);
        let cells = self.unit(at.unit).cells.as_deref();
        match cells.filter(|_| state == PageState::Programmed) {
            Some(cells) => {
                let block = cells.block.words();
                if let Some(mut data) = data {
                    cells.payload(self.shape, &block, (at.page, first), &mut data);
                }
                if let Some(oob) = oob {
                    cells.words(self.shape, &block, at.page as usize, oob);
                }
            }
            None => {
                data.into_iter().for_each(|mut data| data.zero());
                oob.into_iter().for_each(|oob| oob.fill(0));
            }
        }
        state
    }

    /// Pages are read or programmed soon: the processor may fetch them meanwhile.
    pub fn look_ahead(&self, at: PageAddr, count: u32) {
        let unit = self.units.get(at.unit.0 as usize);
        if let Some(cells) = unit.and_then(|unit| unit.cells.as_ref()) {
            let (first, end) = (at.page as usize, (at.page + count) as usize);
            cells.block.look_ahead(self.shape.page(first)..self.shape.page(end));
        }
    }

    /// Copies sectors of a page from `first` on, as many as `out` has room for; zeros if the page
    /// is not programmed.
    pub fn copy_out(&self, at: PageAddr, first: usize, out: DataMut<'_>) {
        self.read(at, first, Some(out), None);
    }

    /// Copies the out-of-band words of a page; zeros if the page is not programmed.
    pub fn copy_oob(&self, at: PageAddr, out: &mut [u64]) {
        self.read(at, 0, None, Some(out));
    }

    /// Makes the page unreadable.
    pub fn tear(&mut self, at: PageAddr) {
        let torn = &mut self.cells_mut(at.unit).rare().torn;
        if !torn.contains(&at.page) {
            torn.push(at.page);
        }
    }

    pub fn kind(&self) -> Payload {
        self.kind
    }

    pub fn words(&self) -> usize {
        self.shape.words
    }

    /// The kind of payload of a page.
    pub fn payload_of(&self, at: PageAddr) -> Payload {
        let cells = self.unit(at.unit).cells.as_ref();
        match cells.and_then(|cells| cells.rare.as_ref()) {
            Some(rare) if rare.aside.contains_key(&at.page) => Payload::Bytes,
            _ => self.kind,
        }
    }

    pub fn page_sectors(&self) -> usize {
        self.page_sectors
    }
}
