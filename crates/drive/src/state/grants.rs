//! On a thinly provisioned drive two things need room beside mapped and buffered pages
//! (`tasks/thin`): writes that have been granted room, and discards that are not durable.

use crate::format::words::{Lpn, Version};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Writes that were granted room and are not all in the buffer yet, in the order of the grants.
#[derive(Default)]
pub(crate) struct Grants {
    next: u64,
    writes: BTreeMap<u64, Vec<Range<u32>>>,
}

impl Grants {
    /// The pages of all grants.
    pub fn pages(&self) -> impl Iterator<Item = &Range<u32>> {
        self.writes.values().flatten()
    }
}

/// Room granted to one write. It is kept until this drops.
pub(crate) struct Grant<'a> {
    all: &'a RefCell<Grants>,
    number: u64,
}

impl<'a> Grant<'a> {
    /// One more, for these pages.
    pub fn new(all: &'a RefCell<Grants>, pages: &[Range<u32>]) -> Grant<'a> {
        let mut grants = all.borrow_mut();
        let number = grants.next;
        grants.next += 1;
        grants.writes.insert(number, pages.to_vec());
        Grant { all, number }
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.all.borrow_mut().writes.remove(&self.number);
    }
}

/// Discarded pages that a power loss may bring back, each with the version of the map that has its
/// discard, in the order of versions.
#[derive(Default)]
pub(crate) struct Discarded(VecDeque<(Version, Lpn)>);

impl Discarded {
    /// A page was discarded by this change of the map.
    pub fn push(&mut self, version: Version, lpn: Lpn) {
        self.0.push_back((version, lpn));
    }

    /// Forgets those whose discards survive a power loss.
    pub fn forget_until(&mut self, durable: Version) {
        while self.0.front().is_some_and(|(version, _)| *version <= durable) {
            self.0.pop_front();
        }
    }

    /// The version that makes all of these durable.
    pub fn newest(&self) -> Version {
        self.0.back().map(|(version, _)| *version).unwrap_or_default()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The pages.
    pub fn pages(&self) -> impl Iterator<Item = Lpn> {
        self.0.iter().map(|(_, lpn)| *lpn)
    }
}
