//! Sockets that the parent process has opened for this one: systemd's socket activation, as
//! described in `sd_listen_fds(3)`.

#![allow(clippy::disallowed_methods, reason = "the edge: the environment names the descriptors")]

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first passed descriptor.
const FIRST: i32 = 3;
/// More descriptors than this are an error.
const MOST: i32 = 256;

/// The descriptors have been taken. This happens once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Why the descriptors cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActivationError {
    /// `LISTEN_FDS` is not a valid number.
    #[error("LISTEN_FDS is \"{0}\": it should be a number from 0 to {MOST}")]
    Count(String),
    /// A descriptor is not open.
    #[error("LISTEN_FDS names descriptor {0}, which is not open")]
    Closed(i32),
}

/// Whether this is an accepted connection rather than a listening socket.
pub fn is_connection(fd: impl AsFd) -> bool {
    sockopt::socket_acceptconn(&fd).is_ok_and(|listens| !listens)
        && rustix::net::getpeername(&fd).is_ok()
}

/// The descriptors passed to this process. Empty if none were passed, and on every later call.
/// Programs started from here do not inherit them.
///
/// # Errors
/// [`ActivationError`] if the environment is invalid.
pub fn descriptors() -> Result<Vec<OwnedFd>, ActivationError> {
    let own = std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    let Ok(count) = std::env::var("LISTEN_FDS") else { return Ok(Vec::new()) };
    if !own || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    let known = count.parse().ok().filter(|n| (0..=MOST).contains(n));
    let known = known.ok_or_else(|| ActivationError::Count(count.clone()))?;
    let take = |number| {
        // SAFETY: by the convention these descriptors belong to this process, since LISTEN_PID
        // names it, and they are taken once. `fcntl_setfd` below finds out whether one is open.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        match fcntl_setfd(&fd, FdFlags::CLOEXEC) {
            Ok(()) => Ok(fd),
            Err(_) => {
                // It is not open, so it must not be closed either.
                std::mem::forget(fd);
                Err(ActivationError::Closed(number))
            }
        }
    };
    (FIRST..FIRST + known).map(take).collect()
}
