//! Atomic groups (`tasks/group`) on drives without protected memory: what changes in one step when
//! their pages land, move and are mapped.

use crate::firmware::Firmware;
use crate::format::words::{Lpn, Ppa};
use crate::planted::planted;
use crate::state::buffer::Slot;
use crate::state::groups::{Group, Member, Ready};
use std::ops::Range;
use tantalum_nand::SECTOR_BYTES;

impl Firmware {
    /// How many of the pages that wait may be programmed now.
    pub fn takeable(&self) -> u32 {
        let are_open = self.groups.under_way.borrow().are_open();
        if are_open { self.groups.scheme.takeable(self) } else { u32::MAX }
    }

    /// What was just admitted is a group.
    pub fn begin_group(&self, pages: &[Range<u32>]) -> u64 {
        let (mut groups, mut buffer) =
            (self.groups.under_way.borrow_mut(), self.state.buffer.borrow_mut());
        let number = groups.next;
        groups.next += 1;
        let pages: Vec<Lpn> = pages.iter().cloned().flatten().map(Lpn).collect();
        for lpn in &pages {
            buffer.join_group(*lpn);
            groups.members.insert(*lpn, Member { group: number, landed: None });
        }
        let began = self.state.sequence.get();
        groups.open.insert(number, Group { began, left: pages.len(), pages });
        number
    }

    /// Whether all of a group is on flash.
    pub fn has_flown(&self, number: u64) -> bool {
        self.groups.under_way.borrow().open.get(&number).is_none_or(|group| group.left == 0)
    }

    /// A page of a group is on flash.
    pub fn land_in_group(&self, slot: Slot, lpn: Lpn, place: Ppa) {
        let mut groups = self.groups.under_way.borrow_mut();
        let groups = &mut *groups;
        let Some(member) = groups.members.get_mut(&lpn) else {
            return self.fail("a page of an atomic group landed that is in no group");
        };
        member.landed = Some((slot, place));
        let number = member.group;
        let Some(group) = groups.open.get_mut(&number) else { return };
        group.left -= 1;
        if group.left == 0 && !self.groups.scheme.is_alone() {
            groups.ready.push(number);
            self.keeper.work.notify_all();
            self.groups.done.notify_all();
        }
        if planted!(GroupMappedEarly) {
            self.remap(lpn, Some(place));
        } else {
            self.state.space.borrow_mut().validate(place);
        }
    }

    /// Collection has moved a page: whether it is one of a group, which is there from now on.
    pub fn move_in_group(&self, lpn: Lpn, from: Ppa, to: Ppa) -> bool {
        match self.groups.under_way.borrow_mut().members.get_mut(&lpn).map(|m| &mut m.landed) {
            Some(Some((_, place))) if *place == from => {
                if !planted!(GroupMoveForgotten) {
                    *place = to;
                }
            }
            _ => return false,
        }
        let version = self.state.map.borrow_mut().bump();
        self.state.space.borrow_mut().validate(to);
        self.supersede(from, version);
        self.stats.group_moved_bytes.add(SECTOR_BYTES.into());
        true
    }

    /// Whether the map, or a group that is not mapped yet, has a page in this place.
    pub fn is_at(&self, lpn: Lpn, place: Ppa) -> bool {
        self.state.map.borrow().get(lpn) == Some(place)
            || self.groups.under_way.borrow().place(lpn) == Some(place)
    }

    /// Which page the map, or a group, has in this place.
    pub fn who_is_at(&self, place: Ppa) -> Option<Lpn> {
        let (map, groups) = (self.state.map.borrow(), self.groups.under_way.borrow());
        map.mapped().chain(groups.landed()).find(|at| at.1 == place).map(|at| at.0)
    }

    /// The record of a group is on flash: all of it is mapped.
    pub fn map_group(&self, ready: &Ready) {
        for change in &ready.changes {
            let member = self.groups.under_way.borrow_mut().members.remove(&change.lpn);
            let Some((slot, place)) = member.and_then(|member| member.landed) else {
                // (The group is not acknowledged.)
                return self.fail("an atomic group was to be mapped without one of its pages");
            };
            let (version, old) = self.state.map.borrow_mut().set(change.lpn, Some(place));
            if let Some(old) = old.filter(|old| *old != place) {
                self.supersede(old, version);
            }
            if place != change.place || self.groups.scheme.is_alone() {
                self.state.log.borrow_mut().changed(change.lpn);
            }
            self.state.buffer.borrow_mut().finish(slot);
        }
        self.groups.under_way.borrow_mut().open.remove(&ready.number);
        let pages = ready.changes.len() as u64;
        self.host.room.release(pages);
        self.groups.room.release(pages);
        self.groups.done.notify_all();
        self.flusher.epochs.notify_all();
        self.announce_work();
    }
}
