//! Waiting for a task's result.

use crate::exec::{Rt, TaskId};
use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

/// The task was dropped before it had a result: its power domain is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task was cancelled: its power domain is gone")]
pub struct Cancelled;

pub(crate) enum JoinState<T> {
    Running(Option<TaskId>),
    Done(T),
    Taken,
    Cancelled,
}

/// The result of a spawned task. Dropping it does not stop the task.
pub struct Join<T> {
    pub(crate) rt: Rt,
    pub(crate) state: Rc<RefCell<JoinState<T>>>,
}

impl<T> Join<T> {
    /// Whether the task has ended, one way or the other.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.state.borrow(), JoinState::Running(_))
    }

    /// The result, if the task has one and it was not taken before.
    pub fn take(&self) -> Option<T> {
        let mut state = self.state.borrow_mut();
        match std::mem::replace(&mut *state, JoinState::Taken) {
            JoinState::Done(v) => Some(v),
            other => {
                *state = other;
                None
            }
        }
    }
}

impl<T> Future for Join<T> {
    type Output = Result<T, Cancelled>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.borrow_mut();
        match std::mem::replace(&mut *state, JoinState::Taken) {
            JoinState::Done(v) => Poll::Ready(Ok(v)),
            JoinState::Cancelled | JoinState::Taken => Poll::Ready(Err(Cancelled)),
            JoinState::Running(_) => {
                *state = JoinState::Running(Some(self.rt.park("the end of a task")));
                Poll::Pending
            }
        }
    }
}

/// Puts a result (or its absence) in place when the task's future ends or is
/// dropped, and wakes whoever waits for it.
pub(crate) struct Finisher<T> {
    pub rt: Rt,
    pub state: Rc<RefCell<JoinState<T>>>,
}

impl<T> Finisher<T> {
    pub fn finish(&self, value: T) {
        self.set(JoinState::Done(value));
    }

    fn set(&self, new: JoinState<T>) {
        let old = std::mem::replace(&mut *self.state.borrow_mut(), new);
        if let JoinState::Running(Some(waiter)) = old {
            self.rt.wake(waiter);
        }
    }
}

impl<T> Drop for Finisher<T> {
    fn drop(&mut self) {
        if matches!(*self.state.borrow(), JoinState::Running(_)) {
            self.set(JoinState::Cancelled);
        }
    }
}

/// The one of two futures that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<A, B> {
    /// The first did; also if both end in the same poll.
    A(A),
    /// The second did.
    B(B),
}

/// Runs two futures side by side in one task until one ends; the other is dropped.
///
/// ```
/// use tantalum_rt::{First, Nanos, Runtime, first};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let ended = runtime.block_on(async move {
///     let answer = async {
///         rt.sleep(Nanos::from_secs(2)).await;
///         "an answer"
///     };
///     first(answer, rt.sleep(Nanos::from_secs(1))).await
/// });
/// assert_eq!(ended.unwrap(), First::B(())); // the timeout came first
/// ```
pub async fn first<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> First<A, B> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(value) = a.as_mut().poll(cx) {
            return Poll::Ready(First::A(value));
        }
        b.as_mut().poll(cx).map(First::B)
    })
    .await
}

/// Runs two futures side by side in one task; both results. [`join_all`] does it for futures of one
/// type.
///
/// ```
/// use tantalum_rt::{Nanos, Runtime, join};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let ended = runtime.block_on(async move {
///     join(rt.sleep(Nanos::from_secs(1)), rt.sleep(Nanos::from_secs(2))).await;
///     rt.now()
/// });
/// assert_eq!(ended.unwrap(), Nanos::from_secs(2)); // of the longer one
/// ```
pub async fn join<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    std::future::poll_fn(move |cx| {
        if of_a.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            of_a = Some(value);
        }
        if of_b.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            of_b = Some(value);
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            parts => {
                (of_a, of_b) = parts;
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs futures side by side in one task; their results in their order.
///
/// The runtime wakes tasks, not futures: each that has not ended is polled at every
/// wake, so this is for tens of futures, not for thousands.
pub async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut slots: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(move |cx| {
        let mut pending = false;
        for (future, result) in &mut slots {
            if result.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        match pending {
            true => Poll::Pending,
            false => Poll::Ready(slots.drain(..).filter_map(|s| s.1).collect()),
        }
    })
    .await
}
