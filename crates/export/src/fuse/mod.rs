//! A drive as a file ([`OneFile`]), or the files on a drive as a directory ([`Directory`]): FUSE
//! file systems in the drive's own process.
//!
//! The kernel's requests are read, carried out and answered on the drive's own thread, by the
//! wall-clock runtime: no request has to wake another thread. A loop device on the file (with
//! direct I/O) makes a disk of it, which can have any of the kernel's file systems.
//!
//! # What users of the file can rely on (for a directory see `directory.rs`)
//!
//! 1. **Every request reaches the drive.** Nothing is kept in the page cache, with or without
//!    direct I/O.
//! 2. **`fsync` and `fdatasync`** are flushes of the device. In a directory they also make the
//!    file's length durable. Writes with `O_SYNC` or `O_DSYNC` have forced unit access.
//! 3. **A write in one piece.** With direct I/O a write of up to 1 MiB arrives as one request (the
//!    kernel splits longer ones). Up to the atomic unit it is one write of the device. A longer one
//!    is one atomic group, if acknowledged writes survive on the device and it takes groups of that
//!    length. A still longer one is split at multiples of the largest power of two within the limit
//!    of groups.
//! 4. **Holes.** Punching a hole discards. Zeroing a range discards too, unless the device is thin:
//!    then the zeros are written. Both work for parts of blocks.
//! 5. **After a cut** all requests to files that were open fail, also after the restart; or the
//!    whole connection is aborted ([`OnCut`](crate::nbd::OnCut)). A file that is opened after the
//!    restart works.
//! 6. **Exits.** A file on a cache volume takes an ioctl that tells which pages have left the memory
//!    of a program clean ([`exit_command`], `docs/cache.md`).
//!
//! # What they cannot do
//!
//! 7. Make the process hold more than 256 requests and 64 MiB of them, and as much again of
//!    answers. Further requests wait in the kernel. Memory that a burst has taken goes back to the
//!    system when it was not needed for a second.
//! 8. Bring the process down. All requests come from the kernel, and an invalid one ends the
//!    session.

mod buffers;
mod connection;
mod directory;
mod exit;
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
pub use exit::exit_command;
pub use file::{FILE_NAME, NoBytes, OneFile};
pub use mount::{KIND, MountError, mount, unmount};
pub use server::Served;
pub use session::End;
