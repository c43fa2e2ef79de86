//! Operations over io_uring (Axboe, "Efficient IO with io_uring", 2019).
//!
//! 1. What tasks begin is gathered and told to the kernel in one call, when no task is
//!    ready. A send that is alone is done at once instead: its completion would end that
//!    call, which could otherwise wait for what comes next.
//! 2. Completions lie in memory that is shared with the kernel, and are taken from there
//!    without a call. Work that the kernel has put off until the next call (deferred task
//!    work) shows in a flag there.
//! 3. Of each operation that the kernel knows the table holds buffer, address and file
//!    until its completion has been taken (`work.rs`, 1).

use super::attempt::attempt;
use super::driver::{Backend, Driver};
use super::work::{Kind, Operations, Value};
use crate::slab::Key;
use crate::sys::{Ring, yield_now};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};
use std::io;
use std::time::Duration;

/// Entries of the submission queue; when it is full the kernel is told earlier.
const ENTRIES: u32 = 256;
/// Marks the completion of a cancellation, which nobody waits for.
const CANCELLATION: u64 = u64::MAX;
/// `POLLIN` of poll(2).
const POLLIN: u32 = 1;
/// The most that one operation moves; longer ones go on where it ended.
const LONGEST: usize = 1 << 30;

pub(super) struct Uring {
    ring: Ring,
    /// Not told to the kernel yet.
    begun: Vec<Key>,
    /// So much of it is sends.
    sends: usize,
    /// Nor of what lies in the submission queue: cancellations, or what it had no memory for.
    untold: bool,
}

impl Uring {
    /// # Errors
    /// If the kernel has no io_uring, denies it, or lacks something of it.
    pub fn new() -> io::Result<Uring> {
        let operations = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::Fallocate::CODE,
            opcode::Recv::CODE,
            opcode::Send::CODE,
            opcode::Accept::CODE,
            opcode::Connect::CODE,
            opcode::AsyncCancel::CODE,
            opcode::PollAdd::CODE,
        ];
        let ring = Ring::new(ENTRIES, &operations)?;
        Ok(Uring { ring, begun: Vec::new(), sends: 0, untold: false })
    }

    /// Puts an entry into the submission queue.
    ///
    /// # Safety
    /// What the entry points to must stay where it is until its completion has been taken.
    unsafe fn push(&mut self, entry: squeue::Entry, ops: &mut Operations) -> Result<(), Errno> {
        loop {
            // SAFETY: the caller's.
            if unsafe { self.ring.push(&entry) } {
                return Ok(());
            }
            self.enter(ops, 0, None).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        }
    }

    /// Calls the kernel, again and again while something keeps it from doing what it was asked for.
    fn enter(
        &mut self,
        ops: &mut Operations,
        want: usize,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        loop {
            let result = self.ring.enter(want, limit);
            match result.map_err(|e| (Errno::from_io_error(&e), e)) {
                // The kernel may have stopped between two entries.
                Ok(()) if want == 0 && !self.ring.is_told() => {}
                Ok(()) => break,
                // The time is over, or a signal has come: what was begun has been told.
                Err((Some(Errno::TIME | Errno::INTR), _)) => break,
                // The kernel is short of memory or of room for completions.
                Err((Some(Errno::AGAIN | Errno::BUSY), _)) => {
                    self.take(ops);
                    if ops.has_ended() {
                        return Ok(());
                    }
                    yield_now();
                }
                Err((_, e)) => return Err(e),
            }
        }
        Ok(())
    }

    /// Puts what was begun into the submission queue.
    fn gather(&mut self, ops: &mut Operations) {
        let alone = std::mem::take(&mut self.sends) == 1;
        let mut begun = std::mem::take(&mut self.begun);
        for key in begun.drain(..) {
            match ops.work(key) {
                Some(work) if alone && matches!(work.kind, Kind::Send) => {
                    match attempt(work, false) {
                        Err(Errno::AGAIN) => self.submit(key, ops),
                        outcome => ops.complete(key, outcome),
                    }
                }
                _ => self.submit(key, ops),
            }
        }
        // Its room is used again.
        self.begun = begun;
    }

    fn submit(&mut self, key: Key, ops: &mut Operations) {
        let Some(work) = ops.work(key) else { return };
        let fd = Fd(work.fd.as_raw_fd());
        let part = work.span.part_mut();
        let (at, len) = (part.as_mut_ptr(), part.len().min(LONGEST) as u32);
        let entry = match &work.kind {
            Kind::Read => opcode::Read::new(fd, at, len).offset(u64::MAX).build(),
            Kind::ReadAt(offset) => opcode::Read::new(fd, at, len).offset(*offset).build(),
            Kind::WriteAt(offset, flags) => {
                let flags = flags.bits() as i32;
                opcode::Write::new(fd, at, len).offset(*offset).rw_flags(flags).build()
            }
            Kind::Recv => opcode::Recv::new(fd, at, len).build(),
            Kind::Send => {
                let flags = SendFlags::NOSIGNAL.bits() as i32;
                opcode::Send::new(fd, at, len).flags(flags).build()
            }
            Kind::SyncData => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            Kind::Fallocate { mode, offset, len } => {
                let mode = mode.bits() as i32;
                opcode::Fallocate::new(fd, *len).offset(*offset).mode(mode).build()
            }
            Kind::Readable => opcode::PollAdd::new(fd, POLLIN).build(),
            Kind::Accept => {
                let flags = SocketFlags::CLOEXEC.bits() as i32;
                let nowhere = std::ptr::null_mut();
                opcode::Accept::new(fd, nowhere, std::ptr::null_mut()).flags(flags).build()
            }
            Kind::Connect(to) => {
                opcode::Connect::new(fd, to.as_ptr().cast(), to.addr_len()).build()
            }
        };
        // SAFETY: buffer, address and descriptor belong to the operation in the table, which
        // leaves it only with its completion; the table itself moves none of them (they are
        // on the heap, and behind no unique reference while the operation is under way).
        let pushed = unsafe { self.push(entry.user_data(word(key)), ops) };
        if let Err(e) = pushed {
            ops.complete(key, Err(e));
        }
    }
}

fn word(key: Key) -> u64 {
    u64::from(key.generation) << 32 | u64::from(key.slot)
}

fn key(word: u64) -> Key {
    Key { slot: word as u32, generation: (word >> 32) as u32 }
}

impl Driver for Uring {
    fn backend(&self) -> Backend {
        Backend::Uring
    }

    fn wants_nonblocking(&self) -> bool {
        // Operations on such descriptors would end at once instead of waiting.
        false
    }

    fn begin(&mut self, key: Key, ops: &mut Operations) {
        let is_send = ops.work(key).is_some_and(|work| matches!(work.kind, Kind::Send));
        self.sends += usize::from(is_send);
        self.begun.push(key);
    }

    fn cancel(&mut self, key: Key, ops: &mut Operations) {
        if let Some(at) = self.begun.iter().position(|&begun| begun == key) {
            self.begun.remove(at);
            let is_send = ops.work(key).is_some_and(|work| matches!(work.kind, Kind::Send));
            self.sends -= usize::from(is_send);
            return ops.complete(key, Err(Errno::CANCELED));
        }
        let entry = opcode::AsyncCancel::new(word(key)).build().user_data(CANCELLATION);
        // If there is no room for the cancellation, the operation ends by itself or with its peer.
        // SAFETY: the entry points to nothing.
        self.untold |= unsafe { self.push(entry, ops) }.is_ok();
    }

    fn has_unsent(&self) -> bool {
        !self.begun.is_empty() || self.untold
    }

    fn take(&mut self, ops: &mut Operations) {
        for (word, result) in self.ring.completions() {
            if word == CANCELLATION {
                continue;
            }
            let key = key(word);
            let Some(work) = ops.work(key) else { continue };
            let outcome = match (result, &work.kind) {
                (e @ ..0, _) => Err(Errno::from_raw_os_error(-e)),
                // SAFETY: the kernel has made this descriptor for us, and nobody else has it.
                (fd, Kind::Accept) => Ok(Value::Fd(unsafe { OwnedFd::from_raw_fd(fd) })),
                (count, _) => Ok(Value::Count(count as usize)),
            };
            ops.complete(key, outcome);
        }
    }

    fn look(&mut self, ops: &mut Operations) {
        if self.ring.is_held_back() {
            // If it fails the next wait does, and says so.
            let _ = self.enter(ops, 0, None);
        }
        self.take(ops);
    }

    fn wait(&mut self, ops: &mut Operations, limit: Option<Duration>) -> io::Result<()> {
        self.gather(ops);
        let want = usize::from(limit != Some(Duration::ZERO) && !ops.has_ended());
        // (A send that ended at once wants no call. What others wait for may be held back meanwhile.)
        if want > 0 || !self.ring.is_told() || self.ring.is_held_back() {
            self.enter(ops, want, limit.filter(|_| want > 0))?;
        }
        self.untold = !self.ring.is_told();
        self.take(ops);
        Ok(())
    }
}
