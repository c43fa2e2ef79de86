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
    or_zeros(device, at, DataMut::Bytes(buf)).await
}

/// The same, from a device that carries stamps.
///
/// # Errors
/// Any other error of the device.
pub async fn read_stamps_or_zeros<D: BlockDevice>(
    device: &D,
    at: Block,
    stamps: &mut [u64],
) -> Result<bool, IoError> {
    or_zeros(device, at, DataMut::Stamps(stamps)).await
}

async fn or_zeros<D: BlockDevice>(
    device: &D,
    at: Block,
    mut buf: DataMut<'_>,
) -> Result<bool, IoError> {
    match device.read(at, buf.reborrow()).await {
        Ok(()) => return Ok(false),
        Err(IoError::Uncorrectable(_)) => {}
        Err(e) => return Err(e),
    }
    let block = device.caps().block_size;
    for i in 0..buf.blocks(block).unwrap_or(0) as usize {
        let mut piece = buf.slice(i..i + 1, block);
        match device.read(Block(at.0 + i as u64), piece.reborrow()).await {
            Ok(()) => {}
            Err(IoError::Uncorrectable(_)) => piece.zero(),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
