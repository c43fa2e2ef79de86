//! Pieces of work over several threads, each in runtimes of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `work` with each item, several at a time. Returns the results in order; `None` for items
/// that were not begun before it was over.
pub fn side_by_side<T: Sync, R: Send>(
    threads: usize,
    is_over: &(dyn Fn() -> bool + Sync),
    all: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<Option<R>> {
    let next = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    let done: Vec<Mutex<Option<R>>> = all.iter().map(|_| Mutex::new(None)).collect();
    let thread = || {
        while !over.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let (Some(one), Some(place)) = (all.get(i), done.get(i)) else { return };
            let result = work(one);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            if is_over() {
                over.store(true, Ordering::Relaxed);
            }
        }
    };
    #[allow(clippy::disallowed_methods, reason = "the edge: a runtime a thread")]
    std::thread::scope(|scope| {
        for _ in 1..threads.min(all.len()) {
            scope.spawn(thread);
        }
        thread();
    });
    done.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}
