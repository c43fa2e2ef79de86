//! The update-in-place engine: clients that get pages into the pool, change them, and commit.
//! `flush` writes pages.
//!
//! 1. A change of one page is one mini-transaction: the record and the page change in one poll.
//! 2. No page is changed while it is being written, or before the log has room.
//! 3. A page that is read from the drive must be whole and must be the requested one. Otherwise the
//!    engine stops.
//! 4. All tasks of an engine are in the host's power domain: a cut drops them with all their
//!    memory. What survives is on the drives, and in the [`Journal`], which is for the check after
//!    a cut.

use super::job::LSN_END;
use super::mix::REDO_OVERHEAD;
use super::pool::InstanceId;
use super::storage::{
    After, CacheCounts, ColdEnd, LogCounts, LogStore, PageStore, PageVersion, PullKind, StoreCounts,
};
use super::{
    Change, EngineJob, FrameId, Journal, LOADED, Lsn, Mix, PageNo, PageWrites, Pool, Record,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{AtomicError, IoError, Latencies};
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::{Domain, Nanos, Rt, Stream};

/// A page becomes young if it is touched again after at least this time (`innodb_old_blocks_time`
/// is a second; this is scaled like the pool).
const OLD_TIME: Nanos = Nanos::from_millis(10);

/// The number of frames at the tail in which a reader first looks for a clean one
/// (`BUF_LRU_SEARCH_SCAN_THRESHOLD`).
const CLEAN_SEARCH: usize = 100;

/// How long a reader sleeps that finds no frame to write either, before it looks again.
const SEARCH_AGAIN: Nanos = Nanos::from_millis(10);

/// The number of queues for changes of frames' states.
const QUEUES: usize = 64;

/// Transactions that fill a cache, at most, and pages that leave the pool together meanwhile.
const WARM_MOST: u64 = 5_000_000;
const WARM_BATCH: usize = 64;

/// Pages of the cold end that a cache is offered for each one that it has room for.
const PULL_CHOICE: usize = 4;

/// Why an engine stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A drive failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The drive does not take pages as an atomic group.
    #[error("writing pages as an atomic group: {0}")]
    Group(AtomicError),
    /// A read did not return the page.
    #[error("page {} is damaged: {what}", .page.0)]
    Damaged {
        /// The page.
        page: PageNo,
        /// What is wrong.
        what: &'static str,
    },
    /// The flash cache does not go on.
    #[error("the flash cache: {0}")]
    Cache(String),
    /// The run was too long for the stamps' log sequence numbers.
    #[error("the log is longer than stamps can count (1 TiB): run fewer transactions")]
    LogSpent,
}

impl From<AtomicError> for EngineError {
    fn from(error: AtomicError) -> EngineError {
        match error {
            AtomicError::Io(error) => EngineError::Io(error),
            other => EngineError::Group(other),
        }
    }
}

/// Counters of an engine since the last reset.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Transactions completed.
    pub transactions: u64,
    /// Transactions that changed something.
    pub commits: u64,
    /// How long transactions took.
    pub latency: Latencies,
    /// The same of each kind, by its name.
    pub operations: BTreeMap<&'static str, Latencies>,
    /// Bytes of the rows changed.
    pub row_bytes: u64,
    /// Pages used.
    pub page_uses: u64,
    /// Pages read from the drive.
    pub page_reads: u64,
    /// Page reads that waited for a write, since there was no clean frame.
    pub blocked_reads: u64,
    /// The sum of these waits.
    pub blocked: Nanos,
    /// Changes that waited because their page was being written.
    pub latched: u64,
    /// Pages written by cleaners.
    pub pages_cleaned: u64,
    /// Batches of pages written by cleaners.
    pub batches: u64,
    /// Pages written by readers that needed a frame.
    pub single_flushes: u64,
    /// Atomic groups in which cleaners and readers wrote.
    pub groups: u64,
}

/// A running engine.
pub struct Engine<P, L> {
    pub(super) rt: Rt,
    pub(super) domain: Domain,
    pub(super) job: EngineJob,
    pub(super) pages: P,
    pub(super) pool: RefCell<Pool>,
    pub(super) log: L,
    pub(super) journal: Journal,
    /// The oldest change of each write that is not known to be durable yet.
    pub(super) unsynced: RefCell<BTreeMap<u64, Lsn>>,
    pub(super) next_write: Cell<u64>,
    /// Of each instance of the pool: notified when a frame may have become free.
    freed: Vec<WaitQueue>,
    /// Notified when a cleaner is needed; and the number of these calls.
    pub(super) call: WaitQueue,
    pub(super) calls: Cell<u64>,
    pub(super) counts: RefCell<Counts>,
    /// The counters of the page store at the last reset.
    stored: Cell<StoreCounts>,
    states: Vec<WaitQueue>,
    cores: Semaphore,
    mix: RefCell<Mix>,
    /// Cleaners run.
    cleaning: Cell<bool>,
    /// Records of the log are being redone: no checkpoint moves.
    pub(super) redoing: Cell<bool>,
    /// When the last checkpoint was written.
    pub(super) checkpointed: Cell<Nanos>,
    /// Pages that a cache pulled and has not durably yet.
    pulled: RefCell<BTreeMap<PageNo, (FrameId, Lsn)>>,
    failure: RefCell<Option<EngineError>>,
}

impl<P: PageStore, L: LogStore> Engine<P, L> {
    /// An engine over a loaded page store and its log, with an empty pool. Nothing runs yet. All
    /// its tasks will belong to `domain`.
    pub fn new(
        rt: &Rt,
        domain: Domain,
        job: &EngineJob,
        mix: Mix,
        pages: P,
        log: L,
        journal: &Journal,
    ) -> Rc<Engine<P, L>> {
        let engine = Rc::new(Engine {
            rt: rt.clone(),
            domain,
            job: job.clone(),
            pool: RefCell::new(
                Pool::new(job.frames(), job.instances, mix.pages(), OLD_TIME)
                    .ordered(job.replacement),
            ),
            pulled: RefCell::default(),
            cleaning: Cell::default(),
            redoing: Cell::default(),
            checkpointed: Cell::new(rt.now()),
            pages,
            log,
            journal: journal.clone(),
            unsynced: RefCell::default(),
            next_write: Cell::new(0),
            freed: (0..job.instances.max(1)).map(|_| WaitQueue::new(rt, "a free frame")).collect(),
            call: WaitQueue::new(rt, "a call for the cleaner"),
            calls: Cell::new(0),
            counts: RefCell::default(),
            stored: Cell::default(),
            states: (0..QUEUES).map(|_| WaitQueue::new(rt, "a frame's I/O")).collect(),
            cores: Semaphore::new(rt, "a core", job.cores.into()),
            mix: RefCell::new(mix),
            failure: RefCell::default(),
        });
        let cold: Rc<dyn ColdEnd> = engine.clone();
        engine.pages.attach(Rc::downgrade(&cold));
        engine
    }

    /// Fills the pool as this many transactions would, without time or I/O. Only for a freshly
    /// loaded database.
    pub fn warm(&self, seed: u64, transactions: u64) {
        let mut dice = Stream::new(seed, "warming the pool");
        let mut uses = Vec::new();
        let mut pool = self.pool.borrow_mut();
        for _ in 0..transactions {
            uses.clear();
            self.mix.borrow_mut().next(&mut dice, &mut uses);
            for access in &uses {
                if let Some(f) = pool.find(access.page) {
                    pool.touch(f, Nanos::MAX);
                    continue;
                }
                let of = pool.instance_of(access.page);
                let free = pool.borrow_free(of);
                if let Some(f) = free.or_else(|| Some(pool.evict_clean(of, usize::MAX)?.0)) {
                    pool.begin_read(f, access.page, Nanos::ZERO);
                    pool.end_read(f, LOADED);
                }
            }
        }
    }

    /// Fills the pool as [`Engine::warm`] does, and the store's cache with what leaves the pool, until
    /// it is as full as after a long run. Changed pages count as dirty there, in the version that
    /// was loaded. Only for a freshly loaded database.
    ///
    /// # Errors
    /// The store's error.
    pub async fn warm_cache(&self, seed: u64) -> Result<(), EngineError> {
        let mut dice = Stream::new(seed, "filling the cache");
        let (mut uses, mut left) = (Vec::new(), Vec::new());
        let mut changed = std::collections::BTreeSet::new();
        for _ in 0..WARM_MOST {
            uses.clear();
            self.mix.borrow_mut().next(&mut dice, &mut uses);
            for access in &uses {
                let mut pool = self.pool.borrow_mut();
                if access.redo > 0 {
                    changed.insert(access.page);
                }
                if let Some(f) = pool.find(access.page) {
                    pool.touch(f, Nanos::MAX);
                    continue;
                }
                let of = pool.instance_of(access.page);
                let f = match pool.borrow_free(of) {
                    Some(f) => f,
                    None => {
                        let Some((f, was)) = pool.evict_clean(of, usize::MAX) else { continue };
                        left.push((was.page, changed.remove(&was.page)));
                        f
                    }
                };
                pool.begin_read(f, access.page, Nanos::ZERO);
                pool.end_read(f, LOADED);
                self.pages.warm_fetch(access.page);
            }
            if left.len() >= WARM_BATCH {
                let filled = self.pages.warm_evict(&left).await?;
                left.clear();
                if filled {
                    break;
                }
            }
        }
        self.pages.warm_end().await
    }

    /// Writes the first checkpoint and starts cleaners and clients. They run until the domain is
    /// killed or something fails ([`Engine::failure`]).
    ///
    /// # Errors
    /// The log's error.
    pub async fn start(self: &Rc<Self>, seed: u64) -> Result<(), EngineError> {
        self.log.begin().await?;
        self.checkpointed.set(self.rt.now());
        self.start_cleaners();
        for number in 0..self.job.clients {
            let this = self.clone();
            let dice = Stream::new(seed, &format!("client {number}"));
            self.domain.spawn_background("a client", async move {
                let ended = this.client(dice).await;
                this.fail(ended);
            });
        }
        Ok(())
    }

    /// Starts cleaners, their clock, and checkpoints by time, unless they run.
    pub(super) fn start_cleaners(self: &Rc<Self>) {
        if self.cleaning.replace(true) {
            return;
        }
        for number in 0..self.job.cleaners {
            let this = self.clone();
            self.domain.spawn_background("a page cleaner", async move {
                let ended = this.clean(number == 0).await;
                this.fail(ended);
            });
        }
        let this = self.clone();
        self.domain.spawn_background("the cleaners' clock", async move {
            let span = Nanos((this.job.cleaner_ms * 1e6) as u64);
            loop {
                this.rt.sleep(span).await;
                this.call_cleaner();
            }
        });
        if self.job.checkpoint_s > 0.0 {
            let this = self.clone();
            self.domain.spawn_background("checkpoints by time", async move {
                let ended = this.keep_checkpoints().await;
                this.fail(ended);
            });
        }
    }

    /// Why it stopped, if it did.
    pub fn failure(&self) -> Option<EngineError> {
        self.failure.borrow().clone()
    }

    /// The counters since the last reset.
    pub fn counts(&self) -> Counts {
        let groups = self.pages.counts().groups - self.stored.get().groups;
        Counts { groups, ..self.counts.borrow().clone() }
    }

    /// When the last checkpoint was written.
    pub fn checkpointed(&self) -> Nanos {
        self.checkpointed.get()
    }

    /// Transactions completed since the last reset.
    pub fn transactions(&self) -> u64 {
        self.counts.borrow().transactions
    }

    /// Resets the counters.
    pub fn reset(&self) {
        *self.counts.borrow_mut() = Counts::default();
        self.stored.set(self.pages.counts());
    }

    /// The counters of the store's cache, if there is one.
    pub fn cache_counts(&self) -> Option<CacheCounts> {
        self.pages.counts().cache
    }

    /// Flushes that the drive with the pages has completed.
    pub fn flushes(&self) -> u64 {
        self.pages.counts().flushes
    }

    /// The counters of the log since it was begun.
    pub fn log_counts(&self) -> LogCounts {
        self.log.counts()
    }

    /// Frames with changes that are not written.
    pub fn dirty_frames(&self) -> usize {
        self.pool.borrow().dirty_frames()
    }

    /// The pages in clean frames, with their last changes. The drive has the same.
    pub fn clean_pages(&self) -> Vec<(PageNo, Lsn)> {
        self.pool.borrow().clean_frames().collect()
    }

    fn fail(&self, ended: Result<(), EngineError>) {
        if let Err(e) = ended {
            self.failure.borrow_mut().get_or_insert(e);
        }
    }

    async fn client(&self, mut dice: Stream) -> Result<(), EngineError> {
        let mut uses = Vec::new();
        while self.failure.borrow().is_none() {
            uses.clear();
            let operation = self.mix.borrow_mut().next(&mut dice, &mut uses);
            let begin = self.rt.now();
            let cpu = self.job.cpu_us + self.job.page_cpu_us * uses.len() as f64;
            self.compute(Nanos((cpu * 1e3) as u64)).await;
            let mut last = None;
            let mut row_bytes = 0;
            for access in &uses {
                if access.redo == 0 {
                    self.get(access.page, false, None).await?;
                } else {
                    last = Some(self.change(access.page, access.redo).await?);
                    row_bytes += u64::from(access.redo - REDO_OVERHEAD.min(access.redo));
                }
            }
            if let Some(lsn) = last {
                self.log.commit(lsn).await?;
            }
            let mut counts = self.counts.borrow_mut();
            counts.transactions += 1;
            counts.commits += u64::from(last.is_some());
            counts.row_bytes += row_bytes;
            counts.page_uses += uses.len() as u64;
            let took = self.rt.now() - begin;
            counts.latency.record(took);
            counts.operations.entry(operation).or_default().record(took);
        }
        Ok(())
    }

    async fn compute(&self, time: Nanos) {
        if time > Nanos::ZERO {
            let _core = self.cores.acquire(1).await;
            self.rt.sleep(time).await;
        }
    }

    /// Changes a page by a record of this many bytes. Returns the end of the record.
    async fn change(&self, page: PageNo, bytes: u32) -> Result<Lsn, EngineError> {
        loop {
            if self.log.fullness() > super::flush::LOG_SCARCE {
                self.call_cleaner();
            }
            self.log.room().await;
            let f = self.get(page, true, None).await?;
            if !self.log.has_room() {
                continue;
            }
            let mut pool = self.pool.borrow_mut();
            let logs = self.job.double_write == PageWrites::Logged && !pool.is_dirty(f);
            let image = if logs { self.job.page_bytes } else { 0 };
            let before = pool.content(f).1;
            let (begin, end) = self.log.append(Change { page, before, bytes, image });
            if end >= LSN_END {
                return Err(EngineError::LogSpent);
            }
            pool.change(f, begin, end);
            return Ok(end);
        }
    }

    /// Redoes a record; the one before it ended at `begin`. Returns whether it changed the page.
    pub(super) async fn redo(&self, record: &Record, begin: Lsn) -> Result<bool, EngineError> {
        let Record { page, before, end, whole } = *record;
        // A page that the record has whole is not read: it may be torn.
        let f = self.get(page, true, whole.then_some(before)).await?;
        let mut pool = self.pool.borrow_mut();
        let lsn = pool.content(f).1;
        if lsn >= end {
            return Ok(false);
        }
        if lsn != before && !whole {
            let what = "it lacks changes that the log does not have any more";
            return Err(EngineError::Damaged { page, what });
        }
        pool.change(f, begin, end);
        Ok(true)
    }

    /// The frame with the page, which may be used (or changed) until the next await. If the page `is`
    /// known in this version, it is not read.
    async fn get(
        &self,
        page: PageNo,
        change: bool,
        is: Option<Lsn>,
    ) -> Result<FrameId, EngineError> {
        loop {
            let found = self.pool.borrow().find(page);
            let Some(f) = found else {
                self.fetch(page, is).await?;
                continue;
            };
            if self.use_frame(f, change) {
                return Ok(f);
            }
            self.state_queue(f).wait().await;
        }
    }

    /// Touches the frame if its page can be used (or changed) now. Returns whether it can.
    fn use_frame(&self, f: FrameId, change: bool) -> bool {
        let mut pool = self.pool.borrow_mut();
        let usable = if change { pool.is_changeable(f) } else { pool.is_readable(f) };
        if usable {
            pool.touch(f, self.rt.now());
        } else {
            self.counts.borrow_mut().latched += u64::from(pool.is_readable(f));
        }
        usable
    }

    /// Reads a page into a frame, or takes it as it `is`, unless another client has begun to.
    async fn fetch(&self, page: PageNo, is: Option<Lsn>) -> Result<(), EngineError> {
        let of = self.pool.borrow().instance_of(page);
        let f = self.free_frame(of).await?;
        {
            let mut pool = self.pool.borrow_mut();
            if pool.find(page).is_some() {
                pool.give_back(f);
                self.freed(of).notify_one();
                return Ok(());
            }
            pool.begin_read(f, page, self.rt.now());
        }
        let lsn = match is {
            Some(lsn) => lsn,
            None => {
                self.counts.borrow_mut().page_reads += 1;
                self.pages.fetch(page).await?
            }
        };
        self.pool.borrow_mut().end_read(f, lsn);
        self.state_queue(f).notify_all();
        Ok(())
    }

    /// A frame of an instance: from the free list, else a clean one, else one that is written first
    /// (`buf_LRU_get_free_block`).
    async fn free_frame(&self, of: InstanceId) -> Result<FrameId, EngineError> {
        let mut waited_since = None;
        let mut first = true;
        let (f, left) = loop {
            // First near the tail, then everywhere.
            let depth = if first { CLEAN_SEARCH } else { usize::MAX };
            let dirty = {
                let mut pool = self.pool.borrow_mut();
                if let Some(f) = pool.borrow_free(of) {
                    break (f, None);
                }
                if let Some((f, page)) = pool.evict_clean(of, depth) {
                    break (f, Some(page));
                }
                self.job.single_page_flush.then(|| pool.dirty_near_tail(of)).flatten()
            };
            if self.job.wake_cleaner {
                self.call_cleaner();
            }
            let looks_again = first && dirty.is_none() && self.job.single_page_flush;
            first = false;
            if looks_again {
                continue;
            }
            waited_since.get_or_insert(self.rt.now());
            match dirty {
                Some(f) => self.flush_single(f).await?,
                None if self.job.single_page_flush => self.rt.sleep(SEARCH_AGAIN).await,
                None => self.freed(of).wait().await,
            }
        };
        if let Some(since) = waited_since {
            let mut counts = self.counts.borrow_mut();
            counts.blocked_reads += 1;
            counts.blocked += self.rt.now() - since;
        }
        if let Some(page) = left {
            self.pages.evict_clean(&[page]).await?;
        }
        Ok(f)
    }

    /// The queue of clients that wait for a free frame of an instance.
    pub(super) fn freed(&self, of: InstanceId) -> &WaitQueue {
        &self.freed[of.0 as usize]
    }

    pub(super) fn call_cleaner(&self) {
        self.calls.set(self.calls.get() + 1);
        self.call.notify_all();
    }

    /// The queue of clients that wait for another state of a frame.
    pub(super) fn state_queue(&self, f: FrameId) -> &WaitQueue {
        &self.states[f.0 as usize % QUEUES]
    }
}

impl<P: PageStore, L: LogStore> ColdEnd for Engine<P, L> {
    fn stable(&self) -> Lsn {
        self.log.durable()
    }

    fn coldest(&self, kind: PullKind, room: usize) -> Vec<(PageVersion, bool)> {
        let stable = self.stable();
        let wanted = |version: PageVersion, dirty: bool| match kind {
            PullKind::None => false,
            PullKind::Clean => !dirty,
            PullKind::Dirty => dirty && version.lsn <= stable,
            PullKind::Mixed => !dirty || version.lsn <= stable,
        };
        self.pool.borrow().coldest(wanted, room * PULL_CHOICE)
    }

    fn taken(&self, version: PageVersion) {
        let mut pool = self.pool.borrow_mut();
        let Some(f) = pool.find(version.page) else { return };
        if pool.is_changeable(f) && pool.is_dirty(f) && pool.content(f).1 == version.lsn {
            pool.begin_write(f);
            self.pulled.borrow_mut().insert(version.page, (f, version.lsn));
        }
    }

    fn staged(&self, version: PageVersion) {
        let taken = self.pulled.borrow().get(&version.page).copied();
        let Some((f, _)) = taken.filter(|(_, lsn)| *lsn == version.lsn) else { return };
        self.pulled.borrow_mut().remove(&version.page);
        self.end_write(f, After::Leaves);
    }
}
