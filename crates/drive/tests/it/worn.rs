//! Worn-out drives of any shape: each takes writes, or says that it takes none.

use crate::faults::{start, to_the_end};
use std::rc::Rc;
use tantalum_device::{Block, Blocks, Durability, IoError, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_explore::small_bounds;
use tantalum_oracle::Oracle;
use tantalum_rt::{Rt, Runtime, Stream};

/// A preset on some geometry with something to spare, in which erase units last some erases.
fn any_shape(preset: &str, dice: &mut Stream) -> Design {
    let base = Design::preset(preset).unwrap();
    let (channels, chips) = (dice.range(1, 3) as i64, dice.range(1, 3) as i64);
    let planes = [1, 2][dice.below(2) as usize];
    let pages = [4, 8, 16][dice.below(3) as usize];
    let dump_units = if base.is_protected() { 64 / (planes * pages) + 4 } else { 0 };
    let mut table: toml::Table = format!(
        "[geometry]\nchannels = {channels}\npackages = 1\nchips = {chips}\nplanes = {planes}\npages = {pages}\npage_bytes = 4096\n\
         [wear]\nendurance = {}\nspread_max = {}\n[space]\nover_provisioning = {}\ncollect_below = {}\n\
         [cache]\nbuffer_kib = 64\natomic_unit_kib = {}\n\
         [map]\ndirty_max = 1024\nwrite_points = {}\ndump_units = {dump_units}",
        dice.range(2, 13),
        [0, 8][dice.below(2) as usize],
        dice.range(30, 100),
        dice.range(2, 5),
        if base.is_protected() { 16 } else { 4 },
        dice.range(1, 3),
    )
    .parse()
    .expect("valid TOML");
    if base.cache.reorder > 0 {
        table["cache"].as_table_mut().unwrap().insert("reorder".into(), 4.into());
    }
    small_bounds(&base, &mut table, channels * chips, planes, 10);
    // As few units as there may be, and some more.
    let more = dice.range(0, 60);
    let with = |blocks: u64| {
        let mut table = table.clone();
        table["geometry"].as_table_mut().unwrap().insert("blocks".into(), (blocks as i64).into());
        base.with_overrides(&table).ok()
    };
    let least = (8..400).find(|blocks| with(*blocks).is_some()).expect("some size suffices");
    with(least + more).expect("more units suffice, too")
}

/// Writes until the drive takes no more, and why that was.
async fn a_life(rt: Rt, drive: Drive) -> Ended {
    let oracle = Rc::new(Oracle::new(drive.caps()));
    let mut lives = 0;
    let ended = loop {
        start(&drive).await;
        let hosts: Vec<_> = (0..4)
            .map(|i| rt.spawn("host", to_the_end(rt.clone(), oracle.clone(), drive.clone(), i)))
            .collect();
        for host in hosts {
            host.await.unwrap();
        }
        lives += 1;
        match drive.is_worn_out() {
            true if drive.bad_units() > drive.layout().spare_units => break Ended::WithBadUnits,
            true => break Ended::WithoutRoom,
            // It may take writes once more.
            false if lives < 3 => {}
            false => return Ended::WithoutLog,
        }
        drive.cut();
        drive.off().await;
        start(&drive).await;
        let found = oracle.check(&drive.device()).await.unwrap();
        assert!(found.is_empty(), "without a log: {found:?}");
        drive.cut();
        drive.off().await;
    };
    let all = Blocks { start: Block(0), count: drive.caps().blocks };
    for restart in 0..3 {
        let host = oracle.host(drive.device());
        host.read(all).await.unwrap();
        let one = Blocks { start: Block(3), count: 2 };
        assert_eq!(host.write(one, Durability::Normal).await, Err(IoError::ReadOnly), "{restart}");
        assert_eq!(host.discard(one).await, Err(IoError::ReadOnly), "{restart}");
        drive.cut();
        drive.off().await;
        start(&drive).await;
        let found = oracle.check(&drive.device()).await.unwrap();
        assert!(found.is_empty(), "restart {restart}: {found:?}");
        assert!(drive.is_worn_out(), "restart {restart}: its end is forgotten");
    }
    ended
}

/// What ended a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Too many units are bad.
    WithBadUnits,
    /// Fewer, but nothing can be moved any more.
    WithoutRoom,
    /// The map log has no unit left.
    WithoutLog,
}

/// Whatever the shape: nothing waits for ever (the runtime would call that a stall), and who
/// was told that no more writes are taken is told so after every restart.
#[test]
fn a_worn_out_drive_never_leaves_its_host_waiting() {
    let (mut bad, mut stuck, mut log) = (0, 0, 0);
    for seed in 0..12 {
        for preset in Design::presets() {
            let mut runtime = Runtime::virtual_time(seed);
            let rt = runtime.handle();
            let design = any_shape(preset, &mut rt.stream("shape"));
            let what =
                || format!("{preset}, seed {seed}: {:?}, {:?}", design.geometry, design.wear);
            let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
            let life = runtime.block_on(a_life(rt, drive));
            let ended = life.unwrap_or_else(|e| panic!("{}: {e}", what()));
            match ended {
                Ended::WithBadUnits => bad += 1,
                Ended::WithoutRoom => stuck += 1,
                Ended::WithoutLog => log += 1,
            }
        }
    }
    println!("too many bad units: {bad}; no room: {stuck}; no map log: {log}");
    assert!(bad > 0 && stuck > 0, "{bad} {stuck} {log}");
}
