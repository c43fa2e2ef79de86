//! A host whose disk is full. Needs root, for a small file system.

use crate::common::live::{Nbd, Serving, socket, tantalum};
use crate::mounting::{Place, output, run};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use tantalum_testing::{Need, Signal, left_out, send};

const SIGBUS: i32 = 7;

/// A file system with little room.
pub struct Disk<'a>(pub &'a str);

impl Disk<'_> {
    pub fn new(at: &str) -> Disk<'_> {
        std::fs::create_dir(at).expect("a directory");
        run("mount", &["-t", "tmpfs", "-o", "size=12m", "tmpfs", at]);
        Disk(at)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        // (The files of a process that has ended may stay in use for a moment.)
        let _ = Command::new("umount").args(["-l", self.0]).status();
    }
}

/// A loop device.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// The process ends, and says why; when there is room again, all acknowledged data is there.
#[test]
fn a_drive_on_a_full_disk_says_so_and_loses_nothing() {
    if left_out(&[Need::Root, Need::Mounts]) {
        return;
    }
    let place = Place::new("full");
    let at = place.path("disk");
    let disk = Disk::new(&at);
    let (image, nbd) = (place.path("disk/drive.img"), socket("full.nbd"));
    let create = ["drive", "create", &image, "--design", "durassd", "--capacity", "1GiB"];
    let made = tantalum(&create).output().expect("it starts");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success() && said.contains("the file system has room for"), "{said}");
    let serve = || {
        let mut command = tantalum(&["drive", "serve", &image, "--time-scale", "0", "--unix"]);
        command.arg(&nbd);
        command
    };
    let content = |block: u64| [block as u8 | 1; 4096];

    let mut serving = Serving::start(serve());
    let mut client = Nbd::connect(&nbd).expect("a server");
    let acknowledged =
        (0..1 << 16).take_while(|block| client.write(*block, &content(*block)).is_ok()).count();
    assert!((100..10_000).contains(&acknowledged), "{acknowledged} blocks were written");
    let mut said = String::new();
    let mut err = serving.child.stderr.take().expect("standard error");
    err.read_to_string(&mut said).expect("text");
    let ended = serving.child.wait().expect("it ends");
    assert_eq!(ended.signal(), Some(SIGBUS), "{ended}: {said}");
    let line = said.strip_prefix(&format!("error: {image}: the host has no room for it: "));
    assert!(line.is_some_and(|line| line.ends_with("power cut\n")), "{said}");

    // The next process ends in the same way while there is no room.
    let again = serve().output().expect("it starts");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.signal() == Some(SIGBUS) && said.contains("no room"), "{again:?}");

    run("mount", &["-o", "remount,size=256m", &at]);
    let serving = Serving::start(serve());
    let mut client = Nbd::connect(&nbd).expect("a server");
    for block in 0..acknowledged as u64 {
        assert_eq!(client.read(block).expect("read"), content(block), "block {block}");
    }
    drop(client);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    drop(disk);
}

/// A slow device that refuses pages ends the request, and not the service; with room it is served.
#[test]
fn a_cache_is_not_given_up_for_a_slow_device_without_room() {
    if left_out(&[Need::Root, Need::Mounts, Need::LoopDevices, Need::Program("losetup")]) {
        return;
    }
    let place = Place::new("no-room");
    let at = place.path("disk");
    let disk = Disk::new(&at);
    let [cache, flash, file, ballast] =
        ["c.toml", "flash", "disk/slow", "disk/ballast"].map(|name| place.path(name));
    // A sparse file is refused; a block device does not say that it is one.
    std::fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("a file");
    let slow = Loop(output("losetup", &["--show", "-f", &file]).trim().to_string());
    let slow = &slow.0;
    let words = ["--flash", &flash, "--flash-size", "8MiB", "--slow", slow];
    let made = tantalum(&[&["cache", "create", &cache], &words[..]].concat()).output();
    let made = made.expect("it starts");
    assert!(made.status.success(), "{made:?}");
    let nbd = socket("no-room.nbd");
    let mut command = tantalum(&["cache", "serve", &cache, "--unix"]);
    command.arg(&nbd);
    let serving = Serving::start(command);
    let mut client = Nbd::connect(&nbd).expect("a server");
    let content = |block: u64| [block as u8 | 1; 4096];
    // Until there is no room left.
    let full = std::fs::write(&ballast, vec![1; 64 << 20]).expect_err("it does not fit");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    for block in 0..100 {
        client.write(block, &content(block)).expect("written");
    }
    client.flush().expect("flushed");
    let detach = || tantalum(&["cache", "detach", &cache]).output().expect("it starts");
    let ended = detach();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let why = format!("the slow device \"{slow}\" has refused page ");
    // (It is refused for as long as progress is silent, so that a line of progress may come first.)
    let progress = "pages brought to the slow device";
    let errors: Vec<&str> = said.lines().filter(|line| !line.contains(progress)).collect();
    assert!(errors.len() == 1 && errors[0].contains(&why), "{said}");
    // Nothing has changed for its clients.
    for block in 0..100 {
        assert_eq!(client.read(block).expect("read"), content(block), "block {block}");
    }
    client.write(100, &content(100)).expect("written");
    std::fs::remove_file(&ballast).expect("it is there");
    // The file system of the host may give the room back later.
    output("sync", &["--file-system", &at]);
    let ended = detach();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(serving.end().0, Some(0));
    let now = std::fs::read(slow).expect("the slow device");
    for block in 0..=100 {
        let at = (1 << 20) + block as usize * 4096;
        assert!(now[at..][..4096] == content(block), "block {block}");
    }
    drop(disk);
}

/// A SIGBUS that does not come from the image ends the process as usual.
#[test]
fn another_fault_ends_it_too() {
    let nbd = socket("fault.nbd");
    let image = socket("fault.img");
    let name = image.to_str().expect("text");
    let create = ["drive", "create", name, "--design", "durassd", "--capacity", "1GiB"];
    assert!(tantalum(&create).output().expect("it starts").status.success());
    let mut command = tantalum(&["drive", "serve", name, "--time-scale", "0", "--unix"]);
    command.arg(&nbd);
    let mut serving = Serving::start(command);
    send(Signal::BUS, &serving.child);
    assert_eq!(serving.child.wait().expect("it ends").signal(), Some(SIGBUS));
    let mut said = String::new();
    let mut err = serving.child.stderr.take().expect("standard error");
    err.read_to_string(&mut said).expect("text");
    assert!(!said.contains("no room"), "{said}");
}
