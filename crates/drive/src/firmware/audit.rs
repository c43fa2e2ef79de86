//! Checks the firmware's memory against itself and against the flash array, without disturbing
//! either. The crash explorer calls it after each recovery.
//!
//! 1. Map and space agree. The valid sectors are those that the map names and those of atomic
//!    groups on flash; no two logical pages are in one place; a unit is bad in both or in neither.
//! 2. Every sector that the map names is on flash, can be read, and has the right logical page
//!    number.
//! 3. Every erase unit has one role and is in the list of that role; a free unit is erased, or
//!    marked to be erased first; the next dump's area is erased.
//! 4. The records of the map log, with the entries that only memory has over them, give the map.
//! 5. The buffer is consistent in itself (see `buffer/audit.rs`), and slots are neither
//!    lost nor promised twice.
//! 6. No more sectors are live than there is room for.
//! 7. The journal of units names no unit that is free or free in the map log (`reservations`, 4).

use crate::firmware::Firmware;
use crate::format::entries::unit_entry;
use crate::format::words::{Kind, LOST, Lpn, MORE, PART, Ppa};
use crate::state::audit::{ensure, head};
use crate::state::space::{FreeUnit, Role};
use tantalum_nand::{PageAddr, Unit};

/// Every check that holds at any moment between two polls; fewer while a start is not finished
/// (`recover`, 6).
pub(crate) fn audit(fw: &Firmware) -> Result<(), String> {
    let defect = fw.defect().or(fw.state.space.borrow().defect());
    ensure(defect.is_none(), || format!("stopped: {}", defect.unwrap_or_default()))?;
    if !fw.start.is_whole.get() {
        dump_areas(fw)?;
        fw.state.buffer.borrow().audit()?;
        return room(fw);
    }
    map_and_space(fw)?;
    map_and_flash(fw)?;
    fw.state.space.borrow().audit(&fw.nand)?;
    dump_areas(fw)?;
    fw.state.buffer.borrow().audit()?;
    room(fw)?;
    fw.audit_live()?;
    let (map, log, space) = (fw.state.map.borrow(), fw.state.log.borrow(), fw.state.space.borrow());
    log.audit(&fw.nand, &space)?;
    log.audit_named(&space)?;
    log.audit_content(&fw.nand, &space, &map)
}

fn map_and_space(fw: &Firmware) -> Result<(), String> {
    let (map, space, g) = (fw.state.map.borrow(), fw.state.space.borrow(), &fw.design.geometry);
    let name = |ppa| fw.places.name(ppa);
    let mut named = vec![0u64; g.sectors().div_ceil(64) as usize];
    let mut count = 0;
    for (lpn, ppa) in map.mapped() {
        ensure(u64::from(ppa.0) < g.sectors(), || {
            format!("the map says {lpn} is at sector {} of {}", ppa.0, g.sectors())
        })?;
        let (word, bit) = (&mut named[(ppa.0 / 64) as usize], 1 << (ppa.0 % 64));
        ensure(*word & bit == 0, || {
            format!("two logical pages are at {}, one is {lpn}", name(ppa))
        })?;
        *word |= bit;
        count += 1;
        ensure(space.is_valid(ppa), || format!("{} of {lpn} is not counted as valid", name(ppa)))?;
    }
    let grouped = fw.groups.under_way.borrow().landed().count() as u32;
    for (lpn, ppa) in fw.groups.under_way.borrow().landed() {
        let named = named[(ppa.0 / 64) as usize] >> (ppa.0 % 64) & 1 == 1;
        ensure(!named && space.is_valid(ppa), || {
            let place = name(ppa);
            format!("{lpn} of a group is at {place}, which is not valid, or somebody else's")
        })?;
    }
    ensure(count == map.live(), || {
        format!("the map names {count} sectors, and believes that it names {}", map.live())
    })?;
    let valid: u32 = (0..g.units()).map(|unit| space.valid_in(Unit(unit))).sum();
    ensure(count + grouped == valid, || {
        format!(
            "the map names {count} sectors and groups {grouped}, but {valid} are counted as valid"
        )
    })?;
    for unit in (0..g.units()).map(Unit) {
        let marked = map.get(unit_entry(fw.layout.logical, unit)).is_some();
        let bad = space.is_bad(unit);
        ensure(marked == bad, || format!("{unit} is bad: {bad}; in the map: {marked}"))?;
    }
    Ok(())
}

fn map_and_flash(fw: &Firmware) -> Result<(), String> {
    let (map, groups) = (fw.state.map.borrow(), fw.groups.under_way.borrow());
    let mut look = Look::new(fw);
    map.mapped().chain(groups.landed()).try_for_each(|(lpn, ppa)| look.is_there(lpn, ppa))
}

/// Reads the words beside pages, one by one.
pub(crate) struct Look<'a> {
    fw: &'a Firmware,
    page: Option<PageAddr>,
    kind: Option<Kind>,
    words: Vec<u64>,
}

impl<'a> Look<'a> {
    pub fn new(fw: &'a Firmware) -> Look<'a> {
        Look { fw, page: None, kind: None, words: vec![0; fw.nand.oob_words()] }
    }

    /// Kind of the page there, and the number beside the sector.
    fn at(&mut self, ppa: Ppa) -> (Option<Kind>, u64) {
        let (at, sector) = self.fw.places.page(ppa);
        if self.page != Some(at) {
            self.page = Some(at);
            self.kind = head(&self.fw.nand, at, &mut self.words).map(|head| head.kind);
        }
        (self.kind, self.words[2 + sector as usize])
    }

    /// What the map says is there is on flash, can be read, and says whose it is (2).
    pub fn is_there(&mut self, lpn: Lpn, ppa: Ppa) -> Result<(), String> {
        let (kind, word) = self.at(ppa);
        let place = || self.fw.places.name(ppa);
        let of_host = matches!(kind, Some(Kind::Host | Kind::Moved | Kind::Cold));
        ensure(of_host, || format!("{lpn} is at {}, in a page of kind {kind:?}", place()))?;
        let word = word & !(LOST | PART | MORE);
        ensure(word == u64::from(lpn.0), || {
            format!("{lpn} is at {}, which says it is {}", place(), Lpn(word as u32))
        })
    }

    /// The newest image of a map page is there.
    pub fn is_image(&mut self, page: u32, ppa: Ppa) -> Result<(), String> {
        let (kind, word) = self.at(ppa);
        let place = || self.fw.places.name(ppa);
        ensure(kind == Some(Kind::MapImage) && word as u32 == page, || {
            let (place, number) = (place(), word as u32);
            format!("map page {page} is at {place}, in a page of kind {kind:?} ({number})")
        })
    }
}

fn dump_areas(fw: &Firmware) -> Result<(), String> {
    if !fw.design.is_protected() || fw.began_read_only() {
        return Ok(());
    }
    let (areas, space) = (fw.state.dump.borrow(), fw.state.space.borrow());
    let need = fw.layout.dump_units_least as usize;
    ensure(areas.ready.len() >= need, || {
        format!("the next dump has {} units, and may need {need}", areas.ready.len())
    })?;
    let ready = || areas.ready.iter().map(|u| u.0);
    let all: Vec<Unit> =
        ready().chain(areas.other.iter().chain(&areas.spare).map(|free| free.unit)).collect();
    for (i, unit) in all.iter().enumerate() {
        ensure(!all[..i].contains(unit), || format!("{unit} is twice in the dump areas"))?;
        let role = space.role(*unit);
        ensure(role == Role::Dump, || format!("{unit} of a dump area has the role {role:?}"))?;
    }
    // (One has the mark that the dump is due.)
    if let Some((unit, page)) = areas.ready.iter().find(|u| fw.nand.next_page(u.0) != u.1) {
        return Err(format!("{unit}, into which the next dump goes, is not erased from {page} on"));
    }
    let left = areas.other.iter().chain(&areas.spare).find(|free| {
        let erased = !free.erase_first;
        erased && !fw.nand.is_erased(free.unit)
    });
    match left {
        Some(FreeUnit { unit, .. }) => {
            Err(format!("{unit}, which is kept for a dump as erased, is not"))
        }
        None => Ok(()),
    }
}

/// Free slots and used slots are all slots. They may be fewer while a command has taken room and
/// not used it yet.
fn room(fw: &Firmware) -> Result<(), String> {
    if fw.is_poisoned() {
        return Ok(());
    }
    let (free, used) = (fw.host.room.free(), u64::from(fw.state.buffer.borrow().used()));
    let all = u64::from(fw.design.buffer_slots());
    let on_the_way = fw.host.room.contended() || fw.shears();
    let fits = if on_the_way { free + used <= all } else { free + used == all };
    ensure(fits, || format!("{used} slots of the buffer are used, {free} of {all} are free"))
}
