//! Erase units: which are free, open or full, what in them is valid, and which one
//! the collector takes next.
//!
//! 1. A sector is valid if and only if the map names it; `valid` counts them by unit.
//! 2. Each die has its own free units and write points, one for each stream, so that
//!    all dies are busy. A write point fills its unit page by page.
//! 3. The last free unit of each die is the collector's, and [`SHARED_RESERVE`] more of the
//!    array: the host's stream never takes them. What a power loss spoils of the former,
//!    the latter make up for.
//! 4. `superseded` is the version of the newest change that made a sector of the unit
//!    invalid: until that is durable the unit is not erased.
//! 5. A unit becomes full, and may be collected, only when all programs under way in it
//!    have ended: until then what they bring is not counted.
//! 6. Full units of a die are in buckets by valid count; the victim comes from the
//!    lowest one that is not empty, in constant amortised time (greedy).

use crate::types::{Places, Ppa, Version};
use std::collections::VecDeque;
use tantalum_nand::{Geometry, PageAddr, Unit};

const NONE: u32 = u32::MAX;
const BUCKETS: u32 = 64;

/// Free units that only collectors take, beside one for each die.
pub const SHARED_RESERVE: u32 = 2;

/// What is written where: data of the host and data moved by the collector live
/// apart, since the latter are colder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// As the host wrote them.
    Host = 0,
    /// Moved by the collector.
    Moved = 1,
}

/// What a unit is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In a free list.
    Free,
    /// A write point.
    Open,
    /// Written, in a bucket.
    Full,
    /// In no list: full with programs under way, being collected, or being erased.
    Leaving,
    /// Of the map log.
    Map,
    /// Of a dump area.
    Dump,
}

/// A free unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeUnit {
    /// Which.
    pub unit: Unit,
    /// Whether it has to be erased before use (what was there is void).
    pub erase_first: bool,
}

#[derive(Clone)]
struct UnitInfo {
    role: Role,
    valid: u32,
    /// Programs under way.
    flying: u32,
    superseded: Version,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct WritePoint {
    unit: Unit,
    page: u32,
}

#[derive(Clone)]
struct DieInfo {
    free: VecDeque<FreeUnit>,
    points: [Option<WritePoint>; 2],
    heads: Vec<u32>,
    tails: Vec<u32>,
    lowest: u32,
}

/// All units of the array.
#[derive(Clone)]
pub struct Space {
    places: Places,
    blocks: u32,
    width: u32,
    units: Vec<UnitInfo>,
    dies: Vec<DieInfo>,
    /// Free units of all dies.
    free: u32,
    valid: Vec<u64>,
}

impl Space {
    /// Every unit [`Role::Leaving`]: in nobody's hands yet.
    pub fn new(g: &Geometry) -> Space {
        let info = UnitInfo {
            role: Role::Leaving,
            valid: 0,
            flying: 0,
            superseded: Version(0),
            prev: NONE,
            next: NONE,
        };
        let die = DieInfo {
            free: VecDeque::new(),
            points: [None; 2],
            heads: vec![NONE; BUCKETS as usize],
            tails: vec![NONE; BUCKETS as usize],
            lowest: BUCKETS,
        };
        Space {
            places: Places::of(g),
            blocks: g.blocks,
            width: (g.unit_sectors() + 1).div_ceil(BUCKETS),
            units: vec![info; g.units() as usize],
            dies: vec![die; g.dies() as usize],
            free: 0,
            valid: vec![0; g.sectors().div_ceil(64) as usize],
        }
    }

    fn die_of(&self, unit: Unit) -> usize {
        (unit.0 / self.blocks) as usize
    }

    /// Gives a unit a role in which it is in no list.
    pub fn set_role(&mut self, unit: Unit, role: Role) {
        debug_assert!(!matches!(role, Role::Free | Role::Full));
        self.units[unit.0 as usize].role = role;
    }

    /// Valid sectors of a unit.
    pub fn valid_in(&self, unit: Unit) -> u32 {
        self.units[unit.0 as usize].valid
    }

    /// The newest version that made a sector of the unit invalid.
    pub fn superseded(&self, unit: Unit) -> Version {
        self.units[unit.0 as usize].superseded
    }

    /// Free units of a die.
    pub fn free_units(&self, die: u32) -> u32 {
        self.dies[die as usize].free.len() as u32
    }

    /// The die with the most free units.
    pub fn freest_die(&self) -> u32 {
        let most = (0..self.dies.len()).max_by_key(|&d| (self.dies[d].free.len(), usize::MAX - d));
        most.unwrap_or(0) as u32
    }

    /// Whether a die has free units that are not reserved for collectors.
    pub fn has_spare(&self, die: u32) -> bool {
        self.free_units(die) > 1 && self.has_spare_somewhere()
    }

    /// Whether any die may have.
    pub fn has_spare_somewhere(&self) -> bool {
        self.free > self.dies.len() as u32 + SHARED_RESERVE
    }

    /// Whether a unit can be opened for the stream.
    fn may_open(&self, die: u32, stream: Streams) -> bool {
        match stream {
            Streams::Host => self.has_spare(die),
            Streams::Moved => self.free_units(die) > 0,
        }
    }

    /// Whether the collector of a die has place on it to move something to.
    pub fn can_move(&self, die: u32) -> bool {
        self.has_point(die, Streams::Moved) || self.free_units(die) > 0
    }

    /// The die to which the collector of another one can best move something.
    pub fn freest_target(&self) -> Option<u32> {
        let dies = (0..self.dies.len() as u32).filter(|&d| self.can_move(d));
        dies.max_by_key(|&d| (self.free_units(d), u32::MAX - d))
    }

    /// Whether the stream has a write point on the die.
    pub fn has_point(&self, die: u32, stream: Streams) -> bool {
        self.dies[die as usize].points[stream as usize].is_some()
    }

    /// Takes a free unit for the stream: erase it if it says so, then
    /// [`Space::open`] it.
    pub fn take_free(&mut self, die: u32, stream: Streams) -> Option<FreeUnit> {
        if !self.may_open(die, stream) {
            return None;
        }
        self.take_any(die)
    }

    /// Takes a free unit, whatever it is needed for.
    pub fn take_any(&mut self, die: u32) -> Option<FreeUnit> {
        let free = self.dies[die as usize].free.pop_front()?;
        self.free -= 1;
        self.units[free.unit.0 as usize].role = Role::Leaving;
        Some(free)
    }

    /// A unit becomes the write point of a stream, from page `page` on.
    pub fn open(&mut self, stream: Streams, unit: Unit, page: u32) {
        let die = self.die_of(unit);
        self.units[unit.0 as usize].role = Role::Open;
        let old = self.dies[die].points[stream as usize].replace(WritePoint { unit, page });
        debug_assert!(old.is_none(), "a stream has one write point on a die");
    }

    /// How many pages the stream can program in one operation now.
    pub fn row_left(&self, die: u32, stream: Streams) -> u32 {
        let point = self.dies[die as usize].points[stream as usize];
        point.map_or(self.places.planes, |p| self.places.planes - p.page % self.places.planes)
    }

    /// The next `pages` pages of the stream's write point, at most those left in the
    /// row, to be programmed now; a unit that is full by that leaves the write point.
    /// Tell [`Space::landed`] when the program has ended.
    pub fn place(&mut self, die: u32, stream: Streams, pages: u32) -> Option<(PageAddr, u32)> {
        let left = self.row_left(die, stream);
        let point = self.dies[die as usize].points[stream as usize].as_mut()?;
        let count = pages.min(left);
        let at = PageAddr { unit: point.unit, page: point.page };
        point.page += count;
        if point.page == self.places.unit_pages {
            self.dies[die as usize].points[stream as usize] = None;
            self.units[at.unit.0 as usize].role = Role::Leaving;
        }
        self.units[at.unit.0 as usize].flying += 1;
        Some((at, count))
    }

    /// A program has ended, and what it brought is counted.
    pub fn landed(&mut self, unit: Unit) {
        let info = &mut self.units[unit.0 as usize];
        info.flying -= 1;
        if info.flying == 0 && info.role == Role::Leaving {
            self.file(unit);
        }
    }

    /// A unit is full, or will not be written further: it may be collected.
    pub fn file(&mut self, unit: Unit) {
        self.units[unit.0 as usize].role = Role::Full;
        let bucket = self.bucket(unit);
        self.link(unit, bucket);
    }

    /// A unit is free.
    pub fn give_free(&mut self, unit: Unit, erase_first: bool) {
        let die = self.die_of(unit);
        let info = &mut self.units[unit.0 as usize];
        debug_assert_eq!(info.valid, 0);
        info.role = Role::Free;
        info.superseded = Version(0);
        self.dies[die].free.push_back(FreeUnit { unit, erase_first });
        self.free += 1;
    }

    /// Whether the map names this sector.
    pub fn is_valid(&self, ppa: Ppa) -> bool {
        self.valid[(ppa.0 / 64) as usize] >> (ppa.0 % 64) & 1 == 1
    }

    /// The map names this sector from now on.
    pub fn validate(&mut self, ppa: Ppa) {
        debug_assert!(!self.is_valid(ppa));
        self.valid[(ppa.0 / 64) as usize] |= 1 << (ppa.0 % 64);
        let unit = self.places.unit(ppa);
        let before = self.bucket(unit);
        self.units[unit.0 as usize].valid += 1;
        self.rebucket(unit, before);
    }

    /// The map does not name this sector any more, since the change `version`.
    pub fn invalidate(&mut self, ppa: Ppa, version: Version) {
        debug_assert!(self.is_valid(ppa));
        self.valid[(ppa.0 / 64) as usize] &= !(1 << (ppa.0 % 64));
        let unit = self.places.unit(ppa);
        let before = self.bucket(unit);
        let info = &mut self.units[unit.0 as usize];
        info.valid -= 1;
        info.superseded = version;
        self.rebucket(unit, before);
    }

    /// The full unit of a die with the fewest valid sectors (within a bucket's width),
    /// if that is fewer than `below`; it leaves its bucket.
    pub fn take_victim(&mut self, die: u32, below: u32) -> Option<Unit> {
        let d = &mut self.dies[die as usize];
        while d.lowest < BUCKETS && d.heads[d.lowest as usize] == NONE {
            d.lowest += 1;
        }
        if d.lowest == BUCKETS {
            return None;
        }
        // The best of the first few of the bucket.
        let mut best = d.heads[d.lowest as usize];
        let mut at = best;
        for _ in 0..8 {
            if at == NONE {
                break;
            }
            if self.units[at as usize].valid < self.units[best as usize].valid {
                best = at;
            }
            at = self.units[at as usize].next;
        }
        if self.units[best as usize].valid >= below {
            return None;
        }
        let unit = Unit(best);
        let bucket = self.bucket(unit);
        self.unlink(unit, bucket);
        self.units[best as usize].role = Role::Leaving;
        Some(unit)
    }

    /// The next valid sector of a unit at or after sector `from` of it.
    pub fn next_valid(&self, unit: Unit, from: u32) -> Option<u32> {
        let start = self.places.unit_start(unit);
        (from..self.places.unit_sectors).find(|&s| self.is_valid(Ppa(start + s)))
    }

    fn bucket(&self, unit: Unit) -> u32 {
        self.units[unit.0 as usize].valid / self.width
    }

    fn rebucket(&mut self, unit: Unit, before: u32) {
        let after = self.bucket(unit);
        if after != before && self.units[unit.0 as usize].role == Role::Full {
            self.unlink(unit, before);
            self.link(unit, after);
        }
    }

    fn link(&mut self, unit: Unit, bucket: u32) {
        let die = self.die_of(unit);
        let d = &mut self.dies[die];
        let tail = d.tails[bucket as usize];
        let info = &mut self.units[unit.0 as usize];
        info.prev = tail;
        info.next = NONE;
        match tail {
            NONE => d.heads[bucket as usize] = unit.0,
            tail => self.units[tail as usize].next = unit.0,
        }
        d.tails[bucket as usize] = unit.0;
        d.lowest = d.lowest.min(bucket);
    }

    fn unlink(&mut self, unit: Unit, bucket: u32) {
        let die = self.die_of(unit);
        let (prev, next) = (self.units[unit.0 as usize].prev, self.units[unit.0 as usize].next);
        let d = &mut self.dies[die];
        match prev {
            NONE => d.heads[bucket as usize] = next,
            prev => self.units[prev as usize].next = next,
        }
        match next {
            NONE => d.tails[bucket as usize] = prev,
            next => self.units[next as usize].prev = prev,
        }
    }
}
