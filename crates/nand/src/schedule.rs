//! The schedule: the operations of each die, from their issue to their end.
//!
//! 1. A die does one operation at a time. Programs and erases run in order of issue. With
//!    [`Timing::independent_reads`] a read takes its planes alone: reads of other planes run
//!    beside it, and nothing else does. Reads of one plane run in their order.
//! 2. A read goes ahead of operations that wait, at most [`Timing::read_priority`] times for each,
//!    and never ahead of one that changes the pages it reads. Reads that may go equally far keep
//!    their order. A read suspends the operation under way if that is possible, saves time, and was
//!    done less than [`Timing::suspend_limit`] times.
//! 3. A plane has one cache register. The data of a program are transferred while the program
//!    before it runs, and not before that has begun. Reads have registers of their own.
//! 4. A planned time is never too late, because reads that go ahead and other transfers only delay
//!    an operation. Once the time has come, and the channel is settled up to it, it is exact.

use crate::channel::{Channel, Ends};
use crate::flight::{Effect, Flight, OpKind, WHOLE_DIE};
use crate::image::Book;
use crate::store::UnitState;
use crate::{Geometry, PageAddr, Timing, Unit};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// When an operation ran; see [`crate::NandArray::record_ops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// The kind of operation.
    pub kind: OpKind,
    /// When it was issued.
    pub issued: Nanos,
    /// When the die began.
    pub start: Nanos,
    /// When the die ended, suspensions included.
    pub end: Nanos,
}

/// Records of operations, numbered from the first one on.
#[derive(Default)]
struct Records {
    taken: u64,
    kept: Vec<OpRecord>,
}

/// The present and future work of dies and channels.
pub(crate) struct Schedule {
    pub dies: Vec<VecDeque<Flight>>,
    pub channels: Vec<Channel>,
    busy: Nanos,
    next_op: u64,
    records: Option<Records>,
    /// Times of ended operations, for reuse once no future holds them.
    spare: VecDeque<Rc<Ends>>,
    /// The image's records of programs and erases under way.
    pub book: Book,
}

/// The most [`Ends`] that are kept for reuse.
const SPARE: usize = 256;

/// Initial room for a die's operations. It is small, so that the queues of all dies stay in the
/// processor's cache.
const QUEUE: usize = 4;

/// The planned end of an operation.
pub(crate) struct Planned {
    pub end: Nanos,
    /// Set if the end may still become later: look here, with the channel settled.
    pub ends: Option<Rc<Ends>>,
}

impl Schedule {
    pub fn new(geometry: &Geometry) -> Schedule {
        Schedule {
            dies: (0..geometry.dies()).map(|_| VecDeque::with_capacity(QUEUE)).collect(),
            channels: (0..geometry.channels).map(|_| Channel::default()).collect(),
            busy: Nanos::ZERO,
            next_op: 0,
            records: None,
            spare: VecDeque::new(),
            book: Book::default(),
        }
    }

    /// A schedule with the operations under way that an image records, in order of issue.
    pub fn with_book(geometry: &Geometry, book: Book, flights: Vec<Flight>) -> Schedule {
        let mut schedule = Schedule { book, ..Schedule::new(geometry) };
        for flight in flights {
            schedule.next_op = schedule.next_op.max(flight.op + 1);
            let unit = match &flight.effect {
                Effect::Program { at, .. } => at.unit,
                Effect::Erase { unit, .. } => *unit,
                Effect::Read { .. } => continue,
            };
            schedule.dies[geometry.die(unit) as usize].push_back(flight);
        }
        schedule
    }

    fn channel(&self, die: u32) -> usize {
        die as usize % self.channels.len()
    }

    /// Computes the transfers on the channel of `die` that were requested up to `now`.
    pub fn settle(&mut self, die: u32, now: Nanos) {
        self.book.note(now);
        let channel = self.channel(die);
        while let Some((turn, end)) = self.channels[channel].serve(now) {
            let Some(die) = turn.die else { continue };
            let queue = &mut self.dies[die as usize];
            if let Some(i) = queue.iter().position(|f| f.op == turn.op) {
                queue[i].ready = end;
                queue[i].transfer = None;
                self.replan(die, i);
            }
        }
    }

    /// The same for all channels.
    pub fn settle_all(&mut self, now: Nanos) {
        for channel in 0..self.channels.len() as u32 {
            self.settle(channel, now);
        }
    }

    /// Settles, and removes operations that have ended.
    pub fn enter(&mut self, die: u32, now: Nanos) {
        self.settle(die, now);
        let queue = &mut self.dies[die as usize];
        while let Some(ended) = queue.pop_front_if(|f| f.end <= now) {
            self.book.ended(&ended);
            if let Some(ends) = ended.ends
                && self.spare.len() < SPARE
            {
                self.spare.push_back(ends);
            }
        }
    }

    /// [`Ends`] for a new operation.
    fn new_ends(&mut self) -> Rc<Ends> {
        match self.spare.pop_front() {
            Some(ends) if Rc::strong_count(&ends) == 1 => {
                ends.die.set(Nanos::ZERO);
                ends.moved.set(None);
                ends
            }
            _ => Rc::default(),
        }
    }

    /// Issues a program: `transfer` on the channel, then `span` on the die.
    pub fn program(
        &mut self,
        die: u32,
        now: Nanos,
        (transfer, span): (Nanos, Nanos),
        effect: Effect,
        timing: &Timing,
    ) -> Planned {
        self.enter(die, now);
        let channel = self.channel(die);
        let queue = &self.dies[die as usize];
        let before = queue.iter().rev().find(|f| f.kind() == OpKind::Program);
        let full = before.filter(|f| !f.begun && !f.is_under_way(now)).map(|f| f.start);
        let mut flight = Flight::new(self.next_op, effect, span);
        match full {
            None => flight.ready = self.channels[channel].take(now, transfer),
            Some(free) => {
                flight.ready = free + transfer;
                flight.transfer = Some(transfer);
                self.channels[channel].program_at(flight.op, free, transfer, die);
            }
        }
        self.push(die, now, flight, timing)
    }

    /// Issues an erase: `span` on the die.
    pub fn erase(
        &mut self,
        die: u32,
        now: Nanos,
        span: Nanos,
        effect: Effect,
        timing: &Timing,
    ) -> Planned {
        self.enter(die, now);
        let mut flight = Flight::new(self.next_op, effect, span);
        flight.ready = now;
        self.push(die, now, flight, timing)
    }

    fn push(&mut self, die: u32, now: Nanos, mut flight: Flight, timing: &Timing) -> Planned {
        let queue = &self.dies[die as usize];
        let place = queue.len();
        let unsure = flight.transfer.is_some() || queue.iter().any(|f| f.transfer.is_some());
        let ends = (unsure || timing.read_priority > 0).then(|| self.new_ends());
        flight.ends = ends.clone();
        self.busy += flight.left;
        self.insert(die, now, place, flight);
        Planned { end: self.dies[die as usize][place].end, ends }
    }

    /// Issues a read of `count` pages from `at` on: `span` on these of the die's `planes`, then
    /// `transfer` on the channel.
    pub fn read(
        &mut self,
        die: u32,
        now: Nanos,
        (at, count, of): (PageAddr, u32, u32),
        (span, transfer): (Nanos, Nanos),
        timing: &Timing,
    ) -> Rc<Ends> {
        self.enter(die, now);
        let planes = match timing.independent_reads && of <= u64::BITS {
            true => (WHOLE_DIE >> (u64::BITS - count)) << (at.page % of),
            false => WHOLE_DIE,
        };
        let mut flight = Flight::new(self.next_op, Effect::Read { planes }, span);
        flight.ready = now;
        if let Some(f) = self.dies[die as usize].front()
            && f.kind() == OpKind::Read
        {
            // The first read may wait until the die has suspended what was under way.
            flight.ready = now.max(f.ready);
        }
        let ends = self.new_ends();
        flight.ends = Some(ends.clone());
        self.busy += match planes {
            WHOLE_DIE => span,
            _ => Nanos(span.0 * u64::from(count) / u64::from(of)),
        };
        let op = flight.op;
        let mut place = self.place_of_read(die, now, (at, count), timing);
        let queue = &mut self.dies[die as usize];
        if place == 1
            && let Some(cost) = queue[0].suspension(now, timing)
            && queue[0].gives_way_to(at, count, timing)
        {
            let f = &mut queue[0];
            f.left = f.end - now;
            (f.begun, f.going) = (true, false);
            f.suspended += 1;
            self.book.update(f);
            self.busy += cost;
            flight.ready = now + cost;
            place = 0;
        }
        for f in queue.iter_mut().skip(place) {
            f.overtaken += 1;
        }
        self.insert(die, now, place, flight);
        let channel = self.channel(die);
        self.channels[channel].read_at(op, ends.die.get(), transfer, ends.clone());
        ends
    }

    /// The place of a read in the queue.
    fn place_of_read(
        &self,
        die: u32,
        now: Nanos,
        (at, count): (PageAddr, u32),
        timing: &Timing,
    ) -> usize {
        let queue = &self.dies[die as usize];
        let mut place = queue.len();
        if timing.read_priority == 0 {
            return place;
        }
        while place > 0 {
            let f = &queue[place - 1];
            if f.is_under_way(now) || !f.gives_way_to(at, count, timing) {
                break;
            }
            place -= 1;
        }
        while queue.get(place).is_some_and(|f| f.kind() == OpKind::Read) {
            place += 1;
        }
        place
    }

    fn insert(&mut self, die: u32, now: Nanos, place: usize, mut flight: Flight) {
        self.next_op += 1;
        flight.slot = self.book.enter(&flight);
        if let Some(records) = &mut self.records {
            flight.record = NonZeroU64::new(records.taken + records.kept.len() as u64 + 1);
            let (start, end) = (Nanos::ZERO, Nanos::ZERO);
            records.kept.push(OpRecord { kind: flight.kind(), issued: now, start, end });
        }
        self.dies[die as usize].insert(place, flight);
        self.replan(die, place);
    }

    /// Plans the operations from `from` on, since that one is new or has a new time.
    fn replan(&mut self, die: u32, from: usize) {
        let channel = self.channel(die);
        let channel = &mut self.channels[channel];
        let queue = &mut self.dies[die as usize];
        for i in from..queue.len() {
            if let Some(transfer) = queue[i].transfer {
                // The register is free when the program before this one begins.
                let before = (0..i).rev().find(|j| queue[*j].kind() == OpKind::Program);
                let before = before.map(|j| &queue[j]).filter(|f| !f.begun).map(|f| f.start);
                if let Some(asks) = before
                    && queue[i].ready != asks + transfer
                {
                    queue[i].ready = asks + transfer;
                    channel.delay(queue[i].op, asks);
                }
            }
            let free = planes_free(queue, i);
            let f = &mut queue[i];
            let start = f.ready.max(free);
            let end = start + f.left;
            if i > from && (f.start, f.end) == (start, end) {
                // Whatever comes after an operation of the whole die depends on that one alone.
                if f.planes() == WHOLE_DIE {
                    return;
                }
                continue;
            }
            (f.start, f.end) = (start, end);
            self.book.update(f);
            if let Some(ends) = &f.ends {
                ends.die.set(end);
            }
            // (A new read has no request for the channel yet.)
            if i > from && f.kind() == OpKind::Read {
                channel.delay(f.op, end);
            }
            if let (Some(at), Some(records)) = (f.record, &mut self.records)
                && let Some(at) = (at.get() - 1).checked_sub(records.taken)
                && let Some(record) = records.kept.get_mut(at as usize)
            {
                // A suspended operation keeps the time at which it first began.
                record.start = if f.begun { record.start } else { start };
                record.end = end;
            }
        }
    }

    /// A copy in a time where `from`, up to which all is settled, becomes `to`. Its counters begin
    /// at zero.
    pub fn rebased(&self, from: Nanos, to: Nanos) -> Schedule {
        let shift = |t: Nanos| t.saturating_sub(from) + to;
        let flights = |queue: &VecDeque<Flight>| {
            let under_way = queue.iter().filter(|f| f.end > from);
            let mut queue = VecDeque::with_capacity(QUEUE);
            queue.extend(under_way.map(|f| f.rebased(from, shift)));
            queue
        };
        Schedule {
            dies: self.dies.iter().map(flights).collect(),
            channels: self.channels.iter().map(|c| c.rebased(shift)).collect(),
            busy: Nanos::ZERO,
            next_op: self.next_op,
            records: None,
            spare: VecDeque::new(),
            book: Book::default(),
        }
    }

    /// If a pending erase of the unit has the former pages in the image only, keeps a copy that
    /// `unload` makes. (Only the last erase that removed pages can need this: earlier ones got
    /// their copy when the pages were overwritten.)
    pub fn keep_former(
        &mut self,
        die: u32,
        unit: Unit,
        unload: impl FnOnce(&UnitState) -> UnitState,
    ) {
        for f in self.dies[die as usize].iter_mut().rev() {
            match &mut f.effect {
                Effect::Erase { unit: u, was } if *u == unit && was.next > 0 => {
                    if was.cells.is_none() {
                        *was = unload(was);
                        self.book.overwritten(f);
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    /// Whether an erase of the unit is issued and not known to have ended.
    pub fn is_to_erase(&self, unit: Unit) -> bool {
        self.dies.iter().flatten().any(|f| f.erases() == Some(unit))
    }

    /// Removes programs of a unit's pages from `page` on. Their effects are not undone.
    pub fn take_back(&mut self, die: u32, unit: Unit, page: u32) {
        let book = &mut self.book;
        self.dies[die as usize].retain(|f| {
            let there = match &f.effect {
                Effect::Program { at, .. } => at.unit == unit && at.page >= page,
                _ => false,
            };
            if there {
                book.leave(f.slot);
            }
            !there
        });
    }

    /// Removes all operations and transfers.
    pub fn reset(&mut self) {
        self.dies.fill_with(VecDeque::new);
        self.channels.fill_with(Channel::default);
    }

    /// The time that dies are busy, summed over dies. A read that leaves planes free counts with the
    /// share of those that it takes.
    pub fn busy(&self) -> Nanos {
        self.busy
    }

    /// Keeps records from now on.
    pub fn record(&mut self) {
        self.records = Some(Records::default());
    }

    /// The records so far. Operations that have not ended have planned times.
    pub fn take_records(&mut self, now: Nanos) -> Vec<OpRecord> {
        self.settle_all(now);
        let Some(records) = &mut self.records else { return Vec::new() };
        records.taken += records.kept.len() as u64;
        std::mem::take(&mut records.kept)
    }
}

/// When the planes of operation `i` are free of the operations before it.
fn planes_free(queue: &VecDeque<Flight>, i: usize) -> Nanos {
    let planes = queue[i].planes();
    let mut free = Nanos::ZERO;
    for before in queue.range(..i).rev() {
        if before.planes() & planes != 0 {
            free = free.max(before.end);
        }
        // All that is before this one has ended when it begins.
        if before.planes() == WHOLE_DIE {
            break;
        }
    }
    free
}
