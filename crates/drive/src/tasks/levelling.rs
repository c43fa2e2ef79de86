//! Static wear levelling: units whose content does not change wear, too.
//!
//! 1. The erase counts of the units of a die stay within `wear.spread_max` of each other,
//!    as far as the cost allows: from half of that on the full unit erased least often is
//!    moved once in [`SLOW`] erases of the die, from three quarters on once in [`FAST`].
//!    So it is at most a unit's content for so many erases.
//! 2. What is moved goes to free units that were erased most often (`space`, 7), and to
//!    nothing else: cold data come to rest on worn units.
//! 3. The units kept for dumps, which wear only when the power goes, take no part. Units that the
//!    map log has free are exchanged for free ones that were erased often. A unit of the log is
//!    exchanged when it was erased, too: for a younger one, or if it is too young itself for the
//!    oldest; and a log that is hardly written is cleaned now and then.
//! 4. Only spare units are used for that, never the collectors' reserve.

use crate::firmware::Firmware;
use crate::state::space::Role;
use tantalum_nand::Unit;

/// Erases of a die for one move, at least, while counts are not far apart.
const SLOW: u32 = 8;

/// The same when they nearly are too far apart.
const FAST: u32 = 2;

impl Firmware {
    /// A unit of the die was erased: the time for levelling has come nearer.
    pub fn wore(&self, die: u32) {
        let worn = &self.collectors.dies[die as usize].worn;
        worn.set(worn.get() + 1);
    }

    /// A full unit whose content is to be moved, if it is time for that; it leaves its list.
    pub fn level_victim(&self, die: u32) -> Option<Unit> {
        let bound = self.design.wear.spread_max;
        let worn = &self.collectors.dies[die as usize].worn;
        if bound == 0 || worn.get() < FAST || !self.state.space.borrow().has_spare(die) {
            return None;
        }
        let (mut most, mut coldest) = (0, None::<(u32, Unit, Role)>);
        {
            let space = self.state.space.borrow();
            for unit in self.design.geometry.die_units(die) {
                let (count, role) = (self.nand.erase_count(unit), space.role(unit));
                // (Those kept for dumps wear by themselves, with each power loss.)
                if !matches!(role, Role::Bad | Role::Dump) {
                    most = most.max(count);
                }
                let movable = matches!(role, Role::Full | Role::Map);
                if movable && coldest.is_none_or(|(least, ..)| count < least) {
                    coldest = Some((count, unit, role));
                }
            }
        }
        self.collectors.dies[die as usize].most.set(most);
        let (least, unit, role) = coldest?;
        let spread = most.saturating_sub(least);
        let due = if spread >= bound - bound / 4 { FAST } else { SLOW };
        if spread < bound / 2 || worn.get() < due {
            return None;
        }
        worn.set(0);
        match role {
            Role::Full => return Some(self.state.space.borrow_mut().take_full(unit)),
            // Where the log is written little, it goes round faster for once.
            _ if !self.exchange_pool_unit(die, unit, least) => {
                self.keeper.turn_wanted.set(true);
                self.keeper.work.notify_all();
            }
            _ => {}
        }
        None
    }

    /// Takes the free unit of the die that was erased most often for the map log, if that is more
    /// often than `count` and it is erased now.
    fn take_rested(&self, die: u32, count: u32) -> Option<Unit> {
        let mut space = self.state.space.borrow_mut();
        if space.most_worn_free(die).is_none_or(|worn| worn <= count) {
            return None;
        }
        let free = space.take_worn(die)?;
        if free.erase_first {
            space.give_free(free, self.nand.erase_count(free.unit));
            return None;
        }
        space.set_role(free.unit, Role::Map);
        Some(free.unit)
    }

    /// A worn free unit takes the place of one that the map log has free; whether there is
    /// one there.
    fn exchange_pool_unit(&self, die: u32, unit: Unit, count: u32) -> bool {
        if !self.state.log.borrow().has_free(unit) {
            return false;
        }
        if let Some(worn) = self.take_rested(die, count) {
            let erase_first = self.state.log.borrow_mut().exchange(unit, worn);
            self.give_free(unit, erase_first);
        }
        true
    }

    /// A unit of the map log was erased: whether a free one has taken its place, one that
    /// was erased less often, or, if this one is young, the one erased most often.
    pub fn exchange_log_unit(&self, unit: Unit) -> bool {
        let bound = self.design.wear.spread_max;
        if bound == 0 {
            return false;
        }
        let count = self.nand.erase_count(unit);
        let die = self.nand.geometry().die(unit);
        let young = count + bound / 2 <= self.collectors.dies[die as usize].most.get();
        {
            let (mut space, mut log) = (self.state.space.borrow_mut(), self.state.log.borrow_mut());
            let (least, most) = (space.least_worn_free(die), space.most_worn_free(die));
            // (There are as many free units afterwards as before.)
            let free = match young {
                true if most.is_some_and(|most| most > count) => space.take_worn(die),
                false if least.is_some_and(|least| least < count) => space.take_any(die),
                _ => return false,
            };
            let Some(free) = free else { return false };
            space.set_role(free.unit, Role::Map);
            log.give(free);
        }
        self.give_free(unit, false);
        true
    }
}
