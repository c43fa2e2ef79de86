//! Whether a served drive keeps its promises when its power is cut under load.
//!
//! A client with many requests under way writes, forces, zeroes, trims, flushes and reads
//! overlapping ranges. Then the server is killed, or the power is cut over its control socket, or
//! this happens again while it starts. After that every sector is read, and `tantalum_oracle`
//! judges it by the promises of the design.
//!
//! 1. **What is judged.** A sector holds a write that may have happened. It is not older than the
//!    design promises: the last acknowledged write, if acknowledged writes survive; otherwise the
//!    last one forced or flushed. A write is all or nothing in each atomic unit. Zeroed or trimmed
//!    sectors read as zeros; like writes, these commands are lost only if that is allowed. A read
//!    under load sees nothing older than the last write that was complete before it began.
//! 2. **What is not judged** is the order of concurrent writes: the protocol has none, so an
//!    ordered design promises none here.
//! 3. **The moment** of an outage is a number of finished commands, so a slow machine does not
//!    change it much. The rest depends on real time: a seed repeats the commands and the kinds of
//!    outages, but not the exact run.
//!
//! `TANTALUM_NBD_SEED` repeats a seed; `TANTALUM_NBD_ROUNDS` sets the number of outages of each
//! design (3 by default).

mod client;
mod device;
mod drives;
mod lies;
mod load;
mod run;
mod server;

use lies::Lie;
use run::{Plan, rounds, run, seed};
use tantalum_oracle::Violation;

/// Each design, with its time scale.
fn every_design(time_scale: u32, commands: (u64, u64)) {
    let seed = seed();
    for &design in tantalum_drive::Design::presets() {
        let plan = Plan {
            design,
            time_scale,
            seed,
            rounds: rounds(),
            commands,
            lie: Lie::Nothing,
            wanted: |_| true,
        };
        let found = run(&plan);
        assert!(found.is_empty(), "{plan}: {found:#?}");
    }
}

#[test]
fn every_design_keeps_its_word_as_fast_as_can_be() {
    every_design(0, (100, 3000));
}

#[test]
fn every_design_keeps_its_word_in_real_time() {
    every_design(1, (100, 1200));
}

/// Whether the oracle finds the lies of a server.
fn finds(design: &'static str, lie: Lie, wanted: fn(&Violation) -> bool) {
    // At time scale 0 data hardly stays in a volatile cache.
    let time_scale = 1;
    let plan =
        Plan { design, time_scale, seed: seed(), rounds: 40, commands: (300, 900), lie, wanted };
    let found = run(&plan);
    assert!(found.iter().any(wanted), "{plan}, with {lie:?}: {found:#?}");
}

#[test]
fn a_forced_write_that_is_dropped_is_found() {
    for design in ["durassd", "volatile"] {
        finds(design, Lie::ForcedWritesAreDropped, |v| {
            matches!(v, Violation::Lost { .. } | Violation::StaleRead { .. })
        });
    }
}

/// Only a power loss shows these.
#[test]
fn a_volatile_cache_that_does_not_force_or_flush_is_found() {
    for lie in [Lie::ForcedWritesAreNotForced, Lie::FlushesAreSkipped] {
        finds("volatile", lie, |v| matches!(v, Violation::Lost { .. }));
    }
}

#[test]
fn an_old_version_that_is_read_is_found() {
    finds("durassd", Lie::OldVersionsAreRead, |v| matches!(v, Violation::StaleRead { .. }));
}

#[test]
fn an_atomic_write_that_is_torn_is_found() {
    for design in ["durassd", "volatile"] {
        finds(design, Lie::WritesAreTorn, |v| matches!(v, Violation::Torn { .. }));
    }
}

#[test]
fn what_was_trimmed_and_comes_back_is_found() {
    for design in ["durassd", "volatile"] {
        finds(design, Lie::TrimsComeBack, |v| {
            matches!(v, Violation::DiscardUndone { .. } | Violation::Resurrected { .. })
        });
    }
}
