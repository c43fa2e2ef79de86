//! The judge of a cache. What commands mean to it:
//!
//! | command | what is done to so many pages from this one on |
//! |---|---|
//! | `Write(at, n)` | each is fetched, changed, and leaves RAM; nobody waits until it is durable |
//! | `Fua(at, n)` | the same, and its eviction is waited for |
//! | `Group(at, n, step)` | up to eight pages are fetched, changed, and stay in the pool, from which the cache pulls |
//! | `Read(at, n)` | each is fetched, compared, and leaves RAM clean |
//! | `Discard(at, n)` | they are forgotten, and written anew to the slow store |
//! | `Flush` | what is in the pool leaves it, and everything becomes durable |
//!
//! Where only clean pages enter, each changed page is waited for until it is on the slow store, and of
//! pages that are read some stay in the pool.
//!
//! Flushes also scrub, clean, resize, close and give up the cache in turns: after the two last ones it
//! is opened again, or made anew. It is resized while other commands go on.

use crate::cache::bare::{BareCacheBox, Cache, Open};
use crate::cache::versions::{Versions, content};
use crate::command::Command;
use crate::failure::Failure;
use crate::subject::Judge;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::{Admit, CacheError, Fetched, OpenError, SlowStore};
use tantalum_device::IoError;
use tantalum_rt::sync::{Mutex, Permit};
use tantalum_rt::{First, Nanos, first, mix64};

/// After at most so long an eviction that is to be given up is.
const GIVEN_UP: u64 = 1_000_000;

/// Holds a cache to its promises (`Versions`).
#[derive(Clone, Default)]
pub struct CacheJudge {
    versions: Rc<RefCell<Versions>>,
}

/// An open cache and whoever uses it.
#[derive(Clone)]
pub struct CacheSession {
    subject: BareCacheBox,
    /// `None`: there is no power.
    open: Option<Open>,
    /// Of each page: one command at a time has it.
    turns: Rc<Vec<Mutex>>,
}

/// Why a command failed.
enum Wrong {
    Cache(CacheError),
    Open(OpenError),
    Power,
    Promise(String),
}

impl From<CacheError> for Wrong {
    fn from(error: CacheError) -> Wrong {
        Wrong::Cache(error)
    }
}

impl From<OpenError> for Wrong {
    fn from(error: OpenError) -> Wrong {
        Wrong::Open(error)
    }
}

impl From<IoError> for Wrong {
    fn from(_: IoError) -> Wrong {
        Wrong::Power
    }
}

/// How a changed page leaves RAM.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Unawaited,
    Durably,
    ByPulling,
}

impl Judge for CacheJudge {
    type Subject = BareCacheBox;
    type Session = CacheSession;

    fn fork(&self) -> CacheJudge {
        let versions = self.versions.borrow().after_cut();
        CacheJudge { versions: Rc::new(RefCell::new(versions)) }
    }

    fn session(&self, subject: &BareCacheBox) -> CacheSession {
        let open = subject.open();
        if let Some(open) = &open {
            open.pool.attach(&self.versions);
        }
        let turn = |_| Mutex::new(subject.rt(), "the turn to have a page");
        let turns = Rc::new((0..pages(subject)).map(turn).collect());
        CacheSession { subject: subject.clone(), open, turns }
    }

    async fn send(&self, session: &CacheSession, command: Command) -> Result<(), Failure> {
        let name = format!("{command:?}");
        let lost = || Failure::of_command(&name, &IoError::PowerLost);
        let Some(open) = &session.open else { return Err(lost()) };
        let work = self.carry_out(session, open, command);
        match open.link.command("a command to a cache", work).await {
            Ok(()) => Ok(()),
            Err(Wrong::Power) => Err(lost()),
            Err(Wrong::Promise(what)) => Err(Failure::Promise(what)),
            Err(Wrong::Cache(e)) => Err(Failure::Command { command: name, error: e.to_string() }),
            Err(Wrong::Open(e)) => Err(Failure::Command { command: name, error: e.to_string() }),
        }
    }

    async fn check(&self, subject: &BareCacheBox) -> Result<(), Failure> {
        let Some(cache) = subject.open().and_then(|open| open.cache()) else {
            return Err(no_power());
        };
        let versions = self.versions.borrow().after_cut();
        *self.versions.borrow_mut() = versions;
        // (What only a flash device has that may be lost is seen, and not promised.)
        let seen = !subject.blueprint().loss;
        let mut bytes = vec![0; cache.page_bytes()];
        for page in 0..pages(subject) {
            let found = cache.fetch(page, &mut bytes).await.map_err(|e| of_fetch(page, &e))?;
            let from_slow = found == Fetched::Slow;
            let checked = self.versions.borrow_mut().check(page, &bytes, from_slow, seen);
            checked.map_err(Failure::Promise)?;
        }
        Ok(())
    }

    async fn read_all(&self, subject: &BareCacheBox) -> Result<(), Failure> {
        let Some(cache) = subject.open().and_then(|open| open.cache()) else {
            return Err(no_power());
        };
        let mut bytes = vec![0; cache.page_bytes()];
        for page in 0..pages(subject) {
            if self.versions.borrow().is_in_pool(page) {
                continue;
            }
            cache.fetch(page, &mut bytes).await.map_err(|e| of_fetch(page, &e))?;
            let compared = self.versions.borrow_mut().compare(page, &bytes);
            compared.map_err(Failure::Promise)?;
        }
        Ok(())
    }
}

fn no_power() -> Failure {
    Failure::of_command("a check", &IoError::PowerLost)
}

fn of_fetch(page: u64, error: &CacheError) -> Failure {
    match error {
        CacheError::Flash(error) | CacheError::Slow(error) => {
            Failure::of_command("a fetch of everything", error)
        }
        other => Failure::Promise(format!("page {page}: {other}")),
    }
}

fn pages(subject: &BareCacheBox) -> u64 {
    subject.blueprint().pages().unwrap_or(0)
}

fn is_open(open: &Open) -> Result<Cache, Wrong> {
    open.cache().ok_or_else(|| Wrong::Promise("the cache does not open again".into()))
}

impl CacheJudge {
    async fn carry_out(
        &self,
        session: &CacheSession,
        open: &Open,
        command: Command,
    ) -> Result<(), Wrong> {
        if command == Command::Flush {
            return self.flush(session, open).await;
        }
        let _inside = open.enter().await;
        let cache = is_open(open)?;
        match command {
            Command::Write(at, count) => {
                for page in at..at + count {
                    self.change(session, open, &cache, page, Leaves::Unawaited).await?;
                }
            }
            Command::Fua(at, count) => {
                for page in at..at + count {
                    self.change(session, open, &cache, page, Leaves::Durably).await?;
                }
            }
            Command::Group(at, count, step) => {
                let named = (0..count.min(8)).map(|i| at + i * step);
                for page in named.filter(|page| *page < session.turns.len() as u64) {
                    self.change(session, open, &cache, page, Leaves::ByPulling).await?;
                }
            }
            Command::Read(at, count) => {
                for page in at..at + count {
                    let _turn = session.turn(page).await;
                    if !self.versions.borrow().is_in_pool(page) {
                        self.fetch(&cache, page).await?;
                        self.leave_clean(session, &cache, page)?;
                    }
                }
            }
            Command::Discard(at, count) => self.forget(session, open, &cache, at, count).await?,
            _ => {}
        }
        Ok(())
    }

    /// Fetches a page and compares it.
    async fn fetch(&self, cache: &Cache, page: u64) -> Result<(), Wrong> {
        let mut bytes = vec![0; cache.page_bytes()];
        cache.fetch(page, &mut bytes).await?;
        self.versions.borrow_mut().compare(page, &bytes).map_err(Wrong::Promise)
    }

    /// A page that was fetched leaves RAM as it was, or stays in the pool.
    fn leave_clean(&self, session: &CacheSession, cache: &Cache, page: u64) -> Result<(), Wrong> {
        let mut versions = self.versions.borrow_mut();
        // (What is not known is torn, or being forgotten.)
        let Some(version) = versions.current(page) else { return Ok(()) };
        let may_stay = session.subject.blueprint().admit == Admit::Clean;
        if may_stay && mix64(page ^ version << 32).is_multiple_of(2) {
            versions.put_into_pool(page, version, false);
            return Ok(());
        }
        drop(versions);
        self.stage_clean(cache, page, version)
    }

    fn stage_clean(&self, cache: &Cache, page: u64, version: u64) -> Result<(), Wrong> {
        let bytes = content(page, version, cache.page_bytes());
        cache.stage(page, &bytes, false, version)?;
        Ok(())
    }

    /// Brings a page into RAM, from the pool or from the cache.
    async fn bring(&self, open: &Open, cache: &Cache, page: u64) -> Result<(), Wrong> {
        let pulled = || self.versions.borrow().is_being_pulled(page);
        open.pool.staged.until(|| !pulled()).await;
        if self.versions.borrow_mut().take_from_pool(page).is_none() {
            self.fetch(cache, page).await?;
        }
        Ok(())
    }

    async fn change(
        &self,
        session: &CacheSession,
        open: &Open,
        cache: &Cache,
        page: u64,
        leaves: Leaves,
    ) -> Result<(), Wrong> {
        let _turn = session.turn(page).await;
        self.bring(open, cache, page).await?;
        let version = self.versions.borrow_mut().make(page);
        if leaves == Leaves::ByPulling {
            self.versions.borrow_mut().put_into_pool(page, version, true);
            return Ok(());
        }
        self.leave(session, cache, page, version, leaves == Leaves::Durably).await
    }

    /// A changed page leaves RAM.
    async fn leave(
        &self,
        session: &CacheSession,
        cache: &Cache,
        page: u64,
        version: u64,
        durably: bool,
    ) -> Result<(), Wrong> {
        let bytes = content(page, version, cache.page_bytes());
        if session.subject.blueprint().admit == Admit::Clean {
            return self.leave_past(session, cache, page, version, &bytes).await;
        }
        let staged = loop {
            match cache.stage(page, &bytes, true, version)? {
                Some(staged) => break staged,
                None => cache.until_room().await?,
            }
        };
        self.versions.borrow_mut().give(page, version);
        if durably {
            cache.settle(&staged, &bytes).await?;
            self.versions.borrow_mut().promise(page, version);
        }
        Ok(())
    }

    /// A changed page leaves RAM past the cache. Sometimes that is given up under way, and begun anew.
    async fn leave_past(
        &self,
        session: &CacheSession,
        cache: &Cache,
        page: u64,
        version: u64,
        bytes: &[u8],
    ) -> Result<(), Wrong> {
        self.versions.borrow_mut().pass(page);
        if version.is_multiple_of(4) {
            let until = session.subject.rt().sleep(Nanos(mix64(version) % GIVEN_UP));
            if let First::A(ended) = first(cache.evict(page, bytes, true, version), until).await {
                ended?;
            }
        }
        cache.evict(page, bytes, true, version).await?;
        self.versions.borrow_mut().passed(page, version);
        Ok(())
    }

    /// Pages are forgotten; then a new version of each is written to the slow store, as a new file
    /// would have it.
    async fn forget(
        &self,
        session: &CacheSession,
        open: &Open,
        cache: &Cache,
        at: u64,
        count: u64,
    ) -> Result<(), Wrong> {
        let mut turns = Vec::new();
        for page in at..at + count {
            turns.push(session.turn(page).await);
            open.pool.staged.until(|| !self.versions.borrow().is_being_pulled(page)).await;
            let mut versions = self.versions.borrow_mut();
            versions.take_from_pool(page);
            versions.forget(page);
        }
        cache.forget(at..at + count).await?;
        let (size, store) = (cache.page_bytes(), session.subject.store()?);
        let made: Vec<(u64, u64)> = {
            let mut versions = self.versions.borrow_mut();
            (at..at + count).map(|page| (page, versions.make(page))).collect()
        };
        let bytes: Vec<u8> = made.iter().flat_map(|(page, v)| content(*page, *v, size)).collect();
        store.write(at, &bytes).await?;
        store.flush().await?;
        let mut versions = self.versions.borrow_mut();
        for (page, version) in made {
            versions.give(page, version);
            versions.promise(page, version);
        }
        Ok(())
    }

    async fn flush(&self, session: &CacheSession, open: &Open) -> Result<(), Wrong> {
        let number = {
            let mut versions = self.versions.borrow_mut();
            versions.flushes += 1;
            versions.flushes
        };
        {
            let _inside = open.enter().await;
            let cache = is_open(open)?;
            self.empty_pool(session, open, &cache).await?;
            let given = self.versions.borrow().given();
            if session.subject.blueprint().through || number % 5 == 3 {
                cache.clean().await?;
            } else {
                cache.checkpoint().await?;
            }
            for (page, version) in given {
                self.versions.borrow_mut().promise(page, version);
            }
            if number % 4 == 1 {
                cache.scrub().await?;
            }
            if number % 5 == 2 {
                let bytes = session.subject.flash_bytes() * (5 + number / 5 % 4) / 8;
                match cache.resize(bytes).await {
                    // The smallest cache takes more.
                    Ok(()) | Err(CacheError::Invalid(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        match number {
            n if n % 7 == 4 => self.again(session, open, false).await,
            n if n % 11 == 6 => self.again(session, open, true).await,
            _ => Ok(()),
        }
    }

    /// What is in the pool leaves it.
    async fn empty_pool(
        &self,
        session: &CacheSession,
        open: &Open,
        cache: &Cache,
    ) -> Result<(), Wrong> {
        let pooled = self.versions.borrow().pooled();
        for page in pooled {
            let _turn = session.turn(page).await;
            open.pool.staged.until(|| !self.versions.borrow().is_being_pulled(page)).await;
            let taken = self.versions.borrow_mut().take_from_pool(page);
            match taken {
                Some((version, true)) => self.leave(session, cache, page, version, true).await?,
                Some((version, false)) => self.stage_clean(cache, page, version)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Closes the cache and opens it again; or gives it up, and makes a new one.
    async fn again(&self, session: &CacheSession, open: &Open, new: bool) -> Result<(), Wrong> {
        let _alone = open.alone().await;
        let cache = is_open(open)?;
        open.cache.take();
        if new {
            cache.detach().await?;
            session.subject.format().await?;
        } else {
            cache.close().await?;
        }
        let cache = session.subject.open_cache(open.pool.clone()).await?;
        open.cache.replace(Some(cache));
        Ok(())
    }
}

impl CacheSession {
    /// The turn to have this page in RAM.
    async fn turn(&self, page: u64) -> Permit<'_> {
        self.turns[page as usize].lock().await
    }
}
