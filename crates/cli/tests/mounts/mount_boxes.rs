//! `tantalum drive mount` of boxes that are no drive: memory, a magnetic disk, a file of the host.

use crate::mounting::{Mounted, Place, possible, run, tantalum};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tantalum_testing::{Need, Signal};

const EXT4: [Need; 4] = [
    Need::LoopDevices,
    Need::Program("losetup"),
    Need::Program("mkfs.ext4"),
    Need::Program("e2fsck"),
];

/// Asks the process behind this control socket, which must carry it out.
fn ask(command: &str, control: &str) -> String {
    let answer = tantalum(&["drive", command, control]).output().expect("it starts");
    assert!(answer.status.success(), "{command}: {answer:?}");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

/// Writes a synced file and one that is not, cuts and restores: the former is there.
fn survives(mounted: &Mounted, control: &str) {
    let path = mounted.path("synced");
    fs::write(&path, [7; 100_000]).expect("written");
    File::open(&path).and_then(|file| file.sync_all()).expect("synced");
    File::open(&mounted.dir).and_then(|dir| dir.sync_all()).expect("synced");
    fs::write(mounted.path("not-synced"), [8; 100_000]).expect("written to the cache");
    ask("cut", control);
    ask("restore", control);
    assert!(fs::read(&path).expect("it is there") == [7; 100_000]);
}

#[test]
fn memory_is_a_file_that_loses_what_was_not_synced() {
    if !possible(&[]) {
        return;
    }
    let place = Place::new("ram");
    let (dir, control) = (place.path("m"), place.path("control"));
    let mounted = Mounted::new(&dir, &["--ram", "64MiB", &dir, "--control", &control]);
    let path = mounted.path("drive");
    let open = || OpenOptions::new().read(true).write(true).open(&path).expect("the file");
    let file = open();
    assert_eq!(file.metadata().expect("its length").len(), 64 << 20);
    file.write_all_at(&[1; 8192], 4096).expect("written");
    file.sync_all().expect("synced");
    ask("cut", &control);
    assert!(file.read_exact_at(&mut [0; 4096], 4096).is_err(), "there is no power");
    ask("restore", &control);
    drop(file);
    let mut back = [0; 12_288];
    open().read_exact_at(&mut back, 4096).expect("read");
    assert!(back[..8192] == [1; 8192] && back[8192..] == [0; 4096]);
    mounted.stop();
    place.assert_clean();
    assert!(!Path::new(&dir).exists());
}

/// Blank memory takes a file system without --force.
#[test]
fn memory_and_disks_take_a_file_system() {
    if !possible(&EXT4) {
        return;
    }
    let place = Place::new("boxes");
    let (dir, control) = (place.path("m"), place.path("control"));
    for which in [
        &["--ram", "64MiB"][..],
        &["--disk", "disk-15k", "--capacity", "64MiB"],
        &["--disk", "4xdisk-15k", "--capacity", "64MiB"],
    ] {
        let more = [&dir, "--fs", "ext4", "--control", &control];
        let mounted = Mounted::new(&dir, &[which, &more].concat());
        survives(&mounted, &control);
        mounted.stop();
        place.assert_clean();
    }
}

#[test]
fn memory_is_a_directory_of_files() {
    if !possible(&[]) {
        return;
    }
    let place = Place::new("rambox");
    let (dir, control) = (place.path("m"), place.path("control"));
    let more = ["--ram", "64MiB", "--ram-ack", "safe", &dir, "--files", "--control", &control];
    let mounted = Mounted::new(&dir, &more);
    survives(&mounted, &control);
    mounted.stop();
    place.assert_clean();
}

/// A file that is made has zeros that were written: no holes, and yet nothing that could be lost.
/// What is in the file is the file system, byte by byte; and who was killed leaves nothing behind
/// that the next one does not clean up.
#[test]
fn a_file_of_the_host_keeps_its_file_system() {
    if !possible(&EXT4) {
        return;
    }
    let place = Place::new("hostfile");
    let (dir, path) = (place.path("m"), place.path("disk.raw"));
    let which = ["--file", &path, "--buffered", "--capacity", "64MiB", &dir, "--fs", "ext4"];
    let mounted = Mounted::new(&dir, &which);
    survives(&mounted, &path);
    mounted.stop();
    place.assert_clean();
    run("e2fsck", &["-f", "-n", &path]);

    let mut mounted = Mounted::new(&dir, &which);
    fs::write(mounted.path("more"), "x").expect("written");
    mounted.signal(Signal::KILL);
    mounted.wait();
    drop(mounted);
    let mounted = Mounted::new(&dir, &which);
    assert!(mounted.said().contains("left by a process that was killed"), "{}", mounted.said());
    assert!(fs::read(mounted.path("synced")).expect("it is there") == [7; 100_000]);
    mounted.stop();
    place.assert_clean();

    // Something else in it is not overwritten.
    File::options().write(true).open(&path).and_then(|f| f.write_all_at(&[0; 4096], 0)).expect("x");
    let (code, said) = Mounted::try_new(&dir, &which).err().expect("it is refused");
    assert!(code == Some(1) && said.contains("use --force"), "{said}");
    place.assert_clean();
}
