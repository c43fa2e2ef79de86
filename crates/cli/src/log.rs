//! `tantalum log`: flash logs on files and block devices, and the volumes over them.
//!
//! A log is named by its description, a file `NAME.toml` ([`crate::members`]). A log with a backing is
//! served by the commands that serve drives: they take the description where others take an image.

mod bench;
mod calibrate;
mod check;
mod create;
mod inspect;
mod recover;
mod replace;
mod words;

use crate::drive::{RunningCommand, running_of};
use crate::members::Group;
use clap::Subcommand;

pub use words::in_words_of_logs;

/// Commands on flash logs.
#[derive(Subcommand)]
pub enum LogCommand {
    /// Make a log on its devices, and write its description
    Create(create::CreateArguments),
    /// Describe each device of a log; nothing is changed
    Inspect(inspect::InspectArguments),
    /// Read the whole log, and look for damage; nothing is changed
    Check(check::CheckArguments),
    /// Open a log after a crash, and bring everything that it has to its backing
    Recover(recover::RecoverArguments),
    /// Put a new device in the place of one that is lost (two copies)
    Replace(replace::ReplaceArguments),
    /// Measure a device, and write a preset for models of it
    Calibrate(calibrate::CalibrateArguments),
    /// Measure commits, on files or on models in virtual time
    Bench(bench::BenchArguments),
    #[command(flatten)]
    Running(Box<RunningCommand>),
}

/// Runs a command; returns the exit code.
pub fn log(command: &LogCommand) -> u8 {
    match command {
        LogCommand::Create(arguments) => create::create(arguments),
        LogCommand::Inspect(arguments) => inspect::inspect(arguments),
        LogCommand::Check(arguments) => check::check(arguments),
        LogCommand::Recover(arguments) => recover::recover(arguments),
        LogCommand::Calibrate(arguments) => calibrate::calibrate(arguments),
        LogCommand::Bench(arguments) => bench::bench(arguments),
        LogCommand::Replace(arguments) => replace::replace(arguments),
        LogCommand::Running(command) => running_of(command, Some(Group::Log)),
    }
}
