//! Cuts and restarts, in words.

use tantalum_export::control::{CutReport, Power, RestoreReport};

pub use tantalum_device::time_in_words as time;

/// A cut, in a line.
pub fn cut_in_a_line(r: &CutReport) -> String {
    match r.was {
        Power::On => r.words.clone(),
        Power::Starting => "the drive had not started; it has lost nothing".to_string(),
        Power::Off | Power::Dying => "the drive had no power".to_string(),
    }
}

/// What a start found of a killed process, in a line.
pub fn killed_in_a_line(what: &str) -> String {
    format!("the last process that had the drive was killed: {what}")
}

/// A restart, in a line.
pub fn restore_in_a_line(r: &RestoreReport) -> String {
    if r.was == Power::On {
        return "the drive had power already".to_string();
    }
    format!(
        "the drive took commands after {}, and had recovered after {}{}; that was {} of real time",
        time(r.ready_ns),
        time(r.whole_ns),
        if r.salvaged { ", SALVAGED without its dump" } else { "" },
        time(r.real_ns)
    )
}
