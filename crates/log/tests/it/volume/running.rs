//! A volume with power: what it keeps in memory, what it writes, and what fails.

use super::rig::{BLOCK, Boxes, Shape, Volume, read, with, write};
use std::collections::BTreeSet;
use tantalum_device::{
    Block, BlockDevice, Blocks, CommandKind, Faults, Field, IoError, Line, LiveBox, PowerCycle,
    Value,
};
use tantalum_log::LogVolume;
use tantalum_rt::{Nanos, Rt};

/// A new volume that has power. What is written stays in its memory for a second.
async fn lingering(rt: &Rt, shape: Shape) -> (Boxes, Volume) {
    let shape = Shape { linger: Nanos::from_secs(1), memory: 1 << 20, ..shape };
    let boxes = Boxes::new(rt, &shape);
    let volume = boxes.started(rt, &shape).await;
    (boxes, volume)
}

#[test]
fn what_is_written_again_is_destaged_once_and_side_by_side_in_one_write() {
    merges(Shape::volatile(2));
    merges(Shape { copies: 2, ..Shape::volatile(2) });
}

fn merges(shape: Shape) {
    with(9, |rt| async move {
        let (boxes, volume) = lingering(&rt, shape).await;
        let device = volume.device();
        for i in 0..30 {
            write(&device, i % 6, i as u8).await.unwrap();
        }
        device.discard(Blocks { start: Block(20), count: 10 }).await.unwrap();
        assert_eq!(volume.stats().unwrap().writes, 0);
        rt.sleep(Nanos::from_secs(3)).await;
        let stats = volume.stats().unwrap();
        assert_eq!((stats.rounds, stats.memory), (1, 0), "{stats:?}");
        assert_eq!((stats.writes, stats.written_bytes), (1, 6 * u64::from(BLOCK)), "{stats:?}");
        assert_eq!(read(&boxes.backing.device(), 5).await, 29);
        assert_eq!(read(&device, 5).await, 29);
        let log = volume.log_stats().unwrap();
        assert_eq!(log.first, log.end);
    });
}

/// Without power nothing is known of what is in it, and that is said of each value: none is 0.
#[test]
fn what_is_not_known_without_power_is_said_to_be_unknown() {
    with(9, |rt| async move {
        let (_, volume) = lingering(&rt, Shape::volatile(2)).await;
        write(&volume.device(), 5, 1).await.unwrap();
        let shown = volume.shown();
        assert!(shown.fields.iter().all(|field| field.value != Value::Unknown), "{shown:?}");
        let group = |field: &Field| field.name.split('.').next().unwrap();
        let known: BTreeSet<_> = shown.fields.iter().map(group).collect();
        volume.cut();
        volume.off().await;
        let shown = volume.shown();
        assert!(shown.fields.iter().all(|field| field.value == Value::Unknown), "{shown:?}");
        assert_eq!(shown.fields.iter().map(group).collect::<BTreeSet<_>>(), known);
        assert_eq!(shown.lines, [Line::new("contents", "unknown without power")]);
        volume.power_on().await.unwrap();
        assert!(volume.shown().fields.iter().all(|field| field.value != Value::Unknown));
    });
}

/// What is in memory is known, and the backing tells the rest.
#[test]
fn what_holds_nothing_is_told() {
    with(9, |rt| async move {
        let (_, volume) = lingering(&rt, Shape::volatile(2)).await;
        let device = volume.device();
        let all = device.caps().blocks;
        let told = async || {
            tantalum_testing::runs(all, async |at| {
                let rest = Blocks { start: Block(at), count: all - at };
                let told = device.allocation(rest).await.unwrap();
                (told.blocks, told.hole)
            })
            .await
        };
        assert_eq!(told().await, [(0, true)]);
        write(&device, 5, 1).await.unwrap();
        assert_eq!(told().await, [(0, true), (5, false), (6, true)]);
        rt.sleep(Nanos::from_secs(3)).await;
        write(&device, 9, 1).await.unwrap();
        assert_eq!(told().await, [(0, true), (5, false), (6, true), (9, false), (10, true)]);
        device.discard(Blocks { start: Block(0), count: 9 }).await.unwrap();
        assert_eq!(told().await, [(0, true), (9, false), (10, true)]);
        rt.sleep(Nanos::from_secs(3)).await;
        assert_eq!(told().await, [(0, true), (9, false), (10, true)]);
        let beyond = Blocks { start: Block(all), count: 1 };
        assert!(matches!(device.allocation(beyond).await, Err(IoError::Invalid(_))));
    });
}

/// A disk writes zeros for what is discarded. So a discard of what the backing never held is none.
#[test]
fn only_what_the_backing_holds_is_discarded_there() {
    with(9, |rt| async move {
        let (boxes, volume) = lingering(&rt, Shape::volatile(2)).await;
        let device = volume.device();
        let range = Blocks { start: Block(20), count: 10 };
        let mut writes = Vec::new();
        for _ in 0..2 {
            device.discard(range).await.unwrap();
            rt.sleep(Nanos::from_secs(3)).await;
            writes.push(volume.stats().unwrap().writes);
            write(&device, 22, 7).await.unwrap();
            rt.sleep(Nanos::from_secs(3)).await;
            assert_eq!(read(&boxes.backing.device(), 22).await, 7);
            device.discard(range).await.unwrap();
            rt.sleep(Nanos::from_secs(3)).await;
            writes.push(volume.stats().unwrap().writes);
            assert_eq!(read(&boxes.backing.device(), 22).await, 0);
        }
        // The first and the third discard have nothing to do; then a write and a discard come.
        assert_eq!(writes, [0, 2, 2, 4]);
    });
}

#[test]
fn memory_stays_within_its_bound_while_writes_wait() {
    with(9, |rt| async move {
        let shape = Shape::tight(1);
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        let writers: Vec<_> = (0..8u64)
            .map(|w| {
                let (volume, device, limit) = (volume.clone(), volume.device(), shape.memory);
                rt.spawn("a writer", async move {
                    for i in 0..40 {
                        write(&device, w * 8 + i % 8, i as u8).await.unwrap();
                        assert!(volume.stats().unwrap().memory <= limit);
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(volume.stats().unwrap().rounds > 10, "{:?}", volume.stats());
        for at in 0..64 {
            assert_eq!(u64::from(read(&volume.device(), at).await), 32 + at % 8);
        }
    });
}

#[test]
fn when_the_backing_fails_nothing_is_taken_or_lost() {
    for kind in [CommandKind::Write, CommandKind::Flush] {
        with(9, move |rt| async move {
            let shape = Shape::tight(1);
            let boxes = Boxes::new(&rt, &shape);
            let faults = Faults::new(&rt, boxes.backing.clone(), "faults");
            let array = vec![("log".to_string(), boxes.array[0].clone())];
            let volume = LogVolume::new(&rt, array, None, faults.clone(), shape.options()).unwrap();
            volume.format(&shape.create()).await.unwrap();
            volume.power_on().await.unwrap();
            faults.fail_often(kind, 1, 1);
            let device = volume.device();
            let mut taken = 0;
            let refused = loop {
                match write(&device, taken, taken as u8 + 1).await {
                    Ok(()) => taken += 1,
                    Err(e) => break e,
                }
            };
            assert_eq!(refused, IoError::Poisoned);
            assert_eq!(device.flush().await, Err(IoError::Poisoned));
            assert!(volume.stopped().is_some());
            assert!(taken > 3, "{taken} writes taken");
            volume.cut();
            volume.off().await;
            faults.clear();
            volume.power_on().await.unwrap();
            assert!(volume.stats().unwrap().replayed >= taken);
            for at in 0..taken {
                assert_eq!(u64::from(read(&volume.device(), at).await), at + 1);
            }
        });
    }
}

#[test]
fn a_start_with_less_memory_destages_what_does_not_fit() {
    with(9, |rt| async move {
        let long = Nanos::from_secs(100);
        let roomy = Shape { log_bytes: 256 << 10, ..Shape::volatile(2) };
        let shape = Shape { linger: long, memory: 1 << 20, ..roomy };
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        for i in 0..40 {
            write(&volume.device(), i % 20, i as u8).await.unwrap();
        }
        assert_eq!(volume.stats().unwrap().rounds, 0);
        volume.cut();
        volume.off().await;
        let small = Shape { memory: 6 << 10, ..shape };
        let volume = boxes.volume(&rt, &small);
        volume.power_on().await.unwrap();
        let stats = volume.stats().unwrap();
        assert!(stats.replayed == 40 && stats.rounds > 3, "{stats:?}");
        assert!(stats.memory <= small.memory, "{stats:?}");
        for at in 0..20 {
            assert_eq!(u64::from(read(&volume.device(), at).await), 20 + at);
        }
    });
}

#[test]
fn with_two_copies_a_volume_starts_without_a_device_of_its_log() {
    with(9, |rt| async move {
        let shape = Shape { copies: 2, ..Shape::volatile(2) };
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        write(&volume.device(), 1, 7).await.unwrap();
        volume.cut();
        volume.off().await;
        let array = vec![("log 1".to_string(), boxes.array[1].clone())];
        let mut options = shape.options();
        let start = |options| {
            let (array, backing) = (array.clone(), boxes.backing.clone());
            LogVolume::new(&rt, array, None, backing, options).unwrap()
        };
        let volume = start(options.clone());
        assert!(volume.power_on().await.is_err());
        let why = volume.start_failure().unwrap().to_string();
        assert!(why.contains("missing"), "{why}");
        volume.cut();
        volume.off().await;
        options.log.degraded = true;
        let volume = start(options);
        volume.power_on().await.unwrap();
        assert_eq!(read(&volume.device(), 1).await, 7);
        for i in 0..200 {
            write(&volume.device(), i % 60, i as u8).await.unwrap();
        }
        assert!(volume.log_stats().unwrap().degraded);
    });
}
