//! The firmware: the drive's memory, shared by its tasks, and the synchronous
//! functions that change more than one part of it at once.
//!
//! 1. Each function here finds and leaves the invariants of map, space, buffer and map
//!    log in force together; tasks are only ever dropped between two of them.
//! 2. What the emergency dump needs is in this memory, never in a future's locals.

pub(crate) mod audit;
pub(crate) mod flags;
pub(crate) mod groups;
#[cfg(test)]
mod guards;
pub(crate) mod reservations;
pub(crate) mod retire;
pub(crate) mod stats;
pub(crate) mod summary;

use crate::design::group::group_limit;
use crate::design::layout::Layout;
use crate::firmware::flags::Flags;
use crate::firmware::groups::{Grouping, Records};
use crate::firmware::stats::Stats;
use crate::format::journal::{Entry, OPEN};
use crate::format::words::{BORN_NOW, Kind, Lpn, NO_INDEX, PageHead, Places, Ppa, Version};
use crate::planted::planted;
use crate::state::buffer::Buffer;
use crate::state::dump_areas::DumpAreas;
use crate::state::grants::{Discarded, Grants};
use crate::state::groups::Groups;
use crate::state::journal::Journal;
use crate::state::map::Map;
use crate::state::maplog::{Dirty, MapLog, Persistence};
use crate::state::reservations::Reservations;
use crate::state::space::{Role, Space, Streams};
use crate::{CacheMode, Design, FlushMode};
use rustc_hash::FxHashMap;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use tantalum_device::{Ack, Caps, Payload};
use tantalum_nand::{NandArray, OpError, PageAddr, SECTOR_BYTES, Unit};
use tantalum_rt::sync::{Mutex, Semaphore, WaitQueue};
use tantalum_rt::{Nanos, Rt};

/// The memory of a drive that has power, and the meeting points of its tasks.
pub(crate) struct Firmware {
    pub rt: Rt,
    pub design: Rc<Design>,
    pub layout: Layout,
    pub caps: Caps,
    pub places: Places,
    pub nand: Rc<NandArray>,
    pub stats: Rc<Stats>,

    // What a protected drive keeps through a power loss.
    pub map: RefCell<Map>,
    pub buffer: RefCell<Buffer>,
    pub log: RefCell<MapLog>,
    pub dump: RefCell<DumpAreas>,

    // What recovery finds out again.
    pub space: RefCell<Space>,
    pub sequence: Cell<u64>,
    /// For summaries: what is beside the pages of units that are being written.
    pub notes: RefCell<FxHashMap<u32, Vec<u8>>>,

    // Meeting points.
    pub link: LinkTime,
    pub queue: Semaphore,
    pub arrival: Mutex,
    /// Writes that were let in, for whose pages there has to be room.
    pub grants: RefCell<Grants>,
    /// Discarded pages for which there has to be room, too, as a power loss may bring them back.
    pub discarded: RefCell<Discarded>,
    /// Atomic groups under way.
    pub groups: RefCell<Groups>,
    /// Room for more of them.
    pub group_room: Semaphore,
    pub group_done: WaitQueue,
    /// How a restart knows which of them are whole.
    pub grouping: Box<dyn Grouping>,
    pub room: Semaphore,
    pub work: WaitQueue,
    pub urgent: Cell<u32>,
    /// A host waits for room (one at a time: it has the turn to be admitted).
    pub starved: Cell<bool>,
    pub epochs: WaitQueue,
    pub log_work: WaitQueue,
    pub log_progress: WaitQueue,
    pub log_wanted: Cell<Version>,
    pub drain_wanted: Cell<Version>,
    pub drained: Cell<Version>,
    pub reserved: RefCell<Reservations>,
    /// Pages with data programmed since the last checkpoint began.
    pub since_checkpoint: Cell<u64>,
    /// A checkpoint is to be made, though there is no need for room.
    pub idle_checkpoint: Cell<bool>,
    /// The log's oldest unit is to be cleaned, though there is no need for room.
    pub turn_log: Cell<bool>,
    pub dies: Vec<DieEvents>,
    /// A collector moves to another die than its own.
    pub borrowing: Cell<bool>,
    /// When the last command came, for those who wait for idle times.
    pub last_command: Cell<Nanos>,
    pub activity: WaitQueue,
    /// Map pages have become known, or the rest of the start is done.
    pub map_known: WaitQueue,
    /// The rest of the start is done (`recover`, 6).
    pub is_whole: Cell<bool>,
    /// Nothing is programmed any more; nobody waits for that.
    pub poisoned: Cell<bool>,
    /// A step that would have destroyed data was stopped: which.
    pub defect: Cell<Option<&'static str>>,
    /// The version of the map that says that the drive's life is over (see `retire`).
    pub ending: Cell<Option<Version>>,
    /// The end of the drive's life is why (see `retire`).
    pub read_only: Cell<bool>,
    /// It was so at the start already: what was dumped then still holds.
    pub began_read_only: Cell<bool>,
    /// What of this memory outlives the process, if any does.
    pub outside: OnceCell<Box<dyn Publish>>,
}

/// Where protected memory is kept beyond the process.
pub(crate) trait Publish {
    /// Brings it up to date. False if that cannot be, now or before: the drive is poisoned.
    fn publish(&self, fw: &Firmware) -> bool;

    /// A dump is going to be written from where the area for it says.
    fn begin_dump(&self, fw: &Firmware);

    /// For tests that look inside.
    #[cfg(test)]
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Where the tasks of one die wait for space.
pub(crate) struct DieEvents {
    changed: WaitQueue,
    /// Its tasks that have found nothing to go on with, and were not told of a change since.
    waiting: Cell<u32>,
    /// The collector found nothing worth collecting and wants to hear of more.
    pub hungry: Cell<bool>,
    /// Erases since something was moved to level wear.
    pub worn: Cell<u32>,
    /// The highest erase count that levelling has seen.
    pub most: Cell<u32>,
}

impl DieEvents {
    /// Something changed on the die.
    pub fn notify(&self) {
        self.waiting.set(0);
        self.changed.notify_all();
    }

    /// Neither its flusher nor its collector can go on.
    pub fn is_stuck(&self) -> bool {
        self.waiting.get() == 2
    }

    /// One of these two waits until something changes; `check` is asked before.
    pub async fn wait(&self, check: impl FnOnce() -> bool) {
        self.waiting.set(self.waiting.get() + 1);
        if check() {
            self.changed.wait().await;
        }
    }
}

/// When the link is free again.
pub(crate) struct LinkTime {
    free: Cell<Nanos>,
}

/// The parts of the memory that a cut may leave.
struct Parts {
    map: Map,
    buffer: Buffer,
    log: MapLog,
    dump: DumpAreas,
    space: Space,
}

impl Firmware {
    pub fn new(
        rt: &Rt,
        design: &Rc<Design>,
        layout: &Layout,
        nand: &Rc<NandArray>,
        stats: &Rc<Stats>,
    ) -> Firmware {
        let g = &design.geometry;
        let places = design.places();
        let payload = nand.payload();
        let dirty = || Dirty::new(layout.map_pages);
        let persistence = match () {
            () if design.keeps_units() => Persistence::Units(dirty(), Journal::default()),
            () if design.is_protected() => Persistence::Protected(dirty()),
            () => Persistence::Journal(Vec::new()),
        };
        let log = MapLog::new(
            places,
            layout.map_pages,
            persistence,
            design.map.write_points,
            layout.map_live_units + design.map.write_points,
        );
        let mut buffer = Buffer::new(design.buffer_slots(), payload);
        if design.is_disorderly() {
            // Another order in each power cycle.
            let dice = rt.stream(&format!("disorder in the buffer since {}", rt.now().0));
            buffer = buffer.in_disorder(design.cache.reorder, dice);
        }
        let map = Map::new(layout.logical, g.units());
        let space = Space::new(g, places, design.space.collector, design.wear.spread_max > 0);
        let parts = Parts { map, buffer, log, dump: DumpAreas::default(), space };
        Firmware::of(rt, design, layout, nand, stats, parts)
    }

    /// Around these parts, with nobody who waits.
    fn of(
        rt: &Rt,
        design: &Rc<Design>,
        layout: &Layout,
        nand: &Rc<NandArray>,
        stats: &Rc<Stats>,
        parts: Parts,
    ) -> Firmware {
        let g = &design.geometry;
        Firmware {
            rt: rt.clone(),
            design: design.clone(),
            layout: layout.clone(),
            caps: Firmware::caps(design, layout, nand.payload()),
            places: design.places(),
            nand: nand.clone(),
            stats: stats.clone(),
            map: RefCell::new(parts.map),
            buffer: RefCell::new(parts.buffer),
            log: RefCell::new(parts.log),
            dump: RefCell::new(parts.dump),
            space: RefCell::new(parts.space),
            sequence: Cell::new(1),
            notes: RefCell::default(),
            link: LinkTime { free: Cell::new(Nanos::ZERO) },
            queue: Semaphore::new(
                rt,
                "a place in the command queue",
                design.link.queue_depth.into(),
            ),
            arrival: Mutex::new(rt, "its turn to be admitted"),
            grants: RefCell::default(),
            discarded: RefCell::default(),
            groups: RefCell::default(),
            group_room: Semaphore::new(rt, "room for atomic groups", layout.group_sectors.into()),
            group_done: WaitQueue::new(rt, "an atomic group to be whole"),
            grouping: match design.flags_groups() {
                true => Box::new(Flags::new(rt)),
                false => Box::new(Records),
            },
            room: Semaphore::new(rt, "room in the buffer", design.buffer_slots().into()),
            work: WaitQueue::new(rt, "pages to write"),
            urgent: Cell::new(0),
            starved: Cell::new(false),
            epochs: WaitQueue::new(rt, "buffered pages to be on flash"),
            log_work: WaitQueue::new(rt, "changes of the map to store"),
            log_progress: WaitQueue::new(rt, "the map log"),
            log_wanted: Cell::new(Version(0)),
            drain_wanted: Cell::new(Version(0)),
            drained: Cell::new(Version(0)),
            reserved: RefCell::default(),
            since_checkpoint: Cell::new(0),
            idle_checkpoint: Cell::new(false),
            turn_log: Cell::new(false),
            dies: (0..g.dies())
                .map(|_| DieEvents {
                    changed: WaitQueue::new(rt, "a free erase unit"),
                    waiting: Cell::new(0),
                    hungry: Cell::new(false),
                    worn: Cell::new(0),
                    most: Cell::new(0),
                })
                .collect(),
            borrowing: Cell::new(false),
            last_command: Cell::new(Nanos::ZERO),
            activity: WaitQueue::new(rt, "the host"),
            map_known: WaitQueue::new(rt, "a map page to be loaded"),
            is_whole: Cell::new(false),
            poisoned: Cell::new(false),
            defect: Cell::new(None),
            ending: Cell::new(None),
            read_only: Cell::new(false),
            began_read_only: Cell::new(false),
            outside: OnceCell::new(),
        }
    }

    /// What is left of this memory when the power is cut now, over an array in another
    /// runtime: the protected parts, and what the dump says beside them.
    pub fn protected_copy(&self, rt: &Rt, nand: &Rc<NandArray>, stats: &Rc<Stats>) -> Firmware {
        let parts = Parts {
            map: self.map.borrow().clone(),
            buffer: self.buffer.borrow().clone(),
            log: self.log.borrow().clone(),
            dump: self.dump.borrow().clone(),
            space: self.space.borrow().clone(),
        };
        Firmware {
            sequence: self.sequence.clone(),
            poisoned: self.poisoned.clone(),
            read_only: self.read_only.clone(),
            began_read_only: self.began_read_only.clone(),
            ..Firmware::of(rt, &self.design, &self.layout, nand, stats, parts)
        }
    }

    /// Changes a map entry, and all that hangs on it.
    pub fn remap(&self, lpn: Lpn, to: Option<Ppa>) {
        let (version, old) = self.map.borrow_mut().set(lpn, to);
        if let Some(new) = to {
            self.space.borrow_mut().validate(new);
            self.look_for_defects();
        }
        if let Some(old) = old {
            self.supersede(old, version);
        } else if to.is_none() {
            return; // Nothing was there, nothing is: no change to make durable.
        }
        let mut log = self.log.borrow_mut();
        if to.is_some() || !planted!(DiscardForgotten) {
            log.changed(lpn);
        }
        if self.is_high(&log) {
            self.log_work.notify_all();
        }
        drop(log);
        if to.is_none() {
            self.note_discard(lpn, version);
        }
    }

    /// What is in this place does not count any more, since the change `version`.
    pub fn supersede(&self, old: Ppa, version: Version) {
        self.space.borrow_mut().invalidate(old, version);
        self.look_for_defects();
        let die = &self.dies[(self.places.unit(old).0 / self.design.geometry.blocks) as usize];
        if die.hungry.get() {
            die.notify();
        }
    }

    /// Enters this in the journal of units, if there is one.
    pub fn enter(&self, entry: Entry) {
        let mut log = self.log.borrow_mut();
        let Some(journal) = log.journal_mut() else { return };
        journal.push(entry);
        if self.is_high(&log) {
            self.log_work.notify_all();
        }
    }

    /// A unit is erased now: the journal of units forgets it.
    pub fn forget(&self, unit: Unit) {
        if let Some(journal) = self.log.borrow_mut().journal_mut() {
            journal.forget(unit);
        }
    }

    /// Enters there that sector `sector` of an operation at `at`, which had these words, was
    /// out of date when it landed.
    pub fn enter_stale(&self, at: PageAddr, sector: u32, words: &[u64]) {
        let page = (sector / self.places.page_sectors) as usize;
        let head = PageHead::decode(&words[page * self.nand.oob_words()..]);
        let sequence = head.map_or(0, |head| head.sequence);
        if !planted!(StaleNotEntered) {
            self.enter(Entry::Stale { place: self.places.ppa(at, sector), sequence });
        }
    }

    /// A step towards durability failed: nothing is promised any more (contract, 6).
    pub fn poison(&self) {
        if self.poisoned.replace(true) {
            return;
        }
        // Nobody frees slots any more: those who wait for room come in and are refused.
        self.room.release(u32::MAX.into());
        self.group_room.release(u32::MAX.into());
        for queue in [
            &self.work,
            &self.epochs,
            &self.log_work,
            &self.log_progress,
            &self.activity,
            &self.map_known,
            &self.group_done,
        ] {
            queue.notify_all();
        }
        self.notify_dies();
    }

    /// The firmware was about to do what would destroy data. It does not: the drive is poisoned, and
    /// says why.
    pub fn fail(&self, why: &'static str) {
        if self.defect.get().is_none() {
            self.defect.set(Some(why));
        }
        self.poison();
    }

    /// Poisons the drive if its space was to be used as it must not be.
    pub fn look_for_defects(&self) {
        let found = self.space.borrow().defect();
        if let Some(why) = found {
            self.fail(why);
        }
    }

    /// Free units have become more, or scarce.
    pub fn notify_dies(&self) {
        self.dies.iter().for_each(DieEvents::notify);
    }

    /// The result of an operation that must not fail: if it did, the drive is poisoned.
    pub fn must<T>(&self, result: Result<T, OpError>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(OpError::Rule { at, rule }) => {
                // A defect of this firmware; in a test it must be seen at once.
                debug_assert!(false, "rule of the medium broken at {at:?}: {rule}");
                self.poison();
                None
            }
            Err(_) => {
                self.poison();
                None
            }
        }
    }

    /// Makes sure that the stream has a write point on the die, waiting for a free unit
    /// if it must. False if the drive is poisoned.
    pub async fn ensure_point(&self, die: u32, stream: Streams) -> bool {
        while !self.poisoned.get() {
            if self.try_point(die, stream).await {
                return true;
            }
            if !self.poisoned.get() {
                let asked = self.rt.now();
                self.wait_for_space(die).await;
                self.stats.space_wait.add((self.rt.now() - asked).0);
            }
        }
        false
    }

    /// Makes sure of the same if there is a free unit. False if not, or if the drive is
    /// poisoned.
    pub async fn try_point(&self, die: u32, stream: Streams) -> bool {
        while !self.poisoned.get() {
            if self.space.borrow().has_point(die, stream) {
                return true;
            }
            let free = self.space.borrow_mut().take_free(die, stream);
            let Some(free) = free else { return false };
            // One unit less: time to collect?
            self.dies[die as usize].notify();
            if !self.space.borrow().has_spare_somewhere() {
                self.notify_dies();
            }
            if free.erase_first && self.erase(free.unit, Role::Leaving).await != Some(true) {
                continue;
            }
            if self.space.borrow().has_point(die, stream) {
                self.give_free(free.unit, false);
            } else {
                self.space.borrow_mut().open(stream, free.unit, 0);
                if !planted!(UnitNotEntered) {
                    self.enter(Entry::Written { unit: free.unit, from: 0, until: OPEN });
                }
            }
            return true;
        }
        false
    }

    /// A program into a unit has ended and its mappings are changed: the unit may have
    /// become worth collecting.
    pub fn landed(&self, unit: Unit, pages: u32) {
        self.space.borrow_mut().landed(unit, pages);
        self.look_for_defects();
        self.since_checkpoint.set(self.since_checkpoint.get() + u64::from(pages));
        let die = &self.dies[self.nand.geometry().die(unit) as usize];
        if die.hungry.get() || self.space.borrow().is_bad(unit) {
            die.notify();
        }
    }

    /// The out-of-band words of the pages of one operation; of each sector its index and its
    /// birth.
    pub fn page_words(
        &self,
        kind: Kind,
        version: u64,
        pages: u32,
        sectors: impl Iterator<Item = (u64, u64)>,
        out: &mut Vec<u64>,
    ) {
        out.clear();
        let mut sectors = sectors.fuse();
        let ps = self.places.page_sectors as usize;
        for _ in 0..pages {
            let sequence = self.sequence.get();
            self.sequence.set(sequence + 1);
            out.extend(PageHead { kind, sequence, version }.encode());
            let first = out.len();
            out.resize(first + 2 * ps, 0);
            let (indices, births) = out[first..].split_at_mut(ps);
            for (index, birth) in indices.iter_mut().zip(births) {
                let sector = sectors.next().unwrap_or((u64::from(NO_INDEX), 0));
                *index = sector.0;
                *birth = if sector.1 == BORN_NOW { sequence } else { sector.1 };
            }
        }
    }

    /// Bytes of so many pages.
    pub fn page_bytes(&self, pages: u32) -> u64 {
        u64::from(pages) * u64::from(self.design.geometry.page_bytes)
    }

    /// The firmware works for the host, who waits.
    pub async fn work_for(&self, us: u64) {
        self.rt.sleep(Nanos::from_micros(us)).await;
    }

    /// A write and its `bytes` of data pass the link to the drive.
    pub async fn take_data(&self, bytes: u64) {
        let link = &self.design.link;
        let rate = if link.write_mb_s == 0 { link.mb_s } else { link.write_mb_s.min(link.mb_s) };
        self.pass_command(link.occupancy_ns + bytes * 1_000 / rate).await;
    }

    /// A command without data passes the link to the drive.
    pub async fn pass_link(&self) {
        self.pass_command(self.design.link.occupancy_ns).await;
    }

    async fn pass_command(&self, ns: u64) {
        if self.uses_idle_times() {
            self.last_command.set(self.rt.now());
            self.activity.notify_all();
        }
        let end = self.occupy_link(ns);
        let latency = Nanos(self.design.link.latency_ns);
        self.rt.sleep_until_for(end + latency, "the link").await;
    }

    /// `bytes` of data pass the link to the host.
    pub async fn pass_data(&self, bytes: u64) {
        let end = self.occupy_link(bytes * 1_000 / self.design.link.mb_s);
        self.rt.sleep_until_for(end, "the link").await;
    }

    fn occupy_link(&self, ns: u64) -> Nanos {
        let end = self.link.free.get().max(self.rt.now()) + Nanos(ns);
        self.link.free.set(end);
        end
    }
}

impl Firmware {
    /// What changed so far of protected memory survives the process; nothing to do without an
    /// image. False if it does not: the drive is poisoned.
    pub fn publish(&self) -> bool {
        self.outside.get().is_none_or(|outside| outside.publish(self))
    }

    /// What a drive of this design promises.
    pub fn caps(design: &Design, layout: &Layout, payload: Payload) -> Caps {
        let protected = design.is_protected();
        Caps {
            block_size: SECTOR_BYTES,
            blocks: layout.logical.into(),
            // With the cache off a completed write is on flash, but not yet findable there,
            // unless the map is stored at once: else it becomes durable with the flush.
            ack: match design.cache.mode {
                CacheMode::Protected | CacheMode::Through => Ack::PowerSafe,
                CacheMode::Volatile | CacheMode::Off => Ack::Volatile,
            },
            // What is protected needs no flush to survive.
            flush: protected || design.cache.flush != FlushMode::Ignore,
            ordered: protected,
            atomic_unit: match payload {
                _ if protected => design.cache.atomic_unit_kib * 1024,
                Payload::Bytes => design.cache.shear_bytes,
                // A stamp is all or nothing.
                Payload::Stamps => SECTOR_BYTES,
            },
            thin: layout.is_thin(),
            atomic_group: group_limit(design, layout),
            payload,
        }
    }

    /// Whether a flush has to program anything.
    pub fn flush_drains(&self) -> bool {
        !self.design.is_protected() || self.design.cache.flush == FlushMode::Drain
    }
}
