//! The futures that observe operations. Dropping one changes nothing (invariant 4).
//!
//! The end of an operation is computed when it is issued, so that it costs one timer. The end may
//! become later if a read goes ahead or a transfer has to wait, so when the time has come the
//! schedule is asked again. That happens a bounded number of times, since only so many reads go
//! ahead of an operation.

use crate::array::{OpError, State};
use crate::channel::Ends;
use crate::image::ImageClock;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tantalum_rt::{Nanos, Rt, Sleep};

/// How to find out when an operation on a die really ends.
type Moving = (Rc<RefCell<State>>, u32, Rc<Ends>);

/// The end of a program or an erase. Dropping it changes nothing.
#[must_use = "the operation is under way; await its end"]
pub struct Programmed {
    rt: Rt,
    sleep: Sleep,
    end: Nanos,
    moving: Option<Moving>,
    why: &'static str,
    failed: Option<OpError>,
    off_at: Rc<Cell<Nanos>>,
    /// The image's clock, if there is one.
    clock: Option<Rc<ImageClock>>,
}

impl Programmed {
    pub(crate) fn new(
        rt: &Rt,
        end: Nanos,
        moving: Option<Moving>,
        why: &'static str,
        failed: Option<OpError>,
        off_at: Rc<Cell<Nanos>>,
        clock: Option<Rc<ImageClock>>,
    ) -> Programmed {
        let sleep = rt.sleep_until_for(end, why);
        Programmed { rt: rt.clone(), sleep, end, moving, why, failed, off_at, clock }
    }
}

impl Future for Programmed {
    type Output = Result<(), OpError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            ready!(Pin::new(&mut this.sleep).poll(cx));
            if let Some((state, die, ends)) = &this.moving {
                let now = this.rt.now();
                if this.off_at.get() == Nanos::MAX {
                    state.borrow_mut().schedule.settle(*die, now);
                }
                this.end = ends.die.get();
                if this.off_at.get() == Nanos::MAX && this.end > now {
                    this.sleep = this.rt.sleep_until_for(this.end, this.why);
                    continue;
                }
            }
            if this.off_at.get() < this.end {
                return Poll::Ready(Err(OpError::NoPower));
            }
            // A task is going to act on it.
            if let Some(clock) = &this.clock {
                clock.note(this.rt.now());
            }
            return Poll::Ready(this.failed.map_or(Ok(()), Err));
        }
    }
}

/// The end of a read. Dropping it changes nothing.
#[must_use = "the operation is under way; await its end"]
pub struct Reading<'a> {
    rt: Rt,
    state: Rc<RefCell<State>>,
    die: u32,
    ends: Rc<Ends>,
    off_at: Rc<Cell<Nanos>>,
    /// Waits until the die has the page, then until it is transferred.
    sleep: Sleep,
    moves: bool,
    /// Borrows the room that is filled.
    room: PhantomData<&'a mut [u8]>,
}

impl Reading<'_> {
    pub(crate) fn new(
        rt: &Rt,
        state: &Rc<RefCell<State>>,
        die: u32,
        ends: Rc<Ends>,
        off_at: Rc<Cell<Nanos>>,
    ) -> Self {
        let sleep = rt.sleep_until_for(ends.die.get(), "a read");
        let (rt, state) = (rt.clone(), state.clone());
        Reading { rt, state, die, ends, off_at, sleep, moves: false, room: PhantomData }
    }
}

impl Future for Reading<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if this.moves && this.off_at.get() < Nanos::MAX {
                return Poll::Ready(());
            }
            ready!(Pin::new(&mut this.sleep).poll(cx));
            if this.moves || this.off_at.get() < Nanos::MAX {
                return Poll::Ready(());
            }
            let now = this.rt.now();
            if this.ends.moved.get().is_none() {
                this.state.borrow_mut().schedule.settle(this.die, now);
            }
            this.sleep = match this.ends.moved.get() {
                Some(end) => {
                    this.moves = true;
                    this.rt.sleep_until_for(end, "a transfer")
                }
                // The die has the page later than was planned.
                None => this.rt.sleep_until_for(this.ends.die.get(), "a read"),
            };
        }
    }
}
