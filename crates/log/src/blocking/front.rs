//! What many threads do with a log: they append, wait, and write.
//!
//! 1. An append gets its LSN and is copied under one lock, so records lie in memory in the order of
//!    their LSNs. The lock is never held over I/O, a wait or a wake.
//! 2. What is accepted fits: memory and devices have room for it.
//! 3. **A thread that waits writes**, if there is something to write, a lane for it, and the device
//!    is lent to threads: it issues the order, writes without the lock, and says how that ended. The
//!    plan knows no difference between threads and tasks, so a lane has one write in flight.
//! 4. **Handed on.** Whoever ends a write looks whether more is to be written, under the same lock,
//!    and wakes a thread that waits for it, or the runtime of the log if there is none or it is not
//!    a thread's. A thread goes to sleep only after it has found, under the lock, that it has
//!    nothing to write. So nobody waits for something that nobody will write.
//! 5. If a thread panics while it writes, its write counts as failed; if it panics under the lock,
//!    the log has failed.
//! 6. Threads that wait for room take their turn in the order of their arrival.

use super::listener::{Call, tell_end};
use crate::pen::Pen;
use crate::plan::Order;
use crate::record::{FRAME, frame};
use crate::sys::{Event, Parker};
use crate::threads::Wakes;
use crate::works::{Former, Groups, Guard, Shared};
use crate::{Appended, LogError, Lsn, WhenFull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tantalum_rt::Nanos;

/// Bytes behind the last group for which the runtime is told though nobody waits for them. (They
/// are written if they make a group of the largest size.)
const MANY: u64 = 64 << 10;

/// What does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub record_limit: u32,
    pub read_only: bool,
    pub when_full: WhenFull,
}

/// The time of the log, from any thread.
pub(crate) type Time = Box<dyn Fn() -> Nanos + Send + Sync>;

pub(crate) struct Front {
    rules: Rules,
    shared: Arc<Shared>,
    time: Time,
    /// Listeners that are told of the end when it is known why it ends.
    left: Mutex<Vec<Call>>,
}

/// Who tries to write.
#[derive(Clone, Copy)]
enum Who<'a> {
    /// An append whose turn it is.
    Turn(&'a Arc<Parker>),
    /// One that waits at this gate.
    Gate(&'a Arc<Event>),
}

/// What became of an attempt to write.
enum Led<'a> {
    /// Something was written or told: look again. The lock is free.
    Did,
    /// There is nothing for this thread, but perhaps to mind the time of a round of gathering.
    Nothing(Guard<'a>, Option<(Nanos, u64)>),
}

impl Front {
    pub fn new(
        rules: Rules,
        shared: Arc<Shared>,
        pens: Vec<Option<Box<dyn Pen>>>,
        time: Time,
    ) -> Front {
        shared.lock().threads.lent.resize_with(pens.len(), || None);
        let front = Front { rules, shared, time, left: Mutex::default() };
        pens.into_iter().enumerate().for_each(|(device, pen)| front.lend(device, pen));
        front
    }

    /// Threads write to the device from now on, if there is a pen for it.
    pub fn lend(&self, device: usize, pen: Option<Box<dyn Pen>>) {
        let mut works = self.shared.lock();
        // A log that was closed has no use for it, and nobody would take it out.
        if works.threads.check_closed().is_err() {
            drop(works);
            drop(pen);
            return;
        }
        let tag = works.tags[device];
        let lent = pen.map(|pen| (tag, pen.into()));
        let lends = lent.is_some();
        let before = std::mem::replace(&mut works.threads.lent[device], lent);
        if lends || before.is_some() {
            let works = &mut *works;
            let threads = &works.threads;
            works.plan.set_threads(|device| threads.pen(device)?.disk());
        }
        drop(works);
        // Perhaps the end of the use of a file.
        drop(before);
    }

    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    pub fn end(&self) -> Lsn {
        self.shared.lock().ring.end()
    }

    /// Bytes of records that surely find room before the checkpoint moves.
    pub fn room(&self) -> u64 {
        self.shared.lock().plan.room_bytes()
    }

    /// Appends a record. If it is to be `durable` it waits for that.
    pub fn append(&self, pieces: &[&[u8]], durable: bool) -> Result<Appended, LogError> {
        let bytes: usize = pieces.iter().map(|p| p.len()).sum();
        let Rules { record_limit: limit, read_only, .. } = self.rules;
        if read_only {
            return Err(LogError::ReadOnly);
        }
        if bytes > limit as usize {
            return Err(LogError::RecordTooLong { bytes, limit });
        }
        let whole = (bytes + FRAME) as u64;
        let mut works = self.shared.lock();
        works.threads.check_open()?;
        if !works.threads.turns.is_empty() || works.room_for(whole) != (true, true) {
            works = self.take_turn(works, whole)?;
        }
        let lsn = works.ring.end();
        let end = lsn.plus(whole);
        let frame = frame(lsn, pieces);
        works.add(bytes as u64, &frame, pieces);
        let mut wakes = Wakes::default();
        works.threads.next_turn(&mut wakes);
        if durable {
            if !works.threads.turns.is_empty() {
                drop(works);
                wakes.wake();
                works = self.shared.lock();
            }
            self.finish(works, end)?;
            return Ok(Appended { lsn, end });
        }
        if works.plan.appended().since(works.plan.formed()) >= MANY && works.former().is_some() {
            works.threads.tell(&mut wakes);
        }
        drop(works);
        wakes.wake();
        Ok(Appended { lsn, end })
    }

    /// Waits until it is the turn of this append and there is room for it.
    fn take_turn<'a>(&'a self, mut works: Guard<'a>, whole: u64) -> Result<Guard<'a>, LogError> {
        let mut mine = Parker::new();
        works.threads.add_turn(mine.clone());
        loop {
            let first = works.threads.turns.front().is_some_and(|p| Arc::ptr_eq(p, &mine));
            let (memory, devices) = works.room_for(whole);
            let result = match works.threads.check_open() {
                Err(e) => Some(Err(e)),
                Ok(()) if first && memory && devices => Some(Ok(())),
                Ok(()) if first && !devices && self.rules.when_full == WhenFull::Fail => {
                    let (first, end) = (works.plan.checkpoint(), works.ring.end());
                    Some(Err(LogError::Full { first, end }))
                }
                Ok(()) => None,
            };
            if let Some(result) = result {
                works.threads.turns.retain(|p| !Arc::ptr_eq(p, &mine));
                if let Err(e) = result {
                    let mut wakes = Wakes::default();
                    works.threads.next_turn(&mut wakes);
                    drop(works);
                    wakes.wake();
                    return Err(e);
                }
                return Ok(works);
            }
            if first {
                // What is in memory makes room only if it is written.
                let end = works.ring.end();
                works.plan.want(end);
                works = match self.lead(works, Who::Turn(&mine)) {
                    Led::Nothing(works, _) => works,
                    Led::Did => {
                        works = self.shared.lock();
                        continue;
                    }
                };
            }
            drop(works);
            mine.wait();
            works = self.shared.lock();
            // One that was woken wakes at once: another takes its place.
            let again = Parker::new();
            if let Some(place) = works.threads.turns.iter_mut().find(|p| Arc::ptr_eq(p, &mine)) {
                *place = again.clone();
            }
            mine = again;
        }
    }

    /// Waits until everything before `lsn` is durable.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        if self.durable() >= lsn {
            return Ok(());
        }
        let works = self.shared.lock();
        let durable = works.plan.durable();
        if lsn > works.ring.end() {
            works.threads.check_closed()?;
            return Err(LogError::NotDurable { lsn, durable });
        }
        self.finish(works, lsn)
    }

    /// Waits until everything before `lsn` is durable, and writes what is to be written meanwhile.
    fn finish<'a>(&'a self, mut works: Guard<'a>, lsn: Lsn) -> Result<(), LogError> {
        works.plan.want(lsn);
        let mut gate = None;
        loop {
            let durable = works.plan.durable();
            if durable >= lsn {
                self.shared.publish(durable);
                leave(works, gate);
                return Ok(());
            }
            works.threads.check_closed()?;
            if let Some(full) = works.full() {
                leave(works, gate);
                return Err(full);
            }
            let event = gate.get_or_insert_with(|| {
                works.threads.arrived();
                let (formed, most) = (works.plan.formed(), works.plan.group_bytes());
                works.threads.gate(lsn, formed, most)
            });
            let mut minded = None;
            if let Led::Nothing(works, minds) = self.lead(works, Who::Gate(event)) {
                let seen = event.seen();
                drop(works);
                match minds {
                    Some((most, round)) => minded = Some((round, event.wait_for(seen, most))),
                    None => event.wait(seen),
                }
            }
            if event.is_open() && self.durable() >= lsn {
                return Ok(());
            }
            works = self.shared.lock();
            if let Some((round, late)) = minded {
                works.threads.minded(round, late);
            }
        }
    }

    /// 3.
    fn lead<'a>(&'a self, mut works: Guard<'a>, who: Who) -> Led<'a> {
        let mut wakes = Wakes::default();
        let order = match works.former() {
            None => return Led::Nothing(works, None),
            Some(Former::Tasks) => None,
            Some(Former::Threads) if works.threads.is_gathering() => {
                let minds = works.threads.mind();
                return Led::Nothing(works, minds);
            }
            Some(Former::Threads) => {
                let now = works.time((self.time)());
                works.issue(now, Groups::Thread).map(|order| (order, now))
            }
        };
        let Some((order, now)) = order else {
            works.threads.tell(&mut wakes);
            if wakes.is_empty() {
                return Led::Nothing(works, None);
            }
            drop(works);
            wakes.wake();
            return Led::Did;
        };
        let length = works.bytes_of(&order);
        let (size, mut bytes) = works.threads.buffer(length);
        works.encode(&order, &mut bytes);
        let pen = works.threads.pen(order.device);
        // The device may not answer for long: nobody waits for this thread meanwhile.
        let mut gate = None;
        match who {
            Who::Turn(mine) => works.threads.leave_turn(mine, &mut wakes),
            Who::Gate(event) => {
                works.threads.writes(event, true);
                gate = Some(event.clone());
            }
        }
        works.tell_runtime(now, &mut wakes);
        drop(works);
        let mut write = Write { front: self, order, began: now, bytes: length, ok: false, gate };
        wakes.wake();
        if let Some(pen) = pen {
            write.ok = pen.write(write.order.place.unit, &bytes);
        }
        drop(write);
        let mut works = self.shared.lock();
        works.threads.keep(size, bytes);
        if let Who::Turn(mine) = who {
            works.threads.resume_turn(mine.clone());
        }
        Led::Did
    }
}

/// A thread goes away from a gate. Perhaps it was woken in order to write: then another one is.
fn leave(mut works: Guard<'_>, gate: Option<Arc<Event>>) {
    let Some(event) = gate.filter(|event| !event.is_open()) else { return };
    let mut wakes = Wakes::default();
    works.threads.leave(&event);
    works.let_on(&mut wakes);
    drop(works);
    wakes.wake();
}

/// A write of a thread. However that ends, the plan is told (5).
struct Write<'a> {
    front: &'a Front,
    order: Order,
    began: Nanos,
    bytes: usize,
    ok: bool,
    /// Where the thread waits otherwise.
    gate: Option<Arc<Event>>,
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let shared = &self.front.shared;
        let mut wakes = Wakes::default();
        let mut works = shared.lock();
        let now = works.time((self.front.time)());
        let took = now.saturating_sub(self.began);
        if let Some(gate) = &self.gate {
            works.threads.writes(gate, false);
        }
        works.done(now, &self.order, self.bytes, took, self.ok);
        // No order comes of this but for tasks.
        works.issue(now, Groups::Nobody);
        let durable = works.plan.durable();
        let moved = shared.publish(durable);
        works.threads.open_gates(durable, &mut wakes);
        works.threads.gather(took);
        works.let_on(&mut wakes);
        if works.full().is_some() {
            works.threads.wake_gates(&mut wakes);
        }
        works.tell_runtime(now, &mut wakes);
        if moved && shared.is_watched() {
            works.threads.tell(&mut wakes);
        }
        drop(works);
        wakes.wake();
    }
}

impl Front {
    /// # Errors
    /// Why the log has ended, if it has.
    pub fn check_closed(&self) -> Result<(), LogError> {
        self.shared.lock().threads.check_closed()
    }

    /// Waits until the log has ended, and says why it has.
    pub fn why_closed(&self) -> LogError {
        loop {
            let mut works = self.shared.lock();
            if let Err(why) = works.threads.check_closed() {
                return why;
            }
            let parker = works.threads.wait_for_end();
            drop(works);
            parker.wait();
        }
    }

    /// Accepts no appends any more.
    pub fn stop_appends(&self) {
        let mut wakes = Wakes::default();
        self.shared.lock().threads.stop_appends(&mut wakes);
        wakes.wake();
    }

    /// Every call fails from now on; the first reason counts. The devices are let go: what still
    /// writes ends first.
    pub fn close(&self, why: LogError) {
        let mut wakes = Wakes::default();
        let mut works = self.shared.lock();
        works.plan.stop();
        works.threads.close(why, &mut wakes);
        let lent: Vec<_> = works.threads.lent.iter_mut().filter_map(Option::take).collect();
        drop(works);
        wakes.wake();
        // Perhaps the end of the use of files.
        drop(lent);
        self.tell_left();
    }

    /// Takes a listener that nobody else tells of the end.
    pub fn outlives_its_task(&self, listener: Call) {
        self.left().push(listener);
        self.tell_left();
    }

    /// Tells them, if the log has ended.
    fn tell_left(&self) {
        if let Err(why) = self.check_closed() {
            let left = std::mem::take(&mut *self.left());
            left.into_iter().for_each(|listener| tell_end(listener, &why));
        }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Call>> {
        // Nothing that panics is done under this lock.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on news wake the runtime of the log; `false` if there are news already.
    pub fn arm(&self, waker: &std::task::Waker) -> bool {
        self.shared.lock().threads.arm(waker)
    }
}
