//! Replacements for the commands on caches that need devices, in a build without them.

use crate::without::Anything;
use clap::Subcommand;

/// Commands that this build does not have.
#[derive(Subcommand)]
pub enum MissingCommand {
    /// Not in this build: make a cache on a flash device before a slow one
    Create(Anything),
    /// Not in this build: describe the devices of a cache
    Inspect(Anything),
    /// Not in this build: read the whole cache, and look for damage
    Check(Anything),
    /// Not in this build: give up damaged pages that the slow device has, too
    Scrub(Anything),
    /// Not in this build: give the cache another size on its flash device
    Resize(Anything),
    /// Not in this build: bring everything to the slow device, and give up the flash device
    Detach(Anything),
    /// Not in this build: serve the volume over a cache as a network block device
    Serve(Anything),
    /// Not in this build: mount the volume over a cache
    Mount(Anything),
    /// Not in this build: cut the power of a served cache
    Cut(Anything),
    /// Not in this build: restore the power of a served cache
    Restore(Anything),
    /// Not in this build: show the state of a served cache
    Status(Anything),
    /// Not in this build: show what a served cache has done
    Stats(Anything),
    /// Not in this build: watch a served cache
    Top(Anything),
}

/// Says that the command is missing, or what it does; returns the exit code.
pub fn missing(command: &MissingCommand) -> u8 {
    let (verb, words) = match command {
        MissingCommand::Create(words) => ("create", words),
        MissingCommand::Inspect(words) => ("inspect", words),
        MissingCommand::Check(words) => ("check", words),
        MissingCommand::Scrub(words) => ("scrub", words),
        MissingCommand::Resize(words) => ("resize", words),
        MissingCommand::Detach(words) => ("detach", words),
        MissingCommand::Serve(words) => ("serve", words),
        MissingCommand::Mount(words) => ("mount", words),
        MissingCommand::Cut(words) => ("cut", words),
        MissingCommand::Restore(words) => ("restore", words),
        MissingCommand::Status(words) => ("status", words),
        MissingCommand::Stats(words) => ("stats", words),
        MissingCommand::Top(words) => ("top", words),
    };
    words.told(&["cache", verb], "no caches on devices")
}
