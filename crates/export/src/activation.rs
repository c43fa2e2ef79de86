//! Sockets that the parent of the process has opened for it: systemd's socket activation, as
//! `sd_listen_fds(3)` describes it.

#![allow(clippy::disallowed_methods, reason = "the edge: the environment says what there is")]

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first of the descriptors.
const FIRST: i32 = 3;
/// More are not believed.
const MOST: i32 = 256;

/// They are taken once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Why the descriptors cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActivationError {
    /// The environment says nothing that can be meant.
    #[error("LISTEN_FDS is \"{0}\": it should be a number from 0 to {MOST}")]
    Count(String),
    /// A descriptor is not open.
    #[error("LISTEN_FDS promises descriptor {0}, which is not open")]
    Closed(i32),
}

/// Whether this is an accepted connection, and not a listening socket.
pub fn is_connection(fd: impl AsFd) -> bool {
    sockopt::socket_acceptconn(&fd).is_ok_and(|listens| !listens)
        && rustix::net::getpeername(&fd).is_ok()
}

/// The descriptors that are meant for this process; none if it was started without, and the
/// second time. Programs that are started from here do not inherit them.
///
/// # Errors
/// [`ActivationError`] if the environment promises what is not there.
pub fn descriptors() -> Result<Vec<OwnedFd>, ActivationError> {
    let own = std::env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    let Ok(count) = std::env::var("LISTEN_FDS") else { return Ok(Vec::new()) };
    if !own || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    let known = count.parse().ok().filter(|n| (0..=MOST).contains(n));
    let known = known.ok_or_else(|| ActivationError::Count(count.clone()))?;
    let take = |number| {
        // SAFETY: by the convention these descriptors belong to this process, which is the one
        // that LISTEN_PID names, and they are taken once. Whether it is open is asked next.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        match fcntl_setfd(&fd, FdFlags::CLOEXEC) {
            Ok(()) => Ok(fd),
            Err(_) => {
                // It is not ours to close.
                std::mem::forget(fd);
                Err(ActivationError::Closed(number))
            }
        }
    };
    (FIRST..FIRST + known).map(take).collect()
}
