//! A lost device is replaced while the log runs.

use super::running::{
    Device, after_a_cut, commit_many, count, device, device_of, device_with, make, named, options,
    power_cycle, run,
};
use tantalum_device::{Block, BlockDevice, CommandKind, Data, DataMut, Durability};
use tantalum_log::{
    CreateOptions, DeviceHealth, Expects, Log, LogDevice, LogError, OpenOptions, Role,
};
use tantalum_rt::{Nanos, Rt, first};

#[test]
fn a_lost_device_is_replaced_while_the_log_runs() {
    run(async |rt| {
        let (mut devices, log) = make(&rt, 3, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        let early = log.replace(0, named(&[device(&rt, 7)])[0].clone(), false).await;
        assert!(matches!(early, Err(LogError::Replace(_))), "it is not lost: {early:?}");
        devices[0].inner.fail_nth(CommandKind::Fua, 3);
        commit_many(&rt, &log, 4, 10).await.unwrap();
        assert!(log.stats().degraded);
        let new = device(&rt, 8);
        let (clock, writer) = (rt.clone(), log.clone());
        let others = rt.spawn("others", async move { commit_many(&clock, &writer, 4, 15).await });
        log.replace(0, named(std::slice::from_ref(&new))[0].clone(), false).await.unwrap();
        others.await.unwrap().unwrap();
        commit_many(&rt, &log, 4, 5).await.unwrap();
        let stats = log.stats();
        assert!(!stats.degraded && stats.devices[0].health == DeviceHealth::Present, "{stats:?}");
        let old = std::mem::replace(&mut devices[0], new);
        // Any other one may be lost now. The old device counts for nothing.
        let degraded = OpenOptions { degraded: true, ..options() };
        let some = [devices[0].clone(), devices[2].clone(), old];
        after_a_cut(&rt, log, &devices, (&some, degraded)).await;
    });
}

/// Devices of unlike sizes, of which the smallest is lost before the log is opened. Once a new one had to
/// be as large as the others.
#[test]
fn a_device_as_large_as_the_lost_one_takes_its_place() {
    run(async |rt| {
        let sized = |i, blocks| device_with(&rt, i, Nanos::from_micros(100), blocks);
        let mut devices = vec![sized(0, 512), sized(1, 1024), sized(2, 2048)];
        let record_limit = Some(4096);
        let create = CreateOptions { copies: 2, record_limit, ..CreateOptions::default() };
        Log::create(&rt, &named(&devices), None, &create).await.unwrap();
        let log = Log::open(&rt, named(&devices), options()).await.unwrap();
        commit_many(&rt, &log, 4, 20).await.unwrap();
        let records = count(&log).await;
        power_cycle(log, &devices).await;
        let degraded = OpenOptions { degraded: true, ..options() };
        let log = Log::open(&rt, named(&devices[1..]), degraded.clone()).await.unwrap();
        let tiny = sized(8, 160);
        let refused = log.replace(0, only(&tiny), false).await.unwrap_err().to_string();
        assert!(refused.contains("are needed"), "{refused}");
        assert_eq!(tiny.inner.inner().bytes_written(), 0);
        let new = sized(9, 512);
        log.replace(0, only(&new), false).await.unwrap();
        assert_eq!(count(&log).await, records);
        commit_many(&rt, &log, 4, 10).await.unwrap();
        assert!(!log.stats().degraded, "{:?}", log.stats());
        devices[0] = new;
        // Any other one may be lost now.
        let some = [devices[0].clone(), devices[2].clone()];
        after_a_cut(&rt, log, &devices, (&some, degraded)).await;
    });
}

/// A device that does not answer is not lost: it takes part again.
#[test]
fn a_device_that_is_left_is_not_replaced() {
    run(async |rt| {
        let (devices, log) = make(&rt, 3, 2).await;
        commit_many(&rt, &log, 4, 10).await.unwrap();
        devices[1].plan.stalled.set(true);
        commit_many(&rt, &log, 4, 100).await.unwrap();
        assert_eq!(log.stats().devices[1].health, DeviceHealth::Left);
        let new = device(&rt, 8);
        let refused = log.replace(1, only(&new), true).await.unwrap_err().to_string();
        assert!(refused.contains("only a device that is lost to the log"), "{refused}");
        assert_eq!(new.inner.inner().bytes_written(), 0);
        devices[1].let_go();
        commit_many(&rt, &log, 4, 20).await.unwrap();
        assert_eq!(log.stats().devices[1].health, DeviceHealth::Present);
        after_a_cut(&rt, log, &devices, (&devices, options())).await;
    });
}

/// A log with two copies whose first device is lost.
async fn without_a_device(rt: &Rt) -> (Vec<Device>, Log<Device>) {
    let (devices, log) = make(rt, 3, 2).await;
    devices[0].inner.fail_nth(CommandKind::Fua, 3);
    commit_many(rt, &log, 4, 20).await.unwrap();
    assert_eq!(log.stats().devices[0].health, DeviceHealth::Failed);
    (devices, log)
}

fn only(new: &Device) -> LogDevice<Device> {
    named(std::slice::from_ref(new)).swap_remove(0)
}

/// How long a replacement takes that nothing holds up.
fn usual() -> Nanos {
    run(async |rt| {
        let (_devices, log) = without_a_device(&rt).await;
        let began = rt.now();
        log.replace(0, only(&device(&rt, 8)), false).await.unwrap();
        rt.now() - began
    })
}

/// Once the log stood still for ever if it was given up while groups waited for it.
#[test]
fn a_replacement_that_nobody_waits_for_is_carried_out() {
    let (usual, mut given_up) = (usual(), 0);
    for part in 0..40 {
        given_up += u64::from(run(async move |rt| {
            let (mut devices, log) = without_a_device(&rt).await;
            let new = device(&rt, 8);
            {
                let replaced = log.replace(0, only(&new), false);
                first(replaced, rt.sleep(Nanos(usual.0 * part / 40))).await;
            }
            let degraded = log.stats().degraded;
            commit_many(&rt, &log, 4, 20).await.unwrap();
            rt.sleep(usual).await;
            assert!(!log.stats().degraded, "{part}: {:?}", log.stats());
            devices[0] = new;
            after_a_cut(&rt, log, &devices, (&devices, options())).await;
            degraded
        }));
    }
    assert!(given_up > 20, "{given_up}");
}

/// Nothing is written to the new device after the close, and only what takes part is needed.
#[test]
fn a_log_that_is_closed_ends_a_replacement_first() {
    let mut ended = 0;
    for part in 0..40 {
        ended += u64::from(run(async move |rt| {
            let (mut devices, log) = without_a_device(&rt).await;
            for _ in 0..400 {
                log.append(&[5; 300]).await.unwrap();
            }
            log.flush().await.unwrap();
            let records = count(&log).await;
            // The copy takes longer than any single answer may.
            let (new, other) = (device_of(&rt, 8, Nanos::from_millis(4)), log.clone());
            let onto = only(&new);
            let replaced =
                rt.spawn("a replacement", async move { other.replace(0, onto, false).await });
            rt.sleep(Nanos::from_millis(part)).await;
            log.close().await.unwrap();
            let before = new.inner.inner().bytes_written();
            let replaced = replaced.await.unwrap();
            rt.sleep(Nanos::from_secs(1)).await;
            assert_eq!(new.inner.inner().bytes_written(), before, "{part}");
            match &replaced {
                Ok(()) => devices[0] = new,
                Err(LogError::Failed(_)) => drop(devices.remove(0)),
                Err(e) => panic!("{part}: {e}"),
            }
            let options = OpenOptions { degraded: true, ..options() };
            let log = Log::open(&rt, named(&devices), options).await.unwrap();
            assert_eq!(count(&log).await, records, "{part}");
            replaced.is_err()
        }));
    }
    assert!(ended > 20, "{ended}");
}

/// Once a new device that did not answer kept the checkpoint where it was for ever, and at last held
/// up every commit.
#[test]
fn a_new_device_that_does_not_answer_holds_nothing_up() {
    let (usual, mut refused) = (usual(), 0);
    for part in 0..40 {
        refused += u64::from(run(async move |rt| {
            let (devices, log) = without_a_device(&rt).await;
            let new = device(&rt, 8);
            let (stalls, clock) = (new.plan.clone(), rt.clone());
            rt.spawn("a stall", async move {
                clock.sleep(Nanos(usual.0 * part / 40)).await;
                stalls.stalled.set(true);
            });
            let began = rt.now();
            let ended = log.replace(0, only(&new), false).await;
            assert!(rt.now() - began < Nanos::from_secs(1), "{part}: {:?}", rt.now() - began);
            commit_many(&rt, &log, 4, 40).await.unwrap();
            let Err(error) = ended else { return false };
            assert!(matches!(&error, LogError::Io { .. }), "{part}: {error}");
            assert!(error.to_string().contains("device 0"), "{part}: {error}");
            // Another one takes the place.
            let mut devices = devices;
            devices[0] = device(&rt, 9);
            log.replace(0, only(&devices[0]), false).await.unwrap();
            assert!(!log.stats().degraded);
            after_a_cut(&rt, log, &devices, (&devices, options())).await;
            true
        }));
    }
    assert!(refused > 20, "{refused}");
}

/// Once what had been copied was in the way of the next attempt, and nothing told whether that was
/// needed.
#[test]
fn a_replacement_that_was_cut_is_repeated_as_it_was() {
    let (usual, mut joined) = (usual(), 0);
    for part in 0..60 {
        joined += u64::from(run(async move |rt| {
            let (mut devices, log) = without_a_device(&rt).await;
            let old = std::mem::replace(&mut devices[0], device(&rt, 8));
            let (replaced, new) = (log.clone(), only(&devices[0]));
            rt.spawn("replace", async move { replaced.replace(0, new, false).await });
            rt.sleep(Nanos(usual.0 * part / 50)).await;
            let (end, records) = (log.end(), count(&log).await);
            power_cycle(log, &devices).await;
            let [new, others @ ..] = &named(&devices)[..] else { unreachable!() };
            let place = Log::place_of(others, new).await.unwrap();
            let all = if place.is_some() { named(&devices) } else { others.to_vec() };
            let log = Log::open(&rt, all, options()).await.unwrap();
            assert_eq!(log.stats().degraded, place.is_none(), "{part}");
            if place.is_none() {
                // The lost one has taken part: what it holds is data.
                old.inner.clear();
                old.inner.reopen();
                let again = log.replace(0, only(&old), false).await.unwrap_err();
                assert!(again.to_string().contains("holds a log"), "{part}: {again}");
                log.replace(0, new.clone(), false).await.unwrap();
            }
            assert_eq!((log.end(), count(&log).await), (end, records), "{part}");
            let stranger = make(&rt, 2, 2).await.0;
            assert_eq!(Log::place_of(others, &only(&stranger[0])).await, Ok(None));
            assert_eq!(Log::place_of(others, &only(&device(&rt, 9))).await, Ok(None));
            place == Some(0)
        }));
    }
    assert!((5..55).contains(&joined), "{joined} of 60");
}

/// Once a device of the log whose superblocks were zeros was taken for what a replacement that was
/// cut had left, and was written over.
#[test]
fn a_damaged_device_of_the_log_is_not_written_over() {
    // (Where zeros are written, what is said.)
    let cases: [(&[u64], &str); 3] = [
        (&[0, 32], "a log whose superblocks are damaged"),
        (&[64, 96], "holds a log"),
        (&[0, 32, 64, 96], "something else"),
    ];
    for (zeros, why) in cases {
        run(async move |rt| {
            let (devices, log) = without_a_device(&rt).await;
            let all = async |device: &Device| {
                let mut bytes = vec![0; 1024 * 512];
                device.read(Block(0), DataMut::Bytes(&mut bytes)).await.unwrap();
                bytes
            };
            let new = device(&rt, 8);
            let mut bytes = all(&devices[1]).await;
            for block in zeros {
                bytes[*block as usize * 512..][..512].fill(0);
            }
            new.write(Block(0), Data::Bytes(&bytes), Durability::Normal).await.unwrap();
            let could = log.can_replace(0, &only(&new), false).await.unwrap_err();
            let refused = log.replace(0, only(&new), false).await.unwrap_err();
            for error in [could.to_string(), refused.to_string()] {
                assert!(error.contains(why), "{zeros:?}: {error}");
            }
            assert!(all(&new).await == bytes, "{zeros:?}: nothing was changed");
            log.replace(0, only(&new), true).await.unwrap();
            assert!(!log.stats().degraded);
        });
    }
}

/// Once the new device was another archive, and the log was refused with a description in which it
/// was one of the array.
#[test]
fn a_lost_archive_is_replaced_by_a_device_of_the_array() {
    run(async |rt| {
        let devices: Vec<Device> = (0..3).map(|i| device(&rt, i)).collect();
        let create = CreateOptions { copies: 2, record_limit: Some(4096), ..Default::default() };
        let mut all = named(&devices);
        Log::create(&rt, &all[..2], Some(&all[2]), &create).await.unwrap();
        let small = OpenOptions { archive_bytes: 2048, archive_write_bytes: 8192, ..options() };
        let log = Log::open(&rt, all.clone(), small.clone()).await.unwrap();
        for kind in [CommandKind::Write, CommandKind::Fua, CommandKind::Flush] {
            devices[2].inner.fail_nth(kind, 1);
        }
        commit_many(&rt, &log, 4, 50).await.unwrap();
        assert_eq!(log.stats().devices[2].health, DeviceHealth::Failed, "{:?}", log.stats());
        let new = device(&rt, 8);
        all[2] = LogDevice::new("new", only(&new).device);
        log.replace(2, all[2].clone(), false).await.unwrap();
        assert_eq!(log.stats().devices[2].role, Role::Array);
        commit_many(&rt, &log, 4, 50).await.unwrap();
        let (end, records) = (log.end(), count(&log).await);
        let now = [devices[0].clone(), devices[1].clone(), new];
        power_cycle(log, &now).await;
        let mut all = named(&now[..2]);
        all.push(LogDevice::new("new", only(&now[2]).device));
        let roles = vec![("new".to_string(), Role::Array)];
        let expects = Expects { roles, ..Expects::default() };
        let log = Log::open(&rt, all, OpenOptions { expects, ..small }).await.unwrap();
        assert_eq!((log.end(), count(&log).await), (end, records));
    });
}

#[test]
fn a_log_that_is_open_for_reading_replaces_nothing() {
    run(async |rt| {
        let (devices, log) = without_a_device(&rt).await;
        power_cycle(log, &devices).await;
        let reading = OpenOptions { read_only: true, ..options() };
        let log = Log::open(&rt, named(&devices[1..]), reading).await.unwrap();
        let refused = log.replace(0, only(&device(&rt, 8)), false).await;
        assert_eq!(refused, Err(LogError::ReadOnly));
    });
}
