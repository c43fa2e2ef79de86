//! The contract in code: addresses, capabilities, commands and errors.

use crate::{Data, DataMut, Payload};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a block on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u64);

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// A range of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The first.
    pub start: Block,
    /// How many.
    pub count: u64,
}

/// What the completion of a write means (contract, 1). In files it is `volatile`, `power-safe` or
/// `on-media`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ack {
    /// It may be lost with the power until a flush returns.
    Volatile,
    /// It survives: it is in memory whose content outlives a power loss.
    PowerSafe,
    /// It survives: it is on the medium, and can be found there again.
    OnMedia,
}

impl Ack {
    /// Whether a completed write survives a power loss.
    pub fn survives(self) -> bool {
        self != Ack::Volatile
    }
}

/// The largest atomic group (contract, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// Extents in one group, at most.
    pub extents: u32,
    /// Bytes in one group, at most.
    pub bytes: u64,
}

/// What a device promises.
///
/// ```
/// use tantalum_device::{Ack, Block, Caps, Data, IoError, Payload};
///
/// // A disk with a volatile cache, in blocks of 512 bytes.
/// let safe = Caps::power_safe(2_000_000, Payload::Bytes);
/// let disk =
///     Caps { block_size: 512, atomic_unit: 512, ack: Ack::Volatile, ordered: false, ..safe };
/// assert_eq!(disk.bytes(), 1_024_000_000);
/// assert!(safe.ack.survives() && !disk.ack.survives());
///
/// let check = |at, data: Data<'_>| disk.check(at, data.kind(), data.blocks(disk.block_size));
/// assert_eq!(check(Block(1_999_998), Data::Bytes(&[0; 1024])), Ok(2));
/// let beyond = check(Block(1_999_999), Data::Bytes(&[0; 1024]));
/// assert_eq!(beyond, Err(IoError::Invalid("the range ends beyond the end of the device")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Bytes in a block: the unit of every address and length.
    pub block_size: u32,
    /// How many blocks the device has.
    pub blocks: u64,
    /// Whether it promises more blocks than it can keep data of at a time (contract, 8).
    pub thin: bool,
    /// What a completed write means.
    pub ack: Ack,
    /// Whether a flush means anything. `false`: a flush completes and does nothing. What such a
    /// device loses after a flush breaks no promise. Forced unit access keeps its meaning.
    pub flush: bool,
    /// Whether what survives is a prefix of what arrived.
    pub ordered: bool,
    /// One write of up to so many bytes is all or nothing. May be less than a block
    /// on a device that tears blocks.
    pub atomic_unit: u32,
    /// The largest atomic group; `None`: groups are refused.
    pub atomic_group: Option<GroupLimit>,
    /// Which kind of payload the device carries.
    pub payload: Payload,
}

impl Caps {
    /// A device that keeps everything it acknowledged, in order and in whole blocks of 4096 bytes,
    /// and takes no groups. A drive with a protected cache promises at least this.
    pub fn power_safe(blocks: u64, payload: Payload) -> Caps {
        Caps {
            block_size: 4096,
            blocks,
            thin: false,
            ack: Ack::PowerSafe,
            flush: true,
            ordered: true,
            atomic_unit: 4096,
            atomic_group: None,
            payload,
        }
    }

    /// The number of blocks in `data` if a write of it at `at` fits the device.
    ///
    /// # Errors
    /// [`IoError::Invalid`] for parts of blocks, blocks beyond the end, or payload
    /// of the other kind.
    pub fn check(&self, at: Block, kind: Payload, blocks: Option<u64>) -> Result<u64, IoError> {
        let Some(count) = blocks else {
            return Err(IoError::Invalid("the length is not a whole number of blocks"));
        };
        if kind != self.payload {
            return Err(IoError::Invalid("the device carries payload of the other kind"));
        }
        self.check_range(Blocks { start: at, count })?;
        Ok(count)
    }

    /// Whether the device has the blocks of `range`.
    ///
    /// # Errors
    /// [`IoError::Invalid`] if it has not.
    pub fn check_range(&self, range: Blocks) -> Result<(), IoError> {
        match range.start.0.checked_add(range.count) {
            Some(end) if end <= self.blocks => Ok(()),
            _ => Err(IoError::Invalid("the range ends beyond the end of the device")),
        }
    }

    /// Whether the device can take `group`. Extents without blocks overlap nothing.
    ///
    /// # Errors
    /// Why it cannot; then nothing of the group may be written.
    pub fn check_group(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let limit = self.atomic_group.ok_or(AtomicError::Unsupported)?;
        let mut ranges = Vec::with_capacity(group.len());
        for e in group {
            let count = self.check(e.at, e.data.kind(), e.data.blocks(self.block_size))?;
            ranges.push((e.at, count));
        }
        let (extents, blocks) = (group.len() as u64, ranges.iter().map(|r| r.1).sum::<u64>());
        let bytes = blocks.saturating_mul(u64::from(self.block_size));
        if extents > u64::from(limit.extents) || bytes > limit.bytes {
            return Err(AtomicError::TooLarge { extents, bytes, limit });
        }
        ranges.retain(|r| r.1 > 0);
        ranges.sort_unstable();
        match ranges.windows(2).find(|w| w[0].0.0 + w[0].1 > w[1].0.0) {
            Some(w) => Err(AtomicError::Overlap(w[1].0)),
            None => Ok(()),
        }
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size)
    }
}

/// What the host asks of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What [`Caps::ack`] says.
    #[default]
    Normal,
    /// Forced unit access: durable before it completes.
    Fua,
}

/// One extent of an atomic group.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Where it begins.
    pub at: Block,
    /// What to write there.
    pub data: Data<'a>,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The device has no power, or lost it before the command completed: whether
    /// the command was carried out is not known.
    #[error("the device lost its power")]
    PowerLost,
    /// The command makes no sense: the message says why.
    #[error("invalid command: {0}")]
    Invalid(&'static str),
    /// Data that were written cannot be read back.
    #[error("uncorrectable error reading {0}")]
    Uncorrectable(Block),
    /// The command failed; nothing is known to have been changed.
    #[error("the device failed the command: {0}")]
    Failed(&'static str),
    /// A durability step failed before; the device takes no writes until it is
    /// opened again (contract, 6).
    #[error("the device takes no writes since a durability step failed: restart it")]
    Poisoned,
    /// There is no space left for new data. Nothing of the write is or will ever be on the device;
    /// the old content stays (contract, 8).
    #[error("no space left on the device: discard blocks that are not needed")]
    NoSpace,
    /// The device is at the end of its life and takes no more writes, ever; what is there
    /// stays readable.
    #[error("the device is worn out and can only be read: copy what it holds to another one")]
    ReadOnly,
}

/// Why an atomic group was not written. Nothing of the group is or will ever be written, with one
/// exception: after an [`AtomicError::Io`] with a power loss or a failure, all of it or nothing is
/// there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AtomicError {
    /// The device has no atomic groups.
    #[error("the device does not write atomic groups")]
    Unsupported,
    /// The group is larger than the device can promise.
    #[error("the group has {extents} extents and {bytes} bytes; the limit is {} extents and {} bytes", .limit.extents, .limit.bytes)]
    TooLarge {
        /// Extents asked for.
        extents: u64,
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        limit: GroupLimit,
    },
    /// Two extents of the group share a block.
    #[error("two extents of the group overlap at {0}")]
    Overlap(Block),
    /// The write failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Whether blocks hold data, as far as a device can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// How many blocks are alike; at least one.
    pub blocks: u64,
    /// They hold nothing, and read as zeros.
    pub hole: bool,
}

/// Blocks that are looked at for one answer, at most.
const LOOK: u64 = 1 << 16;

impl Allocation {
    /// The answer of a device that can say of each block whether it is a hole.
    pub(crate) fn of(range: Blocks, is_hole: impl Fn(u64) -> bool) -> Allocation {
        let (first, count) = (range.start.0, range.count.min(LOOK));
        let hole = is_hole(first);
        let blocks = (1..count).find(|i| is_hole(first + i) != hole).unwrap_or(count);
        Allocation { blocks, hole }
    }
}

/// A block device that keeps the contract in the crate's documentation.
///
/// This layer lets nobody write to the device below it:
///
/// ```
/// use tantalum_device::{
///     AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
///     Payload, RamDevice, RamOptions, forward,
/// };
/// use tantalum_rt::Runtime;
///
/// struct ReadOnly<D>(D);
///
/// impl<D: BlockDevice> BlockDevice for ReadOnly<D> {
///     forward!(0: caps, is_alive, arm_queue, blocks_its_thread, read, flush, allocation);
///
///     async fn write(&self, _: Block, _: Data<'_>, _: Durability) -> Result<(), IoError> {
///         Err(IoError::ReadOnly)
///     }
///
///     async fn write_atomic(&self, _: &[Extent<'_>]) -> Result<(), AtomicError> {
///         Err(IoError::ReadOnly.into())
///     }
///
///     async fn discard(&self, _: Blocks) -> Result<(), IoError> {
///         Err(IoError::ReadOnly)
///     }
/// }
///
/// let mut runtime = Runtime::virtual_time(1);
/// let ram = RamOptions::new(Caps::power_safe(16, Payload::Stamps));
/// let ram = RamDevice::new(&runtime.handle(), ram);
/// let read = runtime.block_on(async move {
///     ram.write(Block(3), Data::Stamps(&[7]), Durability::Normal).await?;
///     let device = ReadOnly(ram);
///     let refused = device.write(Block(3), Data::Stamps(&[8]), Durability::Normal).await;
///     assert_eq!(refused, Err(IoError::ReadOnly));
///     let mut block = [0];
///     device.read(Block(3), DataMut::Stamps(&mut block)).await?;
///     Ok::<_, IoError>(block)
/// });
/// assert_eq!(read.unwrap(), Ok([7]));
/// ```
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait BlockDevice {
    /// What the device promises.
    fn caps(&self) -> &Caps;

    /// Whether commands can reach the device. After a cut they never will again on this link. A
    /// layer that answers for the device from memory must ask here first. It takes no time.
    fn is_alive(&self) -> bool;

    /// Commands that a device with one arm takes at a time, for a host that sorts the others.
    /// `None`: there is nothing to sort for, since places do not matter, or since several devices
    /// share them.
    fn arm_queue(&self) -> Option<u32> {
        None
    }

    /// Whether its commands block the thread of the runtime, one at a time. Then nothing else goes on
    /// there while one is slow: neither timers nor commands of other devices.
    fn blocks_its_thread(&self) -> bool {
        false
    }

    /// Reads the blocks from `at` on into `buf`.
    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError>;

    /// Writes `data` to the blocks from `at` on.
    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError>;

    /// Writes all extents of the group, or none. Every read sees all of them or none, also after a
    /// crash. It survives when this returns. If the future is dropped before its first poll, the
    /// group is not written. If it is dropped later, the group is written as a whole or not at all.
    ///
    /// ```
    /// use tantalum_device::{
    ///     AtomicError, Block, BlockDevice, Caps, Data, Extent, GroupLimit, Payload, RamDevice,
    ///     RamOptions,
    /// };
    /// use tantalum_rt::Runtime;
    ///
    /// let mut runtime = Runtime::virtual_time(1);
    /// let limit = GroupLimit { extents: 2, bytes: 8192 };
    /// let caps = Caps { atomic_group: Some(limit), ..Caps::power_safe(100, Payload::Stamps) };
    /// let device = RamDevice::new(&runtime.handle(), RamOptions::new(caps));
    /// let refused = runtime.block_on(async move {
    ///     let extent = |at, stamp| Extent { at: Block(at), data: Data::Stamps(stamp) };
    ///     device.write_atomic(&[extent(7, &[1]), extent(90, &[2])]).await?;
    ///     device.write_atomic(&[extent(1, &[3]), extent(2, &[3]), extent(4, &[3])]).await
    /// });
    /// let too_large = AtomicError::TooLarge { extents: 3, bytes: 12288, limit };
    /// assert_eq!(refused.unwrap(), Err(too_large));
    /// ```
    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError>;

    /// Makes everything durable that completed before, if [`Caps::flush`] says so.
    async fn flush(&self) -> Result<(), IoError>;

    /// Gives blocks back: they read as zeros from now on, durable with the next flush
    /// (or at once, if [`Caps::ack`] says so for writes).
    async fn discard(&self, range: Blocks) -> Result<(), IoError>;

    /// Whether the first blocks of `range` hold data, and for how many blocks that is the same. The
    /// answer may be shorter than it could be. If a device cannot tell, it says that a block holds
    /// data. Commands under way may change the answer at any time. The range must not be empty.
    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        self.caps().check_range(range)?;
        Ok(Allocation { blocks: range.count, hole: false })
    }

    /// Whether it makes use of [`BlockDevice::left`].
    fn wants_exits(&self) -> bool {
        false
    }

    /// A hint: the host had these blocks in its memory, has not changed them, and has dropped them.
    /// If it needs them again it reads them. `data` are their bytes if the host gives them along:
    /// they must be what a read would return.
    async fn left(&self, range: Blocks, data: Option<Data<'_>>) -> Result<(), IoError> {
        let _ = data;
        self.caps().check_range(range)
    }
}

/// A box with a plug: something whose power can be cut and restored.
///
/// ```
/// use tantalum_device::{
///     Ack, Block, BlockDevice, Caps, Data, DataMut, Durability, IoError, Payload, PowerCycle,
///     RamDevice, RamOptions,
/// };
/// use tantalum_rt::Runtime;
///
/// /// How many of 64 writes any box still has after a power cut, none of them flushed.
/// async fn survivors(plug: &impl PowerCycle) -> Result<usize, IoError> {
///     let device = plug.device();
///     for block in 0..64 {
///         device.write(Block(block), Data::Stamps(&[1]), Durability::Normal).await?;
///     }
///     plug.cut();
///     assert_eq!(device.flush().await, Err(IoError::PowerLost));
///     plug.off().await;
///     plug.power_on().await?;
///     let mut blocks = [0; 64];
///     plug.device().read(Block(0), DataMut::Stamps(&mut blocks)).await?;
///     Ok(blocks.iter().filter(|stamp| **stamp == 1).count())
/// }
///
/// let of = |caps| {
///     let mut runtime = Runtime::virtual_time(1);
///     let ram = RamDevice::new(&runtime.handle(), RamOptions::new(caps));
///     runtime.block_on(async move { survivors(&ram).await }).unwrap()
/// };
/// let caps = Caps::power_safe(64, Payload::Stamps);
/// assert_eq!(of(caps)?, 64);
/// assert!(of(Caps { ack: Ack::Volatile, ordered: false, ..caps })? < 64);
/// # Ok::<(), IoError>(())
/// ```
#[allow(async_fn_in_trait)]
pub trait PowerCycle {
    /// The host's end of the link.
    type Device: BlockDevice + Clone + 'static;

    /// The host's end of the link. After a cut every command on it fails with
    /// [`IoError::PowerLost`], also those that wait; take a new one after
    /// [`PowerCycle::power_on`].
    fn device(&self) -> Self::Device;

    /// Cuts the host's power, at this instant. Harmless if there is none.
    fn cut(&self);

    /// Waits until the box has done what its capacitors allow and is dead.
    async fn off(&self);

    /// Restores the power and waits until the box takes commands. It may be cut
    /// again at any time meanwhile, and then fails with [`IoError::PowerLost`].
    async fn power_on(&self) -> Result<(), IoError>;

    /// Gives the box another capacity, while it is used: its links know of it at once. New blocks
    /// read as zeros. What lies behind a new end is gone, and no command may be under way there.
    /// Only a file can do that.
    ///
    /// # Errors
    /// [`IoError::Invalid`]: the capacity of this box is fixed, or it cannot be this one.
    /// [`IoError::NoSpace`] and others: it keeps the one that it has.
    async fn set_bytes(&self, _bytes: u64) -> Result<(), IoError> {
        Err(IoError::Invalid("the capacity of this device is fixed"))
    }
}
