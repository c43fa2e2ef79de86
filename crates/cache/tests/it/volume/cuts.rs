//! Short runs cut at every moment, and their recoveries cut again.

use super::rig::{Rig, Shape};
use tantalum_cache::flash::{Admit, Replacement};
use tantalum_device::Ack;
use tantalum_rt::{Nanos, Stream};

const WORKERS: u64 = 3;
const COMMANDS: u64 = 40;

/// Cuts a run at each of its moments, and starts what is left; and once more, after a cut while it
/// starts.
pub fn every_cut(shape: &Shape, seed: u64, until: Nanos) -> Result<usize, String> {
    let moments = Rig::moments(shape, seed, WORKERS, COMMANDS, until);
    let mut dice = Stream::new(seed, "cuts");
    let mut rig = Rig::start(shape, seed, WORKERS, COMMANDS);
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
fn every_cut_back_and_through() {
    hold(&Shape::volatile(), 1);
    hold(&Shape::through(), 2);
}

#[test]
fn every_cut_with_parts_of_pages_and_torn_blocks() {
    hold(&Shape { atomic: 64, ..Shape::wide() }, 3);
    hold(&Shape { atomic: 64, mode: Shape::through().mode, ..Shape::wide() }, 4);
}

#[test]
fn every_cut_without_second_chances() {
    hold(&Shape { replacement: Replacement::Basic, ..Shape::volatile() }, 5);
    hold(&Shape { replacement: Replacement::Basic, ..Shape::through() }, 6);
}

#[test]
fn every_cut_while_only_dirty_pages_enter() {
    hold(&Shape { admit: Admit::Dirty, ..Shape::volatile() }, 13);
    hold(&Shape { admit: Admit::Dirty, mode: Shape::through().mode, ..Shape::wide() }, 14);
}

#[test]
fn every_cut_over_devices_that_keep_what_they_acknowledged() {
    hold(&Shape { ack: Ack::PowerSafe, ..Shape::wide() }, 7);
}

/// With write-through every cut may lose the flash device, too: at once, or once the volume has
/// started again.
pub fn every_cut_and_loss(seed: u64) -> Result<usize, String> {
    let (shape, until) = (Shape::through(), Nanos::from_millis(8));
    let moments = Rig::moments(&shape, seed, WORKERS, COMMANDS, until);
    let mut rig = Rig::start(&shape, seed, WORKERS, COMMANDS);
    for (i, moment) in moments.iter().enumerate() {
        rig.runtime.run_until(*moment).map_err(|e| e.to_string())?;
        // The check starts twice: the flash device is gone the second time.
        rig.shape.loses_flash = 1;
        let what = |when, e| format!("seed {seed}, cut {i}: lost {when}: {e}");
        let mut first = rig.cut_copy(seed ^ i as u64);
        first.boxes.flash.lose();
        first.check().map_err(|e| what("at once", e))?;
        let mut later = rig.cut_copy(seed ^ i as u64);
        later.check().map_err(|e| what("later", e))?;
    }
    Ok(moments.len())
}

#[test]
fn every_cut_may_lose_the_flash_device_under_write_through() {
    for seed in 8..12 {
        match every_cut_and_loss(seed) {
            Ok(cuts) => assert!(cuts > 60, "{cuts} cuts only"),
            Err(e) => panic!("{e}"),
        }
    }
}
