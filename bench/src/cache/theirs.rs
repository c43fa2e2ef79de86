//! foyer, used by tasks of its runtime. What it does not have is read from the slow store and inserted.

use crate::trace::Io;
use crate::{FLIGHT, Failure, Found, PAGE, content, is_version};
use foyer::{
    BlockEngineConfig, DeviceBuilder, FileDeviceBuilder, HybridCache, HybridCacheBuilder,
    PsyncIoEngineConfig,
};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex as SyncMutex};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Memory for entries.
const MEMORY: usize = 4 << 20;
/// Bytes of a block of its engine: a small part of the file.
const BLOCK: usize = 1 << 20;
/// Pages that share a lock.
const LOCKS: usize = 1 << 16;

type Cache = HybridCache<u32, Vec<u8>>;

/// Runs the trace through a new cache.
pub fn run(folder: &Path, trace: &[Io], pages: u64, slow: Duration) -> Result<Found, Failure> {
    let path = folder.join(format!("bench-cache-{}.theirs", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(on_file(&path, trace.to_vec().into(), pages, slow));
    drop(runtime);
    let _ = std::fs::remove_file(&path);
    found
}

async fn on_file(
    path: &Path,
    trace: Arc<[Io]>,
    pages: u64,
    slow: Duration,
) -> Result<Found, Failure> {
    let bytes = pages as usize * PAGE / BLOCK * BLOCK;
    let device = FileDeviceBuilder::new(path).with_capacity(bytes).with_direct(true).build()?;
    let cache: Cache = HybridCacheBuilder::new()
        .memory(MEMORY)
        .with_weighter(|_: &u32, page: &Vec<u8>| page.len())
        .storage()
        .with_io_engine_config(PsyncIoEngineConfig::new())
        .with_engine_config(BlockEngineConfig::new(device).with_block_size(BLOCK))
        .build()
        .await?;
    let all = trace.iter().map(|io| io.page as usize + 1).max().unwrap_or(1);
    let user = Arc::new(User {
        cache: cache.clone(),
        trace,
        next: SyncMutex::new(0),
        locks: (0..LOCKS).map(|_| Arc::new(Mutex::new(()))).collect(),
        versions: (0..all).map(|_| AtomicU32::new(0)).collect(),
        counts: Default::default(),
        slow,
    });
    let began = Instant::now();
    let tasks: Vec<_> = (0..FLIGHT).map(|_| tokio::spawn(user.clone().work())).collect();
    for task in tasks {
        task.await??;
    }
    // What memory still has goes to the file, too.
    cache.close().await?;
    let seconds = began.elapsed().as_secs_f64();
    let [reads, hits, stale] = [0, 1, 2].map(|i| user.counts[i].load(Relaxed));
    let flash_bytes = cache.statistics().disk_write_bytes() as u64;
    Ok(Found { seconds, reads, hits, stale, flash_bytes })
}

/// What a task does next.
enum Turn {
    /// Use the page, and then let go of its lock.
    Use(Io, OwnedMutexGuard<()>),
    /// Wait for the page.
    Wait(Arc<Mutex<()>>),
}

/// What the tasks share.
struct User {
    cache: Cache,
    trace: Arc<[Io]>,
    next: SyncMutex<usize>,
    locks: Vec<Arc<Mutex<()>>>,
    versions: Vec<AtomicU32>,
    /// Reads, hits, stale hits.
    counts: [AtomicU64; 3],
    slow: Duration,
}

impl User {
    async fn work(self: Arc<Self>) -> Result<(), Failure> {
        let mut held = None;
        while let Some(turn) = self.turn(held.take())? {
            match turn {
                Turn::Use(io, held) => {
                    self.use_page(io).await?;
                    drop(held);
                }
                Turn::Wait(lock) => held = Some(lock.lock_owned().await),
            }
        }
        Ok(())
    }

    /// The next I/O, with the lock of its page, which the caller may hold already. The order of I/Os on
    /// one page stays: a lock is asked for in the order of the trace, and the trace goes on when it was
    /// had.
    fn turn(&self, held: Option<OwnedMutexGuard<()>>) -> Result<Option<Turn>, Failure> {
        let mut next = self.next.lock().map_err(|_| "a task panicked")?;
        let Some(io) = self.trace.get(*next).copied() else { return Ok(None) };
        let lock = self.locks[io.page as usize % LOCKS].clone();
        let held = held.filter(|held| Arc::ptr_eq(OwnedMutexGuard::mutex(held), &lock));
        let held = held.map_or_else(|| lock.clone().try_lock_owned(), Ok);
        Ok(Some(match held {
            Ok(held) => {
                *next += 1;
                Turn::Use(io, held)
            }
            Err(_) => Turn::Wait(lock),
        }))
    }

    /// An I/O of the slow store. (tokio's timers are too coarse for it.)
    async fn slow_io(&self) -> Result<(), Failure> {
        let time = self.slow;
        Ok(tokio::task::spawn_blocking(move || std::thread::sleep(time)).await?)
    }

    async fn use_page(&self, io: Io) -> Result<(), Failure> {
        let known = &self.versions[io.page as usize];
        if io.write {
            let version = known.fetch_add(1, Relaxed) + 1;
            self.cache.insert(io.page, content(io.page, version));
            return self.slow_io().await;
        }
        let version = known.load(Relaxed);
        self.counts[0].fetch_add(1, Relaxed);
        match self.cache.get(&io.page).await? {
            Some(entry) => {
                self.counts[1].fetch_add(1, Relaxed);
                let stale = !is_version(entry.value(), io.page, version);
                self.counts[2].fetch_add(u64::from(stale), Relaxed);
            }
            None => {
                self.slow_io().await?;
                drop(self.cache.insert(io.page, content(io.page, version)));
            }
        }
        Ok(())
    }
}
