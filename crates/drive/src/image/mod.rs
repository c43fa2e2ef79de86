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
use crate::drive::Drive;
use crate::firmware::Firmware;
use crate::format::words::PageHead;
use crate::image::mirror::{COUNTS, Mirror, Shape, left_behind};
use crate::{Design, DesignError};
use std::path::Path;
use std::rc::Rc;
use tantalum_device::Payload;
use tantalum_nand::{IMAGE_VERSION, ImageError, ImageFile, ImageSpec, NandArray};
use tantalum_rt::Rt;

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
    #[error("the image is not one of the design that it tells of: {what}")]
    Mismatch {
        /// What differs.
        what: &'static str,
    },
    /// What a process that was killed left of protected memory can not be.
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

fn spec(
    design: &Design,
    payload: Payload,
    serial: [u8; 16],
    version: u32,
) -> Result<ImageSpec, DesignError> {
    let layout = design.check()?;
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

impl Drive {
    /// Makes an image of a blank drive. `serial`: a number that no other drive has. `replace`: a
    /// file that is there already is overwritten, unless another process has it as an image.
    ///
    /// # Errors
    /// [`DriveImageError`], if the drive can not be built or the file not be made.
    pub fn create_image(
        path: &Path,
        design: &Design,
        payload: Payload,
        serial: [u8; 16],
        replace: bool,
    ) -> Result<ImageFile, DriveImageError> {
        Ok(ImageFile::create(path, &spec(design, payload, serial, IMAGE_VERSION)?, replace)?)
    }

    /// The drive in an image file, without power, or on the way to that if the process that had it
    /// was killed: [`tantalum_device::PowerCycle::off`] waits until it is there, as does
    /// [`Drive::start`]. The image is this process's alone until the drive, and all that was made
    /// of it, is dropped.
    ///
    /// # Errors
    /// [`DriveImageError`] says what is wrong with the image, and where.
    pub fn on_image(rt: &Rt, path: &Path) -> Result<Drive, DriveImageError> {
        Drive::on_file(rt, ImageFile::open(path)?)
    }

    /// The same for an image that this process has open. Of one that was opened as a view
    /// ([`ImageFile::open_view`]) the file does not change.
    ///
    /// # Errors
    /// [`DriveImageError`] says what is wrong with the image, and where.
    pub fn on_file(rt: &Rt, image: ImageFile) -> Result<Drive, DriveImageError> {
        let had = image.spec();
        let design = Design::from_toml(&had.design)?;
        let spec = spec(&design, had.payload, had.serial, had.version)?;
        let differ = [
            (spec.geometry != had.geometry, "geometry"),
            (spec.oob_words != had.oob_words, "words beside a page"),
            (spec.flights != had.flights, "room for operations under way"),
            (spec.protected != had.protected, "room for protected memory"),
        ];
        if let Some((_, what)) = differ.into_iter().find(|d| d.0) {
            return Err(DriveImageError::Mismatch { what });
        }
        let layout = design.check()?;
        let (design, protected) = (Rc::new(design), image.protected());
        let nand = Rc::new(NandArray::on_image(rt, &image, &design.timing)?);
        let offset = image.protected_offset();
        let drive = Drive::in_image(rt, &design, layout, nand.clone(), image);
        let memory = (&protected, spec.version);
        let left: Option<Firmware> = match protected.is_empty() {
            true => None,
            false => left_behind(rt, &design, drive.layout(), &nand, drive.counters(), memory)
                .map_err(|(at, what)| DriveImageError::Memory { offset: offset + at, what })?,
        };
        let Some(firmware) = left else {
            nand.power_off();
            return Ok(drive);
        };
        // What was written of this dump already is written anew.
        for (unit, page) in &firmware.dump.borrow().ready {
            nand.take_back(*unit, *page);
        }
        drive.cut_left_behind(firmware);
        Ok(drive)
    }

    /// The same for an image whose protected memory is refused ([`DriveImageError::Memory`]): that
    /// is forgotten, for ever, as if there had been no charge for the dump. What only it had is
    /// lost; [`Drive::salvage`] starts the drive with what is on flash.
    ///
    /// # Errors
    /// [`DriveImageError`] says what else is wrong with the image, and where.
    pub fn on_damaged_file(rt: &Rt, image: ImageFile) -> Result<Drive, DriveImageError> {
        Mirror::clear(&image.protected());
        Drive::on_file(rt, image)
    }

    /// The image that the drive is in; `None` if it is in memory.
    pub fn image(&self) -> Option<&ImageFile> {
        self.file()
    }

    /// The first page read since this was asked that is not what was programmed, as its checksum in
    /// the image says: its erase unit, and its number there. What it held can not be read; a restart
    /// may have taken it for a program that the power tore, and have gone back to what was before.
    pub fn take_damaged_page(&self) -> Option<(u32, u32)> {
        self.array().take_damaged().map(|at| (at.unit.0, at.page))
    }
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
