//! The format of log blocks and of the headers of sections, byte by byte. All numbers are
//! little-endian.
//!
//! ```text
//! log block (`unit` bytes)                 header of a section: a block of kind 2
//!  0  4 CRC-32C of 4..unit                  0 40 as beside; LSN: the first of the section
//!  4  1 kind: 1 bytes of the log           40  8 LSN at which the section before ended
//!  5  1 stream on the device               48  4 n, how many samples follow
//!  6  2 bytes of the log in the block      52 12n samples of the section before:
//!  8  8 tag of set and device                   4 place in the section, in units
//! 16  8 LSN of the first byte                   8 LSN of the block there
//! 24  8 watermark
//! 32  4 epoch
//! 36  4 number of the section
//! 40  . bytes of the log, then zeros
//! ```
//!
//! 1. The LSN of a block of kind 1 is a multiple of the payload of a block. A block that was not
//!    full is followed, in the next request, by a block with the same LSN that repeats its bytes.
//! 2. A block counts only with the checksum, the tag of its device, the number of its stream and
//!    the number of the section in which it lies. So blocks of an earlier lap, of another log, or
//!    of another place never count.

use crate::Lsn;
use crc32c::{crc32c, crc32c_append};

/// Bytes of a block's header.
pub(crate) const HEAD: usize = 40;
/// Samples in the header of a section, at most.
pub(crate) const SAMPLES: usize = 32;

const KIND_BYTES: u8 = 1;
const KIND_SECTION: u8 = 2;

/// Bytes of the log in a full block of `unit` bytes.
pub(crate) fn payload(unit: u32) -> u64 {
    u64::from(unit) - HEAD as u64
}

/// The LSN of the block in which the byte at `lsn` is.
pub(crate) fn block_of(lsn: Lsn, payload: u64) -> Lsn {
    Lsn(lsn.0 - lsn.0 % payload)
}

/// How many blocks a request takes that ends at `to`, and begins in the block of `from`.
pub(crate) fn blocks_between(from: Lsn, to: Lsn, payload: u64) -> u64 {
    (to.0 - block_of(from, payload).0).div_ceil(payload)
}

/// Says in few bytes which set and device a block belongs to.
pub(crate) fn tag(set: &[u8; 16], device: &[u8; 16]) -> u64 {
    let (low, high) = (crc32c(set), crc32c(device));
    u64::from(crc32c_append(low, device)) | u64::from(high ^ low.rotate_left(16)) << 32
}

/// What stands in the header of every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub stream: u8,
    pub tag: u64,
    pub lsn: Lsn,
    /// Bytes of the log in the block; of a section's header 0.
    pub bytes: u16,
    pub watermark: Lsn,
    pub epoch: u32,
    pub section: u32,
}

/// A place in a section, and the LSN of the block there.
pub(crate) type Sample = (u32, Lsn);

/// What stands in the first block of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SectionHead {
    /// The LSN at which the section before ended.
    pub before_end: Lsn,
    /// Places in the section before.
    pub samples: Vec<Sample>,
}

/// What a block of a device was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A block of the log.
    Bytes(Head),
    /// A section begins.
    Section(Head, SectionHead),
    /// Nothing of a log: checksum or contents are wrong.
    Nothing,
}

impl Head {
    fn put(&self, kind: u8, block: &mut [u8]) {
        block[4] = kind;
        block[5] = self.stream;
        block[6..8].copy_from_slice(&self.bytes.to_le_bytes());
        block[8..16].copy_from_slice(&self.tag.to_le_bytes());
        block[16..24].copy_from_slice(&self.lsn.0.to_le_bytes());
        block[24..32].copy_from_slice(&self.watermark.0.to_le_bytes());
        block[32..36].copy_from_slice(&self.epoch.to_le_bytes());
        block[36..40].copy_from_slice(&self.section.to_le_bytes());
        let crc = crc32c(&block[4..]);
        block[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Completes a block whose bytes are in place already, from [`HEAD`] on.
    pub fn seal(&self, block: &mut [u8]) {
        self.put(KIND_BYTES, block);
    }

    /// Makes the header of a section.
    pub fn seal_section(&self, section: &SectionHead, block: &mut [u8]) {
        let fit = (block.len() - 52) / 12;
        let samples = &section.samples[..section.samples.len().min(SAMPLES).min(fit)];
        block[40..48].copy_from_slice(&section.before_end.0.to_le_bytes());
        block[48..52].copy_from_slice(&(samples.len() as u32).to_le_bytes());
        for (i, (place, lsn)) in samples.iter().enumerate() {
            let at = 52 + 12 * i;
            block[at..at + 4].copy_from_slice(&place.to_le_bytes());
            block[at + 4..at + 12].copy_from_slice(&lsn.0.to_le_bytes());
        }
        self.put(KIND_SECTION, block);
    }
}

/// What `block` is. The tag is the only thing of the header that is not compared.
pub(crate) fn read_block(block: &[u8]) -> Found {
    if block.len() < 64 || number(block, 0, 4) != u64::from(crc32c(&block[4..])) {
        return Found::Nothing;
    }
    let head = Head {
        stream: block[5],
        bytes: number(block, 6, 2) as u16,
        tag: number(block, 8, 8),
        lsn: Lsn(number(block, 16, 8)),
        watermark: Lsn(number(block, 24, 8)),
        epoch: number(block, 32, 4) as u32,
        section: number(block, 36, 4) as u32,
    };
    if !(is_lsn(head.lsn)
        && is_lsn(head.watermark)
        && is_count(head.epoch)
        && is_count(head.section))
    {
        return Found::Nothing;
    }
    let payload = (block.len() - HEAD) as u64;
    match block[4] {
        KIND_BYTES => {
            let bytes = u64::from(head.bytes);
            let fits = bytes > 0 && bytes <= payload && head.lsn.0.is_multiple_of(payload);
            if fits { Found::Bytes(head) } else { Found::Nothing }
        }
        KIND_SECTION => {
            let n = number(block, 48, 4) as usize;
            if n > SAMPLES || 52 + 12 * n > block.len() {
                return Found::Nothing;
            }
            let sample = |i: usize| {
                let at = 52 + 12 * i;
                (number(block, at, 4) as u32, Lsn(number(block, at + 4, 8)))
            };
            let samples = (0..n).map(sample).collect();
            let before_end = Lsn(number(block, 40, 8));
            Found::Section(head, SectionHead { before_end, samples })
        }
        _ => Found::Nothing,
    }
}

/// Whether a log can have come so far: with 1 GB each second it would take a hundred years.
pub(crate) fn is_lsn(lsn: Lsn) -> bool {
    lsn.0 < 1 << 62
}

/// Whether a log can have so many epochs, or a stream so many sections.
pub(crate) fn is_count(count: u32) -> bool {
    count < 1 << 31
}

/// The `bytes` bytes from `at` on as a number.
pub(crate) fn number(from: &[u8], at: usize, bytes: usize) -> u64 {
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(&from[at..at + bytes]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is sealed is read back, and any change of a byte is noticed.
        #[test]
        fn a_sealed_block_is_read_back(
            bytes in proptest::collection::vec(any::<u8>(), 1..472),
            number in 0..u64::from(u32::MAX), flip in 0..512usize,
        ) {
            let head = Head {
                stream: 3, tag: 77, lsn: Lsn(number * 472), bytes: bytes.len() as u16,
                watermark: Lsn(5), epoch: 9, section: 4,
            };
            let mut block = vec![0; 512];
            block[HEAD..HEAD + bytes.len()].copy_from_slice(&bytes);
            head.seal(&mut block);
            prop_assert_eq!(read_block(&block), Found::Bytes(head));
            block[flip] ^= 1;
            prop_assert_eq!(read_block(&block), Found::Nothing);
        }

        /// So is the header of a section, with all samples that fit.
        #[test]
        fn a_section_is_read_back(
            samples in proptest::collection::vec((any::<u32>(), any::<u64>()), 0..SAMPLES),
        ) {
            let samples = samples.into_iter().map(|(at, lsn)| (at, Lsn(lsn))).collect();
            let head = Head {
                stream: 1, tag: 7, lsn: Lsn(33), bytes: 0, watermark: Lsn(5), epoch: 9, section: 4,
            };
            let section = SectionHead { before_end: Lsn(12), samples };
            let mut block = vec![0; 512];
            head.seal_section(&section, &mut block);
            prop_assert_eq!(read_block(&block), Found::Section(head, section));
        }

        /// No bytes make a reader panic.
        #[test]
        fn anything_can_be_read(mut block in proptest::collection::vec(any::<u8>(), 512)) {
            read_block(&block);
            let crc = crc32c(&block[4..]);
            block[..4].copy_from_slice(&crc.to_le_bytes());
            block[4] = 2;
            read_block(&block);
        }
    }
}
