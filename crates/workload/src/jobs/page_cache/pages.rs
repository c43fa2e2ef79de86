//! The memory of a page cache: which blocks it holds, which of them are dirty, and which are being
//! written back. It does no I/O and knows no time but what it is told.
//!
//! 1. It holds at most `capacity` blocks. To make room it drops the clean block that was used
//!    longest ago; it never drops a dirty block or one that is being written.
//! 2. A block has at most one command of write-back under way. One that is written to meanwhile is
//!    dirty again, and goes once more after that command has ended.
//! 3. Each block that becomes dirty gets the next number. It keeps it until it is clean, however
//!    often it is written to. So all that was dirty at a moment has numbers up to the newest one.
//! 4. What a read of the device returns is kept only if the block was not written since the read was
//!    sent, and no command past the cache touched it.
//! 5. While a command past the cache is under way at a block, no clean copy of it is here.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tantalum_device::{Data, DataMut, OwnedData, Payload};
use tantalum_rt::Nanos;

/// All blocks.
pub const EVERYWHERE: Range<u64> = 0..u64::MAX;

/// A command of write-back: blocks next to each other.
#[derive(Debug)]
pub struct Run {
    /// The first block.
    pub at: u64,
    /// What to write.
    pub data: OwnedData,
    /// The number of each block.
    numbers: Vec<u64>,
}

impl Run {
    /// The block behind the last one.
    pub fn end(&self) -> u64 {
        self.at + self.numbers.len() as u64
    }
}

struct Held {
    data: OwnedData,
    /// Its place in the order of use, while it is clean.
    used: u64,
}

/// See the head of this file.
pub struct Pages {
    payload: Payload,
    block_size: u32,
    capacity: u64,
    held: FxHashMap<u64, Held>,
    /// Clean blocks by their last use.
    clean: BTreeMap<u64, u64>,
    /// Numbers of dirty blocks by place, and the other way round with the time.
    dirty: BTreeMap<u64, u64>,
    dirtied: BTreeMap<u64, Nanos>,
    /// Numbers of blocks that are being written by place, and all of these numbers.
    writing: BTreeMap<u64, u64>,
    sent: BTreeSet<u64>,
    /// Blocks that are dirty and being written.
    both: u64,
    /// Blocks that are being read, each with the read that may keep it.
    filling: FxHashMap<u64, u64>,
    /// Blocks at which commands past the cache are under way, and how many.
    passed: FxHashMap<u64, u32>,
    /// The last number of a dirty block, of a use, or of a read.
    last: u64,
}

impl Pages {
    /// An empty memory for `capacity` blocks, at least one.
    pub fn new(payload: Payload, block_size: u32, capacity: u64) -> Pages {
        Pages {
            payload,
            block_size,
            capacity: capacity.max(1),
            held: FxHashMap::default(),
            clean: BTreeMap::new(),
            dirty: BTreeMap::new(),
            dirtied: BTreeMap::new(),
            writing: BTreeMap::new(),
            sent: BTreeSet::new(),
            both: 0,
            filling: FxHashMap::default(),
            passed: FxHashMap::default(),
            last: 0,
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The newest number.
    pub fn newest(&self) -> u64 {
        self.last
    }

    /// Dirty blocks. Some of them may also be under way with older content.
    pub fn dirty(&self) -> u64 {
        self.dirty.len() as u64
    }

    /// Blocks that are dirty or being written.
    pub fn unclean(&self) -> u64 {
        (self.dirty.len() + self.writing.len()) as u64 - self.both
    }

    fn is_unclean(&self, at: u64) -> bool {
        self.dirty.contains_key(&at) || self.writing.contains_key(&at)
    }

    /// Whether a write to this block leaves at most `limit` blocks unclean.
    pub fn admits(&self, at: u64, limit: u64) -> bool {
        self.unclean() < limit.min(self.capacity) || self.is_unclean(at)
    }

    /// Copies the blocks of `range` into `to`. Whether all of them were here; if not, nothing is
    /// copied.
    pub fn read(&mut self, range: Range<u64>, to: &mut DataMut<'_>) -> bool {
        let here = range.clone().all(|at| self.held.contains_key(&at));
        if here {
            range.enumerate().for_each(|(i, at)| self.copy(at, i, to));
        }
        here
    }

    fn copy(&mut self, at: u64, i: usize, to: &mut DataMut<'_>) {
        let number = self.next_number();
        let Some(held) = self.held.get_mut(&at) else { return };
        to.slice(i..i + 1, self.block_size).copy_from(held.data.as_data());
        if self.clean.remove(&held.used).is_some() {
            held.used = number;
            self.clean.insert(number, at);
        }
    }

    /// The number of a dirty block, or of one that is being written.
    fn number(&self, at: u64) -> Option<u64> {
        self.dirty.get(&at).or_else(|| self.writing.get(&at)).copied()
    }

    /// The unclean blocks of `range`, with their numbers.
    pub fn unclean_in(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        range.filter_map(|at| Some((at, self.number(at)?))).collect()
    }

    /// Copies these blocks into `to`, which begins at `first`. Whether each of them has been
    /// unclean all the time; if not, nothing is copied.
    pub fn overlay(&mut self, unclean: &[(u64, u64)], first: u64, to: &mut DataMut<'_>) -> bool {
        let same = unclean.iter().all(|(at, number)| self.number(*at) == Some(*number));
        if same {
            unclean.iter().for_each(|(at, _)| self.copy(*at, (at - first) as usize, to));
        }
        same
    }

    /// Writes a block that [`Pages::admits`] with some limit.
    pub fn write(&mut self, at: u64, data: Data<'_>, now: Nanos) {
        self.filling.remove(&at);
        match self.held.get_mut(&at) {
            Some(held) => {
                held.data.as_mut().copy_from(data);
                self.clean.remove(&held.used);
            }
            None => {
                self.make_room();
                self.held.insert(at, Held { data: data.into(), used: 0 });
            }
        }
        if !self.dirty.contains_key(&at) {
            let number = self.next_number();
            self.dirty.insert(at, number);
            self.dirtied.insert(number, now);
            self.both += u64::from(self.writing.contains_key(&at));
        }
    }

    /// Drops clean blocks until there is room for one more. Whether there is.
    fn make_room(&mut self) -> bool {
        while self.held.len() as u64 >= self.capacity {
            let Some((_, at)) = self.clean.pop_first() else { return false };
            self.held.remove(&at);
        }
        true
    }

    /// Announces a read of the device; its number.
    pub fn begin_fill(&mut self, range: Range<u64>) -> u64 {
        let number = self.next_number();
        for at in range {
            if !self.held.contains_key(&at) && !self.passed.contains_key(&at) {
                self.filling.insert(at, number);
            }
        }
        number
    }

    /// Ends a read of the device. What it returned is kept, if it is known.
    pub fn end_fill(&mut self, range: Range<u64>, number: u64, found: Option<Data<'_>>) {
        for (i, at) in range.enumerate() {
            if self.filling.get(&at) != Some(&number) {
                continue;
            }
            self.filling.remove(&at);
            let Some(found) = found else { continue };
            if self.make_room() {
                let used = self.next_number();
                let data = found.slice(i..i + 1, self.block_size).into();
                self.held.insert(at, Held { data, used });
                self.clean.insert(used, at);
            }
        }
    }

    /// Takes the first command of write-back within `range` that has a dirty block with a number up
    /// to `goal`. It goes on with what is dirty directly behind, up to `longest` blocks.
    pub fn take(&mut self, range: Range<u64>, goal: u64, longest: u64) -> Option<Run> {
        let idle = |(at, number): &(&u64, &u64)| **number <= goal && !self.writing.contains_key(at);
        let first = *self.dirty.range(range.clone()).find(idle)?.0;
        let mut end = first + 1;
        let last = range.end.min(first.saturating_add(longest.max(1)));
        while end < last && self.dirty.contains_key(&end) && !self.writing.contains_key(&end) {
            end += 1;
        }
        let count = (end - first) as usize;
        let mut data = OwnedData::zeros(self.payload, count, self.block_size);
        let mut numbers = Vec::with_capacity(count);
        for (i, at) in (first..end).enumerate() {
            let held = self.held[&at].data.as_data();
            data.as_mut().slice(i..i + 1, self.block_size).copy_from(held);
            let number = self.dirty.remove(&at)?;
            self.dirtied.remove(&number);
            self.writing.insert(at, number);
            self.sent.insert(number);
            numbers.push(number);
        }
        Some(Run { at: first, data, numbers })
    }

    /// A command of write-back has succeeded.
    pub fn written(&mut self, run: &Run) {
        for (at, number) in (run.at..).zip(&run.numbers) {
            self.writing.remove(&at);
            self.sent.remove(number);
            if self.dirty.contains_key(&at) {
                self.both -= 1;
            } else if self.passed.contains_key(&at) {
                self.held.remove(&at);
            } else {
                let used = self.next_number();
                self.clean.insert(used, at);
                if let Some(held) = self.held.get_mut(&at) {
                    held.used = used;
                }
            }
        }
    }

    /// Whether a block of `range` with a number up to `goal` is not written back yet.
    pub fn is_pending(&self, range: Range<u64>, goal: u64) -> bool {
        let oldest = [self.dirtied.first_key_value().map(|first| first.0), self.sent.first()];
        if oldest.into_iter().flatten().all(|number| *number > goal) {
            return false;
        }
        let up_to = |(_, number): (&u64, &u64)| *number <= goal;
        range == EVERYWHERE
            || self.dirty.range(range.clone()).any(up_to)
            || self.writing.range(range).any(up_to)
    }

    /// The newest number of those that became dirty at `then` or before and are not being written;
    /// 0 if there is none.
    pub fn dirty_since(&self, then: Nanos) -> u64 {
        let old = self.dirtied.iter().take_while(|(_, at)| **at <= then);
        old.last().map_or(0, |(number, _)| *number)
    }

    /// A command past the cache begins at the blocks of `range`.
    pub fn begin_pass(&mut self, range: Range<u64>) {
        for at in range {
            *self.passed.entry(at).or_default() += 1;
            self.filling.remove(&at);
            if !self.is_unclean(at)
                && let Some(held) = self.held.remove(&at)
            {
                self.clean.remove(&held.used);
            }
        }
    }

    /// It has ended.
    pub fn end_pass(&mut self, range: Range<u64>) {
        for at in range {
            if let Some(count) = self.passed.get_mut(&at) {
                *count -= 1;
                if *count == 0 {
                    self.passed.remove(&at);
                }
            }
        }
    }
}
