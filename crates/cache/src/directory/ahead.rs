//! Loading what calls will need: several pages at once, where one call after the other waits for
//! memory each time.
//!
//! 1. It only loads: nothing changes, nothing is decided by what was seen, and a page may come or go
//!    before the call that needs it.

use super::Directory;
use super::chain::frame_in;

/// Pages whose loads are under way at once. A core has room for some ten of them.
const WIDTH: usize = 64;

impl Directory {
    /// Brings into the processor's cache what looking up, staging or forgetting these pages needs.
    ///
    /// A directory is larger than that cache, and its tables are hashed: each call waits for
    /// memory several times. Here the waits of the pages overlap. So do those for what another
    /// processor has changed last: locks, and the records of batches. It pays for the pages of a
    /// batch, called just before them.
    pub fn prefetch(&self, pages: &[u64]) {
        for pages in pages.chunks(WIDTH) {
            let mut first = [None; WIDTH];
            for (page, first) in pages.iter().zip(&mut first) {
                let chain = self.chain_of(*page);
                *first = frame_in(self.head(chain).peek());
                self.lock_word(self.partition_of(chain)).peek();
            }
            let inside = |frame: &u32| u64::from(*frame) < self.layout.shape.frames;
            for frame in first.into_iter().flatten().filter(inside) {
                self.entry(frame).control.peek();
                self.link(frame).peek();
                self.record_of(frame).needs.peek();
            }
        }
    }

    /// As [`Directory::prefetch`], for the pages that a batch has.
    #[cfg(not(loom))]
    pub(super) fn prefetch_batch(&self, seq: u64) {
        let mut pages = [0; super::BATCH_MAX as usize];
        let mut count = 0;
        for (frame, page) in self.frames_of(seq).zip(&mut pages) {
            *page = self.entry(frame).page.peek();
            count += 1;
        }
        self.prefetch(&pages[..count]);
    }
}
