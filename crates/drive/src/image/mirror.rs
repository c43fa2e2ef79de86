//! Protected memory that outlives the process: what the emergency dump needs, in a part of the
//! image file.
//!
//! A drive in an image may be killed at any instruction. To the drive that is a power cut, and its
//! dump is still to be written: by the next process, from what is here. So what the dump reads of
//! the firmware's memory is kept a second time, as plain tables.
//!
//! 1. The tables are of one moment of the run: what changed since the last one is first written
//!    beside them as a list of words, then published by one store, then put in place. A process
//!    that is killed in between leaves the list, which the next one puts in place.
//! 2. They are of the newest moment that anything outside of memory depends on: they are brought up
//!    to date before the array begins to change anything, and before a command of the host that
//!    changed them ends. In between they may be older than memory, as if the firmware's tasks had
//!    not got so far.
//! 3. A buffered page is put where none is that counts, and counts when the list says so.
//! 4. Version of the map and sequence numbers only grow, and may be ahead.
//! 5. Without such an image nothing is noted or kept.
//! 6. What cannot be put into the tables is not acknowledged: the drive is poisoned, and the tables
//!    stay what they were.
//! 7. The tables have checksums (`sums`), which a crash of the host does not leave by chance.
//!
//! What a dump is, and what a restart makes of it, is not known here: the next process fills the
//! firmware's memory from the tables, and cuts its power.

mod sums;
mod tables;

use crate::firmware::{Firmware, Publish};
use crate::format::entries::map_page;
use crate::format::words::Lpn;
use crate::state::dirty::MapChange;
use crate::state::unit_journal::UnitJournal;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use sums::Sums;
pub(crate) use tables::{Shape, left_behind};
use tables::{Table, data_bytes};
use tantalum_nand::{Region, Unit};

/// Which table counts: 0 for none, then nothing is to be dumped.
pub(crate) const COUNTS: u64 = 0;
/// Why a drive is poisoned (6).
const NO_PLACE: &str = "protected memory has no place for a buffered page";
const LONG_JOURNAL: &str = "the journal of units is longer than protected memory has room for";

/// How many words of the list are to be put in place.
pub(crate) const PENDING: u64 = 8;

/// The tables of a drive that has power.
pub(crate) struct Mirror {
    shape: Shape,
    region: Region,
    /// Which table counts.
    which: Cell<usize>,
    /// Of a drive that has power; else of one that a process left behind, of which only the dump
    /// areas change.
    live: bool,
    /// Words that are published at a time: of more, all of memory is written anew.
    list_max: Cell<usize>,
    /// Something could not be put into the tables (6).
    is_broken: Cell<bool>,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Words to be put in place: where in the region, and what.
    list: Vec<(u64, u64)>,
    /// Where each buffered page is, and what is free.
    places: FxHashMap<u32, u32>,
    free: Vec<u32>,
    freed: Vec<u32>,
    /// What the table says of the dump areas and the rest.
    facts: Vec<u64>,
    journal: tables::List,
    sums: Sums,
    pages: Vec<Lpn>,
    units: Vec<Unit>,
    map: Vec<MapChange>,
    entries: Vec<usize>,
}

impl Mirror {
    /// Nothing is to be dumped any more.
    pub fn clear(region: &Region) {
        if !region.is_empty() {
            region.publish(COUNTS, 0);
        }
    }

    /// What the firmware has now is what is to be dumped, and what it changes from now on.
    /// `version`: that of the image's format.
    pub fn begin(fw: &Firmware, region: &Region, version: u32) -> Mirror {
        fw.state.buffer.borrow_mut().changes.watch();
        fw.state.log.borrow_mut().watch();
        fw.state.space.borrow_mut().changes.watch();
        let shape = Shape::of(&fw.design, &fw.layout, fw.nand.payload(), version);
        let inner = Inner { free: (0..shape.places).collect(), ..Inner::default() };
        let mirror = Mirror {
            list_max: Cell::new(shape.list_max()),
            shape,
            region: region.clone(),
            which: Cell::new(1),
            live: true,
            is_broken: Cell::new(false),
            inner: RefCell::new(inner),
        };
        mirror.keeps(fw, mirror.write_all(fw, &mut mirror.inner.borrow_mut()));
        mirror
    }

    /// Of what a process left behind in this table.
    fn left_behind(shape: Shape, region: &Region, which: usize, sums: Sums) -> Mirror {
        Mirror {
            list_max: Cell::new(shape.list_max()),
            shape,
            region: region.clone(),
            which: Cell::new(which),
            live: false,
            is_broken: Cell::new(false),
            inner: RefCell::new(Inner { sums, ..Inner::default() }),
        }
    }

    /// The drive is poisoned, and nothing more is published, unless this is well.
    fn keeps(&self, fw: &Firmware, result: Result<(), &'static str>) -> bool {
        if let Err(why) = result {
            self.is_broken.set(true);
            fw.fail(why);
        }
        result.is_ok()
    }

    fn bring_up_to_date(&self, fw: &Firmware) -> Result<(), &'static str> {
        let inner = &mut *self.inner.borrow_mut();
        let table = Table::new(&self.shape, &self.region, self.which.get());
        // (4)
        table.set_counters(fw);
        self.list_pages(fw, &table, inner)?;
        self.list_map(fw, &table, inner);
        self.list_units(fw, &table, inner)?;
        table.list_facts(fw, inner.journal, &mut inner.facts, &mut inner.list);
        // (Each word changes at most one checksum; all of them change one more.)
        let most = match self.shape.is_summed {
            true => self.list_max.get().saturating_sub(1) / 2,
            false => self.list_max.get(),
        };
        if inner.list.len() > most {
            // (So much has changed that all is written anew.)
            self.write_all(fw, inner)?;
        } else {
            inner.sums.seal(&table, &mut inner.list);
            self.put_list(inner);
        }
        inner.list.clear();
        inner.free.append(&mut inner.freed);
        Ok(())
    }

    fn put_list(&self, inner: &Inner) {
        match inner.list[..] {
            [] => {}
            [(at, word)] => self.region.publish(at, word),
            _ => {
                for (i, (at, word)) in (0..).zip(&inner.list) {
                    let pair = self.shape.list + 16 * i;
                    self.region.set_word(pair, *at);
                    self.region.set_word(pair + 8, *word);
                }
                self.region.publish(PENDING, inner.list.len() as u64);
                for (at, word) in &inner.list {
                    self.region.set_word(*at, *word);
                }
                self.region.publish(PENDING, 0);
            }
        }
    }

    /// Buffered pages.
    fn list_pages(
        &self,
        fw: &Firmware,
        table: &Table<'_>,
        inner: &mut Inner,
    ) -> Result<(), &'static str> {
        let buffer = fw.state.buffer.borrow();
        buffer.changes.take(&mut inner.pages);
        for lpn in &inner.pages {
            if let Some(place) = inner.places.remove(&lpn.0) {
                inner.list.push((table.index(place), 0));
                inner.freed.push(place);
            }
            let Some(data) = buffer.newest(*lpn) else { continue };
            // There are twice as many places as the buffer has.
            let place = inner.free.pop().ok_or(NO_PLACE)?;
            let word = self.put_page(place, *lpn, data);
            inner.list.push((table.index(place), word));
            inner.places.insert(lpn.0, place);
        }
        Ok(())
    }

    /// Puts a page where none is that counts; the word of the index that makes it count.
    fn put_page(&self, place: u32, lpn: Lpn, data: tantalum_device::Data<'_>) -> u64 {
        let at = self.shape.data + u64::from(place) * self.shape.page_bytes;
        data_bytes(data, |bytes| {
            self.region.write(at, bytes);
            index_word(lpn, bytes)
        })
    }

    /// Changed entries of the map, and its directory.
    fn list_map(&self, fw: &Firmware, table: &Table<'_>, inner: &mut Inner) {
        let (log, map) = (fw.state.log.borrow(), fw.state.map.borrow());
        let Some(dirty) = log.dirty() else { return };
        dirty.changes.take(&mut inner.map);
        let (shape, out) = (&self.shape, &mut inner.list);
        for change in &inner.map {
            match *change {
                MapChange::Image(page) if shape.directory > 0 => table.list_image(&log, page, out),
                MapChange::Begun(page) if shape.whole_pages => table.list_page(&map, page, out),
                MapChange::Entry(lpn) if shape.keeps_entries => {
                    table.list_entry(&map, dirty, lpn, out);
                }
                MapChange::Stored(page) if shape.keeps_entries => {
                    table.list_bits(dirty, page, out);
                }
                _ => {}
            }
        }
    }

    /// The journal of units, and where these end.
    fn list_units(
        &self,
        fw: &Firmware,
        table: &Table<'_>,
        inner: &mut Inner,
    ) -> Result<(), &'static str> {
        fw.state.space.borrow().changes.take(&mut inner.units);
        if self.shape.journal_max == 0 {
            return Ok(());
        }
        let space = fw.state.space.borrow();
        for unit in &inner.units {
            table.list_unit(&space, *unit, &mut inner.list);
        }
        let (now, list) = (&mut inner.journal, &mut inner.list);
        if let Some(journal) = fw.state.log.borrow().journal()
            && !table.list_journal(journal, &mut inner.entries, now, list)
        {
            return Err(LONG_JOURNAL);
        }
        Ok(())
    }

    /// All of memory goes to the table that does not count, which counts then. Pages that have a
    /// place stay there: what is in it is the same in both tables.
    fn write_all(&self, fw: &Firmware, inner: &mut Inner) -> Result<(), &'static str> {
        let is_long = |journal: &UnitJournal| journal.len() > self.shape.journal_max;
        if fw.state.log.borrow().journal().is_some_and(is_long) {
            return Err(LONG_JOURNAL);
        }
        let which = 1 - self.which.get();
        let table = Table::new(&self.shape, &self.region, which);
        table.set_counters(fw);
        table.clear();
        let mut sums = Sums::blank(&table);
        for (lpn, data) in fw.state.buffer.borrow().contents() {
            let (place, word) = match inner.places.get(&lpn.0) {
                Some(place) => (*place, data_bytes(data, |bytes| index_word(lpn, bytes))),
                None => {
                    let place = inner.free.pop().ok_or(NO_PLACE)?;
                    inner.places.insert(lpn.0, place);
                    (place, self.put_page(place, lpn, data))
                }
            };
            sums.put(&table, table.index(place), word);
        }
        table.put_map(&fw.state.map.borrow(), &fw.state.log.borrow(), &mut sums);
        table.put_units(&fw.state.space.borrow(), &mut sums);
        inner.journal = tables::List::default();
        if let Some(journal) = fw.state.log.borrow().journal() {
            inner.journal = table.put_journal(journal);
        }
        inner.facts.clear();
        let mut list = Vec::new();
        table.list_facts(fw, inner.journal, &mut inner.facts, &mut list);
        list.iter().for_each(|(at, word)| sums.put(&table, *at, *word));
        sums.finish(&table);
        inner.sums = sums;
        self.region.publish(COUNTS, self.shape.counts_word(which));
        self.which.set(which);
        // All that was noted is told.
        fw.state.buffer.borrow().changes.take(&mut inner.pages);
        fw.state.space.borrow().changes.take(&mut inner.units);
        let log = fw.state.log.borrow();
        if let Some(dirty) = log.dirty() {
            dirty.changes.take(&mut inner.map);
        }
        if let Some(journal) = log.journal() {
            journal.changes.take(&mut inner.entries);
        }
        Ok(())
    }

    /// Lists have so few words from now on.
    #[cfg(test)]
    pub fn shrink_list(&self, words: usize) {
        self.list_max.set(words);
    }

    /// There are no free places any more.
    #[cfg(test)]
    pub fn lose_places(&self) {
        self.inner.borrow_mut().free.clear();
    }
}

impl Publish for Mirror {
    /// Brings the tables up to date (2). False if that cannot be, now or before: then they stay as
    /// they were, and the drive is poisoned (6).
    fn publish(&self, fw: &Firmware) -> bool {
        if !self.live {
            return true;
        }
        if self.is_broken.get() {
            return false;
        }
        self.keeps(fw, self.bring_up_to_date(fw))
    }

    /// A dump is going to be written: from where on, so that a process that is killed meanwhile
    /// leaves nothing of it that the next one, which begins it anew, does not take back.
    fn begin_dump(&self, fw: &Firmware) {
        let table = Table::new(&self.shape, &self.region, self.which.get());
        let inner = &mut *self.inner.borrow_mut();
        inner.list.clear();
        table.list_ready(&fw.state.dump.borrow(), &mut inner.list);
        inner.sums.seal(&table, &mut inner.list);
        self.put_list(inner);
        inner.list.clear();
    }

    #[cfg(test)]
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// The word of the index that makes a page count.
fn index_word(lpn: Lpn, bytes: &[u8]) -> u64 {
    (u64::from(lpn.0) + 1) | (u64::from(tables::sum(lpn, bytes)) << 33)
}

/// Which map page an entry belongs to, and where in it.
pub(crate) fn in_page(lpn: Lpn) -> (u32, u32) {
    (map_page(lpn), lpn.0 % crate::format::entries::MAP_PAGE_ENTRIES)
}
