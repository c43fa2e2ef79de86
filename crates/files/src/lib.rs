//! A minimal crash-safe file layer on one block device: a flat directory of named
//! files that are created, read, written, truncated, renamed and deleted.
//!
//! Nothing dirty is ever kept in memory: what a call did has been completed on the
//! device when it returns. There is no unmounting; a power loss is the normal end.
//!
//! ```
//! use tantalum_device::{Ack, Caps, Payload, RamDevice, RamOptions};
//! use tantalum_files::{Files, FormatOptions, MountOptions, Promise};
//! use tantalum_rt::Runtime;
//!
//! let mut runtime = Runtime::virtual_time(1);
//! let rt = runtime.handle();
//! let done = runtime.block_on(async move {
//!     let device = RamDevice::new(&rt, RamOptions::new(Caps {
//!         block_size: 4096,
//!         blocks: 4096,
//!         ack: Ack::PowerSafe,
//!         flush: true,
//!         ordered: true,
//!         atomic_unit: 4096,
//!         thin: false,
//!         atomic_group: None,
//!         payload: Payload::Bytes,
//!     }));
//!     Files::format(&rt, &device, &FormatOptions::default()).await?;
//!     let files = Files::mount(&rt, device, &MountOptions::default()).await?;
//!     let file = files.create(b"hello", Promise::Completed).await?;
//!     file.write(3, b"world").await?;
//!     let mut back = [0xff; 8];
//!     assert_eq!(file.read(0, &mut back).await?, 8);
//!     assert_eq!(&back, b"\0\0\0world");
//!     file.sync().await
//! });
//! done.unwrap().unwrap();
//! ```
//!
//! # Invariants
//!
//! "Survives" is what the device promises for completed writes, "durable" what
//! survives any crash.
//!
//! 1. **Write-through.** When a call returns, its data and its change of the
//!    metadata have been completed on the device. So on a device whose completed
//!    writes survive, everything up to the last call that returned is there after a
//!    crash, without any flush.
//! 2. **Sync.** When [`File::sync`] returns, the data of the file that were written
//!    before, its size, and all earlier changes of the directory are durable, on every
//!    device (unless the mount was told to send no barriers). [`Promise::Durable`]
//!    makes a change of the directory durable when it returns.
//! 3. **Metadata** are what some prefix of the changes left, after any crash, at any
//!    point, of mounting too: two alternating snapshots, each with a journal of
//!    checksummed records behind it that are numbered without a gap and carry the
//!    epoch of their snapshot. Every mount begins a new epoch, and a block of the
//!    journal is written once in an epoch: neither a torn write nor the records of
//!    an earlier life can pass for what they are not. A rename that replaces a file is one
//!    record.
//! 4. **Sizes.** A size is recorded when a write passes the recorded one, and then
//!    as the end of that chunk; [`File::sync`], [`File::truncate`] and a rename
//!    record the exact size. So after a crash a file may be longer than what was
//!    written, by less than a chunk, and it is never shorter than its writes that
//!    survive. What was not written reads as zeros, within and beyond the size. (On a device
//!    that promises nothing before a flush, an unsynced write that was lost leaves what was
//!    there before: zeros, or the older data of the same file.)
//! 5. **Nothing foreign.** A chunk is given to a file only when it reads as zeros and
//!    will do so after any crash: discarded, and flushed where the device needs
//!    it. Chunks are discarded in batches.
//! 6. **Nothing comes back.** A freed chunk is discarded or reused only when the change
//!    that freed it cannot be lost any more.
//! 7. **In place.** Writes go to the chunks of the file, those that lie next to each other
//!    on the device as one command, in ascending order. Parts of a block are merged
//!    into the whole block under the file's lock. A chunk is aligned in file and device: an
//!    aligned page, no larger than a chunk, is one write of the device, and as
//!    atomic as [`Caps::atomic_unit`](tantalum_device::Caps::atomic_unit) says.
//! 8. **Failure.** After a metadata write or a flush failed, or a call that writes was
//!    dropped half way, nothing is written any more until the layer is mounted again
//!    ([`FilesError::Poisoned`]). A full device refuses what needs room and changes
//!    nothing; deleting always works. On a device that promises more than it has
//!    ([`Caps::thin`](tantalum_device::Caps::thin)) metadata have their room from the format
//!    on, and before a write of data is refused all free chunks are discarded.
//! 9. **Groups.** [`File::write_atomic`] is one atomic group of the device: whoever mounts after
//!    a crash finds all of its ranges written or none, and when it returns they survive any
//!    crash, on every device that takes groups and means its flushes ([`Files::group_limit`]).
//!    A read sees all or nothing of it, too, where it is one command (within a chunk, it is).
//!    The chunks that it needs, and all changes of metadata made before, are durable before the
//!    group begins; so after a crash without it the file may be longer than it was, by zeros, up
//!    to the end of the last chunk of the group. A group that is refused, by the limit or for
//!    want of space, has changed nothing.
//! 10. **Without power** nothing is written, and no read of the device succeeds, for ever on this
//!     mount. What is in memory is still told: names, sizes, holes, parts of blocks. The device
//!     need not hold it any more; who serves others asks first ([`File::is_alive`]).
//!
//! The format on the device is drawn at the top of `format.rs`.

mod cache;
mod error;
mod file;
mod format;
mod group;
mod io;
mod layer;
mod meta;
mod mount;
mod pool;
mod state;

pub use error::FilesError;
pub use file::File;
pub use layer::{Entry, Files, FormatOptions, MountOptions, Promise, Space};
