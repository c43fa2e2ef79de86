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
use std::ops::Range;
use tantalum_device::{AtomicError, Extent, IoError};
use tantalum_nand::SECTOR_BYTES;
use tantalum_rt::Nanos;

impl Firmware {
    pub async fn write_group(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.caps.check_group(group)?;
        self.healthy()?;
        let blocks = |e: &Extent<'_>| e.data.blocks(SECTOR_BYTES).unwrap_or(0);
        let range = |e: &Extent<'_>| e.at.0 as u32..(e.at.0 + blocks(e)) as u32;
        let pages: Vec<Range<u32>> = group.iter().map(range).collect();
        let count: u64 = group.iter().map(blocks).sum();
        let _place = self.host.queue.acquire(1).await;
        let bytes = count * u64::from(SECTOR_BYTES);
        self.take_extents(bytes, group.len() as u64).await;
        if matches!(self.design.cache.mode, CacheMode::Through | CacheMode::Off) {
            self.work_for(self.design.firmware.through_us).await;
        }
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
        let protected = self.design.is_protected();
        let beside = self.groups.room.acquire(if protected { 0 } else { count }).await;
        self.take_room(count).await;
        self.healthy()?;
        beside.keep();
        for extent in group {
            self.admit(extent.at.0, extent.data);
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
        self.stats.host_write_bytes.add(count * u64::from(SECTOR_BYTES));
        Ok(())
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
