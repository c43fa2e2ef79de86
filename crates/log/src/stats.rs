//! What a log has done and how it is.

use crate::core::Core;
use crate::plan::Health;
use crate::works::Works;
use crate::{Lsn, Role};
use tantalum_device::BlockDevice;
use tantalum_rt::Nanos;

/// Whether a device takes part in a log that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceHealth {
    /// It takes part.
    Present,
    /// It did not answer in time. It takes part again once it answers.
    Left,
    /// It failed, and gets nothing before the log is opened again or the device is replaced.
    Failed,
}

/// A device of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStats {
    /// Its index in the log.
    pub index: usize,
    /// Its name; if it was not there when the log was opened, what
    /// [`OpenOptions::names`](crate::OpenOptions::names) say, or nothing.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Whether it takes part.
    pub health: DeviceHealth,
    /// Writes to it, and their bytes on the device, since the log was opened.
    pub writes: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The time of all these writes together.
    pub busy: Nanos,
    /// The longest write.
    pub longest: Nanos,
}

/// What a log has done since it was opened, and how it is now.
///
/// ```
/// use tantalum_device::{Caps, CommandKind, Faults, Payload, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, DeviceHealth, Log, LogDevice, OpenOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let stats = runtime.block_on(async move {
///     let device = |name| {
///         let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(2048, Payload::Bytes)));
///         LogDevice::new(name, Faults::new(&rt, ram, name))
///     };
///     let devices = vec![device("sda"), device("sdb")];
///     let create = CreateOptions { copies: 2, ..CreateOptions::default() };
///     Log::create(&rt, &devices, None, &create).await.unwrap();
///     let log = Log::open(&rt, devices.clone(), OpenOptions::default()).await.unwrap();
///     assert_eq!(log.stats().without(), None);
///
///     devices[1].device.fail_nth(CommandKind::Write, 1);
///     log.commit(b"paid").await.unwrap();
///     log.stats()
/// });
/// let stats = stats.unwrap();
/// assert_eq!((stats.records, stats.durable), (1, stats.end));
/// assert_eq!(stats.devices[1].health, DeviceHealth::Failed);
/// let words = "device 1 (\"sdb\") is lost, and records have fewer copies";
/// assert_eq!(stats.without().unwrap(), words);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStats {
    /// The checkpoint: the log begins here.
    pub first: Lsn,
    /// The number that was given with the checkpoint.
    pub checkpoint_number: u64,
    /// Everything before it is durable.
    pub durable: Lsn,
    /// The end of what was appended.
    pub end: Lsn,
    /// How often the log was opened, and how often it began anew while running.
    pub epoch: u32,
    /// Records appended, and bytes of these without what the log adds.
    pub records: u64,
    /// Bytes of these records.
    pub record_bytes: u64,
    /// Groups sent to devices, and their bytes.
    pub groups: u64,
    /// Bytes of these groups.
    pub group_bytes: u64,
    /// Bytes written to the array, what was written again and the second copies included.
    pub array_bytes: u64,
    /// Of these, the parts of blocks that stay empty or are repeated; but not of what is written of a
    /// group that was durable already.
    pub padding_bytes: u64,
    /// Groups that may be in flight at once, as learned.
    pub width: usize,
    /// Writes that took longer than most while a group waited for them.
    pub slow: u64,
    /// Those written again on another device, and how many of them ended first.
    pub hedges: u64,
    /// Hedges that ended before the write that they replaced.
    pub hedges_won: u64,
    /// Whether slow writes are written again at present.
    pub hedging: bool,
    /// Writes that took longer than the bound, and writes again for that reason alone.
    pub stalls: u64,
    /// Groups written again since a lane stalled.
    pub forced: u64,
    /// New epochs while running, since a device failed or held up the log.
    pub restarts: u64,
    /// Writes to the archive.
    pub archive_writes: u64,
    /// Bytes written to it.
    pub archive_bytes: u64,
    /// Pieces that the archive lacks since it was too slow.
    pub archive_gaps: u64,
    /// How often bytes were durable on the archive before any group had them.
    pub archive_first: u64,
    /// Groups of the largest size that surely find room before the checkpoint moves.
    pub room: u64,
    /// Sections in use, of all main streams.
    pub sections_used: u64,
    /// Sections of all main streams.
    pub sections: u64,
    /// Whether records behind the checkpoint may have fewer copies than the log was made for: a device
    /// is left, lost, or about to catch up; or what it missed, or what an opening found at the end of a
    /// full log, could not be copied.
    pub degraded: bool,
    /// Devices by index.
    pub devices: Vec<DeviceStats>,
}

impl LogStats {
    /// How much of what was written is padding, in per cent.
    #[must_use]
    pub fn padding_percent(&self) -> f64 {
        self.padding_bytes as f64 * 100.0 / self.array_bytes.max(1) as f64
    }

    /// The devices that take no part, and why, each in some words.
    #[must_use]
    pub fn absent(&self) -> Vec<String> {
        let said = |d: &DeviceStats| {
            let why = match d.health {
                DeviceHealth::Present => return None,
                DeviceHealth::Left => "does not answer, or is catching up",
                DeviceHealth::Failed => "is lost",
            };
            Some(match d.name.as_str() {
                "" => format!("device {} {why}", d.index),
                name => format!("device {} (\"{name}\") {why}", d.index),
            })
        };
        self.devices.iter().filter_map(said).collect()
    }

    /// What has to be said if devices take no part, or took none while records were written, in a
    /// line.
    #[must_use]
    pub fn without(&self) -> Option<String> {
        let absent = self.absent();
        match (absent.is_empty(), self.degraded) {
            (true, false) => None,
            (true, true) => Some(
                "a device was away for a while, and what was written then has fewer copies until \
                 the checkpoint is past it"
                    .to_string(),
            ),
            (false, true) => Some(absent.join(", ") + ", and records have fewer copies"),
            (false, false) => Some(absent.join(", ")),
        }
    }
}

/// If one device has no name, and one of these names is of no other device, it has that name.
fn name_missing(devices: &mut [DeviceStats], names: &[String]) {
    let left = names.iter().filter(|name| devices.iter().all(|d| d.name != **name));
    let left: Vec<&String> = left.collect();
    let mut nameless = devices.iter_mut().filter(|d| d.name.is_empty());
    if let ([name], Some(device), None) = (&left[..], nameless.next(), nameless.next()) {
        device.name = (*name).clone();
    }
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    pub(crate) fn stats(&self) -> LogStats {
        let (works, state) = (self.works(), self.state.borrow());
        let plan = &works.plan;
        let counts = plan.counts();
        let unit = u64::from(self.unit);
        let (records, record_bytes) = works.records;
        let (sections_used, sections) = plan.sections();
        let mut devices: Vec<DeviceStats> =
            (0..plan.health().len()).map(|i| self.device(i, &works)).collect();
        name_missing(&mut devices, &self.options.names);
        let present = |d: &DeviceStats| d.health == DeviceHealth::Present;
        LogStats {
            first: self.first.get(),
            checkpoint_number: state.number,
            durable: plan.durable(),
            end: plan.appended(),
            epoch: state.epoch,
            records,
            record_bytes,
            groups: counts.groups,
            group_bytes: counts.group_bytes,
            array_bytes: counts.units * unit,
            padding_bytes: counts.padding,
            width: plan.width(),
            slow: counts.slow,
            hedges: counts.hedges,
            hedges_won: counts.hedges_won,
            hedging: plan.hedges(),
            stalls: counts.stalls,
            forced: counts.forced,
            restarts: counts.restarts,
            archive_writes: counts.archive_writes,
            archive_bytes: counts.archive_units * unit,
            archive_gaps: counts.archive_gaps,
            archive_first: counts.archive_first,
            room: plan.room(),
            sections_used,
            sections,
            degraded: self.copies > 1 && (!devices.iter().all(present) || plan.is_short()),
            devices,
        }
    }

    fn device(&self, index: usize, works: &Works) -> DeviceStats {
        let member = self.member(index);
        let written = works.written[index];
        DeviceStats {
            index,
            name: member.as_ref().map_or(String::new(), |m| m.name.clone()),
            role: member.map_or(Role::Array, |m| m.superblock.role),
            health: match works.plan.health()[index] {
                Health::Present => DeviceHealth::Present,
                Health::Left => DeviceHealth::Left,
                Health::Failed => DeviceHealth::Failed,
            },
            writes: written.writes,
            bytes: written.bytes,
            busy: written.busy,
            longest: written.longest,
        }
    }
}
