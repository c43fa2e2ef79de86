//! The flash device of a cache: its pieces by their bytes.
//!
//! 1. What is written is durable when the call returns.
//! 2. What the device reports as unreadable reads as zeros, so it has no checksum that fits.
//! 3. Pages are as they are in memory, on a device of stamps, too (`carrier.rs`).

use crate::flash::carrier::{Beside, Carrier};
use crate::flash::error::OpenError;
use crate::flash::format::{
    COPIES, Descriptor, HEAD_BYTES, Layout, Part, Segment, SegmentBatch, Superblock, write_order,
};
use std::cell::Cell;
use std::ops::Range;
use tantalum_device::{BlockDevice, DurableBy, IoError};
use tantalum_rt::join_all;

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

    /// Where a frame of a part is in the bytes of the part in memory.
    pub fn frame_in_part(&self, frame: usize) -> Range<usize> {
        let at = self.layout().descriptor as usize + frame * self.page();
        at..at + self.page()
    }

    /// Whether commands reach the device.
    pub fn is_alive(&self) -> bool {
        self.device.is_alive()
    }

    /// Bytes of both copies of the superblock, as they are written.
    pub fn superblock_bytes(&self) -> u64 {
        let block = self.device.caps().block_size as usize;
        2 * HEAD_BYTES.next_multiple_of(block) as u64
    }

    pub async fn write_superblock(&self, superblock: &Superblock) -> Result<(), IoError> {
        write_heads(&self.on(), &superblock.encode()).await
    }

    /// Writes a whole part, which has so many frames of its batch before it, in one write.
    pub async fn write_part(&self, part: Part, before: usize, bytes: &[u8]) -> Result<(), IoError> {
        let layout = self.layout();
        self.on()
            .write_record(layout.part_at(part, before), bytes, layout.descriptor as usize)
            .await
    }

    /// The descriptor at this place in the slot of a batch, if there is one of that batch.
    pub async fn read_descriptor(
        &self,
        batch: u64,
        at: u64,
    ) -> Result<Option<Descriptor>, IoError> {
        let mut bytes = vec![0; self.layout().descriptor as usize];
        self.on().read_records(at, &mut bytes).await?;
        let found = Descriptor::decode(self.tag, batch, &bytes);
        Ok(found.filter(|d| self.is_at(d, at)))
    }

    /// The descriptors of parts of a batch that lie behind this place in its slot, wherever: one read.
    pub async fn read_behind(&self, batch: u64, at: u64) -> Result<Vec<Descriptor>, IoError> {
        let layout = self.layout();
        let (page, room) = (layout.page as usize, layout.descriptor as usize);
        let from = at + u64::from(layout.page);
        let end = layout.batch_at(batch) + layout.batch_bytes() as u64;
        let mut bytes = vec![0; end.saturating_sub(from) as usize];
        if bytes.len() < room {
            return Ok(Vec::new());
        }
        self.on().read_records(from, &mut bytes).await?;
        let places = (0..=bytes.len() - room).step_by(page);
        let found = places.filter_map(|i| {
            let found = Descriptor::decode(self.tag, batch, &bytes[i..i + room]);
            found.filter(|d| self.is_at(d, from + i as u64))
        });
        Ok(found.collect())
    }

    /// Whether a descriptor belongs to this place. (A page may have the bytes of another one.)
    fn is_at(&self, d: &Descriptor, at: u64) -> bool {
        let layout = self.layout();
        let (number, end) = (d.part.number, d.end());
        let fits = end <= layout.frames_with(number);
        let goes_on = !d.more || end < layout.frames_with(number + 1);
        layout.part_at(d.part, d.before) == at && fits && goes_on
    }

    /// The frames of a part that has these frames of its batch, in one read.
    pub async fn read_part(&self, part: Part, frames: Range<usize>) -> Result<Vec<u8>, IoError> {
        let mut bytes = vec![0; frames.len() * self.page()];
        self.read_run(part, frames.start, &mut bytes).await?;
        Ok(bytes)
    }

    /// The frames of a batch.
    pub async fn read_batch(&self, batch: u64, content: &SegmentBatch) -> Result<Vec<u8>, IoError> {
        let parts = content.frames_of_parts().zip(0..).filter(|(frames, _)| !frames.is_empty());
        let reads = parts.map(|(frames, number)| self.read_part(Part { batch, number }, frames));
        let read =
            join_all(reads.collect()).await.into_iter().collect::<Result<Vec<_>, IoError>>()?;
        Ok(read.concat())
    }

    /// A frame, or neighbours in a part from this frame of the batch on.
    pub async fn read_run(&self, part: Part, frame: usize, buf: &mut [u8]) -> Result<(), IoError> {
        self.on().read_pages_or_zeros(self.layout().frame_at(part, frame), buf).await
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
