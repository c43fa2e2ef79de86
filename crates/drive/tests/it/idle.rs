//! Collection while the host is idle.

use crate::designs::small;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, Payload, PowerCycle};
use tantalum_drive::{Design, Drive, DriveLink};
use tantalum_nand::{OpKind, OpRecord};
use tantalum_rt::{Nanos, Rt, Runtime};

fn design(preset: &str, background: u32) -> Design {
    let small = small(preset);
    // (Of a drive with summaries one row of eight is not for data.)
    let percent = match () {
        () if small.map.summary => 112,
        () if small.is_protected() => 84,
        () => 80,
    };
    let table = format!(
        "space.background_below = {background}\nspace.idle_us = 5000\nspace.over_provisioning = {percent}"
    );
    small.with_overrides(&table.parse().unwrap()).unwrap()
}

/// Many random writes at a time; how long they took.
async fn burst(rt: &Rt, device: &DriveLink, writes: u64, seed: u64) -> Nanos {
    let began = rt.now();
    let left = Rc::new(Cell::new(writes));
    let tasks: Vec<_> = (0..16)
        .map(|i| {
            let (device, left) = (device.clone(), left.clone());
            let mut dice = rt.stream(&format!("burst {seed} {i}"));
            rt.spawn("writer", async move {
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let at = Block(dice.below(device.caps().blocks));
                    let stamp = [left.get()];
                    device.write(at, Data::Stamps(&stamp), Durability::Normal).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    rt.now() - began
}

/// Fills the drive and writes it over, rests, and writes a burst: free units before and
/// after the rest, and the burst's time.
async fn rest_and_burst(rt: Rt, drive: Drive) -> (u64, u64, Nanos) {
    drive.power_on().await.unwrap();
    let device = drive.device();
    let blocks = device.caps().blocks;
    for at in 0..blocks {
        device.write(Block(at), Data::Stamps(&[at]), Durability::Normal).await.unwrap();
    }
    burst(&rt, &device, 2 * blocks, 1).await;
    rt.sleep(Nanos::from_millis(1)).await;
    let before = drive.stats().free_units;
    rt.sleep(Nanos::from_secs(5)).await;
    let after = drive.stats().free_units;
    (before, after, burst(&rt, &device, 600, 2).await)
}

/// After an idle time there are more free units, and the next burst is through sooner.
#[test]
fn idle_times_are_used() {
    for preset in Design::presets() {
        let run = |background| {
            let mut runtime = Runtime::virtual_time(5);
            let rt = runtime.handle();
            let drive = Drive::new(&rt, &design(preset, background), Payload::Stamps).unwrap();
            let d = drive.clone();
            let out = runtime.block_on(rest_and_burst(rt, drive)).unwrap();
            (out, d.stats())
        };
        let ((before, rested, slow), stats) = run(0);
        assert_eq!(stats.background_bytes, 0);
        assert!(rested <= 16, "{preset}: {before} to {rested} by itself");
        let ((before, after, quick), stats) = run(8);
        println!("{preset}: {before} to {after} free units; {slow:?} and {quick:?}; {stats:?}");
        assert!(after > rested + 6, "{preset}: {before} to {after}");
        assert!(stats.background_bytes > 0 && quick < slow, "{preset}: {slow:?} to {quick:?}");
    }
}

/// The longest that a read of one sector takes when the host was idle before. (If it may suspend
/// what is under way it takes that long only where others have done so too often.)
fn longest_read(design: &Design) -> Nanos {
    let (t, g, link) = (&design.timing, &design.geometry, &design.link);
    let longest = |of: &dyn Fn(u32) -> Nanos| (0..g.pages).map(of).max().unwrap();
    let rows = u64::from(design.map.write_points);
    // The channel serves whoever asks first: a row of the collector of each of its dies, and the
    // rows of the map log.
    let row = t.transfer(u64::from(g.planes * (g.page_bytes + g.oob_bytes)));
    let turn = Nanos(row.0 * (u64::from(g.dies() / g.channels) + rows));
    // The data of a row move while the one before it is programmed.
    let program = longest(&|row| t.program(row)).max(turn);
    // The collector erases a unit, or programs a row and perhaps the unit's summary behind it.
    let summary = u64::from((g.unit_pages() - design.data_pages()) / g.planes);
    let collector = t.erase().max(turn + Nanos((1 + summary) * program.0));
    // The map log writes a row at each write point, and these may be on one die; or it erases its
    // oldest unit to have room.
    let log = t.erase().max(Nanos(rows * program.0));
    let own = longest(&|row| t.read(row, 1, g.page_sectors(), 0..1))
        + turn
        + t.transfer(u64::from(4096 + g.oob_bytes));
    let over_link = Nanos(link.occupancy_ns + link.latency_ns + 4096 * 1000 / link.mb_s);
    collector + log + own + over_link
}

/// A read that comes in the middle of it waits for one operation of the collector, at most, and
/// perhaps one step of the map log. Both may be erases, and on one die: collectors ask the log
/// to make durable what they erase, and its oldest unit has to go when it is full.
#[test]
fn a_read_waits_for_one_operation() {
    for preset in Design::presets() {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let design = design(preset, 8);
        let most = longest_read(&design);
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let blocks = device.caps().blocks;
            let mut dice = rt.stream("reads");
            let mut in_the_middle = 0;
            for round in 0..100 {
                burst(&rt, &device, blocks / 2, round).await;
                device.flush().await.unwrap();
                // What had to be collected is; then the host is idle.
                rt.sleep(Nanos::from_micros(5000 + dice.below(60_000))).await;
                let moved = drive.stats().background_bytes;
                rt.sleep(Nanos::from_micros(1000)).await;
                in_the_middle += u64::from(drive.stats().background_bytes > moved);
                let began = rt.now();
                let mut room = [0];
                device.read(Block(dice.below(blocks)), DataMut::Stamps(&mut room)).await.unwrap();
                let took = rt.now() - began;
                assert!(took <= most, "{preset}, round {round}: {took:?}, not {most:?}");
            }
            assert!(in_the_middle > 5, "{preset}: {in_the_middle}");
        };
        runtime.block_on(test).unwrap();
    }
}

/// When the host is back no more is done for a unit that was collected because it was idle: if
/// it waited for the map log until then, it is not erased.
#[test]
fn nothing_is_begun_when_the_host_is_back() {
    for preset in Design::presets() {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        // With so much room, and rests so long, that no die is short of it; and idle is only who has
        // not sent anything for longer than any read takes.
        let roomy = "space.over_provisioning = 200\nspace.idle_us = 50000".parse().unwrap();
        let design = design(preset, 8).with_overrides(&roomy).unwrap();
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        let test = async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let blocks = device.caps().blocks;
            let mut dice = rt.stream("the host is back");
            burst(&rt, &device, 3 * blocks, 0).await;
            drive.array().record_ops();
            let mut in_the_middle = 0;
            for round in 1..=100 {
                rt.sleep(Nanos::from_secs(1)).await;
                burst(&rt, &device, blocks / 16, round).await;
                device.flush().await.unwrap();
                rt.sleep(Nanos::from_micros(50_000 + dice.below(25_000))).await;
                let (before, now) = (drive.stats(), rt.now());
                let erases = |op: &&OpRecord| op.kind == OpKind::Erase && op.end > now;
                let under_way = drive.array().take_ops().iter().filter(erases).count() as u64;
                for _ in 0..50 {
                    let mut room = [0];
                    let at = Block(dice.below(blocks));
                    device.read(at, DataMut::Stamps(&mut room)).await.unwrap();
                    rt.sleep(Nanos::from_micros(500)).await;
                }
                let after = drive.stats();
                in_the_middle += u64::from(under_way > 0);
                assert_eq!(after.background_bytes, before.background_bytes, "{preset}, {round}");
                assert!(
                    after.free_units <= before.free_units + under_way,
                    "{preset}, round {round}: {} to {} free units with {under_way} erases under way",
                    before.free_units,
                    after.free_units
                );
            }
            assert!(in_the_middle > 5, "{preset}: {in_the_middle}");
        };
        runtime.block_on(test).unwrap();
    }
}
