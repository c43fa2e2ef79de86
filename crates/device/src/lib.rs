//! The block-device contract, and devices that keep it.
//!
//! A device states what it promises in its [`Caps`]; the oracle in
//! `tantalum-oracle` holds any device to what it stated, after any crash. A crash may
//! do anything that was not promised.
//!
//! # The contract
//!
//! 1. **Ack.** What a completed write means: [`Ack`].
//! 2. **Flush.** Everything completed before the flush was submitted survives once
//!    it returns, unless the device declares that its flushes do nothing
//!    ([`Caps::flush`]). A write with [`Durability::Fua`] survives once it returns.
//! 3. **Atomic.** One write up to [`Caps::atomic_unit`], and one group up to
//!    [`Caps::atomic_group`], is all or nothing, for reads and after a crash. A group that
//!    has completed survives, whatever [`Caps::ack`] says. A larger group is refused, never
//!    split; a larger plain write is atomic per aligned-to-its-start
//!    `atomic_unit` at best.
//! 4. **Order.** If [`Caps::ordered`], what survives is a prefix of the writes (and
//!    discards) in order of arrival, and contains all acknowledged ones if the ack
//!    says so.
//! 5. **Reads** after a completion see the newest data. Overlapping commands in
//!    flight have no order. Blocks never written, or discarded, read as zeros.
//! 6. **Failure.** After a durability step failed, the device refuses writes until
//!    it is opened again ([`IoError::Poisoned`]); it never pretends.
//! 7. **Dropping** the future of a command that waits never stops a command that
//!    the device has received; whether it had been received is not known then.
//! 8. **Space.** A device with [`Caps::thin`] may refuse a write of blocks that hold
//!    nothing ([`IoError::NoSpace`]); a refused write leaves no trace. Blocks that were written
//!    and not discarded since can always be read and overwritten; discarding always works, and
//!    gives room back. No other device refuses a write for want of space.
//!
//! # An example
//!
//! This device acknowledges writes from a volatile cache. A flushed write survives a power cut; one
//! that was only acknowledged may be lost.
//!
//! ```
//! use tantalum_device::{
//!     Ack, Block, BlockDevice, Caps, Data, DataMut, Durability, IoError, Payload, PowerCycle,
//!     RamDevice, RamOptions,
//! };
//! use tantalum_rt::Runtime;
//!
//! let mut runtime = Runtime::virtual_time(1);
//! let rt = runtime.handle();
//! let caps = Caps { ack: Ack::Volatile, ..Caps::power_safe(16, Payload::Stamps) };
//! let ram = RamDevice::new(&rt, RamOptions::new(caps));
//! let read = runtime.block_on(async move {
//!     let device = ram.device();
//!     device.write(Block(0), Data::Stamps(&[11]), Durability::Normal).await?;
//!     device.flush().await?;
//!     device.write(Block(1), Data::Stamps(&[22]), Durability::Normal).await?;
//!
//!     ram.cut();
//!     assert_eq!(device.flush().await, Err(IoError::PowerLost));
//!     ram.off().await;
//!     ram.power_on().await?;
//!     let mut blocks = [0; 2];
//!     ram.device().read(Block(0), DataMut::Stamps(&mut blocks)).await?;
//!     Ok::<_, IoError>(blocks)
//! });
//! let blocks = read.unwrap().unwrap();
//! assert_eq!(blocks[0], 11);
//! assert!(blocks[1] == 22 || blocks[1] == 0);
//! ```

mod blank;
mod bus;
mod contract;
mod data;
mod disk;
mod durable;
mod faults;
mod field;
#[cfg(feature = "file")]
mod file;
mod forward;
mod kind;
mod link;
mod live;
mod operations;
mod partition;
mod planted;
pub mod presets;
mod raid;
mod ram;
mod sampled;
mod stats;

pub use blank::first_mark;
pub use bus::Bus;
pub use contract::{
    Ack, Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Durability, Extent, GroupLimit,
    IoError, PowerCycle,
};
pub use data::{Data, DataMut, OwnedData, Payload};
pub use disk::{Disk, DiskModel};
pub use durable::{DurableBy, read_or_zeros, read_stamps_or_zeros};
pub use faults::Faults;
pub use field::{
    Field, Line, Metric, Panel, Unit, Value, bytes_in_words, counted, joules_in_words,
    time_in_words,
};
#[cfg(feature = "file")]
pub use file::{File, FileError, FileSettings, FileWriter, storage};
pub use kind::CommandKind;
pub use link::Link;
pub use live::{
    AfterCut, CutOutcome, LiveBox, PowerState, ResizeError, ScrubOutcome, Shown, StartError,
    StartOutcome, UpkeepError, unprotected_cut,
};
pub use operations::Operation;
pub use partition::Partition;
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use raid::{Raid0, RaidBox};
pub use ram::{RamDevice, RamOptions};
pub use sampled::{
    LatencyRow, Mode, Outlier, Overlap, SampledFault, SampledModel, Stall, StreamKind,
};
pub use stats::{DeviceStats, KindStats, Latencies, Stats};
