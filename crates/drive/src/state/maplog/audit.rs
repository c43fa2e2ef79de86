//! The map log held against itself, and what it tells against the map (map log,
//! invariants 1, 2 and 3).

use super::{MapLog, NEVER};
use crate::format::entries::{MAP_PAGE_ENTRIES, decode_entry, map_page};
use crate::format::words::{Kind, LOG_VERSION_BITS, Lpn, Ppa};
use crate::state::audit::{ensure, head};
use crate::state::map::Map;
use crate::state::space::{Role, Space};
use std::collections::{BTreeMap, BTreeSet};
use tantalum_device::DataMut;
use tantalum_nand::{NandArray, PageAddr, SECTOR_BYTES, Unit};

const SECTOR: usize = SECTOR_BYTES as usize;

/// Of one sector of the log: version, where, which sector, map page or count.
type Told = (u64, PageAddr, usize, u32);

impl MapLog {
    /// Whether units, write points and records of what is where are consistent.
    ///
    /// # Errors
    /// What is not so.
    pub fn audit(&self, nand: &NandArray, space: &Space) -> Result<(), String> {
        let mut own = BTreeSet::new();
        for unit in self.units.iter().map(|u| u.unit).chain(self.pool.iter().map(|f| f.unit)) {
            ensure(own.insert(unit), || format!("{unit} is twice in the map log"))?;
            let role = space.role(unit);
            let fits = role == Role::Map || space.is_bad(unit);
            ensure(fits, || format!("{unit} of the map log has the role {role:?}"))?;
        }
        for free in &self.pool {
            ensure(free.erase_first || nand.is_erased(free.unit), || {
                format!("{} of the map log is free, and neither erased nor to be", free.unit)
            })?;
        }
        let serials: BTreeSet<u32> = self.units.iter().map(|u| u.serial).collect();
        for point in self.points.iter().flatten() {
            let known = self.units.iter().any(|u| u.unit == point.unit && u.serial == point.serial);
            ensure(known, || format!("the map log writes to {}, which it lacks", point.unit))?;
        }
        for (page, at) in self.image_at.iter().chain(&self.delta_at).enumerate() {
            let page = page % self.image_at.len();
            ensure(*at == NEVER || serials.contains(at), || {
                format!("the newest records of map page {page} are in a unit that was erased")
            })?;
        }
        Ok(())
    }

    /// Whether the journal of units names no unit that may be erased without an entry.
    ///
    /// # Errors
    /// One that it names.
    pub fn audit_named(&self, space: &Space) -> Result<(), String> {
        let Some(journal) = self.journal() else { return Ok(()) };
        let free = (0..space.count()).map(Unit).filter(|unit| space.role(*unit) == Role::Free);
        let mut all = free.chain(self.pool.iter().map(|free| free.unit));
        match all.find(|unit| journal.is_named(*unit)) {
            Some(unit) => Err(format!("{unit} is free, and the journal of units names it")),
            None => Ok(()),
        }
    }

    /// Whether the log's records, and the entries that only memory has, give the map. Of a
    /// journal only when no change waits for it.
    ///
    /// # Errors
    /// The first entry of which they tell something else.
    pub fn audit_content(&self, nand: &NandArray, space: &Space, map: &Map) -> Result<(), String> {
        let dirty = self.dirty();
        if dirty.is_none() && self.durable < map.version() {
            return Ok(());
        }
        let told = self.told(nand, space)?;
        for (page, told) in (0..).zip(told.chunks(MAP_PAGE_ENTRIES as usize)) {
            let entries = map.entries_of(page);
            // (There are numbers that belong to no page.)
            let mut beyond = told.iter().skip(entries.len());
            ensure(beyond.all(Option::is_none), || {
                format!("the map log tells of entries behind those of map page {page}")
            })?;
            for (lpn, tells) in entries.map(Lpn).zip(told) {
                let is = map.get(lpn);
                ensure(is == *tells || dirty.is_some_and(|dirty| dirty.has(lpn)), || {
                    let name = |ppa| self.places.name(ppa);
                    let [is, tells] = [is, *tells].map(|at| at.map_or("nothing".into(), name));
                    format!("of {} the map says {is}, its log {tells}", map.name(lpn))
                })?;
            }
        }
        Ok(())
    }

    /// What the log tells of each entry of each map page. Units that went bad are not erased: what
    /// the log wrote to them goes on to be told, though it has let go of them.
    fn told(&self, nand: &NandArray, space: &Space) -> Result<Vec<Option<Ppa>>, String> {
        let mut images: BTreeMap<u32, Told> = BTreeMap::new();
        let mut deltas: Vec<Told> = Vec::new();
        let mut words = vec![0; nand.oob_words()];
        let own: Vec<Unit> = self.units.iter().map(|u| u.unit).collect();
        let units = (0..nand.geometry().units()).map(Unit);
        let bad = units.filter(|u| space.is_bad(*u) && !own.contains(u));
        for unit in bad.chain(own.iter().copied()) {
            for at in (0..self.places.unit_pages).map(|page| PageAddr { unit, page }) {
                let Some(head) = head(nand, at, &mut words) else { continue };
                let version = head.version & ((1 << LOG_VERSION_BITS) - 1);
                for (sector, word) in
                    words[2..].iter().take(self.places.page_sectors as usize).enumerate()
                {
                    let told = (version, at, sector, *word as u32);
                    match head.kind {
                        _ if told.3 == crate::format::words::NO_INDEX => {}
                        Kind::MapImage => {
                            let newest = images.entry(told.3).or_insert(told);
                            if version >= newest.0 {
                                *newest = told;
                            }
                        }
                        Kind::MapDelta => deltas.push(told),
                        Kind::MapJournal => {}
                        _ if !own.contains(&unit) => {}
                        kind => return Err(format!("a page of the map log is {kind:?}, {at}")),
                    }
                }
            }
        }
        let mut entries = vec![None; self.image_at.len() * MAP_PAGE_ENTRIES as usize];
        let mut page = vec![0; self.places.page_sectors as usize * SECTOR];
        for (number, (_, at, sector, _)) in &images {
            nand.inspect_payload(*at, DataMut::Bytes(&mut page));
            let first = *number as usize * MAP_PAGE_ENTRIES as usize;
            let entries = entries.get_mut(first..first + MAP_PAGE_ENTRIES as usize);
            let entries = entries.ok_or_else(|| format!("there is no map page {number}, {at}"))?;
            for (entry, bytes) in entries.iter_mut().zip(page[sector * SECTOR..].chunks_exact(4)) {
                let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                *entry = value.checked_sub(1).map(Ppa);
            }
        }
        deltas.sort_by_key(|d| d.0);
        for (version, at, sector, count) in deltas {
            nand.inspect_payload(at, DataMut::Bytes(&mut page));
            let sector = &page[sector * SECTOR..(sector + 1) * SECTOR];
            for bytes in sector.chunks_exact(8).take(count as usize) {
                let (lpn, to) = decode_entry(bytes);
                if images.get(&map_page(lpn)).is_some_and(|image| version <= image.0) {
                    continue;
                }
                let entry = entries.get_mut(lpn.0 as usize);
                *entry.ok_or_else(|| format!("the map log tells of entry {}, {at}", lpn.0))? = to;
            }
        }
        Ok(entries)
    }
}
