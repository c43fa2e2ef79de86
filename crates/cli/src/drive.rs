//! `tantalum drive`: drives in image files, and drives on the wall clock, for other programs.

mod check;
mod create;
mod fault;
mod inspect;
mod listen;
mod live;
mod mount;
mod remote;
mod serve;
mod top;
mod view;
mod words;

pub use create::bytes;
pub use live::time_scale;

use clap::Subcommand;
use tantalum_device::bytes_in_words as size;

/// Commands on drives.
#[derive(Subcommand)]
pub enum DriveCommand {
    /// Make an image of a blank drive
    Create(create::CreateArguments),
    /// Describe an image: its design, size and state; nothing is changed
    Inspect(inspect::InspectArguments),
    /// Read everything in an image, and check the drive's invariants; nothing is changed
    Check(check::CheckArguments),
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
    /// Watch a running drive: throughput, latencies, buffer, map, collection, wear, energy
    Top(top::TopArguments),
}

/// Carries one out; gives the exit code.
pub fn drive(command: &DriveCommand) -> u8 {
    match command {
        DriveCommand::Create(arguments) => create::create(arguments),
        DriveCommand::Inspect(arguments) => inspect::inspect(arguments),
        DriveCommand::Check(arguments) => check::check(arguments),
        DriveCommand::Serve(arguments) => serve::serve(arguments),
        DriveCommand::Mount(arguments) => mount::mount(arguments),
        DriveCommand::Cut(arguments) => remote::cut(arguments),
        DriveCommand::Restore(arguments) => remote::restore(arguments),
        DriveCommand::Status(arguments) => remote::status(arguments),
        DriveCommand::Stats(arguments) => remote::stats(arguments),
        DriveCommand::Top(arguments) => top::top(arguments),
    }
}

/// A serial number as it is written.
fn serial(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
