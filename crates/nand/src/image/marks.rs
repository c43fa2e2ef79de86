//! The marks of the image's last user. A mark says whether all of the file is on the host's disk,
//! and if not, under which boot of the host the image was in use.
//!
//! 1. Before anything in an image changes, a durable mark says `in use`, with the id of the host's
//!    boot.
//! 2. The mark is clean again when everything that was stored is durable.
//! 3. If the image was in use under another boot, its host has crashed.
//! 4. There are two marks, each in a page of its own. The valid one with the higher number counts.
//!    A new mark overwrites the other one.

use super::mapped::PAGE;
use super::sync::put;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of the marks in the file.
pub(crate) const MARKS_BYTES: u64 = 2 * PAGE;

/// The id of a boot of the host.
pub(crate) type Boot = [u8; 16];

/// The content of a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The number of the mark.
    pub number: u64,
    /// The boot under which it was written.
    pub boot: Boot,
    /// The file may differ from what is on the host's disk.
    pub in_use: bool,
    /// After a crash the synced content with this mark's number counts (`sync`).
    pub synced: bool,
}

const IN_USE: u64 = 1;
const SYNCED: u64 = 2;
const LEN: usize = 44;

impl Mark {
    fn encode(&self) -> [u8; LEN] {
        let flags = if self.in_use { IN_USE } else { 0 } | if self.synced { SYNCED } else { 0 };
        let mut out = [0; LEN];
        out[..8].copy_from_slice(b"TT-MARK\0");
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..32].copy_from_slice(&self.boot);
        out[32..40].copy_from_slice(&flags.to_le_bytes());
        let sum = crc32c::crc32c(&out[..40]);
        out[40..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; LEN]) -> Option<Mark> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let sum = [40, 41, 42, 43].map(|i| bytes[i]);
        let is_whole =
            bytes[..8] == *b"TT-MARK\0" && u32::from_le_bytes(sum) == crc32c::crc32c(&bytes[..40]);
        let mut boot = [0; 16];
        boot.copy_from_slice(&bytes[16..32]);
        let (number, flags) = (word(8), word(32));
        let (in_use, synced) = (flags & IN_USE != 0, flags & SYNCED != 0);
        is_whole.then_some(Mark { number, boot, in_use, synced })
    }

    /// The mark that counts. An image that was never used has none. `Err(None)`: the marks are
    /// neither valid nor blank.
    pub fn read(file: &File, at: u64) -> Result<Mark, Option<io::Error>> {
        let mut marks = Vec::new();
        let mut blank = 0;
        for page in 0..2 {
            let mut bytes = [0; LEN];
            file.read_exact_at(&mut bytes, at + page * PAGE).map_err(Some)?;
            blank += u32::from(bytes == [0; LEN]);
            marks.extend(Mark::decode(&bytes));
        }
        match marks.into_iter().max_by_key(|mark| mark.number) {
            Some(mark) => Ok(mark),
            None if blank == 2 => Ok(Mark::default()),
            None => Err(None),
        }
    }

    /// Writes the mark in place of the older one, durably.
    pub fn write(&self, file: &File, at: u64) -> io::Result<()> {
        put(file, at + self.number % 2 * PAGE, &self.encode())
    }
}
