//! Operations by `ppoll` and calls that do not block: for kernels that deny io_uring.
//!
//! 1. An operation is tried when it is begun, and again whenever its descriptor is ready. One
//!    that ends when it is begun is not among what `ppoll` waits for: then a wait does not sleep.
//! 2. Files are always ready: reading, writing and syncing them holds up the thread.

use super::attempt::attempt;
use super::driver::{Backend, Driver};
use super::work::{Kind, Operations};
use crate::slab::Key;
use crate::sys::is_ready;
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
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

fn readiness(kind: &Kind) -> PollFlags {
    match kind {
        Kind::Send | Kind::WriteAt(..) | Kind::Connect(_) => PollFlags::OUT,
        _ => PollFlags::IN,
    }
}

impl Poll {
    /// Tries it; whether it is to be tried again.
    fn attempt(&mut self, key: Key, again: bool, ops: &mut Operations) -> bool {
        match ops.work(key).map(|work| attempt(work, again)) {
            Some(Err(Errno::AGAIN)) => true,
            Some(outcome) => {
                ops.complete(key, outcome);
                false
            }
            None => false,
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
        let limit = if ops.has_ended() { Some(Duration::ZERO) } else { limit };
        let ready = match is_ready(self.waiting.iter().map(|w| (&*w.fd, w.readiness)), limit) {
            Err(Errno::INTR) => return Ok(()),
            Ok(ready) if ready.is_empty() => return Ok(()),
            other => other?,
        };
        let waiting = std::mem::take(&mut self.waiting);
        for (w, ready) in waiting.into_iter().zip(ready) {
            if !ready || self.attempt(w.key, true, ops) {
                self.waiting.push(w);
            }
        }
        Ok(())
    }
}
