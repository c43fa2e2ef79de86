//! A slow store of the program's, which waits: threads of its own call it for the cache.
//!
//! 1. Its calls have their own copies of what they read and write, so the cache may give one up.
//! 2. None of its calls is under way any more when the last of the cache is gone.
//! 3. A call that panics is an error of the store.

use super::BlockingError;
use crate::flash::SlowStore;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tantalum_device::IoError;
use tantalum_rt::Rt;

/// A slow store whose calls block: disks, a network volume, the files of a database. As
/// [`SlowStore`], which says more. Several calls may be under way at once, in different threads,
/// never two writes of one page.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use tantalum_cache::blocking::{BlockingCache, BlockingOptions, BlockingStore, Slow};
/// use tantalum_cache::flash::{FormatOptions, NoHost};
/// use tantalum_device::IoError;
///
/// /// Pages of 4 KiB in memory, which nothing survives.
/// struct Memory(Mutex<Vec<u8>>);
///
/// impl BlockingStore for Memory {
///     fn pages(&self) -> u64 {
///         self.0.lock().unwrap().len() as u64 / 4096
///     }
///
///     fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
///         let at = page as usize * 4096;
///         buf.copy_from_slice(&self.0.lock().unwrap()[at..at + buf.len()]);
///         Ok(())
///     }
///
///     fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
///         let at = first as usize * 4096;
///         self.0.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
///         Ok(())
///     }
///
///     fn flush(&self) -> Result<(), IoError> {
///         Ok(())
///     }
/// }
///
/// # let folder = std::env::temp_dir().join(format!("tantalum-store-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let flash = folder.join("flash");
/// # let _ = std::fs::remove_file(&flash);
/// # let mut options = BlockingOptions::default();
/// # options.file.buffered = true;
/// # BlockingCache::make_file(&flash, 16 << 20, &options)?;
/// let memory = Arc::new(Memory(Mutex::new(vec![5; 100 * 4096])));
/// let slow = Slow::Store(memory.clone());
/// BlockingCache::format(&flash, &slow, &FormatOptions::default(), &options)?;
/// let cache = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options)?;
/// let mut page = vec![0; 4096];
/// cache.fetch(99, &mut page)?;
/// assert_eq!(page, [5; 4096]);
/// cache.evict(99, &[6; 4096], true, 1)?;
/// cache.clean()?; // everything that is dirty
/// assert_eq!(memory.0.lock().unwrap()[99 * 4096], 6);
/// cache.close()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait BlockingStore: Send + Sync + 'static {
    /// How many pages there are: their numbers are below.
    fn pages(&self) -> u64;

    /// Reads a page.
    ///
    /// # Errors
    /// The page cannot be read.
    fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError>;

    /// Writes pages side by side, from `first` on.
    ///
    /// # Errors
    /// Any of them may be written or not.
    fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError>;

    /// Everything survives that was written before.
    ///
    /// # Errors
    /// What was written since the last flush may be lost.
    fn flush(&self) -> Result<(), IoError>;

    /// Reads the label's room, `buf.len()` bytes. `false`: the store keeps no label. Then nobody
    /// notices that it is used without its cache.
    ///
    /// # Errors
    /// The label cannot be read.
    fn read_label(&self, buf: &mut [u8]) -> Result<bool, IoError> {
        let _ = buf;
        Ok(false)
    }

    /// Writes one copy of the label, at this byte of its room; it is durable when this returns.
    ///
    /// # Errors
    /// The copy may be written or not.
    fn write_label(&self, at: u64, label: &[u8]) -> Result<(), IoError> {
        let _ = (at, label);
        Ok(())
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A store that threads call.
pub(super) struct CallStore {
    rt: Rt,
    store: Arc<dyn BlockingStore>,
    /// `None` only while it is dropped.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

const BROKEN: IoError = IoError::Failed("a call of the slow store panicked");

impl CallStore {
    /// Starts so many threads.
    pub fn start(
        rt: &Rt,
        store: Arc<dyn BlockingStore>,
        threads: usize,
    ) -> Result<CallStore, BlockingError> {
        let (to, jobs) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        let mut started = CallStore { rt: rt.clone(), store, jobs: Some(to), threads: Vec::new() };
        for _ in 0..threads {
            let jobs = jobs.clone();
            let work = move || work(&jobs);
            #[allow(clippy::disallowed_methods, reason = "the edge: calls that wait")]
            let thread = std::thread::Builder::new().name("tantalum-store".into()).spawn(work);
            started.threads.push(thread.map_err(BlockingError::Runtime)?);
        }
        Ok(started)
    }

    /// Has a thread make a call.
    async fn call<T: Send + 'static>(
        &self,
        make: impl FnOnce(&dyn BlockingStore) -> Result<T, IoError> + Send + 'static,
    ) -> Result<T, IoError> {
        let (post, mut answer) = self.rt.inbox_of(1);
        let store = self.store.clone();
        let job = move || {
            // The cache may have given it up.
            let _ = post.post(make(&*store));
        };
        let jobs = self.jobs.as_ref().ok_or(BROKEN)?;
        jobs.send(Box::new(job)).map_err(|_| BROKEN)?;
        answer.next().await.unwrap_or(Err(BROKEN))
    }
}

impl Drop for CallStore {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // It catches the panics of its jobs.
            let _ = thread.join();
        }
    }
}

/// Does jobs until there are none any more.
fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(|e| e.into_inner()).recv();
        let Ok(job) = job else { return };
        // What a job owns goes with it, so its caller is told (3).
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

impl SlowStore for CallStore {
    fn pages(&self) -> u64 {
        self.store.pages()
    }

    async fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let mut room = vec![0; buf.len()];
        let read = move |store: &dyn BlockingStore| {
            store.read(page, &mut room)?;
            Ok(room)
        };
        buf.copy_from_slice(&self.call(read).await?);
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        let data = data.to_vec();
        self.call(move |store| store.write(first, &data)).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.call(|store| store.flush()).await
    }

    async fn read_label(&self, buf: &mut [u8]) -> Result<bool, IoError> {
        let mut room = vec![0; buf.len()];
        let read = move |store: &dyn BlockingStore| {
            let labelled = store.read_label(&mut room)?;
            Ok((labelled, room))
        };
        let (labelled, read) = self.call(read).await?;
        buf.copy_from_slice(&read);
        Ok(labelled)
    }

    async fn write_label(&self, at: u64, label: &[u8]) -> Result<(), IoError> {
        let label = label.to_vec();
        self.call(move |store| store.write_label(at, &label)).await
    }
}
