//! A drive in an image file (`image`).

use crate::Drive;
use crate::design::Design;
use crate::firmware::Firmware;
use crate::image::mirror::{Mirror, left_behind};
use crate::image::{DriveImageError, spec};
use std::path::Path;
use std::rc::Rc;
use tantalum_device::Payload;
use tantalum_nand::{IMAGE_VERSION, ImageFile, NandArray};
use tantalum_rt::Rt;

impl Drive {
    /// Makes an image of a blank drive. `serial`: a number that no other drive has. `replace`: a
    /// file that is there already is overwritten, unless another process has it as an image.
    ///
    /// # Errors
    /// [`DriveImageError`], if the drive cannot be built or the file not be made.
    pub fn create_image(
        path: &Path,
        design: &Design,
        payload: Payload,
        serial: [u8; 16],
        replace: bool,
    ) -> Result<ImageFile, DriveImageError> {
        Ok(ImageFile::create(path, &spec(design, payload, serial, IMAGE_VERSION)?, replace)?)
    }

    /// The drive in an image file. It is off, or dying if the last process that had it was killed;
    /// [`tantalum_device::PowerCycle::off`] and [`Drive::start`] wait until it is off. Only this
    /// process can use the image until the drive, and everything made of it, is dropped.
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
        // The part of this dump that was written already is written anew.
        for (unit, page) in &firmware.state.dump.borrow().ready {
            nand.take_back(*unit, *page);
        }
        drive.cut_left_behind(firmware);
        Ok(drive)
    }

    /// The same for an image whose protected memory is refused ([`DriveImageError::Memory`]). That
    /// memory is dropped for good, as if there had been no charge for the dump, and what only it
    /// had is lost. [`Drive::salvage`] starts the drive from flash.
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

    /// The first page read since the last call whose checksum does not hold: its erase unit, and
    /// its number there. Its content cannot be read. A restart may have taken it for a torn
    /// program, and have gone back to older data.
    pub fn take_damaged_page(&self) -> Option<(u32, u32)> {
        self.array().take_damaged().map(|at| (at.unit.0, at.page))
    }
}
