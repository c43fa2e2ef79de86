//! Log sequence numbers.

use std::fmt;

/// A log sequence number: the offset of a byte in an endless log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The first byte of every log.
    pub const ZERO: Lsn = Lsn(0);

    /// The LSN `bytes` further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Lsn {
        Lsn(self.0 + bytes)
    }

    /// How many bytes lie between `earlier` and this one; 0 if `earlier` is the later one.
    pub fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LSN {}", self.0)
    }
}
