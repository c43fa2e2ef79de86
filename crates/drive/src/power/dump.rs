//! The emergency dump (DuraSSD, section 3.4): protected memory is written to blocks that are kept
//! erased for it.
//!
//! A dump is pages in the units of one dump area: the mark that it is due, changed map
//! entries, buffered logical pages with their numbers, and last the end page, which counts
//! the others. It is complete if and only if the end page and all it counts can be read. Of
//! several dumps the one with the highest number holds.
//!
//! 1. The dump reads only protected memory, as it was when the firmware's tasks were dropped. It
//!    changes nothing there except how far its own area is written.
//! 2. The area written to was erased before; the other area may still hold the dump
//!    before this one.
//! 3. Rows are programmed whole, in all planes.
//! 4. Pages whose programs were under way at the cut are in it, too, though these programs are
//!    finished: they may fail, and their mapping was not changed. To leave them out would spare
//!    no capacitors: at worst each die finishes a page of the map or of collection, while all of
//!    the buffer waits. Nor are these programs taken back: one that is stopped spoils its row,
//!    and raises the error rate (SpartanSSD: by up to 50 %).
//! 5. What fails to program is programmed again, further on in the area: rows of at least
//!    [`DUMP_SLACK_ROWS`] programs may fail, wherever they are, and as many more as there is
//!    room for.

#[cfg(doc)]
use crate::design::layout::DUMP_SLACK_ROWS;
use crate::firmware::Firmware;
use crate::format::dump_end::DumpEnd;
use crate::format::entries::{DELTA_ENTRIES, MAP_PAGE_ENTRIES, encode_entry, unit_entry};
use crate::format::unit_journal::{ENTRY_BYTES, Entry, OPEN, SECTOR_ENTRIES};
use crate::format::words::{Kind, Lpn};
use crate::planted::planted;
use crate::power::supply::{PowerLoss, Supply};
use std::collections::BTreeMap;
use tantalum_device::{Data, OwnedData};
use tantalum_nand::{OpError, PageAddr, Programmed, SECTOR_BYTES, Unit};
use tantalum_rt::{First, first};

const SECTOR: usize = SECTOR_BYTES as usize;

/// Runs when the host's power is gone: writes the dump, as far as the capacitors last. When this
/// returns the medium has no power.
pub(crate) async fn outage(fw: &Firmware) -> PowerLoss {
    fw.nand.abandon(fw.design.power.erase_abort);
    // The mark may be among what was taken back.
    fw.state.dump.borrow_mut().ready.iter_mut().for_each(|u| u.1 = fw.nand.next_page(u.0));
    if let Some(outside) = fw.outside() {
        outside.begin_dump(fw);
    }
    let supply = Supply::new(&fw.rt, &fw.nand, fw.design.power, fw.design.joules(&fw.layout));
    let (end, complete) = match first(supply.run_dry(), emergency_dump(fw, &supply)).await {
        First::A(dry) => (dry, false),
        // A dump that fails is not complete, and the restart will say so.
        First::B(ended) => (fw.rt.now(), ended.is_ok()),
    };
    let loss = supply.account(end, complete);
    fw.nand.power_off_since(end);
    loss
}

/// Writes the dump. It is complete when this returns `Ok`.
async fn emergency_dump(fw: &Firmware, supply: &Supply) -> Result<(), OpError> {
    if fw.began_read_only() {
        return Ok(()); // Nothing has changed since the dump that was replayed.
    }
    let mut writer = Writer::new(fw, Some(supply));
    let map_sectors = match () {
        () if fw.design.keeps_units() => writer.journal()?,
        () if fw.design.map.dirty_pages_max > 0 => {
            // Units that went bad are dirty beside the pages that are counted.
            writer.map_pages()? + writer.map_entries(unit_entry(fw.layout.logical, Unit(0)))?
        }
        () => writer.map_entries(Lpn(0))?,
    } + writer.directory()?;
    let data_sectors = writer.buffered_pages()?;
    writer.finish().await?;
    let version = fw.state.map.borrow().version().0;
    writer.end(DumpEnd { map_sectors, data_sectors, version, failed: Vec::new() }).await?;
    fw.stats.dumps.add(1);
    Ok(())
}

/// Deals pages out to the units of the area in turn, so that their dies work side by
/// side.
pub(crate) struct Writer<'a> {
    fw: &'a Firmware,
    supply: Option<&'a Supply>,
    turn: usize,
    ops: Vec<Part>,
    words: Vec<u64>,
}

/// A program under way, and what to do if it fails.
struct Part {
    op: Programmed,
    unit: Unit,
    kind: Kind,
    indices: Vec<u32>,
    payload: OwnedData,
}

impl<'a> Writer<'a> {
    pub fn new(fw: &'a Firmware, supply: Option<&'a Supply>) -> Writer<'a> {
        Writer { fw, supply, turn: 0, ops: Vec::new(), words: Vec::new() }
    }

    fn row(&self) -> usize {
        self.fw.design.geometry.row_sectors() as usize
    }

    /// The changed map entries from this one on; how many sectors they took.
    fn map_entries(&mut self, from: Lpn) -> Result<u64, OpError> {
        let fw = self.fw;
        let (map, log) = (fw.state.map.borrow(), fw.state.log.borrow());
        let Some(dirty) = log.dirty() else { return Ok(0) };
        let mut bytes = Vec::new();
        let mut counts: Vec<u32> = Vec::new();
        let mut sectors = 0;
        for lpn in
            dirty.entries().filter(|lpn| *lpn >= from).skip(usize::from(planted!(DumpSkipsEntry)))
        {
            if counts.last().is_none_or(|&c| c == DELTA_ENTRIES) {
                if counts.len() == self.row() {
                    sectors += counts.len() as u64;
                    self.write(Kind::DumpMap, &counts, Data::Bytes(&bytes))?;
                    bytes.clear();
                    counts.clear();
                }
                bytes.resize(bytes.len() + SECTOR, 0);
                counts.push(0);
            }
            let last = counts.len() - 1;
            let at = last * SECTOR + counts[last] as usize * 8;
            encode_entry(lpn, map.get(lpn), &mut bytes[at..at + 8]);
            counts[last] += 1;
        }
        if !counts.is_empty() {
            sectors += counts.len() as u64;
            self.write(Kind::DumpMap, &counts, Data::Bytes(&bytes))?;
        }
        Ok(sectors)
    }

    /// The changed map pages; how many.
    fn map_pages(&mut self) -> Result<u64, OpError> {
        let fw = self.fw;
        let (map, log) = (fw.state.map.borrow(), fw.state.log.borrow());
        let Some(dirty) = log.dirty() else { return Ok(0) };
        let end = unit_entry(fw.layout.logical, Unit(0)).0 / MAP_PAGE_ENTRIES;
        let pages: Vec<u32> = (0..end).filter(|p| dirty.is_dirty(*p)).collect();
        for row in pages.chunks(self.row()) {
            let mut bytes = vec![0; row.len() * SECTOR];
            for (page, out) in row.iter().zip(bytes.chunks_exact_mut(SECTOR)) {
                map.encode_page(*page, out);
            }
            self.write(Kind::DumpImage, row, Data::Bytes(&bytes))?;
        }
        Ok(pages.len() as u64)
    }

    /// The journal of units, with the ends of what is being written; how many sectors it took.
    fn journal(&mut self) -> Result<u64, OpError> {
        let fw = self.fw;
        let (log, space) = (fw.state.log.borrow(), fw.state.space.borrow());
        let Some(journal) = log.journal() else { return Ok(0) };
        let landed: BTreeMap<u32, u32> = space.writing().map(|(u, page)| (u.0, page)).collect();
        let ended = |entry: Entry| match entry {
            Entry::Written { unit, from, until: OPEN } => {
                let until = landed.get(&unit.0).copied().unwrap_or(OPEN);
                (from < until).then_some(Entry::Written { unit, from, until })
            }
            entry => Some(entry),
        };
        let entries: Vec<Entry> = journal.entries().filter_map(ended).collect();
        for row in entries.chunks(SECTOR_ENTRIES * self.row()) {
            let mut bytes = vec![0; row.len().div_ceil(SECTOR_ENTRIES) * SECTOR];
            for (entry, out) in row.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES)) {
                out.copy_from_slice(&entry.encode());
            }
            let counts = row.chunks(SECTOR_ENTRIES).map(|c| c.len() as u32);
            self.write(Kind::DumpJournal, &counts.collect::<Vec<_>>(), Data::Bytes(&bytes))?;
        }
        Ok(entries.len().div_ceil(SECTOR_ENTRIES) as u64)
    }

    /// The map's directory, if the design has it; how many sectors it took.
    fn directory(&mut self) -> Result<u64, OpError> {
        let fw = self.fw;
        if !fw.design.map.directory {
            return Ok(0);
        }
        let mut bytes = fw.state.log.borrow().encode_directory();
        bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        let sectors = (bytes.len() / SECTOR) as u32;
        let numbers: Vec<u32> = (0..sectors).collect();
        for (row, bytes) in numbers.chunks(self.row()).zip(bytes.chunks(self.row() * SECTOR)) {
            self.write(Kind::DumpDirectory, row, Data::Bytes(bytes))?;
        }
        Ok(sectors.into())
    }

    /// The buffered pages; how many.
    fn buffered_pages(&mut self) -> Result<u64, OpError> {
        let fw = self.fw;
        let row = self.row();
        let buffer = fw.state.buffer.borrow();
        let mut data = OwnedData::zeros(fw.nand.payload(), row, SECTOR_BYTES);
        let mut lpns = Vec::new();
        let mut sectors = 0;
        for (Lpn(lpn), page) in buffer.contents() {
            let at = lpns.len();
            data.as_mut().slice(at..at + 1, SECTOR_BYTES).copy_from(page);
            lpns.push(lpn);
            sectors += 1;
            if lpns.len() == row {
                self.write(Kind::DumpData, &lpns, data.as_data())?;
                lpns.clear();
            }
        }
        if !lpns.is_empty() {
            let some = data.as_data().slice(0..lpns.len(), SECTOR_BYTES);
            self.write(Kind::DumpData, &lpns, some)?;
        }
        Ok(sectors)
    }

    /// Ends the dump, when all else is on flash.
    async fn end(&mut self, mut end: DumpEnd) -> Result<(), OpError> {
        loop {
            let mut bytes = vec![0; SECTOR];
            end.failed.clone_from(&self.fw.state.dump.borrow().failed);
            end.encode(&mut bytes);
            self.write(Kind::DumpEnd, &[0], Data::Bytes(&bytes))?;
            let Some(part) = self.ops.pop() else { return Ok(()) };
            match part.op.await {
                Err(OpError::Failed { .. }) => {
                    self.fw.state.dump.borrow_mut().failed.push(part.unit)
                }
                ended => return ended,
            }
        }
    }

    /// Programs up to a row of sectors into the next unit that has room.
    pub fn write(&mut self, kind: Kind, indices: &[u32], data: Data<'_>) -> Result<(), OpError> {
        let fw = self.fw;
        let planes = fw.places.planes;
        let (at, number) = {
            let mut areas = fw.state.dump.borrow_mut();
            let count = areas.ready.len();
            let turns = (self.turn..self.turn + count).map(|turn| turn % count.max(1));
            let full = OpError::Failed { at: PageAddr { unit: Unit(0), page: 0 } };
            // If no unit has room, more programs failed than the layout allows for.
            let turn = turns.into_iter().find(|t| areas.ready[*t].1 < fw.places.unit_pages);
            let turn = turn.ok_or(full)?;
            self.turn = turn + 1;
            let (unit, next) = &mut areas.ready[turn];
            let at = PageAddr { unit: *unit, page: *next };
            *next += planes;
            (at, areas.next)
        };
        let mut payload = OwnedData::zeros(data.kind(), self.row(), SECTOR_BYTES);
        payload.as_mut().slice(0..indices.len(), SECTOR_BYTES).copy_from(data);
        let indices = indices.to_vec();
        let words = indices.iter().map(|i| (u64::from(*i), 0));
        fw.page_words(kind, number, planes, words, &mut self.words);
        let op = fw.nand.program(at, payload.as_data(), &self.words)?;
        self.ops.push(Part { op, unit: at.unit, kind, indices, payload });
        if let Some(supply) = self.supply {
            supply.draw();
        }
        fw.stats.flash_program_bytes.add(fw.page_bytes(planes));
        fw.stats.dump_bytes.add(fw.page_bytes(planes));
        Ok(())
    }

    /// Waits until all is on flash, and programs again what failed.
    pub async fn finish(&mut self) -> Result<(), OpError> {
        while !self.ops.is_empty() {
            for part in std::mem::take(&mut self.ops) {
                match part.op.await {
                    Ok(()) => {}
                    Err(OpError::Failed { .. }) => {
                        self.fw.state.dump.borrow_mut().failed.push(part.unit);
                        let some = part.indices.len();
                        let data = part.payload.as_data().slice(0..some, SECTOR_BYTES);
                        self.write(part.kind, &part.indices, data)?;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
}
