//! The cache for threads: calls that block, from as many threads as there are.
//!
//! A thread of the cache has a runtime and the [`FlashCache`], and carries out what other threads
//! ask for. Pages are copied on the thread that calls.
//!
//! ```
//! use std::sync::Arc;
//! use tantalum_cache::blocking::{BlockingCache, BlockingOptions, Slow};
//! use tantalum_cache::flash::{Fetched, FormatOptions, NoHost};
//!
//! # let folder = std::env::temp_dir().join(format!("tantalum-cache-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let (flash, disk) = (folder.join("flash"), folder.join("disk"));
//! # [&flash, &disk].iter().for_each(|path| drop(std::fs::remove_file(path)));
//! let mut options = BlockingOptions::default();
//! # options.file.buffered = true;
//! BlockingCache::make_file(&flash, 16 << 20, &options)?;
//! BlockingCache::make_file(&disk, 64 << 20, &options)?;
//! let slow = Slow::Path(disk);
//! BlockingCache::format(&flash, &slow, &FormatOptions::default(), &options)?;
//!
//! let cache = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options)?;
//! std::thread::scope(|scope| {
//!     for worker in 0..4u8 {
//!         let cache = cache.clone();
//!         // The page survives a power loss when `evict` returns.
//!         scope.spawn(move || cache.evict(worker.into(), &[worker; 4096], true, 1).unwrap());
//!     }
//! });
//! let mut page = vec![0; cache.page_bytes()];
//! assert_eq!(cache.fetch(3, &mut page)?, Fetched::Flash { lsn: 1, dirty: true });
//! assert_eq!(page, [3; 4096]);
//! cache.close()?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! 1. All promises of [the cache](crate::flash).
//! 2. **One user of a page.** Between the end of a fetch and the beginning of the eviction the
//!    program owns the page. It does not fetch, evict or forget one page from two threads at once.
//! 3. **Nobody waits for ever.** When the cache is closed, or its thread ends, every call that waits
//!    returns the reason.
//! 4. **What was not durable may be lost** when the last clone is dropped: it is as if the power had
//!    gone. [`BlockingCache::close`] makes everything durable, and the next start warm.
//! 5. [`Host`] is called in the thread of the cache: it must not wait, must not call the cache, and
//!    must not hold a clone of it, which would never end then. A [`BlockingStore`] is called in
//!    threads of its own, and may wait.

mod store;
mod thread;

pub use store::BlockingStore;

use crate::flash::{
    CacheError, CacheStats, DeviceStore, Fetched, FlashCache, FlashDescription, FormatOptions,
    Host, OpenError, OpenOptions, Scrubbed, SlowStore, Staged,
};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use store::CallStore;
use tantalum_device::{BlockDevice, File, FileError, FileSettings, IoError};
use tantalum_rt::Rt;
use tantalum_rt::calls::{Calls, ThreadError};
use tantalum_rt::wall::{WallOptions, random};
use thread::{Ended, Letter, Opened};

/// How a cache is used from threads.
///
/// See [`BlockingCache`] for an example.
#[derive(Clone, Debug)]
pub struct BlockingOptions {
    /// How the cache is used.
    pub open: OpenOptions,
    /// How its files are used.
    pub file: FileSettings,
    /// The runtime of its thread.
    pub wall: WallOptions,
}

impl Default for BlockingOptions {
    /// Files keep their room: a cache refuses a device that may refuse pages.
    fn default() -> BlockingOptions {
        BlockingOptions {
            open: OpenOptions::default(),
            file: FileSettings { keep_room: true, ..FileSettings::default() },
            wall: WallOptions::default(),
        }
    }
}

/// Where the pages of a cache end.
#[derive(Clone)]
pub enum Slow {
    /// On a file or block device, behind a label ([`DeviceStore`]).
    Path(PathBuf),
    /// Wherever the program has them.
    Store(Arc<dyn BlockingStore>),
}

/// Why a cache was not made or opened from a thread.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError {
    /// As the cache says.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// A file or block device cannot be used.
    #[error("{0}")]
    File(#[from] FileError),
    /// There is no thread, or no runtime, for the cache.
    #[error("the cache has no thread of its own: {0}")]
    Runtime(#[source] io::Error),
    /// Its thread came to an end.
    #[error("the thread of the cache panicked: {0}")]
    Panicked(String),
}

impl From<ThreadError> for BlockingError {
    fn from(e: ThreadError) -> BlockingError {
        match e {
            ThreadError::Start(e) => BlockingError::Runtime(e),
            ThreadError::Panicked(why) => BlockingError::Panicked(why),
        }
    }
}

/// A cache for many threads. Cheap to clone; a clone is the same cache. See [the module](self).
///
/// ```
/// use std::sync::Arc;
/// use tantalum_cache::blocking::{BlockingCache, BlockingOptions, Slow};
/// use tantalum_cache::flash::{Fetched, FormatOptions, NoHost};
///
/// # let folder = std::env::temp_dir().join(format!("tantalum-cache-type-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let (flash, disk) = (folder.join("flash"), folder.join("disk"));
/// # [&flash, &disk].iter().for_each(|path| drop(std::fs::remove_file(path)));
/// # let mut options = BlockingOptions::default();
/// # options.file.buffered = true;
/// # BlockingCache::make_file(&flash, 16 << 20, &options)?;
/// # BlockingCache::make_file(&disk, 64 << 20, &options)?;
/// # let slow = Slow::Path(disk);
/// # BlockingCache::format(&flash, &slow, &FormatOptions::default(), &options)?;
/// let cache = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options.clone())?;
/// let mut page = vec![0; cache.page_bytes()];
/// assert!(!matches!(cache.fetch(7, &mut page)?, Fetched::Flash { .. })); // from the slow device
/// page.fill(1);
/// cache.evict(7, &page, true, 1)?;
/// cache.close()?;
///
/// // After a restart the page is still on flash.
/// let cache = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options)?;
/// page.fill(0);
/// assert!(matches!(cache.fetch(7, &mut page)?, Fetched::Flash { lsn: 1, .. }));
/// assert_eq!(page, [1; 4096]);
/// # cache.close()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BlockingCache {
    handle: Arc<Handle>,
}

struct Handle {
    page: usize,
    pages: u64,
    ended: Arc<Ended>,
    calls: Calls<Letter>,
}

impl Handle {
    /// Has the thread carry out a letter, and waits for the answer (3).
    fn ask<T>(&self, letter: impl FnOnce(Sender<T>) -> Letter) -> Result<T, CacheError> {
        self.calls.ask(letter).ok_or_else(|| self.ended.wait())
    }
}

impl BlockingCache {
    /// Makes a file of `bytes` zeros for a device of a cache, which is not there yet.
    ///
    /// # Errors
    /// [`BlockingError::File`], [`BlockingError::Runtime`].
    pub fn make_file(
        path: impl AsRef<Path>,
        bytes: u64,
        options: &BlockingOptions,
    ) -> Result<(), BlockingError> {
        let (path, file) = (path.as_ref().to_path_buf(), options.file.clone());
        in_thread(options, async move |rt| {
            File::create(&rt, path, bytes, &file).await?;
            Ok(())
        })
    }

    /// Makes an empty cache on all of `flash`, for the pages of `slow`, which stay as they are; see
    /// [`FlashCache::format`]. Without an identity in the options it gets a random one.
    ///
    /// # Errors
    /// [`BlockingError`]; see [`FlashCache::format`].
    pub fn format(
        flash: impl AsRef<Path>,
        slow: &Slow,
        format: &FormatOptions,
        options: &BlockingOptions,
    ) -> Result<(), BlockingError> {
        let (flash, slow) = (flash.as_ref().to_path_buf(), slow.clone());
        let (mut format, file) = (format.clone(), options.file.clone());
        if format.identity.is_none() {
            format.identity = Some(random().map_err(BlockingError::Runtime)?);
        }
        in_thread(options, async move |rt| {
            let flash = File::open(&rt, &flash, &file)?;
            match slow {
                Slow::Path(path) => {
                    let store = DeviceStore::new(File::open(&rt, &path, &file)?, format.page)?;
                    Ok(FlashCache::format(&rt, &flash, &store, &format).await?)
                }
                Slow::Store(store) => {
                    let store = CallStore::start(&rt, store, 1)?;
                    Ok(FlashCache::format(&rt, &flash, &store, &format).await?)
                }
            }
        })
    }

    /// What a flash device says of the cache on it; see [`FlashCache::describe`].
    ///
    /// # Errors
    /// [`BlockingError`]; see [`FlashCache::describe`].
    pub fn describe(
        flash: impl AsRef<Path>,
        options: &BlockingOptions,
    ) -> Result<FlashDescription, BlockingError> {
        let file = FileSettings { read_only: true, ..options.file.clone() };
        let flash = flash.as_ref().to_path_buf();
        in_thread(options, async move |rt| {
            let flash = File::open(&rt, &flash, &file)?;
            Ok(FlashCache::<File, DeviceStore<File>>::describe(&flash).await?)
        })
    }

    /// Opens a cache, however it ended; see [`FlashCache::open`].
    ///
    /// # Errors
    /// [`BlockingError`]; see [`FlashCache::open`].
    pub fn open(
        flash: impl AsRef<Path>,
        slow: &Slow,
        host: Arc<dyn Host + Send + Sync>,
        options: BlockingOptions,
    ) -> Result<BlockingCache, BlockingError> {
        let (flash, file) = (flash.as_ref().to_path_buf(), options.file.clone());
        match slow.clone() {
            Slow::Path(path) => BlockingCache::open_with(options, host, async move |rt| {
                let flash = File::open(&rt, &flash, &file)?;
                let page = FlashCache::<File, DeviceStore<File>>::describe(&flash).await?.page;
                let slow = DeviceStore::new(File::open(&rt, &path, &file)?, page)?;
                Ok((flash, slow))
            }),
            Slow::Store(store) => {
                // Writes side by side, and as many reads.
                let hands = 2 * options.open.depth.clamp(1, 64);
                BlockingCache::open_with(options, host, async move |rt| {
                    let flash = File::open(&rt, &flash, &file)?;
                    Ok((flash, CallStore::start(&rt, store, hands)?))
                })
            }
        }
    }

    /// Opens a cache on what `make` makes in the thread of the cache: a flash device and a slow
    /// store.
    ///
    /// # Errors
    /// [`BlockingError`]; see [`FlashCache::open`].
    pub fn open_with<F, S, M, Made>(
        options: BlockingOptions,
        host: Arc<dyn Host + Send + Sync>,
        make: M,
    ) -> Result<BlockingCache, BlockingError>
    where
        F: BlockDevice + 'static,
        S: SlowStore + 'static,
        M: FnOnce(Rt) -> Made + Send + 'static,
        Made: Future<Output = Result<(F, S), BlockingError>> + 'static,
    {
        let (opened, calls) = thread::start(options, host, make)?;
        let Opened { page, pages, ended } = opened;
        Ok(BlockingCache { handle: Arc::new(Handle { page, pages, ended, calls }) })
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.handle.page
    }

    /// How many pages the slow store has.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.handle.pages
    }

    /// Fetches a page into `buf`, which has the bytes of one; see [`FlashCache::fetch`].
    ///
    /// # Errors
    /// As there.
    pub fn fetch(&self, page: u64, buf: &mut [u8]) -> Result<Fetched, CacheError> {
        let room = vec![0; buf.len()];
        let (found, bytes) = self.handle.ask(|to| Letter::Fetch(page, room, to))?;
        let found = found?;
        buf.copy_from_slice(&bytes);
        Ok(found)
    }

    /// A page leaves RAM; it is durable when this returns. See [`FlashCache::evict`].
    ///
    /// # Errors
    /// As there.
    pub fn evict(&self, page: u64, data: &[u8], dirty: bool, lsn: u64) -> Result<(), CacheError> {
        self.handle.ask(|to| Letter::Evict(page, data.to_vec(), dirty, lsn, to))?
    }

    /// A page leaves RAM; it is in the cache when this returns, in memory, so that a fetch finds it.
    /// It is durable after [`BlockingCache::settle`] or [`BlockingCache::checkpoint`]; a clean page
    /// need not be. It waits while there is no room. See [`FlashCache::stage`].
    ///
    /// # Errors
    /// As there, and as [`FlashCache::until_room`].
    pub fn stage(
        &self,
        page: u64,
        data: &[u8],
        dirty: bool,
        lsn: u64,
    ) -> Result<Staged, CacheError> {
        self.handle.ask(|to| Letter::Stage(page, data.to_vec(), dirty, lsn, to))?
    }

    /// Waits until a page that was staged with these data is durable; see [`FlashCache::settle`].
    ///
    /// # Errors
    /// As there.
    pub fn settle(&self, staged: &Staged, data: &[u8]) -> Result<(), CacheError> {
        self.handle.ask(|to| Letter::Settle(*staged, data.to_vec(), to))?
    }

    /// Pages are forgotten, for good when this returns; see [`FlashCache::forget`].
    ///
    /// # Errors
    /// As there.
    pub fn forget(&self, pages: Range<u64>) -> Result<(), CacheError> {
        self.handle.ask(|to| Letter::Forget(pages, to))?
    }

    /// Everything evicted, staged or pulled before is durable when this returns; see
    /// [`FlashCache::checkpoint`].
    ///
    /// # Errors
    /// As there.
    pub fn checkpoint(&self) -> Result<(), CacheError> {
        self.handle.ask(Letter::Checkpoint)?
    }

    /// Compares every frame with its checksum, while the cache is used; see [`FlashCache::scrub`].
    ///
    /// # Errors
    /// As there.
    pub fn scrub(&self) -> Result<Scrubbed, CacheError> {
        self.handle.ask(Letter::Scrub)?
    }

    /// Every page that is dirty now is on the slow store when this returns; see
    /// [`FlashCache::clean`].
    ///
    /// # Errors
    /// As there.
    pub fn clean(&self) -> Result<(), CacheError> {
        self.handle.ask(Letter::Clean)?
    }

    /// What the cache has done and how it is.
    ///
    /// # Errors
    /// [`CacheError::Stopped`] if the cache has ended.
    pub fn stats(&self) -> Result<CacheStats, CacheError> {
        self.handle.ask(Letter::Stats)
    }

    /// The page that the slow store refuses at present, if there is one, and its error.
    ///
    /// # Errors
    /// [`CacheError::Stopped`] if the cache has ended.
    pub fn refused(&self) -> Result<Option<(u64, IoError)>, CacheError> {
        self.handle.ask(Letter::Refused)
    }

    /// The cache has so many bytes of the flash device from now on; see [`FlashCache::resize`].
    ///
    /// # Errors
    /// As there.
    pub fn resize(&self, bytes: u64) -> Result<(), CacheError> {
        self.handle.ask(|to| Letter::Resize(bytes, to))?
    }

    /// Gives up the flash device: every dirty page goes to the slow store first, while the cache is
    /// used. Then the cache ends, and the store is used alone. See [`FlashCache::detach`].
    ///
    /// # Errors
    /// As there. If the cache has not ended it goes on.
    pub fn detach(&self) -> Result<(), CacheError> {
        self.handle.ask(Letter::Detach)??;
        self.handle.calls.wait();
        Ok(())
    }

    /// Ends the cache: everything is durable, and the next start is warm. Every call on any clone
    /// fails from then on, and its devices can be opened again. See [`FlashCache::close`].
    ///
    /// # Errors
    /// As there: then the next start is one after a crash.
    pub fn close(&self) -> Result<(), CacheError> {
        self.handle.ask(Letter::Close)??;
        self.handle.calls.wait();
        Ok(())
    }
}

/// Carries out `task` in a thread with a runtime.
fn in_thread<T, R>(
    options: &BlockingOptions,
    task: impl FnOnce(Rt) -> T + Send + 'static,
) -> Result<R, BlockingError>
where
    T: Future<Output = Result<R, BlockingError>> + 'static,
    R: Send + 'static,
{
    tantalum_rt::calls::in_thread(thread::NAME, options.wall, task)
}
