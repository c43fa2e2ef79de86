//! A flash array in an image file.
//!
//! 1. The file is memory that outlives the process (see `mapped`). A process that is killed at any
//!    instruction leaves the array as it was at a moment of the run: the newest one on which any
//!    task has acted. Operations that were under way at that moment are still under way when the
//!    image is opened. They are then torn or ended as at any power loss.
//! 2. An array in an image behaves like one in memory, at the same times.
//! 3. A file that is damaged, not an image, of a newer format, of another length or in use is
//!    refused, with an error that says what is wrong and where. Payload and out-of-band words are
//!    not checked then. Damage there can only make pages wrong. [`ImageFile`] keeps a checksum of
//!    each page ([`crate::NandArray::verify`]).
//! 4. A crash of the host may leave any mixture of what was stored since the last
//!    [`ImageFile::sync`]. The next process that opens the image gets an error, unless it asks for
//!    such images ([`Opening::host_crashed`], `marks`). A page that can be read then has the
//!    content that was programmed in the erase cycle that its unit's word names, since its checksum
//!    includes that cycle (`cells`).
//! 5. With [`Opening::host_sync`] a crash of the host leaves the same as a process that was killed
//!    at the last durable moment (`sync`).
//!
//! `docs/image.md` describes the format byte by byte.

mod book;
mod cells;
mod file;
mod format;
mod host;
mod mapped;
mod marks;
mod sync;

pub(crate) use book::{Book, ImageClock};
pub(crate) use cells::ImageStore;
pub use file::{ImageFile, Opening};
pub use format::{IMAGE_VERSION, ImageSpec};
pub use mapped::Region;
#[cfg(feature = "stores")]
pub use mapped::{Change, fail_syncs, watch_changes, watch_stores};
pub(crate) use sync::Syncer;
pub use sync::Ticket;

use crate::GeometryError;
use std::io;

/// Why an image cannot be made or used. All offsets are bytes from the beginning of the file.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The host's file system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What failed.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of this name exists.
    #[error("there is a file of this name already; it can be replaced if that is meant")]
    Exists,
    /// Another process has it open.
    #[error("the image is in use by another process")]
    InUse,
    /// The file is not an image.
    #[error("not an image: it does not begin with \"TANTALUM\" at offset 0")]
    Foreign,
    /// The image has an unknown format.
    #[error(
        "the image has format {version} (offset 8); this program knows formats 1 to {IMAGE_VERSION}"
    )]
    Newer {
        /// The version of the format.
        version: u32,
    },
    /// The file does not have the right length.
    #[error("the image has {have} bytes, and should have {want}: it was cut off or added to")]
    Length {
        /// Bytes there.
        have: u64,
        /// Bytes by its header.
        want: u64,
    },
    /// The host crashed, or was switched off, while a process had it.
    #[error(
        "the host crashed, or was switched off, while a process had the image: any part of what was \
         stored last may be missing. Restore a copy of it, or open it with --host-crashed, which \
         verifies all of it"
    )]
    HostCrashed,
    /// An operation needs what only newer formats have.
    #[error("the image has format {version}, which cannot be synced: that needs format 2")]
    Older {
        /// The version of the format.
        version: u32,
    },
    /// The content is not valid.
    #[error("the image is damaged at offset {offset}: {what}")]
    Damaged {
        /// The offset in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The image would be too large.
    #[error("the {what} is {have}; an image has at most {most}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The value.
        have: u64,
        /// The largest valid value.
        most: u64,
    },
    /// The geometry is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}
