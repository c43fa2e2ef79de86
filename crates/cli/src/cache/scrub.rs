//! `tantalum cache scrub`: by the process that serves the cache, or here if nobody does.

use super::started::{Failed, with_volume};
use crate::counted::counted;
use crate::drive::remote;
use crate::members::{cache_in_words, cache_told};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_export::control::{Client, ClientError, Kind, ScrubReport};

/// Arguments of `tantalum cache scrub`.
#[derive(Args)]
#[command(
    override_usage = "tantalum cache scrub [OPTIONS] <CACHE.toml|SOCKET>",
    after_help = "\
Examples:
  tantalum cache scrub c.toml
  tantalum cache scrub c.toml --json
  tantalum cache scrub c.control           that of --control c.control

The cache may be served meanwhile: then its process does it, while the volume is used.
Every page is read and compared with its checksum. A damaged page that the slow device
has, too, is given up. One that only the cache has stays an error until it is written
again.
Exit codes: 0, nothing is lost; 1, pages are lost, or the cache does not start; 2,
there is no such cache, or it is in use, or its devices do not belong together."
)]
pub struct ScrubArguments {
    /// The description of the cache, or the control socket of the process that serves it
    #[arg(value_name = "CACHE.toml|SOCKET")]
    cache: PathBuf,
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
    /// How many pages have lost their newest version.
    lost_pages: u64,
    /// These; the first of them, if it is served.
    lost: Vec<u64>,
}

/// Runs the command; returns the exit code.
pub fn scrub(arguments: &ScrubArguments) -> u8 {
    let path = &arguments.cache;
    let found = match remote::served(path) {
        Ok(Some(client)) => ask(client, path),
        Ok(None) => try_scrub(path),
        Err(why) => Err((why, out::USAGE)),
    };
    let ScrubReport { pages, repaired, lost_pages, lost } = match found {
        Ok(found) => found,
        Err((why, code)) => return out::error(why, code),
    };
    let cache = path.display().to_string();
    let report = Report { cache, pages, repaired, lost_pages, lost };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).unwrap_or_default(),
        false => format!(
            "{}: {} compared, {} given up that the slow device has, {} lost",
            report.cache,
            counted(report.pages, "page", "pages"),
            report.repaired,
            report.lost_pages
        ),
    };
    match (out::bytes((text + "\n").as_bytes()), report.lost.first()) {
        (out::OK, Some(page)) => {
            let why = match report.lost_pages {
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

/// Asks the process that serves the cache.
fn ask(mut client: Client, path: &Path) -> Result<ScrubReport, Failed> {
    client.scrub().map_err(|e| {
        let none = matches!(&e, ClientError::Refused(refusal) if refusal.kind == Kind::NoCache);
        let code = if none { out::USAGE } else { remote::exit_code(&e) };
        (format!("{}: {}", path.display(), cache_told(path, e)), code)
    })
}

fn try_scrub(path: &Path) -> Result<ScrubReport, Failed> {
    let found = with_volume(path, async |volume| {
        let cache = volume.cache().ok_or("it does not start")?;
        let found = cache.scrub().await.map_err(cache_in_words)?;
        volume.close().await.map_err(|e| e.to_string())?;
        Ok(found)
    })?;
    let (lost_pages, lost) = (found.damaged.len() as u64, found.damaged);
    Ok(ScrubReport { pages: found.frames, repaired: found.repaired, lost_pages, lost })
}
