//! `tantalum drive`: drives in image files, and running drives for other programs.

mod check;
mod create;
mod inspect;
#[cfg(feature = "live")]
mod listen;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod mount;
#[cfg(feature = "live")]
pub mod remote;
#[cfg(feature = "live")]
mod running;
#[cfg(feature = "live")]
mod serve;
#[cfg(feature = "live")]
mod top;
mod view;
#[cfg(feature = "live")]
mod words;

pub use create::named;
#[cfg(feature = "torture")]
pub use live::time_scale;
#[cfg(feature = "live")]
pub use mount::filesystem;
#[cfg(feature = "live")]
pub use running::{RunningCommand, running_of};

#[cfg(not(feature = "live"))]
use crate::without::running;
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
    /// Measure how fast the simulation of a drive is: 4 KiB random writes at queue depth 32, on a
    /// geometry on which other simulators were measured
    Bench(crate::bench::DriveArguments),
    #[command(flatten)]
    Running(Box<running::RunningCommand>),
}

/// Runs a command; returns the exit code.
pub fn drive(command: &DriveCommand) -> u8 {
    match command {
        DriveCommand::Create(arguments) => create::create(arguments),
        DriveCommand::Inspect(arguments) => inspect::inspect(arguments),
        DriveCommand::Check(arguments) => check::check(arguments),
        DriveCommand::Bench(arguments) => crate::bench::bench(arguments),
        DriveCommand::Running(command) => running::running(command),
    }
}

/// A serial number in hexadecimal.
fn serial(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
