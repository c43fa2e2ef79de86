//! A drive behind a file system and a block layer: which flushes requests share, and which fsyncs
//! commit the journal.

use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{
    Ack, Block, BlockDevice, Caps, DataMut, Payload, PowerCycle, RamDevice, RamOptions,
};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_workload::pages::{Benchmark, FileNo, Host, Mix, PageNo, Volume};

const BLOCKS: u64 = 2048;
const JOURNAL: u64 = 1024;
const HOST: Host = Host { barriers: true, queued_flush: false, tick_ms: 10 };

/// A drive whose commands take 1 ms, and its flushes 10.
async fn drive(rt: &Rt) -> RamDevice {
    let safe = Caps::power_safe(BLOCKS, Payload::Stamps);
    let caps = Caps { ack: Ack::Volatile, ordered: false, ..safe };
    let times = RamOptions {
        command: Nanos::from_millis(1),
        jitter: Nanos::ZERO,
        flush: Nanos::from_millis(10),
        ..RamOptions::new(caps)
    };
    let drive = RamDevice::new(rt, times);
    drive.power_on().await.unwrap();
    drive
}

/// Blocks of the journal that were written.
async fn journal(drive: &RamDevice) -> usize {
    let mut stamps = vec![0; JOURNAL as usize];
    let at = Block(BLOCKS - JOURNAL);
    drive.device().read(at, DataMut::Stamps(&mut stamps)).await.unwrap();
    stamps.iter().filter(|stamp| **stamp > 0).count()
}

/// Runs writers that each write a block after so many ms and then ask for a flush. Returns the
/// flushes that the drive completed, and when each writer was done, in ms.
fn flushed(queued_flush: bool, begins: &[u64]) -> (u64, Vec<u64>) {
    let begins = begins.to_vec();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let ran = runtime.block_on(async move {
        let drive = drive(&rt).await;
        let volume = Volume::new(&rt, drive.device(), Host { queued_flush, tick_ms: 0, ..HOST });
        let ends = Rc::new(RefCell::new(vec![0; begins.len()]));
        let started = rt.now();
        let writers = begins.iter().enumerate().map(|(i, begin)| {
            let (rt, volume, ends, begin) = (rt.clone(), volume.clone(), ends.clone(), *begin);
            async move {
                rt.sleep(Nanos::from_millis(begin)).await;
                volume.write(FileNo::SYSTEM, Block(i as u64), &[1]).await.unwrap();
                volume.flush().await.unwrap();
                ends.borrow_mut()[i] = (rt.now() - started).0 / 1_000_000;
            }
        });
        tantalum_rt::join_all(writers.collect()).await;
        let ends = ends.borrow().clone();
        (volume.flushes(), ends)
    });
    ran.unwrap()
}

#[test]
fn a_flush_that_is_queued_takes_no_more_requests() {
    // The first of two requests is queued at once, so the second is for the next flush.
    assert_eq!(flushed(true, &[0, 0]), (2, vec![11, 21]));
    // Three that come while one runs share the next one.
    assert_eq!(flushed(true, &[0, 2, 4, 6]), (2, vec![11, 21, 21, 21]));
    // The first flush waits for a write in flight. That write's own flush is another one.
    let (flushes, ends) = flushed(false, &[0, 0]);
    assert_eq!(flushes, 2);
    assert!(ends[1] > ends[0], "{ends:?}");
    // Far apart nothing is shared, and nothing waits.
    assert_eq!(flushed(false, &[0, 50]), (2, vec![11, 61]));
}

#[test]
fn an_fsync_commits_time_stamps_that_no_commit_has() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let ran = runtime.block_on(async move {
        let drive = drive(&rt).await;
        let volume = Volume::new(&rt, drive.device(), HOST);
        let [a, b] = [FileNo(1), FileNo(2)];
        let mut expected = 0;
        // A file that was never written has nothing to commit.
        volume.fsync(a, false).await.unwrap();
        assert_eq!(journal(&drive).await, expected);
        // One commit has the stamps of all files; each fsync still flushes.
        volume.write(a, Block(0), &[1]).await.unwrap();
        volume.write(b, Block(1), &[1]).await.unwrap();
        let before = volume.flushes();
        volume.fsync(a, false).await.unwrap();
        expected += 2;
        assert_eq!(journal(&drive).await, expected);
        rt.sleep(Nanos::from_millis(50)).await;
        volume.fsync(b, false).await.unwrap();
        volume.fsync(a, false).await.unwrap();
        assert_eq!((journal(&drive).await, volume.flushes() - before), (expected, 3));
        // A second write in the same tick does not change them; one in a later tick does.
        let tick = |rt: &Rt| rt.now().0 / 10_000_000;
        rt.sleep(Nanos(10_000_000 - rt.now().0 % 10_000_000)).await;
        let first = tick(&rt);
        volume.write(a, Block(0), &[2]).await.unwrap();
        volume.write(a, Block(0), &[3]).await.unwrap();
        assert_eq!(tick(&rt), first, "both writes are in one tick");
        volume.fsync(a, false).await.unwrap();
        expected += 2;
        assert_eq!(journal(&drive).await, expected);
        volume.write(a, Block(0), &[4]).await.unwrap();
        assert!(tick(&rt) > first);
        volume.fsync(b, false).await.unwrap();
        assert_eq!(journal(&drive).await, expected, "b was not written");
        volume.fsync(a, false).await.unwrap();
        expected += 2;
        assert_eq!(journal(&drive).await, expected);
        // A file that has grown is always committed.
        volume.fsync(b, true).await.unwrap();
        assert_eq!(journal(&drive).await, expected + 2);
    });
    ran.unwrap();
}

#[test]
fn each_table_and_partition_is_a_file() {
    for (benchmark, files) in [(Benchmark::LinkBench, 1 + 16 + 1), (Benchmark::Tpcc, 9)] {
        let mix = Mix::new(benchmark, 64, 4096);
        let of = mix.files();
        let found: Vec<u32> = (0..mix.pages()).map(|p| of.of_page(PageNo(p))).collect();
        let mut each = found.clone();
        each.sort_unstable();
        each.dedup();
        assert_eq!(each, (0..files).collect::<Vec<_>>(), "{benchmark:?}");
        // The first and the last page are of the first and the last table.
        assert_eq!((found[0], found[found.len() - 1]), (0, files - 1), "{benchmark:?}");
    }
}
