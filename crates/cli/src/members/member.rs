//! A member of a log: a file, a block device, a drive in an image, or a model in memory.

use crate::out;
use tantalum_device::{File, IoError, LiveBox, PowerCycle, StartError, either_device};
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
    ($on:expr, $it:ident => $call:expr) => {
        match $on {
            Member::File($it) => $call,
            Member::Drive($it) => $call,
            Member::Model($it) => $call,
        }
    };
}

either_device!(MemberLink: File, Drive, Model);

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
        each!(self, b => b.cut());
    }

    async fn off(&self) {
        each!(self, b => b.off().await);
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
        each!(self, b => b.set_bytes(bytes).await)
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
