//! A kernel of a few lines, which loom runs in all orders that matter.
//!
//! Its rules are those of Linux, as far as a runtime relies on them:
//!
//! 1. A bell counts its rings. A read takes the whole count, so several rings may be heard as one.
//! 2. `ppoll` returns when a descriptor is ready that was among those given to it when it was
//!    called. The kernel knows of no other.
//! 3. A ring carries an operation out at once when it is told of it and can, else when the
//!    descriptor becomes ready; the completion then lies in memory, or is held back until the
//!    kernel is asked for events (deferred task work). The kernel has one of the two manners:
//!    [`Manner`].
//! 4. A wait ends early by a signal, once [`interrupt`] was called; the next call of a ring
//!    that submits something is refused for want of memory, once [`starve`] was called.
//! 5. A wait with a limit lasts for that long in the time of the model, unless something is ready.

mod ring;
#[cfg(test)]
mod tests;

pub(crate) use ring::Ring;

use crate::Nanos;
use loom::sync::{Condvar, Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// When the completions of a ring come into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Manner {
    /// When the kernel is asked for events.
    #[default]
    Deferred,
    /// At any time.
    AtOnce,
}

#[derive(Default)]
pub(super) struct State {
    /// How often each bell rang since it was read.
    counts: BTreeMap<RawFd, u64>,
    manner: Manner,
    interrupted: bool,
    starved: bool,
}

struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

loom::lazy_static! {
    static ref KERNEL: Kernel =
        Kernel { state: Mutex::new(State::default()), changed: Condvar::new() };
}

fn state() -> MutexGuard<'static, State> {
    KERNEL.state.lock().expect("no thread of a model panics and goes on")
}

fn wait(state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
    KERNEL.changed.wait(state).expect("no thread of a model panics and goes on")
}

impl State {
    /// Takes the count of a bell, if it rang.
    fn take(&mut self, fd: RawFd) -> Option<u64> {
        let count = self.counts.get_mut(&fd).expect("only bells are read in a model");
        match std::mem::take(count) {
            0 => None,
            count => Some(count),
        }
    }

    fn is_ready(&self, fd: RawFd) -> bool {
        *self.counts.get(&fd).expect("only bells are waited for in a model") > 0
    }
}

/// What other threads ring.
pub(crate) struct Bell(RawFd);

/// A bell, and the descriptor that reads how often it rang since it was last read. The
/// descriptor is real, but nothing of it is used but its number.
pub(crate) fn bell(_nonblocking: bool) -> io::Result<(OwnedFd, Bell)> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC)?;
    let number = fd.as_raw_fd();
    state().counts.insert(number, 0);
    Ok((fd, Bell(number)))
}

impl Bell {
    pub fn ring(&self) {
        *state().counts.get_mut(&self.0).expect("it was put in when it was made") += 1;
        KERNEL.changed.notify_all();
    }
}

/// See the real one.
pub(crate) fn read(fd: &OwnedFd, _part: &mut [u8]) -> Result<usize, Errno> {
    state().take(fd.as_raw_fd()).map(|_| size_of::<u64>()).ok_or(Errno::AGAIN)
}

/// See the real one.
pub(crate) fn is_ready<'a>(
    fds: impl Iterator<Item = (&'a OwnedFd, PollFlags)>,
    limit: Option<Duration>,
) -> Result<Vec<bool>, Errno> {
    let fds: Vec<RawFd> = fds.map(|(fd, _)| fd.as_raw_fd()).collect();
    let mut state = state();
    loop {
        let ready: Vec<bool> = fds.iter().map(|&fd| state.is_ready(fd)).collect();
        if ready.contains(&true) {
            return Ok(ready);
        }
        if std::mem::take(&mut state.interrupted) {
            return Err(Errno::INTR);
        }
        if let Some(limit) = limit {
            pass(limit);
            return Ok(Vec::new());
        }
        state = wait(state);
    }
}

/// Chooses the manner of all rings of this model.
#[cfg(test)]
pub(super) fn choose(manner: Manner) {
    state().manner = manner;
}

/// A signal comes.
#[cfg(test)]
pub(super) fn interrupt() {
    state().interrupted = true;
    KERNEL.changed.notify_all();
}

/// Memory becomes short.
#[cfg(test)]
pub(super) fn starve() {
    state().starved = true;
}

thread_local! {
    /// (All threads of a model are one of the system, and only the runtime's looks here.)
    static NOW: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

fn pass(span: Duration) {
    NOW.set(NOW.get().saturating_add(Nanos(span.as_nanos() as u64)));
}

/// The time of the model, from when it was made: it passes where somebody waits for it.
pub(crate) struct RealTime;

impl RealTime {
    pub fn start() -> RealTime {
        NOW.set(Nanos::ZERO);
        RealTime
    }

    pub fn elapsed(&self) -> Nanos {
        NOW.get()
    }
}
