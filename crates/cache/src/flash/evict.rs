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
//! 5. **Scans.** A clean page of a scan is let go. Nothing that is cached is touched. If the ring still
//!    has an older version of the page, it has the newest one behind it: versions leave flash in the
//!    order in which they came. So no restart takes the older one for the newest.

use crate::flash::core::{Core, State, frame_of};
use crate::flash::error::CacheError;
use crate::flash::format::{Mode, Part};
use crate::flash::host::PageOut;
use crate::flash::index::Place;
use crate::flash::slow::SlowStore;
use crate::flash::stats::CacheStats;
use crate::planted::planted;
use crate::policy::{Guard, PageId};
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::BlockDevice;

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
        let admitted = dirty || admits();
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
                s.kept_out += 1;
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

    /// Fills the open batch with pages from the cold end of the pool.
    pub fn pull(&self) {
        let (room, mut guard) = {
            let state = self.state.borrow();
            if self.gates.get() > 0 || !state.ring.may_enter() {
                return;
            }
            // These pages stay in the pool: what keeps scans out sees them again when they leave it.
            (self.frames_free(&state), state.guard.clone())
        };
        // Their slow writes would have to be waited for.
        if room == 0 || self.mode == Mode::Through {
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
        let admitted = dirty || guard.is_none_or(|guard| guard.admits(PageId(page)));
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
        if let Some(part) = self.bury(pages.clone()).await? {
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
        let most = self.medium.layout().tombstones();
        let has_room = || {
            let state = self.state.borrow();
            let used = state.index.batch(state.ring.open().batch).tombstones.len();
            self.gates.get() == 0 && used < most
        };
        while !has_room() {
            // (Nothing is written while the ring changes its size.)
            if self.gates.get() == 0 {
                self.end_batch();
            }
            self.patiently(&self.room, has_room).await?;
            self.check_open()?;
        }
        let part = {
            let mut state = self.state.borrow_mut();
            state.stats.forgotten += count;
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
}
