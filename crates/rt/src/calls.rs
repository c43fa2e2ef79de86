//! A runtime in a thread of its own, for threads whose calls block.
//!
//! 1. **Nobody waits for ever.** However the thread ends, a call that waits for an answer learns
//!    that there is none, and so does each later one. [`Served::ended`] is called with the reason,
//!    once, soon after the first of them.
//! 2. The runtime is gone when [`Served::ended`] is called, with all of its tasks.
//! 3. The thread ends when what it serves does, or when nobody can call any more. Whoever drops
//!    [`Calls`] waits for that, but not in the thread itself.
//! 4. A panic ends the thread, never the process.

use crate::sync::WaitQueue;
use crate::wall::{WallOptions, random};
use crate::{First, Inbox, Post, Rt, RunError, Runtime, first};
use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

/// Why there is no thread with a runtime, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The system gives no thread, or no runtime.
    #[error("no thread with a runtime: {0}")]
    Start(#[from] io::Error),
    /// It came to an end before it was ready.
    #[error("the thread panicked: {0}")]
    Panicked(String),
}

impl From<RunError> for ThreadError {
    fn from(e: RunError) -> ThreadError {
        ThreadError::Panicked(e.to_string())
    }
}

/// The threads that serve calls.
#[derive(Clone, Copy, Debug)]
pub struct ThreadOptions {
    /// The name of the thread, of up to 15 bytes.
    pub name: &'static str,
    /// Letters that lie in its inbox, at most.
    pub letters: usize,
    /// Its runtime.
    pub wall: WallOptions,
}

/// What a thread does once it is ready.
pub struct Served<T, S, E> {
    /// What whoever started the thread gets from it.
    pub told: T,
    /// Takes the letters. The thread ends with it.
    pub serving: S,
    /// Is called when the thread ends, with an error if it had to.
    pub ended: E,
}

/// The way of other threads to a runtime; see [the module](self).
///
/// ```
/// use std::sync::mpsc::Sender;
/// use tantalum_rt::Inbox;
/// use tantalum_rt::calls::{Calls, Served, ThreadError, ThreadOptions};
/// use tantalum_rt::wall::WallOptions;
///
/// /// Adds this, and tells the sum.
/// struct Add(u64, Sender<u64>);
///
/// let options = ThreadOptions { name: "adds", letters: 16, wall: WallOptions::default() };
/// let (begun, calls) = Calls::start(
///     options,
///     async |_rt| Ok::<u64, ThreadError>(100), // what is opened in the thread
///     |_rt, mut sum, mut letters: Inbox<Add>| Served {
///         told: sum,
///         serving: async move {
///             while let Some(Add(more, answer)) = letters.next().await {
///                 sum += more;
///                 let _ = answer.send(sum);
///             }
///         },
///         ended: |_why| (), // with an error if it had to
///     },
/// )?;
/// assert_eq!(begun, 100);
/// assert_eq!(calls.ask(|answer| Add(20, answer)), Some(120));
/// assert_eq!(calls.ask(|answer| Add(3, answer)), Some(123));
/// # Ok::<(), ThreadError>(())
/// ```
pub struct Calls<L> {
    /// `None` only while it is dropped.
    post: Option<Post<L>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<L> Drop for Calls<L> {
    fn drop(&mut self) {
        self.post = None;
        self.wait();
    }
}

impl<L> Calls<L> {
    /// Waits until the thread has ended, if that is not this one. Something must have made it end
    /// ([`Over`]).
    pub fn wait(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take_if(|t| t.thread().id() != std::thread::current().id()) {
            // It catches its panics.
            let _ = thread.join();
        }
    }
}

/// Whether what a thread serves has ended. Then it takes no letters any more.
pub struct Over {
    is: Cell<bool>,
    changed: WaitQueue,
}

impl Over {
    /// It has not ended.
    #[must_use]
    pub fn new(rt: &Rt) -> Over {
        Over {
            is: Cell::new(false),
            changed: WaitQueue::new(rt, "the end of what a thread serves"),
        }
    }

    /// It has ended.
    pub fn tell(&self) {
        self.is.set(true);
        self.changed.notify_all();
    }

    /// The next letter; `None` once it has ended, or when nobody can call any more. The sender of a
    /// letter that is not taken learns that there is no answer.
    pub async fn next<L: Send + 'static>(&self, letters: &mut Inbox<L>) -> Option<L> {
        match first(letters.next(), self.changed.until(|| self.is.get())).await {
            First::A(letter) => letter.filter(|_| !self.is.get()),
            First::B(()) => None,
        }
    }
}

impl<L: Send + 'static> Calls<L> {
    /// Starts a thread. In it `open` opens what is to be served, and `serve` says how letters are
    /// answered then.
    ///
    /// # Errors
    /// What `open` returns, or a [`ThreadError`]. The thread has ended then.
    pub fn start<O, T, F, Opening, Serving, Ended, E>(
        options: ThreadOptions,
        open: impl FnOnce(Rt) -> Opening + Send + 'static,
        serve: F,
    ) -> Result<(T, Calls<L>), E>
    where
        O: 'static,
        T: Send + 'static,
        Opening: Future<Output = Result<O, E>> + 'static,
        F: FnOnce(Rt, O, Inbox<L>) -> Served<T, Serving, Ended> + Send + 'static,
        Serving: Future<Output = ()> + 'static,
        Ended: FnOnce(Result<(), String>),
        E: From<ThreadError> + Send + 'static,
    {
        let body = move |mut runtime: Runtime, ready: &Sender<_>| {
            let rt = runtime.handle();
            let opened = match runtime.block_on(open(rt.clone())) {
                Ok(Ok(opened)) => opened,
                Ok(Err(e)) => return drop(ready.send(Err(e))),
                Err(e) => return drop(ready.send(Err(ThreadError::from(e).into()))),
            };
            // With an inbox a runtime waits instead of being stalled, so it comes after the opening.
            let (post, letters) = rt.inbox_of(options.letters);
            let Served { told, serving, ended } = serve(rt, opened, letters);
            drop(ready.send(Ok((told, post))));
            let served = catch_unwind(AssertUnwindSafe(move || {
                let served = runtime.block_on(serving);
                drop(runtime);
                served
            }));
            ended(match served {
                Ok(Ok(())) => Ok(()),
                Ok(Err(e)) => Err(format!("its thread cannot go on: {e}")),
                Err(panic) => Err(format!("its thread panicked: {}", said(&*panic))),
            });
        };
        let ((told, post), thread) = start(options.name, options.wall, body)?;
        Ok((told, Calls { post: Some(post), thread: Mutex::new(Some(thread)) }))
    }

    /// Has the thread carry out the letter that is made with the way back for its answer, and waits
    /// for that. `None`: it does not come any more (1).
    pub fn ask<A>(&self, letter: impl FnOnce(Sender<A>) -> L) -> Option<A> {
        let (to, answer) = channel();
        let posted = self.tell(letter(to));
        answer.recv().ok().filter(|_| posted)
    }

    /// Posts a letter that has no answer. Whether the thread may take it.
    pub fn tell(&self, letter: L) -> bool {
        self.post.as_ref().is_some_and(|post| post.post_wait(letter).is_ok())
    }
}

/// Carries out `task` in a thread with a runtime of its own.
///
/// # Errors
/// What the task returns, or a [`ThreadError`].
pub fn in_thread<T, R, E>(
    name: &'static str,
    wall: WallOptions,
    task: impl FnOnce(Rt) -> T + Send + 'static,
) -> Result<R, E>
where
    T: Future<Output = Result<R, E>> + 'static,
    R: Send + 'static,
    E: From<ThreadError> + Send + 'static,
{
    let body = move |mut runtime: Runtime, ready: &Sender<_>| {
        let task = task(runtime.handle());
        let ended = runtime.block_on(task);
        drop(runtime);
        drop(ready.send(ended.unwrap_or_else(|e| Err(ThreadError::from(e).into()))));
    };
    let (answer, thread) = start(name, wall, body)?;
    // It catches its panics.
    let _ = thread.join();
    Ok(answer)
}

/// Starts a thread and a runtime in it; `body` has the end of a channel by which it says that it is
/// ready.
fn start<T, E>(
    name: &str,
    wall: WallOptions,
    body: impl FnOnce(Runtime, &Sender<Result<T, E>>) + Send + 'static,
) -> Result<(T, JoinHandle<()>), E>
where
    T: Send + 'static,
    E: From<ThreadError> + Send + 'static,
{
    // Each thread has random streams of its own.
    let seed = u64::from_le_bytes(random().map_err(ThreadError::from)?);
    let (to, ready) = channel();
    let body = move || {
        let run = AssertUnwindSafe(|| match Runtime::wall_time(seed, wall) {
            Ok(runtime) => body(runtime, &to),
            Err(e) => drop(to.send(Err(ThreadError::from(e).into()))),
        });
        if let Err(panic) = catch_unwind(run) {
            // For whoever starts it. Once it is ready nobody reads this.
            drop(to.send(Err(ThreadError::Panicked(said(&*panic).to_string()).into())));
        }
    };
    #[allow(clippy::disallowed_methods, reason = "one runtime is one thread: this is that")]
    let thread = std::thread::Builder::new().name(name.into()).spawn(body);
    let thread = thread.map_err(ThreadError::from)?;
    match ready.recv() {
        Ok(Ok(value)) => Ok((value, thread)),
        failed => {
            let _ = thread.join();
            let nothing = || ThreadError::Panicked("it ended".to_string()).into();
            Err(failed.map_or_else(|_| nothing(), |f| f.err().unwrap_or_else(nothing)))
        }
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
