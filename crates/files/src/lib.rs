//! A minimal crash-safe file layer on one block device: a flat directory of named
//! files that are created, read, written, truncated, renamed and deleted.
//!
//! Memory never holds dirty data: the changes of a call have completed on the device when it
//! returns. There is no unmounting; a power loss is the normal end.
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
//! "Survives" means what the device promises for completed writes; "durable" means that it survives
//! any crash.
//!
//! 1. **Write-through.** When a call returns, its data and its change of the metadata have
//!    completed on the device. So on a device whose completed writes survive, the changes of all
//!    calls that returned are there after a crash, without any flush.
//! 2. **Sync.** When [`File::sync`] returns, all earlier writes to the file, its size, and all
//!    earlier changes of the directory are durable, on every device (unless the mount sends no
//!    barriers). [`Promise::Durable`] makes a change of the directory durable when it returns.
//! 3. **Metadata.** After a crash at any point, also during a mount, the metadata is the result of
//!    a prefix of the changes. There are two alternating snapshots, each followed by a journal. The
//!    records of a journal have checksums, consecutive numbers, and the epoch of their snapshot.
//!    Every mount begins a new epoch, and a block of the journal is written once in an epoch: so a
//!    torn write, or a record of an earlier epoch, is never taken for a valid one. A rename that
//!    replaces a file is one record.
//! 4. **Sizes.** When a write passes the recorded size, the end of its chunk is recorded as the new
//!    size; [`File::sync`], [`File::truncate`] and a rename record the exact size. So after a crash
//!    a file may be longer than its writes by less than a chunk, and it is never shorter than its
//!    surviving writes. Bytes that were never written read as zeros, within and beyond the size.
//!    (On a device that promises nothing before a flush, a lost unsynced write leaves the previous
//!    content: zeros, or older data of the same file.)
//! 5. **Nothing foreign.** A chunk is given to a file only when it reads as zeros, now and after
//!    any crash: it was discarded, and flushed where the device needs that. Chunks are discarded in
//!    batches.
//! 6. **Nothing comes back.** A freed chunk is discarded or reused only when the change that freed
//!    it can no longer be lost.
//! 7. **In place.** Writes go to the chunks of the file in ascending order; chunks that are
//!    adjacent on the device are one command. A write of part of a block rewrites the whole block
//!    under the file's lock. Chunks are aligned in file and device: an aligned page, no larger than
//!    a chunk, is one write of the device, and as atomic as
//!    [`Caps::atomic_unit`](tantalum_device::Caps::atomic_unit) says.
//! 8. **Failure.** If a metadata write or a flush failed, or the future of a writing call was
//!    dropped half way, nothing is written until the layer is mounted again
//!    ([`FilesError::Poisoned`]). On a full device, calls that need room fail and change nothing;
//!    deleting always works. On a device that promises more than it has
//!    ([`Caps::thin`](tantalum_device::Caps::thin)), the format reserves the room for metadata, and
//!    all free chunks are discarded before a write of data is refused.
//! 9. **Groups.** [`File::write_atomic`] is one atomic group of the device: after a crash, a mount
//!    finds all of its ranges written or none. When it returns, they survive any crash, on every
//!    device that takes groups and carries out flushes ([`Files::group_limit`]). A read that is one
//!    command (within a chunk it is) also sees all of the group or nothing. The chunks that the
//!    group needs, and all earlier changes of metadata, are durable before it begins. So if a crash
//!    loses the group, the file may be longer by zeros, up to the end of the group's last chunk. A
//!    group that is refused, for its size or for lack of space, has changed nothing.
//! 10. **Without power** nothing is written, and no read of the device succeeds, permanently on
//!     this mount. Names, sizes, holes and parts of blocks are still answered from memory, although
//!     the device may have lost them; a server must check [`File::is_alive`] first.
//!
//! `format.rs` describes the format on the device.

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
