//! `tantalum log`: flash logs on files and block devices, and the volumes over them.
//!
//! A log is named by its description, a file `NAME.toml` ([`description`]). A log with a backing is
//! served by the commands that serve drives: they take the description where others take an image.

mod check;
mod create;
mod description;
mod devices;
mod inspect;
mod recover;

use crate::drive::{RunningCommand, running};
use clap::Subcommand;
use std::path::Path;
use tantalum_device::File;
use tantalum_log::LogVolume;
use tantalum_rt::Rt;

pub use description::is_description;

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
        LogCommand::Running(command) => running(command),
    }
}

/// The volume of a description, without power.
///
/// # Errors
/// What is wrong, in a line.
pub fn volume(rt: &Rt, path: &Path, salvage: bool) -> Result<LogVolume<File, File>, String> {
    let description = description::Description::read(path)?;
    devices::Devices::open(rt, &description, false)?.volume(rt, &description, salvage, false)
}
