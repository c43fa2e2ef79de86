//! The way from the threads of the caller to the thread of the drive.
//!
//! 1. Letters are taken in the order in which they were posted.
//! 2. A letter that is posted while the runtime runs ends its turn before time moves on.
//! 3. Once it is closed nothing is posted any more, and what lay in it is dropped.

use crate::error::Failure;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::task::Waker;

/// Letters, for one reader.
pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    letters: VecDeque<T>,
    /// Of the runtime's task that waits for letters while others run.
    waker: Option<Waker>,
    /// Nothing more is to come; the reader takes what there is.
    ending: bool,
    /// Why nothing is read any more.
    closed: Option<Failure>,
}

impl<T> Mailbox<T> {
    pub fn new() -> Mailbox<T> {
        let state = State { letters: VecDeque::new(), waker: None, ending: false, closed: None };
        Mailbox { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Posts a letter.
    pub fn post(&self, letter: T) -> Result<(), Failure> {
        let mut state = self.state();
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if state.ending {
            return Err(Failure::invalid("the drive is closed"));
        }
        state.letters.push_back(letter);
        self.changed.notify_all();
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    /// Tells the reader that nothing more is to come.
    pub fn end(&self) {
        self.state().ending = true;
        self.changed.notify_all();
    }

    /// All letters; waits for one if `wait`. `None`: nothing more is to come.
    pub fn take(&self, wait: bool) -> Option<VecDeque<T>> {
        let mut state = self.state();
        while wait && state.letters.is_empty() && !state.ending {
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        match state.letters.is_empty() && state.ending {
            true => None,
            false => Some(std::mem::take(&mut state.letters)),
        }
    }

    /// Whether there is a letter; if not, `waker` is woken when one comes.
    pub fn has_letter(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.letters.is_empty() {
            state.waker = Some(waker.clone());
        }
        !state.letters.is_empty()
    }

    /// The reader is gone.
    pub fn close(&self, why: Failure) {
        let mut state = self.state();
        state.closed = Some(why);
        let dropped = std::mem::take(&mut state.letters);
        self.changed.notify_all();
        drop(state);
        drop(dropped);
    }

    /// Waits until the reader is gone, and tells why.
    pub fn why_closed(&self) -> Failure {
        let mut state = self.state();
        loop {
            if let Some(why) = &state.closed {
                return why.clone();
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }
}
