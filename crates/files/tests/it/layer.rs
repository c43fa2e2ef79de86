//! The layer without crashes: compared with a model in memory, with errors, with damaged images,
//! and its costs. The numbers are those of the invariants.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tantalum_device::{
    Block, BlockDevice, Caps, CommandKind, Data, DataMut, Durability, Faults, IoError, Payload,
    PowerCycle, RamDevice, RamOptions, Stats,
};
use tantalum_files::{Files, FilesError, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Nanos, Rt, Runtime};

const FORMAT: FormatOptions =
    FormatOptions { chunk: 8192, directory_bytes: 600, journal_blocks: 10 };

fn caps(block_size: u32, blocks: u64) -> Caps {
    Caps { block_size, ..Caps::power_safe(blocks, Payload::Bytes) }
}

fn ram(rt: &Rt, caps: Caps) -> RamDevice {
    let mut options = RamOptions::new(caps);
    options.command = Nanos::from_micros(10);
    RamDevice::new(rt, options)
}

/// Runs a test on a runtime of its own.
fn on<F: Future<Output = T> + 'static, T: 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let mut runtime = Runtime::virtual_time(1);
    let main = test(runtime.handle());
    runtime.block_on(main).unwrap()
}

async fn fresh<D: BlockDevice>(rt: &Rt, device: D) -> Files<D> {
    Files::format(rt, &device, &FORMAT).await.unwrap();
    Files::mount(rt, device, &MountOptions::default()).await.unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Write(u8, u32, u16, u8),
    Append(u8, u16, u8),
    Truncate(u8, u32),
    Delete(u8),
    Rename(u8, u8),
    Read(u8, u32, u16),
    Sync(u8),
    Remount,
}

fn any_op() -> impl Strategy<Value = Op> {
    let name = 0u8..5;
    prop_oneof![
        2 => name.clone().prop_map(Op::Create),
        4 => (name.clone(), 0u32..60_000, 1u16..20_000, 1u8..).prop_map(|(n, o, l, b)| Op::Write(n, o, l, b)),
        2 => (name.clone(), 0u32..12, 1u16..4, 1u8..)
            .prop_map(|(n, o, l, b)| Op::Write(n, o * 4096, l * 4096, b)),
        3 => (name.clone(), 1u16..600, 1u8..).prop_map(|(n, l, b)| Op::Append(n, l, b)),
        2 => (name.clone(), 0u32..70_000).prop_map(|(n, s)| Op::Truncate(n, s)),
        1 => name.clone().prop_map(Op::Delete),
        1 => (name.clone(), name.clone()).prop_map(|(a, b)| Op::Rename(a, b)),
        4 => (name.clone(), 0u32..60_000, 1u16..20_000).prop_map(|(n, o, l)| Op::Read(n, o, l)),
        1 => name.prop_map(Op::Sync),
        1 => Just(Op::Remount),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn write_model(file: &mut Vec<u8>, at: usize, data: &[u8]) {
    if file.len() < at + data.len() {
        file.resize(at + data.len(), 0);
    }
    file[at..at + data.len()].copy_from_slice(data);
}

/// A write may fail for lack of room if it changed nothing.
fn full(done: &Result<(), FilesError>) -> bool {
    matches!(done, Err(FilesError::NoSpace(_)))
}

async fn against_a_model(rt: Rt, ops: Vec<Op>, block_size: u32) {
    let device = ram(&rt, caps(block_size, 320 * 4096 / u64::from(block_size)));
    let mut files = fresh(&rt, device.device()).await;
    let mut model = Model::new();
    let name = |n: u8| vec![b'n'; 1 + usize::from(n)];
    for op in ops {
        match op {
            Op::Create(n) => {
                let done = files.create(&name(n), Promise::Completed).await;
                match model.contains_key(&name(n)) {
                    true => assert!(matches!(done, Err(FilesError::Exists(_)))),
                    false => {
                        assert!(done.is_ok());
                        model.insert(name(n), Vec::new());
                    }
                }
            }
            Op::Write(..) | Op::Append(..) => {
                let (n, at, length, byte) = match op {
                    Op::Write(n, at, length, byte) => (n, Some(at), length, byte),
                    Op::Append(n, length, byte) => (n, None, length, byte),
                    _ => unreachable!(),
                };
                let Ok(file) = files.open(&name(n)) else {
                    assert!(!model.contains_key(&name(n)));
                    continue;
                };
                let at = at.map_or(file.size(), u64::from);
                let data: Vec<u8> = (0..length).map(|i| byte ^ (i as u8 & 0x7f)).collect();
                let done = file.write(at, &data).await;
                if !full(&done) {
                    done.unwrap();
                    write_model(model.get_mut(&name(n)).unwrap(), at as usize, &data);
                }
            }
            Op::Truncate(n, size) => {
                if let Ok(file) = files.open(&name(n)) {
                    file.truncate(u64::from(size)).await.unwrap();
                    model.get_mut(&name(n)).unwrap().resize(size as usize, 0);
                }
            }
            Op::Delete(n) => {
                let done = files.delete(&name(n), Promise::Completed).await;
                assert_eq!(done.is_ok(), model.remove(&name(n)).is_some());
            }
            Op::Rename(a, b) => {
                let done = files.rename(&name(a), &name(b), Promise::Completed).await;
                match model.remove(&name(a)) {
                    Some(content) => {
                        done.unwrap();
                        model.insert(name(b), content);
                    }
                    None => assert!(matches!(done, Err(FilesError::NotFound(_)))),
                }
            }
            Op::Read(n, at, length) => {
                if let Ok(file) = files.open(&name(n)) {
                    let mut to = vec![0xee; usize::from(length)];
                    let count = file.read(u64::from(at), &mut to).await.unwrap();
                    let content = &model[&name(n)];
                    let want = content.get(at as usize..).unwrap_or(&[]);
                    let want = &want[..want.len().min(to.len())];
                    assert!(&to[..count] == want, "{n} at {at}, {length} bytes");
                }
            }
            Op::Sync(n) => {
                if let Ok(file) = files.open(&name(n)) {
                    file.sync().await.unwrap();
                }
            }
            Op::Remount => {
                // Only a sync records the exact size.
                for file in model.keys() {
                    files.open(file).unwrap().sync().await.unwrap();
                }
                files = Files::mount(&rt, device.device(), &MountOptions::default()).await.unwrap();
            }
        }
        let sizes = model.iter().map(|(n, c)| (n.clone(), c.len() as u64));
        assert!(files.list().into_iter().map(|e| (e.name, e.size)).eq(sizes));
    }
    for (name, content) in &model {
        let mut to = vec![0; content.len()];
        assert_eq!(files.open(name).unwrap().read(0, &mut to).await, Ok(content.len()));
        assert!(&to == content);
    }
    // Nothing leaks: when all files are gone, all chunks are free.
    for name in model.keys() {
        files.delete(name, Promise::Completed).await.unwrap();
    }
    assert_eq!(files.space().free, files.space().chunks);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn does_what_a_model_does(
        ops in proptest::collection::vec(any_op(), 1..60),
        small in any::<bool>(),
    ) {
        on(|rt| against_a_model(rt, ops, if small { 512 } else { 4096 }));
    }
}

#[test]
fn a_full_device_breaks_nothing_and_deleting_works() {
    on(|rt| async move {
        let files = fresh(&rt, ram(&rt, caps(4096, 64))).await;
        let chunks = files.space().chunks;
        let file = files.create(b"a", Promise::Completed).await.unwrap();
        file.write(0, &vec![7; 8192 * chunks as usize]).await.unwrap();
        assert_eq!(files.space().free, 0);
        let more = files.create(b"b", Promise::Completed).await.unwrap();
        assert!(full(&more.write(0, b"x").await));
        assert_eq!(more.size(), 0);
        // Overwriting in place needs no room; after a deletion there is room.
        file.write(8192, &[8; 4096]).await.unwrap();
        files.delete(b"a", Promise::Completed).await.unwrap();
        assert!(full(&more.write(0, b"x").await), "it is open still");
        drop(file);
        assert_eq!(files.space().free, chunks);
        more.write(0, b"x").await.unwrap();
        assert!(full(&more.write(8192 * chunks, b"x").await), "larger than the device");
        assert!(full(&more.truncate(u64::MAX).await));
        assert!(full(&more.write(u64::MAX - 1, b"xyz").await));
        // The directory has room for this many names.
        let mut count = 0;
        let error = loop {
            match files.create(format!("{count:0200}").as_bytes(), Promise::Completed).await {
                Ok(_) => count += 1,
                Err(e) => break e,
            }
        };
        assert!(count >= 2 && matches!(error, FilesError::NoSpace(_)), "{count}: {error}");
        files.delete(b"b", Promise::Completed).await.unwrap();
    });
}

#[test]
fn names_have_rules() {
    on(|rt| async move {
        let files = fresh(&rt, ram(&rt, caps(4096, 64))).await;
        for bad in [&b""[..], b"a\0b", &[b'x'; 256]] {
            let done = files.create(bad, Promise::Completed).await;
            assert!(matches!(done, Err(FilesError::BadName(_))));
        }
        files.create(&[0xff; 255], Promise::Durable).await.unwrap();
        assert!(matches!(files.open(b"a"), Err(FilesError::NotFound(n)) if n == "a"));
    });
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    on(|rt| async move {
        let files = fresh(&rt, ram(&rt, caps(4096, 128))).await;
        let old = files.create(b"a", Promise::Completed).await.unwrap();
        old.write(0, &[1; 20_000]).await.unwrap();
        files.create(b"b", Promise::Completed).await.unwrap().write(0, b"new").await.unwrap();
        files.rename(b"b", b"a", Promise::Completed).await.unwrap();
        old.write(20_000, &[2; 20_000]).await.unwrap();
        let mut back = [0; 2];
        old.read(19_999, &mut back).await.unwrap();
        assert_eq!(back, [1, 2]);
        old.truncate(5).await.unwrap();
        old.sync().await.unwrap();
        drop(old);
        assert_eq!(files.space().free, files.space().chunks - 1);
        let mut back = [0; 9];
        assert_eq!(files.open(b"a").unwrap().read(0, &mut back).await, Ok(3));
    });
}

#[test]
fn i7_price_of_writes_and_reads() {
    on(|rt| async move {
        let device = Stats::new(&rt, ram(&rt, caps(4096, 4096)));
        let format = FormatOptions::default();
        Files::format(&rt, &device, &format).await.unwrap();
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        let count = |kind| device.snapshot().of(kind).commands;
        let file = files.create(b"a", Promise::Completed).await.unwrap();
        file.write(0, &vec![0; 1 << 20]).await.unwrap();
        let mark = (count(CommandKind::Write), count(CommandKind::Read));
        file.write(64 << 10, &vec![1; 64 << 10]).await.unwrap();
        assert_eq!(count(CommandKind::Write), mark.0 + 1, "an aligned page is one command");
        file.write(0, &vec![1; 512 << 10]).await.unwrap();
        assert_eq!(count(CommandKind::Write), mark.0 + 2, "and so is what lies in a row");
        file.read(0, &mut vec![0; 512 << 10]).await.unwrap();
        assert_eq!(count(CommandKind::Read), mark.1 + 1);
        // Small appends: a write each, one record for each chunk, and no reads.
        let log = files.create(b"log", Promise::Completed).await.unwrap();
        let mark = (count(CommandKind::Write), count(CommandKind::Read));
        for _ in 0..1000 {
            log.write(log.size(), &[3; 100]).await.unwrap();
        }
        assert_eq!(count(CommandKind::Read), mark.1);
        assert_eq!(count(CommandKind::Write), mark.0 + 1000 + 2);
        // Where completed writes survive, only a sync flushes.
        let mark = count(CommandKind::Flush);
        files.delete(b"a", Promise::Completed).await.unwrap();
        assert_eq!(count(CommandKind::Flush), mark);
        log.sync().await.unwrap();
        assert_eq!(count(CommandKind::Flush), mark + 1);
    });
}

#[test]
fn changes_made_at_once_share_a_record() {
    on(|rt| async move {
        let device = Stats::new(&rt, ram(&rt, caps(4096, 4096)));
        Files::format(&rt, &device, &FormatOptions::default()).await.unwrap();
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        let before = device.snapshot().of(CommandKind::Write).commands;
        let joins: Vec<_> = (0..50)
            .map(|i| {
                let files = files.clone();
                rt.spawn("a client", async move {
                    files.create(format!("{i}").as_bytes(), Promise::Completed).await.map(|_| ())
                })
            })
            .collect();
        for join in joins {
            join.await.unwrap().unwrap();
        }
        let writes = device.snapshot().of(CommandKind::Write).commands - before;
        assert!(writes <= 2, "{writes} writes for 50 files made at once");
        let again = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
        assert_eq!(again.list().len(), 50);
    });
}

#[test]
fn i8_a_failed_metadata_write_ends_all_writing() {
    on(|rt| async move {
        let device = Faults::new(&rt, ram(&rt, caps(4096, 128)), "faults");
        let files = fresh(&rt, device.clone()).await;
        let file = files.create(b"a", Promise::Completed).await.unwrap();
        file.write(0, b"before").await.unwrap();
        // A failed write of data only loses that write.
        device.fail_nth(CommandKind::Write, 1);
        let done = file.write(0, b"failed").await;
        assert!(matches!(done, Err(FilesError::Io(IoError::Failed(_)))), "{done:?}");
        file.write(0, b"second").await.unwrap();
        device.fail_nth(CommandKind::Write, 1);
        assert!(files.create(b"b", Promise::Completed).await.is_err());
        assert_eq!(file.write(0, b"third.").await, Err(FilesError::Poisoned));
        assert_eq!(files.delete(b"a", Promise::Completed).await, Err(FilesError::Poisoned));
        assert_eq!(file.sync().await, Err(FilesError::Poisoned));
        let mut back = [0; 6];
        file.read(0, &mut back).await.unwrap();
        assert_eq!(&back, b"second");
        let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
        let file = files.open(b"a").unwrap();
        file.write(0, b"third.").await.unwrap();
    });
}

#[test]
fn i8_a_write_given_up_half_way_ends_all_writing() {
    on(|rt| async move {
        let files = fresh(&rt, ram(&rt, caps(4096, 128))).await;
        let file = files.create(b"a", Promise::Completed).await.unwrap();
        file.write(0, &[1; 100]).await.unwrap();
        let domain = rt.domain();
        let doomed = file.clone();
        domain.spawn("a client", async move { doomed.write(0, &[2; 100]).await });
        rt.sleep(Nanos::from_micros(5)).await;
        domain.kill();
        assert_eq!(file.write(0, &[3; 100]).await, Err(FilesError::Poisoned));
    });
}

#[test]
fn a_device_that_does_not_suit_is_told_why() {
    on(|rt| async move {
        let options = MountOptions::default();
        let blank = ram(&rt, caps(4096, 128));
        let done = Files::mount(&rt, blank.clone(), &options).await;
        assert_eq!(done.err(), Some(FilesError::NotFormatted));
        let stamps = ram(&rt, Caps { payload: Payload::Stamps, ..caps(4096, 128) });
        for (device, format) in [
            (stamps, FORMAT),
            (ram(&rt, caps(4096, 20)), FORMAT),
            (blank.clone(), FormatOptions { chunk: 2048, ..FORMAT }),
            (blank.clone(), FormatOptions { chunk: 12_288, ..FORMAT }),
            (blank.clone(), FormatOptions { journal_blocks: 0, ..FORMAT }),
            (ram(&rt, caps(256, 4096)), FORMAT),
        ] {
            let done = Files::format(&rt, &device, &format).await;
            assert!(matches!(done, Err(FilesError::Unsuitable(_))), "{format:?}: {done:?}");
        }
    });
}

async fn damage<D: BlockDevice>(device: &D, block: u64, change: impl FnOnce(&mut [u8])) {
    let mut bytes = vec![0; device.caps().block_size as usize];
    device.read(Block(block), DataMut::Bytes(&mut bytes)).await.unwrap();
    change(&mut bytes);
    device.write(Block(block), Data::Bytes(&bytes), Durability::Normal).await.unwrap();
}

/// A layer with a few files and a journal; the metadata are in blocks 0 to 23.
async fn some_files(rt: &Rt) -> RamDevice {
    let device = ram(rt, caps(4096, 128));
    let files = fresh(rt, device.clone()).await;
    for i in 0..4u8 {
        let file = files.create(&[b'a' + i], Promise::Completed).await.unwrap();
        file.write(0, &[i; 10_000]).await.unwrap();
    }
    device
}

#[test]
fn a_damaged_superblock_has_a_copy() {
    on(|rt| async move {
        let device = some_files(&rt).await;
        damage(&device, 0, |b| b[20] ^= 1).await;
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        assert_eq!(files.list().len(), 4);
        damage(&device, 1, |b| b[20] ^= 1).await;
        let done = Files::mount(&rt, device, &MountOptions::default()).await;
        assert!(matches!(done.err(), Some(FilesError::Corrupt { at: Block(0), .. })));
    });
}

#[test]
fn damage_that_no_crash_can_do_is_corruption() {
    // Regions begin at 2 and 13: one block of snapshot, then the journal. The mount after
    // format wrote its snapshot into the second region, and eight records follow it.
    for (block, what) in [(13, "snapshot"), (14, "record"), (20, "record")] {
        on(|rt| async move {
            let device = some_files(&rt).await;
            damage(&device, block, |b| b[30] ^= 4).await;
            let done = Files::mount(&rt, device, &MountOptions::default()).await;
            let Some(FilesError::Corrupt { what: why, .. }) = done.err() else {
                panic!("damage of block {block} was not noticed");
            };
            assert!(why.contains(what), "{why}");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_makes_it_panic(
        hits in proptest::collection::vec((0u64..24, 0usize..600, any::<u8>()), 1..6),
        whole in any::<bool>(),
    ) {
        on(|rt| async move {
            let device = some_files(&rt).await;
            for (block, at, byte) in hits {
                damage(&device, block, |b| match whole {
                    true => b.fill(byte),
                    false => b[at] = byte,
                })
                .await;
            }
            if let Ok(files) = Files::mount(&rt, device, &MountOptions::default()).await {
                for entry in files.list() {
                    let file = files.open(&entry.name).unwrap();
                    let _ = file.read(0, &mut [0; 20_000]).await;
                    let _ = file.write(9_999, b"x").await;
                }
            }
        });
    }
}

#[test]
fn invariant_10_a_file_tells_whether_its_device_can_be_reached() {
    on(|rt| async move {
        let device = ram(&rt, caps(4096, 256));
        let files = fresh(&rt, device.clone()).await;
        let file = files.create(b"a", Promise::Durable).await.unwrap();
        file.write(0, &[1; 4096]).await.unwrap();
        assert!(file.is_alive());
        device.cut();
        assert!(!file.is_alive() && !files.open(b"a").unwrap().is_alive());
        device.power_on().await.unwrap();
        let mut room = [0; 4096];
        let lost = Err(FilesError::Io(IoError::PowerLost));
        assert_eq!((file.is_alive(), file.read(0, &mut room).await), (false, lost));
        let files = Files::mount(&rt, device.device(), &MountOptions::default()).await.unwrap();
        assert!(files.open(b"a").unwrap().is_alive());
    });
}
