//! The durable cache: what a flush means, and the map log under a drive that drains.

use crate::designs::tiny;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, Durability, Payload, PowerCycle};
use tantalum_drive::{Drive, FlushMode};
use tantalum_oracle::harness::{CrashPlan, CutAt, Mix, crash_run};
use tantalum_rt::{Nanos, Runtime};

/// With `flush = "order"` a flush programs nothing, and completes after every command that
/// arrived before it.
#[test]
fn a_flush_as_order_waits_for_its_turn() {
    let mut runtime = Runtime::virtual_time(5);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, &tiny("durassd"), Payload::Stamps).unwrap();
    let test = async move {
        drive.power_on().await.unwrap();
        let device = drive.device();
        let done = Rc::new(Cell::new(0));
        // Twenty writes of four blocks are five times the buffer.
        let writers: Vec<_> = (0..20)
            .map(|i| {
                let (device, done) = (device.clone(), done.clone());
                rt.spawn("writer", async move {
                    let stamps = [i + 1; 4];
                    device
                        .write(Block(i * 4), Data::Stamps(&stamps), Durability::Normal)
                        .await
                        .unwrap();
                    done.set(done.get() + 1);
                })
            })
            .collect();
        rt.yield_now().await;
        device.flush().await.unwrap();
        assert_eq!(done.get(), 20);
        for writer in writers {
            writer.await.unwrap();
        }
        rt.sleep(Nanos::from_millis(20)).await;
        let before = drive.stats().flash_program_bytes;
        device.write(Block(0), Data::Stamps(&[7]), Durability::Normal).await.unwrap();
        device.flush().await.unwrap();
        assert_eq!(drive.stats().flash_program_bytes, before);
    };
    runtime.block_on(test).unwrap();
}

/// A protected drive whose flushes store the map: its log turns over all the time, at
/// several write points, while entries change under it.
#[test]
fn a_map_log_that_turns_over_all_the_time() {
    for write_points in [1, 3] {
        let mut design = tiny("durassd");
        design.cache.flush = FlushMode::Drain;
        design.geometry.blocks = 160; // Two map pages.
        design.map.write_points = write_points;
        for seed in 0..100 {
            let plan = CrashPlan {
                rounds: 20,
                depth: 12,
                commands: 600,
                // All over the drive, in few places, or seldom in the second map page.
                range: [u64::MAX, 24, 1040, 1040, 1030][seed as usize % 5],
                mix: Mix { write: 40, fua: 0, group: 0, flush: 30, discard: 4, read: 4 },
                cut: CutAt::Within(Nanos::from_millis(120)),
                restart_within: Nanos::from_millis(5),
                ..CrashPlan::default()
            };
            let report =
                crash_run(seed, &plan, |rt| Drive::new(rt, &design, Payload::Stamps).unwrap());
            let report = report.unwrap();
            assert!(report.is_clean(), "{write_points} write points: {report}");
        }
    }
}
