//! Numbers, checksums and heads, as all pieces have them.

use crc32c::{crc32c, crc32c_append};

/// The version of all formats here that were never changed.
pub(super) const VERSION: u32 = 1;
/// Where the copies of a superblock or label are.
pub(crate) const COPIES: [u64; 2] = [0, 16384];
/// Bytes of a superblock or label.
pub(crate) const HEAD_BYTES: usize = 512;

/// Generations, epochs and batches are below this: they count up by few, from 1. So what is valid
/// can be added to without overflow.
pub(super) const COUNT_END: u64 = 1 << 62;

/// An identity of 16 bytes.
pub type Uuid = [u8; 16];

/// What was found where a superblock or label should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<T> {
    /// It is whole.
    Good(T),
    /// A newer program has written it.
    Newer(u32),
    /// It was one, or is one that makes no sense.
    Damaged,
    /// Something else, or zeros.
    Nothing,
}

/// Says in few bytes to which cache a piece belongs. The lower half is the CRC-32C of the identity,
/// the upper half that of the identity twice, one behind the other.
pub(crate) fn tag(cache: &Uuid) -> u64 {
    let low = crc32c(cache);
    u64::from(low) | u64::from(crc32c_append(low, cache)) << 32
}

/// The checksum of the bytes of a page.
pub(crate) fn checksum(page: &[u8]) -> u32 {
    crc32c(page)
}

pub(super) fn number<const N: usize>(from: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&from[at..at + N]);
    u64::from_le_bytes(bytes)
}

pub(super) fn put<const N: usize>(to: &mut [u8], at: usize, number: u64) {
    debug_assert!(N == 8 || number >> (8 * N) == 0, "{number} has more than {N} bytes");
    to[at..at + N].copy_from_slice(&number.to_le_bytes()[..N]);
}

pub(super) fn uuid(from: &[u8], at: usize) -> Uuid {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&from[at..at + 16]);
    uuid
}

/// Puts the checksum of everything behind it into the first four bytes.
pub(super) fn seal(bytes: &mut [u8]) {
    let crc = crc32c(&bytes[4..]);
    put::<4>(bytes, 0, u64::from(crc));
}

/// Whether the first four bytes are the checksum of the others.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    number::<4>(bytes, 0) == u64::from(crc32c(&bytes[4..]))
}

/// Begins a head: magic and version. The checksum goes in last.
pub(super) fn begin_head(magic: &[u8; 8], version: u32) -> [u8; HEAD_BYTES] {
    let mut b = [0; HEAD_BYTES];
    b[4..12].copy_from_slice(magic);
    put::<4>(&mut b, 12, u64::from(version));
    b
}

/// The bytes of a head with this magic that is whole and of a version up to `known`, and the version.
pub(super) fn open_head<'a>(magic: &[u8; 8], known: u32, from: &'a [u8]) -> Found<(&'a [u8], u32)> {
    let Some(b) = from.get(..HEAD_BYTES) else { return Found::Nothing };
    if &b[4..12] != magic {
        return Found::Nothing;
    }
    let version = number::<4>(b, 12) as u32;
    if version > known {
        return Found::Newer(version);
    }
    if version == 0 || !is_sealed(b) {
        return Found::Damaged;
    }
    Found::Good((b, version))
}
