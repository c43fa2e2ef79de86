//! Space held against itself: counts, roles and lists (space, invariants 1, 5 and 8).

use super::{Role, Space};
use crate::state::audit::ensure;
use tantalum_nand::{NandArray, PageAddr, PageState, Unit};

impl Space {
    /// Whether all counts are right, each unit is in the list of its role and in no other,
    /// and what is free or open can be programmed.
    ///
    /// # Errors
    /// What is not so.
    pub fn audit(&self, nand: &NandArray) -> Result<(), String> {
        // Each unit with the list that has it.
        let mut lists: Vec<(u32, Role)> = Vec::with_capacity(self.units.len());
        let mut words = vec![0; nand.oob_words()];
        let mut free = 0;
        for (number, die) in self.dies.iter().enumerate() {
            for &(_, erase_first, unit) in &die.free {
                free += 1;
                lists.push((unit, Role::Free));
                ensure(erase_first || nand.is_erased(Unit(unit)), || {
                    format!("{} is free, and neither erased nor to be erased", Unit(unit))
                })?;
            }
            for point in die.points.iter().flatten() {
                lists.push((point.unit.0, Role::Open));
                let at = PageAddr { unit: point.unit, page: point.page };
                let state = nand.inspect(at, &mut words);
                ensure(state == PageState::Erased, || {
                    format!("the next page, {at}, is {state:?}")
                })?;
            }
            for (bucket, unit) in die.victims.members()? {
                lists.push((unit.0, Role::Full));
                let valid = self.valid_in(unit);
                let right = die.victims.bucket(valid);
                ensure(bucket == right, || {
                    format!("{unit} with {valid} valid sectors is among those of bucket {bucket}")
                })?;
            }
            let outside = lists.iter().find(|u| self.die_of(Unit(u.0)) > number);
            ensure(outside.is_none(), || format!("a list of die {number} has {outside:?}"))?;
        }
        for unit in &self.condemned {
            lists.push((*unit, Role::Condemned));
        }
        ensure(free == self.free, || format!("{free} units are free, counted {}", self.free))?;
        lists.sort_by_key(|u| u.0);
        self.audit_units(&lists)
    }

    /// `lists`: in the order of their numbers.
    fn audit_units(&self, mut lists: &[(u32, Role)]) -> Result<(), String> {
        let mut bad = 0;
        for (number, info) in self.units.iter().enumerate() {
            let unit = Unit(number as u32);
            let sectors = self.places.unit_sectors;
            let counted = (0..sectors).filter(|s| self.is_valid_sector(unit, *s)).count();
            ensure(counted == info.valid as usize, || {
                format!("{counted} sectors of {unit} are valid, counted {}", info.valid)
            })?;
            let (listed, rest) = lists.split_at(lists.partition_point(|u| u.0 <= unit.0));
            lists = rest;
            let own = match info.role {
                role @ (Role::Free | Role::Open | Role::Full | Role::Condemned) => &[role][..],
                Role::Leaving | Role::Map | Role::Dump | Role::Bad => &[],
            };
            ensure(listed.iter().map(|u| &u.1).eq(own), || {
                format!("{unit} has the role {:?}, and is in the lists {listed:?}", info.role)
            })?;
            let without = matches!(info.role, Role::Free | Role::Map | Role::Dump | Role::Bad);
            ensure(!without || info.valid == 0, || {
                format!("{unit} has the role {:?} and {} valid sectors", info.role, info.valid)
            })?;
            let good = matches!(info.role, Role::Free | Role::Open | Role::Full);
            ensure(!good || !info.bad, || format!("{unit} is bad and {:?}", info.role))?;
            let still = good && info.role != Role::Open;
            ensure(!still || info.flying == 0, || {
                format!("{unit} is {:?} with {} programs under way", info.role, info.flying)
            })?;
            bad += u32::from(info.bad);
        }
        ensure(bad == self.bad, || format!("{bad} units are bad, counted {}", self.bad))
    }

    fn is_valid_sector(&self, unit: Unit, sector: u32) -> bool {
        self.is_valid(crate::format::words::Ppa(self.places.unit_start(unit) + sector))
    }
}
