//! Whoever is told of durable LSNs.
//!
//! 1. A listener is told of the end of the log once, unless it breaks before: also if the thread
//!    ends before it takes the letter with the listener, or panics. It hears the reason that all
//!    others hear, so one that is dropped before there is a reason waits for it in the front.

use super::front::Front;
use crate::{LogError, Lsn};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(super) type Call = Box<dyn FnMut(Result<Lsn, LogError>) -> ControlFlow<()> + Send>;

pub(super) struct Listener {
    /// `None`: there is nothing to tell it any more.
    call: Option<Call>,
    front: Arc<Front>,
}

impl Listener {
    pub fn new(
        front: Arc<Front>,
        call: impl FnMut(Result<Lsn, LogError>) -> ControlFlow<()> + Send + 'static,
    ) -> Listener {
        Listener { call: Some(Box::new(call)), front }
    }

    /// Whether it wants to hear more. It does not after an error.
    pub fn tell(&mut self, news: Result<Lsn, LogError>) -> bool {
        let ended = news.is_err();
        // If it panics, it is not called again.
        let Some(mut call) = self.call.take() else { return false };
        let goes_on = call(news).is_continue() && !ended;
        self.call = goes_on.then_some(call);
        goes_on
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.front.outlives_its_task(call);
        }
    }
}

/// Tells a listener of the end. If it panics, that is not the panic of whoever tells it.
pub(super) fn tell_end(mut call: Call, why: &LogError) {
    let _ = catch_unwind(AssertUnwindSafe(|| call(Err(why.clone()))));
}
