//! How changes of the map become durable, beside the map log. There is one implementation for each
//! kind of design.
//!
//! | | a change is kept by | the keeper writes |
//! |---|---|---|
//! | [`Deltas`] | the map log alone | deltas, or images where these take less room |
//! | [`Entries`] | the dump: entries | images of map pages; deltas for a flush that drains |
//! | [`Pages`] | the dump: whole map pages | images of map pages |
//! | [`Units`] | the dump: which units were written | checkpoints; entries of the journal, spilled |

use crate::design::MapDesign;
use crate::format::entries::DELTA_ENTRIES;
use crate::format::unit_journal::SECTOR_ENTRIES;
use crate::format::words::Lpn;
use crate::state::dirty::Dirty;
use crate::state::unit_journal::UnitJournal;

/// How changes of the map become durable.
pub trait MapPersistence {
    /// An entry of the map changed.
    fn changed(&mut self, lpn: Lpn);

    /// Changes, or entries of the journal of units, that the log does not have.
    fn backlog(&self) -> u32;

    /// Sectors of a dump that would tell of the backlog.
    fn dumped_sectors(&self) -> u64;

    /// Whether the keeper should set to work unasked, with so many entries reserved.
    fn is_high(&self, map: &MapDesign, reserved: u32) -> bool;

    /// The dirty entries, where these survive a power loss.
    fn dirty(&self) -> Option<&Dirty>;

    /// The dirty entries, where these survive a power loss.
    fn dirty_mut(&mut self) -> Option<&mut Dirty>;
}

/// No capacitors: a change survives when its delta is in the log.
#[derive(Clone, Default)]
pub struct Deltas {
    /// Changes that are not in the log, in order.
    pub pending: Vec<Lpn>,
}

impl MapPersistence for Deltas {
    fn changed(&mut self, lpn: Lpn) {
        self.pending.push(lpn);
    }

    fn backlog(&self) -> u32 {
        self.pending.len() as u32
    }

    fn dumped_sectors(&self) -> u64 {
        u64::from(self.backlog().div_ceil(DELTA_ENTRIES))
    }

    fn is_high(&self, map: &MapDesign, _: u32) -> bool {
        self.backlog() > map.dirty_max
    }

    fn dirty(&self) -> Option<&Dirty> {
        None
    }

    fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        None
    }
}

/// Capacitors keep the entries that are dirty.
#[derive(Clone)]
pub struct Entries {
    /// What the dump has.
    pub dirty: Dirty,
    /// Changes since the map was drained: what a conventional flush still has to store.
    pub undrained: Undrained,
}

/// Changes since all of the map was in the log, for a flush that drains though the dump would have
/// them.
///
/// 1. If they are known, each entry that the log does not tell is among them: their deltas and the
///    log's records give the map. An entry that was drained so stays dirty until an image of its
///    map page is stored: a restart with a dump needs no delta.
/// 2. They are not known from the start of a power cycle, or from the change that is one too many,
///    until images of all dirty map pages are stored.
#[derive(Clone)]
pub struct Undrained {
    /// How many are noted at most; 0 if flushes do not drain.
    most: usize,
    known: Option<Vec<Lpn>>,
}

impl Undrained {
    /// Not known yet; at most `most` are noted.
    pub fn new(most: u32) -> Undrained {
        Undrained { most: most as usize, known: None }
    }

    fn note(&mut self, lpn: Lpn) {
        if let Some(known) = &mut self.known {
            match known.len() < self.most {
                true => known.push(lpn),
                false => self.known = None,
            }
        }
    }

    /// Takes them, if they are known. From now on they are.
    pub fn take(&mut self) -> Option<Vec<Lpn>> {
        if self.most == 0 { None } else { self.known.replace(Vec::new()) }
    }
}

impl MapPersistence for Entries {
    fn changed(&mut self, lpn: Lpn) {
        self.dirty.mark(lpn);
        self.undrained.note(lpn);
    }

    fn backlog(&self) -> u32 {
        self.dirty.total()
    }

    fn dumped_sectors(&self) -> u64 {
        u64::from(self.backlog().div_ceil(DELTA_ENTRIES))
    }

    fn is_high(&self, map: &MapDesign, reserved: u32) -> bool {
        let high = if map.whole { map.dirty_max / 2 } else { map.dirty_max / 4 * 3 };
        self.dirty.total() > 0 && self.dirty.total() + reserved > high
    }

    fn dirty(&self) -> Option<&Dirty> {
        Some(&self.dirty)
    }

    fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        Some(&mut self.dirty)
    }
}

/// Capacitors keep the map pages with dirty entries, few of them, each whole.
#[derive(Clone)]
pub struct Pages(pub Entries);

impl MapPersistence for Pages {
    fn changed(&mut self, lpn: Lpn) {
        self.0.changed(lpn);
    }

    fn backlog(&self) -> u32 {
        self.0.backlog()
    }

    fn dumped_sectors(&self) -> u64 {
        self.0.dirty.dirty_pages().into()
    }

    fn is_high(&self, map: &MapDesign, reserved: u32) -> bool {
        let pages = self.0.dirty.pages() as u32;
        self.0.is_high(map, reserved) || pages > 0 && 2 * pages >= map.dirty_pages_max
    }

    fn dirty(&self) -> Option<&Dirty> {
        self.0.dirty()
    }

    fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        self.0.dirty_mut()
    }
}

/// Capacitors keep which units were written: a restart finds the changes beside their pages.
#[derive(Clone)]
pub struct Units {
    /// What the next checkpoint stores.
    pub dirty: Dirty,
    /// What the dump has.
    pub journal: UnitJournal,
}

impl MapPersistence for Units {
    fn changed(&mut self, lpn: Lpn) {
        self.dirty.mark(lpn);
    }

    fn backlog(&self) -> u32 {
        self.journal.len() as u32
    }

    fn dumped_sectors(&self) -> u64 {
        self.journal.len().div_ceil(SECTOR_ENTRIES) as u64
    }

    fn is_high(&self, map: &MapDesign, reserved: u32) -> bool {
        let (young, ranges) = self.journal.young();
        let is_full = young as u32 + reserved > map.journal_entries / 2;
        // (What is reserved alone may be as much. No checkpoint helps against that.)
        self.journal.has_news() && (is_full || ranges >= map.journal_ranges)
    }

    fn dirty(&self) -> Option<&Dirty> {
        Some(&self.dirty)
    }

    fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        Some(&mut self.dirty)
    }
}

/// The implementation of a drive, as an enum: no dynamic call for each write.
#[derive(Clone)]
pub enum Persistence {
    /// See [`Deltas`].
    Deltas(Deltas),
    /// See [`Entries`].
    Entries(Entries),
    /// See [`Pages`].
    Pages(Pages),
    /// See [`Units`].
    Units(Units),
}

macro_rules! each {
    ($self:ident, $one:ident => $call:expr) => {
        match $self {
            Persistence::Deltas($one) => $call,
            Persistence::Entries($one) => $call,
            Persistence::Pages($one) => $call,
            Persistence::Units($one) => $call,
        }
    };
}

impl MapPersistence for Persistence {
    fn changed(&mut self, lpn: Lpn) {
        each!(self, one => one.changed(lpn));
    }

    fn backlog(&self) -> u32 {
        each!(self, one => one.backlog())
    }

    fn dumped_sectors(&self) -> u64 {
        each!(self, one => one.dumped_sectors())
    }

    fn is_high(&self, map: &MapDesign, reserved: u32) -> bool {
        each!(self, one => one.is_high(map, reserved))
    }

    fn dirty(&self) -> Option<&Dirty> {
        each!(self, one => one.dirty())
    }

    fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        each!(self, one => one.dirty_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Design;
    use crate::format::unit_journal::{Entry, OPEN};
    use tantalum_nand::Unit;

    /// Otherwise the keeper would make one checkpoint after the other, while no time passes, and
    /// what is reserved would never be given back.
    #[test]
    fn reserved_entries_alone_ask_for_no_second_checkpoint() {
        let map = Design::preset("spartan-es").unwrap().map;
        let half = map.journal_entries / 2;
        let mut units = Units { dirty: Dirty::new(1), journal: UnitJournal::default() };
        units.journal.push(Entry::Written { unit: Unit(1), from: 0, until: OPEN });
        assert!(!units.is_high(&map, half - 1));
        assert!(units.is_high(&map, half));
        assert!(units.journal.begin_checkpoint([(Unit(1), 4)].into_iter()));
        units.journal.end_checkpoint();
        assert!(!units.is_high(&map, half));
        units.journal.push(Entry::Written { unit: Unit(2), from: 0, until: OPEN });
        assert!(units.is_high(&map, half));
    }
}
