//! What can go wrong with a log volume: one line that says what, where, and what to do.

use crate::{LogError, Lsn, OpenError};
use std::fmt;
use tantalum_device::IoError;

/// The identity of a log, written as `tantalum log inspect` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Why a log volume was not formatted or does not start. Unless it is an I/O error, nothing of the
/// backing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The power was cut meanwhile.
    #[error("the power was cut before the volume had started: start it again")]
    PowerLost,
    /// An option or a device does not suit.
    #[error("{0}")]
    Unsuitable(String),
    /// The log could not be made or opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A command of the backing failed.
    #[error("{backing}: {error}: see to the device, and start the volume again")]
    Backing {
        /// The backing.
        backing: String,
        /// Its error.
        error: IoError,
    },
    /// The backing is in use.
    #[error("\"{backing}\" ends with {what}: format it with `force` to destroy that")]
    NotBlank {
        /// The backing.
        backing: String,
        /// What is there.
        what: &'static str,
    },
    /// The backing has no label.
    #[error(
        "\"{backing}\" is not the backing of this log, or has another size: it has no label at its end, \
         where that of log {log} is expected: name the backing itself, give it its old size, or \
         restore it from a copy"
    )]
    NoLabel {
        /// The backing.
        backing: String,
        /// The log.
        log: Identity,
    },
    /// No label is whole.
    #[error(
        "\"{0}\" has no label that is whole: restore it from a copy made while the power was off"
    )]
    LabelDamaged(String),
    /// A newer program has written the label.
    #[error(
        "\"{backing}\" has a label of version {version}: use a newer program, or another backing"
    )]
    Newer {
        /// The backing.
        backing: String,
        /// The version of its label.
        version: u32,
    },
    /// The backing belongs to another log.
    #[error(
        "\"{backing}\" is the backing of log {other}, and the devices are of log {log}: name the \
         backing and the devices of one log"
    )]
    OtherLog {
        /// The backing.
        backing: String,
        /// The log to which it belongs.
        other: Identity,
        /// The log of the devices.
        log: Identity,
    },
    /// The backing has another size than when it was formatted.
    #[error(
        "\"{backing}\" had room for {was} bytes of the volume and has {is}: give it its old size"
    )]
    Resized {
        /// The backing.
        backing: String,
        /// Bytes of the volume when it was formatted.
        was: u64,
        /// Bytes for which there is room.
        is: u64,
    },
    /// The backing is older than the log.
    #[error(
        "\"{backing}\" is at generation {generation} of the volume and the log at {number}: it is an \
         older copy; name the backing itself"
    )]
    OlderBacking {
        /// The backing.
        backing: String,
        /// Its generation.
        generation: u64,
        /// That of the log.
        number: u64,
    },
    /// The log is older than the backing.
    #[error(
        "the log is at generation {number} of the volume and \"{backing}\" at {generation}: its \
         devices are older copies; name the devices themselves"
    )]
    OlderLog {
        /// The backing.
        backing: String,
        /// Its generation.
        generation: u64,
        /// That of the log.
        number: u64,
    },
    /// Something else is in the log.
    #[error("the record at {0} is not one of a log volume: name the devices of the volume")]
    Record(Lsn),
}

impl VolumeError {
    /// Whether the power went, and nothing is wrong.
    pub(crate) fn is_power_loss(&self) -> bool {
        match self {
            VolumeError::PowerLost => true,
            VolumeError::Open(OpenError::Io { error, .. })
            | VolumeError::Log(LogError::Io { error, .. })
            | VolumeError::Backing { error, .. } => *error == IoError::PowerLost,
            _ => false,
        }
    }
}

impl From<IoError> for VolumeError {
    /// Of the link to the volume itself: it fails only with the power.
    fn from(_: IoError) -> VolumeError {
        VolumeError::PowerLost
    }
}
