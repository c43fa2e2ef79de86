//! Atomic groups: many at once, of many sizes, cut anywhere; and what only they can meet.

use crate::designs::with_spare;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Data, DataMut, Extent, Payload, PowerCycle,
};
use tantalum_drive::{Design, Drive, GroupScheme};
use tantalum_explore::{Command, DriveBlueprint, Ingredients, Nesting, Scenario, Tally};
use tantalum_rt::{Nanos, Runtime, Stream};

/// Groups that take long, since programs fail while they are under way: the units into which
/// some of their pages went are bad then, and these are moved before the others are on flash.
pub fn moving(preset: &str, run: u64) -> Scenario<DriveBlueprint> {
    let mut design = with_spare(preset);
    design.cache.buffer_kib = 128;
    design.geometry.blocks = 80;
    design.geometry.pages = 8;
    design.space.over_provisioning = 600.0;
    let what = Ingredients { hosts: 2, commands: 0, ..Ingredients::default() };
    let mut scenario =
        what.scenario(DriveBlueprint { design, payload: Payload::Stamps }, run).unwrap();
    for group in 0..10 {
        scenario.commands.extend([
            Command::Group((group * 7 + run) % 60, 16, 1),
            Command::Pause(1400 + group * 137 % 1300),
            Command::FailProgram,
            Command::Pause(1300),
            Command::FailProgram,
            Command::Pause(1300),
            Command::FailProgram,
        ]);
    }
    scenario
}

#[test]
fn pages_of_a_group_may_move_before_it_is_whole() {
    for preset in ["volatile", "ssd-a", "baseline"] {
        let scenario = moving(preset, 1);
        let stats = scenario.run(Drive::stats).unwrap();
        assert!(stats.group_moved_bytes >= 4 * 4096 && stats.host_groups == 10, "{stats:?}");
        let points: Vec<_> = scenario.points(100).unwrap().into_iter().enumerate().collect();
        let nesting = Nesting { depth: 1, inner: 2, stride: 16 };
        let found = scenario.explore(&points, nesting, &mut Tally::default(), &|| ());
        found.unwrap_or_else(|found| panic!("{preset}: {found:?}"));
    }
}

/// A drive that takes groups of 256 scattered pages, with several of them under way.
fn large(preset: &str) -> Design {
    let base = Design::preset(preset).unwrap();
    let table: toml::Table = format!(
        "[geometry]\nchannels = 2\npackages = 1\nchips = 2\nplanes = 2\nblocks = 48\npages = 16\npage_bytes = 8192\n\
         [space]\nover_provisioning = 180.0\n[cache]\nbuffer_kib = 2048\natomic_unit_kib = {}\n\
         [map]\ndirty_max = 2048\nwrite_points = 2\ndump_units = {}",
        if base.is_protected() { 16 } else { 4 },
        if base.is_protected() { 12 } else { 0 },
    )
    .parse()
    .unwrap();
    base.with_overrides(&table).unwrap()
}

/// All presets, and some of them with flags instead of records.
fn designs() -> impl Iterator<Item = Design> {
    let flagged = ["volatile", "baseline", "ssd-a"].into_iter().map(|preset| {
        let mut design = large(preset);
        design.atomic.scheme = GroupScheme::Flag;
        design
    });
    Design::presets().iter().map(|preset| large(preset)).chain(flagged)
}

#[test]
fn groups_of_up_to_256_extents_are_whole_or_not_there() {
    for design in designs() {
        let preset = format!("{} {:?}", design.name, design.atomic.scheme);
        let mut what = Ingredients { hosts: 6, commands: 60, ..Ingredients::default() };
        (what.mix.group, what.max_extents) = (12, 256);
        let scenario =
            what.scenario(DriveBlueprint { design, payload: Payload::Stamps }, 7).unwrap();
        assert!(scenario.run(Drive::stats).unwrap().host_groups > 15, "{preset}");
        let mut points: Vec<_> = scenario.points(20).unwrap().into_iter().enumerate().collect();
        let mut dice = Stream::new(7, "points");
        while points.len() > 40 {
            points.remove(dice.below(points.len() as u64) as usize);
        }
        let found = scenario.explore(&points, Nesting::default(), &mut Tally::default(), &|| ());
        found.unwrap_or_else(|found| panic!("{preset}: {found:?}"));
    }
}

#[test]
fn what_can_not_be_a_group_is_refused_with_the_limit() {
    for preset in Design::presets() {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, &large(preset), Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let limit = device.caps().atomic_group.expect("all presets take groups");
            assert!(limit.extents >= 256 && limit.bytes >= 256 * 4096, "{limit:?}");
            let data = vec![7; limit.bytes as usize / 4096 + 1];
            let one = |at, count| Extent { at: Block(at), data: Data::Stamps(&data[..count]) };
            let refused = device.write_atomic(&[one(0, data.len())]).await.unwrap_err();
            let message = refused.to_string();
            assert!(message.contains(&format!("{} bytes", limit.bytes)), "{message}");
            let many: Vec<_> = (0..u64::from(limit.extents) + 1).map(|i| one(2 * i, 1)).collect();
            let refused = device.write_atomic(&many).await.unwrap_err();
            assert!(matches!(refused, AtomicError::TooLarge { .. }), "{refused}");
            let overlap = device.write_atomic(&[one(4, 3), one(0, 2), one(6, 1)]).await;
            assert_eq!(overlap, Err(AtomicError::Overlap(Block(6))));
            assert_eq!(drive.stats().host_write_bytes, 0);
            // One that was never polled was never submitted.
            drop(device.write_atomic(&[one(0, 2), one(9, 2)]));
            rt.sleep(Nanos::from_millis(50)).await;
            let mut room = [1; 16];
            device.read(Block(0), DataMut::Stamps(&mut room)).await.unwrap();
            assert_eq!(room, [0; 16]);
        };
        runtime.block_on(test).unwrap();
    }
}

/// A read sees all of a group or nothing, at any time.
#[test]
fn reads_see_whole_groups() {
    for design in designs() {
        let preset = format!("{} {:?}", design.name, design.atomic.scheme);
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let writer = rt.spawn("the writer", {
                let device = device.clone();
                async move {
                    for round in 1..40u64 {
                        let stamp = [round];
                        let one = |i: u64| Extent { at: Block(i * 5), data: Data::Stamps(&stamp) };
                        let group: Vec<_> = (0..20).map(one).collect();
                        device.write_atomic(&group).await.unwrap();
                    }
                }
            });
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..400 {
                let mut room = [0; 96];
                device.read(Block(0), DataMut::Stamps(&mut room)).await.unwrap();
                let of_group: Vec<u64> = room.iter().step_by(5).copied().collect();
                assert!(of_group.iter().all(|s| *s == of_group[0]), "{preset}: {of_group:?}");
                seen.insert(of_group[0]);
                rt.sleep(Nanos::from_micros(37)).await;
            }
            writer.await.unwrap();
            assert!(seen.len() > 5, "{preset}: {seen:?}");
        };
        runtime.block_on(test).unwrap();
    }
}
