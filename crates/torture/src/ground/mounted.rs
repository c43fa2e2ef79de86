//! A box that another process of this program has mounted: a drive in an image, or the volume over a
//! flash log or a flash cache. Its power can be cut.
//!
//! 1. The process that runs the box was started here, and no other process is ever killed.
//! 2. After a [`Mounted`] is dropped, nothing of it is mounted or attached.

use crate::ground::{Blow, GroundError};
use crate::leftovers::{self, Cache};
use crate::program::{Interrupt, ProgramError, Running, Stopwatch, command};
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
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

/// What is mounted, and how.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The program `tantalum`.
    pub program: PathBuf,
    /// Its command: `drive`, `log` or `cache`.
    pub noun: &'static str,
    /// The image of the drive, or the description of the log or cache.
    pub source: PathBuf,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The file system on it.
    pub fs: FileSystem,
    /// Whether each write to a file waits until it is durable with the metadata that it needs, as if
    /// the program had asked for that (the mount option `sync`).
    pub sync: bool,
    /// Whether flushes reach the box. If not, the kernel is told that its cache needs none.
    pub barriers: bool,
    /// Real seconds for each second of its clock.
    pub time_scale: f64,
    /// Its seed.
    pub seed: u64,
}

/// Bounds in real time. Everything should be much quicker.
const READY: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(180);
const ENDED: Duration = Duration::from_secs(30);
/// The box's process prints this if somebody keeps it mounted.
const IN_USE: &str = " is in use: ";

/// A mounted box, or one that is not mounted yet.
pub struct Mounted {
    /// How it is mounted.
    pub options: MountOptions,
    process: Option<Running>,
    /// The cache setting of its disk. It must be restored before the disk is detached.
    cache: Option<Cache>,
}

impl Mounted {
    /// A box that is not mounted yet.
    pub fn new(options: MountOptions) -> Mounted {
        Mounted { options, process: None, cache: None }
    }

    /// Mounts it, with a new file system if it is blank.
    pub fn mount(&mut self, interrupt: &Interrupt) -> Result<(), GroundError> {
        let o = &self.options;
        let mut mount = command(&o.program, [o.noun, "mount"]);
        mount.arg(&o.source).arg(&o.mountpoint);
        mount.args(["--time-scale", &o.time_scale.to_string(), "--seed", &o.seed.to_string()]);
        match o.fs {
            FileSystem::Xfs(block) => {
                mount.args(["--fs", "xfs", "--fs-block", &format!("{}KiB", block >> 10)])
            }
            FileSystem::Ext4 => mount.args(["--fs", "ext4"]),
        };
        if o.sync {
            mount.args(["--fs-options", "sync"]);
        }
        let mut process = Running::start(&self.name(), &mut mount, Stdio::piped())?;
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

    /// Cuts its power, or kills its process (SIGKILL). `ready` is called right before that, for a
    /// cut with the client that will cut. Returns the answer to a cut.
    pub fn strike(
        &mut self,
        blow: Blow,
        ready: impl FnOnce(Option<&mut Client>) -> Result<(), ClientError> + Send + 'static,
        interrupt: &Interrupt,
    ) -> Result<Option<CutReport>, GroundError> {
        match blow {
            Blow::Cut => {
                let pull = |client: &mut Client| {
                    ready(Some(client))?;
                    client.cut()
                };
                self.ask(interrupt, pull).map(Some)
            }
            Blow::Kill => {
                ready(None).map_err(|e| GroundError::Gone(e.to_string()))?;
                if let Some(mut process) = self.process.take() {
                    process.kill();
                }
                Ok(None)
            }
        }
    }

    /// Restores the power, and mounts it again. Returns the time until it took commands, by its own
    /// clock, if it reported that.
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

    fn name(&self) -> String {
        format!("tantalum {} mount", self.options.noun)
    }

    /// Asks the control socket, with a bound.
    pub fn ask<T: Send + 'static>(
        &mut self,
        interrupt: &Interrupt,
        question: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, GroundError> {
        let socket = socket_beside(&self.options.source);
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

    /// Adds the output of its process, if that has ended.
    fn and_said(&mut self, why: &str) -> String {
        let Some(process) = &mut self.process else { return why.to_string() };
        match process.runs() {
            true => why.to_string(),
            false => format!("{why}; its process has ended: {}", process.said()),
        }
    }

    /// Ends in good order. If another process keeps the mount in use, it does not wait: that
    /// process keeps a dead mount, and the return value says who it is, in the words of the box's
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
            let program = self.name();
            return Err(ProgramError::Failed { program, status, said }.into());
        }
        let status = process.wait(ENDED, &Interrupt::default())?;
        match status.success() {
            true => Ok(None),
            false => {
                let (program, said) = (self.name(), process.said());
                Err(ProgramError::Failed { program, status, said }.into())
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.end();
        self.process = None;
        leftovers::remove(&self.options.source);
    }
}
