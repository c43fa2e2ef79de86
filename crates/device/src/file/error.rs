//! Errors of opening a file as a device, and what an error of the host means for a command.

use crate::{Block, IoError};
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use tantalum_rt::wall::IoFile;

/// Why a file or block device could not be opened, or a file not be made.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The runtime is on the virtual clock: no file can be reached from there.
    #[error("a file needs a runtime on the wall clock")]
    VirtualClock,
    /// The system's error.
    #[error("{}: {what}: {source}{}", path.display(), advice(source))]
    System {
        /// Which file.
        path: PathBuf,
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Another owner has it: another process, or another [`File`](super::File) of this one.
    #[error("{}: it is in use already: end the process that uses it, or name another file", .0.display())]
    InUse(PathBuf),
    /// The file is that of a loop device, which somebody else may use.
    #[error(
        "{}: it is the file of {device}: name that, or detach it (`losetup -d {device}`)",
        path.display()
    )]
    UnderLoop {
        /// Which file.
        path: PathBuf,
        /// The loop device.
        device: String,
    },
    /// The kernel uses the block device: it is mounted, for example.
    #[error("{}: the block device is in use: unmount it, or take it out of its array", .0.display())]
    Claimed(PathBuf),
    /// It is a directory, a socket, and so on.
    #[error("{}: neither a regular file nor a block device: name one", .0.display())]
    NoStorage(PathBuf),
    /// The file system has no direct I/O.
    #[error(
        "{}: no direct I/O there: use another file system, or switch direct I/O off",
        .0.display()
    )]
    NoDirectIo(PathBuf),
    /// The file cannot be used in blocks of this size.
    #[error(
        "{}: blocks of {block_size} bytes: a power of two from {least} to {most} is needed: \
         choose one",
        path.display()
    )]
    BlockSize {
        /// Which file.
        path: PathBuf,
        /// What was asked for, bytes.
        block_size: u32,
        /// The smallest block, bytes.
        least: u32,
        /// The largest block, bytes.
        most: u32,
    },
    /// The length is not a whole number of blocks, or zero.
    #[error(
        "{}: {bytes} bytes are not a whole number of blocks of {block_size} bytes, at least one: give \
         it another length, or use another file",
        path.display()
    )]
    Length {
        /// Which file.
        path: PathBuf,
        /// The length, bytes.
        bytes: u64,
        /// Bytes in a block.
        block_size: u32,
    },
    /// Another file is at the path now, or the file has another length.
    #[error("{}: it is not the file that was opened first, or has another length", .0.display())]
    Replaced(PathBuf),
}

/// What a failed read of the block at `at` means.
pub(super) fn of_read(e: &io::Error, at: Block) -> IoError {
    match errno(e) {
        Some(Errno::IO | Errno::ILSEQ | Errno::BADMSG | Errno::UCLEAN) => {
            IoError::Uncorrectable(at)
        }
        _ => of_command(e),
    }
}

/// Whether there may be room for so many bytes more. A system that is asked for too many takes what
/// there is, for a while, and others have none.
pub(super) fn check_room(file: &IoFile, more: u64) -> io::Result<()> {
    match file.room() {
        Some(room) if room < more => Err(Errno::NOSPC.into()),
        _ => Ok(()),
    }
}

/// Whether there is no room.
pub(super) fn is_full(e: &io::Error) -> bool {
    matches!(errno(e), Some(Errno::NOSPC | Errno::DQUOT))
}

/// What any other failure means.
pub(super) fn of_command(e: &io::Error) -> IoError {
    IoError::Failed(match errno(e) {
        _ if e.kind() == io::ErrorKind::WriteZero => "the host took a part of a write only",
        Some(Errno::NOSPC) => "the host's file system is full: a part may have been written",
        Some(Errno::DQUOT) => "the quota on the host is used up: a part may have been written",
        Some(Errno::ROFS) => "the host's file system can only be read",
        Some(Errno::PERM | Errno::ACCESS | Errno::BADF) => "the host denies the command",
        Some(Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM | Errno::STALE | Errno::NOTCONN) => {
            "the device below is gone"
        }
        Some(Errno::INVAL) => "the host refuses direct I/O in blocks of this size",
        Some(Errno::FBIG) => "the file would be larger than the host allows",
        Some(Errno::IO) => "input/output error of the device below",
        Some(Errno::OPNOTSUPP) => "the host cannot do this on this file",
        Some(Errno::CANCELED) => "the runtime ended",
        _ => "the host failed the command",
    })
}

fn errno(e: &io::Error) -> Option<Errno> {
    Errno::from_io_error(e)
}
/// What to do about an error of the system, where that is the same everywhere.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": run this as a user who may, or name another",
        _ => "",
    }
}
