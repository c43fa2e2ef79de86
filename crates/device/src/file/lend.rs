//! A file lent to other threads, for durable writes that block.
//!
//! 1. Such a write is durable when it returns: `RWF_DSYNC`, for each part if the kernel takes it in
//!    several.
//! 2. If one fails, the device is poisoned as by a failed forced write of its own, and the other
//!    way round.
//! 3. After a cut nothing more is written. A write under way is not waited for.
//! 4. The lock of the file is held as long as a [`FileWriter`] is there.

use super::{File, error};
use crate::{Block, Caps, IoError};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tantalum_rt::wall::AlignedBuf;

/// Whether a device still takes writes, while it has power and after.
#[derive(Default)]
pub(super) struct Fate(AtomicU8);

const POISONED: u8 = 1;
const ENDED: u8 = 2;

impl Fate {
    pub fn is_poisoned(&self) -> bool {
        self.0.load(Ordering::Acquire) & POISONED != 0
    }

    pub fn poison(&self) {
        self.0.fetch_or(POISONED, Ordering::AcqRel);
    }

    /// The power is off.
    pub fn end(&self) {
        self.0.fetch_or(ENDED, Ordering::AcqRel);
    }

    fn check(&self) -> Result<(), IoError> {
        match self.0.load(Ordering::Acquire) {
            0 => Ok(()),
            fate if fate & ENDED != 0 => Err(IoError::PowerLost),
            _ => Err(IoError::Poisoned),
        }
    }
}

/// Durable writes to a file or block device from any thread; see [`File::lend`].
pub struct FileWriter {
    data: OwnedFd,
    /// Has the lock.
    _owner: OwnedFd,
    caps: Caps,
    disk: u64,
    fate: Arc<Fate>,
}

impl File {
    /// Lends the file for durable writes that block the calling thread, whichever that is. It lasts
    /// until the power is cut. `None`: the file is read only or has no power, its writes are atomic
    /// in blocks, or there are no more descriptors.
    pub fn lend(&self) -> Option<FileWriter> {
        let life = self.life.as_ref()?;
        if self.inner.settings.read_only || self.inner.atomic.is_some() {
            return None;
        }
        Some(FileWriter {
            data: life.data.duplicate().ok()?,
            _owner: self.inner.owner.duplicate().ok()?,
            caps: *self.inner.caps(),
            disk: match self.inner.is_file {
                true => self.inner.identity.0,
                false => self.inner.identity.1,
            },
            fate: life.fate.clone(),
        })
    }
}

impl FileWriter {
    /// Files of one file system have the same number; each block device has one of its own.
    pub fn disk(&self) -> u64 {
        self.disk
    }

    /// Writes whole blocks. They are durable when this returns.
    ///
    /// # Errors
    /// [`IoError::Invalid`] for parts of blocks or blocks beyond the end, [`IoError::PowerLost`]
    /// after a cut, [`IoError::Poisoned`] after a durability step failed, or
    /// [`IoError::Failed`], which is such a failure: any part may have been written.
    pub fn write(&self, at: Block, bytes: &AlignedBuf) -> Result<(), IoError> {
        let size = self.caps.block_size;
        let blocks = (bytes.len() as u64).is_multiple_of(size.into());
        let blocks = blocks.then_some(bytes.len() as u64 / u64::from(size));
        self.caps.check(at, self.caps.payload, blocks)?;
        self.fate.check()?;
        let (mut offset, mut rest) = (at.0 * u64::from(size), &bytes[..]);
        while !rest.is_empty() {
            let part = [IoSlice::new(rest)];
            let written = pwritev2(&self.data, &part, offset, ReadWriteFlags::DSYNC);
            let count = match written {
                Err(Errno::INTR) => continue,
                // Direct I/O could not go on between two blocks.
                Ok(count) if count > 0 && (count as u64).is_multiple_of(512) => Ok(count),
                Ok(count) if count == rest.len() => Ok(count),
                Ok(_) => Err(std::io::ErrorKind::WriteZero.into()),
                Err(e) => Err(std::io::Error::from(e)),
            };
            let count = count.map_err(|e| {
                self.fate.poison();
                error::of_command(&e)
            })?;
            offset += count as u64;
            rest = &rest[count..];
        }
        Ok(())
    }
}
