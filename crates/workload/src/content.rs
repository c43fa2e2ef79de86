//! Self-checking contents: the bytes of a row follow from its table, its key and its version. So a
//! reader can check whether the contents are whole, and whether they belong to that row.
//!
//! 1. Contents of at least [`HEADER`] bytes begin with the plain key and version, so that contents
//!    of another row or version can be recognized.
//! 2. All other bytes follow from the table, the key, the version and the position, so that a
//!    change of any bit is found.
//! 3. A [`Digest`] does not depend on the order of rows. The digest of a database is the sum of the
//!    changes that made it, in any order and by any client.

use tantalum_rt::mix64;

/// Bytes of key and version at the beginning of contents that have room for them.
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

/// A set of rows as one number: the sum of a hash of each row's key and state, modulo 2^62, so that
/// SQLite can add two without an overflow. (It is a sum and not an exclusive or, since a change
/// that is made, lost and made again several times must not cancel out.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// The bits of a digest.
    pub const MASK: u64 = (1 << 62) - 1;

    /// Adds the row of `table` with this key. `state` is everything of the row that can change.
    pub fn add(&mut self, table: u64, key: u64, state: &[i64]) {
        self.0 = self.0.wrapping_add(row(table, key, state)) & Self::MASK;
    }

    /// Removes what [`Digest::add`] added.
    pub fn remove(&mut self, table: u64, key: u64, state: &[i64]) {
        self.0 = self.0.wrapping_sub(row(table, key, state)) & Self::MASK;
    }

    /// Adds a change, or the digest of some rows.
    pub fn merge(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0) & Self::MASK;
    }

    /// The digest as a database stores it.
    pub fn to_int(self) -> i64 {
        self.0 as i64
    }

    /// The digest that a database has stored; `None` if it is not valid.
    pub fn from_int(stored: i64) -> Option<Digest> {
        u64::try_from(stored).ok().filter(|bits| bits & !Self::MASK == 0).map(Digest)
    }
}

fn row(table: u64, key: u64, state: &[i64]) -> u64 {
    state.iter().fold(seed(table, key, state.len() as u64), |h, &v| mix64(h ^ v as u64))
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

/// A hash of a text or other bytes, for the state of a row in a [`Digest`].
pub fn hash(data: &[u8]) -> i64 {
    let words = data
        .chunks(8)
        .map(|chunk| chunk.iter().rev().fold(0, |word: u64, &byte| (word << 8) | u64::from(byte)));
    words.fold(mix64(data.len() as u64), |h, word| mix64(h ^ word)) as i64
}

/// Writes the contents of this version of a row, `len` bytes, into `out` (which is cleared first).
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

/// Checks that `data` are the contents of this version of a row.
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
    fn a_digest_is_the_sum_of_its_changes() {
        let mut there = Digest::default();
        let mut change = Digest::default();
        let states: [&[i64]; 5] = [&[1], &[2], &[1, 2], &[2, 1], &[]];
        for (key, state) in states.into_iter().enumerate() {
            there.add(1, key as u64, state);
            change.add(1, key as u64, state);
        }
        change.remove(1, 2, &[1, 2]);
        change.add(1, 2, &[1, 3]);
        let mut moved = there;
        moved.remove(1, 2, &[1, 2]);
        moved.add(1, 2, &[1, 3]);
        assert_ne!(moved, there);
        assert_eq!(moved, change);
        let (mut sum, before) = (there, there);
        let mut delta = Digest::default();
        delta.remove(1, 0, &[1]);
        sum.merge(delta);
        delta.add(1, 0, &[1]);
        assert_eq!(delta, Digest::default());
        sum.add(1, 0, &[1]);
        assert_eq!(sum, before);
        assert_eq!(Digest::from_int(sum.to_int()), Some(sum));
        assert_eq!(Digest::from_int(-1), None);
        assert_eq!(Digest::from_int(1 << 62), None);
    }

    #[test]
    fn tables_keys_and_states_tell_rows_apart() {
        let rows: [(u64, u64, &[i64]); 8] = [
            (1, 1, &[]),
            (1, 1, &[0]),
            (1, 1, &[0, 0]),
            (1, 1, &[1, 0]),
            (1, 1, &[0, 1]),
            (1, 2, &[0, 1]),
            (2, 1, &[0, 1]),
            (2, 2, &[0, 1]),
        ];
        let digests: std::collections::BTreeSet<i64> = rows
            .iter()
            .map(|(table, key, state)| {
                let mut one = Digest::default();
                one.add(*table, *key, state);
                one.to_int()
            })
            .collect();
        assert_eq!(digests.len(), rows.len());
    }

    #[test]
    fn texts_that_differ_have_different_hashes() {
        let texts: [&[u8]; 8] =
            [b"", b"\0", b"\0\0", b"a", b"b", b"abcdefgh", b"abcdefgh\0", b"abcdefgi"];
        let hashes: std::collections::BTreeSet<i64> = texts.iter().map(|t| hash(t)).collect();
        assert_eq!(hashes.len(), texts.len());
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
