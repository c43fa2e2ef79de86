//! The journal of units at a restart. The words beside the pages of the units that it names say
//! what was written there. That is put over the stored map.
//!
//! 1. Only pages in a range of the journal count, and of these no copy that the journal calls
//!    out of date, nor one born before its page was discarded (`unit_journal`, 3 and 4).
//! 2. Of the copies of a logical page the one born last counts. Copies born together are the same;
//!    of these the one programmed last counts.
//! 3. A page of a range that cannot be read, and that no summary covers, stops the start. Its
//!    logical pages are unknown, so any older copy in the map may be out of date. (A salvage goes
//!    on without the page.)
//! 4. Nothing here changes flash. The entries stay in the journal.

use crate::firmware::Firmware;
use crate::format::entries::unit_entry;
use crate::format::summary::decode;
use crate::format::unit_journal::{Entry, OPEN};
use crate::format::words::{Kind, Lpn, PageHead, Ppa};
use crate::planted::planted;
use crate::start::report::{RecoveryError, RecoveryReport, WithoutDump, check_entry};
use crate::start::scan::{read_pages, read_pages_of, read_words, write_pointers};
use crate::state::unit_journal::{Spilled, without_forgotten};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tantalum_device::{Data, OwnedData};
use tantalum_nand::{PageAddr, PageState, Unit};

/// The newest copy of a logical page among those that count.
#[derive(Clone, Copy)]
struct Copy {
    birth: u64,
    sequence: u64,
    place: Ppa,
}

/// Applies the entries to the map.
pub(crate) async fn replay_journal(
    fw: &Firmware,
    spilled: Vec<Spilled>,
    entries: &[Entry],
    without_dump: WithoutDump,
    report: &mut RecoveryReport,
) -> Result<(), RecoveryError> {
    if !fw.design.keeps_units() {
        return Ok(());
    }
    let began = fw.rt.now();
    let on_flash = spilled.iter().flat_map(|sector| sector.entries.iter().copied());
    let all = without_forgotten(on_flash.chain(entries.iter().copied()));
    let mut copies = scan(fw, &all, without_dump, report).await?;
    report.scanned = fw.rt.now() - began;
    let logical = fw.layout.logical;
    // (Also entries that seem unchanged: a newer image on flash than the one in the directory may
    // differ.)
    let put = |lpn: Lpn, to: Option<Ppa>| {
        fw.state.map.borrow_mut().set(lpn, to);
        fw.state.log.borrow_mut().changed(lpn);
    };
    for entry in &all {
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
            Entry::Bad { unit } if unit.0 <= fw.design.geometry.units() => {
                // (The one behind the last is the end of the drive's life.)
                put(unit_entry(logical, unit), Some(Ppa(0)));
            }
            _ => {}
        }
    }
    let mut copies: Vec<(Lpn, Copy)> = copies.into_iter().collect();
    copies.sort_unstable_by_key(|copy| copy.0);
    for (lpn, copy) in copies {
        check_entry(fw, lpn, Some(copy.place))?;
        put(lpn, Some(copy.place));
    }
    if let Some(journal) = fw.state.log.borrow_mut().journal_mut() {
        journal.restore(spilled, entries);
    }
    Ok(())
}

/// The ranges that count in the written units, and the copies found there so far.
struct Scan<'a> {
    fw: &'a Firmware,
    /// By unit: ranges of pages.
    ranges: BTreeMap<u32, Vec<(u32, u32)>>,
    stale: FxHashSet<(Ppa, u64)>,
    failed: Vec<(Unit, Range<u32>)>,
    newest: FxHashMap<Lpn, Copy>,
    latest: u64,
}

/// The newest copies in the ranges.
async fn scan(
    fw: &Firmware,
    entries: &[Entry],
    without_dump: WithoutDump,
    report: &mut RecoveryReport,
) -> Result<FxHashMap<Lpn, Copy>, RecoveryError> {
    let mut scan = Scan::of(fw, entries);
    report.journal_entries = entries.len() as u64;
    let told = scan.summaries(report).await?;
    let left: Vec<Unit> =
        scan.ranges.keys().copied().map(Unit).filter(|unit| !told.contains(&unit.0)).collect();
    // (A dump says where the ranges end.)
    let (open, closed): (Vec<Unit>, Vec<Unit>) =
        left.into_iter().partition(|unit| scan.ranges[&unit.0].iter().any(|r| r.1 == OPEN));
    let ends = write_pointers(fw, &open).await?;
    let ends = open.into_iter().zip(ends);
    let closed = closed.into_iter().map(|unit| (unit, fw.places.data_pages));
    let pages: Vec<PageAddr> =
        ends.chain(closed).flat_map(|(unit, end)| scan.pages_of(unit, end)).collect();
    report.scanned_pages += pages.len() as u64;
    let mut unread = None;
    read_words(fw, &pages, |i, state, words| {
        let at = pages[i];
        match (state, PageHead::decode(words)) {
            (PageState::Uncorrectable, _) if !scan.has_failed(at) => unread = Some(at),
            (PageState::Programmed, Some(head))
                if matches!(head.kind, Kind::Host | Kind::Moved | Kind::Cold) =>
            {
                let (indices, births) = words[2..].split_at(fw.places.page_sectors as usize);
                let indices = indices.iter().map(|index| *index as u32);
                scan.count(at, head.sequence, indices.zip(births.iter().copied()));
            }
            _ => {}
        }
    })
    .await?;
    fw.saw_sequence(scan.latest);
    report.salvaged |= unread.is_some();
    if let Some(at) = unread.filter(|_| without_dump == WithoutDump::Refuse) {
        let what = format!(
            "a page that the journal of units names cannot be read at {at}: of which logical \
             pages it had the newest copies is not known; salvaging the drive goes on without \
             it, and older copies of these may come back"
        );
        return Err(RecoveryError::Damaged(what));
    }
    Ok(scan.newest)
}

impl<'a> Scan<'a> {
    fn of(fw: &'a Firmware, entries: &[Entry]) -> Scan<'a> {
        let mut scan = Scan {
            fw,
            ranges: BTreeMap::new(),
            stale: FxHashSet::default(),
            failed: Vec::new(),
            newest: FxHashMap::default(),
            latest: 0,
        };
        for entry in entries {
            match *entry {
                Entry::Written { unit, from, until } if unit.0 < fw.design.geometry.units() => {
                    scan.ranges.entry(unit.0).or_default().push((from, until));
                }
                Entry::Stale { place, sequence } => {
                    scan.stale.insert((place, sequence));
                }
                Entry::Failed { unit, from, until } => scan.failed.push((unit, from..until)),
                _ => {}
            }
        }
        scan
    }

    /// Whether a page is in a range.
    fn counts(&self, at: PageAddr) -> bool {
        let ranges = self.ranges.get(&at.unit.0);
        ranges.is_some_and(|ranges| ranges.iter().any(|r| (r.0..r.1).contains(&at.page)))
    }

    /// The pages of a unit that count, of those before `end`.
    fn pages_of(&self, unit: Unit, end: u32) -> impl Iterator<Item = PageAddr> {
        let pages =
            (0..end.min(self.fw.places.data_pages)).map(move |page| PageAddr { unit, page });
        pages.filter(|at| self.counts(*at))
    }

    fn has_failed(&self, at: PageAddr) -> bool {
        self.failed.iter().any(|f| f.0 == at.unit && f.1.contains(&at.page))
    }

    /// A page that counts, with logical page number and birth of each of its sectors.
    fn count(&mut self, at: PageAddr, sequence: u64, sectors: impl Iterator<Item = (u32, u64)>) {
        self.latest = self.latest.max(sequence);
        for (sector, (lpn, birth)) in (0..).zip(sectors) {
            let place = self.fw.places.ppa(at, sector);
            if lpn >= self.fw.layout.logical || self.stale.contains(&(place, sequence)) {
                continue;
            }
            let copy = Copy { birth, sequence, place };
            let best = self.newest.entry(Lpn(lpn)).or_insert(copy);
            if (birth, sequence) > (best.birth, best.sequence) {
                *best = copy;
            }
        }
    }

    /// Counts what the summaries of full units tell; which units these are.
    async fn summaries(
        &mut self,
        report: &mut RecoveryReport,
    ) -> Result<BTreeSet<u32>, RecoveryError> {
        let (fw, places) = (self.fw, self.fw.places);
        if !fw.design.map.summary {
            return Ok(BTreeSet::new());
        }
        let full = self.ranges.iter().filter(|u| u.1.iter().any(|r| r.1 >= places.data_pages));
        let firsts: Vec<PageAddr> =
            full.map(|u| PageAddr { unit: Unit(*u.0), page: places.data_pages }).collect();
        let begun = read_pages_of(fw, &firsts, Kind::Summary).await?;
        // (Of most units that is all.)
        let rest = places.data_pages + 1..places.unit_pages;
        let with = firsts.iter().zip(&begun).filter(|(_, page)| page.is_some());
        let rests: Vec<PageAddr> = with
            .flat_map(|(at, _)| rest.clone().map(|page| PageAddr { unit: at.unit, page }))
            .collect();
        report.scanned_pages += (firsts.len() + rests.len()) as u64;
        let read = read_pages(fw, &rests, true).await?;
        let mut read = read.iter();
        let mut told = BTreeSet::new();
        let mut bytes = Vec::new();
        for (at, first) in firsts.iter().zip(&begun).filter(|(_, page)| page.is_some()) {
            let unit = at.unit;
            let pages = std::iter::once(first).chain(read.by_ref().take(rest.len()));
            bytes.clear();
            let mut whole = true;
            for page in pages {
                match page.as_ref().map(OwnedData::as_data) {
                    Some(Data::Bytes(page)) => bytes.extend_from_slice(page),
                    _ => whole = false,
                }
            }
            if !whole {
                continue;
            }
            for (page, note) in (0..).zip(decode(&bytes, &places)) {
                let at = PageAddr { unit, page };
                if self.counts(at) && (!self.has_failed(at) || planted!(SummaryCountsFailed)) {
                    self.count(at, note.sequence(), note.sectors());
                }
            }
            told.insert(unit.0);
        }
        Ok(told)
    }
}
