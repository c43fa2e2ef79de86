//! A progress bar for long work that an interrupt can end early.

use crate::interrupt::Stop;
use crate::{out, units};
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
#[allow(clippy::disallowed_types, reason = "the edge: how long a user has waited")]
use std::time::Instant;

/// A moment of the wall clock.
#[derive(Clone, Copy)]
#[allow(clippy::disallowed_types, reason = "the edge: how long a user has waited")]
pub struct Began(Instant);

impl Began {
    /// Now.
    #[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the edge: see `Began`")]
    pub fn now() -> Began {
        Began(Instant::now())
    }

    /// Seconds since then.
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Lines of progress for a log: printed where there is no terminal.
pub struct Lines {
    every: u64,
    /// Seconds after which the next line is due; `None`: there is a terminal.
    next: Option<AtomicU64>,
}

impl Lines {
    /// A line every `every` seconds, unless there is a terminal.
    pub fn new(every: u64, terminal: bool) -> Lines {
        Lines { every, next: (!terminal).then(|| AtomicU64::new(every)) }
    }

    /// Whether there is no terminal, so that there are lines.
    pub fn are_wanted(&self) -> bool {
        self.next.is_some()
    }

    /// Whether a line is due after `seconds` of work; each line is due once.
    pub fn is_due(&self, seconds: f64) -> bool {
        let now = seconds as u64;
        self.next.as_ref().is_some_and(|next| {
            let due = next.load(Ordering::Relaxed);
            let then = now + self.every;
            let order = Ordering::Relaxed;
            now >= due && next.compare_exchange(due, then, order, order).is_ok()
        })
    }
}

/// Seconds between two lines of a bar where there is no terminal.
const EVERY: u64 = 10;

/// A progress bar on standard error, drawn if that is a terminal; else there are lines. Work that
/// watches it ends early when the user interrupts it.
#[derive(Clone)]
pub struct Bar {
    bar: ProgressBar,
    over: Stop,
    began: Began,
    lines: Arc<Lines>,
}

impl Bar {
    /// A bar of this length and style.
    pub fn new(length: u64, style: &str) -> Bar {
        let bar = match out::is_quiet() {
            true => ProgressBar::hidden(),
            false => ProgressBar::new(length),
        };
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        let lines = Arc::new(Lines::new(EVERY, !bar.is_hidden()));
        Bar { bar, over: Stop::default(), began: Began::now(), lines }
    }

    /// So much more is done, of what has this name.
    pub fn advance(&self, more: u64, what: &str) {
        self.bar.inc(more);
        let seconds = self.began.seconds();
        if self.lines.is_due(seconds) {
            let (after, done) = (units::said(seconds as u64), self.bar.position());
            match self.bar.length() {
                Some(all) => out::note(format_args!("{after}: {done} of at most {all} {what}")),
                None => out::note(format_args!("{after}: {done} {what}")),
            }
        }
    }

    /// A line above the bar.
    #[cfg(feature = "live")]
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| out::note(text));
    }

    /// Makes Ctrl-C end the work, whose result is then shown; a second one ends the program.
    pub fn end_at_interrupt(&self) {
        let bar = self.bar.clone();
        self.over.set_at_interrupt(move || bar.finish_and_clear());
    }

    /// Whether the user interrupted the work.
    pub fn is_over(&self) -> bool {
        self.over.is_set()
    }

    /// Removes the bar from the terminal.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl std::ops::Deref for Bar {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_in_each_span_and_never_on_a_terminal() {
        let lines = Lines::new(10, false);
        let due: Vec<bool> = [0.0, 9.9, 10.0, 10.5, 19.0, 25.0, 26.0, 35.0]
            .into_iter()
            .map(|seconds| lines.is_due(seconds))
            .collect();
        assert_eq!(due, [false, false, true, false, false, true, false, true]);
        assert!(lines.are_wanted());
        let terminal = Lines::new(10, true);
        assert!(!terminal.is_due(1e6) && !terminal.are_wanted());
    }
}
