//! What a drive takes as one atomic group.

use crate::Design;
use crate::design::layout::Layout;
use crate::format::entries::DELTA_ENTRIES;
use tantalum_device::GroupLimit;

/// What a drive of this design takes as one group; `None` if none.
pub(crate) fn group_limit(design: &Design, layout: &Layout) -> Option<GroupLimit> {
    let pages = (design.atomic.group_kib / 4).min(design.buffer_slots());
    let pages = match design.is_protected() {
        true => pages,
        false => pages.min(DELTA_ENTRIES).min(layout.group_sectors),
    };
    (pages > 1 && design.atomic.extents > 0).then(|| GroupLimit {
        extents: design.atomic.extents.min(pages),
        // (Of blocks smaller than a sector each may be in another sector.)
        bytes: u64::from(pages) * u64::from(design.link.logical_bytes),
    })
}
