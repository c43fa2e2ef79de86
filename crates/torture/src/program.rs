//! Other programs: they are started, waited for with a bound, and killed in the end, whatever
//! happens.

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

/// Measures real time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins.
    pub fn begin() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since [`Stopwatch::begin`].
    pub fn read(self) -> Duration {
        self.0.elapsed()
    }
}

/// Set when the user interrupts the run. Every wait here looks at it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// An interrupt that is set through this flag.
    pub fn new(flag: Arc<AtomicBool>) -> Interrupt {
        Interrupt(flag)
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps in real time. Returns early if it is set.
    pub fn sleep(&self, time: Duration) {
        let began = Stopwatch::begin();
        while let Some(left) = time.checked_sub(began.read()).filter(|_| !self.is_set()) {
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It cannot be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It failed.
    #[error("{program} failed ({status}): {said}")]
    Failed {
        /// The program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// The last of its output.
        said: String,
    },
    /// It took too long, and was killed.
    #[error("{program} did not end within {seconds} s: {said}")]
    TooLong {
        /// The program.
        program: String,
        /// The bound in seconds.
        seconds: u64,
        /// The last of its output.
        said: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

/// The interval at which a wait looks again.
const LOOK: Duration = Duration::from_millis(5);

/// How many bytes of a program's output are kept: the last ones.
const KEPT: usize = 4000;

/// A running program. It is killed on drop.
pub struct Running {
    name: String,
    child: Child,
    errors: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts a program in a process group of its own, so that only this process handles a Ctrl-C.
    /// Its standard output is `stdout`. The end of its standard error is kept.
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

    /// Waits for its end. It is killed after `bound`.
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

    /// Waits for its end, but at most for `bound`; `None` if it still runs.
    ///
    /// # Errors
    /// [`ProgramError::Interrupted`]. Then it was killed.
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
            // The child was not waited for, so its number is not reused.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The end of its standard error. Call it after the program's end.
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

/// Reads to the end, and keeps the last bytes.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..n]);
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Runs a program to its end. Returns the end of its output. The output is read through a pipe: a
/// server that it starts must not hold this process's own output open.
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
