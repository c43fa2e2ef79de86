//! Boxes of any kind that there is: drives, disks, RAM devices, and arrays of them.

use tantalum_device::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Disk, Durability,
    Extent, IoError, PowerCycle, Raid0, RaidBox, RamDevice,
};
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
    ($on:expr, $of:ident, $it:ident => $call:expr) => {
        match $on {
            $of::Ssd($it) => $call,
            $of::Disk($it) => $call,
            $of::Ssds($it) => $call,
            $of::Disks($it) => $call,
            $of::Ram($it) => $call,
            $of::Rams($it) => $call,
        }
    };
}

impl BlockDevice for AnyLink {
    fn caps(&self) -> &Caps {
        each!(self, AnyLink, d => d.caps())
    }

    fn is_alive(&self) -> bool {
        each!(self, AnyLink, d => d.is_alive())
    }

    fn arm_queue(&self) -> Option<u32> {
        each!(self, AnyLink, d => d.arm_queue())
    }

    fn blocks_its_thread(&self) -> bool {
        each!(self, AnyLink, d => d.blocks_its_thread())
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        each!(self, AnyLink, d => d.read(at, buf).await)
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        each!(self, AnyLink, d => d.write(at, data, want).await)
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        each!(self, AnyLink, d => d.write_atomic(group).await)
    }

    async fn flush(&self) -> Result<(), IoError> {
        each!(self, AnyLink, d => d.flush().await)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        each!(self, AnyLink, d => d.discard(range).await)
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        each!(self, AnyLink, d => d.allocation(range).await)
    }
}

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
        each!(self, AnyBox, b => b.cut());
    }

    async fn off(&self) {
        each!(self, AnyBox, b => b.off().await);
    }

    /// A drive whose emergency dump is missing is salvaged, as its user would have to do. The
    /// checks find what that loses.
    async fn power_on(&self) -> Result<(), IoError> {
        let started = each!(self, AnyBox, b => b.power_on().await);
        if started.is_ok() || !self.drives().iter().any(misses_dump) {
            return started;
        }
        for drive in self.drives().iter().filter(|d| misses_dump(d)) {
            drive.salvage().await?;
        }
        each!(self, AnyBox, b => b.power_on().await)
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
