//! Programs of the system that work on the mount.
//!
//! 1. Everything that may wait for the drive runs in a process of its own, because this process
//!    must answer for the drive. A thread of this process that waited for the drive in the kernel
//!    would keep a killed process, and its descriptors, for ever.
//! 2. They are not in the terminal's process group: Ctrl-C reaches only this process.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tantalum_rt::Rt;

/// What to install where a program is missing (Debian's names).
const PACKAGES: [(&str, &str); 7] = [
    ("mkfs.xfs", "xfsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("fusermount3", "fuse3"),
];

/// How a program ended.
pub struct Ended {
    /// Its exit code; if it was killed, 128 plus the signal.
    pub code: i32,
    /// What it printed on standard output.
    pub out: String,
    /// What it printed on standard error.
    pub err: String,
}

impl Ended {
    /// Its output, if it went well.
    pub fn ok(self, what: &str) -> Result<String, String> {
        match self.code {
            0 => Ok(self.out),
            // The first line is the reason; behind it come hints and usages.
            code => {
                let why = self.err.lines().map(str::trim).find(|line| !line.is_empty());
                Err(format!("{what} failed ({code}): {}", why.unwrap_or("it gave no reason")))
            }
        }
    }
}

/// Runs a program to its end, without holding up the thread.
///
/// # Errors
/// A line, if it cannot be started.
pub async fn run(rt: &Rt, program: &str, arguments: &[&str]) -> Result<Ended, String> {
    let mut command = command(program, arguments);
    let (post, mut inbox) = rt.inbox_of(1);
    let started = thread(move || {
        // The inbox is gone only if nothing waits for the result.
        let _ = post.post(command.output());
    });
    started.map_err(|e| format!("cannot start {program}: {e}"))?;
    let output = inbox.next().await.ok_or_else(|| format!("{program} got lost"))?;
    let output = output.map_err(|e| missing(program, &e))?;
    let signal = |status: std::process::ExitStatus| {
        std::os::unix::process::ExitStatusExt::signal(&status).map(|s| 128 + s)
    };
    let code = output.status.code().or_else(|| signal(output.status)).unwrap_or(-1);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended { code, out: text(&output.stdout), err: text(&output.stderr) })
}

#[allow(clippy::disallowed_methods, reason = "the edge: programs that wait for the drive")]
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0).env("LC_ALL", "C");
    // Not every PATH has the directories for root's programs.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

#[allow(clippy::disallowed_methods, reason = "the edge: who waits for the end of a program")]
fn thread(body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name("program".to_string());
    builder.spawn(body).map(drop)
}

fn missing(program: &str, error: &std::io::Error) -> String {
    let package = PACKAGES.iter().find(|p| p.0 == program).map(|p| p.1);
    match (error.kind(), package) {
        (ErrorKind::NotFound, Some(package)) => {
            format!("{program} is not installed: it is in the package {package}")
        }
        _ => format!("cannot start {program}: {error}"),
    }
}
