//! Blocks of the host that are smaller than the sectors of the drive.

use crate::designs::{tiny, with_spare};
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, DataMut, Durability, Extent, IoError, Payload, PowerCycle,
};
use tantalum_drive::{CacheMode, Design, Drive, DriveLink, DriveStats, GroupScheme};
use tantalum_explore::{DriveBlueprint, Ingredients, Nesting, Scenario, Tally};
use tantalum_rt::{Runtime, join_all};

/// A preset on a small geometry, with blocks of this size.
fn with_blocks(mut design: Design, block_bytes: u32) -> Design {
    design.link.logical_bytes = block_bytes;
    design.cache.shear_bytes = 4096;
    design
}

/// The `run`-th scenario of small blocks: few sectors, of which commands have some blocks.
pub fn scenario(preset: &str, run: u64) -> Scenario<DriveBlueprint> {
    let design = if run % 2 == 1 { with_spare(preset) } else { tiny(preset) };
    let mut design = with_blocks(design, [512, 1024, 2048][run as usize % 3]);
    if run % 4 == 3 && !design.is_protected() {
        design.atomic.scheme = GroupScheme::Flag;
    }
    let mut what =
        Ingredients { hosts: 1 + run as u32 % 5, max_blocks: 20, ..Ingredients::default() };
    what.range = [0, 400, 90][run as usize % 3];
    what.mix.discard = 2;
    what.faults = if run % 2 == 1 { 6 } else { 0 };
    what.scenario(DriveBlueprint { design, payload: Payload::Bytes }, run).unwrap()
}

/// Cuts some points of a scenario.
pub fn explore(
    scenario: &Scenario<DriveBlueprint>,
    stride: usize,
    tally: &mut Tally,
) -> Result<(), Box<tantalum_explore::Found>> {
    let points = scenario.points(20).map_err(Box::new)?;
    let points: Vec<_> = points.into_iter().enumerate().step_by(stride).collect();
    let nesting = Nesting { depth: 1, inner: 2, stride: 4 };
    scenario.explore(&points, nesting, tally, &|| ()).map_err(Box::new)
}

#[test]
fn parts_of_sectors_survive_cuts_as_whole_ones_do() {
    let mut tally = Tally::default();
    for preset in ["durassd", "volatile", "baseline", "ssd-a", "spartan-e"] {
        for run in 0..4 {
            let scenario = scenario(preset, run);
            explore(&scenario, 7, &mut tally)
                .unwrap_or_else(|found| panic!("{preset}, run {run}: {found:?}"));
        }
    }
    assert!(tally.all_cuts() > 2000, "{}", tally.all_cuts());
}

/// Every point of a short run.
#[test]
fn at_every_moment_of_a_short_run_a_cut_keeps_the_promises() {
    for preset in ["durassd", "volatile"] {
        let mut scenario = scenario(preset, 2);
        scenario.commands.truncate(40);
        explore(&scenario, 1, &mut Tally::default())
            .unwrap_or_else(|found| panic!("{preset}: {found:?}"));
    }
}

fn on(
    design: &Design,
    body: impl AsyncFnOnce(&Drive, DriveLink) -> Result<(), IoError> + 'static,
) -> DriveStats {
    let mut runtime = Runtime::virtual_time(7);
    let drive = Drive::new(&runtime.handle(), design, Payload::Bytes).unwrap();
    let own = drive.clone();
    let ran = runtime.block_on(async move {
        own.power_on().await?;
        body(&own, own.device()).await?;
        own.audit().unwrap();
        Ok::<_, IoError>(())
    });
    ran.unwrap().unwrap();
    drive.stats()
}

async fn write(link: &DriveLink, at: u64, blocks: usize, byte: u8) -> Result<(), IoError> {
    let bytes = vec![byte; blocks * 512];
    link.write(Block(at), Data::Bytes(&bytes), Durability::Normal).await
}

/// The first byte of each of so many blocks from `at` on, all of whose bytes are alike.
async fn read(link: &DriveLink, at: u64, blocks: usize) -> Result<Vec<u8>, IoError> {
    let mut bytes = vec![9; blocks * 512];
    link.read(Block(at), DataMut::Bytes(&mut bytes)).await?;
    let alike = bytes.chunks(512).all(|block| block.iter().all(|byte| *byte == block[0]));
    assert!(alike, "a block of 512 bytes is torn");
    Ok(bytes.chunks(512).map(|block| block[0]).collect())
}

#[test]
fn what_a_command_does_not_name_stays_as_it_is() {
    for (preset, mode) in
        [("durassd", None), ("volatile", None), ("volatile", Some(CacheMode::Through))]
    {
        let mut design = with_blocks(tiny(preset), 512);
        design.cache.mode = mode.unwrap_or(design.cache.mode);
        let stats = on(&design, async |drive, link| {
            let caps = *link.caps();
            assert_eq!((caps.block_size, caps.bytes() % 4096), (512, 0));
            assert_eq!(caps.bytes(), u64::from(drive.layout().logical) * 4096);
            let unit = if drive.design().is_protected() { 16384 } else { 512 };
            assert_eq!(caps.atomic_unit, unit);
            write(&link, 5, 10, 1).await?;
            write(&link, 7, 2, 2).await?;
            assert_eq!(read(&link, 4, 12).await?, [0, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 0]);
            // All of it gets to flash, and comes from there.
            for i in 0..60 {
                write(&link, 160 + 8 * i, 8, 3).await?;
            }
            link.flush().await?;
            write(&link, 6, 1, 4).await?;
            link.discard(Blocks { start: Block(8), count: 9 }).await?;
            assert_eq!(read(&link, 4, 12).await?, [0, 1, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
            let extent = |at, data| Extent { at: Block(at), data: Data::Bytes(data) };
            let (five, six) = ([5; 1024], [6; 512]);
            let group = [extent(15, &five[..]), extent(11, &six[..]), extent(13, &six[..])];
            link.write_atomic(&group).await.unwrap();
            assert_eq!(read(&link, 8, 9).await?, [0, 0, 0, 6, 0, 6, 0, 5, 5]);
            let holes = link.allocation(Blocks { start: Block(27), count: 500 }).await?;
            assert_eq!((holes.hole, holes.blocks), (true, 133));
            drive.cut();
            drive.power_on().await?;
            let link = drive.device();
            if link.caps().ack.survives() {
                assert_eq!(read(&link, 4, 5).await?, [0, 1, 4, 2, 0]);
            }
            assert_eq!(read(&link, 11, 1).await?, [6]);
            Ok(())
        });
        assert!(stats.merged_sectors > 4 && stats.rest_reads <= stats.flash_reads, "{stats:?}");
        assert_eq!(stats.host_write_bytes, 512 * (10 + 2 + 480 + 1 + 4), "{stats:?}");
    }
}

/// Eight hosts write the eight blocks of one sector, which is on flash, at the same time.
#[test]
fn writes_of_one_sector_at_the_same_time_do_not_undo_each_other() {
    for preset in ["durassd", "volatile", "spartan-e"] {
        let stats = on(&with_blocks(tiny(preset), 512), async |_, link| {
            write(&link, 0, 8, 1).await?;
            for i in 0..60 {
                write(&link, 160 + 8 * i, 8, 3).await?;
            }
            link.flush().await?;
            let all = (0..8).map(|i| write(&link, i, 1, 10 + i as u8)).collect();
            join_all(all).await.into_iter().collect::<Result<(), _>>()?;
            assert_eq!(read(&link, 0, 8).await?, [10, 11, 12, 13, 14, 15, 16, 17]);
            Ok(())
        });
        assert!(stats.rest_reads >= 8 && stats.merged_sectors >= 8, "{stats:?}");
    }
}

#[test]
fn what_cannot_be_is_told() {
    let runtime = Runtime::virtual_time(1);
    let told = |design: &Design, payload| {
        Drive::new(&runtime.handle(), design, payload).err().unwrap().to_string()
    };
    let small = with_blocks(tiny("durassd"), 512);
    assert!(told(&small, Payload::Stamps).contains("keeps bytes"));
    let mut shears = with_blocks(tiny("volatile"), 512);
    shears.cache.shear_bytes = 512;
    assert!(told(&shears, Payload::Bytes).contains("cache.shear_bytes 512"));
    let mut full = small;
    full.cache.atomic_unit_kib = full.cache.buffer_kib;
    assert!(told(&full, Payload::Bytes).contains("one sector more"));
}
