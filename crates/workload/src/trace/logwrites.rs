//! The log of Linux' dm-log-writes. All numbers are little-endian:
//!
//! - One sector with magic number, version and number of entries (u64 each), and the size of a
//!   sector (u32), which is the unit of everything that follows.
//! - For each entry one sector with address, number of sectors, flags and length of a mark's text
//!   (u64 each). The text follows in the same sector.
//! - After each entry its data, as many sectors as it says. A discard has none.
//!
//! What comes after the last entry is not read: the log is often on a larger device.

use super::error::Bad;
use super::fields::request;
use super::{Event, Flags, Kind};
use std::io::{self, Read};

pub(super) const MAGIC: u64 = 0x006a_7366_7773_6872;
pub(super) const VERSION: u64 = 1;
const SUPER_BYTES: usize = 28;
const ENTRY_BYTES: usize = 32;
const SECTORS: std::ops::RangeInclusive<u32> = 512..=65_536;

pub(super) const FLUSH: u64 = 1;
pub(super) const FUA: u64 = 2;
pub(super) const DISCARD: u64 = 4;
pub(super) const MARK: u64 = 8;
const METADATA: u64 = 16;

/// Why the next entry cannot be read.
pub(super) enum Failure {
    Io(io::Error),
    Bad(Bad),
}

impl From<Bad> for Failure {
    fn from(bad: Bad) -> Failure {
        Failure::Bad(bad)
    }
}

/// The position in the log.
#[derive(Default)]
pub(super) struct LogWrites {
    /// One sector; empty until the first one was read.
    sector: Vec<u8>,
    entries_left: u64,
    /// The byte at which the current record starts.
    pub record: u64,
    /// The next byte to be read.
    pub position: u64,
}

impl LogWrites {
    /// The next request, and how many entries before it were not requests.
    pub fn next(&mut self, input: &mut impl Read) -> Result<(Option<Event>, u64), Failure> {
        self.record = self.position;
        if self.sector.is_empty() {
            self.superblock(input)?;
        }
        let mut skipped = 0;
        while self.entries_left > 0 {
            self.record = self.position;
            let event = self.entry(input)?;
            self.entries_left -= 1;
            if event.is_some() {
                return Ok((event, skipped));
            }
            skipped += 1;
        }
        Ok((None, skipped))
    }

    fn superblock(&mut self, input: &mut impl Read) -> Result<(), Failure> {
        let mut head = vec![0; SUPER_BYTES];
        self.fill(input, &mut head, "the head of a dm-log-writes log")?;
        let magic = word(&head, 0);
        if magic != MAGIC {
            let expected = "the magic number of dm-log-writes";
            return Err(Bad::new(expected, &format!("{magic:#x}")).into());
        }
        let version = word(&head, 8);
        if version != VERSION {
            return Err(Bad::new("version 1", &version.to_string()).into());
        }
        self.entries_left = word(&head, 16);
        // The size is a u32, and the next bytes are not part of the header.
        let size = head[24..28].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
        if !size.is_power_of_two() || !SECTORS.contains(&size) {
            let expected = "a sector size that is a power of two from 512 to 65536";
            return Err(Bad::new(expected, &size.to_string()).into());
        }
        self.sector = vec![0; size as usize];
        self.skip(input, u64::from(size) - SUPER_BYTES as u64, "the rest of the first sector")
    }

    fn entry(&mut self, input: &mut impl Read) -> Result<Option<Event>, Failure> {
        let mut sector = std::mem::take(&mut self.sector);
        let filled = self.fill(input, &mut sector, "another entry, as the head says");
        self.sector = sector;
        filled?;
        let size = self.sector.len() as u64;
        let [at, sectors, flags, text] = [0, 8, 16, 24].map(|i| word(&self.sector, i));
        if flags > FLUSH | FUA | DISCARD | MARK | METADATA {
            return Err(Bad::new("flags from 0 to 31", &flags.to_string()).into());
        }
        if flags & MARK != 0 {
            return Ok(Some(self.mark(text)?));
        }
        let kind = if flags & DISCARD != 0 { Kind::Discard } else { Kind::Write };
        let event = request(kind, at, sectors, size)?;
        if kind == Kind::Write {
            self.skip(input, event.length, "the data of the entry")?;
        }
        let has = |flag| flags & flag != 0;
        let wants = Flags { fua: has(FUA), preflush: has(FLUSH), metadata: has(METADATA) };
        Ok(match sectors {
            0 if has(FLUSH) => Some(Event::new(Kind::Flush, 0, 0)),
            0 => None,
            _ => Some(Event { flags: wants, ..event }),
        })
    }

    fn mark(&self, length: u64) -> Result<Event, Bad> {
        let room = &self.sector[ENTRY_BYTES..];
        let text = usize::try_from(length).ok().and_then(|n| room.get(..n));
        let expected = "a mark's text within its sector";
        let text = text.ok_or_else(|| Bad::new(expected, &format!("{length} bytes")))?;
        let text = String::from_utf8_lossy(text);
        let label = Some(text.trim_end_matches('\0').into());
        Ok(Event { label, ..Event::new(Kind::Mark, 0, 0) })
    }

    fn fill(
        &mut self,
        input: &mut impl Read,
        buffer: &mut [u8],
        expected: &'static str,
    ) -> Result<(), Failure> {
        input.read_exact(buffer).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => Failure::Bad(Bad::end(expected)),
            _ => Failure::Io(e),
        })?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn skip(
        &mut self,
        input: &mut impl Read,
        bytes: u64,
        expected: &'static str,
    ) -> Result<(), Failure> {
        let copied = io::copy(&mut input.by_ref().take(bytes), &mut io::sink());
        let copied = copied.map_err(Failure::Io)?;
        self.position += copied;
        if copied < bytes { Err(Bad::end(expected).into()) } else { Ok(()) }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}
