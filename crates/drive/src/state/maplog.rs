//! The map log: how the map becomes persistent.
//!
//! The log is a set of erase units of its own, written in sequence at one or more
//! write points. A page of it holds *images* of map pages or *deltas* (logical
//! page, address), and says which version of the map it tells.
//!
//! 1. At recovery an entry's value comes from the newest record that tells it, image
//!    or delta; records of one version agree.
//! 2. The oldest unit is erased only after each map page that has its newest image, or
//!    a delta not covered by a newer image, in it, was written anew and is on flash.
//! 3. `durable` only grows; every change up to it can be recovered. With a protected cache every
//!    change can, because the emergency dump stores the changes that the log does not have
//!    ([`Dirty`]).
//! 4. The log always has enough free units to write every map page anew, less the failed units that
//!    are not replaced yet (`owed`).
//! 5. Records that are written together are a batch, which is on flash before the next begins.
//!    Failed parts are written again elsewhere; the unit that failed takes no more.
//! 6. At a write point a program begins when the one before it has ended well. So only the last
//!    program of a unit can be torn or have failed, and none in a unit that a later unit says was
//!    full and whole ([`Before`]).

mod audit;

use crate::format::entries::map_page;
use crate::format::words::{Before, Lpn, Places, Ppa, Version};
use crate::state::dirty::{Dirty, MapChange};
use crate::state::persistence::{Entries, MapPersistence, Persistence};
use crate::state::space::FreeUnit;
use crate::state::unit_journal::UnitJournal;
use std::collections::VecDeque;
use tantalum_nand::{PageAddr, Unit};

#[derive(Clone)]
struct LogUnit {
    unit: Unit,
    serial: u32,
    /// Not to be written or erased any more.
    bad: bool,
}

#[derive(Clone, Copy)]
struct WritePoint {
    unit: Unit,
    serial: u32,
    page: u32,
    before: Before,
}

/// A place to write pages of one row.
pub struct LogPlace {
    /// The first page.
    pub at: PageAddr,
    /// How many.
    pub pages: u32,
    /// The unit's serial.
    pub serial: u32,
    /// What was written before.
    pub before: Before,
}

const NEVER: u32 = u32::MAX;

/// The state of the log.
#[derive(Clone)]
pub struct MapLog {
    places: Places,
    persistence: Persistence,
    durable: Version,
    /// Units with content, oldest first.
    units: VecDeque<LogUnit>,
    pool: VecDeque<FreeUnit>,
    points: Vec<Option<WritePoint>>,
    /// At each write point the unit that was filled last, if it is whole and no other says so.
    filled: Vec<Option<Unit>>,
    next_point: usize,
    next_serial: u32,
    /// For each map page: the serial of the unit with its newest image, and that of the
    /// oldest unit with a delta which no image covers.
    image_at: Vec<u32>,
    delta_at: Vec<u32>,
    /// The directory: for each map page where its newest image is.
    images: Vec<u32>,
    keep_free: usize,
    /// Units that the log should own beside those it has.
    owed: u32,
}

impl MapLog {
    /// An empty log of a map of so many pages; `keep_free` units are kept free for
    /// writing everything anew.
    pub fn new(
        places: Places,
        map_pages: u32,
        persistence: Persistence,
        write_points: u32,
        keep_free: u32,
    ) -> MapLog {
        let pages = map_pages as usize;
        MapLog {
            places,
            persistence,
            durable: Version(0),
            units: VecDeque::new(),
            pool: VecDeque::new(),
            points: vec![None; write_points as usize],
            filled: vec![None; write_points as usize],
            next_point: 0,
            next_serial: 0,
            image_at: vec![NEVER; pages],
            delta_at: vec![NEVER; pages],
            images: vec![NEVER; pages],
            keep_free: keep_free as usize,
            owed: 0,
        }
    }

    /// From now on changes are noted that a dump would have.
    pub fn watch(&mut self) {
        if let Some(dirty) = self.dirty_mut() {
            dirty.changes.watch();
        }
        if let Some(journal) = self.journal_mut() {
            journal.changes.watch();
        }
    }

    /// A map entry changed.
    pub fn changed(&mut self, lpn: Lpn) {
        self.persistence.changed(lpn);
    }

    /// A map entry changes soon: the processor may fetch what is known of it meanwhile.
    pub fn look_ahead(&self, lpn: Lpn) {
        if let Some(dirty) = self.dirty() {
            dirty.look_ahead(lpn);
        }
    }

    /// Changes up to this version survive a power loss.
    pub fn durable(&self) -> Version {
        if self.persistence.dirty().is_some() { Version::MAX } else { self.durable }
    }

    /// All changes up to `version` are in the log.
    pub fn set_durable(&mut self, version: Version) {
        self.durable = self.durable.max(version);
    }

    /// The dirty entries, on a protected drive.
    pub fn dirty(&self) -> Option<&Dirty> {
        self.persistence.dirty()
    }

    /// The dirty entries, on a protected drive.
    pub fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        self.persistence.dirty_mut()
    }

    /// The journal of units, of a drive that has one.
    pub fn journal(&self) -> Option<&UnitJournal> {
        match &self.persistence {
            Persistence::Units(units) => Some(&units.journal),
            _ => None,
        }
    }

    /// The journal of units, of a drive that has one.
    pub fn journal_mut(&mut self) -> Option<&mut UnitJournal> {
        match &mut self.persistence {
            Persistence::Units(units) => Some(&mut units.journal),
            _ => None,
        }
    }

    /// What makes changes durable.
    pub fn persistence(&self) -> &Persistence {
        &self.persistence
    }

    /// Takes the changes that wait to be stored as deltas.
    pub fn take_pending(&mut self) -> Vec<Lpn> {
        match &mut self.persistence {
            Persistence::Deltas(deltas) => std::mem::take(&mut deltas.pending),
            _ => Vec::new(),
        }
    }

    /// Takes the changes since the map was drained, if they are known; from now on they are. Those
    /// that an image has told since are not among them.
    pub fn take_undrained(&mut self) -> Option<Vec<Lpn>> {
        let Persistence::Entries(Entries { dirty, undrained }) = &mut self.persistence else {
            return None;
        };
        let mut lpns = undrained.take()?;
        lpns.retain(|lpn| dirty.has(*lpn));
        Some(lpns)
    }

    /// A unit belongs to the log and is free.
    pub fn give(&mut self, free: FreeUnit) {
        self.pool.push_back(free);
    }

    /// The log gets one of the units that it lacks.
    pub fn hand_over(&mut self, free: FreeUnit) {
        self.give(free);
        self.owed = self.owed.saturating_sub(1);
    }

    /// The log has a unit less than it should have.
    pub fn owe(&mut self) {
        self.owed += 1;
    }

    /// Units that the log should own beside those it has.
    pub fn owed(&self) -> u32 {
        self.owed
    }

    /// A unit of the log must not be written any more, nor erased: it goes when what is
    /// in it has been written anew, as if it were the oldest.
    pub fn spoil(&mut self, unit: Unit) {
        for point in &mut self.points {
            if point.is_some_and(|p| p.unit == unit) {
                *point = None;
            }
        }
        for filled in self.filled.iter_mut().filter(|f| **f == Some(unit)) {
            *filled = None;
        }
        if let Some(u) = self.units.iter_mut().find(|u| u.unit == unit && !u.bad) {
            u.bad = true;
            self.owed += 1;
        }
    }

    /// At recovery: so many units are missing.
    pub fn set_owed(&mut self, owed: u32) {
        self.owed = owed;
    }

    /// At recovery: units that are bad and hold nothing that counts leave the log.
    pub fn drop_void(&mut self) -> Vec<Unit> {
        let used: std::collections::BTreeSet<u32> =
            self.image_at.iter().chain(&self.delta_at).copied().collect();
        let void = |u: &LogUnit| u.bad && !used.contains(&u.serial);
        let dropped = self.units.iter().filter(|u| void(u)).map(|u| u.unit).collect();
        self.units.retain(|u| !void(u));
        dropped
    }

    /// At recovery: a unit with content belongs to the log; in order of age. From
    /// page `next` on it can be written (if it is not full). `whole`: all that was written to
    /// it last can be read.
    pub fn adopt(&mut self, unit: Unit, next: u32, whole: bool) -> u32 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.units.push_back(LogUnit { unit, serial, bad: false });
        if next == self.places.unit_pages {
            // The newest ones count.
            self.filled.rotate_left(1);
            if let Some(last) = self.filled.last_mut() {
                *last = whole.then_some(unit);
            }
        } else if let Some(point) = self.points.iter_mut().find(|p| p.is_none()) {
            let before = Before::Restart { page: next, whole };
            *point = Some(WritePoint { unit, serial, page: next, before });
        }
        serial
    }

    /// Units that the log owns and can write.
    pub fn owned(&self) -> usize {
        self.units.iter().filter(|u| !u.bad).count() + self.pool.len()
    }

    /// Whether the unit is one of the free ones.
    pub fn has_free(&self, unit: Unit) -> bool {
        self.pool.iter().any(|free| free.unit == unit)
    }

    /// An erased unit takes the place of a free one; whether that had to be erased.
    pub fn exchange(&mut self, unit: Unit, erased: Unit) -> bool {
        let place = self.pool.iter_mut().find(|free| free.unit == unit);
        place.is_some_and(|place| {
            let new = FreeUnit { unit: erased, erase_first: false };
            std::mem::replace(place, new).erase_first
        })
    }

    /// Whether there is an old unit that can be cleaned.
    pub fn can_turn(&self) -> bool {
        self.units.len() > 1
    }

    /// Whether old units should be cleaned before more is written.
    pub fn is_tight(&self) -> bool {
        self.pool.len() + (self.owed as usize) < self.keep_free && self.can_turn()
    }

    /// The oldest unit and the map pages that must be written anew before it can go.
    pub fn oldest(&mut self, pages: &mut Vec<u32>) -> Option<Unit> {
        pages.clear();
        let oldest = self.units.front()?.clone();
        for point in &mut self.points {
            if point.is_some_and(|p| p.serial == oldest.serial) {
                *point = None;
            }
        }
        for page in 0..self.image_at.len() {
            if self.image_at[page] == oldest.serial || self.delta_at[page] == oldest.serial {
                pages.push(page as u32);
            }
        }
        Some(oldest.unit)
    }

    /// The oldest unit leaves the log's content; once erased it is given back. Whether it can be;
    /// `None` if it has records that count (2): then it stays.
    pub fn drop_oldest(&mut self) -> Option<bool> {
        let oldest = self.units.front()?;
        let is_in = |place: u32| place != NEVER && self.places.unit(Ppa(place)) == oldest.unit;
        let counts = self.image_at.contains(&oldest.serial)
            || self.delta_at.contains(&oldest.serial)
            || self.images.iter().any(|place| is_in(*place))
            || self.journal().is_some_and(|j| j.spilled().iter().any(|s| is_in(s.place.0)));
        if counts {
            return None;
        }
        self.units.pop_front().map(|u| !u.bad)
    }

    /// The next place to write up to `pages` pages of one row, or a free unit to be
    /// erased (if it says so) and then [`MapLog::open`]ed first.
    pub fn place(&mut self, pages: u32) -> Result<LogPlace, Option<FreeUnit>> {
        let at = self.next_point;
        let points = self.points.len();
        let Some(point) = &mut self.points[at] else { return Err(self.pool.pop_front()) };
        self.next_point = (at + 1) % points;
        let place = LogPlace {
            at: PageAddr { unit: point.unit, page: point.page },
            pages: pages.min(self.places.planes - point.page % self.places.planes),
            serial: point.serial,
            before: point.before,
        };
        point.page += place.pages;
        if point.page == self.places.unit_pages {
            self.filled[at] = Some(point.unit);
            self.points[at] = None;
        }
        Ok(place)
    }

    /// An erased unit becomes the write point that [`MapLog::place`] found missing.
    pub fn open(&mut self, unit: Unit) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.units.push_back(LogUnit { unit, serial, bad: false });
        let before = self.filled[self.next_point].take().map_or(Before::Unknown, Before::Full);
        self.points[self.next_point] = Some(WritePoint { unit, serial, page: 0, before });
    }

    /// An image of a map page is on flash, and covers all deltas of the page so far.
    pub fn image_stored(&mut self, page: u32, (serial, place): (u32, Ppa)) {
        self.image_found(page, serial, place);
        self.delta_at[page as usize] = NEVER;
        if let Some(dirty) = self.dirty_mut() {
            dirty.end_store(page);
        }
    }

    /// At recovery: the newest image of a map page.
    pub fn image_found(&mut self, page: u32, serial: u32, place: Ppa) {
        self.image_at[page as usize] = serial;
        self.images[page as usize] = place.0;
        if let Some(dirty) = self.dirty_mut() {
            dirty.changes.note(MapChange::Image(page));
        }
    }

    /// Where the newest image of a map page is, if there is one.
    pub fn image_place(&self, page: u32) -> Option<Ppa> {
        let place = self.images[page as usize];
        (place != NEVER).then_some(Ppa(place))
    }

    /// The directory as it is dumped: 4 bytes for each map page, little-endian.
    pub fn encode_directory(&self) -> Vec<u8> {
        self.images.iter().flat_map(|place| place.to_le_bytes()).collect()
    }

    /// At recovery: a part of the directory that begins with map page `first`.
    pub fn decode_directory(&mut self, first: usize, bytes: &[u8]) {
        let places = self.images.iter_mut().skip(first);
        for (place, bytes) in places.zip(bytes.chunks_exact(4)) {
            *place = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }

    /// A delta of an entry is on flash.
    pub fn delta_stored(&mut self, lpn: Lpn, serial: u32) {
        let at = &mut self.delta_at[map_page(lpn) as usize];
        *at = (*at).min(serial);
    }
}
