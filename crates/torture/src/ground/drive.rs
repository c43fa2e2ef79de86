//! A drive in an image, mounted by another process of this program. Its power can be cut.
//!
//! 1. The process that runs the drive was started here, and no other process is ever killed.
//! 2. After a [`MountedDrive`] is dropped, nothing of it is mounted or attached.

use crate::ground::{Blow, GroundError};
use crate::leftovers::{self, Cache};
use crate::program::{Interrupt, ProgramError, Running, Stopwatch, command, run};
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tantalum_export::control::{Client, ClientError, CutReport, RestoreReport, socket_beside};

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// XFS, with blocks of this many bytes. An aligned page of that length is one request to the
    /// drive.
    Xfs(u32),
    /// ext4, with blocks of 4 KiB. It may split longer pages.
    Ext4,
}

impl FileSystem {
    /// The file system in words.
    pub fn words(self) -> String {
        match self {
            FileSystem::Xfs(block) => format!("XFS with blocks of {} KiB", block >> 10),
            FileSystem::Ext4 => "ext4 with blocks of 4 KiB".to_string(),
        }
    }

    /// Whether a page of this length always reaches the drive in one piece.
    pub fn keeps_whole(self, page_bytes: u32) -> bool {
        match self {
            FileSystem::Xfs(block) => block >= page_bytes,
            FileSystem::Ext4 => page_bytes <= 4096,
        }
    }
}

/// The drive, and how it is mounted.
#[derive(Clone, Debug)]
pub struct DriveOptions {
    /// The program `tantalum`.
    pub program: PathBuf,
    /// A directory for the image.
    pub directory: PathBuf,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// A preset, or a file with a design.
    pub design: String,
    /// Its capacity, as `tantalum drive create` takes it.
    pub capacity: String,
    /// The file system on it.
    pub fs: FileSystem,
    /// Whether to fall back to ext4 if the kernel does not mount `fs`.
    pub or_ext4: bool,
    /// Whether flushes reach the drive. If not, the kernel is told that the drive's cache needs
    /// none.
    pub barriers: bool,
    /// Real seconds for each second of the drive's clock.
    pub time_scale: f64,
    /// The drive's seed.
    pub seed: u64,
}

/// The outcome of a power loss for the drive.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outage {
    /// The answer of its control socket. `None` after a kill.
    pub cut: Option<CutReport>,
}

impl Outage {
    /// The outcome in words, with a comma at the end.
    pub fn words(&self) -> String {
        let Some(cut) = &self.cut else { return String::new() };
        let values = &cut.values;
        let mut text = match values.count("buffered_pages") {
            Some(pages) => format!("{pages} pages in the buffer, "),
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

/// Bounds in real time. Everything should be much quicker.
const MADE: Duration = Duration::from_secs(60);
const READY: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(180);
const ENDED: Duration = Duration::from_secs(30);
/// The drive's process prints this if somebody keeps it mounted.
const IN_USE: &str = " is in use: ";
/// From this many pages in the buffer on, they are those of a checkpoint and not of a commit.
const FULL_PAGES: u64 = 32;
/// How long a cut waits for a full buffer.
const SOON: Duration = Duration::from_millis(500);

/// A drive in an image.
pub struct MountedDrive {
    options: DriveOptions,
    image: PathBuf,
    process: Option<Running>,
    /// The cache setting of its disk. It must be restored before the disk is detached.
    cache: Option<Cache>,
}

impl MountedDrive {
    /// A drive that is not created yet.
    pub fn new(options: DriveOptions) -> MountedDrive {
        let image = options.directory.join("drive.img");
        MountedDrive { options, image, process: None, cache: None }
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.options.mountpoint
    }

    /// Its file system.
    pub fn file_system(&self) -> FileSystem {
        self.options.fs
    }

    /// Creates image and file system, and mounts it.
    pub fn begin(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        self.create(interrupt)?;
        match self.mount(interrupt) {
            Err(GroundError::Gone(_)) if self.options.or_ext4 && !interrupt.is_set() => {
                self.options.fs = FileSystem::Ext4;
                self.create(interrupt)?;
                self.mount(interrupt)
            }
            mounted => mounted,
        }
    }

    fn create(&self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let o = &self.options;
        let mut create = command(&o.program, ["drive", "create", "--force", "--design"]);
        create.args([&o.design, "--capacity", &o.capacity]).arg(&self.image);
        run("tantalum drive create", &mut create, MADE, interrupt)?;
        Ok(())
    }

    fn mount(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let o = &self.options;
        let mut mount = command(&o.program, ["drive", "mount"]);
        mount.arg(&self.image).arg(&o.mountpoint);
        mount.args(["--time-scale", &o.time_scale.to_string(), "--seed", &o.seed.to_string()]);
        match o.fs {
            FileSystem::Xfs(block) => {
                mount.args(["--fs", "xfs", "--fs-block", &format!("{}KiB", block >> 10)])
            }
            FileSystem::Ext4 => mount.args(["--fs", "ext4"]),
        };
        let mut process = Running::start("tantalum drive mount", &mut mount, Stdio::piped())?;
        let (line, lines) = channel();
        if let Some(out) = process.child().stdout.take() {
            #[allow(clippy::disallowed_methods, reason = "the edge: a pipe is read while we wait")]
            std::thread::spawn(move || {
                for said in BufReader::new(out).lines().map_while(Result::ok) {
                    // Keeps reading, so that the process can keep writing.
                    let _ = line.send(said);
                }
            });
        }
        let began = Stopwatch::begin();
        loop {
            match lines.recv_timeout(Duration::from_millis(20)) {
                Ok(said) if said.starts_with("ready:") => break,
                Ok(_) => {}
                Err(_) if interrupt.is_set() => {
                    self.process = Some(process);
                    return Err(ProgramError::Interrupted.into());
                }
                Err(RecvTimeoutError::Timeout) if began.read() < READY => {}
                Err(RecvTimeoutError::Timeout) => {
                    process.kill();
                    let why = format!("it is not mounted after {} s", READY.as_secs());
                    return Err(GroundError::Gone(format!("{why}: {}", process.said())));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    process.kill();
                    return Err(GroundError::Gone(format!(
                        "it is not mounted: {}",
                        process.said()
                    )));
                }
            }
        }
        self.process = Some(process);
        self.set_barriers()
    }

    /// Tells the kernel whether the disk below the file system has a cache that needs flushes. This
    /// is set either way, since the kernel remembers the setting of an earlier user of the same
    /// disk.
    fn set_barriers(&mut self) -> Result<(), GroundError> {
        let cache = Cache::of(&self.options.mountpoint).map_err(GroundError::Gone)?;
        cache.needs_flushes(self.options.barriers).map_err(GroundError::Gone)?;
        self.cache = Some(cache);
        Ok(())
    }

    /// Cuts the power. With `when_full` it first waits a moment until the drive's buffer has many
    /// pages.
    pub fn strike(
        &mut self,
        blow: Blow,
        when_full: bool,
        interrupt: &Interrupt,
    ) -> Result<Outage, GroundError> {
        match blow {
            Blow::Cut => {
                let pull = move |client: &mut Client| {
                    let began = Stopwatch::begin();
                    while when_full
                        && client
                            .stats()?
                            .values
                            .count("buffer.used")
                            .is_some_and(|used| used < FULL_PAGES)
                        && began.read() < SOON
                    {}
                    client.cut()
                };
                Ok(Outage { cut: Some(self.ask(interrupt, pull)?) })
            }
            Blow::Kill => {
                if let Some(mut process) = self.process.take() {
                    process.kill();
                }
                Ok(Outage::default())
            }
        }
    }

    /// Restores the power. Returns the time until the drive took commands, by its own clock, if it
    /// reported that.
    pub fn restore(&mut self, interrupt: &Interrupt) -> Result<Option<Duration>, GroundError> {
        self.cache = None;
        let ready = if self.process.is_some() {
            let report: RestoreReport = self.ask(interrupt, |client| client.restore(false))?;
            self.set_barriers()?;
            Some(report.ready_ns)
        } else {
            self.mount(interrupt)?;
            self.ask(interrupt, Client::status)?.last_restore.map(|report| report.ready_ns)
        };
        Ok(ready.map(Duration::from_nanos))
    }

    /// Asks the control socket, with a bound.
    fn ask<T: Send + 'static>(
        &mut self,
        interrupt: &Interrupt,
        question: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, GroundError> {
        let socket = socket_beside(&self.image);
        let (answer, answers) = channel();
        #[allow(clippy::disallowed_methods, reason = "the edge: a blocking question with a bound")]
        std::thread::spawn(move || {
            let asked = Client::connect(&socket).and_then(|mut client| question(&mut client));
            // After the bound nobody waits for the answer.
            let _ = answer.send(asked);
        });
        let began = Stopwatch::begin();
        loop {
            match answers.recv_timeout(Duration::from_millis(20)) {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(e)) => return Err(GroundError::Gone(self.and_said(&e.to_string()))),
                Err(_) if interrupt.is_set() => return Err(ProgramError::Interrupted.into()),
                Err(_) if began.read() < ANSWER => {}
                Err(_) => {
                    return Err(GroundError::Gone(
                        "its control socket does not answer".to_string(),
                    ));
                }
            }
        }
    }

    /// Adds the output of the drive's process, if that has ended.
    fn and_said(&mut self, why: &str) -> String {
        let Some(process) = &mut self.process else { return why.to_string() };
        match process.runs() {
            true => why.to_string(),
            false => format!("{why}; its process has ended: {}", process.said()),
        }
    }

    /// Ends in good order. If another process keeps the mount in use, it does not wait: that
    /// process keeps a dead mount, and the return value says who it is, in the words of the drive's
    /// process.
    pub fn end(&mut self) -> Result<Option<String>, GroundError> {
        self.cache = None;
        let Some(mut process) = self.process.take() else { return Ok(None) };
        process.terminate();
        if process.ended_within(ENDED, &Interrupt::default())?.is_none() {
            // A second signal leaves the mount to its users.
            process.terminate();
            let status = process.wait(ENDED, &Interrupt::default())?;
            let said = process.said();
            if said.contains(IN_USE) {
                return Ok(Some(said));
            }
            // The mount is not in use, so this is a failure of the process itself.
            let program = "tantalum drive mount".to_string();
            return Err(ProgramError::Failed { program, status, said }.into());
        }
        let status = process.wait(ENDED, &Interrupt::default())?;
        match status.success() {
            true => Ok(None),
            false => {
                let (program, said) = ("tantalum drive mount".to_string(), process.said());
                Err(ProgramError::Failed { program, status, said }.into())
            }
        }
    }
}

impl Drop for MountedDrive {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.end();
        self.process = None;
        leftovers::remove(&self.image);
    }
}
