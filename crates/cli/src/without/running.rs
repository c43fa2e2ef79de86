//! Replacements for the commands of running drives, in a build without them.

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
    /// Not in this build: cut the power of a running drive
    Cut(Anything),
    /// Not in this build: restore the power of a running drive
    Restore(Anything),
    /// Not in this build: show the state of a running drive
    Status(Anything),
    /// Not in this build: show what a running drive has done
    Stats(Anything),
    /// Not in this build: watch a running drive
    Top(Anything),
}

/// Any arguments.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Anything {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

/// Prints that the command is missing; returns the exit code.
pub fn running(command: &RunningCommand) -> u8 {
    out::error(reason(command), out::USAGE)
}

/// Why it is missing.
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
    let why = out::NOT_HERE;
    format!("this build has {what}: {why}")
}
