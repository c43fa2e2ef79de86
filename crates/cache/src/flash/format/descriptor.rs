//! The descriptor of a part of a batch: what its frames hold, and what of the ring is known to be
//! durable.
//!
//! ```text
//! descriptor                               frame (24 bytes)
//!   0  4 CRC-32C of bytes 4 to length - 1   0  8 page
//!   4  4 length: bytes that mean something  8  8 LSN
//!   8  8 tag of the cache                  16  4 CRC-32C of the page
//!  16  8 sequence number of the batch      20  1 flags: 1 dirty, 2 damaged
//!  24  8 epoch                             21  3 zeros
//!  32  8 durable: the batches before this  tombstone (24 bytes)
//!        one are, and of it as many parts   0  8 first page
//!        as byte 58 says                    8  8 how many pages
//!  40  8 front: the first batch that       16  4 frames of this batch before it
//!        counts                            20  4 zeros
//!  48  2 n, frames
//!  50  2 m, tombstones
//!  52  2 number of the part
//!  54  2 frames of the batch before it
//!  56  1 flags: 1 more parts follow
//!  57  1 zero
//!  58  2 durable parts
//!  60  4 zeros
//!  64 24n frames, then 24m tombstones
//! ```
//!
//! 1. A tombstone ends every version of its pages in earlier batches, and in the frames before it.
//! 2. Whether another part follows in the batch is known when a part is written. So a batch that
//!    has parts to come is told from one that ends.
//! 3. A damaged frame does not have the bytes of its checksum, and never will: its page was dirty,
//!    and is lost. It stays in the ring so that an older version is never taken for it.
//! 4. A descriptor takes as much room as any other, in whole pages: what lies behind its length means
//!    nothing, and has no checksum.

use super::bytes::{is_sealed, number, put, seal};

const HEAD: usize = 64;
pub(super) const ENTRY: usize = 24;
const DIRTY: u8 = 1;
const DAMAGED: u8 = 2;
const MORE: u8 = 1;

/// A part of a batch: what one write covers. As an end: everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub batch: u64,
    pub number: u32,
}

impl Part {
    /// The first part of a batch.
    pub const fn first(batch: u64) -> Part {
        Part { batch, number: 0 }
    }

    /// As an end: the last batch of which anything is before it. (Batches begin with 1.)
    pub const fn last_batch(self) -> u64 {
        if self.number > 0 { self.batch } else { self.batch - 1 }
    }

    /// The next part of the same batch.
    pub const fn next(self) -> Part {
        Part { batch: self.batch, number: self.number + 1 }
    }
}

/// What one frame of a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub page: u64,
    pub lsn: u64,
    pub checksum: u32,
    /// The slow store need not have this version.
    pub dirty: bool,
    /// It holds other bytes than the checksum says, and this is known.
    pub damaged: bool,
}

/// Pages that were forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub first: u64,
    pub count: u64,
    /// How many frames of its batch are before it.
    pub before: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub part: Part,
    /// Frames of the batch before this part.
    pub before: usize,
    /// Another part follows in this batch.
    pub more: bool,
    pub epoch: u64,
    /// Everything before this part is durable.
    pub durable: Part,
    pub front: u64,
    pub frames: Vec<Frame>,
    pub tombstones: Vec<Tombstone>,
}

/// Bytes of a descriptor for so many frames, at least: with room for a tombstone for every fourth
/// frame, and for four.
pub(super) fn least_bytes(frames: u32) -> usize {
    HEAD + ENTRY * (frames as usize + (frames as usize / 4).max(4))
}

/// How many tombstones fit into a descriptor, at most one for each frame, and four.
pub(super) fn tombstones_in(bytes: usize, frames: u32) -> usize {
    ((bytes - HEAD) / ENTRY - frames as usize).min((frames as usize).max(4))
}

impl Frame {
    pub(super) fn put(&self, b: &mut [u8]) {
        put::<8>(b, 0, self.page);
        put::<8>(b, 8, self.lsn);
        put::<4>(b, 16, self.checksum.into());
        b[20] |= (u8::from(self.dirty) * DIRTY) | (u8::from(self.damaged) * DAMAGED);
    }

    pub(super) fn take(b: &[u8]) -> Frame {
        Frame {
            page: number::<8>(b, 0),
            lsn: number::<8>(b, 8),
            checksum: number::<4>(b, 16) as u32,
            dirty: b[20] & DIRTY != 0,
            damaged: b[20] & DAMAGED != 0,
        }
    }
}

impl Tombstone {
    /// Whether it is about this page.
    pub fn covers(&self, page: u64) -> bool {
        page >= self.first && page - self.first < self.count
    }

    pub(super) fn put(&self, b: &mut [u8]) {
        put::<8>(b, 0, self.first);
        put::<8>(b, 8, self.count);
        put::<4>(b, 16, self.before.into());
    }

    pub(super) fn take(b: &[u8]) -> Tombstone {
        Tombstone {
            first: number::<8>(b, 0),
            count: number::<8>(b, 8),
            before: number::<4>(b, 16) as u32,
        }
    }
}

impl Descriptor {
    /// Fills `b`, all of the descriptor's room.
    pub fn encode(&self, tag: u64, b: &mut [u8]) {
        b.fill(0);
        let length = HEAD + ENTRY * (self.frames.len() + self.tombstones.len());
        put::<4>(b, 4, length as u64);
        put::<8>(b, 8, tag);
        put::<8>(b, 16, self.part.batch);
        put::<8>(b, 24, self.epoch);
        put::<8>(b, 32, self.durable.batch);
        put::<8>(b, 40, self.front);
        put::<2>(b, 48, self.frames.len() as u64);
        put::<2>(b, 50, self.tombstones.len() as u64);
        put::<2>(b, 52, self.part.number.into());
        put::<2>(b, 54, self.before as u64);
        b[56] = u8::from(self.more) * MORE;
        put::<2>(b, 58, self.durable.number.into());
        let (frames, rest) = b[HEAD..].split_at_mut(ENTRY * self.frames.len());
        frames.chunks_exact_mut(ENTRY).zip(&self.frames).for_each(|(b, f)| f.put(b));
        rest.chunks_exact_mut(ENTRY).zip(&self.tombstones).for_each(|(b, t)| t.put(b));
        seal(&mut b[..length]);
    }

    /// The part behind this one.
    pub fn next(&self) -> Part {
        if self.more { self.part.next() } else { Part::first(self.part.batch + 1) }
    }

    /// Frames of the batch up to the end of this part.
    pub fn end(&self) -> usize {
        self.before + self.frames.len()
    }

    /// The descriptor of a part of this batch in `b`, if it is there.
    pub fn decode(tag: u64, batch: u64, b: &[u8]) -> Option<Descriptor> {
        let length = if b.len() < HEAD { 0 } else { number::<4>(b, 4) as usize };
        if length < HEAD || length > b.len() || !is_sealed(&b[..length]) {
            return None;
        }
        let count = |at| number::<2>(b, at) as usize;
        let (n, m) = (count(48), count(50));
        let ours = number::<8>(b, 8) == tag && number::<8>(b, 16) == batch;
        if !ours || length != HEAD + ENTRY * (n + m) {
            return None;
        }
        let (frames, rest) = b[HEAD..length].split_at(ENTRY * n);
        let tombstones: Vec<_> = rest.chunks_exact(ENTRY).map(Tombstone::take).collect();
        let part = |batch, at| Part { batch, number: count(at) as u32 };
        let found = Descriptor {
            part: part(batch, 52),
            before: count(54),
            more: b[56] & MORE != 0,
            epoch: number::<8>(b, 24),
            durable: part(number::<8>(b, 32), 58),
            front: number::<8>(b, 40),
            frames: frames.chunks_exact(ENTRY).map(Frame::take).collect(),
            tombstones,
        };
        let order = found.front <= found.durable.batch && found.durable <= found.part;
        let here = found.before..=found.end();
        (order && found.tombstones.iter().all(|t| here.contains(&(t.before as usize))))
            .then_some(found)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn frame() -> impl Strategy<Value = Frame> {
        (any::<u64>(), any::<u64>(), any::<u32>(), any::<bool>(), any::<bool>()).prop_map(
            |(page, lsn, checksum, dirty, damaged)| Frame { page, lsn, checksum, dirty, damaged },
        )
    }

    pub fn content() -> impl Strategy<Value = (Vec<Frame>, Vec<Tombstone>)> {
        proptest::collection::vec(frame(), 0..9).prop_flat_map(|frames| {
            let before = 0..=frames.len() as u32;
            let tombstone = (any::<u64>(), any::<u64>(), before)
                .prop_map(|(first, count, before)| Tombstone { first, count, before });
            (Just(frames), proptest::collection::vec(tombstone, 0..5))
        })
    }

    fn descriptor() -> impl Strategy<Value = Descriptor> {
        let places = (1..9u64, 0..9u64, 0..9u64, 0..9u32, 0..9u32, 0..70usize);
        (content(), places, any::<u64>(), any::<bool>()).prop_map(
            |(
                (frames, tombstones),
                (front, durable, batch, parts, number, before),
                epoch,
                more,
            )| {
                let durable = Part { batch: front + durable, number: parts };
                let part = Part { batch: durable.batch + batch, number: parts + number };
                let tombstones: Vec<Tombstone> = tombstones
                    .into_iter()
                    .map(|t| Tombstone { before: t.before + before as u32, ..t })
                    .collect();
                Descriptor { part, before, more, epoch, durable, front, frames, tombstones }
            },
        )
    }

    /// Before there were parts, zeros were where a descriptor tells of them.
    #[test]
    fn that_of_a_batch_without_parts_is_of_its_only_one() {
        let whole = Descriptor {
            part: Part::first(9),
            before: 0,
            more: false,
            epoch: 2,
            durable: Part::first(8),
            front: 3,
            frames: Vec::new(),
            tombstones: Vec::new(),
        };
        let mut b = vec![0; 512];
        whole.encode(7, &mut b);
        assert_eq!(b[52..64], [0; 12]);
        assert_eq!(Descriptor::decode(7, 9, &b).map(|d| d.next()), Some(Part::first(10)));
    }

    proptest! {
        #[test]
        fn it_comes_back(d in descriptor(), other in 1..5u64, at in 0..512usize, bit in 0..8) {
            let mut b = vec![0xEE; 512];
            d.encode(7, &mut b);
            prop_assert_eq!(Descriptor::decode(7, d.part.batch, &b), Some(d.clone()));
            prop_assert_eq!(Descriptor::decode(8, d.part.batch, &b), None);
            prop_assert_eq!(Descriptor::decode(7, d.part.batch + other, &b), None);
            // A flipped bit is noticed wherever it means something.
            b[at] ^= 1u8 << bit;
            let found = Descriptor::decode(7, d.part.batch, &b);
            let length = HEAD + ENTRY * (d.frames.len() + d.tombstones.len());
            prop_assert_eq!(found, (at >= length).then_some(d));
        }

        #[test]
        fn any_bytes_are_decoded(mut b in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(Descriptor::decode(7, 3, &b), None);
            // With a right checksum and tag, too.
            if b.len() >= HEAD {
                let length = HEAD + b[4] as usize * ENTRY % (b.len() - HEAD + 1);
                put::<4>(&mut b, 4, length as u64);
                put::<8>(&mut b, 8, 7);
                put::<8>(&mut b, 16, 3);
                seal(&mut b[..length]);
                let _ = Descriptor::decode(7, 3, &b);
            }
        }
    }
}
