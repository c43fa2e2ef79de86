//! A cache volume as a subject. With `loss` a cut takes the flash device along now and then: a blank
//! one is in its place.

use crate::boxes::{AnyBox, AnyLink};
use crate::cache::blueprint::CacheBlueprint;
use crate::cache::devices::Devices;
use crate::contract::Contract;
use crate::subject::{Fault, Subject};
use tantalum_cache::volume::{CacheVolume, VolumeDevice};
use tantalum_device::{Operation, PowerCycle, forward};
use tantalum_rt::Rt;

/// A cache volume on devices of any kind. Cheap to clone.
#[derive(Clone)]
pub struct CacheBox {
    volume: CacheVolume<AnyBox, AnyBox>,
    devices: Devices,
}

impl CacheBox {
    pub(super) fn new(
        rt: &Rt,
        flash: AnyBox,
        slow: AnyBox,
        blueprint: CacheBlueprint,
    ) -> Result<CacheBox, String> {
        CacheBox::on(rt, Devices::new(flash, slow, blueprint))
    }

    fn on(rt: &Rt, devices: Devices) -> Result<CacheBox, String> {
        let (flash, slow) = (devices.flash.clone(), devices.slow.clone());
        let volume = CacheVolume::new(rt, flash, slow, devices.blueprint.options());
        Ok(CacheBox { volume: volume.map_err(|e| e.to_string())?, devices })
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
        self.devices.begin();
        let started = self.volume.power_on().await;
        started.map_err(|e| match self.volume.start_failure() {
            Some(why) => why.to_string(),
            None => e.to_string(),
        })
    }

    fn cut_copy(&self, rt: &Rt) -> Option<CacheBox> {
        CacheBox::on(rt, self.devices.cut_copy(rt)?).ok()
    }

    fn audit(&self) -> Result<(), String> {
        self.devices.audit(self.volume.stats())
    }

    fn record_operations(&self) {
        self.devices.record_operations();
    }

    fn take_operations(&self) -> Vec<Operation> {
        self.devices.take_operations()
    }

    fn fail(&self, _fault: Fault, _after: u64) {}

    fn fail_nothing(&self) {}
}
