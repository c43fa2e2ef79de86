//! `tantalum cache inspect`.

use super::started::Failed;
use crate::members::{CacheDescription, CacheDevices, MemberLink, runtime};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_cache::flash::{DeviceStore, FlashCache, Mode, OpenError, StoreState};
use tantalum_device::{PowerCycle, bytes_in_words};
use tantalum_nand::Opening;

/// Arguments of `tantalum cache inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache inspect c.toml
  tantalum cache inspect c.toml --json

Nothing is changed.
Exit codes: 0; 1, a device has no cache or label that can be read, or they are not those of
one cache as it is and as it is described; 2, there is no such cache, or it is in use.")]
pub struct InspectArguments {
    /// The description of the cache
    description: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    flash: Found<Flash>,
    slow: Found<Slow>,
    /// What is wrong with both beside each other, and with the description.
    faults: Vec<String>,
}

/// What a device says, or why it says nothing.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Found<T> {
    Is(T),
    Failure(String),
}

#[derive(Serialize)]
struct Flash {
    name: String,
    cache: String,
    bytes: u64,
    page_bytes: u32,
    batch_pages: u32,
    batches: u32,
    mode: &'static str,
    epoch: u64,
    /// It was ended in good order: the next start is warm.
    clean: bool,
}

#[derive(Serialize)]
struct Slow {
    name: String,
    cache: String,
    epoch: u64,
    state: &'static str,
}

/// Runs the command; returns the exit code.
pub fn inspect(arguments: &InspectArguments) -> u8 {
    let report = match look(&arguments.description) {
        Ok(report) => report,
        Err((why, code)) => return out::error(why, code),
    };
    let unreadable =
        matches!(report.flash, Found::Failure(_)) || matches!(report.slow, Found::Failure(_));
    let is_wrong = unreadable || !report.faults.is_empty();
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
        false => text(&report),
    };
    match out::bytes(text.as_bytes()) {
        out::OK if is_wrong => out::FAILED,
        code => code,
    }
}

fn hexadecimal(identity: &[u8]) -> String {
    identity.iter().map(|b| format!("{b:02x}")).collect()
}

fn look(path: &Path) -> Result<Report, Failed> {
    let usage = |why| (why, out::USAGE);
    let description = CacheDescription::lasting(path).map_err(usage)?;
    let mut runtime = runtime().map_err(usage)?;
    let view = Opening { view: true, ..Opening::default() };
    let devices = CacheDevices::made(&runtime.handle(), &description, view).map_err(usage)?;
    let (flash, slow) = (description.flash.display(), description.slow.display());
    let (flash, slow) = (flash.to_string(), slow.to_string());
    let name = path.display().to_string();
    let read = async move {
        devices.members().power_on().await.map_err(|e| (e, out::FAILED))?;
        let device = devices.flash.device();
        let found = FlashCache::<_, DeviceStore<MemberLink>>::describe(&device).await;
        let told = |e| Found::Failure(format!("{name}: {}", description.told(e)));
        let (described, is_no_cache) = (found.clone().ok(), found == Err(OpenError::NoCache));
        let mut flash = match found {
            Err(e) => told(e),
            Ok(found) => Found::Is(Flash {
                name: flash,
                cache: hexadecimal(&found.cache),
                bytes: found.bytes,
                page_bytes: found.page,
                batch_pages: found.frames,
                batches: found.batches,
                mode: if found.mode == Mode::Back { "back" } else { "through" },
                epoch: found.epoch,
                clean: found.clean,
            }),
        };
        let told = |e| Found::Failure(format!("{name}: {}", description.told(e)));
        let mut faults = Vec::new();
        if let Some(is) = described.map(|found| found.page)
            && is != description.page_bytes
        {
            let says = description.page_bytes;
            faults.push(format!(
                "\"{name}\" says page_bytes = {says}, and the cache has pages of {is}: set it to {is}"
            ));
        }
        let store = match description.store(devices.slow.device()) {
            Ok(store) => store,
            Err(e) => return Ok(Report { flash, slow: told(e), faults }),
        };
        let found = FlashCache::<MemberLink, _>::describe_store(&store).await;
        if let (Some(flash), Ok(Some(store))) = (described, &found)
            && let Err(e) = flash.check(store)
        {
            faults.push(format!("{name}: {}", description.told(e)));
        }
        // What to do about a flash device without a cache would destroy what the slow one lacks.
        let needs_cache = matches!(&found, Ok(Some(s)) if s.state == StoreState::NeedsCache);
        if described.is_none() && needs_cache && is_no_cache {
            flash = Found::Failure(format!("{name}: {}", description.told(OpenError::NeedsCache)));
        }
        let found = match (found, described) {
            (Err(OpenError::NoLabel), Some(flash)) => {
                let place = FlashCache::<MemberLink, _>::check_label_place(&flash, &store).await;
                Err(place.err().unwrap_or(OpenError::NoLabel))
            }
            (found, _) => found,
        };
        let slow = match found {
            Err(e) => told(e),
            Ok(None) => Found::Failure(format!("{slow}: it has no label")),
            Ok(Some(found)) => Found::Is(Slow {
                name: slow,
                cache: hexadecimal(&found.cache),
                epoch: found.epoch,
                state: match found.state {
                    StoreState::Complete => "complete",
                    StoreState::NeedsCache => "needs-cache",
                    StoreState::Alone => "alone",
                },
            }),
        };
        Ok(Report { flash, slow, faults })
    };
    let path = path.display();
    let stalled = |e| (format!("{path}: the devices do not answer: {e}"), out::FAILED);
    runtime.block_on(read).map_err(stalled)?
}

fn text(report: &Report) -> String {
    let flash = match &report.flash {
        Found::Failure(why) => format!("fault: {why}\n"),
        Found::Is(f) => format!(
            "{}: the flash device, {} in {} batches of {} pages of {} bytes, mode {}, cache {}\n  \
             epoch {}, {}\n",
            f.name,
            bytes_in_words(f.bytes),
            f.batches,
            f.batch_pages,
            f.page_bytes,
            f.mode,
            f.cache,
            f.epoch,
            if f.clean { "ended in good order" } else { "in use, or after a crash" },
        ),
    };
    let slow = match &report.slow {
        Found::Failure(why) => format!("fault: {why}\n"),
        Found::Is(s) => {
            let state = match s.state {
                "complete" => "has every page that was flushed",
                "alone" => "was used without its cache, which is out of date",
                _ => "lacks pages that are on the flash device",
            };
            format!(
                "{}: the slow device of cache {}, epoch {}: {state}\n",
                s.name, s.cache, s.epoch
            )
        }
    };
    let faults = report.faults.iter().map(|fault| format!("fault: {fault}\n"));
    flash + &slow + &faults.collect::<String>()
}
