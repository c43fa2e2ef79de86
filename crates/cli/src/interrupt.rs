//! What ends long work early: Ctrl-C (SIGINT), and SIGTERM, which service managers and `kill` send.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::thread;

/// Calls `then` at each interrupt, in a thread of its own. Where there can be none the system ends
/// the program instead.
#[allow(clippy::disallowed_methods, reason = "the edge: a thread that waits for signals")]
pub fn at_each(mut then: impl FnMut() + Send + 'static) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let watch = move || signals.forever().for_each(|_| then());
    let _ = thread::Builder::new().name("interrupt".to_string()).spawn(watch);
}
