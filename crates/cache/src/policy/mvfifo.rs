//! Multi-version FIFO and group second chance (Kang, Lee, Moon, "Flash as cache extension for online
//! transactional workloads", VLDB Journal 2016, sections 3 and 4).
//!
//! 1. **Enter.** A page that leaves RAM enters at the rear if it is newer than its flash copy, or if
//!    there is none; its older version becomes invalid in memory, without a write. Any other page is
//!    dropped. A newer version inherits the reference mark: it is of the page (unless the
//!    configuration says otherwise).
//! 2. **Leave.** When the last batch was written and the next version comes, the front batch leaves:
//!    valid dirty versions go to the slow store, the others are dropped.
//! 3. **Second chance.** With it, valid versions that were referenced since they entered go to the
//!    rear again, clean or dirty as they are, with their marks cleared. If all of a batch were
//!    referenced, the first leaves all the same, so that every round makes room.
//! 4. **Pulling.** With second chance, the room that is left in the outgoing batch is filled from
//!    the cold end of RAM, with at most as many pages as a batch has.
//! 5. Flash sees appends only: each batch is one write. Second chance reads the front batch in one
//!    piece, if anything in it is needed; without it, only runs of dirty valid frames are read.
//! 6. After every 64,000 entries, they are written as a segment of the directory (2 MB), behind the
//!    ring. The space has the segments of the whole ring and two more.

use super::contract::{Access, Admit, Exit, Hit, Mode, Occupancy, Policy, Pull};
use super::page::{Lsn, PageId, Version};
use super::ring::{Batch, ENTRY, Entry, Ring};
use super::work::{Source, Work};
use std::ops::Range;

/// Entries of a segment.
const SEGMENT: u64 = 64_000;

/// See the module.
pub(super) struct MvFifo {
    ring: Ring,
    batch: u32,
    page_bytes: u64,
    second_chance: bool,
    mode: Mode,
    admit: Admit,
    inherits: bool,
    leaving: Vec<(u32, Entry)>,
    /// Entries written since the last segment.
    unsaved: u64,
    segment: u64,
    segments: u64,
}

impl MvFifo {
    /// A ring of so many batches of `batch` pages.
    pub fn new(
        batches: u32,
        batch: u32,
        page_bytes: u64,
        second_chance: bool,
        mode: Mode,
        admit: Admit,
    ) -> MvFifo {
        MvFifo {
            ring: Ring::new(batches, batch, page_bytes),
            batch,
            page_bytes,
            second_chance,
            mode,
            admit,
            inherits: true,
            leaving: Vec::with_capacity(batch as usize),
            unsaved: 0,
            segment: 0,
            segments: (u64::from(batches) * u64::from(batch)).div_ceil(SEGMENT) + 2,
        }
    }

    /// The same; newer versions inherit the reference mark or do not.
    pub fn inheriting(self, inherits: bool) -> MvFifo {
        MvFifo { inherits, ..self }
    }

    /// Decides about a page that leaves RAM: its entry, if it enters (1).
    fn admit(&mut self, exit: Exit, work: &mut Work) -> Option<Entry> {
        let held = self.ring.find(exit.page).map(|frame| self.ring.entry(frame));
        if held.is_some() && !exit.fdirty {
            return None;
        }
        if let Some(held) = held {
            assert!(exit.lsn >= held.version.lsn, "an exit is older than the version on flash");
        }
        let version = Version { page: exit.page, lsn: exit.lsn };
        let back = exit.dirty && self.mode == Mode::Back && self.admit != Admit::Clean;
        if exit.dirty && !back {
            work.slow_write(version, Source::Ram);
        }
        self.ring.invalidate(exit.page);
        let referenced = self.inherits && held.is_some_and(|held| held.referenced);
        let admitted = match self.admit {
            Admit::Mixed => true,
            Admit::Clean => !exit.dirty,
            Admit::Dirty => exit.dirty,
        };
        admitted.then_some(Entry { version, valid: true, dirty: back, referenced })
    }

    fn enter(&mut self, entry: Entry, pull: &mut dyn Pull, work: &mut Work) {
        let vacates = self.ring.is_at_its_end();
        if vacates {
            self.vacate(work);
        }
        self.ring.push(entry);
        if vacates && self.second_chance {
            self.fill(pull, work);
        }
        if self.ring.open_is_full() {
            self.write_batch(work);
        }
    }

    /// The front batch leaves (2, 3).
    fn vacate(&mut self, work: &mut Work) {
        let mut leaving = std::mem::take(&mut self.leaving);
        let front = self.ring.take_front(&mut leaving);
        let again = |e: &Entry| self.second_chance && e.referenced;
        let all = leaving.len() as u32 == self.batch && leaving.iter().all(|(_, e)| again(e));
        if all {
            leaving[0].1.referenced = false;
        }
        leaving.retain(|(_, e)| e.dirty || again(e));
        self.read_front(front, &leaving, work);
        for (frame, entry) in leaving.drain(..) {
            if self.second_chance && entry.referenced {
                self.ring.push(Entry { referenced: false, ..entry });
            } else {
                work.slow_write(entry.version, Source::Cache(Some(self.ring.byte(frame))));
            }
        }
        self.leaving = leaving;
    }

    /// Reads what is needed of the front batch (5).
    fn read_front(&self, front: Batch, needed: &[(u32, Entry)], work: &mut Work) {
        let page = self.page_bytes;
        if self.second_chance {
            if !needed.is_empty() {
                let first = front.position * self.batch;
                work.flash_read(self.ring.byte(first), u64::from(front.pages) * page);
            }
            return;
        }
        for run in needed.chunk_by(|a, b| a.0 + 1 == b.0) {
            work.flash_read(self.ring.byte(run[0].0), run.len() as u64 * page);
        }
    }

    /// Pulls pages from RAM into the open batch (4).
    fn fill(&mut self, pull: &mut dyn Pull, work: &mut Work) {
        for _ in 0..self.batch {
            if self.ring.open_is_full() {
                return;
            }
            let Some(exit) = pull.pull() else { return };
            if let Some(entry) = self.admit(exit, work) {
                self.ring.push(entry);
            }
        }
    }

    fn write_batch(&mut self, work: &mut Work) {
        let batch = self.ring.complete();
        let (offset, bytes) = self.ring.place(batch);
        work.flash_write(offset, bytes, self.ring.versions(batch));
        self.unsaved += u64::from(batch.pages);
        if self.unsaved >= SEGMENT {
            self.unsaved -= SEGMENT;
            let bytes = SEGMENT * ENTRY;
            work.metadata_write(self.ring.bytes() + self.segment * bytes, bytes);
            self.segment = (self.segment + 1) % self.segments;
        }
    }
}

impl Policy for MvFifo {
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit> {
        let frame = self.ring.find(access.page)?;
        self.ring.reference(frame);
        let Entry { version, dirty, .. } = self.ring.entry(frame);
        let offset = self.ring.offset(frame);
        if let Some(offset) = offset {
            work.flash_read(offset, self.page_bytes);
        }
        Some(Hit { lsn: version.lsn, dirty, frame: offset })
    }

    fn fetched(&mut self, _: Access, _: Lsn, _: &mut Work) {}

    fn evict(&mut self, exit: Exit, pull: &mut dyn Pull, work: &mut Work) {
        if let Some(entry) = self.admit(exit, work) {
            self.enter(entry, pull, work);
        }
    }

    fn forget(&mut self, page: PageId, _: &mut Work) {
        self.ring.invalidate(page);
    }

    fn forget_range(&mut self, pages: Range<u64>, _: &mut Work) {
        let held = self.ring.pages_in(&pages);
        held.into_iter().for_each(|page| self.ring.invalidate(page));
    }

    fn flush(&mut self, work: &mut Work) {
        if self.ring.open_pages() > 0 {
            self.write_batch(work);
        }
    }

    fn clean(&mut self, work: &mut Work) {
        for frame in self.ring.dirty_frames() {
            let offset = self.ring.offset(frame);
            if let Some(offset) = offset {
                work.flash_read(offset, self.page_bytes);
            }
            work.slow_write(self.ring.entry(frame).version, Source::Cache(offset));
            self.ring.mark_clean(frame);
        }
    }

    fn occupancy(&self) -> Occupancy {
        let (used, valid, dirty) = self.ring.occupancy();
        Occupancy { used, valid, dirty }
    }

    fn flash_bytes(&self) -> u64 {
        self.ring.bytes() + self.segments * SEGMENT * ENTRY
    }
}
