//! The emergency dump at a restart: found, and put back.
//!
//! 1. A dump is complete if its end page and all that this counts can be read; of several the
//!    one with the highest number counts, also if it is not complete.
//! 2. Nothing here changes flash: a dump can be put back as often as need be.

use crate::firmware::Firmware;
use crate::format::dump_end::DumpEnd;
use crate::format::entries::decode_entry;
use crate::format::unit_journal::{ENTRY_BYTES, Entry};
use crate::format::words::{Kind, Lpn, Ppa, Version};
use crate::planted::planted;
use crate::start::journal_replay::replay_journal;
use crate::start::report::{RecoveryError, RecoveryReport, WithoutDump, check_entry};
use crate::start::scan::{Head, read_heads, read_pages, used, write_pointers};
use crate::state::unit_journal::Spilled;
use std::collections::BTreeMap;
use tantalum_device::Data;
use tantalum_nand::{PageAddr, SECTOR_BYTES, Unit};

const SECTOR: usize = SECTOR_BYTES as usize;

/// The pages of a dump.
pub(crate) struct Dump {
    pub number: u64,
    /// Whether all of it can be read.
    pub complete: bool,
    pub units: Vec<Unit>,
    pages: Vec<(PageAddr, Kind, Vec<u32>)>,
    end: DumpEnd,
}

impl Dump {
    /// The version of the map when it was made.
    pub fn version(&self) -> Version {
        Version(self.end.version)
    }
}

/// The dump with the highest number, complete or not. An older one does not fit the map log and the
/// units any more.
pub(crate) async fn find_dump(
    fw: &Firmware,
    units: &[Unit],
    failed: &mut Vec<Unit>,
) -> Result<Option<Dump>, RecoveryError> {
    let ends = write_pointers(fw, units).await?;
    let mut found: BTreeMap<u64, Dump> = BTreeMap::new();
    let mut last = BTreeMap::new();
    let of = |(unit, end): (&Unit, &u32)| {
        let unit = *unit;
        (0..*end).map(move |page| PageAddr { unit, page })
    };
    let pages: Vec<PageAddr> = units.iter().zip(&ends).flat_map(of).collect();
    let heads = read_heads(fw, &pages).await?;
    for (at, head) in pages.into_iter().zip(heads.iter()) {
        let (Head::Written(head, _), indices) = head else { continue };
        fw.saw_sequence(head.sequence);
        let number = head.version;
        let end = DumpEnd::default();
        let dump = found.entry(number).or_insert_with(|| Dump {
            number,
            complete: false,
            units: Vec::new(),
            pages: Vec::new(),
            end,
        });
        if !dump.units.contains(&at.unit) {
            dump.units.push(at.unit);
        }
        match head.kind {
            Kind::DumpDue => {}
            // Its row has further pages, with nothing in them.
            Kind::DumpEnd if used(indices).next().is_none() => {}
            Kind::DumpEnd => {
                last.insert(number, at);
            }
            kind => dump.pages.push((at, kind, indices.to_vec())),
        }
    }
    let Some((number, mut dump)) = found.pop_last() else { return Ok(None) };
    fw.state.dump.borrow_mut().next = number + 1;
    let Some(at) = last.get(&number) else { return Ok(Some(dump)) };
    let Some(page) = read_pages(fw, &[*at], true).await?.pop().flatten() else {
        return Ok(Some(dump));
    };
    let Data::Bytes(bytes) = page.as_data() else { unreachable!("asked for bytes") };
    dump.end = DumpEnd::decode(bytes);
    let count = |kind: Kind| {
        let pages = dump.pages.iter().filter(|p| p.1 == kind);
        pages.map(|p| used(&p.2).count() as u64).sum::<u64>()
    };
    let of_map =
        [Kind::DumpMap, Kind::DumpImage, Kind::DumpJournal, Kind::DumpDirectory].map(count);
    dump.complete = of_map.iter().sum::<u64>() == dump.end.map_sectors
        && count(Kind::DumpData) == dump.end.data_sectors
        && dump.end.data_sectors <= u64::from(fw.design.buffer_slots());
    if dump.complete {
        let units = fw.design.geometry.units();
        failed.extend(dump.end.failed.iter().filter(|unit| unit.0 < units));
    }
    Ok(Some(dump))
}

/// Puts a dump's entries over the map, and its pages into the buffer; of one that is not
/// complete what can be read.
pub(crate) async fn replay_dump(
    fw: &Firmware,
    dump: &Dump,
    without_dump: WithoutDump,
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    let damaged = |at: &PageAddr| damaged(dump, at);
    for (_, count, sector) in read_sectors(fw, dump, Kind::DumpMap).await? {
        for entry in sector.chunks_exact(8).take(count as usize) {
            let (lpn, to) = decode_entry(entry);
            check_entry(fw, lpn, to)?;
            fw.state.map.borrow_mut().put(lpn, to);
            if !planted!(ReplayedIsStored) {
                fw.state.log.borrow_mut().changed(lpn);
            }
            report.dump_entries += 1;
        }
    }
    for (at, page, sector) in read_sectors(fw, dump, Kind::DumpImage).await? {
        if page >= fw.layout.map_pages {
            return Err(damaged(&at));
        }
        report.dump_entries += replay_image(fw, page, &sector)?;
    }
    let (mut spilled, mut entries) = (Vec::new(), Vec::new());
    for (at, count, sector) in read_sectors(fw, dump, Kind::DumpJournal).await? {
        for entry in decode_entries(&sector, count).ok_or_else(|| damaged(&at))? {
            match entry {
                Entry::Spilled { place } => spilled.push(place),
                entry => entries.push(entry),
            }
        }
    }
    let spilled = read_spilled(fw, &spilled, without_dump).await?;
    replay_journal(fw, spilled, &entries, without_dump, report).await?;
    let of = |kind: Kind| dump.pages.iter().filter(move |p| p.1 == kind);
    let data_pages: Vec<PageAddr> = of(Kind::DumpData).map(|p| p.0).collect();
    let read = read_pages(fw, &data_pages, false).await?;
    let skipped = usize::from(planted!(ReplaySkipsPage));
    for ((at, _, indices), page) in of(Kind::DumpData).zip(read).skip(skipped) {
        let page = match page {
            Some(page) => page,
            None if dump.complete => return Err(damaged(at)),
            None => continue,
        };
        for (sector, lpn) in used(indices) {
            let data = page.as_data().slice(sector..sector + 1, SECTOR_BYTES);
            check_entry(fw, Lpn(lpn), None)?;
            // As many as there were slots when they were dumped.
            if fw.host.room.free() == 0 {
                return Err(damaged(at));
            }
            fw.host.room.take(1).await;
            fw.state.buffer.borrow_mut().insert(Lpn(lpn), data);
            report.dump_pages += 1;
        }
    }
    fw.state.map.borrow_mut().advance(dump.version());
    Ok(())
}

fn decode_entries(sector: &[u8], count: u32) -> Option<Vec<Entry>> {
    sector.chunks_exact(ENTRY_BYTES).take(count as usize).map(Entry::decode).collect()
}

/// Reads what was spilled of the journal of units.
async fn read_spilled(
    fw: &Firmware,
    places: &[Ppa],
    without_dump: WithoutDump,
) -> Result<Vec<Spilled>, RecoveryError> {
    let mut spilled = Vec::new();
    for &place in places {
        let is_place = u64::from(place.0) < fw.design.geometry.sectors();
        let read = if is_place { fw.read_log(place).await } else { None };
        let entries = match read {
            Some((Kind::MapJournal, count, bytes)) => decode_entries(&bytes, count),
            _ => None,
        };
        match entries {
            Some(entries) => spilled.push(Spilled { place, entries }),
            None if without_dump == WithoutDump::Salvage => {}
            None => {
                let place = fw.places.name(place);
                let what = format!("entries of the journal of units cannot be read at {place}");
                return Err(RecoveryError::Damaged(what));
            }
        }
    }
    Ok(spilled)
}

/// The sectors of a kind, each with its page and index; of a dump that is not complete those
/// that can be read.
pub(crate) async fn read_sectors(
    fw: &Firmware,
    dump: &Dump,
    kind: Kind,
) -> Result<Vec<(PageAddr, u32, Vec<u8>)>, RecoveryError> {
    let of = || dump.pages.iter().filter(|p| p.1 == kind);
    let pages: Vec<PageAddr> = of().map(|p| p.0).collect();
    let read = read_pages(fw, &pages, true).await?;
    let mut out = Vec::new();
    for ((at, _, indices), page) in of().zip(read) {
        let Some(page) = page else {
            if dump.complete {
                return Err(damaged(dump, at));
            }
            continue;
        };
        let Data::Bytes(bytes) = page.as_data() else { unreachable!("asked for bytes") };
        for (sector, index) in used(indices) {
            out.push((*at, index, bytes[sector * SECTOR..(sector + 1) * SECTOR].to_vec()));
        }
    }
    Ok(out)
}

fn damaged(dump: &Dump, at: &PageAddr) -> RecoveryError {
    RecoveryError::Damaged(format!("dump {}: {at} cannot be read", dump.number))
}

/// Puts the entries of a map page over the map; how many. All count as changed: an image on
/// flash may be newer than the one that the directory knows.
fn replay_image(fw: &Firmware, page: u32, bytes: &[u8]) -> Result<u64, RecoveryError> {
    let mut changed = 0;
    let entries = fw.state.map.borrow().entries_of(page);
    for (lpn, entry) in entries.map(Lpn).zip(bytes.chunks_exact(4)) {
        let value = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let to = value.checked_sub(1).map(Ppa);
        match check_entry(fw, lpn, to) {
            // (There are numbers that belong to no page.)
            Err(_) if to.is_none() => continue,
            checked => checked?,
        }
        fw.state.map.borrow_mut().put(lpn, to);
        fw.state.log.borrow_mut().changed(lpn);
        changed += 1;
    }
    fw.state.map.borrow_mut().know(page);
    Ok(changed)
}
