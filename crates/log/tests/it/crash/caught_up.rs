//! With two copies, a device that did not answer for a while gets what it missed.

use super::copies::found;
use super::rig::{Rig, Shape};
use super::running::{
    Device, commit_many, count, device, make, named, options, power_cycle, power_on, run,
};
use tantalum_device::{CommandKind, PowerCycle};
use tantalum_log::{CreateOptions, DeviceHealth, Log, LogError, OpenError, OpenOptions};
use tantalum_rt::{Nanos, Rt};

fn degraded() -> OpenOptions {
    OpenOptions { degraded: true, ..options() }
}

/// Device 1 does not answer, and records are written that it misses.
async fn leave(rt: &Rt, log: &Log<Device>, devices: &[Device]) {
    devices[1].plan.stalled.set(true);
    commit_many(rt, log, 4, 12).await.unwrap();
    let stats = log.stats();
    assert_eq!(stats.devices[1].health, DeviceHealth::Left);
    assert!(stats.degraded && stats.without().is_some(), "{stats:?}");
}

async fn until_back(rt: &Rt, log: &Log<Device>) {
    while log.stats().devices[1].health != DeviceHealth::Present {
        rt.sleep(Nanos::from_micros(100)).await;
    }
}

/// Bytes of a section, a piece of a copy at most.
const SECTION: u64 = 32 << 10;

/// Two devices with two copies. Device 1 has missed records, and is still mute.
async fn left_behind(rt: &Rt, more: &[(u64, u64)]) -> (Vec<Device>, Log<Device>) {
    let devices: Vec<Device> = (0..2).map(|i| device(rt, i)).collect();
    let section_bytes = Some(SECTION);
    let record_limit = Some(4096);
    let create = CreateOptions { copies: 2, record_limit, section_bytes, ..Default::default() };
    Log::create(rt, &named(&devices), None, &create).await.unwrap();
    let log = Log::open(rt, named(&devices), options()).await.unwrap();
    commit_many(rt, &log, 4, 10).await.unwrap();
    leave(rt, &log, &devices).await;
    for (tasks, each) in more {
        commit_many(rt, &log, *tasks, *each).await.unwrap();
    }
    (devices, log)
}

/// Two devices with two copies. Device 1 has missed records that cannot be read for it, and takes part
/// without them.
async fn back_without(rt: &Rt) -> (Vec<Device>, Log<Device>) {
    let (devices, log) = make(rt, 2, 2).await;
    commit_many(rt, &log, 4, 10).await.unwrap();
    leave(rt, &log, &devices).await;
    devices[0].inner.fail_nth(CommandKind::Read, 1);
    devices[1].let_go();
    until_back(rt, &log).await;
    (devices, log)
}

/// The device answers again, and each write takes so long.
fn let_go_slowly(device: &Device, delay: Nanos) {
    device.plan.one_in.set(1);
    device.plan.delay.set(delay);
    device.let_go();
}

fn written(device: &Device) -> u64 {
    device.inner.inner().bytes_written()
}

/// Once what was written meanwhile stayed on one device.
#[test]
fn a_device_that_was_left_has_everything_when_it_takes_part_again() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        assert_eq!((log.stats().degraded, log.stats().without()), (false, None));
        leave(&rt, &log, &devices).await;
        let restarts = log.stats().restarts;
        devices[1].let_go();
        // Records are written meanwhile.
        let written = commit_many(&rt, &log, 4, 12);
        written.await.unwrap();
        until_back(&rt, &log).await;
        let stats = log.stats();
        assert_eq!((stats.degraded, stats.without()), (false, None), "{stats:?}");
        assert_eq!(stats.restarts, restarts, "no new epoch is needed for that");
        assert_eq!(log.one_copy().await.unwrap(), []);
        let records = count(&log).await;
        assert!(records >= 24, "{records}");
        // The device that had everything alone is not needed any more.
        power_cycle(log, &devices).await;
        let log = Log::open(&rt, named(&devices[1..]), degraded()).await.unwrap();
        assert_eq!(count(&log).await, records);
    });
}

/// The same if the log was opened anew meanwhile: the device is left until it has caught up.
#[test]
fn a_device_that_was_left_catches_up_after_an_opening() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        leave(&rt, &log, &devices).await;
        let records = count(&log).await;
        power_cycle(log, &devices).await;
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        let stats = log.stats();
        assert!(stats.degraded && stats.devices[1].health == DeviceHealth::Left, "{stats:?}");
        until_back(&rt, &log).await;
        assert!(!log.stats().degraded, "{:?}", log.stats());
        assert_eq!((count(&log).await, log.one_copy().await.unwrap()), (records, vec![]));
        power_cycle(log, &devices).await;
        assert_eq!(found(&rt, &devices).await, []);
        let log = Log::open(&rt, named(&devices[1..]), degraded()).await.unwrap();
        assert_eq!(count(&log).await, records);
    });
}

/// Once a copy that was interrupted had taken room, with the header of a section, and had not written
/// it. The next opening did not find what came behind that.
#[test]
fn a_copy_that_is_interrupted_takes_no_room() {
    run(async |rt| {
        // A section, and a part of another one that has room for as much again.
        let (devices, log) = left_behind(&rt, &[(4, 15), (1, 14)]).await;
        let (slow, moving) = (devices[1].clone(), log.clone());
        let before = written(&slow);
        let_go_slowly(&slow, options().stall * 8 / 5);
        // A checkpoint waits all the time. One that moves between two pieces has interrupted the copy.
        let checkpoints = rt.spawn("checkpoints", async move {
            let mut amid = 0;
            while moving.stats().devices[1].health != DeviceHealth::Present {
                moving.checkpoint(moving.first(), amid).await.unwrap();
                amid += u64::from(written(&slow) - before >= SECTION);
            }
            amid
        });
        until_back(&rt, &log).await;
        assert!(checkpoints.await.unwrap() > 1, "the copy was not interrupted");
        devices[1].plan.one_in.set(0);
        commit_many(&rt, &log, 2, 5).await.unwrap();
        assert!(!log.stats().degraded, "{:?}", log.stats());
        assert_eq!(log.one_copy().await.unwrap(), []);
        let records = count(&log).await;
        power_cycle(log, &devices).await;
        assert_eq!(found(&rt, &devices).await, []);
        let log = Log::open(&rt, named(&devices[1..]), degraded()).await.unwrap();
        assert_eq!(count(&log).await, records);
    });
}

/// The log is closed at many moments of a copy.
#[test]
fn a_log_that_is_closed_while_a_device_catches_up_is_whole() {
    let (mut amid, mut caught_up) = (0, 0);
    for step in 0..60 {
        let (had_part, is_degraded) = run(async move |rt| {
            let (devices, log) = left_behind(&rt, &[(4, 15), (1, 14)]).await;
            let before = written(&devices[1]);
            let_go_slowly(&devices[1], options().stall * 8 / 5);
            rt.sleep(Nanos::from_millis(step)).await;
            let records = count(&log).await;
            let had_part = written(&devices[1]) - before >= SECTION;
            let had_all = log.stats().devices[1].health == DeviceHealth::Present;
            log.close().await.unwrap();
            let closed = written(&devices[1]);
            rt.sleep(Nanos::from_secs(1)).await;
            assert_eq!(written(&devices[1]), closed, "step {step}: nothing was in flight");
            devices[1].plan.one_in.set(0);
            let log = Log::open(&rt, named(&devices), options()).await.unwrap();
            let is_degraded = log.stats().degraded;
            assert_eq!(count(&log).await, records, "step {step}");
            assert!(is_degraded || log.one_copy().await.unwrap().is_empty(), "step {step}");
            until_back(&rt, &log).await;
            assert!(!log.stats().degraded, "step {step}: {:?}", log.stats());
            assert_eq!(log.one_copy().await.unwrap(), [], "step {step}");
            power_cycle(log, &devices).await;
            let log = Log::open(&rt, named(&devices[1..]), degraded()).await.unwrap();
            assert_eq!(count(&log).await, records, "step {step}");
            (had_part && !had_all, is_degraded)
        });
        amid += u64::from(had_part);
        caught_up += u64::from(!is_degraded);
    }
    assert!(amid > 5 && caught_up > 5, "{amid} in the midst, {caught_up} behind it");
}

/// Once nobody knew of what a device that catches up was given, unless that took too long already.
#[test]
fn a_piece_of_a_copy_that_is_not_answered_is_told_by_the_close() {
    run(async |rt| {
        let (devices, log) = left_behind(&rt, &[(4, 15), (4, 15), (4, 15), (4, 15)]).await;
        let before = written(&devices[1]);
        // So each piece may take long, as is usual.
        let_go_slowly(&devices[1], options().stall * 8 / 5);
        while written(&devices[1]) - before < SECTION {
            rt.sleep(Nanos::from_micros(100)).await;
        }
        devices[1].plan.delay.set(options().stall * 20);
        while written(&devices[1]) - before < 2 * SECTION {
            rt.sleep(Nanos::from_micros(100)).await;
        }
        let records = count(&log).await;
        let device = "device 1".to_string();
        assert_eq!(log.close().await, Err(LogError::Unanswered { device }));
        devices.iter().for_each(|d| d.inner.cut());
        devices[1].plan.one_in.set(0);
        power_on(&devices).await;
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!(count(&log).await, records);
        until_back(&rt, &log).await;
        assert_eq!((log.stats().degraded, log.one_copy().await.unwrap()), (false, vec![]));
    });
}

/// A piece takes so long that the device is left, and more than that piece is written until it ends.
/// Once the device then took part without its records.
#[test]
fn a_device_that_has_little_left_catches_up_though_it_was_more_each_time() {
    run(async |rt| {
        let (devices, log) = left_behind(&rt, &[]).await;
        let before = written(&devices[1]);
        // A state takes too long first, and then a piece; after that it is usual.
        let_go_slowly(&devices[1], options().stall * 12 / 5);
        while written(&devices[1]) - before < SECTION / 4 {
            rt.sleep(Nanos::from_micros(100)).await;
        }
        assert_eq!(log.stats().devices[1].health, DeviceHealth::Left);
        commit_many(&rt, &log, 4, 15).await.unwrap();
        assert_eq!(log.stats().devices[1].health, DeviceHealth::Left);
        until_back(&rt, &log).await;
        assert_eq!((log.stats().degraded, log.one_copy().await.unwrap()), (false, vec![]));
    });
}

/// A device that lacks records does not open the log alone, unless one does without these.
#[test]
fn a_device_that_lacks_records_is_not_taken_for_the_log() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        let before = count(&log).await;
        leave(&rt, &log, &devices).await;
        let records = count(&log).await;
        power_cycle(log, &devices).await;
        // It gets the state that says so, and nothing else.
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        devices[1].plan.stalled.set(true);
        rt.sleep(Nanos::from_millis(1)).await;
        power_cycle(log, &devices).await;
        let error = Log::open(&rt, named(&devices[1..]), degraded()).await.err();
        assert_eq!(error, Some(OpenError::Lacks { index: 0 }));
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert_eq!(count(&log).await, records, "nothing was changed");
        devices[1].plan.stalled.set(true);
        rt.sleep(Nanos::from_millis(1)).await;
        power_cycle(log, &devices).await;
        let salvage = OpenOptions { salvage: true, ..degraded() };
        let log = Log::open(&rt, named(&devices[1..]), salvage).await.unwrap();
        let left = count(&log).await;
        assert!(left <= before && left < records, "{left} of {before}, {records}");
        commit_many(&rt, &log, 1, 3).await.unwrap();
    });
}

/// Device 1 missed records and could not be given them, takes part, and then device 0 is lost, of which
/// a write fails perhaps. Once the other one opened without these records and without a word, unless it
/// had been written behind them.
#[test]
fn what_only_a_lost_device_had_is_not_given_up_in_silence() {
    let (mut lacks, mut damaged) = (0, 0);
    for step in 0..200 {
        let error = run(async move |rt| {
            let (devices, log) = back_without(&rt).await;
            let records = count(&log).await;
            // What device 1 gets from here on comes late.
            devices[1].plan.one_in.set(1);
            devices[1].plan.delay.set(Nanos::from_millis(1));
            if step % 2 == 1 {
                devices[0].inner.fail_nth(CommandKind::Write, 1);
            }
            let writer = log.clone();
            rt.spawn_background("a writer", async move { drop(writer.commit(&[9; 300]).await) });
            rt.sleep(Nanos::from_micros(20 * step)).await;
            power_cycle(log, &devices).await;
            devices[1].plan.one_in.set(0);
            let error = match Log::open(&rt, named(&devices[1..]), degraded()).await {
                Ok(log) => panic!("step {step}: {} of {records}", count(&log).await),
                Err(error) => error,
            };
            let salvage = OpenOptions { salvage: true, read_only: true, ..degraded() };
            let log = Log::open(&rt, named(&devices[1..]), salvage).await.unwrap();
            assert!(count(&log).await < records, "step {step}");
            error
        });
        match error {
            OpenError::Lacks { index: 0 } => lacks += 1,
            OpenError::Damaged(_) => damaged += 1,
            other => panic!("step {step}: {other}"),
        }
    }
    assert!(lacks > 0 && damaged > 0, "{lacks} without the device, {damaged} with others written");
}

/// What cannot be known: the device was told nothing since it did not answer. `docs/log.md` has it among
/// the known defects.
#[test]
fn a_device_that_was_told_nothing_opens_with_what_it_has() {
    run(async |rt| {
        let (devices, log) = make(&rt, 2, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        let before = count(&log).await;
        leave(&rt, &log, &devices).await;
        let records = count(&log).await;
        power_cycle(log, &devices).await;
        let log = Log::open(&rt, named(&devices[1..]), degraded()).await.unwrap();
        let left = count(&log).await;
        assert!((before..records).contains(&left), "{left} of {before}, {records}");
    });
}

/// Of two devices the other one is missing, which lacked records: nothing is lost, and the log opens.
#[test]
fn the_device_that_had_everything_opens_alone() {
    run(async |rt| {
        let (devices, log) = back_without(&rt).await;
        let records = count(&log).await;
        power_cycle(log, &devices).await;
        let log = Log::open(&rt, named(&devices[..1]), degraded()).await.unwrap();
        assert_eq!(count(&log).await, records);
    });
}

/// What it missed cannot be read: it takes part without, and that is told.
#[test]
fn what_cannot_be_copied_is_told() {
    run(async |rt| {
        let (devices, log) = back_without(&rt).await;
        let stats = log.stats();
        assert!(stats.degraded && stats.absent().is_empty(), "{stats:?}");
        assert!(stats.without().unwrap().contains("a device was away"), "{stats:?}");
        assert!(!log.one_copy().await.unwrap().is_empty());
        commit_many(&rt, &log, 1, 1).await.unwrap();
        assert!(log.stats().degraded);
        // Once nobody knew after two openings.
        let mut log = log;
        for _ in 0..3 {
            log.close().await.unwrap();
            log = Log::open(&rt, named(&devices), options()).await.unwrap();
            assert!(log.stats().degraded && !log.one_copy().await.unwrap().is_empty());
        }
        log.checkpoint(log.durable(), 7).await.unwrap();
        assert_eq!((log.stats().degraded, log.stats().without()), (false, None));
        log.close().await.unwrap();
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        assert!(!log.stats().degraded);
    });
}

/// A device that answers no reads while another one catches up holds nothing up for long.
#[test]
fn reads_that_are_not_answered_hold_up_nothing() {
    for (mute, paused) in [(0, false), (1, false), (2, false), (0, true), (1, true)] {
        run(async move |rt| {
            let (devices, log) = make(&rt, 3, 2).await;
            commit_many(&rt, &log, 4, 10).await.unwrap();
            devices[2].plan.stalled.set(true);
            commit_many(&rt, &log, 4, 12).await.unwrap();
            leave(&rt, &log, &devices).await;
            if paused {
                // What is copied last is in the reach of one read.
                devices[1].let_go();
                rt.sleep(Nanos::from_micros(300)).await;
            }
            devices[mute].plan.mute.set(true);
            devices[1].take_writes();
            let before = rt.now();
            commit_many(&rt, &log, 4, 12).await.unwrap();
            until_back(&rt, &log).await;
            log.checkpoint(log.durable(), 9).await.unwrap();
            let took = rt.now().saturating_sub(before);
            assert!(took < Nanos::from_millis(200), "{took}, device {mute} is mute");
            devices.iter().for_each(|d| d.let_go());
            commit_many(&rt, &log, 4, 12).await.unwrap();
        });
    }
}

/// Cuts a run at many moments, before, while and after a device does not answer. Gives at how many of
/// them it was away, and at how many it had caught up.
fn away_and_back(shape: &Shape, seed: u64) -> Result<(usize, usize), String> {
    let mut rig = Rig::new(shape, seed);
    let owner = rig.start();
    let all = rig.devices.len();
    let mut begin = rig.runtime.handle().now();
    while owner.log.borrow().is_none() {
        begin += Nanos::from_micros(50);
        rig.runtime.run_until(begin).map_err(|e| e.to_string())?;
    }
    let log = owner.log.borrow().clone().ok_or("it was opened")?;
    let (mut away, mut back) = (0, 0);
    for i in 0..240 {
        match i {
            20 => rig.devices[1].plan.stalled.set(true),
            90 => rig.devices[1].let_go(),
            _ => {}
        }
        let moment = begin + Nanos::from_micros(50) * i;
        rig.runtime.run_until(moment).map_err(|e| e.to_string())?;
        let told = format!("seed {seed}, cut {i}: {:?}", log.stats());
        let is_degraded = log.stats().degraded;
        let mut cut = rig.cut_copy(Some(&owner), seed ^ i);
        cut.check().map_err(|e| format!("{e}, {told}"))?;
        away += usize::from(is_degraded);
        // One that does not answer is lost already.
        if is_degraded || (20..90).contains(&i) || i >= 90 && away == 0 {
            continue;
        }
        back += usize::from(i > 90);
        let lost = i as usize % all;
        let options = OpenOptions { degraded: true, ..shape.open_options() };
        let mut less = rig.cut_copy(Some(&owner), seed + i);
        less.check_with(options, |d| d != lost).map_err(|e| format!("{e}, {lost} lost, {told}"))?;
    }
    Ok((away, back))
}

#[test]
fn whatever_is_cut_a_device_that_has_caught_up_has_everything() {
    let stall = Nanos::from_micros(800);
    let two = Shape { copies: 2, stall, ..Shape::volatile(2) };
    let work = super::model::Work { records: 60, bytes: 1200, checkpoints: 25, ..two.work };
    let two = Shape { work, bytes: 200 << 10, ..two };
    let shapes = [
        two.clone(),
        Shape { partitions: 2, ..two.clone() },
        Shape { archive: true, ..two.clone() },
        Shape { array: 3, ..two.clone() },
    ];
    let (mut away, mut back) = (0, 0);
    for (i, shape) in shapes.iter().enumerate() {
        for seed in 0..3 {
            let found = away_and_back(shape, 900 + 10 * i as u64 + seed);
            let (a, b) = found.unwrap_or_else(|e| panic!("{e}\n{shape:?}"));
            (away, back) = (away + a, back + b);
        }
    }
    assert!(away > 100 && back > 300, "away at {away} cuts, back at {back}");
}
