//! The one runtime of Tantalum: a deterministic, single-threaded executor with
//! a clock that is either virtual or real.
//!
//! Every core (drive, flash log, flash cache) is plain `async` code that takes
//! time, randomness and tasks from here and from nowhere else. On the virtual
//! clock, when nothing is runnable, time jumps to the next timer: the same seed
//! gives the same run, to the last event. On the wall clock ([`wall`]) the same code runs on
//! real time, with sockets and files. That clock is Linux's, and a feature (`wall`, on by default):
//! without it the runtime needs nothing of the system but threads and locks.
//!
//! ```
//! use tantalum_rt::{Nanos, Runtime};
//!
//! let mut runtime = Runtime::virtual_time(42);
//! let rt = runtime.handle();
//! let slept = runtime.block_on(async move {
//!     rt.sleep(Nanos::from_millis(5)).await;
//!     rt.now()
//! });
//! assert_eq!(slept.unwrap(), Nanos::from_millis(5));
//! ```
//!
//! # Invariants
//!
//! 1. **Order.** Ready tasks run first in, first out; timers fire by time, ties
//!    by the order in which they were set. Nothing else decides what runs next.
//! 2. **Time** moves only when no task is ready, and only to a timer that is
//!    still wanted: a cancelled timer never moves it. (On the wall clock it passes by
//!    itself; tasks see it move where [`wall`] says.)
//! 3. **Slots and generations.** A task is known by (slot, generation). A wake,
//!    timer or waker of a task that has ended does nothing.
//! 4. **Power domains.** Killing a domain drops its tasks in the order in which
//!    they were spawned; from then on its wakes and spawns are ignored. A task
//!    holds no strong reference to its domain: a [`Domain`] is a number.
//! 5. **No quiet end.** If nothing can run while foreground tasks or announced
//!    commands are outstanding, the run ends in [`RunError::Stalled`], which lists
//!    each of them and what it waits for. Background tasks (flusher, collector)
//!    may wait for ever.
//! 6. **No busy loop.** Too many polls without time passing end in
//!    [`RunError::Livelock`], which names the task.
//! 7. **No re-entry.** A task that calls [`Runtime::block_on`] of a runtime that is
//!    running cannot exist: running takes the [`Runtime`] by `&mut`, and
//!    tasks only ever hold an [`Rt`].
//! 8. **Randomness** comes in independent streams, each named: a component that
//!    draws more numbers does not disturb another.
//! 9. **Trace.** Each poll (its time, its task) and each word given to
//!    [`Rt::trace`] is mixed into a hash; equal hashes mean equal runs.

#![cfg_attr(
    not(feature = "wall"),
    allow(
        dead_code,
        unused_imports,
        reason = "what a clock needs on which something is waited for"
    )
)]

#[cfg(all(feature = "wall", not(target_os = "linux")))]
compile_error!("the wall clock needs Linux: build with --no-default-features");

#[cfg(feature = "wall")]
pub mod calls;
mod clock;
mod domain;
mod error;
mod exec;
mod inbox;
mod join;
mod lock;
#[cfg(not(feature = "wall"))]
mod nowhere;
mod post;
mod prefetch;
mod rng;
mod room;
mod slab;
pub mod sync;
mod sys;
mod time;
mod timer;
#[cfg(feature = "wall")]
pub mod wall;

pub use clock::{Clock, Idle, VirtualClock};
pub use domain::Domain;
pub use error::{RunError, Waiting};
pub use exec::{Outstanding, Rt, Runtime, TaskId};
pub use join::{Cancelled, First, Join, first, join, join_all};
pub use lock::{FileLockError, lock_file};
pub use post::{Inbox, Post, PostError};
pub use prefetch::{large_pages, prefetch};
pub use rng::{Stream, mix64};
pub use room::room_at;
pub use time::Nanos;
pub use timer::Sleep;
