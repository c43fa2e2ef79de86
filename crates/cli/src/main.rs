//! The `tantalum` command.
//!
//! Exit codes: 0, all is as it should be; 1, an expectation failed or the run did;
//! 2, the command line, an experiment file, a design or a trace is invalid.

mod bar;
mod bench;
mod compare;
mod crash;
mod designs;
mod drive;
mod energy;
mod out;
mod published;
mod random;
mod repeat;
mod run;
mod search;
mod table;
mod time;
#[cfg(feature = "torture")]
mod torture;
#[cfg(not(feature = "torture"))]
#[path = "without/torture.rs"]
mod torture;
mod trace;
#[cfg(test)]
mod without;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Simulated drives are made and dropped by the thousand, in many small pieces: a quarter of the
/// crash explorer's time is spent on getting and giving back memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A software SSD and the flash-aware storage around it.
#[derive(Parser)]
#[command(name = "tantalum", version, about, propagate_version = true)]
#[command(after_help = "\
Examples:
  tantalum run experiments/first.toml          SQLite on three drives, with power cuts
  tantalum run experiments/first.toml --quick  the same, small
  tantalum crash experiments/crash.toml        the power cut at every moment of a run
  tantalum search --workload random --recovery-max 1s --slowdown-max 5%
                                               the least capacitors that do
  tantalum drive create disk.img --design durassd --capacity 8GiB
                                               a drive in a file
  tantalum drive serve disk.img --unix drive.sock
                                               for other programs, as a network block device
  tantalum drive cut disk.img                  its power goes; restore brings it back, top shows it
  tantalum bench drive --json                  how fast the simulation is
  tantalum designs durassd                     what a preset consists of")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment: workloads on designs, with power cuts
    Run(run::RunArguments),
    /// Cut the power of drives at every moment, and check what comes back
    Crash(crash::CrashArguments),
    /// Compare two reports: both values of each measure, and their ratio
    Compare(compare::CompareArguments),
    /// List the designs of drives that come with the program, or print one
    Designs(designs::DesignsArguments),
    /// Drives in image files: make one, look at it, check it, serve it to other programs
    #[command(subcommand)]
    Drive(drive::DriveCommand),
    /// What it takes to survive a power loss: joules, farads, capacitors
    Energy(energy::EnergyArguments),
    /// Look for the least energy with which a drive is fast enough and starts soon enough
    Search(search::SearchArguments),
    /// Run a real database on a drive, pull the plug under load, and look for what was lost
    Torture(torture::TortureArguments),
    /// Look at recorded block traces
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Measure how fast the simulation itself is
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  tantalum completions bash > ~/.local/share/bash-completion/completions/tantalum
  tantalum completions fish > ~/.config/fish/completions/tantalum.fish")]
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let code = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Crash(arguments) => crash::crash(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Designs(arguments) => designs::designs(&arguments),
        Command::Drive(command) => drive::drive(&command),
        Command::Energy(arguments) => energy::energy(&arguments),
        Command::Search(arguments) => search::search(&arguments),
        Command::Torture(arguments) => torture::torture(&arguments),
        Command::Trace(command) => trace::trace(&command),
        Command::Bench(command) => bench::bench(&command),
        Command::Completions { shell } => completions(shell),
    };
    ExitCode::from(code)
}

fn completions(shell: clap_complete::Shell) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tantalum", &mut script);
    out::bytes(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
