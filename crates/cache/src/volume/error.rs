//! Why a cache volume was not made or does not start, and what its commands say.

use crate::flash::{CacheError, FLASH, OpenError, SLOW};
use tantalum_device::{Block, IoError};

/// Why a volume was not formatted or does not start. Unless it is an I/O error, nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The power was cut meanwhile.
    #[error("the power was cut before the volume had started")]
    PowerLost,
    /// The cache could not be made or opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The dirty pages of an earlier time of write-back did not get to the slow store.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl VolumeError {
    pub(crate) fn flash(error: IoError) -> VolumeError {
        OpenError::Io { device: FLASH, error }.into()
    }

    pub(crate) fn slow(error: IoError) -> VolumeError {
        OpenError::Io { device: SLOW, error }.into()
    }

    /// Whether the power went, and nothing is wrong.
    pub(crate) fn is_power_loss(&self) -> bool {
        match self {
            VolumeError::PowerLost => true,
            VolumeError::Open(OpenError::Io { error, .. })
            | VolumeError::Cache(CacheError::Flash(error) | CacheError::Slow(error)) => {
                *error == IoError::PowerLost
            }
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

/// What a command says of an error of the cache; `blocks` are those of a page.
pub(crate) fn io_error(error: CacheError, blocks: u64) -> IoError {
    match error {
        CacheError::Stopped(_) => IoError::Poisoned,
        CacheError::Damaged { page, .. } => IoError::Uncorrectable(Block(page * blocks)),
        CacheError::Flash(error) | CacheError::Slow(error) => error,
        CacheError::Full { .. } => {
            IoError::Failed("the slow device refuses pages, and the cache has no room for others")
        }
        CacheError::Invalid(_) | CacheError::LogFirst { .. } | CacheError::Older { .. } => {
            IoError::Invalid("the cache does not take these pages")
        }
    }
}
