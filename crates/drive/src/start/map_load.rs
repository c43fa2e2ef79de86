//! The map at a restart, from what its log has on flash.
//!
//! 1. The newest image of each map page counts, then the deltas newer than that, in order.
//! 2. What the dump has put into the map stays: dirty entries are newer than any record, and map
//!    pages that are known already than any image.
//! 3. A page of the log may be unreadable only where a power loss or a failed program can have torn
//!    it: in the last program of a power cycle in a unit, and behind it (map log, 6). Even there it
//!    may not, if a later page says that this program was whole. Such a page is the first that the
//!    next power cycle wrote to the unit, or the first of the next unit at the same write point.
//!    (The last program at each write point has no later page.) Where a dump's directory names an
//!    image, it can be read.
//! 4. A map page that is needed before all are loaded is read from the place in the dump's
//!    directory. With the dirty entries over it, that image is as good as the newest one.

use crate::firmware::Firmware;
use crate::format::entries::{decode_entry, map_page, unit_entry};
use crate::format::words::{Before, Kind, LOG_VERSION_BITS, Lpn, PageHead, Ppa, Version};
use crate::planted::planted;
use crate::start::replay::{Dump, read_sectors};
use crate::start::report::{RecoveryError, RecoveryReport, check_entry};
use crate::start::scan::{Head, Heads, read_heads, read_pages, used, write_pointers};
use crate::start::settle::Units;
use crate::state::space::Role;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tantalum_device::{Data, DataMut};
use tantalum_nand::{PageAddr, PageState, ReadRequest, SECTOR_BYTES, Unit};

const SECTOR: usize = SECTOR_BYTES as usize;

/// One sector of the map log.
#[derive(Clone, Copy)]
struct Record {
    version: u64,
    at: PageAddr,
    sector: usize,
    index: u32,
    serial: u32,
    sequence: u64,
}

/// The sequence numbers of the pages in which the map log last stored each map page.
#[derive(Default)]
pub(crate) struct Stored {
    /// For each map page that of its image; 0 without one.
    pub images: Vec<u64>,
    /// For each logical page that of the last delta, if flags tell of groups.
    pub deltas: FxHashMap<Lpn, u64>,
}

/// The written pages of one unit of the log.
struct LogUnit {
    unit: Unit,
    /// The first page that is still erased.
    end: u32,
    /// All that was written to it last can be read.
    whole: bool,
    pages: Vec<PageAddr>,
    heads: Heads,
}

/// What the log has of the map.
#[derive(Default)]
struct Records {
    /// The newest image of each map page.
    images: BTreeMap<u32, Record>,
    deltas: Vec<Record>,
}

/// Reads the newest image of each map page, then the deltas newer than that, in order.
pub(crate) async fn load_map(
    fw: &Firmware,
    units: &Units,
    report: &mut RecoveryReport,
) -> Result<Stored, RecoveryError> {
    let log_units: Vec<Unit> = units.log.iter().map(|u| u.1).collect();
    let Records { images, deltas } = find_records(fw, read_units(fw, &log_units).await?)?;
    let versions: BTreeMap<u32, u64> = images.iter().map(|(p, r)| (*p, r.version)).collect();
    let mut stored = Stored { images: vec![0; fw.layout.map_pages as usize], ..Stored::default() };
    for record in images.values() {
        stored.images[record.index as usize] = record.sequence;
        let place = fw.places.ppa(record.at, record.sector as u32);
        fw.state.log.borrow_mut().image_found(record.index, record.serial, place);
    }
    let unknown = images.into_values().filter(|r| !fw.state.map.borrow().is_known(r.index));
    for (record, bytes) in read_records(fw, unknown.collect()).await? {
        fw.learn(record.index, &bytes);
        report.map_pages += 1;
    }
    // Of the others there is nothing to know.
    fw.state.map.borrow_mut().know_all();
    fw.start.map_known.notify_all();
    report.deltas += replay_deltas(fw, deltas, &versions, &mut stored).await?;
    let version = fw.state.map.borrow().version();
    fw.state.log.borrow_mut().set_durable(version);
    Ok(stored)
}

/// Reads what is beside the pages of the log's units, which are in order of age.
async fn read_units(fw: &Firmware, units: &[Unit]) -> Result<Vec<LogUnit>, RecoveryError> {
    let ends = write_pointers(fw, units).await?;
    let of_unit = |(unit, end): (&Unit, &u32)| -> Vec<PageAddr> {
        (0..*end).map(|page| PageAddr { unit: *unit, page }).collect()
    };
    let pages: Vec<Vec<PageAddr>> = units.iter().zip(&ends).map(of_unit).collect();
    let mut all_heads = read_heads(fw, &pages.concat()).await?;
    let mut read = Vec::with_capacity(units.len());
    // Newer units come first, since they say whether older ones were full and whole.
    let mut full: Vec<Unit> = Vec::new();
    for ((&unit, &end), pages) in units.iter().zip(&ends).zip(pages).rev() {
        let heads = all_heads.split_off(all_heads.heads().len() - pages.len());
        let whole = check_torn(&pages, heads.heads(), full.contains(&unit))?;
        full.extend(heads.heads().iter().filter_map(|head| match head {
            Head::Written(.., Before::Full(unit)) => Some(*unit),
            _ => None,
        }));
        read.push(LogUnit { unit, end, whole, pages, heads });
    }
    read.reverse();
    Ok(read)
}

/// The log takes over these units; what they have of the map.
fn find_records(fw: &Firmware, units: Vec<LogUnit>) -> Result<Records, RecoveryError> {
    let mut listed: BTreeMap<u32, Ppa> = (0..fw.layout.map_pages)
        .filter_map(|page| Some((page, fw.state.log.borrow().image_place(page)?)))
        .collect();
    let mut found = Records::default();
    for LogUnit { unit, end, whole, pages, heads } in units {
        let serial = fw.state.log.borrow_mut().adopt(unit, end, whole);
        fw.state.space.borrow_mut().set_role(unit, Role::Map);
        for (at, head) in pages.into_iter().zip(heads.iter()) {
            let (Head::Written(mut head, _), indices) = head else { continue };
            head.version &= (1 << LOG_VERSION_BITS) - 1;
            fw.saw_sequence(head.sequence);
            fw.state.map.borrow_mut().advance(Version(head.version));
            for (sector, index) in used(indices) {
                let (version, sequence) = (head.version, head.sequence);
                let record = Record { version, at, sector, index, serial, sequence };
                match head.kind {
                    Kind::MapImage if index < fw.layout.map_pages => {
                        if listed.get(&index) == Some(&fw.places.ppa(at, sector as u32)) {
                            listed.remove(&index);
                        }
                        found.add_image(record);
                    }
                    Kind::MapDelta => found.deltas.push(record),
                    Kind::MapJournal => {}
                    _ => {
                        let what = format!("a page of the map log holds {head:?} at {at}");
                        return Err(RecoveryError::Damaged(what));
                    }
                }
            }
        }
    }
    match listed.pop_first() {
        None => Ok(found),
        Some((page, place)) => {
            let place = fw.places.name(place);
            let what = format!("the image of map page {page} cannot be read at {place}");
            Err(RecoveryError::Damaged(what))
        }
    }
}

impl Records {
    fn add_image(&mut self, record: Record) {
        let newest = self.images.entry(record.index).or_insert(record);
        let older = planted!(OlderImage) && record.version < newest.version;
        if older || record.version >= newest.version && !planted!(OlderImage) {
            *newest = record;
        }
    }
}

/// Puts those deltas over the map that are newer than the images of their map pages, which are of
/// these versions; how many deltas there are.
async fn replay_deltas(
    fw: &Firmware,
    mut deltas: Vec<Record>,
    images: &BTreeMap<u32, u64>,
    stored: &mut Stored,
) -> Result<u64, RecoveryError> {
    deltas.sort_by_key(|r| r.version);
    let mut count = 0;
    for (record, bytes) in read_records(fw, deltas).await? {
        count += 1;
        for entry in bytes.chunks_exact(8).take(record.index as usize) {
            let (lpn, to) = decode_entry(entry);
            check_entry(fw, lpn, to)?;
            let page = map_page(lpn);
            if fw.design.flags_groups() {
                let last = stored.deltas.entry(lpn).or_default();
                *last = record.sequence.max(*last);
            }
            if images.get(&page).is_none_or(|&image| record.version > image) {
                let mut log = fw.state.log.borrow_mut();
                if !log.dirty().is_some_and(|dirty| dirty.has(lpn)) {
                    fw.state.map.borrow_mut().put(lpn, to);
                }
                log.delta_stored(lpn, record.serial);
            }
        }
    }
    Ok(count)
}

/// Invariant 3, for the written pages of one unit of the log; `full`: another unit says that
/// it was filled to a whole end. Whether all can be read that was written to it last.
fn check_torn(pages: &[PageAddr], heads: &[Head], full: bool) -> Result<bool, RecoveryError> {
    let readable = |head: &Head| matches!(head, Head::Written(..));
    // Where each power cycle ended that another followed, and whether that found it whole.
    let mut ends: BTreeMap<usize, bool> = BTreeMap::new();
    for head in heads {
        if let Head::Written(.., Before::Restart { page, whole }) = head {
            ends.insert((*page as usize).min(heads.len()), *whole);
        }
    }
    ends.insert(heads.len(), full);
    let (mut start, mut all) = (0, true);
    for (end, whole) in ends {
        let cycle = &heads[start..end];
        // From the beginning of the program of the last page that can be read.
        let last = cycle.iter().enumerate().rev().find_map(|(i, head)| match head {
            Head::Written(head, ..) => {
                Some(i.saturating_sub((head.version >> LOG_VERSION_BITS) as usize))
            }
            _ => None,
        });
        let may_be_torn = if whole { cycle.len() } else { last.unwrap_or(0) };
        if let Some(bad) = cycle[..may_be_torn].iter().position(|head| !readable(head)) {
            let at = pages[start + bad];
            let what = format!("a page of the map log cannot be read at {at}");
            return Err(RecoveryError::Damaged(what));
        }
        all = cycle.iter().all(readable);
        start = end;
    }
    Ok(all)
}

/// Reads the sectors of these records, in their order.
async fn read_records(
    fw: &Firmware,
    records: Vec<Record>,
) -> Result<Vec<(Record, Vec<u8>)>, RecoveryError> {
    let pages: Vec<PageAddr> = records.iter().map(|r| r.at).collect();
    let read = read_pages(fw, &pages, true).await?;
    let mut out = Vec::with_capacity(records.len());
    for (record, data) in records.into_iter().zip(read) {
        let Some(data) = data else {
            let what = format!("a page of the map log cannot be read at {}", record.at);
            return Err(RecoveryError::Damaged(what));
        };
        let Data::Bytes(bytes) = data.as_data() else { unreachable!("asked for bytes") };
        out.push((record, bytes[record.sector * SECTOR..(record.sector + 1) * SECTOR].to_vec()));
    }
    Ok(out)
}

/// Reads the directory of the map from a dump; then the map pages that say which units are bad.
/// Other map pages are loaded when they are needed, or with all the rest.
pub(crate) async fn load_directory(fw: &Firmware, dump: &Dump) -> Result<(), RecoveryError> {
    for (_, number, sector) in read_sectors(fw, dump, Kind::DumpDirectory).await? {
        let first = number as usize * (SECTOR / 4);
        fw.state.log.borrow_mut().decode_directory(first, &sector);
    }
    let sectors = fw.design.geometry.sectors();
    for page in 0..fw.layout.map_pages {
        match fw.state.log.borrow().image_place(page) {
            Some(place) if u64::from(place.0) >= sectors => {
                let what = format!(
                    "the directory says that map page {page} is at sector {} of {sectors}",
                    place.0
                );
                return Err(RecoveryError::Damaged(what));
            }
            Some(_) => {}
            None => fw.state.map.borrow_mut().know(page),
        }
    }
    fw.state.map.borrow_mut().advance(dump.version());
    let first = map_page(unit_entry(fw.layout.logical, Unit(0)));
    for page in first..fw.layout.map_pages {
        if !fw.state.map.borrow().is_known(page) {
            fw.load_page(page).await;
        }
        if !fw.state.map.borrow().is_known(page) {
            let what = format!("map page {page} cannot be read");
            return Err(RecoveryError::Damaged(what));
        }
    }
    Ok(())
}

impl Firmware {
    /// Puts a stored map page into the map, if the page is not known yet. Dirty entries stay.
    fn learn(&self, page: u32, bytes: &[u8]) {
        let log = self.state.log.borrow();
        let is_dirty = |lpn| log.dirty().is_some_and(|dirty| dirty.has(lpn));
        self.state.map.borrow_mut().learn_page(page, bytes, is_dirty);
    }

    /// Waits until these entries of the map are known, from the start of the drive on (4). False
    /// if the drive is poisoned before.
    pub async fn know(&self, first: Lpn, count: u64) -> bool {
        let last = Lpn(first.0 + count.saturating_sub(1) as u32);
        for page in map_page(first)..=map_page(last) {
            if self.state.map.borrow().is_known(page) {
                continue;
            }
            self.load_page(page).await;
            let known = || self.state.map.borrow().is_known(page);
            self.start.map_known.until(|| known() || self.is_poisoned()).await;
            if !known() {
                return false;
            }
        }
        true
    }

    /// Waits until the rest of the start is done, or the drive is poisoned.
    pub async fn until_whole(&self) {
        self.start.map_known.until(|| self.start.is_whole.get() || self.is_poisoned()).await;
    }

    /// Loads one map page by the directory, if that says where it is and it can be read.
    pub async fn load_page(&self, page: u32) {
        let Some(place) = self.state.log.borrow().image_place(page) else { return };
        if let Some((Kind::MapImage, index, bytes)) = self.read_log(place).await
            && index == page
        {
            self.learn(page, &bytes);
            self.start.map_known.notify_all();
        }
    }

    /// Reads a sector of the map log, with its kind and index; `None` if it cannot be read.
    pub async fn read_log(&self, place: Ppa) -> Option<(Kind, u32, Vec<u8>)> {
        let (at, sector) = self.places.page(place);
        let (mut bytes, mut words) = (vec![0; SECTOR], vec![0; self.nand.oob_words()]);
        let mut states = [PageState::Erased];
        let request = ReadRequest {
            at,
            count: 1,
            first: sector,
            data: Some(DataMut::Bytes(&mut bytes)),
            oob: Some(&mut words),
            states: &mut states,
        };
        // (An array without power takes no reads.)
        let op = self.nand.read(request).ok()?;
        self.stats.flash_reads.add(1);
        op.await;
        let head = PageHead::decode(&words).filter(|_| states[0] == PageState::Programmed)?;
        Some((head.kind, words[2 + sector as usize] as u32, bytes))
    }
}
