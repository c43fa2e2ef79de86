//! What a device says of itself and of its log. Nothing is changed.

use crate::create::{find, find_copies, io};
use crate::member::read_head;
use crate::open::{check_expected, or_degraded};
use crate::options::{Expects, LogDevice};
use crate::state::{SLOTS, Standing, State};
use crate::superblock::{self, AREAS, COPIES, FoundSuper, Superblock, UNIT_MAX};
use crate::{Lsn, OpenError, Role};
use tantalum_device::BlockDevice;

/// What a device of a log says.
///
/// ```
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, DeviceDescription, Log, LogDevice, OpenError, Role};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let described = runtime.block_on(async move {
///     let caps = Caps::power_safe(2048, Payload::Bytes);
///     let device = |name| LogDevice::new(name, RamDevice::new(&rt, RamOptions::new(caps)));
///     let (array, archive) = ([device("sda"), device("sdb")], device("sdc"));
///     Log::create(&rt, &array, Some(&archive), &CreateOptions::default()).await?;
///     let of_log = DeviceDescription::read(&archive).await?;
///     let blank = DeviceDescription::read(&device("sdd")).await;
///     Ok::<_, OpenError>((of_log, blank))
/// });
/// let (of_log, blank) = described.unwrap().unwrap();
/// assert_eq!((of_log.role, of_log.devices), (Role::Archive, 3));
/// assert!(blank.is_err()); // it is of no log
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The identity of the log.
    pub log: [u8; 16],
    /// Its own identity.
    pub device: [u8; 16],
    /// Its index in the log.
    pub index: usize,
    /// Devices of the log.
    pub devices: usize,
    /// What it is for.
    pub role: Role,
    /// Copies of each record.
    pub copies: u8,
    /// Parts that it is divided into.
    pub partitions: u16,
    /// Bytes of a log block.
    pub unit: u32,
    /// Bytes of the device when it joined the log.
    pub bytes: u64,
    /// Bytes of a record, at most.
    pub record_limit: u32,
    /// Where one of the two copies of its superblock is damaged, if one is: the other one is used,
    /// and an opening that writes mends it.
    pub damaged: Option<u64>,
    /// Its newest state; `None`: none is whole.
    pub state: Option<StateDescription>,
}

/// What a device knows of the log as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDescription {
    /// Its generation. Those of the devices differ by one at most.
    pub generation: u64,
    /// Openings and new beginnings of the log.
    pub epoch: u32,
    /// Where the log begins.
    pub checkpoint: Lsn,
    /// The number that was given with the checkpoint.
    pub number: u64,
    /// Indexes of devices that are lost to the log.
    pub lost: Vec<usize>,
    /// Indexes of devices that did not answer: they take part again when the log is opened.
    pub left: Vec<usize>,
    /// All of it.
    of: State,
}

impl DeviceDescription {
    /// Whether a device that begins with these bytes looks like one of a log.
    #[must_use]
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(superblock::MAGIC)
    }

    /// Reads what the device says.
    ///
    /// # Errors
    /// [`OpenError`] if it holds no log that can be read.
    pub async fn read<D: BlockDevice>(
        device: &LogDevice<D>,
    ) -> Result<DeviceDescription, OpenError> {
        let Head { superblock, damaged, states } = head(device).await?;
        let newest = states.into_iter().max_by_key(|s| s.generation);
        Ok(DeviceDescription {
            log: superblock.set,
            device: superblock.device,
            index: superblock.index as usize,
            devices: superblock.devices as usize,
            role: superblock.role,
            copies: superblock.copies,
            partitions: superblock.partitions,
            unit: superblock.unit,
            bytes: superblock.bytes,
            record_limit: superblock.record_limit,
            damaged,
            state: newest.map(StateDescription::new),
        })
    }

    /// Whether the log of the device of this name was made as is expected: as an opening says it.
    ///
    /// # Errors
    /// [`OpenError::Role`] and [`OpenError::Differs`].
    pub fn check(&self, name: &str, expects: &Expects) -> Result<(), OpenError> {
        check_expected(name, (self.role, self.copies, self.partitions), expects)
    }
}

impl StateDescription {
    fn new(of: State) -> StateDescription {
        let stand = |how| (0..of.devices.len()).filter(|i| of.devices[*i].1 == how).collect();
        StateDescription {
            generation: of.generation,
            epoch: of.epoch,
            checkpoint: of.checkpoint,
            number: of.number,
            lost: stand(Standing::Lost),
            left: stand(Standing::Left),
            of,
        }
    }
}

/// Devices that are named as those of one log, beside each other: what an opening would say of them.
/// Nothing is read for this, so that some older copies are found only when the log is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDescription {
    /// The log that most of them are of.
    pub log: [u8; 16],
    /// Of each device in its place: why the log is not opened with it, if that is so.
    pub refused: Vec<Option<OpenError>>,
    /// Of each device in its place: whether it is lost to the log, so that what it holds does not
    /// count.
    pub lost: Vec<bool>,
    /// Which devices of the log none of these is, though the log has not lost them.
    pub missing: Vec<OpenError>,
    /// The indexes of devices that are lost to the log, and have no other one in their place.
    pub without: Vec<usize>,
}

impl LogDescription {
    /// Of devices with their names; `None`: there is none.
    #[must_use]
    pub fn of(all: &[(&str, &DeviceDescription)]) -> Option<LogDescription> {
        let of = |log| all.iter().filter(|(_, d)| d.log == log).count();
        // Of several the first one.
        let (first, one) = all.iter().rev().max_by_key(|(_, d)| of(d.log))?;
        let log = one.log;
        let ours = || all.iter().map(|(_, d)| *d).filter(|d| d.log == log);
        let newest = ours().filter_map(|d| d.state.as_ref()).max_by_key(|s| s.generation);
        let newest = newest.map(|s| &s.of);
        let is_lost = |d: &DeviceDescription| {
            let stands = newest.map(|newest| newest.standing(d.index, &d.device));
            d.log == log && stands == Some(Standing::Lost)
        };
        let lost: Vec<bool> = all.iter().map(|(_, d)| is_lost(d)).collect();
        let refused = |(place, (name, d)): (usize, &(&str, &DeviceDescription))| {
            let device = (*name).to_string();
            if d.log != log {
                return Some(OpenError::OtherLog { device, other: (*first).to_string() });
            }
            if let Some((twin, _)) = all[..place].iter().find(|(_, twin)| twin.device == d.device) {
                return Some(OpenError::Twice((*twin).to_string(), device));
            }
            // Without a state it is damaged, which it says by itself.
            let (generation, newest) = (d.state.as_ref()?.generation, newest?);
            let allowed = newest.standing(d.index, &d.device).allows(generation, newest.generation);
            let (newest, or) = (newest.generation, or_degraded(d.copies));
            (!allowed).then_some(OpenError::Older { device, generation, newest, or })
        };
        let refused = all.iter().enumerate().map(refused).collect();
        let without = newest.map_or(Vec::new(), |s| StateDescription::new(s.clone()).lost);
        let is_there = |index| {
            all.iter().zip(&lost).any(|((_, d), lost)| d.log == log && d.index == index && !lost)
        };
        let missing = |index| {
            let (devices, or) = (one.devices, or_degraded(one.copies));
            OpenError::Missing { index, devices, or }
        };
        let missing = (0..one.devices)
            .filter(|index| !is_there(*index) && !without.contains(index))
            .map(missing)
            .collect();
        Some(LogDescription { log, refused, lost, missing, without })
    }
}

/// What lies before the areas of a device.
struct Head {
    superblock: Superblock,
    /// Where a copy of the superblock is damaged.
    damaged: Option<u64>,
    states: Vec<State>,
}

async fn head<D: BlockDevice>(device: &LogDevice<D>) -> Result<Head, OpenError> {
    let name = || device.name.clone();
    if device.device.caps().bytes() < AREAS {
        return Err(OpenError::NoLog(name()));
    }
    let (found, copies) = find_copies(&device.device).await.map_err(|e| io(device, e))?;
    let superblock = match found {
        FoundSuper::Good(superblock) => superblock,
        FoundSuper::Newer(version) => return Err(OpenError::Newer { device: name(), version }),
        FoundSuper::Damaged => return Err(OpenError::Superblock(name())),
        FoundSuper::Nothing => return Err(OpenError::NoLog(name())),
    };
    let mut states = Vec::new();
    for slot in SLOTS {
        let bytes = read_head(&device.device, slot, UNIT_MAX as usize).await;
        let state = State::decode(&bytes.map_err(|e| io(device, e))?);
        states.extend(state.filter(|s| s.set == superblock.set));
    }
    Ok(Head { superblock, damaged: copies.first().copied(), states })
}

/// Whether what is on the device was made for this log and has never taken part in it: it was to take
/// the place of a lost one, and that came to nothing. It has no state that names it, and without a
/// whole superblock no state at all (`create.rs`, 2).
pub(crate) async fn is_left_over<D: BlockDevice>(
    log: &State,
    device: &LogDevice<D>,
) -> Result<bool, OpenError> {
    if device.device.caps().bytes() < AREAS {
        return Ok(false);
    }
    match find(&device.device).await.map_err(|e| io(device, e))? {
        FoundSuper::Good(_) => {
            let Head { superblock, states, .. } = head(device).await?;
            let names = |s: &State| s.devices.iter().any(|(uuid, _)| *uuid == superblock.device);
            Ok(superblock.set == log.set && !names(log) && !states.iter().any(names))
        }
        FoundSuper::Nothing | FoundSuper::Damaged => {
            let bytes = read_head(&device.device, 0, AREAS as usize).await;
            let mut bytes = bytes.map_err(|e| io(device, e))?;
            let mut begins = false;
            for copy in COPIES {
                let copy = &mut bytes[copy as usize..][..superblock::BYTES];
                if Superblock::begins(copy, &log.set) {
                    begins = true;
                    copy.fill(0);
                }
            }
            Ok(begins && bytes.iter().all(|b| *b == 0))
        }
        FoundSuper::Newer(_) => Ok(false),
    }
}

/// The index of `device` in the log of these others, if it takes part in it. So one finds out whether
/// a replacement that was interrupted had come to its end.
pub(crate) async fn place_of<D: BlockDevice>(
    others: &[LogDevice<D>],
    device: &LogDevice<D>,
) -> Result<Option<usize>, OpenError> {
    let Head { superblock, mut states, .. } = match head(device).await {
        Err(e @ OpenError::Io { .. }) => return Err(e),
        Err(_) => return Ok(None),
        Ok(head) => head,
    };
    let mut known_by_others = false;
    for other in others {
        // One that cannot be read says nothing.
        let Ok(known) = head(other).await else { continue };
        if known.superblock.set != superblock.set {
            return Ok(None);
        }
        known_by_others = true;
        states.extend(known.states);
    }
    // Alone it may be of any log.
    if !known_by_others {
        return Ok(None);
    }
    let Some(newest) = states.into_iter().max_by_key(|s| s.generation) else { return Ok(None) };
    let mut all = newest.devices.iter();
    Ok(all.position(|(uuid, standing)| *uuid == superblock.device && *standing != Standing::Lost))
}
