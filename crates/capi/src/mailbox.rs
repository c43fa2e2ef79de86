//! The mailbox from the threads of the caller to the thread of the drive.
//!
//! 1. Letters are taken in the order in which they were posted.
//! 2. A letter that is posted while the runtime runs ends the runtime's turn before time moves on.
//! 3. When the mailbox is closed, its letters are dropped, and no further ones are posted.

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
    /// The waker of the task that waits for letters while the runtime runs.
    waker: Option<Waker>,
    /// No further letters come; the reader takes the remaining ones.
    ending: bool,
    /// Why the reader has stopped.
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

    /// Tells the reader that no further letters come.
    pub fn end(&self) {
        self.state().ending = true;
        self.changed.notify_all();
    }

    /// Takes all letters; waits for one if `wait`. `None`: no further letters come.
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

    /// Closes the mailbox: the reader has stopped.
    pub fn close(&self, why: Failure) {
        let mut state = self.state();
        state.closed = Some(why);
        let dropped = std::mem::take(&mut state.letters);
        self.changed.notify_all();
        drop(state);
        drop(dropped);
    }

    /// Waits until the reader has stopped; returns why.
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
