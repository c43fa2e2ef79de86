//! The session that serves a connection: requests go to a file system, and its answers back.
//!
//! 1. Requests begin in the order in which they arrived ([`Crew`]).
//! 2. At most [`LIMIT`] is in flight, counted in bytes of buffers. A request is taken only if the
//!    longest possible one would fit. The kernel keeps the rest.
//! 3. Buffers are made when they are needed ([`Buffers`]). Without memory for one more, the kernel
//!    keeps its requests until a buffer comes back.
//! 4. A request that has begun is carried out to its end. If the session ends first, it is not
//!    answered.

use super::buffers::Buffers;
use super::connection::{self, Connection, LONGEST, ROOM, Received};
use super::wire::{self, Operation, Request};
use crate::budget::{NoMemory, room};
use crate::crew::{Crew, Load};
use crate::nbd::OnCut;
use crate::volume::Failure;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use tantalum_device::IoError;
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{First, Rt, first};

/// The most that is in flight.
pub(super) const LIMIT: Load = Load { requests: 256, bytes: 64 << 20 };
/// The most that one request counts for.
const MOST: Load = Load { requests: 1, bytes: ROOM as u64 };
/// A request of up to this many bytes is copied out of the buffer in which it arrived.
const SHORT: usize = 64 << 10;
/// The most buffers of short requests that are kept for reuse.
const SPARE: usize = 128;
/// How many requests are taken before other tasks get their turn.
const AT_ONCE: usize = 64;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// An error number of the system.
    Errno(Errno),
    /// There is no power.
    PowerLost,
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Failed {
        Failed::Errno(errno)
    }
}

impl From<IoError> for Failed {
    fn from(error: IoError) -> Failed {
        Failed::Errno(match error {
            IoError::PowerLost => return Failed::PowerLost,
            IoError::Invalid(_) => Errno::INVAL,
            IoError::NoSpace => Errno::NOSPC,
            IoError::ReadOnly => Errno::ROFS,
            IoError::Uncorrectable(_) | IoError::Failed(_) | IoError::Poisoned => Errno::IO,
        })
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        match failure {
            Failure::Device(error) => error.into(),
            Failure::NotFast => Errno::OPNOTSUPP.into(),
            Failure::NoMemory => Errno::NOMEM.into(),
        }
    }
}

/// Carries out requests.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub(super) trait FileSystem: 'static {
    /// Carries out a request, and appends the body of the reply to `out`.
    async fn carry_out(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failed>;

    /// The kernel forgets this many of its lookups of a node.
    fn forget(&self, _node: u64, _lookups: u64) {}
}

/// How a session ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The file system was unmounted, or its connection aborted from outside.
    #[error("it was unmounted")]
    Unmounted,
    /// Its owner stopped it.
    #[error("it was stopped")]
    Stopped,
    /// The power was cut, and [`OnCut::Drop`] ends the connection then.
    #[error("the drive lost its power")]
    PowerLost,
    /// The kernel sent something that is not a request.
    #[error("the kernel sent something that is not a request")]
    NotARequest,
    /// The descriptor failed.
    #[error("no more requests can be read: {0}")]
    Io(io::Error),
}

struct Job {
    bytes: Vec<u8>,
    length: usize,
    cost: Load,
}

/// See the module.
pub(super) struct Session<F: FileSystem> {
    rt: Rt,
    connection: RefCell<Option<Rc<Connection>>>,
    files: Rc<F>,
    on_cut: OnCut,
    crew: Crew<Job>,
    hung_up: Cell<bool>,
    stop: WaitQueue,
    stopped: Cell<bool>,
    short: RefCell<Vec<Vec<u8>>>,
    long: Rc<Buffers>,
}

impl<F: FileSystem> Session<F> {
    pub fn new(rt: &Rt, connection: Connection, files: &Rc<F>, on_cut: OnCut) -> Rc<Session<F>> {
        Session::with(rt, connection, files, on_cut, connection::room)
    }

    /// The same; `make` makes buffers.
    pub fn with(
        rt: &Rt,
        connection: Connection,
        files: &Rc<F>,
        on_cut: OnCut,
        make: fn() -> Result<Vec<u8>, NoMemory>,
    ) -> Rc<Session<F>> {
        let long = Buffers::new(rt, connection.first_room(), make);
        Rc::new(Session {
            rt: rt.clone(),
            connection: RefCell::new(Some(Rc::new(connection))),
            files: files.clone(),
            on_cut,
            crew: Crew::new(rt, "a request of the kernel", LIMIT),
            hung_up: Cell::new(false),
            stop: WaitQueue::new(rt, "the end of a mount"),
            stopped: Cell::new(false),
            short: RefCell::default(),
            long: Rc::new(long),
        })
    }

    /// Ends the session. Requests that wait for an answer fail.
    pub fn stop(&self) {
        self.stopped.set(true);
        self.stop.notify_all();
    }

    /// Serves until the end. When it returns, all requests that had begun are done.
    pub async fn run(self: Rc<Self>) -> End {
        let connection = self.connection.borrow().clone();
        let buffers = self.long.clone();
        let trim = async move { buffers.trim().await };
        self.rt.spawn_background("buffers of requests", trim);
        let end = match connection {
            Some(connection) => self.serve(connection).await,
            None => End::Stopped,
        };
        self.crew.end();
        // The kernel fails all waiting requests when the last user of the descriptor is gone.
        self.connection.take();
        self.crew.idle().await;
        self.long.close();
        end
    }

    async fn serve(self: &Rc<Self>, connection: Rc<Connection>) -> End {
        let turned = || self.stopped.get() || self.hung_up.get();
        loop {
            let mut none = false;
            for _ in 0..AT_ONCE {
                first(self.crew.room(MOST), self.stop.until(turned)).await;
                if turned() {
                    break;
                }
                let Some(room) = self.long.get() else {
                    first(self.long.returns(), self.stop.until(turned)).await;
                    continue;
                };
                match self.take(&connection, room) {
                    Ok(true) => {}
                    Ok(false) => {
                        none = true;
                        break;
                    }
                    Err(end) => return end,
                }
            }
            if turned() {
                break;
            }
            if !none {
                self.rt.yield_now().await;
                continue;
            }
            match first(connection.wait(), self.stop.until(turned)).await {
                First::A(Ok(())) => {}
                First::A(Err(error)) => return End::Io(error),
                First::B(()) => break,
            }
        }
        if self.hung_up.get() { End::PowerLost } else { End::Stopped }
    }

    /// Takes a request from the kernel into this buffer. `false` if there is none.
    fn take(self: &Rc<Self>, connection: &Connection, mut long: Vec<u8>) -> Result<bool, End> {
        let received = connection.receive(&mut long);
        let length = match received {
            Ok(Received::Request(length)) => length,
            Ok(Received::Nothing) => {
                self.long.put(long);
                return Ok(false);
            }
            Ok(Received::End) => return Err(End::Unmounted),
            Err(error) => return Err(End::Io(error)),
        };
        let bytes = match self.short(&long[..length]) {
            Some(bytes) => {
                self.long.put(long);
                bytes
            }
            None => long,
        };
        let cost = match Request::parse(&bytes[..length]) {
            Some(Request { operation: Operation::Forget, .. }) => {
                for (node, lookups) in wire::forgotten(&bytes[..length]) {
                    self.files.forget(node, lookups);
                }
                self.give_back(bytes);
                return Ok(true);
            }
            Some(Request { operation: Operation::Read { length, .. }, .. }) => {
                Load::one(length.min(LONGEST).into())
            }
            // The buffer that the request keeps.
            Some(_) => Load::one(bytes.len() as u64),
            None => return Err(End::NotARequest),
        };
        self.crew.count(cost);
        self.crew.hand_in(Job { bytes, length, cost }, || self.clone().work());
        Ok(true)
    }

    /// Copies a request into a buffer of its own length. `None` if the request is long, or the
    /// system has no memory.
    fn short(&self, request: &[u8]) -> Option<Vec<u8>> {
        if request.len() > SHORT {
            return None;
        }
        let mut bytes = self.short.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        room(&mut bytes, request.len()).ok()?;
        bytes.extend_from_slice(request);
        Some(bytes)
    }

    fn give_back(&self, bytes: Vec<u8>) {
        if bytes.len() == ROOM {
            return self.long.put(bytes);
        }
        let mut short = self.short.borrow_mut();
        if short.len() < SPARE {
            short.push(bytes);
        }
    }

    async fn work(self: Rc<Self>) {
        let mut out = Vec::new();
        while let Some(job) = self.crew.next().await {
            self.carry_out(job, &mut out).await;
        }
    }

    async fn carry_out(&self, job: Job, out: &mut Vec<u8>) {
        if let Some(request) = Request::parse(&job.bytes[..job.length]) {
            wire::begin(out);
            let failed = self.files.carry_out(&request, out).await.err();
            let error = match failed {
                None => None,
                Some(Failed::Errno(errno)) => Some(errno),
                Some(Failed::PowerLost) => {
                    if self.on_cut == OnCut::Drop {
                        self.hung_up.set(true);
                        self.stop.notify_all();
                    }
                    Some(Errno::IO)
                }
            };
            wire::seal(out, request.unique, error.map(Errno::raw_os_error));
            if let Some(connection) = &*self.connection.borrow() {
                connection.reply(out);
            }
            if out.capacity() > SHORT + 4096 {
                *out = Vec::new();
            }
        }
        self.give_back(job.bytes);
        self.crew.ease(job.cost);
    }
}
