//! The tests prove themselves: defects that are planted in the cache are found below a volume.

use super::cuts::{every_cut, every_cut_and_loss};
use super::rig::Shape;
use tantalum_cache::{Defect, plant};
use tantalum_rt::Nanos;

fn is_found(defect: Defect, hunt: impl Fn(u64) -> Result<usize, String>) {
    plant(Some(defect));
    let found = (90..130).find_map(|seed| hunt(seed).err());
    plant(None);
    match found {
        Some(how) => println!("{how}"),
        None => panic!("{defect:?} is not found"),
    }
}

fn cuts(seed: u64) -> Result<usize, String> {
    every_cut(&Shape::volatile(), seed, Nanos::from_millis(12))
}

#[test]
fn a_batch_that_is_released_before_the_slow_device_was_flushed_is_found() {
    is_found(Defect::FrontBeforeSlowFlush, cuts);
}

#[test]
fn a_superseded_version_that_is_dropped_early_is_found() {
    is_found(Defect::SupersededDroppedEarly, cuts);
}

#[test]
fn a_flush_under_write_through_that_leaves_out_what_was_superseded_meanwhile_is_found() {
    is_found(Defect::SupersededNotCleaned, every_cut_and_loss);
}
