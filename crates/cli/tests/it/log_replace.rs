//! A lost device of a log is replaced: while the log is served, and while it is not; what is refused,
//! and what a command that was interrupted leaves.

use crate::common::live::{Nbd, Serving, socket, tantalum};
use crate::common::logs::{device, log, write_and_kill};
use crate::common::{ends, file, logs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tantalum_testing::Spot;

fn replace(at: &Path, lost: &Path, new: &Path, more: &[&str], code: i32) -> (String, String) {
    let [lost_is, with] = ["--lost", "--with"].map(Path::new);
    let mut words = vec![at, lost_is, lost, with, new];
    words.extend(more.iter().map(Path::new));
    log("replace", &words, code)
}

/// A log with two copies and a volume.
struct Made {
    at: PathBuf,
    a: PathBuf,
    b: PathBuf,
    disk: PathBuf,
    name: String,
}

fn made(name: &str) -> Made {
    let [a, b] = ["a", "b"].map(|device| self::device(&format!("{name}.{device}"), 16));
    let (disk, at) = (device(&format!("{name}.disk"), 32), file(&format!("{name}.toml"), ""));
    let words = ["--device", "--backing", "--copies", "2", "--force"].map(Path::new);
    let [device, backing, copies, two, force] = words;
    log("create", &[&at, device, &a, device, &b, backing, &disk, copies, two, force], 0);
    Made { at, a, b, disk, name: name.to_string() }
}

impl Made {
    fn new_device(&self, name: &str) -> PathBuf {
        device(&format!("{}.{name}", self.name), 16)
    }

    /// Its second device is lost.
    fn lose_b(&self) {
        std::fs::remove_file(&self.b).expect("it is lost");
        log("recover", &[&self.at, Path::new("--degraded")], 0);
    }

    fn serve(&self, more: &[&str]) -> (Serving, Spot) {
        logs::serve(&self.at, more)
    }

    /// Devices that take no part.
    fn absent(&self) -> serde_json::Value {
        let stats = log("stats", &[&self.at, Path::new("--json")], 0).0;
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        stats["log"]["devices_absent"].clone()
    }

    fn description(&self) -> String {
        std::fs::read_to_string(&self.at).expect("the description")
    }

    fn status(&self) -> String {
        log("status", &[&self.at], 0).0
    }
}

fn block(n: u64) -> [u8; 4096] {
    let mut block = [n as u8 | 1; 4096];
    block[..8].copy_from_slice(&n.to_le_bytes());
    block
}

/// Blocks of the volume that are written again and again.
const BLOCKS: u64 = 1000;

#[test]
fn a_lost_device_of_a_served_log_is_replaced_while_a_client_writes() {
    let log_is = made("served");
    let Made { at, a, b, disk, .. } = &log_is;
    log_is.lose_b();
    let c = log_is.new_device("c");
    let (serving, socket) = log_is.serve(&[]);
    let lost = format!("device 1 (\"{}\") is lost, and records have fewer copies", b.display());
    assert!(log_is.status().contains(&lost), "{}", log_is.status());
    assert_eq!(log_is.absent(), 1);
    let (enough, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nbd = Nbd::connect(&socket).expect("a server");
            while !enough.load(Ordering::Acquire) {
                let n = written.load(Ordering::Acquire);
                nbd.write(n % BLOCKS, &block(n)).expect("written");
                written.store(n + 1, Ordering::Release);
            }
        });
        let at_least = |n: u64| {
            while written.load(Ordering::Acquire) < n {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        at_least(100);
        let (said, told) = replace(at, b, &c, &[], 0);
        assert!(said.contains("served.c\" has everything from"), "{said}");
        assert!(told.contains("is asked to put ") && !told.contains("gets what"), "{told}");
        at_least(written.load(Ordering::Acquire) + 100);
        enough.store(true, Ordering::Release);
    });
    assert_eq!(log_is.absent(), 0);
    assert!(!log_is.status().contains("is lost"), "{}", log_is.status());
    let description = log_is.description();
    assert!(description.contains("served.c") && !description.contains("served.b"), "{description}");
    // A power cut takes the new one along, and it comes back.
    log("cut", &[at], 0);
    log("restore", &[at], 0);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    let last = written.load(Ordering::Acquire);
    nbd.write(BLOCKS, &block(last)).expect("written");
    drop(serving); // Killed.
    // Now the other one may be lost.
    std::fs::remove_file(a).expect("it is lost, too");
    log("recover", &[at, Path::new("--degraded")], 0);
    let disk = std::fs::read(disk).expect("the backing");
    let holds = |at: u64, n: u64| {
        let from = at as usize * 4096;
        assert!(disk[from..from + 4096] == block(n), "block {at}");
    };
    holds(BLOCKS, last);
    (last.saturating_sub(BLOCKS)..last).for_each(|n| holds(n % BLOCKS, n));
}

#[test]
fn what_cannot_be_replaced_is_refused_in_a_line_and_the_log_is_served_on() {
    let log_is = made("refused");
    let Made { at, a, b, .. } = &log_is;
    log_is.lose_b();
    let c = log_is.new_device("c");
    std::fs::write(&c, vec![7; 16 << 20]).expect("written");
    let (serving, socket) = log_is.serve(&[]);
    let small = device("refused.small", 1);
    let missing = at.with_file_name("refused.missing");
    for (lost, new, why) in [
        (a, &c, "only a device that is lost to the log can be replaced"),
        (a, a, "only a device that is lost to the log can be replaced"),
        (&c, &c, "the log has no device"),
        (b, a, "are the same device: name each once"),
        (b, &missing, "refused.missing"),
        (b, &c, "something else (the first byte is at 0): --force destroys that"),
        (b, &small, "use a larger device"),
    ] {
        let before = log_is.description();
        let said = replace(at, lost, new, &[], 2).1;
        assert!(said.contains(why), "{why}: {said}");
        assert_eq!(log_is.description(), before);
        Nbd::connect(&socket).expect("a server").write(1, &block(1)).expect("written");
    }
    log("cut", &[at], 0);
    let said = replace(at, b, &c, &["--force"], 1).1;
    assert!(said.contains("no power: restore it first"), "{said}");
    log("restore", &[at], 0);
    let control = at.with_file_name("refused.toml.control");
    replace(&control, b, &c, &["--force"], 0);
    assert_eq!(log_is.absent(), 0);
    // The same again has nothing to do, served or not.
    assert!(replace(at, b, &c, &[], 0).0.contains("it had them already"));
    let said = replace(at, &small, &missing, &[], 2).1;
    assert!(said.contains("refused.small\": it has") && said.contains("refused.c"), "{said}");
    assert_eq!(serving.stop().0, Some(0));
    assert!(replace(at, b, &c, &[], 0).0.contains("it had them already"));
    // A device of the description that is lost is no answer to that.
    std::fs::remove_file(&c).expect("it is lost");
    log("recover", &[at, Path::new("--degraded")], 0);
    let (serving, _socket) = log_is.serve(&[]);
    std::fs::write(&c, vec![0; 16 << 20]).expect("written");
    assert!(replace(at, b, &c, &[], 2).1.contains("the log has no device"));
    assert_eq!(serving.stop().0, Some(0));
    assert!(replace(at, b, &c, &[], 2).1.contains("the log has no device"));
    // What has come in its place has its name.
    std::fs::remove_file(&c).expect("removed");
    let (serving, _socket) = log_is.serve(&[]);
    std::fs::write(&c, vec![0; 16 << 20]).expect("written");
    replace(at, &c, &c, &[], 0);
    assert_eq!(log_is.absent(), 0);
    assert_eq!(serving.stop().0, Some(0));
    log("recover", &[at], 0);
    assert!(log("check", &[at], 0).0.contains("all is well"));
    log("check", &[at], 0);
}

#[test]
fn a_box_that_has_no_log_says_so() {
    let image = file("no-log.img", "");
    let words = ["drive", "create", "--design", "volatile", "--capacity", "64MiB", "--force"];
    ends(&tantalum(&words).arg(&image).output().expect("it starts"), 0);
    let socket = socket("no-log.sock");
    let mut command = tantalum(&["drive", "serve"]);
    command.arg(&image).arg("--unix").arg(&*socket);
    let serving = Serving::start(command);
    let said = replace(&image, Path::new("b"), Path::new("c"), &[], 2).1;
    assert!(said.contains("it has no log"), "{said}");
    assert_eq!(serving.stop().0, Some(0));
}

#[test]
fn the_image_of_a_drive_takes_the_place_of_a_lost_one_in_a_served_log() {
    let at = file("image.toml", "");
    let image = |name: &str| {
        let path = at.with_file_name(name);
        let words = ["drive", "create", "--design", "volatile", "--capacity", "64MiB", "--force"];
        ends(&tantalum(&words).arg(&path).output().expect("it starts"), 0);
        path
    };
    let [a, b, c, disk] = ["image.a", "image.b", "image.c", "image.disk"].map(image);
    let words = ["--device", "--backing", "--copies", "2", "--force"].map(Path::new);
    let [device, backing, copies, two, force] = words;
    log("create", &[&at, device, &a, device, &b, backing, &disk, copies, two, force], 0);
    let log_is = Made { at, a, b, disk, name: "image".to_string() };
    log_is.lose_b();
    let (serving, socket) = log_is.serve(&["--time-scale", "0"]);
    let write = |n| Nbd::connect(&socket).expect("a server").write(n, &block(n)).expect("written");
    write(1);
    replace(&log_is.at, &log_is.b, &c, &[], 0);
    write(2);
    log("cut", &[&log_is.at], 0);
    log("restore", &[&log_is.at], 0);
    write(3);
    assert_eq!(serving.stop().0, Some(0));
    let checked = tantalum(&["drive", "check"]).arg(&c).output().expect("it starts");
    ends(&checked, 0);
    std::fs::remove_file(&log_is.a).expect("it is lost, too");
    log("recover", &[&log_is.at, Path::new("--degraded")], 0);
    let (serving, socket) = log_is.serve(&["--time-scale", "0"]);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    for n in 1..4 {
        assert_eq!(nbd.read(n).expect("read"), block(n));
    }
    assert_eq!(serving.stop().0, Some(0));
}

/// Once the command asked for `--force` then, since there was a log on the new device, and declared
/// that lost first.
#[test]
fn a_replacement_whose_description_was_not_written_is_found_by_the_next_one() {
    for served in [false, true] {
        let log_is = made(&format!("found-{served}"));
        let Made { at, b, .. } = &log_is;
        log_is.lose_b();
        let c = log_is.new_device("c");
        let before = log_is.description();
        let serving = served.then(|| log_is.serve(&[]));
        replace(at, b, &c, &[], 0);
        let after = log_is.description();
        assert_ne!(before, after);
        drop(serving); // Killed.
        std::fs::write(at, &before).expect("written");
        let said = log("check", &[at], 2).1;
        assert!(said.contains("`tantalum log replace` puts a new device in its place (if that was interrupted, repeat it)"), "{said}");
        // Another device is refused, and changes nothing.
        let said = replace(at, &log_is.a, &c, &[], 2).1;
        assert!(said.contains("no other device of the log is there"), "{said}");
        assert_eq!(log_is.description(), before);
        let said = replace(at, b, &c, &[], 0).0;
        assert!(said.contains("it had them already"), "{said}");
        assert_eq!(log_is.description(), after);
        assert!(log("check", &[at], 0).0.contains("all is well"));
    }
}

#[test]
fn a_replacement_that_is_killed_at_any_moment_is_repeated_as_it_was() {
    let log_is = made("killed");
    let Made { at, b, disk, .. } = &log_is;
    log_is.lose_b();
    write_and_kill(at, (0..BLOCKS).map(|n| (n, block(n))));
    let c = log_is.new_device("c");
    let before = log_is.description();
    let mut finished = 0;
    for wait in 0..40 {
        let mut command = tantalum(&["log", "replace", "--lost"]);
        command.arg(b).arg("--with").arg(&c).arg(at);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut running = command.spawn().expect("it starts");
        std::thread::sleep(Duration::from_micros(wait * 700));
        running.kill().expect("killed");
        finished += u64::from(running.wait().expect("it ends").success());
        std::fs::write(at, &before).expect("written");
    }
    replace(at, b, &c, &[], 0);
    assert!(log("check", &[at], 0).0.contains("all is well"), "{finished} of 40 had ended");
    std::fs::remove_file(&log_is.a).expect("it is lost, too");
    log("recover", &[at, Path::new("--degraded")], 0);
    let disk = std::fs::read(disk).expect("the backing");
    for n in 0..BLOCKS {
        assert!(disk[n as usize * 4096..][..4096] == block(n), "block {n}");
    }
}

/// Once the log was opened without the lost device, which declares it lost, before the new one was
/// looked at.
#[test]
fn a_replacement_that_is_refused_leaves_a_healthy_log_as_it_was() {
    let log_is = made("healthy");
    let Made { at, a, b, .. } = &log_is;
    let other = made("healthy-other");
    let small = device("healthy.small", 1);
    for (new, why) in [
        (&small, "use a larger device"),
        (&other.a, "--force destroys that"),
        (b, "--force destroys that"),
        (a, "are the same device"),
    ] {
        let said = replace(at, b, new, &[], 2).1;
        assert!(said.contains(why), "{why}: {said}");
        assert!(log("check", &[at], 0).0.contains("all is well"), "{why}");
    }
    // With force it is written anew in its own place.
    let said = replace(at, b, b, &["--force"], 0).0;
    assert!(said.contains("has everything") && !said.contains("already"), "{said}");
    assert!(log("check", &[at], 0).0.contains("all is well"));
    assert!(log("check", &[&other.at], 0).0.contains("all is well"));
}

/// Once the place in the description was taken for the index in the log: a log whose devices are
/// named in another order lost the good one.
#[test]
fn devices_may_be_named_in_any_order() {
    for served in [false, true] {
        let log_is = made(&format!("order-{served}"));
        let Made { at, a, b, .. } = &log_is;
        let swapped = log_is.description();
        let swapped = swapped.replace(".a\"", ".x\"").replace(".b\"", ".a\"");
        std::fs::write(at, swapped.replace(".x\"", ".b\"")).expect("written");
        log_is.lose_b();
        let c = log_is.new_device("c");
        let serving = served.then(|| log_is.serve(&[]));
        if served {
            let said = replace(at, a, &c, &[], 2).1;
            assert!(said.contains("only a device that is lost"), "{said}");
        }
        assert!(replace(at, b, &c, &[], 0).0.contains("has everything"));
        let now = log_is.description();
        assert!(now.contains(".a\"") && now.contains(".c\"") && !now.contains(".b\""), "{now}");
        drop(serving);
        assert!(log("check", &[at], 0).0.contains("all is well"));
        std::fs::remove_file(a).expect("it is lost, too");
        log("recover", &[at, Path::new("--degraded")], 0);
    }
}

/// Once the description of a log of one device was made to name the device of another log.
#[test]
fn the_device_of_a_log_with_one_copy_is_not_replaced() {
    let (one, other) = (device("single.one", 16), device("single.other", 16));
    let [of, force] = ["--device", "--force"].map(Path::new);
    let (at, theirs) = (file("single.toml", ""), file("single-other.toml", ""));
    log("create", &[&at, of, &one, force], 0);
    log("create", &[&theirs, of, &other, force], 0);
    let before = std::fs::read(&at).expect("a description");
    for force in [&[][..], &["--force"]] {
        let said = replace(&at, &one, &other, force, 2).1;
        assert!(said.contains("one copy of each record"), "{said}");
    }
    assert!(std::fs::read(&at).expect("a description") == before);
    assert!(log("check", &[&theirs], 0).0.contains("all is well"));
}

/// A device that has its place is not said to have everything if it has not.
#[test]
fn a_device_that_has_its_place_and_is_damaged_is_written_anew_with_force() {
    let log_is = made("damaged");
    let Made { at, b, .. } = &log_is;
    write_and_kill(at, (0..64).map(|n| (n, block(n))));
    let mut bytes = std::fs::read(b).expect("a device");
    bytes[65536..].iter_mut().for_each(|b| *b = if *b == 0 { 0 } else { *b ^ 1 });
    std::fs::write(b, bytes).expect("written");
    let c = log_is.new_device("c");
    std::fs::copy(b, &c).expect("a copy of it");
    log("check", &[at], 1);
    let said = replace(at, b, &c, &[], 1).1;
    assert!(said.contains("not everything") && said.contains("--force"), "{said}");
    log("check", &[at], 1);
    assert!(replace(at, b, b, &["--force"], 0).0.contains("has everything"));
    assert!(log("check", &[at], 0).0.contains("all is well"));
}

/// Once it ended with 2, and did not say that it can be repeated.
#[test]
fn a_server_that_is_gone_meanwhile_is_told() {
    use std::io::{BufRead, BufReader};
    let at = socket("left.control");
    let listener = std::os::unix::net::UnixListener::bind(&*at).expect("a socket");
    let gone = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a request");
        line
    });
    let said = replace(&at, Path::new("b"), Path::new("c"), &[], 1).1;
    assert!(gone.join().expect("it ends").contains("replace"));
    assert!(said.contains("has ended") && said.contains("repeat the command"), "{said}");
}

/// What is said to help a log with a device that is older or without a state does, step by step.
#[test]
fn a_device_of_no_use_is_done_without_and_then_replaced() {
    for is_older in [false, true] {
        let log_is = made(&format!("steps-{is_older}"));
        let Made { at, b, .. } = &log_is;
        let before = std::fs::read(b).expect("a device");
        log("recover", &[at], 0);
        let mut bytes = if is_older { before } else { std::fs::read(b).expect("a device") };
        if !is_older {
            bytes[32768..65536].fill(0);
        }
        std::fs::write(b, bytes).expect("written");
        let said = log("check", &[at], if is_older { 2 } else { 1 }).1;
        let steps = "`tantalum log recover --degraded` goes on without it, and then `tantalum log \
                     replace` puts a new device in its place";
        assert!(said.contains(steps), "{said}");
        log("recover", &[at, Path::new("--degraded")], 0);
        assert!(log("check", &[at], 0).0.contains(".b\") is lost"));
        let (serving, _socket) = log_is.serve(&[]);
        replace(at, b, &log_is.new_device("c"), &[], 0);
        assert_eq!(serving.stop().0, Some(0));
        assert!(log("check", &[at], 0).0.contains("all is well"));
    }
}

/// Once it named an option of other commands, with which records would have been lost.
#[test]
fn two_copies_that_are_damaged_at_different_places_are_one_log() {
    // On a slow machine some is destaged before the process is killed: then once more.
    let in_the_log = || {
        let log_is = made("apart");
        logs::write_and_kill(&log_is.at, (0..40).map(|n| (n, [0x77; 4096])));
        (logs::first_lsn(&log_is.at) == 0).then_some(log_is)
    };
    let log_is = (0..20).find_map(|_| in_the_log()).expect("the machine is too slow");
    let Made { at, a, b, .. } = &log_is;
    for (path, part) in [(a, 3), (b, 4)] {
        let mut bytes = std::fs::read(path).expect("a device");
        let is_full =
            |i: &usize| bytes[i * 4096..][..4096].iter().filter(|b| **b == 0x77).count() > 2000;
        let full: Vec<usize> = (0..bytes.len() / 4096).filter(is_full).collect();
        bytes[full[full.len() / 6 * part] * 4096 + 100..][..3900].fill(0xEE);
        std::fs::write(path, bytes).expect("written");
    }
    assert!(log("check", &[at], 1).0.contains("all records are there"));
    let c = log_is.new_device("c");
    let said = replace(at, b, &c, &[], 1).1;
    assert!(
        said.contains("move the checkpoint") && said.contains("`tantalum log recover`"),
        "{said}"
    );
    assert!(!said.contains("salvage") && !said.contains("gets what"), "{said}");
    // What is said to help does.
    log("recover", &[at], 0);
    replace(at, b, &c, &[], 0);
    assert!(log("check", &[at], 0).0.contains("all is well"));
}

/// Once it said nothing, and only `status` did, with the number of the device.
#[test]
fn a_server_names_the_device_that_its_log_loses_and_says_what_to_do() {
    let (a, disk, at) = (device("loses.a", 64), device("loses.disk", 32), file("loses.toml", ""));
    // A drive that can be written to once.
    let b = at.with_file_name("loses.b");
    let words = ["drive", "create", "--design", "volatile", "--capacity", "16MiB", "--force"];
    let worn = ["--set", "wear.endurance=0"];
    ends(&tantalum(&words).args(worn).arg(&b).output().expect("it starts"), 0);
    let words = ["--device", "--backing", "--copies", "2", "--force"].map(Path::new);
    let [device, backing, copies, two, force] = words;
    log("create", &[&at, device, &a, device, &b, backing, &disk, copies, two, force], 0);
    let log_is = Made { at, a, b, disk, name: "loses".to_string() };
    let (serving, socket) = log_is.serve(&[]);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    let mut written = 0;
    while !log_is.status().contains("is lost") {
        for _ in 0..500 {
            nbd.write(written % BLOCKS, &block(written)).expect("written");
            written += 1;
        }
        assert!(written < 100_000, "the drive never fails");
    }
    let lost =
        format!("device 1 (\"{}\") is lost, and records have fewer copies", log_is.b.display());
    assert!(log_is.status().contains(&lost), "{}", log_is.status());
    // It looks four times each second.
    std::thread::sleep(Duration::from_secs(5));
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    let told: Vec<&str> = said.lines().filter(|line| line.contains("is lost")).collect();
    let [told] = told[..] else { panic!("{said}") };
    let (at, b) = (log_is.at.display(), log_is.b.display());
    assert!(told.contains(&lost), "{told}");
    let with = format!("`tantalum log replace {at} --lost {b} --with PATH`");
    assert!(told.contains(&with), "{told}");
    // What it says helps.
    let (c, again) = (self::device("loses.c", 64), log_is.serve(&[]).0);
    replace(&log_is.at, &log_is.b, &c, &[], 0);
    assert_eq!(log_is.absent(), 0);
    assert_eq!(again.stop().0, Some(0));
}

/// A device that does not answer is not lost: it takes part again.
#[test]
fn a_device_that_is_left_is_not_replaced() {
    let preset = |name: &str, stall: &str| {
        let row = |command| {
            format!("[[latency]]\ncommand = \"{command}\"\nbytes = 4096\nus = [50, 100]\n")
        };
        let text = format!(
            "block_bytes = 4096\nblocks = 8192\nack = \"on-media\"\natomic_bytes = 4096\n{}{}{stall}",
            row("read"),
            row("write")
        );
        let path = file(name, text);
        PathBuf::from(format!("model:{}:16MiB", path.display()))
    };
    let fast = preset("left.fast.toml", "");
    let slow = "[[stall]]\nevery_ms = [1500, 1500]\nlasts_ms = [12000, 12000]\n";
    let (slow, at) = (preset("left.slow.toml", slow), file("left.toml", ""));
    let words = ["--device", "--backing", "--copies", "2", "--force"].map(Path::new);
    let [device, backing, copies, two, force] = words;
    log("create", &[&at, device, &fast, device, &slow, backing, &fast, copies, two, force], 0);
    let (a, b, disk) = (fast.clone(), slow, fast.clone());
    let log_is = Made { at, a, b, disk, name: "left".to_string() };
    let before = log_is.description();
    let (serving, socket) = log_is.serve(&[]);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    let mut written = 0;
    // On a slow machine it may have come back before it is to be replaced: then once more.
    let mut is_refused = || {
        while log_is.absent() == 0 {
            nbd.write(written % BLOCKS, &block(written)).expect("written");
            written += 1;
            assert!(written < 10_000, "the device never stalls");
        }
        let said = replace(&log_is.at, &log_is.b, &fast, &["--force"], 2).1;
        assert!(said.contains("only a device that is lost to the log can be replaced"), "{said}");
        said.contains("device 1 does not answer, and takes part when it does")
    };
    assert!((0..5).any(|_| is_refused()));
    assert_eq!(log_is.description(), before);
    while log_is.absent() == 1 {
        nbd.write(written % BLOCKS, &block(written)).expect("written");
        written += 1;
    }
    assert_eq!(nbd.read((written - 1) % BLOCKS).expect("read"), block(written - 1));
    drop(serving); // Killed: models hold nothing.
}
