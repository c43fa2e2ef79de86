//! A design as a drive of another capacity.

use crate::{Design, DesignError};
use tantalum_nand::SECTOR_BYTES;

/// With fewer blocks in a plane, erase units are made smaller, because reserves are counted in
/// units.
const BLOCKS_LEAST: u32 = 48;

/// The fewest pages of a block.
const PAGES_LEAST: u32 = 16;

/// The most blocks of a plane that are looked at.
const BLOCKS_MOST: u32 = 1 << 20;

impl Design {
    /// This design with the least flash that promises `bytes` to the host: with fewer or more
    /// blocks in each plane, and with smaller ones if these became too few, or are too many. All
    /// else stays, above all how many dies work side by side.
    ///
    /// # Errors
    /// [`DesignError`], if no such drive can be built: why not the one with the most blocks, or
    /// what the least one promises.
    pub fn with_capacity(&self, bytes: u64) -> Result<Design, DesignError> {
        let wanted = bytes.div_ceil(SECTOR_BYTES.into());
        let with = |blocks, pages| {
            let mut design = self.clone();
            (design.geometry.blocks, design.geometry.pages) = (blocks, pages);
            design
        };
        let capacity = |design: &Design| Some(u64::from(design.check().ok()?.logical));
        let suffices = |design: &Design| capacity(design).is_some_and(|have| have >= wanted);
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
                let much = capacity(&design).is_none_or(|have| have > wanted + wanted / 8);
                found = Some(design);
                if high >= BLOCKS_LEAST && !much {
                    break;
                }
            }
            if pages / 2 < PAGES_LEAST || !pages.is_multiple_of(2) {
                break;
            }
            pages /= 2;
        }
        match found {
            Some(design) => Ok(design),
            None => {
                with(self.geometry.blocks, self.geometry.pages).check()?;
                let what = format!("no drive of its kind has {bytes} bytes of capacity");
                Err(DesignError::Value { design: self.name.clone(), what })
            }
        }
    }
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
}
