//! The flash array: geometry, the rules of the medium, timing, wear, and what a power loss does to
//! operations in flight.
//!
//! Facts and reference values: Kang et al., "Durable Write Cache in Flash Memory
//! SSD for Relational and NoSQL Databases" (SIGMOD 2014), and data sheets.
//!
//! # Invariants
//!
//! 1. A page is programmed once after an erase. The pages of a block are programmed in ascending
//!    order, without gaps. Erases are by erase unit. An operation that breaks a rule is refused
//!    with [`OpError::Rule`] and changes nothing.
//! 2. A read of an erased page gives [`PageState::Erased`], and a read of a torn page gives
//!    [`PageState::Uncorrectable`].
//! 3. A die does one operation at a time, in order of issue, except that reads may go ahead
//!    ([`Timing::read_priority`]), and that reads of different planes may run side by side
//!    ([`Timing::independent_reads`]). A channel moves one transfer at a time. An operation on several
//!    planes is one operation.
//! 4. An operation belongs to the array from its issue: the future only observes it, and dropping
//!    the future changes nothing.
//! 5. At [`NandArray::power_off`], an operation that has ended keeps its effect, and one that has
//!    not begun has none. One in between, suspended or not, is torn: each page of a program is
//!    uncorrectable or complete (by the seed), and the unit of an erase is unusable until it is
//!    erased again. Nothing else changes. A task that outlives the loss and waits for an operation
//!    that had not ended gets [`OpError::NoPower`].
//! 6. A read sees the effects of operations that were issued before it, and nothing of a page that
//!    is not programmed.
//! 7. Cells in memory and cells in an image file obey the same rules at the same times. An image
//!    outlives the process, however the process ends (`image`).
//!
//! An *erase unit* here is the same block of every plane of one die: it is erased
//! in one operation, and holds `planes × pages` pages, numbered row by row.

mod array;
mod channel;
mod flight;
mod geometry;
mod image;
mod medium;
mod outage;
mod schedule;
mod store;
mod timing;

pub use array::wait::{Programmed, Reading};
pub use array::{NandArray, NandStats, OpError, ReadRequest};
pub use flight::{Image, OpKind};
pub use geometry::{Geometry, GeometryError, PageAddr, SECTOR_BYTES, Unit};
#[cfg(feature = "stores")]
pub use image::{Change, fail_syncs, watch_changes, watch_stores};
pub use image::{IMAGE_VERSION, ImageError, ImageFile, ImageSpec, Opening, Region, Ticket};
pub use outage::{Activity, Outstanding, Turn};
pub use schedule::OpRecord;
pub use store::PageState;
pub use timing::Timing;
