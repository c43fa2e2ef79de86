//! What the cache asks of the program above it.

use tantalum_device::IoError;

/// A page that leaves RAM, or may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOut {
    /// Its number.
    pub page: u64,
    /// Its bytes.
    pub data: Vec<u8>,
    /// It was changed since it was last fetched, evicted or pulled.
    pub dirty: bool,
    /// The newest log record about it.
    pub lsn: u64,
}

/// The program above the cache: its log and its buffer pool. All calls return at once, and must not
/// call the cache.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use tantalum_cache::flash::{
///     CacheError, DeviceStore, FlashCache, FormatOptions, Host, OpenOptions,
/// };
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_rt::Runtime;
///
/// /// A database, of which the cache has to know how far its log is durable.
/// struct Database {
///     durable: Cell<u64>,
/// }
///
/// impl Host for Database {
///     fn log_stable(&self) -> u64 {
///         self.durable.get()
///     }
/// }
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let done = runtime.block_on(async move {
///     let device = |blocks| {
///         RamDevice::new(&rt, RamOptions::new(Caps::power_safe(blocks, Payload::Bytes)))
///     };
///     let (flash, slow) = (device(4096), DeviceStore::new(device(10_000), 4096)?);
///     FlashCache::format(&rt, &flash, &slow, &FormatOptions::default()).await?;
///     let database = Rc::new(Database { durable: Cell::new(99) });
///     let options = OpenOptions::default();
///     let cache = FlashCache::open(&rt, flash, slow, database.clone(), options).await?;
///
///     let refused = cache.evict(7, &[1; 4096], true, 100).await.unwrap_err();
///     assert_eq!(refused, CacheError::LogFirst { page: 7, lsn: 100, stable: 99 });
///     database.durable.set(100); // the log was flushed
///     cache.evict(7, &[1; 4096], true, 100).await?;
///     Ok::<(), Box<dyn std::error::Error>>(())
/// });
/// done.unwrap().unwrap();
/// ```
pub trait Host {
    /// The log is durable up to here: a dirty page whose LSN is higher may not leave RAM.
    fn log_stable(&self) -> u64 {
        u64::MAX
    }

    /// Pages from the cold end of the pool, the coldest first, so that a batch is full when it is
    /// written: there is room for so many. They stay in the pool until they are evicted. The cache
    /// leaves out those whose log records are not durable, those that it has, and those that do not
    /// enter: by [`OpenOptions::admit`], and with write-through dirty ones. Offer others.
    ///
    /// [`OpenOptions::admit`]: crate::flash::OpenOptions::admit
    fn pull(&self, room: usize) -> Vec<PageOut> {
        let _ = room;
        Vec::new()
    }

    /// This version of a page that was pulled is in the cache, and not durable yet. It may not
    /// change until it is ([`Host::staged`]).
    fn taken(&self, page: u64, lsn: u64) {
        let _ = (page, lsn);
    }

    /// This version of a page that was pulled is durable in the cache. If the page has not changed
    /// since, its next eviction is not dirty.
    fn staged(&self, page: u64, lsn: u64) {
        let _ = (page, lsn);
    }

    /// The slow store does not take this page, which stays in the cache. It is tried again. Told for
    /// each try that fails.
    fn refused(&self, page: u64, error: &IoError) {
        let _ = (page, error);
    }
}

/// A program without a log and without a pool to pull from.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}
