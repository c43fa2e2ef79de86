//! The area of one stream: a ring of sections, each filled from its beginning to its end.
//!
//! 1. Section `s` lies at index `s % sections`. Numbers begin at 1 and only grow.
//! 2. A section is begun only if what lay there ended at or before the checkpoint.
//! 3. The LSNs of a stream do not decrease within an epoch: [`Area::allows`].
//! 4. What is written at once lies in one section. If it does not fit, the rest of the section
//!    stays empty.
//! 5. A section that may be begun stays so until it is begun: the checkpoint never goes back. So the
//!    free ones behind the current one are counted once ([`Ahead`]).

use crate::Lsn;
use crate::format::{SAMPLES, Sample, SectionHead};
use crate::planted::planted;
use std::cell::Cell;

/// A section, as far as memory knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its number; 0: never written.
    pub number: u32,
    /// The LSN of its first block.
    pub first: Lsn,
    /// No byte in it that counts has this LSN or a higher one.
    pub end: Lsn,
    /// Places in it.
    pub samples: Vec<Sample>,
}

/// Where to write something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first unit on the device, that of the section's header if there is one.
    pub unit: u64,
    /// The section.
    pub section: u32,
    /// The section begins here, with this header.
    pub begins: Option<SectionHead>,
}

/// An area and how far it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    base: u64,
    section_units: u32,
    /// By index.
    sections: Vec<Section>,
    /// The number of the section that is being filled; 0: none.
    current: u32,
    /// The next unit in it.
    next: u32,
    /// Where the last thing written in this epoch ended.
    last: Lsn,
    ahead: Ahead,
}

/// How many sections behind the current one are known to be free at this checkpoint (5). It is no part
/// of what an area is: two are equal if only this differs.
#[derive(Clone, Debug, Default)]
struct Ahead(Cell<(Lsn, u32)>);

impl PartialEq for Ahead {
    fn eq(&self, _: &Ahead) -> bool {
        true
    }
}

impl Eq for Ahead {}

impl Area {
    /// An empty area whose first unit is `base`.
    pub fn new(base: u64, sections: u32, section_units: u32) -> Area {
        let sections = vec![Section::default(); sections as usize];
        let ahead = Ahead::default();
        Area {
            base,
            section_units,
            sections,
            current: 0,
            next: section_units,
            last: Lsn::ZERO,
            ahead,
        }
    }

    /// An area as recovery found it: its sections by index, the one to go on with, and the first
    /// unit in it that may be written.
    pub fn restored(mut self, sections: Vec<Section>, current: u32, next: u32) -> Area {
        assert_eq!(sections.len(), self.sections.len(), "each section is restored");
        self.sections = sections;
        self.ahead = Ahead::default();
        self.current = current;
        self.next = if current == 0 { self.section_units } else { next };
        self
    }

    /// A new epoch begins: its requests begin at `start` or later.
    pub fn begin_epoch(&mut self, start: Lsn) {
        self.last = start;
    }

    /// It is durable that a new epoch began at `start`: no byte of an earlier one that has this LSN
    /// or a higher one counts any more, and none of them keeps a section in use.
    pub fn forget_from(&mut self, start: Lsn) {
        for section in &mut self.sections {
            section.end = section.end.min(start);
        }
    }

    /// Whether a request from `from` on keeps the order of the stream.
    pub fn allows(&self, from: Lsn) -> bool {
        self.last <= from
    }

    /// Units of log blocks that fit into a section.
    pub fn section_room(&self) -> u32 {
        self.section_units - 1
    }

    fn index(&self, number: u32) -> usize {
        number as usize % self.sections.len()
    }

    /// Whether the section with this number may be begun.
    fn is_free(&self, number: u32, checkpoint: Lsn) -> bool {
        let old = &self.sections[self.index(number)];
        old.number == 0 || old.end <= checkpoint || planted!(SectionReusedEarly)
    }

    /// How many requests of at most `units` units surely find room.
    pub fn room(&self, units: u32, checkpoint: Lsn) -> u64 {
        let rest = u64::from((self.section_units - self.next) / units);
        let each = u64::from(self.section_room() / units);
        let all = self.sections.len() as u32;
        // Behind the section that is being filled there are so many others.
        let others = if self.current == 0 { all } else { all - 1 };
        rest + u64::from(self.free_ahead(others, checkpoint)) * each
    }

    /// How many of so many sections behind the current one may be begun, one after the other.
    fn free_ahead(&self, others: u32, checkpoint: Lsn) -> u32 {
        if planted!(SectionReusedEarly) {
            return others;
        }
        let (at, known) = self.ahead.0.get();
        let mut free = if at <= checkpoint { known } else { 0 };
        while free < others && self.is_free(self.current + free + 1, checkpoint) {
            free += 1;
        }
        self.ahead.0.set((checkpoint, free));
        free
    }

    /// Takes room for `units` blocks, the first of which has the LSN `block`, and which end at
    /// `end`. `None`: there is none before the checkpoint moves.
    pub fn take(&mut self, units: u32, block: Lsn, end: Lsn, checkpoint: Lsn) -> Option<Place> {
        assert!(units <= self.section_room(), "a request is larger than a section");
        if self.next + units <= self.section_units {
            let at = self.next;
            let unit = self.unit_of(self.current, at);
            self.fill(at, units, block, end);
            return Some(Place { unit, section: self.current, begins: None });
        }
        let number = self.current + 1;
        if !self.is_free(number, checkpoint) {
            return None;
        }
        let before = &self.sections[self.index(self.current)];
        let begins = match self.current {
            0 => SectionHead { before_end: Lsn::ZERO, samples: Vec::new() },
            _ => SectionHead { before_end: before.end, samples: before.samples.clone() },
        };
        self.current = number;
        let (at, known) = self.ahead.0.get();
        self.ahead.0.set((at, known.saturating_sub(1)));
        let index = self.index(number);
        self.sections[index] = Section { number, first: block, end: Lsn::ZERO, samples: vec![] };
        self.fill(1, units, block, end);
        Some(Place { unit: self.unit_of(number, 0), section: number, begins: Some(begins) })
    }

    /// Whether [`Area::take`] would find room.
    pub fn take_fits(&self, units: u32, checkpoint: Lsn) -> bool {
        self.next + units <= self.section_units || self.is_free(self.current + 1, checkpoint)
    }

    fn fill(&mut self, at: u32, units: u32, block: Lsn, end: Lsn) {
        let index = self.index(self.current);
        let section = &mut self.sections[index];
        let step = (self.section_units as usize).div_ceil(SAMPLES);
        if at as usize >= section.samples.len() * step && section.samples.len() < SAMPLES {
            section.samples.push((at, block));
        }
        section.end = section.end.max(end);
        self.next = at + units;
        self.last = self.last.max(end);
    }

    fn unit_of(&self, number: u32, unit: u32) -> u64 {
        self.base + self.index(number) as u64 * u64::from(self.section_units) + u64::from(unit)
    }

    /// The sections that are written, in their order: where each begins on the device, and how
    /// many units of it are written at most.
    pub fn written(&self) -> Vec<(Section, u64, u32)> {
        let mut all: Vec<_> = self.sections.iter().filter(|s| s.number > 0).cloned().collect();
        all.sort_by_key(|s| s.number);
        let units =
            |s: &Section| if s.number == self.current { self.next } else { self.section_units };
        all.into_iter()
            .map(|s| (self.unit_of(s.number, 0), units(&s), s))
            .map(|(a, n, s)| (s, a, n))
            .collect()
    }

    /// Whether anything was ever written to it.
    pub fn is_begun(&self) -> bool {
        self.current > 0
    }

    /// Sections that may not be begun before the checkpoint moves, and all sections.
    pub fn used(&self, checkpoint: Lsn) -> (u64, u64) {
        let used = self.sections.iter().filter(|s| s.number > 0 && s.end > checkpoint).count();
        (used as u64, self.sections.len() as u64)
    }
}

/// The room of devices, each of which has so much, if each byte must reach `needed` of them.
pub(crate) fn together(mut each: Vec<u64>, needed: u32) -> u64 {
    if needed == 1 {
        return each.iter().sum();
    }
    // Two devices with that much room: a group takes room for one on each device at most.
    each.sort_unstable();
    each.len().checked_sub(2).map_or(0, |second| each[second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a model that knows the owner of each unit: nothing above the checkpoint is ever
        /// written over, and room that was promised is there.
        #[test]
        fn nothing_that_counts_is_written_over(
            steps in proptest::collection::vec((1..6u32, 0..4u64), 1..200),
        ) {
            let mut area = Area::new(100, 5, 16);
            let mut owner: BTreeMap<u64, Lsn> = BTreeMap::new();
            let (mut end, mut checkpoint) = (Lsn(0), Lsn(0));
            for (units, back) in steps {
                let block = end;
                let to = end.plus(u64::from(units) * 10);
                let room = area.room(5, checkpoint);
                let mut anew = area.clone();
                anew.ahead = Ahead::default();
                prop_assert_eq!(room, anew.room(5, checkpoint), "counted anew");
                match area.take(units, block, to, checkpoint) {
                    Some(place) => {
                        let head = u64::from(place.begins.is_some());
                        for unit in place.unit..place.unit + head + u64::from(units) {
                            let old = owner.insert(unit, to);
                            prop_assert!(old.is_none_or(|old| old <= checkpoint));
                        }
                        let from = place.unit - 100;
                        let last = from + head + u64::from(units) - 1;
                        prop_assert_eq!(from / 16, last / 16, "within one section");
                        prop_assert_eq!(from / 16, u64::from(place.section) % 5);
                        end = to;
                        prop_assert!(area.room(5, checkpoint) + 1 >= room);
                    }
                    None => {
                        prop_assert_eq!(room, 0);
                        checkpoint = Lsn(end.0.saturating_sub(back * 100)).max(checkpoint);
                    }
                }
            }
        }
    }
}
