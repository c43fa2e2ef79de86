//! Every byte that the cache keeps on its devices. Pure code; all numbers are little-endian.
//!
//! ```text
//! flash device
//!      0 superblock                       `superblock.rs`
//!  16384 superblock again
//!  32768 slots of segments                `segment.rs`
//!      . slots of batches: the ring       `descriptor.rs`
//! slow device (where the store keeps a label)
//!      0 label                            `label.rs`
//!  16384 label again
//!   1 MiB the pages
//! slow device that was adopted, of p pages of P bytes: as many as its bytes less 1 MiB have room for
//!      0 the pages
//!    p P label
//!      . label again, 16384 behind the first one
//! ```
//!
//! 1. What is decoded was written by the encoder, whole, for this cache: each piece has a checksum
//!    over all of its bytes that mean something. Descriptors and segments have the tag of their cache,
//!    superblocks and labels its identity.
//! 2. Any bytes can be decoded: the answer is then that there is nothing. No length is believed
//!    before it fits what was read.

mod bytes;
mod descriptor;
mod label;
mod layout;
mod mode;
mod segment;
mod superblock;

pub use bytes::Uuid;
pub(crate) use bytes::{COPIES, Found, HEAD_BYTES, checksum, tag};
pub(crate) use descriptor::{Descriptor, Frame, Part, Tombstone};
pub(crate) use label::{Label, LabelState};
pub use layout::page_sizes;
pub(crate) use layout::{BATCHES_MIN, FRAMES_MAX, Layout, Older, is_page};
pub use mode::Mode;
pub(crate) use segment::{Segment, SegmentBatch};
pub(crate) use superblock::{Superblock, decode_newest, write_order};
