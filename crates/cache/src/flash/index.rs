//! What the ring holds: for each batch its frames and tombstones, and of each page its valid frame.
//!
//! 1. At most one frame of a page is valid: the one that entered last. Older ones stay in their
//!    batches until these are released, and mean nothing.
//! 2. A frame that is not dirty is on the slow store for good.

use crate::flash::format::{Frame, Part, SegmentBatch, Tombstone};
use crate::planted::planted;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;

/// A frame of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub batch: u64,
    pub frame: usize,
}

/// The batches from the front to the open one.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The number of the first batch here.
    first: u64,
    batches: VecDeque<SegmentBatch>,
    valid: FxHashMap<u64, Place>,
    /// Valid frames that are dirty.
    dirty: u64,
    /// Frames of all batches.
    used: u64,
}

impl Index {
    /// Without batches; the first one will be `first`.
    pub fn new(first: u64) -> Index {
        Index { first, ..Index::default() }
    }

    /// The last page that is dirty.
    pub fn last_dirty(&self) -> Option<u64> {
        let dirty = self.valid.iter().filter(|(_, at)| self.entry(**at).0.dirty);
        dirty.map(|(page, _)| *page).max()
    }

    /// Begins the next batch.
    pub fn begin_batch(&mut self) {
        self.batches.push_back(SegmentBatch::default());
    }

    /// The next frames of the batch that was begun last are in another part of it.
    pub fn begin_part(&mut self) {
        let batch = self.batches.back_mut().expect("a batch was begun");
        batch.parts.push(batch.frames.len());
    }

    /// The part that has this frame.
    pub fn part_of(&self, at: Place) -> Part {
        Part { batch: at.batch, number: self.batch(at.batch).part_of(at.frame) }
    }

    /// The number of the batch that was begun last.
    fn last(&self) -> u64 {
        self.first + self.batches.len() as u64 - 1
    }

    /// What a batch holds.
    pub fn batch(&self, batch: u64) -> &SegmentBatch {
        &self.batches[(batch - self.first) as usize]
    }

    fn entry(&self, at: Place) -> &(Frame, bool) {
        &self.batch(at.batch).frames[at.frame]
    }

    fn entry_mut(&mut self, at: Place) -> &mut (Frame, bool) {
        &mut self.batches[(at.batch - self.first) as usize].frames[at.frame]
    }

    /// Adds a frame to the batch that was begun last. The page's older version is superseded.
    pub fn push(&mut self, frame: Frame, referenced: bool) -> Place {
        self.remove(frame.page);
        self.dirty += u64::from(frame.dirty);
        let place = self.push_void(frame, referenced);
        self.valid.insert(frame.page, place);
        place
    }

    /// Adds a frame that is superseded already.
    pub fn push_void(&mut self, frame: Frame, referenced: bool) -> Place {
        let batch = self.last();
        let frames = &mut self.batches.back_mut().expect("a batch was begun").frames;
        frames.push((frame, referenced));
        self.used += 1;
        Place { batch, frame: frames.len() - 1 }
    }

    /// Adds a tombstone to the batch that was begun last. No version of its pages is valid now.
    pub fn bury(&mut self, first: u64, count: u64) {
        let batch = self.batches.back_mut().expect("a batch was begun");
        let tombstone = Tombstone { first, count, before: batch.frames.len() as u32 };
        batch.tombstones.push(tombstone);
        if count <= self.valid.len() as u64 {
            (first..first.saturating_add(count)).for_each(|page| self.remove(page));
        } else {
            let dirty = &mut self.dirty;
            let (batches, base) = (&self.batches, self.first);
            self.valid.retain(|page, at| {
                let ends = tombstone.covers(*page);
                let frame = &batches[(at.batch - base) as usize].frames[at.frame].0;
                *dirty -= u64::from(ends && frame.dirty);
                !ends
            });
        }
    }

    /// The page has no valid frame any more.
    pub fn remove(&mut self, page: u64) {
        if let Some(place) = self.valid.remove(&page) {
            self.dirty -= u64::from(self.entry(place).0.dirty);
        }
    }

    /// The valid frame of a page.
    pub fn find(&self, page: u64) -> Option<(Place, Frame)> {
        let place = *self.valid.get(&page)?;
        Some((place, self.entry(place).0))
    }

    /// Of each page the newest frame from a batch on and before a part, if it is dirty, no tombstone
    /// came behind it, and the slow store has no newer version. In the order of the ring.
    pub fn newest_dirty(&self, first: u64, end: Part) -> Vec<(Place, Frame)> {
        let mut newest: FxHashMap<u64, (Place, Frame)> = FxHashMap::default();
        for batch in first.max(self.first)..end.last_batch() + 1 {
            let content = self.batch(batch);
            let is_last = batch == end.batch;
            let count =
                if is_last { content.frames_before(end.number) } else { content.frames.len() };
            let frames = content.frames[..count].iter().enumerate();
            newest.extend(frames.map(|(frame, (f, _))| (f.page, (Place { batch, frame }, *f))));
        }
        let is_wanted = |(at, frame): &(Place, Frame)| {
            let now = self.find(frame.page);
            let counts = now.is_some_and(|(now, _)| now == *at)
                || (!planted!(SupersededNotCleaned) && !self.is_buried_since(*at, frame.page));
            frame.dirty && now.is_some_and(|(_, f)| f.dirty) && counts
        };
        let mut dirty: Vec<(Place, Frame)> = newest.into_values().filter(is_wanted).collect();
        dirty.sort_unstable_by_key(|(at, _)| (at.batch, at.frame));
        dirty
    }

    /// Whether a tombstone of this page came behind this frame.
    pub fn is_buried_since(&self, at: Place, page: u64) -> bool {
        let behind = |batch: u64, t: &Tombstone| {
            t.covers(page) && (batch > at.batch || t.before as usize > at.frame)
        };
        let batches = at.batch.max(self.first)..=self.last();
        batches.into_iter().any(|b| self.batch(b).tombstones.iter().any(|t| behind(b, t)))
    }

    /// The pages among these that have a valid frame, ascending.
    pub fn pages_in(&self, pages: &Range<u64>) -> Vec<u64> {
        let count = pages.end.saturating_sub(pages.start);
        let mut found: Vec<u64> = match count <= self.valid.len() as u64 {
            true => pages.clone().filter(|page| self.valid.contains_key(page)).collect(),
            false => self.valid.keys().copied().filter(|page| pages.contains(page)).collect(),
        };
        found.sort_unstable();
        found
    }

    /// Whether this frame is its page's valid one.
    pub fn is_valid(&self, at: Place) -> bool {
        self.valid.get(&self.entry(at).0.page) == Some(&at)
    }

    /// Marks a frame as referenced.
    pub fn refer(&mut self, at: Place) {
        self.entry_mut(at).1 = true;
    }

    /// Clears all reference marks.
    pub fn clear_marks(&mut self) {
        self.batches.iter_mut().flat_map(|b| &mut b.frames).for_each(|frame| frame.1 = false);
    }

    /// The slow store has the version of this frame for good.
    pub fn set_clean(&mut self, at: Place) {
        let valid = self.is_valid(at);
        let frame = &mut self.entry_mut(at).0;
        if std::mem::replace(&mut frame.dirty, false) && valid {
            self.dirty -= 1;
        }
    }

    /// Ends the first batch, which is released: its valid frames are valid no more.
    pub fn release(&mut self) {
        let at = |frame| Place { batch: self.first, frame };
        let frames = self.batches.front().map_or(0, |b| b.frames.len());
        let valid: Vec<u64> = (0..frames)
            .filter(|f| self.is_valid(at(*f)))
            .map(|f| self.entry(at(f)).0.page)
            .collect();
        valid.into_iter().for_each(|page| self.remove(page));
        let released = self.batches.pop_front();
        self.used -= released.map_or(0, |b| b.frames.len() as u64);
        self.first += 1;
    }

    /// Frames of all batches, with superseded ones.
    pub fn frames(&self) -> u64 {
        self.used
    }

    /// Pages with a valid frame, and how many of these are dirty.
    pub fn counts(&self) -> (u64, u64) {
        (self.valid.len() as u64, self.dirty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a model: for each page the newest frame, until its batch goes or a tombstone
        /// comes.
        #[test]
        fn it_is_a_map_of_the_newest(steps in proptest::collection::vec((0..10u8, 0..12u64), 1..200)) {
            let mut index = Index::new(1);
            let mut model: BTreeMap<u64, (Place, bool)> = BTreeMap::new();
            index.begin_batch();
            for (i, (step, page)) in steps.into_iter().enumerate() {
                match step {
                    0 => index.begin_batch(),
                    1 if index.batches.len() > 1 => {
                        let first = index.first;
                        index.release();
                        model.retain(|_, (place, _)| place.batch != first);
                    }
                    2 => {
                        index.bury(page, 3);
                        model.retain(|p, _| *p < page || *p >= page + 3);
                    }
                    3 => {
                        index.bury(page, 100);
                        model.retain(|p, _| *p < page);
                    }
                    4 => {
                        if let Some((place, dirty)) = model.get_mut(&page) {
                            index.set_clean(*place);
                            *dirty = false;
                        }
                    }
                    _ => {
                        let dirty = step % 2 == 0;
                        let frame =
                            Frame { page, lsn: i as u64, checksum: 0, dirty, damaged: false };
                        model.insert(page, (index.push(frame, false), dirty));
                    }
                }
                for page in 0..16 {
                    let found = index.find(page).map(|(at, frame)| (at, frame.dirty));
                    prop_assert_eq!(found, model.get(&page).copied());
                }
                let dirty = model.values().filter(|(_, dirty)| *dirty).count() as u64;
                prop_assert_eq!(index.counts(), (model.len() as u64, dirty));
            }
        }
    }
}
