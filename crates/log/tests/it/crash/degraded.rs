//! A log with two copies that is opened without a device that is missing or fails.

use super::running::{Device, commit_many, count, make, named, options, power_on, run};
use tantalum_device::{Block, BlockDevice, CommandKind, Data, DataMut, Durability, PowerCycle};
use tantalum_log::{Log, Lsn, OpenError, OpenOptions};
use tantalum_rt::{Nanos, Rt};

fn degraded() -> OpenOptions {
    OpenOptions { degraded: true, ..options() }
}

/// Opens a log while the `n`-th such command to one of its devices fails. Whether the device
/// got as many.
fn opens_without(bad: usize, kind: CommandKind, n: u64) -> bool {
    run(async move |rt| {
        let (devices, log) = make(&rt, 3, 2).await;
        commit_many(&rt, &log, 2, 12).await.unwrap();
        let (first, end, records) = (log.first(), log.end(), count(&log).await);
        drop(log);
        let faults = &devices[bad].inner;
        faults.fail_nth(kind, n);
        let told = format!("device {bad}, {kind:?} {n}");
        match Log::open(&rt, named(&devices), options()).await {
            Err(OpenError::Io { device, or, .. }) => {
                assert_eq!(device, format!("device {bad}"), "{told}");
                assert!(or.contains("`degraded`"), "{told}: {or}");
            }
            Err(other) => panic!("{told}: {other}"),
            Ok(_) if faults.injected() == 0 => return false,
            Ok(_) => panic!("{told}: a device failed, and nobody said so"),
        }
        faults.clear();
        faults.reopen();
        let before = faults.injected();
        faults.fail_nth(kind, n);
        let log = Log::open(&rt, named(&devices), degraded()).await;
        let log = log.unwrap_or_else(|e| panic!("{told}: {e}"));
        assert_eq!((log.first(), log.end(), count(&log).await), (first, end, records), "{told}");
        assert_eq!(log.stats().degraded, faults.injected() > before, "{told}");
        commit_many(&rt, &log, 2, 3).await.unwrap();
        let (first, end, records) = (log.first(), log.end(), count(&log).await);
        drop(log);
        // What the device holds counts no more, even if it is read now.
        faults.clear();
        faults.reopen();
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!((log.first(), log.end(), count(&log).await), (first, end, records), "{told}");
        true
    })
}

/// Once the opening ended with the error of the device.
#[test]
fn a_device_that_fails_during_the_opening_is_done_without() {
    for bad in 0..3 {
        let reads = (1..).take_while(|n| opens_without(bad, CommandKind::Read, *n)).count();
        assert!(reads > 10, "superblocks, states, sections and what is in them: {reads}");
        assert!(opens_without(bad, CommandKind::Flush, 1));
        assert!(opens_without(bad, CommandKind::Fua, 1), "the state of the new epoch");
    }
}

#[test]
fn what_no_other_device_has_is_not_done_without() {
    run(async |rt| {
        // One copy; and two, when another device fails, too.
        for (copies, failing) in [(1, 1), (2, 2)] {
            let (devices, log) = make(&rt, 2, copies).await;
            commit_many(&rt, &log, 2, 5).await.unwrap();
            let end = log.end();
            drop(log);
            for d in &devices[..failing] {
                d.inner.fail_often(CommandKind::Read, 1, 1);
            }
            let error = Log::open(&rt, named(&devices), degraded()).await.err();
            let Some(OpenError::Io { or, .. }) = &error else { panic!("{error:?}") };
            assert!(or.contains("try again") && !or.contains("degraded"), "{or}");
            devices.iter().for_each(|d| d.inner.clear());
            let log = Log::open(&rt, named(&devices), options()).await.unwrap();
            assert_eq!(log.end(), end, "nothing was given up");
        }
        // One device is lost already.
        let (devices, log) = make(&rt, 3, 2).await;
        commit_many(&rt, &log, 2, 5).await.unwrap();
        drop(log);
        let log = Log::open(&rt, named(&devices[1..]), degraded()).await.unwrap();
        commit_many(&rt, &log, 2, 5).await.unwrap();
        drop(log);
        devices[1].inner.fail_often(CommandKind::Read, 1, 1);
        let error = Log::open(&rt, named(&devices), degraded()).await.err();
        let Some(OpenError::Io { device, or, .. }) = &error else { panic!("{error:?}") };
        assert!(device == "device 1" && !or.contains("degraded"), "{device}{or}");
    });
}

/// Two devices with two copies after a cut. Only the one that will be missing has the state of the
/// last checkpoint.
async fn cut_in_a_step(rt: &Rt, missing: usize) -> Vec<Device> {
    let (devices, log) = make(rt, 2, 2).await;
    commit_many(rt, &log, 2, 10).await.unwrap();
    devices[1 - missing].plan.stalled.set(true);
    let (moving, first) = (log.clone(), log.durable());
    let moves = rt.spawn("a checkpoint", async move { moving.checkpoint(first, 5).await });
    rt.sleep(Nanos::from_millis(1)).await;
    assert!(!moves.is_finished());
    devices.iter().for_each(|d| d.inner.cut());
    let _ = moves.await;
    drop(log);
    power_on(&devices).await;
    devices
}

/// Once both states had one generation, and that of the device that came back could count.
#[test]
fn a_device_that_was_missing_comes_back_with_a_state_of_a_step_that_was_cut() {
    for missing in 0..2 {
        run(async move |rt| {
            let devices = cut_in_a_step(&rt, missing).await;
            let alone = named(&devices).swap_remove(1 - missing);
            let log = Log::open(&rt, vec![alone], degraded()).await.unwrap();
            assert_eq!(log.first(), Lsn::ZERO, "the checkpoint was not on this device");
            commit_many(&rt, &log, 2, 3).await.unwrap();
            let (end, records) = (log.end(), count(&log).await);
            drop(log);
            let log = Log::open(&rt, named(&devices), degraded()).await.unwrap();
            assert_eq!((log.first(), log.end()), (Lsn::ZERO, end));
            assert_eq!(count(&log).await, records);
            assert!(log.stats().degraded);
        });
    }
}

/// The same, if the log was opened for reading meanwhile: its checkpoint moves all the same.
#[test]
fn a_checkpoint_that_moves_without_a_device_is_newer_than_what_that_device_has() {
    for missing in 0..2 {
        run(async move |rt| {
            let devices = cut_in_a_step(&rt, missing).await;
            let alone = named(&devices).swap_remove(1 - missing);
            let read_only = OpenOptions { read_only: true, ..degraded() };
            let log = Log::open(&rt, vec![alone], read_only).await.unwrap();
            let mut records = log.read(Lsn::ZERO).unwrap();
            records.next().await.unwrap().expect("a first record");
            let first = records.next().await.unwrap().expect("a second record").lsn;
            log.checkpoint(first, 7).await.unwrap();
            drop(log);
            let log = Log::open(&rt, named(&devices), degraded()).await.unwrap();
            assert_eq!((log.first(), log.checkpoint_number()), (first, 7));
            assert!(log.stats().degraded, "the other device is lost");
        });
    }
}

/// What became of a device.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Blank,
    /// Both superblocks are damaged.
    Superblocks,
    /// No state is whole.
    States,
    /// A copy of it that was made some openings earlier.
    Older,
}

const BLOCK: usize = 512;

async fn all_of(device: &Device) -> Vec<u8> {
    let mut bytes = vec![0; 1024 * BLOCK];
    device.inner.device().read(Block(0), DataMut::Bytes(&mut bytes)).await.unwrap();
    bytes
}

async fn put(device: &Device, from: u64, bytes: &[u8]) {
    let there = device.inner.device();
    for (i, part) in bytes.chunks(BLOCK).enumerate() {
        let at = Block(from + i as u64);
        there.write(at, Data::Bytes(part), Durability::Normal).await.unwrap();
    }
    there.flush().await.unwrap();
}

/// Once only a device that was absent was done without, and one that holds nothing, or too little,
/// was in the way of every opening.
#[test]
fn a_device_that_is_of_no_use_is_done_without() {
    for (bad, harm) in (0..3).flat_map(|bad| {
        [Harm::Blank, Harm::Superblocks, Harm::States, Harm::Older].map(|harm| (bad, harm))
    }) {
        run(async move |rt| {
            let told = format!("device {bad}, {harm:?}");
            let (devices, log) = make(&rt, 3, 2).await;
            let earlier = all_of(&devices[bad]).await;
            drop(log);
            for _ in 0..2 {
                let log = Log::open(&rt, named(&devices), options()).await.unwrap();
                commit_many(&rt, &log, 2, 12).await.unwrap();
                drop(log);
            }
            let log = Log::open(&rt, named(&devices), options()).await.unwrap();
            let (first, end, records) = (log.first(), log.end(), count(&log).await);
            drop(log);
            let whole = all_of(&devices[bad]).await;
            match harm {
                Harm::Blank => put(&devices[bad], 0, &vec![0; 1024 * BLOCK]).await,
                Harm::Older => put(&devices[bad], 0, &earlier).await,
                Harm::Superblocks | Harm::States => {
                    let begins: &[u8] = match harm {
                        Harm::States => b"TNTLOGST",
                        _ => b"TNTLOG1\0",
                    };
                    let all = whole.chunks(BLOCK).enumerate();
                    let heads: Vec<_> =
                        all.filter(|(_, block)| block.starts_with(begins)).collect();
                    assert_eq!(heads.len(), 2, "{told}");
                    for (i, block) in heads {
                        let mut block = block.to_vec();
                        block[12] ^= 1; // its checksum
                        put(&devices[bad], i as u64, &block).await;
                    }
                }
            }
            let error = Log::open(&rt, named(&devices), options()).await.err();
            let said = error.unwrap_or_else(|| panic!("{told}: it is needed")).to_string();
            assert!(said.contains(&format!("device {bad}")), "{told}: {said}");
            assert!(said.contains("with `degraded`"), "{told}: {said}");

            let log = Log::open(&rt, named(&devices), degraded()).await;
            let log = log.unwrap_or_else(|e| panic!("{told}: {e}"));
            assert_eq!(
                (log.first(), log.end(), count(&log).await),
                (first, end, records),
                "{told}"
            );
            assert!(log.stats().degraded, "{told}");
            commit_many(&rt, &log, 2, 3).await.unwrap();
            let (first, end, records) = (log.first(), log.end(), count(&log).await);
            drop(log);
            // It is lost to the log now: nobody has to say so again.
            let log = Log::open(&rt, named(&devices), options()).await;
            let log = log.unwrap_or_else(|e| panic!("{told}: {e}"));
            assert_eq!(
                (log.first(), log.end(), count(&log).await),
                (first, end, records),
                "{told}"
            );
            assert!(log.stats().degraded, "{told}");
        });
    }
}

/// Once it was said that the log can do without it, though another one was missing, too.
#[test]
fn two_missing_devices_are_more_than_it_can_do_without() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 2).await;
        commit_many(&rt, &log, 2, 3).await.unwrap();
        log.close().await.unwrap();
        for options in [options(), degraded()] {
            let error = Log::open(&rt, named(&devices[..1]), options).await.err();
            let Some(OpenError::Missing { index: 1, or, .. }) = error else { panic!("{error:?}") };
            assert!(or.contains("More than one") && !or.contains("degraded"), "{or}");
        }
        let error = Log::open(&rt, named(&devices[..2]), options()).await.err();
        let Some(OpenError::Missing { index: 2, or, .. }) = error else { panic!("{error:?}") };
        assert!(or.contains("`degraded`"), "{or}");
    });
}
