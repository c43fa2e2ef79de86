//! In place of the commands of drives on the wall clock, in a build without them.

use crate::out;
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// Commands that this build does not have.
#[derive(Subcommand)]
pub enum RunningCommand {
    /// Not in this build: serve a box as a network block device
    Serve(Anything),
    /// Not in this build: mount a box
    Mount(Anything),
    /// Not in this build: cut the power of a drive that runs
    Cut(Anything),
    /// Not in this build: restore the power of a drive that runs
    Restore(Anything),
    /// Not in this build: say how a drive that runs is
    Status(Anything),
    /// Not in this build: say what a drive that runs has done
    Stats(Anything),
    /// Not in this build: watch a drive that runs
    Top(Anything),
}

/// Whatever the command takes where it is there.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Anything {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

/// Says that the command is not there; gives the exit code.
pub fn running(command: &RunningCommand) -> u8 {
    out::error(reason(command), out::USAGE)
}

/// Why it is not there.
pub fn reason(command: &RunningCommand) -> String {
    let what = match command {
        RunningCommand::Serve(_) => "no network block devices",
        RunningCommand::Mount(_) => "no FUSE",
        RunningCommand::Cut(_)
        | RunningCommand::Restore(_)
        | RunningCommand::Status(_)
        | RunningCommand::Stats(_)
        | RunningCommand::Top(_) => "no drives that run",
    };
    let why = "it was made without the feature `live`, which needs Linux";
    format!("this build has {what}: {why}")
}
