//! Pages leave RAM, and pages are forgotten.
//!
//! 1. **The log first.** A dirty page leaves RAM only when the log is durable up to its LSN.
//! 2. **What is written.** A page enters flash if it changed since flash got it, or if flash has no
//!    copy. Otherwise nothing is written.
//! 3. **Through.** A dirty page is on both devices for good before its eviction ends, and its frame
//!    is dirty until then. The slow store gets it when flash has it: a crash in between would
//!    otherwise leave a newer version on the slow store than the clean one on flash, which would show
//!    when that leaves. It might also tear the page, and no copy would be whole.
//! 4. **Forgotten.** A tombstone is durable before [`Core::forget`] ends, whether or not the cache
//!    knows the page: a restart might find an older version of it. No write of the page to the slow
//!    store is under way then, and none begins.
//! 5. **Scans and others.** A clean page of a scan, or one where no clean ones enter, is let go.
//!    Nothing that is cached is touched. If the ring still has an older version of the page, it has
//!    the newest one behind it: versions leave flash in the order in which they came. So no restart
//!    takes the older one for the newest.
//! 6. **Past the cache.** Where only clean pages enter, a dirty one goes to the slow store. Its
//!    tombstone is durable before that: a restart might find an older version of it, and write that
//!    over the newer one. An older version that is on its way there does not come after a newer one,
//!    nor after [`Core::forget`]. What flash has dirty is not on the slow store: newer versions of
//!    such a page enter.
//! 7. **Pulled.** With write-through no dirty page is pulled: it stays in the pool, and its write to
//!    the slow store would have to be waited for.

use crate::flash::core::{Core, State, frame_of};
use crate::flash::error::CacheError;
use crate::flash::format::{Mode, Part};
use crate::flash::host::PageOut;
use crate::flash::index::Place;
use crate::flash::slow::SlowStore;
use crate::flash::stats::CacheStats;
use crate::planted::planted;
use crate::policy::{Admit, Guard, PageId};
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::BlockDevice;

/// Versions that go past the cache have places with frames from here on: behind those of their batch.
const PAST: usize = 1 << 32;

/// A page that left RAM and need not be durable yet ([`FlashCache::stage`]).
///
/// [`FlashCache::stage`]: crate::flash::FlashCache::stage
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    page: u64,
    /// `None`: it was let go, since the slow store has it.
    place: Option<Place>,
    entered_dirty: bool,
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    pub fn check_page(&self, page: u64, bytes: usize) -> Result<(), CacheError> {
        let (pages, size) = (self.slow.pages(), self.medium.page());
        if page >= pages {
            let why = format!("page {page}: the slow store has {pages} pages; name one of them");
            return Err(CacheError::Invalid(why));
        }
        if bytes != size {
            let why = format!("page {page}: {bytes} bytes; a page of this cache has {size}");
            return Err(CacheError::Invalid(why));
        }
        Ok(())
    }

    fn check_log(&self, page: u64, dirty: bool, lsn: u64) -> Result<(), CacheError> {
        let stable = self.host.log_stable();
        if dirty && lsn > stable {
            return Err(CacheError::LogFirst { page, lsn, stable });
        }
        Ok(())
    }

    pub async fn evict(
        self: &Rc<Self>,
        page: u64,
        data: &[u8],
        dirty: bool,
        lsn: u64,
    ) -> Result<(), CacheError> {
        loop {
            if dirty && self.goes_past(page) {
                return self.evict_past(page, data, lsn).await;
            }
            match self.stage(page, data, dirty, lsn)? {
                Some(staged) => return self.settle(&staged, data).await,
                None => self.until_room().await?,
            }
        }
    }

    /// Waits until the open batch takes a page.
    pub async fn until_room(&self) -> Result<(), CacheError> {
        let has_room = || self.has_room(&self.state.borrow());
        self.patiently(&self.room, has_room).await?;
        self.check_open()
    }

    fn has_room(&self, state: &State) -> bool {
        self.gates.get() == 0 && state.ring.may_enter() && self.frames_free(state) > 0
    }

    /// Waits until a page that was staged is durable, and with write-through on the slow store (3).
    pub async fn settle(self: &Rc<Self>, staged: &Staged, data: &[u8]) -> Result<(), CacheError> {
        let Some(place) = staged.place else { return Ok(()) };
        if self.mode == Mode::Through && staged.entered_dirty {
            self.wait_placed(place).await?;
            self.clean(place, staged.page, data).await?;
        }
        self.wait_placed(place).await
    }

    /// Puts a page into the open batch, if that is needed and there is room. `None`: no room.
    pub fn stage(
        &self,
        page: u64,
        data: &[u8],
        dirty: bool,
        lsn: u64,
    ) -> Result<Option<Staged>, CacheError> {
        self.stage_if(|| self.admits(page), page, data, dirty, lsn)
    }

    /// Whether a clean page that leaves RAM may enter (5).
    fn admits(&self, page: u64) -> bool {
        let guard = &mut self.state.borrow_mut().guard;
        guard.as_mut().is_none_or(|guard| guard.admits(PageId(page)))
    }

    /// The same of pages side by side, which leave one after the other. Returns where those end that
    /// may enter.
    pub fn admits_of(&self, pages: Range<u64>) -> u64 {
        let end = pages.end;
        let guard = &mut self.state.borrow_mut().guard;
        guard.as_mut().map_or(end, |guard| guard.admits_of(pages))
    }

    /// As [`Core::stage`]; whether the page may enter if it is clean is for the caller to say.
    pub fn stage_if(
        &self,
        admits: impl FnOnce() -> bool,
        page: u64,
        data: &[u8],
        dirty: bool,
        lsn: u64,
    ) -> Result<Option<Staged>, CacheError> {
        self.check_page(page, data.len())?;
        self.check_open()?;
        self.check_log(page, dirty, lsn)?;
        if dirty && self.goes_past(page) {
            let why = format!("page {page}: dirty pages do not enter this cache; evict it");
            return Err(CacheError::Invalid(why));
        }
        let lets_in = dirty || self.options.admit != Admit::Dirty;
        let admitted = dirty || (lets_in && admits());
        let note = |s: &mut CacheStats, dropped: bool| {
            s.evictions += 1;
            s.dirty_evictions += u64::from(dirty);
            s.dropped += u64::from(dropped);
        };
        let staged = |place, entered_dirty| Some(Staged { page, place, entered_dirty });
        let found = self.state.borrow().index.find(page);
        match found {
            Some((place, _)) if !dirty || planted!(FdirtyForgotten) => {
                self.count(|s| note(s, true));
                if admitted {
                    self.ghost_exit(page, dirty);
                }
                return Ok(staged(Some(place), false));
            }
            Some((_, frame)) if frame.lsn > lsn => {
                return Err(CacheError::Older { page, lsn, newer: frame.lsn });
            }
            _ => {}
        }
        if !admitted {
            self.count(|s| {
                note(s, true);
                s.kept_out += u64::from(lets_in);
            });
            return Ok(staged(None, false));
        }
        if !dirty && self.state.borrow().refused.is_some() {
            // What is on the slow store needs no room that dirty pages wait for.
            self.count(|s| note(s, true));
            return Ok(staged(None, false));
        }
        if !self.has_room(&self.state.borrow()) {
            return Ok(None);
        }
        self.count(|s| note(s, false));
        self.ghost_exit(page, dirty);
        let place = self.enter(frame_of(page, lsn, data, dirty), data);
        Ok(staged(Some(place), dirty))
    }

    /// New versions of pages enter one batch, in one poll: a crash leaves all of them or none. They
    /// are durable with the next [`Core::checkpoint`]. The caller keeps the order of versions.
    pub async fn stage_together(&self, pages: &[(u64, &[u8])]) -> Result<(), CacheError> {
        for (page, data) in pages {
            self.check_page(*page, data.len())?;
        }
        self.check_open()?;
        self.room_for(pages.len()).await?;
        self.count(|s| {
            s.evictions += pages.len() as u64;
            s.dirty_evictions += pages.len() as u64;
        });
        for (page, data) in pages {
            let found = self.state.borrow().index.find(*page);
            let lsn = found.map_or(0, |(_, frame)| frame.lsn);
            self.ghost_exit(*page, true);
            self.put(frame_of(*page, lsn, data, true), data);
        }
        self.turn();
        self.work.notify_all();
        Ok(())
    }

    /// Waits until so many pages can enter the open batch in one poll.
    async fn room_for(&self, pages: usize) -> Result<(), CacheError> {
        let free = || {
            let state = self.state.borrow();
            let open = self.gates.get() == 0 && state.ring.may_enter();
            if open { self.frames_free(&state) } else { 0 }
        };
        let fits = || free() >= pages;
        let is_short = || (1..pages).contains(&free()) && !self.state.borrow().open.ends;
        while !fits() {
            let part = self.state.borrow().ring.open();
            if is_short() {
                self.end_batch();
            }
            let changed = || fits() || is_short() || self.state.borrow().ring.open() != part;
            self.patiently(&self.room, changed).await?;
        }
        self.check_open()
    }

    /// Fills the open batch with pages from the cold end of the pool (7).
    pub fn pull(&self) {
        let (room, mut guard) = {
            let state = self.state.borrow();
            if self.gates.get() > 0 || !state.ring.may_enter() {
                return;
            }
            // These pages stay in the pool: what keeps scans out sees them again when they leave it.
            (self.frames_free(&state), state.guard.clone())
        };
        if room == 0 {
            return;
        }
        for out in self.host.pull(room) {
            if self.take_pulled(&out, guard.as_mut()) {
                self.host.taken(out.page, out.lsn);
            }
        }
    }

    /// Returns whether it entered.
    fn take_pulled(&self, out: &PageOut, guard: Option<&mut Guard>) -> bool {
        let PageOut { page, ref data, dirty, lsn } = *out;
        let allowed = self.check_page(page, data.len()).and(self.check_log(page, dirty, lsn));
        let admitted = match (dirty, self.options.admit) {
            (true, Admit::Clean) | (false, Admit::Dirty) => false,
            (true, _) => self.mode == Mode::Back,
            (false, _) => guard.is_none_or(|guard| guard.admits(PageId(page))),
        };
        let mut state = self.state.borrow_mut();
        let found = state.index.find(page);
        let needless = found.is_some_and(|(_, f)| !dirty || f.lsn > lsn);
        if allowed.is_err() || needless || !admitted || self.frames_free(&state) == 0 {
            return false;
        }
        state.stats.pulled += 1;
        state.stats.pulled_dirty += u64::from(dirty);
        state.open.pulled.push((page, lsn));
        state.open.begin(self.rt.now(), self.medium.layout().descriptor);
        state.open.bytes.extend_from_slice(data);
        state.index.push(frame_of(page, lsn, data, dirty), false);
        drop(state);
        self.ghost_exit(page, dirty);
        true
    }

    pub async fn forget(&self, pages: Range<u64>) -> Result<(), CacheError> {
        if self.options.admit == Admit::Clean {
            self.pending.void(&pages, self.past_all());
        }
        let count = pages.end.saturating_sub(pages.start);
        if let Some(part) = self.bury(pages.clone()).await? {
            self.count(|s| s.forgotten += count);
            self.wait_durable(part).await?;
            self.unwritten(pages).await;
        }
        Ok(())
    }

    /// Waits until no write of these pages to the slow store is under way.
    pub async fn unwritten(&self, pages: Range<u64>) {
        let busy = || self.state.borrow().writing.iter().any(|page| pages.contains(page));
        self.written.until(|| !busy()).await;
    }

    /// Whether a dirty version of this page does not enter (6).
    fn goes_past(&self, page: u64) -> bool {
        let is_dirty = || self.state.borrow().index.find(page).is_some_and(|(_, f)| f.dirty);
        self.options.admit == Admit::Clean && !is_dirty()
    }

    /// The place of a version that goes past the cache: behind everything that has one.
    fn past_all(&self) -> Place {
        self.past.set(self.past.get() + 1);
        let batch = self.state.borrow().ring.open().batch;
        Place { batch, frame: PAST + self.past.get() }
    }

    /// A dirty page leaves RAM for the slow store (6). In a task: once begun, the write is carried out
    /// in its turn though nobody waits for it.
    async fn evict_past(
        self: &Rc<Self>,
        page: u64,
        data: &[u8],
        lsn: u64,
    ) -> Result<(), CacheError> {
        self.check_page(page, data.len())?;
        self.check_open()?;
        self.check_log(page, true, lsn)?;
        let found = self.state.borrow().index.find(page);
        if let Some((_, frame)) = found.filter(|(_, frame)| frame.lsn > lsn) {
            return Err(CacheError::Older { page, lsn, newer: frame.lsn });
        }
        self.count(|s| {
            s.evictions += 1;
            s.dirty_evictions += 1;
            s.dropped += 1;
        });
        let (place, chosen) = (self.past_all(), self.pending.choose([page].into_iter()));
        let (core, data) = (self.clone(), data.to_vec());
        let write = async move {
            let _chosen = chosen;
            if planted!(PastWithoutTombstone) {
                core.state.borrow_mut().index.remove(page);
            } else if let Some(part) = core.bury(page..page + 1).await? {
                core.wait_durable(part).await?;
            }
            let _held = core.hold(page).await;
            if !core.pending.is_overtaken(page, place) {
                core.write_slow(page, &data).await?;
                core.pending.wrote(page, place);
            }
            Ok(())
        };
        match self.domain.spawn(format!("cache: page {page} past the cache"), write).await {
            Ok(ended) => ended,
            Err(_) => Err(CacheError::Stopped("it was closed".to_string())),
        }
    }

    /// Puts a tombstone of these pages into the open part. Returns it; `None`: there are no pages.
    pub async fn bury(&self, pages: Range<u64>) -> Result<Option<Part>, CacheError> {
        self.check_open()?;
        if pages.end > self.slow.pages() {
            let (end, all) = (pages.end, self.slow.pages());
            let why =
                format!("pages up to {end}: the slow store has {all} pages; name some of them");
            return Err(CacheError::Invalid(why));
        }
        let Some(count) = pages.end.checked_sub(pages.start).filter(|n| *n > 0) else {
            return Ok(None);
        };
        self.room_for_tombstone().await?;
        let part = {
            let mut state = self.state.borrow_mut();
            state.ghosts_forget(pages.clone());
            state.open.begin(self.rt.now(), self.medium.layout().descriptor);
            if planted!(TombstoneForgotten) {
                pages.clone().for_each(|page| state.index.remove(page));
            } else {
                state.index.bury(pages.start, count);
            }
            state.ring.open()
        };
        self.work.notify_all();
        Ok(Some(part))
    }

    /// Whether the open batch takes a tombstone.
    pub fn takes_tombstone(&self) -> bool {
        let state = self.state.borrow();
        let used = state.index.batch(state.ring.open().batch).tombstones.len();
        self.gates.get() == 0 && used < self.medium.layout().tombstones()
    }

    /// Waits until it does.
    async fn room_for_tombstone(&self) -> Result<(), CacheError> {
        while !self.takes_tombstone() {
            // (Nothing is written while the ring changes its size.)
            if self.gates.get() == 0 {
                self.end_batch();
            }
            self.patiently(&self.room, || self.takes_tombstone()).await?;
            self.check_open()?;
        }
        Ok(())
    }

    /// Pages whose frames were given up get their tombstones, unless another version has entered
    /// meanwhile: a restart takes that, whose LSN is not below.
    pub async fn bury_given_up(&self) -> Result<(), CacheError> {
        loop {
            let next = self.state.borrow().given_up.first().copied();
            let Some(page) = next else { return Ok(()) };
            self.room_for_tombstone().await?;
            let mut state = self.state.borrow_mut();
            if state.given_up.remove(&page) && state.index.find(page).is_none() {
                drop(state);
                self.put_tombstone(page);
            }
        }
    }

    /// The open batch, which has room for it, gets a tombstone of this page.
    pub fn put_tombstone(&self, page: u64) {
        let mut state = self.state.borrow_mut();
        state.open.begin(self.rt.now(), self.medium.layout().descriptor);
        state.index.bury(page, 1);
        drop(state);
        self.work.notify_all();
    }
}
