//! `tantalum cache detach`, of a cache that nobody serves.
//!
//! 1. A volume that is served keeps its flash device. Its clients were told that a write of a page is
//!    all or nothing, which the slow device alone does not promise.

use super::started::{Failed, with_volume};
use crate::drive::remote;
use crate::members::{CacheDescription, LabelPlace, cache_in_words};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `tantalum cache detach`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache detach c.toml

End the process that serves the cache before: its clients rely on writes of a page that
are all or nothing, which the slow device alone does not promise. Afterwards the slow device has
everything: the blocks of the volume lie behind its first 1 MiB, or from its beginning
on if it was created with --adopt. The flash device is refused as its cache ever after.
(`tantalum cache create --force` makes a new one before the same slow device.)
Exit codes: 0, the slow device has everything; 1, it has not, and nothing was given up;
2, there is no such cache, or it is in use, or its devices do not belong together.")]
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
    if let Err((why, code)) = refuse_served(path) {
        return out::error(why, code);
    }
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

/// Refuses a cache that is served (1).
fn refuse_served(path: &Path) -> Result<(), Failed> {
    let Some(mut client) = remote::served(path).map_err(|why| (why, out::USAGE))? else {
        return Ok(());
    };
    let cache = path.display();
    let process = match client.status() {
        Ok(status) => format!("process {}", status.pid),
        Err(_) => "a process".to_string(),
    };
    let why = format!(
        "{cache} is in use: {process} serves it, and its clients rely on the flash device: end that \
         process first, with Ctrl-C or `kill`"
    );
    Err((why, out::USAGE))
}
