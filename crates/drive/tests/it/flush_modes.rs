//! What a flush does: drain, order, ignore; and that each drive says which.

use crate::designs::{small, tiny};
use tantalum_device::{Ack, Block, BlockDevice, Data, DataMut, Durability, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_oracle::harness::{CrashPlan, CutAt, Mix, crash_run};
use tantalum_rt::{Nanos, Runtime};

fn with(design: &Design, overrides: &str) -> Design {
    design.with_overrides(&overrides.parse().expect("valid TOML")).unwrap()
}

/// Writes a block, makes it durable by `how`, cuts the power: what is there afterwards.
fn survivor(design: &Design, want: Durability) -> u64 {
    let mut runtime = Runtime::virtual_time(5);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
    let test = async move {
        drive.power_on().await.unwrap();
        let device = drive.device();
        device.write(Block(3), Data::Stamps(&[42]), want).await.unwrap();
        let began = rt.now();
        device.flush().await.unwrap();
        let took = rt.now() - began;
        drive.cut();
        drive.off().await;
        drive.power_on().await.unwrap();
        let mut room = [0];
        drive.device().read(Block(3), DataMut::Stamps(&mut room)).await.unwrap();
        let link = drive.design().link.occupancy_ns + drive.design().link.latency_ns;
        let at_once = took <= Nanos(link);
        assert_eq!(at_once, drive.design().cache.flush != tantalum_drive::FlushMode::Drain);
        room[0]
    };
    runtime.block_on(test).unwrap()
}

/// Pages that are buffered before a forced write.
const PAGES: usize = 100;

/// A write with forced unit access waits for its own pages, not for what was buffered before; over
/// SATA for that, too.
#[test]
fn forced_unit_access_waits_for_its_own_pages() {
    let programmed = |fua: &str| {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        // Four dies with rows of four pages: a hundred pages are several programs of each.
        let keys = format!("cache.buffer_kib = 512\ncache.fua = \"{fua}\"");
        let drive = Drive::new(&rt, &with(&small("volatile"), &keys), Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let before = vec![1; PAGES];
            device.write(Block(8), Data::Stamps(&before), Durability::Normal).await.unwrap();
            device.write(Block(3), Data::Stamps(&[42]), Durability::Fua).await.unwrap();
            let programmed = drive.stats().host_program_bytes;
            drive.cut();
            drive.off().await;
            drive.power_on().await.unwrap();
            let mut room = [0];
            drive.device().read(Block(3), DataMut::Stamps(&mut room)).await.unwrap();
            assert_eq!(room, [42]);
            programmed
        };
        runtime.block_on(test).unwrap()
    };
    let all = PAGES as u64 * 4096;
    let (own, flush) = (programmed("own-pages"), programmed("flush"));
    assert!(own < all, "{own} bytes are programmed, of {PAGES} pages");
    assert!(flush > all, "{flush} bytes are programmed, of {PAGES} pages and one");
}

#[test]
fn a_flush_that_is_ignored_keeps_nothing_and_the_drive_says_so() {
    for preset in ["baseline", "volatile", "tlc-modern"] {
        let design = with(&tiny(preset), "cache.flush = \"ignore\"");
        assert_eq!(survivor(&design, Durability::Normal), 0, "{preset}: lost, as it says");
        assert_eq!(survivor(&design, Durability::Fua), 42, "{preset}: forced unit access counts");
        assert_eq!(survivor(&tiny(preset), Durability::Normal), 42, "{preset}");
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let caps = *Drive::new(&rt, &design, Payload::Stamps).unwrap().caps();
        assert!(!caps.flush && caps.ack == Ack::Volatile);
        runtime.drain().unwrap();
    }
    // Protection needs no flush.
    let design = with(&tiny("durassd"), "cache.flush = \"ignore\"");
    assert_eq!(survivor(&design, Durability::Normal), 42);
}

#[test]
fn every_mode_keeps_what_it_promises() {
    for preset in Design::presets() {
        for mode in ["drain", "order", "ignore"] {
            let design = with(&small(preset), &format!("cache.flush = \"{mode}\""));
            for seed in 0..6 {
                let plan = CrashPlan {
                    rounds: 5,
                    mix: Mix { flush: 20, ..Mix::default() },
                    cut: CutAt::Within(Nanos::from_millis(30)),
                    ..CrashPlan::default()
                };
                let make = |rt: &tantalum_rt::Rt| Drive::new(rt, &design, Payload::Stamps).unwrap();
                let report = crash_run(seed, &plan, make).unwrap();
                assert!(report.is_clean(), "{preset}, {mode}: {report}");
            }
        }
    }
}
