//! What an exploration can find.

use std::fmt;
use tantalum_device::IoError;
use tantalum_oracle::Violation;
use tantalum_rt::{Nanos, RunError};

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A block device broke its contract.
    #[error("{first}{}", more(.others))]
    Contract {
        /// The first violation.
        first: Violation,
        /// How many more there are.
        others: usize,
    },
    /// A block device broke its contract, because its capacitors had too little energy.
    #[error("too little energy: {shortage}; so {first}{}", more(.others))]
    Energy {
        /// What was there and what was missing, in a line.
        shortage: String,
        /// The first violation.
        first: Box<Violation>,
        /// How many more there are.
        others: usize,
    },
    /// Something that had to survive a cut did not, or something came back that must not. The words
    /// are those of a judge other than the contract of block devices.
    #[error("{0}")]
    Promise(String),
    /// The subject's memory contradicts itself, or its media.
    #[error("an invariant does not hold: {0}")]
    Invariant(String),
    /// It did not start.
    #[error("it does not start: {0}")]
    Start(String),
    /// A command failed though nothing else did.
    #[error("{command} failed: {error}")]
    Command {
        /// Which.
        command: String,
        /// What the device said.
        error: String,
    },
    /// The run came to a standstill.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Something did not end.
    #[error("it did not end within {0} of virtual time")]
    Endless(Nanos),
    /// An assertion failed.
    #[error("panicked: {0}")]
    Panic(String),
}

fn more(others: &usize) -> String {
    match others {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    }
}

impl Failure {
    /// A command that failed. With [`IoError::PowerLost`] it is one that a cut ended: that is no
    /// failure of a run that was cut.
    pub fn of_command(command: &str, error: &IoError) -> Failure {
        Failure::Command { command: command.to_string(), error: error.to_string() }
    }

    /// The same failure of a subject that had this shortage of energy, if it had one.
    pub(crate) fn for_lack_of(self, shortage: Option<String>) -> Failure {
        match (self, shortage) {
            (Failure::Contract { first, others }, Some(shortage)) => {
                Failure::Energy { shortage, first: Box::new(first), others }
            }
            (failure, _) => failure,
        }
    }

    /// Of what the oracle found, if it found anything.
    pub(crate) fn contract(found: Vec<Violation>) -> Result<(), Failure> {
        let others = found.len().saturating_sub(1);
        match found.into_iter().next() {
            Some(first) => Err(Failure::Contract { first, others }),
            None => Ok(()),
        }
    }
}

/// When it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the first of the cuts that were explored.
    Run,
    /// While the power failed, in the emergency dump.
    Dying,
    /// At the restart after the cut, or when all was checked after that.
    Recovery,
    /// In the phase without faults after that.
    Then,
    /// After the cut that ends it.
    Again,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Run => "in the run",
            Stage::Dying => "while the power failed",
            Stage::Recovery => "after the recovery",
            Stage::Then => "in the work after the recovery",
            Stage::Again => "after the next recovery",
        })
    }
}
