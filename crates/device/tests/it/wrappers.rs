//! The wrappers that fail and count commands, and arrays of devices.

use crate::bad_block::BadBlock;
use tantalum_device::{
    Ack, AtomicError, Block, BlockDevice, Blocks, Caps, CommandKind, Data, DataMut, Durability,
    Extent, Faults, GroupLimit, IoError, Payload, PowerCycle, Raid0, RaidBox, RamDevice,
    RamOptions, Stats,
};
use tantalum_rt::{Nanos, Rt, Runtime};

const FAILED: Result<(), IoError> = Err(IoError::Failed("an injected fault"));

fn ram(rt: &Rt) -> RamDevice {
    let caps = Caps {
        block_size: 512,
        blocks: 64,
        ack: Ack::PowerSafe,
        flush: true,
        ordered: false,
        atomic_unit: 512,
        thin: false,
        atomic_group: Some(GroupLimit { extents: 8, bytes: 65536 }),
        payload: Payload::Stamps,
    };
    let (command, flush) = (Nanos::from_micros(10), Nanos::from_millis(1));
    RamDevice::new(rt, RamOptions { command, flush, ..RamOptions::new(caps) })
}

fn run<F: Future<Output = ()> + 'static>(seed: u64, f: impl FnOnce(Rt) -> F) {
    let mut runtime = Runtime::virtual_time(seed);
    let main = f(runtime.handle());
    runtime.block_on(main).unwrap();
}

async fn put<D: BlockDevice>(d: &D, at: u64, stamp: u64, want: Durability) -> Result<(), IoError> {
    d.write(Block(at), Data::Stamps(&[stamp]), want).await
}

async fn get<D: BlockDevice>(d: &D, at: u64) -> u64 {
    let mut room = [99];
    d.read(Block(at), DataMut::Stamps(&mut room)).await.unwrap();
    room[0]
}

#[test]
fn the_nth_command_of_a_kind_fails_and_no_other() {
    run(1, |rt| async move {
        let d = Faults::new(&rt, ram(&rt), "faults");
        d.fail_nth(CommandKind::Write, 2);
        d.fail_nth(CommandKind::Read, 1);
        d.fail_nth(CommandKind::Group, 1);
        d.fail_nth(CommandKind::Discard, 1);
        let normal = Durability::Normal;
        assert_eq!(d.read(Block(0), DataMut::Stamps(&mut [0])).await, FAILED);
        assert_eq!(put(&d, 0, 1, normal).await, Ok(()));
        assert_eq!(put(&d, 1, 2, normal).await, FAILED);
        assert_eq!(put(&d, 2, 3, normal).await, Ok(()));
        let group = [Extent { at: Block(5), data: Data::Stamps(&[4]) }];
        let failed = d.write_atomic(&group).await;
        assert_eq!(failed, Err(AtomicError::Io(FAILED.unwrap_err())));
        assert_eq!(get(&d, 5).await, 0, "a failed group must leave nothing");
        assert_eq!(d.write_atomic(&group).await, Ok(()));
        let range = Blocks { start: Block(0), count: 1 };
        assert_eq!(d.discard(range).await, FAILED);
        assert_eq!(d.discard(range).await, Ok(()));
        assert!(!d.is_poisoned());
        assert_eq!(d.injected(), 4);
    });
}

#[test]
fn of_a_failed_write_nothing_is_known() {
    let mut kept = 0;
    for seed in 0..50 {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let main = async move {
            let d = Faults::new(&rt, ram(&rt), "faults");
            d.fail_nth(CommandKind::Write, 1);
            assert_eq!(put(&d, 1, 2, Durability::Normal).await, FAILED);
            get(&d, 1).await
        };
        kept += u64::from(runtime.block_on(main).unwrap() == 2);
    }
    assert!((10..40).contains(&kept), "{kept} of 50 were carried out");
}

#[test]
fn c6_a_failed_durability_step_ends_writing_until_reopened() {
    for kind in [CommandKind::Flush, CommandKind::Fua] {
        run(2, |rt| async move {
            let d = Faults::new(&rt, ram(&rt), "faults");
            put(&d, 0, 1, Durability::Normal).await.unwrap();
            d.fail_nth(kind, 1);
            let failed = match kind {
                CommandKind::Flush => d.flush().await,
                _ => put(&d, 1, 1, Durability::Fua).await,
            };
            assert_eq!(failed, FAILED);
            let poisoned = Err(IoError::Poisoned);
            assert_eq!(put(&d, 0, 2, Durability::Normal).await, poisoned);
            assert_eq!(put(&d, 0, 2, Durability::Fua).await, poisoned);
            assert_eq!(d.flush().await, poisoned);
            assert_eq!(d.discard(Blocks::default()).await, poisoned);
            assert_eq!(d.write_atomic(&[]).await, Err(AtomicError::Io(IoError::Poisoned)));
            assert_eq!(get(&d, 0).await, 1);
            d.reopen();
            assert_eq!(put(&d, 0, 2, Durability::Fua).await, Ok(()));
            assert_eq!(d.flush().await, Ok(()));

            d.fail_nth(CommandKind::Flush, 1);
            assert_eq!(d.flush().await, FAILED);
            d.cut();
            d.off().await;
            d.power_on().await.unwrap();
            assert_eq!(d.device().flush().await, Ok(()));
        });
    }
}

#[test]
fn faults_come_as_often_as_asked() {
    run(3, |rt| async move {
        let d = Faults::new(&rt, ram(&rt), "faults");
        d.fail_often(CommandKind::Read, 1, 10);
        let mut failed = 0;
        for _ in 0..10_000 {
            failed += u64::from(d.read(Block(0), DataMut::Stamps(&mut [0])).await.is_err());
        }
        assert!((850..1150).contains(&failed), "{failed} of 10000, asked for 1000");
        assert_eq!(d.injected(), failed);
        d.clear();
        get(&d, 0).await;
    });
}

#[test]
fn stats_count_by_kind() {
    run(4, |rt| async move {
        let d = Stats::new(&rt, Faults::new(&rt, ram(&rt), "faults"));
        let us = Nanos::from_micros;
        d.write(Block(0), Data::Stamps(&[1, 2, 3]), Durability::Normal).await.unwrap();
        put(&d, 9, 1, Durability::Fua).await.unwrap();
        d.write_atomic(&[
            Extent { at: Block(5), data: Data::Stamps(&[4]) },
            Extent { at: Block(8), data: Data::Stamps(&[4, 5]) },
        ])
        .await
        .unwrap();
        get(&d, 0).await;
        get(&d, 1).await;
        d.discard(Blocks { start: Block(0), count: 4 }).await.unwrap();
        d.flush().await.unwrap();
        d.inner().fail_nth(CommandKind::Flush, 1);
        assert_eq!(d.flush().await, FAILED);

        let s = d.snapshot();
        let seen = CommandKind::ALL.map(|k| (s.of(k).commands, s.of(k).failed, s.of(k).bytes));
        let expected =
            [(2, 0, 1024), (1, 0, 1536), (1, 0, 512), (1, 0, 1536), (1, 1, 0), (1, 0, 2048)];
        assert_eq!(seen, expected);
        assert_eq!(s.bytes_written(), 3584);
        let l = &s.of(CommandKind::Read).latency;
        assert_eq!(l.count(), 2);
        for t in [l.p50(), l.p99(), l.mean(), l.max()] {
            assert!(t.0.abs_diff(us(10).0) <= 10, "{t}");
        }
        assert!(s.of(CommandKind::Flush).latency.max() >= us(999));
        d.reset();
        assert_eq!(d.snapshot().of(CommandKind::Read).commands, 0);
        assert_eq!(d.snapshot().of(CommandKind::Read).latency.max(), Nanos(0));
    });
}

#[test]
fn something_is_done_after_so_many_commands() {
    run(1, |rt| async move {
        let d = Stats::new(&rt, Faults::new(&rt, ram(&rt), "faults"));
        let done = std::rc::Rc::new(std::cell::Cell::new(0));
        let note = |d: &Stats<_>, n| {
            let done = done.clone();
            d.after(n, move || done.set(done.get() + 1));
        };
        note(&d, 3);
        d.inner().fail_nth(CommandKind::Write, 2);
        // One that fails does not count, nor does one that is given up.
        for (at, want) in [(0, 0), (1, 0), (2, 0)] {
            let _ = put(&d, at, 1, Durability::Normal).await;
            assert_eq!(done.get(), want);
        }
        let given_up = tantalum_rt::first(d.flush(), rt.sleep(Nanos(1))).await;
        assert!(matches!(given_up, tantalum_rt::First::B(())));
        assert_eq!((d.under_way(), done.get()), (0, 0));
        let (read, seen) = (d.clone(), done.clone());
        let reading = rt.spawn("a read", async move {
            get(&read, 0).await;
            seen.get()
        });
        rt.yield_now().await;
        assert_eq!((d.under_way(), done.get()), (1, 0));
        assert_eq!(reading.await.ok(), Some(1), "it is done before the command returns");
        // Once, unless it is ordered again; an order can be taken back.
        get(&d, 0).await;
        note(&d, 1);
        d.after_all();
        get(&d, 0).await;
        assert_eq!(done.get(), 1);
        note(&d, 1);
        get(&d, 0).await;
        assert_eq!(done.get(), 2);
    });
}

#[test]
fn latencies_are_counted_by_bounds() {
    let mut latencies = tantalum_device::Latencies::default();
    let bounds = [10, 100, 1_000, 1_000_000].map(Nanos::from_micros);
    assert_eq!(latencies.within(&bounds), [0, 0, 0, 0]);
    for us in [1, 9, 50, 99, 500, 2_000_000, 3_000_000] {
        latencies.record(Nanos::from_micros(us));
    }
    assert_eq!(latencies.within(&bounds), [2, 4, 5, 5]);
    let (sum, want) = (latencies.sum().0 as f64, 5_000_659e3);
    assert!((sum / want - 1.0).abs() < 1e-3, "{sum}");
}

#[test]
fn errors_of_an_array_name_its_blocks() {
    run(1, |rt| async move {
        // Chunks of 4 blocks over 3 members: block 42 of the array is in chunk 10, the fourth of
        // member 1, and there block 14.
        let members = (0..3).map(|m| BadBlock(ram(&rt), Block(if m == 1 { 14 } else { 999 })));
        let array = Raid0::new(members.collect(), 4).unwrap();
        for (at, count) in [(42, 1), (40, 3), (0, 60), (30, 100)] {
            let read = array.read(Block(at), DataMut::Stamps(&mut vec![0; count])).await;
            assert_eq!(read, Err(IoError::Uncorrectable(Block(42))), "{at} {count}");
        }
        for (at, count) in [(0, 42), (43, 60)] {
            let read = array.read(Block(at), DataMut::Stamps(&mut vec![0; count])).await;
            assert_eq!(read, Ok(()), "{at} {count}");
        }
    });
}

#[test]
fn an_array_tells_what_holds_nothing() {
    run(1, |rt| async move {
        let members: Vec<_> = (0..3).map(|_| ram(&rt)).collect();
        let array = Raid0::new(members.clone(), 4).unwrap();
        // Chunks of 4 blocks over 3 members: block 42 of the array is block 14 of member 1.
        put(&members[1], 14, 7, Durability::Normal).await.unwrap();
        let all = array.caps().blocks;
        let runs = tantalum_testing::runs(all, async |at| {
            let rest = Blocks { start: Block(at), count: all - at };
            let told = array.allocation(rest).await.unwrap();
            (told.blocks, told.hole)
        });
        assert_eq!(runs.await, [(0, true), (42, false), (43, true)]);
    });
}

#[test]
fn c6_after_a_durability_step_of_one_member_failed_no_member_takes_changes() {
    for kind in [CommandKind::Flush, CommandKind::Fua] {
        run(4, |rt| async move {
            let members: Vec<_> = (0..3).map(|_| Faults::new(&rt, ram(&rt), "faults")).collect();
            let array = RaidBox::new(members, 4).unwrap();
            let d = array.device();
            let (normal, fua) = (Durability::Normal, Durability::Fua);
            // A write that fails is no durability step.
            array.members()[1].fail_nth(CommandKind::Write, 1);
            assert_eq!(put(&d, 4, 1, normal).await, FAILED);
            for at in [0, 4, 8] {
                put(&d, at, 1, normal).await.unwrap();
            }
            array.members()[1].fail_nth(kind, 1);
            let failed = match kind {
                CommandKind::Flush => d.flush().await,
                _ => put(&d, 4, 1, fua).await,
            };
            assert_eq!(failed, FAILED);
            let poisoned = Err(IoError::Poisoned);
            // Another handle of the same power cycle is no other device.
            for d in [&d, &d.clone(), &array.device()] {
                for at in [0, 4, 8] {
                    assert_eq!(put(d, at, 2, normal).await, poisoned, "block {at}");
                    assert_eq!(put(d, at, 2, fua).await, poisoned, "block {at}");
                    let blocks = Blocks { start: Block(at), count: 1 };
                    assert_eq!(d.discard(blocks).await, poisoned, "block {at}");
                    assert_eq!(get(d, at).await, 1);
                }
                assert_eq!(d.flush().await, poisoned);
            }
            array.cut();
            array.off().await;
            array.power_on().await.unwrap();
            let d = array.device();
            assert_eq!(put(&d, 0, 2, fua).await, Ok(()));
            assert_eq!(d.flush().await, Ok(()));
        });
    }
}
