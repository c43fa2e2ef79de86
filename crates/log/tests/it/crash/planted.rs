//! The tests prove themselves: each defect that can be planted in a log is found, and the same runs
//! are clean without one.

use super::cuts::{busy, every_cut, lives};
use super::loss::every_loss;
use super::rig::Shape;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tantalum_log::{Defect, plant};
use tantalum_rt::Nanos;

/// Runs that should find this defect.
fn hunt(defect: Defect, run: u64) -> Result<(), String> {
    let short = Nanos::from_millis(12);
    let slow = || {
        let mut shape = Shape { slow: 6, ..Shape::volatile(3) };
        shape.work.records = 30;
        shape
    };
    let archive = || Shape { archive: true, ..Shape::volatile(2) };
    match defect {
        Defect::AckedBeforeEarlier | Defect::SecondStreamSkipped => {
            every_cut(&slow(), run, short).map(drop)
        }
        Defect::ArchiveBeforeFlush => every_cut(&archive(), run, short).map(drop),
        Defect::OneDeviceTwice => {
            let shape = Shape { copies: 2, partitions: 2, bytes: 200 << 10, ..Shape::volatile(2) };
            every_loss(&shape, run, short).map(drop)
        }
        Defect::DestagedWithoutFlush => Ok(()),
        Defect::ShorterBlockWins
        | Defect::StaleEpochCounts
        | Defect::EpochOnOneDevice
        | Defect::SectionReusedEarly
        | Defect::WatermarkAhead => lives(&busy(3), run, 20).map(drop),
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
    // That of the volume is its own tests'.
    let of_the_log = |d: &&Defect| **d != Defect::DestagedWithoutFlush;
    for defect in Defect::ALL.iter().filter(of_the_log) {
        plant(None);
        if let Some(wrong) = found(*defect, 2) {
            panic!("without {defect:?}: {wrong}");
        }
        plant(Some(*defect));
        let found = found(*defect, 12);
        plant(None);
        match found {
            Some(how) => println!("{defect:?}: {how}"),
            None => panic!("{defect:?} is not found"),
        }
    }
}
