//! The storage below the database: a mounted drive, a mounted cache volume or a plain directory for
//! its data, and a mounted log volume for its write-ahead log, if that is in a place of its own.
//!
//! 1. A blow hits drive and log volume at about one moment, in any order.

pub mod cache;
pub mod drive;
pub mod log;
pub mod mounted;

use crate::ground::cache::MountedCache;
use crate::ground::drive::MountedDrive;
use crate::ground::log::MountedLog;
use crate::ground::mounted::FileSystem;
use crate::program::{Interrupt, ProgramError, Stopwatch};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use tantalum_device::counted;
use tantalum_export::control::CutReport;
use tantalum_rt::Stream;

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
pub struct Ground {
    /// For the data.
    pub data: Data,
    /// For the write-ahead log, if that is not among the data.
    pub log: Option<Box<MountedLog>>,
}

/// The storage of the data.
pub enum Data {
    /// A mounted drive in an image.
    Drive(Box<MountedDrive>),
    /// A mounted cache volume. It has no write-ahead log in a place of its own.
    Cache(Box<MountedCache>),
    /// A directory of this machine. Here a blow kills the database's processes only: that tests the
    /// ledger and its check, but no drive.
    Plain(PathBuf),
}

/// The outcome of a power loss for the storage.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outage {
    /// The answer of its control socket. `None` after a kill.
    pub cut: Option<CutReport>,
    /// That of the log volume, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_cut: Option<CutReport>,
}

impl Outage {
    /// The outcome in words, with a comma at the end.
    pub fn words(&self) -> String {
        let Some(cut) = &self.cut else { return String::new() };
        let values = &cut.values;
        let mut text = match values.count("buffered_pages") {
            Some(pages) => format!("{} in the buffer, ", counted(pages, "page", "pages")),
            None => String::new(),
        };
        let joules = |name| values.number(name);
        if let (Some(drawn), Some(there)) =
            (joules("discharge.joules_drawn"), joules("discharge.joules_there"))
        {
            text += &format!("{drawn:.3} of {there:.3} J, ");
        } else if cut.lost_blocks_at_most > 0 {
            text += &format!("up to {} lost, ", cut.lost_blocks_at_most);
        }
        text
    }
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
    /// Until the directories could be used again, in real time.
    pub whole: Duration,
}

/// Drive and log volume are struck at most this long apart.
const APART: Duration = Duration::from_millis(4);

impl Ground {
    /// A plain directory of this machine.
    pub fn plain(directory: PathBuf) -> Ground {
        Ground { data: Data::Plain(directory), log: None }
    }

    /// The directory for the database's files.
    pub fn directory(&self) -> &Path {
        match &self.data {
            Data::Drive(drive) => drive.mountpoint(),
            Data::Cache(cache) => cache.mountpoint(),
            Data::Plain(directory) => directory,
        }
    }

    /// The file system on the drive, after [`Ground::begin`].
    pub fn file_system(&self) -> Option<FileSystem> {
        match &self.data {
            Data::Drive(drive) => Some(drive.file_system()),
            Data::Cache(cache) => Some(cache.file_system()),
            Data::Plain(_) => None,
        }
    }

    /// Makes it usable for the first time.
    pub fn begin(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        if let Some(log) = &mut self.log {
            log.begin(interrupt)?;
        }
        match &mut self.data {
            Data::Drive(drive) => drive.begin(interrupt),
            Data::Cache(cache) => cache.begin(interrupt),
            Data::Plain(_) => Ok(()),
        }
    }

    /// Strikes. Every second time, on the average, it first waits a moment until much is in the
    /// drive's buffer.
    pub fn strike(
        &mut self,
        blow: Blow,
        random: &mut Stream,
        interrupt: &Interrupt,
    ) -> Result<Outage, GroundError> {
        let when_full = random.below(2) == 0;
        let (drive, log) = match (&mut self.data, &mut self.log) {
            (Data::Plain(_), _) => return Ok(Outage::default()),
            (Data::Cache(cache), _) => {
                let cut = cache.strike(blow, interrupt)?;
                return Ok(Outage { cut, log_cut: None });
            }
            (Data::Drive(drive), None) => {
                let cut = drive.strike(blow, when_full, || {}, interrupt)?;
                return Ok(Outage { cut, log_cut: None });
            }
            (Data::Drive(drive), Some(log)) => (drive, log),
        };
        let mut apart = || Duration::from_micros(random.below(APART.as_micros() as u64 + 1));
        let (before_drive, before_log) = (apart(), apart());
        let ((now, when), clock) = (channel(), interrupt.clone());
        let ready = move || {
            // The log volume waits for this, or for the drive's failure, which drops the channel.
            let _ = now.send(());
            clock.sleep(before_drive);
        };
        #[allow(clippy::disallowed_methods, reason = "the edge: two blows at one moment")]
        let (cut, log_cut) = std::thread::scope(|scope| {
            let of_drive = scope.spawn(|| drive.strike(blow, when_full, ready, interrupt));
            let _ = when.recv();
            let log_cut = log.strike(blow, before_log, interrupt);
            (of_drive.join(), log_cut)
        });
        let cut = cut.map_err(|_| GroundError::Gone("a thread of this program failed".into()))?;
        Ok(Outage { cut: cut?, log_cut: log_cut? })
    }

    /// Restores the power. Call it when no process has files of it open. With `lose` a device of
    /// the log or the flash device of the cache is lost and replaced before.
    pub fn restore(&mut self, lose: bool, interrupt: &Interrupt) -> Result<Return, GroundError> {
        let watch = Stopwatch::begin();
        if let Some(log) = &mut self.log {
            if lose {
                log.lose(interrupt).map_err(of_log)?;
            }
            log.restore(interrupt).map_err(of_log)?;
        }
        let drive = match &mut self.data {
            Data::Drive(drive) => drive.restore(interrupt)?,
            Data::Cache(cache) => {
                if lose {
                    cache.lose(interrupt)?;
                }
                cache.restore(interrupt)?;
                None
            }
            Data::Plain(_) => None,
        };
        Ok(Return { drive, whole: watch.read() })
    }

    /// Ends in good order. Returns who kept the drive mounted, if it was left to them.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        let of_data = match &mut self.data {
            Data::Drive(drive) => drive.end(),
            Data::Cache(cache) => cache.end(),
            Data::Plain(_) => Ok(None),
        };
        let of_log = self.log.as_mut().map_or(Ok(None), |log| log.end().map_err(of_log));
        Ok(of_data?.or(of_log?))
    }
}

/// An error that says that it is the log's.
fn of_log(e: GroundError) -> GroundError {
    match e {
        GroundError::Gone(why) => GroundError::Gone(format!("the log volume: {why}")),
        e => e,
    }
}
