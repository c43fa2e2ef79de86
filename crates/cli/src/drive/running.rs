//! The commands of drives on the wall clock.

use super::{mount, remote, serve, top};
use crate::members::Group;
use clap::Subcommand;

/// Commands that run a box, or send requests to a running one.
#[derive(Subcommand)]
pub enum RunningCommand {
    /// Serve a drive, or another box (memory, a disk, a file), as a network block device (NBD)
    Serve(serve::ServeArguments),
    /// Mount a drive, or another box, as a file or with a file system
    Mount(mount::MountArguments),
    /// Cut the power of a running drive
    Cut(remote::CutArguments),
    /// Restore the power of a running drive
    Restore(remote::RestoreArguments),
    /// Show the state of a running drive: its power, the outcome of the last cut
    Status(remote::StatusArguments),
    /// Show what a running drive has done: commands, latencies, flash, wear, energy
    Stats(remote::StatsArguments),
    /// Watch a running drive: throughput, latencies, buffer, map, garbage collection, wear, energy
    Top(top::TopArguments),
}

/// Runs a command of drives; returns the exit code.
pub fn running(command: &RunningCommand) -> u8 {
    running_of(command, None)
}

/// Runs a command of this group of descriptions, or of drives; returns the exit code.
pub fn running_of(command: &RunningCommand, of: Option<Group>) -> u8 {
    match command {
        RunningCommand::Serve(arguments) => serve::serve(arguments, of),
        RunningCommand::Mount(arguments) => mount::mount(arguments, of),
        RunningCommand::Cut(arguments) => remote::cut(arguments),
        RunningCommand::Restore(arguments) => remote::restore(arguments),
        RunningCommand::Status(arguments) => remote::status(arguments),
        RunningCommand::Stats(arguments) => remote::stats(arguments),
        RunningCommand::Top(arguments) => top::top(arguments),
    }
}
