//! The write buffer.
//!
//! 1. The newest copy of a logical page that is buffered is the one that reads and
//!    the emergency dump find.
//! 2. A page written again while its older copy waits replaces it: the older copy
//!    never reaches flash.
//! 3. Of one logical page at most one copy is being programmed that still counts: a newer
//!    one is held back until that is done, and one that was discarded is void. So no
//!    late program overrides a newer mapping.
//! 4. A copy leaves the buffer only after its mapping was changed. One that failed to be
//!    programmed waits again, before all others of its queue (7).
//!    The order in which they are taken is that of their arrival, unless it is to be another
//!    ([`Buffer::in_disorder`]).
//! 5. A copy that belongs to an atomic group says so: it stays until its group is whole.
//! 6. Epochs number the writes between flushes; an epoch is done when each of its
//!    pages, or a newer copy of it, is on flash.
//! 7. Copies that somebody waits for alone ([`Buffer::hasten`]) have a queue of their own, in the
//!    order in which they were asked for. A copy that holds back one of these is in it, too.
//! 8. Both queues go on: while there are pages in both, every second page taken is of either.

mod audit;

use crate::format::words::Lpn;
use crate::planted::planted;
use crate::state::changes::Changes;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tantalum_device::{Data, DataMut, OwnedData, Payload};
use tantalum_nand::SECTOR_BYTES;
use tantalum_rt::Stream;

const NONE: u32 = u32::MAX;

/// Names a copy of a page. What replaces it while it waits has the same name; no other copy ever
/// has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyId {
    at: u32,
    number: u64,
}

/// A place in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// In the queue of the flusher.
    Waiting,
    /// Being programmed.
    Flying,
    /// Waits for an older copy that is being programmed.
    Held,
    /// Being programmed, but discarded meanwhile: what comes of it is void.
    Void,
}

#[derive(Clone)]
struct Entry {
    lpn: Lpn,
    state: State,
    epoch: u64,
    /// Neighbours in the queue.
    prev: u32,
    next: u32,
    /// The newer copy that this one holds back.
    successor: u32,
    /// It belongs to an atomic group.
    grouped: bool,
    /// Somebody waits for it alone: when it waits, it is in the queue of these.
    hasty: bool,
    /// How many copies were there before it.
    number: u64,
}

/// Entries that wait, in the order in which they are taken.
#[derive(Clone, Copy)]
struct Queue {
    head: u32,
    tail: u32,
    count: u32,
}

impl Queue {
    const EMPTY: Queue = Queue { head: NONE, tail: NONE, count: 0 };
}

/// The buffer: slots, an index by logical page number, the flusher's queues.
#[derive(Clone)]
pub struct Buffer {
    entries: Vec<Entry>,
    data: OwnedData,
    index: FxHashMap<u32, u32>,
    free: Vec<u32>,
    /// Copies that wait; the second queue is that of the hasty ones.
    queues: [Queue; 2],
    /// Whether the next copy is a hasty one, if there are both.
    hasty_next: bool,
    copies: u64,
    epoch: u64,
    /// Pages not yet on flash, for each epoch from `first_epoch` on.
    open: VecDeque<u32>,
    first_epoch: u64,
    /// From how many of the pages that have waited longest the flusher picks.
    window: u32,
    dice: Option<Stream>,
    /// Pages whose newest copy is another.
    pub changes: Changes<Lpn>,
}

impl Buffer {
    /// An empty buffer of `slots` slots.
    pub fn new(slots: u32, kind: Payload) -> Buffer {
        let blank = Entry {
            lpn: Lpn(0),
            state: State::Free,
            epoch: 0,
            prev: NONE,
            next: NONE,
            successor: NONE,
            grouped: false,
            hasty: false,
            number: 0,
        };
        Buffer {
            entries: vec![blank; slots as usize],
            data: OwnedData::zeros(kind, slots as usize, SECTOR_BYTES),
            index: FxHashMap::default(),
            free: (0..slots).rev().collect(),
            queues: [Queue::EMPTY; 2],
            hasty_next: true,
            copies: 0,
            epoch: 0,
            open: VecDeque::from([0]),
            first_epoch: 0,
            window: 1,
            dice: None,
            changes: Changes::default(),
        }
    }

    /// The same, from which pages are taken at random out of the `window` that have waited
    /// longest.
    pub fn in_disorder(mut self, window: u32, dice: Stream) -> Buffer {
        self.window = window.max(1);
        self.dice = Some(dice);
        self
    }

    /// The newest copy of a page, if it is buffered.
    pub fn newest(&self, lpn: Lpn) -> Option<Data<'_>> {
        self.index.get(&lpn.0).map(|at| self.slot_data(*at))
    }

    /// A random number below `n`; 0 without disorder.
    pub fn roll(&mut self, n: u64) -> u64 {
        self.dice.as_mut().map_or(0, |dice| dice.below(n))
    }

    /// Pages that wait for the flusher.
    pub fn waiting(&self) -> u32 {
        self.queues[0].count + self.queues[1].count
    }

    /// Whether pages that somebody waits for alone ([`Buffer::hasten`]) wait for the flusher.
    pub fn is_hasty(&self) -> bool {
        self.queues[1].count > 0
    }

    /// Slots in use.
    pub fn used(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }

    /// Takes a page in; whether it needed a slot of its own. There must be a free one.
    pub fn insert(&mut self, lpn: Lpn, data: Data<'_>) -> bool {
        self.changes.note(lpn);
        let held_by = match self.index.get(&lpn.0) {
            Some(&at) => match self.entries[at as usize].state {
                State::Waiting | State::Held => {
                    self.store(at, data);
                    return false;
                }
                _ => Some(at),
            },
            None => None,
        };
        let at = self.free.pop().expect("the caller has taken room for the page");
        self.store(at, data);
        let e = &mut self.entries[at as usize];
        e.lpn = lpn;
        e.epoch = self.epoch;
        e.successor = NONE;
        e.number = self.copies;
        self.copies += 1;
        *self.open.back_mut().expect("there is always an epoch") += 1;
        self.index.insert(lpn.0, at);
        match held_by {
            Some(older) if !planted!(CopyOvertakes) => {
                self.entries[at as usize].state = State::Held;
                self.entries[older as usize].successor = at;
            }
            _ => self.enqueue(at),
        }
        true
    }

    /// The newest copy of a page, if it is buffered.
    pub fn read(&self, lpn: Lpn, mut out: DataMut<'_>) -> bool {
        let Some(&at) = self.index.get(&lpn.0) else { return false };
        out.copy_from(self.slot_data(at));
        true
    }

    /// The newest copy of a page, which is buffered, belongs to an atomic group from now on.
    pub fn join_group(&mut self, lpn: Lpn) {
        if let Some(at) = self.index.get(&lpn.0) {
            self.entries[*at as usize].grouped = true;
        }
    }

    /// Somebody waits for the newest copy of a page alone: it goes to flash before most others.
    /// Which copy that is; `None` if the page is not buffered.
    pub fn hasten(&mut self, lpn: Lpn) -> Option<CopyId> {
        let at = *self.index.get(&lpn.0)?;
        match self.entries[at as usize].state {
            State::Waiting => self.put_first(at),
            State::Held => {
                self.entries[at as usize].hasty = true;
                let older = self.entries.iter().position(|e| e.successor == at);
                let older = older.filter(|at| self.entries[*at].state == State::Waiting);
                older.into_iter().for_each(|at| self.put_first(at as u32));
            }
            State::Free | State::Flying | State::Void => {}
        }
        Some(CopyId { at, number: self.entries[at as usize].number })
    }

    /// A page that waits is a hasty one from now on.
    fn put_first(&mut self, at: u32) {
        if !self.entries[at as usize].hasty {
            self.unlink(at);
            self.entries[at as usize].hasty = true;
            self.enqueue(at);
        }
    }

    /// Whether this copy, or what was written over it, is neither on flash nor discarded.
    pub fn is_under_way(&self, copy: CopyId) -> bool {
        let e = &self.entries[copy.at as usize];
        let skipped = match e.state {
            State::Free => true,
            State::Flying => planted!(FuaSkipsFlying),
            State::Held => planted!(FuaSkipsHeld),
            State::Waiting | State::Void => false,
        };
        e.number == copy.number && !skipped
    }

    /// Whether what was taken belongs to an atomic group.
    pub fn is_grouped(&self, slot: Slot) -> bool {
        self.entries[slot.0 as usize].grouped
    }

    /// Whether a page is buffered.
    pub fn contains(&self, lpn: Lpn) -> bool {
        self.index.contains_key(&lpn.0)
    }

    /// The logical pages that are buffered, in no order.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = Lpn> {
        self.index.keys().map(|lpn| Lpn(*lpn))
    }

    /// Forgets a page (trim); how many slots became free.
    pub fn discard(&mut self, lpn: Lpn) -> u32 {
        let Some(at) = self.index.remove(&lpn.0) else { return 0 };
        self.changes.note(lpn);
        match self.entries[at as usize].state {
            State::Waiting => {
                self.unlink(at);
                self.release(at);
                1
            }
            State::Held => {
                // Its older copy, which is being programmed, or is to be once more, is void
                // too.
                let older = self.entries.iter().position(|e| e.successor == at);
                let mut freed = 1;
                if let Some(older) = older {
                    self.entries[older].successor = NONE;
                    if self.entries[older].state == State::Waiting {
                        self.unlink(older as u32);
                        self.release(older as u32);
                        freed += 1;
                    } else {
                        self.entries[older].state = State::Void;
                    }
                }
                self.release(at);
                freed
            }
            State::Flying if planted!(DiscardOvertaken) => 0,
            State::Flying => {
                self.entries[at as usize].state = State::Void;
                0
            }
            State::Free | State::Void => 0,
        }
    }

    /// Takes up to `most` pages from the queue to be programmed. Their payload
    /// ([`Buffer::payload`]) stays as it is until they are finished or wait again.
    pub fn take(&mut self, most: u32, batch: &mut Vec<(Slot, Lpn)>) {
        batch.clear();
        while (batch.len() as u32) < most && self.waiting() > 0 {
            let at = self.next();
            self.unlink(at);
            let e = &mut self.entries[at as usize];
            e.state = State::Flying;
            batch.push((Slot(at), e.lpn));
        }
    }

    /// What is in a slot that was taken.
    pub fn payload(&self, slot: Slot) -> Data<'_> {
        self.slot_data(slot.0)
    }

    /// The page to be taken next; there is one.
    fn next(&mut self) -> u32 {
        let [others, hasty] = self.queues;
        let is_hasty = hasty.count > 0 && (self.hasty_next || others.count == 0);
        self.hasty_next = !is_hasty;
        if is_hasty {
            return hasty.head;
        }
        let mut at = others.head;
        if self.window > 1 {
            for _ in 0..self.roll(self.window.min(others.count).into()) {
                at = self.entries[at as usize].next;
            }
        }
        at
    }

    /// Whether what was taken has not been discarded since.
    pub fn is_valid(&self, slot: Slot) -> bool {
        self.entries[slot.0 as usize].state == State::Flying
    }

    /// The page is on flash, and mapped if it was valid: its slot is free.
    pub fn finish(&mut self, slot: Slot) {
        let at = slot.0;
        let e = &self.entries[at as usize];
        let (lpn, successor) = (e.lpn, e.successor);
        if self.index.get(&lpn.0) == Some(&at) {
            self.index.remove(&lpn.0);
            self.changes.note(lpn);
        }
        if successor != NONE {
            self.enqueue(successor);
        }
        self.release(at);
    }

    /// The program failed: the page waits again, before all others of its queue. Whether its slot is
    /// free instead, since it was discarded.
    pub fn requeue(&mut self, slot: Slot) -> bool {
        let at = slot.0;
        if self.entries[at as usize].state == State::Void {
            self.finish(slot);
            return true;
        }
        let newer = self.entries[at as usize].successor;
        let is_hasty = newer != NONE && self.entries[newer as usize].hasty;
        let e = &mut self.entries[at as usize];
        debug_assert_eq!(e.state, State::Flying);
        e.state = State::Waiting;
        e.hasty |= is_hasty;
        let queue = &mut self.queues[usize::from(e.hasty)];
        (e.prev, e.next) = (NONE, queue.head);
        let next = std::mem::replace(&mut queue.head, at);
        queue.count += 1;
        match next {
            NONE => queue.tail = at,
            next => self.entries[next as usize].prev = at,
        }
        false
    }

    /// Ends the present epoch; its number. One without pages is done at once.
    pub fn close_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.open.push_back(0);
        self.pass_done_epochs();
        self.epoch - 1
    }

    /// Whether all pages of this epoch and those before it are on flash.
    pub fn epoch_done(&self, epoch: u64) -> bool {
        epoch < self.first_epoch
    }

    /// The newest copies of all pages that are not on flash, in order of slots.
    pub fn contents(&self) -> impl Iterator<Item = (Lpn, Data<'_>)> {
        (0..self.entries.len() as u32).filter_map(|at| {
            let e = &self.entries[at as usize];
            let newest = e.state != State::Free && self.index.get(&e.lpn.0) == Some(&at);
            let newest = newest && !(planted!(DumpSkipsHeld) && e.state == State::Held);
            newest.then(|| (e.lpn, self.slot_data(at)))
        })
    }

    fn slot_data(&self, at: u32) -> Data<'_> {
        let at = at as usize;
        self.data.as_data().slice(at..at + 1, SECTOR_BYTES)
    }

    fn store(&mut self, at: u32, data: Data<'_>) {
        let at = at as usize;
        self.data.as_mut().slice(at..at + 1, SECTOR_BYTES).copy_from(data);
    }

    fn enqueue(&mut self, at: u32) {
        let e = &mut self.entries[at as usize];
        let queue = &mut self.queues[usize::from(e.hasty)];
        e.state = State::Waiting;
        e.prev = queue.tail;
        e.next = NONE;
        let prev = std::mem::replace(&mut queue.tail, at);
        queue.count += 1;
        match prev {
            NONE => queue.head = at,
            prev => self.entries[prev as usize].next = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let e = &self.entries[at as usize];
        let (prev, next) = (e.prev, e.next);
        let queue = &mut self.queues[usize::from(e.hasty)];
        queue.count -= 1;
        match prev {
            NONE => queue.head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NONE => queue.tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
    }

    fn release(&mut self, at: u32) {
        let e = &mut self.entries[at as usize];
        e.state = State::Free;
        e.successor = NONE;
        e.grouped = false;
        e.hasty = false;
        let epoch = (e.epoch - self.first_epoch) as usize;
        self.open[epoch] -= 1;
        self.pass_done_epochs();
        self.free.push(at);
    }

    fn pass_done_epochs(&mut self) {
        while self.open.len() > 1 && self.open[0] == 0 {
            self.open.pop_front();
            self.first_epoch += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_without_pages_is_done_at_once() {
        let mut b = Buffer::new(4, Payload::Stamps);
        let empty = b.close_epoch();
        assert!(b.epoch_done(empty));
        b.insert(Lpn(7), Data::Stamps(&[1]));
        let one = b.close_epoch();
        let after = b.close_epoch();
        assert!(!b.epoch_done(one) && !b.epoch_done(after));
        let mut batch = Vec::new();
        b.take(1, &mut batch);
        b.finish(batch[0].0);
        assert!(b.epoch_done(one) && b.epoch_done(after));
    }

    fn taken(b: &mut Buffer, most: u32) -> Vec<(Slot, Lpn)> {
        let mut batch = Vec::new();
        b.take(most, &mut batch);
        b.audit().unwrap();
        batch
    }

    #[test]
    fn what_somebody_waits_for_goes_first() {
        let mut b = Buffer::new(8, Payload::Stamps);
        for lpn in 0..4 {
            b.insert(Lpn(lpn), Data::Stamps(&[1]));
        }
        let (two, three) = (b.hasten(Lpn(2)).unwrap(), b.hasten(Lpn(3)).unwrap());
        assert!(b.is_hasty() && b.hasten(Lpn(7)).is_none());
        let batch = taken(&mut b, 3);
        // In turns with what has waited longest.
        assert_eq!(batch.iter().map(|b| b.1.0).collect::<Vec<_>>(), [2, 0, 3]);
        assert!(!b.is_hasty());
        b.finish(batch[0].0);
        assert!(!b.is_under_way(two) && b.is_under_way(three));
        // Its slot goes to another page: that is another copy.
        b.insert(Lpn(9), Data::Stamps(&[1]));
        assert!(!b.is_under_way(two));
    }

    #[test]
    fn what_holds_a_copy_back_that_somebody_waits_for_goes_first_too() {
        for hasten_late in [false, true] {
            let mut b = Buffer::new(8, Payload::Stamps);
            b.insert(Lpn(7), Data::Stamps(&[1]));
            b.insert(Lpn(8), Data::Stamps(&[1]));
            let older = taken(&mut b, 2);
            b.insert(Lpn(7), Data::Stamps(&[2]));
            let early = if hasten_late { None } else { b.hasten(Lpn(7)) };
            assert!(!b.is_hasty());
            // Both fail.
            assert!(!b.requeue(older[1].0) && !b.requeue(older[0].0));
            let newer = early.or_else(|| b.hasten(Lpn(7))).unwrap();
            assert!(b.is_hasty());
            b.audit().unwrap();
            let again = taken(&mut b, 1);
            assert_eq!(again, older[..1]);
            b.finish(again[0].0);
            assert!(b.is_hasty() && b.is_under_way(newer));
            // In turns.
            let last = taken(&mut b, 2);
            assert_eq!([last[0].1, last[1].1], [Lpn(8), Lpn(7)]);
        }
    }
}
