//! For audits.

use crate::format::words::PageHead;
use tantalum_nand::{NandArray, PageAddr, PageState};

/// Fails with `what` unless `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The state and the head of a page of the drive's own.
pub(crate) fn head(nand: &NandArray, at: PageAddr, words: &mut [u64]) -> Option<PageHead> {
    (nand.inspect(at, words) == PageState::Programmed).then(|| PageHead::decode(words)).flatten()
}
