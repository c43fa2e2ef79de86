//! The transmission phase of one client.
//!
//! One task takes requests from the stream, some work on them, one sends replies.
//!
//! 1. Requests are begun in the order in which they arrived ([`Crew`]).
//! 2. A request is in flight from its arrival until its reply is sent. While as many are in
//!    flight as may be, nothing is received.
//! 3. A request that was begun is carried out to its end, whatever becomes of the client.

use super::handshake::ALLOCATION_CONTEXT;
use super::intake::{Chunk, Intake};
use super::outbox::Outbox;
use super::server::{Limits, OnCut, Switch};
use super::session::End;
use super::stream::Stream;
use super::wire::REQUEST_BYTES;
use super::{Command, Errno, Request, Terms, reply, wire};
use crate::crew::{Crew, Load};
use crate::volume::{Access, Failure};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{IoError, PowerCycle};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{First, Rt, first};

/// Data of at least so many bytes are sent from the buffer into which they were read.
const LONG_BYTES: u32 = 32 << 10;
/// Bytes for which a request without data counts: its reply.
const REPLY_BYTES: u64 = 64;
/// Bytes for which a question about what is allocated counts: its extents.
const STATUS_BYTES: u64 = 1024;
/// Bytes for which a refused request counts: its reply has a message.
const REFUSAL_BYTES: u64 = 320;

/// A request that waits for a worker.
struct Job {
    cookie: u64,
    command: Command,
    /// Where its payload lies.
    payload: Option<(Rc<Chunk>, usize)>,
    cost: Load,
}

/// See the module.
pub(crate) struct Connection<S: Stream, P: PowerCycle> {
    rt: Rt,
    stream: Rc<S>,
    access: Access<P>,
    terms: Terms,
    on_cut: OnCut,
    switch: Rc<Switch>,
    crew: Crew<Job>,
    outbox: RefCell<Outbox>,
    outgoing: WaitQueue,
    /// Nothing is sent any more, and why.
    gone: RefCell<Option<End>>,
}

impl<S: Stream, P: PowerCycle + 'static> Connection<S, P> {
    pub fn new(
        rt: &Rt,
        stream: Rc<S>,
        access: Access<P>,
        terms: Terms,
        (limits, on_cut): (Limits, OnCut),
        switch: Rc<Switch>,
    ) -> Connection<S, P> {
        let limit = Load { requests: limits.requests, bytes: limits.bytes };
        Connection {
            rt: rt.clone(),
            stream,
            access,
            terms,
            on_cut,
            switch,
            crew: Crew::new(rt, "a request of a client", limit),
            outbox: RefCell::default(),
            outgoing: WaitQueue::new(rt, "a reply to a client"),
            gone: RefCell::default(),
        }
    }

    /// Serves until the client goes, or has to; then all that was begun is done.
    pub async fn run(self: Rc<Self>, intake: Intake) -> End {
        let sender = self.rt.spawn_background("replies to a client", self.clone().send_replies());
        let end = self.take_requests(intake).await;
        self.crew.end();
        self.outgoing.notify_all();
        self.crew.idle().await;
        self.stream.shutdown();
        // It ends, since nothing is left to send.
        let _ = sender.await;
        self.gone.take().unwrap_or(end)
    }

    async fn take_requests(self: &Rc<Self>, mut intake: Intake) -> End {
        // Bytes of a payload that is passed over.
        let mut skip = 0;
        loop {
            let (chunk, mut start, end) = intake.share();
            let need = loop {
                let there = &chunk.bytes()[start..end];
                let over = there.len().min(skip as usize);
                if over > 0 {
                    skip -= over as u32;
                    start += over;
                    continue;
                }
                let Some(header) = there.first_chunk::<REQUEST_BYTES>() else {
                    break REQUEST_BYTES;
                };
                let Some(request) = Request::parse(header) else { return End::NotARequest };
                match request.check(&self.terms) {
                    Ok(Command::Disconnect) => return End::Gone,
                    Ok(command) => {
                        let whole = REQUEST_BYTES + request.payload() as usize;
                        if there.len() < whole {
                            break whole;
                        }
                        self.accept(request.cookie, command, &chunk, start + REQUEST_BYTES).await;
                        start += whole;
                    }
                    Err((errno, why)) => {
                        start += REQUEST_BYTES;
                        skip = request.payload();
                        let cost = Load::one(REFUSAL_BYTES);
                        self.crew.admit(cost).await;
                        self.fail(request.cookie, cost, errno, why);
                    }
                }
                if let Some(end) = self.has_to_end() {
                    return end;
                }
            };
            intake.go_on(chunk, start, end);
            intake.make_room(need);
            let received = first(intake.fill(&*self.stream), self.switch.turned()).await;
            match (self.has_to_end(), received) {
                (Some(end), _) => return end,
                (None, First::A(Ok(0))) if intake.content().is_empty() && skip == 0 => {
                    return End::Gone;
                }
                (None, First::A(Ok(0))) => return End::CutShort,
                (None, First::A(Ok(_))) => {}
                (None, First::A(Err(error))) => return End::Io(error.kind()),
                (None, First::B(())) => return End::Stopped,
            }
        }
    }

    /// Whether nothing more is to be taken from the client.
    fn has_to_end(&self) -> Option<End> {
        let switched = || self.switch.is_turned().then_some(End::Stopped);
        self.gone.borrow().clone().or_else(switched)
    }

    /// A request that can be carried out, with its payload in `chunk`.
    async fn accept(self: &Rc<Self>, cookie: u64, command: Command, chunk: &Rc<Chunk>, at: usize) {
        let bytes = match command {
            Command::Read { length, .. } | Command::Write { length, .. } => length.into(),
            Command::Status { .. } => STATUS_BYTES,
            _ => 0,
        };
        let cost = Load::one(bytes + REPLY_BYTES);
        self.crew.admit(cost).await;
        let writes = matches!(command, Command::Write { .. });
        let payload = writes.then(|| (chunk.clone(), at));
        let job = Job { cookie, command, payload, cost };
        self.crew.hand_in(job, || self.clone().work());
    }

    async fn work(self: Rc<Self>) {
        let mut scratch = Vec::new();
        while let Some(job) = self.crew.next().await {
            self.carry_out(job, &mut scratch).await;
        }
    }

    async fn carry_out(&self, job: Job, scratch: &mut Vec<u8>) {
        if self.switch.is_turned() {
            return self.fail(job.cookie, job.cost, Errno::Shutdown, "the server is stopping");
        }
        let (cookie, cost) = (job.cookie, job.cost);
        let done = match job.command {
            Command::Read { at, length } => {
                return self.read(cookie, cost, at, length, scratch).await;
            }
            Command::Status { at, length, one } => {
                return self.status(cookie, cost, at, length, one).await;
            }
            Command::Write { at, length, fua } => match &job.payload {
                Some((chunk, from)) if length > 0 => {
                    let data = &chunk.bytes()[*from..*from + length as usize];
                    self.access.write(at, data, fua).await
                }
                _ => Ok(()),
            },
            Command::Flush => self.access.flush().await,
            Command::Trim { at, length, fua } => self.access.trim(at, length.into(), fua).await,
            Command::Zero { length: 0, .. } | Command::Disconnect => Ok(()),
            Command::Zero { at, length, fua, keep, fast } => {
                self.access.zero(at, length.into(), fua, keep, fast).await
            }
        };
        // The buffer is free before the client can know that it may send more.
        drop(job);
        match done {
            Ok(()) => self.answer(cost, |out| reply::done(out, cookie)),
            Err(failure) => self.failed(cookie, cost, &failure),
        }
    }

    async fn read(&self, cookie: u64, cost: Load, at: u64, length: u32, scratch: &mut Vec<u8>) {
        let structured = self.terms.structured;
        if length == 0 {
            return self.answer(cost, |out| reply::nothing(out, structured, cookie));
        }
        let long = length >= LONG_BYTES;
        let head = reply::data_head_bytes(structured);
        let mut buf = if long { Vec::new() } else { std::mem::take(scratch) };
        buf.resize(head + length as usize, 0);
        let read = self.access.read(at, &mut buf[head..]).await;
        match read {
            Err(failure) => self.failed(cookie, cost, &failure),
            Ok(()) if long => {
                let mut front = Vec::with_capacity(head);
                reply::data_head(&mut front, structured, cookie, at, length);
                buf[..head].copy_from_slice(&front);
                if self.gone.borrow().is_none() {
                    self.outbox.borrow_mut().push(cost, buf);
                    self.outgoing.notify_one();
                } else {
                    self.crew.ease(cost);
                }
                return;
            }
            Ok(()) => self.answer(cost, |out| {
                reply::data_head(out, structured, cookie, at, length);
                out.extend_from_slice(&buf[head..]);
            }),
        }
        if !long {
            *scratch = buf;
        }
    }

    async fn status(&self, cookie: u64, cost: Load, at: u64, length: u32, one: bool) {
        let mut extents = Vec::new();
        match self.access.status(at, length, one, &mut extents).await {
            Ok(()) => {
                let flags = |hole| if hole { wire::STATE_HOLE | wire::STATE_ZERO } else { 0 };
                let extents: Vec<_> = extents.iter().map(|e| (e.0, flags(e.1))).collect();
                self.answer(cost, |out| reply::status(out, cookie, ALLOCATION_CONTEXT, &extents));
            }
            Err(failure) => self.failed(cookie, cost, &failure),
        }
    }

    fn failed(&self, cookie: u64, cost: Load, failure: &Failure) {
        if *failure == Failure::Device(IoError::PowerLost) && self.on_cut == OnCut::Drop {
            self.hang_up(End::PowerLost);
            return self.crew.ease(cost);
        }
        self.fail(cookie, cost, failure.into(), &failure.to_string());
    }

    fn fail(&self, cookie: u64, cost: Load, errno: Errno, why: &str) {
        self.answer(cost, |out| reply::error(out, self.terms.structured, cookie, errno, why));
    }

    fn answer(&self, cost: Load, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.gone.borrow().is_some() {
            return self.crew.ease(cost);
        }
        self.outbox.borrow_mut().append(cost, encode);
        self.outgoing.notify_one();
    }

    /// Nothing is sent any more; the stream ends, and with it what waits in it.
    fn hang_up(&self, why: End) {
        self.gone.borrow_mut().get_or_insert(why);
        self.stream.shutdown();
        let mut dropped = Load::default();
        while let Some(piece) = self.outbox.borrow_mut().pop() {
            dropped = dropped.plus(piece.answers);
        }
        self.crew.ease(dropped);
        self.outgoing.notify_all();
    }

    async fn send_replies(self: Rc<Self>) {
        loop {
            let piece = self.outbox.borrow_mut().pop();
            match piece {
                Some(piece) => {
                    let (sent, buf) = self.stream.send(piece.bytes).await;
                    self.outbox.borrow_mut().give_back(buf);
                    self.crew.ease(piece.answers);
                    if let Err(error) = sent {
                        self.hang_up(End::Io(error.kind()));
                    }
                }
                None if self.crew.is_over() && self.crew.is_idle() => return,
                None if self.gone.borrow().is_some() && self.crew.is_over() => return,
                None => self.outgoing.wait().await,
            }
        }
    }
}
