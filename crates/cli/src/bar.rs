//! A progress bar for long work, and the end of the work at an interrupt.

use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A progress bar on standard error, drawn if that is a terminal. Work that watches it ends
/// early when the user interrupts it.
#[derive(Clone)]
pub struct Bar {
    bar: ProgressBar,
    over: Arc<AtomicBool>,
}

impl Bar {
    /// So long, in this style.
    pub fn new(length: u64, style: &str) -> Bar {
        let bar = ProgressBar::new(length);
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Bar { bar, over: Arc::default() }
    }

    /// Ctrl-C ends the work, and what it came to is shown; a second one ends the program.
    pub fn end_at_interrupt(&self) {
        let Bar { bar, over } = self.clone();
        // Without the handler the system ends it.
        let _ = ctrlc::set_handler(move || {
            if over.swap(true, Ordering::Relaxed) {
                bar.finish_and_clear();
                std::process::exit(out::INTERRUPTED);
            }
        });
    }

    /// Whether it was interrupted.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Removes it from the terminal.
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
