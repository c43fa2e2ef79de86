//! Recorded page numbers: for each I/O a little-endian u32, page × 2 + (1 = write).

use super::error::Bad;
use super::logwrites::Failure;
use super::{Event, Kind};
use std::io::{ErrorKind, Read};

/// The position in the recording.
pub(super) struct Pages {
    pub page_size: u32,
    /// The byte at which the current record starts.
    pub record: u64,
}

impl Pages {
    /// The next request.
    pub fn next(&mut self, input: &mut impl Read) -> Result<Option<Event>, Failure> {
        let mut word = [0; 4];
        let mut read = 0;
        while read < word.len() {
            match input.read(&mut word[read..]) {
                Ok(0) if read == 0 => return Ok(None),
                Ok(0) => return Err(Bad::end("all four bytes of a record").into()),
                Ok(n) => read += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Failure::Io(e)),
            }
        }
        self.record += word.len() as u64;
        let word = u32::from_le_bytes(word);
        let kind = if word & 1 == 1 { Kind::Write } else { Kind::Read };
        let size = u64::from(self.page_size);
        // No overflow: below 2^31 pages of less than 2^32 bytes.
        Ok(Some(Event::new(kind, u64::from(word >> 1) * size, size)))
    }
}
