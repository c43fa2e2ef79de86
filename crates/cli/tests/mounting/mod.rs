//! Mounted drives for tests.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tantalum_testing::{Need, Signal, left_out, send};

/// Whether drives can be mounted here, and this requirement is met. If not, the test is left out.
pub fn possible(more: &[Need]) -> bool {
    !left_out(&[&[Need::Root, Need::Mounts, Need::Fuse], more].concat())
}

pub fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program that must succeed.
pub fn run(program: &str, arguments: &[impl AsRef<OsStr> + std::fmt::Debug]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Unmounts what is there. A process that another test has just forked has copies of all open files
/// until it runs its program, also of one that was read there a moment ago: then it is tried again.
pub fn unmount(dir: impl AsRef<OsStr>) {
    for _ in 0..1500 {
        let output = Command::new("umount").arg(&dir).output().expect("it starts");
        if output.status.success() {
            return;
        }
        assert!(String::from_utf8_lossy(&output.stderr).contains("busy"), "{output:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{:?} stays busy", dir.as_ref());
}

/// The table of mounts. (A test mounts something whose name is no UTF-8.)
pub fn mounts() -> String {
    String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").expect("mounts")).into_owned()
}

pub fn tantalum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A directory for one test, removed at the end.
pub struct Place {
    pub dir: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Place {
        // Unique to this run of the tests.
        let name = format!("mount-{name}-{}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        Place { dir }
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("text").to_string()
    }

    /// An image of a blank drive.
    pub fn image(&self, design: &str) -> String {
        let path = self.path("disk.img");
        let create = ["drive", "create", &path, "--design", design, "--capacity", "1GiB"];
        let made = tantalum(&create).output().expect("it starts");
        assert!(made.status.success(), "{made:?}");
        path
    }

    /// Checks that no mounts are left below it.
    pub fn assert_clean(&self) {
        let dir = self.dir.to_str().expect("text");
        let mounts = mounts();
        let left: Vec<&str> = mounts.lines().filter(|line| line.contains(dir)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Also after a failed test; but nothing is removed through a mount that it has left.
        if !mounts().contains(self.dir.to_string_lossy().as_ref()) {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A mounted drive.
pub struct Mounted {
    child: Child,
    pub dir: PathBuf,
    said: Arc<Mutex<String>>,
    /// Reads its standard error until it ends.
    listener: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Mounts it with these arguments, and waits until it is ready.
    pub fn new(dir: &str, arguments: &[&str]) -> Mounted {
        Mounted::try_new(dir, arguments).unwrap_or_else(|(code, said)| panic!("{code:?}: {said}"))
    }

    /// The same; on failure returns its standard error and exit code.
    pub fn try_new(dir: &str, arguments: &[&str]) -> Result<Mounted, (Option<i32>, String)> {
        Mounted::by(&["drive", "mount", "--time-scale", "0"], dir, arguments)
    }

    /// The same by other words than those that mount a drive.
    pub fn by(
        words: &[&str],
        dir: &str,
        arguments: &[&str],
    ) -> Result<Mounted, (Option<i32>, String)> {
        let mut command = tantalum(words);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        let err = child.stderr.take().expect("standard error");
        let listener = listen(err, said.clone());
        let mut line = String::new();
        let out = child.stdout.take().expect("standard output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        if line.starts_with("ready: ") {
            return Ok(Mounted { child, dir: dir.into(), said, listener: Some(listener) });
        }
        let code = child.wait().expect("it ends").code();
        listener.join().expect("it listens");
        let said = said.lock().expect("text").clone();
        Err((code, said))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn said(&self) -> String {
        self.said.lock().expect("text").clone()
    }

    /// Waits until it has printed this text this many times.
    pub fn wait_for(&self, what: &str, times: usize) {
        for _ in 0..2400 {
            if self.said().matches(what).count() >= times {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it never said \"{what}\" {times} times: {}", self.said());
    }

    pub fn signal(&self, signal: Signal) {
        send(signal, &self.child);
    }

    /// Its exit code. What it has said is then all that it said.
    pub fn wait(&mut self) -> Option<i32> {
        let code = self.child.wait().expect("it ends").code();
        if let Some(listener) = self.listener.take() {
            listener.join().expect("it listens");
        }
        code
    }

    /// Stops it; it must end in good order.
    pub fn stop(mut self) {
        self.signal(Signal::INT);
        let code = self.wait();
        assert_eq!(code, Some(0), "{}", self.said());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // A test has failed: do not leave a mount that disturbs the next test.
            send(Signal::TERM, &self.child);
            std::thread::sleep(Duration::from_millis(500));
            send(Signal::TERM, &self.child);
            let _ = self.child.wait();
        }
    }
}

fn listen(mut from: ChildStderr, to: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            to.lock().expect("text").push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    })
}
