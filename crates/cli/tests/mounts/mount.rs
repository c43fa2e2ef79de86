//! `tantalum drive mount` with the kernel: FUSE, loop devices, ext4, XFS. Needs root, and
//! `scripts/install-mount-tools`.

use crate::mounting::{Mounted, Place, mounts, output, possible, run, tantalum, unmount};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tantalum_testing::{CopyOfMount, Need, Signal, send};

const EXT4: [Need; 4] = [
    Need::LoopDevices,
    Need::Program("losetup"),
    Need::Program("mkfs.ext4"),
    Need::Program("e2fsck"),
];
const XFS: [Need; 4] = [
    Need::LoopDevices,
    Need::Program("losetup"),
    Need::Program("mkfs.xfs"),
    Need::Program("xfs_repair"),
];
/// XFS with blocks that are larger than the processor's pages.
const LONG_XFS: [Need; 5] = {
    let [a, b, c, d] = XFS;
    [a, b, c, d, Need::Kernel(6, 12)]
};
/// A bare loop device.
const DISK: [Need; 4] = [
    Need::LoopDevices,
    Need::Program("losetup"),
    Need::Program("fio"),
    Need::Program("blkdiscard"),
];

const O_DIRECT: i32 = 0o40000;

/// The checkers of the file systems find no error on the drive after an unmount.
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
    if !possible(&[Need::Program("fallocate")]) {
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

/// A user who can write an image could put a setuid program or a device file on it.
#[test]
fn what_is_mounted_has_neither_set_user_ids_nor_devices() {
    if !possible(&[&EXT4[..], &XFS].concat()) {
        return;
    }
    let place = Place::new("flags");
    let dir = place.path("m");
    for (more, mounts) in
        [(&["--fs", "ext4"][..], 2), (&["--fs", "xfs"], 2), (&["--files"], 1), (&[], 1)]
    {
        let image = place.image("durassd");
        let mut arguments = vec![image.as_str(), dir.as_str()];
        arguments.extend(more);
        let mounted = Mounted::new(&dir, &arguments);
        let table = crate::mounting::mounts();
        let source = format!("tantalum:{image}");
        let ours: Vec<&str> = table
            .lines()
            .filter(|line| line.contains(&format!(" {dir} ")) || line.contains(&source))
            .collect();
        assert_eq!(ours.len(), mounts, "{more:?}: {table}");
        for line in ours {
            let options: Vec<&str> = line.split(' ').nth(5).expect("options").split(',').collect();
            assert!(options.contains(&"nosuid") && options.contains(&"nodev"), "{line}");
        }
        mounted.stop();
        fs::remove_file(&image).expect("the image is there");
    }
    place.assert_clean();
}

/// Writes files and syncs each, with its directory, until it is stopped or one fails; returns the
/// names of the synced files.
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

/// Power cuts under load, each followed by a restart: synced files are there, and the file system
/// is sound.
fn cut_under_load(fs: &str, more: &[&str], needs: &[Need]) {
    if !possible(needs) {
        return;
    }
    let place = Place::new(&format!("cut-{fs}"));
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let mut arguments = vec![&*image, &*dir, "--fs", fs, "--cut-after-ops", "1500"];
    arguments.extend(["--restore-after", "300ms", "--seed", "7"]);
    arguments.extend(more);
    let mut all = Vec::new();
    for round in 1..=3 {
        let mounted = Mounted::new(&dir, &arguments);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let synced = std::thread::scope(|threads| {
            let write = |n| {
                let (dir, stop) = (mounted.dir.clone(), &stop);
                threads.spawn(move || write_files(&dir, &format!("{round}-{n}"), stop))
            };
            let writers: Vec<_> = (0..3).map(write).collect();
            mounted.wait_for("cut after", 1);
            // A writer that has not failed by now writes to the next mount.
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            writers.into_iter().map(|w| w.join().expect("a writer")).collect::<Vec<_>>().concat()
        });
        assert!(!synced.is_empty(), "nothing was written in round {round}");
        all.extend(synced);
        mounted.wait_for("took commands after", 1);
        // The mount may be visible before the message, or just after it.
        for name in &all {
            let back = fs::read_to_string(mounted.path(name));
            let back = back.unwrap_or_else(|e| panic!("{name}: {e}; {}", mounted.said()));
            assert!(back == content(name), "{name} is not what was written");
        }
        mounted.stop();
        place.assert_clean();
        assert_sound(&place, &image, fs);
    }
    place.assert_clean();
}

#[test]
fn ext4_survives_power_cuts_under_load() {
    cut_under_load("ext4", &[], &EXT4);
}

#[test]
fn xfs_with_long_blocks_survives_power_cuts_under_load() {
    cut_under_load("xfs", &["--fs-block", "16KiB", "--on-cut", "drop"], &LONG_XFS);
}

/// A second drive is not mounted over a mounted one, which is not disturbed.
#[test]
fn two_drives_are_not_mounted_on_one_directory() {
    if !possible(&EXT4) {
        return;
    }
    for more in [&[][..], &["--fs", "ext4"]] {
        let place = Place::new(&format!("two-{}", more.len()));
        let (image, dir) = (place.image("durassd"), place.path("m"));
        let mounted = Mounted::new(&dir, &[&[&*image, &*dir], more].concat());
        let other = place.path("other.img");
        let create = ["drive", "create", &other, "--design", "durassd"];
        assert!(tantalum(&create).output().expect("it starts").status.success());
        let second = tantalum(&["drive", "mount", &other, &dir]).output().expect("it starts");
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(!second.status.success() && said.contains("another drive is mounted"), "{said}");
        if more.is_empty() {
            let file = File::open(mounted.path("drive")).expect("the file is there");
            file.read_at(&mut [0; 4096], 0).expect("it is served");
        } else {
            fs::write(mounted.path("file"), b"here").expect("it is served");
        }
        mounted.stop();
        place.assert_clean();
    }
}

/// What another process mounts in the place of a drive that it has unmounted is left alone.
#[test]
fn what_is_mounted_in_the_place_of_a_drive_stays() {
    if !possible(&[Need::Mounts]) {
        return;
    }
    let place = Place::new("in-its-place");
    let dir = place.path("m");
    fs::create_dir(&dir).expect("a directory");
    let mut mounted = Mounted::new(&dir, &["--ram", "16MiB", &dir]);
    // (The process looks again a moment after it has seen a change.)
    run("sh", &["-c", r#"umount "$0" && mount -t tmpfs another "$0""#, &dir]);
    assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
    assert!(mounted.said().contains("was unmounted by another process"), "{}", mounted.said());
    // (This fails if nothing is mounted there.)
    unmount(&dir);
    place.assert_clean();
}

/// Who unmounts a drive ends its process in good order. While the power is off that is not so: then
/// it is mounted again when the power returns.
#[test]
fn a_drive_that_another_process_unmounts_ends() {
    if !possible(&EXT4) {
        return;
    }
    for more in [&[][..], &["--files"], &["--fs", "ext4"]] {
        let place = Place::new(&format!("unmounted-{}", more.join("")));
        let (image, dir) = (place.image("durassd"), place.path("m"));
        let arguments = [&[&*image, &*dir], more].concat();
        let mut mounted = Mounted::new(&dir, &arguments);
        let name = if more.is_empty() { "drive" } else { "file" };
        let mut how = OpenOptions::new();
        let how = how.write(true).create(!more.is_empty());
        let write = |at: u64| {
            let file = how.open(mounted.path(name)).expect("a file");
            file.write_all_at(&[9; 8192], at).expect("written");
        };
        write(0);
        // Other mounts come and go, also with names in other encodings.
        let odd = Path::new(&image).with_file_name(OsStr::from_bytes(b"\xe9"));
        fs::create_dir(&odd).expect("a directory");
        run("mount", &[OsStr::new("-t"), "tmpfs".as_ref(), "none".as_ref(), odd.as_ref()]);
        std::thread::sleep(Duration::from_millis(500));
        unmount(&odd);
        std::thread::sleep(Duration::from_millis(500));
        assert!(!mounted.said().contains("unmounted"), "{more:?}: {}", mounted.said());
        run(env!("CARGO_BIN_EXE_tantalum"), &["drive", "cut", &image]);
        unmount(&dir);
        run(env!("CARGO_BIN_EXE_tantalum"), &["drive", "restore", &image]);
        write(8192);
        unmount(&dir);
        assert_eq!(mounted.wait(), Some(0), "{more:?}: {}", mounted.said());
        let said = format!("{dir} was unmounted by another process: this process ends");
        assert_eq!(mounted.said().matches(&said).count(), 1, "{more:?}: {}", mounted.said());
        place.assert_clean();
        assert!(!Path::new(&dir).exists(), "{more:?}: the directory was not there before");
        // It was no power cut.
        let mounted = Mounted::new(&dir, &arguments);
        assert!(!mounted.said().contains("killed"), "{more:?}: {}", mounted.said());
        let mut back = [0; 8192];
        let file = File::open(mounted.path(name)).expect("a file");
        file.read_exact_at(&mut back, 8192).expect("read");
        assert_eq!(back, [9; 8192], "{more:?}");
        drop(file);
        mounted.stop();
        place.assert_clean();
    }
}

/// The drive is shown again although a copy of the mount keeps its connection alive.
#[test]
fn what_is_unmounted_without_power_is_mounted_again_beside_a_copy() {
    if !possible(&EXT4) {
        return;
    }
    for more in [&[][..], &["--files"], &["--fs", "ext4"]] {
        let place = Place::new(&format!("copied-cut-{}", more.join("")));
        let (image, dir) = (place.image("durassd"), place.path("m"));
        let mut mounted = Mounted::new(&dir, &[&[&*image, &*dir], more].concat());
        let name = if more.is_empty() { "drive" } else { "file" };
        let other = CopyOfMount::of(Path::new(&dir));
        run(env!("CARGO_BIN_EXE_tantalum"), &["drive", "cut", &image]);
        unmount(&dir);
        run(env!("CARGO_BIN_EXE_tantalum"), &["drive", "restore", &image]);
        assert!(mounts().contains(&format!(" {dir} ")), "{more:?}: {}", mounted.said());
        let mut how = OpenOptions::new();
        let how = how.write(true).create(!more.is_empty());
        let file = how.open(mounted.path(name)).expect("a file");
        file.write_all_at(&[9; 8192], 0).expect("written");
        drop((file, other));
        mounted.signal(Signal::TERM);
        assert_eq!(mounted.wait(), Some(0), "{more:?}: {}", mounted.said());
        place.assert_clean();
    }
}

/// If /dev/fuse exists but may not be opened, the error does not say that it is missing.
#[test]
fn who_may_not_open_the_fuse_device_is_told_so() {
    if !possible(&[]) {
        return;
    }
    // In a mount namespace of its own, /dev/fuse is on a file system that does not allow devices.
    const SCRIPT: &str = r#"set -e
mount -t tmpfs -o nodev tmpfs "$0"
mknod "$0/fuse" c 10 229
mount --bind "$0/fuse" /dev/fuse
exec "$@""#;
    let place = Place::new("denied");
    let (image, dir, dev) = (place.image("durassd"), place.path("m"), place.path("dev"));
    fs::create_dir(&dev).expect("a directory");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, &dev, env!("CARGO_BIN_EXE_tantalum")]);
    let output = command.args(["drive", "mount", &image, &dir]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("may not open it") && !said.contains("modprobe"), "{said}");
    assert!(!Path::new(&dir).exists());
}

/// A process that is stopped before the drive is mounted says so, and leaves nothing behind. It
/// finishes a file system that it is making.
#[test]
fn a_mount_can_be_interrupted() {
    if !possible(&EXT4) {
        return;
    }
    const MAKER: &str = "#!/bin/sh
kill -TERM $PPID
PATH=/usr/sbin:/sbin:/usr/bin:/bin exec mkfs.ext4 \"$@\"
";
    let place = Place::new("interrupted");
    let (image, dir, bin) = (place.image("durassd"), place.path("m"), place.path("bin"));
    fs::create_dir(&bin).expect("a directory");
    let maker = Path::new(&bin).join("mkfs.ext4");
    fs::write(&maker, MAKER).expect("a script");
    fs::set_permissions(&maker, Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = tantalum(&["drive", "mount", "--time-scale", "0", &image, &dir]);
    let output = command.args(["--fs", "ext4"]).env("PATH", path).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout), (Some(130), &b""[..]), "{said}");
    assert!(said.contains("stopping once it is set up; a second signal"), "{said}");
    assert!(said.contains("interrupted before it was ready"), "{said}");
    place.assert_clean();
    assert!(!Path::new(&dir).exists());
    assert_sound(&place, &image, "ext4");

    // While the drive starts, there is nothing to finish.
    let mut command = tantalum(&["drive", "mount", "--time-scale", "10000", &image, &dir]);
    command.args(["--fs", "ext4"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut starting = command.spawn().expect("it starts");
    loop {
        let asked = tantalum(&["drive", "status", &image]).output().expect("it starts");
        if String::from_utf8_lossy(&asked.stdout).contains("starting") {
            break;
        }
        assert!(starting.try_wait().expect("asked").is_none(), "it has ended");
    }
    send(Signal::INT, &starting);
    let output = starting.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout), (Some(130), &b""[..]), "{said}");
    assert_eq!(said, "error: interrupted before it was ready\n");
    place.assert_clean();
    assert!(!Path::new(&dir).exists());
}

/// The power is cut and restored by commands.
#[test]
fn a_cut_and_a_restart_on_command() {
    if !possible(&LONG_XFS) {
        return;
    }
    let place = Place::new("command");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "xfs", "--fs-block", "8KiB"]);
    let path = mounted.path("file");
    let mut file = File::create(&path).expect("a file");
    file.write_all(b"synced").and_then(|()| file.sync_all()).expect("written");
    file.write_all(b", and not synced").expect("written to the cache");
    let ask = |command: &str| {
        let answer = tantalum(&["drive", command, &image]).output().expect("it starts");
        assert!(answer.status.success(), "{command}: {answer:?}");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    };
    ask("cut");
    assert!(file.sync_all().is_err());
    let answer = ask("restore");
    assert!(answer.contains(&format!("remounted: {dir}")), "{answer}");
    // Files that were open belong to the old mount.
    assert!(file.write_all(b"too late").and_then(|()| file.sync_all()).is_err());
    drop(file);
    let back = fs::read_to_string(&path).expect("the file");
    assert!(back.starts_with("synced") && !back.contains("late"), "{back}");
    mounted.stop();
    place.assert_clean();
    assert_sound(&place, &image, "xfs");
}

/// Held by tests that look at what the kernel was told of a loop device, and by one that changes it
/// for all of them.
static KNOBS: Mutex<()> = Mutex::new(());

/// Unused loop devices with flushes switched off. Other programs may use them later.
struct Knobs(Vec<PathBuf>);

impl Knobs {
    fn turned() -> Knobs {
        let disks =
            fs::read_dir("/sys/block").expect("the disks").flatten().map(|disk| disk.path());
        let free = disks.filter(|disk| {
            let name = disk.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("loop") && !disk.join("loop").exists()
        });
        let knobs = free.map(|disk| disk.join("queue/write_cache"));
        let back =
            |knob: &PathBuf| fs::read_to_string(knob).is_ok_and(|is| is.trim() == "write back");
        let knobs = Knobs(knobs.filter(back).collect());
        // (Another test may have taken one meanwhile, which does no harm.)
        knobs.set("write through");
        knobs
    }

    fn set(&self, how: &str) {
        for knob in &self.0 {
            let _ = fs::write(knob, how);
        }
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        self.set("write back");
    }
}

/// What the kernel was told of the cache of the disk that is mounted here.
fn write_cache(dir: &str) -> String {
    let mounts = fs::read_to_string("/proc/mounts").expect("the mounts");
    let disk = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (disk, at) = (words.next()?, words.next()?);
        (at == dir).then(|| disk.trim_start_matches("/dev/").to_string())
    });
    let disk = disk.expect("it is mounted");
    let told = fs::read_to_string(format!("/sys/block/{disk}/queue/write_cache"));
    told.expect("the knob").trim().to_string()
}

/// A log volume has no volatile cache. What is synced survives all the same.
#[test]
fn the_kernel_sends_a_log_volume_no_flushes() {
    if !possible(&EXT4) {
        return;
    }
    let _turn = KNOBS.lock().unwrap_or_else(|e| e.into_inner());
    let place = Place::new("no-flushes");
    let (toml, dir) = (place.path("wal.toml"), place.path("m"));
    let (a, b, backing) = (place.path("a"), place.path("b"), place.path("backing"));
    let devices = ["--device", &a, "--device", &b, "--size", "32MiB"];
    let store = ["--backing", &backing, "--backing-size", "64MiB"];
    let made = tantalum(&["log", "create", &toml]).args(devices).args(store).output();
    assert!(made.expect("it starts").status.success());
    let mounted = Mounted::by(&["log", "mount"], &dir, &[&toml, &dir, "--fs", "ext4"]);
    let mounted = mounted.unwrap_or_else(|(code, said)| panic!("{code:?}: {said}"));
    assert_eq!(write_cache(&dir), "write through");
    let path = mounted.path("synced");
    fs::write(&path, [7; 100_000]).expect("written");
    File::open(&path).and_then(|file| file.sync_all()).expect("synced");
    File::open(&dir).and_then(|dir| dir.sync_all()).expect("synced");
    run(env!("CARGO_BIN_EXE_tantalum"), &["log", "cut", &toml]);
    run(env!("CARGO_BIN_EXE_tantalum"), &["log", "restore", &toml]);
    assert!(fs::read(&path).expect("it is there") == [7; 100_000]);
    mounted.stop();
    place.assert_clean();
}

/// A loop device keeps the setting "no flushes" of an earlier user; a mounted drive needs flushes.
#[test]
fn the_kernel_sends_flushes_whatever_the_loop_device_was_told_before() {
    if !possible(&EXT4) {
        return;
    }
    let _turn = KNOBS.lock().unwrap_or_else(|e| e.into_inner());
    let place = Place::new("flushes");
    let (image, dir) = (place.image("volatile"), place.path("m"));
    let _knobs = Knobs::turned();
    let mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "ext4"]);
    assert_eq!(write_cache(&dir), "write back");
    let flushes = || commands(&image, &["flush"]).0;
    let before = flushes();
    let mut file = File::create(mounted.path("file")).expect("a file");
    file.write_all(b"synced").and_then(|()| file.sync_all()).expect("written");
    assert!(flushes() > before, "a sync reaches the drive");
    drop(file);
    mounted.stop();
    place.assert_clean();
}

#[test]
fn a_killed_process_leaves_nothing_that_the_next_does_not_clean_up() {
    if !possible(&[&EXT4[..], &XFS].concat()) {
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
                // The second file exists when the first is synced.
                while !mounted.path(&format!("{round}-1")).exists() && !writer.is_finished() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                std::thread::sleep(Duration::from_millis(400));
                mounted.signal(Signal::KILL);
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                writer.join().expect("a writer")
            }));
            mounted.wait();
        }
        assert!(!all.is_empty());
        let mounted = Mounted::new(&dir, &arguments);
        mounted.wait_for("left by a process that was killed", 1);
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
    if !possible(&EXT4) {
        return;
    }
    let place = Place::new("busy");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    for twice in [false, true] {
        let mut mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "ext4"]);
        let mut file = File::create(mounted.path("open")).expect("a file");
        mounted.signal(Signal::TERM);
        mounted.wait_for("is in use", 1);
        // (In use by this process or, for a moment, by a process that another test starts.)
        let who = format!(") has {dir}/open");
        assert!(mounted.said().contains(&who), "{}", mounted.said());
        file.write_all(b"it works all the while").expect("written");
        if twice {
            // (Within a tenth of a second it would be the same one.)
            std::thread::sleep(std::time::Duration::from_millis(200));
            mounted.signal(Signal::TERM);
            assert_eq!(mounted.wait(), Some(1), "{}", mounted.said());
            mounted.wait_for("by a second signal", 1);
            let gone = file.write_all(b"not any more").and_then(|()| file.sync_all());
            assert!(gone.is_err());
        } else {
            drop(file);
            assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
        }
        place.assert_clean();
        assert!(!Path::new(&dir).exists());
    }
    // Data written before the first process ended is there, and data of the second one, too.
    let mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "ext4"]);
    let back = fs::read_to_string(mounted.path("open")).expect("the file");
    assert_eq!(back, "it works all the while");
    mounted.stop();
    assert_sound(&place, &image, "ext4");
}

/// The kernel lets go of a loop device when its last user closes it: until then the file on it is in
/// use.
#[test]
fn a_loop_device_that_is_open_is_told_and_waited_for() {
    if !possible(&EXT4) {
        return;
    }
    let place = Place::new("loop-open");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let mut mounted = Mounted::new(&dir, &[&image, &dir, "--fs", "ext4"]);
    let table = mounts();
    let line = table.lines().find(|line| line.contains(&format!(" {dir} "))).expect("the mount");
    let disk = line.split(' ').find(|word| word.starts_with("/dev/loop")).expect("a loop device");
    let open = File::open(disk).expect("it opens");
    mounted.signal(Signal::TERM);
    mounted.wait_for(&format!(") has {disk}. It is unmounted as soon as they are done"), 1);
    drop(open);
    assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
    assert_eq!(mounted.said().matches("is in use").count(), 1, "{}", mounted.said());
    place.assert_clean();
    assert_sound(&place, &image, "ext4");
}

/// A process that starts its own mount namespace while a drive is mounted has a copy of the mount:
/// the drive's process names it, and waits for it.
#[test]
fn a_copy_of_the_mount_is_told_and_waited_for() {
    if !possible(&EXT4) {
        return;
    }
    let place = Place::new("copied");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    for fs in [&["--fs", "ext4"][..], &[]] {
        let mut mounted = Mounted::new(&dir, &[&[&image[..], &dir], fs].concat());
        let other = CopyOfMount::of(Path::new(&dir));
        mounted.signal(Signal::TERM);
        let who = format!("({}) has a copy of the mount at {dir}", other.id());
        mounted.wait_for(&who, 1);
        drop(other);
        assert_eq!(mounted.wait(), Some(0), "{}", mounted.said());
        // The message comes once, however often unmounting is tried.
        assert_eq!(mounted.said().matches("is in use").count(), 1, "{}", mounted.said());
        place.assert_clean();
    }
    assert_sound(&place, &image, "ext4");
}

#[test]
fn no_file_system_is_made_over_what_is_there() {
    if !possible(&[&EXT4[..], &XFS].concat()) {
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
        // The process has ended in good order.
        let found = output(env!("CARGO_BIN_EXE_tantalum"), &["drive", "inspect", &image]);
        assert!(found.contains("units") && !found.contains("was killed"), "{found}");
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

/// A loop device on the file of a mounted drive.
struct Disk(String);

impl Disk {
    fn new(file: &Path) -> Disk {
        let file = file.to_str().expect("text");
        let how = ["--find", "--show", "--direct-io=on", "--sector-size", "4096", file];
        let name = output("losetup", &how).trim().to_string();
        assert!(name.starts_with("/dev/loop"), "no loop device: {name:?}");
        Disk(name)
    }

    fn queue(&self, what: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.0["/dev/".len()..]).join("queue").join(what)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

fn fio(disk: &Disk, arguments: &[&str]) -> Child {
    let file = format!("--filename={}", disk.0);
    let mut command = Command::new("fio");
    command.args(["--name=x", "--direct=1", "--ioengine=libaio", "--output-format=terse", &file]);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::inherit());
    command.spawn().expect("fio starts")
}

/// As block/003 of blktests: discards of all lengths and alignments. Then discards among writes,
/// compared with the expected content.
#[test]
fn discards_of_any_length_work() {
    if !possible(&DISK) {
        return;
    }
    const REGION: usize = 32 << 20;
    const BLOCK: usize = 4096;
    let place = Place::new("discards");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let mounted = Mounted::new(&dir, &[&image, &dir]);
    let disk = Disk::new(&mounted.path("drive"));
    // As in blktests, a few discards of most of the disk; and many short ones, which are rare
    // there.
    for lengths in ["--bsrange=4k-4g", "--bsrange=4k-1m"] {
        let trim = ["--rw=randtrim", "--norandommap", lengths, "--number_ios=2000"];
        assert!(fio(&disk, &trim).wait().expect("it ends").success());
    }

    let mut dice = 12345u64;
    let mut roll = move |below: usize| {
        dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (dice >> 33) as usize % below
    };
    let device = OpenOptions::new().read(true).write(true).open(&disk.0).expect("the disk");
    let mut model = vec![0; REGION];
    for round in 0..120 {
        let from = roll(REGION / BLOCK) * BLOCK;
        let to = (from + (1 + roll(1024)) * BLOCK).min(REGION);
        let (at, length) = (from.to_string(), (to - from).to_string());
        match round % 3 {
            0 => run("blkdiscard", &["-o", &at, "-l", &length, &disk.0]),
            1 if round % 2 == 0 => run("blkdiscard", &["-z", "-o", &at, "-l", &length, &disk.0]),
            _ => {
                model[from..to].fill(round as u8 + 1);
                device.write_all_at(&model[from..to], from as u64).expect("written");
                device.sync_data().expect("synced");
                continue;
            }
        }
        model[from..to].fill(0);
    }
    // Read with direct I/O, to bypass the kernel's cache.
    let mut back = vec![1; REGION];
    let file = File::open(mounted.path("drive")).expect("the file");
    file.read_exact_at(&mut back, 0).expect("read");
    let wrong = (0..REGION).find(|i| back[*i] != model[*i]);
    assert_eq!(wrong, None, "not what was written");
    // Discarded blocks are unmapped, not stored as zeros.
    let held = model.chunks(BLOCK).filter(|block| block[0] != 0).count() as u64;
    let stats = stats(&image);
    let number = |of: &str, what: &str| stats[of][what].as_u64().expect("a number");
    let mapped = number("map", "mapped_pages");
    let at_most = mapped + number("buffer", "used");
    assert!((mapped..=at_most).contains(&held), "{held} pages hold data; {mapped} to {at_most} do");
    drop((device, file, disk));
    mounted.stop();
    place.assert_clean();
}

/// As block/005 of blktests: the scheduler of the disk is switched during I/O.
#[test]
fn schedulers_are_switched_under_load() {
    if !possible(&DISK) {
        return;
    }
    let place = Place::new("schedulers");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let mounted = Mounted::new(&dir, &[&image, &dir]);
    let disk = Disk::new(&mounted.path("drive"));
    let scheduler = disk.queue("scheduler");
    let there = fs::read_to_string(&scheduler).expect("schedulers");
    let all: Vec<&str> = there.split_whitespace().map(|s| s.trim_matches(['[', ']'])).collect();
    let load = [
        "--rw=randrw",
        "--bs=4k",
        "--iodepth=16",
        "--size=64m",
        "--verify=crc32c",
        "--verify_state_save=0",
    ];
    let mut fio = fio(&disk, &load);
    let mut switched = 0;
    let ended = loop {
        if let Some(ended) = fio.try_wait().expect("it can be waited for") {
            break ended;
        }
        fs::write(&scheduler, all[switched % all.len()]).expect("switched");
        switched += 1;
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ended.success(), "{ended}");
    assert!(switched > 1, "it ended before there was a switch");
    drop(disk);
    mounted.stop();
    place.assert_clean();
}

/// A database page written with direct I/O to XFS with blocks of the page size is one command of
/// the drive.
#[test]
fn a_page_reaches_the_drive_in_one_piece() {
    if !possible(&LONG_XFS) {
        return;
    }
    let place = Place::new("pages");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let arguments = [&*image, &*dir, "--fs", "xfs", "--fs-block", "16KiB"];
    let mounted = Mounted::new(&dir, &arguments);
    let path = mounted.path("pages");
    let filled = File::create(&path).expect("a file");
    filled.write_all_at(&vec![1; 16 << 20], 0).and_then(|()| filled.sync_all()).expect("filled");
    let before = commands(&image, &["write", "fua", "group"]);
    let file = OpenOptions::new().write(true).custom_flags(O_DIRECT).open(&path).expect("a file");
    let room = vec![9; 32 << 10];
    let from = room.as_ptr().align_offset(4096);
    let page = &room[from..from + (16 << 10)];
    for i in 0..500u64 {
        file.write_all_at(page, (i * 37 % 1024) * (16 << 10)).expect("written");
    }
    let after = commands(&image, &["write", "fua", "group"]);
    // The pages, and a few commands of the file system.
    let (writes, bytes) = (after.0 - before.0, after.1 - before.1);
    assert!((500..550).contains(&writes), "{writes} writes");
    assert!((500 * (16 << 10)..9 << 20).contains(&bytes), "{bytes} bytes");
    drop((file, filled));
    mounted.stop();
}

/// Writes and groups that the drive has carried out, and their bytes.
fn commands(image: &str, kinds: &[&str]) -> (u64, u64) {
    let stats = stats(image);
    let sum = |what: &str| {
        let of = |kind: &str| stats["commands"][kind][what].as_u64().unwrap_or(0);
        kinds.iter().map(|kind| of(kind)).sum()
    };
    (sum("done"), sum("bytes"))
}

fn stats(image: &str) -> serde_json::Value {
    let asked = tantalum(&["drive", "stats", image, "--json"]).output().expect("it starts");
    assert!(asked.status.success(), "{asked:?}");
    serde_json::from_slice(&asked.stdout).expect("JSON")
}
