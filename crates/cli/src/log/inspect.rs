//! `tantalum log inspect`.

use crate::members::{Description, Devices, in_words, runtime};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tantalum_log::{DeviceDescription, Role};
use tantalum_nand::Opening;

/// Arguments of `tantalum log inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log inspect wal.toml
  tantalum log inspect wal.toml --json

Nothing is changed.
Exit codes: 0; 1, a device holds no log that can be read, or fails; 2, there is no
such log, or it is in use.")]
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
    /// Why it cannot be read; then the rest is not there.
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
    let unreadable = devices.iter().any(|d| d.failure.is_some());
    match text.map(|text| out::bytes(text.as_bytes())) {
        Ok(out::OK) if unreadable => out::FAILED,
        Ok(code) => code,
        Err(e) => out::error(e, out::FAILED),
    }
}

fn look(path: &Path) -> Result<Vec<Device>, (String, u8)> {
    let (usage, failed) = (|why| (why, out::USAGE), |why| (why, out::FAILED));
    let description = Description::lasting(path).map_err(usage)?;
    let mut runtime = runtime().map_err(failed)?;
    let view = Opening { view: true, ..Opening::default() };
    let opened = Devices::open(&runtime.handle(), &description, view).map_err(usage)?;
    let all = async move {
        opened.members().power_on().await.map_err(failed)?;
        let devices = opened.of_log();
        let mut all = Vec::new();
        for device in &devices {
            let found = DeviceDescription::read(device).await;
            let name = device.name.clone();
            all.push(match found {
                Ok(found) => Device { name, failure: None, is: Some(is(found)) },
                Err(e) => Device { name, failure: Some(in_words(e)), is: None },
            });
        }
        Ok(all)
    };
    runtime.block_on(all).map_err(|e| failed(format!("the devices do not answer: {e}")))?
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
        let Some(d) = is else {
            let _ = writeln!(t, "fault: {}", failure.as_deref().unwrap_or(name));
            continue;
        };
        let role = if d.archive { "archive" } else { "array" };
        let size = tantalum_device::bytes_in_words(d.bytes);
        let _ = writeln!(
            t,
            "{name}: device {} of {} ({role}), {size} in blocks of {} bytes, copies: {}, \
             partitions: {}, log {}",
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
