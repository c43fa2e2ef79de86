//! The link between host and device. When the power is cut the link dies, and every command on it
//! ends at once.

use crate::IoError;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tantalum_rt::{Rt, TaskId};

/// A link that is alive until it is cut. It never revives: a device that restarts has a new one.
/// Cheap to clone.
///
/// 1. A command on a dead link fails with [`IoError::PowerLost`], and its body is
///    not polled again.
/// 2. When the link dies, every task that waits in a command is woken, in a fixed
///    order.
/// 3. A command on the link counts as outstanding for the runtime.
///
/// ```
/// use std::future::pending;
/// use tantalum_device::{IoError, Link};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let link = Link::new(&rt);
/// let plug = link.clone();
/// rt.spawn("the plug", async move { plug.cut() });
/// // A command that would never end ends with the power.
/// let ended = runtime.block_on(async move {
///     link.command("write", pending::<Result<(), IoError>>()).await
/// });
/// assert_eq!(ended.unwrap(), Err(IoError::PowerLost));
/// ```
#[derive(Clone)]
pub struct Link {
    inner: Rc<Inner>,
}

struct Inner {
    rt: Rt,
    alive: Cell<bool>,
    waiting: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    slots: Vec<Option<TaskId>>,
    free: Vec<usize>,
}

impl Link {
    /// A link that is alive.
    pub fn new(rt: &Rt) -> Link {
        let waiting = RefCell::default();
        Link { inner: Rc::new(Inner { rt: rt.clone(), alive: Cell::new(true), waiting }) }
    }

    /// Whether commands can pass.
    pub fn is_alive(&self) -> bool {
        self.inner.alive.get()
    }

    /// The link dies.
    pub fn cut(&self) {
        self.inner.alive.set(false);
        for task in self.inner.waiting.borrow().slots.iter().flatten() {
            self.inner.rt.wake(*task);
        }
    }

    /// Runs one command, called `what` in the list of a stalled run.
    ///
    /// # Errors
    /// [`IoError::PowerLost`] once the link is dead; else what `body` gives.
    pub async fn command<T, E: From<IoError>>(
        &self,
        what: &'static str,
        body: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let inner = &*self.inner;
        let _outstanding = inner.rt.outstanding(what);
        let mut body = pin!(body);
        let mut place = Place { inner, slot: None };
        poll_fn(|cx| {
            if !inner.alive.get() {
                return Poll::Ready(Err(IoError::PowerLost.into()));
            }
            let poll = body.as_mut().poll(cx);
            if poll.is_pending() && place.slot.is_none() {
                place.take();
            }
            poll
        })
        .await
    }
}

/// A waiting command's place among those that are woken when the link dies.
struct Place<'a> {
    inner: &'a Inner,
    slot: Option<usize>,
}

impl Place<'_> {
    fn take(&mut self) {
        let task = Some(self.inner.rt.current());
        let mut w = self.inner.waiting.borrow_mut();
        let slot = match w.free.pop() {
            Some(slot) => slot,
            None => {
                w.slots.push(None);
                w.slots.len() - 1
            }
        };
        w.slots[slot] = task;
        self.slot = Some(slot);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            let mut w = self.inner.waiting.borrow_mut();
            w.slots[slot] = None;
            w.free.push(slot);
        }
    }
}
