//! How records lie in the log: 8 bytes before each, one behind the other.
//!
//! ```text
//! 0  4 bytes of the record
//! 4  4 CRC-32C of these 4 bytes, the LSN of the record (8 bytes), and the record
//! 8  . the record
//! ```
//!
//! 1. The LSN of a record is that of its first byte here. The next record begins where it ends.
//! 2. What is no record, or does not begin where one does, has no such checksum.

use crate::Lsn;
use crate::format::number;
use crc32c::{crc32c, crc32c_append};

/// Bytes before each record.
pub(crate) const FRAME: usize = 8;

/// A record of the log.
///
/// See [`Records`](crate::Records) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it begins.
    pub lsn: Lsn,
    /// Where it ends, and the next one begins.
    pub end: Lsn,
    /// What was appended.
    pub bytes: Vec<u8>,
}

/// The bytes before a record at `lsn` that consists of these pieces.
pub(crate) fn frame(lsn: Lsn, pieces: &[&[u8]]) -> [u8; FRAME] {
    let length: usize = pieces.iter().map(|p| p.len()).sum();
    let mut frame = [0; FRAME];
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    let crc = pieces.iter().fold(start(&frame, lsn), |crc, p| crc32c_append(crc, p));
    frame[4..].copy_from_slice(&crc.to_le_bytes());
    frame
}

fn start(frame: &[u8], lsn: Lsn) -> u32 {
    crc32c_append(crc32c(&frame[..4]), &lsn.0.to_le_bytes())
}

/// What follows in the log, as far as its bytes are there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A record is whole: so many bytes, with those before it.
    Whole(usize),
    /// It is not there yet: so many bytes are needed to go on.
    Needs(usize),
    /// It is no record.
    Wrong,
}

/// Looks at what begins at `lsn` with `bytes`.
pub(crate) fn look(lsn: Lsn, bytes: &[u8], limit: u32) -> Next {
    if bytes.len() < FRAME {
        return Next::Needs(FRAME);
    }
    let length = number(bytes, 0, 4);
    if length > u64::from(limit) {
        return Next::Wrong;
    }
    let whole = FRAME + length as usize;
    if bytes.len() < whole {
        return Next::Needs(whole);
    }
    let crc = crc32c_append(start(bytes, lsn), &bytes[FRAME..whole]);
    if number(bytes, 4, 4) == u64::from(crc) { Next::Whole(whole) } else { Next::Wrong }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_is_found_where_it_is_and_nowhere_else(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), lsn in 0..1000u64,
            cut in 0..108usize, split in 0..100usize,
        ) {
            let (a, b) = bytes.split_at(split.min(bytes.len()));
            let mut log = frame(Lsn(lsn), &[a, b]).to_vec();
            log.extend(&bytes);
            prop_assert_eq!(look(Lsn(lsn), &log, 100), Next::Whole(log.len()));
            prop_assert_eq!(look(Lsn(lsn + 1), &log, 100), Next::Wrong);
            if cut < log.len() {
                let needs = matches!(look(Lsn(lsn), &log[..cut], 100), Next::Needs(n) if n > cut);
                prop_assert!(needs);
            }
        }
    }
}
