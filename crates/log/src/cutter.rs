//! From blocks to records: bytes come in order, and records are cut off.

use crate::Lsn;
use crate::record::{FRAME, Next, look};

/// Bytes of the log, cut into records.
pub(crate) struct Cutter {
    /// Where the next record begins.
    lsn: Lsn,
    bytes: Vec<u8>,
    /// What of `bytes` was delivered.
    used: usize,
    limit: u32,
}

impl Cutter {
    pub fn new(lsn: Lsn, limit: u32) -> Cutter {
        Cutter { lsn, bytes: Vec::new(), used: 0, limit }
    }

    /// Where the next record begins.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Behind the last byte that is here.
    pub fn end(&self) -> Lsn {
        self.lsn.plus((self.bytes.len() - self.used) as u64)
    }

    /// Adds a block's bytes. What is before the end here is there already.
    pub fn push(&mut self, lsn: Lsn, bytes: &[u8]) {
        let skip = self.end().since(lsn) as usize;
        if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(&bytes[skip.min(bytes.len())..]);
    }

    /// The next whole record. An error if what is here is no record.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Lsn> {
        match look(self.lsn, &self.bytes[self.used..], self.limit) {
            Next::Whole(length) => {
                let from = self.used;
                self.used += length;
                self.lsn = self.lsn.plus(length as u64);
                Ok(Some(&self.bytes[from + FRAME..from + length]))
            }
            Next::Needs(_) => Ok(None),
            Next::Wrong => Err(self.lsn),
        }
    }
}
