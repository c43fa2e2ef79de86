//! A bounded channel from other threads to a task.
//!
//! 1. What is posted is taken in the order in which it was posted.
//! 2. The channel holds at most `room` letters. Posting to a full channel is refused, or waits.
//! 3. A post wakes the runtime if it waits.
//! 4. When the last [`Post`] is gone the [`Inbox`] ends, after what was posted; when the
//!    [`Inbox`] is gone posts are refused, and what lay in it is dropped.

use crate::Rt;
use crate::inbox::Inbox as Wakes;
use crate::sys::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

struct State<T> {
    letters: VecDeque<T>,
    waker: Option<Waker>,
    posts: usize,
    closed: bool,
}

impl<T> State<T> {
    /// Whether letters may still come and be taken.
    fn is_open(&self) -> bool {
        self.posts > 0 && !self.closed
    }
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// There may be room again, or never more.
    changed: Condvar,
    room: usize,
    wakes: Arc<Wakes>,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Why a letter was not posted; it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError<T> {
    /// There is no room: try again later.
    #[error("the inbox is full: try again later")]
    Full(T),
    /// Nobody takes letters any more.
    #[error("the inbox is closed: its runtime has ended")]
    Closed(T),
}

/// Posts letters to a task of a runtime, from any thread; see [`Rt::inbox_of`].
pub struct Post<T> {
    shared: Arc<Shared<T>>,
}

/// Takes letters; see [`Rt::inbox_of`].
pub struct Inbox<T> {
    shared: Arc<Shared<T>>,
    rt: Rt,
}

impl Rt {
    /// A channel for letters from other threads, with room for `room` (at least 1). While
    /// there is a [`Post`] of it a runtime on the wall clock waits for letters instead of
    /// being stalled.
    ///
    /// ```
    /// use tantalum_rt::Runtime;
    /// use tantalum_rt::wall::WallOptions;
    ///
    /// let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
    /// let (post, mut inbox) = runtime.handle().inbox_of(4);
    /// let thread = std::thread::spawn(move || (1..=10).try_for_each(|n| post.post_wait(n)));
    /// let sum = runtime.block_on(async move {
    ///     let mut sum = 0;
    ///     while let Some(n) = inbox.next().await {
    ///         sum += n;
    ///     }
    ///     sum
    /// });
    /// assert_eq!(sum.unwrap(), 55); // the thread has dropped the only post
    /// assert_eq!(thread.join().unwrap(), Ok(()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn inbox_of<T: Send>(&self, room: usize) -> (Post<T>, Inbox<T>) {
        self.inbox().add_channel();
        let state = State { letters: VecDeque::new(), waker: None, posts: 1, closed: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            room: room.max(1),
            wakes: self.inbox().clone(),
        });
        (Post { shared: shared.clone() }, Inbox { shared, rt: self.clone() })
    }
}

impl<T> Post<T> {
    /// Posts a letter, without waiting.
    ///
    /// # Errors
    /// [`PostError`], with the letter.
    pub fn post(&self, letter: T) -> Result<(), PostError<T>> {
        self.put(self.shared.state(), letter)
    }

    /// Posts a letter; blocks the calling thread while there is no room. A task of the runtime
    /// itself must not call it: it would wait for itself.
    ///
    /// # Errors
    /// [`PostError::Closed`], with the letter.
    pub fn post_wait(&self, letter: T) -> Result<(), PostError<T>> {
        let mut state = self.shared.state();
        while !state.closed && state.letters.len() >= self.shared.room {
            state = self.shared.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        self.put(state, letter)
    }

    fn put(&self, mut state: MutexGuard<'_, State<T>>, letter: T) -> Result<(), PostError<T>> {
        if state.closed {
            return Err(PostError::Closed(letter));
        }
        if state.letters.len() >= self.shared.room {
            return Err(PostError::Full(letter));
        }
        state.letters.push_back(letter);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl<T> Clone for Post<T> {
    fn clone(&self) -> Post<T> {
        self.shared.state().posts += 1;
        Post { shared: self.shared.clone() }
    }
}

impl<T> Drop for Post<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let was_open = state.is_open();
        state.posts -= 1;
        if state.posts > 0 {
            return;
        }
        let waker = state.waker.take();
        drop(state);
        // First the wake, then the end of the channel: a reader who sees the end also sees the
        // wake.
        if let Some(waker) = waker {
            waker.wake();
        }
        if was_open {
            self.shared.wakes.remove_channel();
        }
    }
}

impl<T> Inbox<T> {
    /// The next letter; `None` when all are taken and no [`Post`] is left.
    pub async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| {
            let mut state = self.shared.state();
            if let Some(letter) = state.letters.pop_front() {
                drop(state);
                self.shared.changed.notify_one();
                return Poll::Ready(Some(letter));
            }
            if state.posts == 0 {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            self.rt.park("a letter from another thread");
            Poll::Pending
        })
        .await
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.is_open() {
            self.shared.wakes.remove_channel();
        }
        state.closed = true;
        let dropped = std::mem::take(&mut state.letters);
        drop(state);
        self.shared.changed.notify_all();
        drop(dropped);
    }
}
