//! A file as a device, on both back ends of the wall clock; the numbers are those of the contract.
#![allow(clippy::disallowed_methods, reason = "tests look at files and mount file systems")]

use crate::both::{run, runtimes};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tantalum_device::{
    Ack, Block, BlockDevice, Blocks, Data, DataMut, Durability, File, FileError, FileSettings,
    IoError, PowerCycle,
};
use tantalum_rt::room_at;
use tantalum_rt::wall::AlignedBuf;
use tantalum_rt::{Nanos, Runtime, first};
use tantalum_testing::{Need, Scratch, left_out};

const MIB: u64 = 1 << 20;

fn blocks(size: u32) -> FileSettings {
    FileSettings { block_size: Some(size), ..FileSettings::default() }
}

/// Where the file system may lack direct I/O, files are tested through the page cache.
fn usual(dir: &Path, size: u32) -> FileSettings {
    let probe = dir.join("probe");
    std::fs::write(&probe, [0; 4096]).unwrap();
    let opened = runtimes().next().map(|(_, rt)| File::open(&rt, &probe, &blocks(size)));
    let buffered = matches!(opened, Some(Err(FileError::NoDirectIo(_))));
    FileSettings { buffered, ..blocks(size) }
}

async fn write(file: &File, at: u64, count: usize, byte: u8) -> Result<(), IoError> {
    write_as(file, at, count, byte, Durability::Normal).await
}

async fn write_as(
    file: &File,
    at: u64,
    count: usize,
    byte: u8,
    want: Durability,
) -> Result<(), IoError> {
    let bytes = vec![byte; count * file.caps().block_size as usize];
    file.write(Block(at), Data::Bytes(&bytes), want).await
}

async fn read(file: &File, at: u64, count: usize) -> Result<Vec<u8>, IoError> {
    let mut bytes = vec![0xEE; count * file.caps().block_size as usize];
    file.read(Block(at), DataMut::Bytes(&mut bytes)).await.map(|()| bytes)
}

async fn holds(file: &File, at: u64, count: usize, byte: u8) -> bool {
    read(file, at, count).await.unwrap().iter().all(|&b| b == byte)
}

#[test]
fn a_new_file_holds_zeros_that_have_room_and_is_its_users_alone() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("new"), usual(scratch.dir(), 4096));
        let main = async move {
            let bytes = 5 * MIB + 12_288;
            let file = File::create(&rt, &path, bytes, &settings).await.unwrap();
            let caps = *file.caps();
            assert_eq!((caps.bytes(), caps.block_size, caps.ack), (bytes, 4096, Ack::Volatile));
            assert!(caps.flush && !caps.ordered && caps.thin && caps.atomic_group.is_none());
            let found = std::fs::metadata(&path).unwrap();
            assert!(found.len() == bytes && found.blocks() * 512 >= bytes, "all of it has room");
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
            assert!(holds(&file, 0, caps.blocks as usize, 0).await);
            drop(file);

            let again = File::create(&rt, &path, bytes, &settings).await.err().unwrap();
            assert!(again.to_string().contains("exists"), "{again}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes, "what is there stays");
        };
        run(&mut runtime, main);
    }
}

#[test]
fn what_is_written_is_read_and_is_there_when_the_file_is_opened_again() {
    for size in [512, 4096, 65_536] {
        for (mut runtime, rt) in runtimes() {
            let scratch = Scratch::new();
            let settings = FileSettings { block_size: Some(size), ..usual(scratch.dir(), 4096) };
            let path = scratch.path("file");
            let main = async move {
                let file = File::create(&rt, &path, 8 * MIB, &settings).await.unwrap();
                let all = file.caps().blocks as usize;
                // More than one operation moves, and more than goes at a time.
                write(&file, 0, all, 1).await.unwrap();
                write_as(&file, 3, 2, 2, Durability::Fua).await.unwrap();
                write_as(&file, 8, all / 2, 3, Durability::Fua).await.unwrap();
                write(&file, 0, 0, 9).await.unwrap();
                file.discard(Blocks { start: Block(5), count: 2 }).await.unwrap();
                file.discard(Blocks { start: Block(0), count: 0 }).await.unwrap();
                file.flush().await.unwrap();
                let inner = all / 2 + 8;
                let parts = [(0, 3, 1), (3, 2, 2), (5, 2, 0), (7, 1, 1), (8, all / 2, 3)];
                for (at, count, byte) in parts {
                    assert!(holds(&file, at, count, byte).await, "{size} {at}");
                }
                assert!(holds(&file, inner as u64, all - inner, 1).await);
                file.cut();
                assert_eq!(read(&file, 0, 1).await, Err(IoError::PowerLost));
                file.power_on().await.unwrap();
                assert!(!file.is_alive(), "an old link stays dead");
                assert!(file.device().is_alive() && holds(&file.device(), 3, 2, 2).await);
                drop(file);
                let file = File::open(&rt, &path, &settings).unwrap();
                for (at, count, byte) in parts {
                    assert!(holds(&file, at, count, byte).await, "again: {size} {at}");
                }
            };
            run(&mut runtime, main);
        }
    }
}

#[test]
fn commands_that_cannot_be_meant_are_refused() {
    let (mut runtime, rt) = runtimes().next().unwrap();
    let scratch = Scratch::new();
    let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
    let main = async move {
        let file = File::create(&rt, &path, 65_536, &settings).await.unwrap();
        let invalid = |result: Result<(), IoError>| matches!(result, Err(IoError::Invalid(_)));
        assert!(invalid(write(&file, 16, 1, 1).await) && invalid(write(&file, 15, 2, 1).await));
        assert!(invalid(read(&file, u64::MAX, 1).await.map(drop)));
        let part = file.write(Block(0), Data::Bytes(&[1; 100]), Durability::Normal).await;
        let stamps = file.write(Block(0), Data::Stamps(&[1]), Durability::Normal).await;
        assert!(invalid(part) && invalid(stamps));
        assert!(invalid(file.discard(Blocks { start: Block(10), count: 7 }).await));
        assert!(file.write_atomic(&[]).await.is_err());
        assert!(holds(&file, 0, 16, 0).await);
    };
    run(&mut runtime, main);
}

#[test]
fn discards_give_room_back_or_keep_it() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let usual = usual(scratch.dir(), 4096);
        let paths = [scratch.path("gives"), scratch.path("keeps")];
        let main = async move {
            for (path, keep_room) in paths.iter().zip([false, true]) {
                let settings = FileSettings { keep_room, ..usual.clone() };
                let file = File::create(&rt, path, 4 * MIB, &settings).await.unwrap();
                assert_eq!(file.caps().thin, !keep_room);
                write(&file, 0, 1024, 7).await.unwrap();
                file.discard(Blocks { start: Block(256), count: 512 }).await.unwrap();
                file.flush().await.unwrap();
                assert!(holds(&file, 0, 256, 7).await && holds(&file, 256, 512, 0).await);
                assert!(holds(&file, 768, 256, 7).await);
                let room = std::fs::metadata(path).unwrap().blocks() * 512;
                assert_eq!(room >= 4 * MIB, keep_room, "{room}");
            }
        };
        run(&mut runtime, main);
    }
}

#[test]
fn holes_of_a_file_are_told_and_have_no_room_to_keep() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, usual) = (scratch.path("holes"), usual(scratch.dir(), 4096));
        let sparse = std::fs::File::create(&path).unwrap();
        sparse.set_len(4 * MIB).unwrap();
        sparse.write_all_at(&[7; 65_536], MIB).unwrap();
        // In a block of 64 KiB, and not at its start.
        sparse.write_all_at(&[8; 4096], 3 * MIB + 32_768).unwrap();
        sparse.sync_all().unwrap();
        let main = async move {
            let told = async |file: &File, start, count| {
                let range = Blocks { start: Block(start), count };
                let told = file.allocation(range).await.unwrap();
                (told.blocks, told.hole)
            };
            let keep = FileSettings { keep_room: true, ..usual.clone() };
            let file = File::open(&rt, &path, &keep).unwrap();
            assert!(file.caps().thin, "a write into a hole may find no room");
            assert_eq!(told(&file, 0, 1024).await, (256, true));
            assert_eq!(told(&file, 0, 10).await, (10, true));
            assert_eq!(told(&file, 256, 3).await, (3, false));
            assert!(told(&file, 256, 768).await.0 >= 16);
            assert_eq!(told(&file, 900, 124).await, (124, true));
            write(&file, 900, 1, 1).await.unwrap();
            assert!(!told(&file, 900, 124).await.1);
            let beyond = Blocks { start: Block(1024), count: 1 };
            assert!(matches!(file.allocation(beyond).await, Err(IoError::Invalid(_))));
            file.cut();
            assert_eq!(file.allocation(beyond).await, Err(IoError::PowerLost));
            drop(file);

            let large = FileSettings { block_size: Some(65_536), ..usual };
            let file = File::open(&rt, &path, &large).unwrap();
            assert_eq!(told(&file, 40, 8).await, (8, true));
            assert_eq!(told(&file, 40, 10).await, (8, true));
            assert!(!told(&file, 48, 1).await.1);
            file.discard(Blocks { start: Block(48), count: 1 }).await.unwrap();
            assert!(told(&file, 48, 1).await.1);
        };
        run(&mut runtime, main);
    }
}

#[test]
fn a_file_has_one_owner_until_its_last_operation_has_ended() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let main = async move {
            let file = File::create(&rt, &path, 4 * MIB, &settings).await.unwrap();
            let second = File::open(&rt, &path, &settings).err().unwrap();
            assert!(matches!(second, FileError::InUse(_)), "{second}");
            // A clone of a handle has it as well.
            let clone = file.clone();
            drop(file);
            assert!(File::open(&rt, &path, &settings).is_err());
            drop(clone);
            File::open(&rt, &path, &settings).unwrap();
        };
        run(&mut runtime, main);
    }
}

/// 7.
#[test]
fn a_command_whose_future_is_dropped_is_carried_out_all_the_same() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let main = async move {
            let file = File::create(&rt, &path, 4 * MIB, &settings).await.unwrap();
            for round in 1..=50u8 {
                // Received in its first poll, which is its last.
                let _ = first(write(&file, 0, 200, round), std::future::ready(())).await;
                drop(first(read(&file, 300, 100), std::future::ready(())).await);
                let _ = first(file.flush(), std::future::ready(())).await;
                let gone = Blocks { start: Block(300), count: 1 };
                let _ = first(file.discard(gone), std::future::ready(())).await;
                // The next owner of those buffers.
                write(&file, 500, 300, !round).await.unwrap();
                file.off().await;
                assert!(holds(&file, 0, 200, round).await, "{round}");
                assert!(holds(&file, 500, 300, !round).await, "{round}");
            }
            // A cut does not stop it either, and the next start waits for its end.
            let file2 = file.clone();
            let _ = first(write(&file2, 0, 200, 5), std::future::ready(())).await;
            file.cut();
            file.power_on().await.unwrap();
            assert!(holds(&file.device(), 0, 200, 5).await);
            // Dropped before its first poll it never was.
            drop(write(&file.device(), 0, 1, 99));
            file.off().await;
            assert!(holds(&file.device(), 0, 200, 5).await);
        };
        run(&mut runtime, main);
    }
}

#[test]
fn flushes_that_are_asked_for_at_once_all_end_and_share_syncs() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let main = async move {
            let file = File::create(&rt, &path, MIB, &settings).await.unwrap();
            let hosts: Vec<_> = (0..40u64)
                .map(|i| {
                    let (file, rt2) = (file.clone(), rt.clone());
                    rt.spawn("host", async move {
                        for round in 0..10 {
                            write(&file, i, 1, round).await.unwrap();
                            match i % 7 {
                                // Who leads a sync gives up, and the others get on.
                                0 => {
                                    let _ = first(file.flush(), rt2.yield_now()).await;
                                }
                                _ => file.flush().await.unwrap(),
                            }
                        }
                    })
                })
                .collect();
            for host in hosts {
                host.await.unwrap();
            }
            file.flush().await.unwrap();
            assert!(holds(&file, 0, 40, 9).await);
        };
        run(&mut runtime, main);
    }
}

#[test]
fn a_file_that_is_to_be_read_only_is_not_changed() {
    let (mut runtime, rt) = runtimes().next().unwrap();
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let settings = FileSettings { read_only: true, ..usual(scratch.dir(), 4096) };
    std::fs::write(&path, vec![6; 65_536]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let main = async move {
        let file = File::open(&rt, &path, &settings).unwrap();
        assert!(holds(&file, 0, 16, 6).await);
        for want in [Durability::Normal, Durability::Fua] {
            let refused = write_as(&file, 0, 1, 1, want).await.unwrap_err().to_string();
            assert!(refused.contains("read only"), "{refused}");
        }
        assert!(file.discard(Blocks { start: Block(0), count: 1 }).await.is_err());
        file.flush().await.unwrap();
        assert!(holds(&file, 0, 16, 6).await && !file.is_poisoned());
    };
    run(&mut runtime, main);
}

#[test]
fn what_is_no_device_is_refused_in_words() {
    let (mut runtime, rt) = runtimes().next().unwrap();
    let scratch = Scratch::new();
    let settings = usual(scratch.dir(), 4096);
    let file = |name: &str, len: usize| {
        std::fs::write(scratch.path(name), vec![0; len]).unwrap();
        scratch.path(name)
    };
    let said = |path: &Path, settings: &FileSettings| {
        File::open(&rt, path, settings).err().unwrap().to_string()
    };
    let base = settings.clone();
    let with = move |block_size| FileSettings { block_size: Some(block_size), ..base.clone() };
    assert!(said(&scratch.path("none"), &settings).contains("No such file"));
    assert!(said(scratch.dir(), &settings).contains("neither a regular file nor"));
    assert!(said(Path::new("/dev/null"), &settings).contains("neither a regular file nor"));
    assert!(said(&file("empty", 0), &settings).contains("0 bytes are not a whole number"));
    assert!(said(&file("part", 6000), &settings).contains("6000 bytes are not a whole number"));
    assert!(said(&file("odd", 8192), &with(1000)).contains("blocks of 1000 bytes"));
    assert!(said(&file("small", 8192), &with(256)).contains("blocks of 256 bytes"));
    let virtual_time = Runtime::virtual_time(1).handle();
    let refused = File::open(&virtual_time, scratch.path("odd"), &settings).err().unwrap();
    assert!(matches!(refused, FileError::VirtualClock));

    // Nothing is left of what could not be made.
    let path = scratch.path("unmade");
    let main = async move {
        for (bytes, settings) in [(1000, &settings), (0, &settings), (8192, &with(1000))] {
            File::create(&rt, &path, bytes, settings).await.err().unwrap();
            assert!(!path.exists());
        }
        // More than any file system takes, or than this one has.
        let huge = File::create(&rt, &path, 1 << 60, &settings).await.err().unwrap();
        assert!(matches!(huge, FileError::System { .. }) && !path.exists(), "{huge}");
        // Given up.
        let given_up = File::create(&rt, &path, 64 * MIB, &settings);
        drop(first(given_up, rt.yield_now()).await);
        assert!(!path.exists());
    };
    run(&mut runtime, main);
}

#[test]
fn a_file_that_gets_shorter_or_is_replaced_is_noticed() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let main = async move {
            let file = File::create(&rt, &path, 65_536, &settings).await.unwrap();
            let other = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            other.set_len(20_000).unwrap();
            let short = read(&file, 0, 16).await.unwrap_err().to_string();
            assert!(short.contains("shorter"), "{short}");
            file.cut();
            let replaced = file.power_on().await.unwrap_err().to_string();
            assert!(replaced.contains("another length"), "{replaced}");
            assert_eq!(read(&file.device(), 0, 1).await, Err(IoError::PowerLost));
            other.set_len(65_536).unwrap();
            file.power_on().await.unwrap();
            assert!(holds(&file.device(), 0, 16, 0).await);
        };
        run(&mut runtime, main);
    }
}

/// A small file system in memory, and what it is made of.
struct Mount<'a>(&'a Path);

#[test]
fn a_file_gets_another_length_while_it_is_used() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let settings = FileSettings { keep_room: true, ..usual(scratch.dir(), 4096) };
        let path = scratch.path("file");
        let main = async move {
            let file = File::create(&rt, &path, 8 * 4096, &settings).await.unwrap();
            let used = file.device();
            write(&used, 7, 1, 7).await.unwrap();
            assert!(write(&used, 8, 1, 8).await.is_err());
            let refused = |e| matches!(e, Err(IoError::Invalid(_)));
            assert!(refused(file.set_bytes(4097).await) && refused(file.set_bytes(0).await));
            file.set_bytes(16 * 4096).await.unwrap();
            assert_eq!((used.caps().blocks, used.caps().thin), (16, false));
            assert!(holds(&used, 8, 8, 0).await && holds(&used, 7, 1, 7).await);
            write(&used, 15, 1, 15).await.unwrap();
            // It is the same file after a cut.
            file.cut();
            file.off().await;
            file.power_on().await.unwrap();
            assert!(holds(&file.device(), 15, 1, 15).await);
            file.set_bytes(4 * 4096).await.unwrap();
            assert!(write(&file.device(), 4, 1, 4).await.is_err());
            file.set_bytes(8 * 4096).await.unwrap();
            assert!(holds(&file.device(), 4, 4, 0).await, "what was behind the end is gone");
        };
        run(&mut runtime, main);
    }
}

fn run_program(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

impl<'a> Mount<'a> {
    fn new(dir: &'a Path, size: &str) -> Mount<'a> {
        std::fs::create_dir(dir).unwrap();
        let size = format!("size={size}");
        run_program("mount", &["-t", "tmpfs", "-o", &size, "none", dir.to_str().unwrap()]);
        Mount(dir)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Loop {
        let file = file.to_str().unwrap();
        Loop(run_program("losetup", &["--find", "--show", "--sector-size", "4096", file]))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn a_full_host_refuses_writes_and_takes_them_again_when_there_is_room() {
    if left_out(&[Need::Root, Need::Mounts]) {
        return;
    }
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let dir = scratch.path("mnt");
        let mount = Mount::new(&dir, "1m");
        let path = dir.join("file");
        // Sparse: more than there is room for.
        std::fs::File::create(&path).unwrap().set_len(4 * MIB).unwrap();
        let settings = usual(&dir, 4096);
        let direct = !settings.buffered;
        let main = async move {
            let file = File::open(&rt, &path, &settings).unwrap();
            let mut refused = None;
            for block in 0..1024 {
                if let Err(e) = write(&file, block, 1, 3).await {
                    refused = Some((block, e));
                    break;
                }
            }
            let (block, error) = refused.expect("four times more than there is room for");
            if direct {
                assert_eq!(error, IoError::NoSpace);
                assert!(holds(&file, block, 1, 0).await, "a refused write leaves no trace");
            }
            let several = write(&file, block, 64, 3).await.unwrap_err();
            assert!(several.to_string().contains("full"), "{several}");
            assert!(holds(&file, 0, block as usize, 3).await);
            // What is there can be overwritten, and what is given back is room.
            write(&file, 0, block as usize, 4).await.unwrap();
            file.discard(Blocks { start: Block(0), count: 64 }).await.unwrap();
            write(&file, block + 200, 32, 5).await.unwrap();
            assert!(holds(&file, block + 200, 32, 5).await && !file.is_poisoned());
            let new = file.path().with_extension("new");
            let full = File::create(&rt, &new, 8 * MIB, &settings).await.err().unwrap();
            assert!(full.to_string().contains("No space left") && !new.exists(), "{full}");
            let before = file.caps().bytes();
            assert_eq!(file.set_bytes(before + 8 * MIB).await, Err(IoError::NoSpace));
            assert_eq!(file.caps().bytes(), before);
        };
        run(&mut runtime, main);
        drop(mount);
    }
}

/// Others on the file system of a file never lack room for a length that it does not get.
#[test]
fn a_length_that_is_refused_takes_no_room_meanwhile() {
    if left_out(&[Need::Root, Need::Mounts]) {
        return;
    }
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let dir = scratch.path("mnt");
        let mount = Mount::new(&dir, "64m");
        let (path, settings) = (dir.join("file"), usual(&dir, 4096));
        let free = {
            let dir = dir.clone();
            move || room_at(&dir).expect("it tells")
        };
        let ends = Arc::new(AtomicBool::new(false));
        let file = runtime.block_on({
            let (rt, path) = (rt.clone(), path.clone());
            async move { File::create(&rt, &path, MIB, &settings).await.unwrap() }
        });
        let file = file.unwrap();
        let before = free();
        let least = {
            let ends = ends.clone();
            let mut least = before;
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    least = least.min(free());
                }
                least
            })
        };
        let main = async move {
            for _ in 0..20 {
                // A little more than there is: a system that tries takes all of it first.
                assert_eq!(file.set_bytes(64 * MIB + 4096).await, Err(IoError::NoSpace));
                assert_eq!(file.set_bytes(64 * MIB).await, Err(IoError::NoSpace));
            }
        };
        run(&mut runtime, main);
        ends.store(true, Ordering::Relaxed);
        let least = least.join().unwrap();
        assert_eq!(before - least, 0, "bytes that nobody else had meanwhile");
        drop(mount);
    }
}

/// 6. The block device below takes data and cannot keep it: the file that it is on has no room.
#[test]
fn after_a_failed_sync_nothing_is_written_until_the_power_has_been_cycled() {
    if left_out(&[Need::Root, Need::Mounts, Need::LoopDevices, Need::Program("losetup")]) {
        return;
    }
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let dir = scratch.path("mnt");
        let mount = Mount::new(&dir, "1m");
        let backing = dir.join("backing");
        std::fs::File::create(&backing).unwrap().set_len(8 * MIB).unwrap();
        let disk = Loop::new(&backing);
        let path = disk.0.clone();
        let main = async move {
            let direct = File::open(&rt, &path, &FileSettings::default()).unwrap();
            let caps = *direct.caps();
            assert_eq!((caps.block_size, caps.bytes(), caps.thin), (4096, 8 * MIB, false));
            assert_eq!(caps.atomic_unit, 4096);
            let claimed = File::open(&rt, &path, &FileSettings::default()).err().unwrap();
            assert!(matches!(claimed, FileError::InUse(_)), "{claimed}");
            // Forced: more than there is room for.
            let failed = write_as(&direct, 0, 512, 1, Durability::Fua).await;
            let failed = match failed {
                Err(e) => e,
                Ok(()) => write_as(&direct, 512, 512, 1, Durability::Fua).await.unwrap_err(),
            };
            assert!(matches!(failed, IoError::Failed(_)), "{failed}");
            drop(direct);

            let buffered = FileSettings { buffered: true, ..FileSettings::default() };
            let file = File::open(&rt, &path, &buffered).unwrap();
            write(&file, 0, 1024, 2).await.unwrap();
            let waits = rt.spawn("flush", {
                let file = file.clone();
                async move { file.flush().await }
            });
            let failed = file.flush().await.unwrap_err();
            assert!(matches!(failed, IoError::Failed(_)), "{failed}");
            assert!(file.is_poisoned());
            let refused = Err(IoError::Poisoned);
            assert!(waits.await.unwrap().is_err(), "who asked for it, too, is told no success");
            assert_eq!(write(&file, 0, 1, 3).await, refused);
            assert_eq!(write_as(&file, 0, 1, 3, Durability::Fua).await, refused);
            assert_eq!(file.flush().await, refused);
            assert_eq!(file.discard(Blocks { start: Block(0), count: 1 }).await, refused);
            read(&file, 0, 1).await.unwrap();

            file.cut();
            file.power_on().await.unwrap();
            let file = file.device();
            assert!(!file.is_poisoned());
            file.discard(Blocks { start: Block(0), count: 2048 }).await.unwrap();
            write(&file, 7, 1, 4).await.unwrap();
            file.flush().await.unwrap();
            assert!(holds(&file, 7, 1, 4).await);
        };
        run(&mut runtime, main);
        drop((disk, mount));
    }
}

#[test]
fn a_block_device_that_the_kernel_uses_is_refused() {
    let programs = [Need::Program("losetup"), Need::Program("mkfs.ext4")];
    let rights = [Need::Root, Need::Mounts, Need::LoopDevices];
    if left_out(&[&rights[..], &programs[..]].concat()) {
        return;
    }
    let (_runtime, rt) = runtimes().next().unwrap();
    let scratch = Scratch::new();
    let backing = scratch.path("backing");
    std::fs::File::create(&backing).unwrap().set_len(16 * MIB).unwrap();
    let disk = Loop::new(&backing);
    run_program("mkfs.ext4", &["-q", &disk.0]);
    let dir = scratch.path("mnt");
    std::fs::create_dir(&dir).unwrap();
    run_program("mount", &[&disk.0, dir.to_str().unwrap()]);
    let mounted = Mount(&dir);
    let refused = File::open(&rt, &disk.0, &FileSettings::default()).err().unwrap();
    assert!(matches!(refused, FileError::Claimed(_)), "{refused}");
    drop(mounted);
    drop(disk);
}

/// The runtime goes while operations are under way: it waits for them, and nothing is leaked.
#[test]
fn a_runtime_that_goes_leaves_the_file_free() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let (path2, settings2) = (path.clone(), settings.clone());
        let main = async move {
            let file = File::create(&rt, &path2, 4 * MIB, &settings2).await.unwrap();
            for i in 0..20 {
                let (file, slow) = (file.clone(), rt.clone());
                rt.spawn("host", async move {
                    let _ = write(&file, i * 50, 50, 1).await;
                    let _ = file.flush().await;
                    slow.sleep(Nanos::from_secs(3600)).await;
                });
            }
            rt.yield_now().await;
            let _ = first(write(&file, 0, 100, 2), rt.yield_now()).await;
        };
        run(&mut runtime, main);
        drop(runtime);
        let (_runtime, rt) = runtimes().next().unwrap();
        File::open(&rt, &path, &settings).unwrap();
    }
}

/// A file that is lent: writes of another thread are durable and seen, until the power is cut.
#[test]
fn a_file_lent_to_another_thread_is_written_there() {
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let main = async move {
            let file = File::create(&rt, &path, MIB, &settings).await.unwrap();
            let writer = file.lend().unwrap();
            let mut bytes = AlignedBuf::zeroed(8192);
            bytes.fill(7);
            #[allow(clippy::disallowed_methods, reason = "what is tested")]
            let thread = std::thread::spawn(move || {
                let beyond = writer.write(Block(255), &bytes);
                assert!(matches!(beyond, Err(IoError::Invalid(_))), "{beyond:?}");
                let part = writer.write(Block(0), &AlignedBuf::zeroed(100));
                assert!(matches!(part, Err(IoError::Invalid(_))), "{part:?}");
                writer.write(Block(3), &bytes).unwrap();
                (writer, bytes)
            });
            let (writer, bytes) = thread.join().unwrap();
            let mut found = vec![0; 8192];
            file.read(Block(3), DataMut::Bytes(&mut found)).await.unwrap();
            assert_eq!(found, [7; 8192]);
            file.cut();
            assert_eq!(writer.write(Block(3), &bytes), Err(IoError::PowerLost));
            file.power_on().await.unwrap();
            assert_eq!(writer.write(Block(3), &bytes), Err(IoError::PowerLost), "another life");
            assert!(file.device().lend().is_some());
            let read_only = FileSettings { read_only: true, ..settings.clone() };
            drop((file, writer));
            assert!(File::open(&rt, &path, &read_only).unwrap().lend().is_none());
        };
        run(&mut runtime, main);
    }
}

/// Once a log on a loop device was served, and another process made a new one in its file.
#[test]
fn a_file_and_a_loop_device_over_it_have_one_owner() {
    if left_out(&[Need::Root, Need::LoopDevices, Need::Program("losetup")]) {
        return;
    }
    let losetup = |words: &[&str]| {
        let output = Command::new("losetup").args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    for (mut runtime, rt) in runtimes() {
        let scratch = Scratch::new();
        let (path, settings) = (scratch.path("file"), usual(scratch.dir(), 4096));
        let main = async move {
            let owner = File::create(&rt, &path, MIB, &settings).await.unwrap();
            // The file is in use before there is a loop device.
            let disk = losetup(&["--find", "--show", path.to_str().unwrap()]);
            let open = |path: &Path| File::open(&rt, path, &settings);
            let of_disk = open(Path::new(&disk)).map(drop);
            drop(owner);
            let owner = open(Path::new(&disk));
            let of_file = open(&path).map(drop);
            let of_owner = owner.map(drop);
            losetup(&["--detach", &disk]);
            assert!(matches!(of_disk, Err(FileError::InUse(_))), "{of_disk:?}");
            of_owner.unwrap();
            let told = format!("it is the file of {disk}: ");
            assert!(of_file.unwrap_err().to_string().contains(&told));
            open(&path).unwrap();
        };
        run(&mut runtime, main);
    }
}
