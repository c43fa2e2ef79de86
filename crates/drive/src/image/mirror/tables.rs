//! The tables of protected memory: where each is, what its words say, and what the next process
//! makes of them. `docs/image.md` draws them.

use super::sums::{Sums, mixed};
use super::{COUNTS, Mirror, PENDING};
use crate::Design;
use crate::design::layout::Layout;
use crate::firmware::Firmware;
use crate::firmware::audit::Look;
use crate::firmware::stats::Stats;
use crate::format::entries::MAP_PAGE_ENTRIES;
use crate::format::unit_journal::{ENTRY_BYTES, Entry};
use crate::format::words::{Lpn, Ppa, Version};
use crate::start::report::check_entry;
use crate::state::audit::head;
use crate::state::dirty::Dirty;
use crate::state::dump_areas::DumpAreas;
use crate::state::map::Map;
use crate::state::maplog::MapLog;
use crate::state::space::Space;
use crate::state::unit_journal::UnitJournal;
use std::rc::Rc;
use tantalum_device::{Data, Payload};
use tantalum_nand::{NandArray, PageAddr, Region, SECTOR_BYTES, Unit};
use tantalum_rt::Rt;

/// Parts begin at multiples of this.
pub(super) const ALIGN: u64 = 4096;

/// Words of the list beyond those that buffered pages can take.
const LIST_MORE: u64 = 1 << 16;

/// Words of dirty bits for a map page.
const BIT_WORDS: u64 = (MAP_PAGE_ENTRIES / 64) as u64;

// Words at the beginning of a table.
const FLAGS: u64 = 0;
const JOURNAL: u64 = 8;
const JOURNAL_LEN: u64 = 16;
const NEXT_DUMP: u64 = 24;
const READY: u64 = 32;
const FAILED: u64 = 40;
const VERSION: u64 = 48;
const SEQUENCE: u64 = 56;
/// Of tables with checksums (`sums`): that of the journal's list, and of all checksums of blocks.
const JOURNAL_SUM: u64 = 64;
pub(super) const TOP: u64 = 72;

/// Where the lists of units are behind these.
const fn facts(is_summed: bool) -> u64 {
    if is_summed { 80 } else { 64 }
}

const BEGAN_READ_ONLY: u64 = 1;
const READ_ONLY: u64 = 2;

/// Where everything is, of drives of one design.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Bytes in all.
    pub len: u64,
    pub list: u64,
    pub data: u64,
    pub page_bytes: u64,
    /// For buffered pages.
    pub places: u32,
    pub(super) tables: [u64; 2],
    pub(super) table_len: u64,
    index: u64,
    entries: u64,
    bits: u64,
    images: u64,
    journals: [u64; 2],
    units: u64,
    /// Checksums of all blocks before (`sums`); images of version 1 have none.
    pub(super) sums: u64,
    pub(super) is_summed: bool,
    facts: u64,
    /// Units whose numbers a table of the dump areas has room for.
    zone: u32,
    map_pages: u32,
    /// What became dirty is dumped entry by entry, or page by page.
    pub keeps_entries: bool,
    pub whole_pages: bool,
    /// Map pages of the directory.
    pub directory: u32,
    pub journal_max: usize,
}

impl Shape {
    /// In an image of this version of the format.
    pub fn of(design: &Design, layout: &Layout, payload: Payload, version: u32) -> Shape {
        let is_summed = version >= 2;
        let mut end = ALIGN;
        let place = |end: &mut u64, len: u64| {
            let at = *end;
            *end = (at + len).next_multiple_of(ALIGN);
            at
        };
        let places = design.buffer_slots() * 2;
        let page_bytes = match payload {
            Payload::Bytes => SECTOR_BYTES.into(),
            Payload::Stamps => 8,
        };
        let keeps_entries = !design.keeps_units();
        let pages = if keeps_entries { u64::from(layout.map_pages) } else { 0 };
        let directory = if design.map.directory { layout.map_pages } else { 0 };
        let units = design.geometry.units();
        // What may be there is bounded, but for what a checkpoint enters anew.
        let journal_max = match design.keeps_units() {
            true => 2 * design.map.journal_entries as usize + units as usize + 64,
            false => 0,
        };
        let list = place(&mut end, 16 * (2 * u64::from(places) + LIST_MORE));
        let data = place(&mut end, u64::from(places) * page_bytes);
        let first = end;
        // Within a table.
        let mut end = 0;
        let zone = layout.dump_zone;
        place(&mut end, facts(is_summed) + 16 * u64::from(zone));
        let index = place(&mut end, 8 * u64::from(places));
        let entries = place(&mut end, pages * u64::from(SECTOR_BYTES));
        let bits = place(&mut end, pages * BIT_WORDS * 8);
        let images = place(&mut end, u64::from(directory).div_ceil(2) * 8);
        let journals = [(); 2].map(|()| place(&mut end, (journal_max * ENTRY_BYTES) as u64));
        let units = if journal_max > 0 { u64::from(units).div_ceil(2) * 8 } else { 0 };
        let units = place(&mut end, units);
        let sums = end;
        if is_summed {
            place(&mut end, sums / ALIGN * 8);
        }
        Shape {
            len: first + 2 * end,
            list,
            data,
            page_bytes,
            places,
            tables: [first, first + end],
            table_len: end,
            index,
            entries,
            bits,
            images,
            journals,
            units,
            sums,
            is_summed,
            facts: facts(is_summed),
            zone,
            map_pages: layout.map_pages,
            keeps_entries,
            whole_pages: design.map.dirty_pages_max > 0,
            directory,
            journal_max,
        }
    }

    /// Whether what is here in the region is held against a checksum at the next start.
    #[cfg(test)]
    pub fn is_checked(&self, at: u64) -> bool {
        at >= self.data || at < 8
    }

    /// Blocks of a table that have a checksum of their own.
    pub(super) fn blocks(&self) -> usize {
        if self.is_summed { (self.sums / ALIGN) as usize } else { 0 }
    }

    /// Whether this offset in a table is in a list of the journal, which has a checksum of its own.
    pub(super) fn is_journal(&self, at: u64) -> bool {
        (self.journals[0]..self.units).contains(&at)
    }

    /// The blocks that are always held against their checksums: of the entries only those count
    /// that are dirty.
    fn blocks_to_check(&self) -> impl Iterator<Item = usize> {
        let [from, until, lists, end] =
            [self.entries, self.bits, self.journals[0], self.units].map(|at| at / ALIGN);
        let counts =
            move |block: &u64| !(from..until).contains(block) && !(lists..end).contains(block);
        (0..self.blocks() as u64).filter(counts).map(|block| block as usize)
    }

    /// What word 0 of the region says if this table counts.
    pub(super) fn counts_word(&self, which: usize) -> u64 {
        let n = which as u64 + 1;
        if self.is_summed { n | (!n << 32) } else { n }
    }

    /// Words that the list has room for.
    pub fn list_max(&self) -> usize {
        (2 * u64::from(self.places) + LIST_MORE) as usize
    }
}

/// Where the journal of units is in a table: which of its two lists, and how long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    which: usize,
    len: usize,
    sum: u64,
}

/// One of the two tables.
pub(crate) struct Table<'a> {
    pub(super) shape: &'a Shape,
    pub(super) region: &'a Region,
    pub(super) at: u64,
}

/// A word to be put in place.
type Words = Vec<(u64, u64)>;

impl<'a> Table<'a> {
    pub fn new(shape: &'a Shape, region: &'a Region, which: usize) -> Table<'a> {
        Table { shape, region, at: shape.tables[which] }
    }

    fn word(&self, at: u64) -> u64 {
        self.region.word(self.at + at)
    }

    fn set(&self, at: u64, word: u64) {
        self.region.set_word(self.at + at, word);
    }

    /// What only grows. (With checksums it is listed like the rest.)
    pub fn set_counters(&self, fw: &Firmware) {
        if self.shape.is_summed {
            return;
        }
        self.set(VERSION, fw.state.map.borrow().version().0);
        self.set(SEQUENCE, fw.state.sequence.get());
    }

    /// Dump areas, and in which state the drive is; those words that differ from `last`. (Of the
    /// units of the areas, of which there may be many, only where they may have changed.)
    pub fn list_facts(&self, fw: &Firmware, journal: List, last: &mut Vec<u64>, out: &mut Words) {
        let is_new = fw.state.dump.take_changed() || last.is_empty();
        let areas = fw.state.dump.borrow();
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let zone = self.shape.zone as usize;
        let flags =
            flag(fw.began_read_only(), BEGAN_READ_ONLY) | flag(fw.is_read_only(), READ_ONLY);
        let (ready, failed) = (areas.ready.iter().take(zone), areas.failed.iter().take(zone));
        let head = [
            (FLAGS, flags),
            (JOURNAL, journal.which as u64),
            (JOURNAL_LEN, journal.len as u64),
            (NEXT_DUMP, areas.next),
            (READY, ready.len() as u64),
            (FAILED, failed.len() as u64),
        ];
        let more = [
            (VERSION, fw.state.map.borrow().version().0),
            (SEQUENCE, fw.state.sequence.get()),
            (JOURNAL_SUM, journal.sum),
        ];
        let more = more.into_iter().filter(|_| self.shape.is_summed);
        let facts = self.shape.facts;
        let at = |first: u64| move |i: usize| facts + 8 * (first + i as u64);
        let ready = ready
            .enumerate()
            .map(|(i, (unit, page))| (at(0)(i), u64::from(unit.0) << 32 | u64::from(*page)));
        let failed = failed.enumerate().map(|(i, unit)| (at(zone as u64)(i), u64::from(unit.0)));
        let units = ready.chain(failed).filter(|_| is_new);
        for (at, word) in head.into_iter().chain(more).chain(units) {
            let i = (at / 8) as usize;
            if last.len() <= i {
                last.resize(i + 1, u64::MAX);
            }
            if last[i] != word || word == u64::MAX {
                last[i] = word;
                out.push((self.at + at, word));
            }
        }
    }

    /// From where on the next dump is written, when nothing of it is yet. (What had been issued
    /// there before may have been taken back.)
    pub fn list_ready(&self, areas: &DumpAreas, out: &mut Words) {
        for (i, (unit, page)) in (0..u64::from(self.shape.zone)).zip(&areas.ready) {
            let at = self.at + self.shape.facts + 8 * i;
            out.push((at, u64::from(unit.0) << 32 | u64::from(*page)));
        }
    }

    /// Where the index has the page in this place.
    pub fn index(&self, place: u32) -> u64 {
        self.at + self.shape.index + 8 * u64::from(place)
    }

    /// Of a table that is written anew: no page is buffered. One with checksums is empty.
    pub fn clear(&self) {
        match self.shape.is_summed {
            true => self.region.clear(self.at, self.shape.table_len),
            false => {
                let places = 0..self.shape.places;
                places.for_each(|place| self.region.set_word(self.index(place), 0));
            }
        }
    }

    fn entries_word(&self, map: &Map, lpn: Lpn) -> (u64, u64) {
        let even = lpn.0 & !1;
        let value = |lpn| u64::from(map.get(Lpn(lpn)).map_or(0, |p| p.0 + 1));
        let word = value(even) | value(even + 1) << 32;
        (self.shape.entries + 4 * u64::from(even), word)
    }

    /// A map page, with all of its entries.
    pub fn list_page(&self, map: &Map, page: u32, out: &mut Words) {
        for lpn in map.entries_of(page).step_by(2) {
            let (at, word) = self.entries_word(map, Lpn(lpn));
            out.push((self.at + at, word));
        }
    }

    /// An entry, and whether it is dirty.
    pub fn list_entry(&self, map: &Map, dirty: &Dirty, lpn: Lpn, out: &mut Words) {
        let (at, word) = self.entries_word(map, lpn);
        out.push((self.at + at, word));
        let (page, i) = super::in_page(lpn);
        let (at, word) = self.bits_word(dirty, page, u64::from(i / 64));
        out.push((self.at + at, word));
    }

    fn bits_word(&self, dirty: &Dirty, page: u32, i: u64) -> (u64, u64) {
        let at = self.shape.bits + 8 * (u64::from(page) * BIT_WORDS + i);
        (at, dirty.page_bits(page)[i as usize])
    }

    /// Which entries of a map page are dirty.
    pub fn list_bits(&self, dirty: &Dirty, page: u32, out: &mut Words) {
        for i in 0..BIT_WORDS {
            let (at, word) = self.bits_word(dirty, page, i);
            out.push((self.at + at, word));
        }
    }

    fn image_word(&self, log: &MapLog, page: u32) -> (u64, u64) {
        let even = page & !1;
        let value = |page| match page < self.shape.directory {
            true => u64::from(log.image_place(page).map_or(0, |p| p.0 + 1)),
            false => 0,
        };
        (self.shape.images + 4 * u64::from(even), value(even) | value(even + 1) << 32)
    }

    /// Where the image of a map page is.
    pub fn list_image(&self, log: &MapLog, page: u32, out: &mut Words) {
        let (at, word) = self.image_word(log, page);
        out.push((self.at + at, word));
    }

    /// All of the map that is to be dumped.
    pub fn put_map(&self, map: &Map, log: &MapLog, sums: &mut Sums) {
        if let Some(dirty) = log.dirty().filter(|_| self.shape.keeps_entries) {
            let mut words = Vec::new();
            for page in 0..self.shape.map_pages {
                self.list_bits(dirty, page, &mut words);
                if self.shape.whole_pages && dirty.is_dirty(page) {
                    self.list_page(map, page, &mut words);
                }
                words.drain(..).for_each(|(at, word)| sums.put(self, at, word));
            }
            for lpn in dirty.entries() {
                let (at, word) = self.entries_word(map, lpn);
                sums.put(self, self.at + at, word);
            }
        }
        for page in (0..self.shape.directory).step_by(2) {
            let (at, word) = self.image_word(log, page);
            sums.put(self, self.at + at, word);
        }
    }

    fn unit_word(&self, space: &Space, unit: Unit, units: u32) -> (u64, u64) {
        let even = unit.0 & !1;
        let value = |unit| match unit < units {
            true => u64::from(space.written_to(Unit(unit)).map_or(0, |landed| landed + 1)),
            false => 0,
        };
        (self.shape.units + 4 * u64::from(even), value(even) | value(even + 1) << 32)
    }

    /// Up to where a unit is written.
    pub fn list_unit(&self, space: &Space, unit: Unit, out: &mut Words) {
        let (at, word) = self.unit_word(space, unit, space.count());
        out.push((self.at + at, word));
    }

    /// The same of all.
    pub fn put_units(&self, space: &Space, sums: &mut Sums) {
        if self.shape.journal_max > 0 {
            for unit in (0..space.count()).step_by(2) {
                let (at, word) = self.unit_word(space, Unit(unit), space.count());
                sums.put(self, self.at + at, word);
            }
        }
    }

    fn entry_words(&self, which: usize, i: usize, entry: Entry) -> [(u64, u64); 2] {
        let at = self.shape.journals[which] + (i * ENTRY_BYTES) as u64;
        let bytes = entry.encode();
        let word = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(word)
        };
        [(at, word(0)), (at + 8, word(8))]
    }

    /// What is new of the journal of units. False if it does not fit.
    pub fn list_journal(
        &self,
        journal: &UnitJournal,
        changes: &mut Vec<usize>,
        now: &mut List,
        out: &mut Words,
    ) -> bool {
        journal.changes.take(changes);
        let len = journal.len();
        // So many from the first on are as the table has them.
        let stable = changes.first().map_or(now.len, |first| now.len.min(*first)).min(len);
        if len > self.shape.journal_max {
            return false;
        }
        if stable == len && len == now.len {
            return true;
        }
        if stable + 1 < now.len || len < now.len {
            *now = self.put_list(1 - now.which, journal);
            return true;
        }
        for (i, entry) in journal.entries().enumerate().skip(stable) {
            for (at, word) in self.entry_words(now.which, i, entry) {
                if i < now.len {
                    now.sum = now.sum.wrapping_sub(mixed(at, self.word(at)));
                    out.push((self.at + at, word));
                } else {
                    self.set(at, word); // Behind the last one that counts.
                }
                now.sum = now.sum.wrapping_add(mixed(at, word));
            }
        }
        now.len = len;
        true
    }

    fn put_list(&self, which: usize, journal: &UnitJournal) -> List {
        let (mut len, mut sum) = (0, 0u64);
        for (i, entry) in journal.entries().enumerate().take(self.shape.journal_max) {
            for (at, word) in self.entry_words(which, i, entry) {
                self.set(at, word);
                sum = sum.wrapping_add(mixed(at, word));
            }
            len = i + 1;
        }
        List { which, len, sum }
    }

    /// All of the journal.
    pub fn put_journal(&self, journal: &UnitJournal) -> List {
        self.put_list(0, journal)
    }
}

/// The bytes of a page that is buffered.
pub(crate) fn data_bytes<T>(data: Data<'_>, then: impl FnOnce(&[u8]) -> T) -> T {
    match data {
        Data::Bytes(bytes) => then(bytes),
        Data::Stamps(stamps) => then(&stamps.first().map_or([0; 8], |stamp| stamp.to_le_bytes())),
    }
}

/// A checksum of 31 bits, of a buffered page and its number.
pub(crate) fn sum(lpn: Lpn, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&lpn.0.to_le_bytes()), bytes) >> 1
}

/// What is wrong with the tables, and where in the region.
pub(crate) type Wrong = (u64, String);

/// The firmware as a process that was killed left it, as far as a dump needs it; `None` if there
/// is nothing to dump.
pub(crate) fn left_behind(
    rt: &Rt,
    design: &Rc<Design>,
    layout: &Layout,
    nand: &Rc<NandArray>,
    stats: &Rc<Stats>,
    (region, version): (&Region, u32),
) -> Result<Option<Firmware>, Wrong> {
    let shape = Shape::of(design, layout, nand.payload(), version);
    let which = match region.word(COUNTS) {
        0 => return Ok(None),
        n if n == shape.counts_word(0) => 0,
        n if n == shape.counts_word(1) => 1,
        n => return Err((COUNTS, format!("{n:#x} is the number of no table"))),
    };
    finish_list(&shape, region)?;
    let table = Table::new(&shape, region, which);
    let sums = Sums::read(&table)?;
    shape.blocks_to_check().try_for_each(|block| sums.check(&table, block))?;
    let fw = Firmware::new(rt, design, layout, nand, stats);
    let wrong = |at: u64, what: String| (table.at + at, what);
    read_facts(&table, &fw).map_err(|(at, what)| wrong(at, what))?;
    read_pages(&table, &fw).map_err(|(at, what)| wrong(at, what))?;
    read_map(&table, &fw, &sums).map_err(|(at, what)| wrong(at, what))?;
    read_units(&table, &fw).map_err(|(at, what)| wrong(at, what))?;
    fw.publish_to(Box::new(Mirror::left_behind(shape.clone(), region, which, sums)));
    Ok(Some(fw))
}

/// Puts in place what the list has.
fn finish_list(shape: &Shape, region: &Region) -> Result<(), Wrong> {
    let pending = region.word(PENDING);
    if pending > shape.list_max() as u64 {
        return Err((PENDING, format!("a list of {pending} words")));
    }
    for pair in (0..pending).map(|i| shape.list + 16 * i) {
        let (at, word) = (region.word(pair), region.word(pair + 8));
        if at < shape.tables[0] || at >= shape.len || !at.is_multiple_of(8) {
            return Err((pair, format!("a word is to be put at {at}")));
        }
        region.set_word(at, word);
    }
    region.publish(PENDING, 0);
    Ok(())
}

/// Whether a dump may go to a unit: one that is kept for dumps, or in whose first page nothing else
/// is (`dump_zone`, 4).
fn may_be_dumped_to(fw: &Firmware, unit: Unit) -> bool {
    let first = PageAddr { unit, page: 0 };
    let mut words = vec![0; fw.nand.oob_words()];
    fw.layout.keeps_for_dumps(&fw.design.geometry, unit)
        || head(&fw.nand, first, &mut words).is_none_or(|head| head.kind.is_of_dump())
}

fn read_facts(table: &Table<'_>, fw: &Firmware) -> Result<(), Wrong> {
    let g = &fw.design.geometry;
    let flags = table.word(FLAGS);
    if flags > BEGAN_READ_ONLY | READ_ONLY {
        return Err((FLAGS, format!("flags {flags:#x}")));
    }
    fw.was_read_only(flags & READ_ONLY != 0, flags & BEGAN_READ_ONLY != 0);
    fw.state.sequence.set(table.word(SEQUENCE).clamp(1, (1 << 56) - 1));
    fw.state.map.borrow_mut().advance(Version(table.word(VERSION)));
    let count = |at| match table.word(at) {
        n if n <= u64::from(table.shape.zone) => Ok(n),
        n => Err((at, format!("{n} units for dumps, of {}", table.shape.zone))),
    };
    let mut areas = fw.state.dump.borrow_mut();
    areas.next = table.word(NEXT_DUMP);
    let facts = table.shape.facts;
    for at in (0..count(READY)?).map(|i| facts + 8 * i) {
        let (unit, page) = (Unit((table.word(at) >> 32) as u32), table.word(at) as u32);
        if unit.0 >= g.units() || !may_be_dumped_to(fw, unit) || page > g.unit_pages() {
            return Err((at, format!("a dump is to go to unit {} from page {page} on", unit.0)));
        }
        areas.ready.push((unit, page));
    }
    for i in 0..count(FAILED)? {
        areas.failed.push(Unit(table.word(facts + 8 * (u64::from(table.shape.zone) + i)) as u32));
    }
    Ok(())
}

fn read_pages(table: &Table<'_>, fw: &Firmware) -> Result<(), Wrong> {
    let shape = table.shape;
    let mut buffer = fw.state.buffer.borrow_mut();
    for place in 0..shape.places {
        let at = shape.index + 8 * u64::from(place);
        let word = table.word(at);
        let Some(lpn) = (word & ((1 << 33) - 1)).checked_sub(1) else { continue };
        let lpn = Lpn(lpn as u32);
        let fits = buffer.used() < fw.design.buffer_slots() && !buffer.contains(lpn);
        if lpn.0 >= fw.layout.logical || !fits {
            return Err((at, format!("{lpn} is buffered here, or once more")));
        }
        let mut bytes = vec![0; shape.page_bytes as usize];
        table.region.read(shape.data + u64::from(place) * shape.page_bytes, &mut bytes);
        if u64::from(sum(lpn, &bytes)) != word >> 33 {
            return Err((at, format!("{lpn}, which is buffered, is not what its checksum says")));
        }
        match fw.nand.payload() {
            Payload::Bytes => drop(buffer.insert(lpn, Data::Bytes(&bytes))),
            Payload::Stamps => {
                let mut stamp = [0; 8];
                stamp.copy_from_slice(&bytes);
                buffer.insert(lpn, Data::Stamps(&[u64::from_le_bytes(stamp)]));
            }
        }
    }
    Ok(())
}

fn read_map(table: &Table<'_>, fw: &Firmware, sums: &Sums) -> Result<(), Wrong> {
    let shape = table.shape;
    let (mut map, mut log) = (fw.state.map.borrow_mut(), fw.state.log.borrow_mut());
    let pages = if shape.keeps_entries { shape.map_pages } else { 0 };
    let mut look = Look::new(fw);
    for page in 0..pages {
        let bits = |i: u64| table.word(shape.bits + 8 * (u64::from(page) * BIT_WORDS + i));
        if (0..BIT_WORDS).all(|i| bits(i) == 0) {
            continue;
        }
        // (What is wrong is told with its place in the table.)
        let block = (shape.entries / ALIGN) as usize + page as usize;
        sums.check(table, block).map_err(|(at, what)| (at - table.at, what))?;
        for lpn in map.entries_of(page).map(Lpn) {
            let (_, i) = super::in_page(lpn);
            let is_dirty = bits(u64::from(i / 64)) >> (i % 64) & 1 == 1;
            let at = shape.entries + 4 * u64::from(lpn.0 & !1);
            let to = ((table.word(at) >> (32 * (lpn.0 & 1))) as u32).checked_sub(1).map(Ppa);
            if is_dirty || shape.whole_pages && to.is_some() {
                check_entry(fw, lpn, to).map_err(|e| (at, e.to_string()))?;
                if let Some(to) = to.filter(|_| lpn.0 < fw.layout.logical) {
                    look.is_there(lpn, to).map_err(|what| (at, what))?;
                }
                map.put(lpn, to);
            }
            if is_dirty {
                log.changed(lpn);
            }
        }
    }
    for page in 0..shape.directory {
        let at = shape.images + 4 * u64::from(page & !1);
        let place = (table.word(at) >> (32 * (page & 1))) as u32;
        if let Some(place) = place.checked_sub(1) {
            if u64::from(place) >= fw.design.geometry.sectors() {
                let all = fw.design.geometry.sectors();
                return Err((
                    at,
                    format!("the image of map page {page} is at sector {place} of {all}"),
                ));
            }
            look.is_image(page, Ppa(place)).map_err(|what| (at, what))?;
            log.image_found(page, 0, Ppa(place));
        }
    }
    Ok(())
}

fn read_units(table: &Table<'_>, fw: &Firmware) -> Result<(), Wrong> {
    let shape = table.shape;
    if shape.journal_max == 0 {
        return Ok(());
    }
    let (which, len) = (table.word(JOURNAL), table.word(JOURNAL_LEN));
    if which > 1 || len > shape.journal_max as u64 {
        return Err((JOURNAL, format!("list {which} of the journal has {len} entries")));
    }
    let mut entries = Vec::with_capacity(len as usize);
    let mut sum = 0u64;
    for i in 0..len {
        let at = shape.journals[which as usize] + i * ENTRY_BYTES as u64;
        let mut bytes = [0; ENTRY_BYTES];
        table.region.read(table.at + at, &mut bytes);
        for at in [at, at + 8] {
            sum = sum.wrapping_add(mixed(at, table.word(at)));
        }
        let what = || (at, format!("{bytes:x?} is no entry of the journal of units"));
        entries.push(Entry::decode(&bytes).ok_or_else(what)?);
    }
    if shape.is_summed && sum != table.word(JOURNAL_SUM) {
        return Err((JOURNAL_SUM, "the journal of units has not its checksum".to_string()));
    }
    if let Some(journal) = fw.state.log.borrow_mut().journal_mut() {
        *journal = UnitJournal::left_behind(entries);
    }
    let (mut space, g) = (fw.state.space.borrow_mut(), &fw.design.geometry);
    for unit in 0..g.units() {
        let at = shape.units + 4 * u64::from(unit & !1);
        let word = (table.word(at) >> (32 * (unit & 1))) as u32;
        if let Some(landed) = word.checked_sub(1) {
            if landed > g.unit_pages() {
                return Err((at, format!("unit {unit} is written up to page {landed}")));
            }
            space.left_behind(Unit(unit), landed);
        }
    }
    Ok(())
}
