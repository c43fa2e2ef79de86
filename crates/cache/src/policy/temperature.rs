//! How hot extents are: accesses of all pages of an extent together, and which cached extent is the
//! coldest.
//!
//! 1. Of extents with cached pages the temperature is always known, and the coldest is found in
//!    logarithmic time.
//! 2. **Bounded**: when more than four times as many extents as frames are known, all temperatures
//!    are halved, and extents without cached pages and with a temperature of zero are forgotten,
//!    until half of that bound is left.

use super::page::PageId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Pages of an extent.
const EXTENT: u64 = 32;

/// An extent's number.
type Extent = u64;

#[derive(Default)]
struct Heat {
    temperature: u32,
    /// Slots with cached pages of the extent.
    slots: Vec<u32>,
}

/// See the module.
pub(super) struct Temperatures {
    extents: FxHashMap<Extent, Heat>,
    /// Extents with cached pages.
    cached: BTreeSet<(u32, Extent)>,
    bound: usize,
}

/// The extent of a page.
fn extent_of(page: PageId) -> Extent {
    page.0 / EXTENT
}

impl Temperatures {
    pub fn new(frames: usize) -> Temperatures {
        Temperatures {
            extents: FxHashMap::default(),
            cached: BTreeSet::new(),
            bound: 4 * frames.max(1),
        }
    }

    /// The temperature of a page's extent.
    pub fn of(&self, page: PageId) -> u32 {
        self.extents.get(&extent_of(page)).map_or(0, |heat| heat.temperature)
    }

    /// A page was accessed.
    pub fn heat(&mut self, page: PageId) {
        let extent = extent_of(page);
        let heat = self.extents.entry(extent).or_default();
        let was = heat.temperature;
        heat.temperature = was.saturating_add(1);
        let is = heat.temperature;
        if !heat.slots.is_empty() {
            self.cached.remove(&(was, extent));
            self.cached.insert((is, extent));
        }
        if self.extents.len() > self.bound {
            self.cool();
        }
    }

    /// The temperature of the coldest extent with cached pages, and a slot of one of its pages.
    pub fn coldest(&self) -> Option<(u32, u32)> {
        let &(temperature, extent) = self.cached.first()?;
        let slot = *self.extents.get(&extent)?.slots.first()?;
        Some((temperature, slot))
    }

    /// A page of the extent is cached in a slot.
    pub fn entered(&mut self, page: PageId, slot: u32) {
        let extent = extent_of(page);
        let heat = self.extents.entry(extent).or_default();
        if heat.slots.is_empty() {
            self.cached.insert((heat.temperature, extent));
        }
        heat.slots.push(slot);
    }

    /// It is no more.
    pub fn left(&mut self, page: PageId, slot: u32) {
        let extent = extent_of(page);
        if let Some(heat) = self.extents.get_mut(&extent) {
            heat.slots.retain(|&s| s != slot);
            if heat.slots.is_empty() {
                self.cached.remove(&(heat.temperature, extent));
            }
        }
    }

    fn cool(&mut self) {
        while self.extents.len() > self.bound / 2 {
            self.extents.retain(|_, heat| {
                heat.temperature /= 2;
                heat.temperature > 0 || !heat.slots.is_empty()
            });
        }
        let cached = self.extents.iter().filter(|(_, heat)| !heat.slots.is_empty());
        self.cached = cached.map(|(&extent, heat)| (heat.temperature, extent)).collect();
    }
}
