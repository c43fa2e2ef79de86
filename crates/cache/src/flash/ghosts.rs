//! Ghosts of a running cache: what twice its size would gain (`policy/ghosts.rs`).
//!
//! 1. Nothing of the cache depends on them.
//! 2. They are told what the cache sees: fetches, pages that leave RAM and may enter, pages that are
//!    forgotten, and frames that stay empty since a batch was written before it was full.
//! 3. **Bounded.** The sample is so small that a cache of this size has at most [`SAMPLE`] frames of
//!    it. Its ghosts have three times as many: less than 2 MiB.
//! 4. They begin with what the cache has, when it is opened and whenever it gets another size.

use crate::flash::core::{Core, State};
use crate::flash::format::Layout;
use crate::flash::index::{Index, Place};
use crate::flash::options::{OpenOptions, Replacement};
use crate::flash::ring::{Ring, kept, leaving};
use crate::flash::slow::SlowStore;
use crate::policy::{Access, Config, Exit, Ghosts, Kind, Lsn, PageId};
use std::ops::Range;
use tantalum_device::BlockDevice;

/// Frames of the sample in a cache of this size, at most.
const SAMPLE: u64 = 8192;
/// Bytes of a page, for the policy: ghosts have no data.
const PAGE: u32 = 4096;

/// The ghosts of a cache that holds this, if they are asked for.
pub(crate) fn ghosts_of(
    layout: &Layout,
    options: &OpenOptions,
    ring: &Ring,
    index: &Index,
) -> Option<Ghosts> {
    if !options.ghosts {
        return None;
    }
    let leaving = leaving(layout.frames, layout.page, options.leaving);
    let kept = |times| kept(times * u64::from(layout.batches), leaving);
    let frames = [1, 2].map(|times| kept(times) * u64::from(layout.frames));
    let one_in = u32::try_from(frames[0].div_ceil(SAMPLE)).unwrap_or(u32::MAX);
    let kind = match options.replacement {
        Replacement::Basic => Kind::MvFifo,
        Replacement::SecondChance => Kind::Gsc,
    };
    let config = Config { batch: layout.frames, inherits: false, ..Config::new(kind, 0, PAGE) };
    let mut ghosts = Ghosts::of_sizes(&config, frames, one_in).ok()?;
    for batch in ring.front()..=ring.open().batch {
        let entries = &index.batch(batch).frames;
        for (frame, (entry, referenced)) in entries.iter().enumerate() {
            match index.is_valid(Place { batch, frame }) {
                true => has_left(&mut ghosts, entry.page, true),
                false => ghosts.skip(1),
            }
            if *referenced {
                is_fetched(&mut ghosts, entry.page);
            }
        }
        if batch < ring.open().batch {
            ghosts.skip(u64::from(layout.frames) - entries.len() as u64);
        }
    }
    ghosts.restart();
    Some(ghosts)
}

/// (LSNs are of no use to ghosts, and those of a program may be wrong.)
fn is_fetched(ghosts: &mut Ghosts, page: u64) {
    ghosts.fetch(Access { page: PageId(page), client: 0 }, Lsn(0));
}

fn has_left(ghosts: &mut Ghosts, page: u64, dirty: bool) {
    let exit = Exit { page: PageId(page), client: 0, lsn: Lsn(0), dirty, fdirty: dirty };
    ghosts.evict(exit);
}

impl<F: BlockDevice, S: SlowStore> Core<F, S> {
    fn tell_ghosts(&self, tell: impl FnOnce(&mut Ghosts)) {
        if let Some(ghosts) = &mut self.state.borrow_mut().ghosts {
            tell(ghosts);
        }
    }

    /// A page is fetched.
    pub fn ghost_fetch(&self, page: u64) {
        self.tell_ghosts(|ghosts| is_fetched(ghosts, page));
    }

    /// A page leaves RAM, and may enter.
    pub fn ghost_exit(&self, page: u64, dirty: bool) {
        self.tell_ghosts(|ghosts| has_left(ghosts, page, dirty));
    }
}

impl State {
    /// Pages are forgotten.
    pub fn ghosts_forget(&mut self, pages: Range<u64>) {
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.forget_range(pages);
        }
    }

    /// A batch is sealed, and so many of its frames stay empty.
    pub fn ghosts_skip(&mut self, frames: usize) {
        if let Some(ghosts) = &mut self.ghosts {
            ghosts.skip(frames as u64);
        }
    }
}
