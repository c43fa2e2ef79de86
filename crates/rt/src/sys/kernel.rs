//! The kernel's bell (an eventfd), the readiness of descriptors, and real time.

use crate::Nanos;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;
use std::time::Duration;
#[expect(clippy::disallowed_types, reason = "this is where real time comes from")]
use std::time::Instant;

/// What other threads ring.
pub(crate) struct Bell(OwnedFd);

/// A bell, and the descriptor that reads how often it rang since it was last read.
pub(crate) fn bell(nonblocking: bool) -> io::Result<(OwnedFd, Bell)> {
    let mut flags = EventfdFlags::CLOEXEC;
    flags.set(EventfdFlags::NONBLOCK, nonblocking);
    let fd = eventfd(0, flags)?;
    let bell = Bell(fd.try_clone()?);
    Ok((fd, bell))
}

impl Bell {
    pub fn ring(&self) {
        // It fails only when the counter is full. Then the bell has been rung already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Reads from where the descriptor stands.
pub(crate) fn read(fd: &OwnedFd, part: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::read(fd, part)
}

/// Waits until at least one descriptor is ready, or until `limit` is over. Returns which ones are
/// ready; after the limit none is.
pub(crate) fn is_ready<'a>(
    fds: impl Iterator<Item = (&'a OwnedFd, PollFlags)>,
    limit: Option<Duration>,
) -> Result<Vec<bool>, Errno> {
    let limit = limit
        .map(|l| Timespec { tv_sec: l.as_secs() as i64, tv_nsec: i64::from(l.subsec_nanos()) });
    let mut fds: Vec<PollFd<'_>> = fds.map(|(fd, flags)| PollFd::new(fd, flags)).collect();
    match poll(&mut fds, limit.as_ref())? {
        0 => Ok(Vec::new()),
        _ => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
    }
}

/// Real time, from when it was made.
#[expect(clippy::disallowed_types, reason = "this is where real time comes from")]
pub(crate) struct RealTime(Instant);

impl RealTime {
    #[expect(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "this is where real time comes from"
    )]
    pub fn start() -> RealTime {
        RealTime(Instant::now())
    }

    pub fn elapsed(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
}
