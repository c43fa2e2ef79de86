//! A buffer pool over a flash cache, from threads, on files:
//! `cargo run --release -p tantalum-cache --example pool -- FOLDER`.
//!
//! Each run opens the cache of the folder (the first one makes it), and four threads work on accounts
//! in pages of their own. What one run leaves the next one finds, however the run ended.
#![allow(clippy::disallowed_methods, reason = "an example has arguments and threads")]

use std::path::PathBuf;
use std::sync::Arc;
use tantalum_cache::blocking::{BlockingCache, BlockingOptions, Slow};
use tantalum_cache::flash::{CacheError, Fetched, FormatOptions, NoHost};

const THREADS: u64 = 4;
const PAGES_EACH: u64 = 500;
const USES: u64 = 2000;

/// What a pool has in RAM: here one page, which leaves when another one is needed.
struct Pool<'a> {
    cache: &'a BlockingCache,
    page: u64,
    data: Vec<u8>,
    lsn: u64,
    dirty: bool,
}

impl Pool<'_> {
    /// The page is in RAM, and that which was there before has left.
    fn bring(&mut self, page: u64) -> Result<(), CacheError> {
        if page == self.page {
            return Ok(());
        }
        match self.dirty {
            // When this returns the page survives a power cut.
            true => self.cache.evict(self.page, &self.data, true, self.lsn)?,
            // The slow device or flash has it: nobody need wait.
            false => drop(self.cache.stage(self.page, &self.data, false, self.lsn)?),
        }
        self.lsn = match self.cache.fetch(page, &mut self.data)? {
            Fetched::Flash { lsn, .. } => lsn,
            Fetched::Slow => 0,
        };
        (self.page, self.dirty) = (page, false);
        Ok(())
    }
}

fn work(cache: &BlockingCache, thread: u64) -> Result<u64, CacheError> {
    let first = thread * PAGES_EACH;
    let mut pool =
        Pool { cache, page: first, data: vec![0; cache.page_bytes()], lsn: 0, dirty: false };
    pool.lsn = match cache.fetch(first, &mut pool.data)? {
        Fetched::Flash { lsn, .. } => lsn,
        Fetched::Slow => 0,
    };
    let mut random = thread + 1;
    let mut found = 0;
    for _ in 0..USES {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        pool.bring(first + (random >> 33) % PAGES_EACH)?;
        found += u64::from(pool.data[0] > 0);
        if random >> 62 == 0 {
            pool.data[0] = pool.data[0].wrapping_add(1).max(1);
            (pool.dirty, pool.lsn) = (true, pool.lsn + 1);
        }
    }
    // The last page leaves, too.
    pool.bring(first + u64::from(pool.page == first))?;
    Ok(found)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("name a folder")?.into();
    let (flash, disk) = (folder.join("flash"), folder.join("disk"));
    let options = BlockingOptions::default();
    let slow = Slow::Path(disk.clone());
    if !flash.exists() {
        BlockingCache::make_file(&flash, 16 << 20, &options)?;
        BlockingCache::make_file(&disk, 64 << 20, &options)?;
        BlockingCache::format(&flash, &slow, &FormatOptions::default(), &options)?;
    }
    let cache = BlockingCache::open(&flash, &slow, Arc::new(NoHost), options)?;
    let found: u64 = std::thread::scope(|scope| {
        let work = |thread| {
            let cache = cache.clone();
            scope.spawn(move || work(&cache, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().map(|t| t.join().expect("it does not panic")).sum::<Result<u64, _>>()
    })?;
    let stats = cache.stats()?;
    println!(
        "{} start, {found} of {} uses of written pages",
        match stats.restart.clean {
            true => "warm",
            false => "cold",
        },
        THREADS * USES
    );
    println!("{} of {} fetches from flash, {} pages dirty", stats.hits, stats.fetches, stats.dirty);
    cache.close()?;
    Ok(())
}
