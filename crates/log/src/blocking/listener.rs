//! Whoever is told of durable LSNs.
//!
//! 1. A listener is told of the end of the log once, unless it breaks before: also if the thread
//!    ends before it takes the letter with the listener, or panics.

use super::front::Front;
use crate::threads::closed;
use crate::{LogError, Lsn};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Call = Box<dyn FnMut(Result<Lsn, LogError>) -> ControlFlow<()> + Send>;

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
        if self.call.is_some() {
            let why = self.front.check_closed().err().unwrap_or_else(closed);
            // Perhaps the thread panics already. One more panic would end the process.
            let _ = catch_unwind(AssertUnwindSafe(|| self.tell(Err(why))));
        }
    }
}
