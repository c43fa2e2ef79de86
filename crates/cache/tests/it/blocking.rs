//! The cache from threads, on real time: files, and stores of the program's that fail.
#![allow(clippy::disallowed_methods, reason = "threads are what is tested")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use tantalum_cache::blocking::{
    BlockingCache, BlockingError, BlockingOptions, BlockingStore, Slow,
};
use tantalum_cache::flash::{
    CacheError, Fetched, FormatOptions, Host, Mode, NoHost, OpenError, PageOut,
};
use tantalum_device::IoError;
use tantalum_rt::Nanos;
use tantalum_testing::Scratch;

const PAGE: usize = 512;
const PAGES: u64 = 400;
const THREADS: u64 = 4;

fn options() -> BlockingOptions {
    let mut options = BlockingOptions::default();
    // Where the test runs there may be no direct I/O.
    options.file.buffered = true;
    options.open.linger = Nanos::from_micros(200);
    options.open.retry = Nanos::from_millis(1);
    options
}

fn format(mode: Mode) -> FormatOptions {
    FormatOptions { page: PAGE as u32, frames: 4, mode, ..FormatOptions::default() }
}

/// A slow store in memory, which can refuse writes.
#[derive(Default)]
struct Memory {
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
    refuses: AtomicBool,
    panics: AtomicBool,
    flushes: AtomicU64,
}

impl BlockingStore for Memory {
    fn pages(&self) -> u64 {
        PAGES
    }

    fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        assert!(!self.panics.load(SeqCst), "as planned");
        match self.pages.lock().unwrap().get(&page) {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => buf.fill(0),
        }
        Ok(())
    }

    fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        if self.refuses.load(SeqCst) {
            return Err(IoError::Failed("as planned"));
        }
        let mut pages = self.pages.lock().unwrap();
        pages.extend((first..).zip(data.chunks(PAGE).map(<[u8]>::to_vec)));
        Ok(())
    }

    fn flush(&self) -> Result<(), IoError> {
        self.flushes.fetch_add(1, SeqCst);
        Ok(())
    }
}

/// A flash file with a cache, and a slow store in memory.
fn over_memory(scratch: &Scratch, mode: Mode) -> (PathBuf, Arc<Memory>) {
    let (flash, memory) = (scratch.path("flash"), Arc::new(Memory::default()));
    BlockingCache::make_file(&flash, 128 << 10, &options()).unwrap();
    BlockingCache::format(&flash, &Slow::Store(memory.clone()), &format(mode), &options()).unwrap();
    (flash, memory)
}

fn open(flash: &PathBuf, slow: &Slow) -> BlockingCache {
    BlockingCache::open(flash, slow, Arc::new(NoHost), options()).unwrap()
}

fn bytes(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![page as u8; PAGE];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Each thread has pages of its own, and uses them as a program does; every fetch gives the newest
/// version. Returns the versions of all pages.
fn work(cache: &BlockingCache, seed: u64, versions: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let user = |thread: u64| {
        let (cache, mut known) = (cache.clone(), versions.clone());
        known.retain(|page, _| page % THREADS == thread);
        move || {
            let (mut random, mut buf) = (seed * 31 + thread, vec![0; PAGE]);
            for step in 0..400u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let page = (random >> 33) % (PAGES / THREADS) * THREADS + thread;
                let version = known.get(&page).copied().unwrap_or(0);
                cache.fetch(page, &mut buf).unwrap();
                if version > 0 {
                    assert_eq!(buf, bytes(page, version), "page {page}");
                }
                match random >> 60 {
                    0..5 => {
                        let next = seed << 32 | step << 8;
                        cache.evict(page, &bytes(page, next), true, next).unwrap();
                        known.insert(page, next);
                    }
                    5 => {
                        let next = seed << 32 | step << 8;
                        let staged = cache.stage(page, &bytes(page, next), true, next).unwrap();
                        cache.settle(&staged, &bytes(page, next)).unwrap();
                        known.insert(page, next);
                    }
                    6 => {
                        cache.forget(page..page + 1).unwrap();
                        known.remove(&page);
                    }
                    7 if step % 4 == 0 => cache.checkpoint().unwrap(),
                    _ => drop(cache.stage(page, &buf, false, version).unwrap()),
                }
            }
            known
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|t| thread::spawn(user(t))).collect();
    threads.into_iter().flat_map(|thread| thread.join().expect("it is through")).collect()
}

fn compare(cache: &BlockingCache, versions: &BTreeMap<u64, u64>) {
    let mut buf = vec![0; PAGE];
    for (page, version) in versions {
        cache.fetch(*page, &mut buf).unwrap();
        assert_eq!(buf, bytes(*page, *version), "page {page}");
    }
}

#[test]
fn threads_find_their_newest_versions_over_ends_of_every_kind() {
    for mode in [Mode::Back, Mode::Through] {
        let scratch = Scratch::new();
        let (flash, disk) = (scratch.path("flash"), scratch.path("disk"));
        BlockingCache::make_file(&flash, 128 << 10, &options()).unwrap();
        BlockingCache::make_file(&disk, (1 << 20) + PAGES * PAGE as u64, &options()).unwrap();
        let slow = Slow::Path(disk);
        BlockingCache::format(&flash, &slow, &format(mode), &options()).unwrap();
        let mut versions = BTreeMap::new();
        for round in 1..5 {
            let cache = open(&flash, &slow);
            assert_eq!((cache.page_bytes(), cache.pages()), (PAGE, PAGES));
            let restart = cache.stats().unwrap().restart;
            assert_eq!(restart.clean, round % 2 == 1, "round {round}");
            compare(&cache, &versions);
            versions = work(&cache, round, &versions);
            compare(&cache, &versions);
            let scrubbed = cache.scrub().unwrap();
            assert!(scrubbed.frames > 0 && scrubbed.damaged.is_empty(), "{scrubbed:?}");
            if round % 2 == 0 {
                let other = cache.clone();
                cache.close().unwrap();
                let ended = other.evict(1, &bytes(1, 1), true, 1).unwrap_err();
                assert!(matches!(&ended, CacheError::Stopped(why) if why.contains("closed")));
                assert!(matches!(other.fetch(1, &mut [0; PAGE]), Err(CacheError::Stopped(_))));
            }
            // Otherwise it ends as if the power had gone.
        }
        let cache = open(&flash, &slow);
        cache.clean().unwrap();
        assert_eq!(cache.stats().unwrap().dirty, 0);
        cache.detach().unwrap();
        drop(cache);
        let refused = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options());
        let refused = refused.err().expect("it was detached");
        assert!(matches!(refused, BlockingError::Open(OpenError::GivenUp)), "{refused}");
    }
}

#[test]
fn the_store_of_a_program_gets_every_page_and_may_refuse() {
    let scratch = Scratch::new();
    let (flash, memory) = over_memory(&scratch, Mode::Back);
    let slow = Slow::Store(memory.clone());
    let cache = open(&flash, &slow);
    let versions = work(&cache, 1, &BTreeMap::new());
    cache.clean().unwrap();
    for (page, version) in &versions {
        assert_eq!(memory.pages.lock().unwrap()[page], bytes(*page, *version));
    }
    assert!(memory.flushes.load(SeqCst) > 0);

    // While it refuses, dirty pages stay in the cache, whoever asks is told, and it goes on later.
    memory.refuses.store(true, SeqCst);
    let before = memory.pages.lock().unwrap().clone();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for page in 0..PAGES / 2 {
                cache.evict(page, &bytes(page, 9 << 40), true, 9 << 40).unwrap();
            }
        });
        while cache.refused().unwrap().is_none() {
            thread::yield_now();
        }
        assert_eq!(*memory.pages.lock().unwrap(), before);
        memory.refuses.store(false, SeqCst);
        writer.join().expect("it goes on");
    });
    compare(&cache, &(0..PAGES / 2).map(|page| (page, 9 << 40)).collect());
    // A call that panics is an error of the store, and no end of the cache.
    cache.forget(7..8).unwrap();
    memory.panics.store(true, SeqCst);
    let failed = cache.fetch(7, &mut [0; PAGE]).unwrap_err();
    assert!(matches!(failed, CacheError::Slow(IoError::Failed(_))), "{failed}");
    memory.panics.store(false, SeqCst);
    cache.fetch(7, &mut [0; PAGE]).unwrap();
    cache.close().unwrap();
}

/// A call on a cache that was closed is not carried out, and its devices are free for the next one.
#[test]
fn every_call_after_the_end_fails() {
    let scratch = Scratch::new();
    let (flash, memory) = over_memory(&scratch, Mode::Back);
    let slow = Slow::Store(memory);
    let mut closed = Vec::new();
    for _ in 0..100 {
        let cache = open(&flash, &slow);
        closed.push(cache.clone());
        cache.close().unwrap();
        assert!(matches!(cache.checkpoint(), Err(CacheError::Stopped(_))));
        assert!(matches!(cache.stats(), Err(CacheError::Stopped(_))));
    }
}

/// Once the second call ended the thread while the first one was closing the cache.
#[test]
fn threads_that_close_at_once_leave_a_cache_that_is_closed() {
    let scratch = Scratch::new();
    let (flash, memory) = over_memory(&scratch, Mode::Back);
    let slow = Slow::Store(memory);
    for round in 0..50 {
        let cache = open(&flash, &slow);
        assert!(round == 0 || cache.stats().unwrap().restart.clean, "round {round}");
        cache.evict(3, &bytes(3, round), true, 0).unwrap();
        let close = || {
            let cache = cache.clone();
            thread::spawn(move || cache.close())
        };
        let both = [close(), close()].map(|thread| thread.join().unwrap());
        assert!(both.iter().any(Result::is_ok), "{both:?}");
    }
}

/// A slow store whose writes wait.
#[derive(Default)]
struct Slowly {
    memory: Memory,
    held: AtomicBool,
    writing: AtomicBool,
}

impl BlockingStore for Slowly {
    fn pages(&self) -> u64 {
        self.memory.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.memory.read(page, buf)
    }

    fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        self.writing.store(true, SeqCst);
        while self.held.load(SeqCst) {
            thread::yield_now();
        }
        self.memory.write(first, data)
    }

    fn flush(&self) -> Result<(), IoError> {
        self.memory.flush()
    }
}

/// Whoever opened it earlier could have newer pages written over by what is still on its way.
#[test]
fn a_cache_that_is_dropped_is_in_use_until_its_store_has_written() {
    let scratch = Scratch::new();
    let (flash, _) = over_memory(&scratch, Mode::Back);
    let store = Arc::new(Slowly::default());
    store.held.store(true, SeqCst);
    let slow = Slow::Store(store.clone());
    let mut short = options();
    short.open.patience = Nanos::from_millis(20);
    let cache = BlockingCache::open(&flash, &slow, Arc::new(NoHost), short).unwrap();
    let mut page = 0;
    while !store.writing.load(SeqCst) {
        // (Without room it gives up.)
        let _ = cache.evict(page % PAGES, &bytes(page % PAGES, page), true, page);
        page += 1;
    }
    let dropped = thread::spawn(move || drop(cache));
    let opened = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options());
    let error = opened.err().expect("it is in use").to_string();
    assert!(error.contains("in use"), "{error}");
    store.held.store(false, SeqCst);
    dropped.join().unwrap();
    open(&flash, &slow).close().unwrap();
}

/// A log that is durable up to some LSN, and a pool with cold pages.
#[derive(Default)]
struct Engine {
    stable: AtomicU64,
    cold: Mutex<Vec<PageOut>>,
    staged: Mutex<Vec<(u64, u64)>>,
}

impl Host for Engine {
    fn log_stable(&self) -> u64 {
        self.stable.load(SeqCst)
    }

    fn pull(&self, room: usize) -> Vec<PageOut> {
        let mut cold = self.cold.lock().unwrap();
        let rest = cold.len().saturating_sub(room);
        cold.split_off(rest)
    }

    fn staged(&self, page: u64, lsn: u64) {
        self.staged.lock().unwrap().push((page, lsn));
    }
}

#[test]
fn the_log_comes_first_and_batches_are_filled_from_the_pool() {
    let scratch = Scratch::new();
    let (flash, memory) = over_memory(&scratch, Mode::Back);
    let engine = Arc::new(Engine::default());
    let slow = Slow::Store(memory);
    let cache = BlockingCache::open(&flash, &slow, engine.clone(), options()).unwrap();
    let early = cache.evict(3, &bytes(3, 10), true, 10).unwrap_err();
    assert_eq!(early, CacheError::LogFirst { page: 3, lsn: 10, stable: 0 });
    engine.stable.store(10, SeqCst);
    let out = |page: u64| PageOut { page, data: bytes(page, 5), dirty: true, lsn: 5 };
    engine.cold.lock().unwrap().extend([out(20), out(21)]);
    cache.evict(3, &bytes(3, 10), true, 10).unwrap();
    assert_eq!(*engine.staged.lock().unwrap(), [(20, 5), (21, 5)]);
    assert_eq!(cache.stats().unwrap().pulled, 2);
    drop(cache);
    let cache = BlockingCache::open(&flash, &slow, engine, options()).unwrap();
    let mut buf = vec![0; PAGE];
    for (page, version) in [(3, 10), (20, 5), (21, 5)] {
        let found = cache.fetch(page, &mut buf).unwrap();
        assert_eq!(found, Fetched::Flash { lsn: version, dirty: true });
        assert_eq!(buf, bytes(page, version));
    }
}

#[test]
fn what_cannot_be_opened_is_an_error_and_no_thread_is_left() {
    let scratch = Scratch::new();
    let memory = Slow::Store(Arc::new(Memory::default()));
    let missing = BlockingCache::open(scratch.path("none"), &memory, Arc::new(NoHost), options());
    assert!(matches!(missing.err(), Some(BlockingError::File(_))));
    let blank = scratch.path("blank");
    BlockingCache::make_file(&blank, 128 << 10, &options()).unwrap();
    let opened = BlockingCache::open(&blank, &memory, Arc::new(NoHost), options());
    assert!(matches!(opened.err(), Some(BlockingError::Open(OpenError::NoCache))));
    let wrong = BlockingCache::open_with::<
        tantalum_device::File,
        tantalum_cache::flash::DeviceStore<tantalum_device::File>,
        _,
        _,
    >(options(), Arc::new(NoHost), async |_| panic!("as planned"));
    assert!(matches!(wrong.err(), Some(BlockingError::Panicked(why)) if why.contains("planned")));
    // A page of another size, or one that there is not, changes nothing.
    let format = FormatOptions { page: PAGE as u32, frames: 4, ..FormatOptions::default() };
    BlockingCache::format(&blank, &memory, &format, &options()).unwrap();
    let cache = open(&blank, &memory);
    assert!(matches!(cache.fetch(0, &mut [0; 7]), Err(CacheError::Invalid(_))));
    assert!(matches!(cache.evict(PAGES, &[0; PAGE], true, 1), Err(CacheError::Invalid(_))));
    assert_eq!(cache.stats().unwrap().pages, 0);
}
