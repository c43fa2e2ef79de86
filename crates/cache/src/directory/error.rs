//! What can go wrong: one line that says what, where, and what to do.

use super::layout::{Shape, ShapeError};

/// Why memory is not used as a directory. Nothing in it was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// It does not begin at a cache line.
    #[error("the memory of a directory begins at a multiple of 64 bytes: align it")]
    Misaligned,
    /// There is not enough of it.
    #[error("the memory is too small: {have} bytes, and {need} are needed")]
    TooSmall {
        /// Its bytes.
        have: usize,
        /// The bytes it should have.
        need: usize,
    },
    /// There is no directory of such a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The first batch has no such number.
    #[error("batch {0} cannot be the first one: it is not from a ring")]
    First(u64),
    /// There is no directory in it.
    #[error("there is no directory in the memory: format it first")]
    Blank,
    /// A newer version wrote it.
    #[error("the directory has version {0}, and this program knows {known}: use a newer one", known = super::header::VERSION)]
    Newer(u64),
    /// Its header does not fit together.
    #[error("the header of the directory is damaged: format the memory, and rebuild it from flash")]
    Damaged,
    /// It has another shape than expected.
    #[error(
        "the directory has {} frames in batches of {}, and {} in batches of {} are expected: it is of \
         another cache", found.frames, found.batch, expected.frames, expected.batch
    )]
    OtherShape {
        /// The shape it has.
        found: Shape,
        /// The shape it should have.
        expected: Shape,
    },
}

/// Why a version of a page was not staged. The directory is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The directory has a newer version of this page.
    #[error(
        "the cache has LSN {have} of the page, which is newer than {given}: an old version was staged"
    )]
    Older {
        /// LSN of the version it has.
        have: u64,
        /// LSN of the version that was given.
        given: u64,
    },
    /// All frames of the batch are taken.
    #[error("the batch is full: write it, and reserve the next one")]
    Full,
    /// The batch takes no more pages, or belongs to another owner now.
    #[error("the batch is closed: reserve another one")]
    Closed,
}

/// Why a batch was not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// Every frame of the ring is in use.
    #[error("the ring is full: release the front batch first")]
    Full,
}

/// Why a step of a batch was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It belongs to another owner, or is over.
    #[error("batch {0} is not of this owner: another one adopted it, or it is over")]
    NotYours(u64),
    /// It still takes pages.
    #[error("batch {0} is open: close it, and write what it has, before it is published")]
    Open(u64),
    /// It was being abandoned when its owner died.
    #[error("batch {0} was being given up: abandon it")]
    GivenUp(u64),
}

/// Why the front batch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontError {
    /// The ring is empty.
    #[error("the ring is empty: there is nothing to replace")]
    Empty,
    /// It is not durable yet.
    #[error(
        "the front batch {0} is being written: publish it first, or adopt it if its owner is dead"
    )]
    Unsettled(u64),
    /// Somebody else replaces it.
    #[error("the front batch {0} is being replaced by another owner: try again")]
    Busy(u64),
}

/// Why the frames of the front batch were not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// A frame has the only current version of a dirty page.
    #[error("frame {0} is dirty: write it to the slow store, flush that, and mark it clean")]
    Dirty(u32),
    /// What replaces a version in it is not durable yet.
    #[error("batch {0} replaces a page of the front batch and is not durable: publish it first")]
    Waits(u64),
    /// The batch belongs to another owner, or is over.
    #[error("the front batch {0} is not of this owner: another one took it over, or it is over")]
    NotYours(u64),
}
