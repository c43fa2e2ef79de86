//! A server: exports, and the clients that use them.
//!
//! 1. There are never more clients than [`Limits::clients`]: one more is disconnected at once.
//! 2. A server that stops takes nothing more from any client, answers the requests under way, and
//!    then ends. A client that does not take its answers in time is disconnected.

use super::memory::Plan;
use super::session::{self, Common};
use super::stream::Stream;
use super::tls::Tls;
use super::{End, Export, ExportError};
use crate::MemoryUse;
use crate::budget::Budget;
use crate::volume::common_multiple;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::PowerCycle;
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{First, Nanos, Rt, first};

/// The limits for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most clients at a time.
    pub clients: u32,
    /// The most requests in flight of each client.
    pub requests: u32,
    /// The most bytes in flight of each client. A single request is always taken.
    pub bytes: u64,
    /// The longest read or write, in bytes.
    pub payload: u32,
    /// The most options that a client may send before it chooses an export.
    pub options: u32,
    /// The real time within which it must have chosen.
    pub handshake: Nanos,
    /// The most bytes of memory that the server holds for all of its clients: for what it receives,
    /// puts together and answers.
    pub memory: u64,
}

impl Default for Limits {
    /// 64 clients, with 256 requests and 64 MiB each; requests of up to 32 MiB (which clients
    /// assume if they are told no limit); 64 options in 10 s; 256 MiB of memory.
    fn default() -> Limits {
        Limits {
            clients: 64,
            requests: 256,
            bytes: 64 << 20,
            payload: 32 << 20,
            options: 64,
            handshake: Nanos::from_secs(10),
            memory: 256 << 20,
        }
    }
}

impl Limits {
    /// Checks that the limits are valid. [`Server::new`] does that too.
    ///
    /// # Errors
    /// [`ExportError::Limit`] says which is out of bounds.
    pub fn check(&self) -> Result<(), ExportError> {
        let bounds = [
            ("clients", self.clients.into(), 1, 1 << 16),
            ("requests", self.requests.into(), 1, 1 << 16),
            ("bytes in flight", self.bytes, 4096, 1 << 40),
            // The least is what any client may assume. The most is what lengths in replies can say.
            ("bytes of a request", self.payload.into(), 64 << 10, 1 << 30),
            ("options", self.options.into(), 1, 1 << 16),
            ("bytes of memory", self.memory, 1 << 20, 1 << 40),
        ];
        match bounds.into_iter().find(|(_, value, min, max)| value < min || value > max) {
            Some((what, value, min, max)) => Err(ExportError::Limit { what, value, min, max }),
            None => Ok(()),
        }
    }
}

/// How clients notice that the drive's power was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCut {
    /// Their commands fail (EIO) until they connect again after the power is back.
    #[default]
    Errors,
    /// Their connections drop.
    Drop,
}

/// How a server serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What clients may ask for.
    pub limits: Limits,
    /// How clients notice a cut.
    pub on_cut: OnCut,
}

/// An event for an observer of the server. Clients are numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client connected, from this address.
    Came(u64, String),
    /// It was disconnected at once: there are too many.
    SentAway(u64),
    /// It has chosen the export of this name.
    Chose(u64, String),
    /// Its connection ended.
    Ended(u64, End),
    /// A client could not be accepted, for this reason.
    Trouble(String),
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::Came(id, peer) => write!(f, "client {id} connected from {peer}"),
            Event::SentAway(id) => write!(f, "client {id} was turned away: there are too many"),
            Event::Chose(id, name) => write!(f, "client {id} uses export \"{name}\""),
            Event::Ended(id, end) => write!(f, "client {id}: {end}"),
            Event::Trouble(why) => write!(f, "a client could not be accepted: {why}"),
        }
    }
}

/// Signals a session that it has to end.
pub(crate) struct Switch {
    turned: Cell<bool>,
    changed: WaitQueue,
}

impl Switch {
    fn new(rt: &Rt) -> Switch {
        Switch { turned: Cell::new(false), changed: WaitQueue::new(rt, "a client to send bytes") }
    }

    fn turn(&self) {
        self.turned.set(true);
        self.changed.notify_all();
    }

    pub fn is_turned(&self) -> bool {
        self.turned.get()
    }

    /// Waits until it is turned.
    pub async fn turned(&self) {
        self.changed.until(|| self.turned.get()).await;
    }
}

/// What the server keeps of a client.
struct Client {
    switch: Rc<Switch>,
    hang_up: Box<dyn Fn()>,
}

/// A server of exports, and the clients that use them. A handle to it, and cheap to clone.
///
/// See [the crate](crate) for an example.
pub struct Server<P: PowerCycle> {
    inner: Rc<Inner<P>>,
}

impl<P: PowerCycle> Clone for Server<P> {
    fn clone(&self) -> Server<P> {
        Server { inner: self.inner.clone() }
    }
}

struct Inner<P: PowerCycle> {
    common: Common<P>,
    plan: Plan,
    budget: Rc<Budget>,
    clients: RefCell<BTreeMap<u64, Client>>,
    next: Cell<u64>,
    stopping: Cell<bool>,
    /// Notified when a client has left, and when the server is to stop.
    left: WaitQueue,
    tell: Box<dyn Fn(&Event)>,
}

impl<P: PowerCycle + 'static> Server<P> {
    /// A server of these exports. `tell` is called with all events.
    ///
    /// # Errors
    /// [`ExportError`] if they cannot be served with these options.
    pub fn new(
        rt: &Rt,
        exports: Vec<Export<P>>,
        options: Options,
        tell: impl Fn(&Event) + 'static,
    ) -> Result<Server<P>, ExportError> {
        Server::with_tls(rt, exports, options, None, tell)
    }

    /// The same. With `tls` it takes no client without TLS.
    ///
    /// # Errors
    /// [`ExportError`] if they cannot be served with these options.
    pub fn with_tls(
        rt: &Rt,
        exports: Vec<Export<P>>,
        options: Options,
        tls: Option<Tls>,
        tell: impl Fn(&Event) + 'static,
    ) -> Result<Server<P>, ExportError> {
        options.limits.check()?;
        let offer = |e: &Export<P>| e.offer(options.limits.payload);
        let offers = exports.iter().map(offer).collect::<Result<Vec<_>, _>>()?;
        if offers.is_empty() {
            return Err(ExportError::Nothing);
        }
        for (i, offer) in offers.iter().enumerate() {
            if offers[..i].iter().any(|o| o.name == offer.name) {
                return Err(ExportError::Twice(offer.name.clone()));
            }
        }
        let (unit, block) = exports
            .iter()
            .map(Export::unit)
            .fold((1, 1), |all, export| (common_multiple(all.0, export.0), all.1.max(export.1)));
        let plan = Plan::new(&options.limits, unit, block, tls.is_some())?;
        let budget = plan.budget(rt, &options.limits);
        let common = Common { rt: rt.clone(), exports, offers, options, tls };
        let inner = Inner {
            common,
            plan,
            budget,
            clients: RefCell::default(),
            next: Cell::new(1),
            stopping: Cell::new(false),
            left: WaitQueue::new(rt, "clients to go"),
            tell: Box::new(tell),
        };
        Ok(Server { inner: Rc::new(inner) })
    }

    /// Serves a client that has connected, in a task of its own. `peer` says where it connected
    /// from.
    pub fn accept<S: Stream>(&self, stream: S, peer: impl Into<Cow<'static, str>>) {
        let inner = self.inner.clone();
        let rt = inner.common.rt.clone();
        let id = inner.next.get();
        inner.next.set(id + 1);
        (inner.tell)(&Event::Came(id, peer.into().into_owned()));
        let full = inner.clients.borrow().len() >= inner.common.options.limits.clients as usize;
        let accounts =
            if full || inner.stopping.get() { None } else { inner.plan.open(&inner.budget) };
        let Some(accounts) = accounts else {
            stream.shutdown();
            return (inner.tell)(&Event::SentAway(id));
        };
        let (stream, switch) = (Rc::new(stream), Rc::new(Switch::new(&rt)));
        let line = Rc::downgrade(&stream);
        let hang_up = Box::new(move || {
            if let Some(stream) = line.upgrade() {
                stream.shutdown();
            }
        });
        let client = Client { switch: switch.clone(), hang_up };
        inner.clients.borrow_mut().insert(id, client);
        rt.spawn_background("a client", async move {
            let chosen = |export: usize| {
                let name = inner.common.offers[export].name.clone();
                (inner.tell)(&Event::Chose(id, name));
            };
            let end = session::run(&inner.common, stream, switch, accounts, chosen).await;
            inner.clients.borrow_mut().remove(&id);
            (inner.tell)(&Event::Ended(id, end));
            inner.left.notify_all();
        });
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        self.inner.clients.borrow().len()
    }

    /// The memory that the server holds for its clients.
    pub fn memory(&self) -> MemoryUse {
        self.inner.budget.memory()
    }

    /// The exports.
    pub fn exports(&self) -> &[Export<P>] {
        &self.inner.common.exports
    }

    /// Drops all connections at once. Requests under way are carried out.
    pub fn drop_clients(&self) {
        for client in self.inner.clients.borrow().values() {
            client.switch.turn();
            (client.hang_up)();
        }
    }

    /// Stops the server: takes no more clients, and nothing more from present ones, and waits until
    /// all requests under way are answered. A client that does not take its answers within
    /// `patience` is disconnected. Returns whether all took them.
    pub async fn stop(&self, patience: Nanos) -> bool {
        let inner = &*self.inner;
        inner.stopping.set(true);
        inner.left.notify_all();
        for client in inner.clients.borrow().values() {
            client.switch.turn();
        }
        let gone = || inner.clients.borrow().is_empty();
        let asked = first(inner.left.until(gone), self.pause(patience)).await;
        if asked == First::A(()) {
            return true;
        }
        self.drop_clients();
        inner.left.until(gone).await;
        false
    }

    /// Waits until the server has to stop.
    pub(crate) async fn stopping(&self) {
        self.inner.left.until(|| self.inner.stopping.get()).await;
    }

    /// Waits for this much real time.
    pub(crate) async fn pause(&self, span: Nanos) {
        pause(&self.inner.common.rt, span).await;
    }

    pub(crate) fn trouble(&self, why: &std::io::Error) {
        (self.inner.tell)(&Event::Trouble(why.to_string()));
    }
}

/// Waits for this much real time, or for time of the runtime's clock if it has no real time.
/// Patience with clients does not scale with modelled times.
pub(crate) async fn pause(rt: &Rt, span: Nanos) {
    match rt.io() {
        Some(io) => io.sleep(span).await,
        None => rt.sleep(span).await,
    }
}
