//! What a runtime takes from threads and from the kernel in order to sleep and to be woken.
//!
//! 1. All that decides whether a runtime sleeps goes through here: atomics, locks, the bell, the
//!    readiness of descriptors, the ring of io_uring, and real time.
//! 2. With `--cfg loom` a model takes its place (`model/`), and nothing else changes: what the
//!    model checks is the inbox, the posts, both back ends, the clock and the executor as they
//!    are.

#[cfg(all(feature = "wall", not(loom)))]
mod kernel;
#[cfg(loom)]
mod model;
#[cfg(all(feature = "wall", not(loom)))]
mod ring;

#[cfg(not(feature = "wall"))]
pub(crate) use crate::nowhere::Bell;
#[cfg(all(feature = "wall", not(loom)))]
pub(crate) use kernel::{Bell, RealTime, bell, is_ready, read};
#[cfg(loom)]
pub(crate) use model::{Bell, RealTime, Ring, bell, is_ready, read};
#[cfg(all(feature = "wall", not(loom)))]
pub(crate) use ring::Ring;

#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};
