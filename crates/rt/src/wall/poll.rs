//! Operations by `ppoll` and calls that do not block: for kernels that deny io_uring.
//!
//! 1. An operation is tried when it is begun, and again whenever its descriptor is ready.
//! 2. Files are always ready: reading, writing and syncing them holds up the thread.

use super::driver::{Backend, Driver};
use super::work::{Kind, Operations, Outcome, Value, Work};
use crate::slab::Key;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, pread, pwrite, read};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, connect, recv, send};
use std::io;
use std::rc::Rc;
use std::time::Duration;

struct Waiting {
    key: Key,
    fd: Rc<OwnedFd>,
    readiness: PollFlags,
}

#[derive(Default)]
pub(super) struct Poll {
    /// In the order in which they were begun.
    waiting: Vec<Waiting>,
}

/// Tries an operation, maybe `again`; [`Errno::AGAIN`] if its descriptor is not ready.
fn attempt(work: &mut Work, again: bool) -> Outcome {
    let fd = &*work.fd;
    let part = &mut work.span.bytes[work.span.from..work.span.to];
    let count = match &work.kind {
        Kind::Read => read(fd, part),
        Kind::Recv => recv(fd, part, RecvFlags::DONTWAIT).map(|(_, count)| count),
        Kind::Send => send(fd, part, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        Kind::ReadAt(offset) => pread(fd, part, *offset),
        Kind::WriteAt(offset) => pwrite(fd, part, *offset),
        Kind::SyncData => rustix::fs::fdatasync(fd).map(|()| 0),
        Kind::Accept => {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            return accept_with(fd, flags).map(Value::Fd);
        }
        Kind::Connect(_) if again => match rustix::net::sockopt::socket_error(fd) {
            Ok(result) => result.map(|()| 0),
            Err(e) => Err(e),
        },
        Kind::Connect(to) => match connect(fd, &**to) {
            Err(Errno::INPROGRESS) => Err(Errno::AGAIN),
            // A listener of the UNIX kind has no room: there is nothing to wait for.
            Err(Errno::AGAIN) => Err(Errno::CONNREFUSED),
            other => other.map(|()| 0),
        },
    };
    count.map(Value::Count)
}

fn readiness(kind: &Kind) -> PollFlags {
    match kind {
        Kind::Send | Kind::WriteAt(_) | Kind::Connect(_) => PollFlags::OUT,
        _ => PollFlags::IN,
    }
}

impl Poll {
    /// Tries it; whether it is to be tried again.
    fn attempt(&mut self, key: Key, again: bool, ops: &mut Operations) -> bool {
        let Some(work) = ops.work(key) else { return false };
        loop {
            match attempt(work, again) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                outcome => {
                    ops.complete(key, outcome);
                    return false;
                }
            }
        }
    }
}

impl Driver for Poll {
    fn backend(&self) -> Backend {
        Backend::Poll
    }

    fn wants_nonblocking(&self) -> bool {
        true
    }

    fn begin(&mut self, key: Key, ops: &mut Operations) {
        if self.attempt(key, false, ops)
            && let Some(work) = ops.work(key)
        {
            let (fd, readiness) = (work.fd.clone(), readiness(&work.kind));
            self.waiting.push(Waiting { key, fd, readiness });
        }
    }

    fn cancel(&mut self, key: Key, ops: &mut Operations) {
        self.waiting.retain(|w| w.key != key);
        ops.complete(key, Err(Errno::CANCELED));
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn take(&mut self, _ops: &mut Operations) {}

    fn look(&mut self, ops: &mut Operations) {
        if !self.waiting.is_empty() {
            // If it fails the next wait does, and says so.
            let _ = self.wait(ops, Some(Duration::ZERO));
        }
    }

    fn wait(&mut self, ops: &mut Operations, limit: Option<Duration>) -> io::Result<()> {
        let limit = limit
            .map(|l| Timespec { tv_sec: l.as_secs() as i64, tv_nsec: i64::from(l.subsec_nanos()) });
        let mut fds: Vec<PollFd<'_>> =
            self.waiting.iter().map(|w| PollFd::new(&*w.fd, w.readiness)).collect();
        match poll(&mut fds, limit.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let waiting = std::mem::take(&mut self.waiting);
        for (w, ready) in waiting.into_iter().zip(ready) {
            if !ready || self.attempt(w.key, true, ops) {
                self.waiting.push(w);
            }
        }
        Ok(())
    }
}
