//! The thread of a log: its runtime, the log, and what it does for other threads.
//!
//! 1. It does whatever the threads do not do by themselves: states, time, the archive, what is
//!    written again, and all writes to devices that are not lent.
//! 2. However the thread ends, the log is closed: whoever waits is woken with the reason.
//! 3. It ends with the log when that is closed, once its listeners have been told.

use super::front::{Front, Rules, Time};
use super::listener::Listener;
use super::{BlockingError, BlockingOptions};
use crate::core::Core;
use crate::member::Member;
use crate::pen::Pen;
use crate::threads::closed;
use crate::{Log, LogDevice, LogError, LogStats, Lsn, OneCopy, OpenError, Record};
use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Poll;
use tantalum_device::BlockDevice;
use tantalum_rt::calls::{Calls, Over, Served, ThreadOptions};
use tantalum_rt::sync::{Mutex, WaitQueue};
use tantalum_rt::{Inbox, Nanos, Post, Rt};

/// Letters that lie in the inbox of the thread, at most.
const LETTERS: usize = 64;
/// What threads of logs are called.
pub(super) const NAME: &str = "tantalum-log";
/// Bytes of records that a reader gets at once, about.
const PIECE: usize = 256 << 10;

/// Some records; none: that was the last.
pub(super) type Piece = Result<Vec<Record>, LogError>;
/// A reader asks for more.
pub(super) type More = Sender<Piece>;

/// A device that is being made: a [`LogDevice`] of the kind that the log has.
pub(super) type Made = Pin<Box<dyn Future<Output = Result<Box<dyn Any>, BlockingError>>>>;

/// A device that is to take the place of a lost one.
pub(super) struct Replacement {
    pub index: usize,
    pub make: Box<dyn FnOnce(Rt) -> Made + Send>,
    pub force: bool,
}

/// What other threads ask for.
pub(super) enum Letter {
    Checkpoint(Lsn, u64, Sender<Result<(), LogError>>),
    NearlyFull(u64, Sender<Result<(), LogError>>),
    Replace(Replacement, Sender<Result<(), BlockingError>>),
    Stats(Sender<LogStats>),
    OneCopy(Sender<Result<Vec<OneCopy>, LogError>>),
    Read(Lsn, Sender<Result<Post<More>, LogError>>),
    /// With the durable LSN that the listener has seen.
    Subscribe(Lsn, Listener),
    Close(Sender<Result<(), LogError>>),
}

/// Lends a device to threads, if that can be.
pub(super) type Lend<D> = fn(&D, u32) -> Option<Box<dyn Pen>>;

/// Whether and how devices are lent to threads.
struct Lender<D> {
    lends: bool,
    lend: Lend<D>,
}

impl<D> Clone for Lender<D> {
    fn clone(&self) -> Lender<D> {
        *self
    }
}

impl<D> Copy for Lender<D> {}

impl<D: BlockDevice> Lender<D> {
    fn pen(&self, member: &Option<Rc<Member<D>>>) -> Option<Box<dyn Pen>> {
        let member = member.as_ref().filter(|m| self.lends && m.forces_writes())?;
        (self.lend)(&member.device, member.superblock.unit)
    }
}

/// The clock of the runtime, for other threads.
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the edge: real time")]
fn time(rt: &Rt) -> Time {
    let (began, now) = (std::time::Instant::now(), rt.now());
    Box::new(move || now.saturating_add(Nanos(began.elapsed().as_nanos() as u64)))
}

/// Starts a thread. It opens the log on what `make` gives, and serves it until nobody can call any
/// more.
pub(super) fn start<D, M, F>(
    options: BlockingOptions,
    make: M,
    lend: Lend<D>,
) -> Result<(Arc<Front>, Calls<Letter>), BlockingError>
where
    D: BlockDevice + Clone + 'static,
    M: FnOnce(Rt) -> F + Send + 'static,
    F: Future<Output = Result<Vec<LogDevice<D>>, BlockingError>> + 'static,
{
    let BlockingOptions { open, wall, .. } = options;
    let open = async move |rt: Rt| {
        let log = Log::open(&rt, make(rt.clone()).await?, open).await?;
        Ok::<_, BlockingError>(log)
    };
    let serve = move |rt: Rt, log: Log<D>, letters| {
        // On a clock of another pace threads would not know the time.
        let lends = wall.time_scale == 1.0 && !log.core.options.read_only;
        let lender = Lender { lends, lend };
        let front = Arc::new(front(&rt, &log, lender));
        let end = front.clone();
        let ended = move |why: Result<(), String>| {
            end.close(why.err().map_or_else(closed, LogError::Failed))
        };
        Served { told: front.clone(), serving: serve(rt, log, letters, front, lender), ended }
    };
    Calls::start(ThreadOptions { name: NAME, letters: LETTERS, wall }, open, serve)
}

/// What threads use of the log by themselves.
fn front<D: BlockDevice + Clone + 'static>(rt: &Rt, log: &Log<D>, lender: Lender<D>) -> Front {
    let core = &log.core;
    let rules = Rules {
        record_limit: core.record_limit,
        read_only: core.options.read_only,
        when_full: core.options.when_full,
    };
    let pens = core.members.borrow().iter().map(|member| lender.pen(member)).collect();
    Front::new(rules, core.shared.clone(), pens, time(rt))
}

async fn serve<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    mut letters: Inbox<Letter>,
    front: Arc<Front>,
    lender: Lender<D>,
) {
    rt.spawn_background("log: news of other threads", look(log.core.clone(), front.clone()));
    let (core, end) = (log.core.clone(), front.clone());
    rt.spawn_background("log: its end", async move {
        core.chores.wait_while(|| !core.is_failed()).await;
        end.close(core.check_failed().err().unwrap_or_else(closed));
    });
    let changed = WaitQueue::new(&rt, "listeners of a log");
    let listeners = Rc::new(Listeners {
        count: Cell::new(0),
        changed,
        closing: Mutex::new(&rt, "the end of a log"),
    });
    let over = Rc::new(Over::new(&rt));
    while let Some(letter) = over.next(&mut letters).await {
        let ends = (listeners.clone(), over.clone());
        rt.spawn_background(
            "log: a letter",
            answer(rt.clone(), log.clone(), letter, (front.clone(), lender), ends),
        );
    }
}

/// Who is told of durable LSNs.
struct Listeners {
    count: Cell<usize>,
    changed: WaitQueue,
    /// Held while the log is closed.
    closing: Mutex,
}

impl Listeners {
    fn add(&self, one: isize) {
        self.count.set(self.count.get().wrapping_add_signed(one));
        self.changed.notify_all();
    }
}

/// Carries out what a letter asks for. If its sender is gone the answer is not needed.
async fn answer<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    letter: Letter,
    (front, lender): (Arc<Front>, Lender<D>),
    (listeners, over): (Rc<Listeners>, Rc<Over>),
) {
    match letter {
        Letter::Checkpoint(lsn, number, to) => drop(to.send(log.checkpoint(lsn, number).await)),
        Letter::NearlyFull(percent, to) => drop(to.send(log.nearly_full(percent).await)),
        Letter::Replace(replacement, to) => {
            drop(to.send(replace(rt, log, replacement, &front, lender).await));
        }
        Letter::Stats(to) => drop(to.send(log.stats())),
        Letter::OneCopy(to) => drop(to.send(log.one_copy().await)),
        Letter::Read(from, to) => match log.read(from) {
            Err(e) => drop(to.send(Err(e))),
            Ok(records) => {
                let (post, asks) = rt.inbox_of(1);
                drop(to.send(Ok(post)));
                read(records, asks).await;
            }
        },
        Letter::Subscribe(mut seen, mut listener) => {
            listeners.add(1);
            loop {
                let next = log.next_durable(seen).await;
                seen = next.as_ref().map_or(seen, |lsn| *lsn);
                if !listener.tell(next) {
                    break;
                }
            }
            listeners.add(-1);
        }
        Letter::Close(to) => {
            // The second of two waits for the end of the first.
            let _turn = listeners.closing.lock().await;
            let ended = match front.check_closed() {
                Ok(()) => {
                    front.stop_appends();
                    log.core.pump();
                    log.close().await
                }
                closed => closed,
            };
            front.close(closed());
            listeners.changed.until(|| listeners.count.get() == 0).await;
            over.tell();
            drop(to.send(ended));
        }
    }
}

/// Puts a new device in the place of a lost one, and lends it to threads.
async fn replace<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    Replacement { index, make, force }: Replacement,
    front: &Front,
    lender: Lender<D>,
) -> Result<(), BlockingError> {
    let device = make(rt).await?.downcast::<LogDevice<D>>().map_err(|_| {
        let why = "the new device is of another type than those of the log: use one of theirs";
        OpenError::Options(why.to_string())
    })?;
    log.replace(index, *device, force).await?;
    front.lend(index, lender.pen(&log.core.member(index)));
    Ok(())
}

/// Reads as long as somebody asks for more.
async fn read<D: BlockDevice + Clone + 'static>(
    mut records: crate::Records<D>,
    mut asks: Inbox<More>,
) {
    while let Some(to) = asks.next().await {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        let failed = loop {
            match records.next().await {
                Ok(Some(record)) => {
                    bytes += record.bytes.len() + size_of::<Record>();
                    piece.push(record);
                    if bytes >= PIECE {
                        break None;
                    }
                }
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        };
        // What was read before an error comes before it.
        let sent = match failed {
            Some(e) if piece.is_empty() => to.send(Err(e)),
            _ => to.send(Ok(piece)),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Carries the log on when there is something for it.
async fn look<D: BlockDevice + Clone + 'static>(core: Rc<Core<D>>, front: Arc<Front>) {
    loop {
        poll_fn(|cx| match front.arm(cx.waker()) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        core.pump();
    }
}
