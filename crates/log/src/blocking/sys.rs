//! What threads share and how they wait, from the system or from a model of threads (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Thread, current, park},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{Thread, current, park},
};

use std::sync::Arc;

/// A thread that waits for one event.
pub(crate) struct Parker {
    woken: AtomicBool,
    thread: Thread,
}

impl Parker {
    /// For the calling thread.
    pub fn new() -> Arc<Parker> {
        Arc::new(Parker { woken: AtomicBool::new(false), thread: current() })
    }

    /// Waits for [`Parker::wake`]. Only the thread that made it may wait.
    pub fn wait(&self) {
        while !self.woken.load(Ordering::Acquire) {
            park();
        }
    }

    /// Ends the wait, now or when it begins.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
