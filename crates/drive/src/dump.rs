//! The emergency dump (DuraSSD, section 3.4): what is protected goes to blocks that are
//! kept erased for it.
//!
//! A dump is pages in the units of one dump area: changed map entries, buffered logical
//! pages with their numbers, and last the end page, which counts the others. It is
//! complete if and only if the end page and all it counts can be read. Of several
//! dumps the one with the highest number holds.
//!
//! 1. The dump reads protected memory only, as it was when the firmware's tasks were
//!    dropped, and changes none of it.
//! 2. The area written to was erased before; the other area may still hold the dump
//!    before this one.
//! 3. What fails to program is programmed again, further on in the area: rows of at least
//!    [`DUMP_SLACK_ROWS`] programs may fail, wherever they are, and as many more as there is
//!    room for.

use crate::firmware::Firmware;
use crate::layout::DELTA_ENTRIES;
#[cfg(doc)]
use crate::layout::DUMP_SLACK_ROWS;
use crate::maplog::encode_entry;
use crate::types::{Kind, Lpn};
use std::rc::Rc;
use tantalum_device::{Data, OwnedData};
use tantalum_nand::{OpError, PageAddr, Programmed, SECTOR_BYTES, Unit};

const SECTOR: usize = SECTOR_BYTES as usize;

/// The end page's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DumpEnd {
    /// Sectors of changed map entries.
    pub map_sectors: u64,
    /// Buffered pages.
    pub data_sectors: u64,
    /// The version of the map.
    pub version: u64,
}

impl DumpEnd {
    fn encode(&self, page: &mut [u8]) {
        for (word, out) in
            [self.map_sectors, self.data_sectors, self.version].iter().zip(page.chunks_exact_mut(8))
        {
            out.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// From the bytes of the end page.
    pub fn decode(page: &[u8]) -> DumpEnd {
        let word = |i: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[i * 8..i * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        DumpEnd { map_sectors: word(0), data_sectors: word(1), version: word(2) }
    }
}

/// Writes the dump. It is complete when this returns `Ok`.
pub(crate) async fn emergency_dump(fw: Rc<Firmware>) -> Result<(), OpError> {
    if fw.began_read_only.get() {
        return Ok(()); // Nothing has changed since the dump that was replayed.
    }
    let areas = fw.dump.borrow().clone();
    let mut writer = Writer::new(&fw, areas.ready, areas.next);
    let (map_sectors, data_sectors) = (writer.map_entries()?, writer.buffered_pages()?);
    writer.finish().await?;
    let version = fw.map.borrow().version().0;
    writer.end(DumpEnd { map_sectors, data_sectors, version })?;
    writer.finish().await?;
    fw.stats.dumps.add(1);
    Ok(())
}

/// Deals pages out to the units of the area in turn, so that their dies work side by
/// side.
struct Writer<'a> {
    fw: &'a Firmware,
    number: u64,
    units: Vec<(Unit, u32)>,
    turn: usize,
    ops: Vec<Part>,
    words: Vec<u64>,
}

/// A program under way, and what to do if it fails.
struct Part {
    op: Programmed,
    kind: Kind,
    indices: Vec<u32>,
    payload: OwnedData,
}

impl<'a> Writer<'a> {
    fn new(fw: &'a Firmware, units: Vec<Unit>, number: u64) -> Writer<'a> {
        let units = units.into_iter().map(|u| (u, 0)).collect();
        Writer { fw, number, units, turn: 0, ops: Vec::new(), words: Vec::new() }
    }

    fn row(&self) -> usize {
        self.fw.design.geometry.row_sectors() as usize
    }

    /// The changed map entries; how many sectors they took.
    fn map_entries(&mut self) -> Result<u64, OpError> {
        let fw = self.fw;
        let (map, log) = (fw.map.borrow(), fw.log.borrow());
        let Some(dirty) = log.dirty() else { return Ok(0) };
        let mut bytes = Vec::new();
        let mut counts: Vec<u32> = Vec::new();
        let mut sectors = 0;
        for lpn in dirty.entries() {
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
            encode_entry(&map, lpn, &mut bytes[at..at + 8]);
            counts[last] += 1;
        }
        if !counts.is_empty() {
            sectors += counts.len() as u64;
            self.write(Kind::DumpMap, &counts, Data::Bytes(&bytes))?;
        }
        Ok(sectors)
    }

    /// The buffered pages; how many.
    fn buffered_pages(&mut self) -> Result<u64, OpError> {
        let fw = self.fw;
        let row = self.row();
        let buffer = fw.buffer.borrow();
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

    fn end(&mut self, end: DumpEnd) -> Result<(), OpError> {
        let mut bytes = vec![0; SECTOR];
        end.encode(&mut bytes);
        self.write(Kind::DumpEnd, &[0], Data::Bytes(&bytes))
    }

    /// Programs up to a row of sectors into the next unit that has room.
    fn write(&mut self, kind: Kind, indices: &[u32], data: Data<'_>) -> Result<(), OpError> {
        let fw = self.fw;
        let (ps, planes) = (fw.places.page_sectors as usize, fw.places.planes);
        let mut done = 0;
        let count = self.units.len();
        let mut full = 0;
        while done < indices.len() {
            let unit = self.turn % count;
            self.turn += 1;
            let (unit, next) = &mut self.units[unit];
            let want = (indices.len() - done).div_ceil(ps) as u32;
            let pages = want.min(planes - *next % planes).min(fw.places.unit_pages - *next);
            if pages == 0 {
                full += 1;
                if full > count {
                    // More failed than the layout has room for.
                    return Err(OpError::Failed { at: PageAddr { unit: *unit, page: 0 } });
                }
                continue;
            }
            full = 0;
            let at = PageAddr { unit: *unit, page: *next };
            *next += pages;
            let used = (pages as usize * ps).min(indices.len() - done);
            let mut payload = OwnedData::zeros(data.kind(), pages as usize * ps, SECTOR_BYTES);
            let some = data.slice(done..done + used, SECTOR_BYTES);
            payload.as_mut().slice(0..used, SECTOR_BYTES).copy_from(some);
            let indices = indices[done..done + used].to_vec();
            let words = indices.iter().map(|i| u64::from(*i));
            fw.page_words(kind, self.number, pages, words, &mut self.words);
            let op = fw.nand.program(at, payload.as_data(), &self.words)?;
            self.ops.push(Part { op, kind, indices, payload });
            fw.stats.flash_program_bytes.add(fw.page_bytes(pages));
            fw.stats.dump_bytes.add(fw.page_bytes(pages));
            done += used;
        }
        Ok(())
    }

    /// Waits until all is on flash, and programs again what failed.
    async fn finish(&mut self) -> Result<(), OpError> {
        while !self.ops.is_empty() {
            for part in std::mem::take(&mut self.ops) {
                match part.op.await {
                    Ok(()) => {}
                    Err(OpError::Failed { .. }) => {
                        self.write(part.kind, &part.indices, part.payload.as_data())?;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
}
