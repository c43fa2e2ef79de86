//! Writing summaries (`format/summary`) behind units that are full.

use crate::firmware::Firmware;
use crate::format::summary::{encode, page_note, summary_rows};
use crate::format::words::Kind;
use crate::planted::planted;
use tantalum_device::OwnedData;
use tantalum_nand::{PageAddr, Programmed, SECTOR_BYTES, Unit};

/// A summary that is being written.
#[must_use = "finish it"]
pub(crate) struct Summary {
    at: PageAddr,
    pages: u32,
    ops: Vec<Programmed>,
}

impl Firmware {
    /// Notes pages that were just issued, with the words beside them. If they were the last pages
    /// with data of their unit, it issues the summary.
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
        self.state.space.borrow_mut().fly(unit);
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
