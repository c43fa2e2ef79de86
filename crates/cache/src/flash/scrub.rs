//! Passes over the ring: every frame is read and compared, or every dirty page is written to the
//! slow store, while the cache is used.
//!
//! 1. A pass looks at one batch at a time, between batches that leave. It holds the batch's slot.
//! 2. A damaged frame of a clean page is given up: the slow store has the page. That of a dirty page
//!    stays, and is told.
//! 3. A page is clean only when the slow store was flushed behind it.

use crate::flash::core::Core;
use crate::flash::error::CacheError;
use crate::flash::format::{Frame, checksum};
use crate::flash::front::Leaving;
use crate::flash::index::Place;
use crate::flash::slow::SlowStore;
use tantalum_device::BlockDevice;

/// What a scrubber found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Frames that were compared.
    pub frames: u64,
    /// Damaged frames of clean pages, which were given up.
    pub repaired: u64,
    /// Dirty pages whose frames are damaged, ascending: their newest versions are lost.
    pub damaged: Vec<u64>,
}

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// The valid frames of a batch among those that are `wanted`, and the bytes of all of its
    /// frames. `None`: there are none.
    async fn valid_bytes(
        &self,
        batch: u64,
        wanted: impl Fn(&Frame) -> bool,
    ) -> Result<Option<(Vec<(Place, Frame)>, Vec<u8>)>, CacheError> {
        if batch < self.state.borrow().ring.front() {
            return Ok(None);
        }
        let mut valid = self.valid_frames(batch);
        valid.retain(|(_, frame)| wanted(frame));
        if valid.is_empty() {
            return Ok(None);
        }
        let frames = self.state.borrow().index.batch(batch).frames.len();
        let _pinned = self.pin(batch);
        let bytes = self.medium.read_frames(batch, frames).await.map_err(CacheError::Flash)?;
        // What was superseded or released meanwhile means nothing.
        let state = self.state.borrow();
        valid.retain(|(at, frame)| state.index.find(frame.page).is_some_and(|(now, _)| now == *at));
        Ok(Some((valid, bytes)))
    }

    fn is_whole(&self, bytes: &[u8], at: Place, frame: &Frame) -> bool {
        let page = self.medium.page();
        checksum(&bytes[at.frame * page..][..page]) == frame.checksum
    }

    pub async fn scrub(&self) -> Result<Scrubbed, CacheError> {
        self.check_open()?;
        let mut found = Scrubbed::default();
        let (mut batch, end) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.durable())
        };
        while batch < end {
            let _turn = self.front_turn.lock().await;
            let read = self.valid_bytes(batch, |_| true).await?;
            batch += 1;
            let Some((valid, bytes)) = read else { continue };
            for (at, frame) in valid {
                found.frames += 1;
                match (self.is_whole(&bytes, at, &frame), frame.dirty) {
                    (true, _) => {}
                    (false, true) => found.damaged.push(frame.page),
                    (false, false) => {
                        self.give_up(at, frame.page);
                        found.repaired += 1;
                    }
                }
            }
        }
        found.damaged.sort_unstable();
        Ok(found)
    }

    /// Every page that is dirty now is on the slow store, for good, when this returns.
    pub async fn clean_all(&self) -> Result<(), CacheError> {
        self.checkpoint().await?;
        let (mut batch, end) = {
            let state = self.state.borrow();
            (state.ring.front(), state.ring.durable())
        };
        while batch < end {
            let _turn = self.front_turn.lock().await;
            let read = self.valid_bytes(batch, |frame| frame.dirty).await?;
            batch += 1;
            let Some((valid, bytes)) = read else { continue };
            if let Some((_, frame)) = valid.iter().find(|(at, f)| !self.is_whole(&bytes, *at, f)) {
                return Err(CacheError::Damaged { page: frame.page, lsn: frame.lsn });
            }
            let leaving =
                valid.iter().map(|(place, frame)| Leaving { page: frame.page, place: *place });
            let page = self.medium.page();
            let of = |place: Place| &bytes[place.frame * page..][..page];
            self.destage(leaving.collect(), of).await?;
            let mut state = self.state.borrow_mut();
            for (place, frame) in valid {
                if state.index.find(frame.page).is_some_and(|(now, _)| now == place) {
                    state.index.set_clean(place);
                }
            }
        }
        Ok(())
    }
}
