//! The cache as a program uses it.

use crate::flash::core::Core;
use crate::flash::describe::{Checked, FlashDescription, StoreDescription};
use crate::flash::error::{CacheError, OpenError};
use crate::flash::evict::Staged;
use crate::flash::fetch::Fetched;
use crate::flash::host::Host;
use crate::flash::options::{FormatOptions, OpenOptions};
use crate::flash::scrub::Scrubbed;
use crate::flash::slow::SlowStore;
use crate::flash::stats::CacheStats;
use crate::flash::{create, describe, open};
use crate::policy::Ghosts;
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{Domain, Rt};

/// A flash cache over a slow store, for the tasks of one runtime. Cheap to clone; a clone is the
/// same cache. When the last clone drops, its tasks end, as in a crash: [`FlashCache::close`] it to
/// start warm. After such an end the devices may still carry out what they were given: open the
/// cache again only when they have, for example after a power cycle.
///
/// A page is in RAM or not: between the end of a fetch and the beginning of the eviction the program
/// owns it, and does not fetch, evict or forget it from two tasks at once.
///
/// ```
/// use std::rc::Rc;
/// use tantalum_cache::flash::{
///     DeviceStore, Fetched, FlashCache, FormatOptions, NoHost, OpenOptions,
/// };
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let done = runtime.block_on(async move {
///     let device = |blocks| {
///         RamDevice::new(&rt, RamOptions::new(Caps::power_safe(blocks, Payload::Bytes)))
///     };
///     let (flash, slow) = (device(4096), DeviceStore::new(device(10_000), 4096)?);
///     FlashCache::format(&rt, &flash, &slow, &FormatOptions::default()).await?;
///     let options = OpenOptions::default();
///     let cache = FlashCache::open(&rt, flash, slow, Rc::new(NoHost), options).await?;
///     cache.evict(7, &[1; 4096], true, 100).await?;
///     let mut page = vec![0; 4096];
///     let found = cache.fetch(7, &mut page).await?;
///     assert_eq!(found, Fetched::Flash { lsn: 100, dirty: true });
///     assert_eq!(page[0], 1);
///     cache.close().await?;
///     Ok::<(), Box<dyn std::error::Error>>(())
/// });
/// done.unwrap().unwrap();
/// ```
pub struct FlashCache<F: BlockDevice + 'static, S: SlowStore + 'static> {
    core: Rc<Core<F, S>>,
    life: Rc<Life>,
}

/// The tasks of a cache end with it.
struct Life(Domain);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Clone for FlashCache<F, S> {
    fn clone(&self) -> FlashCache<F, S> {
        FlashCache { core: self.core.clone(), life: self.life.clone() }
    }
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> FlashCache<F, S> {
    /// What the parts of this crate use.
    pub(crate) fn core(&self) -> &Rc<Core<F, S>> {
        &self.core
    }

    /// Makes an empty cache on all of `flash`, for the pages of `slow`, which stay as they are.
    ///
    /// # Errors
    /// [`OpenError`]. Unless it is an I/O error, nothing was written.
    pub async fn format(
        rt: &Rt,
        flash: &F,
        slow: &S,
        options: &FormatOptions,
    ) -> Result<(), OpenError> {
        create::format(rt, flash, slow, options, create::Others::End).await
    }

    /// Opens a cache, however it ended. Pages that were evicted before are there, and no page is
    /// older than when it was evicted last.
    ///
    /// # Errors
    /// [`OpenError`]. Unless it is an I/O error, nothing was written.
    pub async fn open(
        rt: &Rt,
        flash: F,
        slow: S,
        host: Rc<dyn Host>,
        options: OpenOptions,
    ) -> Result<FlashCache<F, S>, OpenError> {
        let core = open::open(rt, flash, slow, host, options).await?;
        let life = Rc::new(Life(core.domain.clone()));
        Ok(FlashCache { core, life })
    }

    /// What a flash device says of the cache on it. Nothing is changed.
    ///
    /// # Errors
    /// [`OpenError`] if there is no cache that can be used.
    pub async fn describe(flash: &F) -> Result<FlashDescription, OpenError> {
        describe::flash(flash).await
    }

    /// What the label of a slow store says; `None`: it keeps none. Nothing is changed.
    ///
    /// # Errors
    /// [`OpenError`] if there is no label that can be used.
    pub async fn describe_store(slow: &S) -> Result<Option<StoreDescription>, OpenError> {
        describe::store(slow).await
    }

    /// Whether the label of this cache is at the other end of the slow device, so that
    /// [`FlashCache::describe_store`] does not find it, and no other label where it looks.
    ///
    /// # Errors
    /// [`OpenError::LabelElsewhere`] if it is.
    pub async fn check_label_place(cache: &FlashDescription, slow: &S) -> Result<(), OpenError> {
        open::elsewhere(slow, &cache.cache).await.map_or(Ok(()), Err)
    }

    /// Reads the whole cache as a start would find it, and compares every page with its checksum.
    /// Nothing is changed: the devices may be open for reading only.
    ///
    /// # Errors
    /// [`OpenError`] if it cannot be opened.
    pub async fn check(flash: F, slow: &S, options: &OpenOptions) -> Result<Checked, OpenError> {
        describe::check(flash, slow, options).await
    }

    /// Declares that the pages of `slow` are used without their cache from now on, which is refused
    /// ever after. For a store that keeps a label.
    ///
    /// # Errors
    /// [`OpenError::NeedsCache`] if the cache may have newer versions of pages: it was used with
    /// write-back and not closed without dirty pages.
    pub async fn leave_alone(slow: &S) -> Result<(), OpenError> {
        open::leave_alone(slow).await
    }

    /// Fetches a page into `buf`, which has the bytes of one.
    ///
    /// # Errors
    /// [`CacheError::Damaged`] if only the cache had the page's newest version, and its frame is
    /// damaged. What `buf` holds after an error means nothing.
    pub async fn fetch(&self, page: u64, buf: &mut [u8]) -> Result<Fetched, CacheError> {
        self.core.fetch(page, buf).await
    }

    /// A page leaves RAM. `dirty`: it was changed since it was fetched, evicted or pulled last.
    /// `lsn`: the newest log record about it, never below that of an earlier version. When this
    /// returns the page is durable: RAM may forget it.
    ///
    /// If the future is dropped earlier, the page may or may not be in the cache.
    ///
    /// # Errors
    /// [`CacheError::LogFirst`], [`CacheError::Older`]: nothing was changed. After any other error
    /// the page may be there or not: keep it in RAM.
    pub async fn evict(
        &self,
        page: u64,
        data: &[u8],
        dirty: bool,
        lsn: u64,
    ) -> Result<(), CacheError> {
        self.core.evict(page, data, dirty, lsn).await
    }

    /// The first half of [`FlashCache::evict`]: the page is in the cache when this returns, in
    /// memory, so that a fetch finds it and RAM may reuse its frame. A dirty page is durable only
    /// after [`FlashCache::settle`]. A clean one need not be waited for: if a crash loses it, flash
    /// or the slow store has the same version. `None`: there is no room; nothing was changed. Wait
    /// for that with [`FlashCache::until_room`].
    ///
    /// # Errors
    /// Those of [`FlashCache::evict`].
    pub fn stage(
        &self,
        page: u64,
        data: &[u8],
        dirty: bool,
        lsn: u64,
    ) -> Result<Option<Staged>, CacheError> {
        self.core.stage(page, data, dirty, lsn)
    }

    /// The second half: the page, which was staged with these data, is durable when this returns.
    ///
    /// # Errors
    /// [`CacheError`]: it may be or not.
    pub async fn settle(&self, staged: &Staged, data: &[u8]) -> Result<(), CacheError> {
        self.core.settle(staged, data).await
    }

    /// Waits until there may be room for a page.
    ///
    /// # Errors
    /// [`CacheError::Full`], [`CacheError::Stopped`].
    pub async fn until_room(&self) -> Result<(), CacheError> {
        self.core.until_room().await
    }

    /// Pages are forgotten, for example since their file was truncated or dropped. When this
    /// returns, no version of them ever comes back from the cache, and none is being written to the
    /// slow store. Forget pages before their store becomes shorter: a cache with dirty pages behind its
    /// end is refused.
    ///
    /// # Errors
    /// [`CacheError`]: some of them may be forgotten.
    pub async fn forget(&self, pages: Range<u64>) -> Result<(), CacheError> {
        self.core.forget(pages).await
    }

    /// Everything evicted or pulled before is durable when this returns, on flash. A database's
    /// checkpoint needs no more: dirty pages of the cache need not reach the slow store.
    ///
    /// # Errors
    /// [`CacheError`].
    pub async fn checkpoint(&self) -> Result<(), CacheError> {
        self.core.checkpoint().await
    }

    /// Compares every frame of the ring with its checksum, while the cache is used. Damaged frames of
    /// clean pages are given up, so that these are read from the slow store.
    ///
    /// # Errors
    /// [`CacheError::Stopped`], or an I/O error of the flash device.
    pub async fn scrub(&self) -> Result<Scrubbed, CacheError> {
        self.core.scrub().await
    }

    /// Every page that is dirty now is on the slow store, for good, when this returns. The cache is
    /// used meanwhile. A page that was given a second chance meanwhile still counts as dirty
    /// ([`CacheStats::dirty`]); the next call changes that.
    ///
    /// # Errors
    /// [`CacheError::Damaged`] for a dirty page whose newest version is lost: evict it anew, or
    /// forget it. [`CacheError::Full`] if the slow store has refused a page for longer than
    /// [`OpenOptions::patience`].
    pub async fn clean(&self) -> Result<(), CacheError> {
        self.core.check_open()?;
        self.core.clean_patiently().await
    }

    /// The cache has so many bytes of the flash device from now on, from its beginning; fewer or more
    /// than before. It is used meanwhile; pages that leave RAM wait for moments. If it has fewer, the
    /// oldest pages leave it, and when this returns nothing counts behind these bytes: the device may
    /// be made smaller. If it has more, every page stays.
    ///
    /// A crash leaves the size of before or the new one. Smaller, it may need the whole device until
    /// another call.
    ///
    /// # Errors
    /// [`CacheError::Invalid`] if the device does not have so many bytes, or if these are too few.
    /// [`CacheError::Damaged`] for a dirty page whose newest version is lost: evict it anew, or forget
    /// it. Nothing was changed then. After another error the cache may have either size.
    pub async fn resize(&self, bytes: u64) -> Result<(), CacheError> {
        self.core.resize(bytes).await
    }

    /// Bytes of the flash device that the cache has.
    pub fn flash_bytes(&self) -> u64 {
        self.core.heads.get().superblock.bytes
    }

    /// Gives up the flash device: every dirty page goes to the slow store first, while the cache is
    /// used; then the cache ends, and the store is used alone ([`FlashCache::leave_alone`]).
    ///
    /// # Errors
    /// Those of [`FlashCache::clean`]: nothing was given up. After another error the cache may have
    /// ended, and can be opened again.
    pub async fn detach(self) -> Result<(), CacheError> {
        self.clean().await?;
        self.core.detach().await
    }

    /// Ends the cache: everything is durable, and the next start finds the whole directory with its
    /// reference marks. Evictions fail from now on, also if this call is dropped. Fetches on clones go
    /// on.
    ///
    /// # Errors
    /// [`CacheError`]: then the next start is one after a crash.
    pub async fn close(self) -> Result<(), CacheError> {
        self.core.close().await
    }

    /// Bytes of a page in memory: all of them, or eight for each block of a flash device that
    /// carries stamps.
    pub fn page_bytes(&self) -> usize {
        self.core.medium.page()
    }

    /// Whether flash has a version of the page.
    pub fn holds(&self, page: u64) -> bool {
        self.core.state.borrow().index.find(page).is_some()
    }

    /// Marks the page as referenced, as a fetch does, without reading it. Returns whether flash has
    /// it: a cache can be filled by that as by a run, without its reads.
    pub fn refer(&self, page: u64) -> bool {
        let mut state = self.core.state.borrow_mut();
        let found = state.index.find(page);
        if let Some((place, _)) = found {
            state.index.refer(place);
        }
        found.is_some()
    }

    /// What the cache has done and how it is.
    pub fn stats(&self) -> CacheStats {
        let state = self.core.state.borrow();
        let (pages, dirty) = state.index.counts();
        let layout = self.core.medium.layout();
        let frames = u64::from(layout.batches) * u64::from(layout.frames);
        let used = state.index.frames();
        let ghosts = state.ghosts.as_ref().map(Ghosts::counts);
        CacheStats { pages, dirty, used, frames, ghosts, ..state.stats }
    }

    /// Dirty pages that a fetch, a scrub or a clean found damaged, ascending, as far as they were not
    /// evicted anew or forgotten since: their newest versions are lost.
    pub fn damaged(&self) -> Vec<u64> {
        self.core.state.borrow().damaged().collect()
    }

    /// The page that the slow store refuses at present, if there is one, and its error.
    pub fn refused(&self) -> Option<(u64, tantalum_device::IoError)> {
        let state = self.core.state.borrow();
        state.refused.as_ref().map(|r| (r.page, r.error.clone()))
    }

    /// The same in words, with the time since when it does.
    pub(crate) fn refused_in_words(&self) -> Option<String> {
        let state = self.core.state.borrow();
        let refused = state.refused.as_ref()?;
        let since = self.core.rt.now().saturating_sub(refused.since);
        Some(format!("page {} for {since}: {}", refused.page, refused.error))
    }
}
