//! What the oracle writes into blocks, and how it recognizes it.
//!
//! 1. Each 8-byte word of a block names the command that wrote it, mixed with the
//!    number of the block and the place of the word: data in the wrong place, or a
//!    word of another command, are seen.
//! 2. Zeros are zeros: no command writes a zero word.

use tantalum_device::{Data, OwnedData, Payload};
use tantalum_rt::mix64;

/// A command, by its place in the order of arrival; 0 stands for zeros.
pub type Id = u64;

/// Found where pieces of several commands, or nothing known, are mixed.
pub(super) const GARBAGE: Id = u64::MAX;

const HIGH: u64 = 1 << 63;

/// Ids are below `HIGH`, pads are not: no word is zero.
fn pad(block: u64, word: u64) -> u64 {
    mix64(mix64(block) ^ word) | HIGH
}

/// The content of `count` blocks from `at` on, written by command `id`.
pub(super) fn fill(kind: Payload, id: Id, at: u64, count: u64, block_size: u32) -> OwnedData {
    match kind {
        Payload::Stamps => OwnedData::Stamps(vec![id; count as usize]),
        Payload::Bytes => {
            let mut bytes = vec![0; count as usize * block_size as usize];
            for (i, block) in bytes.chunks_exact_mut(block_size as usize).enumerate() {
                for (w, word) in block.chunks_exact_mut(8).enumerate() {
                    let v = id ^ pad(at + i as u64, w as u64);
                    word.copy_from_slice(&v.to_le_bytes());
                }
            }
            OwnedData::Bytes(bytes)
        }
    }
}

/// The commands that wrote the pieces of `piece` bytes of `block`: one value if
/// they are all the same.
pub(super) fn pieces(data: Data<'_>, block: u64, piece: u32) -> Pieces {
    let bytes = match data {
        Data::Stamps(s) => return Pieces::Whole(s[0]),
        Data::Bytes(b) => b,
    };
    let mut all = Vec::with_capacity(bytes.len() / piece as usize);
    let per_piece = u64::from(piece) / 8;
    for (p, part) in bytes.chunks_exact(piece as usize).enumerate() {
        let mut found = None;
        for (w, word) in part.chunks_exact(8).enumerate() {
            let raw = u64::from_le_bytes(word.try_into().expect("chunks of eight bytes"));
            let id = match raw {
                0 => 0,
                _ => raw ^ pad(block, p as u64 * per_piece + w as u64),
            };
            found = match found {
                None => Some(id),
                Some(f) if f == id => found,
                Some(_) => Some(GARBAGE),
            };
            if found == Some(GARBAGE) {
                break;
            }
        }
        let id = found.unwrap_or(0);
        all.push(if id >= HIGH { GARBAGE } else { id });
    }
    match all.first() {
        Some(&first) if all.iter().all(|id| *id == first) => Pieces::Whole(first),
        _ => Pieces::Each(all.into()),
    }
}

/// What the pieces of one block hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// All the same.
    Whole(Id),
    /// Each its own.
    Each(Box<[Id]>),
}

impl Pieces {
    pub fn get(&self, piece: u32) -> Id {
        match self {
            Pieces::Whole(id) => *id,
            Pieces::Each(all) => all.get(piece as usize).copied().unwrap_or(GARBAGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(d: &mut OwnedData) -> &mut [u8] {
        match d {
            OwnedData::Bytes(b) => b,
            OwnedData::Stamps(_) => unreachable!(),
        }
    }

    #[test]
    fn what_is_written_is_known_again() {
        let d = fill(Payload::Bytes, 77, 5, 3, 512);
        for i in 0..3 {
            let block = d.as_data().slice(i..i + 1, 512);
            assert_eq!(pieces(block, 5 + i as u64, 512), Pieces::Whole(77));
            assert_eq!(pieces(block, 5 + i as u64, 128), Pieces::Whole(77));
            assert_eq!(pieces(block, 9, 512), Pieces::Whole(GARBAGE), "in the wrong place");
        }
        let zeros = OwnedData::zeros(Payload::Bytes, 1, 512);
        assert_eq!(pieces(zeros.as_data(), 3, 512), Pieces::Whole(0));
    }

    #[test]
    fn mixed_blocks_show_which_part_is_whose() {
        let mut d = fill(Payload::Bytes, 7, 5, 1, 512);
        let mut other = fill(Payload::Bytes, 8, 5, 1, 512);
        bytes(&mut d)[128..256].copy_from_slice(&bytes(&mut other)[128..256]);
        let each = Pieces::Each([7, 8, 7, 7].into());
        assert_eq!(pieces(d.as_data(), 5, 128), each);
        assert_eq!(pieces(d.as_data(), 5, 256), Pieces::Each([GARBAGE, 7].into()));
        bytes(&mut d)[511] ^= 1;
        assert_eq!(pieces(d.as_data(), 5, 128).get(3), GARBAGE);
    }
}
