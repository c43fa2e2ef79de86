//! A cache volume as a subject. With `loss` a cut takes the flash device along now and then: a blank
//! one is in its place.

use crate::boxes::{AnyBox, AnyLink};
use crate::cache::blueprint::CacheBlueprint;
use crate::contract::Contract;
use crate::subject::{Fault, Subject};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_cache::flash::CacheStats;
use tantalum_cache::volume::{CacheVolume, VolumeDevice};
use tantalum_device::{Operation, PowerCycle, forward};
use tantalum_rt::Rt;

/// Batches in memory, at most: the open one and four sealed ones.
const IN_MEMORY: u64 = 5;

/// A cache of batches with so many frames knows no more pages than its frames and the batches in
/// memory have, and no dirty page that it does not know.
pub(super) fn audit(stats: &CacheStats, frames: u32) -> Result<(), String> {
    let most = stats.frames + IN_MEMORY * u64::from(frames);
    match stats.dirty <= stats.pages && stats.pages <= most {
        true => Ok(()),
        false => Err(format!("a cache that counts wrongly: {stats:?}")),
    }
}

/// A cache volume on devices of any kind. Cheap to clone.
#[derive(Clone)]
pub struct CacheBox {
    volume: CacheVolume<AnyBox, AnyBox>,
    flash: AnyBox,
    slow: AnyBox,
    blueprint: Rc<CacheBlueprint>,
    /// Whether it had power since it was formatted. Before that nothing is lost.
    used: Rc<Cell<bool>>,
}

impl CacheBox {
    pub(super) fn new(
        rt: &Rt,
        flash: AnyBox,
        slow: AnyBox,
        blueprint: CacheBlueprint,
    ) -> Result<CacheBox, String> {
        let volume = CacheVolume::new(rt, flash.clone(), slow.clone(), blueprint.options());
        let volume = volume.map_err(|e| e.to_string())?;
        Ok(CacheBox { volume, flash, slow, blueprint: Rc::new(blueprint), used: Rc::default() })
    }

    /// The volume itself.
    pub fn volume(&self) -> &CacheVolume<AnyBox, AnyBox> {
        &self.volume
    }
}

impl PowerCycle for CacheBox {
    type Device = VolumeDevice<AnyLink, AnyLink>;

    forward!(volume: cut, off, power_on);

    fn device(&self) -> Self::Device {
        self.volume.device()
    }
}

impl Subject for CacheBox {
    type Judge = Contract<CacheBox>;

    fn judge(&self) -> Contract<CacheBox> {
        Contract::of(self)
    }

    fn cut(&self) {
        self.volume.cut();
    }

    async fn off(&self) {
        self.volume.off().await;
    }

    async fn start(&self) -> Result<(), String> {
        self.used.set(true);
        let started = self.volume.power_on().await;
        started.map_err(|e| match self.volume.start_failure() {
            Some(why) => why.to_string(),
            None => e.to_string(),
        })
    }

    fn cut_copy(&self, rt: &Rt) -> Option<CacheBox> {
        let lost = self.blueprint.loss && self.used.get();
        let lost = lost && rt.stream("whether the flash device is lost").chance(1, 3);
        let flash = match lost {
            true => self.blueprint.flash.build_boxes(rt, 1, "a new flash").ok()?.pop()?,
            false => self.flash.cut_copy(rt)?,
        };
        let slow = self.slow.cut_copy(rt)?;
        let copy = CacheBox::new(rt, flash, slow, (*self.blueprint).clone()).ok()?;
        copy.used.set(self.used.get());
        Some(copy)
    }

    fn audit(&self) -> Result<(), String> {
        self.flash.audit()?;
        self.slow.audit()?;
        self.volume.stats().map_or(Ok(()), |stats| audit(&stats, self.blueprint.frames))
    }

    fn record_operations(&self) {
        self.flash.record_operations();
        self.slow.record_operations();
    }

    fn take_operations(&self) -> Vec<Operation> {
        let mut all = self.flash.take_operations();
        all.extend(self.slow.take_operations());
        all
    }

    fn fail(&self, _fault: Fault, _after: u64) {}

    fn fail_nothing(&self) {}
}
