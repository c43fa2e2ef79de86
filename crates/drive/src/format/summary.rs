//! Summary pages: the last rows of a unit with data tell what is beside all its other pages
//! (SpartanSSD, design ES), so that a restart reads these instead.
//!
//! 1. A summary is written behind the last page with data, by the same task, and only if all pages
//!    of the unit were written since the drive started. Otherwise the rows stay erased, and a
//!    restart reads page by page.
//! 2. It only repeats the words beside the pages. A unit whose summary cannot be read is read page
//!    by page.

use crate::format::words::{PageHead, Places};
use tantalum_nand::Geometry;

/// Bytes for one page: its sequence number, and of each sector logical page number and birth.
pub(crate) fn page_note(page_sectors: u32) -> u32 {
    8 + 12 * page_sectors
}

/// Rows at the end of a unit that hold its summary.
pub(crate) fn summary_rows(g: &Geometry) -> u32 {
    (g.unit_pages() * page_note(g.page_sectors())).div_ceil(g.planes * g.page_bytes)
}

/// What is beside one page.
#[derive(Clone, Copy)]
pub(crate) struct Note<'a>(&'a [u8]);

impl Note<'_> {
    /// Its sequence number.
    pub fn sequence(&self) -> u64 {
        word(&self.0[..8])
    }

    /// Logical page number and birth of each sector.
    pub fn sectors(&self) -> impl Iterator<Item = (u32, u64)> {
        let number = |at: &[u8]| at.try_into().map_or(0, u32::from_le_bytes);
        self.0[8..].chunks_exact(12).map(move |s| (number(&s[..4]), word(&s[4..])))
    }
}

fn word(at: &[u8]) -> u64 {
    at.try_into().map_or(0, u64::from_le_bytes)
}

/// Adds what is beside one page.
pub(crate) fn encode(words: &[u64], page_sectors: usize, out: &mut Vec<u8>) {
    let sequence = PageHead::decode(words).map_or(0, |head| head.sequence);
    out.extend(sequence.to_le_bytes());
    let (indices, births) = words[2..].split_at(page_sectors);
    for (index, birth) in indices.iter().zip(births) {
        out.extend((*index as u32).to_le_bytes());
        out.extend(birth.to_le_bytes());
    }
}

/// The notes of the pages with data, from the bytes of a summary.
pub(crate) fn decode<'a>(
    bytes: &'a [u8],
    places: &Places,
) -> impl ExactSizeIterator<Item = Note<'a>> + use<'a> {
    let pages = bytes.chunks_exact(page_note(places.page_sectors) as usize);
    pages.take(places.data_pages as usize).map(Note)
}
