//! Operations that are under way outside: what they own, and how they end.
//!
//! 1. An operation owns its buffer, its address and a share of its file descriptor from
//!    its beginning to its completion. Nothing else can free, move or reuse them.
//! 2. Dropping the future of an operation abandons it: it is cancelled, and stays in the
//!    table until it has completed. What it then brings (a connection) is closed.
//! 3. A completion is delivered once; one for an operation that is not in the table any
//!    more is ignored.
//! 4. An operation may complete at any moment, also while it is begun. The table remembers that
//!    until the runtime has been told ([`Operations::hand_over`]): meanwhile nothing sleeps.

use crate::exec::TaskId;
use crate::slab::{Key, Slab};
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::SocketAddrAny;
use std::rc::Rc;

/// A buffer, and the part of it that an operation is about.
#[derive(Default)]
pub(super) struct Span {
    pub bytes: Vec<u8>,
    pub from: usize,
    pub to: usize,
}

impl Span {
    pub fn part_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.to]
    }
}

/// What an operation does.
#[derive(Clone)]
pub(super) enum Kind {
    /// Reads from where the descriptor stands (an eventfd).
    Read,
    Recv,
    Send,
    /// At this offset of a file.
    ReadAt(u64),
    WriteAt(u64, ReadWriteFlags),
    SyncData,
    /// Reserves, zeroes or frees a range of a file.
    Fallocate {
        mode: FallocateFlags,
        offset: u64,
        len: u64,
    },
    Accept,
    Connect(Rc<SocketAddrAny>),
    /// Waits until something can be read, or the other end is gone.
    Readable,
}

pub(super) struct Work {
    pub kind: Kind,
    pub fd: Rc<OwnedFd>,
    pub span: Span,
    /// Stays open as long as the operation is under way.
    pub _keeps: Option<Rc<OwnedFd>>,
}

impl Work {
    pub fn new(kind: Kind, fd: &Rc<OwnedFd>, span: Span) -> Work {
        Work { kind, fd: fd.clone(), span, _keeps: None }
    }
}

/// What an operation brought.
pub(super) enum Value {
    /// The number of bytes; 0 for operations that move none.
    Count(usize),
    /// A connection.
    Fd(OwnedFd),
}

pub(super) type Outcome = Result<Value, Errno>;

enum State {
    Waiting(TaskId),
    Done(Outcome),
    Abandoned,
    /// The read of the bell, which belongs to the runtime. No task waits for it.
    Bell,
}

struct Operation {
    work: Work,
    state: State,
}

/// The table of all operations under way.
pub(super) struct Operations {
    table: Slab<Operation>,
    /// How many of them a task waits for.
    wanted: usize,
    /// Tasks whose operations have completed and that have not been told.
    woken: Vec<TaskId>,
    /// Whether any operation has completed since the last [`Operations::hand_over`]: the
    /// bell's too, and those that nobody waits for.
    ended: bool,
    /// Whether the bell's read is in the table.
    listening: bool,
}

impl Operations {
    pub fn new() -> Operations {
        let (table, woken) = (Slab::new(), Vec::new());
        Operations { table, wanted: 0, woken, ended: false, listening: false }
    }

    pub fn insert(&mut self, work: Work, task: TaskId) -> Key {
        self.wanted += 1;
        self.table.insert(Operation { work, state: State::Waiting(task) })
    }

    /// Puts in the read that ends when the bell rings, unless it is there.
    pub fn listen(&mut self, work: impl FnOnce() -> Work) -> Option<Key> {
        if self.listening {
            return None;
        }
        self.listening = true;
        Some(self.table.insert(Operation { work: work(), state: State::Bell }))
    }

    /// How many are under way that a task waits for.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether anything has completed since the last [`Operations::hand_over`]. A wait must
    /// not sleep then: what it would wait for may be what has completed.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Gives `wake` the tasks whose operations have completed. Whether there were any.
    pub fn hand_over(&mut self, wake: impl FnMut(TaskId)) -> bool {
        self.ended = false;
        let any = !self.woken.is_empty();
        self.woken.drain(..).for_each(wake);
        any
    }

    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    pub fn footprint(&self) -> usize {
        self.table.capacity()
    }

    pub fn keys(&self) -> Vec<Key> {
        self.table.iter().map(|(key, _)| key).collect()
    }

    pub fn work(&mut self, key: Key) -> Option<&mut Work> {
        self.table.get_mut(key).map(|op| &mut op.work)
    }

    /// The result, if there is one. If not, `task` is woken when it comes.
    pub fn poll(&mut self, key: Key, task: impl FnOnce() -> TaskId) -> Option<(Outcome, Span)> {
        let op = self.table.get_mut(key)?;
        if let State::Waiting(waiter) = &mut op.state {
            *waiter = task();
            return None;
        }
        let op = self.table.remove(key)?;
        match op.state {
            State::Done(outcome) => Some((outcome, op.work.span)),
            _ => None,
        }
    }

    /// No task waits for it any more. Returns whether the operation is still under way and has to
    /// be cancelled.
    pub fn abandon(&mut self, key: Key) -> bool {
        let Some(op) = self.table.get_mut(key) else { return false };
        if let State::Done(_) = op.state {
            self.table.remove(key);
            return false;
        }
        if let State::Waiting(_) = op.state {
            op.state = State::Abandoned;
            self.wanted -= 1;
        }
        true
    }

    pub fn complete(&mut self, key: Key, outcome: Outcome) {
        let Some(op) = self.table.get_mut(key) else { return };
        self.ended = true;
        match op.state {
            State::Waiting(task) => {
                op.state = State::Done(outcome);
                self.wanted -= 1;
                self.woken.push(task);
            }
            State::Abandoned => drop(self.table.remove(key)),
            State::Bell => {
                self.listening = false;
                self.table.remove(key);
            }
            State::Done(_) => {}
        }
    }
}
