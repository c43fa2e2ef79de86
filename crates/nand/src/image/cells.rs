//! The cells in an image file.
//!
//! 1. Pages after the last one of a unit have no meaning. New pages are written there first. They
//!    count once the unit's own word, which is stored atomically, includes them.
//! 2. The records of units are also kept in memory, and are not read again. So a damaged file can
//!    make data wrong, but cannot crash the program.
//! 3. A page whose checksum does not match cannot be read, and is never moved as a good page.
//! 4. The space of an erased unit is given back after its last erase has ended, and before anything
//!    is programmed there.
//! 5. Since version 2 of the format the checksum of a page includes the erase count of its unit and
//!    the kind of the page. So what was programmed before the last erase is never taken for what
//!    was programmed after it, whatever part of the file was lost.
//! 6. In an image that is synced (`sync`, 3) a unit that lost pages is neither programmed nor given
//!    back before that loss is durable.

use super::format::{PAGE_RECORD, Parts, SECTOR, UNIT_BYTES};
use super::mapped::Region;
use super::{ImageError, ImageSpec, Syncer};
use crate::geometry::SECTOR_BYTES;
use crate::store::{PageState, RamStore, UnitState};
use crate::{Geometry, PageAddr, Unit};
use std::cell::Cell;
use tantalum_device::{Data, DataMut, OwnedData, Payload};

/// The kinds of page records; 0 if nothing is kept.
const BYTES: u8 = 1;
const STAMPS: u8 = 2;
/// Only zeros, which are not kept.
const ZEROS: u8 = 3;
/// A flag beside the kind: the page cannot be read.
const TORN: u8 = 0x80;

const HALF_ERASED: u64 = 1;
/// The unit may occupy space of the file.
const HAS_SPACE: u64 = 2;

pub(crate) struct ImageStore {
    geometry: Geometry,
    kind: Payload,
    words: usize,
    page_sectors: usize,
    units: Vec<UnitState>,
    has_space: Vec<bool>,
    of_units: Region,
    of_pages: Region,
    oob: Region,
    stamps: Region,
    payload: Region,
    /// See [`ImageStore::take_damaged`].
    damaged: Cell<Option<PageAddr>>,
    version: u32,
    syncer: Option<Syncer>,
    /// For each unit, the moment that has to be durable before it is overwritten (6).
    due: Vec<u64>,
    /// Units whose space can only be given back later, because of that.
    later: Vec<Unit>,
}

impl ImageStore {
    /// The cells of an image whose header has been checked.
    pub fn open(spec: &ImageSpec, parts: &Parts, all: &Region) -> Result<ImageStore, ImageError> {
        let region = |part: super::format::Part| all.part(part.at, part.len);
        let mut store = ImageStore {
            geometry: spec.geometry.clone(),
            kind: spec.payload,
            words: spec.oob_words as usize,
            page_sectors: spec.geometry.page_sectors() as usize,
            units: Vec::with_capacity(spec.geometry.units() as usize),
            has_space: Vec::with_capacity(spec.geometry.units() as usize),
            of_units: region(parts.units),
            of_pages: region(parts.pages),
            oob: region(parts.oob),
            stamps: region(parts.stamps),
            payload: region(parts.payload),
            damaged: Cell::new(None),
            version: spec.version,
            syncer: None,
            due: vec![0; spec.geometry.units() as usize],
            later: Vec::new(),
        };
        for unit in 0..spec.geometry.units() {
            let at = u64::from(unit) * UNIT_BYTES;
            let (word, flags) = (store.of_units.word(at), store.of_units.word(at + 8));
            let (next, erase_count) = (word as u32, (word >> 32) as u32);
            if next > spec.geometry.unit_pages() || flags > HALF_ERASED | HAS_SPACE {
                return Err(ImageError::Damaged {
                    offset: parts.units.at + at,
                    what: format!("unit {unit} is said to have {next} pages, flags {flags:#x}"),
                });
            }
            let half_erased = flags & HALF_ERASED != 0;
            store.units.push(UnitState { cells: None, next, erase_count, half_erased });
            store.has_space.push(flags & HAS_SPACE != 0);
        }
        Ok(store)
    }

    pub fn unit(&self, unit: Unit) -> &UnitState {
        &self.units[unit.0 as usize]
    }

    pub fn kind(&self) -> Payload {
        self.kind
    }

    pub fn words(&self) -> usize {
        self.words
    }

    pub fn page_sectors(&self) -> usize {
        self.page_sectors
    }

    /// The number of a page among all pages.
    fn number(&self, at: PageAddr) -> u64 {
        u64::from(at.unit.0) * u64::from(self.geometry.unit_pages()) + u64::from(at.page)
    }

    /// Changes the record of a unit, in memory and in the image. At most one of its two words
    /// changes the meaning of the other, and it is stored first: a unit that is erased again is
    /// empty before it stops being half erased.
    pub fn change(&mut self, unit: Unit, change: impl FnOnce(&mut UnitState)) {
        let u = &mut self.units[unit.0 as usize];
        let had = u.next;
        change(u);
        if u.next < had {
            self.lost(unit);
        }
        let u = &self.units[unit.0 as usize];
        let flags = if u.half_erased { HALF_ERASED } else { 0 }
            | if self.has_space[unit.0 as usize] { HAS_SPACE } else { 0 };
        let at = u64::from(unit.0) * UNIT_BYTES;
        let word = u64::from(u.next) | u64::from(u.erase_count) << 32;
        self.of_units.publish(at, word);
        self.of_units.publish(at + 8, flags);
    }

    pub fn advance(&mut self, unit: Unit, next: u32) {
        self.change(unit, |u| u.next = next);
    }

    fn record(&self, at: PageAddr) -> u64 {
        self.of_pages.word(self.number(at) * PAGE_RECORD)
    }

    fn set_record(&self, at: PageAddr, record: u64) {
        self.of_pages.publish(self.number(at) * PAGE_RECORD, record);
    }

    /// Notes that a unit has lost pages for good. For an erase that is when it has ended, since one
    /// that has not begun may be taken back. (6)
    pub fn lost(&mut self, unit: Unit) {
        if let Some(syncer) = &self.syncer {
            self.due[unit.0 as usize] = syncer.next();
        }
    }

    /// Waits until a unit may be overwritten (6). False if the host's disk failed.
    pub fn is_free(&self, unit: Unit) -> bool {
        let due = self.due[unit.0 as usize];
        self.syncer.as_ref().is_none_or(|syncer| syncer.settle(due))
    }

    /// Writes pages after those that the unit has.
    pub fn fill(&mut self, at: PageAddr, sectors: &[Data<'_>], oob: &[u64]) {
        if !self.has_space[at.unit.0 as usize] {
            self.has_space[at.unit.0 as usize] = true;
            self.change(at.unit, |_| ());
        }
        for (i, sectors) in sectors.chunks(self.page_sectors).enumerate() {
            let page = PageAddr { unit: at.unit, page: at.page + i as u32 };
            let count = self.unit(at.unit).erase_count;
            self.put_page(page, count, sectors, &oob[i * self.words..(i + 1) * self.words], false);
        }
    }

    /// The beginning of a page's checksum (5).
    fn sum_of(&self, count: u32, kind: u8) -> u32 {
        match self.version {
            1 => 0,
            _ => crc32c::crc32c_append(crc32c::crc32c(&count.to_le_bytes()), &[kind]),
        }
    }

    /// Writes a page of a unit that was erased `count` times.
    fn put_page(&self, at: PageAddr, count: u32, sectors: &[Data<'_>], oob: &[u64], torn: bool) {
        let number = self.number(at);
        let mut words = Vec::with_capacity(self.words * 8);
        oob.iter().for_each(|word| words.extend_from_slice(&word.to_le_bytes()));
        self.oob.write(number * words.len() as u64, &words);
        let stamped = matches!(sectors, [Data::Stamps(_), ..]);
        let kind = match stamped {
            true => STAMPS,
            false if sectors.iter().all(Data::is_zero) => ZEROS,
            false => BYTES,
        };
        let mut sum = crc32c::crc32c_append(self.sum_of(count, kind), &words);
        let first = number * self.page_sectors as u64;
        for (sector, at) in sectors.iter().zip(first..).filter(|_| kind != ZEROS) {
            match sector {
                Data::Bytes(bytes) => {
                    self.payload.write(at * bytes.len() as u64, bytes);
                    sum = crc32c::crc32c_append(sum, bytes);
                }
                Data::Stamps(stamps) => {
                    let bytes: Vec<u8> = stamps.iter().flat_map(|s| s.to_le_bytes()).collect();
                    self.stamps.write(at * bytes.len() as u64, &bytes);
                    sum = crc32c::crc32c_append(sum, &bytes);
                }
            }
        }
        let kind = kind | if torn { TORN } else { 0 };
        self.set_record(at, u64::from(kind) | u64::from(sum) << 32);
    }

    pub fn tear(&mut self, at: PageAddr) {
        self.set_record(at, self.record(at) | u64::from(TORN));
    }

    pub fn state(&self, at: PageAddr) -> PageState {
        let unit = self.unit(at.unit);
        match () {
            () if unit.half_erased => PageState::Uncorrectable,
            () if at.page >= unit.next => PageState::Erased,
            () => match self.record(at) as u8 {
                BYTES | ZEROS => PageState::Programmed,
                STAMPS if self.kind == Payload::Stamps => PageState::Programmed,
                _ => PageState::Uncorrectable,
            },
        }
    }

    /// The kind of a page, if it can be read.
    fn readable(&self, at: PageAddr) -> Option<u8> {
        (self.state(at) == PageState::Programmed).then(|| self.record(at) as u8)
    }

    pub fn copy_out(&self, at: PageAddr, first: usize, mut out: DataMut<'_>) {
        let number = self.number(at);
        match (self.readable(at), &mut out) {
            (Some(BYTES), DataMut::Bytes(to)) => {
                let page = number * u64::from(self.geometry.page_bytes);
                self.payload.read(page + (first * SECTOR) as u64, to);
            }
            (Some(STAMPS), DataMut::Stamps(to)) => {
                let page = number * self.page_sectors as u64;
                for (i, stamp) in (page + first as u64..).zip(to.iter_mut()) {
                    *stamp = self.stamps.word(i * 8);
                }
            }
            _ => out.zero(),
        }
    }

    pub fn copy_oob(&self, at: PageAddr, out: &mut [u64]) {
        if self.readable(at).is_none() {
            return out.fill(0);
        }
        let first = self.number(at) * self.words as u64;
        for (i, word) in (first..).zip(out) {
            *word = self.oob.word(i * 8);
        }
    }

    /// The same for a read: a page without its programmed content cannot be read.
    pub fn state_of_read(&self, at: PageAddr) -> PageState {
        if self.is_intact(at) {
            return self.state(at);
        }
        self.damaged.set(self.damaged.get().or(Some(at)));
        PageState::Uncorrectable
    }

    /// The first page, since the last call, that was read without its programmed content.
    pub fn take_damaged(&self) -> Option<PageAddr> {
        self.damaged.take()
    }

    /// Whether a page has its programmed content. Unreadable pages count as intact.
    pub fn is_intact(&self, at: PageAddr) -> bool {
        let count = self.unit(at.unit).erase_count;
        self.readable(at).is_none_or(|kind| self.has_its_sum(at, count, kind))
    }

    /// Makes all pages unreadable that do not have their programmed content. Returns how many.
    pub fn tear_damaged(&mut self) -> u64 {
        let mut torn = 0;
        for unit in (0..self.geometry.units()).map(Unit) {
            for page in 0..self.unit(unit).next {
                let at = PageAddr { unit, page };
                if !self.is_intact(at) {
                    self.tear(at);
                    torn += 1;
                }
            }
        }
        torn
    }

    fn has_its_sum(&self, at: PageAddr, count: u32, kind: u8) -> bool {
        let number = self.number(at);
        let of_words = self.words as u64 * 8;
        let sum = sum(self.sum_of(count, kind), &self.oob, number * of_words, of_words);
        let (region, len) = match kind {
            BYTES => (&self.payload, u64::from(self.geometry.page_bytes)),
            STAMPS => (&self.stamps, self.page_sectors as u64 * 8),
            _ => (&self.payload, 0),
        };
        u64::from(self::sum(sum, region, number * len, len)) == self.record(at) >> 32
    }

    /// The offset of a page's data in the payload part.
    pub fn payload_offset(&self, at: PageAddr) -> u64 {
        self.number(at) * u64::from(self.geometry.page_bytes)
    }

    /// Gives the space of a unit back after its erase has ended, unless it is in use again.
    pub fn give_back(&mut self, unit: Unit) {
        let due = self.due[unit.0 as usize];
        if self.syncer.as_ref().is_some_and(|syncer| syncer.durable() < due) {
            self.later.push(unit);
        } else {
            self.give_space_back(unit);
        }
    }

    /// Units whose space can be given back now, after an earlier call came too soon.
    pub fn take_later(&mut self) -> Vec<Unit> {
        let Some(syncer) = self.syncer.as_ref().filter(|_| !self.later.is_empty()) else {
            return Vec::new();
        };
        let (durable, due) = (syncer.durable(), &self.due);
        self.later.extract_if(.., |unit| due[unit.0 as usize] <= durable).collect()
    }

    /// From now on the image is synced by this syncer.
    pub fn set_syncer(&mut self, syncer: Option<Syncer>) {
        self.syncer = syncer;
    }

    fn give_space_back(&mut self, unit: Unit) {
        if self.unit(unit).next > 0 || !self.has_space[unit.0 as usize] {
            return;
        }
        let pages = u64::from(self.geometry.unit_pages());
        let punch = |region: &Region, of_page: u64| {
            region.give_back(u64::from(unit.0) * pages * of_page, pages * of_page);
        };
        punch(&self.payload, self.geometry.page_bytes.into());
        punch(&self.oob, self.words as u64 * 8);
        if self.kind == Payload::Stamps {
            punch(&self.stamps, self.page_sectors as u64 * 8);
        }
        self.has_space[unit.0 as usize] = false;
        self.change(unit, |_| ());
    }

    /// Gives back the space of all units except these.
    pub fn give_all_back(&mut self, but: &[Unit]) {
        for unit in (0..self.geometry.units()).map(Unit).filter(|unit| !but.contains(unit)) {
            if !self.unit(unit).half_erased {
                self.give_back(unit);
            }
        }
    }

    /// A copy of a unit's pages in memory, for an erase that may have to restore them.
    pub fn unload(&self, unit: Unit, was: &UnitState) -> UnitState {
        let mut ram = RamStore::new(&self.one(), self.kind, self.words);
        self.copy_to(&mut ram, (unit, was.erase_count), Unit(0), was.next);
        let u = ram.unit_mut(Unit(0));
        UnitState { cells: u.cells.take(), ..was.clone() }
    }

    /// The geometry of an array with one such unit.
    fn one(&self) -> Geometry {
        Geometry { channels: 1, packages: 1, chips: 1, blocks: 1, ..self.geometry.clone() }
    }

    /// Copies pages of a unit, which was erased `count` times when they were programmed.
    fn copy_to(&self, ram: &mut RamStore, (unit, count): (Unit, u32), to: Unit, next: u32) {
        let mut words = vec![0; self.words];
        for page in 0..next {
            let at = PageAddr { unit, page };
            let record = self.record(at) as u8;
            let kind = match record & !TORN {
                STAMPS if self.kind == Payload::Stamps => Payload::Stamps,
                _ => Payload::Bytes,
            };
            let mut data = OwnedData::zeros(kind, self.page_sectors, SECTOR_BYTES);
            match &mut data {
                OwnedData::Bytes(bytes) if record & !TORN == BYTES => {
                    self.payload.read(self.payload_offset(at), bytes);
                }
                OwnedData::Bytes(_) => {}
                OwnedData::Stamps(stamps) => {
                    let first = self.number(at) * self.page_sectors as u64;
                    for (i, stamp) in (first..).zip(stamps) {
                        *stamp = self.stamps.word(i * 8);
                    }
                }
            }
            let first = self.number(at) * self.words as u64;
            for (i, word) in (first..).zip(&mut words) {
                *word = self.oob.word(i * 8);
            }
            let at = PageAddr { unit: to, page };
            ram.fill(at, &sectors(&data), &words);
            ram.unit_mut(to).next = page + 1;
            // (A page without its checksum is torn, since it would get a new one.)
            let is_good = matches!(record, BYTES | STAMPS | ZEROS);
            if !(is_good && self.has_its_sum(PageAddr { unit, page }, count, record)) {
                ram.tear(at);
            }
        }
    }

    /// Restores a unit, with its pages if they have been overwritten.
    pub fn restore(&mut self, unit: Unit, was: UnitState) {
        let UnitState { cells, next, erase_count, half_erased } = was;
        if let Some(cells) = cells {
            self.advance(unit, 0);
            let mut ram = RamStore::new(&self.one(), self.kind, self.words);
            *ram.unit_mut(Unit(0)) = UnitState { cells: Some(cells), next, ..UnitState::default() };
            self.load(unit, erase_count, &ram, next);
        }
        self.change(unit, |u| {
            (u.next, u.erase_count, u.half_erased) = (next, erase_count, half_erased);
        });
    }

    fn load(&mut self, unit: Unit, count: u32, ram: &RamStore, next: u32) {
        self.has_space[unit.0 as usize] = true;
        let mut words = vec![0; self.words];
        for page in 0..next {
            let from = PageAddr { unit: Unit(0), page };
            let kind = ram.payload_of(from);
            let mut data = OwnedData::zeros(kind, self.page_sectors, SECTOR_BYTES);
            ram.copy_out(from, 0, data.as_mut());
            ram.copy_oob(from, &mut words);
            let torn = ram.state(from) == PageState::Uncorrectable;
            self.put_page(PageAddr { unit, page }, count, &sectors(&data), &words, torn);
        }
    }

    /// A copy of all cells in memory.
    pub fn to_ram(&self) -> RamStore {
        let mut ram = RamStore::new(&self.geometry, self.kind, self.words);
        for unit in (0..self.geometry.units()).map(Unit) {
            let UnitState { next, erase_count, half_erased, .. } = *self.unit(unit);
            self.copy_to(&mut ram, (unit, erase_count), unit, next);
            let u = ram.unit_mut(unit);
            (u.erase_count, u.half_erased) = (erase_count, half_erased);
        }
        ram
    }
}

fn sectors(data: &OwnedData) -> Vec<Data<'_>> {
    data.as_data().each(SECTOR_BYTES).collect()
}

/// Continues a checksum with these bytes of a region.
fn sum(mut sum: u32, region: &Region, at: u64, len: u64) -> u32 {
    let mut room = [0; 4096];
    for from in (0..len).step_by(room.len()) {
        let some = &mut room[..(len - from).min(4096) as usize];
        region.read(at + from, some);
        sum = crc32c::crc32c_append(sum, some);
    }
    sum
}
