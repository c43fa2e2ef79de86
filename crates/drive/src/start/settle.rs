//! Gives every erase unit its role at a restart. The role follows from the first page of the unit
//! and from the map.
//!
//! 1. Valid sectors follow from the map; no two logical pages are in one place, and none is in
//!    a unit that holds no data of the host.
//! 2. A unit that the map says is bad is neither written nor erased.
//! 3. Nothing is erased here: what is void is marked to be erased before it is written.
//! 4. No entry of the journal of units names a unit that is free or in the map log, so erasing such
//!    a unit takes no entry. Entries in memory that name one are dropped. A unit that spilled
//!    entries name stays full, with nothing valid in it; the collector erases it without moving
//!    anything.

use crate::design::layout::DUMP_SLACK_ROWS;
use crate::firmware::Firmware;
use crate::format::unit_journal::{Entry, OPEN};
use crate::format::words::{Kind, PageHead};
use crate::planted::planted;
use crate::start::report::{RecoveryError, check_entry};
use crate::start::scan::{Head, read_heads, write_pointers};
use crate::state::space::{FreeUnit, WriteStream};
use std::collections::BTreeSet;
use tantalum_nand::{OpError, PageAddr, Unit};

/// The content of the first page of each unit, except for units kept for dumps.
pub(crate) struct Units {
    pub erased: Vec<Unit>,
    /// These two with the sequence number of their first page.
    pub data: Vec<(u64, Unit, WriteStream)>,
    pub log: Vec<(u64, Unit)>,
    pub unknown: Vec<Unit>,
    /// These have pages of a dump.
    dumps: Vec<Unit>,
    /// Nothing was ever written.
    pub blank: bool,
}

impl Units {
    pub async fn scan(fw: &Firmware) -> Result<Units, OpError> {
        let g = &fw.design.geometry;
        let units = (0..g.units()).map(Unit).filter(|unit| !fw.layout.keeps_for_dumps(g, *unit));
        let all: Vec<PageAddr> = units.map(|unit| PageAddr { unit, page: 0 }).collect();
        let heads = read_heads(fw, &all).await?;
        let mut units = Units {
            erased: Vec::new(),
            data: Vec::new(),
            log: Vec::new(),
            unknown: Vec::new(),
            dumps: Vec::new(),
            blank: !heads.heads().iter().any(|h| matches!(h, Head::Written(..))),
        };
        for (at, head) in all.into_iter().zip(heads.heads()) {
            let unit = at.unit;
            match head {
                Head::Erased => units.erased.push(unit),
                Head::Unreadable => units.unknown.push(unit),
                Head::Written(head, ..) => {
                    fw.saw_sequence(head.sequence);
                    match head.kind {
                        Kind::Host => units.data.push((head.sequence, unit, WriteStream::Host)),
                        Kind::Moved => units.data.push((head.sequence, unit, WriteStream::Moved)),
                        Kind::Cold => units.data.push((head.sequence, unit, WriteStream::Cold)),
                        kind if kind.is_of_log() => units.log.push((head.sequence, unit)),
                        kind if kind.is_of_dump() => units.dumps.push(unit),
                        _void => units.unknown.push(unit),
                    }
                }
            }
        }
        for (unit, head) in ask_further(fw, &units.unknown).await? {
            match head.kind {
                kind if kind.is_of_log() => units.log.push((head.sequence, unit)),
                kind if kind.is_of_dump() => units.dumps.push(unit),
                _ => continue,
            }
            units.unknown.retain(|u| *u != unit);
        }
        if !fw.state.dump.borrow().anywhere {
            // No dump is looked for there.
            units.unknown.append(&mut units.dumps);
        }
        units.log.sort_unstable();
        // In the order in which they were filled, nearly: that is their age.
        units.data.sort_unstable_by_key(|u| u.0);
        Ok(units)
    }

    /// The units with pages of dumps belong to the areas of these.
    pub fn take_dumps(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.dumps)
    }
}

/// Reads the first readable page of units whose first pages went bad. They may be units of the log
/// or of a dump.
pub(crate) async fn ask_further(
    fw: &Firmware,
    units: &[Unit],
) -> Result<Vec<(Unit, PageHead)>, OpError> {
    let (mut asked, mut told) = (units.to_vec(), Vec::new());
    let first_rows = (1 + DUMP_SLACK_ROWS) * fw.places.planes;
    for page in 1..first_rows.min(fw.places.unit_pages) {
        let pages: Vec<PageAddr> =
            asked.iter().map(|unit| PageAddr { unit: *unit, page }).collect();
        asked.clear();
        for (at, head) in pages.iter().zip(read_heads(fw, &pages).await?.heads()) {
            match head {
                Head::Written(head, ..) => told.push((at.unit, *head)),
                Head::Unreadable => asked.push(at.unit),
                Head::Erased => {}
            }
        }
    }
    Ok(told)
}

impl Firmware {
    pub fn saw_sequence(&self, sequence: u64) {
        self.state.sequence.set(self.state.sequence.get().max(sequence + 1));
    }
}

/// Valid sectors follow from the map (1).
pub(crate) fn count_valid(fw: &Firmware, units: &Units) -> Result<(), RecoveryError> {
    let map = fw.state.map.borrow();
    let mut space = fw.state.space.borrow_mut();
    for (lpn, ppa) in map.mapped() {
        check_entry(fw, lpn, Some(ppa))?;
        if space.is_valid(ppa) {
            let place = fw.places.name(ppa);
            let what = format!("two logical pages are at {place}, one of them {lpn}");
            return Err(RecoveryError::Damaged(what));
        }
        space.validate(ppa);
    }
    let log = units.log.iter().map(|u| &u.1);
    match units.erased.iter().chain(log).find(|u| space.valid_in(**u) > 0) {
        Some(unit) => {
            let what = format!("the map names sectors of {unit}, which holds no data of the host");
            Err(RecoveryError::Damaged(what))
        }
        None => Ok(()),
    }
}

/// The units that the map says are bad.
pub(crate) fn know_bad_units(fw: &Firmware) {
    let (map, mut space) = (fw.state.map.borrow(), fw.state.space.borrow_mut());
    for unit in map.bad_units() {
        space.condemn(unit);
    }
}

/// Write points, full units, free units, and those of the map log.
pub(crate) async fn settle_units(fw: &Firmware, units: &Units) -> Result<(), RecoveryError> {
    let data: Vec<Unit> = units.data.iter().map(|u| u.1).collect();
    let ends = write_pointers(fw, &data).await?;
    let pages = fw.places.data_pages;
    let mut void = units.unknown.clone();
    {
        let mut space = fw.state.space.borrow_mut();
        for (&(_, unit, stream), end) in units.data.iter().zip(ends) {
            let die = fw.design.geometry.die(unit);
            if space.next_valid(unit, end * fw.places.page_sectors).is_some() {
                let what = format!("the map names sectors of {unit} that are erased");
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
        // A unit whose first page cannot be read may still have valid sectors.
        void.retain(|&unit| {
            let void = space.valid_in(unit) == 0 && !space.is_bad(unit);
            if !void {
                space.file(unit);
            }
            void
        });
    }
    let erased = units.erased.iter().map(|unit| FreeUnit { unit: *unit, erase_first: false });
    let erase_first = !planted!(TornErase);
    let void = void.into_iter().map(|unit| FreeUnit { unit, erase_first });
    free_units(fw, erased.chain(void));
    let lacking = fw.layout.map_units.saturating_sub(fw.state.log.borrow().owned() as u32);
    fw.state.log.borrow_mut().set_owed(lacking);
    for _ in 0..lacking {
        fw.rescue_log();
    }
    fw.state.space.borrow_mut().count_from_here();
    let writing: Vec<(Unit, u32)> = fw.state.space.borrow().writing().collect();
    for (unit, from) in writing {
        fw.enter(Entry::Written { unit, from, until: OPEN });
    }
    Ok(())
}

/// Units in which nothing is valid are free, unless they are bad, or spilled entries of the journal
/// of units name them (4): a collector erases the latter.
fn free_units(fw: &Firmware, units: impl Iterator<Item = FreeUnit>) {
    let (mut space, mut log) = (fw.state.space.borrow_mut(), fw.state.log.borrow_mut());
    let mut free = BTreeSet::new();
    for one in units {
        let is_spilled = log.journal().is_some_and(|journal| journal.is_spilled(one.unit));
        if space.is_bad(one.unit) || is_spilled && !planted!(VoidUnitsFreed) {
            space.file(one.unit);
        } else {
            space.give_free(one, fw.nand.erase_count(one.unit));
            free.insert(one.unit.0);
        }
    }
    if let Some(journal) = log.journal_mut().filter(|_| !planted!(VoidUnitsFreed)) {
        journal.forget_unspilled(&free);
    }
}

/// Of the map log's units those that are bad are not written, and go if nothing in them counts.
pub(crate) fn settle_log(fw: &Firmware) {
    let (mut space, mut log) = (fw.state.space.borrow_mut(), fw.state.log.borrow_mut());
    for unit in fw.state.map.borrow().bad_units() {
        log.spoil(unit);
    }
    for unit in log.drop_void() {
        space.retire(unit);
    }
}
