//! `tantalum cache detach`.

use super::started::with_volume;
use crate::members::{CacheDescription, LabelPlace, cache_in_words};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tantalum cache detach`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache detach c.toml

While the cache is not served. Afterwards the slow device has everything: the blocks of
the volume lie behind its first 1 MiB, or from its beginning on if it was created with
--adopt. The flash device is refused as its cache ever
after. (`tantalum cache create --force` makes a new one before the same slow device.)
Exit codes: 0, the slow device has everything; 1, it has not, and nothing was given up;
2, there is no such cache, or it is in use.")]
pub struct DetachArguments {
    /// The description of the cache
    description: PathBuf,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What is where, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    cache: String,
    slow: String,
    /// The volume begins there on the slow device.
    first_byte: u64,
}

/// Runs the command; returns the exit code.
pub fn detach(arguments: &DetachArguments) -> u8 {
    let path = &arguments.description;
    let detached = with_volume(path, async |volume| {
        let cache = volume.cache().ok_or("it does not start")?;
        cache.detach().await.map_err(cache_in_words)
    });
    let slow = CacheDescription::read(path).map(|of| {
        let from = if of.label == LabelPlace::Begin { 1 << 20 } else { 0 };
        (of.slow.display().to_string(), from)
    });
    match (detached, slow) {
        (Ok(()), Ok((slow, first_byte))) => {
            let report = Report { cache: path.display().to_string(), slow, first_byte };
            let Report { cache, slow, first_byte } = &report;
            let text = format!("{cache}: {slow} has everything, from its byte {first_byte} on\n");
            if arguments.json { out::json(&report) } else { out::bytes(text.as_bytes()) }
        }
        (Ok(()), Err(why)) => out::error(why, out::FAILED),
        (Err((why, code)), _) => out::error(why, code),
    }
}
