//! `tantalum cache check`.

use super::started::Failed;
use crate::counted::counted;
use crate::members::{CacheDescription, CacheDevices, MemberLink, cache_open_code, runtime};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_cache::flash::{Checked, DeviceStore, FlashCache, OpenError, OpenOptions, StoreState};
use tantalum_device::PowerCycle;
use tantalum_nand::Opening;

/// Arguments of `tantalum cache check`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache check c.toml
  tantalum cache check c.toml --json

Reads the whole cache as a start would find it, and compares every page with its
checksum. Nothing is changed: the devices are opened for reading only.
Exit codes: 0, nothing is lost; 1, pages are lost, or the cache cannot be read; 2,
there is no such cache, or it is in use, or its devices do not belong together.")]
pub struct CheckArguments {
    /// The description of the cache
    description: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    cache: String,
    /// It was ended in good order.
    clean: bool,
    pages: u64,
    /// Of these, those that the slow device may lack.
    dirty: u64,
    /// Damaged pages that the slow device has, too: `scrub` gives them up.
    repairable: u64,
    /// Pages whose newest version is lost.
    lost: Vec<u64>,
}

/// Runs the command; returns the exit code.
pub fn check(arguments: &CheckArguments) -> u8 {
    let found = match examine(&arguments.description) {
        Ok(found) => found,
        Err((why, code)) => return out::error(why, code),
    };
    let report = Report {
        cache: arguments.description.display().to_string(),
        clean: found.restart.clean,
        pages: found.pages,
        dirty: found.dirty,
        repairable: found.repairable,
        lost: found.damaged,
    };
    let name = &report.cache;
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).unwrap_or_default(),
        false => format!(
            "{name}: {}, {} of them dirty, {}: {}",
            counted(report.pages, "page", "pages"),
            report.dirty,
            if report.clean { "ended in good order" } else { "after a crash" },
            match (report.lost.len(), report.repairable) {
                (0, 0) => "all is well".to_string(),
                (0, 1) => "1 is damaged, and the slow device has it".to_string(),
                (0, n) => format!("{n} are damaged, and the slow device has them"),
                (1, _) => "1 is lost".to_string(),
                (lost, _) => format!("{lost} are lost"),
            }
        ),
    };
    match (out::bytes((text + "\n").as_bytes()), report.lost.first()) {
        (out::OK, Some(page)) => {
            let why = match report.lost.len() {
                1 => format!("{name}: page {page} is lost: write it again"),
                lost => {
                    format!("{name}: page {page} is lost, {lost} pages in all: write them again")
                }
            };
            out::error(why, out::FAILED)
        }
        (code, _) => code,
    }
}

/// What to do when the flash device holds no cache: it may have been lost, and be another one.
async fn lost(name: &str, of: &CacheDescription, store: &DeviceStore<MemberLink>) -> Failed {
    let (flash, slow) = (of.flash.display(), of.slow.display());
    let label = FlashCache::<MemberLink, _>::describe_store(store).await;
    let why = match label.ok().flatten().map(|label| label.state) {
        Some(StoreState::Complete) => format!(
            "the flash device \"{flash}\" holds no cache, and the slow device \"{slow}\" has every page that was \
             flushed: if the flash device was lost put a blank one there, and `tantalum cache serve \
             {name}` goes on with a new cache"
        ),
        Some(StoreState::NeedsCache) => of.told(OpenError::NeedsCache),
        Some(StoreState::Alone) => of.told(OpenError::GivenUp),
        None => of.told(OpenError::NoCache),
    };
    (format!("{name}: {why}"), cache_open_code(&OpenError::NoCache))
}

fn examine(path: &Path) -> Result<Checked, Failed> {
    let usage = |why| (why, out::USAGE);
    let name = path.display().to_string();
    let description = CacheDescription::lasting(path).map_err(usage)?;
    let (of, named) = (description.clone(), name.clone());
    let told = move |e: OpenError| (format!("{named}: {}", of.told(&e)), cache_open_code(&e));
    let mut runtime = runtime().map_err(usage)?;
    let view = Opening { view: true, ..Opening::default() };
    let devices = CacheDevices::made(&runtime.handle(), &description, view).map_err(usage)?;
    let read = async move {
        devices.members().power_on().await.map_err(|e| (e, out::FAILED))?;
        let store = description.store(devices.slow.device()).map_err(&told)?;
        let options = OpenOptions { page: Some(description.page_bytes), ..OpenOptions::default() };
        let checked =
            FlashCache::<MemberLink, _>::check(devices.flash.device(), &store, &options).await;
        match checked {
            Err(OpenError::NoCache) => Err(lost(&name, &description, &store).await),
            checked => checked.map_err(told),
        }
    };
    let path = path.display();
    let stalled = |e| (format!("{path}: the devices do not answer: {e}"), out::FAILED);
    runtime.block_on(read).map_err(stalled)?
}
