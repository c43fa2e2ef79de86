//! A member of a log: a file, a block device, a drive in an image, or a model in memory.

use crate::out;
use tantalum_device::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    File, IoError, LiveBox, PowerCycle, StartError,
};
use tantalum_drive::{Drive, DriveLink};
use tantalum_explore::{AnyBox, AnyLink};

/// A member of a log. Cheap to clone.
#[derive(Clone)]
pub enum Member {
    /// A file or block device.
    File(File),
    /// A drive in an image.
    Drive(Drive),
    /// A model.
    Model(AnyBox),
}

/// The host's end of its link. Cheap to clone.
#[derive(Clone)]
pub enum MemberLink {
    /// To a file or block device.
    File(File),
    /// To a drive.
    Drive(DriveLink),
    /// To a model.
    Model(AnyLink),
}

/// The same call for each kind.
macro_rules! each {
    ($on:expr, $of:ident, $it:ident => $call:expr) => {
        match $on {
            $of::File($it) => $call,
            $of::Drive($it) => $call,
            $of::Model($it) => $call,
        }
    };
}

impl BlockDevice for MemberLink {
    fn caps(&self) -> &Caps {
        each!(self, MemberLink, d => d.caps())
    }

    fn is_alive(&self) -> bool {
        each!(self, MemberLink, d => d.is_alive())
    }

    fn blocks_its_thread(&self) -> bool {
        each!(self, MemberLink, d => d.blocks_its_thread())
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        each!(self, MemberLink, d => d.read(at, buf).await)
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        each!(self, MemberLink, d => d.write(at, data, want).await)
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        each!(self, MemberLink, d => d.write_atomic(group).await)
    }

    async fn flush(&self) -> Result<(), IoError> {
        each!(self, MemberLink, d => d.flush().await)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        each!(self, MemberLink, d => d.discard(range).await)
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        each!(self, MemberLink, d => d.allocation(range).await)
    }
}

impl PowerCycle for Member {
    type Device = MemberLink;

    fn device(&self) -> MemberLink {
        match self {
            Member::File(b) => MemberLink::File(b.device()),
            Member::Drive(b) => MemberLink::Drive(b.device()),
            Member::Model(b) => MemberLink::Model(b.device()),
        }
    }

    fn cut(&self) {
        each!(self, Member, b => b.cut());
    }

    async fn off(&self) {
        each!(self, Member, b => b.off().await);
    }

    /// A drive that does not start says why on standard error, too.
    async fn power_on(&self) -> Result<(), IoError> {
        match self {
            Member::File(b) => b.power_on().await,
            Member::Drive(b) => start(b).await,
            Member::Model(b) => b.power_on().await,
        }
    }

    async fn set_bytes(&self, bytes: u64) -> Result<(), IoError> {
        each!(self, Member, b => b.set_bytes(bytes).await)
    }
}

async fn start(drive: &Drive) -> Result<(), IoError> {
    let verified = match drive.bring_up(false).await {
        Ok(_) => drive.verify(),
        Err(StartError::CutAgain) => return Err(IoError::PowerLost),
        Err(StartError::Lost(why) | StartError::Damaged(why) | StartError::Failed(why)) => {
            Err(format!("{why}. `tantalum drive serve --salvage` starts it with what is left"))
        }
    };
    verified.map_err(|why| {
        out::note(format_args!("a drive does not start: {why}"));
        IoError::Failed("the drive does not start")
    })
}
