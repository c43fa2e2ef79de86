//! The box that the arguments name.

use super::LiveArguments;
use super::arguments::RamAck;
use crate::drive::create;
use std::path::{Path, PathBuf};
use tantalum_device::{Ack, Caps, DiskModel, FileSettings, Payload};
use tantalum_drive::Design;
use tantalum_lab::subject::disk_preset;

/// Bytes of a block of a RAM device.
const BLOCK: u64 = 4096;

/// A box to run.
pub enum Source {
    /// The drive in this image.
    Image(PathBuf),
    /// A blank drive in memory.
    Design(Box<Design>),
    /// A RAM device with these promises.
    Ram(Caps),
    /// A blank magnetic disk in memory.
    Disk(DiskModel),
    /// A regular file or block device of the host.
    File(PathBuf, FileSettings),
}

impl Source {
    /// The box of the arguments, which exclude each other.
    ///
    /// # Errors
    /// What is missing or wrong, in a line.
    pub fn of(arguments: &LiveArguments, image: Option<&Path>) -> Result<Source, String> {
        if let Some(path) = image {
            return Ok(Source::Image(path.to_owned()));
        }
        if let Some(name) = &arguments.design {
            return Ok(Source::Design(Box::new(design(name, arguments.capacity)?)));
        }
        if let Some(bytes) = arguments.ram {
            return Ok(Source::Ram(ram(bytes, arguments.ram_ack.unwrap_or(RamAck::Volatile))?));
        }
        if let Some(name) = &arguments.disk {
            return Ok(Source::Disk(disk(name, arguments.capacity)?));
        }
        if let Some(path) = &arguments.file {
            let settings = FileSettings { buffered: arguments.buffered, ..FileSettings::default() };
            return Ok(Source::File(path.clone(), settings));
        }
        Err("give the image of a drive, or a design with --design, or --disk, --ram or --file"
            .to_string())
    }
}

fn design(name: &str, capacity: Option<u64>) -> Result<Design, String> {
    let mut design = create::named(name)?;
    if let Some(bytes) = capacity {
        design = design.with_capacity(bytes).map_err(|e| e.to_string())?;
    }
    design.check().map_err(|e| e.to_string())?;
    Ok(design)
}

fn ram(bytes: u64, ack: RamAck) -> Result<Caps, String> {
    if !bytes.is_multiple_of(BLOCK) {
        return Err(format!("--ram: {bytes} bytes are not whole blocks of {BLOCK} bytes"));
    }
    let safe = Caps::power_safe(bytes / BLOCK, Payload::Bytes);
    Ok(match ack {
        RamAck::Safe => safe,
        RamAck::Volatile => Caps { ack: Ack::Volatile, ordered: false, ..safe },
    })
}

fn disk(name: &str, capacity: Option<u64>) -> Result<DiskModel, String> {
    let mut model = disk_preset(name)?;
    if let Some(bytes) = capacity {
        model.blocks = bytes.div_ceil(model.block_bytes.into());
    }
    model.check()?;
    Ok(model)
}
