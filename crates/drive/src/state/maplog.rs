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
//! 3. `durable` only grows; every change up to it can be recovered. With a protected
//!    cache every change can, since the emergency dump stores those that the log
//!    does not have ([`Dirty`]).
//! 4. There are always enough free units of the log to write every map page anew; while
//!    units that failed wait to be replaced, fewer by those (`owed`).
//! 5. What is told together is a batch, and on flash before the next begins. What of it fails
//!    is written again elsewhere; the unit that failed takes no more.
//! 6. At a write point a program begins when the one before it has ended well. So only the
//!    last one of a unit can be torn, or have failed; and none in a unit that another one
//!    says was full before ([`Before`]).

mod audit;

use crate::format::entries::{DELTA_ENTRIES, MAP_PAGE_ENTRIES, map_page};
use crate::format::unit_journal::SECTOR_ENTRIES;
use crate::format::words::{Before, Lpn, Places, Ppa, Version};
use crate::planted::planted;
use crate::state::changes::Changes;
use crate::state::space::FreeUnit;
use crate::state::unit_journal::UnitJournal;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tantalum_nand::{PageAddr, Unit};

/// What has changed of the map that a dump would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapChange {
    /// A map page had no dirty entry before.
    Begun(u32),
    /// An entry is dirty, perhaps anew.
    Entry(Lpn),
    /// Fewer entries of a map page are dirty.
    Stored(u32),
    /// The newest image of a map page is in another place.
    Image(u32),
}

/// Changed map entries that the log does not have yet, of a drive whose memory is
/// protected. Bounded, since the emergency dump must store them.
#[derive(Clone)]
pub struct Dirty {
    bits: Vec<u64>,
    /// Dirty entries of each map page.
    counts: Vec<u32>,
    queue: VecDeque<u32>,
    queued: Vec<bool>,
    /// Entries changed while their map page is on its way to flash.
    storing: FxHashMap<u32, Vec<Lpn>>,
    total: u32,
    dirty_pages: u32,
    /// What has changed, of images of map pages, too.
    pub changes: Changes<MapChange>,
}

impl Dirty {
    /// Nothing is dirty, of `pages` map pages.
    pub fn new(pages: u32) -> Dirty {
        let pages = pages as usize;
        Dirty {
            bits: vec![0; pages * (MAP_PAGE_ENTRIES / 64) as usize],
            counts: vec![0; pages],
            queue: VecDeque::new(),
            queued: vec![false; pages],
            storing: FxHashMap::default(),
            total: 0,
            dirty_pages: 0,
            changes: Changes::default(),
        }
    }

    /// Which of the entries of a map page are dirty, as bits.
    pub fn page_bits(&self, page: u32) -> &[u64] {
        let words = (MAP_PAGE_ENTRIES / 64) as usize;
        &self.bits[page as usize * words..][..words]
    }

    /// An entry changed.
    pub fn mark(&mut self, lpn: Lpn) {
        let page = map_page(lpn);
        if self.changes.is_watched() {
            self.changes.note(MapChange::Entry(lpn));
            if self.counts[page as usize] == 0 {
                self.changes.note(MapChange::Begun(page));
            }
        }
        if let Some(again) = self.storing.get_mut(&page) {
            again.push(lpn);
        }
        if !self.has(lpn) {
            self.bits[(lpn.0 / 64) as usize] |= 1 << (lpn.0 % 64);
            self.dirty_pages += u32::from(self.counts[page as usize] == 0);
            self.counts[page as usize] += 1;
            self.total += 1;
            if !self.queued[page as usize] {
                self.queued[page as usize] = true;
                self.queue.push_back(page);
            }
        }
    }

    /// Whether an entry is dirty.
    pub fn has(&self, lpn: Lpn) -> bool {
        self.bits[(lpn.0 / 64) as usize] >> (lpn.0 % 64) & 1 == 1
    }

    /// How many entries are dirty.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// How many map pages have dirty entries.
    pub fn dirty_pages(&self) -> u32 {
        self.dirty_pages
    }

    /// Whether a map page has.
    pub fn is_dirty(&self, page: u32) -> bool {
        self.counts[page as usize] > 0
    }

    /// How many map pages wait to be stored.
    pub fn pages(&self) -> usize {
        self.queue.len()
    }

    /// The map pages that have been dirty longest, at most `most`; they are being
    /// stored from now on.
    pub fn begin_store(&mut self, most: usize, pages: &mut Vec<u32>) {
        pages.clear();
        while pages.len() < most {
            let Some(page) = self.queue.pop_front() else { break };
            self.queued[page as usize] = false;
            if self.counts[page as usize] > 0 {
                self.begin_page(page);
                pages.push(page);
            }
        }
    }

    /// This map page is being stored from now on.
    pub fn begin_page(&mut self, page: u32) {
        self.storing.entry(page).or_default();
    }

    /// The map page is on flash as it was when its store began.
    pub fn end_store(&mut self, page: u32) {
        let again = self.storing.remove(&page).unwrap_or_default();
        self.changes.note(MapChange::Stored(page));
        let words = (MAP_PAGE_ENTRIES / 64) as usize;
        let first = page as usize * words;
        self.bits[first..first + words].fill(0);
        self.dirty_pages -= u32::from(self.counts[page as usize] > 0);
        self.total -= std::mem::take(&mut self.counts[page as usize]);
        for lpn in again.into_iter().filter(|_| !planted!(DirtyForgotten)) {
            self.mark(lpn);
        }
    }

    /// All dirty entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Lpn> {
        let words = MAP_PAGE_ENTRIES / 64;
        let pages = self.counts.iter().enumerate().filter(|c| *c.1 > 0);
        pages.flat_map(move |(page, _)| {
            let first = page as u32 * words;
            (first..first + words).flat_map(|w| {
                let bits = self.bits[w as usize];
                (0..64).filter(move |b| bits >> b & 1 == 1).map(move |b| Lpn(w * 64 + b))
            })
        })
    }
}

/// What makes changes durable.
#[derive(Clone)]
pub enum Persistence {
    /// No capacitors: changes that are not in the log yet, in order. They go there as deltas.
    Deltas(Vec<Lpn>),
    /// Capacitors: dirty entries, or their whole map pages, go to the emergency dump.
    Entries(Dirty),
    /// Capacitors: the journal of units goes to the dump; a restart finds out from it what was dirty.
    Units(Dirty, UnitJournal),
}

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

    /// From now on notes what changes of what a dump would have.
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
        match &mut self.persistence {
            Persistence::Entries(dirty) | Persistence::Units(dirty, _) => dirty.mark(lpn),
            Persistence::Deltas(pending) => pending.push(lpn),
        }
    }

    /// Changes up to this version survive a power loss.
    pub fn durable(&self) -> Version {
        match self.persistence {
            Persistence::Entries(_) | Persistence::Units(..) => Version::MAX,
            Persistence::Deltas(_) => self.durable,
        }
    }

    /// All changes up to `version` are in the log.
    pub fn set_durable(&mut self, version: Version) {
        self.durable = self.durable.max(version);
    }

    /// The dirty entries, on a protected drive.
    pub fn dirty(&self) -> Option<&Dirty> {
        match &self.persistence {
            Persistence::Entries(dirty) | Persistence::Units(dirty, _) => Some(dirty),
            Persistence::Deltas(_) => None,
        }
    }

    /// The journal of units, of a drive that has one.
    pub fn journal(&self) -> Option<&UnitJournal> {
        match &self.persistence {
            Persistence::Units(_, journal) => Some(journal),
            _ => None,
        }
    }

    /// The journal of units, of a drive that has one.
    pub fn journal_mut(&mut self) -> Option<&mut UnitJournal> {
        match &mut self.persistence {
            Persistence::Units(_, journal) => Some(journal),
            _ => None,
        }
    }

    /// The dirty entries, on a protected drive.
    pub fn dirty_mut(&mut self) -> Option<&mut Dirty> {
        match &mut self.persistence {
            Persistence::Entries(dirty) | Persistence::Units(dirty, _) => Some(dirty),
            Persistence::Deltas(_) => None,
        }
    }

    /// What makes changes durable.
    pub fn persistence(&self) -> &Persistence {
        &self.persistence
    }

    /// Changes that wait for the journal, dirty entries, or entries of the journal of units.
    pub fn backlog(&self) -> u32 {
        match &self.persistence {
            Persistence::Entries(dirty) => dirty.total(),
            Persistence::Units(_, journal) => journal.len() as u32,
            Persistence::Deltas(pending) => pending.len() as u32,
        }
    }

    /// Sectors of a dump that would tell of what waits; `whole`: of map pages, not of entries.
    pub fn dumped_sectors(&self, whole: bool) -> u64 {
        let each = match &self.persistence {
            Persistence::Entries(dirty) if whole => return dirty.dirty_pages().into(),
            Persistence::Units(..) => SECTOR_ENTRIES as u64,
            Persistence::Entries(_) | Persistence::Deltas(_) => DELTA_ENTRIES.into(),
        };
        u64::from(self.backlog()).div_ceil(each)
    }

    /// Takes the changes that wait for the journal.
    pub fn take_pending(&mut self) -> Vec<Lpn> {
        match &mut self.persistence {
            Persistence::Entries(_) | Persistence::Units(..) => Vec::new(),
            Persistence::Deltas(pending) => std::mem::take(pending),
        }
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
