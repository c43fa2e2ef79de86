//! The dump areas of a protected drive while it runs.
//!
//! 1. Before the first command is taken a mark on flash says that the next dump is due. So a
//!    dump that the capacitors did not suffice for is missed at the next start, even if
//!    nothing of it was written: the one before it is never taken for the newest.
//! 2. The area of the dump that was replayed is erased only after that.
//! 3. There are always units enough for the next dump, and they are erased, but for the mark.

use crate::dump::Writer;
use crate::firmware::Firmware;
use crate::space::Role;
use crate::types::Kind;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_device::{Data, OwnedData, Payload};
use tantalum_nand::{OpError, PageAddr, SECTOR_BYTES, Unit};

/// The two dump areas of a protected drive: the one that is erased, ready for the
/// next power loss, and the other.
#[derive(Clone, Default)]
pub(crate) struct DumpAreas {
    /// Its units, and the next page of each: one has the mark that the dump is due.
    pub ready: Vec<(Unit, u32)>,
    pub other: Vec<Unit>,
    /// The other area is erased, too.
    pub cleared: bool,
    /// The number of the next dump.
    pub next: u64,
    /// Units of the ready area in which a program failed: the dump says so.
    pub failed: Vec<Unit>,
    /// The unit that has the mark is to give its place to the other one, which is erased.
    pub moving: Option<(Unit, Unit)>,
}

/// Marks on flash that the next dump is due: from now on the drive does not start without
/// it. If the power goes meanwhile, the dump has to be written.
pub(crate) async fn mark_due(fw: &Firmware) -> Result<(), OpError> {
    if !fw.design.is_protected() || fw.read_only.get() {
        return Ok(());
    }
    let mut writer = Writer::new(fw, None);
    writer.write(Kind::DumpDue, &[0], Data::Bytes(&[0; SECTOR_BYTES as usize]))?;
    writer.finish().await
}

/// Keeps the areas, for ever.
pub(crate) async fn keep_areas(fw: Rc<Firmware>) {
    clear_old_dump(&fw).await;
    loop {
        let moving = || fw.dump.borrow().moving;
        fw.mark_moves.until(|| moving().is_some() || fw.poisoned.get()).await;
        let Some((from, to)) = moving() else { return };
        move_mark(&fw, from, to).await;
        fw.dump.borrow_mut().moving = None;
        if fw.poisoned.get() {
            return;
        }
    }
}

/// Erases the area of the dump that was replayed: it is void as soon as the next one
/// could be written.
async fn clear_old_dump(fw: &Firmware) {
    let mut units = VecDeque::from(fw.dump.borrow().other.clone());
    while let Some(unit) = units.pop_front() {
        if fw.erase(unit).await {
            continue;
        }
        if fw.poisoned.get() {
            return;
        }
        // Another one in its place, for the dump after the next.
        let (mut space, mut areas) = (fw.space.borrow_mut(), fw.dump.borrow_mut());
        areas.other.retain(|u| *u != unit);
        let die = space.freest_die();
        if space.has_spare_somewhere()
            && let Some(free) = space.take_any(die)
        {
            space.set_role(free.unit, Role::Dump);
            areas.other.push(free.unit);
            if free.erase_first {
                units.push_back(free.unit);
            }
        }
    }
    fw.dump.borrow_mut().cleared = true;
}

/// Marks in unit `to` that the dump is due, and then only frees `from`.
async fn move_mark(fw: &Firmware, from: Unit, to: Unit) {
    let row = fw.design.geometry.row_sectors() as usize;
    let planes = fw.places.planes;
    let page = OwnedData::zeros(Payload::Bytes, row, SECTOR_BYTES);
    let mut words = Vec::new();
    let number = fw.dump.borrow().next;
    fw.page_words(Kind::DumpDue, number, planes, std::iter::once((0, 0)), &mut words);
    let at = PageAddr { unit: to, page: 0 };
    let Some(op) = fw.must(fw.nand.program(at, page.as_data(), &words)) else { return };
    fw.stats.flash_program_bytes.add(fw.page_bytes(planes));
    fw.stats.dump_bytes.add(fw.page_bytes(planes));
    match fw.outcome(to, op.await) {
        Some(true) => {
            let mut areas = fw.dump.borrow_mut();
            let place = areas.ready.iter_mut().find(|u| u.0 == from);
            if let Some(place) = place {
                *place = (to, planes);
            }
            drop(areas);
            fw.give_free(from, true);
        }
        Some(false) => fw.space.borrow_mut().retire(to),
        None => {}
    }
}

impl Firmware {
    /// A worn free unit takes the place of a unit that is kept for a dump.
    pub fn exchange_dump_unit(&self, die: u32, unit: Unit, count: u32) {
        let mut areas = self.dump.borrow_mut();
        let areas = &mut *areas;
        let marked = areas.ready.contains(&(unit, self.places.planes));
        if marked {
            if areas.moving.is_none()
                && let Some(worn) = self.take_rested(die, count, Role::Dump)
            {
                areas.moving = Some((unit, worn));
                self.mark_moves.notify_all();
            }
            return;
        }
        let others = areas.other.iter_mut().filter(|_| areas.cleared);
        let blank = areas.ready.iter_mut().filter(|u| u.1 == 0).map(|u| &mut u.0);
        let Some(place) = blank.chain(others).find(|u| **u == unit) else { return };
        let Some(worn) = self.take_rested(die, count, Role::Dump) else { return };
        *place = worn;
        self.give_free(unit, false);
    }
}
