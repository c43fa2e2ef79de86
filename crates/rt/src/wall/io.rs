//! The handle through which tasks reach the world outside.

use super::Backend;
use super::outside::Outside;
use super::work::{Outcome, Span, Work};
use crate::exec::Rt;
use crate::slab::Key;
use crate::{Nanos, wall::RealSleep};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Sockets, files, signals and real time; see [`Rt::io`]. Cheap to clone.
#[derive(Clone)]
pub struct Io {
    pub(super) rt: Rt,
    pub(super) outside: Rc<Outside>,
}

impl Rt {
    /// The way to the world outside. `None` on the virtual clock: there is none.
    pub fn io(&self) -> Option<Io> {
        let outside = self.outside()?.clone();
        Some(Io { rt: self.clone(), outside })
    }
}

impl Io {
    /// What carries operations out: [`Backend::Uring`] or [`Backend::Poll`].
    pub fn backend(&self) -> Backend {
        self.outside.backend()
    }

    /// Why [`Backend::Auto`] did not take io_uring; `None` if it did, or was not asked to choose.
    pub fn uring_denied(&self) -> Option<&std::io::Error> {
        self.outside.denied()
    }

    /// Real time since the runtime began, whatever its time scale.
    pub fn real_now(&self) -> Nanos {
        self.outside.real_now()
    }

    /// Waits for `span` of real time, whatever the time scale: for patience with clients and
    /// the like. Await it in the task that created it.
    pub fn sleep(&self, span: Nanos) -> RealSleep {
        RealSleep::new(self.clone(), self.real_now().saturating_add(span))
    }

    /// Carries out `work`; `why` is for the list of a stalled run.
    pub(super) fn run(&self, work: Work, why: &'static str) -> Operation {
        Operation { io: self.clone(), state: State::New(work), why }
    }
}

enum State {
    New(Work),
    Begun(Key),
    Ended,
}

/// An operation, which begins with the first poll. Dropping it abandons the operation, and
/// leaves the buffer to it.
pub(super) struct Operation {
    io: Io,
    state: State,
    why: &'static str,
}

impl Future for Operation {
    type Output = (Outcome, Span);

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Io { rt, outside } = &this.io;
        match std::mem::replace(&mut this.state, State::Ended) {
            State::New(work) => {
                let task = rt.park(this.why);
                this.state = State::Begun(outside.begin(rt, work, task));
                Poll::Pending
            }
            State::Begun(key) => match outside.poll(key, || rt.park(this.why)) {
                Some(done) => Poll::Ready(done),
                None => {
                    this.state = State::Begun(key);
                    Poll::Pending
                }
            },
            State::Ended => panic!("an operation was polled after its end"),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let State::Begun(key) = self.state {
            self.io.outside.abandon(key);
        }
    }
}
