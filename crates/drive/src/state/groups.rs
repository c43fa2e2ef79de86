//! The atomic groups under way on a drive without protected memory.

use crate::format::words::{Lpn, Ppa};
use crate::state::buffer::Slot;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// The groups under way on a drive without protected memory.
#[derive(Default)]
pub(crate) struct Groups {
    pub next: u64,
    pub open: BTreeMap<u64, Group>,
    pub members: FxHashMap<Lpn, Member>,
    /// Groups that are on flash, and in no record yet.
    pub ready: Vec<u64>,
}

pub(crate) struct Group {
    /// The number of the first page that was programmed after it began, at least.
    pub began: u64,
    pub pages: Vec<Lpn>,
    /// Pages that are not on flash yet.
    pub left: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Member {
    pub group: u64,
    /// The slot of its copy, and where it is on flash.
    pub landed: Option<(Slot, Ppa)>,
}

/// A page of a group and where it is.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub lpn: Lpn,
    pub place: Ppa,
}

/// A group that is on flash, as its record tells of it.
pub(crate) struct Ready {
    pub number: u64,
    pub changes: Vec<Change>,
}

impl Groups {
    /// Whether any is under way.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether there are records to write.
    pub fn are_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The groups that wait for their records; they are being written from now on.
    pub fn take_ready(&mut self) -> Vec<Ready> {
        let numbers = std::mem::take(&mut self.ready);
        numbers.into_iter().map(|number| self.tell(number)).collect()
    }

    /// Pages of the only group under way that are not on flash.
    pub fn left(&self) -> usize {
        self.open.values().map(|group| group.left).sum()
    }

    /// When it began.
    pub fn began(&self) -> u64 {
        self.open.values().next().map_or(0, |group| group.began)
    }

    /// The only group under way, which is on flash.
    pub fn only(&self) -> Option<Ready> {
        self.open.keys().next().map(|number| self.tell(*number))
    }

    fn tell(&self, number: u64) -> Ready {
        let pages = self.open.get(&number).map_or(&[][..], |group| &group.pages);
        let place = |lpn: &Lpn| Some(self.members.get(lpn)?.landed?.1);
        let change = |lpn: &Lpn| Some(Change { lpn: *lpn, place: place(lpn)? });
        Ready { number, changes: pages.iter().filter_map(change).collect() }
    }

    /// Pages on flash of groups that are not mapped yet.
    pub fn landed(&self) -> impl Iterator<Item = (Lpn, Ppa)> {
        self.members.iter().filter_map(|(lpn, member)| Some((*lpn, member.landed?.1)))
    }

    pub fn place(&self, lpn: Lpn) -> Option<Ppa> {
        Some(self.members.get(&lpn)?.landed?.1)
    }

    pub fn touches(&self, pages: &Range<u32>) -> bool {
        match self.members.len() < pages.len() {
            true => self.members.keys().any(|lpn| pages.contains(&lpn.0)),
            false => pages.clone().any(|lpn| self.members.contains_key(&Lpn(lpn))),
        }
    }
}
