//! A log volume as a subject: a block device, so the contract is its judge.

use crate::boxes::{AnyBox, AnyLink};
use crate::contract::Contract;
use crate::log::member::{LogLink, LogMember, Members};
use crate::subject::{Fault, Subject};
use std::rc::Rc;
use tantalum_device::{Operation, PowerCycle, forward};
use tantalum_log::{LogVolume, VolumeDevice, VolumeOptions};
use tantalum_rt::Rt;

/// A log volume on devices of any kind. Cheap to clone.
#[derive(Clone)]
pub struct VolumeBox {
    volume: LogVolume<LogMember, AnyBox>,
    members: Members,
    backing: AnyBox,
    options: Rc<VolumeOptions>,
}

impl VolumeBox {
    pub(super) fn new(
        rt: &Rt,
        members: Members,
        backing: AnyBox,
        options: VolumeOptions,
    ) -> Result<VolumeBox, String> {
        let (array, archive) = members.named();
        let volume = LogVolume::new(rt, array, archive, backing.clone(), options.clone());
        let volume = volume.map_err(|e| e.to_string())?;
        Ok(VolumeBox { volume, members, backing, options: Rc::new(options) })
    }

    /// The volume itself.
    pub fn volume(&self) -> &LogVolume<LogMember, AnyBox> {
        &self.volume
    }
}

impl PowerCycle for VolumeBox {
    type Device = VolumeDevice<LogLink, AnyLink>;

    forward!(volume: cut, off, power_on);

    fn device(&self) -> Self::Device {
        self.volume.device()
    }
}

impl Subject for VolumeBox {
    type Judge = Contract<VolumeBox>;

    fn judge(&self) -> Contract<VolumeBox> {
        Contract::of(self)
    }

    fn cut(&self) {
        self.volume.cut();
    }

    async fn off(&self) {
        self.volume.off().await;
    }

    async fn start(&self) -> Result<(), String> {
        self.members.starts();
        let started = self.volume.power_on().await;
        started.map_err(|e| match self.volume.start_failure() {
            Some(why) => why.to_string(),
            None => e.to_string(),
        })
    }

    fn cut_copy(&self, rt: &Rt) -> Option<VolumeBox> {
        let (members, backing) = (self.members.cut_copy(rt)?, self.backing.cut_copy(rt)?);
        VolumeBox::new(rt, members, backing, (*self.options).clone()).ok()
    }

    fn audit(&self) -> Result<(), String> {
        self.members.audit()?;
        self.backing.audit()?;
        let used = self.volume.stats().map_or(0, |stats| stats.memory);
        match used <= self.options.memory {
            true => Ok(()),
            false => Err(format!("{used} bytes of memory, of {} allowed", self.options.memory)),
        }
    }

    fn record_operations(&self) {
        self.members.record_operations();
        self.backing.record_operations();
    }

    fn take_operations(&self) -> Vec<Operation> {
        let mut all = self.members.take_operations();
        all.extend(self.backing.take_operations());
        all
    }

    fn fail(&self, _fault: Fault, after: u64) {
        if self.volume.stats().is_some() {
            self.members.fail_write(after);
        }
    }

    fn fail_nothing(&self) {
        self.members.fail_nothing();
    }
}
