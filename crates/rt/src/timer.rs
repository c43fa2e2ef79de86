//! Timers: a heap of (time, order of setting), with cancellation that never
//! moves time (invariant 2).

use crate::Nanos;
use crate::exec::{Rt, TaskId};
use crate::slab::{Key, Slab};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
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

/// The timers of one runtime.
pub(crate) struct Timers {
    heap: BinaryHeap<Entry>,
    wanted: Slab<TaskId>,
    cancelled: usize,
    seq: u64,
}

impl Timers {
    pub fn new() -> Timers {
        Timers { heap: BinaryHeap::with_capacity(16), wanted: Slab::new(), cancelled: 0, seq: 0 }
    }

    pub fn set(&mut self, at: Nanos, task: TaskId) -> Key {
        let key = self.wanted.insert(task);
        self.seq += 1;
        self.heap.push(Entry { at, seq: self.seq, key });
        key
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
        if self.cancelled > 64 && self.cancelled > self.heap.len() / 2 {
            let wanted = &self.wanted;
            self.heap.retain(|e| wanted.get(e.key).is_some());
            self.cancelled = 0;
        }
    }

    /// Slots and heap entries in use at the fullest.
    pub fn footprint(&self) -> usize {
        self.wanted.capacity() + self.heap.len()
    }

    /// When the next timer fires that is still wanted.
    pub fn next(&mut self) -> Option<Nanos> {
        while let Some(e) = self.heap.peek() {
            if self.wanted.get(e.key).is_some() {
                return Some(e.at);
            }
            self.heap.pop();
            self.cancelled -= 1;
        }
        None
    }

    /// Fires the first timer if it is due at `now`. Returns the task to wake.
    pub fn fire(&mut self, now: Nanos) -> Option<TaskId> {
        while let Some(e) = self.heap.peek() {
            if e.at > now {
                return None;
            }
            let key = e.key;
            self.heap.pop();
            match self.wanted.remove(key) {
                Some(task) => return Some(task),
                None => self.cancelled -= 1,
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
