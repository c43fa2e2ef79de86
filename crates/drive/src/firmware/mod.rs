//! The firmware: the drive's memory, shared by its tasks, and the synchronous
//! functions that change more than one part of it at once.
//!
//! 1. Each function here finds and leaves the invariants of map, space, buffer and map
//!    log in force together; tasks are only ever dropped between two of them.
//! 2. What the emergency dump needs is in this memory, never in a future's locals.

pub(crate) mod audit;
pub(crate) mod events;
pub(crate) mod flags;
pub(crate) mod groups;
#[cfg(test)]
pub mod guards;
pub(crate) mod health;
pub(crate) mod reservations;
pub(crate) mod retire;
pub(crate) mod stats;
pub(crate) mod summary;

use crate::design::group::group_limit;
use crate::design::layout::Layout;
use crate::firmware::events::{
    AtomicGroups, CollectorEvents, DieEvents, FlusherEvents, HostSide, KeeperEvents, StartEvents,
};
use crate::firmware::health::Health;
use crate::firmware::stats::Stats;
use crate::format::unit_journal::{Entry, OPEN};
use crate::format::words::{BORN_NOW, Kind, Lpn, NO_INDEX, PageHead, Places, Ppa, Version};
use crate::planted::planted;
use crate::state::State;
use crate::state::map::Map;
use crate::state::maplog::MapLog;
use crate::state::space::{Role, Space, WriteStream};
use crate::{CacheMode, Design, FlushMode};
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell, RefMut};
use std::rc::Rc;
use tantalum_device::{Ack, Caps, Payload};
use tantalum_nand::{NandArray, OpError, PageAddr, SECTOR_BYTES, Unit};

use tantalum_rt::{Nanos, Rt, Sleep};

/// Why a drive stops whose host fails: what it acknowledges would not survive a crash of the host.
pub const HOST_FAILED: &str = "the host could not write the image to its disk";

/// The memory of a drive that has power, and the meeting points of its tasks.
pub(crate) struct Firmware {
    pub rt: Rt,
    pub design: Rc<Design>,
    pub layout: Layout,
    pub caps: Caps,
    pub places: Places,
    pub nand: Rc<NandArray>,
    pub stats: Rc<Stats>,
    pub state: State,
    pub host: HostSide,
    pub groups: AtomicGroups,
    pub flusher: FlusherEvents,
    pub keeper: KeeperEvents,
    pub collectors: CollectorEvents,
    pub start: StartEvents,
    health: Health,
    /// For summaries: what is beside the pages of units that are being written.
    notes: RefCell<FxHashMap<u32, Vec<u8>>>,
    /// Where protected memory is kept beyond the process, if it is.
    outside: OnceCell<Box<dyn Publish>>,
}

/// Where protected memory is kept beyond the process.
pub(crate) trait Publish {
    /// Brings it up to date. False if that failed, now or before: the drive is poisoned.
    fn publish(&self, fw: &Firmware) -> bool;

    /// A dump is going to be written from where the area for it says.
    fn begin_dump(&self, fw: &Firmware);

    /// For tests that look inside.
    #[cfg(test)]
    fn as_any(&self) -> &dyn std::any::Any;
}

impl Firmware {
    /// Of a drive that knows nothing yet.
    pub fn new(
        rt: &Rt,
        design: &Rc<Design>,
        layout: &Layout,
        nand: &Rc<NandArray>,
        stats: &Rc<Stats>,
    ) -> Firmware {
        let state = State::new(rt, design, layout, nand.payload());
        Firmware::of(rt, design, layout, nand, stats, state)
    }

    /// With this memory, and nobody who waits.
    fn of(
        rt: &Rt,
        design: &Rc<Design>,
        layout: &Layout,
        nand: &Rc<NandArray>,
        stats: &Rc<Stats>,
        state: State,
    ) -> Firmware {
        Firmware {
            rt: rt.clone(),
            design: design.clone(),
            layout: layout.clone(),
            caps: Firmware::caps(design, layout, nand.payload()),
            places: design.places(),
            nand: nand.clone(),
            stats: stats.clone(),
            state,
            host: HostSide::new(rt, design),
            groups: AtomicGroups::new(rt, design, layout),
            flusher: FlusherEvents::new(rt),
            keeper: KeeperEvents::new(rt),
            collectors: CollectorEvents::new(rt, design.geometry.dies()),
            start: StartEvents::new(rt),
            health: Health::default(),
            notes: RefCell::default(),
            outside: OnceCell::new(),
        }
    }

    /// What is left of this memory if the power is cut now, over an array in another runtime: the
    /// protected parts, and what else the dump has.
    pub fn protected_copy(&self, rt: &Rt, nand: &Rc<NandArray>, stats: &Rc<Stats>) -> Firmware {
        let state = self.state.clone();
        Firmware {
            health: self.health.protected_copy(),
            ..Firmware::of(rt, &self.design, &self.layout, nand, stats, state)
        }
    }

    /// Changes a map entry, and everything that depends on it.
    pub fn remap(&self, lpn: Lpn, to: Option<Ppa>) {
        let discarded = self.remapping().change(lpn, to);
        if let Some(version) = discarded {
            self.note_discard(lpn, version);
        }
    }

    /// For changes of several map entries, one after the other, in one step.
    pub fn remapping(&self) -> Remapping<'_> {
        Remapping {
            fw: self,
            map: self.state.map.borrow_mut(),
            space: self.state.space.borrow_mut(),
            log: self.state.log.borrow_mut(),
        }
    }

    /// These map entries change soon: the processor may fetch what depends on them meanwhile.
    pub fn look_ahead(&self, lpns: impl Iterator<Item = Lpn>) {
        let (map, log) = (self.state.map.borrow(), self.state.log.borrow());
        lpns.for_each(|lpn| {
            map.look_ahead(lpn);
            log.look_ahead(lpn);
        });
    }

    /// The same, and for what depends on the places that the entries name now.
    pub fn look_ahead_of_moves(&self, lpns: impl Iterator<Item = Lpn> + Clone) {
        self.look_ahead(lpns.clone());
        let (map, space) = (self.state.map.borrow(), self.state.space.borrow());
        lpns.filter_map(|lpn| map.get(lpn)).for_each(|old| space.look_ahead(old));
    }

    /// The sector in this place is invalid since the change `version`.
    pub fn supersede(&self, old: Ppa, version: Version) {
        self.state.space.borrow_mut().invalidate(old, version);
        self.look_for_defects();
        self.feed(old);
    }

    /// Fewer sectors of this place's unit are valid: wakes the collector if it waits for that.
    fn feed(&self, place: Ppa) {
        let unit = self.places.unit(place);
        let die = &self.collectors.dies[(unit.0 / self.design.geometry.blocks) as usize];
        if die.hungry.get() {
            die.notify();
        }
    }

    /// Enters this in the journal of units, if there is one.
    pub fn enter(&self, entry: Entry) {
        let mut log = self.state.log.borrow_mut();
        let Some(journal) = log.journal_mut() else { return };
        journal.push(entry);
        if self.is_high(&log) {
            self.keeper.work.notify_all();
        }
    }

    /// A unit is erased now: the journal of units forgets it.
    pub fn forget(&self, unit: Unit) {
        if let Some(journal) = self.state.log.borrow_mut().journal_mut() {
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
        if self.health.poison() {
            return;
        }
        // No task frees slots any more: commands that wait for room go on, and are refused.
        self.host.room.release(u32::MAX.into());
        self.groups.room.release(u32::MAX.into());
        for queue in [
            &self.flusher.work,
            &self.flusher.epochs,
            &self.keeper.work,
            &self.keeper.progress,
            &self.host.activity,
            &self.start.map_known,
            &self.groups.done,
        ] {
            queue.notify_all();
        }
        self.notify_dies();
    }

    /// The drive is poisoned, and says why: a step would have destroyed data, or the host failed to
    /// keep what it was given.
    pub fn fail(&self, why: &'static str) {
        self.health.stop(why);
        self.poison();
    }

    /// Poisons the drive if a step that [`Space`](crate::state::space::Space) forbids was tried.
    pub fn look_for_defects(&self) {
        let found = self.state.space.borrow().defect();
        if let Some(why) = found {
            self.fail(why);
        }
    }

    /// Free units have become more, or scarce.
    pub fn notify_dies(&self) {
        self.collectors.dies.iter().for_each(DieEvents::notify);
    }

    /// The result of an operation that must not fail: if it did, the drive is poisoned.
    pub fn must<T>(&self, result: Result<T, OpError>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(OpError::Rule { at, rule }) => {
                // A defect of this firmware; in a test it must be seen at once.
                debug_assert!(false, "rule of the medium broken at {at:?}: {rule}");
                self.fail(rule);
                None
            }
            Err(OpError::Host) => {
                self.fail(HOST_FAILED);
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
    pub async fn ensure_point(&self, die: u32, stream: WriteStream) -> bool {
        while !self.is_poisoned() {
            if self.try_point(die, stream).await {
                return true;
            }
            if !self.is_poisoned() {
                let asked = self.rt.now();
                self.wait_for_space(die).await;
                self.stats.space_wait.add((self.rt.now() - asked).0);
            }
        }
        false
    }

    /// Makes sure of the same if there is a free unit. False if not, or if the drive is
    /// poisoned.
    pub async fn try_point(&self, die: u32, stream: WriteStream) -> bool {
        while !self.is_poisoned() {
            if self.state.space.borrow().has_point(die, stream) {
                return true;
            }
            let free = self.state.space.borrow_mut().take_free(die, stream);
            let Some(free) = free else { return false };
            // One unit less: time to collect?
            self.collectors.dies[die as usize].notify();
            if !self.state.space.borrow().has_spare_somewhere() {
                self.notify_dies();
            }
            if free.erase_first && self.erase(free.unit, Role::Leaving).await != Some(true) {
                continue;
            }
            if self.state.space.borrow().has_point(die, stream) {
                self.give_free(free.unit, false);
            } else {
                self.state.space.borrow_mut().open(stream, free.unit, 0);
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
        self.state.space.borrow_mut().landed(unit, pages);
        self.look_for_defects();
        self.keeper.since_checkpoint.set(self.keeper.since_checkpoint.get() + u64::from(pages));
        let die = &self.collectors.dies[self.nand.geometry().die(unit) as usize];
        if die.hungry.get() || self.state.space.borrow().is_bad(unit) {
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
            let sequence = self.state.sequence.get();
            self.state.sequence.set(sequence + 1);
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

    /// A write and its `bytes` of data pass the link to the drive. (What passes the link is a timer
    /// each time, not a future around one: each command has one, and it is moved.)
    pub fn take_data(&self, bytes: u64) -> Sleep {
        self.take_extents(bytes, 0)
    }

    /// The same for an atomic group of so many extents.
    pub fn take_extents(&self, bytes: u64, extents: u64) -> Sleep {
        let link = &self.design.link;
        let rate = if link.write_mb_s == 0 { link.mb_s } else { link.write_mb_s.min(link.mb_s) };
        let data = self.on_link(bytes) * 1_000 / rate;
        let occupied = link.occupancy_ns + extents * link.extent_ns + data;
        self.pass_command(occupied, self.handling(bytes))
    }

    /// Bytes for which the link is charged
    /// ([`block_bytes`](crate::LinkDesign::block_bytes)).
    pub fn on_link(&self, bytes: u64) -> u64 {
        // (Both are powers of two.)
        bytes >> (SECTOR_BYTES / self.design.link.block_bytes).trailing_zeros()
    }

    /// A command without data passes the link to the drive.
    pub fn pass_link(&self) -> Sleep {
        self.pass_command(self.design.link.occupancy_ns, Nanos::ZERO)
    }

    /// What `bytes` of data take beside the link ([`page_ns`](crate::LinkDesign::page_ns)).
    fn handling(&self, bytes: u64) -> Nanos {
        let row = self.design.geometry.row_sectors();
        let one_by_one = self.on_link(bytes).div_ceil(u64::from(SECTOR_BYTES)).min(row.into());
        Nanos(one_by_one * self.design.link.page_ns)
    }

    fn pass_command(&self, ns: u64, handling: Nanos) -> Sleep {
        if self.uses_idle_times() {
            self.host.last_command.set(self.rt.now());
            self.host.activity.notify_all();
        }
        let latency = Nanos(self.design.link.latency_ns);
        let arrives = self.host.arrives(self.occupy_link(ns) + latency + handling);
        self.rt.sleep_until_for(arrives, "the link")
    }

    /// `bytes` of data pass the link to the host.
    pub fn pass_data(&self, bytes: u64) -> Sleep {
        let end = self.occupy_link(self.on_link(bytes) * 1_000 / self.design.link.mb_s);
        self.rt.sleep_until_for(end + self.handling(bytes), "the link")
    }

    fn occupy_link(&self, ns: u64) -> Nanos {
        self.host.occupy_link(self.rt.now(), Nanos(ns))
    }
}

/// Changes map entries, and everything that depends on them. It borrows map, space and map log for
/// as long as it lives, so that a row of changes borrows them once.
pub(crate) struct Remapping<'a> {
    fw: &'a Firmware,
    map: RefMut<'a, Map>,
    space: RefMut<'a, Space>,
    log: RefMut<'a, MapLog>,
}

impl Remapping<'_> {
    /// Where a logical page is.
    pub fn get(&self, lpn: Lpn) -> Option<Ppa> {
        self.map.get(lpn)
    }

    /// Changes an entry; the version of the change, if that discards something.
    pub fn change(&mut self, lpn: Lpn, to: Option<Ppa>) -> Option<Version> {
        let fw = self.fw;
        let (version, old) = self.map.set(lpn, to);
        if let Some(new) = to {
            self.space.validate(new);
        }
        if let Some(old) = old {
            self.space.invalidate(old, version);
            fw.feed(old);
        } else if to.is_none() {
            return None; // Nothing was there, nothing is: no change to make durable.
        }
        if to.is_some() || !planted!(DiscardForgotten) {
            self.log.changed(lpn);
        }
        if fw.is_high(&self.log) {
            fw.keeper.work.notify_all();
        }
        to.is_none().then_some(version)
    }
}

impl Drop for Remapping<'_> {
    fn drop(&mut self) {
        if let Some(why) = self.space.defect() {
            self.fw.fail(why);
        }
    }
}

impl Firmware {
    /// Makes all changes of protected memory so far survive the process. Without an image there is
    /// nothing to do. False if it fails: the drive is poisoned.
    pub fn publish(&self) -> bool {
        self.outside.get().is_none_or(|outside| outside.publish(self))
    }

    /// Protected memory is kept there, too, from now on.
    pub fn publish_to(&self, outside: Box<dyn Publish>) {
        let _ = self.outside.set(outside);
    }

    /// Where protected memory is kept beyond the process, if it is.
    pub fn outside(&self) -> Option<&dyn Publish> {
        self.outside.get().map(Box::as_ref)
    }

    /// What a drive of this design promises.
    pub fn caps(design: &Design, layout: &Layout, payload: Payload) -> Caps {
        let protected = design.is_protected();
        Caps {
            block_size: design.link.logical_bytes,
            blocks: design.blocks(layout),
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
                // (Two sectors of a write are two.)
                Payload::Bytes => design.cache.shear_bytes.min(design.link.logical_bytes),
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

impl Firmware {
    /// Whether nothing is programmed any more; nobody waits for that.
    pub fn is_poisoned(&self) -> bool {
        self.health.poisoned.get()
    }

    /// The step that was stopped because it would have destroyed data, if there was one.
    pub fn defect(&self) -> Option<&'static str> {
        self.health.defect.get()
    }

    /// Whether the drive's life ends as soon as that is durable.
    pub fn is_ending(&self) -> bool {
        self.health.ending.get().is_some()
    }

    /// Whether the end of its life is why the drive is poisoned.
    pub fn is_read_only(&self) -> bool {
        self.health.read_only.get()
    }

    /// Whether it was so at the start already.
    pub fn began_read_only(&self) -> bool {
        self.health.began_read_only.get()
    }

    /// At recovery: the drive only reads, and the dump stays valid.
    pub fn begin_read_only(&self) {
        self.health.began_read_only.set(true);
    }

    /// What a process left behind, for a dump.
    pub fn was_read_only(&self, now: bool, from_start: bool) {
        self.health.read_only.set(now);
        self.health.began_read_only.set(from_start);
    }
}
