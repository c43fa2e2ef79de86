//! The server of the control socket.

use super::request::{Kind, Refusal, Reply, Request};
use crate::nbd::Stream;
use crate::nbd::pause;
use serde_json::Value;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::wall::Listener;
use tantalum_rt::{First, Nanos, Rt, first};

/// The most clients at a time.
pub const MAX_CLIENTS: u32 = 32;
/// The longest line that is accepted, in bytes.
pub const MAX_LINE: usize = 4096;
/// A client that sends nothing for this much real time is disconnected.
pub const IDLE: Nanos = Nanos::from_secs(300);
/// The real time within which a client must take an answer.
pub const PATIENCE: Nanos = Nanos::from_secs(10);

/// The pause after a client could not be accepted, in real time.
const PAUSE: Nanos = Nanos::from_millis(100);

/// Carries out requests.
///
/// See [`ControlServer`] for an example.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Handler: 'static {
    /// Carries out a request. Several may be under way at a time.
    async fn answer(&self, request: Request) -> Result<Value, Refusal>;

    /// Called when a client could not be accepted.
    fn trouble(&self, _error: &io::Error) {}
}

/// Answers clients.
///
/// ```
/// use serde_json::{Value, json};
/// use tantalum_export::control::{ControlServer, Handler, Kind, Refusal, Reply, Request};
/// use tantalum_export::nbd::{Stream, pipe};
/// use tantalum_rt::Runtime;
///
/// /// A box that can be cut and nothing more.
/// struct Plug;
///
/// impl Handler for Plug {
///     async fn answer(&self, request: Request) -> Result<Value, Refusal> {
///         match request {
///             Request::Cut {} => Ok(json!({ "lost": 0 })),
///             _ => Err(Refusal::new(Kind::NoCache, "this box has no cache")),
///         }
///     }
/// }
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let replies = runtime.block_on(async move {
///     let server = ControlServer::new(&rt, Plug);
///     let (client, accepted) = pipe(&rt, 4096);
///     server.accept(accepted).await;
///     let mut replies = Vec::new();
///     for request in [Request::Cut {}, Request::Scrub {}] {
///         client.send(request.line()).await.0?;
///         let (count, line) = client.recv(vec![0; 4096], 0).await;
///         replies.push(serde_json::from_slice::<Reply>(&line[..count?])?);
///     }
///     Ok::<_, std::io::Error>(replies)
/// });
/// let replies = replies.unwrap()?;
/// assert_eq!(replies[0].result, Some(json!({ "lost": 0 })));
/// assert_eq!(replies[1].error.as_ref().unwrap().kind, Kind::NoCache);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ControlServer<H> {
    rt: Rt,
    handler: H,
    clients: Cell<u32>,
    /// Requests whose answers the clients do not have yet.
    under_way: Cell<u32>,
    answered: WaitQueue,
}

impl<H: Handler> ControlServer<H> {
    /// A server without clients yet.
    pub fn new(rt: &Rt, handler: H) -> Rc<ControlServer<H>> {
        Rc::new(ControlServer {
            rt: rt.clone(),
            handler,
            clients: Cell::new(0),
            under_way: Cell::new(0),
            answered: WaitQueue::new(rt, "clients of the control socket to take their answers"),
        })
    }

    /// How many clients there are.
    pub fn clients(&self) -> u32 {
        self.clients.get()
    }

    /// Waits until every client has the answers to its requests, for [`PATIENCE`] at most.
    pub async fn answered(&self) {
        let all = self.answered.until(|| self.under_way.get() == 0);
        first(all, pause(&self.rt, PATIENCE)).await;
    }

    /// Answers all clients of the listener, for ever.
    pub async fn serve(self: Rc<Self>, listener: Listener) {
        loop {
            match listener.accept().await {
                Ok(stream) => self.accept(stream).await,
                // The process or the system is out of descriptors. That passes.
                Err(error) => {
                    self.handler.trouble(&error);
                    pause(&self.rt, PAUSE).await;
                }
            }
        }
    }

    /// Answers a client that has connected, in a task of its own.
    pub async fn accept<S: Stream>(self: &Rc<Self>, stream: S) {
        if self.clients.get() >= MAX_CLIENTS {
            let why = format!("there are {MAX_CLIENTS} clients already: try again later");
            let reply = Reply::of(Err(Refusal::new(Kind::TooManyClients, why)));
            // A new connection has room for one line.
            first(stream.send(reply.line()), pause(&self.rt, PAUSE)).await;
            return stream.shutdown();
        }
        let place = Place::of(self);
        let rt = self.rt.clone();
        rt.spawn_background("a client of the control socket", async move {
            place.0.talk(&stream).await;
            stream.shutdown();
        });
    }

    async fn talk(&self, stream: &impl Stream) {
        let mut buf = vec![0; MAX_LINE];
        let mut filled = 0;
        loop {
            if let Some(end) = buf[..filled].iter().position(|b| *b == b'\n') {
                self.under_way.set(self.under_way.get() + 1);
                let result = match Request::parse(&buf[..end]) {
                    Ok(request) => self.handler.answer(request).await,
                    Err(refusal) => Err(refusal),
                };
                buf.copy_within(end + 1..filled, 0);
                filled -= end + 1;
                let taken = self.say(stream, result).await;
                self.under_way.set(self.under_way.get() - 1);
                self.answered.notify_all();
                if !taken {
                    return;
                }
                continue;
            }
            if filled == MAX_LINE {
                let why = format!("a line has at most {MAX_LINE} bytes");
                self.say(stream, Err(Refusal::new(Kind::TooLong, why))).await;
                return;
            }
            let heard = first(stream.recv(std::mem::take(&mut buf), filled), pause(&self.rt, IDLE));
            match heard.await {
                First::A((Ok(count), back)) if count > 0 => {
                    buf = back;
                    filled += count;
                }
                _ => return,
            }
        }
    }

    /// Sends an answer. Whether the client took it.
    async fn say(&self, stream: &impl Stream, result: Result<Value, Refusal>) -> bool {
        let sent = first(stream.send(Reply::of(result).line()), pause(&self.rt, PATIENCE));
        matches!(sent.await, First::A((Ok(()), _)))
    }
}

/// A place among the clients. It is free again when this drops.
struct Place<H>(Rc<ControlServer<H>>);

impl<H> Place<H> {
    fn of(server: &Rc<ControlServer<H>>) -> Place<H> {
        server.clients.set(server.clients.get() + 1);
        Place(server.clone())
    }
}

impl<H> Drop for Place<H> {
    fn drop(&mut self) {
        self.0.clients.set(self.0.clients.get() - 1);
    }
}
