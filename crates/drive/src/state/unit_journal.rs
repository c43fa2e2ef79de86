//! The journal of units: of the map the capacitors keep only which erase units were written, and
//! since when. The words beside the pages of these units say what is in them (SpartanSSD, the
//! block-level entries of elastic journaling).
//!
//! 1. A *checkpoint* stores every map page that has changed when it begins. When it is
//!    complete the entries made before it began are void.
//! 2. Every page with data that was mapped after the last complete checkpoint began is in the
//!    journal: in a range of pages of its unit. A checkpoint that begins enters every unit
//!    that is being written anew, from the first page on that is not mapped yet.
//! 3. Pages of these ranges that were not mapped do not count: those that ended after the
//!    power was cut are beyond the end of the range (its unit is entered anew behind them), and
//!    copies that were out of date when they landed, and pages that failed, are in the
//!    journal as such. Any other page of a range can be read, or its content is unknown.
//! 4. Discards are in the journal with the sequence number of their time: they cover what
//!    was born before it.
//! 5. So of each logical page that has a copy in a range, or was discarded, the newest of
//!    these by birth is its state; of all others the stored map has it.
//! 6. Its size is bounded: with less room than an operation may need for entries, nothing
//!    more is mapped before there is more.
//! 7. It is elastic: entries may be *spilled*, written to the map log as they are, and only their
//!    place is kept, until a checkpoint that begins later is complete. Spilled entries cannot be
//!    removed, so erasing a unit that they name takes an entry of its own. Entries of units that
//!    are being written are not spilled, since only the dump knows where these end.

use crate::format::unit_journal::{Entry, OPEN};
use crate::format::words::Ppa;
use crate::planted::planted;
use crate::state::changes::Changes;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tantalum_nand::Unit;

/// A sector of the map log with entries that were spilled.
#[derive(Clone, Debug)]
pub struct Spilled {
    /// Where it is.
    pub place: Ppa,
    /// The entries: a copy, in case that the sector has to move.
    pub entries: Vec<Entry>,
}

/// The journal.
#[derive(Clone, Default)]
pub struct UnitJournal {
    /// Sectors on flash; their entries are the oldest.
    spilled: Vec<Spilled>,
    /// Entries that are on their way there.
    spilling: Vec<Entry>,
    entries: VecDeque<Entry>,
    /// Of these the first are from before the checkpoint that is under way, and so is whatever
    /// is spilled.
    older: usize,
    /// Ranges among all.
    ranges: u32,
    /// How many ranges of each unit are spilled, or on their way.
    named: BTreeMap<u32, u32>,
    /// Entries were made since the last checkpoint began, beside its own.
    has_news: bool,
    /// The first of [`UnitJournal::entries`] that has changed, other than by adding entries.
    pub changes: Changes<usize>,
}

impl UnitJournal {
    /// What a process left behind of [`UnitJournal::entries`], for a dump.
    pub fn left_behind(entries: Vec<Entry>) -> UnitJournal {
        UnitJournal { entries: entries.into(), ..UnitJournal::default() }
    }

    /// One more.
    pub fn push(&mut self, entry: Entry) {
        self.has_news = true;
        // A large discard makes several entries.
        if let (
            Some(Entry::Gone { first, count, sequence }),
            Entry::Gone { first: next, count: more, sequence: then },
        ) = (self.entries.back_mut(), entry)
            && first.0.checked_add(*count) == Some(next.0)
            && count.checked_add(more).is_some()
            && *sequence == then
            && self.entries.len() > self.older
        {
            if let Some(Entry::Gone { count, .. }) = self.entries.back_mut() {
                *count += more;
            }
            let others = self.len() - 1;
            self.changes.note(others);
            return;
        }
        self.ranges += u32::from(entry.is_range());
        self.entries.push_back(entry);
    }

    /// Whether forgetting this unit takes an entry.
    pub fn is_spilled(&self, unit: Unit) -> bool {
        self.named.contains_key(&unit.0)
    }

    /// Whether any entry names this unit: a search, for audits.
    pub fn is_named(&self, unit: Unit) -> bool {
        self.is_spilled(unit) || self.entries.iter().any(|entry| entry.names() == Some(unit))
    }

    /// What was in these units does not count any more. Spilled entries name none of them.
    pub fn forget_unspilled(&mut self, units: &BTreeSet<u32>) {
        self.drop_entries(|entry| entry.names().is_some_and(|unit| units.contains(&unit.0)));
    }

    fn drop_entries(&mut self, of: impl Fn(&Entry) -> bool) {
        if !self.entries.iter().any(&of) {
            return;
        }
        self.changes.note(0);
        self.older -= self.entries.iter().take(self.older).filter(|e| of(e)).count();
        self.ranges -= self.entries.iter().filter(|e| of(e) && e.is_range()).count() as u32;
        self.entries.retain(|entry| !of(entry));
    }

    /// A unit is erased: what was in it does not count any more.
    pub fn forget(&mut self, unit: Unit) {
        self.drop_entries(|entry| entry.names() == Some(unit));
        if let Some(ranges) = self.named.remove(&unit.0) {
            self.ranges -= ranges;
            if !planted!(ForgottenNotEntered) {
                self.push(Entry::Forgotten { unit });
            }
        }
    }

    /// How many there are in memory, with the places of those that are not.
    pub fn len(&self) -> usize {
        self.entries.len() + self.spilling.len() + self.spilled.len()
    }

    /// Entries since the last checkpoint began, and ranges among all.
    pub fn young(&self) -> (usize, u32) {
        (self.len() - self.older, self.ranges)
    }

    /// Whether a checkpoint would make entries void that the last one left or found: another one
    /// right after it would not.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Sectors that are spilled.
    pub fn spilled(&self) -> &[Spilled] {
        &self.spilled
    }

    /// All that memory has, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let places = self.spilled.iter().map(|sector| Entry::Spilled { place: sector.place });
        let skipped = usize::from(planted!(DumpSkipsSpilled));
        places
            .skip(skipped)
            .chain(self.spilling.iter().copied())
            .chain(self.entries.iter().copied())
    }

    /// Entries to be spilled, the oldest, at most `most`: none that name a unit that `writing`
    /// has. `None` during a checkpoint or another spill, which would lose entries.
    pub fn begin_spill(
        &mut self,
        most: usize,
        writing: impl Fn(Unit) -> bool,
    ) -> Option<Vec<Entry>> {
        if self.older > 0 || !self.spilling.is_empty() {
            return None;
        }
        self.changes.note(0);
        let mut kept = VecDeque::with_capacity(self.entries.len());
        for entry in self.entries.drain(..) {
            if self.spilling.len() < most && !entry.names().is_some_and(&writing) {
                self.spilling.push(entry);
            } else {
                kept.push_back(entry);
            }
        }
        self.entries = kept;
        for unit in self.spilling.iter().filter(|e| e.is_range()).filter_map(Entry::names) {
            *self.named.entry(unit.0).or_default() += 1;
        }
        Some(self.spilling.clone())
    }

    /// They are on flash, in these sectors.
    pub fn end_spill(&mut self, places: impl Iterator<Item = Ppa>, in_sector: usize) {
        self.changes.note(0);
        let entries = std::mem::take(&mut self.spilling);
        for (place, some) in places.zip(entries.chunks(in_sector)) {
            self.spilled.push(Spilled { place, entries: some.to_vec() });
        }
    }

    /// Sectors that were spilled are somewhere else: from where to where.
    pub fn spill_moved(&mut self, moved: &BTreeMap<Ppa, Ppa>) {
        self.changes.note(0);
        for sector in &mut self.spilled {
            if let Some(to) = moved.get(&sector.place) {
                sector.place = *to;
            }
        }
    }

    /// At recovery: what a dump has of the journal, and the sectors that it names.
    pub fn restore(&mut self, spilled: Vec<Spilled>, entries: &[Entry]) {
        self.changes.note(0);
        self.has_news = true;
        for entry in spilled.iter().flat_map(|sector| &sector.entries) {
            match entry {
                Entry::Written { unit, .. } => *self.named.entry(unit.0).or_default() += 1,
                Entry::Forgotten { unit } => drop(self.named.remove(&unit.0)),
                _ => {}
            }
        }
        for entry in entries {
            if let Entry::Forgotten { unit } = entry {
                self.named.remove(&unit.0);
            }
            self.push(*entry);
        }
        self.spilled = spilled;
        self.ranges += self.named.values().sum::<u32>();
    }

    /// A checkpoint begins, while these units are being written, each mapped up to a page. False
    /// during a spill: nothing has begun.
    pub fn begin_checkpoint(&mut self, writing: impl Iterator<Item = (Unit, u32)>) -> bool {
        if !self.spilling.is_empty() {
            return false;
        }
        self.older = self.entries.len();
        for (unit, from) in writing {
            self.push(Entry::Written { unit, from, until: OPEN });
        }
        self.has_news = false;
        true
    }

    /// It is complete.
    pub fn end_checkpoint(&mut self) {
        self.changes.note(0);
        let void = self.entries.drain(..std::mem::take(&mut self.older));
        self.ranges -= void.filter(Entry::is_range).count() as u32;
        self.ranges -= self.named.values().sum::<u32>();
        self.named.clear();
        self.spilled.clear();
    }
}

/// The entries that count: without those of units that were forgotten later. Each entry is looked
/// at once, from the last to the first.
pub fn without_forgotten(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut all: Vec<Entry> = entries.collect();
    let mut forgotten = FxHashSet::default();
    let mut first = all.len();
    for i in (0..all.len()).rev() {
        match all[i] {
            Entry::Forgotten { unit } => drop(forgotten.insert(unit)),
            entry if entry.names().is_some_and(|unit| forgotten.contains(&unit)) => {}
            entry => {
                first -= 1;
                all[first] = entry;
            }
        }
    }
    all.split_off(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::words::Lpn;

    /// What a damaged dump says must not stop the drive from saying so.
    #[test]
    fn no_entry_is_too_large() {
        let mut journal = UnitJournal::default();
        let gone = |first, count| Entry::Gone { first: Lpn(first), count, sequence: 9 };
        for entry in [gone(u32::MAX, u32::MAX), gone(0, 1), gone(1, u32::MAX)] {
            journal.push(entry);
        }
        assert_eq!(journal.len(), 3);
    }

    #[test]
    fn a_checkpoint_voids_what_was_there_when_it_began() {
        let mut journal = UnitJournal::default();
        let written = |n, from| Entry::Written { unit: Unit(n), from, until: OPEN };
        journal.push(written(1, 0));
        journal.push(Entry::Gone { first: Lpn(5), count: 2, sequence: 9 });
        journal.push(Entry::Gone { first: Lpn(7), count: 3, sequence: 9 });
        journal.push(Entry::Gone { first: Lpn(10), count: 1, sequence: 10 });
        assert_eq!((journal.len(), journal.young()), (3, (3, 1)));
        assert!(journal.begin_checkpoint([(Unit(1), 4)].into_iter()));
        journal.push(Entry::Gone { first: Lpn(11), count: 1, sequence: 10 });
        assert_eq!((journal.len(), journal.young()), (5, (2, 2)));
        journal.end_checkpoint();
        assert!(journal.has_news());
        let left: Vec<_> = journal.entries().collect();
        assert_eq!(left, [written(1, 4), Entry::Gone { first: Lpn(11), count: 1, sequence: 10 }]);
        assert_eq!(journal.young(), (2, 1));
    }

    #[test]
    fn what_is_spilled_is_forgotten_by_an_entry() {
        let mut journal = UnitJournal::default();
        let written = |n| Entry::Written { unit: Unit(n), from: 0, until: OPEN };
        (1..=4).for_each(|n| journal.push(written(n)));
        let batch = journal.begin_spill(2, |unit| unit == Unit(1));
        assert_eq!(batch, Some(vec![written(2), written(3)]));
        // One at a time; and none during a checkpoint, nor a checkpoint during a spill.
        assert_eq!(journal.begin_spill(2, |_| false), None);
        assert!(!journal.begin_checkpoint(std::iter::empty()));
        journal.forget(Unit(3)); // On its way.
        let all: Vec<Entry> = journal.entries().collect();
        let forgotten = Entry::Forgotten { unit: Unit(3) };
        assert_eq!(all, [written(2), written(3), written(1), written(4), forgotten]);
        journal.end_spill([Ppa(70)].into_iter(), 256);
        journal.spill_moved(&BTreeMap::from([(Ppa(70), Ppa(90)), (Ppa(71), Ppa(91))]));
        assert_eq!((journal.len(), journal.young()), (4, (4, 3)));
        assert!(journal.is_spilled(Unit(2)) && !journal.is_spilled(Unit(3)));
        assert!(journal.is_named(Unit(4)) && !journal.is_named(Unit(3)));
        journal.push(written(3));
        // What a restart makes of it.
        let spilled = journal.spilled().to_vec();
        let rest: Vec<Entry> = journal.entries().skip(1).collect();
        let all = spilled.iter().flat_map(|s| s.entries.clone()).chain(rest.iter().copied());
        assert_eq!(without_forgotten(all), [written(2), written(1), written(4), written(3)]);
        let mut again = UnitJournal::default();
        again.restore(spilled, &rest);
        assert_eq!(again.entries().collect::<Vec<_>>(), journal.entries().collect::<Vec<_>>());
        assert_eq!((again.len(), again.young()), (journal.len(), journal.young()));
        // A checkpoint voids all that.
        assert!(again.begin_checkpoint([(Unit(3), 5)].into_iter()));
        assert_eq!(again.begin_spill(9, |_| false), None);
        again.end_checkpoint();
        let left: Vec<Entry> = again.entries().collect();
        assert_eq!(left, [Entry::Written { unit: Unit(3), from: 5, until: OPEN }]);
        assert_eq!((again.len(), again.young()), (1, (1, 1)));
    }

    /// What a restart frees is forgotten where that takes no entry.
    #[test]
    fn what_is_not_spilled_is_forgotten_without_an_entry() {
        let mut journal = UnitJournal::default();
        let written = |n| Entry::Written { unit: Unit(n), from: 0, until: OPEN };
        (1..=4).for_each(|n| journal.push(written(n)));
        journal.forget_unspilled(&BTreeSet::from([1, 3, 9]));
        assert_eq!(journal.entries().collect::<Vec<_>>(), [written(2), written(4)]);
        assert_eq!((journal.len(), journal.young()), (2, (2, 2)));
    }

    /// The meaning, word for word: each entry makes void what came before it of its unit.
    fn one_by_one(entries: &[Entry]) -> Vec<Entry> {
        let mut left: Vec<Entry> = Vec::new();
        for entry in entries {
            match entry {
                Entry::Forgotten { unit } => left.retain(|e| e.names() != Some(*unit)),
                entry => left.push(*entry),
            }
        }
        left
    }

    proptest::proptest! {
        #[test]
        fn what_was_forgotten_is_left_out(kinds in proptest::collection::vec((0..5u32, 0..6u32), 0..80)) {
            let entries: Vec<Entry> = (0..).zip(kinds).map(|(i, (kind, n))| match kind {
                0 => Entry::Forgotten { unit: Unit(n) },
                1 => Entry::Gone { first: Lpn(n), count: 1, sequence: i },
                2 => Entry::Failed { unit: Unit(n), from: i as u32, until: OPEN },
                _ => Entry::Written { unit: Unit(n), from: i as u32, until: OPEN },
            }).collect();
            assert_eq!(without_forgotten(entries.iter().copied()), one_by_one(&entries));
        }
    }

    /// As many as a journal may have, half of which forget the other half: entry by entry that
    /// would be 10¹¹ comparisons.
    #[test]
    fn a_large_journal_is_gone_through_once() {
        let n = 1 << 19;
        let written = (0..n).map(|n| Entry::Written { unit: Unit(n), from: 0, until: OPEN });
        let forgotten = (0..n).map(|n| Entry::Forgotten { unit: Unit(n) });
        assert_eq!(without_forgotten(written.chain(forgotten)), []);
    }
}
