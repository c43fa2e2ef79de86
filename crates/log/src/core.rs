//! What the tasks of an open log share: plan, memory, state. Everything here is synchronous but
//! the writing of states.
//!
//! 1. After each change [`Core::pump`] carries on whatever the plan wants, and wakes whoever waits.
//! 2. States are written one after the other ([`Core::keeper`]), and only while no device has to be
//!    left.

use crate::Lsn;
use crate::encode::encode;
use crate::error::LogError;
use crate::member::Member;
use crate::merge::Merge;
use crate::open::Opened;
use crate::options::OpenOptions;
use crate::plan::{Order, Plan};
use crate::record::{Next, look};
use crate::ring::Ring;
use crate::scan::{Span, Stream};
use crate::state::{Standing, State};
use crate::superblock::Uuid;
use crate::wait::Waiters;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Domain, Nanos, Rt};

/// Writes of one device so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub writes: u64,
    pub bytes: u64,
    pub busy: Nanos,
    pub longest: Nanos,
}

/// Records that come from elsewhere: who feeds the log, and is told how it is.
pub(crate) trait Front {
    /// Before anything is carried on: records may be added ([`Core::add`]).
    fn before(&self);
    /// After that.
    fn after(&self);
}

/// An order and its bytes.
pub(crate) type Job = (Order, Vec<u8>);

pub(crate) struct Core<D> {
    pub rt: Rt,
    /// Its tasks. They end with it.
    pub domain: Domain,
    pub options: OpenOptions,
    pub members: RefCell<Vec<Option<Rc<Member<D>>>>>,
    /// The identity of the log.
    pub set: Uuid,
    pub unit: u32,
    pub copies: u8,
    pub record_limit: u32,
    pub plan: RefCell<Plan>,
    pub ring: RefCell<Ring>,
    pub state: RefCell<State>,
    /// The checkpoint. Readers share it.
    pub first: Rc<Cell<Lsn>>,
    /// What each lane is to write.
    pub jobs: RefCell<Vec<Option<Job>>>,
    pub lanes: RefCell<Vec<Rc<Waiters>>>,
    /// The durable LSN, or that the log has failed.
    pub changed: Waiters,
    pub room: Waiters,
    pub chores: Waiters,
    pub timer: Waiters,
    pub wake_at: Cell<Option<Nanos>>,
    pub append_turn: Mutex,
    pub keeper: Mutex,
    failed: RefCell<Option<String>>,
    told: Cell<Lsn>,
    /// The room of an empty log.
    all_room: u64,
    pub records: Cell<(u64, u64)>,
    pub written: RefCell<Vec<Written>>,
    pub front: OnceCell<Rc<dyn Front>>,
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Makes the log, without its tasks.
    pub fn start(rt: &Rt, domain: &Domain, opened: Opened<D>, options: OpenOptions) -> Rc<Core<D>> {
        let Opened { members, state, recovered } = opened;
        let (start, end) = (recovered.copy_from, recovered.end);
        let superblock = members.iter().flatten().next().map(|m| m.superblock);
        let superblock = superblock.expect("an open log has a device");
        let (plan, all_room) = crate::layout::plan(&members, &state, &recovered, &options);
        let payload = crate::format::payload(superblock.unit);
        let block = crate::format::block_of(start, payload);
        let memory = options.memory.max(recovered.tail.len());
        let mut ring = Ring::new(block, memory);
        // The beginning of the block in which the log goes on is repeated by the first group.
        ring.push(&recovered.tail);
        assert_eq!(ring.end(), end, "memory has the end of the log");
        let plan_durable = plan.durable();
        let waiters = |what| Waiters::new(rt, what);
        Rc::new(Core {
            rt: rt.clone(),
            domain: domain.clone(),
            options,
            written: RefCell::new(vec![Written::default(); members.len()]),
            members: RefCell::new(members),
            set: superblock.set,
            unit: superblock.unit,
            copies: superblock.copies,
            record_limit: superblock.record_limit,
            plan: RefCell::new(plan),
            ring: RefCell::new(ring),
            first: Rc::new(Cell::new(state.checkpoint)),
            state: RefCell::new(state),
            jobs: RefCell::default(),
            lanes: RefCell::default(),
            changed: waiters("the log to become durable"),
            room: waiters("room in the log"),
            chores: waiters("something to do for the keeper of the log"),
            timer: waiters("a write of the log to become slow"),
            wake_at: Cell::new(None),
            append_turn: Mutex::new(rt, "the turn to append to the log"),
            keeper: Mutex::new(rt, "the state of the log"),
            failed: RefCell::new(None),
            told: Cell::new(plan_durable),
            all_room,
            records: Cell::new((0, 0)),
            front: OnceCell::new(),
        })
    }

    pub fn durable(&self) -> Lsn {
        self.plan.borrow().durable()
    }

    pub fn end(&self) -> Lsn {
        self.ring.borrow().end()
    }

    pub fn want(&self, lsn: Lsn) {
        self.plan.borrow_mut().want(lsn);
    }

    /// Whether a record of so many bytes fits into memory, and onto the devices.
    pub fn room_for(&self, bytes: u64) -> (bool, bool) {
        (self.ring.borrow().free() >= bytes, self.plan.borrow().has_room(bytes))
    }

    /// Whether it need not wait: it fits, or it cannot fit any more.
    pub fn fits(&self, bytes: u64) -> bool {
        self.room_for(bytes) == (true, true) || self.is_failed()
    }

    /// Whether an empty log has room for two records of so many bytes, and memory for one.
    pub fn holds_twice(&self, bytes: u64) -> bool {
        self.options.memory as u64 / 2 >= bytes
            && self.all_room >= 2 * self.plan.borrow().groups(bytes)
    }

    /// Whether at most `percent` of all room is left.
    pub fn is_short(&self, percent: u64) -> bool {
        self.plan.borrow().room() * 100 <= self.all_room * percent
    }

    /// Adds a record, and carries on. There must be room.
    pub fn push(&self, bytes: u64, frame: &[u8], pieces: &[&[u8]]) {
        self.add(bytes, frame, pieces);
        self.pump();
    }

    /// Adds a record. There must be room.
    pub fn add(&self, bytes: u64, frame: &[u8], pieces: &[&[u8]]) {
        let mut ring = self.ring.borrow_mut();
        let before = ring.end();
        ring.push(frame);
        pieces.iter().for_each(|piece| ring.push(piece));
        let added = ring.end().since(before);
        drop(ring);
        let (records, all) = self.records.get();
        self.records.set((records + 1, all + bytes));
        self.plan.borrow_mut().append(added);
    }

    /// Whether a record begins at `lsn`; `None` if memory does not have it.
    pub fn begins_in_memory(&self, lsn: Lsn) -> Option<bool> {
        let ring = self.ring.borrow();
        if lsn == ring.end() {
            return Some(true);
        }
        if lsn < ring.start() || lsn > ring.end() {
            return None;
        }
        let mut length = ring.end().since(lsn).min(crate::record::FRAME as u64);
        loop {
            let mut bytes = vec![0; length as usize];
            ring.copy(lsn, &mut bytes);
            match look(lsn, &bytes, self.record_limit) {
                Next::Whole(_) => return Some(true),
                Next::Needs(more) if ring.end().since(lsn) >= more as u64 => length = more as u64,
                _ => return Some(false),
            }
        }
    }

    /// Carries on whatever can go on.
    pub fn pump(&self) {
        if let Some(front) = self.front.get() {
            front.before();
        }
        self.carry_on();
        if let Some(front) = self.front.get() {
            front.after();
        }
    }

    fn carry_on(&self) {
        let now = self.rt.now();
        {
            let mut plan = self.plan.borrow_mut();
            plan.tick(now);
            while let Some(order) = plan.next(now) {
                let lane = order.lane;
                let tag = self.member(order.device).map_or(0, |m| m.tag);
                let ring = self.ring.borrow();
                let bytes = encode(&order, |lsn, to| ring.copy(lsn, to), self.unit, tag);
                drop(ring);
                self.jobs.borrow_mut()[lane] = Some((order, bytes));
                self.lanes.borrow()[lane].notify_all();
            }
            let mut ring = self.ring.borrow_mut();
            ring.forget(plan.keep());
            if ring.free() < self.options.memory as u64 / 2 {
                plan.skip_archive();
                ring.forget(plan.keep());
            }
            if plan.chore().is_some() {
                self.chores.notify_all();
            }
            if plan.is_draining() {
                self.changed.notify_all();
            }
            let wake_at = plan.wake_at(now);
            if wake_at != self.wake_at.get() {
                self.wake_at.set(wake_at);
                self.timer.notify_all();
            }
        }
        if self.plan.borrow().stopped() {
            self.fail("its devices failed".to_string());
        }
        if self.durable() != self.told.get() {
            self.told.set(self.durable());
            self.changed.notify_all();
            self.room.notify_all();
        }
    }

    pub fn member(&self, device: usize) -> Option<Rc<Member<D>>> {
        self.members.borrow()[device].clone()
    }

    pub fn is_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// # Errors
    /// Why the log takes nothing any more.
    pub fn check_failed(&self) -> Result<(), LogError> {
        match &*self.failed.borrow() {
            Some(why) => Err(LogError::Failed(why.clone())),
            None => Ok(()),
        }
    }

    /// The log takes nothing any more.
    pub fn fail(&self, why: String) {
        self.plan.borrow_mut().stop();
        if self.failed.borrow().is_some() {
            return;
        }
        *self.failed.borrow_mut() = Some(why);
        self.changed.notify_all();
        self.room.notify_all();
        self.chores.notify_all();
    }

    /// The log from the block of `from` on, as far as it is written now.
    pub fn merge(&self, from: Lsn) -> Merge<D> {
        let plan = self.plan.borrow();
        let streams = plan.streams().filter_map(|(device, stream, area)| {
            // What a lost device holds does not count.
            let lost = self.state.borrow().devices[device].1 == Standing::Lost;
            let member = self.member(device).filter(|_| !lost)?;
            let span = |(section, unit, units)| Span { section, unit, units };
            let spans = area.written().into_iter().map(span).collect();
            Some(Rc::new(Stream { member, stream, spans }))
        });
        let state = Rc::new(self.state.borrow().clone());
        let merge = Merge::new(&self.rt, streams.collect(), state, from);
        if self.copies > 1 { merge.with_copies() } else { merge }
    }
}
