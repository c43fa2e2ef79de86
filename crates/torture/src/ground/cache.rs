//! The volume over a flash cache, mounted by another process of this program: its flash device is a
//! drive in an image, its slow device a file. Its power can be cut, and with write-through its flash
//! device can be lost.

use crate::ground::drive::create;
use crate::ground::mounted::{FileSystem, MountOptions, Mounted};
use crate::ground::{Blow, GroundError};
use crate::program::{Interrupt, command, run};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tantalum_export::control::CutReport;

/// The cache, and how its volume is mounted.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The design of its flash device: a preset, or a file.
    pub design: String,
    /// Bytes of the slow device.
    pub capacity: u64,
    /// Bytes of a page: that of the database.
    pub page_bytes: u32,
    /// Write-through; else write-back.
    pub through: bool,
    /// How it is mounted. The source is the description; image and file lie beside it.
    pub mount: MountOptions,
}

/// Of the flash device the cache has so many bytes: few, so that pages leave it. (Few drives are so
/// small: an image has as much as its design makes of it.)
pub const FLASH_BYTES: u64 = 128 << 20;
/// A bound in real time. Everything should be much quicker.
const DONE: Duration = Duration::from_secs(120);

/// The mounted volume over a cache.
pub struct MountedCache {
    options: CacheOptions,
    mounted: Mounted,
    /// The next start makes a new cache, which has the whole flash device.
    is_lost: bool,
}

impl MountedCache {
    /// A cache that is not created yet.
    pub fn new(options: CacheOptions) -> MountedCache {
        let mounted = Mounted::new(options.mount.clone());
        MountedCache { options, mounted, is_lost: false }
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.options.mount.mountpoint
    }

    /// Its file system.
    pub fn file_system(&self) -> FileSystem {
        self.options.mount.fs
    }

    fn flash(&self) -> PathBuf {
        self.options.mount.source.with_extension("flash")
    }

    /// Makes the image of a blank flash device, in place of what is there.
    fn blank_flash(&self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let program = &self.options.mount.program;
        Ok(create(program, &self.options.design, FLASH_BYTES, &self.flash(), interrupt)?)
    }

    /// Creates devices, cache and file system, and mounts it.
    pub fn begin(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        self.blank_flash(interrupt)?;
        let CacheOptions { capacity, page_bytes, through, mount, .. } = &self.options;
        let mode = if *through { "through" } else { "back" };
        let mut make = command(&mount.program, ["cache", "create", "--mode", mode]);
        make.args(["--page", &page_bytes.to_string(), "--slow-size", &capacity.to_string()]);
        make.arg(&mount.source).arg("--flash").arg(self.flash());
        make.arg("--slow").arg(mount.source.with_extension("slow"));
        run("tantalum cache create", &mut make, DONE, interrupt)?;
        self.make_small(interrupt)?;
        self.mounted.mount(interrupt)
    }

    /// Gives the cache its size, whether it is served or not.
    fn make_small(&self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let mut resize = command(&self.options.mount.program, ["cache", "resize"]);
        resize.arg(&self.options.mount.source).args(["--flash-size", &FLASH_BYTES.to_string()]);
        run("tantalum cache resize", &mut resize, DONE, interrupt)?;
        Ok(())
    }

    /// Strikes.
    pub fn strike(
        &mut self,
        blow: Blow,
        interrupt: &Interrupt,
    ) -> Result<Option<CutReport>, GroundError> {
        self.mounted.strike(blow, |_: Option<&mut _>| Ok(()), interrupt)
    }

    /// Restores the power.
    pub fn restore(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        self.mounted.restore(interrupt)?;
        if self.is_lost {
            self.make_small(interrupt)?;
            self.is_lost = false;
        }
        Ok(())
    }

    /// After a blow a blank flash device takes the place of the one that is there. The volume is not
    /// served after that, and is mounted anew by [`MountedCache::restore`].
    pub fn lose(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        if let Some(users) = self.mounted.end()? {
            return Err(GroundError::Gone(format!("the cache cannot be unmounted: {users}")));
        }
        self.is_lost = true;
        self.blank_flash(interrupt)
    }

    /// Ends in good order, as [`Mounted::end`] does.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        self.mounted.end()
    }
}
