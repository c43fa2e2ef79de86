//! The thread of a log: its runtime, the log, and what it does for other threads.
//!
//! 1. It does whatever the threads do not do by themselves: states, time, the archive, what is
//!    written again, and all writes to devices that are not lent.
//! 2. However the thread ends, the log is closed: whoever waits is woken with the reason.

use super::front::{Front, Rules, Time};
use super::pen::Pen;
use super::{BlockingError, BlockingOptions};
use crate::core::Core;
use crate::member::Member;
use crate::threads::closed;
use crate::{Log, LogDevice, LogError, LogStats, Lsn, Record};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::thread::JoinHandle;
use tantalum_device::BlockDevice;
use tantalum_rt::{Inbox, Nanos, Post, Rt, Runtime};

/// Letters that lie in the inbox of the thread, at most.
const LETTERS: usize = 64;
/// Bytes of records that a reader gets at once, about.
const PIECE: usize = 256 << 10;

/// Some records; none: that was the last.
pub(super) type Piece = Result<Vec<Record>, LogError>;
/// A reader asks for more.
pub(super) type More = Sender<Piece>;
/// Is told of every durable LSN, or of the end, until it breaks.
pub(super) type Listener =
    Box<dyn FnMut(Result<Lsn, LogError>) -> ControlFlow<()> + Send + 'static>;

/// What other threads ask for.
pub(super) enum Letter {
    Checkpoint(Lsn, u64, Sender<Result<(), LogError>>),
    NearlyFull(u64, Sender<Result<(), LogError>>),
    Stats(Sender<LogStats>),
    Read(Lsn, Sender<Result<Post<More>, LogError>>),
    /// With the durable LSN that the listener has seen.
    Subscribe(Lsn, Listener),
    Close(Sender<Result<(), LogError>>),
}

/// The way to a thread that serves a log.
pub(super) struct Opened {
    pub front: Arc<Front>,
    pub post: Post<Letter>,
}

/// Starts a thread and a runtime in it; `body` has both ends of the channel by which it says that
/// it is ready.
pub(super) fn start<T: Send + 'static>(
    seed: u64,
    options: &BlockingOptions,
    body: impl FnOnce(Runtime, &Sender<Result<T, BlockingError>>) + Send + 'static,
) -> Result<(T, JoinHandle<()>), BlockingError> {
    let (to, ready) = channel();
    let wall = options.wall;
    let body = move || {
        let run = AssertUnwindSafe(|| match Runtime::wall_time(seed, wall) {
            Ok(runtime) => body(runtime, &to),
            Err(e) => drop(to.send(Err(BlockingError::Runtime(e)))),
        });
        if let Err(panic) = catch_unwind(run) {
            // If the log was open its waiters are told; this is for whoever opens it.
            drop(to.send(Err(BlockingError::Panicked(said(&*panic).to_string()))));
        }
    };
    #[allow(clippy::disallowed_methods, reason = "one runtime is one thread: this is that")]
    let thread = std::thread::Builder::new().name("tantalum-log".into()).spawn(body);
    let thread = thread.map_err(BlockingError::Runtime)?;
    match ready.recv() {
        Ok(Ok(value)) => Ok((value, thread)),
        failed => {
            let _ = thread.join();
            let nothing = || BlockingError::Panicked("it ended".to_string());
            Err(failed.map_or_else(|_| nothing(), |f| f.err().unwrap_or_else(nothing)))
        }
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Lends a device to threads, if that can be.
pub(super) type Lend<D> = fn(&D, u32) -> Option<Box<dyn Pen>>;

/// The clock of the runtime, for other threads.
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the edge: real time")]
fn time(rt: &Rt) -> Time {
    let (began, now) = (std::time::Instant::now(), rt.now());
    Box::new(move || now.saturating_add(Nanos(began.elapsed().as_nanos() as u64)))
}

/// Opens the log on what `make` gives, and serves it until the last [`Post`] is gone.
pub(super) fn run<D, M, F>(
    mut runtime: Runtime,
    options: BlockingOptions,
    make: M,
    lend: Lend<D>,
    ready: &Sender<Result<Opened, BlockingError>>,
) where
    D: BlockDevice + Clone + 'static,
    M: FnOnce(Rt) -> F,
    F: Future<Output = Result<Vec<LogDevice<D>>, BlockingError>> + 'static,
{
    let rt = runtime.handle();
    let devices = make(rt.clone());
    let open = options.open;
    let opened = runtime.block_on(async move { Ok(Log::open(&rt, devices.await?, open).await?) });
    let log = match opened {
        Ok(Ok(log)) => log,
        Ok(Err(e)) => return drop(ready.send(Err(e))),
        Err(e) => return drop(ready.send(Err(BlockingError::Panicked(e.to_string())))),
    };
    let core = &log.core;
    let rules = Rules {
        record_limit: core.record_limit,
        read_only: core.options.read_only,
        when_full: core.options.when_full,
    };
    let rt = runtime.handle();
    // On a clock of another pace threads would not know the time.
    let lends = options.wall.time_scale == 1.0 && !rules.read_only;
    let pen = |member: &Option<Rc<Member<D>>>| {
        let member = member.as_ref().filter(|m| lends && m.forces_writes())?;
        lend(&member.device, member.superblock.unit)
    };
    let pens = core.members.borrow().iter().map(pen).collect();
    let front = Arc::new(Front::new(rules, core.shared.clone(), pens, time(&rt)));
    let (post, letters) = rt.inbox_of(LETTERS);
    drop(ready.send(Ok(Opened { front: front.clone(), post })));
    let serving = serve(rt, log, letters, front.clone());
    let ended = catch_unwind(AssertUnwindSafe(move || {
        let ended = runtime.block_on(serving);
        drop(runtime);
        ended
    }));
    let why = match ended {
        Ok(Ok(())) => closed(),
        Ok(Err(e)) => LogError::Failed(format!("its thread cannot go on: {e}")),
        Err(panic) => LogError::Failed(format!("its thread panicked: {}", said(&*panic))),
    };
    front.close(why);
}

async fn serve<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    mut letters: Inbox<Letter>,
    front: Arc<Front>,
) {
    rt.spawn_background("log: news of other threads", look(log.core.clone(), front.clone()));
    let (core, end) = (log.core.clone(), front.clone());
    rt.spawn_background("log: its end", async move {
        core.chores.wait_while(|| !core.is_failed()).await;
        end.close(core.check_failed().err().unwrap_or_else(closed));
    });
    while let Some(letter) = letters.next().await {
        rt.spawn_background(
            "log: a letter",
            answer(rt.clone(), log.clone(), letter, front.clone()),
        );
    }
}

/// Carries out what a letter asks for. If its sender is gone the answer is not needed.
async fn answer<D: BlockDevice + Clone + 'static>(
    rt: Rt,
    log: Log<D>,
    letter: Letter,
    front: Arc<Front>,
) {
    match letter {
        Letter::Checkpoint(lsn, number, to) => drop(to.send(log.checkpoint(lsn, number).await)),
        Letter::NearlyFull(percent, to) => drop(to.send(log.nearly_full(percent).await)),
        Letter::Stats(to) => drop(to.send(log.stats())),
        Letter::Read(from, to) => match log.read(from) {
            Err(e) => drop(to.send(Err(e))),
            Ok(records) => {
                let (post, asks) = rt.inbox_of(1);
                drop(to.send(Ok(post)));
                read(records, asks).await;
            }
        },
        Letter::Subscribe(mut seen, mut listener) => loop {
            let next = log.next_durable(seen).await;
            seen = next.as_ref().map_or(seen, |lsn| *lsn);
            let ended = next.is_err();
            if listener(next).is_break() || ended {
                return;
            }
        },
        Letter::Close(to) => {
            let ended = match front.check_closed() {
                Ok(()) => {
                    front.stop_appends();
                    log.core.pump();
                    log.close().await
                }
                closed => closed,
            };
            front.close(closed());
            drop(to.send(ended));
        }
    }
}

/// Reads as long as somebody asks for more.
async fn read<D: BlockDevice + 'static>(mut records: crate::Records<D>, mut asks: Inbox<More>) {
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
