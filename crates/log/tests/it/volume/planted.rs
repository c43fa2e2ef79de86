//! The tests prove themselves: the defect that can be planted in a volume is found.

use super::cuts::every_cut;
use super::rig::Shape;
use tantalum_log::{Defect, plant};
use tantalum_rt::Nanos;

#[test]
fn destaging_without_a_flush_is_found() {
    let hunt = |seed| every_cut(&Shape::tight(1), seed, Nanos::from_millis(8));
    let clean = hunt(90);
    assert!(clean.is_ok(), "without a defect: {clean:?}");
    plant(Some(Defect::DestagedWithoutFlush));
    let found = (90..110).find_map(|seed| hunt(seed).err());
    plant(None);
    match found {
        Some(how) => println!("{how}"),
        None => panic!("it is not found"),
    }
}
