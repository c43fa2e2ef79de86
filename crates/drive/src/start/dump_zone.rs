//! The erase units that are kept for dumps. They are always the same, so that a restart finds the
//! dump without reading from all units.
//!
//! 1. Nothing else is ever written to them.
//! 2. An area for the next dump is made of units none of which has a page of the dump that was
//!    replayed.
//! 3. Units of the zone that go bad are replaced by others of the zone, as long as it has enough
//!    for the next dump. After that free units of the array take their place.
//! 4. Before a dump may go to units outside of the zone, a unit of the zone is marked, and is never
//!    erased again. A restart that finds this mark looks for dumps in all units. Units outside of
//!    the zone that a dump does not need any more are free again.

use crate::firmware::Firmware;
use crate::format::words::Kind;
use crate::start::dump_making::Making;
use crate::start::replay::Dump;
use crate::start::report::{RecoveryError, RecoveryReport};
use crate::start::rest::Rest;
use crate::start::scan::{Head, read_heads};
use crate::start::settle::{Units, ask_further};
use crate::state::space::FreeUnit;
use tantalum_nand::{OpError, PageAddr, Unit};

/// The content of the first pages of these units.
#[derive(Default)]
pub(crate) struct Zone {
    pub erased: Vec<Unit>,
    /// These have pages of a dump.
    pub dump: Vec<Unit>,
    pub unknown: Vec<Unit>,
    /// These say that dumps may be outside of the zone, too (4).
    pub marked: Vec<Unit>,
}

impl Zone {
    pub async fn scan(fw: &Firmware) -> Result<Zone, OpError> {
        let all: Vec<PageAddr> = (fw.layout.kept_for_dumps(&fw.design.geometry))
            .map(|unit| PageAddr { unit, page: 0 })
            .collect();
        let (erased, dump, unknown, marked) = Default::default();
        let mut zone = Zone { erased, dump, unknown, marked };
        for (at, head) in all.iter().zip(read_heads(fw, &all).await?.heads()) {
            match head {
                Head::Erased => zone.erased.push(at.unit),
                Head::Unreadable => zone.unknown.push(at.unit),
                Head::Written(head, ..) => {
                    fw.saw_sequence(head.sequence);
                    zone.found(at.unit, head.kind);
                }
            }
        }
        for (unit, head) in ask_further(fw, &zone.unknown).await? {
            zone.unknown.retain(|u| *u != unit);
            zone.found(unit, head.kind);
        }
        Ok(zone)
    }

    fn found(&mut self, unit: Unit, kind: Kind) {
        match kind {
            Kind::DumpsAnywhere => self.marked.push(unit),
            _ => self.dump.push(unit),
        }
    }

    /// Whether dumps may be outside of the zone (4).
    pub fn is_left(&self) -> bool {
        !self.marked.is_empty()
    }
}

/// Makes the area for the next dump ready: erased units, none of them of the dump that was
/// replayed. Whether there were enough units for whatever may have to be dumped.
pub(crate) async fn settle_dump(
    fw: &Firmware,
    zone: &Zone,
    dump: Option<&Dump>,
    rest: &mut Rest,
    report: &mut RecoveryReport,
) -> Result<bool, RecoveryError> {
    let mut making = Making::new(fw, zone, dump);
    making.fill(fw.layout.dump_units as usize).await?;
    if making.lacks() > 0 {
        let units = match rest.units.take() {
            Some(units) => units,
            None => Units::scan(fw).await?,
        };
        let units = rest.units.insert(units);
        if !zone.is_left() && !making.mark_anywhere().await? {
            return Ok(false); // No unit of the zone can be written any more.
        }
        take_erased(fw, units, &mut making);
        making.fill(fw.layout.dump_units_least as usize).await?;
    }
    if making.lacks() > 0 {
        // Units that are free but not erased are known only at the end of the start.
        rest.learn(fw, report).await?;
        take_free(fw, &mut making).await?;
    }
    if making.lacks() > 0 {
        return Ok(false);
    }
    making.done();
    Ok(true)
}

/// Hands over erased units, as many as are lacking: of the dies that have the most.
fn take_erased(fw: &Firmware, units: &mut Units, making: &mut Making<'_>) {
    let g = &fw.design.geometry;
    let mut erased = vec![0u32; g.dies() as usize];
    let good = |unit: &Unit| !fw.state.space.borrow().is_bad(*unit);
    units.erased.iter().filter(|unit| good(unit)).for_each(|u| erased[g.die(*u) as usize] += 1);
    for _ in 0..making.lacks() {
        let Some(die) = (0..g.dies()).max_by_key(|die| erased[*die as usize]) else { return };
        let is_there = |unit: &Unit| g.die(*unit) == die && good(unit);
        let Some(at) = units.erased.iter().position(is_there) else { return };
        erased[die as usize] -= 1;
        making.add(FreeUnit { unit: units.erased.swap_remove(at), erase_first: false });
    }
}

/// Erases free units until there are enough, as long as there are any. (With a journal of units
/// only those are taken that are erased: what the dump says of others is read once more, should the
/// power go before the next dump is due.)
async fn take_free(fw: &Firmware, making: &mut Making<'_>) -> Result<(), RecoveryError> {
    let mut left = Vec::new();
    while making.lacks() > 0 {
        let die = fw.state.space.borrow().freest_die();
        let Some(free) = fw.state.space.borrow_mut().take_any(die) else { break };
        match free.erase_first && fw.design.keeps_units() {
            true => left.push(free),
            false => {
                making.add(free);
                making.fill(fw.layout.dump_units_least as usize).await?;
            }
        }
    }
    let mut space = fw.state.space.borrow_mut();
    left.into_iter().for_each(|free| space.give_free(free, fw.nand.erase_count(free.unit)));
    space.count_from_here();
    Ok(())
}
