//! How far a run has got, on standard error.

use crate::bar::{Began, Lines};
use crate::{counted, units};
use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tantalum_lab::run::runner::Progress;

/// A bar for the power cuts, and one for each drive that is being preconditioned. They are drawn
/// only if standard error is a terminal; else there is a line for each row that has ended, and one
/// from time to time while none does.
#[derive(Clone)]
pub struct Bars {
    all: MultiProgress,
    cuts: ProgressBar,
    drives: Arc<Mutex<BTreeMap<String, ProgressBar>>>,
    /// Rows that have ended, of how many.
    rows: Arc<(AtomicU64, u64)>,
    began: Began,
    lines: Arc<Lines>,
}

/// Seconds between two lines while no row ends.
const EVERY: u64 = 20;

/// Length of the bar of a drive.
const WHOLE: u64 = 1000;

impl Bars {
    /// For so many rows, and so many power cuts of them all.
    pub fn new(rows: u64, cuts: u64) -> Bars {
        let all = MultiProgress::new();
        if crate::out::is_quiet() {
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = "{bar:20} {pos}/{len} power CUTS{left}  {wide_msg}"
            .replace("CUTS", counted::cuts(cuts));
        let cuts = ProgressBar::new(cuts);
        let cuts = all.add(styled(cuts, &style));
        let lines = Arc::new(Lines::new(EVERY, stderr().is_terminal()));
        let rows = Arc::new((AtomicU64::new(0), rows));
        Bars { all, cuts, drives: Arc::default(), rows, began: Began::now(), lines }
    }

    /// A line, if one is due and there is no terminal.
    fn tell(&self, what: impl FnOnce() -> String) {
        let seconds = self.began.seconds();
        if self.lines.is_due(seconds) {
            crate::out::note(format_args!("{}: {}", units::said(seconds as u64), what()));
        }
    }

    /// Shows what has happened.
    pub fn show(&self, progress: Progress<'_>) {
        let mut drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Preconditioning(name, share) if share < 1.0 => {
                let bar = drives.entry(name.to_string()).or_insert_with(|| {
                    let style = "{bar:20} {percent} % preconditioned{left}  {wide_msg}";
                    let bar = self.all.insert_before(&self.cuts, ProgressBar::new(WHOLE));
                    styled(bar, style).with_message(name.to_string())
                });
                bar.set_position((share * WHOLE as f64) as u64);
                self.tell(|| format!("{:.0} % preconditioned of {name}", share * 100.0));
            }
            Progress::Preconditioning(name, _) => {
                if let Some(bar) = drives.remove(name) {
                    bar.finish_and_clear();
                }
                self.cuts.reset_eta();
            }
            Progress::Cut => {
                self.cuts.inc(1);
                let all = self.cuts.length().unwrap_or(0);
                self.tell(|| {
                    format!("{} of {all} power {}", self.cuts.position(), counted::cuts(all))
                });
            }
            Progress::RowDone(row) => {
                if let Some(bar) = drives.remove(&row.name) {
                    bar.finish_and_clear();
                }
                self.cuts.set_message(row.name.clone());
                let ended = 1 + self.rows.0.fetch_add(1, Ordering::Relaxed);
                if !stderr().is_terminal() {
                    let (rows, name) = (self.rows.1, &row.name);
                    crate::out::note(format_args!("{} of {rows}: {name}", (ended - 1) % rows + 1));
                }
            }
        }
    }

    /// Removes the bars from the screen.
    pub fn clear(&self) {
        // An error means that the terminal is gone.
        let _ = self.all.clear();
    }
}

/// The remaining time, as soon as it can be estimated.
fn left(state: &ProgressState, words: &mut dyn std::fmt::Write) {
    if state.pos() > 0 {
        // If writing fails, there is no bar.
        let _ = write!(words, ", {:#} left", HumanDuration(state.eta()));
    }
}

fn styled(bar: ProgressBar, style: &str) -> ProgressBar {
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style.with_key("left", left)),
        Err(_) => bar,
    }
}
