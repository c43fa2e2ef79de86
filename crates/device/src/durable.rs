//! Writes that are durable when they return, on any device that can promise that.
//!
//! 1. What [`DurableBy::write`] has written is durable when it returns: by acknowledgement, forced
//!    unit access or a flush, as the device's promises call for.

use crate::{Block, BlockDevice, Caps, Data, DataMut, Durability, IoError};

/// How a write of a device becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableBy {
    /// By its acknowledgement.
    Ack,
    /// By forced unit access.
    Fua,
    /// By a flush behind it.
    Flush,
}

impl DurableBy {
    /// How a single write becomes durable on a device with these promises. `None`: it loses what it
    /// acknowledged, and its flushes do nothing. Forced unit access would hold, but nothing makes
    /// sure that what a restart has read stays.
    pub fn of(caps: &Caps) -> Option<DurableBy> {
        match (caps.ack.survives(), caps.flush) {
            (true, _) => Some(DurableBy::Ack),
            (false, true) => Some(DurableBy::Fua),
            (false, false) => None,
        }
    }

    /// Writes whole blocks, durably.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn write<D: BlockDevice>(
        self,
        device: &D,
        at: Block,
        data: Data<'_>,
    ) -> Result<(), IoError> {
        let want = if self == DurableBy::Fua { Durability::Fua } else { Durability::Normal };
        device.write(at, data, want).await?;
        if self == DurableBy::Flush { device.flush().await } else { Ok(()) }
    }
}

/// Reads whole blocks. Those that the device reports as unreadable are zeros in `buf`; returns
/// whether there were any.
///
/// # Errors
/// Any other error of the device.
pub async fn read_or_zeros<D: BlockDevice>(
    device: &D,
    at: Block,
    buf: &mut [u8],
) -> Result<bool, IoError> {
    match device.read(at, DataMut::Bytes(buf)).await {
        Ok(()) => return Ok(false),
        Err(IoError::Uncorrectable(_)) => {}
        Err(e) => return Err(e),
    }
    let block = device.caps().block_size as usize;
    for (i, piece) in buf.chunks_mut(block).enumerate() {
        let at = Block(at.0 + i as u64);
        match device.read(at, DataMut::Bytes(piece)).await {
            Ok(()) => {}
            Err(IoError::Uncorrectable(_)) => piece.fill(0),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
