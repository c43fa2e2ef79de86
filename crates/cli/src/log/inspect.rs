//! `tantalum log inspect`.

mod seen;

pub use seen::superblock_damaged;

use crate::counted::counted;
use crate::members::{Description, open_each, runtime};
use crate::out;
use clap::Args;
use seen::Seen;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tantalum_device::bytes_in_words;
use tantalum_log::{DeviceDescription, LabelDescription, Lsn, Role};

/// Arguments of `tantalum log inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log inspect wal.toml
  tantalum log inspect wal.toml --json

Nothing is changed.
Exit codes: 0, all that is named belongs to one log; 1, a device, the backing or a preset
is not there or damaged, a device is lost or fails, the backing or a device is of another
log or an older copy, or the description lacks a device, or says other copies or partitions
than the devices; 2, there is no such log, or it is in use.")]
pub struct InspectArguments {
    /// The description of the log
    description: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Device {
    name: String,
    /// What is wrong with it. If it cannot be read the rest is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    is: Option<Is>,
    /// Of the backing.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Label>,
}

impl Device {
    /// Of which no more is known.
    fn new(name: String, failure: Option<String>) -> Device {
        Device { name, failure, is: None, label: None }
    }
}

/// What the label of a backing says.
#[derive(Serialize)]
struct Label {
    /// The log to which it belongs.
    log: String,
    generation: u64,
    /// The backing has everything before this LSN.
    destaged: u64,
    volume_bytes: u64,
}

impl From<LabelDescription> for Label {
    fn from(of: LabelDescription) -> Label {
        Label {
            log: of.log.to_string(),
            generation: of.generation,
            destaged: of.destaged.0,
            volume_bytes: of.bytes,
        }
    }
}

#[derive(Serialize)]
struct Is {
    log: String,
    index: usize,
    devices: usize,
    archive: bool,
    copies: u8,
    partitions: u16,
    unit_bytes: u32,
    bytes: u64,
    record_limit_bytes: u32,
    generation: Option<u64>,
    epoch: Option<u32>,
    checkpoint: Option<u64>,
    checkpoint_number: Option<u64>,
    lost: Vec<usize>,
    left: Vec<usize>,
}

/// Runs the command; returns the exit code.
pub fn inspect(arguments: &InspectArguments) -> u8 {
    let devices = match look(&arguments.description) {
        Ok(devices) => devices,
        Err((why, code)) => return out::error(why, code),
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&devices).map(|json| json + "\n"),
        false => Ok(text(&devices)),
    };
    let faults = devices.iter().filter(|d| d.failure.is_some()).count();
    match text.map(|text| out::bytes(text.as_bytes())) {
        Ok(out::OK) if faults > 0 => {
            let name = arguments.description.display();
            let these = counted(faults as u64, "fault", "faults");
            out::error(format_args!("{name}: {these}, listed above: mend these"), out::FAILED)
        }
        Ok(code) => code,
        Err(e) => out::error(e, out::FAILED),
    }
}

fn look(path: &Path) -> Result<Vec<Device>, (String, u8)> {
    let (usage, failed) = (|why| (why, out::USAGE), |why| (why, out::FAILED));
    let (description, preset) = Description::to_look_at(path).map_err(usage)?;
    let mut runtime = runtime().map_err(failed)?;
    let rt = runtime.handle();
    let of_log = description.devices.iter().chain(&description.archive);
    let mut opened = open_each(&rt, of_log.chain(&description.backing)).map_err(usage)?;
    let backing = description.backing.as_ref().and_then(|_| opened.pop());
    let preset = preset.map(|why| {
        let name = description.latencies.iter().map(|path| path.display().to_string());
        Device::new(name.collect::<Vec<_>>().join(", "), Some(why))
    });
    let (path, expects) = (path.to_path_buf(), description.open_options().expects);
    let all = async move {
        let mut seen = Vec::new();
        for (name, member) in opened {
            seen.push(Seen::of(name, member).await);
        }
        let log = seen::together(&seen);
        let mut others = Vec::new();
        if let Some(log) = &log {
            others.extend(seen::judge(&path, &mut seen, log));
            others.extend(seen::described_otherwise(&path, &seen, log, &expects));
        }
        if let Some((name, member)) = backing {
            let (label, failure) = seen::backing(&name, member, &seen, log.as_ref()).await;
            others.push(Device { label: label.map(Label::from), ..Device::new(name, failure) });
        }
        others.extend(preset);
        let described = |seen: Seen| {
            let is = seen.found.map(is);
            Device { is, ..Device::new(seen.name, seen.failure) }
        };
        seen.into_iter().map(described).chain(others).collect()
    };
    runtime.block_on(all).map_err(|e| failed(format!("the devices do not answer: {e}")))
}

fn is(found: DeviceDescription) -> Is {
    let state = found.state;
    Is {
        log: found.log.iter().map(|b| format!("{b:02x}")).collect(),
        index: found.index,
        devices: found.devices,
        archive: found.role == Role::Archive,
        copies: found.copies,
        partitions: found.partitions,
        unit_bytes: found.unit,
        bytes: found.bytes,
        record_limit_bytes: found.record_limit,
        generation: state.as_ref().map(|s| s.generation),
        epoch: state.as_ref().map(|s| s.epoch),
        checkpoint: state.as_ref().map(|s| s.checkpoint.0),
        checkpoint_number: state.as_ref().map(|s| s.number),
        lost: state.as_ref().map_or(Vec::new(), |s| s.lost.clone()),
        left: state.map_or(Vec::new(), |s| s.left),
    }
}

fn text(devices: &[Device]) -> String {
    let mut t = String::new();
    for Device { name, failure, is, label } in devices {
        if let Some(failure) = failure {
            let _ = writeln!(t, "fault: {failure}");
        }
        if let Some(label) = label {
            let (size, destaged) = (bytes_in_words(label.volume_bytes), Lsn(label.destaged));
            let _ = writeln!(
                t,
                "{name}: the backing of log {}, a volume of {size}\n  generation {}, has all \
                 before {destaged}",
                label.log, label.generation
            );
        }
        let Some(d) = is else { continue };
        let role = if d.archive { "archive" } else { "array" };
        let size = bytes_in_words(d.bytes);
        let record = bytes_in_words(d.record_limit_bytes.into());
        let _ = writeln!(
            t,
            "{name}: device {} of {} ({role}), {size} in blocks of {} bytes, copies: {}, \
             partitions: {}, records up to {record}, log {}",
            d.index, d.devices, d.unit_bytes, d.copies, d.partitions, d.log
        );
        let _ = match (d.generation, d.epoch, d.checkpoint, d.checkpoint_number) {
            (Some(generation), Some(epoch), Some(checkpoint), Some(number)) => writeln!(
                t,
                "  generation {generation}, epoch {epoch}, checkpoint {checkpoint} (number \
                 {number}){}{}",
                listed("lost", &d.lost),
                listed("does not answer", &d.left)
            ),
            _ => writeln!(t, "  no state that is whole"),
        };
    }
    t
}

/// Devices that take no part, and why.
fn listed(why: &str, devices: &[usize]) -> String {
    let all: Vec<String> = devices.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!(", {why}: device {}", all.join(", ")) }
}
