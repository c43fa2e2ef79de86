//! The tests prove themselves: each defect that can be planted in a cache is found, and the same
//! runs are clean without one.

use super::cuts::{every_cut, lives};
use super::model::Work;
use super::rig::Shape;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tantalum_cache::flash::Admit;
use tantalum_cache::{Defect, plant};
use tantalum_device::Ack;
use tantalum_rt::Nanos;

/// Runs that should find this defect.
fn hunt(defect: Defect, run: u64) -> Result<(), String> {
    let laps = |changes, forgets| {
        let mut shape = Shape::volatile();
        shape.work = Work { steps: 150, clients: 5, changes, forgets, ..shape.work };
        shape
    };
    match defect {
        Defect::ChecksumNotCompared | Defect::VouchesInFlight => {
            every_cut(&laps(4, 0), run, Nanos::from_millis(20), 3).map(drop)
        }
        Defect::RebuiltTakenForClean | Defect::CleanMarkLeft => {
            lives(&Shape { closes: 1, ..laps(3, 0) }, run, 12).map(drop)
        }
        Defect::PastWithoutTombstone => {
            lives(&Shape { admit: Admit::Clean, ..laps(2, 0) }, run, 12).map(drop)
        }
        Defect::TombstoneForgotten => lives(&laps(3, 4), run, 12).map(drop),
        Defect::FrontBeforeSlowFlush => {
            every_cut(&laps(4, 0), run, Nanos::from_millis(40), 3).map(drop)
        }
        Defect::NoSpareBatch => {
            // Small batches and many clients, so that slots are needed soon.
            let mut shape = Shape { frames: 1, pages: 40, flash_bytes: 63 << 10, ..laps(4, 0) };
            shape.work.clients = 12;
            every_cut(&shape, run, Nanos::from_millis(60), 2).map(drop)
        }
        Defect::SupersededDroppedEarly => {
            let shape = Shape { pages: 40, ack: Ack::Volatile, ..laps(4, 0) };
            every_cut(&shape, run, Nanos::from_millis(60), 2).map(drop)
        }
        Defect::SecondChanceOvertakes | Defect::FdirtyForgotten | Defect::OneSegmentRescanned => {
            lives(&Shape { pages: 60, ..laps(3, 0) }, run, 15).map(drop)
        }
        Defect::SupersededNotCleaned | Defect::ExitsUnclaimed => {
            unreachable!("it shows below a volume")
        }
    }
}

/// What gives the defect away, within so many runs.
fn found(defect: Defect, runs: u64) -> Option<String> {
    (0..runs).find_map(|run| match catch_unwind(AssertUnwindSafe(|| hunt(defect, run))) {
        Ok(found) => found.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Some(text.unwrap_or_else(|| "a panic".to_string()))
        }
    })
}

#[test]
fn each_defect_is_found() {
    let mut missed = Vec::new();
    // Here nobody evicts a page while an eviction of it waits, and no host tells of exits:
    // `volume` and `explore.rs` find these.
    let of_volumes =
        |defect: &Defect| matches!(defect, Defect::SupersededNotCleaned | Defect::ExitsUnclaimed);
    for defect in Defect::ALL.iter().filter(|defect| !of_volumes(defect)) {
        plant(None);
        if let Some(wrong) = found(*defect, 2) {
            panic!("without {defect:?}: {wrong}");
        }
        plant(Some(*defect));
        let found = found(*defect, 16);
        plant(None);
        match found {
            Some(how) => println!("{defect:?}: {how}"),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
