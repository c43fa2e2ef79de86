//! Self-checking contents: the bytes of a row are a function of what the row is
//! (its table, its key) and of its version, so that whoever reads one can tell
//! whether it is whole, and whether it is that row's.
//!
//! 1. Contents of at least [`HEADER`] bytes begin with the key and the version, in
//!    the clear, so that a foreign or an old one can be named as such.
//! 2. All other bytes follow from the table, the key, the version and the position: a
//!    changed bit anywhere is found.

use tantalum_rt::mix64;

/// Bytes of key and version at the head of contents that have room for them.
pub const HEADER: usize = 16;

/// How contents differ from what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The contents belong to another row, or another version of it.
    #[error("holds key {key:#x} version {version}")]
    Foreign {
        /// The key found.
        key: u64,
        /// The version found.
        version: u64,
    },
    /// The contents were changed.
    #[error("byte {at} is wrong")]
    Damaged {
        /// The first wrong byte.
        at: usize,
    },
    /// The contents have another length than they should have.
    #[error("is {found} bytes long instead of {expected}")]
    Length {
        /// The length found.
        found: usize,
        /// The length it should have.
        expected: usize,
    },
}

fn byte(word: u64, at: usize) -> u8 {
    (word >> (8 * (at % 8))) as u8
}

fn seed(table: u64, key: u64, version: u64) -> u64 {
    mix64(mix64(mix64(table) ^ key) ^ version)
}

fn word(seed: u64, index: usize, key: u64, version: u64, whole: bool) -> u64 {
    match index {
        0 if whole => key,
        1 if whole => version,
        _ => mix64(seed ^ index as u64),
    }
}

/// The contents of this version of a row, `len` bytes, into `out` (which is
/// cleared first).
pub fn fill(table: u64, key: u64, version: u64, len: usize, out: &mut Vec<u8>) {
    let seed = seed(table, key, version);
    out.clear();
    out.reserve(len + 8);
    for index in 0..len.div_ceil(8) {
        let w = word(seed, index, key, version, len >= HEADER);
        out.extend_from_slice(&w.to_le_bytes());
    }
    out.truncate(len);
}

/// Whether `data` are the contents of this version of a row.
///
/// # Errors
/// How they differ.
pub fn check(
    table: u64,
    key: u64,
    version: u64,
    len: usize,
    data: &[u8],
) -> Result<(), ContentError> {
    if data.len() != len {
        return Err(ContentError::Length { found: data.len(), expected: len });
    }
    let seed = seed(table, key, version);
    let whole = len >= HEADER;
    for at in 0..len {
        let w = word(seed, at / 8, key, version, whole);
        if data[at] == byte(w, at) {
            continue;
        }
        let number = |from: usize| {
            data[from..from + 8].iter().rev().fold(0, |n, &b| (n << 8) | u64::from(b))
        };
        if whole && at < HEADER {
            return Err(ContentError::Foreign { key: number(0), version: number(8) });
        }
        return Err(ContentError::Damaged { at });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_found() {
        let mut data = Vec::new();
        for len in [0, 1, 7, 8, 15, 16, 17, 100] {
            fill(1, 77, 3, len, &mut data);
            assert_eq!(check(1, 77, 3, len, &data), Ok(()));
            for at in 0..len {
                data[at] ^= 1;
                assert!(check(1, 77, 3, len, &data).is_err(), "byte {at} of {len}");
                data[at] ^= 1;
            }
        }
    }

    #[test]
    fn a_foreign_row_is_named() {
        let mut data = Vec::new();
        fill(1, 77, 3, 40, &mut data);
        let foreign = Err(ContentError::Foreign { key: 77, version: 3 });
        assert_eq!(check(1, 78, 3, 40, &data), foreign);
        assert_eq!(check(1, 77, 4, 40, &data), foreign);
        assert_eq!(check(2, 77, 3, 40, &data), Err(ContentError::Damaged { at: 16 }));
        let length = ContentError::Length { found: 40, expected: 41 };
        assert_eq!(check(1, 77, 3, 41, &data), Err(length));
    }
}
