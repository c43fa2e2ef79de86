//! Two threads of which one runs at a time, and that change turns where the test says: before a load
//! or a store of theirs, given by its number.
//!
//! 1. The first turn ends after so many loads and stores, the others after so many stores. Each ends
//!    with its thread.
//! 2. A thread that waits for the other one lets it make one step, and looks again: it goes on as soon
//!    as it can, and its turn is as long as if it had not waited.
//! 3. All of a turn is seen in the next one. So this finds orders of steps, and no stores that are
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
    /// What is left of this turn. Without a number it goes on to its thread's end.
    left: Option<u64>,
    /// It is the first turn.
    is_first: bool,
    /// The lengths of the turns after this one, the next one last.
    later: Vec<u64>,
    ended: [bool; 2],
    /// The other thread waits in its turn, of which so much is left.
    waiting: Option<Option<u64>>,
    /// Turns that ended since they had no steps left.
    full: usize,
}

impl State {
    /// The thread that waits goes on, or the next turn begins.
    fn next(&mut self, me: usize) {
        self.whose = 1 - me;
        self.left = match self.waiting.take() {
            Some(left) => left,
            None => {
                self.is_first = false;
                self.later.pop()
            }
        };
    }
}

impl Turns {
    fn mine(&self, me: usize) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap();
        self.changed.wait_while(state, |state| state.whose != me).unwrap()
    }

    fn step(&self, me: usize, stores: bool) {
        let mut state = self.mine(me);
        if !(stores || state.is_first || state.waiting.is_some()) {
            return;
        }
        if state.left == Some(0) && !state.ended[1 - me] {
            state.full += usize::from(state.waiting.is_none());
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
            assert_eq!(state.waiting, None, "both wait");
            // The look that was in vain does not count.
            let mine = state.left.map(|left| left + 1);
            (state.whose, state.left, state.waiting) = (1 - me, Some(1), Some(mine));
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
    let ended = [false; 2];
    let state = State { whose: 0, left, is_first: true, later, ended, waiting: None, full: 0 };
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

/// Before a load.
pub(in super::super) fn step() {
    begin_step(false);
}

/// Before a store.
pub(in super::super) fn store() {
    begin_step(true);
}

fn begin_step(stores: bool) {
    MINE.with_borrow(|mine| {
        if let Some((turns, me)) = mine {
            turns.step(*me, stores);
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
