//! The files and block devices of a log, opened.
//!
//! 1. No two paths are one file, by links or otherwise.
//! 2. All are opened, and so locked, before anything is written.

use crate::members::Description;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tantalum_device::{File, FileSettings};
use tantalum_log::{LogDevice, LogVolume, OpenOptions, VolumeOptions};
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Rt, Runtime};

/// What a log consists of.
pub struct Devices {
    pub array: Vec<LogDevice<File>>,
    pub archive: Option<LogDevice<File>>,
    pub backing: Option<File>,
}

impl Devices {
    /// Opens the devices of a description; for reading only, if so asked.
    ///
    /// # Errors
    /// Which device cannot be used, why, and what to do, in a line.
    pub fn open(rt: &Rt, of: &Description, read_only: bool) -> Result<Devices, String> {
        distinct(of)?;
        let settings = FileSettings { read_only, keep_room: true, ..FileSettings::default() };
        let open = |path: &PathBuf| open(rt, path, &settings);
        let named = |path: &PathBuf| Ok(LogDevice::new(path.display().to_string(), open(path)?));
        Ok(Devices {
            array: of.devices.iter().map(named).collect::<Result<_, String>>()?,
            archive: of.archive.as_ref().map(named).transpose()?,
            backing: of.backing.as_ref().map(open).transpose()?,
        })
    }

    /// All devices of the log itself.
    pub fn of_log(self) -> Vec<LogDevice<File>> {
        self.array.into_iter().chain(self.archive).collect()
    }

    /// The volume over them, without power.
    ///
    /// # Errors
    /// Why there can be none, in a line.
    pub fn volume(
        self,
        rt: &Rt,
        of: &Description,
        salvage: bool,
        degraded: bool,
    ) -> Result<LogVolume<File, File>, String> {
        let (Some(backing), Some(path)) = (self.backing, &of.backing) else {
            return Err("the log has no backing, and so no volume: create one with --backing PATH"
                .to_string());
        };
        let pair = |d: LogDevice<File>| (d.name, d.device);
        let array = self.array.into_iter().map(pair).collect();
        let log = OpenOptions { salvage, degraded, ..OpenOptions::default() };
        let backing_name = path.display().to_string();
        let options = VolumeOptions { backing_name, log, ..VolumeOptions::default() };
        LogVolume::new(rt, array, self.archive.map(pair), backing, options).map_err(in_words)
    }
}

fn open(rt: &Rt, path: &Path, settings: &FileSettings) -> Result<File, String> {
    File::open(rt, path, settings)
        .or_else(|e| match e {
            // Memory file systems have no direct I/O.
            tantalum_device::FileError::NoDirectIo(_) => {
                File::open(rt, path, &FileSettings { buffered: true, ..settings.clone() })
            }
            e => Err(e),
        })
        .map_err(|e| e.to_string())
}

/// No two paths are one file.
#[allow(clippy::disallowed_methods, reason = "the edge: the files that the user names")]
fn distinct(of: &Description) -> Result<(), String> {
    let mut known: Vec<((bool, u64, u64), &PathBuf)> = Vec::new();
    for path in of.paths() {
        if path.to_string_lossy().starts_with("model:") {
            let path = path.display();
            return Err(format!("{path}: models cannot be members yet: name a file or device"));
        }
        let is = std::fs::metadata(path).map_err(|e| {
            format!("{}: {e}: name a file or block device that is there", path.display())
        })?;
        let identity = match is.file_type().is_block_device() {
            true => (true, is.rdev(), 0),
            false => (false, is.dev(), is.ino()),
        };
        if let Some((_, other)) = known.iter().find(|(known, _)| *known == identity) {
            let (path, other) = (path.display(), other.display());
            return Err(format!("{other} and {path} are the same device: name each once"));
        }
        known.push((identity, path));
    }
    Ok(())
}

/// An error of the log in the words of the command line.
pub fn in_words(error: impl std::fmt::Display) -> String {
    let mut text = error.to_string();
    for (of_library, of_command) in [
        ("create the log with `force`", "create it with --force"),
        ("format it with `force`", "create it with --force"),
        ("open it with `salvage`", "use --salvage"),
        ("open the log without it, with `degraded`", "use --degraded to go on without it"),
        ("with `degraded` if", "with --degraded if"),
    ] {
        text = text.replace(of_library, of_command);
    }
    text
}

/// A runtime on the wall clock.
///
/// # Errors
/// Why there is none, in a line.
pub fn runtime() -> Result<Runtime, String> {
    Runtime::wall_time(1, WallOptions::default())
        .map_err(|e| format!("the wall clock does not start: {e}"))
}
