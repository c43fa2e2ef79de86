//! `tantalum cache scrub`.

use super::started::with_volume;
use crate::counted::counted;
use crate::members::cache_in_words;
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `tantalum cache scrub`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache scrub c.toml
  tantalum cache scrub c.toml --json

While the cache is not served. Every page is read and compared with its checksum. A
damaged page that the slow device has, too, is given up. One that only the cache has
stays an error until it is written again.
Exit codes: 0, nothing is lost; 1, pages are lost, or the cache does not start; 2,
there is no such cache, or it is in use.")]
pub struct ScrubArguments {
    /// The description of the cache
    description: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    cache: String,
    /// Pages that were compared.
    pages: u64,
    /// Damaged pages that were given up: the slow device has them.
    repaired: u64,
    /// Pages whose newest version is lost.
    lost: Vec<u64>,
}

/// Runs the command; returns the exit code.
pub fn scrub(arguments: &ScrubArguments) -> u8 {
    let found = with_volume(&arguments.description, async |volume| {
        let cache = volume.cache().ok_or("it does not start")?;
        let found = cache.scrub().await.map_err(cache_in_words)?;
        volume.close().await.map_err(|e| e.to_string())?;
        Ok(found)
    });
    let found = match found {
        Ok(found) => found,
        Err((why, code)) => return out::error(why, code),
    };
    let report = Report {
        cache: arguments.description.display().to_string(),
        pages: found.frames,
        repaired: found.repaired,
        lost: found.damaged,
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).unwrap_or_default(),
        false => format!(
            "{}: {} compared, {} given up that the slow device has, {} lost",
            report.cache,
            counted(report.pages, "page", "pages"),
            report.repaired,
            report.lost.len()
        ),
    };
    match (out::bytes((text + "\n").as_bytes()), report.lost.first()) {
        (out::OK, Some(page)) => {
            let why = match report.lost.len() {
                1 => format!("{}: page {page} is lost: write it again", report.cache),
                lost => format!(
                    "{}: page {page} is lost, {lost} pages in all: write them again",
                    report.cache
                ),
            };
            out::error(why, out::FAILED)
        }
        (code, _) => code,
    }
}
