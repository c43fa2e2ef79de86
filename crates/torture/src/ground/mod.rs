//! The storage below the database: a mounted drive, or a plain directory.

pub mod drive;

use crate::ground::drive::{FileSystem, MountedDrive, Outage};
use crate::program::{Interrupt, ProgramError, Stopwatch};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Blow {
    /// The plug of the drive is pulled.
    Cut,
    /// The process that runs the drive is killed (SIGKILL).
    Kill,
}

/// The storage below the database.
pub enum Ground {
    /// A mounted drive in an image.
    Drive(Box<MountedDrive>),
    /// A directory of this machine. Here a blow kills the database's processes only: that tests the
    /// ledger and its check, but no drive.
    Plain(PathBuf),
}

/// Why the storage is not available.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// The drive or its file system does not come back, so its content is lost.
    #[error("{0}")]
    Gone(String),
    /// A helper program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// How long a restart took.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// Until the drive took commands, by its own clock, if it reported that.
    pub drive: Option<Duration>,
    /// Until the directory could be used again, in real time.
    pub whole: Duration,
}

impl Ground {
    /// The directory for the database's files.
    pub fn directory(&self) -> &Path {
        match self {
            Ground::Drive(drive) => drive.mountpoint(),
            Ground::Plain(directory) => directory,
        }
    }

    /// The file system on the drive, after [`Ground::begin`].
    pub fn file_system(&self) -> Option<FileSystem> {
        match self {
            Ground::Drive(drive) => Some(drive.file_system()),
            Ground::Plain(_) => None,
        }
    }

    /// Makes it usable for the first time.
    pub fn begin(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        match self {
            Ground::Drive(drive) => drive.begin(interrupt),
            Ground::Plain(_) => Ok(()),
        }
    }

    /// Cuts the power. With `when_full` it first waits a moment until the drive's buffer has many
    /// pages.
    pub fn strike(
        &mut self,
        blow: Blow,
        when_full: bool,
        interrupt: &Interrupt,
    ) -> Result<Outage, GroundError> {
        match self {
            Ground::Drive(drive) => drive.strike(blow, when_full, interrupt),
            Ground::Plain(_) => Ok(Outage::default()),
        }
    }

    /// Restores the power. Call it when no process has files of it open.
    pub fn restore(&mut self, interrupt: &Interrupt) -> Result<Return, GroundError> {
        let watch = Stopwatch::begin();
        let drive = match self {
            Ground::Drive(drive) => drive.restore(interrupt)?,
            Ground::Plain(_) => None,
        };
        Ok(Return { drive, whole: watch.read() })
    }

    /// Ends in good order. Returns who kept the drive mounted, if it was left to them.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        match self {
            Ground::Drive(drive) => drive.end(),
            Ground::Plain(_) => Ok(None),
        }
    }
}
