//! An unmodified SQLite on simulated devices.

mod batch;
mod common;
mod crash;
mod guest;
