//! Erase units that fail, and the end of a drive's life.
//!
//! 1. A unit in which a program failed, or that failed to erase, is bad from that moment: it is not
//!    programmed or erased again. Its entry in the map says so, which becomes durable like any
//!    change of the map, and is asked for at once. A power loss may undo such a mark. That costs
//!    nothing: the unit is used again until it fails again.
//! 2. The data of a failed program stay where they were (in the buffer, in the unit that is
//!    collected, with the keeper) until they are programmed elsewhere.
//! 3. Sectors that are valid in a bad unit stay readable, and are moved when there is room
//!    to spare.
//! 4. Bad units of the map log are replaced when free units are not scarce. Those of the dump areas
//!    are replaced at a start, first by units kept for dumps, then by free ones (`dump_zone`, 3).
//! 5. The drive's life ends when more units are bad than the layout has to spare. It ends earlier
//!    if the drive is stuck for good: no die has room for its flusher, none has a unit that its
//!    collector could empty, and nothing under way could free one. A mark of its own says that.
//!    From then on no data of the host are programmed or collected. As soon as the marks survive a
//!    power loss the drive takes no more writes, and changes no flash except for the emergency dump
//!    and its mark. Read-only is permanent: once reported, it survives every restart. Reads go on.
//! 6. If the map log is left without any unit that it could write, the drive takes no more writes
//!    either. That is not permanent unless there are enough marks to end its life: with fewer, the
//!    drive takes writes again after a restart, until those units fail anew.
//! 7. A start that cannot make an area for the next dump ends the life, too, and changes nothing
//!    that counts. That takes as many failures since the previous start as a dump has units. Either
//!    all units kept for dumps that do not hold the last dump have failed before any dump went
//!    elsewhere; or more units are lacking than are free (at least one for each die and the shared
//!    reserve are, even if the host has filled all others).

use crate::firmware::Firmware;
use crate::firmware::events::DieEvents;
use crate::format::entries::unit_entry;
use crate::format::unit_journal::Entry;
use crate::format::words::{Lpn, Ppa};
use crate::planted::planted;
use crate::state::space::{FreeUnit, Role};
use tantalum_nand::{OpError, Unit};

impl Firmware {
    /// A unit failed.
    pub fn condemn(&self, unit: Unit) {
        if !self.state.space.borrow_mut().condemn(unit) {
            return;
        }
        self.stats.retired_units.add(1);
        let entry = unit_entry(self.layout.logical, unit);
        let mark = (!planted!(BadForgotten)).then_some(Ppa(0));
        let (version, _) = self.state.map.borrow_mut().set(entry, mark);
        self.state.log.borrow_mut().changed(entry);
        self.enter(Entry::Bad { unit });
        if !self.design.is_protected() {
            self.keeper.durable_wanted.set(self.keeper.durable_wanted.get().max(version));
        }
        self.keeper.work.notify_all();
        self.notify_dies();
        self.check_life();
    }

    /// The flusher or the collector of a die waits until something about its space changes.
    /// If that was the last one that could have gone on, the drive's life ends.
    pub async fn wait_for_space(&self, die: u32) {
        let check = || {
            let stuck = self.collectors.dies.iter().all(DieEvents::is_stuck);
            if stuck && self.health.ending.get().is_none() {
                self.mark_end();
            }
            !self.is_poisoned()
        };
        self.collectors.dies[die as usize].wait(check).await;
    }

    /// Marks that the drive's life is over, however many units it has to spare.
    fn mark_end(&self) {
        let units = self.design.geometry.units();
        let entry = self.state.map.borrow().end();
        let (version, _) = self.state.map.borrow_mut().set(entry, Some(Ppa(0)));
        self.state.log.borrow_mut().changed(entry);
        self.enter(Entry::Bad { unit: Unit(units) });
        if !self.design.is_protected() {
            self.keeper.durable_wanted.set(self.keeper.durable_wanted.get().max(version));
        }
        self.keeper.work.notify_all();
        self.check_life();
    }

    /// Ends the drive's life if too many units are bad, or a mark says so, once that survives a
    /// power loss.
    pub fn check_life(&self) {
        let marked = self.state.map.borrow().get(self.state.map.borrow().end()).is_some();
        let over = marked || self.state.space.borrow().bad() > self.layout.spare_units;
        if over && self.health.ending.get().is_none() {
            self.health.ending.set(Some(self.state.map.borrow().version()));
            self.end_life_if_told();
        }
    }

    /// Ends the drive's life if it is to end, and the marks that say so are durable (5).
    pub fn end_life_if_told(&self) {
        if self.is_end_durable() {
            self.end_life();
        }
    }

    /// Whether the drive's life is over, and the marks that say so survive a power loss.
    pub fn is_end_durable(&self) -> bool {
        let durable = self.state.log.borrow().durable();
        self.health.ending.get().is_some_and(|marked| durable >= marked)
    }

    /// No more writes from now on (5).
    pub fn end_life(&self) {
        self.health.read_only.set(true);
        self.poison();
    }

    /// The outcome of a program into a unit: whether it succeeded. If not, the unit is bad. `None`:
    /// the drive is poisoned.
    pub fn outcome(&self, unit: Unit, result: Result<(), OpError>) -> Option<bool> {
        if planted!(FailureIgnored) && result.is_err() {
            return Some(true);
        }
        match result {
            Err(OpError::Failed { .. }) => {
                self.condemn(unit);
                Some(false)
            }
            result => self.must(result).map(|()| true),
        }
    }

    /// Erases a unit that was collected. The journal of units may have to say so: for that there
    /// has to be room. `Some(false)` if the unit is bad and retired now, `None` if the drive is
    /// poisoned.
    pub async fn erase_victim(&self, unit: Unit) -> Option<bool> {
        let is_spilled = self.state.log.borrow().journal().is_some_and(|j| j.is_spilled(unit));
        if is_spilled {
            let reserved = self.begin_changes(std::iter::once(Lpn(0))).await;
            let may_go_on = !self.is_poisoned();
            if may_go_on {
                self.forget(unit);
            }
            self.end_changes(reserved);
            may_go_on.then_some(())?;
        } else {
            self.forget(unit);
        }
        self.erase(unit, Role::Leaving).await
    }

    /// Erases a unit in which nothing is valid, that the journal of units does not name, and that
    /// has this role. `Some(false)` if the unit is bad and retired now, `None` if the drive is
    /// poisoned, as it is where the unit must not be erased.
    pub async fn erase(&self, unit: Unit, role: Role) -> Option<bool> {
        if let Some(why) = self.forbids_erase(unit, role) {
            self.fail(why);
            return None;
        }
        let is_spilled = self.state.log.borrow().journal().is_some_and(|j| j.is_spilled(unit));
        if planted!(VoidUnitsFreed) && is_spilled {
            let reserved = self.begin_changes(std::iter::once(Lpn(0))).await;
            self.forget(unit);
            self.end_changes(reserved);
        }
        self.stats.erases.add(1);
        let op = self.must(self.nand.erase(unit))?;
        let done = self.outcome(unit, op.await)?;
        if !done {
            self.state.space.borrow_mut().retire(unit);
        }
        Some(done)
    }

    /// Why a unit must not be erased, if it must not.
    pub fn forbids_erase(&self, unit: Unit, role: Role) -> Option<&'static str> {
        let (space, log, dump) =
            (self.state.space.borrow(), self.state.log.borrow(), self.state.dump.borrow());
        let is_spilled = || log.journal().is_some_and(|journal| journal.is_spilled(unit));
        match () {
            () if space.defect().is_some() => space.defect(),
            () if space.valid_in(unit) > 0 => Some("a unit with valid data was to be erased"),
            () if space.role(unit) != role => Some("a unit in use was to be erased"),
            () if space.is_bad(unit) => Some("a bad unit was to be erased"),
            () if is_spilled() && !planted!(VoidUnitsFreed) => {
                Some("a unit that the journal of units names was to be erased")
            }
            () if role == Role::Dump && dump.ready.iter().any(|ready| ready.0 == unit) => {
                Some("a unit that is ready for the next dump was to be erased")
            }
            () => None,
        }
    }

    /// Frees a unit.
    pub fn give_free(&self, unit: Unit, erase_first: bool) {
        let erases = self.nand.erase_count(unit);
        self.state.space.borrow_mut().give_free(FreeUnit { unit, erase_first }, erases);
        self.look_for_defects();
        self.restock_log();
        self.notify_dies();
    }

    /// The map log gets the units that it lacks, if there are any to spare.
    pub fn restock_log(&self) {
        let (mut space, mut log) = (self.state.space.borrow_mut(), self.state.log.borrow_mut());
        while log.owed() > 0 && space.has_spare_somewhere() {
            let die = space.freest_die();
            let Some(free) = space.take_any(die) else { return };
            space.set_role(free.unit, Role::Map);
            log.hand_over(free);
        }
    }

    /// The map log has no unit left to write, and gets one even if other tasks need it.
    pub fn rescue_log(&self) -> bool {
        let (mut space, mut log) = (self.state.space.borrow_mut(), self.state.log.borrow_mut());
        let die = space.freest_die();
        let Some(free) = space.take_any(die) else { return false };
        space.set_role(free.unit, Role::Map);
        log.hand_over(free);
        true
    }
}
