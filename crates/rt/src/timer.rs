//! Timers: queues of (time, order of setting), with cancellation that never
//! moves time (invariant 2).
//!
//! Most timers are set in the order in which they fire, within each kind: a bus is free at ever
//! later times, and all programs take equally long. Such timers need no heap.
//!
//! 1. Each lane is in the order of firing, from its front to its back.
//! 2. A timer that fits behind no lane's back goes to the heap.
//! 3. `fronts` has the rank of the first timer of each lane and of the heap, and `first` names the
//!    lowest of these: that timer fires next.

use crate::Nanos;
use crate::exec::{Rt, TaskId};
use crate::slab::{Key, Slab};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

struct Entry {
    at: Nanos,
    seq: u64,
    key: Key,
}

impl PartialEq for Entry {
    fn eq(&self, o: &Entry) -> bool {
        self.seq == o.seq
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, o: &Entry) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Entry {
    /// The greatest is the earliest: [`BinaryHeap`] gives the greatest first.
    fn cmp(&self, o: &Entry) -> Ordering {
        o.rank().cmp(&self.rank())
    }
}

impl Entry {
    /// Time and order of setting as one number. Comparing it needs no branch, which a processor
    /// could not predict for timers.
    fn rank(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.seq)
    }
}

/// Lanes beside the heap.
const LANES: usize = 4;

/// The rank in `fronts` of a lane without timers: no timer has it.
const EMPTY: u128 = u128::MAX;

/// The timers of one runtime.
pub(crate) struct Timers {
    lanes: [VecDeque<Entry>; LANES],
    /// When the last timer of each lane fires; 0 without timers.
    backs: [Nanos; LANES],
    heap: BinaryHeap<Entry>,
    /// Those of the lanes, then that of the heap.
    fronts: [u128; LANES + 1],
    first: usize,
    wanted: Slab<TaskId>,
    cancelled: usize,
    seq: u64,
}

impl Timers {
    pub fn new() -> Timers {
        Timers {
            lanes: Default::default(),
            backs: [Nanos::ZERO; LANES],
            heap: BinaryHeap::with_capacity(16),
            fronts: [EMPTY; LANES + 1],
            first: 0,
            wanted: Slab::new(),
            cancelled: 0,
            seq: 0,
        }
    }

    pub fn set(&mut self, at: Nanos, task: TaskId) -> Key {
        let key = self.wanted.insert(task);
        self.seq += 1;
        let entry = Entry { at, seq: self.seq, key };
        let rank = entry.rank();
        let queue = self.lane_for(at);
        match self.lanes.get_mut(queue) {
            Some(lane) => {
                lane.push_back(entry);
                self.backs[queue] = at;
            }
            None => self.heap.push(entry),
        }
        self.fronts[queue] = self.fronts[queue].min(rank);
        if rank < self.fronts[self.first] {
            self.first = queue;
        }
        key
    }

    /// The lane behind which a timer fits that fires at `at`, with the latest back; else the heap.
    fn lane_for(&self, at: Nanos) -> usize {
        let (mut lane, mut latest) = (LANES, Nanos::ZERO);
        for (i, back) in self.backs.iter().enumerate() {
            if (latest..=at).contains(back) {
                (lane, latest) = (i, *back);
            }
        }
        lane
    }

    /// Whether the timer has not fired yet.
    pub fn is_set(&self, key: Key) -> bool {
        self.wanted.get(key).is_some()
    }

    pub fn cancel(&mut self, key: Key) {
        if self.wanted.remove(key).is_none() {
            return;
        }
        self.cancelled += 1;
        if self.cancelled > 64 && self.cancelled > self.len() / 2 {
            self.forget_cancelled();
        }
    }

    fn forget_cancelled(&mut self) {
        let wanted = &self.wanted;
        self.heap.retain(|e| wanted.get(e.key).is_some());
        for lane in &mut self.lanes {
            lane.retain(|e| wanted.get(e.key).is_some());
        }
        self.cancelled = 0;
        for queue in 0..=LANES {
            self.look_at(queue);
        }
        self.find_first();
    }

    fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum::<usize>() + self.heap.len()
    }

    /// The first timer of a lane, or of the heap, is another.
    fn look_at(&mut self, queue: usize) {
        let first = match self.lanes.get(queue) {
            Some(lane) => {
                self.backs[queue] = lane.back().map_or(Nanos::ZERO, |e| e.at);
                lane.front()
            }
            None => self.heap.peek(),
        };
        self.fronts[queue] = first.map_or(EMPTY, Entry::rank);
    }

    fn find_first(&mut self) {
        let (mut first, mut lowest) = (0, self.fronts[0]);
        for (i, rank) in self.fronts.iter().enumerate().skip(1) {
            if *rank < lowest {
                (first, lowest) = (i, *rank);
            }
        }
        self.first = first;
    }

    /// When the first timer fires, wanted or not.
    fn soonest(&self) -> Option<Nanos> {
        let rank = self.fronts[self.first];
        (rank != EMPTY).then_some(Nanos((rank >> 64) as u64))
    }

    /// Takes the first timer out; its task, if it is still wanted.
    fn pop(&mut self) -> Option<TaskId> {
        let queue = self.first;
        let popped = match self.lanes.get_mut(queue) {
            Some(lane) => lane.pop_front(),
            None => self.heap.pop(),
        };
        self.look_at(queue);
        self.find_first();
        let task = self.wanted.remove(popped?.key);
        self.cancelled -= usize::from(task.is_none());
        task
    }

    fn is_first_wanted(&self) -> bool {
        let first = match self.lanes.get(self.first) {
            Some(lane) => lane.front(),
            None => self.heap.peek(),
        };
        first.is_some_and(|e| self.wanted.get(e.key).is_some())
    }

    /// Slots and timers in use at the fullest.
    pub fn footprint(&self) -> usize {
        self.wanted.capacity() + self.len()
    }

    /// When the next timer fires that is still wanted.
    pub fn next(&mut self) -> Option<Nanos> {
        while let Some(at) = self.soonest() {
            if self.is_first_wanted() {
                return Some(at);
            }
            self.pop();
        }
        None
    }

    /// Fires the first timer if it is due at `now`. Returns the task to wake.
    pub fn fire(&mut self, now: Nanos) -> Option<TaskId> {
        while self.soonest()? <= now {
            if let Some(task) = self.pop() {
                return Some(task);
            }
        }
        None
    }
}

/// Waits until a point in time; see [`Rt::sleep`]. Dropping it cancels the timer.
pub struct Sleep {
    rt: Rt,
    until: Nanos,
    key: Option<Key>,
    why: &'static str,
}

impl Sleep {
    pub(crate) fn new(rt: Rt, until: Nanos, why: &'static str) -> Sleep {
        Sleep { rt, until, key: None, why }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        match self.key {
            None => {
                if self.until <= self.rt.now() {
                    return Poll::Ready(());
                }
                let task = self.rt.park(self.why);
                self.key = Some(self.rt.set_timer(self.until, task));
                Poll::Pending
            }
            Some(key) if self.rt.timer_is_set(key) => {
                self.rt.park(self.why);
                Poll::Pending
            }
            Some(_) => {
                self.key = None;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.rt.cancel_timer(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use std::collections::BTreeMap;

    /// Timers of a few kinds, each set in the order in which it fires or nearly so, some of them
    /// cancelled: they fire by time and order of setting, whichever queue they are in.
    #[test]
    fn timers_fire_by_time_and_order_of_setting() {
        let mut dice = Stream::new(7, "timers");
        let (mut timers, mut model) = (Timers::new(), BTreeMap::new());
        let mut now = Nanos::ZERO;
        for number in 0..20_000 {
            let span = match dice.below(6) {
                0 => 5,
                1 => 75,
                2 => 750 + dice.below(10),
                3 => 3_800,
                4 => dice.below(5_000),
                _ => 0,
            };
            let (at, task) = (now + Nanos(span), TaskId(Key { slot: number, generation: 0 }));
            model.insert((at, number), timers.set(at, task));
            if dice.chance(1, 4)
                && let Some(name) = model.keys().nth(dice.below(model.len() as u64) as usize)
            {
                let name = *name;
                timers.cancel(model.remove(&name).expect("just seen"));
            }
            let most = dice.below(3);
            for _ in 0..most {
                assert_eq!(timers.next(), model.keys().next().map(|name| name.0));
                let Some(((at, number), key)) = model.pop_first() else { break };
                assert!(timers.is_set(key));
                now = at;
                assert_eq!(timers.fire(now).map(|task| task.0.slot), Some(number));
            }
        }
        while let Some(((at, number), _)) = model.pop_first() {
            assert_eq!(timers.fire(at).map(|task| task.0.slot), Some(number));
        }
        assert_eq!((timers.next(), timers.len()), (None, 0));
    }
}
