//! The flash device of a cache: its pieces by their bytes.
//!
//! 1. What is written is durable when the call returns.
//! 2. What the device reports as unreadable reads as zeros, so it has no checksum that fits.

use crate::flash::error::OpenError;
use crate::flash::format::{COPIES, Descriptor, HEAD_BYTES, Layout, Segment, Superblock};
use tantalum_device::{Block, BlockDevice, Data, DurableBy, IoError, Payload, read_or_zeros};

pub(crate) struct Medium<F> {
    device: F,
    by: DurableBy,
    pub layout: Layout,
    pub tag: u64,
}

/// Whether a device can carry a cache.
pub(crate) fn check_device<F: BlockDevice>(device: &F) -> Result<DurableBy, OpenError> {
    let caps = device.caps();
    let wrong = |what: &str| Err(OpenError::Unsuitable(format!("the flash device {what}")));
    if caps.payload != Payload::Bytes {
        return wrong("carries stamps: use a device that stores bytes");
    }
    if caps.thin {
        return wrong("is thinly provisioned and may refuse pages: use another");
    }
    if u64::from(caps.block_size) > COPIES[1] || !COPIES[1].is_multiple_of(caps.block_size.into()) {
        return wrong("has blocks that do not divide 16384 bytes: use another");
    }
    match DurableBy::of(caps) {
        Some(by) => Ok(by),
        None => wrong("loses what it acknowledged, and its flushes do nothing: use another"),
    }
}

/// The beginning of the device, with both copies of the superblock.
pub(crate) async fn read_heads<F: BlockDevice>(device: &F) -> Result<Vec<u8>, IoError> {
    let block = device.caps().block_size as usize;
    let mut heads = vec![0; (COPIES[1] as usize + HEAD_BYTES).next_multiple_of(block)];
    read_or_zeros(device, Block(0), &mut heads).await?;
    Ok(heads)
}

/// Writes both copies, one after the other.
pub(crate) async fn write_heads<F: BlockDevice>(
    device: &F,
    by: DurableBy,
    superblock: &Superblock,
) -> Result<(), IoError> {
    let block = device.caps().block_size as usize;
    let mut bytes = vec![0; HEAD_BYTES.next_multiple_of(block)];
    bytes[..HEAD_BYTES].copy_from_slice(&superblock.encode());
    for at in COPIES {
        by.write(device, Block(at / block as u64), Data::Bytes(&bytes)).await?;
    }
    Ok(())
}

impl<F: BlockDevice> Medium<F> {
    pub fn new(device: F, by: DurableBy, layout: Layout, tag: u64) -> Medium<F> {
        Medium { device, by, layout, tag }
    }

    fn block(&self, byte: u64) -> Block {
        Block(byte / u64::from(self.device.caps().block_size))
    }

    async fn read(&self, byte: u64, buf: &mut [u8]) -> Result<(), IoError> {
        read_or_zeros(&self.device, self.block(byte), buf).await.map(drop)
    }

    /// Whether commands reach the device.
    pub fn is_alive(&self) -> bool {
        self.device.is_alive()
    }

    pub async fn write_superblock(&self, superblock: &Superblock) -> Result<(), IoError> {
        write_heads(&self.device, self.by, superblock).await
    }

    /// Writes a whole batch, in one write.
    pub async fn write_batch(&self, batch: u64, bytes: &[u8]) -> Result<(), IoError> {
        let at = self.block(self.layout.batch_at(batch));
        self.by.write(&self.device, at, Data::Bytes(bytes)).await
    }

    /// The descriptor of this batch, if its slot has it.
    pub async fn read_descriptor(&self, batch: u64) -> Result<Option<Descriptor>, IoError> {
        let mut bytes = vec![0; self.layout.descriptor as usize];
        self.read(self.layout.batch_at(batch), &mut bytes).await?;
        Ok(Descriptor::decode(self.tag, batch, &bytes))
    }

    /// The frames of a batch, in one read.
    pub async fn read_frames(&self, batch: u64, frames: usize) -> Result<Vec<u8>, IoError> {
        let mut bytes = vec![0; frames * self.layout.page as usize];
        let at = self.layout.batch_at(batch) + u64::from(self.layout.descriptor);
        self.read(at, &mut bytes).await?;
        Ok(bytes)
    }

    /// One frame.
    pub async fn read_frame(
        &self,
        batch: u64,
        frame: usize,
        buf: &mut [u8],
    ) -> Result<(), IoError> {
        let at = self.layout.batch_at(batch) + self.layout.frame_in_batch(frame).start as u64;
        self.read(at, buf).await
    }

    /// Writes a segment.
    pub async fn write_segment(&self, segment: &Segment) -> Result<(), IoError> {
        let mut bytes = segment.encode(self.tag);
        bytes.resize(bytes.len().next_multiple_of(self.layout.page as usize), 0);
        let at = self.block(self.layout.segment_at(segment.number));
        self.by.write(&self.device, at, Data::Bytes(&bytes)).await
    }

    /// The segment in a slot, if there is one.
    pub async fn read_segment(&self, slot: u64) -> Result<Option<Segment>, IoError> {
        let mut bytes = vec![0; self.layout.segment_bytes()];
        self.read(self.layout.segment_at(slot), &mut bytes).await?;
        Ok(Segment::decode(self.tag, &bytes))
    }

    /// Makes everything durable that a read has seen or will see.
    pub async fn settle(&self) -> Result<(), IoError> {
        if self.by == DurableBy::Ack {
            return Ok(());
        }
        self.device.flush().await
    }
}
