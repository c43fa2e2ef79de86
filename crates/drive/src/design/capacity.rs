//! A design as a drive of another capacity.

use crate::design::layout::{dump_units_needed, map_entries};
use crate::{Design, DesignError};
use tantalum_nand::SECTOR_BYTES;

/// With fewer blocks in a plane, erase units are made smaller, because reserves are counted in
/// units.
const BLOCKS_LEAST: u32 = 48;

/// The fewest pages of a block.
const PAGES_LEAST: u32 = 16;

/// The fewest pages of a block where reserves would otherwise take more than the capacity.
const PAGES_LEAST_THRIFTY: u32 = 8;

/// The most blocks of a plane that are looked at.
const BLOCKS_MOST: u32 = 1 << 20;

impl Design {
    /// This design with the least flash that promises `bytes` to the host: with fewer or more
    /// blocks in each plane, and with smaller ones if these became too few, or are too many. All
    /// else stays, above all how many dies work side by side.
    ///
    /// Where the reserves of the design are too large for so small a drive, what is set aside for
    /// dumps follows the capacity: no more entries of the map are counted than there are, and a
    /// dump area is no larger than the largest dump.
    ///
    /// # Errors
    /// [`DesignError`], if no such drive can be built: why not the one with the most blocks, or
    /// what the least one promises.
    pub fn with_capacity(&self, bytes: u64) -> Result<Design, DesignError> {
        let wanted = bytes.div_ceil(SECTOR_BYTES.into());
        let mut found = self.smallest(wanted, PAGES_LEAST, &|design| design);
        let is_much = |found: &Option<Design>| {
            found.as_ref().and_then(sectors).is_none_or(|have| have > most_of(wanted))
        };
        if self.is_protected() && is_much(&found) {
            let thrifty = self.smallest(wanted, PAGES_LEAST_THRIFTY, &thrifty);
            let of = |found: &Option<Design>| found.as_ref().and_then(sectors);
            if of(&thrifty).is_some_and(|less| of(&found).is_none_or(|have| less < have)) {
                found = thrifty;
            }
        }
        match found {
            Some(design) => Ok(design),
            None => {
                self.check()?;
                let what = format!("no drive of its kind has {bytes} bytes of capacity");
                Err(DesignError::Value { design: self.name.clone(), what })
            }
        }
    }

    /// The smallest drive with so many sectors, and blocks of no fewer pages. Each that is looked
    /// at is made by `made` of this design with another geometry.
    fn smallest(
        &self,
        wanted: u64,
        pages_least: u32,
        made: &dyn Fn(Design) -> Design,
    ) -> Option<Design> {
        let with = |blocks, pages| {
            let mut design = self.clone();
            (design.geometry.blocks, design.geometry.pages) = (blocks, pages);
            made(design)
        };
        let suffices = |design: &Design| sectors(design).is_some_and(|have| have >= wanted);
        let mut pages = self.geometry.pages;
        let mut found = None;
        loop {
            // The capacity only grows with the blocks.
            let (mut low, mut high) = (0, 1);
            while high < BLOCKS_MOST && !suffices(&with(high, pages)) {
                if matches!(with(high, pages).check(), Err(DesignError::Geometry { .. })) {
                    break; // Larger than addresses reach.
                }
                (low, high) = (high, high * 2);
            }
            if suffices(&with(high, pages)) {
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    match suffices(&with(middle, pages)) {
                        true => high = middle,
                        false => low = middle,
                    }
                }
                let design = with(high, pages);
                let much = sectors(&design).is_none_or(|have| have > most_of(wanted));
                found = Some(design);
                if high >= BLOCKS_LEAST && !much {
                    break;
                }
            }
            if pages / 2 < pages_least || !pages.is_multiple_of(2) {
                break;
            }
            pages /= 2;
        }
        found
    }
}

/// Sectors that it promises, if it can be built.
fn sectors(design: &Design) -> Option<u64> {
    Some(u64::from(design.check().ok()?.logical))
}

/// So many sectors are near enough to those wanted.
fn most_of(wanted: u64) -> u64 {
    wanted.saturating_add(wanted / 8)
}

/// The design with no more set aside for dumps than it needs.
fn thrifty(mut design: Design) -> Design {
    if design.geometry.check().is_err() {
        return design;
    }
    // Where three quarters of what may change are the whole map, no page of it is stored early:
    // that holds for the larger drives that keep all of it.
    let entries = u64::from(map_entries(&design));
    let all = u32::try_from(entries + entries / 3 + 1).unwrap_or(u32::MAX);
    design.map.dirty_max = design.map.dirty_max.min(all.max(design.dirty_least()));
    design.map.dump_units = dump_units_needed(&design);
    design
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_is_as_large_as_it_is_to_be() {
        for preset in Design::presets() {
            let base = Design::preset(preset).unwrap();
            for gib in [4, 16, 100] {
                let bytes = |design: &Design| Some(u64::from(design.check().ok()?.logical) * 4096);
                let design = base.with_capacity(gib << 30).unwrap();
                let have = bytes(&design).unwrap();
                assert!(have >= gib << 30, "{preset}: {have} of {gib} GiB");
                // With one block less it is too small: its reserves set the least size.
                let mut less = design.clone();
                less.geometry.blocks -= 1;
                assert!(bytes(&less).is_none_or(|have| have < gib << 30), "{preset}: {gib} GiB");
                assert!(*preset != "volatile" || have < (gib << 30) * 5 / 4, "{have} of {gib} GiB");
                assert_eq!(design.geometry.dies(), base.geometry.dies());
            }
            assert!(base.with_capacity(u64::MAX).is_err());
        }
    }

    #[test]
    fn what_is_set_aside_for_dumps_follows_a_small_capacity() {
        let base = Design::preset("durassd").unwrap();
        let sizes: Vec<u64> = [1, 2, 4, 8, 16].map(|gib: u64| gib << 30).into();
        for bytes in sizes {
            let design = base.with_capacity(bytes).unwrap();
            let layout = design.check().unwrap();
            let have = u64::from(layout.logical) * 4096;
            assert!(have < bytes + bytes / 8, "{have} of {bytes}: {design:?}");
            // All of the buffer is kept, whatever the size.
            assert_eq!(design.cache, base.cache);
            if bytes >= 8 << 30 {
                assert_eq!(design.map, base.map, "a drive with room for its reserves has them");
            } else {
                assert!(design.map.dirty_max < base.map.dirty_max);
                assert_eq!(design.map.dump_units, layout.dump_units_least);
            }
        }
        // As before, where that is possible: the capacity of full-size drives and their reserves.
        let full = u64::from(base.check().unwrap().logical) * 4096;
        assert_eq!(base.with_capacity(full).unwrap().map, base.map);
    }

    #[test]
    fn a_drive_that_cannot_be_so_small_is_the_smallest_of_its_kind() {
        for preset in Design::presets() {
            let base = Design::preset(preset).unwrap();
            let least = base.with_capacity(1 << 20).unwrap();
            assert!(least.check().unwrap().logical > 256, "{preset}");
        }
    }
}
