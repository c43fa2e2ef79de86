//! `tantalum torture` as a user meets it, with SQLite, which needs no server. Tests with servers
//! are in `crates/torture/tests`, and in `.ci/run`.

use crate::common::ends;
use crate::full::Disk;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tantalum_testing::{CopyOfMount, Need, Scratch, left_out};

/// The requirements of a drive mounted with XFS with blocks of SQLite's page size.
const MOUNTED: [Need; 6] = [
    Need::Root,
    Need::Mounts,
    Need::Fuse,
    Need::LoopDevices,
    Need::Program("losetup"),
    Need::Program("mkfs.xfs"),
];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.arg("torture").args(arguments);
    command
}

fn torture(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

/// A path for the directory of a run; the directory is removed on drop, if the run has left it.
struct Place {
    dir: PathBuf,
    _scratch: Scratch,
}

impl std::ops::Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.dir
    }
}

fn place() -> Place {
    let scratch = Scratch::new();
    Place { dir: scratch.path("run"), _scratch: scratch }
}

/// Checks that neither its files nor mounts below it are left.
fn nothing_is_left_of(place: &Path) {
    let mounts = crate::mounting::mounts();
    assert!(!mounts.contains(place.to_str().unwrap()), "{mounts}");
    assert!(!place.exists());
}

#[test]
fn invalid_arguments_are_refused() {
    ends(&torture(&[]), 2);
    ends(&torture(&["--db", "oracle"]), 2);
    ends(&torture(&["--db", "sqlite", "--plain", "--kills", "1"]), 2);
    ends(&torture(&["--db", "sqlite", "--safe", "--unsafe"]), 2);
    ends(&torture(&["--db", "sqlite", "--plain", "--json", "/no/such/directory/x"]), 2);
    let (_, err) = ends(&torture(&["--db", "postgres", "--plain", "--journal", "wal"]), 2);
    assert!(err.contains("--db sqlite"), "{err}");
    let (_, err) = ends(&torture(&["--db", "sqlite", "--plain", "--cuts", "0"]), 2);
    assert!(err.contains("nothing is tested"), "{err}");
    ends(&torture(&["--db", "postgres", "--copies", "2"]), 2);
    ends(&torture(&["--db", "postgres", "--plain", "--wal-on", "log"]), 2);
    let (_, err) = ends(&torture(&["--db", "sqlite", "--wal-on", "log"]), 2);
    assert!(err.contains("--db postgres or mariadb"), "{err}");
    let words = ["--db", "postgres", "--wal-on", "log", "--lose-every", "5"];
    let (_, err) = ends(&torture(&words), 2);
    assert!(err.contains("--copies 2"), "{err}");
    let (_, err) = ends(&torture(&["--db", "sqlite", "--plain", "--dir", "/"]), 2);
    assert!(err.contains("cannot make /: it is there already"), "{err}");
}

/// Drives that cannot be made are refused before anything is made, by whoever asks for them.
#[test]
fn drives_that_cannot_be_made_are_an_invalid_request() {
    let place = place();
    let unknown = "unknown design \"nod\"";
    for (arguments, said) in [
        (&["--design", "nod"][..], format!("error: --design: {unknown}")),
        (&["--design", "nofile.toml"], "error: --design: ".to_string()),
        (&["--capacity", "100TiB"], "error: --capacity: design \"durassd\": no drive".to_string()),
        (&["--on", "cache", "--flash-design", "nod"], format!("error: --flash-design: {unknown}")),
        (&["--wal-on", "log", "--wal-design", "nod"], format!("error: --wal-design: {unknown}")),
    ] {
        let mut all = vec!["--db", "mariadb", "--dir", place.to_str().expect("text")];
        all.extend(arguments);
        let (_, err) = ends(&torture(&all), 2);
        assert!(err.starts_with(&said) && err.lines().count() == 1, "{arguments:?}: {err}");
        assert!(!place.exists(), "{arguments:?}");
    }
}

#[test]
fn options_that_would_be_ignored_are_refused() {
    let plain = ["--db", "sqlite", "--plain"];
    for option in [
        ["--design", "durassd"],
        ["--capacity", "2GiB"],
        ["--time-scale", "1"],
        ["--cache-mode", "back"],
        ["--flash-design", "volatile"],
        ["--lose-flash-every", "2"],
    ] {
        let (_, err) = ends(&torture(&[&plain[..], &option].concat()), 2);
        assert!(err.contains("cannot be used with") && err.contains("--plain"), "{err}");
    }
    for (arguments, said) in [
        (&["--cache-mode", "back"][..], "--cache-mode: it is for a cache"),
        (&["--on", "drive", "--flash-design", "volatile"], "--flash-design: it is for a cache"),
        (&["--on", "cache", "--design", "durassd"], "--design: with --on cache the drive is"),
    ] {
        let (_, err) = ends(&torture(&[&["--db", "sqlite"], arguments].concat()), 2);
        assert!(err.contains(said), "{err}");
    }
}

#[test]
fn nothing_is_lost_where_nothing_can_be() {
    let dir = place();
    let run = ["--db", "sqlite", "--plain", "--cuts", "3", "--load", "200", "--accounts", "500"];
    let mut json = run.to_vec();
    json.extend(["--json", "-", "--dir", dir.to_str().unwrap()]);
    let (out, _) = ends(&torture(&json), 0);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["rounds"].as_array().unwrap().len(), 3);
    assert_eq!(report["summary"]["clean"], true);
    assert!(report["summary"]["commits"].as_u64().unwrap() >= 3);
    nothing_is_left_of(&dir);
    let mut loss = run.to_vec();
    loss.push("--expect-loss");
    let (out, err) = ends(&torture(&loss), 1);
    assert!(out.contains(" 0 lost, 0 half-done") && err.contains("nothing was lost"), "{out}{err}");
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    let dir = place();
    let mut command = command(&["--db", "sqlite", "--plain", "--cuts", "1000", "--dir"]);
    command.arg(&*dir).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command starts");
    while !dir.join("data/torture.sqlite").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (out, _) = ends(&child.wait_with_output().unwrap(), 130);
    assert!(out.ends_with("\ninterrupted before its end\n"), "{out}");
    nothing_is_left_of(&dir);
}

/// What fails since the host is full says nothing about the drive.
#[test]
fn a_full_host_is_told_as_that_and_is_no_verdict() {
    if left_out(&[Need::Root, Need::Mounts]) {
        return;
    }
    let scratch = Scratch::new();
    let place = scratch.path("disk");
    let disk = Disk::new(place.to_str().expect("text"));
    let at = Path::new(disk.0);
    // Room for the beginning of a database.
    std::fs::write(at.join("other"), vec![1; (12 << 20) - (96 << 10)]).expect("there is room");
    let dir = at.join("run");
    let run = ["--db", "sqlite", "--plain", "--cuts", "1", "--dir", dir.to_str().expect("text")];
    let (_, said) = ends(&torture(&run), 3);
    let why = format!("no verdict: the file system with {} has room for", dir.display());
    assert!(said.contains(&why) && said.contains("full"), "{said}");
}

#[test]
fn a_durable_drive_keeps_commits_over_cuts_and_kills() {
    if left_out(&MOUNTED) {
        return;
    }
    let dir = place();
    let (out, err) = ends(
        &torture(&[
            "--db",
            "sqlite",
            "--cuts",
            "2",
            "--kills",
            "2",
            "--load",
            "300",
            "--accounts",
            "500",
            "--no-barriers",
            "--dir",
            dir.to_str().unwrap(),
        ]),
        0,
    );
    assert!(out.contains("2 cuts, 2 kills") && err.lines().count() >= 4, "{out}{err}");
    nothing_is_left_of(&dir);
}

/// A process that keeps a copy of the mount is named; this is no finding about the drive.
#[test]
fn a_copy_of_the_mount_is_no_finding() {
    if left_out(&MOUNTED) || left_out(&[Need::Program("unshare")]) {
        return;
    }
    let dir = place();
    let mut torture = command(&["--db", "sqlite", "--cuts", "1", "--load", "300", "--accounts"]);
    torture.args(["500", "--dir"]).arg(&*dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut torture = torture.spawn().expect("the command starts");
    while !dir.join("data/torture.sqlite").exists() {
        assert!(torture.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let other = CopyOfMount::of(&dir.join("data"));
    let (out, err) = ends(&torture.wait_with_output().unwrap(), 0);
    let who = format!("({}) has a copy of the mount", other.id());
    assert!(out.contains("was left to its users") && out.contains(&who), "{out}{err}");
    nothing_is_left_of(&dir);
}

#[test]
fn a_volatile_drive_without_flushes_is_found_out() {
    if left_out(&MOUNTED) {
        return;
    }
    let dir = place();
    torture_loses(&["--db", "sqlite", "--journal", "wal", "--cuts", "20"], &dir);
    nothing_is_left_of(&dir);
}

fn torture_loses(run: &[&str], dir: &Path) {
    let mut all = run.to_vec();
    all.extend(["--design", "volatile", "--no-barriers", "--load", "400", "--expect-loss"]);
    all.extend(["--dir", dir.to_str().unwrap()]);
    ends(&torture(&all), 0);
}
