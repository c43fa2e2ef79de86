//! Two threads of which one runs at a time, and that change turns where the test says: before a load
//! or a store of theirs, given by its number.
//!
//! 1. A turn ends after the steps that it was given, when its thread has to wait for the other one,
//!    or with its thread.
//! 2. All of a turn is seen in the next one. So this finds orders of steps, and no stores that are
//!    seen late.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

thread_local! {
    static MINE: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

/// Whose turn it is.
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    whose: usize,
    /// Steps of this turn that are left. Without a number it goes on to its thread's end.
    left: Option<u64>,
    /// The lengths of the turns after this one, the next one last.
    later: Vec<u64>,
    ended: [bool; 2],
    /// Turns that ended since they had no steps left.
    full: usize,
}

impl State {
    fn next(&mut self, me: usize) {
        self.whose = 1 - me;
        self.left = self.later.pop();
    }
}

impl Turns {
    fn mine(&self, me: usize) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap();
        self.changed.wait_while(state, |state| state.whose != me).unwrap()
    }

    fn step(&self, me: usize) {
        let mut state = self.mine(me);
        if state.left == Some(0) && !state.ended[1 - me] {
            state.full += 1;
            state.next(me);
            drop(state);
            self.changed.notify_all();
            state = self.mine(me);
        }
        if let Some(left) = &mut state.left {
            *left = left.saturating_sub(1);
        }
    }

    fn pass(&self, me: usize) {
        let mut state = self.mine(me);
        if !state.ended[1 - me] {
            state.next(me);
            drop(state);
            self.changed.notify_all();
        }
    }
}

/// Ends a thread's part even if it panics, so that the other one goes on.
struct Ended(Arc<Turns>, usize);

impl Drop for Ended {
    fn drop(&mut self) {
        MINE.set(None);
        let Ended(turns, me) = self;
        let mut state = turns.mine(*me);
        state.ended[*me] = true;
        state.next(*me);
        drop(state);
        turns.changed.notify_all();
    }
}

/// Runs two calls with turns of these lengths; the first call has the first turn. What they return,
/// and how many turns were long enough to be ended by their length.
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
pub(crate) fn run<A, B: Send>(
    lengths: &[u64],
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B + Send,
) -> (A, B, usize) {
    let mut later: Vec<u64> = lengths.iter().rev().copied().collect();
    let left = later.pop();
    let state = State { whose: 0, left, later, ended: [false; 2], full: 0 };
    let turns = Arc::new(Turns { state: Mutex::new(state), changed: Condvar::new() });
    let begin = |me: usize| {
        MINE.set(Some((turns.clone(), me)));
        Ended(turns.clone(), me)
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _ended = begin(1);
            second()
        });
        let ended = begin(0);
        let done = first();
        drop(ended);
        (done, other.join().expect("the second call panicked"))
    });
    let full = turns.state.lock().unwrap().full;
    (first, second, full)
}

pub(in super::super) fn step() {
    MINE.with_borrow(|mine| {
        if let Some((turns, me)) = mine {
            turns.step(*me);
        }
    });
}

/// Whether the calling thread takes turns. Then it was the other one's meanwhile.
pub(in super::super) fn pass() -> bool {
    MINE.with_borrow(|mine| {
        if let Some((turns, me)) = mine {
            turns.pass(*me);
        }
        mine.is_some()
    })
}
