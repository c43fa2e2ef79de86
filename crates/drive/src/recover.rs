//! Restart: an ordinary start on what is on flash.
//!
//! 1. Up to the moment the drive takes commands nothing on flash is changed but units that
//!    hold nothing valid, neither data nor log nor the dump that is replayed: they may be
//!    erased. A power loss during recovery leaves everything that counts as it was, and
//!    recovery begins anew.
//! 2. The dump that was replayed stays valid until the next one is complete: only
//!    afterwards, with the other area erased and ready, is its area erased.
//! 3. The map is the log's newest records, then the dump's entries over them.
//! 4. Without all of these the map is of another time, and would name sectors that now hold
//!    something else: the drive does not start then, unless it is told to find out what it
//!    can (`salvage`). A page of the log may be unreadable
//!    only where a power loss or a failed program can have torn it: from the last program on
//!    that a power cycle wrote to its unit (map log, 6), unless something says that this was
//!    whole: what the next power cycle wrote behind it, which says what it found there, or
//!    the unit that was begun at its write point when it was full. (What nothing was written
//!    after can not be told from what was torn: the last program at each write point.)
//! 5. A unit that the map says is bad is neither written nor erased. If more are bad than
//!    the layout has to spare, or the map says that the life is over, or there are no units for the next dump, nothing on flash is
//!    changed at all, and the drive only reads: the dump that was replayed goes on to hold.

use crate::Design;
use crate::firmware::Firmware;
use crate::journal::{Entry, OPEN};
use crate::keeper::store_map;
use crate::layout::{DUMP_SLACK_ROWS, Layout, unit_entry};
use crate::maplog::decode_entry;
use crate::planted::planted;
use crate::replay::{Dump, find_dump, replay_dump};
use crate::salvage::rebuild;
use crate::scan::{Head, read_heads, read_pages, used, write_pointers};
use crate::space::{FreeUnit, Role, Streams};
use crate::stats::Stats;
use crate::types::{Before, Kind, LOG_VERSION_BITS, Lpn, Ppa, Version};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::Data;
use tantalum_nand::{NandArray, OpError, PageAddr, SECTOR_BYTES, Unit};
use tantalum_rt::{Nanos, Rt};

const SECTOR: usize = SECTOR_BYTES as usize;

/// What a restart took and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// From power to the first command.
    pub total: Nanos,
    /// Reading the first page of every erase unit.
    pub scan: Nanos,
    /// Reading the map log.
    pub map_load: Nanos,
    /// Reading the emergency dump.
    pub dump_replay: Nanos,
    /// Finding where open units end, and erasing the next dump area.
    pub space: Nanos,
    /// Marking on flash that the next dump is due.
    pub mark: Nanos,
    /// Map pages read.
    pub map_pages: u64,
    /// Deltas of the map log replayed.
    pub deltas: u64,
    /// Changed map entries found in the dump.
    pub dump_entries: u64,
    /// Buffered pages found in the dump.
    pub dump_pages: u64,
    /// Of `dump_replay`: reading what is beside the pages that the journal of units names.
    pub scanned: Nanos,
    /// Those pages.
    pub scanned_pages: u64,
    /// Entries of the journal of units.
    pub journal_entries: u64,
    /// There was no complete dump: what was acknowledged last may be lost.
    pub salvaged: bool,
    /// Map entries that were found out again by that.
    pub salvaged_entries: u64,
}

/// Why a drive does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The flash array refused an operation.
    #[error(transparent)]
    Medium(#[from] OpError),
    /// The dump that was due is not complete. [`crate::Drive::salvage`] starts without it.
    #[error("the emergency dump {number} is not complete; what only it had is lost")]
    DumpLost {
        /// Its number; 0 if there is none at all.
        number: u64,
    },
    /// What is on flash contradicts itself.
    #[error("the flash array's content is damaged: {0}")]
    Damaged(String),
}

/// What to do without the dump that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The drive does not start.
    Refuse,
    /// It finds out what it can.
    Salvage,
}

/// Makes the firmware's memory from what is on flash. The drive is ready for commands
/// when this returns; its tasks are yet to be started.
pub(crate) async fn recover(
    rt: &Rt,
    design: &Design,
    layout: &Layout,
    nand: &Rc<NandArray>,
    stats: &Rc<Stats>,
    missing: Missing,
) -> Result<(Firmware, RecoveryReport), RecoveryError> {
    let fw = Firmware::new(rt, design, layout, nand, stats);
    let mut report = RecoveryReport::default();
    let began = rt.now();
    let mut mark = began;
    let mut lap = |rt: &Rt| rt.now() - std::mem::replace(&mut mark, rt.now());

    let mut units = Units::scan(&fw).await?;
    report.scan = lap(rt);
    let stored = load_map(&fw, &units, &mut report).await?;
    report.map_load = lap(rt);
    let dump = find_dump(&fw, &units.dump, &mut units.failed).await?;
    let complete = match &dump {
        Some(dump) => dump.complete,
        None => !design.is_protected() || units.blank,
    };
    match (&dump, missing) {
        (_, Missing::Refuse) if !complete => {
            let number = dump.map_or(0, |d| d.number);
            return Err(RecoveryError::DumpLost { number });
        }
        (_, Missing::Salvage) if !complete => {
            rebuild(&fw, &units, &stored, &mut report).await?;
            report.salvaged = true;
        }
        _ => {}
    }
    if let Some(dump) = &dump {
        replay_dump(&fw, dump, missing, &mut report).await?;
    }
    report.dump_replay = lap(rt);
    count_valid(&fw, &units)?;
    know_bad_units(&fw, &units);
    let lives = !fw.read_only.get() && settle_units(&fw, &units, dump.as_ref()).await?;
    if !lives || fw.read_only.get() {
        fw.began_read_only.set(true);
        fw.end_life();
    }
    if report.salvaged && !fw.read_only.get() && store_map(&fw).await.is_none() {
        let what = "the map that was put right can not be stored".to_string();
        return Err(RecoveryError::Damaged(what));
    }
    let writing: Vec<(Unit, u32)> = fw.space.borrow().writing().collect();
    for (unit, from) in writing {
        fw.enter(Entry::Written { unit, from, until: OPEN });
    }
    report.space = lap(rt);
    report.total = rt.now() - began;
    Ok((fw, report))
}

/// What the first page of each unit tells.
pub(crate) struct Units {
    erased: Vec<Unit>,
    /// These two with the sequence number of their first page.
    pub data: Vec<(u64, Unit, Streams)>,
    log: Vec<(u64, Unit)>,
    dump: Vec<Unit>,
    pub unknown: Vec<Unit>,
    /// Of a dump, with pages that failed to program.
    failed: Vec<Unit>,
    blank: bool,
}

impl Units {
    async fn scan(fw: &Firmware) -> Result<Units, OpError> {
        let all: Vec<PageAddr> = (0..fw.design.geometry.units())
            .map(|unit| PageAddr { unit: Unit(unit), page: 0 })
            .collect();
        let heads = read_heads(fw, &all).await?;
        let mut units = Units {
            erased: Vec::new(),
            data: Vec::new(),
            log: Vec::new(),
            dump: Vec::new(),
            unknown: Vec::new(),
            failed: Vec::new(),
            // (The first mark of all may be torn.)
            blank: !heads.iter().any(|h| matches!(h, Head::Written(..))),
        };
        for (at, head) in all.into_iter().zip(heads) {
            let unit = at.unit;
            match head {
                Head::Erased => units.erased.push(unit),
                Head::Unreadable => units.unknown.push(unit),
                Head::Written(head, ..) => {
                    fw.saw_sequence(head.sequence);
                    match head.kind {
                        Kind::Host => units.data.push((head.sequence, unit, Streams::Host)),
                        Kind::Moved => units.data.push((head.sequence, unit, Streams::Moved)),
                        Kind::Cold => units.data.push((head.sequence, unit, Streams::Cold)),
                        Kind::MapImage | Kind::MapDelta => units.log.push((head.sequence, unit)),
                        _of_dump => units.dump.push(unit),
                    }
                }
            }
        }
        // A unit of the log or of a dump whose first pages went bad is still one: the next
        // one tells.
        let mut asked = units.unknown.clone();
        let first_rows = (1 + DUMP_SLACK_ROWS) * fw.places.planes;
        for page in 1..first_rows.min(fw.places.unit_pages) {
            let pages: Vec<PageAddr> =
                asked.iter().map(|unit| PageAddr { unit: *unit, page }).collect();
            asked.clear();
            for (at, head) in pages.iter().zip(read_heads(fw, &pages).await?) {
                let head = match head {
                    Head::Written(head, ..) => head,
                    Head::Unreadable => {
                        asked.push(at.unit);
                        continue;
                    }
                    Head::Erased => continue,
                };
                match head.kind {
                    Kind::Host | Kind::Moved | Kind::Cold => continue,
                    Kind::MapImage | Kind::MapDelta => units.log.push((head.sequence, at.unit)),
                    _of_dump => units.dump.push(at.unit),
                }
                units.unknown.retain(|u| *u != at.unit);
            }
        }
        units.log.sort_unstable();
        // In the order in which they were filled, nearly: that is their age.
        units.data.sort_unstable_by_key(|u| u.0);
        Ok(units)
    }
}

impl Firmware {
    pub fn saw_sequence(&self, sequence: u64) {
        self.sequence.set(self.sequence.get().max(sequence + 1));
    }
}

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

/// Reads the newest image of each map page, then the deltas newer than that, in order. For
/// each map page the sequence number of its image; 0 without one.
async fn load_map(
    fw: &Firmware,
    units: &Units,
    report: &mut RecoveryReport,
) -> Result<Vec<u64>, RecoveryError> {
    let log_units: Vec<Unit> = units.log.iter().map(|u| u.1).collect();
    let ends = write_pointers(fw, &log_units).await?;
    let mut images: BTreeMap<u32, Record> = BTreeMap::new();
    let mut deltas: Vec<Record> = Vec::new();
    // What newer units say of older ones is known first.
    let mut contents = Vec::with_capacity(log_units.len());
    let mut full: Vec<Unit> = Vec::new();
    for (&unit, &end) in log_units.iter().zip(&ends).rev() {
        let pages: Vec<PageAddr> = (0..end).map(|page| PageAddr { unit, page }).collect();
        let heads = read_heads(fw, &pages).await?;
        let whole = check_torn(&pages, &heads, full.contains(&unit))?;
        full.extend(heads.iter().filter_map(|head| match head {
            Head::Written(.., Before::Full(unit)) => Some(*unit),
            _ => None,
        }));
        contents.push((unit, end, whole, pages, heads));
    }
    for (unit, end, whole, pages, heads) in contents.into_iter().rev() {
        let serial = fw.log.borrow_mut().adopt(unit, end, whole);
        fw.space.borrow_mut().set_role(unit, Role::Map);
        for (at, head) in pages.into_iter().zip(heads) {
            let Head::Written(mut head, indices, _) = head else { continue };
            head.version &= (1 << LOG_VERSION_BITS) - 1;
            fw.saw_sequence(head.sequence);
            fw.map.borrow_mut().advance(Version(head.version));
            for (sector, index) in used(&indices) {
                let (version, sequence) = (head.version, head.sequence);
                let record = Record { version, at, sector, index, serial, sequence };
                match head.kind {
                    Kind::MapImage if index < fw.layout.map_pages => {
                        let newest = images.entry(index).or_insert(record);
                        let older = planted!(OlderImage) && record.version < newest.version;
                        if older || record.version >= newest.version && !planted!(OlderImage) {
                            *newest = record;
                        }
                    }
                    Kind::MapDelta => deltas.push(record),
                    _ => {
                        let what = format!("a page of the map log holds {head:?} at {at:?}");
                        return Err(RecoveryError::Damaged(what));
                    }
                }
            }
        }
    }
    let versions: BTreeMap<u32, u64> = images.iter().map(|(p, r)| (*p, r.version)).collect();
    let mut stored = vec![0; fw.layout.map_pages as usize];
    images.values().for_each(|r| stored[r.index as usize] = r.sequence);
    for (record, bytes) in read_records(fw, images.into_values().collect()).await? {
        fw.map.borrow_mut().decode_page(record.index, &bytes);
        fw.log.borrow_mut().image_stored(record.index, record.serial);
        report.map_pages += 1;
    }
    deltas.sort_by_key(|r| r.version);
    for (record, bytes) in read_records(fw, deltas).await? {
        report.deltas += 1;
        for entry in bytes.chunks_exact(8).take(record.index as usize) {
            let (lpn, to) = decode_entry(entry);
            check_entry(fw, lpn, to)?;
            let page = crate::map::map_page(lpn);
            if versions.get(&page).is_none_or(|&image| record.version > image) {
                fw.map.borrow_mut().put(lpn, to);
                fw.log.borrow_mut().delta_stored(lpn, record.serial);
            }
        }
    }
    let version = fw.map.borrow().version();
    fw.log.borrow_mut().set_durable(version);
    Ok(stored)
}

/// Invariant 4, for the written pages of one unit of the log; `full`: another unit says that
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
            let what = format!("a page of the map log can not be read at {at:?}");
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
            let what = format!("a page of the map log can not be read at {:?}", record.at);
            return Err(RecoveryError::Damaged(what));
        };
        let Data::Bytes(bytes) = data.as_data() else { unreachable!("asked for bytes") };
        out.push((record, bytes[record.sector * SECTOR..(record.sector + 1) * SECTOR].to_vec()));
    }
    Ok(out)
}

pub(crate) fn check_entry(fw: &Firmware, lpn: Lpn, to: Option<Ppa>) -> Result<(), RecoveryError> {
    let g = &fw.design.geometry;
    let (logical, unit) = (fw.layout.logical, |n| unit_entry(fw.layout.logical, Unit(n)).0);
    let is_mark = (unit(0)..=unit(g.units())).contains(&lpn.0);
    if (lpn.0 < logical || is_mark) && to.is_none_or(|p| u64::from(p.0) < g.sectors()) {
        return Ok(());
    }
    Err(RecoveryError::Damaged(format!("a map entry says {lpn:?} is at {to:?}")))
}

/// Valid sectors follow from the map.
fn count_valid(fw: &Firmware, units: &Units) -> Result<(), RecoveryError> {
    let map = fw.map.borrow();
    let mut space = fw.space.borrow_mut();
    for (lpn, ppa) in map.mapped() {
        check_entry(fw, lpn, Some(ppa))?;
        if space.is_valid(ppa) {
            let what = format!("two logical pages are at {ppa:?}, one of them {lpn:?}");
            return Err(RecoveryError::Damaged(what));
        }
        space.validate(ppa);
    }
    let log = units.log.iter().map(|u| &u.1);
    match units.erased.iter().chain(&units.dump).chain(log).find(|u| space.valid_in(**u) > 0) {
        Some(unit) => {
            let what =
                format!("the map names sectors of {unit:?}, which holds no data of the host");
            Err(RecoveryError::Damaged(what))
        }
        None => Ok(()),
    }
}

/// Invariant 5: the units that the map says are bad, and those that turned out to be.
fn know_bad_units(fw: &Firmware, units: &Units) {
    {
        let (map, mut space) = (fw.map.borrow(), fw.space.borrow_mut());
        let mut log = fw.log.borrow_mut();
        for unit in map.bad_units() {
            space.condemn(unit);
            log.spoil(unit);
        }
        for unit in log.drop_void() {
            space.retire(unit);
        }
    }
    for unit in &units.failed {
        fw.condemn(*unit);
    }
    for unit in units.dump.iter().filter(|u| fw.space.borrow().is_bad(**u)) {
        fw.space.borrow_mut().retire(*unit);
    }
    fw.check_life();
}

/// Every unit goes where it belongs: write points, full units, free units, the map log's
/// and the dump's. False if there are no units for the next dump.
async fn settle_units(
    fw: &Firmware,
    units: &Units,
    dump: Option<&Dump>,
) -> Result<bool, RecoveryError> {
    let data: Vec<Unit> = units.data.iter().map(|u| u.1).collect();
    let ends = write_pointers(fw, &data).await?;
    let pages = fw.places.data_pages;
    let mut void = units.unknown.clone();
    {
        let mut space = fw.space.borrow_mut();
        for (&(_, unit, stream), end) in units.data.iter().zip(ends) {
            let die = fw.design.geometry.die(unit);
            if space.next_valid(unit, end * fw.places.page_sectors).is_some() {
                let what = format!("the map names sectors of {unit:?} that are erased");
                return Err(RecoveryError::Damaged(what));
            }
            if space.valid_in(unit) == 0 {
                void.push(unit);
            } else if end < pages && !space.has_point(die, stream) && !space.is_bad(unit) {
                space.open(stream, unit, end);
            } else {
                space.file(unit);
            }
        }
        // A unit whose first page can not be read may still have valid sectors.
        void.retain(|&unit| {
            let void = space.valid_in(unit) == 0 && !space.is_bad(unit);
            if !void {
                space.file(unit);
            }
            void
        });
    }
    for &unit in &units.erased {
        let bad = fw.space.borrow().is_bad(unit);
        match bad {
            true => fw.space.borrow_mut().file(unit),
            false => fw.free_unit(unit, false),
        }
    }
    if !settle_dump(fw, units, dump, &mut void).await? {
        return Ok(false);
    }
    for &unit in &void {
        fw.free_unit(unit, !planted!(TornErase));
    }
    let lacking = fw.layout.map_units.saturating_sub(fw.log.borrow().owned() as u32);
    fw.log.borrow_mut().set_owed(lacking);
    for _ in 0..lacking {
        fw.rescue_log();
    }
    fw.space.borrow_mut().count_from_here();
    Ok(true)
}

/// Makes the area for the next dump ready: erased units, none of them of the dump that
/// was replayed. Whether there were enough units.
async fn settle_dump(
    fw: &Firmware,
    units: &Units,
    dump: Option<&Dump>,
    void: &mut Vec<Unit>,
) -> Result<bool, RecoveryError> {
    let area = fw.layout.dump_units as usize;
    let good = |units: &[Unit]| -> Vec<Unit> {
        units.iter().copied().filter(|u| !fw.space.borrow().is_bad(*u)).collect()
    };
    let mut other: Vec<Unit> = dump.map(|d| good(&d.units)).unwrap_or_default();
    // What is left of an older dump, or of one that was not completed, is void.
    let mut spare: Vec<Unit> = good(&units.dump);
    spare.retain(|u| !other.contains(u));
    let mut ready: Vec<Unit> = Vec::new();
    if planted!(DumpErasedEarly) && dump.is_some() {
        spare.append(&mut other);
    } else {
        ready = fw.take_units(area);
    }
    while ready.len() < area {
        let mut ops = Vec::new();
        while ready.len() + ops.len() < area {
            let Some(unit) = spare.pop().or_else(|| void.pop()) else { break };
            fw.stats.erases.add(1);
            fw.forget(unit);
            ops.push((unit, fw.nand.erase(unit)?));
        }
        if ops.is_empty() {
            return Ok(false);
        }
        for (unit, op) in ops {
            match op.await {
                Ok(()) => ready.push(unit),
                Err(OpError::Failed { .. }) => {
                    fw.condemn(unit);
                    fw.space.borrow_mut().retire(unit);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
    void.extend(spare);
    // The other area: the units of the replayed dump, and free ones up to its size.
    other.extend(fw.take_units(area.saturating_sub(other.len())));
    let mut space = fw.space.borrow_mut();
    for &unit in ready.iter().chain(&other) {
        space.set_role(unit, Role::Dump);
    }
    let mut areas = fw.dump.borrow_mut();
    areas.ready = ready.into_iter().map(|unit| (unit, 0)).collect();
    areas.other = other;
    areas.next = areas.next.max(1);
    Ok(true)
}

impl Firmware {
    fn free_unit(&self, unit: Unit, erase_first: bool) {
        let free = FreeUnit { unit, erase_first };
        self.space.borrow_mut().give_free(free, self.nand.erase_count(unit));
    }

    /// So many free units of whichever dies have most, or all there are.
    fn take_units(&self, count: usize) -> Vec<Unit> {
        let mut space = self.space.borrow_mut();
        let mut next = || {
            let die = space.freest_die();
            space.take_any(die).map(|free| free.unit)
        };
        std::iter::from_fn(&mut next).take(count).collect()
    }
}
