//! RAM devices, disks and arrays under the explorer: honest ones are clean, and each defect that
//! can be planted in them is found and made short.

use tantalum_device::{
    Ack, Block, BlockDevice, Caps, Data, DataMut, Defect, DiskModel, Durability, GroupLimit,
    Payload, PowerCycle, plant,
};
use tantalum_explore::{
    Blueprint, BoxBlueprint, Command, DiskBlueprint, Found, Ingredients, Nesting, Raid0Blueprint,
    RamBlueprint, Scenario, Tally, reduce,
};
use tantalum_rt::{Nanos, Runtime, Stream};

/// Runs of each subject, and cuts of each run.
const RUNS: u64 = 6;
const CUTS: u64 = 150;

fn ram() -> RamBlueprint {
    RamBlueprint::new(Caps {
        block_size: 4096,
        blocks: 96,
        thin: false,
        ack: Ack::Volatile,
        flush: true,
        ordered: false,
        atomic_unit: 512,
        atomic_group: Some(GroupLimit { extents: 16, bytes: 256 * 1024 }),
        payload: Payload::Bytes,
    })
}

fn disk(write_cache: bool) -> DiskBlueprint {
    let model = DiskModel {
        block_bytes: 4096,
        blocks: 480,
        rpm: 15_000,
        track_blocks: 120,
        heads: 4,
        skew_blocks: 0,
        seek_track_us: 600,
        seek_full_us: 7350,
        command_us: 100,
        prepares_ahead: false,
        interface_mb_s: 300,
        queue_depth: 32,
        queue_window: 0,
        cache_kib: 1024,
        write_cache,
        write_settle_us: 500,
        cache_window: 64,
        expiry_ms: 500,
        spin_up_ms: 3,
    };
    DiskBlueprint { model, payload: Payload::Stamps, shared_bus_mb_s: None }
}

fn rams() -> Raid0Blueprint<RamBlueprint> {
    Raid0Blueprint { member: ram(), members: 3, chunk: 2 }
}

fn scenario(subject: BoxBlueprint, run: u64) -> Scenario<BoxBlueprint> {
    let mut what = Ingredients { hosts: 1 + run as u32 % 4, pause: 1, ..Ingredients::default() };
    what.commands = 80;
    what.mix.group = 3;
    what.cycle = run % 2;
    what.range = if run % 3 == 2 { 24 } else { 0 };
    what.scenario(subject, run).unwrap()
}

fn hunt(subject: &BoxBlueprint, tally: &mut Tally) -> Option<(Scenario<BoxBlueprint>, Found)> {
    for run in 0..RUNS {
        let scenario = scenario(subject.clone(), run);
        let mut dice = Stream::new(run, "points");
        let found = scenario.points(20).and_then(|points| {
            let count = points.len() as u64;
            let mut points: Vec<_> = points.into_iter().enumerate().collect();
            points.retain(|_| dice.chance(CUTS, count.max(CUTS)));
            let nesting = Nesting { depth: 1, inner: 2, stride: 2 };
            scenario.explore(&points, nesting, tally, &|| ())
        });
        if let Err(found) = found {
            return Some((scenario, found));
        }
    }
    None
}

#[test]
fn honest_devices_are_clean() {
    let mut ordered = ram();
    (ordered.caps.ordered, ordered.caps.payload) = (true, Payload::Stamps);
    ordered.caps.atomic_unit = 4096;
    let mut safe = ram();
    safe.caps.ack = Ack::OnMedia;
    let disks = Raid0Blueprint { member: disk(true), members: 2, chunk: 8 };
    for subject in [
        BoxBlueprint::Ram(ram()),
        BoxBlueprint::Ram(ordered),
        BoxBlueprint::Ram(safe),
        BoxBlueprint::Disk(disk(true)),
        BoxBlueprint::Disk(disk(false)),
        BoxBlueprint::Rams(rams()),
        BoxBlueprint::Disks(disks),
    ] {
        let mut tally = Tally::default();
        let found = hunt(&subject, &mut tally);
        assert!(found.is_none(), "{subject:?}: {found:?}");
        assert!(tally.all_cuts() > RUNS * CUTS / 2, "{subject:?}: {tally:?}");
        assert_eq!(tally.void, 0, "nothing of these dies slowly");
    }
}

/// Stamps that a cut in the middle of a write of 8 blocks to each disk of two leaves there.
fn torn(seed: u64) -> [usize; 2] {
    let array = Raid0Blueprint { member: disk(false), members: 2, chunk: 8 };
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let work = async move {
        let array = array.build(&rt)?;
        array.power_on().await.map_err(|e| format!("{e:?}"))?;
        let device = array.device();
        let writing = rt.spawn("a write", async move {
            let _ = device.write(Block(0), Data::Stamps(&[7; 16]), Durability::Normal).await;
        });
        rt.sleep(Nanos::from_micros(120 + 10 * seed)).await;
        array.cut();
        writing.await.ok();
        array.power_on().await.map_err(|e| format!("{e:?}"))?;
        let mut read = [0; 16];
        array.device().read(Block(0), DataMut::Stamps(&mut read)).await.expect("it can be read");
        let written = |of: &[u64]| of.iter().filter(|stamp| **stamp == 7).count();
        Ok::<_, String>([written(&read[..8]), written(&read[8..])])
    };
    runtime.block_on(work).expect("it ends").expect("a disk")
}

#[test]
fn the_disks_of_an_array_tear_independently() {
    let all: Vec<_> = (0..24).map(torn).collect();
    assert!(all.iter().any(|[a, b]| a != b), "{all:?}");
    assert_eq!(torn(3), torn(3));
}

/// Where a defect shows.
fn subject(defect: Defect) -> BoxBlueprint {
    match defect {
        Defect::RamForgetsFlushed | Defect::RamTearsGroup | Defect::RamCachesFua => {
            BoxBlueprint::Ram(ram())
        }
        Defect::DiskFlushesEarly | Defect::DiskCachesFua => BoxBlueprint::Disk(disk(true)),
        Defect::Raid0FlushesOne => BoxBlueprint::Rams(rams()),
    }
}

#[test]
fn each_planted_defect_is_found() {
    for &defect in Defect::ALL {
        plant(Some(defect));
        let found = hunt(&subject(defect), &mut Tally::default());
        plant(None);
        let Some((scenario, found)) = found else { panic!("{defect:?} is not found") };
        println!("{defect:?}: {}: {}", found.stage, found.failure);
        assert_eq!(scenario.cut(&found.cuts), Ok(()), "{defect:?}: it is the defect that it shows");
    }
}

/// The tests that reduced cases are printed as: they are compiled here, and pass without the
/// defect that they were found with.
mod printed {
    include!("printed/ram.rs");
    include!("printed/disk.rs");
    include!("printed/raid0.rs");
}

#[test]
fn reduced_cases_are_printed_as_tests_that_compile() {
    let mut differ = Vec::new();
    for (defect, file, text) in [
        (Defect::RamTearsGroup, "ram", include_str!("printed/ram.rs")),
        (Defect::DiskFlushesEarly, "disk", include_str!("printed/disk.rs")),
        (Defect::Raid0FlushesOne, "raid0", include_str!("printed/raid0.rs")),
    ] {
        plant(Some(defect));
        let (scenario, found) = hunt(&subject(defect), &mut Tally::default()).unwrap();
        let reduced = reduce(&scenario, &found, 3_000);
        let again = reduced.scenario.cut(&reduced.found.cuts);
        plant(None);
        assert_eq!(again.unwrap_err().failure, reduced.found.failure);
        assert!(reduced.scenario.commands.len() <= 4, "{defect:?}: {reduced:?}");
        if defect == Defect::RamTearsGroup {
            let commands = &reduced.scenario.commands;
            assert!(commands.iter().any(|c| matches!(c, Command::Group(..))), "{reduced:?}");
        }
        let test = reduced.to_test();
        if test != text {
            differ.push(format!("tests/it/printed/{file}.rs should be:\n{test}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.concat());
}
