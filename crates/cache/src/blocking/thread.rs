//! The thread of a cache: its runtime, the cache, and what it does for other threads.
//!
//! However the thread ends, whoever waits is told why.

use super::{BlockingError, BlockingOptions};
use crate::flash::{
    CacheError, CacheStats, Fetched, FlashCache, Host, Scrubbed, SlowStore, Staged,
};
use std::ops::Range;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex};
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::calls::{Calls, Over, Served, ThreadOptions};
use tantalum_rt::{Inbox, Rt};

/// Letters that lie in the inbox of the thread, at most.
const LETTERS: usize = 256;
/// What threads of caches are called.
pub(super) const NAME: &str = "tantalum-cache";

type To<T> = Sender<Result<T, CacheError>>;

/// What other threads ask for.
pub(super) enum Letter {
    Fetch(u64, Vec<u8>, Sender<(Result<Fetched, CacheError>, Vec<u8>)>),
    Evict(u64, Vec<u8>, bool, u64, To<()>),
    Stage(u64, Vec<u8>, bool, u64, To<Staged>),
    Settle(Staged, Vec<u8>, To<()>),
    Forget(Range<u64>, To<()>),
    Checkpoint(To<()>),
    Scrub(To<Scrubbed>),
    Clean(To<()>),
    Resize(u64, To<()>),
    Stats(Sender<CacheStats>),
    Refused(Sender<Option<(u64, IoError)>>),
    Detach(To<()>),
    Close(To<()>),
}

/// Why a cache has ended, once it has.
#[derive(Default)]
pub(super) struct Ended {
    why: Mutex<Option<CacheError>>,
    told: Condvar,
}

impl Ended {
    /// Waits until the cache has ended.
    pub fn wait(&self) -> CacheError {
        let mut why = self.why.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            match &*why {
                Some(why) => return why.clone(),
                None => why = self.told.wait(why).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    fn tell(&self, reason: CacheError) {
        self.why.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(reason);
        self.told.notify_all();
    }
}

/// What the thread of a cache tells whoever opened it.
pub(super) struct Opened {
    pub page: usize,
    pub pages: u64,
    pub ended: Arc<Ended>,
}

/// The host of other threads, for the cache.
struct Across(Arc<dyn Host + Send + Sync>);

impl Host for Across {
    fn log_stable(&self) -> u64 {
        self.0.log_stable()
    }

    fn pull(&self, room: usize) -> Vec<crate::flash::PageOut> {
        self.0.pull(room)
    }

    fn taken(&self, page: u64, lsn: u64) {
        self.0.taken(page, lsn);
    }

    fn staged(&self, page: u64, lsn: u64) {
        self.0.staged(page, lsn);
    }

    fn refused(&self, page: u64, error: &IoError) {
        self.0.refused(page, error);
    }
}

/// Starts a thread. It opens the cache on what `make` gives, and serves it until it is closed or
/// nobody can call any more.
pub(super) fn start<F, S, M, Made>(
    options: BlockingOptions,
    host: Arc<dyn Host + Send + Sync>,
    make: M,
) -> Result<(Opened, Calls<Letter>), BlockingError>
where
    F: BlockDevice + 'static,
    S: SlowStore + 'static,
    M: FnOnce(Rt) -> Made + Send + 'static,
    Made: Future<Output = Result<(F, S), BlockingError>> + 'static,
{
    let BlockingOptions { open, wall, .. } = options;
    let open = async move |rt: Rt| {
        let (flash, slow) = make(rt.clone()).await?;
        let pages = slow.pages();
        let cache = FlashCache::open(&rt, flash, slow, Rc::new(Across(host)), open).await?;
        Ok::<_, BlockingError>((cache, pages))
    };
    let serve = |rt, (cache, pages): (FlashCache<F, S>, u64), letters| {
        let ended = Arc::new(Ended::default());
        let told = Opened { page: cache.page_bytes(), pages, ended: ended.clone() };
        let ended = move |end: Result<(), String>| {
            let why = end.err().unwrap_or_else(|| "it was closed".to_string());
            ended.tell(CacheError::Stopped(why));
        };
        Served { told, serving: serve(rt, cache, letters), ended }
    };
    Calls::start(ThreadOptions { name: NAME, letters: LETTERS, wall }, open, serve)
}

async fn serve<F: BlockDevice + 'static, S: SlowStore + 'static>(
    rt: Rt,
    cache: FlashCache<F, S>,
    mut letters: Inbox<Letter>,
) {
    let over = Rc::new(Over::new(&rt));
    while let Some(letter) = over.next(&mut letters).await {
        let answer = answer(cache.clone(), letter, over.clone());
        rt.spawn_background("cache: a letter", answer);
    }
}

/// Carries out what a letter asks for. If its sender is gone the answer is not needed.
async fn answer<F: BlockDevice + 'static, S: SlowStore + 'static>(
    cache: FlashCache<F, S>,
    letter: Letter,
    over: Rc<Over>,
) {
    match letter {
        Letter::Fetch(page, mut buf, to) => {
            let found = cache.fetch(page, &mut buf).await;
            drop(to.send((found, buf)));
        }
        Letter::Evict(page, data, dirty, lsn, to) => {
            drop(to.send(cache.evict(page, &data, dirty, lsn).await));
        }
        Letter::Stage(page, data, dirty, lsn, to) => {
            drop(to.send(stage(&cache, page, &data, dirty, lsn).await));
        }
        Letter::Settle(staged, data, to) => drop(to.send(cache.settle(&staged, &data).await)),
        Letter::Forget(pages, to) => drop(to.send(cache.forget(pages).await)),
        Letter::Checkpoint(to) => drop(to.send(cache.checkpoint().await)),
        Letter::Scrub(to) => drop(to.send(cache.scrub().await)),
        Letter::Clean(to) => drop(to.send(cache.clean().await)),
        Letter::Resize(bytes, to) => drop(to.send(cache.resize(bytes).await)),
        Letter::Stats(to) => drop(to.send(cache.stats())),
        Letter::Refused(to) => drop(to.send(cache.refused())),
        Letter::Detach(to) => ends(&cache.clone(), cache.detach().await, &to, &over).await,
        Letter::Close(to) => ends(&cache.clone(), cache.close().await, &to, &over).await,
    }
}

async fn stage<F: BlockDevice + 'static, S: SlowStore + 'static>(
    cache: &FlashCache<F, S>,
    page: u64,
    data: &[u8],
    dirty: bool,
    lsn: u64,
) -> Result<Staged, CacheError> {
    loop {
        match cache.stage(page, data, dirty, lsn)? {
            Some(staged) => return Ok(staged),
            None => cache.until_room().await?,
        }
    }
}

/// The cache was to end. If it has, its thread ends, too. A call that failed since another one ends
/// the cache waits for that one.
async fn ends<F: BlockDevice + 'static, S: SlowStore + 'static>(
    cache: &FlashCache<F, S>,
    ended: Result<(), CacheError>,
    to: &To<()>,
    over: &Over,
) {
    if ended.is_ok() || cache.core().closing.get() {
        cache.core().until_ended().await;
        over.tell();
    }
    drop(to.send(ended));
}
