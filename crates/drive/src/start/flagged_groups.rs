//! A restart with atomic groups that only flags beside their pages mark (`firmware/flags`).

use crate::firmware::Firmware;
use crate::format::entries::map_page;
use crate::format::words::{Kind, Lpn, MORE, PART, PageHead, Ppa};
use crate::planted::planted;
use crate::start::map_load::Stored;
use crate::start::report::{RecoveryError, check_entry};
use crate::start::scan::{read_words, write_pointers};
use crate::start::settle::Units;
use std::collections::BTreeMap;
use tantalum_nand::{PageAddr, PageState, Unit};

/// A sector that the host wrote.
#[derive(Clone, Copy)]
struct Found {
    sequence: u64,
    group: u64,
    word: u64,
    place: Ppa,
}

/// Finds groups that are not in the log yet, and maps those that are whole.
pub(crate) async fn redo_groups(
    fw: &Firmware,
    units: &Units,
    stored: &Stored,
) -> Result<(), RecoveryError> {
    let mut pages = read_all(fw, units).await?;
    pages.retain(|found| found.word & PART != 0);
    pages.sort_by_key(|found| (found.sequence, found.place.0));
    let mut newest: BTreeMap<Lpn, Ppa> = BTreeMap::new();
    let mut group: Vec<Found> = Vec::new();
    for found in pages {
        if group.first().is_some_and(|first| first.group != found.group)
            && !planted!(FlagGroupsMixed)
        {
            group.clear(); // What a power loss, or collection, left of it.
        }
        group.push(found);
        if found.word & MORE != 0 {
            continue;
        }
        for part in group.drain(..) {
            let lpn = Lpn(part.word as u32);
            let image = stored.images.get(map_page(lpn) as usize).copied().unwrap_or(0);
            if found.sequence > stored.deltas.get(&lpn).copied().unwrap_or(0).max(image) {
                newest.insert(lpn, part.place);
            }
        }
    }
    for (lpn, place) in newest {
        check_entry(fw, lpn, Some(place))?;
        fw.state.map.borrow_mut().set(lpn, Some(place));
        fw.state.log.borrow_mut().changed(lpn);
    }
    Ok(())
}

/// What is beside all pages that the host wrote.
async fn read_all(fw: &Firmware, units: &Units) -> Result<Vec<Found>, RecoveryError> {
    let ps = fw.places.page_sectors;
    let of_data: Vec<Unit> =
        units.data.iter().map(|u| u.1).chain(units.unknown.iter().copied()).collect();
    let ends = write_pointers(fw, &of_data).await?;
    let of = |(unit, end): (&Unit, u32)| {
        let unit = *unit;
        (0..end).map(move |page| PageAddr { unit, page })
    };
    let pages: Vec<PageAddr> = of_data.iter().zip(ends).flat_map(of).collect();
    let (mut found, mut latest) = (Vec::new(), 0);
    read_words(fw, &pages, |i, state, words| {
        let Some(head) = PageHead::decode(words) else { return };
        if state != PageState::Programmed || head.kind != Kind::Host {
            return;
        }
        latest = latest.max(head.sequence);
        for (sector, word) in (0..).zip(&words[2..2 + ps as usize]) {
            if (*word as u32) < fw.layout.logical {
                let place = fw.places.ppa(pages[i], sector);
                let (sequence, group) = (head.sequence, head.version);
                found.push(Found { sequence, group, word: *word, place });
            }
        }
    })
    .await?;
    if !planted!(FlagNumberReused) {
        fw.saw_sequence(latest);
    }
    Ok(found)
}
