//! A drive in an image file: it outlives the process, however that ends.
//!
//! 1. What the flash array has is in the file (`tantalum_nand`, image), and what the emergency dump
//!    needs of protected memory in a part of it (`mirror`).
//! 2. A process that ends without cutting the power, or is killed at any instruction, has cut it
//!    at that moment. What a cut does after its first moment is done by the next process that opens
//!    the image: what was under way is torn, or ends while the capacitors last, and the dump is
//!    written, with the energy of the design. Then the drive is off.
//! 3. A process that is killed while it writes that dump has changed nothing: the dump is begun
//!    anew, with all of its energy.
//! 4. There is no other way to start: the next start is an ordinary one.

pub(crate) mod mirror;

use crate::design::layout::Layout;
use crate::format::words::PageHead;
use crate::image::mirror::{COUNTS, Shape};
use crate::{Design, DesignError};
use tantalum_device::Payload;
use tantalum_nand::{ImageError, ImageFile, ImageSpec};

/// Why there is no drive in this image.
#[derive(Debug, thiserror::Error)]
pub enum DriveImageError {
    /// The file.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The design that it is to have, or has.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The image is not one of its design.
    #[error("the image does not fit the design that it names: {what}")]
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// What a process that was killed left of protected memory cannot be.
    #[error("the image is damaged at offset {offset}, in protected memory: {what}")]
    Memory {
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
}

/// Programs and erases that a drive has under way at a time, at most: those of a dump, or of making
/// its area ready; and of each die those of its flusher, of collectors, and of the map log.
fn flights(design: &Design, layout: &Layout) -> u32 {
    let rows = design.geometry.unit_pages() / design.geometry.planes;
    let dump = layout.dump_units.saturating_mul(rows).saturating_add(layout.dump_zone);
    let others = 16 * design.geometry.dies() + design.map.write_points + 64;
    dump.saturating_add(others)
}

/// What an image of such a drive is to have.
pub(crate) fn spec(
    design: &Design,
    payload: Payload,
    serial: [u8; 16],
    version: u32,
) -> Result<ImageSpec, DesignError> {
    let layout = design.check_with(payload)?;
    let protected = match design.is_protected() {
        true => Shape::of(design, &layout, payload, version).len,
        false => 0,
    };
    Ok(ImageSpec {
        version,
        serial,
        geometry: design.geometry.clone(),
        payload,
        oob_words: PageHead::words(design.geometry.page_sectors()),
        flights: flights(design, &layout),
        protected,
        design: design.to_toml(),
    })
}

/// Whether the last process that had this drive was killed while it had power, so that its dump is
/// still to be written.
#[must_use]
pub fn is_dump_owed(image: &ImageFile) -> bool {
    let protected = image.protected();
    !protected.is_empty() && protected.word(COUNTS) != 0
}

#[cfg(test)]
mod tests;
