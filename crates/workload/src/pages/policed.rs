//! Pages of an engine in a cache by one of the policies that the flash cache is compared with: what
//! the policy asks of the devices is carried out on them.
//!
//! 1. **In order.** Operations on one frame, and on one page of the slow volume, take effect in the
//!    order in which the policy asked for them. Reads of a frame share it. Everything else runs side
//!    by side.
//! 2. A frame is overwritten only when what was copied out of it is durable on the slow volume. A
//!    copy that is not under way yet is left out if a newer version of its page is what overwrites the
//!    frame.
//! 3. A dirty page that leaves the pool is durable when its own operations are. What its coming
//!    displaces goes on behind it, bounded by the job's `depth`.
//! 4. The policy is told of a copy when it is durable on the slow volume.
//! 5. The directory is taken to be durable without cost, as in the log of the database. After a cut
//!    the newest version on either device counts.

use super::cache_job::CacheJob;
use super::cached::part_of;
use super::engine::EngineError;
use super::in_place::InPlace;
use super::sequences::Sequences;
use super::storage::{After, CacheCounts, Landed, PageStore, PageVersion, StoreCounts, Stored};
use super::{LOADED, Lsn, PageNo, read_stamp, stamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use tantalum_cache::policy::{
    self, Access, Config, Exit, NoPull, Op, PageId, Policy, Source, Version, Work,
};
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, DurableBy, IoError, Partition, read_stamps_or_zeros,
};
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::{Domain, Rt, join_all};

/// What operations wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A frame or block of flash, by its first byte.
    Flash(u64),
    /// A page of the slow volume.
    Slow(u64),
}

/// An operation's place in a queue.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    number: u64,
    /// Others may share the place with it.
    shared: bool,
}

/// Who waits for which place, in order.
#[derive(Default)]
struct Turns {
    next: u64,
    queues: BTreeMap<Place, VecDeque<Ticket>>,
}

impl Turns {
    fn take(&mut self, places: &[(Place, bool)]) -> u64 {
        self.next += 1;
        for (place, shared) in places {
            let ticket = Ticket { number: self.next, shared: *shared };
            self.queues.entry(*place).or_default().push_back(ticket);
        }
        self.next
    }

    fn may(&self, number: u64, places: &[(Place, bool)]) -> bool {
        places.iter().all(|(place, shared)| {
            let before = self.queues[place].iter().take_while(|t| t.number != number);
            before.fold(true, |free, ticket| free && *shared && ticket.shared)
        })
    }

    fn end(&mut self, number: u64, places: &[(Place, bool)]) {
        for (place, _) in places {
            if let Some(queue) = self.queues.get_mut(place) {
                queue.retain(|t| t.number != number);
                if queue.is_empty() {
                    self.queues.remove(place);
                }
            }
        }
    }
}

/// What one operation does.
#[derive(Clone, Debug)]
enum Step {
    Read { offset: u64, bytes: u64 },
    Write { offset: u64, bytes: u64, versions: Vec<Version> },
    Copy { version: Version },
}

struct Shared<D: BlockDevice + Clone + 'static> {
    domain: Domain,
    config: Config,
    laps: f64,
    pages: InPlace<D>,
    flash: Sequences<Partition<D>>,
    by: DurableBy,
    policy: RefCell<Box<dyn Policy>>,
    turns: RefCell<Turns>,
    turned: Vec<WaitQueue>,
    /// Copies that have not begun and are not needed any more (2), by their tickets.
    needless: RefCell<BTreeSet<u64>>,
    /// Copies that have not begun, by the page's frame, and the version that each copies.
    waiting: RefCell<BTreeMap<(Place, u64), (u64, Version)>>,
    /// Side by side: copies to the slow volume, and pages that leave.
    copies: Semaphore,
    exits: Semaphore,
    /// Clean pages that wait for their turn to leave: the call that offers each.
    offered: RefCell<BTreeMap<PageNo, u64>>,
    offers: Cell<u64>,
    counts: Cell<CacheCounts>,
    /// Bytes written to flash when every frame was in use, while the cache is filled.
    full_at: Cell<Option<u64>>,
    failure: RefCell<Option<IoError>>,
}

/// See the module. Cheap to clone: a clone is the same cache.
pub struct Policed<D: BlockDevice + Clone + 'static> {
    shared: Rc<Shared<D>>,
}

impl<D: BlockDevice + Clone + 'static> Clone for Policed<D> {
    fn clone(&self) -> Policed<D> {
        Policed { shared: self.shared.clone() }
    }
}

/// Queues for turns.
const QUEUES: usize = 64;

/// Pages that leave side by side.
const EXITS: u64 = 256;

/// The stamp of metadata.
const METADATA: u64 = u64::MAX;

impl<D: BlockDevice + Clone + 'static> Policed<D> {
    /// An empty cache of `job` on `flash`, before these pages. Its operations are tasks of `domain`.
    ///
    /// # Errors
    /// The flash device does not suit.
    pub fn new(
        rt: &Rt,
        domain: Domain,
        job: &CacheJob,
        (pages, page_bytes): (InPlace<D>, u32),
        flash: D,
    ) -> Result<Policed<D>, EngineError> {
        let wrong = |what: String| EngineError::Cache(what);
        let config = job.config(page_bytes);
        let policy = config.build().map_err(|e| wrong(e.to_string()))?;
        if policy.flash_bytes() > job.size_mib << 20 {
            return Err(wrong("the policy's metadata do not fit: take a larger size_mib".into()));
        }
        let flash = part_of(job, flash)?;
        let caps = *flash.caps();
        if caps.payload == tantalum_device::Payload::Bytes || caps.block_size > 4096 {
            return Err(wrong(
                "a rival's policy needs a flash drive with blocks of 4096 bytes".into(),
            ));
        }
        let by = DurableBy::of(&caps)
            .ok_or_else(|| wrong("the flash drive cannot make anything durable".into()))?;
        let shared = Shared {
            domain,
            laps: job.laps,
            pages,
            flash: Sequences::new(flash),
            by,
            policy: RefCell::new(policy),
            turns: RefCell::default(),
            turned: (0..QUEUES).map(|_| WaitQueue::new(rt, "a turn on a frame")).collect(),
            needless: RefCell::default(),
            waiting: RefCell::default(),
            copies: Semaphore::new(rt, "a copy to the slow volume", job.depth.into()),
            exits: Semaphore::new(rt, "a page's turn to leave", EXITS),
            offered: RefCell::default(),
            offers: Cell::default(),
            counts: Cell::default(),
            full_at: Cell::default(),
            failure: RefCell::default(),
            config,
        };
        Ok(Policed { shared: Rc::new(shared) })
    }

    /// Writes the pages of a freshly loaded database to their places.
    ///
    /// # Errors
    /// The volume's error.
    pub async fn load(&self) -> Result<(), EngineError> {
        Ok(self.shared.pages.load().await?)
    }

    fn count(&self, note: impl FnOnce(&mut CacheCounts)) {
        let mut counts = self.shared.counts.get();
        note(&mut counts);
        self.shared.counts.set(counts);
    }

    fn frame_places(&self, offset: u64, bytes: u64, shared: bool) -> Vec<(Place, bool)> {
        let each = u64::from(self.shared.config.page_bytes);
        let first = offset / each * each;
        (first..offset + bytes)
            .step_by(each as usize)
            .map(|at| (Place::Flash(at), shared))
            .collect()
    }

    /// Takes the turns of all this work, in its order, and begins it. Returns the tickets of
    /// operations on this page, which are to be waited for.
    fn begin(&self, work: &Work, own: Option<PageId>) -> Vec<tantalum_rt::Join<()>> {
        let s = &*self.shared;
        let mut waits = Vec::new();
        for op in work.ops() {
            let (step, places, is_own) = match *op {
                Op::FlashRead { offset, bytes } => {
                    (Step::Read { offset, bytes }, self.frame_places(offset, bytes, true), false)
                }
                Op::FlashWrite { offset, bytes, first, pages } => {
                    let versions = work.versions(first, pages).to_vec();
                    let places = self.frame_places(offset, bytes, false);
                    for version in &versions {
                        for (place, _) in &places {
                            let key = (*place, version.page.0);
                            let mut waiting = s.waiting.borrow_mut();
                            let older = waiting.get(&key).filter(|(_, of)| of.lsn < version.lsn);
                            if let Some((ticket, _)) = older.copied() {
                                waiting.remove(&key);
                                s.needless.borrow_mut().insert(ticket);
                            }
                        }
                    }
                    let is_own = versions.iter().any(|v| Some(v.page) == own);
                    (Step::Write { offset, bytes, versions }, places, is_own)
                }
                Op::SlowWrite { version, from } => {
                    let mut places = vec![(Place::Slow(version.page.0), false)];
                    if let Source::Cache(Some(frame)) = from {
                        places.push((Place::Flash(frame), true));
                    }
                    (Step::Copy { version }, places, from == Source::Ram)
                }
            };
            let number = s.turns.borrow_mut().take(&places);
            if let (Step::Copy { version }, Some((frame, _))) = (&step, places.get(1)) {
                s.waiting.borrow_mut().insert((*frame, version.page.0), (number, *version));
            }
            let this = self.clone();
            let join = s.domain.spawn("an operation of a cache", async move {
                if let Err(error) = this.carry_out(number, step, &places).await {
                    this.shared.failure.borrow_mut().get_or_insert(error);
                }
                this.shared.turns.borrow_mut().end(number, &places);
                for (place, _) in &places {
                    this.queue(*place).notify_all();
                }
            });
            if is_own {
                waits.push(join);
            } else {
                drop(join);
            }
        }
        waits
    }

    fn queue(&self, place: Place) -> &WaitQueue {
        let (Place::Flash(at) | Place::Slow(at)) = place;
        let number = tantalum_rt::mix64(at) as usize % QUEUES;
        &self.shared.turned[number]
    }

    async fn turn(&self, number: u64, places: &[(Place, bool)]) {
        for place in places {
            let mine = std::slice::from_ref(place);
            self.queue(place.0).until(|| self.shared.turns.borrow().may(number, mine)).await;
        }
    }

    async fn carry_out(
        &self,
        number: u64,
        step: Step,
        places: &[(Place, bool)],
    ) -> Result<(), IoError> {
        let s = &*self.shared;
        let block = u64::from(s.flash.caps().block_size);
        let each = (u64::from(s.config.page_bytes) / block) as usize;
        match step {
            Step::Read { offset, bytes } => {
                self.turn(number, places).await;
                let mut stamps = vec![0; (bytes / block) as usize];
                s.flash.read(Block(offset / block), DataMut::Stamps(&mut stamps)).await
            }
            Step::Write { offset, bytes, versions } => {
                self.turn(number, places).await;
                let mut stamps = vec![METADATA; (bytes / block) as usize - versions.len() * each];
                for v in &versions {
                    let stamp = stamp(PageNo(v.page.0 as u32), Lsn(v.lsn.0));
                    stamps.extend(std::iter::repeat_n(stamp, each));
                }
                s.by.write(&s.flash, Block(offset / block), Data::Stamps(&stamps)).await
            }
            Step::Copy { version } => {
                let copy = s.copies.acquire(1).await;
                self.turn(number, places).await;
                if let Some((frame, _)) = places.get(1) {
                    let key = (*frame, version.page.0);
                    let mut waiting = s.waiting.borrow_mut();
                    if waiting.get(&key).is_some_and(|(ticket, _)| *ticket == number) {
                        waiting.remove(&key);
                    }
                }
                if s.needless.borrow_mut().remove(&number) {
                    return Ok(());
                }
                self.count(|c| c.slow_writes += 1);
                let page = PageNo(version.page.0 as u32);
                s.pages.write_neighbours(&[PageVersion { page, lsn: Lsn(version.lsn.0) }]).await?;
                // Flushes are shared, so that many copies wait for one.
                drop(copy);
                s.pages.sync().await?;
                if places.len() > 1 {
                    s.policy.borrow_mut().cleaned(version);
                }
                Ok(())
            }
        }
    }

    fn check(&self) -> Result<(), EngineError> {
        self.shared.failure.borrow().clone().map_or(Ok(()), |e| Err(EngineError::Io(e)))
    }

    /// A page leaves the pool. Its own operations are under way when this returns.
    fn leaves(&self, version: PageVersion, dirty: bool) -> Vec<tantalum_rt::Join<()>> {
        self.count(|c| c.dirty_exits += u64::from(dirty));
        let mut work = Work::new();
        let page = PageId(version.page.0.into());
        let lsn = policy::Lsn(version.lsn.0);
        let exit = Exit { page, client: 0, lsn, dirty, fdirty: dirty };
        self.shared.policy.borrow_mut().evict(exit, &mut NoPull, &mut work);
        self.begin(&work, Some(page))
    }

    async fn write_out(&self, version: PageVersion) -> Result<(), EngineError> {
        let _turn = self.shared.exits.acquire(1).await;
        for join in self.leaves(version, true) {
            // (A task is cancelled only together with this one.)
            let _ = join.await;
        }
        self.check()
    }

    /// The frames of flash, with the pages in them.
    async fn frames(&self) -> Result<Vec<PageVersion>, IoError> {
        let s = &*self.shared;
        let caps = *s.flash.caps();
        let each = (s.config.page_bytes / caps.block_size) as usize;
        let end = s.policy.borrow().flash_bytes() / u64::from(caps.block_size);
        let mut found = Vec::new();
        let mut at = 0;
        while at < end {
            let mut stamps = vec![0; (end - at).min(64 * each as u64) as usize];
            read_stamps_or_zeros(&s.flash, Block(at), &mut stamps).await?;
            at += stamps.len() as u64;
            let whole = |blocks: &[u64]| {
                let same = blocks.iter().all(|b| *b == blocks[0]) && blocks[0] != METADATA;
                if same { read_stamp(blocks[0]) } else { None }
            };
            let frames = stamps.chunks_exact(each).filter_map(whole);
            found.extend(frames.map(|(page, lsn)| PageVersion { page, lsn }));
        }
        Ok(found)
    }
}

impl<D: BlockDevice + Clone + 'static> PageStore for Policed<D> {
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError> {
        let s = &*self.shared;
        self.check()?;
        s.offered.borrow_mut().remove(&page);
        let access = Access { page: PageId(page.0.into()), client: 0 };
        let mut work = Work::new();
        let hit = s.policy.borrow_mut().fetch(access, &mut work);
        self.count(|c| {
            c.fetches += 1;
            c.hits += u64::from(hit.is_some());
        });
        if let Some(hit) = hit {
            // The read of the frame is its work; its turn is behind what was asked for before.
            let Some(frame) = hit.frame else { return Ok(Lsn(hit.lsn.0)) };
            let places = self.frame_places(frame, s.config.page_bytes.into(), true);
            let number = s.turns.borrow_mut().take(&places);
            self.turn(number, &places).await;
            let caps = *s.flash.caps();
            let mut stamps = vec![0; (s.config.page_bytes / caps.block_size) as usize];
            let at = Block(frame / u64::from(caps.block_size));
            let read = s.flash.read(at, DataMut::Stamps(&mut stamps)).await;
            s.turns.borrow_mut().end(number, &places);
            places.iter().for_each(|(place, _)| self.queue(*place).notify_all());
            read?;
            let wanted = stamp(page, Lsn(hit.lsn.0));
            if stamps.iter().any(|s| *s != wanted) {
                return Err(EngineError::Damaged { page, what: "its frame has something else" });
            }
            return Ok(Lsn(hit.lsn.0));
        }
        let places = [(Place::Slow(page.0.into()), true)];
        let number = s.turns.borrow_mut().take(&places);
        self.turn(number, &places).await;
        let read = s.pages.fetch(page).await;
        s.turns.borrow_mut().end(number, &places);
        self.queue(places[0].0).notify_all();
        let lsn = read?;
        let mut work = Work::new();
        s.policy.borrow_mut().fetched(access, policy::Lsn(lsn.0), &mut work);
        drop(self.begin(&work, None));
        Ok(lsn)
    }

    async fn write(
        &self,
        pages: &[PageVersion],
        _: After,
        landed: Landed,
    ) -> Result<(), EngineError> {
        let each = pages.iter().enumerate().map(|(i, version)| {
            let landed = landed.clone();
            async move {
                self.write_out(*version).await?;
                landed(i);
                Ok(())
            }
        });
        join_all(each.collect()).await.into_iter().collect()
    }

    async fn write_one(&self, page: PageVersion) -> Result<(), EngineError> {
        self.write_out(page).await
    }

    async fn evict_clean(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        let s = &*self.shared;
        self.check()?;
        let number = s.offers.get() + 1;
        s.offers.set(number);
        s.offered.borrow_mut().extend(pages.iter().map(|p| (p.page, number)));
        let each = pages.iter().map(|version| async move {
            let _turn = s.exits.acquire(1).await;
            let mine = s.offered.borrow().get(&version.page) == Some(&number);
            if mine {
                s.offered.borrow_mut().remove(&version.page);
                for join in self.leaves(*version, false) {
                    let _ = join.await;
                }
            }
        });
        join_all(each.collect()).await;
        Ok(())
    }

    async fn forget(&self, page: PageNo) -> Result<(), EngineError> {
        let mut work = Work::new();
        self.shared.policy.borrow_mut().forget(PageId(page.0.into()), &mut work);
        drop(self.begin(&work, None));
        self.shared.pages.forget(page).await
    }

    async fn checkpoint(&self, _: Lsn) -> Result<(), EngineError> {
        Ok(())
    }

    /// Also writes to the volume what only flash has, since the cache begins empty.
    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError> {
        let s = &*self.shared;
        let mut found = s.pages.survey_in_place(pages).await?;
        let mut newer = BTreeMap::new();
        for PageVersion { page, lsn } in self.frames().await? {
            let Some(stored) = found.get_mut(page.0 as usize) else { continue };
            if !matches!(stored, Stored::Whole(old) if *old >= lsn) {
                *stored = Stored::Whole(lsn);
                newer.insert(page, lsn);
            }
        }
        for (page, lsn) in newer {
            s.pages.write_neighbours(&[PageVersion { page, lsn }]).await?;
        }
        s.pages.sync().await?;
        Ok(found)
    }

    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError> {
        self.shared.pages.restore(pages).await
    }

    fn warm_fetch(&self, page: PageNo) {
        let s = &*self.shared;
        let access = Access { page: PageId(page.0.into()), client: 0 };
        let mut work = Work::new();
        let mut policy = s.policy.borrow_mut();
        if policy.fetch(access, &mut work).is_none() {
            work.clear();
            policy.fetched(access, policy::Lsn(LOADED.0), &mut work);
            drop(policy);
            self.warm_writes(&work);
        }
    }

    async fn warm_evict(&self, pages: &[(PageNo, bool)]) -> Result<bool, EngineError> {
        let s = &*self.shared;
        for (page, dirty) in pages {
            let mut work = Work::new();
            let (page, lsn) = (PageId(page.0.into()), policy::Lsn(LOADED.0));
            let exit = Exit { page, client: 0, lsn, dirty: *dirty, fdirty: *dirty };
            s.policy.borrow_mut().evict(exit, &mut NoPull, &mut work);
            self.warm_writes(&work);
        }
        // Until all are written.
        let idle = || s.turns.borrow().queues.is_empty();
        for queue in &s.turned {
            queue.until(idle).await;
        }
        self.check()?;
        // Pages are overwritten in place: it is full only when each frame was used.
        let frames = u64::from(s.config.usable_frames());
        let used = s.policy.borrow().occupancy().used;
        let bytes = s.flash.written().bytes;
        if s.full_at.get().is_none() && used + frames / 100 >= frames {
            s.full_at.set(Some(bytes));
        }
        let lap = (frames * u64::from(s.config.page_bytes)) as f64;
        let since = s.full_at.get().map(|at| (bytes - at) as f64);
        Ok(since.is_some_and(|since| since >= (s.laps - 1.0) * lap))
    }

    fn counts(&self) -> StoreCounts {
        let s = &*self.shared;
        let (occupancy, written) = (s.policy.borrow().occupancy(), s.flash.written());
        let cache = CacheCounts {
            frames: s.config.usable_frames().into(),
            used: occupancy.used,
            valid: occupancy.valid,
            ..s.counts.get()
        };
        StoreCounts { cache: Some(cache.on(written)), ..s.pages.counts() }
    }
}

impl<D: BlockDevice + Clone + 'static> Policed<D> {
    /// Of work without time only the writes of flash are carried out: the volume has every version.
    fn warm_writes(&self, work: &Work) {
        let s = &*self.shared;
        work.copied().for_each(|version| s.policy.borrow_mut().cleaned(version));
        for op in work.ops() {
            let Op::FlashWrite { offset, bytes, first, pages } = *op else { continue };
            let versions = work.versions(first, pages).to_vec();
            let places = self.frame_places(offset, bytes, false);
            let number = s.turns.borrow_mut().take(&places);
            let (this, step) = (self.clone(), Step::Write { offset, bytes, versions });
            s.domain.spawn_background("a cache is filled", async move {
                if let Err(error) = this.carry_out(number, step, &places).await {
                    this.shared.failure.borrow_mut().get_or_insert(error);
                }
                this.shared.turns.borrow_mut().end(number, &places);
                places.iter().for_each(|(place, _)| this.queue(*place).notify_all());
                this.shared.turned.iter().for_each(WaitQueue::notify_all);
            });
        }
    }
}
