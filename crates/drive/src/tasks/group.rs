//! Atomic groups: scattered writes of which a power loss leaves all or nothing (Ouyang et al.,
//! "Beyond Block I/O", HPCA 2011; there with one group at a time).
//!
//! 1. A group is admitted in one poll: a read sees all of it or nothing, from that moment on
//!    all. Before, it can be given up without a trace; after, it goes on by itself.
//! 2. In protected memory nothing else is needed, because a dump has each of its pages that is not
//!    mapped. The rest is for drives without protected memory.
//! 3. The map names no page of a group before all are on flash and one sector of the map log names
//!    them all: after a power loss this record is there as a whole or not at all. Then all are
//!    mapped in one step. Until then their copies stay in the buffer.
//! 4. What has landed of a group is valid, and is moved by collection like anything else. A move
//!    while the record is on its way has a version of its own, and where the page was is not erased
//!    before that is durable; and the keeper writes the new place with its next record.
//! 5. No two groups under way share a page. Writes and discards of their pages wait for them.
//! 6. Pages of groups under way are never more than the layout has room for beside what they
//!    replace.
//! 7. A group that has completed survives. Groups do not wait for each other, nor for flushes.

use crate::CacheMode;
use crate::firmware::Firmware;
use crate::planted::planted;
use std::collections::BTreeMap;
use std::ops::Range;
use tantalum_device::{AtomicError, Data, Extent, IoError};
use tantalum_rt::Nanos;

impl Firmware {
    pub async fn write_group(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.caps.check_group(group)?;
        self.healthy()?;
        let pages = self.pages_of_group(group);
        let count: u64 = pages.iter().map(|range| u64::from(range.end - range.start)).sum();
        let blocks: u64 = group.iter().map(|e| self.extent(e).count).sum();
        let _place = self.host.queue.acquire(1).await;
        let bytes = blocks * u64::from(self.caps.block_size);
        self.take_extents(bytes, group.len() as u64).await;
        if matches!(self.design.cache.mode, CacheMode::Through | CacheMode::Off) {
            self.work_for(self.design.firmware.through_us).await;
        }
        let mut ahead = self.read_ahead(group.iter().map(|e| self.extent(e)));
        let turn = self.host.arrival.lock().await;
        if self.layout.is_thin() {
            self.until_whole().await;
        }
        let grant = self.grant_room(&pages).await?;
        for range in &pages {
            self.until_no_group(range).await;
        }
        if self.groups.scheme.is_alone() {
            // Nothing else of the host is written between its first page and its last.
            self.program_so_far().await?;
        }
        let whole = match self.sector_blocks() {
            1 => BTreeMap::new(),
            _ => self.whole_group(group, &mut ahead).await?,
        };
        let extents = group.iter().filter(|_| whole.is_empty()).map(|e| (e.at.0, e.data));
        let sectors = whole.iter().map(|(sector, bytes)| (*sector, Data::Bytes(bytes)));
        let protected = self.design.is_protected();
        let beside = self.groups.room.acquire(if protected { 0 } else { count }).await;
        self.take_room(count).await;
        self.healthy()?;
        beside.keep();
        for (sector, data) in extents.chain(sectors) {
            self.admit(sector, data);
            if planted!(GroupAdmittedInParts) {
                self.rt.sleep(Nanos(1_000)).await;
            }
        }
        self.keep_changes()?;
        let number = (!protected && count > 0).then(|| self.begin_group(&pages));
        drop((grant, turn));
        if let Some(number) = number {
            self.announce_work();
            let is_done = || !self.groups.under_way.borrow().open.contains_key(&number);
            let flown = || planted!(GroupAckedEarly) && self.has_flown(number);
            self.groups.done.until(|| is_done() || self.is_poisoned() || flown()).await;
            if !is_done() && !planted!(GroupAckedEarly) {
                self.still_healthy()?;
                return Err(IoError::Failed("the group was not completed").into());
            }
        }
        self.stats.host_groups.add(1);
        self.stats.host_write_bytes.add(bytes);
        Ok(())
    }

    /// The sectors of a group, each once.
    fn pages_of_group(&self, group: &[Extent<'_>]) -> Vec<Range<u32>> {
        let ranges = group.iter().map(|e| self.pages(self.extent(e)));
        if self.sector_blocks() == 1 {
            return ranges.collect();
        }
        let mut ranges: Vec<Range<u32>> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut pages: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match pages.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => pages.push(range),
            }
        }
        pages
    }

    /// Waits until no group under way has any of these pages (5). The caller has the turn to be
    /// admitted, so that no group begins meanwhile.
    pub async fn until_no_group(&self, pages: &Range<u32>) {
        let alone = self.groups.scheme.is_alone();
        let clear = || {
            let groups = self.groups.under_way.borrow();
            let waits = groups.touches(pages) || alone && groups.are_open();
            !waits || planted!(GroupOvertaken)
        };
        self.groups.done.until(|| clear() || self.is_poisoned()).await;
    }
}
