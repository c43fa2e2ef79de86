//! `tantalum drive mount` with the kernel: FUSE, loop devices, ext4, XFS. Takes root, and
//! `scripts/install-mount-tools`; where FUSE or loop devices are denied the tests say so, and pass.

#![allow(clippy::disallowed_methods, reason = "tests start programs and write files")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Whether mounts are possible here; says so if not.
fn possible() -> bool {
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let loops = OpenOptions::new().read(true).write(true).open("/dev/loop-control");
    let root = output("id", &["-u"]).trim() == "0";
    match (fuse, loops, root) {
        (Ok(_), Ok(_), true) => true,
        (fuse, loops, root) => {
            eprintln!(
                "NOT TESTED: mounting is denied here: root {root}, /dev/fuse {:?}, /dev/loop-control {:?}",
                fuse.err(),
                loops.err()
            );
            false
        }
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program that must go well.
fn run(program: &str, arguments: &[&str]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

fn tantalum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A place of its own for a test; what is there goes at the end.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mount-{name}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        Place { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("text").to_string()
    }

    /// An image of a blank drive.
    fn image(&self, design: &str) -> String {
        let path = self.path("disk.img");
        let create = ["drive", "create", &path, "--design", design, "--capacity", "1GiB"];
        let made = tantalum(&create).output().expect("it starts");
        assert!(made.status.success(), "{made:?}");
        path
    }

    /// Nothing is left of whatever was mounted below it.
    fn assert_clean(&self) {
        let dir = self.dir.to_str().expect("text");
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let left: Vec<&str> = mounts.lines().filter(|line| line.contains(dir)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A drive that is mounted.
struct Mounted {
    child: Child,
    dir: PathBuf,
    said: Arc<Mutex<String>>,
}

impl Mounted {
    /// Mounts it, as these arguments say, and waits until it can be used.
    fn new(dir: &str, arguments: &[&str]) -> Mounted {
        Mounted::try_new(dir, arguments).unwrap_or_else(|(code, said)| panic!("{code:?}: {said}"))
    }

    /// Or what it said, and its exit code.
    fn try_new(dir: &str, arguments: &[&str]) -> Result<Mounted, (Option<i32>, String)> {
        let mut command = tantalum(&["drive", "mount", "--time-scale", "0"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        let err = child.stderr.take().expect("standard error");
        let listener = listen(err, said.clone());
        let mut line = String::new();
        let out = child.stdout.take().expect("standard output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        if line.starts_with("ready: ") {
            return Ok(Mounted { child, dir: dir.into(), said });
        }
        let code = child.wait().expect("it ends").code();
        listener.join().expect("it listens");
        let said = said.lock().expect("text").clone();
        Err((code, said))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn said(&self) -> String {
        self.said.lock().expect("text").clone()
    }

    /// Waits until it has said this so often.
    fn wait_for(&self, what: &str, times: usize) {
        for _ in 0..600 {
            if self.said().matches(what).count() >= times {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it never said \"{what}\" {times} times: {}", self.said());
    }

    fn signal(&self, name: &str) {
        run("kill", &[&format!("-{name}"), &self.child.id().to_string()]);
    }

    /// Its exit code.
    fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// Asks it to stop; it must end in good order.
    fn stop(mut self) {
        self.signal("INT");
        let code = self.wait();
        assert_eq!(code, Some(0), "{}", self.said());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // A test has failed: without a mount that would be in the way of the next.
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            std::thread::sleep(Duration::from_millis(500));
            let _ = Command::new("kill").arg(self.child.id().to_string()).status();
            let _ = self.child.wait();
        }
    }
}

fn listen(mut from: ChildStderr, to: Arc<Mutex<String>>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            to.lock().expect("text").push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    })
}

/// The checkers of the file systems find nothing, on the drive as the file system's end has left it.
fn assert_sound(place: &Place, image: &str, fs: &str) {
    let dir = place.path("raw");
    let mounted = Mounted::new(&dir, &[image, &dir]);
    let file = mounted.path("drive");
    let file = file.to_str().expect("text");
    match fs {
        "ext4" => run("e2fsck", &["-f", "-n", file]),
        _ => run("xfs_repair", &["-n", "-f", file]),
    }
    mounted.stop();
}

#[test]
fn a_drive_is_a_file_and_keeps_what_is_in_it() {
    if !possible() {
        return;
    }
    let place = Place::new("file");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let data: Vec<u8> = (0..3 << 20).map(|i: u32| (i % 253) as u8).collect();
    {
        let mounted = Mounted::new(&dir, &[&image, &dir]);
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).truncate(true).open(mounted.path("drive"));
        let file = file.expect("a file");
        assert!(file.metadata().expect("its length").len() >= 1 << 30);
        file.write_all_at(&data, 12_345).expect("written");
        file.sync_data().expect("synced");
        run("fallocate", &["-p", "-o", "100000", "-l", "50000", &format!("{dir}/drive")]);
        drop(file);
        mounted.stop();
    }
    place.assert_clean();
    assert!(!Path::new(&dir).exists(), "the directory was not there before");
    let mounted = Mounted::new(&dir, &[&image, &dir]);
    let file = File::open(mounted.path("drive")).expect("a file");
    let mut back = vec![1; data.len()];
    file.read_exact_at(&mut back, 12_345).expect("read");
    let hole = 100_000 - 12_345..150_000 - 12_345;
    assert!(back[hole.clone()].iter().all(|b| *b == 0));
    assert!(back[..hole.start] == data[..hole.start] && back[hole.end..] == data[hole.end..]);
    drop(file);
    mounted.stop();
    place.assert_clean();
}

/// Writes files, each synced, until it is told to stop or one fails; the names of those that were
/// synced, directory and all.
fn write_files(dir: &Path, prefix: &str, stop: &std::sync::atomic::AtomicBool) -> Vec<String> {
    let mut synced = Vec::new();
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let name = format!("{prefix}-{}", synced.len());
        let write = || -> std::io::Result<()> {
            let mut file = File::create(dir.join(&name))?;
            file.write_all(content(&name).as_bytes())?;
            file.sync_all()?;
            File::open(dir)?.sync_all()
        };
        if write().is_err() {
            break;
        }
        synced.push(name);
    }
    synced
}

fn content(name: &str) -> String {
    name.repeat(3000)
}

/// Power cuts under load, each followed by a restart: what was synced is there, and the file system is
/// sound.
fn cut_under_load(fs: &str, more: &[&str]) {
    if !possible() {
        return;
    }
    let place = Place::new(&format!("cut-{fs}"));
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let mut arguments = vec![&*image, &*dir, "--fs", fs, "--cut-after-ops", "1500"];
    arguments.extend(["--restore-after", "300ms", "--seed", "7"]);
    arguments.extend(more);
    let mounted = Mounted::new(&dir, &arguments);
    let mut all = Vec::new();
    for round in 1..=3 {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let synced = std::thread::scope(|threads| {
            let write = |n| {
                let (dir, stop) = (mounted.dir.clone(), &stop);
                threads.spawn(move || write_files(&dir, &format!("{round}-{n}"), stop))
            };
            let writers: Vec<_> = (0..3).map(write).collect();
            mounted.wait_for("cut after", round);
            // Whoever has not noticed by now writes to the one that is mounted next.
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            writers.into_iter().map(|w| w.join().expect("a writer")).collect::<Vec<_>>().concat()
        });
        assert!(!synced.is_empty(), "nothing was written in round {round}");
        all.extend(synced);
        mounted.wait_for("took commands after", round);
        // It is mounted before that is said, or just after.
        for name in &all {
            let back = fs::read_to_string(mounted.path(name));
            let back = back.unwrap_or_else(|e| panic!("{name}: {e}; {}", mounted.said()));
            assert!(back == content(name), "{name} is not what was written");
        }
    }
    mounted.stop();
    place.assert_clean();
    assert_sound(&place, &image, fs);
    place.assert_clean();
}

#[test]
fn ext4_survives_power_cuts_under_load() {
    cut_under_load("ext4", &[]);
}

#[test]
fn xfs_with_long_blocks_survives_power_cuts_under_load() {
    cut_under_load("xfs", &["--fs-block", "16KiB", "--on-cut", "drop"]);
}

#[test]
fn a_killed_process_leaves_nothing_that_the_next_does_not_clean_up() {
    if !possible() {
        return;
    }
    for fs in ["ext4", "xfs"] {
        let place = Place::new(&format!("kill-{fs}"));
        let (image, dir) = (place.image("durassd"), place.path("m"));
        let arguments = [&*image, &*dir, "--fs", fs];
        let mut all = Vec::new();
        for round in 0..2 {
            let mut mounted = Mounted::new(&dir, &arguments);
            let stop = std::sync::atomic::AtomicBool::new(false);
            all.extend(std::thread::scope(|threads| {
                let writer = threads.spawn(|| write_files(&mounted.dir, &round.to_string(), &stop));
                std::thread::sleep(Duration::from_millis(400));
                mounted.signal("KILL");
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                writer.join().expect("a writer")
            }));
            mounted.wait();
        }
        assert!(!all.is_empty());
        let mounted = Mounted::new(&dir, &arguments);
        assert!(mounted.said().contains("left by a process that was killed"), "{}", mounted.said());
        for name in &all {
            let back = fs::read_to_string(mounted.path(name)).expect(name);
            assert!(back == content(name), "{name} is not what was written");
        }
        mounted.stop();
        place.assert_clean();
        assert_sound(&place, &image, fs);
    }
}

#[test]
fn what_is_in_use_is_waited_for_or_left_to_its_users() {
    if !possible() {
        return;
    }
    let place = Place::new("busy");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    for twice in [false, true] {
        let mut mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "ext4"]);
        let mut file = File::create(mounted.path("open")).expect("a file");
        mounted.signal("TERM");
        mounted.wait_for("is in use", 1);
        let me = format!("({}) has {dir}/open", std::process::id());
        assert!(mounted.said().contains(&me), "{}", mounted.said());
        file.write_all(b"it works all the while").expect("written");
        if twice {
            mounted.signal("TERM");
            assert_eq!(mounted.wait(), Some(1), "{}", mounted.said());
            assert!(mounted.said().contains("asked for twice"), "{}", mounted.said());
            let gone = file.write_all(b"not any more").and_then(|()| file.sync_all());
            assert!(gone.is_err());
        } else {
            drop(file);
            assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
        }
        place.assert_clean();
        assert!(!Path::new(&dir).exists());
    }
    // What was written before the first signal's end is there; and before the second's, too.
    let mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "ext4"]);
    let back = fs::read_to_string(mounted.path("open")).expect("the file");
    assert_eq!(back, "it works all the while");
    mounted.stop();
    assert_sound(&place, &image, "ext4");
}

#[test]
fn no_file_system_is_made_over_what_is_there() {
    if !possible() {
        return;
    }
    let place = Place::new("over");
    let (image, dir) = (place.image("volatile"), place.path("m"));
    let refused = |arguments: &[&str], why: &str| {
        let mut all = vec![&*image, &*dir];
        all.extend(arguments);
        let (code, said) = Mounted::try_new(&dir, &all).err().expect("it is refused");
        assert!(code != Some(0) && said.contains(why), "{arguments:?}: {code:?} {said}");
        assert!(!Path::new(&dir).exists(), "{arguments:?}");
    };
    refused(&["--fs", "ext4", "--fs-block", "16KiB"], "at most 4 KiB");
    refused(&["--fs", "xfs", "--fs-block", "3000"], "it must be");
    let mounted = Mounted::new(&dir, &[&image, &dir]);
    let file = OpenOptions::new().write(true).open(mounted.path("drive")).expect("a file");
    file.write_all_at(b"somebody's data", 500 << 20).expect("written");
    drop(file);
    mounted.stop();
    refused(&["--fs", "ext4"], "neither ext4 nor XFS");
    Mounted::new(&dir, &[&image, &dir, "--fs", "xfs", "--force"]).stop();
    Mounted::new(&dir, &[&image, &dir, "--fs", "xfs"]).stop();
    refused(&["--fs", "ext4"], "use --fs xfs");
    refused(&["--fs", "xfs", "--fs-block", "16KiB"], "blocks of 4096 bytes");
    place.assert_clean();
}
