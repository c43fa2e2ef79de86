//! Short runs cut at every moment, and their recoveries cut again.

use super::rig::{Rig, Shape};
use tantalum_device::Ack;
use tantalum_rt::{Nanos, Stream};

const WORKERS: u64 = 3;

/// Cuts a run at each of its moments, and starts what is left; and once more, after a cut while it
/// starts.
pub fn every_cut(shape: &Shape, seed: u64, until: Nanos) -> Result<usize, String> {
    // Of the largest commands two bring more than 4 MiB: much of it waits for memory.
    let commands = if shape.full_limits { 2 } else { 12 };
    let moments = Rig::moments(shape, seed, WORKERS, commands, until);
    let mut dice = Stream::new(seed, "cuts");
    let mut rig = Rig::start(shape, seed, WORKERS, commands);
    for (i, moment) in moments.iter().enumerate() {
        rig.runtime.run_until(*moment).map_err(|e| e.to_string())?;
        let what = |e| format!("seed {seed}, cut {i} at {moment}: {e}\n{shape:?}");
        rig.cut_copy(seed ^ i as u64).check().map_err(what)?;
        let mut again = rig.cut_copy(seed + i as u64);
        again.recover_for(Nanos(dice.below(12_000_000)));
        let again = again.cut_copy(seed ^ i as u64).check();
        again.map_err(|e| what(format!("the second time: {e}")))?;
    }
    let violations = rig.oracle.take_violations();
    match violations.first() {
        Some(v) => Err(format!("seed {seed}, while running: {v}\n{shape:?}")),
        None => Ok(moments.len()),
    }
}

fn hold(shape: &Shape, seed: u64) {
    match every_cut(shape, seed, Nanos::from_millis(8)) {
        Ok(cuts) => assert!(cuts > 60, "{cuts} cuts only"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn every_cut_over_one_to_three_devices() {
    for array in 1..=3 {
        hold(&Shape::volatile(array), array as u64);
    }
}

#[test]
fn every_cut_while_memory_is_short() {
    for seed in 10..12 {
        hold(&Shape::tight(2), seed);
    }
}

#[test]
fn every_cut_with_an_archive_or_copies() {
    hold(&Shape { archive: true, ..Shape::tight(2) }, 20);
    hold(&Shape { copies: 2, ..Shape::volatile(3) }, 21);
}

#[test]
fn every_cut_over_devices_that_keep_what_they_acknowledged() {
    let ack = Ack::PowerSafe;
    hold(&Shape { log_ack: ack, backing_ack: ack, ..Shape::tight(2) }, 30);
}

/// The limits that a volume has by itself: groups of 256 extents and 1 MiB, writes of 128 KiB.
#[test]
fn every_cut_of_the_largest_groups_and_writes() {
    let cuts = every_cut(&Shape::full(2), 40, Nanos::from_millis(40)).unwrap();
    assert!(cuts > 200, "{cuts} cuts only");
}
