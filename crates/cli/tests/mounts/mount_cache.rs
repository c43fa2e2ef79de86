//! `tantalum cache mount` of the volume as a file: a program tells of pages that left its memory.
//! Needs root.

use crate::mounting::{Mounted, Place, possible, run, tantalum, unmount};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tantalum_export::fuse::exit_command;
use tantalum_testing::{Need, Signal};

const PAGE: u64 = 4096;
const VOLUME: u64 = 1 << 20;
/// The ioctl that tells of a page with its bytes.
const PAGE_LEFT: u32 = exit_command(PAGE as usize).unwrap();

/// The numbers of a served cache: pages read, of these found, and pages that it has.
fn counts(description: &str) -> [u64; 3] {
    let told = tantalum(&["cache", "stats", description, "--json"]).output().expect("it starts");
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    [&told["fetches"], &told["hits"], &told["cache"]["pages"]].map(|n| n.as_u64().expect("a count"))
}

#[test]
fn clean_pages_enter_when_a_program_tells_that_they_left_its_memory() {
    if !possible(&[Need::Program("cc")]) {
        return;
    }
    let place = Place::new("exits");
    let (dir, at) = (place.path("m"), place.path("c.toml"));
    let (flash, slow, exit) = (place.path("flash"), place.path("slow"), place.path("exit"));
    run("cc", &[concat!(env!("CARGO_MANIFEST_DIR"), "/../export/examples/exit.c"), "-o", &exit]);
    // Behind the label the slow device has data, each page its own number.
    let pages = 1024_u64;
    let numbers = (0..pages).flat_map(|n| n.to_le_bytes().repeat(PAGE as usize / 8));
    let bytes: Vec<u8> = vec![0; VOLUME as usize].into_iter().chain(numbers).collect();
    fs::write(&slow, bytes).expect("written");
    let words = ["--flash", &flash, "--flash-size", "8MiB", "--slow", &slow, "--clean", "exit"];
    let create = [&["cache", "create", &at], &words[..]].concat();
    let made = tantalum(&create).output().expect("it starts");
    assert!(made.status.success(), "{made:?}");
    let mounted = Mounted::by(&["cache", "mount"], &dir, &[&at, &dir]);
    let mounted = mounted.unwrap_or_else(|(code, said)| panic!("{code:?}: {said}"));
    let path = mounted.path("drive");
    let file = fs::File::open(&path).expect("the file");
    let read = |page: u64| {
        let mut bytes = [0; PAGE as usize];
        file.read_exact_at(&mut bytes, page * PAGE).expect("read");
        assert!(bytes.chunks(8).all(|word| word == page.to_le_bytes()), "page {page}");
    };
    let left = |arguments: &[&str]| {
        let mut command = Command::new(Path::new(&exit));
        let ended = command.arg(&path).args(arguments).output().expect("it starts");
        (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    (0..4).for_each(read);
    assert_eq!(counts(&at), [4, 0, 0], "nothing enters when it is read");
    assert_eq!(left(&["0", "8192"]), (true, String::new()));
    assert_eq!(counts(&at)[2], 2, "without bytes the volume reads them itself");
    assert_eq!(left(&["8192", "4096", "data"]), (true, String::new()));
    assert_eq!(counts(&at)[2], 3);
    let [fetches, hits, _] = counts(&at);
    (0..4).for_each(read);
    assert_eq!(counts(&at), [fetches + 4, hits + 3, 3]);
    for wrong in [["1", "4096"], ["0", "0"], ["4194304", "4096"], ["0", "33554432"]] {
        let (ended, said) = left(&wrong);
        assert!(!ended && said.contains("Invalid argument"), "{said}");
    }
    // Bytes go along only through a file that may be written to.
    let mut told = [0; 16 + PAGE as usize];
    told[8..16].copy_from_slice(&PAGE.to_ne_bytes());
    // SAFETY: the number says that the kernel reads these bytes, and no others.
    let refused = unsafe { ioctl(&file, Setter::<PAGE_LEFT, _>::new(told)) };
    assert_eq!(refused, Err(Errno::BADF));
    assert_eq!(counts(&at)[2], 3);
    drop(file);
    mounted.stop();
    place.assert_clean();
}

/// A cache volume of 64 MiB with ext4.
struct Cached {
    mounted: Mounted,
    /// The mount point.
    dir: String,
    /// The description of the cache.
    at: String,
    /// Its slow device.
    slow: String,
}

fn mounted_cache(place: &Place) -> Cached {
    let [dir, at, flash, slow] = ["m", "c.toml", "flash", "slow"].map(|name| place.path(name));
    let sizes = ["--flash-size", "16MiB", "--slow-size", "64MiB"];
    let words = ["cache", "create", &at, "--flash", &flash, "--slow", &slow];
    let made = tantalum(&[&words[..], &sizes].concat()).output().expect("it starts");
    assert!(made.status.success(), "{made:?}");
    let mounted = Mounted::by(&["cache", "mount"], &dir, &[&at, &dir, "--fs", "ext4"]);
    let mounted = mounted.unwrap_or_else(|(code, said)| panic!("{code:?}: {said}"));
    Cached { mounted, dir, at, slow }
}

/// A mounted cache volume is unmounted before its cache is given up: the file system on the slow
/// device alone has what was written last.
#[test]
fn a_mounted_cache_is_unmounted_and_given_up() {
    let programs = ["losetup", "mkfs.ext4"].map(Need::Program);
    if !possible(&[&[Need::LoopDevices][..], &programs].concat()) {
        return;
    }
    let place = Place::new("given-up");
    let Cached { mut mounted, at, slow, .. } = mounted_cache(&place);
    let alone = place.path("alone");
    // In the memory of the kernel until it is unmounted.
    fs::write(mounted.path("last"), [7; 10_000]).expect("written");
    let ended = tantalum(&["cache", "detach", &at]).output().expect("it starts");
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
    place.assert_clean();
    fs::create_dir(&alone).expect("a directory");
    run("mount", &["-o", &format!("loop,ro,offset={VOLUME}"), &slow, &alone]);
    let last = fs::read(Path::new(&alone).join("last"));
    unmount(&alone);
    assert_eq!(last.expect("the file"), [7; 10_000]);
}

/// While the mount is in use the command says by whom. A signal meanwhile is the first one, which ends
/// nothing: the mount is not left to its users, and the cache is given up.
#[test]
fn a_cache_is_given_up_when_the_users_of_its_mount_are_done() {
    let programs = ["losetup", "mkfs.ext4"].map(Need::Program);
    if !possible(&[&[Need::LoopDevices][..], &programs].concat()) {
        return;
    }
    let place = Place::new("given-up-later");
    let Cached { mut mounted, dir, at, .. } = mounted_cache(&place);
    let file = fs::File::create(mounted.path("open")).expect("a file");
    let mut detach = tantalum(&["cache", "detach", &at]);
    let mut detach =
        detach.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(detach.stderr.take().expect("standard error"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains(&format!("{dir} is in use: ")), "{line}");
    assert!(line.ends_with("The cache is given up when they are done\n"), "{line}");
    let status = tantalum(&["cache", "status", &at]).output().expect("it starts");
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("in use") && status.contains(&dir), "{status}");
    mounted.signal(Signal::INT);
    mounted.wait_for("it is ending already, with its cache given up", 1);
    drop(file);
    line.clear();
    said.read_to_string(&mut line).expect("text");
    assert_eq!((detach.wait().expect("it ends").code(), line.as_str()), (Some(0), ""));
    assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
    place.assert_clean();
    let check = tantalum(&["cache", "check", &at]).output().expect("it starts");
    let check = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(check.contains("used without the cache"), "{check}");
}

/// A box that caches nothing has no such ioctl.
#[test]
fn other_boxes_take_no_exits() {
    if !possible(&[Need::Program("cc")]) {
        return;
    }
    let place = Place::new("no-exits");
    let (dir, exit) = (place.path("m"), place.path("exit"));
    run("cc", &[concat!(env!("CARGO_MANIFEST_DIR"), "/../export/examples/exit.c"), "-o", &exit]);
    let mounted = Mounted::new(&dir, &["--ram", "16MiB", &dir]);
    let mut command = Command::new(Path::new(&exit));
    let ended = command.arg(mounted.path("drive")).args(["0", "4096"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("Inappropriate ioctl"), "{said}");
    mounted.stop();
}
