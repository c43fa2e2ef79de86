//! How a start makes the areas for dumps: of units of the zone (`dump_zone`) first, then of others.

use crate::firmware::Firmware;
use crate::format::words::Kind;
use crate::planted::planted;
use crate::start::dump_zone::Zone;
use crate::start::replay::Dump;
use crate::start::report::RecoveryError;
use crate::state::space::{FreeUnit, Role};
use std::collections::VecDeque;
use tantalum_device::{OwnedData, Payload};
use tantalum_nand::{OpError, PageAddr, SECTOR_BYTES, Unit};

/// The areas while a start makes them.
pub(crate) struct Making<'a> {
    fw: &'a Firmware,
    ready: Vec<Unit>,
    other: Vec<FreeUnit>,
    spare: VecDeque<FreeUnit>,
}

/// Rows of a unit that say that dumps may be anywhere: one of them may go bad.
const MARK_ROWS: u32 = 2;

impl<'a> Making<'a> {
    /// Nothing is ready yet; `dump` was replayed.
    pub fn new(fw: &'a Firmware, zone: &Zone, dump: Option<&Dump>) -> Making<'a> {
        let all = || zone.erased.iter().chain(&zone.dump).chain(&zone.unknown);
        for unit in all().chain(&zone.marked) {
            let mut space = fw.state.space.borrow_mut();
            match space.is_bad(*unit) {
                true => space.retire(*unit),
                false => space.set_role(*unit, Role::Dump),
            }
        }
        let good = |unit: &Unit| !fw.state.space.borrow().is_bad(*unit);
        let mut other: Vec<Unit> = dump.map(|d| d.units.clone()).unwrap_or_default();
        other.retain(good);
        // The rest of an older dump, or of one that was not completed, is void.
        let is_void = |unit: &Unit| good(unit) && !other.contains(unit);
        let mut spare: Vec<FreeUnit> = all()
            .filter(|unit| is_void(unit))
            .map(|unit| FreeUnit { unit: *unit, erase_first: !zone.erased.contains(unit) })
            .collect();
        // Those that are erased first, and of these the ones that were erased least often.
        spare.sort_by_key(|free| (free.erase_first, fw.nand.erase_count(free.unit)));
        let void = |unit| FreeUnit { unit, erase_first: true };
        let mut other: Vec<FreeUnit> = other.into_iter().map(void).collect();
        if planted!(DumpErasedEarly) {
            spare = other.drain(..).chain(spare).collect();
        }
        Making { fw, ready: Vec::new(), other, spare: spare.into() }
    }

    /// How many units are lacking for whatever may have to be dumped.
    pub fn lacks(&self) -> usize {
        (self.fw.layout.dump_units_least as usize).saturating_sub(self.ready.len())
    }

    /// One more unit, in which nothing is needed.
    pub fn add(&mut self, free: FreeUnit) {
        self.fw.state.space.borrow_mut().set_role(free.unit, Role::Dump);
        self.spare.push_back(free);
    }

    /// Makes units ready until there are so many, as long as there are any.
    pub async fn fill(&mut self, count: usize) -> Result<(), RecoveryError> {
        let fw = self.fw;
        while self.ready.len() < count {
            let mut ops = Vec::new();
            while self.ready.len() + ops.len() < count {
                match self.spare.pop_front() {
                    Some(FreeUnit { unit, erase_first: false }) => self.ready.push(unit),
                    Some(FreeUnit { unit, .. }) => {
                        if let Some(why) = fw.forbids_erase(unit, Role::Dump) {
                            fw.fail(why);
                            return Err(RecoveryError::Damaged(why.to_string()));
                        }
                        fw.stats.erases.add(1);
                        ops.push((unit, fw.nand.erase(unit)?));
                    }
                    None => break,
                }
            }
            if ops.is_empty() && self.ready.len() < count {
                break; // There are no more.
            }
            for (unit, op) in ops {
                match op.await {
                    Ok(()) => self.ready.push(unit),
                    Err(OpError::Failed { .. }) => self.lose(unit),
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    fn lose(&self, unit: Unit) {
        self.fw.condemn(unit);
        self.fw.state.space.borrow_mut().retire(unit);
    }

    /// Gives a unit of the zone for the mark that dumps may be anywhere from now on. False if there
    /// is none that can be written.
    pub async fn mark_anywhere(&mut self) -> Result<bool, RecoveryError> {
        let (fw, planes) = (self.fw, self.fw.places.planes);
        let sectors = fw.design.geometry.row_sectors() as usize;
        let nothing = OwnedData::zeros(Payload::Bytes, sectors, SECTOR_BYTES);
        let mut words = Vec::new();
        while let Some(unit) = self.ready.pop() {
            let mut marked = true;
            for row in 0..MARK_ROWS.min(fw.places.unit_pages / planes) {
                let none = std::iter::repeat_n((0, 0), sectors);
                fw.page_words(Kind::DumpsAnywhere, 0, planes, none, &mut words);
                let at = PageAddr { unit, page: row * planes };
                fw.stats.flash_program_bytes.add(fw.page_bytes(planes));
                match fw.nand.program(at, nothing.as_data(), &words)?.await {
                    Ok(()) => {}
                    Err(OpError::Failed { .. }) => {
                        marked = false;
                        break;
                    }
                    Err(e) => return Err(e.into()),
                }
            }
            if marked {
                return Ok(true);
            }
            self.lose(unit);
        }
        Ok(false)
    }

    /// The areas are as they were made.
    pub fn done(mut self) {
        let area = self.fw.layout.dump_units as usize;
        let mut areas = self.fw.state.dump.borrow_mut();
        areas.ready = self.ready.into_iter().map(|unit| (unit, 0)).collect();
        while self.other.len() < area {
            let Some(free) = self.spare.pop_front() else { break };
            self.other.push(free);
        }
        areas.other = self.other;
        areas.spare = self.spare.into();
        areas.next = areas.next.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firmware::guards::{is_stopped, with_data};

    #[test]
    fn a_start_erases_no_valid_data() {
        let why = "a unit with data was to become one of the map log or of a dump";
        is_stopped("durassd", why, |fw| async move {
            let mut making = Making::new(&fw, &Zone::default(), None);
            let unit = with_data(&fw, Role::Full);
            making.add(FreeUnit { unit, erase_first: true });
            assert!(making.fill(1).await.is_err(), "it is not erased");
        });
    }
}
