//! Boxes of any kind that there is: drives, disks, RAM devices, and arrays of them.

use tantalum_device::{Disk, IoError, PowerCycle, Raid0, RaidBox, RamDevice, either_device};
use tantalum_drive::{Drive, DriveLink, RecoveryError};

/// A box of any kind. Cheap to clone.
#[derive(Clone)]
pub enum AnyBox {
    /// A software SSD.
    Ssd(Drive),
    /// A magnetic disk.
    Disk(Disk),
    /// SSDs, striped.
    Ssds(RaidBox<Drive>),
    /// Disks, striped.
    Disks(RaidBox<Disk>),
    /// A RAM device.
    Ram(RamDevice),
    /// RAM devices, striped.
    Rams(RaidBox<RamDevice>),
}

/// The host's end of its link. Cheap to clone.
#[derive(Clone)]
pub enum AnyLink {
    /// To an SSD.
    Ssd(DriveLink),
    /// To a disk.
    Disk(Disk),
    /// To SSDs, striped.
    Ssds(Raid0<DriveLink>),
    /// To disks, striped.
    Disks(Raid0<Disk>),
    /// To a RAM device.
    Ram(RamDevice),
    /// To RAM devices, striped.
    Rams(Raid0<RamDevice>),
}

/// The same call for each kind.
macro_rules! each {
    ($on:expr, $it:ident => $call:expr) => {
        match $on {
            AnyBox::Ssd($it) => $call,
            AnyBox::Disk($it) => $call,
            AnyBox::Ssds($it) => $call,
            AnyBox::Disks($it) => $call,
            AnyBox::Ram($it) => $call,
            AnyBox::Rams($it) => $call,
        }
    };
}

either_device!(AnyLink: Ssd, Disk, Ssds, Disks, Ram, Rams);

impl PowerCycle for AnyBox {
    type Device = AnyLink;

    fn device(&self) -> AnyLink {
        match self {
            AnyBox::Ssd(b) => AnyLink::Ssd(b.device()),
            AnyBox::Disk(b) => AnyLink::Disk(b.device()),
            AnyBox::Ssds(b) => AnyLink::Ssds(b.device()),
            AnyBox::Disks(b) => AnyLink::Disks(b.device()),
            AnyBox::Ram(b) => AnyLink::Ram(b.device()),
            AnyBox::Rams(b) => AnyLink::Rams(b.device()),
        }
    }

    fn cut(&self) {
        each!(self, b => b.cut());
    }

    async fn off(&self) {
        each!(self, b => b.off().await);
    }

    /// A drive whose emergency dump is missing is salvaged, as its user would have to do. The
    /// checks find what that loses.
    async fn power_on(&self) -> Result<(), IoError> {
        let started = each!(self, b => b.power_on().await);
        if started.is_ok() || !self.drives().iter().any(misses_dump) {
            return started;
        }
        for drive in self.drives().iter().filter(|d| misses_dump(d)) {
            drive.salvage().await?;
        }
        each!(self, b => b.power_on().await)
    }
}

fn misses_dump(drive: &Drive) -> bool {
    matches!(drive.last_failure(), Some(RecoveryError::DumpLost { .. }))
}

impl AnyBox {
    /// The magnetic disks that it consists of.
    pub fn disks(&self) -> &[Disk] {
        match self {
            AnyBox::Disk(disk) => std::slice::from_ref(disk),
            AnyBox::Disks(array) => array.members(),
            _ => &[],
        }
    }

    /// The RAM devices that it consists of; the times of some may be sampled.
    pub fn rams(&self) -> &[RamDevice] {
        match self {
            AnyBox::Ram(device) => std::slice::from_ref(device),
            AnyBox::Rams(array) => array.members(),
            _ => &[],
        }
    }

    /// The software SSDs that it consists of.
    pub fn drives(&self) -> &[Drive] {
        match self {
            AnyBox::Ssd(drive) => std::slice::from_ref(drive),
            AnyBox::Ssds(array) => array.members(),
            _ => &[],
        }
    }
}

pub(crate) use each;
