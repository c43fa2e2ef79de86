//! What ends long work early: Ctrl-C (SIGINT), and SIGTERM, which service managers and `kill` send.
//!
//! 1. Work that makes files looks at a [`Stop`]: it ends as usual, and removes them.
//! 2. Work that only computes is ended by the thread that waits for signals: see [`Finished`].

use crate::counted::counted;
use crate::out;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Calls `then` at each interrupt, in a thread of its own. Where there can be none the system ends
/// the program instead.
#[allow(clippy::disallowed_methods, reason = "the edge: a thread that waits for signals")]
pub fn at_each(mut then: impl FnMut() + Send + 'static) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let watch = move || signals.forever().for_each(|_| then());
    let _ = thread::Builder::new().name("interrupt".to_string()).spawn(watch);
}

/// Whether an interrupt is to end the work.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Makes an interrupt set it. The next interrupt calls `clear` and ends the program.
    pub fn set_at_interrupt(&self, clear: impl Fn() + Send + 'static) {
        let stop = self.clone();
        at_each(move || {
            if stop.0.swap(true, Ordering::Relaxed) {
                clear();
                std::process::exit(out::INTERRUPTED);
            }
        });
    }

    /// Whether there was an interrupt.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Rows that have ended, of work that an interrupt ends at once. `None`: all are printed.
pub struct Finished<T>(Arc<Mutex<Option<Vec<T>>>>);

impl<T: Send + 'static> Finished<T> {
    /// Makes an interrupt print the rows that have ended, by `print`, and end the program.
    pub fn printed_at_interrupt(print: impl Fn(Vec<T>) + Send + 'static) -> Finished<T> {
        let finished = Finished(Arc::new(Mutex::new(Some(Vec::new()))));
        let rows = finished.0.clone();
        at_each(move || {
            // The lock is held until the end: whatever else would print waits for it.
            let mut rows = locked(&rows);
            if let Some(rows) = rows.take() {
                print(rows);
            }
            std::process::exit(out::INTERRUPTED);
        });
        finished
    }

    /// This row has ended.
    pub fn add(&self, row: T) {
        if let Some(rows) = locked(&self.0).as_mut() {
            rows.push(row);
        }
    }

    /// All rows have ended, and are printed by `print`. An interrupt ends the program after that.
    pub fn end<R>(&self, print: impl FnOnce(Vec<T>) -> R) -> R {
        let mut rows = locked(&self.0);
        print(rows.take().unwrap_or_default())
    }
}

fn locked<T>(rows: &Mutex<T>) -> MutexGuard<'_, T> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many missing rows are named after an interrupt.
const MISSING_NAMED: usize = 5;

/// How many of so many rows are missing, and the first of them.
pub fn told(missing: &[&str], rows: usize) -> String {
    if missing.is_empty() {
        return "interrupted after the last row: no row is missing".to_string();
    }
    let are = if missing.len() == 1 { "is" } else { "are" };
    let of = counted(rows as u64, "row", "rows");
    let named = &missing[..missing.len().min(MISSING_NAMED)];
    let line =
        format!("interrupted: {} of {of} {are} missing: {}", missing.len(), named.join(", "));
    match missing.len() - named.len() {
        0 => line,
        more => format!("{line}, and {more} more"),
    }
}

/// Says which rows are missing, of which so many have ended, in this order; returns the exit code.
pub fn over(names: &[String], ended: usize) -> u8 {
    let missing: Vec<&str> = names.iter().skip(ended).map(String::as_str).collect();
    out::note(told(&missing, names.len()));
    out::INTERRUPTED as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rows_are_named_until_they_are_too_many() {
        assert_eq!(told(&["a"], 2), "interrupted: 1 of 2 rows is missing: a");
        let all = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(told(&all[..5], 5), "interrupted: 5 of 5 rows are missing: a, b, c, d, e");
        assert!(told(&all, 9).ends_with("missing: a, b, c, d, e, and 2 more"));
        assert_eq!(told(&["a"], 1), "interrupted: 1 of 1 row is missing: a");
        for rows in [1, 2] {
            let said = told(&[], rows);
            assert_eq!(said, "interrupted after the last row: no row is missing");
        }
    }
}
