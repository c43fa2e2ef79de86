//! Devices that fail, stall and dawdle while the log runs.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{
    Ack, Caps, CommandKind, Faults, LatencyRow, Payload, PowerCycle, RamDevice, RamOptions,
    SampledModel,
};
use tantalum_explore::Slow;
use tantalum_log::{
    CreateOptions, DeviceHealth, HedgeOptions, Log, LogDevice, LogError, Lsn, OpenOptions, WhenFull,
};
use tantalum_rt::{Nanos, Rt, Runtime};

pub type Device = Slow<Faults<RamDevice>>;

pub fn device(rt: &Rt, i: usize) -> Device {
    device_of(rt, i, Nanos::from_micros(100))
}

/// A device that takes so long for each command.
pub fn device_of(rt: &Rt, i: usize, command: Nanos) -> Device {
    device_with(rt, i, command, 1024)
}

/// The same with so many blocks.
pub fn device_with(rt: &Rt, i: usize, command: Nanos, blocks: u64) -> Device {
    let caps = Caps {
        block_size: 512,
        atomic_unit: 512,
        ordered: false,
        ack: Ack::Volatile,
        ..Caps::power_safe(blocks, Payload::Bytes)
    };
    let options = RamOptions {
        command,
        jitter: Nanos::from_micros(20),
        stream: format!("device {i}"),
        ..RamOptions::new(caps)
    };
    let faults = Faults::new(rt, RamDevice::new(rt, options), &format!("faults {i}"));
    Slow::new(rt, faults, &format!("slow {i}"))
}

pub fn named(devices: &[Device]) -> Vec<LogDevice<Device>> {
    let again = |d: &Device| Slow { inner: d.inner.device(), plan: d.plan.clone() };
    let all = devices.iter().enumerate();
    all.map(|(i, d)| LogDevice::new(format!("device {i}"), again(d))).collect()
}

pub fn options() -> OpenOptions {
    OpenOptions {
        stall: Nanos::from_millis(5),
        memory: 32 << 10,
        group_bytes: 4096,
        hedge: HedgeOptions { samples: 8, ..HedgeOptions::default() },
        ..OpenOptions::default()
    }
}

pub async fn make(rt: &Rt, array: usize, copies: u8) -> (Vec<Device>, Log<Device>) {
    let devices: Vec<Device> = (0..array).map(|i| device(rt, i)).collect();
    let create = CreateOptions { copies, record_limit: Some(4096), ..CreateOptions::default() };
    Log::create(rt, &named(&devices), None, &create).await.unwrap();
    let log = Log::open(rt, named(&devices), options()).await.unwrap();
    (devices, log)
}

/// Commits records from several tasks at once, and moves the checkpoint behind them.
pub async fn commit_many(
    rt: &Rt,
    log: &Log<Device>,
    tasks: u64,
    each: u64,
) -> Result<(), LogError> {
    let writers: Vec<_> = (0..tasks)
        .map(|task| {
            let log = log.clone();
            rt.spawn("a writer", async move {
                for i in 0..each {
                    let at = log.commit(&[task as u8; 300]).await?;
                    if i % 16 == 15 && task == 0 {
                        log.checkpoint(at.end, i).await?;
                    }
                }
                Ok::<_, LogError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap()?;
    }
    Ok(())
}

/// What is read, of records of 300 equal bytes.
pub async fn count(log: &Log<Device>) -> usize {
    let mut records = log.read(log.first()).unwrap();
    let mut count = 0;
    while let Some(record) = records.next().await.unwrap() {
        assert!(record.bytes.len() == 300 && record.bytes.iter().all(|b| *b == record.bytes[0]));
        count += 1;
    }
    count
}

/// The power goes, and comes back; no device stands still any more.
pub async fn power_cycle(log: Log<Device>, devices: &[Device]) {
    devices.iter().for_each(|d| d.inner.cut());
    drop(log);
    power_on(devices).await;
}

pub async fn power_on(devices: &[Device]) {
    for d in devices {
        d.inner.power_on().await.unwrap();
        d.plan.stalled.set(false);
    }
}

/// The log after a power cycle, opened on these of its devices: it has the same end, and as many
/// records.
pub async fn after_a_cut(
    rt: &Rt,
    log: Log<Device>,
    devices: &[Device],
    (there, options): (&[Device], OpenOptions),
) -> Log<Device> {
    let before = (log.end(), count(&log).await);
    power_cycle(log, devices).await;
    let log = Log::open(rt, named(there), options).await.unwrap();
    assert_eq!((log.end(), count(&log).await), before);
    log
}

pub fn run<T: 'static>(test: impl AsyncFnOnce(Rt) -> T + 'static) -> T {
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    runtime.block_on(async move { test(rt).await }).unwrap()
}

#[test]
fn a_stalled_device_is_left_and_taken_back() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 1).await;
        commit_many(&rt, &log, 4, 20).await.unwrap();
        devices[1].plan.stalled.set(true);
        // It takes no end, and memory is bounded: all of this is many times as large.
        commit_many(&rt, &log, 4, 200).await.unwrap();
        let stats = log.stats();
        assert!(stats.stalls > 0, "{stats:?}");
        assert_ne!(stats.devices[1].health, DeviceHealth::Present, "a checkpoint leaves it");
        let before = stats.devices[1].writes;
        devices[1].let_go();
        commit_many(&rt, &log, 4, 20).await.unwrap();
        let stats = log.stats();
        assert_eq!(stats.devices[1].health, DeviceHealth::Present);
        assert!(stats.devices[1].writes > before + 5, "it is used again: {stats:?}");
        assert!(!stats.degraded);
        drop(log);
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert!(count(&log).await > 0);
    });
}

/// Power goes while a device is left: it lags behind the others, and that is no error.
#[test]
fn a_device_that_was_left_lags_and_that_is_known() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 1).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        devices[1].plan.stalled.set(true);
        commit_many(&rt, &log, 4, 100).await.unwrap();
        let first = log.first();
        let log = after_a_cut(&rt, log, &devices, (&devices, options())).await;
        assert_eq!(log.first(), first);
    });
}

#[test]
fn with_two_copies_a_device_fails_and_nothing_is_lost() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        devices[0].inner.fail_nth(CommandKind::Fua, 3);
        commit_many(&rt, &log, 4, 30).await.unwrap();
        let stats = log.stats();
        assert_eq!(stats.devices[0].health, DeviceHealth::Failed);
        assert!(stats.degraded && stats.restarts == 1, "{stats:?}");
        let records = count(&log).await;
        // The one that failed need not be there.
        let log = after_a_cut(&rt, log, &devices, (&devices[1..], options())).await;
        commit_many(&rt, &log, 2, 10).await.unwrap();
        drop(log);
        // If it is there all the same, it counts for nothing.
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!(count(&log).await, records + 20);
        assert!(log.stats().degraded);
    });
}

#[test]
fn without_copies_the_log_goes_on_with_the_others() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 1).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        devices[0].inner.fail_nth(CommandKind::Fua, 2);
        commit_many(&rt, &log, 4, 10).await.unwrap();
        assert_eq!(log.stats().devices[0].health, DeviceHealth::Failed);
        assert_eq!(count(&log).await, 80, "what it holds is still read");
        drop(log);
        devices[0].inner.reopen();
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!(count(&log).await, 80);
        assert_eq!(log.stats().devices[0].health, DeviceHealth::Present);
    });
}

#[test]
fn when_the_last_device_fails_everybody_is_told() {
    run(async |rt| {
        let (devices, log) = make(&rt, 1, 1).await;
        let durable = log.commit(&[1; 300]).await.unwrap().end;
        devices[0].inner.fail_nth(CommandKind::Fua, 1);
        let watcher = log.clone();
        let watch = rt.spawn("a watcher", async move { watcher.next_durable(durable).await });
        let failed = log.commit(&[2; 300]).await;
        let told = failed.unwrap_err().to_string();
        assert!(told.contains("its devices failed (device 0: the device failed"), "{told}");
        assert_eq!(log.stats().devices[0].health, DeviceHealth::Failed);
        assert!(matches!(watch.await.unwrap(), Err(LogError::Failed(_))));
        assert!(matches!(log.append(b"more").await, Err(LogError::Failed(_))));
        assert!(matches!(log.checkpoint(durable, 1).await, Err(LogError::Failed(_))));
        // What was durable can still be read.
        assert_eq!(count(&log).await, 1);
    });
}

/// Once only the first one was named.
#[test]
fn every_device_that_failed_is_named() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 2).await;
        for (device, is_last) in devices.iter().zip([false, true]) {
            device.inner.fail_nth(CommandKind::Fua, 1);
            assert_eq!(commit_many(&rt, &log, 1, 5).await.is_err(), is_last);
        }
        let told = log.commit(&[1; 300]).await.unwrap_err().to_string();
        assert!(told.contains("(device 0: ") && told.contains("; device 1: "), "{told}");
        let health = |of: &tantalum_log::DeviceStats| of.health == DeviceHealth::Failed;
        assert!(log.stats().devices.iter().all(health), "{:?}", log.stats());
    });
}

/// The time for many commits on devices some of whose writes take 50 times as long.
fn time_with(hedge: bool, one_in: u64) -> (Nanos, tantalum_log::LogStats) {
    run(async move |rt| {
        let devices: Vec<Device> = (0..3).map(|i| device(&rt, i)).collect();
        let create = CreateOptions { record_limit: Some(4096), ..CreateOptions::default() };
        Log::create(&rt, &named(&devices), None, &create).await.unwrap();
        let mut options = OpenOptions { stall: Nanos::from_secs(1), ..options() };
        options.hedge.enabled = hedge;
        let log = Log::open(&rt, named(&devices), options).await.unwrap();
        for d in &devices {
            d.plan.one_in.set(one_in);
            d.plan.delay.set(Nanos::from_millis(5));
        }
        let began = rt.now();
        commit_many(&rt, &log, 2, 1000).await.unwrap();
        (rt.now() - began, log.stats())
    })
}

#[test]
fn hedges_pay_where_writes_are_slow_now_and_then() {
    let (with, stats) = time_with(true, 100);
    let (without, none) = time_with(false, 100);
    assert!(stats.hedges_won > 5 && stats.hedging, "{stats:?}");
    assert_eq!(none.hedges, 0);
    assert!(with.0 * 5 < without.0 * 4, "{with} with, {without} without");
}

/// Hedges of the first commits, with a device whose writes are slow, and how long they take.
fn first_hedges(latencies: Vec<(String, SampledModel)>) -> (u64, Nanos) {
    run(async move |rt| {
        let (devices, log) = make(&rt, 3, 1).await;
        log.close().await.unwrap();
        let options = OpenOptions { latencies, stall: Nanos::from_secs(1), ..options() };
        let log = Log::open(&rt, named(&devices), options).await.unwrap();
        devices[0].plan.one_in.set(1);
        devices[0].plan.delay.set(Nanos::from_millis(5));
        let began = rt.now();
        commit_many(&rt, &log, 1, 5).await.unwrap();
        (log.stats().hedges_won, rt.now() - began)
    })
}

#[test]
fn with_latencies_that_were_measured_the_first_slow_write_is_written_again() {
    let row = |command: &str| LatencyRow {
        command: command.into(),
        stream: None,
        bytes: 512,
        us: vec![80, 120],
    };
    let table = SampledModel::plain(512, 1000, vec![row("read"), row("write")]);
    let of = |name: &str| (0..3).map(|i| (format!("{name} {i}"), table.clone())).collect();
    let slow = Nanos::from_millis(5);
    for nothing_known in [Vec::new(), of("another device")] {
        let (hedges, took) = first_hedges(nothing_known);
        assert!(hedges == 0 && took > slow, "{hedges} hedges, {took}");
    }
    let (hedges, took) = first_hedges(of("device"));
    assert!(hedges > 0 && took < slow, "{hedges} hedges, {took}");
}

#[test]
fn latencies_that_cannot_be_are_refused() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 1).await;
        log.close().await.unwrap();
        let table = SampledModel::plain(512, 1000, Vec::new());
        let latencies = vec![("device 1".to_string(), table)];
        let options = OpenOptions { latencies, ..options() };
        let refused = Log::open(&rt, named(&devices), options).await.err().unwrap().to_string();
        assert!(refused.contains("the latencies of \"device 1\""), "{refused}");
    });
}

#[test]
fn without_slow_writes_hardly_anything_is_written_again() {
    let (_, stats) = time_with(true, 0);
    assert!(stats.hedges * 50 < stats.groups, "{stats:?}");
}

#[test]
fn a_full_log_waits_for_the_checkpoint_or_says_so() {
    run(async |rt| {
        let (devices, log) = make(&rt, 1, 1).await;
        drop(log);
        let fail = OpenOptions { when_full: WhenFull::Fail, ..options() };
        let log = Log::open(&rt, named(&devices), fail).await.unwrap();
        let mut appended = 0;
        let full = loop {
            match log.commit(&[1; 300]).await {
                Ok(_) => appended += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(full, LogError::Full { first: Lsn::ZERO, .. }), "{full}");
        assert_eq!(count(&log).await, appended);
        log.nearly_full(10).await.unwrap();
        drop(log);
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        let (waiter, appender) = (log.clone(), rt.clone());
        let append = rt.spawn("an append", async move {
            let at = waiter.commit(&[2; 300]).await.unwrap();
            (appender.now(), at)
        });
        rt.sleep(Nanos::from_secs(3)).await;
        assert!(!append.is_finished(), "it waits rather than overwrite");
        let (moved, end) = (rt.now(), log.durable());
        log.checkpoint(end, 1).await.unwrap();
        let (at, appended) = append.await.unwrap();
        assert!(at > moved && appended.lsn == end);
        assert_eq!(count(&log).await, 1);
    });
}

/// The example of every caller: many tasks share a few groups.
#[test]
fn many_commits_share_a_group() {
    run(async |rt| {
        let (_devices, log) = make(&rt, 1, 1).await;
        commit_many(&rt, &log, 32, 4).await.unwrap();
        let stats = log.stats();
        assert_eq!(stats.records, 128);
        assert!(stats.groups * 3 < stats.records, "{stats:?}");
        let rc = Rc::new(log);
        assert_eq!(rc.durable(), rc.end());
    });
}

/// Once the log ended, and had to be opened again.
#[test]
fn while_no_device_answers_the_log_waits_and_then_goes_on() {
    for (array, copies) in [(1, 1), (3, 1), (3, 2)] {
        run(async move |rt| {
            let (devices, log) = make(&rt, array, copies).await;
            commit_many(&rt, &log, 2, 10).await.unwrap();
            let durable = log.durable();
            devices.iter().for_each(|d| d.plan.stalled.set(true));
            let moving = log.clone();
            let moves =
                rt.spawn("a checkpoint", async move { moving.checkpoint(durable, 9).await });
            let (clock, writer) = (rt.clone(), log.clone());
            let writes =
                rt.spawn("writers", async move { commit_many(&clock, &writer, 2, 200).await });
            rt.sleep(Nanos::from_secs(60)).await;
            assert!(!moves.is_finished() && !writes.is_finished());
            assert!(log.end().0 - log.first().0 <= options().memory as u64, "memory is bounded");
            devices.iter().for_each(Slow::let_go);
            moves.await.unwrap().unwrap();
            writes.await.unwrap().unwrap();
            assert!(log.first() >= durable);
            let (first, records) = (log.first(), count(&log).await);
            log.close().await.unwrap();
            let log = Log::open(&rt, named(&devices), options()).await.unwrap();
            assert_eq!((log.first(), count(&log).await), (first, records));
        });
    }
}

/// Once what was in flight could reach the device after the log was opened again.
#[test]
fn a_log_that_is_closed_has_nothing_in_flight() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 1).await;
        commit_many(&rt, &log, 4, 20).await.unwrap();
        // A write that another one replaces.
        devices[1].plan.stalled.set(true);
        while log.stats().hedges + log.stats().forced == 0 {
            log.commit(&[3; 300]).await.unwrap();
        }
        let (slow, clock) = (devices[1].clone(), rt.clone());
        let answer = rt.spawn("an answer", async move {
            clock.sleep(Nanos::from_millis(4)).await;
            slow.let_go();
            clock.now()
        });
        let records = count(&log).await;
        log.close().await.unwrap();
        let closed = rt.now();
        assert!(answer.await.unwrap() < closed, "it was waited for");
        let before = devices[1].inner.inner().bytes_written();
        rt.sleep(Nanos::from_secs(1)).await;
        assert_eq!(devices[1].inner.inner().bytes_written(), before);
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!(count(&log).await, records);
    });
}

#[test]
fn a_device_that_does_not_answer_does_not_hold_up_the_close_for_ever() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 1).await;
        commit_many(&rt, &log, 4, 20).await.unwrap();
        devices[1].plan.stalled.set(true);
        commit_many(&rt, &log, 4, 20).await.unwrap();
        let (began, records) = (rt.now(), count(&log).await);
        // Whoever would open it again has to know.
        let device = "device 1".to_string();
        assert_eq!(log.close().await, Err(LogError::Unanswered { device }));
        assert!(rt.now() - began <= options().stall * 2 + Nanos::from_millis(1));
        devices.iter().for_each(|d| d.inner.cut());
        power_on(&devices).await;
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!(count(&log).await, records);
    });
}

/// Commits from one task, and notes how many, and where the last one ended. If it `moves` the
/// checkpoint it does so behind many of them.
async fn commit_for_ever(log: Log<Device>, done: Rc<Cell<(u64, Lsn)>>, moves: bool) {
    loop {
        let Ok(at) = log.commit(&[5; 300]).await else { return };
        let (count, end) = done.get();
        done.set((count + 1, end.max(at.end)));
        if moves && count % 16 == 0 && log.checkpoint(at.end, count).await.is_err() {
            return;
        }
    }
}

/// Two devices stop to answer one after the other, at any time of what comes of the first, and one
/// of them answers again. Once the log waited for the other one, if that had been given the state of
/// a new epoch.
#[test]
fn the_log_goes_on_with_the_device_that_answers() {
    for copies in [1, 2] {
        for step in 0..60 {
            run(async move |rt| {
                let (devices, log) = make(&rt, 2, copies).await;
                commit_many(&rt, &log, 2, 20).await.unwrap();
                let done = Rc::new(Cell::new((0, Lsn::ZERO)));
                for moves in [false, true] {
                    rt.spawn("a writer", commit_for_ever(log.clone(), done.clone(), moves));
                }
                devices[1].plan.stalled.set(true);
                rt.sleep(Nanos::from_micros(500 * step)).await;
                devices[0].plan.stalled.set(true);
                rt.sleep(Nanos::from_millis(100)).await;
                let (waited, _) = done.get();
                devices[1].let_go();
                rt.sleep(Nanos::from_millis(100)).await;
                assert!(done.get().0 > waited + 5, "copies {copies}, step {step}: it stands still");
                devices[0].let_go();
                rt.sleep(Nanos::from_millis(100)).await;
                let health = |i: usize| log.stats().devices[i].health;
                assert_eq!([health(0), health(1)], [DeviceHealth::Present; 2], "step {step}");
                // The other way round, and then the power goes.
                devices[1].plan.stalled.set(true);
                rt.sleep(Nanos::from_micros(500 * step)).await;
                devices[0].plan.stalled.set(true);
                rt.sleep(Nanos::from_millis(50)).await;
                devices[1].let_go();
                rt.sleep(Nanos::from_micros(333 * step)).await;
                let (_, acknowledged) = done.get();
                power_cycle(log, &devices).await;
                let log = Log::open(&rt, named(&devices), options()).await.unwrap();
                assert!(log.end() >= acknowledged, "copies {copies}, step {step}");
                count(&log).await;
            });
        }
    }
}

/// Once such a log left its devices, and took them back, all the time: it learns the bound from the
/// first writes.
#[test]
fn a_bound_below_what_is_usual_does_not_hold_up_the_log() {
    let mut later = 0;
    for seed in 0..12 {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let test = async move {
            let (devices, log) = make(&rt, 2, 1).await;
            for d in &devices {
                d.plan.one_in.set(1);
                d.plan.delay.set(options().stall * 4);
            }
            commit_many(&rt, &log, 4, 100).await.unwrap();
            let before = log.stats();
            commit_many(&rt, &log, 4, 100).await.unwrap();
            let stats = log.stats();
            assert!(stats.devices.iter().all(|d| d.health == DeviceHealth::Present), "{stats:?}");
            println!("{seed}: {} restarts, then {}", before.restarts, stats.restarts);
            assert!(before.restarts < 50, "{before:?}");
            stats.restarts - before.restarts
        };
        later += runtime.block_on(test).unwrap();
    }
    assert!(later < 24, "{later} in 12 runs");
}

/// Once such a read failed.
#[test]
fn with_two_copies_what_one_device_cannot_read_comes_from_the_other() {
    for bad in 0..3 {
        run(async move |rt| {
            let (devices, log) = make(&rt, 3, 2).await;
            let first = log.commit(&[9; 300]).await.unwrap();
            commit_many(&rt, &log, 4, 15).await.unwrap();
            log.checkpoint(first.lsn, 1).await.unwrap();
            let records = count(&log).await;
            devices[bad].inner.fail_often(CommandKind::Read, 1, 1);
            assert_eq!(count(&log).await, records);
            // If both copies cannot be read, it is the error of a device, and not damage.
            devices.iter().for_each(|d| d.inner.fail_often(CommandKind::Read, 1, 1));
            let read = log.read(log.first()).unwrap().next().await;
            assert!(matches!(read, Err(LogError::Io { .. })), "{read:?}");
        });
    }
}
