//! What can go wrong: one line that says what, where, and what to do.

use crate::{Lsn, Role};
use std::fmt;
use tantalum_device::IoError;

/// Bytes of the log that were acknowledged and are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first LSN that is missing.
    pub lsn: Lsn,
    /// Everything before this LSN was acknowledged, or was there when the log was opened before.
    pub watermark: Lsn,
    /// The device on which something unreadable lies where the bytes belong, and the offset there
    /// in bytes; `None` if no device has anything of that kind.
    pub place: Option<(String, u64)>,
}

impl Damage {
    /// What is damaged and where, without what to do.
    #[must_use]
    pub fn found(&self) -> String {
        let place = match &self.place {
            Some((device, offset)) => format!(" (\"{device}\", byte {offset})"),
            None => " (no device has these bytes)".to_string(),
        };
        let below = match self.watermark > self.lsn {
            true => format!(", below {} up to which it was known to be whole", self.watermark),
            false => String::new(),
        };
        format!("the log is damaged at {}{place}{below}", self.lsn)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: open it with `salvage` to keep what is before", self.found())
    }
}

/// Why a log was not created or opened. Nothing was changed, unless the error says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device was given.
    #[error("a log needs at least one device: name one")]
    NoDevice,
    /// There are too many devices.
    #[error("a log has at most {max} devices, not {0}: name fewer", max = crate::superblock::DEVICES_MAX)]
    TooMany(usize),
    /// An option makes no sense.
    #[error("{0}")]
    Options(String),
    /// Slow writes are to be written again, and writes of files block the thread that would do so.
    #[error(
        "a slow write to \"{0}\" blocks the thread that would write it again elsewhere, since io_uring \
         is not used: allow io_uring, or open the log without hedging"
    )]
    Hedging(String),
    /// The device carries stamps.
    #[error("\"{0}\" carries stamps, and a log carries bytes: use a device that stores bytes")]
    Stamps(String),
    /// The size of its blocks does not suit.
    #[error("\"{device}\" has blocks of {block} bytes, and {unit} are needed: {help}")]
    Blocks {
        /// The device.
        device: String,
        /// Bytes in a block of it.
        block: u32,
        /// What is needed.
        unit: String,
        /// What to do.
        help: &'static str,
    },
    /// The device is too small.
    #[error("\"{device}\" has {bytes} bytes, and {needed} are needed: use a larger device{or}")]
    TooSmall {
        /// The device.
        device: String,
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that it needs.
        needed: u64,
        /// What else to do.
        or: &'static str,
    },
    /// Two devices are one.
    #[error("\"{0}\" and \"{1}\" are the same device: name each once")]
    Twice(String, String),
    /// Something is on the device.
    #[error("\"{device}\" holds {what}: create the log with `force` to destroy that")]
    NotBlank {
        /// The device.
        device: String,
        /// What is there.
        what: String,
    },
    /// Nothing of a log is on the device.
    #[error(
        "\"{0}\" holds no log that can be found: name the device itself, or restore it from a copy"
    )]
    NoLog(String),
    /// Both superblocks of the device are damaged.
    #[error(
        "\"{0}\" is a device of a log, and both its superblocks are damaged: restore the devices of \
         the log from copies of one moment"
    )]
    Superblock(String),
    /// No state of the log can be read on the device.
    #[error(
        "\"{0}\" is a device of the log, and both its copies of the log's state are damaged: restore \
         the devices of the log from copies of one moment"
    )]
    State(String),
    /// The log is of a newer version.
    #[error(
        "\"{device}\" holds a log of version {version}, and this program knows up to {}: use a \
             newer program, or fill its first 128 KiB with zeros and lose that log",
        crate::superblock::VERSION
    )]
    Newer {
        /// The device.
        device: String,
        /// The version there.
        version: u32,
    },
    /// The device belongs to another log.
    #[error("\"{device}\" belongs to another log than \"{other}\": name the devices of one log")]
    OtherLog {
        /// The device.
        device: String,
        /// The first device that was named.
        other: String,
    },
    /// The log was made otherwise than is expected.
    #[error(
        "\"{device}\" is of a log that was made with {what} = {made}, and `expects` says {what} = \
         {expected}: set it to {made}, or name the devices of the log that is meant"
    )]
    Differs {
        /// The device.
        device: String,
        /// What differs.
        what: &'static str,
        /// What the device says.
        made: u16,
        /// What was expected.
        expected: u16,
    },
    /// The device is for something else than is expected.
    #[error(
        "\"{device}\" is {} of its log, and `expects` says {}: name it as what it is",
        role(*made),
        role(other_role(*made))
    )]
    Role {
        /// The device.
        device: String,
        /// What it is for.
        made: Role,
    },
    /// A device is not there.
    #[error(
        "device {index} of the log is missing, which has devices 0 to {}: name it too{or}",
        devices - 1
    )]
    Missing {
        /// Its index, counted from 0.
        index: usize,
        /// How many there are.
        devices: usize,
        /// What else to do.
        or: &'static str,
    },
    /// A device is missing that alone may have the newest records: those that are there were left,
    /// and have not caught up.
    #[error(
        "device {index} of the log is missing, and it alone may have the newest records: name it \
         too, or open it with `salvage` to do without these"
    )]
    Lacks {
        /// Its index, counted from 0.
        index: usize,
    },
    /// The device has an older state than the others.
    #[error(
        "\"{device}\" is at generation {generation} of the log, and others are at {newest}: it is \
             an older copy of a device; name the device itself{or}"
    )]
    Older {
        /// The device.
        device: String,
        /// Its generation.
        generation: u64,
        /// That of the others.
        newest: u64,
        /// What else to do.
        or: &'static str,
    },
    /// Blocks are newer than every state.
    #[error(
        "\"{device}\" has blocks of epoch {epoch}, and no device has a state newer than epoch \
             {newest}: at least one device is an older copy; name the devices themselves"
    )]
    StateLost {
        /// A device with such blocks.
        device: String,
        /// Their epoch.
        epoch: u32,
        /// That of the newest state.
        newest: u32,
    },
    /// There is no room for one more epoch.
    #[error(
        "the log was opened {0} times with new records since its checkpoint, and more cannot be \
         kept: open it with `read_only`, and move the checkpoint"
    )]
    TooManyEpochs(usize),
    /// A device failed while the end of the log was copied.
    #[error(
        "the end of the log could not be copied to a second device: open it again, with \
             `degraded` if a device is gone"
    )]
    NotCopied,
    /// Acknowledged bytes are missing.
    #[error("{0}")]
    Damaged(Damage),
    /// A command failed.
    #[error("{device}: {error}{or}")]
    Io {
        /// The device.
        device: String,
        /// Its error.
        error: IoError,
        /// What to do.
        or: &'static str,
    },
    /// A device of a log with copies is of no use.
    #[error("{0}; or open the log without it, with `degraded`")]
    OfNoUse(Box<OpenError>),
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Array => "a device of the array",
        Role::Archive => "the archive",
    }
}

fn other_role(role: Role) -> Role {
    match role {
        Role::Array => Role::Archive,
        Role::Archive => Role::Array,
    }
}

/// What to do about a device that fails.
pub(crate) const SEE_TO_IT: &str = ": see to the device, and try again";

impl OpenError {
    /// The device that is of no use, if it is this one alone.
    pub(crate) fn of_one_device(&self) -> Option<&str> {
        match self {
            OpenError::NoLog(device)
            | OpenError::Superblock(device)
            | OpenError::State(device)
            | OpenError::Blocks { device, .. }
            | OpenError::TooSmall { device, .. }
            | OpenError::Newer { device, .. }
            | OpenError::Older { device, .. }
            | OpenError::Io { device, .. } => Some(device),
            _ => None,
        }
    }

    /// What is given up if the log is opened with `salvage`; `None` if that does not help.
    #[must_use]
    pub fn salvaged(&self) -> Option<String> {
        match self {
            OpenError::Damaged(damage) => Some(damage.found()),
            OpenError::Lacks { index } => Some(format!(
                "device {index} is missing, which alone may have had the newest records"
            )),
            _ => None,
        }
    }

    /// The same error of a device that the log can do without.
    pub(crate) fn or_degraded(self) -> OpenError {
        match self {
            OpenError::Io { device, error, .. } => {
                let or = ": open the log with `degraded` to go on without this device";
                OpenError::Io { device, error, or }
            }
            // It says so already.
            OpenError::Older { .. } => self,
            error => OpenError::OfNoUse(Box::new(error)),
        }
    }
}

/// Why an operation of an open log failed.
///
/// ```
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_log::{CreateOptions, Log, LogDevice, LogError, OpenOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let refused = runtime.block_on(async move {
///     let caps = Caps::power_safe(2048, Payload::Bytes);
///     let ram = RamDevice::new(&rt, RamOptions::new(caps));
///     let devices = vec![LogDevice::new("sda", ram)];
///     let limit = CreateOptions { record_limit: Some(512), ..CreateOptions::default() };
///     Log::create(&rt, &devices, None, &limit).await.unwrap();
///     let log = Log::open(&rt, devices, OpenOptions::default()).await.unwrap();
///     // Nothing of it was appended; the log goes on.
///     let refused = log.append(&[0; 513]).await.unwrap_err();
///     log.commit(&[0; 512]).await.unwrap();
///     refused
/// });
/// assert_eq!(refused.unwrap(), LogError::RecordTooLong { bytes: 513, limit: 512 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The log was opened for reading.
    #[error("the log was opened with `read_only`: open it without that to append")]
    ReadOnly,
    /// The record is too long.
    #[error("a record of {bytes} bytes is longer than the {limit} that this log takes: split it")]
    RecordTooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit, which was set when the log was created.
        limit: u32,
    },
    /// There is no room.
    #[error("the log is full from {first} to {end}: move the checkpoint forward")]
    Full {
        /// Its first LSN.
        first: Lsn,
        /// Its end.
        end: Lsn,
    },
    /// What is asked for is not kept any more.
    #[error("{lsn} is before the checkpoint: the log begins at {first}, so read from there on")]
    BeforeFirst {
        /// What was asked for.
        lsn: Lsn,
        /// The first LSN of the log.
        first: Lsn,
    },
    /// What is asked for was never appended, or is not durable yet.
    #[error(
        "{lsn} is beyond the end of what is durable, {durable}: wait until it is durable, or use an \
         LSN up to that"
    )]
    NotDurable {
        /// What was asked for.
        lsn: Lsn,
        /// Everything before this LSN is durable.
        durable: Lsn,
    },
    /// No record begins there.
    #[error(
        "no record begins at {lsn}{}: use the LSN or the end of a record",
        .within.map_or(String::new(), |begins| format!(", which lies in the record at {begins}"))
    )]
    NoRecord {
        /// What was asked for.
        lsn: Lsn,
        /// The LSN of the record in which it lies, if that is known.
        within: Option<Lsn>,
    },
    /// Acknowledged bytes cannot be read.
    #[error("{0}")]
    Damaged(Damage),
    /// A read failed.
    #[error("{device}: {error}: see to the device, and open the log again")]
    Io {
        /// The device.
        device: String,
        /// Its error.
        error: IoError,
    },
    /// The log takes nothing any more.
    #[error("the log takes nothing any more since {0}: open it again")]
    Failed(String),
    /// The log was closed, and a device still has something to write.
    #[error(
        "\"{device}\" does not answer, and may still write what it was given: open the log again only \
         after that device had a power cycle"
    )]
    Unanswered {
        /// The device.
        device: String,
    },
    /// A device cannot be replaced so.
    #[error("{0}")]
    Replace(#[from] OpenError),
}
