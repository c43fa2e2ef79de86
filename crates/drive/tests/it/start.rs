//! Commands that come while a start is not finished (`recover`, 6).

use std::collections::BTreeMap;
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, DataMut, Durability, IoError, Payload, PowerCycle,
};
use tantalum_drive::{Design, Drive};
use tantalum_rt::{Nanos, Runtime, Stream};

/// A preset on so many units that the rest of a start takes a while.
fn design(preset: &str) -> Design {
    let base = Design::preset(preset).unwrap();
    let table = "[geometry]\nchannels = 2\npackages = 1\nchips = 1\nplanes = 1\nblocks = 400\npages = 16\npage_bytes = 4096\n\
                 [space]\nover_provisioning = 30\n[cache]\nbuffer_kib = 64\natomic_unit_kib = 16\n\
                 [map]\ndump_units = 4\nwrite_points = 2";
    let mut table: toml::Table = table.parse().unwrap();
    if !base.keeps_units() {
        table["map"].as_table_mut().unwrap().insert("dirty_max".into(), 1024.into());
    }
    base.with_overrides(&table).unwrap()
}

/// What a drive that keeps its promises has: of each block the newest that was acknowledged,
/// or what was not, but was sent later.
struct Model {
    blocks: BTreeMap<u64, Vec<u64>>,
}

impl Model {
    fn sent(&mut self, block: u64, stamp: u64) {
        self.blocks.entry(block).or_insert_with(|| vec![0]).push(stamp);
    }

    fn acknowledged(&mut self, block: u64, stamp: u64) {
        self.blocks.insert(block, vec![stamp]);
    }

    fn read(&mut self, block: u64, stamp: u64) {
        let may_be = self.blocks.get(&block).cloned().unwrap_or_else(|| vec![0]);
        assert!(may_be.contains(&stamp), "block {block} is {stamp}, not one of {may_be:?}");
        self.blocks.insert(block, vec![stamp]);
    }
}

/// Commands up to a cut at `until`; whether all that there were.
async fn commands(drive: &Drive, model: &mut Model, dice: &mut Stream, count: u64, next: &mut u64) {
    let device = drive.device();
    let blocks = device.caps().blocks;
    for _ in 0..count {
        let block = dice.below(blocks);
        match dice.below(8) {
            0..4 => {
                *next += 1;
                model.sent(block, *next);
                match device.write(Block(block), Data::Stamps(&[*next]), Durability::Normal).await {
                    Ok(()) => model.acknowledged(block, *next),
                    Err(e) => return assert_eq!(e, IoError::PowerLost),
                }
            }
            4 => {
                model.sent(block, 0);
                match device.discard(Blocks { start: Block(block), count: 1 }).await {
                    Ok(()) => model.acknowledged(block, 0),
                    Err(e) => return assert_eq!(e, IoError::PowerLost),
                }
            }
            _ => {
                let mut room = [7];
                match device.read(Block(block), DataMut::Stamps(&mut room)).await {
                    Ok(()) => model.read(block, room[0]),
                    Err(e) => return assert_eq!(e, IoError::PowerLost),
                }
            }
        }
    }
}

/// The host goes on at once after each restart, and most cuts come before the start is
/// finished: nothing acknowledged is lost, nothing is read that is not there.
#[test]
fn commands_are_taken_before_a_start_is_finished_and_survive_a_cut_then() {
    let with = |name: &&&str| Design::preset(name).unwrap().map.directory;
    let mut unfinished = 0;
    for preset in Design::presets().iter().filter(with) {
        for seed in 0..6 {
            let design = design(preset);
            let mut runtime = Runtime::virtual_time(seed);
            let rt = runtime.handle();
            let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
            let test = async move {
                let mut dice = rt.stream("commands");
                let mut model = Model { blocks: BTreeMap::new() };
                let (mut next, mut unfinished) = (0, 0);
                drive.power_on().await.unwrap();
                drive.settled().await;
                commands(&drive, &mut model, &mut dice, 6000, &mut next).await;
                for round in 0..25 {
                    let cutter = drive.clone();
                    let until = dice.below(if round % 5 == 4 { 400_000_000 } else { 30_000_000 });
                    let timer = rt.sleep(Nanos(until));
                    let cut = rt.spawn("a cut", async move {
                        timer.await;
                        let whole = cutter.last_recovery().is_some_and(|r| r.whole > Nanos::ZERO);
                        cutter.cut();
                        whole
                    });
                    commands(&drive, &mut model, &mut dice, 100_000, &mut next).await;
                    unfinished += u32::from(!cut.await.unwrap());
                    drive.off().await;
                    drive.power_on().await.unwrap();
                    assert!(drive.last_recovery().unwrap().early);
                }
                drive.settled().await;
                assert_eq!(drive.last_failure(), None);
                assert_eq!(drive.audit(), Ok(()));
                let device = drive.device();
                for block in 0..device.caps().blocks {
                    let mut room = [7];
                    device.read(Block(block), DataMut::Stamps(&mut room)).await.unwrap();
                    model.read(block, room[0]);
                }
                unfinished
            };
            unfinished += runtime.block_on(test).unwrap();
        }
    }
    assert!(unfinished > 100, "{unfinished} cuts came before the start was finished");
}
