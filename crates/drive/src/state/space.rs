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
//! 6. The victim among the full units of a die is chosen as `victims` says. Until the die has had a
//!    unit to spare since the start, the victim is the one with the fewest valid sectors. Power
//!    losses spoil rows of the reserve, and a collection has to gain more than that.
//! 7. Of the free units of a die the one erased least often is taken first; with levelling
//!    moved data, which are colder, go to the one erased most often (dynamic wear
//!    levelling).
//! 8. A bad unit is never open or free again. While it holds valid sectors it is condemned:
//!    they are readable, and the collector moves them when there is room to spare.
//! 9. A step that would break these rules, and so destroy data, is not taken, in any build: it is
//!    noted ([`Space::defect`]), and the drive is poisoned before it erases or acknowledges
//!    anything more.

mod audit;

use crate::Collector;
use crate::design::layout::SHARED_RESERVE;
use crate::format::words::{Places, Ppa, Version};
use crate::state::changes::Changes;
use crate::state::victims::{Candidate, Victims};
use std::collections::BTreeSet;
use tantalum_nand::{Geometry, PageAddr, Unit};
use tantalum_rt::{large_pages, prefetch};

/// The stream of a write. Data of the host, data moved by the collector, and data moved to level
/// wear are kept apart, because each is colder than the one before. (Cold data among what
/// collectors move would be collected with it, again and again.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStream {
    /// As the host wrote them.
    Host = 0,
    /// Moved by the collector.
    Moved = 1,
    /// Moved to level wear.
    Cold = 2,
}

/// What a unit is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In a free list.
    Free,
    /// A write point.
    Open,
    /// Written; a victim to choose.
    Full,
    /// In no list: it is full with programs under way, being collected, or being erased.
    Leaving,
    /// Of the map log.
    Map,
    /// Of a dump area.
    Dump,
    /// Bad, and yet with valid sectors.
    Condemned,
    /// Bad, and never used again.
    Bad,
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
    superseded: Version,
    valid: u32,
    /// How many units had been filled when this one was; 0 while it is not full.
    filled: u32,
    /// Programs under way.
    flying: u16,
    /// Pages whose programs have ended.
    landed: u32,
    role: Role,
    bad: bool,
}

impl UnitInfo {
    fn candidate(&self) -> Candidate {
        Candidate { valid: self.valid, filled: self.filled }
    }
}

#[derive(Clone, Copy)]
struct WritePoint {
    unit: Unit,
    page: u32,
}

#[derive(Clone)]
struct DieInfo {
    /// By how often they were erased, and of these first those that are erased.
    free: BTreeSet<(u32, bool, u32)>,
    points: [Option<WritePoint>; 3],
    victims: Victims,
    /// It has had units to spare since the start.
    whole: bool,
}

/// All units of the array.
#[derive(Clone)]
pub struct Space {
    places: Places,
    blocks: u32,
    units: Vec<UnitInfo>,
    dies: Vec<DieInfo>,
    /// Free units of all dies, and the fewest there were.
    free: u32,
    free_min: u32,
    valid: Vec<u64>,
    /// Units filled so far.
    filled: u32,
    /// Moved data go to units that were erased often.
    levelling: bool,
    bad: u32,
    condemned: BTreeSet<u32>,
    /// Units of which [`Space::writing`] may tell something else.
    pub changes: Changes<Unit>,
    /// A step that would have destroyed data and was not taken.
    defect: Option<&'static str>,
}

impl Space {
    /// Every unit [`Role::Leaving`]: in nobody's hands yet.
    pub fn new(g: &Geometry, places: Places, collector: Collector, levelling: bool) -> Space {
        let info = UnitInfo {
            superseded: Version(0),
            valid: 0,
            filled: 0,
            flying: 0,
            landed: 0,
            role: Role::Leaving,
            bad: false,
        };
        let die = |die| DieInfo {
            free: BTreeSet::new(),
            points: [None; 3],
            victims: Victims::new(collector, Unit(die * g.blocks), g.blocks, places.data_sectors()),
            whole: false,
        };
        let mut valid = vec![0; g.sectors().div_ceil(64) as usize];
        large_pages(&mut valid);
        Space {
            places,
            blocks: g.blocks,
            units: vec![info; g.units() as usize],
            dies: (0..g.dies()).map(die).collect(),
            free: 0,
            free_min: u32::MAX,
            valid,
            filled: 0,
            levelling,
            bad: 0,
            condemned: BTreeSet::new(),
            changes: Changes::default(),
            defect: None,
        }
    }

    /// A step that would have destroyed data and was not taken. The drive must be poisoned (9).
    pub fn defect(&self) -> Option<&'static str> {
        self.defect
    }

    /// Whether a step may be taken; if not, that is a defect.
    fn allows(&mut self, holds: bool, what: &'static str) -> bool {
        if !holds && self.defect.is_none() {
            self.defect = Some(what);
        }
        holds
    }

    /// How many units there are.
    pub fn count(&self) -> u32 {
        self.units.len() as u32
    }

    /// What [`Space::writing`] tells of a unit.
    pub fn written_to(&self, unit: Unit) -> Option<u32> {
        let info = &self.units[unit.0 as usize];
        (info.role == Role::Open || info.flying > 0).then_some(info.landed)
    }

    /// What a process left behind: this unit was being written, for a dump.
    pub fn left_behind(&mut self, unit: Unit, landed: u32) {
        let info = &mut self.units[unit.0 as usize];
        (info.role, info.landed) = (Role::Open, landed);
    }

    fn die_of(&self, unit: Unit) -> usize {
        (unit.0 / self.blocks) as usize
    }

    /// Gives a unit a role in which it is in no list.
    pub fn set_role(&mut self, unit: Unit, role: Role) {
        let info = &self.units[unit.0 as usize];
        let in_hand = matches!(info.role, Role::Leaving | Role::Map | Role::Dump);
        let fits = in_hand && info.valid == 0 && matches!(role, Role::Map | Role::Dump);
        if self.allows(fits, "a unit with data was to become one of the map log or of a dump") {
            self.units[unit.0 as usize].role = role;
        }
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

    /// What a unit is there for.
    pub fn role(&self, unit: Unit) -> Role {
        self.units[unit.0 as usize].role
    }

    /// How often the free unit that [`Space::take_worn`] would take was erased.
    pub fn most_worn_free(&self, die: u32) -> Option<u32> {
        self.dies[die as usize].free.last().map(|f| f.0)
    }

    /// How often the free unit that [`Space::take_any`] would take was erased.
    pub fn least_worn_free(&self, die: u32) -> Option<u32> {
        self.dies[die as usize].free.first().map(|f| f.0)
    }

    /// Free units of all dies.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The fewest free units there were since [`Space::count_from_here`].
    pub fn free_min(&self) -> u32 {
        self.free_min.min(self.free)
    }

    /// Begins anew to record the lowest number of free units.
    pub fn count_from_here(&mut self) {
        self.free_min = self.free;
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

    /// Whether a die has had such units since the start. Then the reserves have recovered from
    /// power losses.
    pub fn was_whole(&self, die: u32) -> bool {
        self.dies[die as usize].whole
    }

    /// Whether any die may have.
    pub fn has_spare_somewhere(&self) -> bool {
        self.free > self.dies.len() as u32 + SHARED_RESERVE
    }

    /// Whether a unit can be opened for the stream.
    fn may_open(&self, die: u32, stream: WriteStream) -> bool {
        match stream {
            WriteStream::Host | WriteStream::Cold => self.has_spare(die),
            WriteStream::Moved => self.free_units(die) > 0,
        }
    }

    /// Whether the collector of a die has place on it to move something to.
    pub fn can_move(&self, die: u32) -> bool {
        self.has_point(die, WriteStream::Moved) || self.free_units(die) > 0
    }

    /// The die to which the collector of another one can best move something.
    pub fn freest_target(&self) -> Option<u32> {
        let dies = (0..self.dies.len() as u32).filter(|&d| self.can_move(d));
        dies.max_by_key(|&d| (self.free_units(d), u32::MAX - d))
    }

    /// Whether the stream has a write point on the die.
    pub fn has_point(&self, die: u32, stream: WriteStream) -> bool {
        self.dies[die as usize].points[stream as usize].is_some()
    }

    /// Takes a free unit for the stream: erase it if it says so, then
    /// [`Space::open`] it.
    pub fn take_free(&mut self, die: u32, stream: WriteStream) -> Option<FreeUnit> {
        if self.has_spare(die) {
            self.dies[die as usize].whole = true;
        }
        if !self.may_open(die, stream) {
            return None;
        }
        match stream {
            WriteStream::Moved | WriteStream::Cold if self.levelling => self.take_worn(die),
            _ => self.take_any(die),
        }
    }

    /// Takes a free unit, whatever it is needed for: the one erased least often.
    pub fn take_any(&mut self, die: u32) -> Option<FreeUnit> {
        let taken = self.dies[die as usize].free.pop_first()?;
        Some(self.taken(taken))
    }

    /// Takes the free unit that was erased most often.
    pub fn take_worn(&mut self, die: u32) -> Option<FreeUnit> {
        let taken = self.dies[die as usize].free.pop_last()?;
        Some(self.taken(taken))
    }

    fn taken(&mut self, (_, erase_first, unit): (u32, bool, u32)) -> FreeUnit {
        self.free -= 1;
        self.free_min = self.free_min.min(self.free);
        self.units[unit as usize].role = Role::Leaving;
        FreeUnit { unit: Unit(unit), erase_first }
    }

    /// A unit becomes the write point of a stream, from page `page` on.
    pub fn open(&mut self, stream: WriteStream, unit: Unit, page: u32) {
        self.changes.note(unit);
        let die = self.die_of(unit);
        let info = &self.units[unit.0 as usize];
        let fits = info.role == Role::Leaving && !info.bad;
        let is_first = self.dies[die].points[stream as usize].is_none();
        if !self.allows(fits && is_first, "a unit in use was to be written by another stream") {
            return;
        }
        let info = &mut self.units[unit.0 as usize];
        (info.role, info.landed) = (Role::Open, page);
        self.dies[die].points[stream as usize] = Some(WritePoint { unit, page });
    }

    /// How many pages the stream can program in one operation now.
    pub fn row_left(&self, die: u32, stream: WriteStream) -> u32 {
        let point = self.dies[die as usize].points[stream as usize];
        point.map_or(self.places.planes, |p| self.places.planes - p.page % self.places.planes)
    }

    /// The next `pages` pages of the stream's write point, at most those left in the
    /// row, to be programmed now; a unit that is full by that leaves the write point.
    /// Tell [`Space::landed`] when the program has ended.
    pub fn place(&mut self, die: u32, stream: WriteStream, pages: u32) -> Option<(PageAddr, u32)> {
        let left = self.row_left(die, stream);
        let point = self.dies[die as usize].points[stream as usize].as_mut()?;
        let count = pages.min(left);
        let at = PageAddr { unit: point.unit, page: point.page };
        point.page += count;
        if point.page == self.places.data_pages {
            self.dies[die as usize].points[stream as usize] = None;
            self.units[at.unit.0 as usize].role = Role::Leaving;
        }
        self.units[at.unit.0 as usize].flying += 1;
        self.changes.note(at.unit);
        Some((at, count))
    }

    /// One more program is under way in a unit that is full: tell [`Space::landed`] of it, too.
    pub fn fly(&mut self, unit: Unit) {
        self.changes.note(unit);
        self.units[unit.0 as usize].flying += 1;
    }

    /// A program of so many pages has ended, and what it brought is counted. Programs in one
    /// unit end in the order in which their pages were given.
    pub fn landed(&mut self, unit: Unit, pages: u32) {
        self.changes.note(unit);
        let info = &mut self.units[unit.0 as usize];
        info.flying -= 1;
        info.landed += pages;
        if info.flying == 0 && info.role == Role::Leaving {
            self.file(unit);
        }
    }

    /// The units that are being written, with the page before which all is counted.
    pub fn writing(&self) -> impl Iterator<Item = (Unit, u32)> + '_ {
        let units = (0..self.units.len() as u32).map(Unit);
        units.filter_map(|unit| Some((unit, self.written_to(unit)?)))
    }

    /// A unit is full, or will not be written further: it may be collected.
    pub fn file(&mut self, unit: Unit) {
        self.changes.note(unit);
        let die = self.die_of(unit);
        let in_hand = self.units[unit.0 as usize].role == Role::Leaving;
        if !self.allows(in_hand, "a unit in use was to be collected") {
            return;
        }
        let info = &mut self.units[unit.0 as usize];
        if info.bad {
            if info.valid == 0 {
                info.role = Role::Bad;
            } else {
                info.role = Role::Condemned;
                self.condemned.insert(unit.0);
            }
            return;
        }
        if info.filled == 0 {
            self.filled = self.filled.saturating_add(1);
            info.filled = self.filled;
        }
        info.role = Role::Full;
        self.dies[die].victims.add(unit, info.candidate());
    }

    /// A unit is free. It was erased so often.
    pub fn give_free(&mut self, free: FreeUnit, erases: u32) {
        let FreeUnit { unit, erase_first } = free;
        let die = self.die_of(unit);
        let info = &self.units[unit.0 as usize];
        let in_hand = matches!(info.role, Role::Leaving | Role::Map);
        let fits = in_hand && info.valid == 0 && !info.bad;
        if !self.allows(fits, "a unit with valid data, or in use, was to be given free") {
            return;
        }
        let info = &mut self.units[unit.0 as usize];
        info.role = Role::Free;
        info.superseded = Version(0);
        info.filled = 0;
        self.dies[die].free.insert((erases, erase_first, unit.0));
        self.free += 1;
    }

    /// A unit failed to program or to erase: it is neither written nor erased any more.
    /// Whether that is new. One without valid sectors is [`Role::Bad`] when it is in no
    /// list, else when what is under way in it has ended and its sectors were moved.
    pub fn condemn(&mut self, unit: Unit) -> bool {
        self.changes.note(unit);
        let die = self.die_of(unit);
        let info = &mut self.units[unit.0 as usize];
        if std::mem::replace(&mut info.bad, true) {
            return false;
        }
        self.bad += 1;
        match info.role {
            Role::Open => {
                for point in &mut self.dies[die].points {
                    if point.is_some_and(|p| p.unit == unit) {
                        *point = None;
                    }
                }
                info.role = Role::Leaving;
                if info.flying == 0 {
                    self.file(unit);
                }
            }
            Role::Full => {
                self.dies[die].victims.remove(unit, info.candidate());
                info.role = Role::Leaving;
                self.file(unit);
            }
            // The task that holds it files or retires it.
            _ => {}
        }
        true
    }

    /// Whether a unit is bad.
    pub fn is_bad(&self, unit: Unit) -> bool {
        self.units[unit.0 as usize].bad
    }

    /// Bad units, condemned ones included.
    pub fn bad(&self) -> u32 {
        self.bad
    }

    /// Nothing in a bad unit is needed any more.
    pub fn retire(&mut self, unit: Unit) {
        let info = &self.units[unit.0 as usize];
        let fits = info.bad && info.valid == 0;
        if self.allows(fits, "a unit with valid data was to be retired") {
            self.units[unit.0 as usize].role = Role::Bad;
        }
    }

    /// A condemned unit of a die: what is valid in it is to be moved, and it is to be
    /// retired or filed then.
    pub fn take_condemned(&mut self, die: u32) -> Option<Unit> {
        let (first, end) = (die * self.blocks, (die + 1) * self.blocks);
        let unit = Unit(*self.condemned.range(first..end).next()?);
        self.condemned.remove(&unit.0);
        self.units[unit.0 as usize].role = Role::Leaving;
        Some(unit)
    }

    /// Whether the map names this sector.
    pub fn is_valid(&self, ppa: Ppa) -> bool {
        self.valid[(ppa.0 / 64) as usize] >> (ppa.0 % 64) & 1 == 1
    }

    /// What is known of this sector is needed soon: the processor may fetch it meanwhile.
    pub fn look_ahead(&self, ppa: Ppa) {
        if let Some(word) = self.valid.get((ppa.0 / 64) as usize) {
            prefetch(word);
        }
        if let Some(info) = self.units.get(self.places.unit(ppa).0 as usize) {
            prefetch(info);
        }
    }

    /// The map names this sector from now on.
    pub fn validate(&mut self, ppa: Ppa) {
        if !self.allows(!self.is_valid(ppa), "two logical pages were to be in one place") {
            return;
        }
        self.valid[(ppa.0 / 64) as usize] |= 1 << (ppa.0 % 64);
        let unit = self.places.unit(ppa);
        let info = &mut self.units[unit.0 as usize];
        let before = info.candidate();
        info.valid += 1;
        self.recount(unit, before);
    }

    /// The map does not name this sector any more, since the change `version`.
    pub fn invalidate(&mut self, ppa: Ppa, version: Version) {
        if !self.allows(self.is_valid(ppa), "what is not valid was to be superseded") {
            return;
        }
        self.valid[(ppa.0 / 64) as usize] &= !(1 << (ppa.0 % 64));
        let unit = self.places.unit(ppa);
        let info = &mut self.units[unit.0 as usize];
        let before = info.candidate();
        info.valid -= 1;
        info.superseded = version;
        self.recount(unit, before);
    }

    fn recount(&mut self, unit: Unit, before: Candidate) {
        let info = &self.units[unit.0 as usize];
        if info.role == Role::Full {
            let (die, after) = (self.die_of(unit), info.candidate());
            self.dies[die].victims.changed(unit, before, after);
        }
    }

    /// The full unit of a die to collect next, if it has fewer valid sectors than `below`;
    /// it leaves its list.
    pub fn take_victim(&mut self, die: u32, below: u32) -> Option<Unit> {
        let units = &self.units;
        let victims = &mut self.dies[die as usize].victims;
        let unit = victims.best(below, self.filled, |u| units[u.0 as usize].valid)?;
        Some(self.take_full(unit))
    }

    /// The full unit of a die with the fewest valid sectors, if it has less than all; it
    /// leaves its list.
    pub fn take_emptiest(&mut self, die: u32) -> Option<Unit> {
        let units = &self.units;
        let victims = &mut self.dies[die as usize].victims;
        let unit = victims.emptiest(|u| units[u.0 as usize].valid)?;
        Some(self.take_full(unit))
    }

    /// Takes a full unit out of its list, to be collected.
    pub fn take_full(&mut self, unit: Unit) -> Unit {
        let die = self.die_of(unit);
        let is_full = self.units[unit.0 as usize].role == Role::Full;
        if self.allows(is_full, "a unit in use was to be collected") {
            let info = &mut self.units[unit.0 as usize];
            self.dies[die].victims.remove(unit, info.candidate());
            info.role = Role::Leaving;
        }
        unit
    }

    /// The next valid sector of a unit at or after sector `from` of it.
    pub fn next_valid(&self, unit: Unit, from: u32) -> Option<u32> {
        let start = self.places.unit_start(unit);
        (from..self.places.unit_sectors).find(|&s| self.is_valid(Ppa(start + s)))
    }
}
