//! The RAM device against each rule of the contract. Numbers are those of the
//! list in its module, "C" numbers those of the contract.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use tantalum_device::{
    Ack, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    GroupLimit, IoError, Payload, PowerCycle, RamDevice, RamOptions,
};
use tantalum_rt::{Nanos, Rt, Runtime};

const US: Nanos = Nanos(1_000);

fn caps() -> Caps {
    Caps {
        block_size: 4096,
        blocks: 64,
        ack: Ack::Volatile,
        flush: true,
        ordered: false,
        atomic_unit: 4096,
        thin: false,
        atomic_group: Some(GroupLimit { extents: 4, bytes: 8 * 4096 }),
        payload: Payload::Stamps,
    }
}

fn options(caps: Caps) -> RamOptions {
    RamOptions { command: US * 10, flush: US * 100, start: US * 1000, ..RamOptions::new(caps) }
}

/// Runs `f` on a fresh device, once for each of 200 seeds.
fn each_seed<T: 'static, F>(options: &RamOptions, f: impl Fn(Rt, RamDevice) -> F) -> Vec<T>
where
    F: Future<Output = T> + 'static,
{
    let run = |seed| {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let device = RamDevice::new(&rt, options.clone());
        runtime.block_on(f(rt, device)).unwrap()
    };
    (0..200).map(run).collect()
}

async fn put(d: &RamDevice, at: u64, stamps: &[u64]) -> Result<(), IoError> {
    d.write(Block(at), Data::Stamps(stamps), Durability::Normal).await
}

async fn get(d: &RamDevice, at: u64, count: usize) -> Vec<u64> {
    let mut room = vec![9999; count];
    d.read(Block(at), DataMut::Stamps(&mut room)).await.unwrap();
    room
}

async fn cycle(d: &RamDevice) -> RamDevice {
    d.cut();
    d.off().await;
    d.power_on().await.unwrap();
    d.device()
}

fn distinct<T: Ord>(all: Vec<T>) -> BTreeSet<T> {
    all.into_iter().collect()
}

#[test]
fn c1_a_volatile_ack_may_be_lost_and_a_surviving_one_never_is() {
    for (ack, outcomes) in [(Ack::Volatile, 2), (Ack::PowerSafe, 1), (Ack::OnMedia, 1)] {
        for ordered in [false, true] {
            let options = options(Caps { ack, ordered, ..caps() });
            let seen = each_seed(&options, |_, d| async move {
                put(&d, 3, &[7]).await.unwrap();
                let d = cycle(&d).await;
                get(&d, 3, 1).await[0]
            });
            let seen = distinct(seen);
            assert!(seen.contains(&7), "{ack:?} {ordered}");
            assert_eq!(seen.len(), outcomes, "{ack:?} {ordered}: {seen:?}");
        }
    }
}

#[test]
fn c2_flush_and_fua_make_durable() {
    for ordered in [false, true] {
        let seen = each_seed(&options(Caps { ordered, ..caps() }), |_, d| async move {
            put(&d, 0, &[1]).await.unwrap();
            d.flush().await.unwrap();
            put(&d, 1, &[2]).await.unwrap();
            d.write(Block(2), Data::Stamps(&[3]), Durability::Fua).await.unwrap();
            put(&d, 0, &[4]).await.unwrap();
            let d = cycle(&d).await;
            get(&d, 0, 3).await
        });
        for s in &seen {
            assert!(s[0] == 1 || s[0] == 4, "{s:?}");
            assert_eq!(s[2], 3, "{s:?}");
            // C4: what is ordered before the FUA write survives with it.
            assert!(!ordered || s[1] == 2, "{s:?}");
        }
        assert_eq!(distinct(seen).len(), if ordered { 2 } else { 4 });
    }
}

#[test]
fn c2_a_flush_does_not_cover_what_completes_while_it_runs() {
    let seen = each_seed(&options(caps()), |rt, d| async move {
        let other = d.clone();
        let late = rt.spawn("late", async move { put(&other, 5, &[6]).await });
        d.flush().await.unwrap();
        late.await.unwrap().unwrap();
        let d = cycle(&d).await;
        get(&d, 5, 1).await[0]
    });
    assert_eq!(distinct(seen), BTreeSet::from([0, 6]));
}

#[test]
fn c3_a_large_write_tears_between_units_and_never_within_one() {
    for ordered in [false, true] {
        let wide = Caps { atomic_unit: 8192, ordered, ..caps() };
        let seen = each_seed(&options(wide), |_, d| async move {
            put(&d, 1, &[1, 2, 3, 4, 5]).await.unwrap();
            let d = cycle(&d).await;
            get(&d, 1, 5).await
        });
        for s in &seen {
            assert_eq!(s[0] == 0, s[1] == 0, "{s:?}");
            assert_eq!(s[2] == 0, s[3] == 0, "{s:?}");
        }
        assert_eq!(distinct(seen).len(), 8);
    }
}

#[test]
fn c3_a_unit_below_a_block_tears_blocks() {
    let shear = Caps { atomic_unit: 512, payload: Payload::Bytes, ..caps() };
    let seen = each_seed(&options(shear), |_, d| async move {
        d.write(Block(0), Data::Bytes(&[1; 4096]), Durability::Fua).await.unwrap();
        d.write(Block(0), Data::Bytes(&[2; 4096]), Durability::Normal).await.unwrap();
        let d = cycle(&d).await;
        let mut room = vec![9; 4096];
        d.read(Block(0), DataMut::Bytes(&mut room)).await.unwrap();
        room
    });
    for s in &seen {
        assert!(s.chunks(512).all(|c| c == [1; 512] || c == [2; 512]));
    }
    assert!(distinct(seen).len() > 20);
}

#[test]
fn c3_a_group_is_all_or_nothing_whatever_its_size() {
    for ordered in [false, true] {
        let seen = each_seed(&options(Caps { ordered, ..caps() }), |rt, d| async move {
            let group = [
                Extent { at: Block(9), data: Data::Stamps(&[1, 2, 3]) },
                Extent { at: Block(2), data: Data::Stamps(&[4, 5]) },
            ];
            let again = [
                Extent { at: Block(3), data: Data::Stamps(&[6]) },
                Extent { at: Block(11), data: Data::Stamps(&[7]) },
            ];
            d.write_atomic(&group).await.unwrap();
            // The power goes while the second one is under way.
            let plug = d.clone();
            let timer = rt.clone();
            let cut = rt.spawn("the cut", async move {
                timer.sleep(US).await;
                plug.cut();
            });
            let second = d.write_atomic(&again).await;
            drop(cut);
            assert_eq!(second, Err(AtomicError::Io(IoError::PowerLost)));
            let d = cycle(&d).await;
            [get(&d, 9, 3).await, get(&d, 2, 2).await].concat()
        });
        // What has completed survives.
        let (old, new) = (vec![1, 2, 3, 4, 5], vec![1, 2, 7, 4, 6]);
        assert_eq!(distinct(seen), BTreeSet::from([old, new]));
    }
}

#[test]
fn c3_groups_that_can_not_be_promised_are_refused_and_change_nothing() {
    let limit = GroupLimit { extents: 4, bytes: 8 * 4096 };
    each_seed(&options(caps()), move |rt, d| async move {
        let nine = [1; 9];
        let e = |at, n| Extent { at: Block(at), data: Data::Stamps(&nine[..n]) };
        let too_large = |extents, blocks: u64| {
            Err(AtomicError::TooLarge { extents, bytes: blocks * 4096, limit })
        };
        assert_eq!(d.write_atomic(&[e(0, 9)]).await, too_large(1, 9));
        let many = [e(0, 1), e(2, 1), e(4, 1), e(6, 1), e(8, 1)];
        assert_eq!(d.write_atomic(&many).await, too_large(5, 5));
        let over = [e(4, 2), e(0, 5)];
        assert_eq!(d.write_atomic(&over).await, Err(AtomicError::Overlap(Block(4))));
        let beyond = d.write_atomic(&[e(0, 1), e(63, 2)]).await;
        assert!(matches!(beyond, Err(AtomicError::Io(IoError::Invalid(_)))), "{beyond:?}");
        let bytes = [e(0, 1), Extent { at: Block(1), data: Data::Bytes(&[0; 4096]) }];
        let mixed = d.write_atomic(&bytes).await;
        assert!(matches!(mixed, Err(AtomicError::Io(IoError::Invalid(_)))), "{mixed:?}");
        d.write_atomic(&[e(0, 0), e(0, 4), e(4, 4)]).await.unwrap();
        assert_eq!(get(&d, 0, 10).await, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);

        let none = RamDevice::new(&rt, RamOptions::new(Caps { atomic_group: None, ..caps() }));
        assert_eq!(none.write_atomic(&[e(0, 1)]).await, Err(AtomicError::Unsupported));
        assert_eq!(get(&none, 0, 1).await, [0]);
    });
}

#[test]
fn c4_survivors_are_a_prefix_if_ordered_and_only_then() {
    for ordered in [false, true] {
        let jitter = RamOptions { jitter: US * 100, ..options(Caps { ordered, ..caps() }) };
        let seen = each_seed(&jitter, |rt, d| async move {
            for i in 0..6 {
                let d = d.clone();
                rt.spawn("write", async move { put(&d, i, &[i + 1]).await });
            }
            rt.sleep(US * 60).await;
            let d = cycle(&d).await;
            get(&d, 0, 6).await
        });
        let prefix = |s: &Vec<u64>| s.iter().skip_while(|v| **v != 0).all(|v| *v == 0);
        assert_eq!(seen.iter().all(prefix), ordered);
        assert_eq!(distinct(seen.iter().filter(|s| prefix(s)).collect()).len(), 7);
    }
}

#[test]
fn c4_an_ordered_surviving_ack_takes_all_that_arrived_before_with_it() {
    let safe = Caps { ordered: true, ack: Ack::PowerSafe, ..caps() };
    let jitter = RamOptions { jitter: US * 100, ..options(safe) };
    let seen = each_seed(&jitter, |rt, d| async move {
        let done = Rc::new(RefCell::new(Vec::new()));
        for i in 0..6 {
            let (d, done) = (d.clone(), done.clone());
            rt.spawn("write", async move {
                if put(&d, i, &[i + 1]).await.is_ok() {
                    done.borrow_mut().push(i);
                }
            });
        }
        rt.sleep(US * 60).await;
        let d = cycle(&d).await;
        let last = done.borrow().iter().max().copied();
        (get(&d, 0, 6).await, last)
    });
    for (s, last) in seen {
        for i in 0..last.map_or(0, |l| l + 1) {
            assert_eq!(s[i as usize], i + 1, "{s:?} {last:?}");
        }
    }
}

#[test]
fn c5_reads_see_the_newest_and_zeros_where_nothing_is() {
    for ordered in [false, true] {
        each_seed(&options(Caps { ordered, ..caps() }), |_, d| async move {
            assert_eq!(get(&d, 0, 3).await, [0, 0, 0]);
            put(&d, 0, &[1, 2, 3]).await.unwrap();
            d.flush().await.unwrap();
            put(&d, 1, &[4]).await.unwrap();
            assert_eq!(get(&d, 0, 3).await, [1, 4, 3]);
            d.discard(Blocks { start: Block(0), count: 2 }).await.unwrap();
            assert_eq!(get(&d, 0, 3).await, [0, 0, 3]);
            d.flush().await.unwrap();
            let d = cycle(&d).await;
            assert_eq!(get(&d, 0, 3).await, [0, 0, 3]);
        });
    }
}

#[test]
fn c7_dropping_the_future_does_not_stop_a_received_command() {
    each_seed(&options(Caps { ack: Ack::PowerSafe, ..caps() }), |rt, d| async move {
        let mut write = Box::pin(put(&d, 1, &[8]));
        let once = std::future::poll_fn(|cx| {
            assert!(write.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        });
        once.await;
        drop(write);
        assert_eq!(get(&d, 1, 1).await, [8]);
        rt.sleep(US * 20).await;
        let d = cycle(&d).await;
        assert_eq!(get(&d, 1, 1).await, [8]);
    });
}

#[test]
fn r3_a_command_in_flight_is_kept_or_dropped() {
    for ack in [Ack::Volatile, Ack::PowerSafe] {
        let seen = each_seed(&options(Caps { ack, ..caps() }), |rt, d| async move {
            let writer = d.clone();
            let join = rt.spawn("write", async move { put(&writer, 1, &[8]).await });
            rt.sleep(US * 5).await;
            let d = cycle(&d).await;
            assert_eq!(join.await.unwrap(), Err(IoError::PowerLost));
            get(&d, 1, 1).await[0]
        });
        assert_eq!(distinct(seen), BTreeSet::from([0, 8]));
    }
}

#[test]
fn r5_what_a_cut_left_is_durable() {
    let shear = Caps { atomic_unit: 512, payload: Payload::Bytes, ..caps() };
    each_seed(&options(shear), |_, d| async move {
        d.write(Block(0), Data::Bytes(&[2; 3 * 4096]), Durability::Normal).await.unwrap();
        let mut now = d;
        let mut rooms = vec![vec![0; 3 * 4096]; 3];
        for room in &mut rooms {
            now = cycle(&now).await;
            now.read(Block(0), DataMut::Bytes(room)).await.unwrap();
        }
        assert_eq!(rooms[0], rooms[1]);
        assert_eq!(rooms[0], rooms[2]);
    });
}

#[test]
fn a_cache_that_is_full_writes_its_oldest() {
    let small = RamOptions { cache_commands: 2, ..options(caps()) };
    let seen = each_seed(&small, |_, d| async move {
        for i in 0..4 {
            put(&d, i, &[i + 1]).await.unwrap();
        }
        let d = cycle(&d).await;
        get(&d, 0, 4).await
    });
    assert!(seen.iter().all(|s| s[0] == 1 && s[1] == 2));
    assert_eq!(distinct(seen).len(), 4);
}

#[test]
fn bad_commands_are_refused() {
    each_seed(&options(Caps { payload: Payload::Bytes, ..caps() }), |_, d| async move {
        let invalid = |r: Result<(), IoError>| assert!(matches!(r, Err(IoError::Invalid(_))));
        let normal = Durability::Normal;
        invalid(d.write(Block(0), Data::Bytes(&[0; 100]), normal).await);
        invalid(d.write(Block(64), Data::Bytes(&[0; 4096]), normal).await);
        invalid(d.write(Block(u64::MAX), Data::Bytes(&[0; 4096]), normal).await);
        invalid(d.write(Block(0), Data::Stamps(&[0]), normal).await);
        invalid(d.read(Block(63), DataMut::Bytes(&mut [0; 8192])).await);
        invalid(d.read(Block(0), DataMut::Stamps(&mut [0])).await);
        invalid(d.discard(Blocks { start: Block(63), count: 2 }).await);
        invalid(d.discard(Blocks { start: Block(1), count: u64::MAX }).await);
    });
}

#[test]
fn without_power_every_command_fails_and_old_handles_stay_dead() {
    each_seed(&options(caps()), |rt, d| async move {
        assert!(d.is_alive());
        d.cut();
        d.cut();
        let lost = Err(IoError::PowerLost);
        assert_eq!(d.flush().await, lost);
        assert_eq!(d.device().flush().await, lost);
        assert!(!d.is_alive() && !d.device().is_alive());
        // A cut during the start.
        let box_ = d.clone();
        let start = rt.spawn("start", async move { box_.power_on().await });
        rt.sleep(US * 500).await;
        assert_eq!(d.device().flush().await, lost);
        d.cut();
        assert_eq!(start.await.unwrap(), lost);
        d.power_on().await.unwrap();
        d.power_on().await.unwrap();
        assert_eq!(d.flush().await, lost);
        assert_eq!(d.device().flush().await, Ok(()));
        assert!(!d.is_alive() && d.device().is_alive());
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let jitter = RamOptions { jitter: US * 100, ..options(caps()) };
        let device = RamDevice::new(&rt, jitter);
        let main = async move {
            let mut device = device;
            let mut all = Vec::new();
            for round in 0..20 {
                for i in 0..16 {
                    let d = device.clone();
                    rt.spawn("w", async move { put(&d, i * 3, &[round * 16 + i + 1; 5]).await });
                }
                rt.sleep(US * 50).await;
                device = cycle(&device).await;
                all.extend(get(&device, 0, 64).await);
            }
            (all, rt.trace_hash())
        };
        runtime.block_on(main).unwrap()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}
