//! Timers of real time.

use super::io::Io;
use crate::Nanos;
use crate::slab::Key;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// See [`Io::sleep`]. Dropping it cancels the timer.
pub struct RealSleep {
    io: Io,
    until: Nanos,
    key: Option<Key>,
}

impl RealSleep {
    pub(super) fn new(io: Io, until: Nanos) -> RealSleep {
        RealSleep { io, until, key: None }
    }
}

impl Future for RealSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let Io { rt, outside } = &self.io;
        match self.key {
            Some(key) if !outside.timer_is_set(key) => {
                self.key = None;
                return Poll::Ready(());
            }
            Some(_) => drop(rt.park("real time")),
            None if self.until <= outside.real_now() => return Poll::Ready(()),
            None => {
                let task = rt.park("real time");
                self.key = Some(outside.set_timer(self.until, task));
            }
        }
        Poll::Pending
    }
}

impl Drop for RealSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.io.outside.cancel_timer(key);
        }
    }
}
