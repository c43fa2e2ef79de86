//! Other programs: started, waited for with a bound, and ended on every way out.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the edge: programs are started, and waited for in real time"
)]

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Real time since it was begun.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins.
    pub fn begin() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// How long ago that is.
    pub fn read(self) -> Duration {
        self.0.elapsed()
    }
}

/// Set when the user wants an end. Everything here that waits looks at it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that is set by setting this.
    pub fn new(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(flag)
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps in real time; ends early if it is set.
    pub fn sleep(&self, time: Duration) {
        let began = Stopwatch::begin();
        while let Some(left) = time.checked_sub(began.read()).filter(|_| !self.is_set()) {
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}

/// Why a program did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It failed.
    #[error("{program} failed ({status}): {said}")]
    Failed {
        /// Which.
        program: String,
        /// How.
        status: ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// It took too long, and was killed.
    #[error("{program} did not end within {seconds} s: {said}")]
    TooLong {
        /// Which.
        program: String,
        /// How long was waited.
        seconds: u64,
        /// The end of what it said.
        said: String,
    },
    /// The user wants an end.
    #[error("interrupted")]
    Interrupted,
}

/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How much of what a program says on standard error is kept: the last of it.
const KEPT: usize = 4000;

/// A program that runs; killed when dropped.
pub struct Running {
    name: String,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts a program in a process group of its own, so that a Ctrl-C is ours alone to act on.
    /// Its standard output is `stdout`; what it says on standard error is kept.
    pub fn start(
        name: &str,
        command: &mut Command,
        stdout: Stdio,
    ) -> Result<Running, ProgramError> {
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).process_group(0);
        let mut child = command
            .spawn()
            .map_err(|error| ProgramError::Start { program: name.to_string(), error })?;
        let errors = child.stderr.take().map(|from| thread::spawn(move || tail(from)));
        Ok(Running { name: name.to_string(), child, errors })
    }

    /// The child itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end, with a bound; then it is killed.
    pub fn wait(
        &mut self,
        bound: Duration,
        interrupt: &Interrupt,
    ) -> Result<ExitStatus, ProgramError> {
        if let Some(status) = self.ended_within(bound, interrupt)? {
            return Ok(status);
        }
        self.kill();
        let (program, said) = (self.name.clone(), self.said());
        Err(ProgramError::TooLong { program, seconds: bound.as_secs(), said })
    }

    /// Waits for its end, but no longer than this; `None`: it still runs.
    ///
    /// # Errors
    /// [`ProgramError::Interrupted`]; then it is killed.
    pub fn ended_within(
        &mut self,
        bound: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<ExitStatus>, ProgramError> {
        let began = Stopwatch::begin();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Ok(Some(status));
            }
            if interrupt.is_set() {
                self.kill();
                return Err(ProgramError::Interrupted);
            }
            if began.read() > bound {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It has not been waited for, so that its number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The last of what it said on standard error. To be asked after its end.
    pub fn said(&mut self) -> String {
        let all = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        all.trim().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last of what comes.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..n]);
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Runs a program to its end; gives the last of what it printed. What it prints goes on standard
/// output, and into no file that it may leave open in another process: a server that it starts
/// must not hold ours.
pub fn run(
    name: &str,
    command: &mut Command,
    bound: Duration,
    interrupt: &Interrupt,
) -> Result<String, ProgramError> {
    let mut running = Running::start(name, command, Stdio::piped())?;
    let out = running.child().stdout.take().map(|from| thread::spawn(move || tail(from)));
    let status = running.wait(bound, interrupt)?;
    let printed = out.and_then(|out| out.join().ok()).unwrap_or_default();
    if status.success() {
        return Ok(printed);
    }
    let said = [printed.trim().to_string(), running.said()].join(" ").trim().to_string();
    Err(ProgramError::Failed { program: name.to_string(), status, said })
}

/// A command with arguments.
pub fn command<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    words: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_says_so_and_what_hangs_is_killed() {
        let never = Interrupt::default();
        let bound = Duration::from_secs(60);
        assert_eq!(run("echo", &mut command("echo", ["there"]), bound, &never).unwrap(), "there\n");
        let failed = run("sh", &mut command("sh", ["-c", "echo why >&2; exit 3"]), bound, &never);
        assert!(failed.unwrap_err().to_string().ends_with("3): why"));
        let hangs = run("sleep", &mut command("sleep", ["1000"]), Duration::ZERO, &never);
        assert!(matches!(hangs, Err(ProgramError::TooLong { .. })));
        let none = run("none", &mut command("/no/such/program", [""; 0]), bound, &never);
        assert!(matches!(none, Err(ProgramError::Start { .. })));
        let over = Interrupt::new(Arc::new(AtomicBool::new(true)));
        let ended = run("sleep", &mut command("sleep", ["1000"]), bound, &over);
        assert!(matches!(ended, Err(ProgramError::Interrupted)));
    }

    #[test]
    fn only_the_last_of_much_is_kept() {
        let text = "x".repeat(10_000) + "end";
        let kept = tail(text.as_bytes());
        assert!(kept.len() == KEPT && kept.ends_with("xend"));
    }
}
