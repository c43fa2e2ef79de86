//! Magnetic disks and RAID-0 under the crash harness, and their mechanics.

use tantalum_device::{
    Ack, Block, BlockDevice, Caps, Data, DataMut, Disk, DiskModel, Durability, Payload, PowerCycle,
    RaidBox, RamDevice, RamOptions,
};
use tantalum_oracle::harness::{CrashPlan, CutAt, crash_run};
use tantalum_rt::{Nanos, Runtime};
use tantalum_workload::jobs::{self, Job};

fn model(blocks: u64, write_cache: bool) -> DiskModel {
    DiskModel {
        block_bytes: 4096,
        blocks,
        rpm: 15_000,
        track_blocks: 120,
        heads: 4,
        skew_blocks: 0,
        seek_track_us: 600,
        seek_full_us: 7350,
        command_us: 100,
        prepares_ahead: false,
        interface_mb_s: 300,
        queue_depth: 32,
        queue_window: 0,
        cache_kib: 16 * 1024,
        write_cache,
        write_settle_us: 500,
        cache_window: 64,
        expiry_ms: 500,
        spin_up_ms: 3,
    }
}

#[test]
fn disks_keep_their_promises() {
    for cache in [false, true] {
        for seed in 0..30 {
            let plan = CrashPlan {
                rounds: 5,
                commands: 120,
                cut: CutAt::Within(Nanos::from_millis(400)),
                restart_within: Nanos::from_millis(4),
                range: if seed % 2 == 0 { 64 } else { u64::MAX },
                ..CrashPlan::default()
            };
            let payload = if seed % 5 == 0 { Payload::Bytes } else { Payload::Stamps };
            let block_bytes = [4096, 512, 65_536][seed as usize % 3];
            let (skew_blocks, prepares_ahead) = (seed % 7 * 11, seed % 4 < 2);
            let small = DiskModel { skew_blocks, prepares_ahead, ..model(4000, cache) };
            let small = DiskModel { cache_kib: 1024, block_bytes, ..small };
            let report = crash_run(seed, &plan, |rt| Disk::new(rt, &small, payload).unwrap());
            let report = report.unwrap();
            assert!(report.is_clean(), "cache {cache}: {report}");
            assert!(report.succeeded > 50, "{report}");
        }
    }
}

/// A sector is what is written whole, and what a size counts in.
#[test]
fn blocks_of_a_disk_have_the_size_that_its_model_says() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    for block_bytes in [512, 4096, 65_536] {
        let small = DiskModel { block_bytes, ..model(4000, true) };
        let disk = Disk::new(&rt, &small, Payload::Bytes).unwrap();
        let caps = *disk.caps();
        assert_eq!((caps.block_size, caps.atomic_unit), (block_bytes, block_bytes));
        assert_eq!(caps.bytes(), 4000 * u64::from(block_bytes));
        let moved = runtime.block_on(async move {
            disk.power_on().await.unwrap();
            let bytes = vec![7; 3 * block_bytes as usize];
            let on = disk.device();
            on.write(Block(5), Data::Bytes(&bytes), Durability::Normal).await.unwrap();
            on.flush().await.unwrap();
            disk.cut();
            disk.power_on().await.unwrap();
            let mut read = vec![0; 5 * block_bytes as usize];
            disk.device().read(Block(4), DataMut::Bytes(&mut read)).await.unwrap();
            let zeros = vec![0; block_bytes as usize];
            assert!(read == [&zeros[..], &bytes, &zeros].concat(), "{block_bytes}");
            disk.bytes_written()
        });
        assert_eq!(moved.unwrap(), 3 * u64::from(block_bytes));
    }
    for block_bytes in [0, 256, 1000, 1 << 17] {
        let told = DiskModel { block_bytes, ..model(4000, true) }.check().unwrap_err();
        assert!(told.contains(&format!("block_bytes is {block_bytes}")), "{told}");
    }
}

#[test]
fn arrays_keep_their_promises() {
    for seed in 0..30 {
        let plan = CrashPlan { rounds: 5, max_blocks: 20, ..CrashPlan::default() };
        let report = crash_run(seed, &plan, |rt| {
            let disk = DiskModel { cache_kib: 1024, ..model(900, seed % 2 == 0) };
            let disks = (0..3).map(|_| Disk::new(rt, &disk, Payload::Stamps).unwrap());
            RaidBox::new(disks.collect(), 4).unwrap()
        });
        let report = report.unwrap();
        assert!(report.is_clean(), "{report}");
        let report = crash_run(seed, &plan, |rt| {
            let members = (0..2).map(|i| {
                let caps = Caps {
                    block_size: 4096,
                    blocks: 500,
                    ack: if seed % 3 == 0 { Ack::PowerSafe } else { Ack::Volatile },
                    flush: true,
                    ordered: true,
                    atomic_unit: 16384,
                    thin: false,
                    atomic_group: None,
                    payload: Payload::Bytes,
                };
                let mut options = RamOptions::new(caps);
                options.command = Nanos::from_micros(20);
                options.jitter = Nanos::from_micros(50);
                options.stream = format!("member {i}");
                RamDevice::new(rt, options)
            });
            RaidBox::new(members.collect(), 8).unwrap()
        });
        let report = report.unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

/// Random 4 KiB writes per virtual second, one thread, a flush after every `every`.
fn iops(cache: bool, every: u64, count: u64) -> u64 {
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    let disk = Disk::new(&rt, &model(35_000_000, cache), Payload::Stamps).unwrap();
    let report = runtime.block_on(async move {
        disk.power_on().await.unwrap();
        let job = Job { fsync_every: every, commands: Some(count), ..Job::default() };
        jobs::run(&rt, &disk.device(), &job, 3).await.unwrap()
    });
    report.unwrap().iops() as u64
}

#[test]
fn reordering_pays_and_flushes_cost() {
    let off = iops(false, 0, 500);
    let on = iops(true, 0, 12_000);
    let each = iops(true, 1, 500);
    println!("off {off}, on {on}, on with a flush after each {each}");
    // A 15,000 rpm disk: some six milliseconds for a seek and half a turn.
    assert!((130..190).contains(&off), "{off}");
    assert!(on > off * 3 / 2, "{on} against {off}");
    assert!(each < off * 3 / 2, "{each} against {off}");
}
