//! Replay of a recorded block trace on a device.
//!
//! # Invariants
//!
//! 1. Requests are issued in the order of the trace, each once. After a stop, playing resumes with
//!    the first request that was not issued.
//! 2. No more requests are in flight than the queue depth.
//! 3. With [`Mode::Timed`] a request is issued at its time (divided by the speed), counted from the
//!    first one after playing started or resumed. It is late only if the queue depth is reached,
//!    and the delay is recorded. A request whose time is before that of its predecessor is issued
//!    right after it.
//! 4. A read or write covers all blocks that it touches, a discard only the whole blocks within it.
//!    A flush before a request completes before the request is issued. Forced unit access is kept.
//! 5. Every request is within the device. [`Addresses`] maps its address, and a request that would
//!    end after the device is cut off there. Both are counted.
//! 6. A write that is refused for lack of space does not end playing, and does not count as
//!    completed.
//! 7. Only requests in flight take memory, in pieces of [`PIECE_BYTES`]: the trace is read while it
//!    is played.

use crate::jobs::fill;
use crate::trace::{BlkparseEvent, Event, Format, Kind, Options, Trace, TraceError};
use std::cell::{Cell, RefCell};
use std::io::BufRead;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tantalum_device::{
    Block, BlockDevice, Blocks, Caps, CommandKind, Durability, IoError, OwnedData,
};
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::{Nanos, Rt, Stream, mix64};

/// A longer request is carried out in pieces of this size, one after the other.
pub const PIECE_BYTES: u64 = 1 << 20;
/// Addresses are scaled in units of this size, so that neighbouring blocks stay neighbours.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// When requests are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Whenever fewer than the queue depth are in flight.
    #[default]
    Fast,
    /// At the trace's times.
    Timed,
}

/// How addresses of the trace are mapped to the device. All devices of the trace are played on one
/// device: requests of the second and further ones are shifted by distances that depend on the
/// device's number in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addresses {
    /// Modulo the device's size.
    #[default]
    Wrap,
    /// In proportion, in large units ([`CHUNK_BYTES`]), if the trace's device was larger than this
    /// one; otherwise they stay.
    Scale,
}

/// A trace and how it is played.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Playing {
    /// Its file, relative to the experiment's file. `built-in`: the small sample of the program.
    ///
    /// *Source*: own choice.
    pub file: String,
    /// Its format. Left out: by its contents.
    ///
    /// *Source*: the programs and collections that it names; `pages`: own choice.
    #[serde(default)]
    pub format: Option<Format>,
    /// Which of blkparse's events count as requests.
    ///
    /// *Source*: blkparse.
    #[serde(default)]
    pub event: BlkparseEvent,
    /// Bytes of a page in the format `pages`, and of a page in the `cache`.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_page_size")]
    pub page_size: u32,
    /// A flash cache before the row's device: the name of a `[cache.NAME]`. What is played on is
    /// the volume of both.
    ///
    /// *Source*: FaCE; its volume: own choice.
    #[serde(default)]
    pub cache: Option<String>,
    /// Only the requests of this device of the trace. Left out: all.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub device: Option<String>,
    /// When requests are issued.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub mode: Mode,
    /// With `timed`: how many times as fast as recorded.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_speed")]
    pub speed: f64,
    /// Requests in flight, at most. Left out: 1; with `timed` 1024.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub queue_depth: Option<u32>,
    /// How addresses of the trace become addresses of the device.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub addresses: Addresses,
    /// With `scale`: the size of the trace's device, MiB. Left out: where its last request ends,
    /// for which the whole trace is read first.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub span_mib: Option<u64>,
}

fn default_page_size() -> u32 {
    Options::default().page_size
}

fn default_speed() -> f64 {
    1.0
}

impl Playing {
    /// Plays this file as fast as possible, one request at a time.
    pub fn new(file: &str) -> Playing {
        Playing {
            file: file.into(),
            format: None,
            event: BlkparseEvent::default(),
            page_size: default_page_size(),
            cache: None,
            device: None,
            mode: Mode::default(),
            speed: default_speed(),
            queue_depth: None,
            addresses: Addresses::default(),
            span_mib: None,
        }
    }

    /// The options for reading the file.
    pub fn options(&self) -> Options {
        Options { format: self.format, blkparse_event: self.event, page_size: self.page_size }
    }

    fn depth(&self) -> u32 {
        self.queue_depth.unwrap_or(match self.mode {
            Mode::Fast => 1,
            Mode::Timed => 1024,
        })
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// [`ReplayError::Value`].
    pub fn check(&self) -> Result<(), ReplayError> {
        let value = |name, value, range| Err(ReplayError::Value { name, value, range });
        if !(self.speed > 0.0 && self.speed <= 1e6) {
            return value("speed", self.speed, "above 0, and at most a million");
        }
        if !(1..=65_536).contains(&self.depth()) {
            return value("queue_depth", self.depth().into(), "1 to 65536");
        }
        if self.page_size == 0 {
            return value("page_size", 0.0, "at least 1");
        }
        match self.span_mib {
            Some(mib) if !(1..=1 << 40).contains(&mib) => {
                value("span_mib", mib as f64, "1 to 2^40")
            }
            _ => Ok(()),
        }
    }
}

/// Why playing failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A parameter is out of its range.
    #[error("`{name}` is {value}, but must be {range}")]
    Value {
        /// The key.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its allowed range.
        range: &'static str,
    },
    /// [`Mode::Timed`] needs times, and the trace has none.
    #[error("the trace \"{file}\" has no times: play it with mode = \"fast\"")]
    NoTimes {
        /// The trace.
        file: String,
    },
    /// The trace has nothing to play.
    #[error("the trace \"{file}\" has no request{of} that could be played")]
    Nothing {
        /// The trace.
        file: String,
        /// The chosen device, in words, if there is one.
        of: String,
    },
    /// The device failed a request.
    #[error("a {kind} at {at} failed: {error}")]
    Io {
        /// The kind of the request.
        kind: CommandKind,
        /// Its first block.
        at: Block,
        /// The device's error.
        error: IoError,
    },
}

/// Why playing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The trace has ended. The next play begins anew.
    Trace,
    /// [`Player::stop`] was called.
    Stopped,
}

/// Counters of what was played so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Played {
    /// Requests issued. One that is carried out in pieces counts once.
    pub requests: u64,
    /// How often the trace reached its end.
    pub passes: u64,
    /// Requests whose addresses were changed.
    pub moved: u64,
    /// Requests cut off at the device's end.
    pub clipped: u64,
    /// Requests that were not of whole blocks.
    pub rounded: u64,
    /// Events that were not played: marks, requests of no length or of another device,
    /// discards of less than a block.
    pub skipped: u64,
    /// Requests issued later than their time, since the queue depth was reached.
    pub late: u64,
    /// The longest delay of a request.
    pub latest_ns: u64,
}

/// Opens the trace from its beginning.
pub type Open = Box<dyn FnMut() -> Result<Trace<Box<dyn BufRead>>, TraceError>>;

/// A request as the device gets it.
#[derive(Clone, Copy, Debug)]
struct Request {
    kind: CommandKind,
    range: Blocks,
    preflush: bool,
    /// By the trace's clock.
    time: Option<Nanos>,
}

struct Tape {
    open: Open,
    trace: Option<Trace<Box<dyn BufRead>>>,
    /// The request that was read and not issued yet.
    next: Option<Request>,
    /// Whether this pass has issued something.
    used: bool,
}

/// A trace that is being played. It remembers its position. Cheap to clone: a clone is the same
/// player.
#[derive(Clone)]
pub struct Player {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Rt,
    how: Playing,
    /// With [`Addresses::Scale`], the size of the trace's device.
    span: u64,
    tape: RefCell<Tape>,
    dice: RefCell<Stream>,
    played: Cell<Played>,
    stopped: Cell<bool>,
    failure: RefCell<Option<ReplayError>>,
    /// Notified of a stop and of a failure.
    news: WaitQueue,
}

impl Player {
    /// A player at the trace's beginning. The data that it writes follow from `seed`.
    ///
    /// # Errors
    /// The trace cannot be opened (or be read to find its span), or a parameter is out of its
    /// range.
    pub fn new(rt: &Rt, how: &Playing, mut open: Open, seed: u64) -> Result<Player, ReplayError> {
        how.check()?;
        let trace = open()?;
        let span = match (how.addresses, how.span_mib) {
            (Addresses::Wrap, _) => 0,
            (Addresses::Scale, Some(mib)) => mib << 20,
            (Addresses::Scale, None) => span_of(open()?)?,
        };
        let tape = Tape { open, trace: Some(trace), next: None, used: false };
        let shared = Shared {
            rt: rt.clone(),
            how: how.clone(),
            span,
            tape: RefCell::new(tape),
            dice: RefCell::new(Stream::new(seed, "trace replay")),
            played: Cell::default(),
            stopped: Cell::new(false),
            failure: RefCell::default(),
            news: WaitQueue::new(rt, "a replayed trace"),
        };
        Ok(Player { shared: Rc::new(shared) })
    }

    /// The counters of what was played so far.
    pub fn played(&self) -> Played {
        self.shared.played.get()
    }

    /// Ends [`Player::play`] soon. Requests in flight are waited for.
    pub fn stop(&self) {
        self.shared.stopped.set(true);
        self.shared.news.notify_all();
    }

    /// Plays until the trace's end, a stop, or a failure. `done` is called for each completed
    /// request, with its duration.
    ///
    /// # Errors
    /// [`ReplayError`]: the trace's error, or that of the first failed request. Other requests in
    /// flight are waited for.
    pub async fn play<D: BlockDevice + Clone + 'static>(
        &self,
        device: &D,
        done: impl Fn(CommandKind, Nanos) + 'static,
    ) -> Result<Ended, ReplayError> {
        let shared = &self.shared;
        shared.stopped.set(false);
        let caps = *device.caps();
        let depth = shared.how.depth().into();
        let room = Rc::new(Semaphore::new(&shared.rt, "the depth of a replayed trace", depth));
        let done: Rc<dyn Fn(CommandKind, Nanos)> = Rc::new(done);
        let mut origin = None;
        let ended = loop {
            if shared.is_over() {
                break Ok(Ended::Stopped);
            }
            let request = match shared.peek(&caps) {
                Ok(Some(request)) => request,
                Ok(None) => break Ok(Ended::Trace),
                Err(e) => break Err(e),
            };
            let due = match shared.due(&request, &mut origin) {
                Ok(due) => due,
                Err(e) => break Err(e),
            };
            if let Some(due) = due {
                shared.wait_until(due).await;
            }
            room.take(1).await;
            if shared.is_over() {
                room.release(1);
                break Ok(Ended::Stopped);
            }
            shared.issued(due);
            let stamp = shared.dice.borrow_mut().next_u64() | 1;
            let (shared, device) = (shared.clone(), device.clone());
            let (room, done) = (room.clone(), done.clone());
            self.shared.rt.spawn("a request of a trace", async move {
                let start = shared.rt.now();
                match carry_out(&device, &request, stamp).await {
                    // (A thin drive's refusal ends nothing.)
                    Err(IoError::NoSpace) => {}
                    Ok(()) => done(request.kind, shared.rt.now().saturating_sub(start)),
                    Err(error) => shared.fail(&request, error),
                }
                room.release(1);
            });
        };
        room.take(depth).await;
        match shared.failure.take() {
            Some(failure) => Err(failure),
            None => ended,
        }
    }
}

/// Reads a whole trace, and finds what would end its playing: a malformed line, a missing time,
/// nothing to play.
///
/// # Errors
/// [`ReplayError`], but never [`ReplayError::Io`].
pub fn check(how: &Playing, open: &mut Open) -> Result<(), ReplayError> {
    how.check()?;
    let mut trace = open()?;
    let mut any = false;
    while let Some(event) = trace.next() {
        let event = event?;
        let name = trace.devices().get(event.device.unwrap_or(0) as usize);
        let wanted = how.device.is_none() || how.device.as_ref() == name;
        let does = match event.kind {
            Kind::Mark => false,
            Kind::Flush => true,
            Kind::Read | Kind::Write | Kind::Discard => event.length > 0,
        };
        if !wanted || !does {
            continue;
        }
        any = true;
        let early = trace.format() == Format::Fio2;
        if how.mode == Mode::Timed && event.time.is_none() && !early {
            return Err(ReplayError::NoTimes { file: how.file.clone() });
        }
    }
    if any { Ok(()) } else { Err(nothing(how)) }
}

fn nothing(how: &Playing) -> ReplayError {
    let of = how.device.as_ref().map(|name| format!(" of device \"{name}\""));
    ReplayError::Nothing { file: how.file.clone(), of: of.unwrap_or_default() }
}

/// The end of the trace's last request by address, in bytes.
fn span_of(trace: Trace<Box<dyn BufRead>>) -> Result<u64, TraceError> {
    let mut span = 0;
    for event in trace {
        let event = event?;
        span = span.max(event.offset.saturating_add(event.length));
    }
    Ok(span)
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stopped.get() || self.failure.borrow().is_some()
    }

    fn fail(&self, request: &Request, error: IoError) {
        let (kind, at) = (request.kind, request.range.start);
        self.failure.borrow_mut().get_or_insert(ReplayError::Io { kind, at, error });
        self.news.notify_all();
    }

    fn count(&self, change: impl FnOnce(&mut Played)) {
        let mut played = self.played.get();
        change(&mut played);
        self.played.set(played);
    }

    /// Waits for a time, a stop or a failure.
    async fn wait_until(&self, due: Nanos) {
        let mut timer = pin!(self.rt.sleep_until(due));
        let mut news = pin!(self.news.until(|| self.is_over()));
        std::future::poll_fn(|cx| match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => news.as_mut().poll(cx),
        })
        .await;
    }

    /// When a request is due. `origin` is a time of the trace, and the time of the run that belongs
    /// to it.
    fn due(
        &self,
        request: &Request,
        origin: &mut Option<(Nanos, Nanos)>,
    ) -> Result<Option<Nanos>, ReplayError> {
        if self.how.mode == Mode::Fast {
            return Ok(None);
        }
        let time =
            request.time.ok_or_else(|| ReplayError::NoTimes { file: self.how.file.clone() })?;
        let (from, now) = *origin.get_or_insert((time, self.rt.now()));
        let after = time.saturating_sub(from).0 as f64 / self.how.speed;
        Ok(Some(now.saturating_add(Nanos(after as u64))))
    }

    /// Notes that the next request is issued now.
    fn issued(&self, due: Option<Nanos>) {
        let mut tape = self.tape.borrow_mut();
        tape.next = None;
        tape.used = true;
        let late = due.map_or(0, |due| self.rt.now().saturating_sub(due).0);
        self.count(|played| {
            played.requests += 1;
            played.late += u64::from(late > 0);
            played.latest_ns = played.latest_ns.max(late);
        });
    }

    /// The next request, without consuming it; `None` once at the trace's end.
    fn peek(&self, caps: &Caps) -> Result<Option<Request>, ReplayError> {
        let tape = &mut *self.tape.borrow_mut();
        while tape.next.is_none() {
            let trace = match &mut tape.trace {
                Some(trace) => trace,
                None => tape.trace.insert((tape.open)()?),
            };
            let Some(event) = trace.next() else {
                tape.trace = None;
                self.count(|played| played.passes += 1);
                if !std::mem::take(&mut tape.used) {
                    return Err(nothing(&self.how));
                }
                return Ok(None);
            };
            let event = event?;
            // In fio's version 2 requests before the first wait are at time 0.
            let early = (trace.format() == Format::Fio2).then_some(Nanos::ZERO);
            let event = Event { time: event.time.or(early), ..event };
            let device = event.device.unwrap_or(0);
            let name = trace.devices().get(device as usize);
            let wanted = self.how.device.is_none() || self.how.device.as_ref() == name;
            tape.next = if wanted { self.request(&event, device, caps) } else { None };
            if tape.next.is_none() {
                self.count(|played| played.skipped += 1);
            }
        }
        Ok(tape.next)
    }

    /// The request of an event, if there is one for the device.
    fn request(&self, event: &Event, device: u32, caps: &Caps) -> Option<Request> {
        let size = u64::from(caps.block_size);
        let end = event.offset.saturating_add(event.length);
        let (first, last) = match event.kind {
            Kind::Mark => return None,
            Kind::Flush => {
                let range = Blocks { start: Block(0), count: 0 };
                let (kind, time) = (CommandKind::Flush, event.time);
                return Some(Request { kind, range, preflush: false, time });
            }
            Kind::Discard => (event.offset.div_ceil(size), end / size),
            Kind::Read | Kind::Write if event.length == 0 => return None,
            Kind::Read | Kind::Write => (event.offset / size, end.div_ceil(size)),
        };
        if first >= last || caps.blocks == 0 {
            return None;
        }
        let start = self.place(first, device, caps);
        let count = (last - first).min(caps.blocks - start);
        self.count(|played| {
            played.moved += u64::from(start != first);
            played.clipped += u64::from(count < last - first);
            let whole = event.offset.is_multiple_of(size) && event.length.is_multiple_of(size);
            played.rounded += u64::from(!whole);
        });
        let kind = match event.kind {
            Kind::Read => CommandKind::Read,
            Kind::Discard => CommandKind::Discard,
            _ if event.flags.fua => CommandKind::Fua,
            _ => CommandKind::Write,
        };
        let range = Blocks { start: Block(start), count };
        Some(Request { kind, range, preflush: event.flags.preflush, time: event.time })
    }

    /// The device's block for a block of the trace, see [`Addresses`].
    fn place(&self, block: u64, device: u32, caps: &Caps) -> u64 {
        let chunk = (CHUNK_BYTES / u64::from(caps.block_size)).max(1);
        // At least one, of whole chunks if there are any.
        let chunks = (caps.blocks / chunk).max(1);
        let span = self.span.div_ceil(u64::from(caps.block_size)).div_ceil(chunk).max(1);
        let block = match self.how.addresses {
            Addresses::Scale if span > chunks => {
                let scaled = u128::from(block / chunk) * u128::from(chunks) / u128::from(span);
                (scaled as u64).saturating_mul(chunk).saturating_add(block % chunk)
            }
            _ => block,
        };
        let shift = if device == 0 { 0 } else { mix64(device.into()) % chunks * chunk };
        block.wrapping_add(shift) % caps.blocks
    }
}

async fn carry_out<D: BlockDevice>(
    device: &D,
    request: &Request,
    stamp: u64,
) -> Result<(), IoError> {
    let Request { kind, range, preflush, .. } = *request;
    if preflush || kind == CommandKind::Flush {
        device.flush().await?;
    }
    let want = match kind {
        CommandKind::Flush => return Ok(()),
        CommandKind::Discard => return device.discard(range).await,
        CommandKind::Fua => Durability::Fua,
        CommandKind::Read | CommandKind::Write | CommandKind::Group => Durability::Normal,
    };
    let caps = *device.caps();
    let most = (PIECE_BYTES / u64::from(caps.block_size)).max(1);
    for from in (0..range.count).step_by(most as usize) {
        let count = most.min(range.count - from);
        let at = Block(range.start.0 + from);
        let mut room = OwnedData::zeros(caps.payload, count as usize, caps.block_size);
        if kind == CommandKind::Read {
            device.read(at, room.as_mut()).await?;
        } else {
            fill(&mut room, stamp.wrapping_add(2 * from));
            device.write(at, room.as_data(), want).await?;
        }
    }
    Ok(())
}
