//! The flusher: from the buffer to flash. One task for each die; whichever is idle
//! pulls the pages that have waited longest, so that all dies are kept busy.

use crate::firmware::Firmware;
use crate::firmware::events::Marks;
use crate::format::unit_journal::Entry;
use crate::format::words::{BORN_NOW, Kind, Lpn};
use crate::planted::planted;
use crate::state::buffer::Slot;
use crate::state::space::WriteStream;
use std::rc::Rc;
use tantalum_device::OwnedData;
use tantalum_nand::{PageAddr, Programmed, SECTOR_BYTES};

/// Writes buffered pages to one die, for ever.
pub(crate) async fn write_to(fw: Rc<Firmware>, die: u32) {
    let row = fw.design.geometry.row_sectors();
    let mut flusher = Flusher {
        fw: &fw,
        die,
        row,
        nothing: OwnedData::zeros(fw.nand.payload(), 1, SECTOR_BYTES),
        batch: Vec::with_capacity(row as usize),
        words: Vec::new(),
    };
    // First it finds a place, then takes pages from the buffer. So pages go to dies that can take
    // them.
    while fw.ensure_point(die, WriteStream::Host).await && flusher.write_some().await {}
}

struct Flusher<'a> {
    fw: &'a Firmware,
    die: u32,
    /// Sectors of a row.
    row: u32,
    /// A sector of zeros.
    nothing: OwnedData,
    /// What is being programmed.
    batch: Vec<(Slot, Lpn)>,
    /// What is beside it.
    words: Vec<u64>,
}

impl Flusher<'_> {
    /// Programs what waits, at most a row. False if the drive is poisoned.
    async fn write_some(&mut self) -> bool {
        let fw = self.fw;
        let most =
            fw.state.space.borrow().row_left(self.die, WriteStream::Host) * fw.places.page_sectors;
        fw.flusher.work.until(|| fw.has_work(most)).await;
        if fw.is_poisoned() {
            return false;
        }
        let most = most.min(fw.takeable());
        fw.state.buffer.borrow_mut().take(most, &mut self.batch);
        if self.batch.is_empty() {
            return true; // Another die was quicker.
        }
        let is_grouped = fw.state.buffer.borrow().is_grouped(self.batch[0].0);
        let marks = if is_grouped { fw.groups.scheme.marks(fw) } else { Marks::default() };
        let _turn = match fw.groups.scheme.last_page().filter(|_| marks.is_last()) {
            Some(last_page) => Some(last_page.lock().await),
            None => None,
        };
        if fw.has_work(self.row) {
            fw.flusher.work.notify_one();
        }
        let reserved = fw.begin_changes(self.batch.iter().map(|b| b.1)).await;
        if fw.is_poisoned() {
            return false;
        }
        let pages = (self.batch.len() as u32).div_ceil(fw.places.page_sectors);
        let place = fw.state.space.borrow_mut().place(self.die, WriteStream::Host, pages);
        let Some((at, _)) = place else {
            fw.fail("the flusher's write point was taken from it");
            return false;
        };
        let Some(op) = self.issue(at, pages, marks) else { return false };
        self.batch.iter().for_each(|(_, lpn)| fw.state.map.borrow().look_ahead(*lpn));
        let summary = fw.note(at, &self.words);
        fw.stats.flash_program_bytes.add(fw.page_bytes(pages));
        fw.stats.host_program_bytes.add(fw.page_bytes(pages));
        for (i, (_, lpn)) in self.batch.iter().enumerate().filter(|_| planted!(MapEarly)) {
            fw.remap(*lpn, Some(fw.places.ppa(at, i as u32)));
        }
        let Some(good) = fw.outcome(at.unit, op.await) else { return false };
        let freed = match good {
            true => self.land(at),
            false => {
                fw.enter(Entry::Failed { unit: at.unit, from: at.page, until: at.page + pages });
                // In their old order, before all others.
                let slots = self.batch.iter().rev().map(|b| b.0);
                slots.filter(|slot| fw.state.buffer.borrow_mut().requeue(*slot)).count() as u64
            }
        };
        match good && marks.flags != 0 {
            true => fw.groups.scheme.landed(fw, at.unit, pages),
            false => fw.landed(at.unit, pages),
        }
        fw.end_changes(reserved);
        fw.host.room.release(freed);
        fw.flusher.epochs.notify_all();
        if fw.has_work(self.row) {
            fw.flusher.work.notify_one();
        }
        fw.finish_summary(summary).await
    }

    /// Begins to program the batch. `None` if the drive is poisoned.
    fn issue(&mut self, at: PageAddr, pages: u32, marks: Marks) -> Option<Programmed> {
        let fw = self.fw;
        let words = self.batch.iter().map(|b| (u64::from(b.1.0) | marks.flags, BORN_NOW));
        fw.page_words(Kind::Host, marks.began, pages, words, &mut self.words);
        let sectors = (pages * fw.places.page_sectors) as usize;
        let buffer = fw.state.buffer.borrow();
        let taken = self.batch.iter().map(|(slot, _)| buffer.payload(*slot));
        let padded = taken.chain(std::iter::repeat(self.nothing.as_data()));
        let data = padded.take(sectors).collect::<Vec<_>>();
        let op = fw.nand.program_gathered(at, &data, &self.words);
        drop(buffer);
        fw.must(op)
    }

    /// The batch is on flash from `at` on; how many slots of the buffer are free by that.
    fn land(&self, at: PageAddr) -> u64 {
        let fw = self.fw;
        let mut freed = 0;
        fw.look_ahead_of_moves(self.batch.iter().map(|b| b.1));
        for (i, (slot, lpn)) in (0..).zip(&self.batch) {
            let place = fw.places.ppa(at, i);
            if fw.state.buffer.borrow().is_grouped(*slot) {
                // It stays until its group is whole.
                fw.land_in_group(*slot, *lpn, place);
                continue;
            }
            if !planted!(MapEarly) && fw.state.buffer.borrow().is_valid(*slot) {
                fw.remap(*lpn, Some(place));
            } else {
                fw.enter_stale(at, i, &self.words); // Discarded meanwhile.
            }
            fw.state.buffer.borrow_mut().finish(*slot);
            freed += 1;
        }
        freed
    }
}

impl Firmware {
    /// Whether there are enough pages for a row, or pages that are waited for: by a flush, or by a
    /// host that needs their room, which nothing else will free.
    fn has_work(&self, row: u32) -> bool {
        if self.is_ending() {
            return self.is_poisoned(); // Soon.
        }
        let buffer = self.state.buffer.borrow();
        let waiting = buffer.waiting().min(self.takeable());
        let stuck = self.host.starved.get() && buffer.used() == waiting;
        waiting >= row + self.design.cache.reorder
            || (waiting > 0
                && (self.host.urgent.get() > 0
                    || buffer.is_hasty()
                    || self.groups.under_way.borrow().are_open()
                    || stuck))
            || self.is_poisoned()
    }

    /// Pages were put into the buffer.
    pub fn announce_work(&self) {
        if self.has_work(self.design.geometry.row_sectors()) {
            self.flusher.work.notify_one();
        }
    }
}
