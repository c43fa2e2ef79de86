//! The newest bytes of the log in memory.
//!
//! 1. It holds the bytes from [`Ring::start`] to [`Ring::end`], never more than its capacity.

use crate::Lsn;

pub(crate) struct Ring {
    bytes: Vec<u8>,
    start: Lsn,
    end: Lsn,
}

impl Ring {
    /// Empty, at `start`, for so many bytes.
    pub fn new(start: Lsn, capacity: usize) -> Ring {
        Ring { bytes: vec![0; capacity], start, end: start }
    }

    /// The first byte that it holds.
    pub fn start(&self) -> Lsn {
        self.start
    }

    /// Behind the last byte that it holds.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// How many more bytes it takes.
    pub fn free(&self) -> u64 {
        self.bytes.len() as u64 - self.end.since(self.start)
    }

    /// Adds bytes. There must be room.
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() as u64 <= self.free(), "bytes of the log that have no room in memory");
        let at = self.place(self.end);
        let first = bytes.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.end = self.end.plus(bytes.len() as u64);
    }

    /// Copies the bytes from `lsn` on.
    pub fn copy(&self, lsn: Lsn, to: &mut [u8]) {
        let end = lsn.plus(to.len() as u64);
        assert!(self.start <= lsn && end <= self.end, "bytes of the log that are not in memory");
        let at = self.place(lsn);
        let first = to.len().min(self.bytes.len() - at);
        to[..first].copy_from_slice(&self.bytes[at..at + first]);
        let rest = to.len() - first;
        to[first..].copy_from_slice(&self.bytes[..rest]);
    }

    /// Forgets what is before `lsn`.
    pub fn forget(&mut self, lsn: Lsn) {
        self.start = self.start.max(lsn.min(self.end));
    }

    fn place(&self, lsn: Lsn) -> usize {
        (lsn.0 % self.bytes.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_end_of_the_log(
            start in 0..100u64,
            steps in proptest::collection::vec((0..40usize, 0..50u64), 1..40),
        ) {
            let mut ring = Ring::new(Lsn(start), 64);
            let mut log: Vec<u8> = vec![];
            for (i, (length, forget)) in steps.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..length).map(|n| (n * 7 + i * 31) as u8).collect();
                if bytes.len() as u64 <= ring.free() {
                    ring.push(&bytes);
                    log.extend(&bytes);
                }
                prop_assert_eq!(ring.end(), Lsn(start + log.len() as u64));
                let from = (ring.start().0 - start) as usize;
                let mut copy = vec![0; log.len() - from];
                ring.copy(ring.start(), &mut copy);
                prop_assert_eq!(&copy[..], &log[from..]);
                ring.forget(Lsn(start + forget));
                prop_assert!(ring.start() <= ring.end());
            }
        }
    }
}
