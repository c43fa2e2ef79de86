//! The flash device of a cache: its pieces by their bytes.
//!
//! 1. What is written is durable when the call returns.
//! 2. What the device reports as unreadable reads as zeros, so it has no checksum that fits.
//! 3. Pages are as they are in memory, on a device of stamps, too (`carrier.rs`).

use crate::flash::carrier::{Beside, Carrier};
use crate::flash::error::OpenError;
use crate::flash::format::{
    COPIES, Descriptor, HEAD_BYTES, Layout, Segment, Superblock, write_order,
};
use std::cell::Cell;
use std::ops::Range;
use tantalum_device::{BlockDevice, DurableBy, IoError};

pub(crate) struct Medium<F> {
    device: F,
    by: DurableBy,
    beside: Beside,
    /// How the device is divided now.
    layout: Cell<Layout>,
    pub tag: u64,
}

/// Whether a device can carry a cache.
pub(crate) fn check_device<F: BlockDevice>(device: &F) -> Result<DurableBy, OpenError> {
    let caps = device.caps();
    let wrong = |what: &str| Err(OpenError::Unsuitable(format!("the flash device {what}")));
    if caps.thin {
        return wrong("is thinly provisioned and may refuse pages: use another");
    }
    if u64::from(caps.block_size) > COPIES[1] || !COPIES[1].is_multiple_of(caps.block_size.into()) {
        return wrong("has blocks that do not divide 16384 bytes: use another");
    }
    let heads = COPIES[1] + HEAD_BYTES as u64;
    if caps.bytes() < heads {
        let bytes = caps.bytes();
        return wrong(&format!(
            "has {bytes} bytes, and the superblocks of a cache alone take {heads}: use a larger device"
        ));
    }
    match DurableBy::of(caps) {
        Some(by) => Ok(by),
        None => wrong("loses what it acknowledged, and its flushes do nothing: use another"),
    }
}

/// The beginning of the device, with both copies of the superblock.
pub(crate) async fn read_heads<D: BlockDevice>(on: &Carrier<'_, D>) -> Result<Vec<u8>, IoError> {
    let block = on.device.caps().block_size as usize;
    let mut heads = vec![0; (COPIES[1] as usize + HEAD_BYTES).next_multiple_of(block)];
    on.read_records(0, &mut heads).await?;
    Ok(heads)
}

/// Writes both copies of the superblock, one after the other, the newest whole one last.
pub(crate) async fn write_heads<D: BlockDevice>(
    on: &Carrier<'_, D>,
    head: &[u8; HEAD_BYTES],
) -> Result<(), IoError> {
    let heads = read_heads(on).await?;
    for at in write_order(&heads, Superblock::decode, |s| s.generation) {
        write_head(on, at, head).await?;
    }
    Ok(())
}

/// Writes one copy.
pub(crate) async fn write_head<D: BlockDevice>(
    on: &Carrier<'_, D>,
    at: u64,
    head: &[u8],
) -> Result<(), IoError> {
    let block = on.device.caps().block_size as usize;
    let mut bytes = vec![0; HEAD_BYTES.next_multiple_of(block)];
    bytes[..head.len()].copy_from_slice(head);
    on.write_record(at, &bytes, bytes.len()).await
}

impl<F: BlockDevice> Medium<F> {
    pub fn new(device: F, by: DurableBy, beside: Beside, layout: Layout, tag: u64) -> Medium<F> {
        Medium { device, by, beside, layout: Cell::new(layout), tag }
    }

    /// How the device is divided now.
    pub fn layout(&self) -> Layout {
        self.layout.get()
    }

    /// It is divided in another way from now on.
    pub fn set_layout(&self, layout: Layout) {
        self.layout.set(layout);
    }

    /// Bytes of the device.
    pub fn bytes(&self) -> u64 {
        self.device.caps().bytes()
    }

    fn on(&self) -> Carrier<'_, F> {
        Carrier { device: &self.device, by: self.by, beside: &self.beside }
    }

    /// Bytes of a page in memory (3).
    pub fn page(&self) -> usize {
        self.on().memory(self.layout().page.into())
    }

    /// Bytes on the device of frames that have so many bytes in memory.
    pub fn frame_bytes(&self, bytes: usize) -> u64 {
        (bytes / self.page()) as u64 * u64::from(self.layout().page)
    }

    /// Where the frame is in the bytes of its batch in memory.
    pub fn frame_in_batch(&self, frame: usize) -> Range<usize> {
        let at = self.layout().descriptor as usize + frame * self.page();
        at..at + self.page()
    }

    /// Whether commands reach the device.
    pub fn is_alive(&self) -> bool {
        self.device.is_alive()
    }

    pub async fn write_superblock(&self, superblock: &Superblock) -> Result<(), IoError> {
        write_heads(&self.on(), &superblock.encode()).await
    }

    /// Writes a whole batch, in one write.
    pub async fn write_batch(&self, batch: u64, bytes: &[u8]) -> Result<(), IoError> {
        let (at, descriptor) = (self.layout().batch_at(batch), self.layout().descriptor as usize);
        self.on().write_record(at, bytes, descriptor).await
    }

    /// The descriptor of this batch, if its slot has it.
    pub async fn read_descriptor(&self, batch: u64) -> Result<Option<Descriptor>, IoError> {
        let mut bytes = vec![0; self.layout().descriptor as usize];
        self.on().read_records(self.layout().batch_at(batch), &mut bytes).await?;
        Ok(Descriptor::decode(self.tag, batch, &bytes))
    }

    /// The frames of a batch, in one read.
    pub async fn read_frames(&self, batch: u64, frames: usize) -> Result<Vec<u8>, IoError> {
        let mut bytes = vec![0; frames * self.page()];
        self.on().read_pages_or_zeros(self.layout().frame_at(batch, 0), &mut bytes).await?;
        Ok(bytes)
    }

    /// One frame, or neighbours from this one on.
    pub async fn read_frame(
        &self,
        batch: u64,
        frame: usize,
        buf: &mut [u8],
    ) -> Result<(), IoError> {
        self.on().read_pages_or_zeros(self.layout().frame_at(batch, frame), buf).await
    }

    /// Writes a segment.
    pub async fn write_segment(&self, segment: &Segment) -> Result<(), IoError> {
        let mut bytes = segment.encode(self.tag);
        bytes.resize(bytes.len().next_multiple_of(self.layout().page as usize), 0);
        let at = self.layout().segment_at(segment.number);
        self.on().write_record(at, &bytes, bytes.len()).await
    }

    /// The segment in a slot, if there is one.
    pub async fn read_segment(&self, slot: u64) -> Result<Option<Segment>, IoError> {
        let mut bytes = vec![0; self.layout().segment_bytes()];
        self.on().read_records(self.layout().segment_at(slot), &mut bytes).await?;
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
