//! Bounds how much of the map may differ from its stored state. On a protected drive the emergency
//! dump must hold the difference; on others the journal gathers it.
//!
//! 1. A task that changes entries reserves them first, and returns the reservation when they are
//!    changed. Changed and reserved entries together never exceed the bound.
//! 2. When the keeper of the log has nothing left to store, one operation's reservation always
//!    fits.
//! 3. The keeper sets to work before the bound is reached.
//! 4. The keeper reserves nothing: it would wait for itself. Only the collector makes an entry for
//!    a unit that is erased (`unit_journal`, 7), because the journal of units names no unit that is
//!    free or in the map log. The collector has its victim forgotten before it frees it, and a
//!    restart frees no unit that spilled entries name (`settle`, 4).

use crate::firmware::Firmware;
use crate::format::entries::map_page;
use crate::format::words::Lpn;
use crate::state::maplog::MapLog;
use crate::state::persistence::MapPersistence;
use crate::state::reservations::Reserved;

impl Firmware {
    /// Whether the keeper should set to work unasked.
    pub fn is_high(&self, log: &MapLog) -> bool {
        let m = &self.design.map;
        let reserved = self.keeper.reserved.borrow();
        log.persistence().is_high(m, reserved.entries)
            || self.design.keeps_units() && self.is_checkpoint_cheap(log)
    }

    /// Whether the journal of units, which is nearly full, should be spilled instead of being
    /// emptied by a checkpoint.
    pub fn is_spill_enough(&self) -> bool {
        let log = self.state.log.borrow();
        let Some(journal) = log.journal() else { return false };
        let (young, ranges) = journal.young();
        let wanted = self.keeper.idle_checkpoint.get()
            || self.keeper.turn_wanted.get()
            || self.keeper.drain_wanted.get() > self.keeper.drained.get()
            || ranges >= self.design.map.journal_ranges
            || self.is_checkpoint_cheap(&log);
        let left = self.design.spilled_max().saturating_sub(journal.spilled().len() as u32);
        // If only a few entries could be spilled, a checkpoint is as good.
        let most = self.design.map.journal_entries as usize;
        !wanted && left >= self.places.page_sectors && young > most / 4
    }

    /// Whether storing all changed map pages now programs little compared with what was programmed
    /// since the last checkpoint.
    fn is_checkpoint_cheap(&self, log: &MapLog) -> bool {
        let share = self.design.map.checkpoint_share / 100.0;
        let changed = log.dirty().map_or(0, |dirty| dirty.pages() as u32);
        let pages = changed.div_ceil(self.places.page_sectors);
        changed > 0 && f64::from(pages) <= share * self.keeper.since_checkpoint.get() as f64
    }

    /// Waits until these entries may change, and reserves them: give that back with
    /// [`Firmware::end_changes`] after changing them. At most [`Firmware::changes_at_once`], so
    /// that they fit whenever the keeper is idle.
    pub async fn begin_changes(&self, lpns: impl Iterator<Item = Lpn>) -> Reserved {
        let mut reserved = Reserved { entries: 0, pages: Vec::new() };
        if !self.design.is_protected() {
            return reserved;
        }
        for lpn in lpns {
            reserved.entries += 1;
            if self.design.map.dirty_pages_max > 0 {
                reserved.pages.push(map_page(lpn));
            }
        }
        reserved.pages.dedup();
        if self.design.keeps_units() {
            // An entry for each page that may land out of date; one for a whole discard.
            reserved.entries = reserved.entries.min(self.design.geometry.row_sectors());
        }
        let fits = || {
            let log = self.state.log.borrow();
            if self.is_high(&log) {
                self.keeper.work.notify_all();
            }
            self.fits(&log, &reserved) || self.is_poisoned()
        };
        self.keeper.progress.until(fits).await;
        let mut all = self.keeper.reserved.borrow_mut();
        all.entries += reserved.entries;
        for page in &reserved.pages {
            *all.pages.entry(*page).or_default() += 1;
        }
        reserved
    }

    fn fits(&self, log: &MapLog, more: &Reserved) -> bool {
        let m = &self.design.map;
        let reserved = self.keeper.reserved.borrow();
        let most = match self.design.keeps_units() {
            true => m.journal_entries - self.design.journal_slack(),
            false => m.dirty_max,
        };
        let pages_fit = || {
            let Some(dirty) = log.dirty() else { return true };
            let mut taken: Vec<u32> = reserved.pages.keys().chain(&more.pages).copied().collect();
            taken.sort_unstable();
            taken.dedup();
            let clean = taken.iter().filter(|page| !dirty.is_dirty(**page)).count();
            dirty.dirty_pages() + clean as u32 <= m.dirty_pages_max
        };
        log.persistence().backlog() + reserved.entries + more.entries <= most
            && (m.dirty_pages_max == 0 || pages_fit())
    }

    /// See [`Firmware::begin_changes`].
    pub fn end_changes(&self, reserved: Reserved) {
        if !self.design.is_protected() {
            return;
        }
        let mut all = self.keeper.reserved.borrow_mut();
        all.entries -= reserved.entries;
        for page in &reserved.pages {
            if let Some(count) = all.pages.get_mut(page) {
                *count -= 1;
                if *count == 0 {
                    all.pages.remove(page);
                }
            }
        }
        drop(all);
        // A reserved entry need not have become dirty, so there may be room now.
        self.keeper.progress.notify_all();
    }

    /// The most entries that may be reserved in one go.
    pub fn changes_at_once(&self) -> u32 {
        self.design.map.dirty_max / 4
    }
}
