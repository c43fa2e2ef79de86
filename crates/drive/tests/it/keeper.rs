//! The keeper of the map log waits for nothing that only it brings about (bounds, 4).

use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, Data, Durability, IoError, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

/// An elastic journal as small as it can be on two dies of small erase units.
fn tiny(preset: &str, joules: Option<f64>) -> Design {
    let base = Design::preset(preset).unwrap();
    let spare = if base.map.summary { 215 } else { 135 };
    let text = format!(
        "wear.endurance = 1000000\n\
         geometry = {{ channels = 2, packages = 1, chips = 1, planes = 2, blocks = 24, pages = 4, page_bytes = 4096 }}\n\
         space = {{ over_provisioning = {spare}, collect_below = 3 }}\n\
         cache = {{ buffer_kib = 64, atomic_unit_kib = 16 }}\n\
         map = {{ dirty_max = 1024, write_points = 1, dump_units = 4, journal_entries = 60, \
                  journal_ranges = 80, checkpoint_share = 0.0, checkpoint_idle = false }}\n"
    );
    let mut design = base.with_overrides(&text.parse().unwrap()).unwrap();
    if let Some(joules) = joules {
        design.power.joules = joules;
    }
    design
}

async fn write(drive: &Drive, at: u64, count: u64) -> Result<(), IoError> {
    let stamps: Vec<u64> = (1..=count).collect();
    drive.device().write(Block(at), Data::Stamps(&stamps), Durability::Normal).await
}

async fn discard(drive: &Drive, at: u64, count: u64) -> Result<(), IoError> {
    drive.device().discard(Blocks { start: Block(at), count }).await
}

/// Discards of single blocks, from several hosts at a time, until the power goes after `time`.
async fn storm(rt: &Rt, drive: &Drive, seed: u64, time: Nanos) {
    let blocks = drive.caps().blocks;
    for host in 0..16 {
        let drive = drive.clone();
        rt.spawn("a host", async move {
            let mut dice = Stream::new(seed, &format!("host {host}"));
            while discard(&drive, dice.below(blocks), 1).await.is_ok() {}
        });
    }
    rt.sleep(time).await;
    drive.cut();
    drive.off().await;
}

/// Work, everything discarded, a storm, a cut and a restart, again and again; how often there had to
/// be a salvage.
async fn life(rt: Rt, design: Rc<Design>, seed: u64) -> u64 {
    let mut dice = Stream::new(seed, "a life");
    let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
    drive.start().await.unwrap();
    let (blocks, mut salvaged) = (drive.caps().blocks, 0);
    for _ in 0..12 {
        for _ in 0..dice.below(600) {
            write(&drive, dice.below(blocks), 1).await.unwrap();
        }
        if dice.chance(3, 4) {
            discard(&drive, 0, blocks).await.unwrap();
        }
        storm(&rt, &drive, dice.next_u64(), Nanos::from_micros(dice.below(8_000))).await;
        if drive.start().await.is_err() {
            // The capacitors did not suffice for the end of the dump.
            drive.salvage().await.unwrap();
            salvaged += 1;
        }
        drive.settled().await;
        // (After a salvage the map may name what cannot be read, so that reads say so.)
        assert!(salvaged > 0 || drive.audit() == Ok(()), "{:?}", drive.audit());
    }
    salvaged
}

/// Lives with these seeds, and some more.
fn live(preset: &str, joules: Option<f64>, seeds: &[u64]) -> u64 {
    let design = Rc::new(tiny(preset, joules));
    let mut salvaged = 0;
    for seed in (0..24).chain(seeds.iter().copied()) {
        let mut runtime = Runtime::virtual_time(seed);
        let ended = runtime.block_on(life(runtime.handle(), design.clone(), seed));
        salvaged += ended.unwrap_or_else(|error| panic!("{preset}, seed {seed}: {error}"));
    }
    salvaged
}

#[test]
fn a_restart_with_a_full_journal_goes_on() {
    assert_eq!(live("spartan-e", None, &[185, 319]), 0);
    assert_eq!(live("spartan-es", None, &[146, 416]), 0);
}

/// It stores the map before there is a keeper.
#[test]
fn a_salvage_with_a_full_journal_ends() {
    assert!(live("spartan-e", Some(4e-4), &[273, 482]) > 20);
    assert!(live("spartan-es", Some(4e-4), &[247]) > 20);
}
