//! A start without the dump that is due: the map is rebuilt from the words beside each page.
//!
//! 1. Of the copies of a logical page that can be read the one born last is the newest that
//!    is on flash.
//! 2. Where the stored map says that there is no such page, a copy counts only if it was born
//!    after that was stored: others were discarded.
//! 3. Nothing on flash is changed before the map is whole; a power loss meanwhile leaves
//!    all as it was.

use crate::firmware::Firmware;
use crate::format::words::{Kind, Lpn, PageHead, Ppa};
use crate::start::report::{RecoveryError, RecoveryReport};
use crate::start::scan::{read_words, write_pointers};
use crate::start::settle::Units;
use tantalum_nand::{PageAddr, PageState, Unit};

/// Programs that a die may have under way and waiting, at most, each of a row: data born
/// before a map page was stored may have been mapped after that by so many.
const IN_FLIGHT: u64 = 16;

/// Puts the map right. `stored` has the sequence number of each map page's image.
pub(crate) async fn rebuild(
    fw: &Firmware,
    units: &Units,
    stored: &[u64],
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    let g = &fw.design.geometry;
    let margin = IN_FLIGHT * u64::from(g.dies()) * u64::from(g.planes);
    let found = find_copies(fw, units).await?;
    for (lpn, copy) in (0..).map(Lpn).zip(found) {
        let old = fw.state.map.borrow().get(lpn);
        let new = match copy {
            Copy { birth: 0, .. } => match old {
                Some(place) if !is_readable(fw, place).await? => old,
                _ => None,
            },
            Copy { birth, place } => {
                let stored = stored[crate::format::entries::map_page(lpn) as usize];
                (old.is_some() || stored == 0 || birth + margin > stored).then_some(place)
            }
        };
        if new != old {
            fw.state.map.borrow_mut().set(lpn, new);
            fw.state.log.borrow_mut().changed(lpn);
            report.salvaged_entries += 1;
        }
    }
    Ok(())
}

/// A copy of a logical page; born 0: there is none.
#[derive(Clone, Copy)]
struct Copy {
    birth: u64,
    place: Ppa,
}

/// The newest copy of each logical page.
async fn find_copies(fw: &Firmware, units: &Units) -> Result<Vec<Copy>, RecoveryError> {
    let ps = fw.places.page_sectors;
    let mut found = vec![Copy { birth: 0, place: Ppa(0) }; fw.layout.logical as usize];
    let of_data: Vec<Unit> =
        units.data.iter().map(|u| u.1).chain(units.unknown.iter().copied()).collect();
    // Some units at a time: a large drive has millions of pages.
    for some in of_data.chunks(4 * fw.design.geometry.dies() as usize) {
        let ends = write_pointers(fw, some).await?;
        let of = |(unit, end): (&Unit, u32)| {
            let unit = *unit;
            (0..end).map(move |page| PageAddr { unit, page })
        };
        let pages: Vec<PageAddr> = some.iter().zip(ends).flat_map(of).collect();
        let mut latest = 0;
        read_words(fw, &pages, |i, state, words| {
            let Some(head) = PageHead::decode(words) else { return };
            if state != PageState::Programmed
                || !matches!(head.kind, Kind::Host | Kind::Moved | Kind::Cold)
            {
                return;
            }
            latest = latest.max(head.sequence);
            let (indices, births) = words[2..].split_at(ps as usize);
            for (sector, (index, birth)) in (0..).zip(indices.iter().zip(births)) {
                let index = *index as u32;
                let Some(copy) = found.get_mut(index as usize) else { continue };
                if *birth > copy.birth {
                    *copy = Copy { birth: *birth, place: fw.places.ppa(pages[i], sector) };
                }
            }
        })
        .await?;
        fw.saw_sequence(latest);
    }
    Ok(found)
}

/// Whether the page of this place can be read; one that is erased can.
async fn is_readable(fw: &Firmware, place: Ppa) -> Result<bool, RecoveryError> {
    let mut readable = true;
    let page = fw.places.page(place).0;
    read_words(fw, &[page], |_, state, _| readable = state != PageState::Uncorrectable).await?;
    Ok(readable)
}
