//! Reads: memory for their data, and replies that carry them.
//!
//! 1. **Memory** for data is taken before they are read, and goes back when they are sent.
//! 2. **Small** reads are gathered with other replies. A longer read is sent from the buffer into
//!    which it was read. Buffers of similar length are reused without being cleared.
//! 3. **In parts.** A read that is longer than the client's share is one reply if there is memory
//!    for all of it at once. Otherwise it is read and sent in parts through one buffer, and only
//!    one read at a time. So each read can be carried out whatever other clients hold.
//! 4. **Chunks.** With structured replies each part is a chunk of its own, unless the client
//!    forbids that. Other replies may come between chunks. Otherwise all parts form one reply, and
//!    other replies wait for its end.
//! 5. **A failure** in the middle of such a reply can only be reported by the end of the
//!    connection.

use super::connection::Connection;
use super::outbox::Piece;
use super::reply;
use super::session::End;
use super::stream::Stream;
use crate::budget::{Grant, NoMemory, lengthen, zeroed};
use crate::crew::Load;
use crate::volume::Failure;
use std::cell::{Cell, RefCell};
use tantalum_device::PowerCycle;
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, WaitQueue};

/// Data of at least this many bytes are sent from the buffer into which they were read.
const LONG_BYTES: u32 = 32 << 10;
/// The most buffers of long reads that are kept for reuse.
const SPARE: usize = 4;

/// For one connection: the state of the read that is sent in parts, and buffers of other long
/// reads.
pub(crate) struct Parts {
    turn: Mutex,
    /// The buffer, after its part was sent.
    buffer: RefCell<Option<Vec<u8>>>,
    over: Cell<bool>,
    changed: WaitQueue,
    spare: RefCell<Vec<(Vec<u8>, Grant)>>,
}

impl Parts {
    pub fn new(rt: &Rt) -> Parts {
        Parts {
            turn: Mutex::new(rt, "another read to be sent in parts"),
            buffer: RefCell::default(),
            over: Cell::new(false),
            changed: WaitQueue::new(rt, "a part of a read to be sent"),
            spare: RefCell::default(),
        }
    }

    /// A part was sent. Returns its buffer.
    pub fn sent(&self, buffer: Vec<u8>) {
        *self.buffer.borrow_mut() = Some(buffer);
        self.changed.notify_all();
    }

    /// No more parts are sent.
    pub fn nothing_is_sent(&self) {
        self.over.set(true);
        self.changed.notify_all();
    }

    /// Waits for the buffer; `None` if nothing is sent any more.
    async fn comes_back(&self) -> Option<Vec<u8>> {
        self.changed.until(|| self.over.get() || self.buffer.borrow().is_some()).await;
        self.buffer.take().filter(|_| !self.over.get())
    }

    /// Drops unused buffers.
    pub fn drop_spare(&self) {
        self.spare.borrow_mut().clear();
    }
}

/// A read that a client asked for.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub cookie: u64,
    pub cost: Load,
    pub at: u64,
    pub length: u32,
    /// The client wants it in one chunk.
    pub whole: bool,
}

impl<S: Stream, P: PowerCycle + 'static> Connection<S, P> {
    pub(super) async fn read(&self, read: Read) {
        let structured = self.terms.structured;
        if read.length == 0 {
            let nothing = |out: &mut Vec<u8>| reply::nothing(out, structured, read.cookie);
            return self.answer(read.cost, None, nothing);
        }
        let answers = &self.accounts.answers;
        let touched = self.access.touched(read.at, read.length.into());
        let bytes = reply::data_head_bytes(structured) as u64 + touched;
        // A small read is in memory twice: in its own buffer, and among the replies.
        if read.length < LONG_BYTES && 2 * bytes <= answers.share() {
            return self.read_small(read, touched as usize, 2 * bytes).await;
        }
        if let Some((buf, grant)) = self.spare(bytes) {
            return self.read_whole(read, Ok(buf), grant).await;
        }
        let grant = match answers.try_take(bytes) {
            Some(grant) => grant,
            None if bytes <= answers.share() => self.memory(bytes).await,
            None => return self.read_in_parts(read).await,
        };
        self.read_whole(read, zeroed(bytes as usize), grant).await;
    }

    /// Waits for memory for an answer. Spare buffers are dropped if it is not free at once.
    async fn memory(&self, bytes: u64) -> Grant {
        let answers = &self.accounts.answers;
        if let Some(grant) = answers.try_take(bytes) {
            return grant;
        }
        self.parts.drop_spare();
        answers.take(bytes).await
    }

    /// A spare buffer of this length, or of up to twice this length.
    fn spare(&self, bytes: u64) -> Option<(Vec<u8>, Grant)> {
        let mut spare = self.parts.spare.borrow_mut();
        let fits = |grant: &Grant| (bytes..=2 * bytes).contains(&grant.bytes());
        let at = spare.iter().rposition(|(_, grant)| fits(grant))?;
        let (mut buf, grant) = spare.swap_remove(at);
        drop(spare);
        // It has the room: the grant is for all allocated bytes.
        lengthen(&mut buf, bytes as usize).ok()?;
        Some((buf, grant))
    }

    /// Takes back a buffer that was sent. It is kept for reuse if the client is within its share,
    /// and no task waits for memory.
    pub(super) fn keep(&self, buf: Vec<u8>, grant: Option<Grant>) {
        let ease = self.accounts.answers.is_at_ease() && !self.is_over();
        let mut spare = self.parts.spare.borrow_mut();
        if let Some(grant) = grant.filter(|_| ease && spare.len() < SPARE) {
            spare.push((buf, grant));
        }
    }

    fn read_failed(&self, read: Read, failure: &Failure) {
        self.failed(read.cookie, read.cost, failure);
    }

    async fn read_small(&self, read: Read, touched: usize, memory: u64) {
        let grant = self.memory(memory).await;
        let Ok(mut buf) = self.scratch.get(touched) else {
            return self.read_failed(read, &Failure::NoMemory);
        };
        let length = read.length as usize;
        match self.access.read(read.at, length, &mut buf).await {
            Err(failure) => self.read_failed(read, &failure),
            Ok(()) => self.answer(read.cost, Some(grant), |out| {
                let structured = self.terms.structured;
                reply::data_head(out, structured, read.cookie, read.at, read.length);
                out.extend_from_slice(&buf[..length]);
            }),
        }
        self.scratch.put(buf);
    }

    async fn read_whole(&self, read: Read, buf: Result<Vec<u8>, NoMemory>, grant: Grant) {
        let Ok(mut buf) = buf else { return self.read_failed(read, &Failure::NoMemory) };
        let mut head = Vec::new();
        reply::data_head(&mut head, self.terms.structured, read.cookie, read.at, read.length);
        if let Err(failure) = self.fill(&mut buf, &head, read.at, read.length as usize).await {
            return self.read_failed(read, &failure);
        }
        if self.is_gone() {
            return self.unanswered(read.cost);
        }
        self.outbox.borrow_mut().push(Piece::long(buf, read.cost, Some(grant)));
        self.outgoing.notify_one();
    }

    /// Fills a buffer with `head` and the data.
    async fn fill(
        &self,
        buf: &mut Vec<u8>,
        head: &[u8],
        at: u64,
        length: usize,
    ) -> Result<(), Failure> {
        self.access.read(at, length, &mut buf[head.len()..]).await?;
        buf[..head.len()].copy_from_slice(head);
        buf.truncate(head.len() + length);
        Ok(())
    }

    /// See 3, 4 and 5 of the module.
    async fn read_in_parts(&self, read: Read) {
        let _turn = self.parts.turn.lock().await;
        let plan = &self.accounts.plan;
        // The read may begin and end within a block, and blocks are read whole.
        let room = plan.piece + 2 * self.access.block() + 64;
        let grant = self.memory(room).await;
        let Ok(buf) = zeroed(room as usize) else {
            return self.read_failed(read, &Failure::NoMemory);
        };
        let alone = !self.terms.structured || read.whole;
        if alone {
            self.outbox.borrow_mut().hold();
        }
        let sent = self.send_parts(read, alone, buf, grant).await;
        if alone {
            self.outbox.borrow_mut().release();
            self.outgoing.notify_one();
        }
        match sent {
            Ok(()) => {}
            Err(None) => self.unanswered(read.cost),
            Err(Some((failure, true))) => self.read_failed(read, &failure),
            Err(Some((_, false))) => {
                self.hang_up(End::HalfAnswered);
                self.unanswered(read.cost);
            }
        }
    }

    /// Reads and sends parts through one buffer. An error is `None` if nothing is sent any more.
    /// Otherwise it is the failure, and whether it can be reported to the client.
    async fn send_parts(
        &self,
        read: Read,
        alone: bool,
        mut buf: Vec<u8>,
        grant: Grant,
    ) -> Result<(), Option<(Failure, bool)>> {
        let Read { cookie, cost, at, length, .. } = read;
        let (block, end) = (self.access.block(), at + u64::from(length));
        let (mut next, room, mut grant) = (at, buf.len(), Some(grant));
        loop {
            let stop = ((next + self.accounts.plan.piece) / block * block).min(end);
            let (first, last, count) = (next == at, stop == end, (stop - next) as u32);
            let mut head = Vec::new();
            match alone {
                true if first => {
                    reply::data_head(&mut head, self.terms.structured, cookie, at, length);
                }
                true => {}
                false => reply::part_head(&mut head, last, cookie, next, count),
            }
            let filled = self.fill(&mut buf, &head, next, count as usize).await;
            filled.map_err(|failure| Some((failure, first || !alone)))?;
            if self.is_gone() {
                return Err(None);
            }
            let part = match last {
                true => Piece::long(buf, cost, grant.take()),
                false => Piece::part(buf),
            };
            match alone {
                true => self.outbox.borrow_mut().push_part(part),
                false => self.outbox.borrow_mut().push(part),
            }
            self.outgoing.notify_one();
            if last {
                return Ok(());
            }
            buf = self.parts.comes_back().await.ok_or(None)?;
            // It was truncated, so it has the room.
            lengthen(&mut buf, room).map_err(|no| Some((no.into(), !alone)))?;
            next = stop;
        }
    }
}
