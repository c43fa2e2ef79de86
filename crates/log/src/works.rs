//! The synchronous part of an open log: plan and memory, under one lock. Tasks of the log's runtime
//! share it, and so do threads that write by themselves ([`crate::blocking`]).
//!
//! 1. The lock is never held over I/O, and no task waits while it holds it.
//! 2. Time does not go back here, whoever says what time it is.
//! 3. Each order of the plan is either given to the caller or lies in [`Works::jobs`] for the task of
//!    its lane.

use crate::encode::{bytes_of, encode};
use crate::plan::{Order, Plan};
use crate::ring::Ring;
use crate::sys::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
#[cfg(feature = "blocking")]
use crate::threads::{Threads, Wakes};
use crate::{LogError, Lsn, WhenFull};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use tantalum_rt::Nanos;

/// Writes of one device so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub writes: u64,
    pub bytes: u64,
    pub busy: Nanos,
    pub longest: Nanos,
}

/// An order and its bytes.
pub(crate) type Job = (Order, Vec<u8>);

/// Who forms new groups.
#[cfg_attr(not(feature = "blocking"), expect(dead_code, reason = "there are no threads"))]
pub(crate) enum Groups {
    /// Whoever asks; the tasks write them.
    Tasks,
    /// Nobody now.
    Nobody,
    /// A thread, which writes the first order itself, if the device is lent to threads.
    Thread,
}

/// Who forms a group.
#[cfg(feature = "blocking")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Former {
    Tasks,
    Threads,
}

pub(crate) struct Works {
    pub plan: Plan,
    pub ring: Ring,
    /// Records that were appended, and their bytes.
    pub records: (u64, u64),
    /// Where records end that are not wholly durable, and the end of the last one that is.
    ends: VecDeque<Lsn>,
    durable_end: Lsn,
    /// By device.
    pub written: Vec<Written>,
    /// What devices write into their blocks, by device.
    pub tags: Vec<u64>,
    /// What the task of each lane is to write.
    pub jobs: Vec<Option<Job>>,
    /// Threads that wait, or would write.
    #[cfg(feature = "blocking")]
    pub threads: Threads,
    unit: u32,
    memory: u64,
    when_full: WhenFull,
    now: Nanos,
}

impl Works {
    pub fn new(
        plan: Plan,
        ring: Ring,
        tags: Vec<u64>,
        unit: u32,
        (memory, when_full): (usize, WhenFull),
    ) -> Works {
        Works {
            written: vec![Written::default(); tags.len()],
            durable_end: ring.end(),
            plan,
            ring,
            records: (0, 0),
            ends: VecDeque::new(),
            tags,
            jobs: Vec::new(),
            #[cfg(feature = "blocking")]
            threads: Threads::default(),
            unit,
            memory: memory as u64,
            when_full,
            now: Nanos::ZERO,
        }
    }

    /// Adds a record. There must be room.
    pub fn add(&mut self, bytes: u64, frame: &[u8], pieces: &[&[u8]]) {
        let before = self.ring.end();
        self.ring.push(frame);
        pieces.iter().for_each(|piece| self.ring.push(piece));
        self.records = (self.records.0 + 1, self.records.1 + bytes);
        self.ends.push_back(self.ring.end());
        self.plan.append(self.ring.end().since(before));
    }

    /// Whether a record of so many bytes fits into memory, and onto the devices.
    pub fn room_for(&self, bytes: u64) -> (bool, bool) {
        (self.ring.free() >= bytes, self.plan.has_room(bytes))
    }

    /// That what is to be written finds no room, if that is to be an error
    /// ([`WhenFull::Fail`]).
    pub fn full(&self) -> Option<LogError> {
        let fails = self.when_full == WhenFull::Fail;
        fails.then(|| self.lacks_room()).flatten()
    }

    /// That what is to be written finds no room.
    pub fn lacks_room(&self) -> Option<LogError> {
        let (first, end) = (self.plan.checkpoint(), self.ring.end());
        self.plan.lacks_room().then_some(LogError::Full { first, end })
    }

    /// 2.
    pub fn time(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    /// Issues whatever can be issued, and forgets what memory need not hold. Gives the order that
    /// the asking thread has to write.
    pub fn issue(&mut self, now: Nanos, groups: Groups) -> Option<Order> {
        let now = self.time(now);
        self.plan.tick(now);
        let mut mine = None;
        loop {
            let order = match groups {
                Groups::Nobody => self.plan.next_but_groups(now),
                _ => self.plan.next(now),
            };
            let Some(order) = order else { break };
            match groups {
                Groups::Thread if mine.is_none() && self.is_lent(order.device) => {
                    mine = Some(order)
                }
                _ => self.give(order),
            }
        }
        self.forget();
        mine
    }

    /// To the task of its lane.
    fn give(&mut self, order: Order) {
        let mut bytes = vec![0; self.bytes_of(&order)];
        self.encode(&order, &mut bytes);
        let lane = order.lane;
        self.jobs[lane] = Some((order, bytes));
    }

    pub fn bytes_of(&self, order: &Order) -> usize {
        bytes_of(order, self.unit)
    }

    /// Fills in the bytes of an order.
    pub fn encode(&self, order: &Order, bytes: &mut [u8]) {
        let tag = self.tags[order.device];
        encode(order, |lsn, to| self.ring.copy(lsn, to), self.unit, tag, bytes);
    }

    /// Whether threads may write to the device.
    #[cfg(feature = "blocking")]
    fn is_lent(&self, device: usize) -> bool {
        self.threads.is_lent(device, self.tags[device])
    }

    /// There are no threads.
    #[cfg(not(feature = "blocking"))]
    fn is_lent(&self, _device: usize) -> bool {
        false
    }

    /// Who is to form the next group: the threads if they would and may.
    #[cfg(feature = "blocking")]
    pub fn former(&self) -> Option<Former> {
        let (_, device) = self.plan.lane_of_next_group()?;
        let may = self.is_lent(device) && !self.plan.hedges_pay();
        let threads = may && self.threads.would_write(self.plan.formed());
        Some(if threads { Former::Threads } else { Former::Tasks })
    }

    /// Whether the tasks form groups: if no thread would.
    pub fn tasks_form(&self) -> bool {
        #[cfg(feature = "blocking")]
        let threads =
            self.threads.would_write(self.plan.formed()) && self.former() == Some(Former::Threads);
        #[cfg(not(feature = "blocking"))]
        let threads = false;
        !threads
    }

    /// When to look at the plan again, if nothing happens before.
    pub fn wake_at(&self, now: Nanos) -> Option<Nanos> {
        #[cfg(feature = "blocking")]
        if !self.threads.lent.is_empty() {
            return self.plan.must_wake_at(now);
        }
        self.plan.wake_at(now)
    }

    /// Opens the way for threads: to one that waits for room, and to one that is to write.
    #[cfg(feature = "blocking")]
    pub fn let_on(&mut self, wakes: &mut Wakes) {
        self.threads.next_turn(wakes);
        if self.former() == Some(Former::Threads) {
            self.threads.call_writer(self.plan.formed(), wakes);
        }
    }

    /// Tells the runtime of the log what it has to do, after a thread has changed something.
    #[cfg(feature = "blocking")]
    pub fn tell_runtime(&mut self, now: Nanos, wakes: &mut Wakes) {
        let timer = self.plan.must_wake_at(now);
        let plan = &self.plan;
        let due = timer.is_some_and(|at| self.threads.timer.is_none_or(|t| at < t))
            || self.jobs.iter().any(|job| job.is_some())
            || plan.chore().is_some()
            || plan.is_draining()
            || plan.stopped();
        if due || self.former() == Some(Former::Tasks) {
            self.threads.tell(wakes);
        }
    }

    /// The end of the last record that is wholly durable, where the first one begins that is not.
    pub fn durable_end(&mut self) -> Lsn {
        let durable = self.plan.durable();
        while let Some(end) = self.ends.pop_front_if(|end| *end <= durable) {
            self.durable_end = end;
        }
        self.durable_end
    }

    fn forget(&mut self) {
        self.durable_end();
        self.ring.forget(self.plan.keep());
        if self.ring.free() < self.memory / 2 {
            self.plan.skip_archive();
            self.ring.forget(self.plan.keep());
        }
    }

    /// The write of an order has ended, well or not.
    pub fn done(&mut self, now: Nanos, order: &Order, bytes: usize, took: Nanos, ok: bool) {
        let written = &mut self.written[order.device];
        written.writes += 1;
        written.bytes += bytes as u64;
        written.busy += took;
        written.longest = written.longest.max(took);
        let now = self.time(now);
        self.plan.done(now, order.ticket, ok);
    }
}

/// The plan, while the lock is held.
pub(crate) struct PlanGuard<'a>(pub Guard<'a>);

impl Deref for PlanGuard<'_> {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.0.plan
    }
}

impl DerefMut for PlanGuard<'_> {
    fn deref_mut(&mut self) -> &mut Plan {
        &mut self.0.plan
    }
}

/// What tasks and threads share.
pub(crate) struct Shared {
    works: Mutex<Works>,
    /// The durable LSN, as it was published.
    durable: AtomicU64,
    /// How many tasks wait for a change that threads may bring about.
    pub watched: AtomicUsize,
}

impl Shared {
    pub fn new(works: Works) -> Shared {
        let durable = AtomicU64::new(works.plan.durable().0);
        Shared { works: Mutex::new(works), durable, watched: AtomicUsize::new(0) }
    }

    /// Whoever holds the lock must not lock again.
    pub fn lock(&self) -> Guard<'_> {
        let works = self.works.lock().unwrap_or_else(|e| e.into_inner());
        Guard { works, panics: std::thread::panicking() }
    }

    /// Says without the lock what is durable, and whether that is more than before. The plan that
    /// is locked has said so.
    pub fn publish(&self, durable: Lsn) -> bool {
        self.durable.swap(durable.0, Ordering::AcqRel) < durable.0
    }

    /// What was published.
    #[cfg(feature = "blocking")]
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    #[cfg(feature = "blocking")]
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire) > 0
    }
}

/// What the runtime has found to do.
pub(crate) struct Looked {
    pub durable: Lsn,
    /// Lanes whose tasks have something to write.
    pub lanes: Vec<usize>,
    pub chore: bool,
    pub draining: bool,
    pub stopped: bool,
    pub lacks_room: bool,
    pub wake_at: Option<Nanos>,
    #[cfg(feature = "blocking")]
    pub wakes: Wakes,
}

impl Shared {
    /// What the runtime of the log does after a change: it issues what is for tasks, and says what
    /// else is to be done, without the lock.
    pub fn look(&self, now: Nanos) -> Looked {
        let mut works = self.lock();
        let now = works.time(now);
        #[cfg(feature = "blocking")]
        works.threads.looked();
        let groups = if works.tasks_form() { Groups::Tasks } else { Groups::Nobody };
        works.issue(now, groups);
        let plan = &works.plan;
        let durable = plan.durable();
        let (chore, draining) = (plan.chore().is_some(), plan.is_draining());
        let stopped = plan.stopped();
        let lacks_room = plan.lacks_room();
        self.publish(durable);
        let wake_at = works.wake_at(now);
        #[cfg(feature = "blocking")]
        let wakes = {
            let mut wakes = Wakes::default();
            works.threads.timer = wake_at;
            works.threads.open_gates(durable, &mut wakes);
            works.let_on(&mut wakes);
            if works.full().is_some() {
                works.threads.wake_gates(&mut wakes);
            }
            wakes
        };
        let lanes = works.jobs.iter().enumerate().filter(|(_, job)| job.is_some());
        Looked {
            durable,
            lanes: lanes.map(|(lane, _)| lane).collect(),
            chore,
            draining,
            stopped,
            lacks_room,
            wake_at,
            #[cfg(feature = "blocking")]
            wakes,
        }
    }
}

/// The lock. If its holder panics the log has failed, since nobody knows what was half done. (One
/// that takes it while it panics, in a destructor, does not panic under it.)
pub(crate) struct Guard<'a> {
    works: MutexGuard<'a, Works>,
    panics: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panics {
            self.works.plan.stop();
            #[cfg(feature = "blocking")]
            self.works.threads.panicked();
        }
    }
}

impl Deref for Guard<'_> {
    type Target = Works;
    fn deref(&self) -> &Works {
        &self.works
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Works {
        &mut self.works
    }
}
