//! Records of programs and erases in an image, from their issue to their end.
//!
//! 1. The first word of a record says whether it is valid. If the word is zero the record is free.
//! 2. An operation gets its record before it changes the image's record of a unit. It keeps it
//!    until it has ended, or its effect has been undone or torn. Each of these steps can be
//!    repeated.
//! 3. The image's clock is the latest time at which a task acted on the end of an operation. It
//!    never goes back. When the image is opened again it continues from there. A process that is
//!    killed leaves the array as of that moment.
//! 4. An erase that cannot be taken back has had all operations of its unit before it: when the
//!    image is opened their records are freed. The erase may still wait on its die if the pages
//!    that it removed were overwritten, and to take back what lay before it would make these pages
//!    valid again.

use super::ImageError;
use super::format::FLIGHT_BYTES;
use super::mapped::Region;
use crate::flight::{Effect, Flight, OpKind};
use crate::store::UnitState;
use crate::{Geometry, PageAddr, Unit};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// The image's clock.
pub(crate) struct ImageClock {
    state: ImageState,
    /// This time of the runtime is `base` on the image's clock.
    from: Nanos,
    base: u64,
    noted: Cell<Nanos>,
}

/// The clock, and how often the image was opened. Since version 2 they are written to two places in
/// turn, each with a checksum. The newest valid one counts.
pub(crate) struct ImageState {
    region: Region,
    version: u32,
    opened: Cell<u64>,
    newest: Cell<u64>,
}

/// Bytes of one of the places.
const SLOT_BYTES: u64 = 64;
const CLOCK: u64 = 0;
const OPENED: u64 = 8;
const SUM: u64 = 16;

impl ImageState {
    /// Reads the state of an image. Also returns the clock. An error says what is wrong.
    pub fn open(region: Region, version: u32) -> Result<(ImageState, u64), String> {
        let slot = |slot: u64| {
            let [clock, opened, sum] =
                [CLOCK, OPENED, SUM].map(|at| region.word(slot * SLOT_BYTES + at));
            let is_blank = clock == 0 && opened == 0 && sum == 0;
            let is_whole = is_blank || sum == state_sum(clock, opened) || version < 2;
            (is_whole, clock, opened)
        };
        let (first, second) = (slot(0), slot(1));
        let newest = match (first.0, second.0 && version >= 2) {
            (true, true) => u64::from((second.1, second.2) > (first.1, first.2)),
            (true, false) => 0,
            (false, true) => 1,
            (false, false) => return Err("neither clock has its checksum".to_string()),
        };
        let (_, clock, opened) = if newest == 0 { first } else { second };
        let (opened, newest) = (Cell::new(opened), Cell::new(newest));
        Ok((ImageState { region, version, opened, newest }, clock))
    }

    /// How often the image was opened.
    pub fn opened(&self) -> u64 {
        self.opened.get()
    }

    fn put(&self, clock: u64) {
        if self.version < 2 {
            self.region.publish(OPENED, self.opened.get());
            self.region.publish(CLOCK, clock);
            return;
        }
        let slot = 1 - self.newest.get();
        let (at, opened) = (slot * SLOT_BYTES, self.opened.get());
        self.region.publish(at + CLOCK, clock);
        self.region.publish(at + OPENED, opened);
        self.region.publish(at + SUM, state_sum(clock, opened));
        self.newest.set(slot);
    }
}

/// Never 0.
fn state_sum(clock: u64, opened: u64) -> u64 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&clock.to_le_bytes()), &opened.to_le_bytes());
    u64::from(sum) | 1 << 32
}

impl ImageClock {
    /// A clock that continues at `base` of the image, which is `now` of the runtime.
    pub fn new(state: ImageState, base: u64, now: Nanos) -> ImageClock {
        state.opened.set(state.opened.get().saturating_add(1));
        state.put(base);
        ImageClock { state, from: now, base, noted: Cell::new(now) }
    }

    /// Notes that a task acts on operations that ended up to `now`.
    pub fn note(&self, now: Nanos) {
        if now > self.noted.get() {
            self.noted.set(now);
            self.state.put(self.time(now));
        }
    }

    fn time(&self, t: Nanos) -> u64 {
        self.base.saturating_add((t.saturating_sub(self.from)).0)
    }
}

/// The records of programs and erases that have not ended. Without an image there are none.
#[derive(Default)]
pub(crate) struct Book(Option<Box<Inner>>);

struct Inner {
    region: Region,
    clock: Rc<ImageClock>,
    free: Vec<u32>,
    /// Units whose erase has ended.
    erased: Vec<Unit>,
}

/// No operation takes longer than this after its beginning.
const LONGEST: Nanos = Nanos(1 << 44);

const BEGUN: u8 = 1;
const FAILED: u8 = 2;
/// The former pages of the unit have been overwritten.
const GONE: u8 = 4;
const WAS_HALF_ERASED: u8 = 8;

impl Book {
    /// Opens the records in this part of an image. Also returns the recorded operations, in order
    /// of issue.
    pub fn open(
        region: Region,
        clock: Rc<ImageClock>,
        geometry: &Geometry,
        offset: u64,
    ) -> Result<(Book, Vec<Flight>), ImageError> {
        let slots = (region.len() / FLIGHT_BYTES) as u32;
        let mut flights = Vec::new();
        let mut inner = Inner { region, clock, free: Vec::new(), erased: Vec::new() };
        for slot in (0..slots).rev() {
            match inner.read(slot, geometry) {
                Ok(None) => inner.free.push(slot),
                Ok(Some(flight)) => flights.push(flight),
                Err(what) => {
                    let offset = offset + u64::from(slot) * FLIGHT_BYTES;
                    return Err(ImageError::Damaged { offset, what });
                }
            }
        }
        flights.sort_by_key(|f| f.op);
        let (from, base) = (inner.clock.from, inner.clock.base);
        let shift = |t: Nanos| Nanos(t.0.saturating_sub(base)).saturating_add(from);
        let flights =
            flights.into_iter().map(|f| Flight { slot: f.slot, ..f.rebased(Nanos(base), shift) });
        let flights = flights.collect();
        let mut book = Book(Some(Box::new(inner)));
        let flights = book.without_erased(flights);
        Ok((book, flights))
    }

    /// Leaves out the operations that precede an erase of their unit that has begun (4).
    fn without_erased(&mut self, flights: Vec<Flight>) -> Vec<Flight> {
        let mut erased: Vec<Unit> = Vec::new();
        let mut left = Vec::with_capacity(flights.len());
        for f in flights.into_iter().rev() {
            let unit = match &f.effect {
                Effect::Read { .. } => None,
                Effect::Program { at, .. } => Some(at.unit),
                Effect::Erase { unit, .. } => Some(*unit),
            };
            if unit.is_some_and(|unit| erased.contains(&unit)) {
                self.leave(f.slot);
                continue;
            }
            erased.extend(f.erases().filter(|_| f.begun));
            left.push(f);
        }
        left.reverse();
        left
    }

    /// Whether there is room for one more operation.
    pub fn has_room(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| !inner.free.is_empty())
    }

    /// The clock, for code that observes the end of operations.
    pub fn clock(&self) -> Option<Rc<ImageClock>> {
        self.0.as_ref().map(|inner| inner.clock.clone())
    }

    /// See [`ImageClock::note`].
    pub fn note(&self, now: Nanos) {
        if let Some(inner) = &self.0 {
            inner.clock.note(now);
        }
    }

    /// Records a new operation, still without times. Returns its slot.
    pub fn enter(&mut self, f: &Flight) -> Option<u32> {
        let inner = self.0.as_mut().filter(|_| f.kind() != OpKind::Read)?;
        let slot = inner.free.pop()?;
        inner.write(slot, f);
        Some(slot)
    }

    /// Updates the times of an operation, and whether it has begun.
    pub fn update(&self, f: &Flight) {
        if let (Some(inner), Some(slot)) = (&self.0, f.slot) {
            inner.put_flags(slot, f, false);
            inner.put_times(slot, f);
        }
    }

    /// Notes that the pages that an erase removed are overwritten in the image: from now on the
    /// erase can only be torn.
    pub fn overwritten(&self, f: &Flight) {
        if let (Some(inner), Some(slot)) = (&self.0, f.slot) {
            inner.put_flags(slot, f, true);
        }
    }

    /// Frees the record of an operation.
    pub fn leave(&mut self, slot: Option<u32>) {
        if let (Some(inner), Some(slot)) = (&mut self.0, slot) {
            inner.region.publish(u64::from(slot) * FLIGHT_BYTES, 0);
            inner.free.push(slot);
        }
    }

    /// Notes that an operation has ended.
    pub fn ended(&mut self, f: &Flight) {
        self.leave(f.slot);
        if let (Some(inner), Effect::Erase { unit, .. }) = (&mut self.0, &f.effect) {
            inner.erased.push(*unit);
        }
    }

    /// The units whose erases have ended since the last call.
    pub fn take_erased(&mut self) -> Option<Vec<Unit>> {
        let inner = self.0.as_mut()?;
        (!inner.erased.is_empty()).then(|| std::mem::take(&mut inner.erased))
    }
}

impl Inner {
    fn put_flags(&self, slot: u32, f: &Flight, gone: bool) {
        let at = u64::from(slot) * FLIGHT_BYTES + 8;
        let word = self.region.word(at);
        let begun = if f.begun || f.is_under_way(self.clock.noted.get()) { BEGUN } else { 0 };
        let flags = begun | if gone { GONE } else { 0 };
        self.region.publish(at, word | u64::from(flags) << 8);
    }

    fn put_times(&self, slot: u32, f: &Flight) {
        let at = u64::from(slot) * FLIGHT_BYTES;
        // (Between the two stores the start may be after the end, or the end too early. Either way
        // the operation has not begun, or is recorded as begun.)
        self.region.publish(at + 32, self.clock.time(f.start));
        self.region.publish(at + 40, self.clock.time(f.end));
    }

    fn write(&self, slot: u32, f: &Flight) {
        let at = u64::from(slot) * FLIGHT_BYTES;
        let half = |half| if half { WAS_HALF_ERASED } else { 0 };
        let (kind, flags, count, unit, page, wear) = match &f.effect {
            Effect::Program { at, count, failed } => {
                let flags = if *failed { FAILED } else { 0 };
                (1u8, flags, *count, at.unit, at.page, 0)
            }
            Effect::Erase { unit, was } => {
                (2, half(was.half_erased), 0, *unit, was.next, was.erase_count)
            }
            Effect::Read { .. } => return,
        };
        let first = u64::from(kind) | u64::from(flags) << 8 | u64::from(count) << 32;
        self.region.set_word(at + 8, first);
        self.region.set_word(at + 16, u64::from(unit.0) | u64::from(page) << 32);
        self.region.set_word(at + 24, wear.into());
        self.region.set_word(at + 32, u64::MAX);
        self.region.set_word(at + 40, u64::MAX);
        self.region.publish(at, f.op + 1);
    }

    /// Reads the record in a slot, with times of the image's clock. An error says what is wrong
    /// with it.
    fn read(&self, slot: u32, g: &Geometry) -> Result<Option<Flight>, String> {
        let at = u64::from(slot) * FLIGHT_BYTES;
        let Some(op) = self.region.word(at).checked_sub(1) else { return Ok(None) };
        let [first, place, wear, start, end] =
            [8, 16, 24, 32, 40].map(|i| self.region.word(at + i));
        let (kind, flags, count) = (first as u8, (first >> 8) as u8, (first >> 32) as u32);
        let (unit, page) = (Unit(place as u32), (place >> 32) as u32);
        if unit.0 >= g.units() || page > g.unit_pages() {
            return Err(format!("an operation under way at unit {} page {page}", unit.0));
        }
        let effect = match kind {
            1 if count > 0 && count <= g.planes && page + count <= g.unit_pages() => {
                let at = PageAddr { unit, page };
                Effect::Program { at, count, failed: flags & FAILED != 0 }
            }
            2 => {
                let half_erased = flags & WAS_HALF_ERASED != 0;
                let erase_count = wear as u32;
                Effect::Erase {
                    unit,
                    was: UnitState { cells: None, next: page, erase_count, half_erased },
                }
            }
            _ => {
                return Err(format!("an operation of kind {kind} over {count} pages is under way"));
            }
        };
        let (begun, end) = (flags & (BEGUN | GONE) != 0, end.max(start));
        if (begun || start < self.clock.base) && end.saturating_sub(self.clock.base) > LONGEST.0 {
            return Err(format!("an operation under way from {start} until {end} ns"));
        }
        let mut f = Flight::new(op.min(u64::MAX / 2), effect, Nanos(end - start));
        (f.start, f.end, f.ready) = (Nanos(start), Nanos(end), Nanos(start));
        f.begun = begun;
        f.slot = Some(slot);
        Ok(Some(f))
    }
}
