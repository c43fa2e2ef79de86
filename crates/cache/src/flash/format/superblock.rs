//! Which cache a flash device is, how it is divided, and where its ring was at the last start.
//!
//! ```text
//! superblock (512 bytes)
//!   0  4 CRC-32C of bytes 4 to 511         72  4 bytes of a page
//!   4  8 "TNTFLCH\0"                        76  4 bytes of a descriptor
//!  12  4 version (1 to 3)                  80  4 batches of the ring
//!  16 16 identity of the cache             84  4 batches of a segment
//!  32 16 identity of the slow store        88  4 slots of segments
//!  48  8 generation                        92  4 frames of a batch
//!  56  8 epoch                             96  8 bytes of the device
//!  64  1 clean mark: 1, else 0            104  8 front: the first batch that counts
//!  65  1 mode: 0 back, 1 through          112  8 rear: the batch after the last one
//!  66  6 zeros                            120  . zeros, or from version 2 on:
//!
//! 120  8 base: the batch of the first slot  144  8 where the slots of batches begin
//! 128  8 base of the ring before            152  4 batches of the ring before; 0: it is forgotten
//! 136  8 where the slots of segments begin  156  2 rear: parts of that batch (version 3)
//!                                           158  1 1: the label has the epoch
//!                                           159  . zeros
//! ```
//!
//! 1. Each change raises the generation, and is written to both copies, one after the other. The
//!    whole copy with the highest generation counts. So a torn copy leaves the state before or
//!    after, and damage to one copy changes nothing.
//! 2. What is before the rear is durable, whatever its descriptor says: a number of batches, and of
//!    the next one a number of parts. What is from the rear on counts only with the epoch of the
//!    superblock.
//! 3. Version 1 had no other size, and version 2 one part in each batch. Both are read, and become
//!    version 3 at the first start.
//! 4. With the clean mark the segments hold the whole directory from the front to the rear.
//! 5. The label has the epoch of the superblock if there is the clean mark, or if byte 158 says so.
//!    Otherwise it may be one behind, and nothing else was written in this epoch. (Byte 158 was
//!    always 0 once.)

use super::bytes::{
    COPIES, COUNT_END, Found, HEAD_BYTES, Uuid, begin_head, number, open_head, put, seal, uuid,
};
use super::descriptor::Part;
use super::layout::{Layout, Older};
use super::mode::Mode;

const MAGIC: &[u8; 8] = b"TNTFLCH\0";
/// The first version of a cache that can be resized.
const RESIZED: u32 = 2;
/// The version whose batches have parts.
const PARTS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub cache: Uuid,
    pub slow: Uuid,
    pub generation: u64,
    pub epoch: u64,
    pub clean: bool,
    pub mode: Mode,
    pub layout: Layout,
    /// Bytes of the device.
    pub bytes: u64,
    pub front: u64,
    pub rear: Part,
    /// The label was written in this start.
    pub labelled: bool,
}

impl Superblock {
    /// Whether the label has this epoch for sure: it was written in this start, or the last start
    /// ended cleanly. (It may have it otherwise, too.)
    pub fn label_is_written(&self) -> bool {
        self.clean || self.labelled
    }

    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut b = begin_head(MAGIC, PARTS);
        b[16..32].copy_from_slice(&self.cache);
        b[32..48].copy_from_slice(&self.slow);
        put::<8>(&mut b, 48, self.generation);
        put::<8>(&mut b, 56, self.epoch);
        b[64] = u8::from(self.clean);
        b[65] = self.mode.code();
        let l = &self.layout;
        let words = [l.page, l.descriptor, l.batches, l.segment_batches, l.segments, l.frames];
        for (i, word) in words.into_iter().enumerate() {
            put::<4>(&mut b, 72 + 4 * i, u64::from(word));
        }
        put::<8>(&mut b, 96, self.bytes);
        put::<8>(&mut b, 104, self.front);
        put::<8>(&mut b, 112, self.rear.batch);
        let older = l.older.unwrap_or_default();
        put::<8>(&mut b, 120, l.base);
        put::<8>(&mut b, 128, older.base);
        put::<8>(&mut b, 136, l.segments_at);
        put::<8>(&mut b, 144, l.ring_at);
        put::<4>(&mut b, 152, older.batches.into());
        put::<2>(&mut b, 156, self.rear.number.into());
        b[158] = u8::from(self.labelled);
        seal(&mut b);
        b
    }

    pub fn decode(from: &[u8]) -> Found<Superblock> {
        let (b, version) = match open_head(MAGIC, PARTS, from) {
            Found::Good(found) => found,
            Found::Newer(version) => return Found::Newer(version),
            Found::Damaged => return Found::Damaged,
            Found::Nothing => return Found::Nothing,
        };
        let word = |at| number::<4>(b, at) as u32;
        let mut layout = Layout {
            page: word(72),
            descriptor: word(76),
            batches: word(80),
            segment_batches: word(84),
            segments: word(88),
            frames: word(92),
            ..Layout::default()
        };
        if version >= RESIZED {
            let older = Older { batches: word(152), base: number::<8>(b, 128) };
            layout.base = number::<8>(b, 120);
            layout.older = (older.batches > 0).then_some(older);
            layout.segments_at = number::<8>(b, 136);
            layout.ring_at = number::<8>(b, 144);
        } else {
            layout = layout.as_made();
        }
        let found = Mode::of_code(b[65]).map(|mode| Superblock {
            cache: uuid(b, 16),
            slow: uuid(b, 32),
            generation: number::<8>(b, 48),
            epoch: number::<8>(b, 56),
            clean: b[64] == 1,
            mode,
            layout,
            bytes: number::<8>(b, 96),
            front: number::<8>(b, 104),
            rear: Part { batch: number::<8>(b, 112), number: number::<2>(b, 156) as u32 },
            labelled: b[158] == 1,
        });
        match found.filter(Superblock::makes_sense) {
            Some(found) => Found::Good(found),
            None => Found::Damaged,
        }
    }

    fn makes_sense(&self) -> bool {
        let counts = [self.generation, self.epoch, self.rear.batch].iter().all(|n| *n < COUNT_END);
        let ring = counts && 0 < self.front && self.front <= self.rear.batch;
        let fits = self.layout.makes_sense(self.bytes);
        let from = self.layout.older.map_or(self.front, |_| self.rear.batch);
        ring && fits
            && self.layout.frames_with(self.rear.number) > 0
            && self.layout.base <= from
            && self.rear.batch - self.front <= u64::from(self.layout.batches)
    }
}

/// The newest of the two copies; `both` is the beginning of the device.
pub(crate) fn decode_newest<T: Copy>(
    both: &[u8],
    decode: impl Fn(&[u8]) -> Found<T>,
    generation: impl Fn(&T) -> u64,
) -> Found<T> {
    let copies = COPIES.map(|at| decode(both.get(at as usize..).unwrap_or(&[])));
    match copies {
        [Found::Good(a), Found::Good(b)] if generation(&b) > generation(&a) => Found::Good(b),
        [Found::Good(good), _] | [_, Found::Good(good)] => Found::Good(good),
        [Found::Newer(version), _] | [_, Found::Newer(version)] => Found::Newer(version),
        [Found::Damaged, _] | [_, Found::Damaged] => Found::Damaged,
        [Found::Nothing, Found::Nothing] => Found::Nothing,
    }
}

/// In which order to write both copies: the newest whole one last. A cut may have torn the other one,
/// and the next cut may tear what is written first.
pub(crate) fn write_order<T: Copy>(
    both: &[u8],
    decode: impl Fn(&[u8]) -> Found<T>,
    generation: impl Fn(&T) -> u64,
) -> [u64; 2] {
    let [first, second] = COPIES;
    let copies = COPIES.map(|at| decode(both.get(at as usize..).unwrap_or(&[])));
    match copies {
        [Found::Good(a), Found::Good(b)] if generation(&b) >= generation(&a) => [first, second],
        [Found::Good(_), _] => [second, first],
        _ => [first, second],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Superblock {
        let layout = Layout::of(512, 4, 32);
        Superblock {
            cache: [1; 16],
            slow: [2; 16],
            generation: 9,
            epoch: 4,
            clean: true,
            mode: Mode::Through,
            layout,
            bytes: layout.bytes(),
            front: 40,
            rear: Part { batch: 60, number: 3 },
            labelled: true,
        }
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_noticed(at in 0..HEAD_BYTES, change in 1..=255u8) {
            let mut bytes = example().encode();
            prop_assert_eq!(Superblock::decode(&bytes), Found::Good(example()));
            bytes[at] ^= change;
            prop_assert!(!matches!(Superblock::decode(&bytes), Found::Good(_)));
        }

        #[test]
        fn any_bytes_are_decoded(mut bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(!matches!(Superblock::decode(&bytes), Found::Good(_)));
            // With the right magic and checksum, nothing that makes no sense is taken.
            if bytes.len() >= HEAD_BYTES {
                bytes[4..12].copy_from_slice(MAGIC);
                put::<4>(&mut bytes, 12, 1);
                seal(&mut bytes[..HEAD_BYTES]);
                if let Found::Good(found) = Superblock::decode(&bytes) {
                    prop_assert!(found.makes_sense());
                }
            }
        }
    }

    #[test]
    fn the_newest_whole_copy_counts() {
        let newest = |both: &[u8]| decode_newest(both, Superblock::decode, |s| s.generation);
        let order = |both: &[u8]| write_order(both, Superblock::decode, |s| s.generation);
        let mut both = vec![0; COPIES[1] as usize + HEAD_BYTES];
        assert_eq!(newest(&both), Found::Nothing);
        let older = Superblock { generation: 8, clean: false, ..example() };
        both[COPIES[1] as usize..].copy_from_slice(&example().encode());
        assert_eq!(newest(&both), Found::Good(example()));
        assert_eq!(order(&both), COPIES, "the whole one last");
        both[..HEAD_BYTES].copy_from_slice(&older.encode());
        assert_eq!(newest(&both), Found::Good(example()));
        assert_eq!(order(&both), COPIES, "the newest one last");
        both[COPIES[1] as usize + 50] ^= 1;
        assert_eq!(newest(&both), Found::Good(older));
        assert_eq!(order(&both), [COPIES[1], COPIES[0]]);
        both[50] ^= 1;
        assert_eq!(newest(&both), Found::Damaged);
        both[12] = 4;
        assert_eq!(newest(&both), Found::Newer(4));
    }

    /// Version 1 ends with the rear, version 2 with the ring of before.
    #[test]
    fn earlier_versions_are_read() {
        let whole = Superblock { rear: Part::first(60), labelled: false, ..example() };
        for (version, end) in [(1, 120), (2, 156)] {
            let mut bytes = Superblock { rear: Part { batch: 60, number: 3 }, ..whole }.encode();
            put::<4>(&mut bytes, 12, version);
            bytes[end..].fill(0);
            seal(&mut bytes);
            assert_eq!(Superblock::decode(&bytes), Found::Good(whole), "version {version}");
        }
    }
}
