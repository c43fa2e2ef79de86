//! Summary pages: the last rows of a unit with data tell what is beside all its other pages
//! (SpartanSSD, design ES), so that a restart reads these instead.
//!
//! 1. A summary is written behind the last page with data, by whoever wrote that, and only if
//!    all pages of the unit were written since the drive started: else the rows stay erased,
//!    and a restart reads page by page.
//! 2. It says nothing that is not beside the pages, and is not needed: a unit whose summary
//!    can not be read is read page by page.

use crate::firmware::Firmware;
use crate::format::words::{Kind, PageHead, Places};
use crate::planted::planted;
use tantalum_device::OwnedData;
use tantalum_nand::{Geometry, PageAddr, Programmed, SECTOR_BYTES, Unit};

/// Bytes for one page: its sequence number, and of each sector logical page number and birth.
fn page_note(page_sectors: u32) -> u32 {
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

fn encode(words: &[u64], page_sectors: usize, out: &mut Vec<u8>) {
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

/// A summary that is being written.
#[must_use = "finish it"]
pub(crate) struct Summary {
    at: PageAddr,
    pages: u32,
    ops: Vec<Programmed>,
}

impl Firmware {
    /// Takes note of pages that were just issued, with these words beside them; if they were
    /// the last ones with data of their unit, its summary is issued.
    pub fn note(&self, at: PageAddr, words: &[u64]) -> Option<Summary> {
        if !self.design.map.summary {
            return None;
        }
        let width = self.nand.oob_words();
        let pages = (words.len() / width) as u32;
        let full = at.page + pages == self.places.data_pages;
        let mut notes = self.notes.borrow_mut();
        if at.page == 0 {
            let bytes = self.places.data_pages * page_note(self.places.page_sectors);
            notes.insert(at.unit.0, Vec::with_capacity(bytes as usize));
        }
        let note = match planted!(SummaryOfPart) {
            true => notes.entry(at.unit.0).or_default(),
            false => notes.get_mut(&at.unit.0)?,
        };
        for page in words.chunks_exact(width) {
            encode(page, self.places.page_sectors as usize, note);
        }
        if !full {
            return None;
        }
        let mut bytes = notes.remove(&at.unit.0)?;
        let one = page_note(self.places.page_sectors) as usize;
        if planted!(SummaryStale) && bytes.len() > one {
            let last = bytes.len() - one;
            bytes.copy_within(..one, last);
        }
        drop(notes);
        self.issue_summary(at.unit, bytes)
    }

    fn issue_summary(&self, unit: Unit, mut bytes: Vec<u8>) -> Option<Summary> {
        let (planes, g) = (self.places.planes, &self.design.geometry);
        let rows = summary_rows(g);
        let row = g.row_sectors() as usize;
        bytes.resize((rows * planes * g.page_bytes) as usize, 0);
        let at = PageAddr { unit, page: self.places.data_pages };
        let mut ops = Vec::new();
        let mut words = Vec::new();
        for (i, some) in (0..).zip(bytes.chunks_exact((planes * g.page_bytes) as usize)) {
            let place = PageAddr { unit, page: at.page + i * planes };
            self.page_words(Kind::Summary, 0, planes, (0..row).map(|_| (0, 0)), &mut words);
            let data = OwnedData::Bytes(some.to_vec());
            ops.push(self.must(self.nand.program(place, data.as_data(), &words))?);
            self.stats.flash_program_bytes.add(self.page_bytes(planes));
            self.stats.meta_bytes.add(self.page_bytes(planes));
        }
        self.space.borrow_mut().fly(unit);
        debug_assert_eq!(SECTOR_BYTES as usize * row, (planes * g.page_bytes) as usize);
        Some(Summary { at, pages: rows * planes, ops })
    }

    /// Waits until a summary is on flash. False if the drive is poisoned.
    pub async fn finish_summary(&self, summary: Option<Summary>) -> bool {
        let Some(Summary { at, pages, ops }) = summary else { return true };
        for op in ops {
            if self.outcome(at.unit, op.await).is_none() {
                return false;
            }
        }
        self.landed(at.unit, pages);
        true
    }
}
