//! Signals to processes that a test has started.

use rustix::process::{Pid, kill_process};
use std::process::Child;

pub use rustix::process::Signal;

/// Sends a signal to a process that nobody has waited for yet. (Not by the program `kill`, which a
/// small system lacks.)
///
/// # Panics
/// If it cannot be sent.
pub fn send(signal: Signal, to: &Child) {
    kill_process(Pid::from_child(to), signal).expect("the signal is sent");
}
