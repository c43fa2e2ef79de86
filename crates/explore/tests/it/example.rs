//! The example of `docs/crash.md` does what it says.

#[path = "../../examples/kv.rs"]
#[allow(dead_code)]
pub(crate) mod kv;

use kv::{Store, blank, explore};
use tantalum_explore::Built;
use tantalum_rt::{Nanos, Rt};

fn store(build: fn(&Rt) -> Result<Store, String>) -> Built<Store> {
    Built { rust: "store", blocks: 64, step: Nanos::from_micros(50), build }
}

#[test]
fn a_store_of_ones_own_keeps_its_promise() {
    for seed in 0..12 {
        let cuts = explore(store(|rt| blank(rt, true)), seed).unwrap();
        assert!(cuts > 100, "seed {seed}: {cuts}");
    }
}

#[test]
fn a_store_that_leaves_what_is_behind_the_hole_is_found() {
    let found = (0..12).find_map(|seed| explore(store(|rt| blank(rt, false)), seed).err());
    let found = found.expect("records of an earlier life come back");
    assert!(found.failure.to_string().contains("was never so"), "{found:?}");
}
