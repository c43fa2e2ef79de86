//! The interface of the array: issue an operation, await its end.

pub(crate) mod wait;

mod outliving;

use crate::array::wait::{Programmed, Reading};
use crate::flight::{Effect, Image, OpKind};
use crate::geometry::{GeometryError, SECTOR_BYTES};
use crate::medium::Store;
use crate::outage::{Activity, Outstanding, Turn};
use crate::schedule::{OpRecord, Planned, Schedule};
use crate::store::PageState;
use crate::{Geometry, PageAddr, Timing, Unit};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{Data, DataMut, Payload};
use tantalum_rt::{Nanos, Rt, Stream};

/// Why an operation was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// A rule of the medium was broken. This is a defect in the caller.
    #[error("rule of the medium broken at unit {} page {}: {rule}", .at.unit.0, .at.page)]
    Rule {
        /// The first page.
        at: PageAddr,
        /// The rule.
        rule: &'static str,
    },
    /// The operation failed in the medium, and the page or unit is unusable.
    #[error("the medium failed at unit {} page {}", .at.unit.0, .at.page)]
    Failed {
        /// The first page.
        at: PageAddr,
    },
    /// The array has no power.
    #[error("the flash array has no power")]
    NoPower,
    /// The host's disk, which has the image, failed.
    #[error("the host could not write the image to its disk")]
    Host,
    /// The image has no room for one more operation under way. This is a defect in the caller, who
    /// has set the number.
    #[error("the image has no room for one more operation under way, at unit {} page {}", .at.unit.0, .at.page)]
    Busy {
        /// The first page.
        at: PageAddr,
    },
}

/// Counters of an array since it was made. Operations count when they are issued, with all of their
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NandStats {
    /// Read operations.
    pub reads: u64,
    /// Program operations (several planes count once).
    pub programs: u64,
    /// Pages programmed.
    pub pages_programmed: u64,
    /// Erase operations.
    pub erases: u64,
    /// Time that dies were busy, summed over dies. A read that leaves planes free counts with the
    /// share of those that it takes.
    pub die_busy: Nanos,
}

/// A list of up to this many sectors needs no allocation.
const FEW: usize = 16;

/// A read of `count` pages of one row from `at` on.
pub struct ReadRequest<'a> {
    /// The first page.
    pub at: PageAddr,
    /// The number of pages, each in the next plane.
    pub count: u32,
    /// The first sector of the page that goes to `data`. With more than one page it must be 0.
    pub first: u32,
    /// Room for the payload, if it is wanted.
    pub data: Option<DataMut<'a>>,
    /// Room for the out-of-band words of the pages, if they are wanted.
    pub oob: Option<&'a mut [u64]>,
    /// Room for the state of each page.
    pub states: &'a mut [PageState],
}

pub(crate) struct State {
    pub schedule: Schedule,
    store: Store,
    stats: NandStats,
    dice: Stream,
    power: bool,
    /// When the power of this cycle failed; [`Nanos::MAX`] until then. Shared with the futures of
    /// the cycle.
    off_at: Rc<Cell<Nanos>>,
    /// The number of programs until one fails. The same for erases.
    fail_program: Option<u64>,
    fail_erase: Option<u64>,
    /// Programs and erases per million that fail.
    fail_rates: (u64, u64),
    mishaps: Stream,
}

/// A flash array. It survives every power loss; see the crate's documentation.
pub struct NandArray {
    rt: Rt,
    geometry: Geometry,
    timing: Timing,
    state: Rc<RefCell<State>>,
    issued: Cell<u64>,
    endurance: Cell<u32>,
    /// Called before each change.
    before: RefCell<Option<Rc<dyn Fn()>>>,
}

impl NandArray {
    /// A blank array without power, with room for `oob_words` 64-bit words beside
    /// each page.
    ///
    /// # Errors
    /// [`GeometryError`] if such an array is not possible.
    pub fn new(
        rt: &Rt,
        geometry: &Geometry,
        timing: &Timing,
        payload: Payload,
        oob_words: u32,
    ) -> Result<NandArray, GeometryError> {
        geometry.check()?;
        let need = oob_words.saturating_mul(8);
        if need > geometry.oob_bytes {
            return Err(GeometryError::Oob { need, have: geometry.oob_bytes });
        }
        let store = Store::new(geometry, payload, oob_words as usize);
        let schedule = Schedule::new(geometry);
        Ok(NandArray::build(rt, geometry.clone(), timing.clone(), schedule, store))
    }

    /// An array that continues from `image` with power, operations in flight included.
    pub fn from_image(rt: &Rt, image: &Image) -> NandArray {
        let schedule = image.schedule.rebased(Nanos::ZERO, rt.now());
        let (geometry, timing) = (image.geometry.clone(), image.timing.clone());
        let array = NandArray::build(rt, geometry, timing, schedule, image.store.clone());
        array.power_on();
        array
    }

    /// The array that [`NandArray::from_image`] makes of a [`NandArray::snapshot`] of this one. It
    /// is in memory, also if this one is in an image file.
    pub fn copy(&self, rt: &Rt) -> NandArray {
        let s = &mut *self.state.borrow_mut();
        let now = self.rt.now();
        s.schedule.settle_all(now);
        let mut schedule = s.schedule.rebased(now, rt.now());
        s.store.complete(&mut schedule);
        let (geometry, timing) = (self.geometry.clone(), self.timing.clone());
        let array = NandArray::build(rt, geometry, timing, schedule, s.store.clone());
        array.power_on();
        array
    }

    fn build(
        rt: &Rt,
        geometry: Geometry,
        timing: Timing,
        schedule: Schedule,
        store: Store,
    ) -> NandArray {
        let state = State {
            schedule,
            store,
            stats: NandStats::default(),
            dice: rt.stream("nand: torn pages"),
            power: false,
            off_at: Rc::new(Cell::new(Nanos::ZERO)),
            fail_program: None,
            fail_erase: None,
            fail_rates: (0, 0),
            mishaps: rt.stream("nand: failures"),
        };
        let state = Rc::new(RefCell::new(state));
        let (issued, endurance) = (Cell::new(0), Cell::new(u32::MAX));
        let before = RefCell::default();
        NandArray { rt: rt.clone(), geometry, timing, state, issued, endurance, before }
    }

    /// The shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The times.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The kind of payload that the array keeps. An array of stamps also takes pages of real bytes
    /// (the metadata of a drive) and returns them as bytes.
    pub fn payload(&self) -> Payload {
        self.state.borrow().store.kind()
    }

    /// Out-of-band words beside each page.
    pub fn oob_words(&self) -> usize {
        self.state.borrow().store.words()
    }

    /// The counters so far.
    pub fn stats(&self) -> NandStats {
        let s = self.state.borrow();
        NandStats { die_busy: s.schedule.busy(), ..s.stats }
    }

    /// How often a unit was erased.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn erase_count(&self, unit: Unit) -> u32 {
        self.state.borrow().store.unit(unit).erase_count
    }

    /// The first page of a unit that is not programmed. Programs count from their issue.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn next_page(&self, unit: Unit) -> u32 {
        self.state.borrow().store.unit(unit).next
    }

    /// Operations issued so far.
    pub fn ops_issued(&self) -> u64 {
        self.issued.get()
    }

    /// Gives the array power.
    pub fn power_on(&self) {
        let s = &mut *self.state.borrow_mut();
        if !s.power {
            s.power = true;
            s.off_at = Rc::new(Cell::new(Nanos::MAX));
        }
    }

    /// Cuts the array's power. Operations in flight end as in invariant 5.
    pub fn power_off(&self) {
        self.power_off_since(self.rt.now());
    }

    /// Cuts the array's power at `at`, which may be in the past. Nothing was issued since then, and
    /// no task has acted on the end of an operation that was under way then.
    pub fn power_off_since(&self, at: Nanos) {
        debug_assert!(at <= self.rt.now());
        let s = &mut *self.state.borrow_mut();
        if !s.power {
            return;
        }
        s.power = false;
        s.off_at.set(at);
        let outcome = s.schedule.power_off(at, &mut s.store, &mut s.dice);
        self.rt.trace(outcome);
    }

    /// Takes back reads, and operations that no die has begun. With `erases` it also stops erases
    /// under way, whose units have to be erased again. Call it when the array begins to run on
    /// capacitors. No task may wait for any of these operations.
    pub fn abandon(&self, erases: bool) {
        let s = &mut *self.state.borrow_mut();
        s.schedule.abandon(self.rt.now(), &mut s.store, erases);
    }

    /// What the dies do now.
    pub fn activity(&self) -> Activity {
        self.state.borrow_mut().schedule.activity(self.rt.now())
    }

    /// Puts into `turns` the operations that the dies have run since `since`, and those that they
    /// will run by what was issued until now. Since then nothing was issued, and
    /// [`NandArray::activity`] was not called.
    pub fn turns(&self, since: Nanos, turns: &mut Vec<Turn>) {
        self.state.borrow_mut().schedule.turns(since, self.rt.now(), turns);
    }

    /// The remaining work of the dies at `at`: now, or a time that [`NandArray::turns`] allows.
    pub fn outstanding(&self, at: Nanos) -> Outstanding {
        self.state.borrow_mut().schedule.outstanding(at)
    }

    /// The whole state of the array, in memory. An array in an image file is read completely.
    pub fn snapshot(&self) -> Image {
        let s = &mut *self.state.borrow_mut();
        let now = self.rt.now();
        s.schedule.settle_all(now);
        let mut schedule = s.schedule.rebased(now, Nanos::ZERO);
        s.store.complete(&mut schedule);
        Image {
            geometry: self.geometry.clone(),
            timing: self.timing.clone(),
            store: s.store.clone(),
            schedule: Rc::new(schedule),
        }
    }

    /// Keeps a record of every operation from now on: points at which to cut the power.
    pub fn record_ops(&self) {
        self.state.borrow_mut().schedule.record();
    }

    /// The record so far, in order of issue. For an operation that has not ended it has the
    /// expected times, which a read may still delay.
    pub fn take_ops(&self) -> Vec<OpRecord> {
        self.state.borrow_mut().schedule.take_records(self.rt.now())
    }

    /// The `n`-th program from now on (0: the next) fails in the medium.
    pub fn fail_program(&self, n: u64) {
        self.state.borrow_mut().fail_program = Some(n);
    }

    /// The `n`-th erase from now on (0: the next) fails in the medium.
    pub fn fail_erase(&self, n: u64) {
        self.state.borrow_mut().fail_erase = Some(n);
    }

    /// Cancels failures that [`NandArray::fail_program`] and [`NandArray::fail_erase`] ordered and
    /// that have not happened yet. Returns whether there were any.
    pub fn fail_nothing(&self) -> bool {
        let s = &mut *self.state.borrow_mut();
        s.fail_program.take().is_some() | s.fail_erase.take().is_some()
    }

    /// From now on this many programs, and this many erases, of a million fail in the medium. The
    /// seed decides which ones.
    pub fn set_failure_rates(&self, programs: u64, erases: u64) {
        self.state.borrow_mut().fail_rates = (programs, erases);
    }

    /// After this many erases the next erase of a unit fails, and the unit is bad: its content is
    /// gone, and it cannot be programmed. Without a call units last for ever.
    pub fn set_endurance(&self, erases: u32) {
        self.endurance.set(erases);
    }

    /// Makes a page unreadable until its unit is erased. Returns whether it was programmed; an
    /// erased page stays as it is.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn corrupt(&self, at: PageAddr) -> bool {
        assert!(self.check(at, 1).is_ok(), "no page {} in unit {}", at.page, at.unit.0);
        let store = &mut self.state.borrow_mut().store;
        let written = store.state(at) == PageState::Programmed;
        if written {
            store.tear(at);
        }
        written
    }

    /// The state of a page and its out-of-band words (zeros if it is not
    /// [`PageState::Programmed`]). It is not an operation and takes no time: it is for checks. Data
    /// of programs under way count as programmed.
    ///
    /// # Panics
    /// If there is no such page, or `oob` does not have the length of [`NandArray::oob_words`].
    pub fn inspect(&self, at: PageAddr, oob: &mut [u64]) -> PageState {
        assert!(self.check(at, 1).is_ok(), "no page {} in unit {}", at.page, at.unit.0);
        let store = &self.state.borrow().store;
        assert_eq!(oob.len(), store.words(), "the room is not that of the words of a page");
        store.copy_oob(at, oob);
        store.state(at)
    }

    /// The payload of a page in the same way; zeros if it is not programmed.
    ///
    /// # Panics
    /// If there is no such page, or the room does not have the length of a page or the right kind.
    pub fn inspect_payload(&self, at: PageAddr, out: DataMut<'_>) {
        assert!(self.check(at, 1).is_ok(), "no page {} in unit {}", at.page, at.unit.0);
        self.state.borrow().store.copy_out(at, 0, out);
    }

    /// Whether the whole unit is erased and can be programmed.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn is_erased(&self, unit: Unit) -> bool {
        let store = &self.state.borrow().store;
        // (The first page is enough: pages are programmed in order.)
        let state = store.state(PageAddr { unit, page: 0 });
        store.unit(unit).next == 0 && state == PageState::Erased
    }

    fn broken(at: PageAddr, rule: &'static str) -> OpError {
        OpError::Rule { at, rule }
    }

    fn check(&self, at: PageAddr, count: u32) -> Result<(), OpError> {
        let g = &self.geometry;
        if at.unit.0 >= g.units() || at.page >= g.unit_pages() {
            return Err(Self::broken(at, "there is no such page"));
        }
        if count == 0 || count > g.planes - at.page % g.planes {
            return Err(Self::broken(at, "one operation is over pages of one row"));
        }
        Ok(())
    }

    fn note(&self, kind: OpKind, at: PageAddr) {
        self.issued.set(self.issued.get() + 1);
        self.rt.trace((kind as u64) << 62 ^ u64::from(at.unit.0) << 24 ^ u64::from(at.page));
    }

    /// Programs pages of one row from `at` on, one in each further plane: as many as `data` fills.
    /// `oob` has the out-of-band words of these pages.
    ///
    /// # Errors
    /// Those of [`NandArray::program_gathered`].
    pub fn program(
        &self,
        at: PageAddr,
        data: Data<'_>,
        oob: &[u64],
    ) -> Result<Programmed, OpError> {
        if data.blocks(SECTOR_BYTES).is_none() {
            return Err(Self::broken(at, "whole pages are programmed"));
        }
        let count = data.blocks(SECTOR_BYTES).unwrap_or(0) as usize;
        if count > FEW {
            let sectors: Vec<_> = data.each(SECTOR_BYTES).collect();
            return self.program_gathered(at, &sectors, oob);
        }
        let mut sectors = [data; FEW];
        for (sector, one) in sectors.iter_mut().zip(data.each(SECTOR_BYTES)) {
            *sector = one;
        }
        self.program_gathered(at, &sectors[..count], oob)
    }

    /// The same with a scatter-gather list: each sector of the pages may be at another place in
    /// memory.
    ///
    /// The operation is issued now. The future observes its end.
    ///
    /// # Errors
    /// At once, for a broken rule or without power; from the future, if the medium fails or the
    /// power fails before the end.
    pub fn program_gathered(
        &self,
        at: PageAddr,
        sectors: &[Data<'_>],
        oob: &[u64],
    ) -> Result<Programmed, OpError> {
        self.publish();
        let s = &mut *self.state.borrow_mut();
        if !s.power {
            return Err(OpError::NoPower);
        }
        let Some(count) = s.store.pages_in(sectors) else {
            return Err(Self::broken(at, "whole pages are programmed"));
        };
        self.check(at, count)?;
        let kind = sectors.first().map_or(s.store.kind(), |sector| sector.kind());
        if sectors.iter().any(|sector| sector.kind() != kind) {
            return Err(Self::broken(at, "one operation has one kind of payload"));
        }
        if s.store.kind() == Payload::Bytes && kind == Payload::Stamps {
            return Err(Self::broken(at, "stamps cannot be kept in an array of bytes"));
        }
        if oob.len() != count as usize * s.store.words() {
            return Err(Self::broken(at, "the out-of-band words are not those of the pages"));
        }
        let unit = s.store.unit(at.unit);
        if unit.half_erased {
            return Err(Self::broken(at, "an erase of the unit was torn: erase it first"));
        }
        if at.page < unit.next {
            return Err(Self::broken(at, "a page is programmed once after an erase"));
        }
        if at.page > unit.next {
            return Err(Self::broken(at, "pages are programmed in ascending order, without gaps"));
        }
        let g = &self.geometry;
        let die = g.die(at.unit);
        let now = self.rt.now();
        let bytes = u64::from(count) * (u64::from(g.page_bytes) + u64::from(g.oob_bytes));
        let spans = (self.timing.transfer(bytes), self.timing.program(at.page / g.planes));
        s.prepare(die, now, at)?;
        if at.page == 0 {
            s.keep_former(die, at.unit);
        }
        s.wait_until_free(at.unit)?;
        s.store.fill(at, sectors, oob);
        let failed = countdown(&mut s.fail_program) || mishap(s.fail_rates.0, &mut s.mishaps);
        let effect = Effect::Program { at, count, failed };
        let planned = s.schedule.program(die, now, spans, effect, &self.timing);
        s.store.advance(at.unit, at.page + count);
        s.stats.programs += 1;
        s.stats.pages_programmed += u64::from(count);
        self.note(OpKind::Program, at);
        if failed {
            for page in at.page..at.page + count {
                s.store.tear(PageAddr { unit: at.unit, page });
            }
        }
        let failed = failed.then_some(OpError::Failed { at });
        Ok(self.programmed(die, planned, "a program", failed, s))
    }

    /// Erases a unit. The operation is issued now. The future observes its end.
    ///
    /// # Errors
    /// At once, without power or for a unit that does not exist; from the future, if the power
    /// fails before the end, or if the medium fails. Then the unit is unusable until it is erased
    /// again.
    pub fn erase(&self, unit: Unit) -> Result<Programmed, OpError> {
        self.publish();
        let s = &mut *self.state.borrow_mut();
        if !s.power {
            return Err(OpError::NoPower);
        }
        let at = PageAddr { unit, page: 0 };
        self.check(at, 1)?;
        let die = self.geometry.die(unit);
        let now = self.rt.now();
        s.prepare(die, now, at)?;
        let effect = Effect::Erase { unit, was: s.store.detach(unit) };
        let planned = s.schedule.erase(die, now, self.timing.erase(), effect, &self.timing);
        s.store.erase(unit);
        let worn = s.store.unit(unit).erase_count > self.endurance.get();
        s.stats.erases += 1;
        self.note(OpKind::Erase, at);
        let mishap = mishap(s.fail_rates.1, &mut s.mishaps);
        let failed = countdown(&mut s.fail_erase) || worn || mishap;
        if failed {
            s.store.spoil(unit);
        }
        let failed = failed.then_some(OpError::Failed { at });
        Ok(self.programmed(die, planned, "an erase", failed, s))
    }

    fn programmed(
        &self,
        die: u32,
        planned: Planned,
        why: &'static str,
        failed: Option<OpError>,
        state: &State,
    ) -> Programmed {
        let moving = planned.ends.map(|ends| (self.state.clone(), die, ends));
        let (off_at, clock) = (state.off_at.clone(), state.schedule.book.clock());
        Programmed::new(&self.rt, planned.end, moving, why, failed, off_at, clock)
    }

    /// Reads pages of one row. The operation is issued now, and fills the request's room at once.
    /// The content is valid when the future has ended.
    ///
    /// The die is busy for tR. Then the wanted sectors and words go over the channel. The room of a
    /// page that is not [`PageState::Programmed`] is filled with zeros. If the power fails
    /// meanwhile, the future ends without a transfer, and the content of the room is undefined. A
    /// task that outlives a power loss must not use it.
    ///
    /// # Errors
    /// For a broken rule or without power. An unreadable page is not an error but a [`PageState`].
    pub fn read(&self, mut request: ReadRequest<'_>) -> Result<Reading<'_>, OpError> {
        let s = &mut *self.state.borrow_mut();
        if !s.power {
            return Err(OpError::NoPower);
        }
        let ReadRequest { at, count, first, .. } = request;
        self.check(at, count)?;
        let words = s.store.words();
        let ps = self.geometry.page_sectors();
        let sectors = match &request.data {
            Some(d) => match d.blocks(SECTOR_BYTES) {
                Some(n) if count == 1 && u64::from(first) + n <= u64::from(ps) => n as u32,
                Some(n) if n == u64::from(count * ps) && first == 0 => n as u32,
                _ => return Err(Self::broken(at, "the room is not that of the sectors")),
            },
            None => 0,
        };
        if request.states.len() != count as usize
            || request.oob.as_ref().is_some_and(|o| o.len() != count as usize * words)
        {
            return Err(Self::broken(at, "the room is not that of the pages"));
        }
        let stamps = request.data.as_ref().is_some_and(|d| d.kind() == Payload::Stamps);
        if s.store.kind() == Payload::Bytes && stamps {
            return Err(Self::broken(at, "an array of bytes has no stamps to read"));
        }
        let per_page = if count == 1 { sectors } else { ps };
        for i in 0..count {
            let page = PageAddr { unit: at.unit, page: at.page + i };
            let state = s.store.state_of_read(page);
            let is_there = state == PageState::Programmed;
            request.states[i as usize] = state;
            if let Some(d) = &mut request.data {
                let at = (i * per_page) as usize;
                let mut room = d.slice(at..at + per_page as usize, SECTOR_BYTES);
                match is_there {
                    true => s.store.copy_out(page, first as usize, room),
                    false => room.zero(),
                }
            }
            if let Some(oob) = &mut request.oob {
                let room = &mut oob[i as usize * words..(i as usize + 1) * words];
                match is_there {
                    true => s.store.copy_oob(page, room),
                    false => room.fill(0),
                }
            }
        }
        let wanted = first..first + if count == 1 { sectors } else { sectors / count };
        let mut bytes = u64::from(sectors) * u64::from(SECTOR_BYTES);
        if request.oob.is_some() {
            let oob = self.timing.oob_bytes(self.geometry.oob_bytes, ps, wanted.clone());
            bytes += u64::from(count) * oob;
        }
        let die = self.geometry.die(at.unit);
        let now = self.rt.now();
        let row = at.page / self.geometry.planes;
        let spans = (self.timing.read(row, count, ps, wanted), self.timing.transfer(bytes));
        let ends =
            s.schedule.read(die, now, (at, count, self.geometry.planes), spans, &self.timing);
        s.stats.reads += 1;
        self.note(OpKind::Read, at);
        Ok(Reading::new(&self.rt, &self.state, die, ends, s.off_at.clone()))
    }
}

fn mishap(of_a_million: u64, dice: &mut Stream) -> bool {
    of_a_million > 0 && dice.chance(of_a_million, 1_000_000)
}

fn countdown(n: &mut Option<u64>) -> bool {
    match n {
        Some(0) => {
            *n = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}
