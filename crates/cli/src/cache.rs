//! `tantalum cache`: flash caches on files and block devices, the volumes over them, and the simulator
//! of replacement policies.
//!
//! A cache is named by its description, a file `NAME.toml` ([`crate::members`]). Its volume is served
//! by the commands that serve drives: they take the description where others take an image.

pub mod bench;
#[cfg(feature = "live")]
mod check;
#[cfg(feature = "live")]
mod create;
#[cfg(feature = "live")]
mod detach;
#[cfg(feature = "live")]
mod inspect;
mod recording;
#[cfg(feature = "live")]
mod resize;
#[cfg(feature = "live")]
mod scrub;
mod sim;
mod size;
#[cfg(feature = "live")]
mod started;
#[cfg(feature = "live")]
mod words;

#[cfg(feature = "live")]
use crate::drive::{RunningCommand, running_of};
#[cfg(feature = "live")]
use crate::members::Group;
#[cfg(not(feature = "live"))]
use crate::without::cache as missing;
use clap::Subcommand;

#[cfg(feature = "live")]
pub use words::in_words_of_caches;

/// Commands on flash caches.
#[derive(Subcommand)]
pub enum CacheCommand {
    /// Make a cache on a flash device before a slow one, and write its description
    #[cfg(feature = "live")]
    Create(create::CreateArguments),
    /// Describe the devices of a cache; nothing is changed
    #[cfg(feature = "live")]
    Inspect(inspect::InspectArguments),
    /// Read the whole cache, and look for damage; nothing is changed
    #[cfg(feature = "live")]
    Check(check::CheckArguments),
    /// Give up damaged pages that the slow device has, too
    #[cfg(feature = "live")]
    Scrub(scrub::ScrubArguments),
    /// Give the cache another size on its flash device
    #[cfg(feature = "live")]
    Resize(resize::ResizeArguments),
    /// Bring everything to the slow device, and give up the flash device
    #[cfg(feature = "live")]
    Detach(detach::DetachArguments),
    /// Replay recorded page I/Os through replacement policies, and count what each costs
    Sim(sim::SimArguments),
    #[cfg_attr(
        feature = "live",
        doc = "Measure the directory of a cache in memory, or a cache on devices"
    )]
    #[cfg_attr(not(feature = "live"), doc = "Measure the directory of a cache in memory")]
    Bench(bench::BenchArguments),
    #[cfg(feature = "live")]
    #[command(flatten)]
    Running(Box<RunningCommand>),
    #[cfg(not(feature = "live"))]
    #[command(flatten)]
    Missing(missing::MissingCommand),
}

/// Runs a command; returns the exit code.
pub fn cache(command: &CacheCommand) -> u8 {
    match command {
        #[cfg(feature = "live")]
        CacheCommand::Create(arguments) => create::create(arguments),
        #[cfg(feature = "live")]
        CacheCommand::Inspect(arguments) => inspect::inspect(arguments),
        #[cfg(feature = "live")]
        CacheCommand::Check(arguments) => check::check(arguments),
        #[cfg(feature = "live")]
        CacheCommand::Scrub(arguments) => scrub::scrub(arguments),
        #[cfg(feature = "live")]
        CacheCommand::Resize(arguments) => resize::resize(arguments),
        #[cfg(feature = "live")]
        CacheCommand::Detach(arguments) => detach::detach(arguments),
        CacheCommand::Sim(arguments) => sim::sim(arguments),
        CacheCommand::Bench(arguments) => bench::bench(arguments),
        #[cfg(feature = "live")]
        CacheCommand::Running(command) => running_of(command, Some(Group::Cache)),
        #[cfg(not(feature = "live"))]
        CacheCommand::Missing(command) => missing::missing(command),
    }
}
