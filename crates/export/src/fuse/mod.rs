//! A drive as a file ([`OneFile`]), or its files as a directory ([`Directory`]): FUSE file systems
//! in our own process.
//!
//! The kernel's requests are read, carried out and answered on the drive's own thread, over the
//! runtime of the wall clock: no other thread has to be woken for any of them. A loop device on the
//! file (with direct I/O) makes a disk of it, on which the kernel's file systems work.
//!
//! # What users of the file can rely on (of a directory: `directory.rs`)
//!
//! 1. **Every request reaches the drive**: nothing is kept in the page cache, whether a user asks
//!    for direct I/O or not.
//! 2. **`fsync` and `fdatasync`** are flushes of the device, in a directory with the file's length.
//!    Writes with `O_SYNC` or `O_DSYNC` have forced unit access.
//! 3. **A write in one piece.** A write of up to 1 MiB by direct I/O comes here as one request (the
//!    kernel splits what is longer). Up to the atomic unit it is one write of the device. If what
//!    the device acknowledged survives, and it takes atomic groups, then a longer one is one group
//!    up to the limit of groups; what is longer still is split where addresses are multiples of
//!    the largest power of two within the limit.
//! 4. **Holes.** To punch one discards; to write zeros over a range does so too, unless the device
//!    is thin: then they are really written. Both work for parts of blocks.
//! 5. **After a cut** all that is asked of files that were open fails
//!    ([`OnCut`](crate::nbd::OnCut): or the whole connection is aborted), for ever; a file opened
//!    once the power is back works.
//!
//! # What they cannot do
//!
//! 6. Make the process hold more than 256 requests and 64 MiB of them, with their answers as much
//!    again: what is more waits in the kernel. What a burst has taken goes back to the system when
//!    it is not needed for a second.
//! 7. Bring it down: the requests are the kernel's, and what is none ends the session.

mod buffers;
mod connection;
mod directory;
mod file;
mod mount;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod wire;

pub use connection::Connection;
pub use directory::{
    ABORT, BEGIN, COMMIT, Directory, FEATURE_TRANSACTIONS, FEATURES, PAGES_ATOMIC, Rights,
};
pub use file::{FILE_NAME, NoBytes, OneFile};
pub use mount::{KIND, MountError, mount, unmount};
pub use server::Served;
pub use session::End;
