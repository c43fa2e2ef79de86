//! A device of the log, and how bytes get to it and from it.
//!
//! 1. What [`Member::write`] has written is durable when it returns: by acknowledgement, forced
//!    unit access or a flush, as the device's promises call for.
//! 2. A block that the device reports as unreadable reads as zeros, so it counts for nothing. Any
//!    other error of a read is an error.
//! 3. It remembers why a write, with its flush, failed last.

use crate::error::SEE_TO_IT;
use crate::options::Barrier;
use crate::planted::planted;
use crate::superblock::{Role, Superblock};
use crate::{OpenError, format};
use std::cell::RefCell;
use tantalum_device::{
    Block, BlockDevice, Caps, Data, DataMut, Durability, DurableBy, IoError, read_or_zeros,
};

/// A device that belongs to a log.
pub(crate) struct Member<D> {
    pub name: String,
    pub device: D,
    pub superblock: Superblock,
    pub tag: u64,
    by: DurableBy,
    cause: RefCell<Option<IoError>>,
}

/// Why something could not be read or written.
pub(crate) struct MemberError {
    pub device: String,
    pub error: IoError,
}

impl From<MemberError> for OpenError {
    fn from(e: MemberError) -> OpenError {
        OpenError::Io { device: e.device, error: e.error, or: SEE_TO_IT }
    }
}

impl From<MemberError> for crate::LogError {
    fn from(e: MemberError) -> crate::LogError {
        crate::LogError::Io { device: e.device, error: e.error }
    }
}

/// How writes to this device become durable.
fn durable_by(
    caps: &Caps,
    name: &str,
    role: Role,
    barrier: Barrier,
) -> Result<DurableBy, OpenError> {
    let Some(by) = DurableBy::of(caps) else {
        return Err(OpenError::Options(format!(
            "\"{name}\" loses what it acknowledged, and its flushes do nothing: use another device"
        )));
    };
    Ok(match (by, barrier, role) {
        (DurableBy::Ack, _, _) => by,
        (_, Barrier::Auto, Role::Archive) | (_, Barrier::Flush, _) => DurableBy::Flush,
        (_, Barrier::Auto, Role::Array) | (_, Barrier::Fua, _) => DurableBy::Fua,
    })
}

impl<D: BlockDevice> Member<D> {
    pub fn new(
        name: String,
        device: D,
        superblock: Superblock,
        barrier: Barrier,
    ) -> Result<Member<D>, OpenError> {
        let by = durable_by(device.caps(), &name, superblock.role, barrier)?;
        let tag = format::tag(&superblock.set, &superblock.device);
        Ok(Member { name, device, superblock, tag, by, cause: RefCell::default() })
    }

    /// Whether a write becomes durable by forced unit access.
    #[cfg(feature = "blocking")]
    pub fn forces_writes(&self) -> bool {
        self.by == DurableBy::Fua
    }

    pub fn failed(&self, error: IoError) -> MemberError {
        MemberError { device: self.name.clone(), error }
    }

    /// The same of a write (3).
    fn failed_for_good(&self, error: IoError) -> MemberError {
        *self.cause.borrow_mut() = Some(error.clone());
        self.failed(error)
    }

    /// Its name, and why it failed, as far as that is known.
    pub fn what_failed(&self) -> String {
        match &*self.cause.borrow() {
            Some(error) => format!("{}: {error}", self.name),
            None => self.name.clone(),
        }
    }

    fn block(&self, unit: u64) -> Block {
        Block(unit * u64::from(self.superblock.unit) / u64::from(self.device.caps().block_size))
    }

    /// Writes whole units, durably.
    pub async fn write(&self, unit: u64, bytes: &[u8]) -> Result<(), MemberError> {
        let archive = self.superblock.role == Role::Archive;
        let by = if archive && planted!(ArchiveBeforeFlush) { DurableBy::Ack } else { self.by };
        let done = by.write(&self.device, self.block(unit), Data::Bytes(bytes)).await;
        done.map_err(|e| self.failed_for_good(e))
    }

    /// Writes bytes at an offset, durably.
    pub async fn write_head(&self, offset: u64, bytes: &[u8]) -> Result<(), MemberError> {
        let done = write_head(&self.device, offset, bytes).await;
        done.map_err(|e| self.failed_for_good(e))
    }

    /// Reads whole units. What cannot be read is zeros; says which units these are.
    pub async fn read(&self, unit: u64, buf: &mut [u8]) -> Result<Vec<usize>, MemberError> {
        match self.device.read(self.block(unit), DataMut::Bytes(buf)).await {
            Ok(()) => return Ok(Vec::new()),
            Err(IoError::Uncorrectable(_)) => {}
            Err(e) => return Err(self.failed(e)),
        }
        let mut bad = Vec::new();
        for (i, piece) in buf.chunks_mut(self.superblock.unit as usize).enumerate() {
            let at = self.block(unit + i as u64);
            match self.device.read(at, DataMut::Bytes(piece)).await {
                Ok(()) => {}
                Err(IoError::Uncorrectable(_)) => {
                    piece.fill(0);
                    bad.push(i);
                }
                Err(e) => return Err(self.failed(e)),
            }
        }
        Ok(bad)
    }

    /// Makes everything durable that a read has seen or will see.
    pub async fn settle(&self) -> Result<(), MemberError> {
        if self.device.caps().ack.survives() {
            return Ok(());
        }
        self.device.flush().await.map_err(|e| self.failed(e))
    }
}

/// Writes bytes at an offset, durably; the length is a multiple of the device's blocks.
pub(crate) async fn write_head<D: BlockDevice>(
    device: &D,
    offset: u64,
    bytes: &[u8],
) -> Result<(), IoError> {
    let caps = device.caps();
    let want = if caps.ack.survives() { Durability::Normal } else { Durability::Fua };
    device.write(Block(offset / u64::from(caps.block_size)), Data::Bytes(bytes), want).await
}

/// Reads bytes at an offset; what cannot be read is zeros.
pub(crate) async fn read_head<D: BlockDevice>(
    device: &D,
    offset: u64,
    bytes: usize,
) -> Result<Vec<u8>, IoError> {
    let block = device.caps().block_size;
    let mut buf = vec![0; bytes.next_multiple_of(block as usize)];
    read_or_zeros(device, Block(offset / u64::from(block)), &mut buf).await?;
    Ok(buf)
}
