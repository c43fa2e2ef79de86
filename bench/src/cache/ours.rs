//! The flash cache, used by tasks of one runtime.

use crate::trace::Io;
use crate::{FLIGHT, Failure, Found, PAGE, content, is_version};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tantalum_cache::flash::{
    CacheError, Fetched, FlashCache, FormatOptions, NoHost, OpenOptions, SlowStore,
};
use tantalum_device::{File, FileSettings, IoError};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Nanos, Rt, Runtime, join_all};

/// The slow store: the version that it has of each page, and how long an I/O takes.
#[derive(Clone)]
struct Slow {
    rt: Rt,
    versions: Rc<RefCell<Vec<u32>>>,
    time: Nanos,
}

impl SlowStore for Slow {
    fn pages(&self) -> u64 {
        self.versions.borrow().len() as u64
    }

    async fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.rt.sleep(self.time).await;
        let version = self.versions.borrow()[page as usize];
        buf.copy_from_slice(&content(page as u32, version));
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        self.rt.sleep(self.time).await;
        for (page, bytes) in (first..).zip(data.chunks(PAGE)) {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[..4]);
            self.versions.borrow_mut()[page as usize] = u32::from_le_bytes(word);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }
}

/// Runs the trace through a new cache.
pub fn run(folder: &Path, trace: &[Io], pages: u64, slow: Duration) -> Result<Found, Failure> {
    let path = folder.join(format!("bench-cache-{}.ours", std::process::id()));
    let trace: Rc<[Io]> = trace.into();
    let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
    let rt = runtime.handle();
    let at = path.clone();
    let work = async move { on_file(&rt, &at, trace, pages, slow).await };
    let found = runtime.block_on(work);
    drop(runtime);
    let _ = std::fs::remove_file(&path);
    found?
}

async fn on_file(
    rt: &Rt,
    path: &Path,
    trace: Rc<[Io]>,
    pages: u64,
    slow: Duration,
) -> Result<Found, Failure> {
    let settings = FileSettings { keep_room: true, ..FileSettings::default() };
    let bytes = pages * PAGE as u64;
    drop(File::create(rt, path, bytes, &settings).await?);
    let flash = File::open(rt, path, &settings)?;
    let all = trace.iter().map(|io| io.page as usize + 1).max().unwrap_or(1);
    let slow = Slow {
        rt: rt.clone(),
        versions: Rc::new(RefCell::new(vec![0; all])),
        time: Nanos::from_micros(slow.as_micros() as u64),
    };
    let format = FormatOptions { page: PAGE as u32, ..FormatOptions::default() };
    FlashCache::format(rt, &flash, &slow, &format).await?;
    // With the open batch and four sealed ones it is 3.7 MB.
    let options = OpenOptions { leaving: 1 << 20, ..OpenOptions::default() };
    let cache = FlashCache::open(rt, flash, slow, Rc::new(NoHost), options).await?;
    let user = User {
        cache,
        trace,
        next: Cell::new(0),
        busy: RefCell::default(),
        free: WaitQueue::new(rt, "the page"),
        versions: RefCell::new(vec![0; all]),
        found: RefCell::default(),
    };
    let began = Instant::now();
    let ended = join_all((0..FLIGHT).map(|_| user.work()).collect()).await;
    ended.into_iter().collect::<Result<Vec<()>, CacheError>>()?;
    user.cache.checkpoint().await?;
    let seconds = began.elapsed().as_secs_f64();
    let flash_bytes = user.cache.stats().flash_bytes;
    Ok(Found { seconds, flash_bytes, ..user.found.into_inner() })
}

/// What the tasks share.
struct User {
    cache: FlashCache<File, Slow>,
    trace: Rc<[Io]>,
    next: Cell<usize>,
    /// Pages of I/Os that are under way.
    busy: RefCell<BTreeSet<u32>>,
    free: WaitQueue,
    versions: RefCell<Vec<u32>>,
    found: RefCell<Found>,
}

impl User {
    async fn work(&self) -> Result<(), CacheError> {
        let mut buf = vec![0; PAGE];
        loop {
            let at = self.next.get();
            let Some(io) = self.trace.get(at).copied() else { return Ok(()) };
            if !self.busy.borrow_mut().insert(io.page) {
                // The order of I/Os on one page stays.
                self.free.until(|| !self.busy.borrow().contains(&io.page)).await;
                continue;
            }
            self.next.set(at + 1);
            let done = match io.write {
                true => self.write(io.page).await,
                false => self.read(io.page, &mut buf).await,
            };
            self.busy.borrow_mut().remove(&io.page);
            self.free.notify_all();
            done?;
        }
    }

    /// A changed page leaves RAM.
    async fn write(&self, page: u32) -> Result<(), CacheError> {
        let version = {
            let version = &mut self.versions.borrow_mut()[page as usize];
            *version += 1;
            *version
        };
        let data = content(page, version);
        // As beside foyer, the next I/O does not wait until it is durable.
        while self.cache.stage(page.into(), &data, true, version.into())?.is_none() {
            self.cache.until_room().await?;
        }
        Ok(())
    }

    /// A page is read, and leaves RAM as it was.
    async fn read(&self, page: u32, buf: &mut [u8]) -> Result<(), CacheError> {
        let fetched = self.cache.fetch(page.into(), buf).await?;
        let version = self.versions.borrow()[page as usize];
        let hit = matches!(fetched, Fetched::Flash { .. });
        {
            let found = &mut *self.found.borrow_mut();
            found.reads += 1;
            found.hits += u64::from(hit);
            found.stale += u64::from(!is_version(buf, page, version));
        }
        while self.cache.stage(page.into(), buf, false, version.into())?.is_none() {
            self.cache.until_room().await?;
        }
        Ok(())
    }
}
