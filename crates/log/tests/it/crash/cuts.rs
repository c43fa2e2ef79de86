//! Every cut point of short runs, cuts within recoveries, many laps, many epochs.

use super::model::Work;
use super::rig::{Rig, Shape};
use tantalum_device::Ack;
use tantalum_log::Barrier;
use tantalum_rt::{Nanos, Stream};

/// Cuts a run at each of its moments, and opens what is left.
pub fn every_cut(shape: &Shape, seed: u64, until: Nanos) -> Result<usize, String> {
    let moments = Rig::moments(shape, seed, until);
    let mut rig = Rig::new(shape, seed);
    let owner = rig.start();
    for (i, moment) in moments.iter().enumerate() {
        rig.runtime.run_until(*moment).map_err(|e| e.to_string())?;
        let mut cut = rig.cut_copy(Some(&owner), seed ^ i as u64);
        let what = |e| format!("seed {seed}, cut {i} at {moment}: {e}\n{shape:?}");
        cut.check().map_err(what)?;
        // Once more: nothing of the first recovery is lost, either.
        let mut again = cut.cut_copy(None, seed + i as u64);
        again.check().map_err(|e| what(format!("the second time: {e}")))?;
    }
    Ok(moments.len())
}

fn hold(shape: &Shape, seeds: std::ops::Range<u64>, millis: u64) {
    for seed in seeds {
        match every_cut(shape, seed, Nanos::from_millis(millis)) {
            Ok(cuts) => assert!(cuts > 30, "{cuts} cuts only"),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn every_cut_of_one_to_four_devices() {
    for array in 1..=4 {
        hold(&Shape::volatile(array), 0..2, 8);
    }
}

#[test]
fn every_cut_with_torn_blocks_and_flushes() {
    let shape = Shape { atomic: 64, barrier: Barrier::Flush, ..Shape::volatile(2) };
    hold(&shape, 10..13, 8);
}

#[test]
fn every_cut_with_blocks_of_4096_that_are_power_safe() {
    let shape = Shape {
        block: 4096,
        unit: 4096,
        atomic: 4096,
        bytes: 800 << 10,
        ack: Ack::PowerSafe,
        ..Shape::volatile(2)
    };
    hold(&shape, 20..22, 8);
}

#[test]
fn every_cut_with_an_archive() {
    let shape = Shape { archive: true, ..Shape::volatile(2) };
    hold(&shape, 30..33, 8);
}

#[test]
fn every_cut_with_copies_and_partitions() {
    hold(&Shape { copies: 2, ..Shape::volatile(3) }, 40..42, 8);
    hold(&Shape { partitions: 2, bytes: 200 << 10, ..Shape::volatile(1) }, 50..52, 8);
    let both = Shape { copies: 2, partitions: 2, bytes: 200 << 10, ..Shape::volatile(2) };
    hold(&Shape { archive: true, ..both }, 60..62, 8);
}

#[test]
fn every_cut_with_slow_writes() {
    let mut shape = Shape { slow: 6, ..Shape::volatile(3) };
    shape.work.records = 30;
    hold(&shape, 70..72, 20);
}

#[test]
fn every_cut_while_the_checkpoint_moves() {
    let mut shape = Shape { bytes: 64 << 10, slow: 10, ..Shape::volatile(2) };
    shape.work = Work { records: 60, checkpoints: 4, ..shape.work };
    hold(&shape, 80..81, 30);
    hold(&Shape { archive: true, ..shape }, 81..82, 30);
}

/// Lives of a log one after the other, each cut at random, some while it recovers; the ring goes
/// round many times.
pub fn lives(shape: &Shape, seed: u64, lives: u64) -> Result<u64, String> {
    let mut dice = Stream::new(seed, "lives");
    let mut rig = Rig::new(shape, seed);
    let mut end = 0;
    for life in 0..lives {
        let owner = rig.start();
        // Most recoveries are let through; some are cut.
        let span = if dice.chance(1, 4) { dice.below(6_000_000) } else { dice.below(60_000_000) };
        let until = rig.runtime.handle().now() + Nanos(span);
        if shape.stalls {
            stall_some(&mut rig, &mut dice, until)?;
        }
        rig.runtime.run_until(until).map_err(|e| e.to_string())?;
        if let Some(e) = owner.wrong.borrow().clone() {
            return Err(format!("seed {seed}, life {life}: {e}\n{shape:?}"));
        }
        let mut cut = rig.cut_copy(Some(&owner), dice.next_u64());
        if dice.chance(3, 4) {
            cut.check().map_err(|e| format!("seed {seed}, life {life}: {e}\n{shape:?}"))?;
        } else {
            cut.power_on();
        }
        end = end.max(cut.journal.borrow().acked.0);
        rig = cut;
    }
    Ok(end)
}

/// One device after the other does not answer for a while; the last may stay so.
fn stall_some(rig: &mut Rig, dice: &mut Stream, until: Nanos) -> Result<(), String> {
    loop {
        let now = rig.runtime.handle().now();
        let next = now + Nanos(dice.below(12_000_000));
        if next >= until {
            return Ok(());
        }
        rig.runtime.run_until(next).map_err(|e| e.to_string())?;
        let device = dice.below(rig.devices.len() as u64) as usize;
        match rig.devices[device].plan.stalled.get() {
            true => rig.devices[device].let_go(),
            false => rig.devices[device].plan.stalled.set(true),
        }
    }
}

pub fn busy(array: usize) -> Shape {
    let mut shape = Shape { bytes: 64 << 10, slow: 12, ..Shape::volatile(array) };
    shape.work = Work { writers: 4, records: 400, bytes: 2500, checkpoints: 6, reads: 40 };
    shape
}

#[test]
fn many_lives_and_many_laps() {
    for (i, array) in [1, 2, 3, 4].into_iter().enumerate() {
        let shape = busy(array);
        let end = lives(&shape, 100 + i as u64, 60).unwrap_or_else(|e| panic!("{e}"));
        let laps = end / (shape.bytes * array as u64);
        assert!(laps >= 2, "{laps} laps only");
    }
}

#[test]
fn many_lives_of_other_shapes() {
    let shapes = [
        Shape { archive: true, ..busy(2) },
        Shape { copies: 2, ..busy(3) },
        Shape { atomic: 64, barrier: Barrier::Flush, ..busy(2) },
        Shape { partitions: 2, bytes: 160 << 10, ..busy(2) },
        Shape { copies: 2, archive: true, partitions: 2, bytes: 160 << 10, ..busy(2) },
        Shape { ack: Ack::OnMedia, atomic: 512, ..busy(2) },
    ];
    for (i, shape) in shapes.iter().enumerate() {
        lives(shape, 200 + i as u64, 40).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// One seed, one run.
#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut rig = Rig::new(&Shape { archive: true, ..busy(3) }, seed);
        let _log = rig.start();
        rig.runtime.run_until(Nanos::from_millis(80)).unwrap();
        let rt = rig.runtime.handle();
        (rt.trace_hash(), rt.events())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

/// Once lost: what ended after the state of a new epoch had been sent, and no device took that in
/// time. And an archive that came back wanted bytes that memory had given up.
#[test]
fn many_lives_with_devices_that_do_not_answer() {
    let stalling = |shape| Shape { stall: Nanos::from_millis(1), stalls: true, ..shape };
    let shapes = [
        stalling(busy(1)),
        stalling(busy(3)),
        stalling(Shape { archive: true, ..busy(2) }),
        stalling(Shape { copies: 2, ..busy(3) }),
        stalling(Shape { copies: 2, archive: true, partitions: 2, bytes: 160 << 10, ..busy(2) }),
    ];
    for (i, shape) in shapes.iter().enumerate() {
        lives(shape, 400 + i as u64, 40).unwrap_or_else(|e| panic!("{e}"));
        // Seeds from 30400 on: openings with two copies gave up while a device did not answer.
        lives(shape, 30_400 + i as u64, 40).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Any shape.
fn any_shape(seed: u64) -> Shape {
    let mut dice = Stream::new(seed, "shape");
    let copies = 1 + dice.below(2) as u8;
    let partitions = 1 + dice.below(2) as u16;
    let (block, unit) = if dice.chance(1, 4) { (512, 1024) } else { (512, 512) };
    let mut shape = Shape {
        archive: dice.chance(1, 3),
        copies,
        partitions,
        block,
        unit,
        bytes: u64::from(partitions) * (96 << 10),
        atomic: [64, 512][dice.below(2) as usize],
        ack: [Ack::Volatile, Ack::Volatile, Ack::PowerSafe][dice.below(3) as usize],
        barrier: [Barrier::Auto, Barrier::Fua, Barrier::Flush][dice.below(3) as usize],
        slow: [0, 5, 20][dice.below(3) as usize],
        ..busy(u64::from(copies).max(1 + dice.below(4)) as usize)
    };
    shape.work.checkpoints = 2 + dice.below(12);
    shape.work.bytes = [200, 1000, 2900][dice.below(3) as usize];
    shape
}

#[test]
fn lives_of_any_shape() {
    for seed in 1000..1016 {
        lives(&any_shape(seed), seed, 15).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The same for long: `cargo test -p tantalum-log --test it crash:: -- --ignored`.
#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn lives_of_very_many_shapes() {
    for seed in 2000..3000 {
        lives(&any_shape(seed), seed, 25).unwrap_or_else(|e| panic!("{e}"));
    }
}
