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
//!    programmed waits again, before all others.
//!    The order in which they leave it is that of their arrival, unless it is to be another
//!    ([`Buffer::in_disorder`]).
//! 5. A copy that belongs to an atomic group says so: it stays until its group is whole.
//! 6. Epochs number the writes between flushes; an epoch is done when each of its
//!    pages, or a newer copy of it, is on flash.

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
}

/// The buffer: slots, an index by logical page number, the flusher's queue.
#[derive(Clone)]
pub struct Buffer {
    entries: Vec<Entry>,
    data: OwnedData,
    index: FxHashMap<u32, u32>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
    waiting: u32,
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
        };
        Buffer {
            entries: vec![blank; slots as usize],
            data: OwnedData::zeros(kind, slots as usize, SECTOR_BYTES),
            index: FxHashMap::default(),
            free: (0..slots).rev().collect(),
            head: NONE,
            tail: NONE,
            waiting: 0,
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
        self.waiting
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
        while (batch.len() as u32) < most && self.head != NONE {
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
        let mut at = self.head;
        if self.window > 1 {
            for _ in 0..self.roll(self.window.min(self.waiting).into()) {
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

    /// The program failed: the page waits again, before all others. Whether its slot is
    /// free instead, since it was discarded.
    pub fn requeue(&mut self, slot: Slot) -> bool {
        let at = slot.0;
        if self.entries[at as usize].state == State::Void {
            self.finish(slot);
            return true;
        }
        let head = self.head;
        let e = &mut self.entries[at as usize];
        debug_assert_eq!(e.state, State::Flying);
        e.state = State::Waiting;
        (e.prev, e.next) = (NONE, head);
        match head {
            NONE => self.tail = at,
            head => self.entries[head as usize].prev = at,
        }
        self.head = at;
        self.waiting += 1;
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
        let tail = self.tail;
        let e = &mut self.entries[at as usize];
        e.state = State::Waiting;
        e.prev = tail;
        e.next = NONE;
        match tail {
            NONE => self.head = at,
            tail => self.entries[tail as usize].next = at,
        }
        self.tail = at;
        self.waiting += 1;
    }

    fn unlink(&mut self, at: u32) {
        let (prev, next) = (self.entries[at as usize].prev, self.entries[at as usize].next);
        match prev {
            NONE => self.head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
        self.waiting -= 1;
    }

    fn release(&mut self, at: u32) {
        let e = &mut self.entries[at as usize];
        e.state = State::Free;
        e.successor = NONE;
        e.grouped = false;
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
}
