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
            for page in pages {
                let chain = self.chain_of(*page);
                self.head(chain).ahead();
                self.lock_word(self.partition_of(chain)).ahead();
            }
            // All heads, before any is looked at: a branch on one would hold up the next loads.
            let mut first = [0; WIDTH];
            for (page, first) in pages.iter().zip(&mut first) {
                *first = self.head(self.chain_of(*page)).peek();
            }
            let inside = |word| frame_in(word).filter(|f| u64::from(*f) < self.layout.shape.frames);
            for frame in first.into_iter().filter_map(inside) {
                self.entry(frame).control.ahead();
                self.link(frame).ahead();
                self.record_of(frame).needs.ahead();
            }
            // Where the first entry is another page's, the next one of its chain.
            for (page, first) in pages.iter().zip(first) {
                let Some(frame) = inside(first) else { continue };
                if self.entry(frame).page.peek() != *page
                    && let Some(next) = inside(self.link(frame).peek())
                {
                    self.entry(next).control.ahead();
                    self.link(next).ahead();
                    self.record_of(next).needs.ahead();
                }
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
