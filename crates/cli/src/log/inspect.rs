//! `tantalum log inspect`.

use crate::counted::counted;
use crate::members::{Description, Member, in_words, open_each, runtime};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tantalum_device::{BlockDevice, PowerCycle, bytes_in_words};
use tantalum_log::{DeviceDescription, LogDevice, OpenError, Role};

/// Arguments of `tantalum log inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log inspect wal.toml
  tantalum log inspect wal.toml --json

Nothing is changed.
Exit codes: 0; 1, a device, the backing or a preset is not there or damaged, or a device
fails; 2, there is no such log, or it is in use.")]
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
    let opened = open_each(&rt, of_log.chain(&description.backing)).map_err(usage)?;
    let preset = preset.map(|why| {
        let name = description.latencies.iter().map(|path| path.display().to_string());
        Device { name: name.collect::<Vec<_>>().join(", "), failure: Some(why), is: None }
    });
    let count = description.devices.len() + description.archive.iter().count();
    let all = async move {
        let mut all = Vec::new();
        for (place, (name, member)) in opened.into_iter().enumerate() {
            let is_backing = place >= count;
            match member {
                Ok(_) if is_backing => {}
                Ok(member) => all.push(described(name, &member).await),
                Err(why) => {
                    let why = if is_backing { format!("the backing {why}") } else { why };
                    all.push(Device { name, failure: Some(why), is: None });
                }
            }
        }
        all.extend(preset);
        all
    };
    runtime.block_on(all).map_err(|e| failed(format!("the devices do not answer: {e}")))
}

/// What a device says of itself, and what is wrong with it.
async fn described(name: String, member: &Member) -> Device {
    if let Err(e) = member.power_on().await {
        return Device { failure: Some(format!("{name}: {e}: see to the device")), name, is: None };
    }
    let device = LogDevice::new(name.clone(), member.device());
    let has = device.device.caps().bytes();
    match DeviceDescription::read(&device).await {
        Err(e) => Device { name, failure: Some(in_words(e)), is: None },
        Ok(found) => Device { failure: fault(&name, has, &found), name, is: Some(is(found)) },
    }
}

/// What is wrong with a device that has `has` bytes.
fn fault(name: &str, has: u64, found: &DeviceDescription) -> Option<String> {
    if has < found.bytes {
        let bytes = found.bytes;
        return Some(format!("{name} has {has} bytes, and had {bytes}: give it its old size"));
    }
    if found.state.is_none() {
        return Some(in_words(OpenError::State(name.to_string())));
    }
    found.damaged.map(|at| superblock_damaged(name, at))
}

/// What to say of a copy of a superblock that is damaged.
pub fn superblock_damaged(name: &str, at: u64) -> String {
    format!(
        "{name} has one whole superblock of two, that at byte {at} is damaged: `tantalum log \
         recover` writes it again"
    )
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
        lost: state.map_or(Vec::new(), |s| s.lost),
    }
}

fn text(devices: &[Device]) -> String {
    let mut t = String::new();
    for Device { name, failure, is } in devices {
        if let Some(failure) = failure {
            let _ = writeln!(t, "fault: {failure}");
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
                 {number}){}",
                lost(&d.lost)
            ),
            _ => writeln!(t, "  no state that is whole"),
        };
    }
    t
}

fn lost(lost: &[usize]) -> String {
    let all: Vec<String> = lost.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!(", lost: device {}", all.join(", ")) }
}
