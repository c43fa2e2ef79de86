//! The keeper of the map log: the one task that writes it, so that its records are in
//! order without locks.
//!
//! 1. A journal record is written after all earlier ones are on flash.
//! 2. Before anything is written there is room to write the whole map anew.
//! 3. The keeper waits only for the flash array and for the last page of a group. A task that holds
//!    the lock of the latter does not wait for the keeper. What it erases needs no entry in the
//!    journal of units (`reservations`, 4). So it can work without other tasks, too: at the end of
//!    a salvage.

use crate::firmware::Firmware;
use crate::format::entries::{DELTA_ENTRIES, encode_entry, map_page};
use crate::format::unit_journal::{ENTRY_BYTES, Entry, SECTOR_ENTRIES};
use crate::format::words::{Kind, LOG_VERSION_BITS, Lpn, Ppa, Version};
use crate::planted::planted;
use crate::state::groups::Change;
use crate::state::maplog::LogPlace;
use crate::state::space::{FreeUnit, Role};
use crate::state::unit_journal::Spilled;
use std::collections::BTreeSet;
use std::rc::Rc;
use tantalum_device::Data;
use tantalum_nand::{Programmed, SECTOR_BYTES, Unit};

const SECTOR: usize = SECTOR_BYTES as usize;

/// Keeps the log, for ever.
pub(crate) async fn keep_log(fw: Rc<Firmware>) {
    loop {
        fw.keeper.work.until(|| fw.log_is_due() || fw.is_poisoned()).await;
        if fw.is_poisoned() {
            if fw.is_read_only() && !fw.design.is_protected() {
                let _ = commit(&fw).await; // Which units are bad; as far as it goes.
            }
            return;
        }
        let _turn = match fw.groups.scheme.last_page() {
            Some(last_page) => Some(last_page.lock().await),
            None => None,
        };
        let done = match () {
            () if fw.groups.under_way.borrow().are_ready() => record_groups(&fw).await,
            () if fw.is_spill_enough() => spill(&fw).await,
            () if fw.design.keeps_units() => checkpoint(&fw).await,
            () if fw.design.is_protected() && fw.is_drain_due() => drain(&fw).await,
            () if fw.design.is_protected() => store_dirty(&fw).await,
            () => commit(&fw).await,
        };
        if done.is_none() {
            fw.poison();
        }
        fw.end_life_if_told();
    }
}

impl Firmware {
    fn log_is_due(&self) -> bool {
        let log = self.state.log.borrow();
        self.is_high(&log)
            || self.keeper.durable_wanted.get() > log.durable()
            || self.is_drain_due()
            || self.keeper.turn_wanted.get()
            || self.keeper.idle_checkpoint.get()
            || self.groups.under_way.borrow().are_ready()
    }

    fn is_drain_due(&self) -> bool {
        self.keeper.drain_wanted.get() > self.keeper.drained.get()
    }

    /// Waits until all changes up to `version` survive a power loss. False if the drive
    /// is poisoned.
    pub async fn make_durable(&self, version: Version) -> bool {
        if self.state.log.borrow().durable() < version {
            self.keeper.durable_wanted.set(self.keeper.durable_wanted.get().max(version));
            self.keeper.work.notify_all();
            let done = || self.state.log.borrow().durable() >= version || self.is_poisoned();
            self.keeper.progress.until(done).await;
        }
        !self.is_poisoned()
    }

    /// Waits until all changes made so far are in the log, even if the dump would have
    /// stored them. False if the drive is poisoned.
    pub async fn drain_map(&self) -> bool {
        let version = self.state.map.borrow().version();
        if !self.design.is_protected() {
            return self.make_durable(version).await;
        }
        self.keeper.drain_wanted.set(self.keeper.drain_wanted.get().max(version));
        self.keeper.work.notify_all();
        self.keeper
            .progress
            .until(|| self.keeper.drained.get() >= version || self.is_poisoned())
            .await;
        !self.is_poisoned()
    }
}

/// Writes all changes that wait for the journal.
async fn commit(fw: &Firmware) -> Option<()> {
    clean(fw).await?;
    let version = fw.state.map.borrow().version();
    let pending = fw.state.log.borrow_mut().take_pending();
    store_changes(fw, version, pending).await
}

/// Writes what has changed since the map was drained, of a protected drive: deltas, as a drive
/// without capacitors would. Otherwise, where that is not known, images of all dirty map pages.
async fn drain(fw: &Firmware) -> Option<()> {
    clean(fw).await?;
    let version = fw.state.map.borrow().version();
    let undrained = fw.state.log.borrow_mut().take_undrained();
    let Some(undrained) = undrained else { return store_dirty(fw).await };
    store_changes(fw, version, undrained).await?;
    fw.keeper.drained.set(version);
    fw.keeper.progress.notify_all();
    Some(())
}

/// Writes these changes of the map, which are all up to `version` that count, to the log.
async fn store_changes(fw: &Firmware, version: Version, mut pending: Vec<Lpn>) -> Option<()> {
    pending.sort_unstable();
    pending.dedup();
    if planted!(JournalSkipsEntry) {
        pending.pop();
    }
    let mut pages: Vec<u32> = pending.iter().map(|lpn| map_page(*lpn)).collect();
    pages.dedup();
    if pages.len() < pending.len().div_ceil(DELTA_ENTRIES as usize) {
        // Images take less room; so a commit is never larger than the map.
        if let Some(dirty) = fw.state.log.borrow_mut().dirty_mut() {
            pages.iter().for_each(|page| dirty.begin_page(*page));
        }
        store_images(fw, &pages).await?;
        fw.state.log.borrow_mut().set_durable(version);
        fw.keeper.progress.notify_all();
        return Some(());
    }
    let mut counts = Vec::new();
    let mut bytes = Vec::new();
    for chunk in pending.chunks(DELTA_ENTRIES as usize) {
        counts.push(chunk.len() as u32);
        let start = bytes.len();
        bytes.resize(start + SECTOR, 0);
        let map = fw.state.map.borrow();
        for (lpn, out) in chunk.iter().zip(bytes[start..].chunks_exact_mut(8)) {
            encode_entry(*lpn, map.get(*lpn), out);
        }
    }
    if planted!(DurableEarly) {
        fw.state.log.borrow_mut().set_durable(version);
        fw.keeper.progress.notify_all();
    }
    let written = append(fw, Kind::MapDelta, version, &counts, &bytes).await?;
    let mut log = fw.state.log.borrow_mut();
    for (chunk, (serial, _)) in pending.chunks(DELTA_ENTRIES as usize).zip(written) {
        for lpn in chunk {
            log.delta_stored(*lpn, serial);
        }
    }
    log.set_durable(version);
    drop(log);
    fw.keeper.progress.notify_all();
    Some(())
}

/// Writes the records of atomic groups that are on flash: each in one sector, which is there
/// whole or not at all. Then they are mapped.
async fn record_groups(fw: &Firmware) -> Option<()> {
    clean(fw).await?;
    // The record is newer than everything in the log, and older than everything that will be
    // written after it.
    let version = fw.state.map.borrow_mut().bump();
    let groups = fw.groups.under_way.borrow_mut().take_ready();
    let mut sectors: Vec<Vec<Change>> = Vec::new();
    for group in &groups {
        match sectors.last_mut() {
            Some(some) if some.len() + group.changes.len() <= DELTA_ENTRIES as usize => {
                some.extend(&group.changes);
            }
            _ => sectors.push(group.changes.clone()),
        }
    }
    if planted!(GroupRecordedInParts) {
        let halves = |some: Vec<Change>| {
            let half = some[some.len() / 2..].to_vec();
            [some[..some.len() / 2].to_vec(), half]
        };
        sectors = sectors.into_iter().flat_map(halves).collect();
    }
    for some in sectors.chunks(if planted!(GroupRecordedInParts) { 1 } else { sectors.len() }) {
        let mut bytes = vec![0; some.len() * SECTOR];
        for (changes, out) in some.iter().zip(bytes.chunks_exact_mut(SECTOR)) {
            for (change, out) in changes.iter().zip(out.chunks_exact_mut(8)) {
                encode_entry(change.lpn, Some(change.place), out);
            }
        }
        let counts: Vec<u32> = some.iter().map(|changes| changes.len() as u32).collect();
        let written = append(fw, Kind::MapDelta, version, &counts, &bytes).await?;
        let mut log = fw.state.log.borrow_mut();
        for (changes, (serial, _)) in some.iter().zip(written) {
            changes.iter().for_each(|change| log.delta_stored(change.lpn, serial));
        }
    }
    groups.iter().for_each(|group| fw.map_group(group));
    Some(())
}

/// Stores all dirty map pages, with no keeper at work.
pub(crate) async fn store_map(fw: &Firmware) -> Option<()> {
    fw.keeper.drain_wanted.set(fw.state.map.borrow().version());
    fw.keeper.drained.set(Version(0));
    match fw.design.keeps_units() {
        true => checkpoint(fw).await,
        false => store_dirty(fw).await,
    }
}

/// Writes the oldest entries of the journal of units to the log, as they are. If too few can be
/// spilled, it makes a checkpoint.
async fn spill(fw: &Firmware) -> Option<()> {
    clean(fw).await?;
    let batch = {
        let (space, mut log) = (fw.state.space.borrow(), fw.state.log.borrow_mut());
        let writing: BTreeSet<u32> = space.writing().map(|(unit, _)| unit.0).collect();
        let most = SECTOR_ENTRIES * fw.places.page_sectors as usize;
        log.journal_mut()?.begin_spill(most, |unit| writing.contains(&unit.0))
    };
    let Some(batch) = batch else {
        fw.fail("the journal of units was to be spilled during a checkpoint");
        return None;
    };
    let sectors: Vec<&[Entry]> = batch.chunks(SECTOR_ENTRIES).collect();
    let written = append_entries(fw, &sectors).await?;
    if let Some(journal) = fw.state.log.borrow_mut().journal_mut() {
        journal.end_spill(written.into_iter(), SECTOR_ENTRIES);
    }
    fw.stats.spilled_entries.add(batch.len() as u64);
    fw.keeper.progress.notify_all();
    if batch.len() * 8 < fw.design.map.journal_entries as usize {
        checkpoint(fw).await?;
    }
    Some(())
}

/// Writes entries of the journal of units to the log, a sector for each of these lists; where.
async fn append_entries(fw: &Firmware, sectors: &[&[Entry]]) -> Option<Vec<Ppa>> {
    let mut bytes = vec![0; sectors.len() * SECTOR];
    for (entries, out) in sectors.iter().zip(bytes.chunks_exact_mut(SECTOR)) {
        for (entry, out) in entries.iter().zip(out.chunks_exact_mut(ENTRY_BYTES)) {
            out.copy_from_slice(&entry.encode());
        }
    }
    let counts: Vec<u32> = sectors.iter().map(|entries| entries.len() as u32).collect();
    let version = fw.state.map.borrow().version();
    let written = append(fw, Kind::MapJournal, version, &counts, &bytes).await?;
    Some(written.into_iter().map(|(_, place)| place).collect())
}

/// Stores all map pages that are dirty now; then the journal's older entries are void.
async fn checkpoint(fw: &Firmware) -> Option<()> {
    fw.keeper.since_checkpoint.set(0);
    fw.keeper.idle_checkpoint.set(false);
    let has_begun = {
        let (space, mut log) = (fw.state.space.borrow(), fw.state.log.borrow_mut());
        log.journal_mut().is_none_or(|journal| journal.begin_checkpoint(space.writing()))
    };
    if !has_begun {
        fw.fail("a checkpoint was to begin while the journal of units is being spilled");
        return None;
    }
    fw.keeper.drain_wanted.set(fw.keeper.drain_wanted.get().max(fw.state.map.borrow().version()));
    store_dirty(fw).await?;
    if let Some(journal) = fw.state.log.borrow_mut().journal_mut() {
        journal.end_checkpoint();
    }
    fw.stats.checkpoints.add(1);
    fw.keeper.progress.notify_all();
    Some(())
}

/// Stores dirty map pages: the longest dirty ones, or all that are dirty now if a drain
/// was asked for.
async fn store_dirty(fw: &Firmware) -> Option<()> {
    let version = fw.state.map.borrow().version();
    let drain = fw.keeper.drain_wanted.get() > fw.keeper.drained.get();
    let most = batch(fw);
    let mut left = match drain || fw.design.map.whole {
        true => fw.state.log.borrow().dirty().map_or(0, |d| d.pages()),
        false => most,
    };
    let mut pages = Vec::new();
    while left > 0 {
        clean(fw).await?;
        if let Some(dirty) = fw.state.log.borrow_mut().dirty_mut() {
            dirty.begin_store(left.min(most), &mut pages);
        }
        if pages.is_empty() {
            break;
        }
        left = left.saturating_sub(pages.len());
        store_images(fw, &pages).await?;
    }
    if drain {
        fw.keeper.drained.set(version);
    }
    fw.keeper.progress.notify_all();
    Some(())
}

/// Map pages written side by side: a row at each write point.
fn batch(fw: &Firmware) -> usize {
    (fw.design.map.write_points * fw.design.geometry.row_sectors()) as usize
}

/// Writes images of these map pages; on a protected drive their store has begun.
async fn store_images(fw: &Firmware, pages: &[u32]) -> Option<()> {
    let mut bytes = vec![0; pages.len() * SECTOR];
    let version = {
        let map = fw.state.map.borrow();
        for (page, out) in pages.iter().zip(bytes.chunks_exact_mut(SECTOR)) {
            map.encode_page(*page, out);
        }
        map.version()
    };
    let written = append(fw, Kind::MapImage, version, pages, &bytes).await?;
    let mut log = fw.state.log.borrow_mut();
    for (page, written) in pages.iter().zip(written) {
        log.image_stored(*page, written);
    }
    drop(log);
    fw.keeper.progress.notify_all();
    Some(())
}

/// Frees the oldest units of the log until there is room (maplog, 2 and 4).
async fn clean(fw: &Firmware) -> Option<()> {
    while fw.state.log.borrow().is_tight()
        || fw.keeper.turn_wanted.take() && fw.state.log.borrow().can_turn()
    {
        let mut pages = Vec::new();
        let Some(unit) = fw.state.log.borrow_mut().oldest(&mut pages) else { return Some(()) };
        if planted!(LogErasedEarly) {
            pages.clear();
        }
        move_spilled(fw, unit).await?;
        for some in pages.chunks(batch(fw)) {
            if let Some(dirty) = fw.state.log.borrow_mut().dirty_mut() {
                some.iter().for_each(|page| dirty.begin_page(*page));
            }
            store_images(fw, some).await?;
        }
        let dropped = fw.state.log.borrow_mut().drop_oldest();
        let Some(is_good) = dropped else {
            fw.fail("a unit of the map log was to be erased with records in it that count");
            return None;
        };
        if !is_good {
            fw.state.space.borrow_mut().retire(unit);
            continue;
        }
        if fw.erase(unit, Role::Map).await? {
            if !fw.exchange_log_unit(unit) {
                fw.state.log.borrow_mut().give(FreeUnit { unit, erase_first: false });
            }
        } else {
            fw.state.log.borrow_mut().owe();
            fw.restock_log();
        }
    }
    Some(())
}

/// Writes anew what a unit of the log has of the journal of units.
async fn move_spilled(fw: &Firmware, unit: Unit) -> Option<()> {
    let of_unit: Vec<Spilled> = match fw.state.log.borrow().journal() {
        Some(journal) => {
            let there = |sector: &&Spilled| fw.places.unit(sector.place) == unit;
            journal.spilled().iter().filter(there).cloned().collect()
        }
        None => return Some(()),
    };
    let sectors: Vec<&[Entry]> = of_unit.iter().map(|sector| &sector.entries[..]).collect();
    let written = append_entries(fw, &sectors).await?;
    if let Some(journal) = fw.state.log.borrow_mut().journal_mut() {
        let from = of_unit.iter().map(|sector| sector.place);
        journal.spill_moved(&from.zip(written).collect());
    }
    Some(())
}

/// Writes sectors to the log, side by side at its write points (maplog, 6); for each the serial
/// of its unit, and its place. They are on flash when this returns.
async fn append(
    fw: &Firmware,
    kind: Kind,
    version: Version,
    indices: &[u32],
    bytes: &[u8],
) -> Option<Vec<(u32, Ppa)>> {
    let mut written = vec![(0, Ppa(0)); indices.len()];
    let mut left: Vec<usize> = (0..indices.len()).collect();
    while !left.is_empty() {
        let ops = issue(fw, kind, version, indices, bytes, &left, &mut written).await?;
        let issued: usize = ops.iter().map(|op| op.sectors.len()).sum();
        left.drain(..issued);
        for Append { unit, sectors, op } in ops {
            if !fw.outcome(unit, op.await)? {
                fw.state.log.borrow_mut().spoil(unit);
                left.extend(sectors);
            }
        }
        fw.restock_log();
    }
    Some(written)
}

/// Programs under way.
struct Append {
    unit: Unit,
    sectors: Vec<usize>,
    op: Programmed,
}

/// Issues programs of the first of some sectors of a batch: one at each write point.
async fn issue(
    fw: &Firmware,
    kind: Kind,
    version: Version,
    indices: &[u32],
    bytes: &[u8],
    sectors: &[usize],
    written: &mut [(u32, Ppa)],
) -> Option<Vec<Append>> {
    let ps = fw.places.page_sectors as usize;
    let (mut ops, mut words) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < sectors.len() && ops.len() < fw.design.map.write_points as usize {
        let pages = (sectors.len() - done).div_ceil(ps).min(fw.places.planes as usize);
        let place = fw.state.log.borrow_mut().place(pages as u32);
        let LogPlace { at, pages, serial, before } = match place {
            Ok(place) => place,
            Err(Some(free)) => {
                if free.erase_first && !fw.erase(free.unit, Role::Map).await? {
                    fw.state.log.borrow_mut().owe();
                    fw.restock_log();
                } else {
                    fw.state.log.borrow_mut().open(free.unit);
                }
                continue;
            }
            // So many units failed that the log has none left.
            Err(None) if fw.rescue_log() => continue,
            Err(None) => {
                fw.end_life();
                return None;
            }
        };
        let some = &sectors[done..sectors.len().min(done + pages as usize * ps)];
        let mut page = Vec::with_capacity(pages as usize * ps * SECTOR);
        for (i, &sector) in (0..).zip(some) {
            written[sector] = (serial, fw.places.ppa(at, i));
            page.extend_from_slice(&bytes[sector * SECTOR..(sector + 1) * SECTOR]);
        }
        page.resize(pages as usize * ps * SECTOR, 0);
        let words_of = some.iter().map(|s| (indices[*s].into(), 0));
        fw.page_words(kind, version.0, pages, words_of, &mut words);
        for (i, page) in (0..).zip(words.chunks_exact_mut(fw.nand.oob_words())) {
            page[1] |= i << LOG_VERSION_BITS;
            page[2] |= u64::from(before.encode()) << 32;
        }
        let op = fw.must(fw.nand.program(at, Data::Bytes(&page), &words))?;
        fw.stats.flash_program_bytes.add(fw.page_bytes(pages));
        fw.stats.meta_bytes.add(fw.page_bytes(pages));
        ops.push(Append { unit: at.unit, sectors: some.to_vec(), op });
        done += some.len();
    }
    Some(ops)
}
