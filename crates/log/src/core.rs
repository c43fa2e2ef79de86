//! What the tasks of an open log share. Plan and memory lie in [`Works`], which threads share, too.
//!
//! 1. After each change [`Core::pump`] carries on whatever the plan wants, and wakes whoever waits.
//!    No lock and no borrow is held when it is called.
//! 2. States are written one after the other ([`Core::keeper`]), and only while no device has to be
//!    left.

use crate::Lsn;
use crate::error::LogError;
use crate::member::Member;
use crate::merge::Merge;
use crate::open::Opened;
use crate::options::{OpenOptions, WhenFull};
use crate::pace::Paces;
use crate::plan::Health;
use crate::record::{Next, look};
use crate::ring::Ring;
use crate::scan::{Span, Stream};
use crate::state::{Standing, State};
use crate::superblock::Uuid;
use crate::sys::{AtomicUsize, Ordering};
use crate::wait::Waiters;
use crate::works::{Guard, PlanGuard, Shared, Works};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tantalum_device::BlockDevice;
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Domain, Nanos, Rt};

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
    pub shared: Arc<Shared>,
    pub state: RefCell<State>,
    /// Members that lack it (of a log that was opened for reading).
    pub lagging: RefCell<Vec<Rc<Member<D>>>>,
    /// The checkpoint. Readers share it.
    pub first: Rc<Cell<Lsn>>,
    pub lanes: RefCell<Vec<Rc<Waiters>>>,
    /// The durable LSN, or that the log has failed.
    pub changed: Waiters,
    pub room: Waiters,
    pub chores: Waiters,
    pub timer: Waiters,
    pub wake_at: Cell<Option<Nanos>>,
    pub append_turn: Mutex,
    pub keeper: Mutex,
    /// Checkpoints that wait for their turn to write a state.
    pub checkpoints: Cell<u32>,
    /// A device that catches up, how much it lacked when it last began to, and where the stream
    /// ended then that gets it.
    pub behind: Cell<Option<(usize, u64, Lsn)>>,
    /// How long each device usually takes for a state or a flush.
    pub paces: RefCell<Vec<Paces>>,
    /// How much each device was given beside groups that has not ended.
    pub given: RefCell<Vec<u32>>,
    failed: RefCell<Option<String>>,
    told: Cell<Lsn>,
    /// The room of an empty log.
    all_room: u64,
}

/// A task that waits for what threads may bring about.
struct Watch<'a>(&'a AtomicUsize);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Makes the log, without its tasks.
    pub fn start(rt: &Rt, domain: &Domain, opened: Opened<D>, options: OpenOptions) -> Rc<Core<D>> {
        let Opened { members, lagging, state, recovered, short } = opened;
        let (start, end) = (recovered.copy_from, recovered.end);
        let superblock = members.iter().flatten().next().map(|m| m.superblock);
        let superblock = superblock.expect("an open log has a device");
        let (mut plan, all_room) = crate::layout::plan(&members, &state, &recovered, &options);
        if short {
            plan.set_short(end);
        }
        let payload = crate::format::payload(superblock.unit);
        let block = crate::format::block_of(start, payload);
        let memory = options.memory.max(recovered.tail.len());
        let mut ring = Ring::new(block, memory);
        // The beginning of the block in which the log goes on is repeated by the first group.
        ring.push(&recovered.tail);
        assert_eq!(ring.end(), end, "memory has the end of the log");
        let plan_durable = plan.durable();
        let tags = members.iter().map(|m| m.as_ref().map_or(0, |m| m.tag)).collect();
        let works =
            Works::new(plan, ring, tags, superblock.unit, (options.memory, options.when_full));
        let paces = vec![Paces::default(); members.len()];
        let given = vec![0; members.len()];
        let waiters = |what| Waiters::new(rt, what);
        Rc::new(Core {
            rt: rt.clone(),
            domain: domain.clone(),
            options,
            members: RefCell::new(members),
            set: superblock.set,
            unit: superblock.unit,
            copies: superblock.copies,
            record_limit: superblock.record_limit,
            shared: Arc::new(Shared::new(works)),
            first: Rc::new(Cell::new(state.checkpoint)),
            state: RefCell::new(state),
            lagging: RefCell::new(lagging),
            lanes: RefCell::default(),
            changed: waiters("the log to become durable"),
            room: waiters("room in the log"),
            chores: waiters("something to do for the keeper of the log"),
            timer: waiters("a write of the log to become slow"),
            wake_at: Cell::new(None),
            append_turn: Mutex::new(rt, "the turn to append to the log"),
            keeper: Mutex::new(rt, "the state of the log"),
            checkpoints: Cell::new(0),
            behind: Cell::new(None),
            paces: RefCell::new(paces),
            given: RefCell::new(given),
            failed: RefCell::new(None),
            told: Cell::new(plan_durable),
            all_room,
        })
    }

    /// The synchronous part, locked.
    pub fn works(&self) -> Guard<'_> {
        self.shared.lock()
    }

    /// The plan, locked with all of the synchronous part.
    pub fn plan(&self) -> PlanGuard<'_> {
        PlanGuard(self.works())
    }

    pub fn durable(&self) -> Lsn {
        self.plan().durable()
    }

    pub fn end(&self) -> Lsn {
        self.works().ring.end()
    }

    pub fn want(&self, lsn: Lsn) {
        self.plan().want(lsn);
    }

    /// Whether a record of so many bytes fits into memory, and onto the devices.
    pub fn room_for(&self, bytes: u64) -> (bool, bool) {
        self.works().room_for(bytes)
    }

    /// Waits until everything before `lsn` is durable.
    ///
    /// # Errors
    /// Why the log has failed, or what `full` says.
    pub async fn until_durable(
        &self,
        lsn: Lsn,
        full: impl Fn(&Works) -> Option<LogError>,
    ) -> Result<(), LogError> {
        let is_full = || full(&self.works());
        let is_over = || self.durable() >= lsn || self.is_failed() || is_full().is_some();
        loop {
            // (Threads change what was seen: whatever ended the wait is looked at once more, and may
            // be over.)
            let full = is_full();
            if self.durable() >= lsn {
                return Ok(());
            }
            self.check_failed()?;
            if let Some(full) = full {
                return Err(full);
            }
            self.until_changed(|| !is_over()).await;
        }
    }

    /// Whether an append of so many bytes need not wait: it fits, or it fails.
    pub fn fits(&self, bytes: u64) -> bool {
        let (in_memory, on_devices) = self.room_for(bytes);
        let fails = !on_devices && self.options.when_full == WhenFull::Fail;
        in_memory && on_devices || fails || self.is_failed()
    }

    /// Whether an empty log has room for two records of so many bytes, and memory for one.
    pub fn holds_twice(&self, bytes: u64) -> bool {
        let devices: Vec<_> =
            self.members.borrow().iter().flatten().map(|m| m.superblock).collect();
        crate::layout::holds_twice(&devices, &self.options, bytes)
    }

    /// Whether at most `percent` of all room is left.
    pub fn is_short(&self, percent: u64) -> bool {
        self.plan().room() * 100 <= self.all_room * percent
    }

    /// Waits until the durable LSN or something else about the log has changed so that this is
    /// over, by a task or a thread.
    pub async fn until_changed(&self, not_yet: impl FnMut() -> bool) {
        self.shared.watched.fetch_add(1, Ordering::AcqRel);
        let _watch = Watch(&self.shared.watched);
        self.changed.wait_while(not_yet).await;
    }

    /// Adds a record, and carries on. There must be room.
    pub fn push(&self, bytes: u64, frame: &[u8], pieces: &[&[u8]]) {
        self.works().add(bytes, frame, pieces);
        self.pump();
    }

    /// What is durable, and where the last record ends that is wholly durable.
    pub fn durable_and_record(&self) -> (Lsn, Lsn) {
        let mut works = self.works();
        (works.plan.durable(), works.durable_end())
    }

    /// Whether memory has a record that begins at `lsn`, or the log ends there.
    pub fn begins_in_memory(&self, lsn: Lsn) -> bool {
        let works = self.works();
        let ring = &works.ring;
        if lsn == ring.end() {
            return true;
        }
        if lsn < ring.start() || lsn > ring.end() {
            return false;
        }
        let mut length = ring.end().since(lsn).min(crate::record::FRAME as u64);
        loop {
            let mut bytes = vec![0; length as usize];
            ring.copy(lsn, &mut bytes);
            match look(lsn, &bytes, self.record_limit) {
                Next::Whole(_) => return true,
                Next::Needs(more) if ring.end().since(lsn) >= more as u64 => length = more as u64,
                _ => return false,
            }
        }
    }

    /// Carries on whatever can go on.
    pub fn pump(&self) {
        let looked = self.shared.look(self.rt.now());
        #[cfg(feature = "blocking")]
        looked.wakes.wake();
        looked.lanes.into_iter().for_each(|lane| self.lanes.borrow()[lane].notify_all());
        if looked.chore {
            self.chores.notify_all();
        }
        if looked.draining || looked.lacks_room {
            self.changed.notify_all();
        }
        if looked.lacks_room {
            self.room.notify_all();
        }
        if looked.wake_at != self.wake_at.get() {
            self.wake_at.set(looked.wake_at);
            self.timer.notify_all();
        }
        if looked.stopped {
            self.fail(format!("its devices failed ({})", self.failed_devices().join("; ")));
            // Whoever closes the log waits until nothing is in flight.
            self.changed.notify_all();
        }
        if looked.durable != self.told.get() {
            self.told.set(looked.durable);
            self.changed.notify_all();
            self.room.notify_all();
        }
    }

    /// The devices that failed, and why.
    fn failed_devices(&self) -> Vec<String> {
        let health = self.plan().health().to_vec();
        let failed = (0..health.len()).filter(|d| health[*d] == Health::Failed);
        failed.filter_map(|d| Some(self.member(d)?.what_failed())).collect()
    }

    pub fn member(&self, device: usize) -> Option<Rc<Member<D>>> {
        self.members.borrow()[device].clone()
    }

    /// The name of a device that has something which has not ended.
    pub fn unanswered(&self) -> Option<String> {
        let (plan, given) = (self.plan(), self.given.borrow());
        let is_waited_for = |d: &usize| plan.is_waited_for(*d) || given[*d] > 0;
        let device = (0..given.len()).find(is_waited_for)?;
        self.member(device).map(|m| m.name.clone())
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
        self.plan().stop();
        if self.failed.borrow().is_some() {
            return;
        }
        *self.failed.borrow_mut() = Some(why);
        self.changed.notify_all();
        self.room.notify_all();
        self.chores.notify_all();
    }

    /// The streams that count, as far as they are written now.
    pub fn streams(&self) -> Vec<Rc<Stream<D>>> {
        let plan = self.plan();
        let streams = plan.streams().filter_map(|(device, stream, area)| {
            // What a lost device holds does not count.
            let lost = self.state.borrow().devices[device].1 == Standing::Lost;
            let member = self.member(device).filter(|_| !lost)?;
            let span = |(section, unit, units)| Span { section, unit, units };
            let spans = area.written().into_iter().map(span).collect();
            Some(Rc::new(Stream { member, stream, spans }))
        });
        streams.collect()
    }

    /// The same of the devices that take part.
    pub fn streams_present(&self) -> Vec<Rc<Stream<D>>> {
        let health = self.plan().health().to_vec();
        let is_present =
            |s: &Rc<Stream<D>>| health[s.member.superblock.index as usize] == Health::Present;
        self.streams().into_iter().filter(is_present).collect()
    }

    /// The log from the block of `from` on, as far as it is written now.
    pub fn merge(&self, from: Lsn) -> Merge<D> {
        self.merge_of(self.streams(), from)
    }

    /// The same as these streams have it.
    pub fn merge_of(&self, streams: Vec<Rc<Stream<D>>>, from: Lsn) -> Merge<D> {
        let state = Rc::new(self.state.borrow().clone());
        let merge = Merge::new(&self.rt, streams, state, from);
        if self.copies > 1 { merge.with_copies() } else { merge }
    }
}
