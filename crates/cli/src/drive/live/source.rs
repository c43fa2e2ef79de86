//! The box that the arguments name.

use super::LiveArguments;
use super::arguments::RamAck;
use crate::counted::counted;
use crate::drive::create;
use crate::members::{
    CHUNK_KIB, Group, array_of, describes_nothing, is_cache, is_description, is_log,
};
use crate::shared_words::described;
use std::path::{Path, PathBuf};
use tantalum_device::{Ack, Caps, DiskModel, FileSettings, Payload};
use tantalum_drive::Design;
use tantalum_lab::subject::disk_preset;

/// Bytes of a block of a RAM device. The length of a new file is a multiple of it.
const BLOCK: u64 = 4096;

/// A box to run.
pub enum Source {
    /// The drive in this image.
    Image(PathBuf),
    /// The log volume of this description.
    Log(PathBuf),
    /// The cache volume of this description.
    Cache(PathBuf),
    /// A blank drive in memory.
    Design(Box<Design>),
    /// A RAM device with these promises.
    Ram(Caps),
    /// A blank magnetic disk in memory.
    Disk(DiskModel),
    /// So many of them, striped in chunks of so many blocks.
    Disks(u32, DiskModel, u64),
    /// A regular file or block device of the host. With a length it has at least so many bytes, and
    /// is created if it does not exist.
    File(PathBuf, FileSettings, Option<u64>),
}

impl Source {
    /// The box of the arguments, which exclude each other. If it is `read_only`, nothing will be
    /// written to it. The command is one of drives, or of a `group` of descriptions.
    ///
    /// # Errors
    /// What is missing or wrong, in a line.
    pub fn of(
        arguments: &LiveArguments,
        image: Option<&Path>,
        read_only: bool,
        group: Option<Group>,
    ) -> Result<Source, String> {
        if let Some(path) = image.filter(|path| matches!(path.try_exists(), Ok(false))) {
            let name = path.display();
            let make = group.map_or_else(|| make(path), |group| group.makes_one(path));
            return Err(format!("there is no \"{name}\": {make}"));
        }
        if let Some(path) = image.filter(|_| group.is_some()) {
            let name = path.display();
            described(path.to_owned()).map_err(|why| format!("\"{name}\": {why}"))?;
        }
        if let Some(path) = image.filter(|path| is_description(path)) {
            if read_only {
                return Err("--read-only: a volume writes to its devices when it starts: use \
                            --reader NAME beside it"
                    .to_string());
            }
            if let Some(why) = describes_nothing(path) {
                return Err(why);
            }
            // A file that may be either is what the command is for.
            let may_be_cache = group == Some(Group::Cache) && !is_log(path);
            return Ok(match may_be_cache || is_cache(path) {
                true => Source::Cache(path.to_owned()),
                false => Source::Log(path.to_owned()),
            });
        }
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
            return match array_of(name) {
                None => Ok(Source::Disk(disk(name, arguments.capacity)?)),
                Some((members, of)) => disks(members, of, arguments.capacity),
            };
        }
        if let Some(path) = &arguments.file {
            let LiveArguments { buffered, keep_room, capacity, .. } = *arguments;
            if capacity.is_none() && matches!(path.try_exists(), Ok(false)) {
                let tip = if read_only { "" } else { ": --capacity SIZE creates it" };
                return Err(format!("there is no \"{}\"{tip}", path.display()));
            }
            if read_only && capacity.is_some() {
                return Err(
                    "--capacity: it creates a file, and --read-only only reads one".to_string()
                );
            }
            let whole = |bytes: u64| bytes.checked_next_multiple_of(BLOCK);
            let length = capacity.map(|bytes| whole(bytes).ok_or("--capacity: no file is so long"));
            let settings =
                FileSettings { buffered, keep_room, read_only, ..FileSettings::default() };
            return Ok(Source::File(path.clone(), settings, length.transpose()?));
        }
        Err("give the image of a drive, or a design with --design, or --disk, --ram or --file"
            .to_string())
    }
}

/// What makes an image or a description that is not there.
fn make(path: &Path) -> String {
    match is_description(path) {
        true => "`tantalum log create` and `tantalum cache create` make such files".to_string(),
        false => create::makes_one(path),
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
        let bytes = counted(bytes, "byte is", "bytes are");
        return Err(format!("--ram: {bytes} not whole blocks of {BLOCK} bytes"));
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

/// An array, of at least so many bytes together.
fn disks(members: u32, of: &str, capacity: Option<u64>) -> Result<Source, String> {
    let chunk = CHUNK_KIB << 10;
    let each = |bytes: u64| {
        let whole = bytes.div_ceil(members.into()).checked_next_multiple_of(chunk);
        whole.ok_or("--capacity: no disk is so large")
    };
    let model = disk(of, capacity.map(each).transpose()?)?;
    let blocks = chunk / u64::from(model.block_bytes);
    Ok(Source::Disks(members, model, blocks))
}
