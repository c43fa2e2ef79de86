//! The rules that keep one runtime and power loss by dropping honest, as far as they are
//! the drive's.

use crate::designs::{small, tiny};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tantalum_device::{Block, BlockDevice, Data, Durability, OwnedData, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_nand::OpKind;
use tantalum_oracle::harness::{CrashPlan, crash_run};
use tantalum_rt::{Nanos, Runtime};

/// Two moments of a cut: when the host's power goes the firmware's tasks are dropped,
/// and a fresh task dumps what is protected; what was in flight goes on meanwhile.
#[test]
fn the_dump_runs_after_the_firmware_is_gone() {
    let mut runtime = Runtime::virtual_time(5);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, &small("durassd"), Payload::Stamps).unwrap();
    let test = async move {
        drive.power_on().await.unwrap();
        let device = drive.device();
        let stamps: Vec<u64> = (1..=8).collect();
        device.write(Block(0), Data::Stamps(&stamps), Durability::Normal).await.unwrap();
        device.write(Block(100), Data::Stamps(&[77]), Durability::Normal).await.unwrap();
        rt.sleep(Nanos::from_micros(100)).await;
        let in_flight = drive.array().ops_issued();
        assert!(drive.backlog().0 > 8, "pages are on their way, and one waits");
        drive.array().record_ops();
        let cut_at = rt.now();
        drive.cut();
        assert_eq!(drive.array().ops_issued(), in_flight, "nothing more is issued by the dead");
        drive.off().await;
        let dump = drive.array().take_ops();
        assert!(!dump.is_empty());
        assert!(dump.iter().all(|op| op.kind == OpKind::Program && op.issued >= cut_at));
        // The dump took several programs: what was in flight has ended by itself, and
        // is on flash twice; the dump is what counts.
        drive.power_on().await.unwrap();
        let report = drive.last_recovery().unwrap();
        assert_eq!(report.dump_pages, 9);
        let mut room = OwnedData::zeros(Payload::Stamps, 8, 4096);
        drive.device().read(Block(0), room.as_mut()).await.unwrap();
        assert_eq!(room, OwnedData::Stamps(stamps));
    };
    runtime.block_on(test).unwrap();
}

/// Dropping a host's future stops only the waiting.
#[test]
fn a_dropped_future_stops_no_command() {
    for preset in Design::presets() {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, &tiny(preset), Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            // At every moment of a forced write: drop its future, and go on.
            for patience in (0..6_000).step_by(50) {
                let at = Block(patience % 40);
                let stamps = [patience + 1];
                {
                    let mut write = pin!(device.write(at, Data::Stamps(&stamps), Durability::Fua));
                    let mut timer = pin!(rt.sleep(Nanos::from_micros(patience)));
                    poll_fn(|cx| {
                        let done = write.as_mut().poll(cx).is_ready();
                        if done || timer.as_mut().poll(cx).is_ready() {
                            return Poll::Ready(());
                        }
                        Poll::Pending
                    })
                    .await;
                }
                // Nothing is stuck: the next command completes, and so does a flush.
                device.write(at, Data::Stamps(&[9]), Durability::Normal).await.unwrap();
                device.flush().await.unwrap();
                let mut room = OwnedData::zeros(Payload::Stamps, 1, 4096);
                device.read(at, room.as_mut()).await.unwrap();
                assert_eq!(room, OwnedData::Stamps(vec![9]));
            }
        };
        runtime.block_on(test).unwrap();
        runtime.drain().unwrap();
    }
}

/// After ten thousand cuts memory is where it was: with each kind of cache, in one preset. With the
/// other presets a thousand are enough to see a leak.
#[test]
fn ten_thousand_cuts_leak_nothing() {
    for preset in Design::presets() {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, &tiny(preset), Payload::Stamps).unwrap();
        let all = ["baseline", "volatile", "durassd", "spartan-es"].contains(preset);
        let rounds = if all { 10_000u64 } else { 1_000 };
        let test = async move {
            let mut after_hundred = 0;
            let mut dice = rt.stream("cuts");
            for round in 0..rounds {
                drive.power_on().await.unwrap();
                let device = drive.device();
                let write = async move {
                    let at = Block(round % 100);
                    let _ = device.write(at, Data::Stamps(&[round]), Durability::Normal).await;
                    let _ = device.flush().await;
                };
                let host = rt.spawn("host", write);
                rt.sleep(Nanos(dice.below(4_000_000))).await;
                drive.cut();
                drive.off().await;
                let _ = host.await;
                assert_eq!(drive.memories(), 0, "round {round}: memory outlived its power");
                if round == 100 {
                    after_hundred = rt.footprint();
                }
            }
            assert!(rt.footprint() <= after_hundred + 8, "{} {after_hundred}", rt.footprint());
        };
        runtime.block_on(test).unwrap();
    }
}

/// With stamps instead of bytes the run is the same, to the last event.
#[test]
fn stamps_and_bytes_give_the_same_run() {
    for preset in Design::presets() {
        // (A stamp stands for a whole page, and is never shorn.)
        let whole = "cache.shear_bytes = 4096".parse().unwrap();
        let design = small(preset).with_overrides(&whole).unwrap();
        let run = |payload| {
            let plan = CrashPlan { rounds: 3, ..CrashPlan::default() };
            let report = crash_run(9, &plan, |rt| Drive::new(rt, &design, payload).unwrap());
            let report = report.unwrap();
            assert!(report.is_clean(), "{report}");
            report.trace_hash
        };
        assert_eq!(run(Payload::Stamps), run(Payload::Bytes), "{preset}");
    }
}

/// The presets of the paper are one drive with several caches: what differs is what each
/// says it does with a write.
#[test]
fn the_presets_share_one_parameter_set() {
    let names = ["baseline", "volatile", "durassd", "full-protection"];
    let presets = names.map(|p| Design::preset(p).unwrap());
    for design in &presets {
        assert_eq!(design.geometry, presets[0].geometry);
        assert_eq!(design.timing, presets[0].timing);
        assert_eq!(design.space, presets[0].space);
        assert_eq!(design.link, presets[0].link);
        assert_eq!(design.firmware, presets[0].firmware);
        assert_eq!(design.cache.buffer_kib, presets[0].cache.buffer_kib);
    }
}

/// Pages that do not fill a row give way to a write that needs their room.
#[test]
fn a_write_as_large_as_the_buffer_finds_room() {
    for preset in Design::presets() {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let mut table: toml::Table = "[cache]\nbuffer_kib = 64".parse().unwrap();
        if Design::preset(preset).unwrap().is_protected() {
            let unit: toml::Table = "atomic_unit_kib = 64".parse().unwrap();
            table["cache"].as_table_mut().unwrap().extend(unit);
        }
        let design = small(preset).with_overrides(&table).unwrap();
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let large: Vec<u64> = (1..=16).collect();
            for at in 0..20 {
                device
                    .write(Block(40 + at), Data::Stamps(&[99]), Durability::Normal)
                    .await
                    .unwrap();
                device.write(Block(at), Data::Stamps(&large), Durability::Normal).await.unwrap();
            }
        };
        runtime.block_on(test).unwrap_or_else(|e| panic!("{preset}: {e}"));
    }
}
