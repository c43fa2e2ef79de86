//! The erase units that are kept for dumps: always the same, so that a restart finds the dump
//! without asking all units.
//!
//! 1. Nothing else is ever written to them.
//! 2. An area for the next dump is made of units none of which has a page of the dump that was
//!    replayed.
//! 3. Of those that go bad others take the place, as long as there are some.

use crate::firmware::Firmware;
use crate::planted::planted;
use crate::recover::RecoveryError;
use crate::replay::Dump;
use crate::scan::{Head, read_heads};
use crate::settle::ask_further;
use crate::space::{FreeUnit, Role};
use tantalum_nand::{OpError, PageAddr, Unit};

/// What the first pages of these units tell.
pub(crate) struct Zone {
    erased: Vec<Unit>,
    /// These have pages of a dump.
    pub dump: Vec<Unit>,
    unknown: Vec<Unit>,
}

impl Zone {
    pub async fn scan(fw: &Firmware) -> Result<Zone, OpError> {
        let all: Vec<PageAddr> = (fw.layout.kept_for_dumps(&fw.design.geometry))
            .map(|unit| PageAddr { unit, page: 0 })
            .collect();
        let mut zone = Zone { erased: Vec::new(), dump: Vec::new(), unknown: Vec::new() };
        for (at, head) in all.iter().zip(read_heads(fw, &all).await?.heads()) {
            match head {
                Head::Erased => zone.erased.push(at.unit),
                Head::Unreadable => zone.unknown.push(at.unit),
                Head::Written(head, ..) => {
                    fw.saw_sequence(head.sequence);
                    zone.dump.push(at.unit);
                }
            }
        }
        for (unit, _) in ask_further(fw, &zone.unknown).await? {
            zone.unknown.retain(|u| *u != unit);
            zone.dump.push(unit);
        }
        Ok(zone)
    }
}

/// Makes the area for the next dump ready: erased units, none of them of the dump that was
/// replayed. Whether there were enough units for whatever may have to be dumped.
pub(crate) async fn settle_dump(
    fw: &Firmware,
    zone: &Zone,
    dump: Option<&Dump>,
) -> Result<bool, RecoveryError> {
    let area = fw.layout.dump_units as usize;
    let all = zone.erased.iter().chain(&zone.dump).chain(&zone.unknown);
    for unit in all.clone() {
        let mut space = fw.space.borrow_mut();
        match space.is_bad(*unit) {
            true => space.retire(*unit),
            false => space.set_role(*unit, Role::Dump),
        }
    }
    let good = |unit: &Unit| !fw.space.borrow().is_bad(*unit);
    let mut other: Vec<Unit> = dump.map(|d| d.units.clone()).unwrap_or_default();
    other.retain(good);
    // What is left of an older dump, or of one that was not completed, is void.
    let is_void = |unit: &Unit| good(unit) && !other.contains(unit);
    let mut spare: Vec<FreeUnit> = all
        .filter(|unit| is_void(unit))
        .map(|unit| FreeUnit { unit: *unit, erase_first: !zone.erased.contains(unit) })
        .collect();
    // Those that are erased first, and of these the ones that were erased least often.
    spare.sort_by_key(|free| (free.erase_first, fw.nand.erase_count(free.unit)));
    if planted!(DumpErasedEarly) {
        let early = other.drain(..).map(|unit| FreeUnit { unit, erase_first: true });
        spare = early.chain(spare).collect();
    }
    let mut spare = std::collections::VecDeque::from(spare);
    let mut ready: Vec<Unit> = Vec::new();
    while ready.len() < area {
        let mut ops = Vec::new();
        while ready.len() + ops.len() < area {
            match spare.pop_front() {
                Some(FreeUnit { unit, erase_first: false }) => ready.push(unit),
                Some(FreeUnit { unit, .. }) => {
                    fw.stats.erases.add(1);
                    ops.push((unit, fw.nand.erase(unit)?));
                }
                None => break,
            }
        }
        if ops.is_empty() && ready.len() < area {
            break; // There are no more.
        }
        for (unit, op) in ops {
            match op.await {
                Ok(()) => ready.push(unit),
                Err(OpError::Failed { .. }) => {
                    fw.condemn(unit);
                    fw.space.borrow_mut().retire(unit);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
    if ready.len() < fw.layout.dump_units_least as usize {
        return Ok(false);
    }
    let mut areas = fw.dump.borrow_mut();
    areas.ready = ready.into_iter().map(|unit| (unit, 0)).collect();
    areas.other = other.into_iter().map(|unit| FreeUnit { unit, erase_first: true }).collect();
    while areas.other.len() < area {
        let Some(free) = spare.pop_front() else { break };
        areas.other.push(free);
    }
    areas.spare = spare.into();
    areas.next = areas.next.max(1);
    Ok(true)
}
