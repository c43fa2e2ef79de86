//! Atomic groups: scattered writes of which a power loss leaves all or nothing (Ouyang et al.,
//! "Beyond Block I/O", HPCA 2011; there with one group at a time).
//!
//! 1. A group is admitted in one poll: a read sees all of it or nothing, from that moment on
//!    all. Before, it can be given up without a trace; after, it goes on by itself.
//! 2. In protected memory that is all there is to it: a dump has each of its pages that is not
//!    mapped. The rest is for drives without.
//! 3. The map names no page of a group before all are on flash and one sector of the map
//!    log names them all: this record is there after a power loss whole or not at all. Then all
//!    are mapped in one step. Until then their copies stay in the buffer.
//! 4. What has landed of a group is valid, and is moved by collection like anything else. A
//!    move while the record is on its way has a version of its own, and where the page was is not
//!    erased before that is durable; and it is told again by what the keeper writes next.
//! 5. No two groups under way share a page. Writes and discards of their pages wait for them.
//! 6. Pages of groups under way are never more than the layout has room for beside what they
//!    replace.
//! 7. A group that has completed survives. Groups do not wait for each other, nor for flushes.

use crate::CacheMode;
use crate::firmware::Firmware;
use crate::format::words::{Lpn, Ppa};
use crate::planted::planted;
use crate::state::buffer::Slot;
use crate::state::groups::{Group, Member, Ready};
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
        let _place = self.queue.acquire(1).await;
        self.take_data(count * u64::from(SECTOR_BYTES)).await;
        if matches!(self.design.cache.mode, CacheMode::Through | CacheMode::Off) {
            self.work_for(self.design.firmware.through_us).await;
        }
        let turn = self.arrival.lock().await;
        if self.layout.is_thin() {
            self.until_whole().await;
        }
        let grant = self.grant_room(&pages).await?;
        for range in &pages {
            self.until_no_group(range).await;
        }
        if self.design.flags_groups() {
            // Nothing else of the host is written between its first page and its last.
            self.program_so_far().await?;
        }
        let protected = self.design.is_protected();
        let beside = self.group_room.acquire(if protected { 0 } else { count }).await;
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
            let is_done = || !self.groups.borrow().open.contains_key(&number);
            let flown = || planted!(GroupAckedEarly) && self.has_flown(number);
            self.group_done.until(|| is_done() || self.poisoned.get() || flown()).await;
            if !is_done() && !planted!(GroupAckedEarly) {
                self.still_healthy()?;
                return Err(IoError::Failed("the group was not completed").into());
            }
        }
        self.stats.host_groups.add(1);
        self.stats.host_write_bytes.add(count * u64::from(SECTOR_BYTES));
        Ok(())
    }

    /// What was just admitted is a group.
    fn begin_group(&self, pages: &[Range<u32>]) -> u64 {
        let (mut groups, mut buffer) = (self.groups.borrow_mut(), self.buffer.borrow_mut());
        let number = groups.next;
        groups.next += 1;
        let pages: Vec<Lpn> = pages.iter().cloned().flatten().map(Lpn).collect();
        for lpn in &pages {
            buffer.join_group(*lpn);
            groups.members.insert(*lpn, Member { group: number, landed: None });
        }
        let began = self.sequence.get();
        groups.open.insert(number, Group { began, left: pages.len(), pages });
        number
    }

    fn has_flown(&self, number: u64) -> bool {
        self.groups.borrow().open.get(&number).is_none_or(|group| group.left == 0)
    }

    /// Waits until no group under way has any of these pages (5). Whoever calls has the turn to
    /// be admitted, so that none begins meanwhile.
    pub async fn until_no_group(&self, pages: &Range<u32>) {
        let alone = self.design.flags_groups();
        let clear = || {
            let groups = self.groups.borrow();
            let waits = groups.touches(pages) || alone && groups.are_open();
            !waits || planted!(GroupOvertaken)
        };
        self.group_done.until(|| clear() || self.poisoned.get()).await;
    }

    /// A page of a group is on flash.
    pub fn land_in_group(&self, slot: Slot, lpn: Lpn, place: Ppa) {
        let mut groups = self.groups.borrow_mut();
        let groups = &mut *groups;
        let Some(member) = groups.members.get_mut(&lpn) else {
            return self.fail("a page of an atomic group landed that is in no group");
        };
        member.landed = Some((slot, place));
        let number = member.group;
        let Some(group) = groups.open.get_mut(&number) else { return };
        group.left -= 1;
        if group.left == 0 && !self.design.flags_groups() {
            groups.ready.push(number);
            self.log_work.notify_all();
            self.group_done.notify_all();
        }
        if planted!(GroupMappedEarly) {
            self.remap(lpn, Some(place));
        } else {
            self.space.borrow_mut().validate(place);
        }
    }

    /// Collection has moved a page: whether it is one of a group, which is there from now on.
    pub fn move_in_group(&self, lpn: Lpn, from: Ppa, to: Ppa) -> bool {
        match self.groups.borrow_mut().members.get_mut(&lpn).map(|m| &mut m.landed) {
            Some(Some((_, place))) if *place == from => {
                if !planted!(GroupMoveForgotten) {
                    *place = to;
                }
            }
            _ => return false,
        }
        let version = self.map.borrow_mut().bump();
        self.space.borrow_mut().validate(to);
        self.supersede(from, version);
        self.stats.group_moved_bytes.add(SECTOR_BYTES.into());
        true
    }

    /// Whether the map, or a group that is not mapped yet, has a page in this place.
    pub fn is_at(&self, lpn: Lpn, place: Ppa) -> bool {
        self.map.borrow().get(lpn) == Some(place) || self.groups.borrow().place(lpn) == Some(place)
    }

    /// Which page the map, or a group, has in this place.
    pub fn who_is_at(&self, place: Ppa) -> Option<Lpn> {
        let (map, groups) = (self.map.borrow(), self.groups.borrow());
        map.mapped().chain(groups.landed()).find(|at| at.1 == place).map(|at| at.0)
    }

    /// The record of a group is on flash: all of it is mapped.
    pub fn map_group(&self, ready: &Ready) {
        for change in &ready.changes {
            let member = self.groups.borrow_mut().members.remove(&change.lpn);
            let Some((slot, place)) = member.and_then(|member| member.landed) else {
                // (The group is not acknowledged.)
                return self.fail("an atomic group was to be mapped without one of its pages");
            };
            let (version, old) = self.map.borrow_mut().set(change.lpn, Some(place));
            if let Some(old) = old.filter(|old| *old != place) {
                self.supersede(old, version);
            }
            if place != change.place || self.design.flags_groups() {
                self.log.borrow_mut().changed(change.lpn);
            }
            self.buffer.borrow_mut().finish(slot);
        }
        self.groups.borrow_mut().open.remove(&ready.number);
        let pages = ready.changes.len() as u64;
        self.room.release(pages);
        self.group_room.release(pages);
        self.group_done.notify_all();
        self.epochs.notify_all();
        self.announce_work();
    }
}
