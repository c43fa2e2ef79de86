//! The progress of an exploration, and its end at an interrupt or a deadline. On a terminal there
//! is a bar for the whole and one for each row; elsewhere a line is printed now and then.
//!
//! 1. A finding is shown, and appended to the file of findings, at once.
//! 2. Watching does not change the result of an exploration.

use super::findings::Findings;
use crate::bar::{Began, Lines};
use crate::counted::{self, counted};
use crate::interrupt::Stop;
use crate::{out, units};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::tcgetwinsize;
use std::io::stderr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use tantalum_explore::{Case, CrashRow, Over, Watch};
use tantalum_lab::bench::process_cpu_seconds;

/// Seconds between two lines where there is no terminal.
const EVERY: u64 = 15;

/// Lines of a terminal that are not used for bars of rows.
const MARGIN: usize = 4;

/// The counters of a row.
struct Row {
    name: String,
    /// Cuts of its runs, and of recoveries.
    cuts: AtomicU64,
    nested: AtomicU64,
    found: AtomicU64,
    /// The expected number of cuts of its runs; 0: unknown.
    expected: AtomicU64,
    bar: Option<ProgressBar>,
}

/// Watches an exploration.
pub struct Progress<'a> {
    seed: u64,
    rows: Vec<Row>,
    all: MultiProgress,
    total: ProgressBar,
    interrupted: Stop,
    began: Began,
    /// Seconds after which the exploration ends.
    budget: Option<f64>,
    lines: Lines,
    findings: Option<&'a Findings>,
    repeat: &'a (dyn Fn(&str, &str) -> String + Sync),
    /// Processor time at which the first reduction of a case began.
    reducing: Mutex<Option<f64>>,
}

impl<'a> Progress<'a> {
    /// Watches these rows. `repeat`: the command that repeats a case of a row.
    pub fn new(
        seed: u64,
        rows: &[CrashRow],
        budget: Option<f64>,
        findings: Option<&'a Findings>,
        repeat: &'a (dyn Fn(&str, &str) -> String + Sync),
    ) -> Progress<'a> {
        let all = MultiProgress::new();
        if crate::out::is_quiet() {
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
        let terminal = !all.is_hidden();
        let total = all.add(styled(ProgressBar::no_length(), "{bar:20} {msg}"));
        let height = tcgetwinsize(stderr()).map_or(24, |size| size.ws_row.into());
        let fit = terminal && rows.len() + MARGIN <= height;
        let longest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let rows = rows.iter().map(|row| Row {
            name: row.name.clone(),
            cuts: AtomicU64::new(0),
            nested: AtomicU64::new(0),
            found: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            bar: fit.then(|| {
                let bar = all.add(styled(ProgressBar::no_length(), "{prefix}  {bar:12} {msg}"));
                bar.with_prefix(format!("{:longest$}", row.name))
            }),
        });
        Progress {
            seed,
            rows: rows.collect(),
            total,
            all,
            interrupted: Stop::default(),
            began: Began::now(),
            budget,
            lines: Lines::new(EVERY, terminal),
            findings,
            repeat,
            reducing: Mutex::new(None),
        }
    }

    /// Makes Ctrl-C end the exploration, whose result is then shown; a second one ends the program.
    pub fn end_at_interrupt(&self) {
        let all = self.all.clone();
        self.interrupted.set_at_interrupt(move || {
            let _ = all.clear();
        });
    }

    /// Removes the bars from the terminal.
    pub fn clear(&self) {
        // An error means that the terminal is gone.
        let _ = self.all.clear();
    }

    /// Processor time spent on reducing cases.
    pub fn reducing_took(&self) -> f64 {
        let began = self.reducing.lock().unwrap_or_else(PoisonError::into_inner);
        began.map_or(0.0, |began| process_cpu_seconds() - began)
    }

    fn sum(&self, of: fn(&Row) -> &AtomicU64) -> u64 {
        self.rows.iter().map(|row| of(row).load(Relaxed)).sum()
    }

    /// The progress of the whole exploration in words, without the number of cuts.
    fn words(&self, seconds: f64) -> String {
        let (cuts, expected) = (self.sum(|r| &r.cuts), self.sum(|r| &r.expected));
        let rate = (cuts + self.sum(|r| &r.nested)) as f64 / seconds.max(1e-3);
        let found = match self.sum(|r| &r.found) {
            0 => "nothing found".to_string(),
            n => format!("{n} found"),
        };
        let by_cuts = (expected > 0 && cuts > 0)
            .then(|| seconds * expected.saturating_sub(cuts) as f64 / cuts as f64);
        let by_clock = self.budget.map(|budget| (budget - seconds).max(0.0));
        let left = match (by_cuts, by_clock) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let left = left.map_or(String::new(), |s| format!(", {} left", units::said(s as u64)));
        format!(", {rate:.0}/s, {found}{left}")
    }

    /// A line for a log.
    fn line(&self, seconds: f64) {
        let cuts = self.sum(|r| &r.cuts) + self.sum(|r| &r.nested);
        let each = || self.rows.iter().map(|row| row.cuts.load(Relaxed));
        let (least, most) = (each().min().unwrap_or(0), each().max().unwrap_or(0));
        let of = self.rows.iter().map(|row| row.expected.load(Relaxed)).max().unwrap_or(0);
        let of = if of > 0 { format!(" of {of}") } else { String::new() };
        let rows = match self.rows.len() {
            1 => "the one row".to_string(),
            rows => format!("each of {rows} rows"),
        };
        let words = self.words(seconds);
        let after = units::said(seconds as u64);
        out::note(format_args!(
            "{after}: {}, {least} to {most}{of} of the runs of {rows}{words}",
            counted(cuts, "cut", "cuts")
        ));
    }

    fn show(&self, row: &Row) {
        let seconds = self.began.seconds();
        if self.lines.is_due(seconds) {
            self.line(seconds);
        }
        if self.lines.are_wanted() {
            return;
        }
        let cuts = self.sum(|r| &r.cuts) + self.sum(|r| &r.nested);
        self.total.set_position(cuts);
        let words = self.words(seconds);
        self.total.set_message(format!("{}{words}", counted(cuts, "cut", "cuts")));
        if let Some(bar) = &row.bar {
            let (cuts, expected) = (row.cuts.load(Relaxed), row.expected.load(Relaxed));
            let rate = (cuts + row.nested.load(Relaxed)) as f64 / seconds.max(1e-3);
            let found = match row.found.load(Relaxed) {
                0 => String::new(),
                n => format!(", {n} FOUND"),
            };
            let of = if expected > 0 { format!("/{expected}") } else { String::new() };
            bar.set_position(cuts);
            let noun = counted::cuts(if expected > 0 { expected } else { cuts });
            bar.set_message(format!("{cuts}{of} {noun}, {rate:.0}/s{found}"));
        }
    }
}

impl Watch for Progress<'_> {
    fn expect(&self, row: usize, cuts: u64) {
        self.rows[row].expected.store(cuts, Relaxed);
        if let Some(bar) = &self.rows[row].bar {
            bar.set_length(cuts);
        }
        // The bar counts all cuts, so its length is extended by the share of cuts of recoveries.
        let (cuts, nested) = (self.sum(|r| &r.cuts), self.sum(|r| &r.nested));
        let whole = self.sum(|r| &r.expected) as f64;
        self.total.set_length((whole * (1.0 + nested as f64 / cuts.max(1) as f64)) as u64);
    }

    fn cut(&self, row: usize, depth: usize) {
        let row = &self.rows[row];
        let count = if depth == 0 { &row.cuts } else { &row.nested };
        if count.fetch_add(1, Relaxed).is_multiple_of(8) {
            self.show(row);
        }
    }

    fn found(&self, row: usize, case: &Case) {
        let row = &self.rows[row];
        row.found.fetch_add(1, Relaxed);
        if let Some(findings) = self.findings {
            findings.found(&row.name, self.seed, case, &(self.repeat)(&row.name, &case.id));
        }
        if !self.lines.are_wanted() {
            let (name, id, found) = (&row.name, &case.id, &case.found);
            let line = format!("found: {name}, case {id}: {}: {}", found.stage, found.failure);
            // Without a terminal there is no reader.
            let _ = self.all.println(line);
        }
    }

    fn reducing(&self, row: usize) {
        let mut began = self.reducing.lock().unwrap_or_else(PoisonError::into_inner);
        began.get_or_insert_with(process_cpu_seconds);
        self.total.set_message(format!(": reducing a case of {}", self.rows[row].name));
    }

    fn reduced(&self, row: usize, case: &Case) {
        if let (Some(findings), Some(reduced)) = (self.findings, &case.reduced) {
            findings.reduced(&self.rows[row].name, self.seed, case, reduced);
        }
    }

    fn over(&self) -> Option<Over> {
        let late = || self.budget.is_some_and(|budget| self.began.seconds() >= budget);
        match self.interrupted.is_set() {
            true => Some(Over::Interrupted),
            false => late().then_some(Over::Budget),
        }
    }
}

fn styled(bar: ProgressBar, style: &str) -> ProgressBar {
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
