//! How a run can end badly.

use crate::Nanos;
use std::fmt;

/// One thing that was still waiting when a run stalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The task's or the command's name.
    pub name: String,
    /// What it last waited for.
    pub on: &'static str,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" waits for {}", self.name, self.on)
    }
}

/// Why a run ended before its work was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Nothing can run any more, yet work is outstanding.
    #[error("stalled at {at}: nothing can run, but {} outstanding: {}", .waiting.len(), list(.waiting))]
    Stalled {
        /// When.
        at: Nanos,
        /// What was outstanding: foreground tasks and announced commands.
        waiting: Vec<Waiting>,
    },
    /// A task was polled again and again without time passing.
    #[error("livelock at {at}: {polls} polls without time passing, the last of task \"{task}\"")]
    Livelock {
        /// When.
        at: Nanos,
        /// The name of the task polled last.
        task: String,
        /// How many polls there were at this instant.
        polls: u64,
    },
    /// The main task was dropped, because it had been spawned in a power domain that has been
    /// killed.
    #[error("the main task was cancelled at {at}")]
    Cancelled {
        /// When.
        at: Nanos,
    },
}

fn list(waiting: &[Waiting]) -> String {
    let mut out = waiting.iter().take(16).map(|w| w.to_string()).collect::<Vec<_>>().join("; ");
    if waiting.len() > 16 {
        out.push_str(&format!("; and {} more", waiting.len() - 16));
    }
    out
}
