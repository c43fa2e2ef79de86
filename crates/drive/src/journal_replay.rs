//! The journal of units at a restart: what was written into the units that it names is found
//! out from the words beside their pages, and put over the stored map.
//!
//! 1. Only pages in a range of the journal count, and of these no copy that the journal calls
//!    out of date, nor one born before its page was discarded (`journal`, 3 and 4).
//! 2. Of the copies of a logical page the one born last counts; of those born together,
//!    which are the same, the one programmed last.
//! 3. A page of a range that can not be read stops the start: what it told is unknown.
//!    (Salvaging goes on without it.)
//! 4. Nothing here changes flash. The entries are the journal's from then on, too.

use crate::firmware::Firmware;
use crate::journal::Entry;
use crate::layout::unit_entry;
use crate::recover::{Missing, RecoveryError, RecoveryReport, check_entry};
use crate::scan::{read_words, write_pointers};
use crate::types::{Kind, Lpn, PageHead, Ppa};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use tantalum_nand::{PageAddr, PageState, Unit};

/// The newest copy of a logical page among those that count.
#[derive(Clone, Copy)]
struct Copy {
    birth: u64,
    sequence: u64,
    place: Ppa,
}

/// Puts what the entries tell over the map.
pub(crate) async fn replay_journal(
    fw: &Firmware,
    entries: &[Entry],
    missing: Missing,
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    if !fw.design.keeps_units() {
        return Ok(());
    }
    let began = fw.rt.now();
    let mut copies = scan(fw, entries, missing, report).await?;
    report.scanned = fw.rt.now() - began;
    let logical = fw.layout.logical;
    let put = |lpn: Lpn, to: Option<Ppa>| {
        if fw.map.borrow().get(lpn) != to {
            fw.map.borrow_mut().set(lpn, to);
            fw.log.borrow_mut().changed(lpn);
        }
    };
    for entry in entries {
        match *entry {
            Entry::Gone { first, count, sequence } => {
                let end = first.0.saturating_add(count).min(logical);
                for lpn in (first.0..end).map(Lpn) {
                    if copies.get(&lpn).is_some_and(|copy| copy.birth <= sequence) {
                        copies.remove(&lpn);
                    }
                    put(lpn, None);
                }
            }
            Entry::Bad { unit } if unit.0 < fw.design.geometry.units() => {
                put(unit_entry(logical, unit), Some(Ppa(0)));
            }
            _ => {}
        }
    }
    for (lpn, copy) in copies {
        check_entry(fw, lpn, Some(copy.place))?;
        put(lpn, Some(copy.place));
    }
    if let Some(journal) = fw.log.borrow_mut().journal_mut() {
        entries.iter().for_each(|entry| journal.push(*entry));
    }
    Ok(())
}

/// The newest copies in the ranges.
async fn scan(
    fw: &Firmware,
    entries: &[Entry],
    missing: Missing,
    report: &mut RecoveryReport,
) -> Result<BTreeMap<Lpn, Copy>, RecoveryError> {
    let (ps, units) = (fw.places.page_sectors as usize, fw.design.geometry.units());
    let mut ranges: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    let (mut stale, mut failed) = (FxHashSet::default(), Vec::new());
    for entry in entries {
        match *entry {
            Entry::Written { unit, from, until } if unit.0 < units => {
                ranges.entry(unit.0).or_default().push((from, until));
            }
            Entry::Stale { place, sequence } => {
                stale.insert((place, sequence));
            }
            Entry::Failed { unit, from, until } => failed.push((unit, from..until)),
            _ => {}
        }
    }
    let of_ranges: Vec<Unit> = ranges.keys().copied().map(Unit).collect();
    let ends = write_pointers(fw, &of_ranges).await?;
    let mut pages = Vec::new();
    for (ranges, (&unit, end)) in ranges.values().zip(of_ranges.iter().zip(ends)) {
        let counts = |page: &u32| ranges.iter().any(|r| (r.0..r.1).contains(page));
        pages.extend((0..end).filter(counts).map(|page| PageAddr { unit, page }));
    }
    report.journal_entries = entries.len() as u64;
    report.scanned_pages = pages.len() as u64;
    let mut newest: FxHashMap<Lpn, Copy> = FxHashMap::default();
    let (mut latest, mut unread) = (0, None);
    read_words(fw, &pages, |i, state, words| {
        if state == PageState::Uncorrectable {
            let at = pages[i];
            if !failed.iter().any(|f| f.0 == at.unit && f.1.contains(&at.page)) {
                unread = Some(at);
            }
            return;
        }
        let Some(head) = PageHead::decode(words) else { return };
        let of_data = matches!(head.kind, Kind::Host | Kind::Moved | Kind::Cold);
        if state != PageState::Programmed || !of_data {
            return;
        }
        let sequence = head.sequence;
        latest = latest.max(sequence);
        let (indices, births) = words[2..].split_at(ps);
        for (sector, (index, &birth)) in (0..).zip(indices.iter().zip(births)) {
            let (lpn, place) = (Lpn(*index as u32), fw.places.ppa(pages[i], sector));
            if lpn.0 >= fw.layout.logical || stale.contains(&(place, sequence)) {
                continue;
            }
            let copy = Copy { birth, sequence, place };
            let best = newest.entry(lpn).or_insert(copy);
            if (birth, sequence) > (best.birth, best.sequence) {
                *best = copy;
            }
        }
    })
    .await?;
    fw.saw_sequence(latest);
    report.salvaged |= unread.is_some();
    if let Some(at) = unread.filter(|_| missing == Missing::Refuse) {
        let what = format!("a page that the journal of units names can not be read at {at:?}");
        return Err(RecoveryError::Damaged(what));
    }
    Ok(newest.into_iter().collect())
}
