//! The errors of the protocol.

use crate::volume::Failure;
use tantalum_device::IoError;

/// An error in a reply. The values are the protocol's, whatever the system's are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// The export is read-only.
    Permission = 1,
    /// The command failed.
    Io = 5,
    /// The server has no memory for the request.
    NoMemory = 12,
    /// The request is invalid.
    Invalid = 22,
    /// No space is left, or a write ends beyond the end.
    NoSpace = 28,
    /// The request is too large for one chunk.
    Overflow = 75,
    /// The client wanted it only if it is fast, and it is not.
    NotSupported = 95,
    /// The server is stopping.
    Shutdown = 108,
}

impl Errno {
    /// The number in the reply.
    pub fn code(self) -> u32 {
        self as u32
    }
}

impl From<&IoError> for Errno {
    fn from(error: &IoError) -> Errno {
        match error {
            IoError::Invalid(_) => Errno::Invalid,
            IoError::NoSpace => Errno::NoSpace,
            IoError::ReadOnly => Errno::Permission,
            IoError::PowerLost
            | IoError::Uncorrectable(_)
            | IoError::Failed(_)
            | IoError::Poisoned => Errno::Io,
        }
    }
}

impl From<&Failure> for Errno {
    fn from(failure: &Failure) -> Errno {
        match failure {
            Failure::Device(error) => error.into(),
            Failure::NotFast => Errno::NotSupported,
            Failure::NoMemory => Errno::NoMemory,
        }
    }
}
