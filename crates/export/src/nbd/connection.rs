//! The transmission phase of one client.
//!
//! One task takes requests from the stream, several work on them, one sends replies.
//!
//! 1. Requests begin in the order in which they arrived ([`Crew`]).
//! 2. A request is in flight from its arrival until its reply is sent. At the limit of requests in
//!    flight, nothing is received.
//! 3. A request that has begun is carried out to its end, even if the client is gone.
//! 4. A write that is longer than a buffer is carried out in pieces as they arrive
//!    ([`Plan::next_command`](super::memory::Plan::next_command)). It is answered once, when all
//!    pieces are done.
//! 5. Memory for received bytes comes back when the device's commands end, whether or not the
//!    client takes replies: the worker of a read takes the memory for its data (`reads.rs`).

use super::handshake::ALLOCATION_CONTEXT;
use super::intake::{Chunk, Intake};
use super::memory::Accounts;
use super::outbox::Outbox;
use super::reads::{Parts, Read};
use super::scratch::Scratch;
use super::server::{Limits, OnCut, Switch, pause};
use super::session::{End, FAREWELL};
use super::stream::Stream;
use super::wire::REQUEST_BYTES;
use super::{Command, Errno, Request, Terms, reply, wire};
use crate::budget::{Grant, NoMemory};
use crate::crew::{Crew, Load};
use crate::volume::{Access, Failure};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{IoError, PowerCycle};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{First, Rt, first};

/// The cost in bytes of a request without data: its reply.
const REPLY_BYTES: u64 = 64;
/// The cost in bytes of a question about allocation: its extents.
const STATUS_BYTES: u64 = 1024;
/// The cost in bytes of a refused request: its reply with a message.
const REFUSAL_BYTES: u64 = 320;

/// A request, or a piece of one, that waits for a worker.
struct Job {
    cookie: u64,
    command: Command,
    /// Where its payload lies.
    payload: Option<(Rc<Chunk>, usize)>,
    cost: Load,
    /// The write of which this is a piece.
    whole: Option<Rc<Pieces>>,
}

/// A write that is carried out in pieces.
struct Pieces {
    cookie: u64,
    cost: Load,
    /// Pieces that are not done, plus one while more are to come.
    open: Cell<u32>,
    /// The first failure.
    failed: RefCell<Option<(Errno, String)>>,
    /// The client disconnected before all had arrived, so it gets no answer.
    unheard: Cell<bool>,
}

/// A write that has not arrived completely.
struct Incoming {
    /// The first byte of the first block.
    base: u64,
    /// The address of the next bytes, and how many are to come.
    at: u64,
    left: u64,
    fua: bool,
    whole: Rc<Pieces>,
}

/// See the module.
pub(crate) struct Connection<S: Stream, P: PowerCycle> {
    rt: Rt,
    stream: Rc<S>,
    pub(super) access: Access<P>,
    pub(super) terms: Terms,
    pub(super) accounts: Accounts,
    on_cut: OnCut,
    switch: Rc<Switch>,
    crew: Crew<Job>,
    pub(super) outbox: RefCell<Outbox>,
    pub(super) outgoing: WaitQueue,
    /// Buffers of small reads.
    pub(super) scratch: Scratch,
    /// The state of reads that are answered in parts, and buffers of long reads.
    pub(super) parts: Parts,
    /// Set when nothing is sent any more: why.
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
        accounts: Accounts,
    ) -> Connection<S, P> {
        let limit = Load { requests: limits.requests, bytes: limits.bytes };
        Connection {
            rt: rt.clone(),
            stream,
            access,
            terms,
            accounts,
            on_cut,
            switch,
            crew: Crew::new(rt, "a request of a client", limit),
            outbox: RefCell::default(),
            outgoing: WaitQueue::new(rt, "a reply to a client"),
            scratch: Scratch::default(),
            parts: Parts::new(rt),
            gone: RefCell::default(),
        }
    }

    /// Serves until the client disconnects or the session has to end. When it returns, all requests
    /// that had begun are done.
    pub async fn run(self: Rc<Self>, intake: Intake) -> End {
        let sender = self.rt.spawn_background("replies to a client", self.clone().send_replies());
        let mut incoming = None;
        let end = self.take_requests(intake, &mut incoming).await;
        if let Some(incoming) = incoming {
            incoming.whole.unheard.set(true);
            self.piece_done(&incoming.whole, None);
        }
        self.crew.end();
        self.outgoing.notify_all();
        self.crew.idle().await;
        // Wakes the sender, also if the last requests got no answer.
        self.outgoing.notify_all();
        if self.gone.borrow().is_none() {
            // All replies are sent, so the sender is not using the stream.
            first(self.stream.farewell(), pause(&self.rt, FAREWELL)).await;
        }
        self.stream.shutdown();
        // The sender ends, since nothing is left to send.
        let _ = sender.await;
        self.parts.drop_spare();
        self.gone.take().unwrap_or(end)
    }

    async fn take_requests(
        self: &Rc<Self>,
        mut intake: Intake,
        incoming: &mut Option<Incoming>,
    ) -> End {
        // Bytes of a refused payload that are still to be skipped.
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
                if let Some(write) = incoming {
                    let next = self.next_command(write.base, write.at, write.left) as usize;
                    if there.len() < next {
                        break next;
                    }
                    self.accept_piece(write, next, &chunk, start);
                    start += next;
                    if write.left == 0 {
                        self.piece_done(&write.whole, None);
                        *incoming = None;
                    }
                    continue;
                }
                let Some(header) = there.first_chunk::<REQUEST_BYTES>() else {
                    break REQUEST_BYTES;
                };
                let Some(request) = Request::parse(header) else { return End::NotARequest };
                match request.check(&self.terms) {
                    Ok(Command::Disconnect) => return End::Gone,
                    Ok(Command::Write { at, length, fua }) if self.has_pieces(at, length) => {
                        start += REQUEST_BYTES;
                        let write = self.begin_pieces(request.cookie, at, length, fua);
                        *incoming = Some(write.await);
                    }
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
            match first(intake.go_on(chunk, start, end), self.switch.turned()).await {
                First::A(Ok(())) => {}
                First::A(Err(NoMemory)) => return End::NoMemory,
                First::B(()) => return End::Stopped,
            }
            intake.make_room(need);
            let received = first(intake.fill(&*self.stream), self.switch.turned()).await;
            let between = intake.content().is_empty() && skip == 0 && incoming.is_none();
            match (self.has_to_end(), received) {
                (Some(end), _) => return end,
                (None, First::A(Ok(0))) if between => return End::Gone,
                (None, First::A(Ok(0))) => return End::CutShort,
                (None, First::A(Ok(_))) => {}
                (None, First::A(Err(error))) => return End::Io(error.kind()),
                (None, First::B(())) => return End::Stopped,
            }
        }
    }

    /// How many bytes of a write its next command has.
    fn next_command(&self, base: u64, at: u64, left: u64) -> u64 {
        let (unit, block) = (self.access.unit(), self.access.block());
        self.accounts.plan.next_command(unit, block, base, at, left)
    }

    /// Whether a write is carried out as several commands.
    fn has_pieces(&self, at: u64, length: u32) -> bool {
        let base = at - at % self.access.block();
        length > 0 && self.next_command(base, at, length.into()) < length.into()
    }

    /// Begins a write whose pieces arrive from now on.
    async fn begin_pieces(&self, cookie: u64, at: u64, length: u32, fua: bool) -> Incoming {
        let cost = Load::one(u64::from(length) + REPLY_BYTES);
        self.crew.admit(cost).await;
        let (failed, unheard) = (RefCell::default(), Cell::new(false));
        let whole = Rc::new(Pieces { cookie, cost, open: Cell::new(1), failed, unheard });
        Incoming { base: at - at % self.access.block(), at, left: length.into(), fua, whole }
    }

    /// Hands in the next piece of a write. Its payload begins at `from` in `chunk`.
    fn accept_piece(
        self: &Rc<Self>,
        write: &mut Incoming,
        bytes: usize,
        chunk: &Rc<Chunk>,
        from: usize,
    ) {
        let (at, length) = (write.at, bytes as u32);
        write.at += bytes as u64;
        write.left -= bytes as u64;
        write.whole.open.set(write.whole.open.get() + 1);
        let job = Job {
            cookie: write.whole.cookie,
            command: Command::Write { at, length, fua: write.fua },
            payload: Some((chunk.clone(), from)),
            cost: Load::default(),
            whole: Some(write.whole.clone()),
        };
        self.crew.hand_in(job, || self.clone().work());
    }

    /// A piece of a write is done, or no more are to come. The last call answers the write.
    fn piece_done(&self, whole: &Pieces, failed: Option<(Errno, String)>) {
        if let Some(failed) = failed {
            whole.failed.borrow_mut().get_or_insert(failed);
        }
        whole.open.set(whole.open.get() - 1);
        if whole.open.get() > 0 {
            return;
        }
        match whole.failed.take() {
            _ if whole.unheard.get() => self.crew.ease(whole.cost),
            Some((errno, why)) => self.fail(whole.cookie, whole.cost, errno, &why),
            None => self.answer(whole.cost, None, |out| reply::done(out, whole.cookie)),
        }
    }

    /// Whether, and why, nothing more is to be taken from the client.
    fn has_to_end(&self) -> Option<End> {
        let switched = || self.switch.is_turned().then_some(End::Stopped);
        self.gone.borrow().clone().or_else(switched)
    }

    /// Hands in a valid request, with its payload in `chunk`.
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
        let job = Job { cookie, command, payload, cost, whole: None };
        self.crew.hand_in(job, || self.clone().work());
    }

    async fn work(self: Rc<Self>) {
        while let Some(job) = self.crew.next().await {
            self.carry_out(job).await;
        }
    }

    async fn carry_out(&self, job: Job) {
        let (cookie, cost) = (job.cookie, job.cost);
        let done = if self.switch.is_turned() {
            Err((Errno::Shutdown, "the server is stopping".to_string()))
        } else {
            match job.command {
                Command::Read { at, length, whole } => {
                    return self.read(Read { cookie, cost, at, length, whole }).await;
                }
                Command::Status { at, length, one } => {
                    return self.status(cookie, cost, at, length, one).await;
                }
                _ => match self.change(&job).await {
                    Ok(()) => Ok(()),
                    Err(failure) if self.ends_with(&failure) => {
                        self.hang_up(End::PowerLost);
                        Err((Errno::Io, String::new()))
                    }
                    Err(failure) => Err(((&failure).into(), failure.to_string())),
                },
            }
        };
        // The buffer is free before the client gets the reply, which lets it send more.
        let Job { whole, payload, .. } = job;
        drop(payload);
        match (whole, done) {
            (Some(whole), done) => self.piece_done(&whole, done.err()),
            (None, Ok(())) => self.answer(cost, None, |out| reply::done(out, cookie)),
            (None, Err((errno, why))) => self.fail(cookie, cost, errno, &why),
        }
    }

    /// Carries out a command whose reply has no data.
    async fn change(&self, job: &Job) -> Result<(), Failure> {
        match job.command {
            Command::Write { at, length, fua } => match &job.payload {
                Some((chunk, from)) if length > 0 => {
                    let data = &chunk.bytes()[*from..*from + length as usize];
                    let _beside = self.beside(self.access.beside(at, length.into())).await;
                    self.access.write(at, data, fua).await
                }
                _ => Ok(()),
            },
            Command::Flush => self.access.flush().await,
            Command::Trim { at, length, fua } => self.access.trim(at, length.into(), fua).await,
            Command::Zero { at, length, fua, keep, fast } if length > 0 => {
                let _beside = self.beside(self.access.beside_zeros(at, length.into())).await;
                self.access.zero(at, length.into(), fua, keep, fast).await
            }
            _ => Ok(()),
        }
    }

    /// Memory for blocks that are written in part. It is taken before any range is locked.
    async fn beside(&self, bytes: u64) -> Option<Grant> {
        match bytes {
            0 => None,
            bytes => Some(self.accounts.bounce.take(bytes).await),
        }
    }

    async fn status(&self, cookie: u64, cost: Load, at: u64, length: u32, one: bool) {
        let mut extents = Vec::new();
        match self.access.status(at, length, one, &mut extents).await {
            Ok(()) => {
                let flags = |hole| if hole { wire::STATE_HOLE | wire::STATE_ZERO } else { 0 };
                let extents: Vec<_> = extents.iter().map(|e| (e.0, flags(e.1))).collect();
                self.answer(cost, None, |out| {
                    reply::status(out, cookie, ALLOCATION_CONTEXT, &extents);
                });
            }
            Err(failure) => self.failed(cookie, cost, &failure),
        }
    }

    /// Whether a failure is to end the connection.
    fn ends_with(&self, failure: &Failure) -> bool {
        *failure == Failure::Device(IoError::PowerLost) && self.on_cut == OnCut::Drop
    }

    pub(super) fn failed(&self, cookie: u64, cost: Load, failure: &Failure) {
        if self.ends_with(failure) {
            self.hang_up(End::PowerLost);
            return self.crew.ease(cost);
        }
        self.fail(cookie, cost, failure.into(), &failure.to_string());
    }

    fn fail(&self, cookie: u64, cost: Load, errno: Errno, why: &str) {
        self.answer(cost, None, |out| {
            reply::error(out, self.terms.structured, cookie, errno, why);
        });
    }

    /// Whether nothing more is taken from the client.
    pub(super) fn is_over(&self) -> bool {
        self.crew.is_over()
    }

    /// Whether nothing is sent any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.borrow().is_some()
    }

    /// A request gets no answer, because the client is gone.
    pub(super) fn unanswered(&self, cost: Load) {
        self.crew.ease(cost);
    }

    /// Queues a short answer, or one with the data of a small read, for which `memory` was taken.
    pub(super) fn answer(
        &self,
        cost: Load,
        memory: Option<Grant>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.is_gone() {
            return self.crew.ease(cost);
        }
        let bytes = memory.as_ref().map_or(0, Grant::bytes).max(STATUS_BYTES) as usize;
        let appended = self.outbox.borrow_mut().append(bytes, cost, memory, encode);
        match appended {
            Ok(()) => {
                self.outgoing.notify_one();
            }
            Err(NoMemory) => {
                self.hang_up(End::NoMemory);
                self.crew.ease(cost);
            }
        }
    }

    /// Ends the stream for this reason. Nothing more is sent, and queued replies are dropped.
    pub(super) fn hang_up(&self, why: End) {
        self.gone.borrow_mut().get_or_insert(why);
        self.stream.shutdown();
        let dropped = self.outbox.borrow_mut().clear();
        self.crew.ease(dropped);
        self.parts.nothing_is_sent();
        self.outgoing.notify_all();
    }

    async fn send_replies(self: Rc<Self>) {
        loop {
            let piece = self.outbox.borrow_mut().pop();
            match piece {
                Some(piece) => {
                    let small = piece.is_open();
                    let (sent, bytes) = self.stream.send(piece.bytes).await;
                    match piece.comes_back {
                        true => self.parts.sent(bytes),
                        false if small => self.outbox.borrow_mut().give_back(bytes),
                        false => self.keep(bytes, piece.grant),
                    }
                    self.crew.ease(piece.answers);
                    if let Err(error) = sent {
                        self.hang_up(End::Io(error.kind()));
                    }
                }
                None if self.crew.is_over() && self.crew.is_idle() => return,
                None if self.is_gone() && self.crew.is_over() => return,
                None => self.outgoing.wait().await,
            }
        }
    }
}
