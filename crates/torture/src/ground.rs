//! What the database lies on: a drive that is mounted, or a plain directory.

use crate::drive::{FileSystem, MountedDrive, Outage};
use crate::program::{Interrupt, ProgramError, Stopwatch};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Blow {
    /// The plug of the drive is pulled.
    Cut,
    /// The process that is the drive is killed (SIGKILL).
    Kill,
}

/// What the database lies on.
pub enum Ground {
    /// A drive in an image, mounted.
    Drive(Box<MountedDrive>),
    /// A directory of this machine. There a blow hits the database's processes alone: that
    /// exercises the ledger and its check, and no drive.
    Plain(PathBuf),
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// The drive, or what is on it, does not come back: what was on it is lost.
    #[error("{0}")]
    Gone(String),
    /// A program that should help did not.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// What a return took.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// Of the drive: until it took commands, by its own clock; if it said so.
    pub drive: Option<Duration>,
    /// Until the directory could be used again, in real time.
    pub whole: Duration,
}

impl Ground {
    /// Where the database may put its files.
    pub fn directory(&self) -> &Path {
        match self {
            Ground::Drive(drive) => drive.mountpoint(),
            Ground::Plain(directory) => directory,
        }
    }

    /// What is on the drive, once it has begun.
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

    /// The power goes: now, or, `when_full`, with much in the drive's buffer if that comes soon.
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

    /// The power returns. To be called when no process has files of it open.
    pub fn restore(&mut self, interrupt: &Interrupt) -> Result<Return, GroundError> {
        let watch = Stopwatch::begin();
        let drive = match self {
            Ground::Drive(drive) => drive.restore(interrupt)?,
            Ground::Plain(_) => None,
        };
        Ok(Return { drive, whole: watch.read() })
    }

    /// Ends in good order; who kept a drive mounted, if it was left to them.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        match self {
            Ground::Drive(drive) => drive.end(),
            Ground::Plain(_) => Ok(None),
        }
    }
}
