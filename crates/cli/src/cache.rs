//! `tantalum cache`: the flash cache.

mod recording;
mod sim;
mod size;

use clap::Subcommand;

/// Commands on flash caches.
#[derive(Subcommand)]
pub enum CacheCommand {
    /// Replay recorded page I/Os through replacement policies, and count what each costs
    Sim(sim::SimArguments),
}

/// Runs a command; returns the exit code.
pub fn cache(command: &CacheCommand) -> u8 {
    match command {
        CacheCommand::Sim(arguments) => sim::sim(arguments),
    }
}
