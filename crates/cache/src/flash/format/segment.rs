//! A segment: the directory's entries of some batches, in one piece, so that a restart reads few
//! large pieces.
//!
//! ```text
//! segment                                  batch
//!   0  4 CRC-32C of bytes 4 to length - 1   0  2 n, frames
//!   4  4 length: bytes that mean something  2  2 m, tombstones
//!   8  8 tag of the cache                   4  2 k, parts but the first
//!  16  8 number of the segment              6  2 zeros
//!  24  8 epoch                              8 24n frames, as in a descriptor; flag 4:
//!  32  8 first batch                              referenced
//!  40  8 front: the first batch that counts  . 24m tombstones, as in a descriptor
//!  48  4 batches                            .  2k frames before each part but the first
//!  52  1 flags: 1 the last batch goes on
//!  53 11 zeros
//!  64  . batches
//! ```
//!
//! 1. All batches of a segment were durable before it was written. If the last one goes on, so were
//!    the parts that it has here.
//! 2. An entry that is not dirty here was on the slow store, durably, before the segment was
//!    written.
//! 3. What lies behind its length in its slot means nothing, and has no checksum.

use super::bytes::{COUNT_END, is_sealed, number, put, seal};
use super::descriptor::{ENTRY, Frame, Part, Tombstone};
use std::ops::Range;

const HEAD: usize = 64;
const BATCH: usize = 8;
const PART: usize = 2;
const REFERENCED: u8 = 4;
const GOES_ON: u8 = 1;

/// What one batch holds, and of each frame whether it was referenced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentBatch {
    pub frames: Vec<(Frame, bool)>,
    pub tombstones: Vec<Tombstone>,
    /// Of each part but the first, how many frames are before it; ascending.
    pub parts: Vec<usize>,
}

impl SegmentBatch {
    /// The part that has this frame.
    pub fn part_of(&self, frame: usize) -> u32 {
        self.parts.partition_point(|before| *before <= frame) as u32
    }

    /// Frames before this part; all, if it has not begun.
    pub fn frames_before(&self, part: u32) -> usize {
        match part {
            0 => 0,
            _ => self.parts.get(part as usize - 1).copied().unwrap_or(self.frames.len()),
        }
    }

    /// What the parts before this one have; of tombstones all, so this is for parts behind which
    /// nothing has come.
    pub fn before(&self, part: u32) -> SegmentBatch {
        let frames = self.frames_before(part);
        let begins = (part as usize).saturating_sub(1).min(self.parts.len());
        SegmentBatch {
            frames: self.frames[..frames].to_vec(),
            tombstones: self.tombstones.clone(),
            parts: self.parts[..begins].to_vec(),
        }
    }

    /// The frames of each part.
    pub fn frames_of_parts(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let begins = std::iter::once(0).chain(self.parts.iter().copied());
        let ends = self.parts.iter().copied().chain(std::iter::once(self.frames.len()));
        begins.zip(ends).map(|(begin, end)| begin..end)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub number: u64,
    pub epoch: u64,
    pub first: u64,
    pub front: u64,
    pub batches: Vec<SegmentBatch>,
    /// The last batch has other parts behind those here.
    pub goes_on: bool,
}

/// Bytes of a segment, at most. (Each part but the first takes the room of a frame at least, and less
/// here.)
pub(super) fn most_bytes(batches: u32, frames: u32, tombstones: usize) -> usize {
    HEAD + batches as usize * (BATCH + ENTRY * (frames as usize + tombstones))
}

impl Segment {
    /// The batch behind the last one.
    pub fn end(&self) -> u64 {
        self.first + self.batches.len() as u64
    }

    /// Everything before this part is durable.
    pub fn durable(&self) -> Part {
        match self.batches.last() {
            Some(last) if self.goes_on => {
                Part { batch: self.end() - 1, number: last.parts.len() as u32 + 1 }
            }
            _ => Part::first(self.end()),
        }
    }

    /// Its bytes.
    pub fn encode(&self, tag: u64) -> Vec<u8> {
        let bytes = |b: &SegmentBatch| {
            BATCH + ENTRY * (b.frames.len() + b.tombstones.len()) + PART * b.parts.len()
        };
        let length = HEAD + self.batches.iter().map(bytes).sum::<usize>();
        let mut b = vec![0; length];
        put::<4>(&mut b, 4, length as u64);
        put::<8>(&mut b, 8, tag);
        put::<8>(&mut b, 16, self.number);
        put::<8>(&mut b, 24, self.epoch);
        put::<8>(&mut b, 32, self.first);
        put::<8>(&mut b, 40, self.front);
        put::<4>(&mut b, 48, self.batches.len() as u64);
        b[52] = u8::from(self.goes_on) * GOES_ON;
        let mut rest = &mut b[HEAD..];
        for batch in &self.batches {
            let (here, behind) = rest.split_at_mut(bytes(batch));
            put::<2>(here, 0, batch.frames.len() as u64);
            put::<2>(here, 2, batch.tombstones.len() as u64);
            put::<2>(here, 4, batch.parts.len() as u64);
            let (frames, rest_of) = here[BATCH..].split_at_mut(ENTRY * batch.frames.len());
            let (tombstones, parts) = rest_of.split_at_mut(ENTRY * batch.tombstones.len());
            parts
                .chunks_exact_mut(PART)
                .zip(&batch.parts)
                .for_each(|(b, n)| put::<2>(b, 0, *n as u64));
            for (b, (frame, referenced)) in frames.chunks_exact_mut(ENTRY).zip(&batch.frames) {
                b[20] = u8::from(*referenced) * REFERENCED;
                frame.put(b);
            }
            tombstones.chunks_exact_mut(ENTRY).zip(&batch.tombstones).for_each(|(b, t)| t.put(b));
            rest = behind;
        }
        seal(&mut b);
        b
    }

    /// The segment in `b`, whichever it is, if one is there.
    pub fn decode(tag: u64, b: &[u8]) -> Option<Segment> {
        let length = if b.len() < HEAD { 0 } else { number::<4>(b, 4) as usize };
        if length < HEAD || length > b.len() || !is_sealed(&b[..length]) {
            return None;
        }
        if number::<8>(b, 8) != tag {
            return None;
        }
        let mut rest = &b[HEAD..length];
        let mut batches = Vec::new();
        for _ in 0..number::<4>(b, 48) {
            let (batch, behind) = take_batch(rest)?;
            batches.push(batch);
            rest = behind;
        }
        let found = Segment {
            number: number::<8>(b, 16),
            epoch: number::<8>(b, 24),
            first: number::<8>(b, 32),
            front: number::<8>(b, 40),
            batches,
            goes_on: b[52] & GOES_ON != 0,
        };
        let counts = [found.number, found.epoch, found.first, found.front];
        let sane = rest.is_empty() && counts.iter().all(|n| *n < COUNT_END);
        sane.then_some(found)
    }
}

fn take_batch(from: &[u8]) -> Option<(SegmentBatch, &[u8])> {
    let (head, rest) = from.split_at_checked(BATCH)?;
    let (n, m) = (number::<2>(head, 0) as usize, number::<2>(head, 2) as usize);
    let (frames, rest) = rest.split_at_checked(ENTRY * n)?;
    let (tombstones, rest) = rest.split_at_checked(ENTRY * m)?;
    let (parts, rest) = rest.split_at_checked(PART * number::<2>(head, 4) as usize)?;
    let frame = |b: &[u8]| (Frame::take(b), b[20] & REFERENCED != 0);
    let batch = SegmentBatch {
        frames: frames.chunks_exact(ENTRY).map(frame).collect(),
        tombstones: tombstones.chunks_exact(ENTRY).map(Tombstone::take).collect(),
        parts: parts.chunks_exact(PART).map(|b| number::<2>(b, 0) as usize).collect(),
    };
    let order = batch.tombstones.iter().all(|t| t.before as usize <= n)
        && batch.parts.is_sorted()
        && batch.parts.iter().all(|before| *before <= n);
    order.then_some((batch, rest))
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::tests::content;
    use super::*;
    use proptest::prelude::*;

    fn segment() -> impl Strategy<Value = Segment> {
        let batch = (content(), any::<u64>(), any::<u64>()).prop_map(
            |((frames, tombstones), marks, begins)| {
                let marked = |(i, f)| (f, marks >> i & 1 == 1);
                SegmentBatch {
                    parts: (0..frames.len()).filter(|i| begins >> i & 1 == 1).collect(),
                    frames: frames.into_iter().enumerate().map(marked).collect(),
                    tombstones,
                }
            },
        );
        let batches = proptest::collection::vec(batch, 0..6);
        (batches, 0..COUNT_END, 0..COUNT_END, 0..1000u64, 0..1000u64, any::<bool>()).prop_map(
            |(batches, number, epoch, first, front, goes_on)| Segment {
                number,
                epoch,
                first,
                front,
                batches,
                goes_on,
            },
        )
    }

    proptest! {
        #[test]
        fn it_comes_back(s in segment(), spare in 0..100usize, at in any::<usize>(), bit in 0..8) {
            let mut b = s.encode(7);
            let length = b.len();
            b.resize(length + spare, 0xEE);
            prop_assert_eq!(Segment::decode(7, &b), Some(s.clone()));
            prop_assert_eq!(Segment::decode(8, &b), None);
            let most = s.batches.iter().map(|b| b.frames.len() + b.parts.len()).max().unwrap_or(0);
            let tombstones = s.batches.iter().map(|b| b.tombstones.len()).max().unwrap_or(0);
            prop_assert!(length <= most_bytes(s.batches.len() as u32, most as u32, tombstones));
            b[at % length] ^= 1u8 << bit;
            prop_assert_eq!(Segment::decode(7, &b), None);
            prop_assert_eq!(Segment::decode(7, &b[..length - 1]), None);
        }

        #[test]
        fn any_bytes_are_decoded(mut b in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Segment::decode(7, &b), None);
            if b.len() >= HEAD {
                let length = b.len() as u64;
                put::<4>(&mut b, 4, length);
                put::<8>(&mut b, 8, 7);
                b[49..52].fill(0);
                seal(&mut b);
                let _ = Segment::decode(7, &b);
            }
        }
    }
}
