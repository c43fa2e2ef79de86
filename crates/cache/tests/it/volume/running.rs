//! A volume with power: what it keeps, what it writes where, how it ends, and what fails.

use super::rig::{BLOCK, Boxes, Shape, read, with, write};
use std::collections::BTreeSet;
use tantalum_cache::volume::CacheVolume;
use tantalum_device::{
    Block, BlockDevice, Blocks, CommandKind, Faults, Field, IoError, Line, LiveBox, PowerCycle,
    Value,
};

/// Where the volume begins on the slow device.
const DATA: u64 = (1 << 20) / BLOCK as u64;

#[test]
fn pages_enter_when_they_are_read_and_are_found_there_again() {
    with(9, |rt| async move {
        let shape = Shape::wide();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        let device = volume.device();
        let mut many = vec![1; 16 * BLOCK as usize];
        device.read(Block(2), tantalum_device::DataMut::Bytes(&mut many)).await.unwrap();
        assert!(many.iter().all(|b| *b == 0));
        let stats = volume.stats().unwrap();
        // Pages of four blocks: 2 to 17 are in the first five.
        assert_eq!((stats.fetches, stats.hits, stats.pages, stats.dirty), (5, 0, 5, 0));
        assert_eq!(read(&device, 19).await, 0);
        let stats = volume.stats().unwrap();
        assert_eq!((stats.fetches, stats.hits, stats.pages), (6, 1, 5));
    });
}

/// Pages are read in halves, and several commands are under way at once: only the first pages of a
/// scan enter. What is written enters, wherever it is.
#[test]
fn a_scan_of_a_volume_is_kept_out() {
    with(9, |rt| async move {
        let shape = Shape { scan: Some(3), ..Shape::wide() };
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        let device = volume.device();
        let half = |at| {
            let device = device.clone();
            async move {
                let mut blocks = vec![1; 2 * BLOCK as usize];
                device.read(Block(at), tantalum_device::DataMut::Bytes(&mut blocks)).await.unwrap();
            }
        };
        for at in (0..80).step_by(8) {
            tantalum_rt::join_all((at..at + 8).step_by(2).map(half).collect()).await;
        }
        let stats = volume.stats().unwrap();
        // Of twenty pages three entered; each of the others was kept out twice.
        assert_eq!((stats.pages, stats.kept_out), (3, 34));
        for at in [41, 42, 43] {
            write(&device, at, at as u8).await.unwrap();
        }
        assert_eq!((volume.stats().unwrap().pages, volume.stats().unwrap().dirty), (4, 1));
        for at in 40..45 {
            let written = (41..44).contains(&at);
            assert_eq!(read(&device, at).await, if written { at as u8 } else { 0 });
        }
    });
}

#[test]
fn a_volume_with_ghosts_tells_what_twice_its_size_would_find() {
    with(9, |rt| async move {
        let shape = Shape { ghosts: true, ..Shape::volatile() };
        let volume = Boxes::new(&rt, &shape).started(&rt, &shape).await;
        assert!(volume.shown().lines.iter().any(|line| line.text.contains("nothing is known")));
        // More pages than the cache has, and fewer than twice its size would have.
        for _ in 0..20 {
            for at in 0..44 {
                read(&volume.device(), at).await;
            }
        }
        let stats = volume.stats().unwrap();
        let (counts, gain) = (stats.ghosts.unwrap(), stats.gain_of_twice().unwrap());
        println!("{stats:?}");
        assert_eq!(counts.fetches, stats.fetches);
        assert!(gain > 0.3, "{gain}");
        let line = volume.shown().lines.into_iter().find(|line| line.label == "twice").unwrap();
        assert!(line.text.contains(&format!("another {:.0} %", gain * 100.0)), "{}", line.text);
    });
}

#[test]
fn a_flush_brings_pages_to_flash_and_with_write_through_to_the_slow_device() {
    with(9, |rt| async move {
        for (shape, expected) in [(Shape::volatile(), 0), (Shape::through(), 7)] {
            let boxes = Boxes::new(&rt, &shape);
            let volume = boxes.started(&rt, &shape).await;
            write(&volume.device(), 11, 7).await.unwrap();
            assert_eq!(read(&boxes.slow, DATA + 11).await, 0);
            volume.device().flush().await.unwrap();
            assert_eq!(read(&boxes.slow, DATA + 11).await, expected);
            let dirty = volume.stats().unwrap().dirty;
            assert_eq!(dirty, u64::from(expected == 0));
        }
    });
}

/// Without power nothing is known of what is in it, and that is said of each value: none is 0.
#[test]
fn what_is_not_known_without_power_is_said_to_be_unknown() {
    unknown_without_power(Shape::wide());
    unknown_without_power(Shape { ghosts: true, ..Shape::wide() });
}

fn unknown_without_power(shape: Shape) {
    with(9, |rt| async move {
        let volume = Boxes::new(&rt, &shape).started(&rt, &shape).await;
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

/// Cached pages hold data, and the slow device tells the rest.
#[test]
fn what_holds_nothing_is_told() {
    with(9, |rt| async move {
        let shape = Shape::wide();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
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
        // Pages of four blocks, some of them side by side.
        for at in [9, 13, 30] {
            write(&device, at, 1).await.unwrap();
        }
        write(&boxes.slow, DATA + 41, 1).await.unwrap();
        let cached = [(0, true), (8, false), (16, true), (28, false), (32, true)];
        let stored = [(41, false), (42, true)];
        assert_eq!(told().await, [&cached[..], &stored[..]].concat());
        // From within a page.
        let told = device.allocation(Blocks { start: Block(41), count: all - 41 }).await.unwrap();
        assert_eq!((told.blocks, told.hole), (1, false));
        let told = device.allocation(Blocks { start: Block(15), count: 1 }).await.unwrap();
        assert_eq!((told.blocks, told.hole), (1, false));
        let beyond = Blocks { start: Block(all), count: 1 };
        assert!(matches!(device.allocation(beyond).await, Err(IoError::Invalid(_))));
    });
}

/// The next start is warm, and an end without a close keeps what was flushed.
#[test]
fn an_end_in_good_order_leaves_everything_and_a_warm_start() {
    with(9, |rt| async move {
        for shape in [Shape::volatile(), Shape::through()] {
            let boxes = Boxes::new(&rt, &shape);
            let volume = boxes.started(&rt, &shape).await;
            for at in 0..30 {
                write(&volume.device(), at, at as u8 + 1).await.unwrap();
            }
            LiveBox::close(&volume).await.unwrap();
            assert_eq!(write(&volume.device(), 1, 99).await, Err(IoError::Poisoned));
            assert_eq!(volume.device().flush().await, Err(IoError::Poisoned));
            volume.cut();
            volume.off().await;
            volume.power_on().await.unwrap();
            let stats = volume.stats().unwrap();
            assert!(stats.restart.clean && stats.restart.found > 0, "{stats:?}");
            for at in 0..30 {
                assert_eq!(read(&volume.device(), at).await, at as u8 + 1);
            }
            write(&volume.device(), 5, 77).await.unwrap();
            volume.device().flush().await.unwrap();
            volume.cut();
            volume.off().await;
            volume.power_on().await.unwrap();
            assert!(!volume.stats().unwrap().restart.clean);
            assert_eq!(read(&volume.device(), 5).await, 77);
        }
    });
}

#[test]
fn discarded_blocks_are_zeros_cached_or_not_and_stay_so() {
    with(9, |rt| async move {
        let shape = Shape::wide();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        for at in 0..96 {
            write(&volume.device(), at, 1).await.unwrap();
        }
        volume.device().flush().await.unwrap();
        let cached = volume.stats().unwrap();
        assert!(cached.pages < 24, "some have left: {cached:?}");
        let range = Blocks { start: Block(1), count: 93 };
        volume.device().discard(range).await.unwrap();
        volume.device().flush().await.unwrap();
        for _ in 0..2 {
            for at in 0..96 {
                let kept = u8::from(at == 0 || at >= 94);
                assert_eq!(read(&volume.device(), at).await, kept, "block {at}");
            }
            volume.cut();
            volume.off().await;
            volume.power_on().await.unwrap();
        }
    });
}

#[test]
fn when_flash_fails_nothing_more_is_taken_and_what_was_flushed_is_there_after_a_restart() {
    with(9, |rt| async move {
        let shape = Shape::volatile();
        let boxes = Boxes::new(&rt, &shape);
        let faults = Faults::new(&rt, boxes.flash.clone(), "faults");
        let slow = boxes.slow.clone();
        let volume = CacheVolume::new(&rt, faults.clone(), slow, shape.options()).unwrap();
        volume.format(false).await.unwrap();
        volume.power_on().await.unwrap();
        write(&volume.device(), 1, 1).await.unwrap();
        volume.device().flush().await.unwrap();
        faults.fail_often(CommandKind::Fua, 1, 1);
        write(&volume.device(), 1, 2).await.unwrap();
        assert_eq!(volume.device().flush().await, Err(IoError::Poisoned));
        assert_eq!(write(&volume.device(), 1, 3).await, Err(IoError::Poisoned));
        assert!(volume.stopped().unwrap().contains("flash device failed"));
        volume.cut();
        volume.off().await;
        faults.clear();
        volume.power_on().await.unwrap();
        assert!(matches!(read(&volume.device(), 1).await, 1 | 2));
    });
}

/// Commands fail after the cache's patience, and none waits for ever.
#[test]
fn a_slow_device_that_refuses_pages_is_told_and_nothing_is_lost() {
    with(9, |rt| async move {
        for shape in [Shape::volatile(), Shape::through()] {
            let boxes = Boxes::new(&rt, &shape);
            let faults = Faults::new(&rt, boxes.slow.clone(), "faults");
            let volume =
                CacheVolume::new(&rt, boxes.flash.clone(), faults.clone(), shape.options())
                    .unwrap();
            volume.format(false).await.unwrap();
            volume.power_on().await.unwrap();
            faults.fail_often(CommandKind::Write, 1, 1);
            let device = volume.device();
            let mut failed = None;
            for at in 0..96 {
                if let Err(e) = write(&device, at, at as u8 + 1).await {
                    failed.get_or_insert((at, e));
                }
            }
            let flushed = device.flush().await;
            let (at, error) = match (shape.mode, failed) {
                (_, Some(failed)) => failed,
                (_, None) => (96, flushed.clone().unwrap_err()),
            };
            assert!(error.to_string().contains("refuses pages"), "{error}");
            if shape.mode == Shape::through().mode {
                assert!(flushed.unwrap_err().to_string().contains("refuses pages"));
            }
            for at in 0..at {
                assert_eq!(read(&device, at).await, at as u8 + 1, "read while it refuses");
            }
            faults.clear();
            rt.sleep(tantalum_rt::Nanos::from_secs(1)).await;
            write(&device, 95, 96).await.unwrap();
            device.flush().await.unwrap();
            for at in 0..at {
                assert_eq!(read(&device, at).await, at as u8 + 1);
            }
        }
    });
}
