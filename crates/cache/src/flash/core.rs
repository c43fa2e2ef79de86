//! What the calls and the tasks of a cache share, and the way of a page into the ring.
//!
//! A page goes this way: `evict.rs` (may it leave RAM, must it be written) → here (the open batch;
//! sealing) → `writer.rs` (one write for each part) → `front.rs` (second chance, slow store). What
//! `ring.rs` decides orders all of that. `fetch.rs` reads, `keeper.rs` writes segments.
//!
//! 1. Pages enter the open part in one poll: its bytes, its index entry, and the end of the older
//!    version. So a fetch finds the newest version at any moment, in memory until its part is
//!    durable, then on flash.
//! 2. A call that waits for a part ends well only when the part is durable.
//! 3. Once the flash device has failed a write, or the cache is closed, nothing is changed any more.
//!    Fetches go on.
//! 4. Bounded. Memory has the open part and [`DEPTH`](crate::flash::ring::DEPTH) sealed ones. What
//!    does not fit waits.
//! 5. **Parts.** What has to be durable before a batch is full is written as a part of it. The next
//!    pages enter another part, if its descriptor and a frame still fit the batch.

use crate::flash::error::CacheError;
use crate::flash::format::Mode;
use crate::flash::format::{Frame, Label, Part, Superblock, checksum};
use crate::flash::host::Host;
use crate::flash::index::{Index, Place};
use crate::flash::medium::Medium;
use crate::flash::options::OpenOptions;
use crate::flash::pending::Pending;
use crate::flash::ring::Ring;
use crate::flash::slow::SlowStore;
use crate::flash::stats::CacheStats;
use crate::policy::{Ghosts, Guard};
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::sync::{Mutex, Semaphore, WaitQueue};
use tantalum_rt::{Domain, First, Nanos, Rt, first};

/// The part that pages enter.
#[derive(Default)]
pub(crate) struct Open {
    /// Room for the descriptor, then the frames that are in.
    pub bytes: Vec<u8>,
    /// When the first page or tombstone entered.
    pub since: Option<Nanos>,
    /// It is sealed as soon as it can be, full or not.
    pub due: bool,
    /// It is the last one of its batch, whatever room that has.
    pub ends: bool,
    /// Pages that were pulled into it.
    pub pulled: Vec<(u64, u64)>,
}

/// A part that is sealed and not durable.
pub(crate) struct Sealed {
    pub bytes: Rc<Vec<u8>>,
    pub pulled: Vec<(u64, u64)>,
    /// Its frames and tombstones, of those of the batch.
    pub frames: Range<usize>,
    pub tombstones: Range<usize>,
    /// Another part follows.
    pub more: bool,
}

/// Flushes of the slow store, by their numbers.
#[derive(Default)]
pub(crate) struct Flushes {
    begun: u64,
    running: bool,
    done: u64,
    failed: Option<(u64, IoError)>,
}

/// The slow store refuses a page.
#[derive(Clone)]
pub(crate) struct Refused {
    pub page: u64,
    pub since: Nanos,
    pub error: IoError,
}

pub(crate) struct State {
    pub ring: Ring,
    pub index: Index,
    pub open: Open,
    pub sealed: BTreeMap<Part, Sealed>,
    /// Tombstones of the open batch before its open part.
    pub buried: usize,
    /// Reads under way, by batch.
    pub reads: BTreeMap<u64, u64>,
    /// Pages that are being written to the slow store.
    pub writing: FxHashSet<u64>,
    pub refused: Option<Refused>,
    /// Dirty pages that were found damaged, and where. Those that were evicted anew or forgotten since
    /// do not count ([`State::damaged`]).
    pub damaged: BTreeMap<u64, Place>,
    /// Pages whose damaged frames were given up, and have no tombstone yet.
    pub given_up: BTreeSet<u64>,
    /// Flushes of the slow store: how many began, the last that ended well, and the last that
    /// failed.
    pub flushes: Flushes,
    pub stopped: Option<String>,
    pub stats: CacheStats,
    /// What keeps scans out.
    pub guard: Option<Guard>,
    pub ghosts: Option<Ghosts>,
}

/// Who the cache is, and what its superblock and label say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub superblock: Superblock,
    /// `None`: the slow store keeps none.
    pub label: Option<Label>,
}

pub(crate) struct Core<F, S> {
    pub rt: Rt,
    // (They end in this order. What the slow store still writes ends under the lock of the flash device,
    // before another one opens the cache.)
    pub slow: S,
    pub medium: Medium<F>,
    pub host: Rc<dyn Host>,
    pub options: OpenOptions,
    pub mode: Mode,
    pub heads: Cell<Heads>,
    pub domain: Domain,
    pub state: RefCell<State>,
    /// Versions on their way to the slow store.
    pub pending: Pending,
    /// How many versions went past the cache.
    pub past: Cell<usize>,
    /// Runs of pages that are written to the slow store side by side. Whoever waits for a permit
    /// holds no page.
    pub slow_writes: Semaphore,
    pub closing: Cell<bool>,
    /// No batch before this one has dirty pages.
    pub cleaned: Cell<u64>,
    /// Held while a batch leaves, and while the keeper writes.
    pub front_turn: Mutex,
    pub keeper_turn: Mutex,
    /// Held by a pass that cleans. A pass may write a version although a newer one is durable, so
    /// that two passes side by side could write the older one over the newer.
    pub clean_turn: Mutex,
    /// Held while the size changes, or the cache is closed.
    pub resize_turn: Mutex,
    /// While it is not 0 nothing enters but what leaves the front.
    pub gates: Cell<u32>,
    /// What is at the front gets no second chance.
    pub drops: Cell<bool>,
    /// There may be room in the open batch, or a change of anything that a call waits for.
    pub room: WaitQueue,
    /// More batches are durable.
    pub durable: WaitQueue,
    /// There may be work for a task.
    pub work: WaitQueue,
    /// A page is no longer being written to the slow store.
    pub written: WaitQueue,
}

impl State {
    /// Whether a frame that the ring holds is durable.
    pub fn is_durable(&self, at: Place) -> bool {
        let durable = self.ring.durable();
        at.batch < durable.batch || self.index.part_of(at) < durable
    }
}

impl<F: BlockDevice, S: SlowStore> Core<F, S> {
    /// Nothing is changed any more (3).
    pub fn stop(&self, why: String) {
        self.state.borrow_mut().stopped.get_or_insert(why);
        self.notify();
    }

    /// Everybody looks again.
    pub fn notify(&self) {
        for queue in [&self.room, &self.durable, &self.work, &self.written] {
            queue.notify_all();
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.state.borrow().stopped.is_some()
    }

    pub fn check_open(&self) -> Result<(), CacheError> {
        match &self.state.borrow().stopped {
            Some(why) => Err(CacheError::Stopped(why.clone())),
            None if self.closing.get() => Err(CacheError::Stopped("it is being closed".into())),
            None => Ok(()),
        }
    }

    pub fn count(&self, note: impl FnOnce(&mut CacheStats)) {
        note(&mut self.state.borrow_mut().stats);
    }

    /// Puts a version of a page into the open part, which must have room (1).
    pub fn enter(&self, frame: Frame, data: &[u8]) -> Place {
        let place = self.put(frame, data);
        self.turn();
        self.work.notify_all();
        place
    }

    /// The same, without a look at whether the part is full now.
    pub fn put(&self, frame: Frame, data: &[u8]) -> Place {
        let state = &mut *self.state.borrow_mut();
        state.open.begin(self.rt.now(), self.medium.layout().descriptor);
        state.open.bytes.extend_from_slice(data);
        state.index.push(frame, false)
    }

    /// Seals the open part when it should and can be, and opens the next one (5).
    pub fn turn(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let mut sealed = false;
        while self.is_due(state) && state.ring.may_seal() {
            let part = state.ring.open();
            let content = state.index.batch(part.batch);
            let (frames, tombstones) = (content.frames.len(), content.tombstones.len());
            let begin = content.parts.last().copied().unwrap_or(0);
            let layout = self.medium.layout();
            let open = std::mem::take(&mut state.open);
            let more = !open.ends
                && layout.frames_with(part.number + 1) > frames
                && tombstones < layout.tombstones();
            let full = Sealed {
                bytes: Rc::new(open.bytes),
                pulled: open.pulled,
                frames: begin..frames,
                tombstones: state.buried..tombstones,
                more,
            };
            state.sealed.insert(part, full);
            state.ring.seal(more);
            if more {
                state.buried = tombstones;
                state.index.begin_part();
            } else {
                state.buried = 0;
                state.ghosts_skip((layout.frames as usize).saturating_sub(frames));
                state.index.begin_batch();
            }
            sealed = true;
        }
        if sealed {
            self.work.notify_all();
            self.room.notify_all();
        }
    }

    fn is_due(&self, state: &State) -> bool {
        let begun = state.open.since.is_some();
        begun && (state.open.due || self.frames_free(state) == 0)
    }

    /// How many more pages the open part takes now.
    pub fn frames_free(&self, state: &State) -> usize {
        let open = state.ring.open();
        let frames = state.index.batch(open.batch).frames.len();
        self.medium.layout().frames_with(open.number).saturating_sub(frames)
    }

    /// Waits until a part is durable (2).
    pub async fn wait_durable(&self, part: Part) -> Result<(), CacheError> {
        self.wait_durable_to(part.next()).await
    }

    /// Waits until a frame is durable.
    pub async fn wait_placed(&self, place: Place) -> Result<(), CacheError> {
        let part = {
            let state = self.state.borrow();
            let known = place.batch >= state.ring.durable().batch;
            known.then(|| state.index.part_of(place))
        };
        match part {
            Some(part) => self.wait_durable(part).await,
            None => Ok(()),
        }
    }

    /// Waits until everything before this part is durable.
    pub async fn wait_durable_to(&self, end: Part) -> Result<(), CacheError> {
        let durable = || self.state.borrow().ring.durable() >= end;
        // While the ring has room that is a matter of moments, whatever the slow store refuses.
        self.patiently_since(self.rt.now(), &self.durable, durable).await
    }

    /// Waits until `ready`, with so much patience for a slow store that refuses pages.
    pub async fn patiently(
        &self,
        queue: &WaitQueue,
        ready: impl Fn() -> bool,
    ) -> Result<(), CacheError> {
        self.patiently_since(Nanos::ZERO, queue, ready).await
    }

    /// The same; the patience does not begin before this time.
    pub async fn patiently_since(
        &self,
        earliest: Nanos,
        queue: &WaitQueue,
        ready: impl Fn() -> bool,
    ) -> Result<(), CacheError> {
        loop {
            if ready() {
                return Ok(());
            }
            if let Some(why) = &self.state.borrow().stopped {
                return Err(CacheError::Stopped(why.clone()));
            }
            let refused = self.state.borrow().refused.clone();
            let Some(refused) = refused else {
                let changed =
                    || ready() || self.is_stopped() || self.state.borrow().refused.is_some();
                queue.until(changed).await;
                continue;
            };
            let until = refused.since.max(earliest).saturating_add(self.options.patience);
            let changed = || ready() || self.is_stopped() || self.state.borrow().refused.is_none();
            if let First::B(()) = first(queue.until(changed), self.rt.sleep_until(until)).await {
                return Err(CacheError::Full {
                    page: refused.page,
                    waited: self.rt.now().saturating_sub(refused.since),
                    error: refused.error,
                });
            }
        }
    }

    /// Has the open part written, full or not, if anything is in it; returns it.
    pub fn hurry(&self) -> Option<Part> {
        let part = {
            let mut state = self.state.borrow_mut();
            let part = state.ring.open();
            let begun = state.open.since.is_some();
            state.open.due |= begun;
            begun.then_some(part)
        };
        self.turn();
        self.work.notify_all();
        part
    }

    /// The open batch takes no other part, and what is in it is written. If it has parts, and nothing
    /// in the open one, that is an empty one.
    pub fn end_batch(&self) {
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            if state.ring.open().number > 0 || state.open.since.is_some() {
                state.open.begin(self.rt.now(), self.medium.layout().descriptor);
                (state.open.due, state.open.ends) = (true, true);
            }
        }
        self.turn();
        self.work.notify_all();
    }

    /// Releases batches at the front whose time has come.
    pub fn release(&self) {
        let mut released = false;
        let mut state = self.state.borrow_mut();
        while state.ring.release().is_some() {
            state.index.release();
            released = true;
        }
        drop(state);
        if released {
            self.work.notify_all();
        }
    }

    /// Makes durable what was written to the slow store before. One flush at a time: whoever comes
    /// while one runs shares the next one.
    pub async fn flush_slow(&self) -> Result<(), IoError> {
        let wanted = self.state.borrow().flushes.begun + 1;
        loop {
            {
                let state = &mut *self.state.borrow_mut();
                let flushes = &mut state.flushes;
                // (What the one who shares a flush has written may be lost as well.)
                if let Some((_, error)) = flushes.failed.as_ref().filter(|f| f.0 >= wanted) {
                    return Err(error.clone());
                }
                if flushes.done >= wanted {
                    return Ok(());
                }
                if !flushes.running {
                    flushes.running = true;
                    flushes.begun += 1;
                    state.stats.slow_flushes += 1;
                    break;
                }
            }
            let ended = || !self.state.borrow().flushes.running;
            self.written.until(ended).await;
        }
        let number = self.state.borrow().flushes.begun;
        let running = Flushing { state: &self.state, written: &self.written };
        let ended = self.slow.flush().await;
        {
            let flushes = &mut self.state.borrow_mut().flushes;
            match &ended {
                Ok(()) => flushes.done = number,
                Err(error) => flushes.failed = Some((number, error.clone())),
            }
        }
        drop(running);
        ended
    }

    /// Holds a page against other writes of it to the slow store.
    pub async fn hold(&self, page: u64) -> Held<'_> {
        self.written.until(|| !self.state.borrow().writing.contains(&page)).await;
        self.state.borrow_mut().writing.insert(page);
        Held { state: &self.state, written: &self.written, page }
    }
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// Writes a version that flash has to the slow store, for good: it is clean then. In a task, so
    /// that the page stays held until the write has ended, also if nobody waits for that any more.
    pub async fn clean(
        self: &Rc<Self>,
        place: Place,
        page: u64,
        data: &[u8],
    ) -> Result<(), CacheError> {
        let (core, data) = (self.clone(), data.to_vec());
        let write = async move { core.write_clean(place, page, &data).await };
        match self.domain.spawn(format!("cache: page {page} to the slow store"), write).await {
            Ok(ended) => ended,
            Err(_) => Err(CacheError::Stopped("it was closed".to_string())),
        }
    }

    async fn write_clean(&self, place: Place, page: u64, data: &[u8]) -> Result<(), CacheError> {
        let _held = self.hold(page).await;
        let is_dirty = |state: &State| {
            state.index.find(page).is_some_and(|(at, frame)| at == place && frame.dirty)
        };
        if !is_dirty(&self.state.borrow()) {
            // The store has it, or a newer version has entered, or the page was forgotten.
            return Ok(());
        }
        self.write_slow(page, data).await?;
        self.pending.wrote(page, place);
        let mut state = self.state.borrow_mut();
        if is_dirty(&state) {
            state.index.set_clean(place);
        }
        Ok(())
    }

    /// Writes a page that is held to the slow store, for good.
    pub async fn write_slow(&self, page: u64, data: &[u8]) -> Result<(), CacheError> {
        if let Err(error) = self.slow.write_durably(page, data).await {
            self.count(|s| s.slow_refusals += 1);
            self.host.refused(page, &error);
            return Err(CacheError::Slow(error));
        }
        self.count(|s| s.slow_writes += 1);
        Ok(())
    }
}

impl State {
    /// The dirty pages that are known to be damaged, ascending: their newest versions are lost.
    pub fn damaged(&self) -> impl Iterator<Item = u64> {
        let is_damaged = |(page, place): &(&u64, &Place)| {
            let found = self.index.find(**page);
            found.is_some_and(|(at, frame)| at == **place || frame.damaged)
        };
        self.damaged.iter().filter(is_damaged).map(|(page, _)| *page)
    }
}

impl Open {
    /// Something enters.
    pub fn begin(&mut self, now: Nanos, descriptor: u32) {
        self.since.get_or_insert(now);
        if self.bytes.is_empty() {
            self.bytes.resize(descriptor as usize, 0);
        }
    }
}

/// A flush of the slow store runs while this lives.
struct Flushing<'a> {
    state: &'a RefCell<State>,
    written: &'a WaitQueue,
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.state.borrow_mut().flushes.running = false;
        self.written.notify_all();
    }
}

/// A page that nobody else writes to the slow store.
pub(crate) struct Held<'a> {
    state: &'a RefCell<State>,
    written: &'a WaitQueue,
    page: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.state.borrow_mut().writing.remove(&self.page);
        self.written.notify_all();
    }
}

/// The index entry of these bytes.
pub(crate) fn frame_of(page: u64, lsn: u64, data: &[u8], dirty: bool) -> Frame {
    Frame { page, lsn, checksum: checksum(data), dirty, damaged: false }
}
