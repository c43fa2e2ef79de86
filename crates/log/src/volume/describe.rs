//! What a backing says of its volume, and whether it belongs to a log. Nothing is changed.

use crate::superblock::Uuid;
use crate::volume::error::{Identity, VolumeError};
use crate::volume::label::{self, Found, LogSide};
use crate::volume::open::side_of;
use crate::{Log, LogDevice, Lsn};
use tantalum_device::{BlockDevice, Caps};

/// What the label of a backing says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelDescription {
    /// The log to which it belongs.
    pub log: Identity,
    /// Its generation: that of the log's checkpoint, or one more.
    pub generation: u64,
    /// The backing has everything before this LSN.
    pub destaged: Lsn,
    /// Bytes of the volume when it was made.
    pub bytes: u64,
}

/// What is at the end of a backing.
#[derive(Clone, Debug)]
pub struct BackingDescription {
    name: String,
    /// Of the volume for which it has room.
    caps: Caps,
    found: Found,
}

impl BackingDescription {
    /// Reads the label.
    ///
    /// # Errors
    /// [`VolumeError::Unsuitable`] if there is no room for one, [`VolumeError::Backing`].
    pub async fn read<B: BlockDevice>(
        backing: &LogDevice<B>,
    ) -> Result<BackingDescription, VolumeError> {
        let (name, device) = (backing.name.clone(), &backing.device);
        let caps = label::volume_caps(device.caps(), &name)?;
        let found = label::find(device, caps.blocks).await;
        let found = found.map_err(|error| VolumeError::Backing { backing: name.clone(), error })?;
        Ok(BackingDescription { name, caps, found })
    }

    /// What its newest label says; `None`: none is whole, or there is none.
    #[must_use]
    pub fn label(&self) -> Option<LabelDescription> {
        let Found::Label(label) = self.found else { return None };
        let bytes = label.blocks.saturating_mul(label.block.into());
        let (log, generation) = (Identity(label.log), label.generation);
        Some(LabelDescription { log, generation, destaged: label.destaged, bytes })
    }

    /// Whether it belongs to this log as it is now, as a start of the volume demands.
    ///
    /// # Errors
    /// Why a volume over both is refused.
    pub fn check<L: BlockDevice + Clone + 'static>(&self, log: &Log<L>) -> Result<(), VolumeError> {
        self.check_side(LogSide::of(log))
    }

    /// The same for the log of these devices that has this identity, as far as it is known without
    /// reading it.
    ///
    /// # Errors
    /// The same.
    pub async fn check_devices<L: BlockDevice>(
        &self,
        log: Uuid,
        devices: &[LogDevice<L>],
    ) -> Result<(), VolumeError> {
        let unknown = LogSide { identity: log, number: 0, first: Lsn::ZERO, end: Lsn::ZERO };
        match side_of(devices).await {
            Some(side) => self.check_side(side),
            None if self.label().is_none_or(|label| label.log != Identity(log)) => {
                self.check_side(unknown)
            }
            // How far the log is, no device says.
            None => Ok(()),
        }
    }

    fn check_side(&self, side: LogSide) -> Result<(), VolumeError> {
        label::check(self.found, &self.name, &self.caps, side)
    }
}
