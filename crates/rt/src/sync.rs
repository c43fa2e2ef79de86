//! Synchronization of tasks: a queue of waiters, a fair semaphore, a mutex.
//!
//! All are first in, first out; dropping a waiting future leaves the queue.

use crate::exec::{Rt, TaskId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Tasks that wait for a notification.
///
/// A notification is not stored. A task that waits for a condition checks it, waits, and checks
/// again ([`WaitQueue::until`]).
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use tantalum_rt::sync::WaitQueue;
/// use tantalum_rt::{Nanos, Runtime};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let filled = runtime.block_on(async move {
///     let tank = Rc::new((Cell::new(0), WaitQueue::new(&rt, "a full tank")));
///     let (clock, tap) = (rt.clone(), tank.clone());
///     rt.spawn("a tap", async move {
///         for litre in 1..=40 {
///             clock.sleep(Nanos::from_millis(10)).await;
///             tap.0.set(litre);
///             tap.1.notify_all();
///         }
///     });
///     tank.1.until(|| tank.0.get() >= 30).await;
///     rt.now()
/// });
/// assert_eq!(filled.unwrap(), Nanos::from_millis(300));
/// ```
pub struct WaitQueue {
    rt: Rt,
    what: &'static str,
    waiters: RefCell<VecDeque<(u64, TaskId)>>,
    tickets: Cell<u64>,
}

impl WaitQueue {
    /// An empty queue; `what` names it in the list of a stalled run.
    pub fn new(rt: &Rt, what: &'static str) -> WaitQueue {
        WaitQueue { rt: rt.clone(), what, waiters: RefCell::default(), tickets: Cell::new(0) }
    }

    /// Waits for a notification.
    pub fn wait(&self) -> Wait<'_> {
        Wait { queue: self, ticket: None }
    }

    /// Waits until `ready` says so; it is asked at once and after each notification.
    pub async fn until(&self, mut ready: impl FnMut() -> bool) {
        while !ready() {
            self.wait().await;
        }
    }

    /// Wakes the task that has waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        match self.waiters.borrow_mut().pop_front() {
            Some((_, task)) => {
                self.rt.wake(task);
                true
            }
            None => false,
        }
    }

    /// Wakes all, in the order in which they came.
    pub fn notify_all(&self) {
        while self.notify_one() {}
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.borrow().is_empty()
    }

    fn enqueue(&self) -> u64 {
        let ticket = self.tickets.get();
        self.tickets.set(ticket + 1);
        let task = self.rt.park(self.what);
        self.waiters.borrow_mut().push_back((ticket, task));
        ticket
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.waiters.borrow().binary_search_by_key(&ticket, |w| w.0).ok()
    }
}

/// See [`WaitQueue::wait`].
pub struct Wait<'a> {
    queue: &'a WaitQueue,
    ticket: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        match self.ticket {
            None => {
                self.ticket = Some(self.queue.enqueue());
                Poll::Pending
            }
            Some(ticket) if self.queue.position(ticket).is_some() => {
                self.queue.rt.park(self.queue.what);
                Poll::Pending
            }
            Some(_) => {
                self.ticket = None;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        match self.queue.position(ticket) {
            Some(at) => drop(self.queue.waiters.borrow_mut().remove(at)),
            // It was notified, but dropped before it could act: the next waiter gets the
            // notification.
            None => drop(self.queue.notify_one()),
        }
    }
}

struct Waiter {
    ticket: u64,
    task: TaskId,
    want: u64,
    granted: bool,
}

/// A fair semaphore: permits go out in the order of asking, and a small request
/// never overtakes a large one that waits.
///
/// ```
/// use std::rc::Rc;
/// use tantalum_rt::sync::Semaphore;
/// use tantalum_rt::{Nanos, Runtime};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let slots = Rc::new(Semaphore::new(&rt, "a slot of the queue", 2));
/// for command in 0..6 {
///     let (clock, slots) = (rt.clone(), slots.clone());
///     rt.spawn(format!("command {command}"), async move {
///         let _slot = slots.acquire(1).await;
///         clock.sleep(Nanos::from_micros(100)).await;
///     });
/// }
/// runtime.drain().unwrap();
/// assert_eq!(rt.now(), Nanos::from_micros(300)); // six commands, two at a time
/// ```
pub struct Semaphore {
    rt: Rt,
    what: &'static str,
    free: Cell<u64>,
    /// A granted waiter stays here until it claims its permits, so that no later task overtakes it.
    waiters: RefCell<VecDeque<Waiter>>,
    tickets: Cell<u64>,
}

impl Semaphore {
    /// With `permits` to give; `what` names it in the list of a stalled run.
    pub fn new(rt: &Rt, what: &'static str, permits: u64) -> Semaphore {
        Semaphore {
            rt: rt.clone(),
            what,
            free: Cell::new(permits),
            waiters: RefCell::default(),
            tickets: Cell::new(0),
        }
    }

    /// Takes `want` permits, once all earlier requests have theirs. The caller gives them back with
    /// [`Semaphore::release`].
    pub fn take(&self, want: u64) -> Take<'_> {
        Take { semaphore: self, want, ticket: None }
    }

    /// Takes `want` permits, if nobody waits and there are so many. Whether it did.
    #[inline]
    pub fn try_take(&self, want: u64) -> bool {
        let is_free = self.free.get() >= want && self.waiters.borrow().is_empty();
        if is_free {
            self.free.set(self.free.get() - want);
        }
        is_free
    }

    /// Takes `want` permits that go back when the guard drops.
    pub async fn acquire(&self, want: u64) -> Permit<'_> {
        if !self.try_take(want) {
            self.take(want).await;
        }
        Permit { semaphore: self, count: want }
    }

    /// Gives permits back (or adds them).
    pub fn release(&self, permits: u64) {
        self.free.set(self.free.get() + permits);
        self.grant();
    }

    /// Permits that nobody holds.
    pub fn free(&self) -> u64 {
        self.free.get()
    }

    /// Whether somebody waits for permits.
    pub fn contended(&self) -> bool {
        !self.waiters.borrow().is_empty()
    }

    #[inline]
    fn grant(&self) {
        if !self.waiters.borrow().is_empty() {
            self.grant_waiters();
        }
    }

    fn grant_waiters(&self) {
        for w in self.waiters.borrow_mut().iter_mut() {
            if w.granted {
                continue;
            }
            if self.free.get() < w.want {
                break;
            }
            self.free.set(self.free.get() - w.want);
            w.granted = true;
            self.rt.wake(w.task);
        }
    }
}

/// See [`Semaphore::take`].
pub struct Take<'a> {
    semaphore: &'a Semaphore,
    want: u64,
    ticket: Option<u64>,
}

impl Future for Take<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let s = self.semaphore;
        if self.ticket.is_none() && s.try_take(self.want) {
            return Poll::Ready(());
        }
        let mut waiters = s.waiters.borrow_mut();
        match self.ticket {
            None => {
                let ticket = s.tickets.get();
                s.tickets.set(ticket + 1);
                let task = s.rt.park(s.what);
                waiters.push_back(Waiter { ticket, task, want: self.want, granted: false });
                drop(waiters);
                self.ticket = Some(ticket);
                s.grant();
                Poll::Pending
            }
            Some(ticket) => {
                let at = waiters
                    .binary_search_by_key(&ticket, |w| w.ticket)
                    .expect("a waiter stays until it is claimed or dropped");
                if !waiters[at].granted {
                    s.rt.park(s.what);
                    return Poll::Pending;
                }
                waiters.remove(at);
                drop(waiters);
                self.ticket = None;
                s.grant();
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Take<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let s = self.semaphore;
        let mut waiters = s.waiters.borrow_mut();
        if let Ok(at) = waiters.binary_search_by_key(&ticket, |w| w.ticket) {
            let w = waiters.remove(at).expect("just found");
            drop(waiters);
            if w.granted {
                s.free.set(s.free.get() + w.want);
            }
            s.grant();
        }
    }
}

/// Permits that go back when this drops.
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: u64,
}

impl Permit<'_> {
    /// Keeps the permits. The caller gives them back with [`Semaphore::release`].
    pub fn keep(mut self) {
        self.count = 0;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

/// A fair mutex: tasks get it in the order of asking. It may be held across awaits.
pub struct Mutex {
    semaphore: Semaphore,
}

impl Mutex {
    /// Unlocked; `what` names it in the list of a stalled run.
    pub fn new(rt: &Rt, what: &'static str) -> Mutex {
        Mutex { semaphore: Semaphore::new(rt, what, 1) }
    }

    /// Waits for its turn. The lock is free again when the guard drops.
    pub async fn lock(&self) -> Permit<'_> {
        self.semaphore.acquire(1).await
    }

    /// Whether somebody holds it or waits for it.
    pub fn is_busy(&self) -> bool {
        self.semaphore.free() == 0 || self.semaphore.contended()
    }
}
