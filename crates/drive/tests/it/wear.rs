//! Wear: how far apart erase counts come, with and without levelling.

use crate::designs::small;
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, Payload, PowerCycle};
use tantalum_drive::{Design, Drive, WearReport};
use tantalum_rt::{Nanos, Runtime};

/// Fills the drive, then writes a tenth of it nine times of ten, `times` the capacity in
/// all; with a restart now and then.
fn hot_and_cold(design: &Design, times: u64) -> (WearReport, f64) {
    let mut runtime = Runtime::virtual_time(5);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
    let test = async move {
        drive.power_on().await.unwrap();
        let blocks = drive.caps().blocks;
        let mut newest = vec![0; blocks as usize];
        let mut dice = rt.stream("hot and cold");
        let mut device = drive.device();
        for i in 0..blocks * times {
            let hot = dice.chance(9, 10);
            let at = match i {
                i if i < blocks => i,
                _ if hot => dice.below(blocks / 10),
                _ => dice.range(blocks / 10, blocks / 4),
            };
            newest[at as usize] = i + 1;
            device.write(Block(at), Data::Stamps(&[i + 1]), Durability::Normal).await.unwrap();
            if i % (blocks * times / 8) == 0 {
                device.flush().await.unwrap();
                rt.sleep(Nanos::from_millis(50)).await;
                drive.cut();
                drive.off().await;
                drive.power_on().await.unwrap();
                device = drive.device();
            }
        }
        for (at, stamp) in newest.into_iter().enumerate() {
            let mut room = [0];
            device.read(Block(at as u64), DataMut::Stamps(&mut room)).await.unwrap();
            assert_eq!(room[0], stamp, "block {at}");
        }
        (drive.wear().unwrap(), drive.stats().write_amplification())
    };
    runtime.block_on(test).unwrap()
}

/// A drive that collects all the time has no unit to spare on any die: the units of its map log
/// take turns with others all the same.
#[test]
fn the_map_log_of_a_drive_that_collects_wears_like_the_data() {
    let mut design = small("baseline");
    design.space.over_provisioning = 42.0;
    design.wear.spread_max = 16;
    let (wear, _) = hot_and_cold(&design, 30);
    println!("{wear:?}");
    assert!(wear.die_spread <= 20, "{wear:?}");
}

/// Three quarters of the data are never written again: their units stay young, unless they
/// are levelled; then all units of a die stay within the bound, the map log's included, for
/// little more to write.
#[test]
fn cold_units_wear_like_all_others() {
    for preset in Design::presets() {
        let mut design = small(preset);
        // (Of a drive with summaries one row of eight is not for data.)
        design.space.over_provisioning = if design.map.summary { 100.0 } else { 60.0 };
        let (off, wa_off) = hot_and_cold(&design, 60);
        for bound in [40, 16] {
            design.wear.spread_max = bound;
            let (on, wa_on) = hot_and_cold(&design, 60);
            println!(
                "{preset}, bound {bound}: off: {:?}, die {}, WA {wa_off:.2}; on: {:?}, die {}, WA {wa_on:.2}",
                off.all, off.die_spread, on.all, on.die_spread
            );
            assert!(off.die_spread > 2 * bound, "{preset}: {off:?}");
            assert!(on.die_spread <= bound + 4, "{preset}: {on:?}");
            assert!(wa_on < wa_off * 1.4, "{preset}: {wa_off} to {wa_on}");
            assert_eq!(on.histogram.iter().map(|h| h.1).sum::<u32>(), on.all.units);
        }
    }
}

/// However often the power goes, the dumps do not wear out one area.
#[test]
fn dumps_wear_the_units_kept_for_them_alike() {
    let mut runtime = Runtime::virtual_time(5);
    let rt = runtime.handle();
    let mut design = small("durassd");
    design.space.over_provisioning = 60.0;
    design.wear.spread_max = 16;
    let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
    let test = async move {
        for round in 0..1000u64 {
            drive.power_on().await.unwrap();
            let write = [round];
            let device = drive.device();
            device
                .write(Block(round % 100), Data::Stamps(&write), Durability::Normal)
                .await
                .unwrap();
            rt.sleep(Nanos::from_millis(20)).await;
            drive.cut();
            drive.off().await;
        }
        drive.power_on().await.unwrap();
        let wear = drive.wear().unwrap();
        let device = drive.device();
        for i in 0..6 * drive.caps().blocks {
            let at = Block(i % drive.caps().blocks);
            device.write(at, Data::Stamps(&[i]), Durability::Normal).await.unwrap();
        }
        (wear, drive.stats().levelled_bytes)
    };
    let (wear, levelled) = runtime.block_on(test).unwrap();
    println!("{wear:?}, {levelled} bytes levelled");
    let dump = wear.dump.unwrap();
    // Two units for each of 1000 dumps (but the first), of six.
    assert_eq!((dump.units, dump.erases), (6, 1998), "{wear:?}");
    assert!(dump.spread() < 10, "{wear:?}");
    assert!(wear.die_spread < 16, "{wear:?}");
    // That these wear is no reason to move what lies in the others, which wear alike.
    assert_eq!(levelled, 0);
}
