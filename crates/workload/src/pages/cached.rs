//! Pages of an engine in a flash cache before a slow volume.
//!
//! 1. Each page that leaves the pool is handed to the cache, clean or dirty. The slow volume gets it
//!    when it leaves flash, or with write-through at once. The cache is the double-write area of the
//!    volume: a page is on flash until its write there is durable.
//! 2. A page may leave its frame when the cache has it in memory. It counts as written when it is
//!    durable.
//! 3. A clean page that waits for room and is fetched meanwhile does not enter any more: a newer
//!    version may leave RAM before it.
//! 4. If only clean pages enter, the cache brings a dirty one to the slow volume.

use super::cache_job::CacheJob;
use super::engine::EngineError;
use super::in_place::InPlace;
use super::sequences::Sequences;
use super::storage::{
    After, CacheCounts, ColdEnd, Landed, PageStore, PageVersion, PullKind, StoreCounts, Stored,
};
use super::{LOADED, Lsn, PageNo, read_stamp, stamp};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use tantalum_cache::flash::{
    Beside, CacheError, Fetched, FlashCache, FormatOptions, Host, OpenError, OpenOptions, PageOut,
    SlowStore, Staged,
};
use tantalum_cache::policy::Admit;
use tantalum_device::{BlockDevice, IoError, Partition};
use tantalum_rt::{Rt, join_all};

/// Failures of a cache that are none of a device.
const REFUSED: &str = "the flash cache refused a call";

/// The flash device, whose commands are counted.
type Flash<D> = Sequences<Partition<D>>;

/// The bytes of a page: its stamp again and again.
fn page_of(version: PageVersion, bytes: usize) -> Vec<u8> {
    stamp(version.page, version.lsn).to_le_bytes().repeat(bytes / 8)
}

/// The page and last change in these bytes; `None` if they are of different times.
fn version_in(bytes: &[u8]) -> Option<(PageNo, Lsn)> {
    let (words, _) = bytes.as_chunks::<8>();
    let first = *words.first()?;
    if words.iter().all(|w| *w == first) { read_stamp(u64::from_le_bytes(first)) } else { None }
}

/// The slow volume under the cache.
struct Slow<D> {
    pages: InPlace<D>,
    count: u64,
    page: usize,
    /// The cache is being filled without time: the volume has every version already.
    filling: Rc<Cell<bool>>,
}

impl<D: BlockDevice + 'static> SlowStore for Slow<D> {
    fn pages(&self) -> u64 {
        self.count
    }

    async fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let page = PageNo(page as u32);
        match self.pages.fetch(page).await {
            Ok(lsn) => buf.copy_from_slice(&page_of(PageVersion { page, lsn }, buf.len())),
            Err(EngineError::Io(error)) => return Err(error),
            Err(_) => buf.fill(0),
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        if self.filling.get() {
            return Ok(());
        }
        let version = |bytes| {
            let (page, lsn) = version_in(bytes).ok_or(IoError::Failed("a page is torn"))?;
            Ok(PageVersion { page, lsn })
        };
        let pages: Result<Vec<_>, IoError> = data.chunks_exact(self.page).map(version).collect();
        let pages = pages?;
        assert_eq!(pages.first().map(|p| u64::from(p.page.0)), Some(first), "a page has its place");
        self.pages.write_neighbours(&pages).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        if self.filling.get() { Ok(()) } else { self.pages.sync().await }
    }
}

/// The engine above the cache.
#[derive(Default)]
struct Above {
    pool: RefCell<Option<Weak<dyn ColdEnd>>>,
    kind: PullKind,
    page: Cell<usize>,
}

impl Above {
    fn engine(&self) -> Option<Rc<dyn ColdEnd>> {
        self.pool.borrow().as_ref()?.upgrade()
    }
}

impl Host for Above {
    fn log_stable(&self) -> u64 {
        // Without an engine it is being judged after a cut, or filled.
        self.engine().map_or(u64::MAX, |engine| engine.stable().0)
    }

    fn pull(&self, room: usize) -> Vec<PageOut> {
        if self.kind == PullKind::None {
            return Vec::new();
        }
        let Some(engine) = self.engine() else { return Vec::new() };
        let out = |(version, dirty): (PageVersion, bool)| PageOut {
            page: version.page.0.into(),
            data: page_of(version, self.page.get()),
            dirty,
            lsn: version.lsn.0,
        };
        engine.coldest(self.kind, room).into_iter().map(out).collect()
    }

    fn taken(&self, page: u64, lsn: u64) {
        if let Some(engine) = self.engine() {
            engine.taken(PageVersion { page: PageNo(page as u32), lsn: Lsn(lsn) });
        }
    }

    fn staged(&self, page: u64, lsn: u64) {
        if let Some(engine) = self.engine() {
            engine.staged(PageVersion { page: PageNo(page as u32), lsn: Lsn(lsn) });
        }
    }
}

type Cache<D> = FlashCache<Flash<D>, Slow<D>>;

struct Shared<D: BlockDevice + Clone + 'static> {
    rt: Rt,
    job: CacheJob,
    page_bytes: u32,
    pages: InPlace<D>,
    count: u32,
    flash: Flash<D>,
    beside: Beside,
    cache: RefCell<Option<Cache<D>>>,
    above: Rc<Above>,
    filling: Rc<Cell<bool>>,
    /// Clean pages that wait for room (3): the call that offers each.
    offered: RefCell<BTreeMap<PageNo, u64>>,
    offers: Cell<u64>,
}

/// See the module. Cheap to clone: a clone is the same cache.
pub struct Cached<D: BlockDevice + Clone + 'static> {
    shared: Rc<Shared<D>>,
}

impl<D: BlockDevice + Clone + 'static> Clone for Cached<D> {
    fn clone(&self) -> Cached<D> {
        Cached { shared: self.shared.clone() }
    }
}

fn of_cache(error: CacheError) -> EngineError {
    match error {
        CacheError::Flash(error) | CacheError::Slow(error) => EngineError::Io(error),
        CacheError::Damaged { page, .. } => EngineError::Damaged {
            page: PageNo(page as u32),
            what: "its frame on flash is damaged",
        },
        CacheError::Stopped(why) => EngineError::Cache(why),
        other => EngineError::Cache(other.to_string()),
    }
}

fn of_open(error: OpenError) -> EngineError {
    match error {
        OpenError::Io { error, .. } => EngineError::Io(error),
        other => EngineError::Cache(other.to_string()),
    }
}

/// The part of a flash device that a cache of this job uses.
pub(super) fn part_of<D: BlockDevice>(
    job: &CacheJob,
    flash: D,
) -> Result<Partition<D>, EngineError> {
    let range = job.blocks_of(flash.caps().block_size);
    Partition::new(flash, range).map_err(|why| EngineError::Cache(format!("size_mib: {why}")))
}

impl<D: BlockDevice + Clone + 'static> Cached<D> {
    /// The cache of `job` on `flash`, before these pages. It is opened by [`Cached::open`]. Of a
    /// device that carries stamps the rest lies in `beside`.
    ///
    /// # Errors
    /// The flash device is too small.
    pub fn new(
        rt: &Rt,
        job: &CacheJob,
        (pages, count, page_bytes): (InPlace<D>, u32, u32),
        flash: D,
        beside: Beside,
    ) -> Result<Cached<D>, EngineError> {
        let above = Above { kind: job.pulls(), ..Above::default() };
        let shared = Shared {
            rt: rt.clone(),
            job: job.clone(),
            page_bytes,
            pages,
            count,
            flash: Sequences::new(part_of(job, flash)?),
            beside,
            cache: RefCell::default(),
            above: Rc::new(above),
            filling: Rc::default(),
            offered: RefCell::default(),
            offers: Cell::default(),
        };
        Ok(Cached { shared: Rc::new(shared) })
    }

    fn slow(&self, page: usize) -> Slow<D> {
        let s = &*self.shared;
        Slow { pages: s.pages.clone(), count: s.count.into(), page, filling: s.filling.clone() }
    }

    /// Writes the pages of a freshly loaded database to their places, and makes an empty cache.
    ///
    /// # Errors
    /// What does not fit, or an error of a device.
    pub async fn load(&self) -> Result<(), EngineError> {
        let s = &*self.shared;
        s.pages.load().await?;
        let made = s.job.format(s.page_bytes);
        let options = FormatOptions { force: true, beside: s.beside.clone(), ..made };
        FlashCache::format(&s.rt, &s.flash, &self.slow(0), &options).await.map_err(of_open)
    }

    /// Opens the cache, however it ended.
    ///
    /// # Errors
    /// The cache is damaged, or an error of a device.
    pub async fn open(&self) -> Result<(), EngineError> {
        let s = &*self.shared;
        let options = OpenOptions { beside: s.beside.clone(), ..s.job.open() };
        let block = s.flash.caps().block_size;
        let stamps = s.flash.caps().payload == tantalum_device::Payload::Stamps;
        let page = if stamps { 8 * (s.page_bytes / block) } else { s.page_bytes } as usize;
        s.above.page.set(page);
        let (flash, slow, host) = (s.flash.clone(), self.slow(page), s.above.clone());
        let cache = FlashCache::open(&s.rt, flash, slow, host, options).await.map_err(of_open)?;
        *s.cache.borrow_mut() = Some(cache);
        Ok(())
    }

    /// Closes the cache.
    ///
    /// # Errors
    /// An error of a device.
    pub async fn close(&self) -> Result<(), EngineError> {
        let cache = self.shared.cache.borrow_mut().take();
        match cache {
            Some(cache) => cache.close().await.map_err(of_cache),
            None => Ok(()),
        }
    }

    fn cache(&self) -> Result<Cache<D>, EngineError> {
        let cache = self.shared.cache.borrow().clone();
        cache.ok_or_else(|| EngineError::Cache("the flash cache is not open".into()))
    }

    fn bytes(&self, version: PageVersion) -> Vec<u8> {
        page_of(version, self.shared.above.page.get())
    }

    /// Whether the cache takes only clean pages, so that dirty ones go past it (4).
    fn goes_past(&self) -> bool {
        self.shared.job.admits() == Admit::Clean
    }

    /// A dirty page leaves for the slow volume. It is durable when this returns (4).
    async fn write_past(&self, cache: &Cache<D>, version: PageVersion) -> Result<(), EngineError> {
        let PageVersion { page, lsn } = version;
        let data = self.bytes(version);
        cache.evict(page.0.into(), &data, true, lsn.0).await.map_err(of_cache)
    }

    /// Waits for room and hands a dirty page over.
    async fn stage(
        &self,
        cache: &Cache<D>,
        version: PageVersion,
        data: &[u8],
    ) -> Result<Staged, EngineError> {
        loop {
            let PageVersion { page, lsn } = version;
            match cache.stage(page.0.into(), data, true, lsn.0).map_err(of_cache)? {
                Some(staged) => return Ok(staged),
                None => cache.until_room().await.map_err(of_cache)?,
            }
        }
    }
}

impl<D: BlockDevice + Clone + 'static> PageStore for Cached<D> {
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError> {
        self.shared.offered.borrow_mut().remove(&page);
        let mut bytes = vec![0; self.shared.above.page.get()];
        self.cache()?.fetch(page.0.into(), &mut bytes).await.map_err(of_cache)?;
        let damaged = |what| EngineError::Damaged { page, what };
        let (found, lsn) =
            version_in(&bytes).ok_or(damaged("its blocks are of different times"))?;
        if found != page {
            return Err(damaged("another page is in its place"));
        }
        Ok(lsn)
    }

    async fn write(
        &self,
        pages: &[PageVersion],
        _: After,
        landed: Landed,
    ) -> Result<(), EngineError> {
        let cache = self.cache()?;
        if self.goes_past() {
            let each = pages.iter().zip(0..).map(async |(version, i)| {
                self.write_past(&cache, *version).await?;
                landed(i);
                Ok(())
            });
            return join_all(each.collect()).await.into_iter().collect();
        }
        let mut staged = Vec::with_capacity(pages.len());
        for (i, version) in pages.iter().enumerate() {
            let data = self.bytes(*version);
            staged.push((self.stage(&cache, *version, &data).await?, data));
            landed(i);
        }
        let settled = staged.iter().map(|(staged, data)| cache.settle(staged, data));
        let all = join_all(settled.collect()).await;
        all.into_iter().collect::<Result<(), CacheError>>().map_err(of_cache)
    }

    async fn write_one(&self, version: PageVersion) -> Result<(), EngineError> {
        let cache = self.cache()?;
        if self.goes_past() {
            return self.write_past(&cache, version).await;
        }
        let data = self.bytes(version);
        let staged = self.stage(&cache, version, &data).await?;
        cache.settle(&staged, &data).await.map_err(of_cache)
    }

    async fn evict_clean(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        let cache = self.cache()?;
        let offered = &self.shared.offered;
        let number = self.shared.offers.get() + 1;
        self.shared.offers.set(number);
        offered.borrow_mut().extend(pages.iter().map(|p| (p.page, number)));
        for version in pages {
            let data = self.bytes(*version);
            while offered.borrow().get(&version.page) == Some(&number) {
                let PageVersion { page, lsn } = *version;
                let staged = cache.stage(page.0.into(), &data, false, lsn.0);
                if staged.map_err(of_cache)?.is_some() {
                    offered.borrow_mut().remove(&page);
                } else {
                    cache.until_room().await.map_err(of_cache)?;
                }
            }
        }
        Ok(())
    }

    async fn forget(&self, page: PageNo) -> Result<(), EngineError> {
        let number = u64::from(page.0);
        self.cache()?.forget(number..number + 1).await.map_err(of_cache)?;
        self.shared.pages.forget(page).await
    }

    /// Every written page is durable, on flash or on the slow volume.
    async fn checkpoint(&self, _: Lsn) -> Result<(), EngineError> {
        Ok(())
    }

    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError> {
        let cache = self.cache().map_err(|_| IoError::Failed(REFUSED))?;
        // (While the volume is read pages leave flash: they are fetched as well.)
        let held: Vec<bool> = (0..pages).map(|page| cache.holds(page.into())).collect();
        let mut found = self.shared.pages.survey_in_place(pages).await?;
        let mut bytes = vec![0; self.shared.above.page.get()];
        for ((page, stored), held) in (0..).map(PageNo).zip(&mut found).zip(held) {
            if !held {
                continue;
            }
            *stored = match cache.fetch(page.0.into(), &mut bytes).await {
                Ok(Fetched::Slow | Fetched::Flash { .. }) => match version_in(&bytes) {
                    Some((number, lsn)) if number == page => Stored::Whole(lsn),
                    _ => Stored::Torn,
                },
                Err(CacheError::Damaged { .. }) => Stored::Torn,
                Err(CacheError::Flash(error) | CacheError::Slow(error)) => return Err(error),
                Err(_) => return Err(IoError::Failed(REFUSED)),
            };
        }
        Ok(found)
    }

    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError> {
        for batch in pages.chunks(self.shared.job.batch as usize) {
            let written = self.write(batch, After::Leaves, Rc::new(|_| ())).await;
            written.map_err(|error| match error {
                EngineError::Io(error) => error,
                _ => IoError::Failed(REFUSED),
            })?;
        }
        Ok(())
    }

    fn attach(&self, pool: Weak<dyn ColdEnd>) {
        *self.shared.above.pool.borrow_mut() = Some(pool);
    }

    fn warm_fetch(&self, page: PageNo) {
        if let Ok(cache) = self.cache() {
            cache.refer(page.0.into());
        }
    }

    async fn warm_evict(&self, pages: &[(PageNo, bool)]) -> Result<bool, EngineError> {
        let (cache, s) = (self.cache()?, &*self.shared);
        s.filling.set(true);
        let mut forgotten = Vec::new();
        for (page, dirty) in pages {
            let number = u64::from(page.0);
            if *dirty && self.goes_past() {
                // The volume has it: nothing is written.
                if cache.holds(number) {
                    forgotten.push(cache.forget(number..number + 1));
                }
                continue;
            }
            let data = self.bytes(PageVersion { page: *page, lsn: LOADED });
            while cache.stage(page.0.into(), &data, *dirty, LOADED.0).map_err(of_cache)?.is_none() {
                cache.until_room().await.map_err(of_cache)?;
            }
        }
        let ended = join_all(forgotten).await.into_iter().collect::<Result<(), CacheError>>();
        ended.map_err(of_cache)?;
        let stats = cache.stats();
        let ring = stats.frames * u64::from(s.page_bytes);
        Ok(s.flash.written().bytes as f64 >= s.job.laps * ring as f64)
    }

    async fn warm_end(&self) -> Result<(), EngineError> {
        self.cache()?.checkpoint().await.map_err(of_cache)?;
        self.shared.filling.set(false);
        Ok(())
    }

    fn counts(&self) -> StoreCounts {
        let s = &*self.shared;
        let cache = s.cache.borrow();
        let cache = cache.as_ref().map(|cache| CacheCounts::of(&cache.stats(), s.flash.written()));
        StoreCounts { cache, ..s.pages.counts() }
    }
}
