//! Experiments: their files, their rows, and what is reported of them.

mod atomic;
mod benchmarks;
mod block_rows;
mod calibration;
mod contract_page;
mod crash_file;
#[path = "../../../drive/tests/it/designs.rs"]
#[allow(dead_code, reason = "the tests of drives use all of it")]
mod designs;
mod determinism;
mod disorder;
mod engines;
mod full;
mod hangs;
mod keys;
mod record;
mod reports;
mod rows;
mod sampled_rows;
mod spartan;
mod thin;
mod traces;
