//! A flash array in an image file.
//!
//! 1. The file is memory that outlives the process (see `mapped`): killed at any instruction, it
//!    leaves the array as it was at a moment of the run, the newest that anybody has acted on.
//!    What was under way at that moment is still so when the image is opened, and is then torn or
//!    ended like at any power loss.
//! 2. An array in an image does what one in memory does, at the same times.
//! 3. A file that is damaged, not an image, of a newer format, of another length or in use is
//!    refused, with what is wrong and where. What is not looked at then (payload, out-of-band
//!    words) can make pages wrong, and nothing else; [`ImageFile`] keeps a checksum of each
//!    ([`crate::NandArray::verify`]).
//! 4. A host that crashes may leave anything since the last [`ImageFile::sync`]. The next process
//!    that opens the image gets an error, unless it asks for such images
//!    ([`Opening::host_crashed`], `marks`). A page that can be read then is what was programmed in
//!    the erase cycle that its unit's word names, since its checksum is of that cycle, too
//!    (`cells`).
//! 5. With [`Opening::host_sync`] a crash of the host leaves what a process leaves that was killed
//!    at the last durable moment (`sync`).
//!
//! The format is drawn byte by byte in `docs/image.md`.

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
        /// What was to be done.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// There is such a file already.
    #[error("there is a file of this name already; it can be replaced if that is meant")]
    Exists,
    /// Another process has it open.
    #[error("the image is in use by another process")]
    InUse,
    /// It is no image.
    #[error("not an image: it does not begin with \"TANTALUM\" at offset 0")]
    Foreign,
    /// It has another format.
    #[error(
        "the image has format {version} (offset 8); this program knows formats 1 to {IMAGE_VERSION}"
    )]
    Newer {
        /// Which.
        version: u32,
    },
    /// It is not as long as it should be.
    #[error("the image has {have} bytes, and should have {want}: it was cut off or added to")]
    Length {
        /// Bytes there.
        have: u64,
        /// Bytes that its header tells of.
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
        /// Which.
        version: u32,
    },
    /// Its content is invalid.
    #[error("the image is damaged at offset {offset}: {what}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// It would be too large.
    #[error("the {what} is {have}; an image has at most {most}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How much.
        have: u64,
        /// How much there may be.
        most: u64,
    },
    /// The geometry is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}
