//! Devices with which a log is not opened or not created: each has an error, and nothing changes.

use tantalum_device::{
    Block, BlockDevice, Caps, Data, DataMut, Durability, Partition, Payload, RamDevice, RamOptions,
};
use tantalum_log::{
    CreateOptions, DeviceDescription, Expects, Log, LogDescription, LogDevice, LogError, Lsn,
    OpenError, OpenOptions, Role,
};
use tantalum_rt::{Rt, Runtime};

fn device(rt: &Rt, block: u32, bytes: u64, payload: Payload) -> RamDevice {
    let caps = Caps {
        block_size: block,
        atomic_unit: block,
        ..Caps::power_safe(bytes / u64::from(block), payload)
    };
    RamDevice::new(rt, RamOptions::new(caps))
}

fn good(rt: &Rt) -> RamDevice {
    device(rt, 512, 256 << 10, Payload::Bytes)
}

fn named<D: Clone>(devices: &[D]) -> Vec<LogDevice<D>> {
    let all = devices.iter().enumerate();
    all.map(|(i, d)| LogDevice::new(format!("sd{i}"), d.clone())).collect()
}

fn small() -> CreateOptions {
    CreateOptions { record_limit: Some(2000), ..CreateOptions::default() }
}

async fn bytes_of<D: BlockDevice>(device: &D) -> Vec<u8> {
    let mut all = vec![0; device.caps().bytes() as usize];
    device.read(Block(0), DataMut::Bytes(&mut all)).await.unwrap();
    all
}

async fn put<D: BlockDevice>(device: &D, at: u64, change: impl FnOnce(&mut [u8])) {
    let mut block = vec![0; device.caps().block_size as usize];
    device.read(Block(at), DataMut::Bytes(&mut block)).await.unwrap();
    change(&mut block);
    device.write(Block(at), Data::Bytes(&block), Durability::Normal).await.unwrap();
}

fn run<T: 'static>(test: impl AsyncFnOnce(Rt) -> T + 'static) -> T {
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    runtime.block_on(async move { test(rt).await }).unwrap()
}

/// A log with some records on two devices.
async fn make(rt: &Rt, options: &CreateOptions) -> Vec<RamDevice> {
    let devices = vec![good(rt), good(rt)];
    Log::create(rt, &named(&devices), None, options).await.unwrap();
    let log = Log::open(rt, named(&devices), OpenOptions::default()).await.unwrap();
    for i in 0..20 {
        log.commit(&[i; 700]).await.unwrap();
    }
    log.close().await.unwrap();
    devices
}

/// Opening fails with this, and changes nothing.
async fn refused(rt: &Rt, devices: &[RamDevice], options: OpenOptions) -> OpenError {
    let mut before = Vec::new();
    for d in devices {
        if d.caps().payload == Payload::Bytes {
            before.push(bytes_of(d).await);
        }
    }
    let error = Log::open(rt, named(devices), options).await.err().expect("it is refused");
    let bytes = devices.iter().filter(|d| d.caps().payload == Payload::Bytes);
    for (d, before) in bytes.zip(before) {
        assert!(bytes_of(d).await == before, "{error}: something was changed");
    }
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 250, "{text}");
    println!("{text}");
    error
}

#[test]
fn what_is_no_device_of_the_log_is_refused() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let other = make(&rt, &small()).await;
        let open = OpenOptions::default;
        let missing = refused(&rt, &all[..1], open()).await;
        assert_eq!(missing, OpenError::Missing { index: 1, devices: 2, or: "" });
        let twice = refused(&rt, &[all[0].clone(), all[0].clone()], open()).await;
        assert_eq!(twice, OpenError::Twice("sd0".into(), "sd1".into()));
        let mixed = refused(&rt, &[all[0].clone(), other[1].clone()], open()).await;
        assert!(matches!(mixed, OpenError::OtherLog { device, .. } if device == "sd1"));
        let blank = refused(&rt, &[all[0].clone(), good(&rt)], open()).await;
        assert_eq!(blank, OpenError::NoLog("sd1".into()));
        let stamps = device(&rt, 512, 256 << 10, Payload::Stamps);
        let stamps = refused(&rt, &[all[0].clone(), stamps], open()).await;
        assert_eq!(stamps, OpenError::Stamps("sd1".into()));
        assert_eq!(refused(&rt, &[], open()).await, OpenError::NoDevice);
        let little = OpenOptions { memory: 2000, ..open() };
        assert!(matches!(refused(&rt, &all, little).await, OpenError::Options(_)));
        // All of them, in any order, are the log.
        let log = Log::open(&rt, named(&[all[1].clone(), all[0].clone()]), open()).await.unwrap();
        assert_eq!(log.end(), Lsn(20 * 708));
    });
}

#[test]
fn a_damaged_or_newer_superblock_is_refused_and_one_copy_suffices() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let whole = bytes_of(&all[0]).await[..32768].to_vec();
        // One of both is torn: it is told, and mended by an opening that writes.
        for at in [0, 32] {
            put(&all[0], at, |b| b[20] ^= 1).await;
            let reading = OpenOptions { read_only: true, ..OpenOptions::default() };
            Log::open(&rt, named(&all), reading).await.unwrap();
            let device = &named(&all)[0];
            let found = DeviceDescription::read(device).await.unwrap();
            assert_eq!(found.damaged, Some(at * 512));
            Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
            assert_eq!(DeviceDescription::read(device).await.unwrap().damaged, None);
            assert!(bytes_of(&all[0]).await[..32768] == whole);
        }
        for at in [0, 32] {
            put(&all[0], at, |b| b[20] ^= 1).await;
        }
        let damaged = refused(&rt, &all, OpenOptions::default()).await;
        assert_eq!(damaged, OpenError::Superblock("sd0".into()));
        for at in [0, 32] {
            put(&all[0], at, |b| b[8] = 9).await;
        }
        let newer = refused(&rt, &all, OpenOptions::default()).await;
        assert_eq!(newer, OpenError::Newer { device: "sd0".into(), version: 9 });
        // Once `force` made another log over it.
        let before = bytes_of(&all[0]).await;
        for force in [false, true] {
            let options = CreateOptions { force, ..small() };
            let error = Log::create(&rt, &named(&all[..1]), None, &options).await.unwrap_err();
            assert_eq!(error, newer);
        }
        assert!(bytes_of(&all[0]).await == before, "something was changed");
    });
}

/// Once such a device was told to hold no log, which should be created, or to be an older copy.
#[test]
fn a_device_whose_superblocks_or_states_are_gone_is_damaged() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let whole = bytes_of(&all[0]).await;
        for at in [0, 32] {
            put(&all[0], at, |b| b.fill(0)).await;
        }
        let damaged = refused(&rt, &all, OpenOptions::default()).await;
        assert_eq!(damaged, OpenError::Superblock("sd0".into()));
        assert!(!damaged.to_string().contains("create"), "{damaged}");
        let error = Log::create(&rt, &named(&all[..1]), None, &small()).await.unwrap_err();
        assert!(error.to_string().contains("a log whose superblocks are damaged"), "{error}");
        all[0].write(Block(0), Data::Bytes(&whole), Durability::Normal).await.unwrap();
        for device in [0, 1] {
            for at in [64, 96] {
                put(&all[device], at, |b| b.fill(0xEE)).await;
            }
            // The first without a state, and then none has one.
            let damaged = refused(&rt, &all, OpenOptions::default()).await;
            assert_eq!(damaged, OpenError::State("sd0".into()));
            assert!(!damaged.to_string().contains("older"), "{damaged}");
        }
    });
}

#[test]
fn a_log_that_was_made_otherwise_than_expected_is_refused() {
    run(async |rt| {
        let made = CreateOptions { copies: 2, partitions: 2, ..small() };
        let archive = LogDevice::new("archive", good(&rt));
        let array = [good(&rt), good(&rt)];
        Log::create(&rt, &named(&array), Some(&archive), &made).await.unwrap();
        let open = async |copies, partitions| {
            let expects = Expects { copies, partitions, ..Expects::default() };
            let devices = named(&array).into_iter().chain([archive.clone()]).collect();
            Log::open(&rt, devices, OpenOptions { expects, ..OpenOptions::default() }).await
        };
        for (copies, partitions, what, made, expected) in
            [(Some(1), Some(2), "copies", 2, 1), (None, Some(4), "partitions", 2, 4)]
        {
            let error = open(copies, partitions).await.err().expect("it is refused");
            let device = "sd0".to_string();
            assert_eq!(error, OpenError::Differs { device, what, made, expected });
        }
        open(Some(2), Some(2)).await.expect("it was made so").close().await.unwrap();
        // A device of another log is that, before it is one that was made otherwise.
        let other = LogDevice::new("other", good(&rt));
        Log::create(&rt, std::slice::from_ref(&other), None, &small()).await.unwrap();
        let expects = Expects { copies: Some(2), ..Expects::default() };
        let options = OpenOptions { expects, ..OpenOptions::default() };
        let devices = named(&array).into_iter().chain([other]).collect();
        let error = Log::open(&rt, devices, options).await.err().expect("it is refused");
        assert!(matches!(error, OpenError::OtherLog { .. }), "{error}");
        // And a device is for what it was made for.
        for (device, expected, made) in
            [("sd0", Role::Archive, Role::Array), ("archive", Role::Array, Role::Archive)]
        {
            let roles = vec![(device.to_string(), expected)];
            let options = OpenOptions {
                expects: Expects { roles, ..Expects::default() },
                ..OpenOptions::default()
            };
            let devices = named(&array).into_iter().chain([archive.clone()]).collect();
            let error = Log::open(&rt, devices, options).await.err().expect("it is refused");
            assert_eq!(error, OpenError::Role { device: device.to_string(), made });
        }
    });
}

#[test]
fn a_device_that_shrank_is_refused() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let range = |count| tantalum_device::Blocks { start: Block(0), count };
        let part = |d: &RamDevice, count| Partition::new(d.clone(), range(count)).unwrap();
        let shrunk = vec![part(&all[0], 512), part(&all[1], 400)];
        let error = Log::open(&rt, named(&shrunk), OpenOptions::default()).await.err().unwrap();
        assert!(matches!(&error, OpenError::TooSmall { device, .. } if device == "sd1"), "{error}");
    });
}

/// A copy of yesterday's device.
#[test]
fn an_older_copy_of_a_device_is_refused() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let old = good(&rt);
        let bytes = bytes_of(&all[1]).await;
        old.write(Block(0), Data::Bytes(&bytes), Durability::Normal).await.unwrap();
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        log.commit(&[1; 300]).await.unwrap();
        log.close().await.unwrap();
        // One opening later: only the blocks tell that it is older.
        let mixed = [all[0].clone(), old];
        let error = refused(&rt, &mixed, OpenOptions::default()).await;
        assert!(matches!(&error, OpenError::Older { device, .. } if device == "sd1"), "{error}");
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        log.checkpoint(Lsn::ZERO, 5).await.unwrap();
        log.close().await.unwrap();
        let error = refused(&rt, &mixed, OpenOptions::default()).await;
        assert!(matches!(&error, OpenError::Older { device, .. } if device == "sd1"), "{error}");
    });
}

/// Once nothing made an opening say so.
#[test]
fn blocks_that_are_newer_than_every_state_are_told() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let mut old = Vec::new();
        for device in &all {
            old.push(bytes_of(device).await[32768..65536].to_vec());
        }
        // Each opening begins an epoch.
        for _ in 0..2 {
            let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
            for i in 0..20 {
                log.commit(&[i; 700]).await.unwrap();
            }
            log.close().await.unwrap();
        }
        let whole = [bytes_of(&all[0]).await, bytes_of(&all[1]).await];
        for (device, states) in all.iter().zip(&old) {
            device.write(Block(64), Data::Bytes(states), Durability::Normal).await.unwrap();
        }
        for salvage in [false, true] {
            let error = refused(&rt, &all, OpenOptions { salvage, ..OpenOptions::default() }).await;
            let told = matches!(&error, OpenError::StateLost { epoch: 3, newest: 1, .. });
            assert!(told, "{error}");
        }
        // One device that has the states is enough to know that the other one is older.
        let states = &whole[0][32768..65536];
        all[0].write(Block(64), Data::Bytes(states), Durability::Normal).await.unwrap();
        let error = refused(&rt, &all, OpenOptions::default()).await;
        assert!(matches!(&error, OpenError::Older { device, .. } if device == "sd1"), "{error}");
    });
}

/// What devices say beside each other.
#[test]
fn devices_are_described_as_one_log_or_not() {
    run(async |rt| {
        let options = CreateOptions { copies: 2, ..small() };
        let (all, other) = (make(&rt, &options).await, make(&rt, &options).await);
        let old = good(&rt);
        let bytes = bytes_of(&all[1]).await;
        old.write(Block(0), Data::Bytes(&bytes), Durability::Normal).await.unwrap();
        let together = async |devices: &[&RamDevice]| {
            let mut found = Vec::new();
            for (i, device) in devices.iter().enumerate() {
                let device = LogDevice::new(format!("sd{i}"), (*device).clone());
                found.push((device.name.clone(), DeviceDescription::read(&device).await.unwrap()));
            }
            let all: Vec<_> = found.iter().map(|(name, found)| (&**name, found)).collect();
            LogDescription::of(&all).expect("there are devices")
        };
        let whole = together(&[&all[1], &all[0]]).await;
        assert_eq!(whole.refused, [None, None]);
        assert_eq!((whole.lost, whole.missing.len(), whole.without.len()), (vec![false; 2], 0, 0));
        // One of another log, of which there are fewer; one that is named twice; one that is missing.
        let mixed = together(&[&other[0], &all[0], &all[1]]).await;
        let (device, other_name) = ("sd0".to_string(), "sd1".to_string());
        let other_log = OpenError::OtherLog { device, other: other_name };
        assert_eq!(mixed.refused, [Some(other_log), None, None]);
        let twice = together(&[&all[0], &all[0]]).await;
        assert_eq!(twice.refused, [None, Some(OpenError::Twice("sd0".into(), "sd1".into()))]);
        assert!(matches!(&twice.missing[..], [OpenError::Missing { index: 1, devices: 2, .. }]));
        // One that is older, and then one that is lost.
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        log.checkpoint(log.end(), 5).await.unwrap();
        log.close().await.unwrap();
        let older = together(&[&all[0], &old]).await;
        let is_older = |e: &Option<OpenError>| matches!(e, Some(OpenError::Older { device, .. }) if device == "sd1");
        assert!(older.refused[0].is_none() && is_older(&older.refused[1]), "{older:?}");
        assert!(older.missing.is_empty());
        let degraded = OpenOptions { degraded: true, ..OpenOptions::default() };
        Log::open(&rt, named(&all[..1]), degraded).await.unwrap().close().await.unwrap();
        let lost = together(&[&all[0], &all[1]]).await;
        assert_eq!((lost.refused, lost.lost), (vec![None, None], vec![false, true]));
        assert_eq!((lost.missing, lost.without), (vec![], vec![1]));
    });
}

#[test]
fn a_record_in_pieces_is_committed_as_one() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        let at = log.commit_pieces(&[b"a ", b"", b"record"]).await.unwrap();
        assert_eq!(log.durable(), at.end);
        let record = log.read(at.lsn).unwrap().next().await.unwrap().expect("a record");
        assert_eq!((&record.bytes[..], record.end), (&b"a record"[..], at.end));
    });
}

/// The first block with bytes of the log.
fn first_block(device: &[u8]) -> u64 {
    let found = device.chunks(512).skip(128).position(|block| block[4] == 1);
    128 + found.expect("something was written") as u64
}

#[test]
fn damage_is_no_end_of_the_log() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        // Damage in the first block of the log on each device, one after the other.
        for (i, d) in all.iter().enumerate() {
            let whole = bytes_of(d).await;
            let at = first_block(&whole);
            put(d, at, |b| b[100] ^= 1).await;
            let error = refused(&rt, &all, OpenOptions::default()).await;
            let OpenError::Damaged(damage) = &error else { panic!("{error}") };
            assert_eq!(damage.place, Some((format!("sd{i}"), at * 512)), "{error}");
            assert!(damage.lsn < damage.watermark && damage.lsn < Lsn(20 * 708));
            // A block of zeros is found, too, as others follow it.
            put(d, at, |b| b.fill(0)).await;
            let OpenError::Damaged(zeros) = refused(&rt, &all, OpenOptions::default()).await else {
                panic!("a block of zeros was not found")
            };
            assert_eq!((zeros.lsn, zeros.place), (damage.lsn, damage.place.clone()));
            d.write(Block(0), Data::Bytes(&whole), Durability::Normal).await.unwrap();
        }
        let at = first_block(&bytes_of(&all[1]).await);
        put(&all[1], at, |b| b[100] ^= 1).await;
        let salvage = OpenOptions { salvage: true, ..OpenOptions::default() };
        let log = Log::open(&rt, named(&all), salvage).await.unwrap();
        let mut records = log.read(Lsn::ZERO).unwrap();
        let mut i = 0;
        while let Some(record) = records.next().await.unwrap() {
            assert_eq!(record.bytes, [i; 700]);
            i += 1;
        }
        assert!(i < 20 && log.end() == Lsn(u64::from(i) * 708));
        // It goes on from there, and what was behind the damage never counts again.
        log.commit(b"new").await.unwrap();
        log.close().await.unwrap();
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        assert_eq!(log.end(), Lsn(u64::from(i) * 708 + 11));
    });
}

#[test]
fn what_cannot_be_a_log_is_not_created() {
    run(async |rt| {
        let (a, b) = (good(&rt), good(&rt));
        let small = small;
        let refuse = async |devices: &[RamDevice], options: CreateOptions| {
            let before: Vec<_> = [bytes_of(&a).await, bytes_of(&b).await].into();
            let error = Log::create(&rt, &named(devices), None, &options).await.unwrap_err();
            assert!([bytes_of(&a).await, bytes_of(&b).await] == before[..], "{error}");
            println!("{error}");
            error
        };
        assert_eq!(refuse(&[], small()).await, OpenError::NoDevice);
        let stamps = device(&rt, 512, 1 << 20, Payload::Stamps);
        let stamps = refuse(&[a.clone(), stamps], small()).await;
        assert_eq!(stamps, OpenError::Stamps("sd1".into()));
        let tiny = device(&rt, 512, 70 << 10, Payload::Bytes);
        assert!(matches!(refuse(&[tiny], small()).await, OpenError::TooSmall { .. }));
        let odd = device(&rt, 520, 520 << 10, Payload::Bytes);
        assert!(matches!(refuse(&[a.clone(), odd], small()).await, OpenError::Blocks { .. }));
        let big = device(&rt, 4096, 1 << 20, Payload::Bytes);
        let unit = CreateOptions { unit: Some(512), ..small() };
        assert!(matches!(refuse(&[a.clone(), big], unit).await, OpenError::Blocks { .. }));
        let huge = CreateOptions { record_limit: Some(1 << 20), ..small() };
        assert!(matches!(refuse(std::slice::from_ref(&a), huge).await, OpenError::TooSmall { .. }));
        let lone = CreateOptions { copies: 2, ..small() };
        assert!(matches!(refuse(std::slice::from_ref(&a), lone).await, OpenError::Options(_)));
        let same = [LogDevice::new("sda", a.clone()), LogDevice::new("sda", b.clone())];
        let same = Log::create(&rt, &same, None, &small()).await.unwrap_err();
        assert_eq!(same, OpenError::Twice("sda".into(), "sda".into()));
        put(&b, 100, |block| block[7] = 1).await;
        let error = refuse(&[a.clone(), b.clone()], small()).await;
        assert!(matches!(&error, OpenError::NotBlank { device, .. } if device == "sd1"), "{error}");
        let force = CreateOptions { force: true, ..small() };
        Log::create(&rt, &named(&[a.clone(), b.clone()]), None, &force).await.unwrap();
        assert!(matches!(
            refuse(&[a.clone(), b.clone()], small()).await,
            OpenError::NotBlank { .. }
        ));
    });
}

/// Nobody says how long records may be: small devices take shorter ones than large ones do.
#[test]
fn how_long_records_may_be_follows_from_the_size_of_the_devices() {
    run(async |rt| {
        for (kib, limit) in [(64 << 10, 1 << 20), (4 << 10, 512 << 10), (512, 64 << 10)] {
            let device = || device(&rt, 512, kib << 10, Payload::Bytes);
            let devices = [device(), device()];
            let options = CreateOptions { copies: 2, ..CreateOptions::default() };
            Log::create(&rt, &named(&devices), None, &options).await.unwrap();
            let log = Log::open(&rt, named(&devices), OpenOptions::default()).await.unwrap();
            assert_eq!(log.record_limit(), limit, "{kib} KiB");
            let longest = vec![7; limit as usize];
            let first = log.commit(&longest).await.unwrap();
            assert_eq!(log.read(first.lsn).unwrap().next().await.unwrap().unwrap().bytes, longest);
        }
        let tiny = [device(&rt, 512, 80 << 10, Payload::Bytes)];
        let error = Log::create(&rt, &named(&tiny), None, &CreateOptions::default()).await;
        assert!(matches!(error, Err(OpenError::TooSmall { .. })), "{error:?}");
    });
}

/// A crash came while the devices got a new state. Who only reads changes nothing, until the
/// checkpoint moves.
#[test]
fn devices_that_differ_by_a_generation_are_read_as_they_are() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let states = |bytes: &[u8]| bytes[32768..65536].to_vec();
        let before = states(&bytes_of(&all[1]).await);
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        log.close().await.unwrap();
        all[1].write(Block(64), Data::Bytes(&before), Durability::Normal).await.unwrap();
        let devices = [bytes_of(&all[0]).await, bytes_of(&all[1]).await];
        assert!(states(&devices[0]) != states(&devices[1]));
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        let log = Log::open(&rt, named(&all), read_only).await.unwrap();
        let mut records = log.read(log.first()).unwrap();
        let mut found = 0;
        while records.next().await.unwrap().is_some() {
            found += 1;
        }
        assert_eq!(found, 20);
        assert!([bytes_of(&all[0]).await, bytes_of(&all[1]).await] == devices, "it only reads");
        log.checkpoint(Lsn(708), 3).await.unwrap();
        drop(log);
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        assert_eq!((log.first(), log.end(), log.checkpoint_number()), (Lsn(708), Lsn(20 * 708), 3));
    });
}

/// One device under two names is noticed when it is read back.
#[test]
fn one_device_under_two_names_is_noticed() {
    run(async |rt| {
        let a = good(&rt);
        let twice = [a.clone(), a.clone()];
        let error = Log::create(&rt, &named(&twice), None, &small()).await.unwrap_err();
        assert_eq!(error, OpenError::Twice("sd0".into(), "sd1".into()));
    });
}

/// What an earlier log left on the devices never counts in a new one.
#[test]
fn a_new_log_has_nothing_of_the_old_one() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let force = CreateOptions { force: true, ..small() };
        Log::create(&rt, &named(&all), None, &force).await.unwrap();
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        assert_eq!((log.first(), log.end()), (Lsn::ZERO, Lsn::ZERO));
        log.commit(b"first").await.unwrap();
        log.close().await.unwrap();
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        assert_eq!(log.end(), Lsn(13));
    });
}

#[test]
fn wrong_calls_have_errors_that_say_what_is_right() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        let end = log.end();
        let (bytes, limit) = (2001, 2000);
        let long = log.append(&[0; 2001]).await.unwrap_err();
        assert_eq!(long, LogError::RecordTooLong { bytes, limit });
        log.append(&[0; 2000]).await.unwrap();
        let beyond = log.checkpoint(log.end().plus(1), 1).await.unwrap_err();
        assert!(matches!(beyond, LogError::NotDurable { .. }), "{beyond}");
        let beyond = log.wait_durable(log.end().plus(1)).await.unwrap_err();
        assert!(matches!(beyond, LogError::NotDurable { .. }), "{beyond}");
        assert!(matches!(log.read(end.plus(1)), Err(LogError::NotDurable { .. })));
        // In memory and on devices: no record begins there.
        log.flush().await.unwrap();
        for (lsn, begins) in [(Lsn(1), Lsn(0)), (Lsn(1415), Lsn(708)), (end.plus(1), end)] {
            let moved = log.checkpoint(lsn, 1).await;
            assert_eq!(moved, Err(LogError::NoRecord { lsn, within: Some(begins) }));
        }
        log.checkpoint(log.end(), 1).await.unwrap();
        let first = log.end();
        assert_eq!(log.read(Lsn(708)).err(), Some(LogError::BeforeFirst { lsn: Lsn(708), first }));
        let back = log.checkpoint(Lsn(708), 1).await;
        assert_eq!(back, Err(LogError::BeforeFirst { lsn: Lsn(708), first }));
        assert_eq!(log.checkpoint_number(), 1);
        let copy = log.clone();
        log.close().await.unwrap();
        assert!(matches!(copy.append(b"x").await, Err(LogError::Failed(_))));
    });
}

/// Within a record nothing begins: that is no damage, and no end of the log.
#[test]
fn reading_begins_at_a_record_or_says_in_which_one_it_would() {
    run(async |rt| {
        let all = make(&rt, &small()).await;
        let log = Log::open(&rt, named(&all), OpenOptions::default()).await.unwrap();
        let next = async |log: &Log<_>, lsn| log.read(lsn).unwrap().next().await;
        for lsn in (0..log.end().0).map(Lsn) {
            let found = next(&log, lsn).await;
            let begins = Lsn(lsn.0 / 708 * 708);
            match lsn == begins {
                true => assert_eq!(found.unwrap().unwrap().lsn, lsn),
                false => assert_eq!(found, Err(LogError::NoRecord { lsn, within: Some(begins) })),
            }
        }
        assert_eq!(next(&log, log.end()).await, Ok(None));
        // Its error comes again, and a line says what to use.
        let mut records = log.read(Lsn(709)).unwrap();
        records.next().await.unwrap_err();
        let told = records.next().await.unwrap_err().to_string();
        assert!(
            told.contains("at LSN 709, which lies in the record at LSN 708: use the LSN"),
            "{told}"
        );

        // What is damaged is damaged, wherever the reading begins that comes to it.
        let holds = async |device: &RamDevice| {
            let bytes = bytes_of(device).await;
            let mut blocks = bytes.chunks(512).skip(128);
            blocks.position(|b| b[4] == 1 && b[8..].windows(8).any(|w| w == [9; 8]))
        };
        for device in &all {
            while let Some(at) = holds(device).await {
                put(device, 128 + at as u64, |block| block.fill(0xEE)).await;
            }
        }
        for lsn in [Lsn(9 * 708), Lsn(9 * 708 + 5), Lsn(10 * 708 + 1)] {
            let found = next(&log, lsn).await;
            assert!(matches!(found, Err(LogError::Damaged(_))), "{lsn}: {found:?}");
        }
        let (lsn, within) = (Lsn(3 * 708 + 1), Some(Lsn(3 * 708)));
        assert_eq!(next(&log, lsn).await, Err(LogError::NoRecord { lsn, within }));
        let moved = log.checkpoint(lsn, 1).await;
        assert_eq!(moved, Err(LogError::NoRecord { lsn, within }));
    });
}

/// A log that was opened as often as can be kept is opened for reading, and is in order again when
/// its checkpoint has moved.
#[test]
fn there_is_a_way_out_of_too_many_epochs() {
    run(async |rt| {
        let devices = [device(&rt, 512, 4 << 20, Payload::Bytes)];
        Log::create(&rt, &named(&devices), None, &small()).await.unwrap();
        let mut epochs = 0;
        let error = loop {
            match Log::open(&rt, named(&devices), OpenOptions::default()).await {
                Ok(log) => drop(log.commit(b"").await.unwrap()),
                Err(e) => break e,
            }
            epochs += 1;
            assert!(epochs < 2000);
        };
        assert!(matches!(error, OpenError::TooManyEpochs(n) if n == epochs), "{error}");
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        let before = bytes_of(&devices[0]).await;
        let log = Log::open(&rt, named(&devices), read_only).await.unwrap();
        assert!(bytes_of(&devices[0]).await == before, "nothing changes");
        assert_eq!(log.append(b"x").await, Err(LogError::ReadOnly));
        let mut records = log.read(Lsn::ZERO).unwrap();
        let mut found = 0;
        while records.next().await.unwrap().is_some() {
            found += 1;
        }
        assert_eq!(found, epochs);
        log.checkpoint(log.end(), 9).await.unwrap();
        drop(log);
        let log = Log::open(&rt, named(&devices), OpenOptions::default()).await.unwrap();
        assert_eq!((log.first(), log.checkpoint_number()), (Lsn(8 * epochs as u64), 9));
        log.commit(b"on").await.unwrap();
    });
}

/// Once such a log was not opened, though the other copy is enough.
#[test]
fn a_damaged_superblock_that_cannot_be_written_is_no_hindrance() {
    use super::running::{make, named, options};
    use tantalum_device::CommandKind;
    run(async |rt| {
        let (devices, log) = make(&rt, 1, 1).await;
        log.close().await.unwrap();
        let zeros = Data::Bytes(&[0; 512]);
        devices[0].write(Block(32), zeros, Durability::Fua).await.unwrap();
        devices[0].inner.fail_nth(CommandKind::Write, 1);
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        log.commit(b"a record").await.unwrap();
        log.close().await.unwrap();
        let damaged = async || DeviceDescription::read(&named(&devices)[0]).await.unwrap().damaged;
        assert_eq!(damaged().await, Some(16384));
        // The next one mends it.
        Log::open(&rt, named(&devices), options()).await.unwrap().close().await.unwrap();
        assert_eq!(damaged().await, None);
    });
}
