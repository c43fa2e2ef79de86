//! Whether a served drive keeps its word when its power goes under load.
//!
//! A client with many requests under way writes, forces, zeroes, trims, flushes and reads ranges that overlap.
//! Then the server is killed, or the power is cut over its control socket, or both happen again while it starts.
//! After that every sector is read and judged by `tantalum_oracle`, with what the design promises.
//!
//! 1. **What is judged.** A sector holds a write that may have happened. It is not older than what the design
//!    promises to keep: what was acknowledged, if the ack survives; else what was forced or flushed. A write is
//!    all or nothing in each atomic unit. What was zeroed or trimmed reads as zeros, and comes back no more than a
//!    write is lost. A read under load sees nothing older than what was complete before it began.
//! 2. **What is not judged** is the order of writes that were under way together: the protocol has none, and so
//!    an ordered design promises none here.
//! 3. **The moment** of an outage is a number of finished commands, so that a slow machine does not change it much.
//!    The clock of the machine decides the rest: a seed repeats commands and kinds of outages, but not to the letter.
//!
//! `TANTALUM_NBD_SEED` repeats a seed, `TANTALUM_NBD_ROUNDS` asks for more outages of each design than three.

#![allow(clippy::disallowed_methods, reason = "tests start programs and open sockets")]

#[path = "../common/mod.rs"]
mod common;

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

/// Each design, with this real time for each second of the drive's.
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

/// Whether the judge finds what a server that lies does.
fn finds(design: &'static str, lie: Lie, wanted: fn(&Violation) -> bool) {
    // As fast as can be, hardly anything is in a volatile cache for long.
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
