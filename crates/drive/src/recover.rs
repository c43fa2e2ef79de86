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
//!    something else: the drive does not start then. A page of the log may be unreadable
//!    only where a power loss can have torn it: in the last row that was written to its
//!    unit before a restart. (If one goes bad later that was whole, that can not be told.)

use crate::Design;
use crate::dump::DumpEnd;
use crate::firmware::Firmware;
use crate::layout::Layout;
use crate::maplog::decode_entry;
use crate::scan::{Head, read_heads, read_pages, used, write_pointers};
use crate::space::{Role, Streams};
use crate::stats::Stats;
use crate::types::{Kind, Lpn, Ppa, Version};
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
    /// Map pages read.
    pub map_pages: u64,
    /// Deltas of the map log replayed.
    pub deltas: u64,
    /// Changed map entries found in the dump.
    pub dump_entries: u64,
    /// Buffered pages found in the dump.
    pub dump_pages: u64,
}

/// Why a drive does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The flash array refused an operation.
    #[error(transparent)]
    Medium(#[from] OpError),
    /// What is on flash contradicts itself.
    #[error("the flash array's content is damaged: {0}")]
    Damaged(String),
}

/// Makes the firmware's memory from what is on flash. The drive is ready for commands
/// when this returns; its tasks are yet to be started.
pub(crate) async fn recover(
    rt: &Rt,
    design: &Design,
    layout: &Layout,
    nand: &Rc<NandArray>,
    stats: &Rc<Stats>,
) -> Result<(Firmware, RecoveryReport), RecoveryError> {
    let fw = Firmware::new(rt, design, layout, nand, stats);
    let mut report = RecoveryReport::default();
    let began = rt.now();
    let mut mark = began;
    let mut lap = |rt: &Rt| rt.now() - std::mem::replace(&mut mark, rt.now());

    let units = Units::scan(&fw).await?;
    report.scan = lap(rt);
    load_map(&fw, &units, &mut report).await?;
    report.map_load = lap(rt);
    let dump = find_dump(&fw, &units).await?;
    match &dump {
        Some(dump) => replay_dump(&fw, dump, &mut report).await?,
        None if design.is_protected() && !units.blank => {
            let what = "there is no emergency dump; what only it had is lost".to_string();
            return Err(RecoveryError::Damaged(what));
        }
        None => {}
    }
    report.dump_replay = lap(rt);
    count_valid(&fw, &units)?;
    settle_units(&fw, &units, dump.as_ref()).await?;
    report.space = lap(rt);
    report.total = rt.now() - began;
    Ok((fw, report))
}

/// What the first page of each unit tells.
struct Units {
    erased: Vec<Unit>,
    data: Vec<(Unit, Streams)>,
    /// With the sequence number of their first page.
    log: Vec<(u64, Unit)>,
    dump: Vec<Unit>,
    unknown: Vec<Unit>,
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
            blank: heads.iter().all(|h| *h == Head::Erased),
        };
        for (at, head) in all.into_iter().zip(heads) {
            let unit = at.unit;
            match head {
                Head::Erased => units.erased.push(unit),
                Head::Unreadable => units.unknown.push(unit),
                Head::Written(head, ..) => {
                    fw.saw_sequence(head.sequence);
                    match head.kind {
                        Kind::Host => units.data.push((unit, Streams::Host)),
                        Kind::Moved => units.data.push((unit, Streams::Moved)),
                        Kind::MapImage | Kind::MapDelta => units.log.push((head.sequence, unit)),
                        Kind::DumpMap | Kind::DumpData | Kind::DumpEnd => units.dump.push(unit),
                    }
                }
            }
        }
        // A unit of the log whose first page went bad is still one: its second row tells.
        let row = fw.places.planes;
        let behind = |unit: &Unit| PageAddr { unit: *unit, page: row };
        if row < fw.places.unit_pages {
            let seconds: Vec<PageAddr> = units.unknown.iter().map(behind).collect();
            for (at, head) in seconds.iter().zip(read_heads(fw, &seconds).await?) {
                if let Head::Written(head, ..) = head
                    && matches!(head.kind, Kind::MapImage | Kind::MapDelta)
                {
                    units.unknown.retain(|u| *u != at.unit);
                    units.log.push((head.sequence, at.unit));
                }
            }
        }
        units.log.sort_unstable();
        Ok(units)
    }
}

impl Firmware {
    fn saw_sequence(&self, sequence: u64) {
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
}

/// Reads the newest image of each map page, then the deltas newer than that, in order.
async fn load_map(
    fw: &Firmware,
    units: &Units,
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    let log_units: Vec<Unit> = units.log.iter().map(|u| u.1).collect();
    let ends = write_pointers(fw, &log_units).await?;
    let mut images: BTreeMap<u32, Record> = BTreeMap::new();
    let mut deltas: Vec<Record> = Vec::new();
    for (&unit, &end) in log_units.iter().zip(&ends) {
        let serial = fw.log.borrow_mut().adopt(unit, end);
        fw.space.borrow_mut().set_role(unit, Role::Map);
        let pages: Vec<PageAddr> = (0..end).map(|page| PageAddr { unit, page }).collect();
        let heads = read_heads(fw, &pages).await?;
        check_torn(fw, &pages, &heads)?;
        for (at, head) in pages.into_iter().zip(heads) {
            let Head::Written(head, indices, _) = head else { continue };
            fw.saw_sequence(head.sequence);
            fw.map.borrow_mut().advance(Version(head.version));
            for (sector, index) in used(&indices) {
                let record = Record { version: head.version, at, sector, index, serial };
                match head.kind {
                    Kind::MapImage if index < fw.layout.map_pages => {
                        let newest = images.entry(index).or_insert(record);
                        if record.version >= newest.version {
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
    Ok(())
}

/// Invariant 4, for the written pages of one unit of the log.
fn check_torn(fw: &Firmware, pages: &[PageAddr], heads: &[Head]) -> Result<(), RecoveryError> {
    let planes = fw.places.planes as usize;
    let mut may_be_torn = vec![false; heads.len().div_ceil(planes)];
    let restarts = heads.iter().filter_map(|head| match head {
        Head::Written(.., since) => Some(*since as usize),
        _ => None,
    });
    for restart in restarts.chain([heads.len()]) {
        // The row before it; and if nothing before it in that row can be read, that may be
        // all that was written since another restart.
        let mut end = restart.min(heads.len());
        while let Some(last) = end.checked_sub(1) {
            let row = last / planes;
            may_be_torn[row] = true;
            if heads[row * planes..end].iter().any(|head| matches!(head, Head::Written(..))) {
                break;
            }
            end = row * planes;
        }
    }
    for (i, (at, head)) in pages.iter().zip(heads).enumerate() {
        if !matches!(head, Head::Written(..)) && !may_be_torn[i / planes] {
            let what = format!("a page of the map log can not be read at {at:?}");
            return Err(RecoveryError::Damaged(what));
        }
    }
    Ok(())
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

fn check_entry(fw: &Firmware, lpn: Lpn, to: Option<Ppa>) -> Result<(), RecoveryError> {
    let sectors = fw.design.geometry.sectors();
    if lpn.0 < fw.layout.logical && to.is_none_or(|p| u64::from(p.0) < sectors) {
        return Ok(());
    }
    Err(RecoveryError::Damaged(format!("a map entry says {lpn:?} is at {to:?}")))
}

/// The pages of a complete dump.
struct Dump {
    number: u64,
    units: Vec<Unit>,
    pages: Vec<(PageAddr, Kind, Vec<u32>)>,
    end: DumpEnd,
}

/// The dump with the highest number. It must be complete: an older one is of a time that
/// the map log and the units have left behind.
async fn find_dump(fw: &Firmware, units: &Units) -> Result<Option<Dump>, RecoveryError> {
    let ends = write_pointers(fw, &units.dump).await?;
    let mut found: BTreeMap<u64, Dump> = BTreeMap::new();
    let mut last = BTreeMap::new();
    for (&unit, &end) in units.dump.iter().zip(&ends) {
        let pages: Vec<PageAddr> = (0..end).map(|page| PageAddr { unit, page }).collect();
        let heads = read_heads(fw, &pages).await?;
        for (at, head) in pages.into_iter().zip(heads) {
            let Head::Written(head, indices, _) = head else { continue };
            fw.saw_sequence(head.sequence);
            let number = head.version;
            let end = DumpEnd { map_sectors: 0, data_sectors: 0, version: 0 };
            let dump = found.entry(number).or_insert_with(|| Dump {
                number,
                units: Vec::new(),
                pages: Vec::new(),
                end,
            });
            if !dump.units.contains(&unit) {
                dump.units.push(unit);
            }
            if head.kind == Kind::DumpEnd {
                last.insert(number, at);
            } else {
                dump.pages.push((at, head.kind, indices));
            }
        }
    }
    let Some((number, mut dump)) = found.pop_last() else { return Ok(None) };
    fw.dump.borrow_mut().next = number + 1;
    let lost = || {
        let what = format!("the emergency dump {number} is not complete; what only it had is lost");
        RecoveryError::Damaged(what)
    };
    let at = last.get(&number).ok_or_else(lost)?;
    let page = read_pages(fw, &[*at], true).await?.pop().flatten().ok_or_else(lost)?;
    let Data::Bytes(bytes) = page.as_data() else { unreachable!("asked for bytes") };
    dump.end = DumpEnd::decode(bytes);
    let count = |kind: Kind| {
        let pages = dump.pages.iter().filter(|p| p.1 == kind);
        pages.map(|p| used(&p.2).count() as u64).sum::<u64>()
    };
    let complete = count(Kind::DumpMap) == dump.end.map_sectors
        && count(Kind::DumpData) == dump.end.data_sectors
        && dump.end.data_sectors <= u64::from(fw.design.buffer_slots());
    if complete { Ok(Some(dump)) } else { Err(lost()) }
}

async fn replay_dump(
    fw: &Firmware,
    dump: &Dump,
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    let of = |kind: Kind| dump.pages.iter().filter(move |p| p.1 == kind);
    let damaged = |at: &PageAddr| {
        RecoveryError::Damaged(format!("dump {}: page {at:?} can not be read", dump.number))
    };
    let map_pages: Vec<PageAddr> = of(Kind::DumpMap).map(|p| p.0).collect();
    let read = read_pages(fw, &map_pages, true).await?;
    for ((at, _, indices), page) in of(Kind::DumpMap).zip(read) {
        let page = page.ok_or_else(|| damaged(at))?;
        let Data::Bytes(bytes) = page.as_data() else { unreachable!("asked for bytes") };
        for (sector, count) in used(indices) {
            let entries = bytes[sector * SECTOR..(sector + 1) * SECTOR].chunks_exact(8);
            for entry in entries.take(count as usize) {
                let (lpn, to) = decode_entry(entry);
                check_entry(fw, lpn, to)?;
                fw.map.borrow_mut().put(lpn, to);
                fw.log.borrow_mut().changed(lpn);
                report.dump_entries += 1;
            }
        }
    }
    let data_pages: Vec<PageAddr> = of(Kind::DumpData).map(|p| p.0).collect();
    let read = read_pages(fw, &data_pages, false).await?;
    for ((at, _, indices), page) in of(Kind::DumpData).zip(read) {
        let page = page.ok_or_else(|| damaged(at))?;
        for (sector, lpn) in used(indices) {
            let data = page.as_data().slice(sector..sector + 1, SECTOR_BYTES);
            check_entry(fw, Lpn(lpn), None)?;
            // As many as there were slots when they were dumped.
            fw.room.take(1).await;
            fw.buffer.borrow_mut().insert(Lpn(lpn), data);
            report.dump_pages += 1;
        }
    }
    fw.map.borrow_mut().advance(Version(dump.end.version));
    Ok(())
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

/// Every unit goes where it belongs: write points, full units, free units, the map log's
/// and the dump's.
async fn settle_units(
    fw: &Firmware,
    units: &Units,
    dump: Option<&Dump>,
) -> Result<(), RecoveryError> {
    let data: Vec<Unit> = units.data.iter().map(|u| u.0).collect();
    let ends = write_pointers(fw, &data).await?;
    let pages = fw.places.unit_pages;
    let mut void = units.unknown.clone();
    {
        let mut space = fw.space.borrow_mut();
        for ((unit, stream), end) in units.data.iter().copied().zip(ends) {
            let die = fw.design.geometry.die(unit);
            if space.next_valid(unit, end * fw.places.page_sectors).is_some() {
                let what = format!("the map names sectors of {unit:?} that are erased");
                return Err(RecoveryError::Damaged(what));
            }
            if space.valid_in(unit) == 0 {
                void.push(unit);
            } else if end < pages && !space.has_point(die, stream) {
                space.open(stream, unit, end);
            } else {
                space.file(unit);
            }
        }
        // A unit whose first page can not be read may still have valid sectors.
        void.retain(|&unit| {
            let empty = space.valid_in(unit) == 0;
            if !empty {
                space.file(unit);
            }
            empty
        });
        for &unit in &units.erased {
            space.give_free(unit, false);
        }
    }
    settle_dump(fw, units, dump, &mut void).await?;
    let mut space = fw.space.borrow_mut();
    for &unit in &void {
        space.give_free(unit, true);
    }
    let mut log = fw.log.borrow_mut();
    while log.owned() < fw.layout.map_units as usize {
        let die = space.freest_die();
        let Some(free) = space.take_any(die) else {
            return Err(RecoveryError::Damaged("no free erase unit for the map log".into()));
        };
        space.set_role(free.unit, Role::Map);
        log.give(free);
    }
    Ok(())
}

/// Makes the area for the next dump ready: erased units, none of them of the dump that
/// was replayed.
async fn settle_dump(
    fw: &Firmware,
    units: &Units,
    dump: Option<&Dump>,
    void: &mut Vec<Unit>,
) -> Result<(), RecoveryError> {
    let area = fw.layout.dump_units as usize;
    let mut ready: Vec<Unit> = Vec::new();
    let mut other: Vec<Unit> = dump.map(|d| d.units.clone()).unwrap_or_default();
    let stale: Vec<Unit> = units.dump.iter().copied().filter(|u| !other.contains(u)).collect();
    {
        let mut space = fw.space.borrow_mut();
        while ready.len() < area {
            let die = space.freest_die();
            let Some(free) = space.take_any(die) else { break };
            ready.push(free.unit);
        }
    }
    // What is left of an older dump, or of one that was not completed, is void.
    let mut spare = stale;
    if ready.len() < area {
        let mut ops = Vec::new();
        while ready.len() < area {
            let Some(unit) = spare.pop().or_else(|| void.pop()) else {
                return Err(RecoveryError::Damaged("no free erase unit for the next dump".into()));
            };
            fw.stats.erases.add(1);
            ops.push(fw.nand.erase(unit)?);
            ready.push(unit);
        }
        for op in ops {
            op.await?;
        }
    }
    void.extend(spare);
    {
        let mut space = fw.space.borrow_mut();
        // The other area: the units of the replayed dump, and free ones up to its size.
        while other.len() < area {
            let die = space.freest_die();
            let Some(free) = space.take_any(die) else { break };
            other.push(free.unit);
        }
        for &unit in ready.iter().chain(&other) {
            space.set_role(unit, Role::Dump);
        }
    }
    let mut areas = fw.dump.borrow_mut();
    areas.ready = ready;
    areas.other = other;
    areas.next = areas.next.max(1);
    Ok(())
}
