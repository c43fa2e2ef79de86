//! Blocks of the host that are smaller than a sector, as 512e drives have them
//! ([`LinkDesign::logical_bytes`](crate::LinkDesign::logical_bytes)).
//!
//! 1. A sector is admitted whole. Of one that a command covers in part, the rest is what the sector
//!    holds at that moment, and the command has the turn to be admitted from before it looks until
//!    the sector is admitted. So two commands on parts of one sector never undo each other.
//! 2. The read of the rest may begin before that turn, so that reads of many commands overlap. What
//!    it found counts only if the sector did not change since: nothing of it is in the buffer, the
//!    map names the same place, and the unit there was not erased meanwhile.
//! 3. A command comes in pieces, counted from its first block. A piece is admitted in one step with
//!    the rests of its first and last sector. So it is all or nothing, where whole sectors are.
//! 4. A write whose rest cannot be read fails, and does not change that sector.
//! 5. With blocks as large as sectors nothing of this is done.

use crate::firmware::Firmware;
use crate::format::words::{Lpn, MORE, PART, Ppa};
use crate::planted::planted;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use tantalum_device::{Blocks, Data, DataMut, Extent, IoError};
use tantalum_nand::{PageState, ReadRequest, Reading, SECTOR_BYTES};

const SECTOR: usize = SECTOR_BYTES as usize;

/// A sector that is being read before the turn of its command (2).
pub(super) struct Ahead<'a> {
    lpn: Lpn,
    from: Ppa,
    erases: u32,
    old: Old<'a>,
}

/// What a sector on flash holds.
struct Old<'a> {
    bytes: Vec<u8>,
    readable: bool,
    operation: Reading<'a>,
}

impl Firmware {
    /// Blocks of the host in a sector: a power of two.
    pub(super) fn sector_blocks(&self) -> u64 {
        u64::from(SECTOR_BYTES / self.caps.block_size)
    }

    /// The sectors in which these blocks lie.
    pub(super) fn sectors(&self, range: Blocks) -> Range<u64> {
        let (each, first) = (self.sector_blocks(), range.start.0);
        let end =
            if range.count == 0 { first / each } else { (first + range.count).div_ceil(each) };
        first / each..end
    }

    /// The same, as logical page numbers.
    pub(super) fn pages(&self, range: Blocks) -> Range<u32> {
        let sectors = self.sectors(range);
        sectors.start as u32..sectors.end as u32
    }

    /// The sectors of which `range` has some blocks and not others: the first, the last, or none.
    pub(super) fn parts(&self, range: Blocks) -> impl Iterator<Item = u64> {
        let (each, sectors) = (self.sector_blocks(), self.sectors(range));
        let (start, end) = (range.start.0, range.start.0 + range.count);
        let partly = move |s: u64| s * each < start || (s + 1) * each > end;
        let first = (sectors.start < sectors.end).then_some(sectors.start);
        let last = (sectors.start + 1 < sectors.end).then(|| sectors.end - 1);
        first.into_iter().chain(last).filter(move |s| partly(*s))
    }

    /// Begins to read the rests of sectors that these commands cover in part (2).
    pub(super) fn read_ahead(&self, ranges: impl Iterator<Item = Blocks>) -> Vec<Ahead<'_>> {
        let mut ahead: Vec<Ahead<'_>> = Vec::new();
        if self.sector_blocks() == 1 || !self.start.is_whole.get() {
            return ahead;
        }
        for sector in ranges.flat_map(|range| self.parts(range)) {
            let lpn = Lpn(sector as u32);
            let buffered = self.state.buffer.borrow().contains(lpn);
            if buffered || ahead.iter().any(|other| other.lpn == lpn) {
                continue;
            }
            let place = self.state.map.borrow().get(lpn);
            if let Some(from) = place
                && let Some(old) = self.begin_old(lpn, from)
            {
                ahead.push(Ahead { lpn, from, erases: self.erases(from), old });
            }
        }
        ahead
    }

    /// How often the unit of a place was erased.
    fn erases(&self, place: Ppa) -> u32 {
        self.nand.erase_count(self.places.unit(place))
    }

    /// Issues the read of a sector. `None` if the array takes no operations.
    fn begin_old(&self, lpn: Lpn, from: Ppa) -> Option<Old<'_>> {
        let (at, first) = self.places.page(from);
        let (mut states, mut words) = ([PageState::Erased], vec![0; self.nand.oob_words()]);
        let mut bytes = vec![0; SECTOR];
        let (data, oob) = (Some(DataMut::Bytes(&mut bytes)), Some(&mut words[..]));
        let request = ReadRequest { at, count: 1, first, data, oob, states: &mut states };
        self.stats.flash_reads.add(1);
        self.stats.rest_reads.add(1);
        let operation = self.must(self.nand.read(request))?;
        let own = words[2 + first as usize] & !(PART | MORE) == u64::from(lpn.0);
        let readable = states[0] == PageState::Programmed && own;
        Some(Old { bytes, readable, operation })
    }

    /// What a sector holds, for a command that has the turn to be admitted (1).
    async fn held<'a>(
        &'a self,
        lpn: Lpn,
        ahead: &mut Vec<Ahead<'a>>,
        to: &mut [u8],
    ) -> Result<(), IoError> {
        if !self.know(lpn, 1).await {
            return Err(IoError::Failed("the map cannot be read"));
        }
        self.stats.merged_sectors.add(1);
        let mut found = None;
        if let Some(i) = ahead.iter().position(|one| one.lpn == lpn) {
            let Ahead { from, erases, old, .. } = ahead.swap_remove(i);
            let old = (old.operation.await, old.bytes, old.readable);
            let is_there = self.state.map.borrow().get(lpn) == Some(from);
            let buffered = self.state.buffer.borrow().contains(lpn);
            let unchanged = is_there && !buffered && self.erases(from) == erases;
            if unchanged || planted!(RestUnchecked) {
                found = Some((old.1, old.2));
            }
        }
        if found.is_none() {
            if self.state.buffer.borrow().read(lpn, DataMut::Bytes(to)) {
                return Ok(());
            }
            let place = self.state.map.borrow().get(lpn);
            let Some(from) = place else {
                to.fill(0);
                return Ok(());
            };
            let old = self.begin_old(lpn, from);
            let old = old.ok_or(IoError::Failed("the flash array took no read"))?;
            old.operation.await;
            found = Some((old.bytes, old.readable));
        }
        match found {
            Some((bytes, true)) => {
                to.copy_from_slice(&bytes);
                Ok(())
            }
            _ => Err(IoError::Failed(
                "the rest of a sector cannot be read: write all 4096 bytes of it at once",
            )),
        }
    }

    /// The sectors of a piece with what it leaves as it is; `None` if it covers all its sectors.
    /// The command has the turn to be admitted (1).
    pub(super) async fn whole<'a>(
        &'a self,
        range: Blocks,
        data: Data<'_>,
        ahead: &mut Vec<Ahead<'a>>,
    ) -> Result<Option<Vec<u8>>, IoError> {
        let Data::Bytes(new) = data else { return Ok(None) };
        if self.parts(range).next().is_none() {
            return Ok(None);
        }
        let sectors = self.sectors(range);
        let mut bytes = vec![0; (sectors.end - sectors.start) as usize * SECTOR];
        for sector in self.parts(range) {
            let from = (sector - sectors.start) as usize * SECTOR;
            self.held(Lpn(sector as u32), ahead, &mut bytes[from..from + SECTOR]).await?;
        }
        let skipped = range.start.0 - sectors.start * self.sector_blocks();
        let from = skipped as usize * self.caps.block_size as usize;
        bytes[from..from + new.len()].copy_from_slice(new);
        Ok(Some(bytes))
    }

    /// The sectors of an atomic group, in which several extents may lie. The group has the turn to
    /// be admitted (1).
    pub(super) async fn whole_group<'a>(
        &'a self,
        group: &[Extent<'_>],
        ahead: &mut Vec<Ahead<'a>>,
    ) -> Result<BTreeMap<u64, Vec<u8>>, IoError> {
        let mut sectors: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let (each, block) = (self.sector_blocks(), self.caps.block_size as usize);
        for extent in group {
            let Data::Bytes(new) = extent.data else { continue };
            let range = self.extent(extent);
            for sector in self.parts(range) {
                if let Entry::Vacant(place) = sectors.entry(sector) {
                    let mut bytes = vec![0; SECTOR];
                    self.held(Lpn(sector as u32), ahead, &mut bytes).await?;
                    place.insert(bytes);
                }
            }
            for (at, one) in (range.start.0..).zip(new.chunks_exact(block)) {
                let sector = sectors.entry(at / each).or_insert_with(|| vec![0; SECTOR]);
                let from = (at % each) as usize * block;
                sector[from..from + block].copy_from_slice(one);
            }
        }
        Ok(sectors)
    }

    /// The blocks of an extent.
    pub(super) fn extent(&self, extent: &Extent<'_>) -> Blocks {
        let count = extent.data.blocks(self.caps.block_size).unwrap_or(0);
        Blocks { start: extent.at, count }
    }

    /// Writes zeros to the blocks of a discard in sectors of which it has only some. It has the turn
    /// to be admitted (1).
    pub(super) async fn discard_parts(&self, range: Blocks) -> Result<(), IoError> {
        let each = self.sector_blocks();
        for sector in self.parts(range) {
            let lpn = Lpn(sector as u32);
            if !self.know(lpn, 1).await {
                return Err(IoError::Failed("the map cannot be read"));
            }
            let buffered = self.state.buffer.borrow().contains(lpn);
            if !buffered && self.state.map.borrow().get(lpn).is_none() {
                continue; // It holds zeros.
            }
            let mut bytes = vec![0; SECTOR];
            self.held(lpn, &mut Vec::new(), &mut bytes).await?;
            let block = self.caps.block_size as usize;
            for (at, one) in (sector * each..).zip(bytes.chunks_exact_mut(block)) {
                let is_discarded = (range.start.0..range.start.0 + range.count).contains(&at);
                if is_discarded || planted!(DiscardTakesSector) {
                    one.fill(0);
                }
            }
            self.take_room(1).await;
            self.still_healthy()?;
            self.admit(sector, Data::Bytes(&bytes));
            self.keep_changes()?;
        }
        Ok(())
    }

    /// The sectors of a discard that it has as a whole.
    pub(super) fn whole_sectors(&self, range: Blocks) -> Range<u64> {
        let each = self.sector_blocks();
        let (start, end) = (range.start.0, range.start.0 + range.count);
        start.div_ceil(each)..(end / each).max(start.div_ceil(each))
    }
}
