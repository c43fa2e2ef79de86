//! Replacements for the commands of running drives, in a build without them.

use crate::without::Anything;
use clap::Subcommand;

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

/// Says that the command is missing, or what it does; returns the exit code.
pub fn running(command: &RunningCommand) -> u8 {
    let (verb, lacks, words) = of(command);
    words.told(&["drive", verb], lacks)
}

/// The command's name, what this build lacks for it, and its arguments.
pub fn of(command: &RunningCommand) -> (&'static str, &'static str, &Anything) {
    let drives = "no drives that run";
    match command {
        RunningCommand::Serve(words) => ("serve", "no network block devices", words),
        RunningCommand::Mount(words) => ("mount", "no FUSE", words),
        RunningCommand::Cut(words) => ("cut", drives, words),
        RunningCommand::Restore(words) => ("restore", drives, words),
        RunningCommand::Status(words) => ("status", drives, words),
        RunningCommand::Stats(words) => ("stats", drives, words),
        RunningCommand::Top(words) => ("top", drives, words),
    }
}
