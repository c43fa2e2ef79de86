//! `tantalum log check`.

use super::inspect::superblock_damaged;
use crate::counted::counted;
use crate::members::{
    Description, Devices, MemberLink, in_words, no_device, not_there, open_code, runtime,
};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_device::PowerCycle;
use tantalum_log::{
    BackingDescription, DeviceDescription, DeviceHealth, Log, LogDevice, Lsn, OneCopy, OpenError,
    OpenOptions,
};
use tantalum_nand::Opening;

/// Arguments of `tantalum log check`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log check wal.toml
  tantalum log check wal.toml --json

Reads the log from its checkpoint to its end, and with two copies each of them, and the
label of the backing. Nothing is changed: the devices are opened for reading only.
Exit codes: 0, all is well; 1, the log is damaged, with --salvage too, or one of two
copies is, or a superblock, or a device cannot be read, or the backing or a preset is not
there, or the backing does not belong to the log as it is, or the description says other
copies or partitions than the devices; 2, there is no such log, or it is in use, or a
device is wrong.")]
pub struct CheckArguments {
    /// The description of the log
    description: PathBuf,
    /// If the log is damaged, count what is before the damage
    #[arg(long)]
    salvage: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    log: String,
    /// The checkpoint: the log begins here.
    first: u64,
    /// Where the last whole record ends.
    end: u64,
    records: u64,
    record_bytes: u64,
    /// What is damaged, if anything is: then this is what is before it.
    damage: Option<String>,
    /// Which devices take no part, if some do not: what was checked is on the others.
    without: Option<String>,
    /// Which parts are on one device alone, of a log with two copies.
    one_copy: Vec<Part>,
    /// What else is wrong: with the backing, a preset, a superblock.
    faults: Vec<String>,
}

/// A part of the log that is on one device alone.
#[derive(Serialize)]
struct Part {
    first: u64,
    end: u64,
    /// The device that has it.
    on: String,
    /// Where the other copy is damaged: the device, and the offset there.
    damaged: Option<String>,
    offset: Option<u64>,
    #[serde(skip)]
    text: String,
}

impl From<OneCopy> for Part {
    fn from(one: OneCopy) -> Part {
        let text = one.to_string();
        let (first, end, on) = (one.lsn.0, one.end.0, one.on);
        let (damaged, offset) = one.place.unzip();
        Part { first, end, on, damaged, offset, text }
    }
}

/// So many parts are listed, at most.
const LISTED: usize = 8;

/// What to say of parts that are on one device alone.
fn one_copy(parts: &[Part]) -> u8 {
    for part in parts.iter().take(LISTED) {
        out::note(&part.text);
    }
    if parts.len() > LISTED {
        out::note(format_args!("... and {} more", parts.len() - LISTED));
    }
    let these = counted(parts.len() as u64, "part of the log is", "parts of the log are");
    let what = format!(
        "{these} on one device alone: if the other one is bad, `tantalum log replace` puts a new \
         device in its place; else move the checkpoint (with a backing `tantalum log recover` does)"
    );
    out::error(what, out::FAILED)
}

/// Runs the command; returns the exit code.
pub fn check(arguments: &CheckArguments) -> u8 {
    let report = match examine(&arguments.description, arguments.salvage) {
        Ok(report) => report,
        Err((why, code)) => return out::error(why, code),
    };
    let text = match arguments.json {
        true => match serde_json::to_string_pretty(&report) {
            Ok(json) => json,
            Err(e) => return out::error(e, out::FAILED),
        },
        false => format!(
            "{}: {} of {}, from {} to {}: {}",
            report.log,
            counted(report.records, "record", "records"),
            counted(report.record_bytes, "byte", "bytes"),
            report.first,
            report.end,
            match (&report.damage, &report.without) {
                (Some(_), _) => "what is before the damage",
                (None, Some(without)) => without,
                (None, None) if !report.one_copy.is_empty() || !report.faults.is_empty() => {
                    "all records are there"
                }
                (None, None) => "all is well",
            }
        ),
    };
    let code = out::bytes((text + "\n").as_bytes());
    let code =
        report.faults.iter().fold(code, |code, fault| code.max(out::error(fault, out::FAILED)));
    match (code, report.damage) {
        (out::OK | out::FAILED, Some(damage)) => out::error(damage, out::FAILED),
        (out::OK | out::FAILED, None) if !report.one_copy.is_empty() => one_copy(&report.one_copy),
        (code, _) => code,
    }
}

/// The exit code of a log that is not opened. What a check looks for is whether all fits together:
/// a description that says otherwise than the devices is a finding.
fn check_code(error: &OpenError) -> u8 {
    match error {
        OpenError::Differs { .. } => out::FAILED,
        error => open_code(error),
    }
}

/// Why the volume over the backing would be refused.
async fn label_fault(backing: &LogDevice<MemberLink>, log: &Log<MemberLink>) -> Option<String> {
    let checked = match BackingDescription::read(backing).await {
        Ok(found) => found.check(log),
        Err(e) => Err(e),
    };
    checked.err().map(in_words)
}

fn examine(path: &Path, salvage: bool) -> Result<Report, (String, u8)> {
    let usage = |why| (why, out::USAGE);
    let (mut description, preset) = Description::to_look_at(path).map_err(usage)?;
    let mut faults: Vec<String> = preset.into_iter().collect();
    // The log is read without it.
    if let Some(backing) = &description.backing
        && let Some(why) = no_device(backing)
    {
        faults.push(format!("the backing {}", not_there(&backing.display().to_string(), why)));
        description.backing = None;
    }
    let backing_name = description.backing.as_ref().map(|path| path.display().to_string());
    let mut runtime = runtime().map_err(|why| (why, out::FAILED))?;
    let (rt, path) = (runtime.handle(), path.to_path_buf());
    let read = async move {
        let open = |salvage| {
            let view = Opening { view: true, ..Opening::default() };
            let devices = Devices::open(&rt, &description, view).map_err(usage);
            let options = description.open_options();
            let (rt, options) = (rt.clone(), OpenOptions { read_only: true, salvage, ..options });
            async move {
                let devices = devices?;
                devices.members().power_on().await.map_err(|e| (e, out::FAILED))?;
                Ok(Log::open(&rt, devices.of_log(), options).await.map(|log| (log, devices)))
            }
        };
        let (opened, damage) = match open(false).await? {
            Err(OpenError::Damaged(damage)) if salvage => (open(true).await?, Some(damage)),
            opened => (opened, None),
        };
        let told = |e: OpenError| (format!("{}: {}", path.display(), in_words(&e)), check_code(&e));
        let (log, devices) = opened.map_err(told)?;
        let (mut count, mut bytes) = (0, 0);
        let failed = |e| (in_words(e), out::FAILED);
        let mut records = log.read(log.first()).map_err(failed)?;
        while let Some(record) = records.next().await.map_err(failed)? {
            (count, bytes) = (count + 1, bytes + record.bytes.len() as u64);
        }
        let parts = log.one_copy().await.map_err(failed)?;
        let present = log.stats().devices.into_iter().filter(|d| d.health != DeviceHealth::Failed);
        let takes_part: Vec<usize> = present.map(|device| device.index).collect();
        for device in &devices.of_log() {
            let found = DeviceDescription::read(device).await;
            // What a lost device holds does not count.
            let counts = |found: &DeviceDescription| takes_part.contains(&found.index);
            let damaged = found.ok().filter(counts).and_then(|found| found.damaged);
            faults.extend(damaged.map(|at| superblock_damaged(&device.name, at)));
        }
        if log.first() > Lsn::ZERO && !log.has_blocks() {
            faults.push(format!(
                "no device has any block of the log, and its checkpoint is {}: the devices were \
                 overwritten, and whether something was behind the checkpoint is not known: restore \
                 them from copies of one moment (unless each was replaced while the log was empty)",
                log.first()
            ));
        }
        if let (Some(backing), Some(name)) = (&devices.backing, &backing_name) {
            let fault = label_fault(&LogDevice::new(name.clone(), backing.device()), &log).await;
            faults.extend(fault);
        }
        let log_name = path.display().to_string();
        Ok(Report {
            log: log_name,
            first: log.first().0,
            end: log.end().0,
            records: count,
            record_bytes: bytes,
            damage: damage.map(|d| d.found()),
            without: log.stats().without(),
            one_copy: parts.into_iter().map(Part::from).collect(),
            faults,
        })
    };
    let read = runtime.block_on(read);
    read.map_err(|e| (format!("the devices do not answer: {e}"), out::FAILED))?
}
