//! How a log is made, and how it is used.

use crate::Role;
use crate::hedge::HedgeOptions;
use tantalum_device::SampledModel;
use tantalum_rt::Nanos;

/// A device with the name by which messages call it.
///
/// See [`Log`](crate::Log) for an example.
#[derive(Clone, Debug)]
pub struct LogDevice<D> {
    /// Its name, for example its path.
    pub name: String,
    /// The device.
    pub device: D,
}

impl<D> LogDevice<D> {
    /// A device with a name.
    pub fn new(name: impl Into<String>, device: D) -> LogDevice<D> {
        LogDevice { name: name.into(), device }
    }
}

/// How a log is made. It stays so.
///
/// With two copies a log outlives the loss of a device:
///
/// ```
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, Log, LogDevice, OpenOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let first = runtime.block_on(async move {
///     let caps = Caps::power_safe(2048, Payload::Bytes);
///     let device = |name| LogDevice::new(name, RamDevice::new(&rt, RamOptions::new(caps)));
///     let mut devices = vec![device("sda"), device("sdb")];
///     let two = CreateOptions { copies: 2, ..CreateOptions::default() };
///     Log::create(&rt, &devices, None, &two).await?;
///     let log = Log::open(&rt, devices.clone(), OpenOptions::default()).await?;
///     log.commit(b"paid").await?;
///     log.close().await?;
///
///     devices.pop(); // it is gone, with all that it had
///     let degraded = OpenOptions { degraded: true, ..OpenOptions::default() };
///     let log = Log::open(&rt, devices, degraded).await?;
///     let first = log.read(log.first())?.next().await?;
///     Ok::<_, Box<dyn std::error::Error>>(first)
/// });
/// assert_eq!(first.unwrap().unwrap().unwrap().bytes, b"paid");
/// ```
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// On how many devices each record is before it counts as durable: 1 or 2.
    pub copies: u8,
    /// Virtual devices that each device of the array is divided into (paper, SSD partitions): 2 to
    /// 4 help some single solid-state drives.
    pub partitions: u16,
    /// Bytes of a log block: a power of two from 512 to 16384, no less than the block of any
    /// device. `None`: the largest block of a device.
    pub unit: Option<u32>,
    /// Bytes of a section, about. `None`: a 32nd of a stream, at most 4 MiB; of a stream of more than
    /// 16 GiB a 4,096th.
    pub section_bytes: Option<u64>,
    /// Share of each device that is kept for what is written again, in percent: 0 to 50. With 0 a
    /// slow write is written again only where it may follow what a device has.
    pub second_percent: u32,
    /// Bytes of a record, at most; a quarter of a main stream has to hold one. `None`: 1 MiB, or on
    /// small devices the largest power of two that they allow, but no less than 4 KiB.
    pub record_limit: Option<u32>,
    /// Whether to destroy what the devices hold, unless that is a log of a newer version.
    pub force: bool,
    /// The identity of the log. `None`: from the runtime's seed, time, and what the devices held.
    /// Programs with a source of true randomness should give one.
    pub identity: Option<[u8; 16]>,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            copies: 1,
            partitions: 1,
            unit: None,
            section_bytes: None,
            second_percent: 20,
            record_limit: None,
            force: false,
            identity: None,
        }
    }
}

/// What an append does that finds no room before the checkpoint moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits.
    Wait,
    /// It fails with [`crate::LogError::Full`]. So does a wait for durability, if a device that was
    /// left or lost took along the room that what was appended had.
    Fail,
}

/// How a write becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// What the device's promises call for: if acknowledged writes survive, nothing more. Else
    /// forced unit access in the array, and a flush after each write to the archive.
    Auto,
    /// Forced unit access, where acknowledged writes do not survive.
    Fua,
    /// A flush after each write, where acknowledged writes do not survive.
    Flush,
}

/// What the devices of a log have to say of it. `None`: anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expects {
    /// Copies of each record.
    pub copies: Option<u8>,
    /// Partitions of each device of the array.
    pub partitions: Option<u16>,
    /// What devices are for, by their names. Others may be for anything.
    pub roles: Vec<(String, Role)>,
}

/// How a log is used. It may be different each time.
///
/// This log says that it is full, where others would wait for the checkpoint:
///
/// ```
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, Log, LogDevice, LogError, OpenOptions, WhenFull};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let done = runtime.block_on(async move {
///     let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(1024, Payload::Bytes)));
///     let devices = vec![LogDevice::new("sda", ram)];
///     Log::create(&rt, &devices, None, &CreateOptions::default()).await.unwrap();
///     let options = OpenOptions { when_full: WhenFull::Fail, ..OpenOptions::default() };
///     let log = Log::open(&rt, devices, options).await.unwrap();
///     let refused = loop {
///         if let Err(error) = log.commit(&[1; 4000]).await {
///             break error;
///         }
///     };
///     assert!(matches!(refused, LogError::Full { .. }), "{refused}");
///
///     log.checkpoint(log.end(), 1).await?; // the records before it are not needed any more
///     log.commit(&[1; 4000]).await
/// });
/// done.unwrap().unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Bytes of memory for the newest part of the log. Appends wait while it is full.
    pub memory: usize,
    /// Bytes of a group, at most.
    pub group_bytes: u64,
    /// Bytes for which the archive waits.
    pub archive_bytes: u64,
    /// Bytes of one write to the archive, at most.
    pub archive_write_bytes: u64,
    /// How a write becomes durable.
    pub barrier: Barrier,
    /// When a write takes longer, its device is left until it answers. After twice as long the log
    /// goes on without it. If writes of a device usually take long, four times what is usual for it
    /// counts instead.
    pub stall: Nanos,
    /// When slow writes are written again elsewhere.
    pub hedge: HedgeOptions,
    /// How long the writes of devices take, by the names of the devices: measured before, as
    /// `tantalum log calibrate` does. Without, that is learned from the first writes on, and until
    /// then no write counts as slow. With it, what is learned takes the place of what was measured.
    pub latencies: Vec<(String, SampledModel)>,
    /// What an append does that finds no room.
    pub when_full: WhenFull,
    /// Whether to take no records: the log is read, and its checkpoint may move. No new epoch
    /// begins.
    pub read_only: bool,
    /// Whether to open a damaged log with what is before the damage. What is behind it is lost.
    pub salvage: bool,
    /// Whether to open a log with copies if one device is missing, is of no use (blank, shortened,
    /// damaged, an older copy), or fails during the opening. That device is lost to the log, and the
    /// log is opened without it from then on. With `read_only` it is lost once the checkpoint moves.
    /// A device that did not answer when the log was used last, and was told nothing since, does not
    /// know what it missed: opened alone, it gives what it has, without an error.
    pub degraded: bool,
    /// How the log has to have been made: one that was made otherwise is not opened.
    pub expects: Expects,
    /// The names of all devices of the log, also of those that are not there. If one device is
    /// missing, and one of these names is left over, messages call it by that name.
    pub names: Vec<String>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            memory: 16 << 20,
            group_bytes: 256 << 10,
            archive_bytes: 32 << 10,
            archive_write_bytes: 1 << 20,
            barrier: Barrier::Auto,
            stall: Nanos::from_secs(1),
            hedge: HedgeOptions::default(),
            latencies: Vec::new(),
            when_full: WhenFull::Wait,
            read_only: false,
            salvage: false,
            degraded: false,
            expects: Expects::default(),
            names: Vec::new(),
        }
    }
}
