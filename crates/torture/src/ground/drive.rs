//! A drive in an image, mounted by another process of this program. Its power can be cut.

use crate::ground::mounted::{FileSystem, MountOptions, Mounted};
use crate::ground::{Blow, GroundError};
use crate::program::{Interrupt, ProgramError, Stopwatch, command, run};
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;
use tantalum_export::control::{Client, CutReport};

/// The drive, and how it is mounted.
#[derive(Clone, Debug)]
pub struct DriveOptions {
    /// A preset, or a file with a design.
    pub design: String,
    /// Its capacity, as `tantalum drive create` takes it.
    pub capacity: String,
    /// Whether to fall back to ext4 if the kernel does not mount the file system of `mount`.
    pub or_ext4: bool,
    /// How it is mounted.
    pub mount: MountOptions,
}

/// Bounds in real time. Everything should be much quicker.
const MADE: Duration = Duration::from_secs(60);
/// From this many pages in the buffer on, they are those of a checkpoint and not of a commit.
const FULL_PAGES: u64 = 32;
/// How long a cut waits for a full buffer.
const SOON: Duration = Duration::from_millis(500);

/// Makes the image of a blank drive, in place of what is there.
pub(super) fn create(
    program: &Path,
    design: &str,
    capacity: impl Display,
    image: &Path,
    interrupt: &Interrupt,
) -> Result<(), ProgramError> {
    let mut create = command(program, ["drive", "create", "--force", "--design"]);
    create.args([design, "--capacity", &capacity.to_string()]).arg(image);
    run("tantalum drive create", &mut create, MADE, interrupt).map(drop)
}

/// A drive in an image.
pub struct MountedDrive {
    design: String,
    capacity: String,
    or_ext4: bool,
    mounted: Mounted,
}

impl MountedDrive {
    /// A drive that is not created yet.
    pub fn new(options: DriveOptions) -> MountedDrive {
        let DriveOptions { design, capacity, or_ext4, mount } = options;
        MountedDrive { design, capacity, or_ext4, mounted: Mounted::new(mount) }
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mounted.options.mountpoint
    }

    /// Its file system.
    pub fn file_system(&self) -> FileSystem {
        self.mounted.options.fs
    }

    /// Creates image and file system, and mounts it.
    pub fn begin(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        self.create(interrupt)?;
        match self.mounted.mount(interrupt) {
            Err(GroundError::Gone(_)) if self.or_ext4 && !interrupt.is_set() => {
                self.mounted.options.fs = FileSystem::Ext4;
                self.create(interrupt)?;
                self.mounted.mount(interrupt)
            }
            mounted => mounted,
        }
    }

    fn create(&self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let MountOptions { program, source, .. } = &self.mounted.options;
        Ok(create(program, &self.design, &self.capacity, source, interrupt)?)
    }

    /// Strikes. With `when_full` it first waits a moment until the drive's buffer has many pages.
    /// `ready` is called right before the blow.
    pub fn strike(
        &mut self,
        blow: Blow,
        when_full: bool,
        ready: impl FnOnce() + Send + 'static,
        interrupt: &Interrupt,
    ) -> Result<Option<CutReport>, GroundError> {
        let full = move |client: Option<&mut Client>| {
            let began = Stopwatch::begin();
            if let Some(client) = client.filter(|_| when_full) {
                while began.read() < SOON {
                    let used = client.stats()?.values.count("buffer.used");
                    if used.is_none_or(|used| used >= FULL_PAGES) {
                        break;
                    }
                }
            }
            ready();
            Ok(())
        };
        self.mounted.strike(blow, full, interrupt)
    }

    /// Restores the power. Returns the time until the drive took commands, by its own clock, if it
    /// reported that.
    pub fn restore(&mut self, interrupt: &Interrupt) -> Result<Option<Duration>, GroundError> {
        self.mounted.restore(interrupt)
    }

    /// Ends in good order, as [`Mounted::end`] does.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        self.mounted.end()
    }
}
