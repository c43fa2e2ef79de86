//! The flusher: from the buffer to flash. One task for each die; whichever is idle
//! pulls the pages that have waited longest, so that all dies are kept busy.

use crate::firmware::Firmware;
use crate::format::journal::Entry;
use crate::format::words::{BORN_NOW, Kind, PART};
use crate::planted::planted;
use crate::state::space::Streams;
use std::rc::Rc;
use tantalum_device::OwnedData;
use tantalum_nand::SECTOR_BYTES;

/// Writes buffered pages to one die, for ever.
pub(crate) async fn write_to(fw: Rc<Firmware>, die: u32) {
    let row = fw.design.geometry.row_sectors();
    let nothing = OwnedData::zeros(fw.nand.payload(), 1, SECTOR_BYTES);
    let mut batch = Vec::with_capacity(row as usize);
    let mut words = Vec::new();
    // A place first, work then: pages go to dies that can take them.
    while fw.ensure_point(die, Streams::Host).await {
        let most = fw.space.borrow().row_left(die, Streams::Host) * fw.places.page_sectors;
        fw.work.until(|| fw.has_work(most)).await;
        if fw.poisoned.get() {
            return;
        }
        let most = most.min(fw.takeable());
        fw.buffer.borrow_mut().take(most, &mut batch);
        if batch.is_empty() {
            continue; // Another die was quicker.
        }
        let grouped = fw.buffer.borrow().is_grouped(batch[0].0);
        let flags = fw.group_flags(grouped);
        let _turn = match flags == PART {
            true => Some(fw.last_page.lock().await),
            false => None,
        };
        if fw.has_work(row) {
            fw.work.notify_one();
        }
        let reserved = fw.begin_changes(batch.iter().map(|b| b.1)).await;
        if fw.poisoned.get() {
            return;
        }
        let pages = (batch.len() as u32).div_ceil(fw.places.page_sectors);
        let sectors = (pages * fw.places.page_sectors) as usize;
        let place = fw.space.borrow_mut().place(die, Streams::Host, pages);
        let Some((at, _)) = place else {
            return fw.fail("the flusher's write point was taken from it");
        };
        let words_of = batch.iter().map(|b| (u64::from(b.1.0) | flags, BORN_NOW));
        let began = if flags == 0 { 0 } else { fw.groups.borrow().began() };
        fw.page_words(Kind::Host, began, pages, words_of, &mut words);
        let op = {
            let buffer = fw.buffer.borrow();
            let taken = batch.iter().map(|(slot, _)| buffer.payload(*slot));
            let padded = taken.chain(std::iter::repeat(nothing.as_data()));
            fw.nand.program_gathered(at, &padded.take(sectors).collect::<Vec<_>>(), &words)
        };
        let Some(op) = fw.must(op) else { return };
        batch.iter().for_each(|(_, lpn)| fw.map.borrow().look_ahead(*lpn));
        let summary = fw.note(at, &words);
        fw.stats.flash_program_bytes.add(fw.page_bytes(pages));
        fw.stats.host_program_bytes.add(fw.page_bytes(pages));
        for (i, (_, lpn)) in batch.iter().enumerate().filter(|_| planted!(MapEarly)) {
            fw.remap(*lpn, Some(fw.places.ppa(at, i as u32)));
        }
        let Some(good) = fw.outcome(at.unit, op.await) else { return };
        let mut freed = 0;
        for (i, (slot, lpn)) in batch.iter().enumerate() {
            if good && fw.buffer.borrow().is_grouped(*slot) {
                // It stays until its group is whole.
                fw.land_in_group(*slot, *lpn, fw.places.ppa(at, i as u32));
                continue;
            }
            if good && !planted!(MapEarly) && fw.buffer.borrow().is_valid(*slot) {
                fw.remap(*lpn, Some(fw.places.ppa(at, i as u32)));
            } else if good {
                fw.enter_stale(at, i as u32, &words); // Discarded meanwhile.
            }
            if good {
                fw.buffer.borrow_mut().finish(*slot);
                freed += 1;
            }
        }
        if !good {
            fw.enter(Entry::Failed { unit: at.unit, from: at.page, until: at.page + pages });
            // In their old order, before all others.
            let slots = batch.iter().rev().map(|b| b.0);
            freed = slots.filter(|slot| fw.buffer.borrow_mut().requeue(*slot)).count() as u64;
        }
        match good && flags != 0 {
            true => fw.landed_with_flags(at.unit, pages),
            false => fw.landed(at.unit, pages),
        }
        fw.end_changes(reserved);
        fw.room.release(freed);
        fw.epochs.notify_all();
        if fw.has_work(row) {
            fw.work.notify_one();
        }
        if !fw.finish_summary(summary).await {
            return;
        }
    }
}

impl Firmware {
    /// Whether there is a row's worth of pages, or pages that somebody waits for: a flush,
    /// or a host for their room, which nothing else will free.
    fn has_work(&self, row: u32) -> bool {
        if self.ending.get().is_some() {
            return self.poisoned.get(); // Soon.
        }
        let buffer = self.buffer.borrow();
        let waiting = buffer.waiting().min(self.takeable());
        let stuck = self.starved.get() && buffer.used() == waiting;
        waiting >= row + self.design.cache.reorder
            || (waiting > 0 && (self.urgent.get() > 0 || self.groups.borrow().are_open() || stuck))
            || self.poisoned.get()
    }

    /// Pages were put into the buffer.
    pub fn announce_work(&self) {
        if self.has_work(self.design.geometry.row_sectors()) {
            self.work.notify_one();
        }
    }
}
