//! Errors of the file layer.

use tantalum_device::{AtomicError, Block, IoError};

/// Why a call of the file layer failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// There is no file of that name.
    #[error("no file called \"{0}\"")]
    NotFound(String),
    /// There is a file of that name already.
    #[error("a file called \"{0}\" exists already")]
    Exists(String),
    /// A name must have 1 to 255 bytes, none of them NUL.
    #[error("bad file name: {0}")]
    BadName(&'static str),
    /// There is no room; nothing was changed. Deleting files always works.
    #[error("no space left: {0}; delete files, or format a larger device")]
    NoSpace(&'static str),
    /// The device does not hold a file layer.
    #[error("the device holds no file layer: format it first")]
    NotFormatted,
    /// The device, or the options, do not suit the file layer.
    #[error("cannot keep files here: {0}")]
    Unsuitable(String),
    /// The content of the device cannot come from a correct file layer on a device that keeps its
    /// promises.
    #[error("the file layer is corrupt at {at}: {what}; restore it from a copy")]
    Corrupt {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: Block,
    },
    /// A metadata write or a flush failed, or a write was abandoned half way: the state of the
    /// device is unknown, so nothing is written any more.
    #[error("the file layer takes no writes since one of its own failed: mount it again")]
    Poisoned,
    /// An atomic group is larger than the limit of the device or of the layer; nothing was changed.
    #[error(transparent)]
    Group(AtomicError),
    /// The device failed a command.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl From<AtomicError> for FilesError {
    fn from(e: AtomicError) -> FilesError {
        match e {
            AtomicError::Io(e) => FilesError::Io(e),
            other => FilesError::Group(other),
        }
    }
}

pub(crate) fn name_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
