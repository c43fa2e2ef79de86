//! Drives that keep neither order nor whole writes, and shear pages: that it happens, and
//! only where it may.

use crate::designs::small;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, IoError, Payload, PowerCycle,
};
use tantalum_drive::{Design, Drive};
use tantalum_oracle::harness::{CrashPlan, CutAt, Mix, crash_run};
use tantalum_rt::{Nanos, Runtime};

fn with(design: &Design, overrides: &str) -> Design {
    design.with_overrides(&overrides.parse().expect("valid TOML")).unwrap()
}

/// Commands of eight pages, 64 of them one after the other on places of their own, and a cut:
/// which pages of each command are there.
fn survivors(seed: u64, design: &Design) -> Vec<[bool; 8]> {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
    let test = async move {
        drive.power_on().await.unwrap();
        for i in 0..256 {
            let at = Block(i % 64 * 8);
            let stamps = [i + 1; 8];
            drive.device().write(at, Data::Stamps(&stamps), Durability::Normal).await.unwrap();
        }
        drive.cut();
        drive.off().await;
        drive.power_on().await.unwrap();
        let mut found = Vec::new();
        for i in 0..64 {
            let mut room = [0; 8];
            drive.device().read(Block(i * 8), DataMut::Stamps(&mut room)).await.unwrap();
            let newest = *room.iter().max().unwrap();
            found.push(room.map(|stamp| stamp == newest && stamp > 0));
        }
        found
    };
    runtime.block_on(test).unwrap()
}

#[test]
fn a_cut_leaves_any_part_of_a_large_write() {
    let plain = small("volatile");
    let disorderly = with(&plain, "cache.buffer_kib = 512\ncache.reorder = 60");
    let mut patterns = std::collections::BTreeSet::new();
    for seed in 0..20 {
        patterns.extend(survivors(seed, &disorderly));
    }
    // Neither all nor none nor a beginning of the command.
    let holes = patterns.iter().filter(|p| p.windows(2).any(|w| !w[0] && w[1])).count();
    assert!(holes > 10, "{patterns:?}");
}

#[test]
fn small_writes_overtake_large_ones() {
    let order = |design: &Design| {
        let mut runtime = Runtime::virtual_time(3);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let (large, small) = (drive.device(), drive.device());
            let clock = rt.clone();
            let large = rt.spawn("large", async move {
                let stamps = vec![7; 600];
                large.write(Block(0), Data::Stamps(&stamps), Durability::Normal).await.unwrap();
                clock.now()
            });
            rt.yield_now().await;
            small.write(Block(1000), Data::Stamps(&[1]), Durability::Normal).await.unwrap();
            let ended = rt.now();
            (large.await.unwrap(), ended)
        };
        runtime.block_on(test).unwrap()
    };
    let (large, small_one) = order(&small("volatile"));
    assert!(large <= small_one, "in order of arrival");
    let (large, small_one) = order(&with(&small("volatile"), "cache.reorder = 8"));
    assert!(small_one < large, "overtaken");
}

fn clean(seed: u64, design: &Design, payload: Payload, plan: &CrashPlan) {
    let report = crash_run(seed, plan, |rt| Drive::new(rt, design, payload).unwrap());
    let report = report.unwrap();
    assert!(report.is_clean(), "{}: {report}", design.name);
}

#[test]
fn disorder_keeps_what_was_promised() {
    for seed in 0..24 {
        let shear = [512, 1024, 2048, 4096][seed as usize % 4];
        let mode = if seed % 3 == 0 { "off" } else { "volatile" };
        let keys = format!(
            "cache.reorder = {}\ncache.shear_bytes = {shear}\ncache.mode = \"{mode}\"",
            seed % 5 * 4
        );
        let plan = CrashPlan {
            rounds: 6,
            mix: Mix { flush: 15, ..Mix::default() },
            max_blocks: 20,
            range: if seed % 2 == 0 { 64 } else { u64::MAX },
            cut: CutAt::Within(Nanos::from_millis(40)),
            ..CrashPlan::default()
        };
        let payload = if seed % 6 == 5 { Payload::Stamps } else { Payload::Bytes };
        clean(seed, &with(&small("volatile"), &keys), payload, &plan);
    }
}

/// One host writes a page over and over, another flushes; after a cut the page is one
/// version, or parts of two. Gives the parts of all cuts, at a grain of 512 bytes.
fn parts(seed: u64, design: &Design) -> Vec<[u8; 8]> {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = Rc::new(Drive::new(&rt, design, Payload::Bytes).unwrap());
    let test = async move {
        let mut seen = Vec::new();
        for round in 0..10u8 {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let writer = rt.spawn("writer", async move {
                for i in 0..200u8 {
                    let page = [round.wrapping_mul(200).wrapping_add(i); 4096];
                    let write = device.write(Block(5), Data::Bytes(&page), Durability::Normal);
                    match write.await {
                        Ok(()) => {}
                        Err(IoError::PowerLost) => return,
                        Err(e) => panic!("{e}"),
                    }
                }
            });
            let device = drive.device();
            let (mut dice, clock) = (rt.stream(&format!("round {round}")), rt.clone());
            let mut pause = dice.clone();
            let flusher = rt.spawn("flusher", async move {
                while device.flush().await.is_ok() {
                    clock.sleep(Nanos(pause.below(100_000))).await;
                }
            });
            rt.sleep(Nanos(dice.range(5_000_000, 12_000_000))).await;
            drive.cut();
            drive.off().await;
            writer.await.unwrap();
            flusher.await.unwrap();
            drive.power_on().await.unwrap();
            let mut page = [0; 4096];
            drive.device().read(Block(5), DataMut::Bytes(&mut page)).await.unwrap();
            let mut parts = [0; 8];
            for (part, bytes) in parts.iter_mut().zip(page.chunks(512)) {
                assert!(bytes.iter().all(|b| *b == bytes[0]), "no part is divided");
                *part = bytes[0];
            }
            seen.push(parts);
            drive.cut();
            drive.off().await;
        }
        seen
    };
    runtime.block_on(test).unwrap()
}

#[test]
fn pages_are_shorn_where_they_may_be_and_nowhere_else() {
    let shorn = |shear: u32| {
        let design = with(&small("volatile"), &format!("cache.shear_bytes = {shear}"));
        let all: Vec<[u8; 8]> = (0..12).flat_map(|seed| parts(seed, &design)).collect();
        let grain = (shear / 512) as usize;
        for page in &all {
            assert!(page.chunks(grain).all(|c| c.iter().all(|p| *p == c[0])), "{page:?}");
            // A beginning of the new version, the rest of one old one.
            assert!(page.windows(2).filter(|w| w[0] != w[1]).count() <= 1, "{page:?}");
        }
        let shorn = all.iter().filter(|p| p[0] != p[7]).count();
        println!("shorn in pieces of {shear}: {shorn} of {}", all.len());
        shorn
    };
    assert!(shorn(512) > 3);
    assert!(shorn(2048) > 3);
    assert_eq!(shorn(4096), 0);
}

#[test]
fn a_drive_says_how_small_its_pieces_are() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let unit =
        |design: &Design, payload| Drive::new(&rt, design, payload).unwrap().caps().atomic_unit;
    let shears = with(&small("volatile"), "cache.shear_bytes = 512");
    assert_eq!(unit(&shears, Payload::Bytes), 512);
    assert_eq!(unit(&shears, Payload::Stamps), 4096, "a stamp is all or nothing");
    assert_eq!(unit(&small("volatile"), Payload::Bytes), 4096);
    runtime.drain().unwrap();
}
