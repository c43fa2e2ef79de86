//! What the commands of a running volume do to its cache.
//!
//! 1. A command holds its pages (`claims.rs`) until it has ended.
//! 2. A write enters the cache in pieces of a page, counted from where it begins. A piece that is
//!    not one page changes two, which enter in one poll.
//! 3. What goes to the slow device goes on when its caller is gone: else a later write of the same
//!    page might overtake it there.
//! 4. A page enters clean only if the slow device has it for good. So what a restart reads stays.
//! 5. What keeps scans out sees reads in the order in which their turns come, not in that in which the
//!    slow device answers; cached pages, too. Exits are a stream of their own.

use crate::flash::format::Part;
use crate::flash::{Admit, CacheError, DeviceStore, FlashCache, Mode, SlowStore};
use crate::planted::planted;
use crate::policy::Guard;
use crate::volume::claims::Claims;
use crate::volume::error::io_error;
use crate::volume::options::CleanEntry;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::{Allocation, Block, BlockDevice, Blocks, Caps, IoError};
use tantalum_rt::{Rt, join_all};

pub(crate) struct Core<F: BlockDevice + 'static, D: BlockDevice + 'static> {
    pub cache: FlashCache<F, DeviceStore<D>>,
    caps: Caps,
    claims: Claims,
    /// Parts before this one were there at the start.
    start: Part,
    clean: CleanEntry,
    /// What keeps scans out of what is read (5).
    reads: RefCell<Option<Guard>>,
}

/// Tombstones of a discard that are on their way side by side, at most.
const GAPS: usize = 64;
/// Pages that are looked at for one answer about what is stored, at most.
const LOOK: u64 = 1 << 16;

impl<F: BlockDevice + 'static, D: BlockDevice + 'static> Core<F, D> {
    pub fn new(
        rt: &Rt,
        cache: FlashCache<F, DeviceStore<D>>,
        caps: Caps,
        clean: CleanEntry,
    ) -> Core<F, D> {
        let start = cache.core().heads.get().superblock.rear;
        let reads = RefCell::new(cache.core().options.scan.map(Guard::new));
        Core { cache, caps, claims: Claims::new(rt), start, clean, reads }
    }

    /// Bytes of a page.
    fn page(&self) -> usize {
        self.caps.atomic_unit as usize
    }

    fn store(&self) -> &DeviceStore<D> {
        &self.cache.core().slow
    }

    fn failed(&self, error: CacheError) -> IoError {
        io_error(error, u64::from(self.caps.atomic_unit / self.caps.block_size))
    }

    fn bytes(&self, blocks: Blocks) -> Range<u64> {
        let block = u64::from(self.caps.block_size);
        blocks.start.0 * block..(blocks.start.0 + blocks.count) * block
    }

    /// The pages that these bytes touch.
    fn pages(&self, bytes: &Range<u64>) -> Range<u64> {
        let page = self.page() as u64;
        bytes.start / page..bytes.end.div_ceil(page)
    }

    fn is_cached(&self, page: u64) -> bool {
        self.cache.core().state.borrow().index.find(page).is_some()
    }

    pub async fn read(&self, blocks: Blocks, buf: &mut [u8]) -> Result<(), IoError> {
        let bytes = self.bytes(blocks);
        let pages = self.pages(&bytes);
        let page = self.page() as u64;
        let _claim = self.claims.share(pages.clone()).await;
        if bytes.start == pages.start * page && bytes.end == pages.end * page {
            return self.read_pages(pages, buf).await;
        }
        let mut whole = vec![0; ((pages.end - pages.start) * page) as usize];
        let skip = (bytes.start - pages.start * page) as usize;
        self.read_pages(pages, &mut whole).await?;
        buf.copy_from_slice(&whole[skip..][..buf.len()]);
        Ok(())
    }

    /// Reads claimed pages: each that is cached from the cache, runs of others from the slow device.
    async fn read_pages(&self, pages: Range<u64>, buf: &mut [u8]) -> Result<(), IoError> {
        let admitted = self.admitted_reads(&pages);
        let (mut reads, mut rest, mut next) = (Vec::new(), buf, pages.start);
        while next < pages.end {
            let cached = self.is_cached(next);
            let end = match cached {
                true => next + 1,
                false => (next + 1..pages.end).find(|p| self.is_cached(*p)).unwrap_or(pages.end),
            };
            let (here, behind) = rest.split_at_mut((end - next) as usize * self.page());
            reads.push(self.read_run(next, cached, admitted, here));
            (rest, next) = (behind, end);
        }
        join_all(reads).await.into_iter().collect()
    }

    /// Where those of these pages end that may enter when they are read: the others belong to a scan.
    fn admitted_reads(&self, pages: &Range<u64>) -> u64 {
        match (&mut *self.reads.borrow_mut(), self.clean) {
            (Some(guard), CleanEntry::OnRead) => guard.admits_of(pages.clone()),
            _ => pages.end,
        }
    }

    /// Reads a page that is cached, or pages that are not. Those before `admitted` may enter.
    async fn read_run(
        &self,
        first: u64,
        cached: bool,
        admitted: u64,
        buf: &mut [u8],
    ) -> Result<(), IoError> {
        let core = self.cache.core();
        let enters = self.clean == CleanEntry::OnRead && core.options.admit != Admit::Dirty;
        if cached {
            // What a restart found is on the slow device with write-through before it is seen.
            let fetched = core.fetch_cleaning(first, buf, self.start).await;
            if enters && first < admitted {
                core.ghost_exit(first, false);
            }
            return fetched.map(drop).map_err(|e| self.failed(e));
        }
        let count = (buf.len() / self.page()) as u64;
        core.count(|s| s.fetches += count);
        (first..first + count).for_each(|page| core.ghost_fetch(page));
        self.store().read(first, buf).await?;
        if enters {
            self.enter_clean(first, buf, admitted);
        }
        Ok(())
    }

    /// Claimed pages enter, as the slow device has them, if they are before `admitted`. Without room a
    /// page is let go.
    fn enter_clean(&self, first: u64, data: &[u8], admitted: u64) {
        for (page, data) in (first..).zip(data.chunks(self.page())) {
            let _ = self.cache.core().stage_if(|| page < admitted, page, data, false, 0);
        }
    }

    /// Whole pages of these blocks have left the host's memory as a read returns them. Those that the
    /// cache does not have enter; without their bytes they are read from the slow device for that.
    pub async fn left(&self, blocks: Blocks, data: Option<&[u8]>) -> Result<(), IoError> {
        let (bytes, page) = (self.bytes(blocks), self.page() as u64);
        let whole = bytes.start.div_ceil(page)..bytes.end / page;
        let step = u64::from(self.cache.core().medium.layout().frames);
        let mut next = whole.start;
        while next < whole.end {
            let end = (next + step).min(whole.end);
            let _claim = match planted!(ExitsUnclaimed) {
                true => None,
                false => Some(self.claims.share(next..end).await),
            };
            let admitted = match self.cache.core().options.admit {
                // Not one of them enters, so none is read for that.
                Admit::Dirty => next,
                _ => self.cache.core().admits_of(next..end),
            };
            match data {
                Some(data) => {
                    let of = |page_number: u64| (page_number * page - bytes.start) as usize;
                    self.enter_clean(next, &data[of(next)..of(end)], admitted);
                }
                None => {
                    self.keep_out(admitted..end);
                    self.fetch_clean(next..admitted).await?;
                }
            }
            self.check_open()?;
            next = end;
        }
        Ok(())
    }

    /// Pages of a scan have left, and are not read.
    fn keep_out(&self, pages: Range<u64>) {
        let count = pages.filter(|page| !self.is_cached(*page)).count() as u64;
        let clean_enter = self.cache.core().options.admit != Admit::Dirty;
        self.cache.core().count(|s| {
            s.evictions += count;
            s.dropped += count;
            s.kept_out += if clean_enter { count } else { 0 };
        });
    }

    /// Claimed pages that the cache does not have enter from the slow device, runs of them in one
    /// read.
    async fn fetch_clean(&self, pages: Range<u64>) -> Result<(), IoError> {
        let mut next = pages.start;
        while let Some(first) = (next..pages.end).find(|page| !self.is_cached(*page)) {
            let end = (first..pages.end).find(|page| self.is_cached(*page)).unwrap_or(pages.end);
            let mut data = vec![0; (end - first) as usize * self.page()];
            self.store().read(first, &mut data).await?;
            self.enter_clean(first, &data, pages.end);
            next = end;
        }
        Ok(())
    }

    /// Whether the first of these blocks hold data: those of a cached page do, and the slow device
    /// knows it of the others.
    pub async fn allocation(&self, blocks: Blocks) -> Result<Allocation, IoError> {
        let page = self.page() as u64;
        let mut bytes = self.bytes(blocks);
        bytes.end = bytes.end.min((bytes.start / page + LOOK) * page);
        let pages = self.pages(&bytes);
        let cached = self.cached(&pages);
        let like_first = (pages.start..).zip(&cached).take_while(|(at, page)| at == *page).count();
        let end = match like_first {
            0 => cached.first().map_or(bytes.end, |next| next * page),
            n => bytes.end.min((pages.start + n as u64) * page),
        };
        let count = (end - bytes.start) / u64::from(self.caps.block_size);
        if like_first > 0 {
            return Ok(Allocation { blocks: count, hole: false });
        }
        let store = self.store();
        // The first may be within a page.
        let skip = (bytes.start - pages.start * page) / u64::from(self.caps.block_size);
        let range = Blocks { start: Block(store.block(pages.start).0 + skip), count };
        let told = store.device().allocation(range).await?;
        Ok(Allocation { blocks: told.blocks.clamp(1, count), ..told })
    }

    pub async fn write(&self, blocks: Blocks, data: &[u8], durable: bool) -> Result<(), IoError> {
        let bytes = self.bytes(blocks);
        {
            let _claim = self.claims.change(self.pages(&bytes)).await;
            self.write_claimed(bytes.start, data).await?;
        }
        if durable { self.flush().await } else { self.check_open() }
    }

    async fn write_claimed(&self, at: u64, data: &[u8]) -> Result<(), IoError> {
        for (at, piece) in (at..).step_by(self.page()).zip(data.chunks(self.page())) {
            self.write_piece(at, piece).await.map_err(|e| self.failed(e))?;
        }
        Ok(())
    }

    /// Writes at most the bytes of a page (2).
    async fn write_piece(&self, at: u64, data: &[u8]) -> Result<(), CacheError> {
        let (core, page) = (self.cache.core(), self.page());
        let pages = self.pages(&(at..at + data.len() as u64));
        if data.len() == page && pages.end == pages.start + 1 {
            return core.stage_together(&[(pages.start, data)]).await;
        }
        let mut whole = vec![0; (pages.end - pages.start) as usize * page];
        for (number, bytes) in pages.clone().zip(whole.chunks_mut(page)) {
            core.fetch_cleaning(number, bytes, self.start).await?;
        }
        let skip = (at - pages.start * page as u64) as usize;
        whole[skip..][..data.len()].copy_from_slice(data);
        let changed: Vec<(u64, &[u8])> = pages.zip(whole.chunks(page)).collect();
        core.stage_together(&changed).await
    }

    /// Everything that was written survives when this returns.
    pub async fn flush(&self) -> Result<(), IoError> {
        let core = self.cache.core();
        core.check_open().map_err(|e| self.failed(e))?;
        let flushed = match core.mode {
            Mode::Back => core.checkpoint().await,
            Mode::Through => core.clean_patiently().await,
        };
        flushed.map_err(|e| self.failed(e))
    }

    fn check_open(&self) -> Result<(), IoError> {
        self.cache.core().check_open().map_err(|e| self.failed(e))
    }

    /// These blocks read as zeros from now on.
    pub async fn discard(self: &Rc<Self>, blocks: Blocks) -> Result<(), IoError> {
        let core = self.clone();
        let work = async move { core.discard_whole(blocks).await };
        let task = self.cache.core().domain.spawn("cache volume: discard", work);
        task.await.unwrap_or(Err(IoError::Poisoned))
    }

    async fn discard_whole(&self, blocks: Blocks) -> Result<(), IoError> {
        let (bytes, page) = (self.bytes(blocks), self.page() as u64);
        let _claim = self.claims.change(self.pages(&bytes)).await;
        let inner = bytes.start.div_ceil(page)..bytes.end / page;
        let most = self.cache.core().medium.layout().frames.into();
        if inner.end.saturating_sub(inner.start) <= most {
            let zeros = vec![0; (bytes.end - bytes.start) as usize];
            return self.write_claimed(bytes.start, &zeros).await;
        }
        for part in [bytes.start..inner.start * page, inner.end * page..bytes.end] {
            let zeros = vec![0; (part.end - part.start) as usize];
            self.write_claimed(part.start, &zeros).await?;
        }
        let mut gaps = Vec::new();
        let mut next = inner.start;
        let zeros = vec![0; self.page()];
        for cached in self.cached(&inner) {
            if next < cached {
                gaps.push(next..cached);
            }
            next = cached + 1;
            let staged = self.cache.core().stage_together(&[(cached, &zeros)]).await;
            staged.map_err(|e| self.failed(e))?;
        }
        if next < inner.end {
            gaps.push(next..inner.end);
        }
        for gaps in gaps.chunks(GAPS) {
            self.discard_gaps(gaps).await?;
        }
        Ok(())
    }

    /// The cached pages among these, ascending.
    fn cached(&self, pages: &Range<u64>) -> Vec<u64> {
        let state = self.cache.core().state.borrow();
        state.index.pages_in(pages)
    }

    /// Discards claimed pages that the cache does not have. Versions of them may be in batches that
    /// a restart would look at, so tombstones come first.
    async fn discard_gaps(&self, gaps: &[Range<u64>]) -> Result<(), IoError> {
        let (core, store) = (self.cache.core(), self.store());
        for gap in gaps {
            core.bury(gap.clone()).await.map_err(|e| self.failed(e))?;
            core.count(|s| s.forgotten += gap.end - gap.start);
        }
        core.checkpoint().await.map_err(|e| self.failed(e))?;
        let blocks = u64::from(self.caps.atomic_unit / store.device().caps().block_size);
        for gap in gaps {
            core.unwritten(gap.clone()).await;
            let range =
                Blocks { start: store.block(gap.start), count: (gap.end - gap.start) * blocks };
            store.device().discard(range).await?;
        }
        store.flush().await
    }

    /// Ends the volume in good order: the next start finds the whole directory.
    pub async fn close(&self) -> Result<(), IoError> {
        self.flush().await?;
        self.cache.core().close().await.map_err(|e| self.failed(e))
    }
}
