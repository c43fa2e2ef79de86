//! The two devices of a cache under the explorer, as a cut leaves them.

use crate::boxes::AnyBox;
use crate::cache::blueprint::CacheBlueprint;
use crate::subject::Subject;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_cache::flash::CacheStats;
use tantalum_device::Operation;
use tantalum_rt::Rt;

/// Batches in memory, at most: the open one and four sealed ones.
const IN_MEMORY: u64 = 5;

/// The devices of a cache. Cheap to clone.
#[derive(Clone)]
pub(super) struct Devices {
    pub flash: AnyBox,
    pub slow: AnyBox,
    /// How the cache is made and used.
    pub blueprint: Rc<CacheBlueprint>,
    /// Whether it had power since it was formatted. Before that nothing is lost.
    used: Rc<Cell<bool>>,
}

impl Devices {
    pub fn new(flash: AnyBox, slow: AnyBox, blueprint: CacheBlueprint) -> Devices {
        Devices { flash, slow, blueprint: Rc::new(blueprint), used: Rc::default() }
    }

    /// The cache has power from now on.
    pub fn begin(&self) {
        self.used.set(true);
    }

    /// Both as a cut leaves them, which may take the flash device along (`loss`).
    pub fn cut_copy(&self, rt: &Rt) -> Option<Devices> {
        let lost = self.blueprint.loss && self.used.get();
        let lost = lost && rt.stream("whether the flash device is lost").chance(1, 3);
        let flash = match lost {
            true => self.blueprint.flash.build_boxes(rt, 1, "a new flash").ok()?.pop()?,
            false => self.flash.cut_copy(rt)?,
        };
        let slow = self.slow.cut_copy(rt)?;
        let used = Rc::new(Cell::new(self.used.get()));
        Some(Devices { flash, slow, blueprint: self.blueprint.clone(), used })
    }

    /// Checks both, and what the cache counts, if it has power: it knows no more pages than its
    /// frames and the batches in memory have, and no dirty page that it does not know.
    pub fn audit(&self, stats: Option<CacheStats>) -> Result<(), String> {
        self.flash.audit()?;
        self.slow.audit()?;
        let Some(stats) = stats else { return Ok(()) };
        let most = stats.frames + IN_MEMORY * u64::from(self.blueprint.frames);
        match stats.dirty <= stats.pages && stats.pages <= most {
            true => Ok(()),
            false => Err(format!("a cache that counts wrongly: {stats:?}")),
        }
    }

    pub fn record_operations(&self) {
        self.flash.record_operations();
        self.slow.record_operations();
    }

    pub fn take_operations(&self) -> Vec<Operation> {
        let mut all = self.flash.take_operations();
        all.extend(self.slow.take_operations());
        all
    }
}
