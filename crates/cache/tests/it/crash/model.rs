//! The program above the cache, and what it may find after a crash.
//!
//! A version of a page is a number; the content tells page and version. A page that was evicted in
//! version *v*, and the eviction ended, is found in version *v* or a newer one that was handed to the
//! cache. A page that was forgotten is not found in the cache.

use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::{CacheError, Fetched, FlashCache, Host, PageOut, SlowStore};
use tantalum_device::BlockDevice;
use tantalum_rt::{First, Nanos, Rt, Stream, first, mix64};

/// What is known of a page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The newest version that was made in RAM.
    made: u64,
    /// The newest version that was handed to the cache or the slow store.
    given: u64,
    /// What was promised to be there.
    pub promised: u64,
    /// The version that a fetch has to return.
    current: u64,
    /// The LSN of each version.
    lsns: Vec<u64>,
    /// It is in RAM; whether it changed since the cache got it.
    held: Option<bool>,
    /// It is being forgotten: an older version may show.
    forgetting: bool,
    /// It was forgotten, and not written since: the cache must not have it.
    forgotten: bool,
    /// It is on its way past the cache: the slow store may have a torn copy.
    tearing: bool,
    /// It was forgotten or tearing, and the slow store has a torn copy: it has to be written.
    torn: bool,
}

impl Page {
    fn lsn(&self, version: u64) -> u64 {
        self.lsns.get(version as usize).copied().unwrap_or(0)
    }

    fn make(&mut self, lsn: u64) -> u64 {
        self.made += 1;
        self.lsns.resize(self.made as usize + 1, 0);
        self.lsns[self.made as usize] = lsn;
        self.made
    }

    /// Whether the slow store has a torn copy, which nobody may take for a version.
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    fn promise(&mut self, version: u64) {
        self.promised = self.promised.max(version);
    }
}

/// All pages.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub pages: Vec<Page>,
    lsn: u64,
    size: usize,
    /// Dirty pages go past the cache.
    pub past: bool,
}

pub type Shared = Rc<RefCell<Model>>;

/// The content of a version. Version 0 is what a new slow store has.
pub fn content(page: u64, version: u64, size: usize) -> Vec<u8> {
    if version == 0 {
        return vec![0; size];
    }
    let mut bytes = Vec::with_capacity(size);
    let mut word = mix64(page) ^ version;
    bytes.extend_from_slice(&version.to_le_bytes());
    while bytes.len() < size {
        word = mix64(word);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Which version this is.
fn version_of(page: u64, bytes: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    (content(page, version, bytes.len()) == bytes).then_some(version)
}

impl Model {
    pub fn new(pages: u64, size: usize) -> Model {
        Model { pages: vec![Page::default(); pages as usize], lsn: 0, size, past: false }
    }

    /// Bytes of a page.
    pub fn size(&self) -> usize {
        self.size
    }

    /// RAM is lost.
    pub fn crash(&mut self) {
        self.pages.iter_mut().for_each(|p| p.held = None);
    }

    /// Judges what was found of a page after a crash. It is promised from now on.
    pub fn judge(&mut self, page: u64, bytes: &[u8], found: Fetched) -> Result<(), String> {
        let known = &mut self.pages[page as usize];
        let given_up = known.forgetting || known.forgotten || known.torn || known.tearing;
        let version = version_of(page, bytes);
        known.torn = version.is_none() && found == Fetched::Slow && given_up;
        if known.torn {
            (known.promised, known.forgetting, known.forgotten) = (0, true, false);
            return Ok(());
        }
        let Some(version) = version else {
            return Err(format!("page {page} has no version of it: {found:?}, {known:?}"));
        };
        let wrong =
            |why| Err(format!("page {page}: version {version} {why}: {found:?}, {known:?}"));
        if version > known.given {
            return wrong("was never given away");
        }
        if version < known.promised && !known.forgetting {
            return wrong("is stale");
        }
        if known.forgotten && found != Fetched::Slow {
            return wrong("was forgotten");
        }
        known.promised = version;
        known.current = version;
        known.made = version;
        known.given = version;
        known.lsns.truncate(version as usize + 1);
        (known.forgetting, known.forgotten, known.tearing) = (false, false, false);
        Ok(())
    }

    /// The log ends with the newest version that was found, and goes on from there.
    pub fn restart_log(&mut self) {
        self.lsn = self.pages.iter().map(|p| p.lsn(p.current)).max().unwrap_or(0);
    }
}

/// The pool, from which the cache pulls.
pub struct Pool(pub Shared);

impl Host for Pool {
    fn pull(&self, room: usize) -> Vec<PageOut> {
        let model = &mut *self.0.borrow_mut();
        let size = model.size;
        let held = model.pages.iter_mut().enumerate();
        let held = held.filter(|(_, p)| p.held.is_some() && !p.torn);
        held.take(room.min(2))
            .map(|(page, p)| {
                p.given = p.given.max(p.made);
                let data = content(page as u64, p.made, size);
                let dirty = p.held == Some(true);
                PageOut { page: page as u64, data, dirty, lsn: p.lsn(p.made) }
            })
            .collect()
    }

    fn staged(&self, page: u64, lsn: u64) {
        let page = &mut self.0.borrow_mut().pages[page as usize];
        // (Version 0 has no LSN.)
        let version = page.lsns.iter().rposition(|l| *l == lsn).unwrap_or(0) as u64;
        page.promise(version);
        if page.held.is_some() && page.made == version {
            page.held = Some(false);
        }
    }
}

/// How the cache is used.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub clients: u64,
    pub steps: u64,
    /// Pages that a client holds in RAM.
    pub held: usize,
    /// One step in so many forgets a page; 0: none does.
    pub forgets: u64,
    /// Of four fetched pages, so many are changed.
    pub changes: u64,
}

/// Whether an error comes from a lost power, or from the end of the cache.
pub fn is_end(e: &CacheError) -> bool {
    matches!(e, CacheError::Stopped(_) | CacheError::Flash(_) | CacheError::Slow(_))
}

/// Works until the power goes or all is done. What is wrong is returned.
pub async fn work<F: BlockDevice + 'static, S: SlowStore + Clone + 'static>(
    rt: Rt,
    cache: FlashCache<F, S>,
    slow: S,
    model: Shared,
    work: Work,
) -> Result<(), String> {
    let pages = model.borrow().pages.len() as u64 / work.clients;
    let mut clients = Vec::new();
    for client in 0..work.clients {
        let name = format!("client {client} at {} {}", rt.now(), model.borrow().lsn);
        let own = client * pages..(client + 1) * pages;
        let client = Client {
            dice: rt.stream(&name),
            rt: rt.clone(),
            cache: cache.clone(),
            slow: slow.clone(),
            model: model.clone(),
            own,
            held: Vec::new(),
            work,
        };
        clients.push(rt.spawn_background(name, client.run()));
    }
    for client in clients {
        client.await.unwrap_or(Ok(()))?;
    }
    Ok(())
}

struct Client<F: BlockDevice + 'static, S: SlowStore + 'static> {
    dice: Stream,
    rt: Rt,
    cache: FlashCache<F, S>,
    slow: S,
    model: Shared,
    own: std::ops::Range<u64>,
    held: Vec<u64>,
    work: Work,
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Client<F, S> {
    async fn run(mut self) -> Result<(), String> {
        for _ in 0..self.work.steps {
            match self.step().await {
                Ok(()) => {}
                Err(Ok(end)) if is_end(&end) => return Ok(()),
                Err(Ok(error)) => return Err(error.to_string()),
                Err(Err(wrong)) => return Err(wrong),
            }
            self.rt.sleep(Nanos(self.dice.below(40_000))).await;
        }
        // What is left in RAM leaves it.
        while let Some(page) = self.held.pop() {
            match self.evict(page).await {
                Ok(()) => {}
                Err(end) if is_end(&end) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn pick(&mut self) -> u64 {
        // A half of the accesses go to a quarter of the pages.
        let count = self.own.end - self.own.start;
        let among = if self.dice.chance(1, 2) { count.div_ceil(4) } else { count };
        self.own.start + self.dice.below(among)
    }

    async fn step(&mut self) -> Result<(), Result<CacheError, String>> {
        let page = self.pick();
        if self.held.contains(&page) {
            self.change(page);
            return Ok(());
        }
        if self.work.forgets > 0 && self.dice.chance(1, self.work.forgets) {
            return self.forget(page).await.map_err(Ok);
        }
        let size = self.model.borrow().size;
        let mut bytes = vec![0; size];
        let found = self.cache.fetch(page, &mut bytes).await.map_err(Ok)?;
        let current = self.model.borrow().pages[page as usize].current;
        let torn = self.model.borrow().pages[page as usize].torn;
        if version_of(page, &bytes) != Some(current) && !torn {
            let version = version_of(page, &bytes);
            return Err(Err(format!("page {page} is {version:?}, not {current}: {found:?}")));
        }
        self.model.borrow_mut().pages[page as usize].held = Some(false);
        self.held.push(page);
        if self.dice.below(4) < self.work.changes || torn {
            self.change(page);
        }
        if self.held.len() > self.work.held {
            let oldest = self.held.remove(0);
            self.evict(oldest).await.map_err(Ok)?;
        }
        Ok(())
    }

    fn change(&mut self, page: u64) {
        let model = &mut *self.model.borrow_mut();
        model.lsn += 1;
        let page = &mut model.pages[page as usize];
        page.make(model.lsn);
        page.held = Some(true);
    }

    async fn evict(&mut self, page: u64) -> Result<(), CacheError> {
        let (version, dirty, lsn, bytes) = {
            let model = &mut *self.model.borrow_mut();
            let known = &mut model.pages[page as usize];
            let dirty = known.held.take().expect("it is held");
            let version = known.made;
            known.given = known.given.max(version);
            known.current = version;
            known.torn &= !dirty;
            known.tearing |= dirty && model.past;
            (version, dirty, known.lsn(version), content(page, version, model.size))
        };
        // Sometimes it is given up under way, and begun anew.
        if self.dice.chance(1, 6) {
            let late = self.rt.sleep(Nanos(self.dice.below(300_000)));
            let ended = first(self.cache.evict(page, &bytes, dirty, lsn), late).await;
            if let First::A(ended) = ended {
                ended?;
            }
        }
        self.cache.evict(page, &bytes, dirty, lsn).await?;
        let known = &mut self.model.borrow_mut().pages[page as usize];
        known.promise(version);
        (known.forgetting, known.tearing) = (false, false);
        Ok(())
    }

    /// Forgets a page, and then writes a new one of its number to the slow store, as a new file
    /// would have it.
    async fn forget(&mut self, page: u64) -> Result<(), CacheError> {
        self.model.borrow_mut().pages[page as usize].forgetting = true;
        self.cache.forget(page..page + 1).await?;
        let (version, bytes) = {
            let model = &mut *self.model.borrow_mut();
            model.lsn += 1;
            let known = &mut model.pages[page as usize];
            known.forgotten = true;
            let version = known.make(model.lsn);
            known.given = version;
            (version, content(page, version, model.size))
        };
        self.slow.write_durably(page, &bytes).await.map_err(CacheError::Slow)?;
        let known = &mut self.model.borrow_mut().pages[page as usize];
        known.promise(version);
        known.current = version;
        (known.forgetting, known.forgotten) = (false, false);
        Ok(())
    }
}
