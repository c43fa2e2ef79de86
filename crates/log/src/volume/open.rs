//! Making and starting a volume on devices that have power.
//!
//! 1. While the label of the backing does not fit the log, nothing is changed, of the backing or of
//!    the log.
//! 2. What the log has since its checkpoint is put into memory, in its order, as if it had just
//!    been written. Only if memory is smaller than it was, some of it is destaged meanwhile.
//! 3. Each start begins two generations, since a label may be one ahead of its log. So a copy of
//!    the log or the backing that was made before a start is refused after it.

use crate::layout::holds_twice;
use crate::open::check_hedging;
use crate::record::FRAME;
use crate::superblock::{Role, Superblock};
use crate::volume::core::Core;
use crate::volume::entry::{Entry, record_bytes};
use crate::volume::error::VolumeError;
use crate::volume::label::{self, Found, Label, LogSide};
use crate::volume::options::VolumeOptions;
use crate::{CreateOptions, DeviceDescription, Log, LogDevice, Lsn, OpenOptions, WhenFull};
use tantalum_device::{BlockDevice, Caps, Payload};
use tantalum_rt::Rt;

/// Bytes of the longest record of a volume.
pub(crate) fn longest_record(options: &VolumeOptions) -> u64 {
    let group = options.atomic_group;
    let write = record_bytes(1, options.atomic_unit.into());
    write.max(record_bytes(group.extents as usize, group.bytes))
}

/// What a volume over this backing promises.
pub(crate) fn caps(backing: &Caps, options: &VolumeOptions) -> Result<Caps, VolumeError> {
    let name = &options.backing_name;
    let wrong = |what: String| Err(VolumeError::Unsuitable(what));
    if backing.payload != Payload::Bytes {
        return wrong(format!("\"{name}\" carries stamps: use a device that stores bytes"));
    }
    if backing.thin {
        return wrong(format!(
            "\"{name}\" is sparse or thinly provisioned, and might refuse what was acknowledged: give a \
             file all of its room (`fallocate -l {} {name}`), or use another device",
            backing.bytes()
        ));
    }
    if !backing.ack.survives() && !backing.flush {
        return wrong(format!(
            "\"{name}\" may lose what it acknowledged, and its flushes do nothing: use another device"
        ));
    }
    let unit = options.atomic_unit;
    if unit == 0 || !unit.is_multiple_of(backing.block_size) {
        let block = backing.block_size;
        return wrong(format!("the atomic unit has to be a multiple of {block} bytes, not {unit}"));
    }
    let Caps { blocks, block_size, .. } = label::volume_caps(backing, name)?;
    Ok(Caps {
        block_size,
        blocks,
        atomic_unit: unit,
        atomic_group: Some(options.atomic_group),
        // What was acknowledged is durable in the log: a flush has nothing to do.
        flush: false,
        ..Caps::power_safe(blocks, Payload::Bytes)
    })
}

fn log_options(options: &VolumeOptions) -> OpenOptions {
    OpenOptions { when_full: WhenFull::Wait, read_only: false, ..options.log.clone() }
}

/// Makes the log, and binds the backing to it.
pub(crate) async fn format<L: BlockDevice + Clone + 'static, B: BlockDevice>(
    rt: &Rt,
    array: Vec<LogDevice<L>>,
    archive: Option<LogDevice<L>>,
    backing: B,
    create: &CreateOptions,
    options: &VolumeOptions,
) -> Result<(), VolumeError> {
    let caps = caps(backing.caps(), options)?;
    let failed = |error| VolumeError::Backing { backing: options.backing_name.clone(), error };
    let what = match label::find(&backing, caps.blocks).await.map_err(failed)? {
        Found::Nothing => None,
        Found::Other => Some("data where the label goes"),
        Found::Label(_) | Found::Damaged => Some("the label of a log volume"),
        Found::Newer(version) => {
            return Err(VolumeError::Newer { backing: options.backing_name.clone(), version });
        }
    };
    if let (Some(what), false) = (what, create.force) {
        return Err(VolumeError::NotBlank { backing: options.backing_name.clone(), what });
    }
    let longest = longest_record(options);
    let record_limit = u32::try_from(longest).unwrap_or(u32::MAX);
    let record_limit = Some(create.record_limit.unwrap_or(0).max(record_limit));
    let create = CreateOptions { record_limit, ..create.clone() };
    let open = log_options(options);
    let all =
        array.iter().map(|d| (d, Role::Array)).chain(archive.iter().map(|d| (d, Role::Archive)));
    check_hedging(all.map(|(d, role)| (d.name.as_str(), &d.device, role)), &open)?;
    let check = |devices: &[Superblock]| match holds_twice(devices, &open, longest + FRAME as u64) {
        true => Ok(()),
        false => Err(no_room(longest)),
    };
    crate::create::create(rt, &array, archive.as_ref(), &create, check).await?;
    let log = Log::open(rt, array.into_iter().chain(archive).collect(), open).await?;
    let label = Label {
        log: log.identity(),
        generation: log.checkpoint_number(),
        destaged: log.first(),
        block: caps.block_size,
        blocks: caps.blocks,
    };
    label.write_first(&backing).await.map_err(failed)?;
    Ok(log.close().await?)
}

/// The longest record has to find room, in memory and on the devices.
fn check_room<L: BlockDevice + Clone + 'static>(
    log: &Log<L>,
    options: &VolumeOptions,
) -> Result<(), VolumeError> {
    let longest = longest_record(options);
    if u64::from(log.record_limit()) < longest {
        return Err(VolumeError::Unsuitable(format!(
            "the log takes records of {} bytes and the volume writes up to {longest}: allow \
             smaller atomic units and groups",
            log.record_limit()
        )));
    }
    if log.holds_twice(longest) { Ok(()) } else { Err(no_room(longest)) }
}

fn no_room(longest: u64) -> VolumeError {
    VolumeError::Unsuitable(format!(
        "the log has no room or no memory for two records of {longest} bytes: use larger devices, \
         or allow smaller atomic units and groups"
    ))
}

/// Opens the log, and puts what is not destaged into memory. With `salvage` a damaged log is opened
/// with what is before the damage.
pub(crate) async fn open<L: BlockDevice + Clone + 'static, B: BlockDevice>(
    rt: &Rt,
    devices: Vec<LogDevice<L>>,
    backing: B,
    options: &VolumeOptions,
    salvage: bool,
) -> Result<Core<L, B>, VolumeError> {
    let caps = caps(backing.caps(), options)?;
    let log_options = log_options(options);
    let salvage = salvage || log_options.salvage;
    // Opening a log changes it, and salvage loses what is behind a damage: not for a wrong backing.
    let failed = |error| VolumeError::Backing { backing: options.backing_name.clone(), error };
    let found = label::find(&backing, caps.blocks).await.map_err(failed)?;
    if let Some(side) = side_of(&devices).await {
        label::check(found, &options.backing_name, &caps, side)?;
    }
    let log = Log::open(rt, devices, OpenOptions { salvage, ..log_options }).await?;
    check_room(&log, options)?;
    let core = Core::new(rt, log, backing, caps, options.clone());
    label::check(found, &options.backing_name, &caps, LogSide::of(&core.log))?;
    for _ in 0..2 {
        core.publish(core.log.first()).await?;
    }
    replay(&core).await?;
    Ok(core)
}

/// What the devices say of their log, as far as a label is held to it; `None` if they are not of one
/// log, or say nothing: opening the log tells.
pub(crate) async fn side_of<L: BlockDevice>(devices: &[LogDevice<L>]) -> Option<LogSide> {
    let mut all = Vec::new();
    for device in devices {
        all.extend(DeviceDescription::read(device).await);
    }
    let identity = all.first()?.log;
    let newest = all.iter().filter_map(|d| d.state.as_ref()).max_by_key(|s| s.generation)?;
    let (number, first) = (newest.number, newest.checkpoint);
    // Where the log ends is not known yet.
    let side = LogSide { identity, number, first, end: Lsn(u64::MAX) };
    all.iter().all(|d| d.log == identity).then_some(side)
}

async fn replay<L: BlockDevice + Clone + 'static, B: BlockDevice>(
    core: &Core<L, B>,
) -> Result<(), VolumeError> {
    let mut records = core.log.read(core.log.first())?;
    while let Some(record) = records.next().await? {
        let entry = Entry::parse(record.bytes, core.block(), core.caps.blocks);
        let entry = entry.ok_or(VolumeError::Record(record.lsn))?;
        core.memory.borrow_mut().append(record.end, entry);
        core.settle();
        core.count(|s| s.replayed += 1);
        while core.memory.borrow().is_full() && core.memory.borrow().has_durable() {
            core.destage(core.options.memory / 4).await?;
        }
    }
    Ok(())
}
