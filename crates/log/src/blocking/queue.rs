//! Records on their way from many threads to the thread of the log, and threads that wait.
//!
//! 1. An append gets its LSN and is copied under one lock, so records lie in the queue in the order
//!    of their LSNs. The lock is never held over I/O, a wait or a wake.
//! 2. What is accepted fits: the queue never reaches beyond [`Room::limit`], up to which memory and
//!    devices of the log have room.
//! 3. A thread that waits for an LSN is woken once, when that LSN is durable or the log has ended.
//!    The durable LSN is stored before waiters are looked for, and a waiter looks at it under the
//!    lock: neither can miss the other.
//! 4. Threads that wait for room take their turn in the order of their arrival.
//! 5. The thread of the log is woken only if it said that it has nothing to do, once until it says
//!    so again. What comes while it writes waits for the end of the write, and makes one group.

use super::sys::{AtomicU64, Mutex, MutexGuard, Ordering, Parker};
use crate::record::FRAME;
use crate::{Appended, LogError, Lsn, WhenFull};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

/// Bytes for which the thread of the log is woken though nobody waits for them.
const MANY: usize = 64 << 10;
/// Bytes of memory that an empty batch keeps.
const KEPT: usize = 1 << 20;

/// Records, one behind the other.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Batch {
    /// What was large is given back.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > KEPT {
            *self = Batch::default();
        }
        self.bytes.clear();
        self.lengths.clear();
    }

    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |length| {
            let (record, behind) = rest.split_at(*length);
            rest = behind;
            record
        })
    }

    fn push(&mut self, pieces: &[&[u8]]) {
        let before = self.bytes.len();
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.lengths.push(self.bytes.len() - before);
    }
}

/// Up to where appends are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Memory has room up to here.
    pub memory: Lsn,
    /// The devices have room up to here.
    pub devices: Lsn,
    /// So much room that this holds until after the next batch is taken.
    pub ample: bool,
}

impl Room {
    fn limit(&self) -> Lsn {
        self.memory.min(self.devices)
    }
}

/// What the thread of the log takes with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// Somebody waits until everything before it is durable.
    pub wanted: Lsn,
    /// Somebody waits for room.
    pub asked: bool,
}

/// What does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub record_limit: u32,
    pub read_only: bool,
    pub when_full: WhenFull,
}

pub(crate) struct Queue {
    rules: Rules,
    durable: AtomicU64,
    state: Mutex<State>,
}

struct State {
    batch: Batch,
    first: Lsn,
    end: Lsn,
    room: Room,
    /// A batch was taken, and how much room there is is not known yet.
    unknown: bool,
    wanted: Lsn,
    asked: bool,
    /// There is something for the thread of the log.
    news: bool,
    /// Wakes the thread of the log, which has nothing to do.
    owner: Option<Waker>,
    /// Threads that wait for an LSN, with a number that makes them differ.
    waiting: BTreeMap<(u64, u64), Arc<Parker>>,
    number: u64,
    turns: VecDeque<Arc<Parker>>,
    /// No appends are accepted any more.
    closing: bool,
    closed: Option<LogError>,
}

impl State {
    /// Something for the thread of the log: who wakes it, once the lock is free.
    fn tell(&mut self) -> Option<Waker> {
        self.news = true;
        self.owner.take()
    }

    fn check_open(&self) -> Result<(), LogError> {
        match &self.closed {
            Some(why) => Err(why.clone()),
            None if self.closing => Err(closed()),
            None => Ok(()),
        }
    }

    fn wait_for(&mut self, lsn: Lsn) -> Arc<Parker> {
        let parker = Parker::new();
        self.number += 1;
        self.waiting.insert((lsn.0, self.number), parker.clone());
        parker
    }
}

/// What every call returns once the log was closed.
pub(crate) fn closed() -> LogError {
    LogError::Failed("it was closed".to_string())
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The side of the many threads.
impl Queue {
    /// Whose log has `first` and `durable`, and ends at `end`.
    pub fn new(rules: Rules, first: Lsn, durable: Lsn, end: Lsn, room: Room) -> Queue {
        let state = State {
            batch: Batch::default(),
            first,
            end,
            room,
            unknown: false,
            wanted: durable,
            asked: false,
            news: false,
            owner: None,
            waiting: BTreeMap::new(),
            number: 0,
            turns: VecDeque::new(),
            closing: false,
            closed: None,
        };
        Queue { rules, durable: AtomicU64::new(durable.0), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub fn end(&self) -> Lsn {
        self.state().end
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
        let mut state = self.state();
        state.check_open()?;
        if !state.turns.is_empty() || state.end.plus(whole) > state.room.limit() {
            state = self.take_turn(state, whole)?;
        }
        let lsn = state.end;
        let end = lsn.plus(whole);
        state.batch.push(pieces);
        state.end = end;
        let next = state.turns.front().cloned();
        if !durable {
            let many = state.batch.bytes.len() >= MANY;
            let owner = if many { state.tell() } else { None };
            drop(state);
            wake(owner);
            next.inspect(|p| p.wake());
            return Ok(Appended { lsn, end });
        }
        let (parker, owner) = self.want(&mut state, end);
        drop(state);
        wake(owner);
        next.inspect(|p| p.wake());
        self.finish(&parker, end)?;
        Ok(Appended { lsn, end })
    }

    /// Waits until it is the turn of this append and there is room for it.
    fn take_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        whole: u64,
    ) -> Result<MutexGuard<'a, State>, LogError> {
        let mut mine = Parker::new();
        state.turns.push_back(mine.clone());
        loop {
            let first = state.turns.front().is_some_and(|p| Arc::ptr_eq(p, &mine));
            let end = state.end.plus(whole);
            let full = !state.unknown && end > state.room.devices;
            let result = match state.check_open() {
                Err(e) => Some(Err(e)),
                Ok(()) if first && end <= state.room.limit() => Some(Ok(())),
                Ok(()) if first && full && self.rules.when_full == WhenFull::Fail => {
                    Some(Err(LogError::Full { first: state.first, end: state.end }))
                }
                Ok(()) => None,
            };
            if let Some(result) = result {
                state.turns.retain(|p| !Arc::ptr_eq(p, &mine));
                if let Err(e) = result {
                    let next = state.turns.front().cloned();
                    drop(state);
                    next.inspect(|p| p.wake());
                    return Err(e);
                }
                return Ok(state);
            }
            let mut owner = None;
            if first {
                state.asked = true;
                owner = state.tell();
            }
            drop(state);
            wake(owner);
            mine.wait();
            state = self.state();
            // One that was woken wakes at once: another takes its place.
            let again = Parker::new();
            if let Some(place) = state.turns.iter_mut().find(|p| Arc::ptr_eq(p, &mine)) {
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
        let mut state = self.state();
        let durable = self.durable();
        if durable >= lsn {
            return Ok(());
        }
        if let Some(why) = &state.closed {
            return Err(why.clone());
        }
        if lsn > state.end {
            return Err(LogError::NotDurable { lsn, durable });
        }
        let (parker, owner) = self.want(&mut state, lsn);
        drop(state);
        wake(owner);
        self.finish(&parker, lsn)
    }

    /// Under the lock, under which `lsn` was not durable and the log not closed.
    fn want(&self, state: &mut State, lsn: Lsn) -> (Arc<Parker>, Option<Waker>) {
        let owner = match lsn > state.wanted {
            true => state.tell(),
            false => None,
        };
        state.wanted = state.wanted.max(lsn);
        (state.wait_for(lsn), owner)
    }

    fn finish(&self, parker: &Parker, lsn: Lsn) -> Result<(), LogError> {
        parker.wait();
        match self.durable() >= lsn {
            true => Ok(()),
            false => Err(self.why_closed()),
        }
    }

    /// # Errors
    /// Why the queue is closed, if it is.
    pub fn check_closed(&self) -> Result<(), LogError> {
        self.state().closed.clone().map_or(Ok(()), Err)
    }

    /// Waits until the queue is closed, and says why it is.
    pub fn why_closed(&self) -> LogError {
        loop {
            let mut state = self.state();
            if let Some(why) = &state.closed {
                return why.clone();
            }
            // No LSN is that large: only the end of the log wakes it.
            let parker = state.wait_for(Lsn(u64::MAX));
            drop(state);
            parker.wait();
        }
    }

    /// Accepts no appends any more.
    pub fn stop_appends(&self) {
        let mut state = self.state();
        state.closing = true;
        let turns = std::mem::take(&mut state.turns);
        drop(state);
        turns.iter().for_each(|p| p.wake());
    }
}

/// The side of the thread of the log.
impl Queue {
    /// Takes all records, in place of an empty batch.
    pub fn take(&self, batch: &mut Batch) -> News {
        batch.clear();
        let mut state = self.state();
        std::mem::swap(&mut state.batch, batch);
        if !state.room.ample {
            // How many groups the batch makes is known only when it is in the log.
            (state.room.devices, state.unknown) = (state.end, true);
        }
        (state.news, state.owner) = (false, None);
        News { wanted: state.wanted, asked: std::mem::take(&mut state.asked) }
    }

    /// From now on news wake the thread of the log; `false` if there are news already.
    pub fn arm(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.news {
            return false;
        }
        state.owner = Some(waker.clone());
        true
    }

    /// Says what is durable and how much room there is, and wakes whom that concerns.
    pub fn publish(&self, first: Lsn, durable: Lsn, room: Room) {
        let moved = durable > self.durable();
        self.durable.store(durable.0, Ordering::Release);
        let mut state = self.state();
        let more = state.unknown || room != state.room;
        (state.first, state.room, state.unknown) = (first, room, false);
        let next = state.turns.front().filter(|_| more).cloned();
        let mut woken = BTreeMap::new();
        if moved {
            woken = state.waiting.split_off(&(durable.0.saturating_add(1), 0));
            std::mem::swap(&mut state.waiting, &mut woken);
        }
        drop(state);
        next.inspect(|p| p.wake());
        woken.values().for_each(|p| p.wake());
    }

    /// The log has ended. Every call fails from now on; the first reason counts.
    pub fn close(&self, why: LogError) {
        let mut state = self.state();
        state.closed.get_or_insert(why);
        let (waiting, turns) =
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.turns));
        drop(state);
        waiting.values().for_each(|p| p.wake());
        turns.iter().for_each(|p| p.wake());
    }
}
