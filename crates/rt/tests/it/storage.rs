//! Flags of writes, room in files, and what the kernel says of files and block devices, on both
//! back ends.

use crate::both::{Scratch, backends, runtime};
use std::io::ErrorKind;
use std::path::Path;
use tantalum_rt::wall::{
    AlignedBuf, DirectIo, FileOptions, Io, IoFile, Space, StorageKind, WriteOptions,
};
use tantalum_testing::{Need, left_out};

const MIB: u64 = 1 << 20;

fn open(io: &Io, path: &Path) -> IoFile {
    io.open(path, FileOptions { write: true, create: true, direct: false }).unwrap()
}

/// How many bytes have room.
fn room(path: &Path) -> u64 {
    rustix::fs::stat(path).unwrap().st_blocks as u64 * 512
}

async fn holds(file: &IoFile, offset: u64, len: usize, byte: u8) -> bool {
    let (count, bytes) = file.read_at(vec![!byte; len], offset).await;
    count.unwrap() == len && bytes.iter().all(|&b| b == byte)
}

#[test]
fn durable_writes_write_what_they_are_given() {
    for backend in backends() {
        let (mut runtime, _, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("durable-{backend:?}"));
        let file = open(&io, &path.0);
        let done = runtime.block_on(async move {
            let options = WriteOptions { durable: true, atomic: false };
            let (result, buf) = file.write_with(vec![7; 10_000], 3, options).await;
            result.unwrap();
            buf == [7; 10_000] && holds(&file, 3, 10_000, 7).await && file.len().unwrap() == 10_003
        });
        assert!(done.unwrap(), "{backend:?}");
    }
}

/// The kernel keeps an atomic write where it says that it can, and refuses it elsewhere.
#[test]
fn atomic_writes_are_carried_out_where_they_are_offered_and_refused_elsewhere() {
    for backend in backends() {
        let (mut runtime, _, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("atomic-{backend:?}"));
        drop(open(&io, &path.0));
        let direct = FileOptions { write: true, create: false, direct: true };
        let file = match io.open(&path.0, direct) {
            Ok(file) => file,
            // Some file systems know no direct I/O; then they know no atomic writes.
            Err(e) if e.kind() == ErrorKind::InvalidInput => open(&io, &path.0),
            Err(e) => panic!("{e}"),
        };
        let offered = file.storage().unwrap().atomic;
        let main = async move {
            let mut old = AlignedBuf::zeroed(65_536);
            old.fill(1);
            file.write_at(old, 0).await.0.unwrap();
            let len = offered.map_or(4096, |a| a.max as usize).min(65_536);
            let mut new = AlignedBuf::zeroed(len);
            new.fill(2);
            let options = WriteOptions { atomic: true, durable: false };
            let (result, _) = file.write_with(new, 0, options).await;
            let all = AlignedBuf::zeroed(len);
            let (count, all) = file.read_at(all, 0).await;
            assert_eq!(count.unwrap(), len);
            match (offered, result) {
                (Some(_), Ok(())) => assert!(all.iter().all(|&b| b == 2)),
                (None, Err(e)) => {
                    let kinds = [ErrorKind::InvalidInput, ErrorKind::Unsupported];
                    assert!(kinds.contains(&e.kind()), "{e}");
                    assert!(all.iter().all(|&b| b == 1), "a refused write leaves no trace");
                }
                (offered, result) => panic!("{offered:?}: {result:?}"),
            }
        };
        runtime.block_on(main).unwrap();
    }
}

#[test]
fn room_in_files_is_reserved_zeroed_and_given_back() {
    for backend in backends() {
        let (mut runtime, _, io) = runtime(backend, 1.0);
        let scratch = Scratch::new(&format!("room-{backend:?}"));
        let path = scratch.0.clone();
        let file = open(&io, &path);
        let main = async move {
            file.allocate(Space::Reserve, 0, 4 * MIB).await.unwrap();
            assert_eq!(file.storage().unwrap().bytes, 4 * MIB);
            assert!(room(&path) >= 4 * MIB);
            assert!(holds(&file, 0, 4 << 20, 0).await, "reserved room reads as zeros");
            file.write_at(vec![5; 4 << 20], 0).await.0.unwrap();
            file.sync_data().await.unwrap();

            match file.allocate(Space::Zero, MIB, MIB).await {
                Ok(()) => {
                    file.sync_data().await.unwrap();
                    assert!(room(&path) >= 4 * MIB, "zeroed room stays");
                }
                // A file system may lack it; and says so.
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Unsupported);
                    file.write_at(vec![0; 1 << 20], MIB).await.0.unwrap();
                }
            }
            file.allocate(Space::Punch, 2 * MIB, MIB).await.unwrap();
            file.sync_data().await.unwrap();
            assert!(room(&path) < 4 * MIB, "a punched hole has no room: {}", room(&path));
            for (i, byte) in [5, 0, 0, 5].into_iter().enumerate() {
                assert!(holds(&file, i as u64 * MIB, 1 << 20, byte).await, "{backend:?} {i}");
            }
            assert_eq!(file.storage().unwrap().allocated, room(&path));
            assert_eq!(file.next_data(0).unwrap().unwrap().start, 0);
            assert_eq!(file.next_data(2 * MIB).unwrap(), Some(3 * MIB..4 * MIB));
            assert_eq!(file.next_data(4 * MIB).unwrap(), None);
            assert_eq!(file.len().unwrap(), 4 * MIB, "zeroing and punching keep the length");

            let error = file.allocate(Space::Reserve, u64::MAX / 2, 1).await.unwrap_err();
            let too_large = [ErrorKind::FileTooLarge, ErrorKind::InvalidInput];
            assert!(too_large.contains(&error.kind()), "{error:?}");
            let reader = io.open(&path, FileOptions::default()).unwrap();
            assert!(reader.allocate(Space::Punch, 0, MIB).await.is_err(), "opened to be read");
        };
        runtime.block_on(main).unwrap();
    }
}

#[test]
fn a_file_is_told_from_what_is_none_and_from_other_files() {
    for backend in backends() {
        let (_runtime, _, io) = runtime(backend, 1.0);
        let [a, b] = ["a", "b"].map(|n| Scratch::new(&format!("{n}-{backend:?}")));
        let (file, other) = (open(&io, &a.0), open(&io, &b.0));
        file.set_len(12_345).unwrap();
        let [storage, again, other] =
            [&file, &open(&io, &a.0), &other].map(|f| f.storage().unwrap());
        assert_eq!((storage.kind, storage.bytes), (StorageKind::File, 12_345));
        assert_eq!(storage.logical_block, None);
        assert!(storage.preferred_block.is_power_of_two());
        assert_eq!(storage, again);
        assert_ne!(storage.identity, other.identity);
        if let DirectIo::Aligned { memory, offset } = storage.direct {
            assert!(memory.is_power_of_two() && offset.is_power_of_two(), "{storage:?}");
        }
        let null = io.open("/dev/null", FileOptions::default()).unwrap();
        assert_eq!(null.storage().unwrap().kind, StorageKind::Other);
    }
}

/// A loop device, until it is dropped.
struct Loop(String);

#[allow(clippy::disallowed_methods, reason = "tests make loop devices")]
impl Loop {
    fn new(file: &Path, sector: &str) -> Loop {
        let how = ["--find", "--show", "--sector-size", sector];
        let made = std::process::Command::new("losetup").args(how).arg(file).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Loop(String::from_utf8(made.stdout).unwrap().trim().to_string())
    }
}

#[allow(clippy::disallowed_methods, reason = "tests remove loop devices")]
impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["-d", &self.0]).status();
    }
}

#[test]
fn a_block_device_tells_its_size_and_its_logical_block() {
    if left_out(&[Need::Root, Need::LoopDevices, Need::Program("losetup")]) {
        return;
    }
    for backend in backends() {
        for sector in [512u32, 4096] {
            let (mut runtime, _, io) = runtime(backend, 1.0);
            let scratch = Scratch::new(&format!("loop-{backend:?}-{sector}"));
            open(&io, &scratch.0).set_len(3 * MIB).unwrap();
            let disk = Loop::new(&scratch.0, &sector.to_string());
            let file =
                io.open(&disk.0, FileOptions { write: true, create: false, direct: true }).unwrap();
            let storage = file.storage().unwrap();
            assert_eq!((storage.kind, storage.bytes), (StorageKind::BlockDevice, 3 * MIB));
            assert_eq!(storage.logical_block, Some(sector));
            if let DirectIo::Aligned { offset, .. } = storage.direct {
                assert_eq!(offset, sector);
            }
            assert_eq!(storage.identity, open(&io, disk.0.as_ref()).storage().unwrap().identity);
            let main = async move {
                let mut block = AlignedBuf::zeroed(8192);
                block.fill(9);
                let durable = WriteOptions { durable: true, atomic: false };
                file.write_with(block, 4096, durable).await.0.unwrap();
                file.allocate(Space::Punch, 8192, 4096).await.unwrap();
                file.sync_data().await.unwrap();
                let (count, all) = file.read_at(AlignedBuf::zeroed(16_384), 0).await;
                assert_eq!(count.unwrap(), 16_384);
                let nine = |from: usize, to: usize| all[from..to].iter().all(|&b| b == 9);
                let zero = |from: usize, to: usize| all[from..to].iter().all(|&b| b == 0);
                assert!(zero(0, 4096) && nine(4096, 8192) && zero(8192, 16_384));
            };
            runtime.block_on(main).unwrap();
        }
    }
}

#[test]
fn a_buffer_is_as_long_as_was_said_last() {
    let mut buf = AlignedBuf::zeroed(8192);
    buf.fill(3);
    buf.set_len(512);
    assert_eq!((buf.len(), buf.as_ptr().align_offset(4096)), (512, 0));
    buf.set_len(8192);
    assert_eq!(&*buf, [3; 8192]);
    let beyond = std::panic::catch_unwind(move || buf.set_len(16_384));
    assert!(beyond.is_err(), "a buffer does not grow beyond what it was made for");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "what is locked is a file of the system")]
fn a_file_has_one_owner_or_several_that_only_look() {
    use std::fs::File;
    use tantalum_rt::{FileLockError, lock_file};
    let path = Scratch::new("lock");
    let [a, b, c] = [(); 3].map(|()| File::create(&path.0).unwrap());
    lock_file(&a, true).unwrap();
    assert!(matches!(lock_file(&b, true), Err(FileLockError::InUse)));
    assert!(matches!(lock_file(&b, false), Err(FileLockError::InUse)));
    drop(a);
    lock_file(&b, false).unwrap();
    lock_file(&c, false).unwrap();
    assert!(matches!(lock_file(&c, true), Err(FileLockError::InUse)));
}
