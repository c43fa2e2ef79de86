//! What the kernel says of a file or a block device.

use super::IoFile;
use rustix::fs::{AtFlags, FileType, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::ops::Range;

/// `STATX_WRITE_ATOMIC`, since Linux 6.11; not among the names that rustix has.
const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x0001_0000);

/// What the kernel says of an open file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// A regular file, a block device, or neither.
    pub kind: StorageKind,
    /// Two open files with the same identity are one file, or one block device.
    pub identity: (u64, u64),
    /// Length of the file, or capacity of the block device, bytes.
    pub bytes: u64,
    /// Bytes that the file system has allocated for the file; of a block device its capacity.
    pub allocated: u64,
    /// Which direct I/O there is.
    pub direct: DirectIo,
    /// Bytes in a logical block of a block device. Of a file `None`.
    pub logical_block: Option<u32>,
    /// Bytes that the file system allocates at a time; of a block device what it likes best.
    pub preferred_block: u32,
    /// Writes that a power loss does not tear
    /// ([`WriteOptions::atomic`](super::WriteOptions::atomic)). `None`: there are none.
    pub atomic: Option<AtomicWrites>,
}

/// What an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
    /// A directory, a socket, a terminal, and so on.
    Other,
}

/// Which direct I/O a file or block device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectIo {
    /// The kernel or the file system does not say.
    Unknown,
    /// None.
    None,
    /// Buffers at multiples of `memory` bytes; offsets and lengths that are multiples of `offset`
    /// bytes.
    Aligned {
        /// Of addresses, bytes.
        memory: u32,
        /// Of offsets and lengths, bytes.
        offset: u32,
    },
}

/// The lengths of writes that can be atomic: powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicWrites {
    /// The shortest, bytes.
    pub min: u32,
    /// The longest, bytes.
    pub max: u32,
}

impl IoFile {
    /// What the kernel says of this file. The call holds up the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn storage(&self) -> io::Result<Storage> {
        let fd = &*self.fd;
        let want = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN | WRITE_ATOMIC;
        let told = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, want)?;
        let has = |flag: StatxFlags| told.stx_mask & flag.bits() != 0;
        let pair = |major: u32, minor: u32| u64::from(major) << 32 | u64::from(minor);
        let kind = match FileType::from_raw_mode(told.stx_mode.into()) {
            FileType::RegularFile => StorageKind::File,
            FileType::BlockDevice => StorageKind::BlockDevice,
            _ => StorageKind::Other,
        };
        let is_device = kind == StorageKind::BlockDevice;
        let direct = match (told.stx_dio_mem_align, told.stx_dio_offset_align) {
            _ if !has(StatxFlags::DIOALIGN) => DirectIo::Unknown,
            (0, _) | (_, 0) => DirectIo::None,
            (memory, offset) => DirectIo::Aligned { memory, offset },
        };
        let bytes = match is_device {
            // The same as `BLKGETSIZE64`.
            true => rustix::fs::seek(fd, SeekFrom::End(0))?,
            false => told.stx_size,
        };
        let (min, max) = (told.stx_atomic_write_unit_min, told.stx_atomic_write_unit_max);
        Ok(Storage {
            kind,
            identity: match is_device {
                // A block device may have several names.
                true => (u64::MAX, pair(told.stx_rdev_major, told.stx_rdev_minor)),
                false => (pair(told.stx_dev_major, told.stx_dev_minor), told.stx_ino),
            },
            bytes,
            allocated: if is_device { bytes } else { told.stx_blocks.saturating_mul(512) },
            direct,
            logical_block: match is_device {
                true => Some(rustix::fs::ioctl_blksszget(fd)?),
                false => None,
            },
            preferred_block: told.stx_blksize,
            atomic: (has(WRITE_ATOMIC) && min > 0 && max >= min)
                .then_some(AtomicWrites { min, max }),
        })
    }

    /// The next range of the file, from `offset` on, that may hold data; `None`: there are only
    /// zeros from there to its end. A file system that does not know calls everything data. The
    /// call holds up the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(&*self.fd, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        Ok(Some(start..rustix::fs::seek(&*self.fd, SeekFrom::Hole(start))?))
    }
}
