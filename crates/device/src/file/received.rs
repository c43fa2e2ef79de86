//! A command that a device has received. It goes on even if no task waits for it any more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tantalum_rt::Rt;

/// A future that becomes a task of its own if it is dropped between its first poll and its end
/// (contract, 7). If it is dropped before its first poll, the command was never received.
pub(super) struct Received<F: Future<Output: 'static> + 'static> {
    rt: Rt,
    name: &'static str,
    body: Option<Pin<Box<F>>>,
    begun: bool,
}

impl<F: Future<Output: 'static> + 'static> Received<F> {
    pub fn new(rt: &Rt, name: &'static str, body: F) -> Received<F> {
        Received { rt: rt.clone(), name, body: Some(Box::pin(body)), begun: false }
    }
}

impl<F: Future<Output: 'static> + 'static> Future for Received<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.begun = true;
        let body = self.body.as_mut().expect("a command was polled after its end");
        let poll = body.as_mut().poll(cx);
        if poll.is_ready() {
            self.body = None;
        }
        poll
    }
}

impl<F: Future<Output: 'static> + 'static> Drop for Received<F> {
    fn drop(&mut self) {
        if let (true, Some(body)) = (self.begun, self.body.take()) {
            drop(self.rt.spawn(self.name, body));
        }
    }
}
