//! How a flash device is divided.
//!
//! 1. A batch lies in the slot of its sequence number modulo the batches of the ring: parts, one
//!    behind the other. A part has a descriptor, then its frames, and is one write.
//! 2. A segment lies in the slot of its number modulo the slots. There are two more slots than a
//!    ring can touch segments. So a segment that is written lies over one that no batch of the ring
//!    needs, or over its own older copy.
//! 3. A ring that was resized has another base than 0: the batch of its first slot. Batches before
//!    that lie as in the ring of before, which began at the same place.
//! 4. All places and lengths are multiples of a page, so they are multiples of a block.
//! 5. The slots of segments have room for segments whose batches are full of frames and tombstones:
//!    [`Layout::segment_bytes`]. With another number of batches in the ring it stays the same, since
//!    frames, descriptors and batches of a segment do.

use super::descriptor::{Part, least_bytes, tombstones_in};
use super::segment::most_bytes;
use std::ops::Range;

/// Where segments begin: behind the superblocks.
const SEGMENTS_AT: u64 = 32768;
/// Frames of a batch, at most.
pub(crate) const FRAMES_MAX: u32 = 1024;
/// Batches of a ring, at least.
pub(crate) const BATCHES_MIN: u32 = 12;
/// Entries of a segment, at most.
const SEGMENT_ENTRIES: u32 = 64_000;
/// A ring has at least so many segments, so that the unfinished one is a small part of it.
const SEGMENTS_MIN: u32 = 4;

/// How many bytes a page can have, ascending: 512 bytes to 1 MiB, in powers of two.
pub fn page_sizes() -> impl Iterator<Item = u32> {
    (9..=20).map(|shift| 1 << shift)
}

/// Whether pages can have so many bytes.
pub(crate) fn is_page(bytes: u32) -> bool {
    page_sizes().any(|size| size == bytes)
}

/// The ring of before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Older {
    pub batches: u32,
    pub base: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of a page and of its frame.
    pub page: u32,
    /// Bytes of a descriptor.
    pub descriptor: u32,
    /// Frames of a batch.
    pub frames: u32,
    /// Batches of the ring.
    pub batches: u32,
    /// Batches of a segment.
    pub segment_batches: u32,
    /// Slots of segments.
    pub segments: u32,
    /// Where they begin.
    pub segments_at: u64,
    /// Where the slots of batches begin.
    pub ring_at: u64,
    /// The batch of the first slot.
    pub base: u64,
    /// Where batches before that are, while there are any.
    pub older: Option<Older>,
}

impl Layout {
    /// The largest ring that fits `bytes`. `None` if a ring of [`BATCHES_MIN`] batches does not fit,
    /// or if page and frames make no sense.
    pub fn largest(bytes: u64, page: u32, frames: u32) -> Option<Layout> {
        if !is_page(page) || !(1..=FRAMES_MAX).contains(&frames) {
            return None;
        }
        // By bisection: more batches never take less room.
        let fits = |batches: u32| Layout::of(page, frames, batches).bytes() <= bytes;
        let (mut low, mut high) = (BATCHES_MIN, u32::MAX / 2);
        if !fits(low) {
            return None;
        }
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(Layout::of(page, frames, low))
    }

    /// The division for a ring of so many batches.
    pub fn of(page: u32, frames: u32, batches: u32) -> Layout {
        let most = (SEGMENT_ENTRIES / frames).max(1);
        let segment_batches = (batches / SEGMENTS_MIN).clamp(1, most);
        let layout = Layout {
            page,
            descriptor: (least_bytes(frames) as u32).next_multiple_of(page),
            frames,
            batches,
            segment_batches,
            segments: slots_for(batches, segment_batches),
            ..Layout::default()
        };
        layout.as_made()
    }

    /// The places of a cache that was never resized, with these numbers.
    pub fn as_made(self) -> Layout {
        if !self.has_numbers() {
            // What was read may be anything.
            return self;
        }
        let segments_at = SEGMENTS_AT.next_multiple_of(u64::from(self.page).max(1));
        let slots = u64::from(self.segments).saturating_mul(self.segment_bytes() as u64);
        let ring_at = segments_at.saturating_add(slots);
        Layout { segments_at, ring_at, base: 0, older: None, ..self }
    }

    /// Whether page, frames, descriptor and segments can be like that.
    fn has_numbers(&self) -> bool {
        is_page(self.page)
            && (1..=FRAMES_MAX).contains(&self.frames)
            && self.descriptor == (least_bytes(self.frames) as u32).next_multiple_of(self.page)
            && (1..=(SEGMENT_ENTRIES / self.frames).max(1)).contains(&self.segment_batches)
    }

    /// Whether it is that of a cache that was never resized.
    pub fn is_as_made(&self) -> bool {
        *self == Layout::of(self.page, self.frames, self.batches)
    }

    /// Whether a cache can be divided like that, on a device of so many bytes.
    pub fn makes_sense(&self, bytes: u64) -> bool {
        let numbers = self.has_numbers() && (BATCHES_MIN..=u32::MAX / 2).contains(&self.batches);
        numbers && (self.is_as_made() || self.is_resized()) && self.bytes() <= bytes
    }

    /// Whether a resize can have made it, as far as numbers and places show.
    fn is_resized(&self) -> bool {
        let usual = Layout::of(self.page, self.frames, self.batches);
        let numbers = self.segments >= slots_for(self.batches, self.segment_batches)
            && self.segments <= u32::MAX / 4;
        let older = self.older.is_none_or(|older| {
            (BATCHES_MIN..=u32::MAX / 2).contains(&older.batches) && older.base <= self.base
        });
        let page = u64::from(self.page);
        let at = |at: u64| (usual.segments_at..1 << 61).contains(&at) && at.is_multiple_of(page);
        if !numbers || !older || !at(self.segments_at) || !at(self.ring_at) {
            return false;
        }
        let segments_end = self.segments_at + self.segments_bytes();
        segments_end <= self.ring_at || self.segments_at >= self.ring_end(self.batches)
    }

    /// Bytes of all slots of segments.
    fn segments_bytes(&self) -> u64 {
        u64::from(self.segments) * self.segment_bytes() as u64
    }

    fn ring_end(&self, batches: u32) -> u64 {
        self.ring_at + u64::from(batches) * self.batch_bytes() as u64
    }

    /// Bytes of the whole.
    pub fn bytes(&self) -> u64 {
        let batches = self.older.map_or(0, |older| older.batches).max(self.batches);
        self.ring_end(batches).max(self.segments_at + self.segments_bytes())
    }

    /// How it is divided when it has so many bytes: as many batches as fit. Segments stay before the
    /// ring if there is room for them, and lie behind it otherwise. `None`: these are too few bytes.
    pub fn resized(&self, bytes: u64) -> Option<Layout> {
        let of = |batches: u32| self.with_batches(batches);
        if of(BATCHES_MIN).bytes() > bytes {
            return None;
        }
        // By bisection: more batches never take less room.
        let (mut low, mut high) = (BATCHES_MIN, u32::MAX / 4);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if of(middle).bytes() <= bytes {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(of(low))
    }

    /// Bytes of the smallest ring.
    pub fn least_bytes(&self) -> u64 {
        self.with_batches(BATCHES_MIN).bytes()
    }

    fn with_batches(&self, batches: u32) -> Layout {
        let slots = slots_for(batches, self.segment_batches);
        let front = SEGMENTS_AT.next_multiple_of(self.page.into());
        let before = (self.ring_at - front) / self.segment_bytes() as u64;
        let (segments, segments_at) = match u64::from(slots) <= before {
            true => (before as u32, front),
            false => (slots, self.ring_end(batches)),
        };
        Layout { batches, segments, segments_at, older: None, ..*self }
    }

    /// While a ring grows: how many batches it has, until which batch is open.
    pub fn growing(&self) -> Option<(u64, u64)> {
        let older = self.older.filter(|older| older.batches < self.batches)?;
        Some((older.batches.into(), self.base + u64::from(older.batches)))
    }

    /// The batch that was in the slot of this one before, if there was one.
    pub fn before(&self, batch: u64) -> Option<u64> {
        match self.older {
            Some(older) if batch < self.base + u64::from(self.batches) => {
                let slot = batch.checked_sub(self.base)?;
                // The last batch before the base in this slot.
                let last = self.base.checked_sub(older.base)?.checked_sub(1)?;
                let back = (last + u64::from(older.batches) - slot % u64::from(older.batches))
                    % u64::from(older.batches);
                (slot < older.batches.into()).then(|| (older.base + last).checked_sub(back))?
            }
            _ => batch.checked_sub(self.batches.into()),
        }
    }

    /// Bytes of a batch: its descriptor and all frames.
    pub fn batch_bytes(&self) -> usize {
        self.descriptor as usize + self.frames as usize * self.page as usize
    }

    /// Where a part lies on the device that has so many frames of its batch before it.
    pub fn part_at(&self, part: Part, before: usize) -> u64 {
        let descriptors = u64::from(part.number) * u64::from(self.descriptor);
        self.batch_at(part.batch) + descriptors + before as u64 * u64::from(self.page)
    }

    /// Where a frame of this part lies on the device, counted from the first one of the batch.
    pub fn frame_at(&self, part: Part, frame: usize) -> u64 {
        self.part_at(part.next(), frame)
    }

    /// How many frames a batch can have whose last part has this number.
    pub fn frames_with(&self, part: u32) -> usize {
        let descriptors = (part as usize + 1).saturating_mul(self.descriptor as usize);
        self.batch_bytes().saturating_sub(descriptors) / self.page as usize
    }

    /// Tombstones of a batch, at most.
    pub fn tombstones(&self) -> usize {
        tombstones_in(self.descriptor as usize, self.frames)
    }

    /// Bytes of a slot of a segment.
    pub fn segment_bytes(&self) -> usize {
        let most = most_bytes(self.segment_batches, self.frames, self.tombstones());
        most.next_multiple_of(self.page as usize)
    }

    /// Where a batch lies on the device.
    pub fn batch_at(&self, batch: u64) -> u64 {
        let (base, batches) = match self.older {
            Some(older) if batch < self.base => (older.base, older.batches),
            _ => (self.base, self.batches),
        };
        self.ring_at + batch.wrapping_sub(base) % u64::from(batches) * self.batch_bytes() as u64
    }

    /// Where a segment lies on the device.
    pub fn segment_at(&self, segment: u64) -> u64 {
        self.segments_at + segment % u64::from(self.segments) * self.segment_bytes() as u64
    }

    /// The segment of a batch.
    pub fn segment_of(&self, batch: u64) -> u64 {
        batch / u64::from(self.segment_batches)
    }

    /// The batches of a segment.
    pub fn batches_of(&self, segment: u64) -> Range<u64> {
        let each = u64::from(self.segment_batches);
        segment * each..(segment + 1) * each
    }
}

/// Slots for the segments of a ring of so many batches.
fn slots_for(batches: u32, segment_batches: u32) -> u32 {
    batches.div_ceil(segment_batches.max(1)).max(SEGMENTS_MIN + 1) + 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_never_overlap(shift in 9..14u32, frames in 1..130u32, batches in 12..300u32) {
            let layout = Layout::of(1 << shift, frames, batches);
            let bytes = layout.bytes();
            prop_assert!(layout.makes_sense(bytes) && !layout.makes_sense(bytes - 1));
            prop_assert_eq!(Layout::largest(bytes, 1 << shift, frames), Some(layout));
            let segment = (0..u64::from(layout.segments))
                .map(|s| (layout.segment_at(s), layout.segment_bytes() as u64));
            let batch =
                (0..u64::from(batches)).map(|b| (layout.batch_at(b), layout.batch_bytes() as u64));
            let mut end = SEGMENTS_AT;
            for (at, length) in segment.chain(batch) {
                prop_assert!(at >= end && at % (1 << shift) == 0);
                end = at + length;
            }
            prop_assert_eq!(end, bytes);
            // A full ring never needs two segments of one slot.
            for first in 0..u64::from(3 * batches) {
                let last = first + u64::from(batches);
                prop_assert!(
                    layout.segment_of(last) - layout.segment_of(first) < layout.segments.into()
                );
            }
            prop_assert!(layout.tombstones() >= 4);
        }
    }

    #[test]
    fn what_makes_no_sense_has_no_layout() {
        assert_eq!(Layout::largest(1 << 30, 100, 64), None);
        assert_eq!(Layout::largest(1 << 30, 4096, 0), None);
        assert_eq!(Layout::largest(1 << 20, 4096, 64), None);
        assert_eq!(Layout::largest(1 << 30, 3000, 64), None);
        let real = Layout::largest(10 << 30, 4096, 64).unwrap();
        assert_eq!((real.descriptor, real.segment_batches), (4096, 1000));
        assert!(real.segment_bytes() < 4 << 20, "{}", real.segment_bytes());
        assert!(real.batches > 39_000);
    }
}
