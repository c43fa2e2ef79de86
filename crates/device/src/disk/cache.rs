//! The write cache of a disk: which blocks it holds, and in which order they came.
//!
//! 1. Each cached block is in exactly one *extent*: neighbouring blocks that one write brought.
//!    Block `i` of an extent became dirty at the tick of the extent plus `i`; no two blocks have
//!    the same tick.
//! 2. A block that is written again while it waits keeps its place in the order, and has a newer
//!    version. After the arm has written it, what was newer counts from then on as dirty since its
//!    own version.
//! 3. The oldest extent goes next once it has been the oldest for the expiry. So an extent waits at
//!    most for the expiry of each extent that is older.

use crate::{Data, OwnedData};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use tantalum_rt::Nanos;

/// The blocks that wait for the arm.
#[derive(Default)]
pub(super) struct Cache {
    blocks: FxHashMap<u64, Cached>,
    /// First block and number of blocks, by the tick of the first block: the oldest first.
    extents: BTreeMap<u64, (u64, u64)>,
    /// The tick of the oldest extent, and since when it has been the oldest.
    oldest: Option<(u64, Nanos)>,
}

struct Cached {
    data: OwnedData,
    since: u64,
    version: u64,
}

impl Cache {
    /// Blocks in the cache.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn contains(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    pub fn get(&self, block: u64) -> Option<&OwnedData> {
        self.blocks.get(&block).map(|c| &c.data)
    }

    pub fn version(&self, block: u64) -> Option<u64> {
        self.blocks.get(&block).map(|c| c.version)
    }

    /// Whether something waits that came up to this tick.
    pub fn is_dirty_since(&self, tick: u64) -> bool {
        self.extents.first_key_value().is_some_and(|(since, _)| *since <= tick)
    }

    /// Takes the blocks of a write, the first of them at tick `ticks + 1`; how many replaced an
    /// older copy.
    pub fn take(&mut self, at: u64, data: Data<'_>, size: u32, ticks: &mut u64) -> u64 {
        let count = data.blocks(size).unwrap_or(0);
        let mut replaced = 0;
        // The extent that the next new block continues.
        let mut open: Option<u64> = None;
        for i in 0..count {
            *ticks += 1;
            let now = *ticks;
            let one = data.slice(i as usize..i as usize + 1, size).into();
            if let Some(cached) = self.blocks.get_mut(&(at + i)) {
                cached.data = one;
                cached.version = now;
                replaced += 1;
                open = None;
                continue;
            }
            self.blocks.insert(at + i, Cached { data: one, since: now, version: now });
            let first = *open.get_or_insert(now);
            self.extents.entry(first).or_insert((at + i, 0)).1 += 1;
        }
        replaced
    }

    /// The first blocks of the oldest extents.
    pub fn oldest(&self, window: usize) -> impl Iterator<Item = u64> {
        self.extents.values().take(window).map(|(at, _)| *at)
    }

    /// The first block of the oldest extent, and when its patience ends.
    pub fn deadline(&mut self, now: Nanos, expiry: Nanos) -> Option<(u64, Nanos)> {
        let (tick, (at, _)) = self.extents.first_key_value()?;
        let since = match self.oldest {
            Some((same, since)) if same == *tick => since,
            _ => now,
        };
        self.oldest = Some((*tick, since));
        Some((*at, since.saturating_add(expiry)))
    }

    /// The versions of the cached blocks that follow each other from `at` on.
    pub fn run(&self, at: u64, most: u64) -> Vec<u64> {
        (at..at + most).map_while(|block| self.version(block)).collect()
    }

    /// Version `version` of a block is on the platter. Whether it left the cache: something newer
    /// stays.
    pub fn written(&mut self, block: u64, version: u64) -> bool {
        let Some(cached) = self.blocks.get(&block) else { return false };
        let (since, newest) = (cached.since, cached.version);
        if newest > version && since > version {
            return false;
        }
        self.take_out(block, since);
        if newest <= version {
            self.blocks.remove(&block);
            return true;
        }
        self.extents.insert(newest, (block, 1));
        self.blocks.get_mut(&block).expect("it is cached").since = newest;
        false
    }

    /// Takes a block out of its extent, which may fall into two.
    fn take_out(&mut self, block: u64, since: u64) {
        let (&tick, &(at, count)) =
            self.extents.range(..=since).next_back().expect("a cached block is in an extent");
        let before = block - at;
        debug_assert!(since == tick + before && before < count);
        match before {
            0 => drop(self.extents.remove(&tick)),
            _ => drop(self.extents.insert(tick, (at, before))),
        }
        if before + 1 < count {
            self.extents.insert(since + 1, (block + 1, count - before - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64, u64),
        /// The arm takes the run of the oldest extent with this number; so many blocks are written
        /// again meanwhile.
        Write(usize, u64, u64),
        /// A command with this number of a block is on the platter.
        Through(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..40u64, 1..9u64).prop_map(|(at, count)| Step::Take(at, count)),
            (0..6usize, 0..48u64, 0..3u64).prop_map(|(n, at, again)| Step::Write(n, at, again)),
            (0..48u64).prop_map(Step::Through),
        ];
        prop::collection::vec(step, 1..80)
    }

    /// The small model: for each block since when it is dirty, and its version.
    #[derive(Default)]
    struct Model(BTreeMap<u64, (u64, u64)>);

    impl Model {
        fn take(&mut self, at: u64, count: u64, mut tick: u64) {
            for block in at..at + count {
                tick += 1;
                self.0.entry(block).or_insert((tick, tick)).1 = tick;
            }
        }

        fn written(&mut self, block: u64, version: u64) {
            let Some((since, newest)) = self.0.get(&block).copied() else { return };
            match newest <= version {
                true => drop(self.0.remove(&block)),
                false if since <= version => drop(self.0.insert(block, (newest, newest))),
                false => (),
            }
        }
    }

    fn take(cache: &mut Cache, at: u64, count: u64, ticks: &mut u64) {
        let stamps: Vec<u64> = (0..count).map(|i| *ticks + i + 1).collect();
        cache.take(at, Data::Stamps(&stamps), 4096, ticks);
    }

    /// Invariants 1 and 2: all of the cache follows from the small model.
    fn same(cache: &Cache, model: &Model) {
        let mut found = BTreeMap::new();
        for (tick, (at, count)) in &cache.extents {
            assert!(*count > 0);
            for i in 0..*count {
                let cached = &cache.blocks[&(at + i)];
                assert_eq!(cached.since, tick + i);
                assert!(found.insert(at + i, (cached.since, cached.version)).is_none());
            }
        }
        assert_eq!(found, model.0);
        assert_eq!(cache.len(), model.0.len());
    }

    proptest! {
        #[test]
        fn every_block_is_in_one_extent_in_the_order_of_coming(all in steps()) {
            let (mut cache, mut model, mut ticks) = (Cache::default(), Model::default(), 0);
            for step in all {
                match step {
                    Step::Take(at, count) => {
                        model.take(at, count, ticks);
                        take(&mut cache, at, count, &mut ticks);
                    }
                    Step::Write(n, at, again) => {
                        let Some(first) = cache.oldest(n + 1).last() else { continue };
                        let versions = cache.run(first, 8);
                        prop_assert!(!versions.is_empty());
                        model.take(at, again, ticks);
                        take(&mut cache, at, again, &mut ticks);
                        for (block, version) in (first..).zip(versions) {
                            model.written(block, version);
                            cache.written(block, version);
                        }
                    }
                    Step::Through(block) => {
                        model.written(block, ticks / 2);
                        cache.written(block, ticks / 2);
                    }
                }
                same(&cache, &model);
                let first = model.0.values().map(|(since, _)| *since).min();
                prop_assert_eq!(cache.is_dirty_since(ticks), first.is_some());
                prop_assert!(first.is_none_or(|f| !cache.is_dirty_since(f - 1)));
            }
        }
    }

    #[test]
    fn a_write_counts_once_however_long_it_is() {
        let (mut cache, mut ticks) = (Cache::default(), 0);
        for at in [100, 200, 300] {
            take(&mut cache, at, 4, &mut ticks);
        }
        assert_eq!(cache.oldest(2).collect::<Vec<_>>(), [100, 200]);
        // Half of it is written: the other half still counts as one.
        cache.written(100, 1);
        assert_eq!(cache.oldest(9).collect::<Vec<_>>(), [101, 200, 300]);
    }

    #[test]
    fn the_patience_of_the_oldest_begins_when_it_is_the_oldest() {
        let (mut cache, mut ticks) = (Cache::default(), 0);
        take(&mut cache, 5, 1, &mut ticks);
        take(&mut cache, 9, 1, &mut ticks);
        assert_eq!(cache.deadline(Nanos(10), Nanos(100)), Some((5, Nanos(110))));
        assert_eq!(cache.deadline(Nanos(90), Nanos(100)), Some((5, Nanos(110))));
        cache.written(5, 1);
        assert_eq!(cache.deadline(Nanos(95), Nanos(100)), Some((9, Nanos(195))));
    }
}
