//! Pages are fetched into RAM.
//!
//! 1. A fetch returns the newest version that left RAM, or an error. What is returned has the
//!    checksum with which it left.
//! 2. A damaged frame of a clean page is repaired: the page is read from the slow store, and enters
//!    anew when it leaves RAM (unless it is kept out as a part of a scan). A damaged frame of a dirty
//!    page is an error until the page is evicted or forgotten.
//! 3. No slot is written over while a fetch reads from it.
//! 4. With write-through, what a fetch returns is on the slow store for good.

use crate::flash::core::{Core, State};
use crate::flash::error::CacheError;
use crate::flash::format::{Mode, Part, checksum};
use crate::flash::index::Place;
use crate::flash::slow::SlowStore;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::sync::WaitQueue;

/// Where a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// In the cache.
    Flash {
        /// The LSN with which it left RAM.
        lsn: u64,
        /// The slow store has an older version.
        dirty: bool,
    },
    /// On the slow store.
    Slow,
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    pub async fn fetch(self: &Rc<Self>, page: u64, buf: &mut [u8]) -> Result<Fetched, CacheError> {
        self.fetch_cleaning(page, buf, Part::first(u64::MAX)).await
    }

    /// The same; with write-through only what is in parts before `before` has to be on the slow
    /// store.
    pub async fn fetch_cleaning(
        self: &Rc<Self>,
        page: u64,
        buf: &mut [u8],
        before: Part,
    ) -> Result<Fetched, CacheError> {
        self.check_page(page, buf.len())?;
        self.count(|s| s.fetches += 1);
        self.ghost_fetch(page);
        let found = self.state.borrow().index.find(page);
        let Some((place, frame)) = found else { return self.fetch_slow(page, buf).await };
        let part = {
            let index = &mut self.state.borrow_mut().index;
            index.refer(place);
            index.part_of(place)
        };
        let read = self.read_place(part, place, buf).await;
        let whole = read.is_ok() && checksum(buf) == frame.checksum;
        if whole {
            if self.mode == Mode::Through && frame.dirty && part < before {
                // What a time of write-back left, or an eviction that a crash ended. One that is under
                // way has to be on flash first: a cut might tear the page on the slow store.
                self.wait_durable(part).await?;
                self.clean(place, page, buf).await?;
            }
            self.count(|s| s.hits += 1);
            return Ok(Fetched::Flash { lsn: frame.lsn, dirty: frame.dirty });
        }
        match read {
            Err(error @ IoError::PowerLost) => Err(CacheError::Flash(error)),
            _ if !frame.dirty => {
                self.give_up(place, page);
                self.fetch_slow(page, buf).await
            }
            Err(error) => Err(CacheError::Flash(error)),
            Ok(()) => {
                self.count(|s| s.damaged += 1);
                self.state.borrow_mut().damaged.insert(page, place);
                buf.fill(0);
                Err(CacheError::Damaged { page, lsn: frame.lsn })
            }
        }
    }

    /// Keeps the slot of a batch as it is (3).
    pub fn pin(&self, batch: u64) -> Reading<'_> {
        *self.state.borrow_mut().reads.entry(batch).or_default() += 1;
        Reading { state: &self.state, work: &self.work, batch }
    }

    /// The frame of a clean page is damaged: the slow store has it (2). A tombstone keeps restarts from
    /// finding it again, since its descriptor may call it dirty. Without room for that the page waits
    /// for [`Core::bury_given_up`].
    pub fn give_up(&self, place: Place, page: u64) {
        let changes = self.check_open().is_ok();
        let buries = changes && self.takes_tombstone();
        let mut state = self.state.borrow_mut();
        state.stats.repaired += 1;
        if state.index.find(page).is_none_or(|(at, _)| at != place) {
            return;
        }
        if buries {
            drop(state);
            self.put_tombstone(page);
        } else {
            state.index.remove(page);
            state.given_up.insert(page);
        }
    }

    async fn fetch_slow(&self, page: u64, buf: &mut [u8]) -> Result<Fetched, CacheError> {
        self.slow.read(page, buf).await.map_err(CacheError::Slow)?;
        Ok(Fetched::Slow)
    }

    /// Reads a frame, from memory if it is still there.
    async fn read_place(&self, part: Part, place: Place, buf: &mut [u8]) -> Result<(), IoError> {
        let _reading = {
            let state = self.state.borrow();
            if let Some((bytes, before)) = state.in_memory(part) {
                // A link that is cut answers nothing.
                if !self.medium.is_alive() {
                    return Err(IoError::PowerLost);
                }
                buf.copy_from_slice(&bytes[self.medium.frame_in_part(place.frame - before)]);
                return Ok(());
            }
            drop(state);
            self.pin(place.batch)
        };
        self.medium.read_run(part, place.frame, buf).await
    }
}

impl State {
    /// The bytes of a part that is not durable, and how many frames of its batch are before it.
    pub fn in_memory(&self, part: Part) -> Option<(&[u8], usize)> {
        if part == self.ring.open() {
            let before = self.index.batch(part.batch).parts.last().copied().unwrap_or(0);
            return Some((&self.open.bytes, before));
        }
        self.sealed.get(&part).map(|s| (&s.bytes[..], s.frames.start))
    }
}

/// A read under way (3).
pub(crate) struct Reading<'a> {
    state: &'a RefCell<State>,
    work: &'a WaitQueue,
    batch: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        if let Some(count) = state.reads.get_mut(&self.batch) {
            *count -= 1;
            if *count == 0 {
                state.reads.remove(&self.batch);
                self.work.notify_all();
            }
        }
    }
}
