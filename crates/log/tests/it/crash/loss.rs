//! Devices that are lost, fail or do not answer, while the log runs and between its lives.

use super::rig::{Rig, Shape};
use tantalum_log::OpenOptions;
use tantalum_rt::Nanos;

/// Cuts a run now and then, and opens what is left without one of the devices.
pub fn every_loss(shape: &Shape, seed: u64, until: Nanos) -> Result<usize, String> {
    let moments = Rig::moments(shape, seed, until);
    let mut rig = Rig::new(shape, seed);
    let owner = rig.start();
    let all = rig.devices.len();
    for (i, moment) in moments.iter().enumerate() {
        rig.runtime.run_until(*moment).map_err(|e| e.to_string())?;
        let lost = i % all;
        let mut cut = rig.cut_copy(Some(&owner), seed ^ i as u64);
        let options = OpenOptions { degraded: true, ..shape.open_options() };
        cut.check_with(options, |d| d != lost)
            .map_err(|e| format!("seed {seed}, cut {i} at {moment}, without {lost}: {e}"))?;
        // What an opening with all devices has found is on two of them from then on.
        let mut whole = rig.cut_copy(Some(&owner), seed ^ i as u64);
        whole.check().map_err(|e| format!("seed {seed}, cut {i}: {e}"))?;
        let mut less = whole.cut_copy(None, seed + i as u64);
        let options = OpenOptions { degraded: true, ..shape.open_options() };
        less.check_with(options, |d| d != lost)
            .map_err(|e| format!("seed {seed}, cut {i}, {lost} is lost later: {e}"))?;
        // The device that was left out is known to be, when it is there again.
        let mut again = cut.cut_copy(None, seed + i as u64);
        again.check().map_err(|e| format!("seed {seed}, cut {i}, {lost} is back: {e}"))?;
    }
    Ok(moments.len())
}

#[test]
fn two_copies_survive_the_loss_of_any_device_at_any_cut() {
    let shapes = [
        Shape { copies: 2, ..Shape::volatile(2) },
        Shape { copies: 2, slow: 8, ..Shape::volatile(3) },
        Shape { copies: 2, archive: true, ..Shape::volatile(3) },
        Shape { copies: 2, partitions: 2, bytes: 200 << 10, ..Shape::volatile(2) },
    ];
    for (i, shape) in shapes.iter().enumerate() {
        let cuts = every_loss(shape, 300 + i as u64, Nanos::from_millis(10));
        assert!(cuts.unwrap_or_else(|e| panic!("{e}\n{shape:?}")) > 30);
    }
}
