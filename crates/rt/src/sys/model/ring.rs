//! The model of a ring: it reads submission entries as the kernel does.

use super::{Manner, State, pass, state, wait};
use io_uring::{opcode, squeue};
use rustix::fd::RawFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Entries of the submission queue: few, so that it is full now and then.
const ROOM: usize = 2;

/// What the kernel reads of an entry.
#[derive(Clone, Copy)]
struct Told {
    opcode: u8,
    fd: RawFd,
    address: u64,
    word: u64,
}

impl Told {
    fn of(entry: &squeue::Entry) -> Told {
        // SAFETY: an entry is `struct io_uring_sqe`, 64 bytes of integers, all initialized.
        let bytes: [u8; 64] = unsafe { std::ptr::from_ref(entry).cast::<[u8; 64]>().read() };
        let part = |at: usize| bytes[at..][..8].try_into().map(u64::from_ne_bytes).unwrap_or(0);
        let fd = part(0).to_ne_bytes();
        let fd = RawFd::from_ne_bytes([fd[4], fd[5], fd[6], fd[7]]);
        Told { opcode: bytes[0], fd, address: part(16), word: entry.get_user_data() }
    }

    /// Carries it out, if that can be done now.
    fn carry_out(&self, state: &mut State) -> Option<i32> {
        match self.opcode {
            opcode::Read::CODE => state.take(self.fd).map(|_| size_of::<u64>() as i32),
            opcode::PollAdd::CODE => state.is_ready(self.fd).then_some(1),
            other => panic!("the model has no operation {other}"),
        }
    }
}

/// A ring of one thread.
pub(crate) struct Ring {
    submitted: Vec<Told>,
    /// What could not be carried out yet.
    armed: Vec<Told>,
    done: VecDeque<(u64, i32)>,
}

impl Ring {
    pub fn new(_entries: u32, _operations: &[u8]) -> io::Result<Ring> {
        Ok(Ring { submitted: Vec::new(), armed: Vec::new(), done: VecDeque::new() })
    }

    /// See the real one.
    ///
    /// # Safety
    /// Nothing that an entry points to is used.
    pub unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        if self.submitted.len() == ROOM {
            return false;
        }
        self.submitted.push(Told::of(entry));
        true
    }

    pub fn is_told(&mut self) -> bool {
        self.submitted.is_empty()
    }

    pub fn is_held_back(&mut self) -> bool {
        self.holds_back(&state())
    }

    fn holds_back(&self, state: &State) -> bool {
        state.manner == Manner::Deferred && self.armed.iter().any(|told| state.is_ready(told.fd))
    }

    /// Carries out what has become possible.
    fn work(&mut self, state: &mut State) {
        let done = &mut self.done;
        self.armed.retain(|told| match told.carry_out(state) {
            Some(result) => {
                done.push_back((told.word, result));
                false
            }
            None => true,
        });
    }

    fn take_in(&mut self, told: Told, state: &mut State) {
        if told.opcode == opcode::AsyncCancel::CODE {
            let at = self.armed.iter().position(|armed| armed.word == told.address);
            let result = match at {
                Some(at) => {
                    let cancelled = self.armed.remove(at);
                    self.done.push_back((cancelled.word, -Errno::CANCELED.raw_os_error()));
                    0
                }
                None => -Errno::NOENT.raw_os_error(),
            };
            return self.done.push_back((told.word, result));
        }
        match told.carry_out(state) {
            Some(result) => self.done.push_back((told.word, result)),
            None => self.armed.push(told),
        }
    }

    pub fn enter(&mut self, want: usize, limit: Option<Duration>) -> io::Result<()> {
        let mut state = state();
        if state.manner == Manner::AtOnce {
            self.work(&mut state);
        }
        if state.starved && !self.submitted.is_empty() {
            state.starved = false;
            return Err(Errno::AGAIN.into());
        }
        let asks = want > 0 || self.holds_back(&state);
        let submitted = std::mem::take(&mut self.submitted);
        let any = !submitted.is_empty();
        for told in submitted {
            self.take_in(told, &mut state);
        }
        if !asks {
            return Ok(());
        }
        loop {
            self.work(&mut state);
            // (Who has submitted something is told of that, and not of how the wait ended.)
            let early = match limit {
                _ if self.done.len() >= want => return Ok(()),
                _ if std::mem::take(&mut state.interrupted) => Errno::INTR,
                Some(limit) => {
                    pass(limit);
                    Errno::TIME
                }
                None => {
                    state = wait(state);
                    continue;
                }
            };
            return if any { Ok(()) } else { Err(early.into()) };
        }
    }

    pub fn completions(&mut self) -> impl Iterator<Item = (u64, i32)> {
        let mut state = state();
        if state.manner == Manner::AtOnce {
            self.work(&mut state);
        }
        drop(state);
        self.done.drain(..)
    }
}
