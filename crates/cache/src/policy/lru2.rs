//! LRU-2 (O'Neil, O'Neil, Weikum, "The LRU-K page replacement algorithm", SIGMOD 1993) over slots
//! that are clean, dirty, or being cleaned. The coldest slot is the one whose last access but one is
//! the longest ago.
//!
//! 1. A slot in use is in exactly one of three sets: *clean*; *dirty*; *being cleaned*, while its
//!    copy is on its way to the slow store. A slot that is not in use is in none.
//! 2. The clean and the dirty slots are in order of coldness. A page without a second access is
//!    colder than all with one; of pages without one, the least recent is the coldest.
//! 3. The slots being cleaned are in the order in which their cleaning began. An access does not
//!    change that order.
//! 4. A slot becomes clean only when it enters or is overwritten with a clean version, or when its
//!    cleaning has ended. A slot that is overwritten while it is being cleaned is clean or dirty as
//!    its new version is; the end of the old cleaning changes nothing.
//! 5. The victim is the coldest clean slot. Only if no slot is clean, it is the slot whose cleaning
//!    began first; only if none is being cleaned either, it is the coldest dirty slot.
//! 6. The last access of a page that left is remembered (the paper's retained information), of as
//!    many pages as there are slots: if the page comes back, it has a last access but one.

use super::heap::Heap;
use super::page::PageId;
use super::remembered::Remembered;

/// Times of the last access but one (0: there was none) and of the last one.
type Times = (u64, u64);

/// See the module.
pub(super) struct Lru2 {
    times: Vec<Times>,
    clean: Heap<Times>,
    dirty: Heap<Times>,
    /// By when the cleaning began.
    cleaning: Heap<u64>,
    history: Remembered<u64>,
    now: u64,
}

impl Lru2 {
    pub fn new(frames: usize) -> Lru2 {
        Lru2 {
            times: vec![(0, 0); frames],
            clean: Heap::new(frames),
            dirty: Heap::new(frames),
            cleaning: Heap::new(frames),
            history: Remembered::new(frames),
            now: 0,
        }
    }

    /// A page comes into a slot that is not in use.
    pub fn entered(&mut self, slot: u32, page: PageId, dirty: bool) {
        let last = self.history.take(page).unwrap_or(0);
        self.access(slot, last);
        self.put(slot, dirty);
    }

    /// The slot's page is asked for.
    pub fn touched(&mut self, slot: u32) {
        self.access(slot, self.times[slot as usize].1);
        let times = self.times[slot as usize];
        self.clean.change(slot, times);
        self.dirty.change(slot, times);
    }

    /// The slot has a new version of its page.
    pub fn overwritten(&mut self, slot: u32, dirty: bool) {
        self.access(slot, self.times[slot as usize].1);
        self.take_out(slot);
        self.put(slot, dirty);
    }

    /// The coldest dirty slot, which is being cleaned from now on.
    pub fn begin_cleaning(&mut self) -> Option<u32> {
        let slot = self.dirty.first()?;
        self.dirty.remove(slot);
        self.now += 1;
        self.cleaning.set(slot, self.now);
        Some(slot)
    }

    /// The cleaning of a slot's present version has ended. Nothing changes if the slot is not being
    /// cleaned.
    pub fn cleaned(&mut self, slot: u32) {
        if self.cleaning.remove(slot) {
            self.clean.set(slot, self.times[slot as usize]);
        }
    }

    /// The slot that is replaced next (5).
    pub fn victim(&self) -> Option<u32> {
        self.clean.first().or_else(|| self.cleaning.first()).or_else(|| self.dirty.first())
    }

    /// The slot is not in use any more; it had this page.
    pub fn left(&mut self, slot: u32, page: PageId) {
        self.history.insert(page, self.times[slot as usize].1);
        self.take_out(slot);
    }

    fn access(&mut self, slot: u32, last_but_one: u64) {
        self.now += 1;
        self.times[slot as usize] = (last_but_one, self.now);
    }

    fn put(&mut self, slot: u32, dirty: bool) {
        let set = if dirty { &mut self.dirty } else { &mut self.clean };
        set.set(slot, self.times[slot as usize]);
    }

    fn take_out(&mut self, slot: u32) {
        let was = [self.clean.remove(slot), self.dirty.remove(slot), self.cleaning.remove(slot)];
        let sets = was.into_iter().filter(|&was| was).count();
        assert_eq!(sets, 1, "a slot in use is in exactly one set (1)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum State {
        Clean,
        Dirty,
        /// Since when.
        Cleaning(u64),
    }

    /// A slot in use: its page, its last access but one, its last access, its state.
    type Used = (u64, u64, u64, State);

    /// Slots and what is remembered, searched from end to end.
    struct Model {
        slots: BTreeMap<u32, Used>,
        history: VecDeque<Option<(u64, u64)>>,
        frames: usize,
        now: u64,
    }

    impl Model {
        fn tick(&mut self) -> u64 {
            self.now += 1;
            self.now
        }

        fn enter(&mut self, slot: u32, page: u64, dirty: bool) {
            let known = self.history.iter_mut().find(|h| h.is_some_and(|(p, _)| p == page));
            let last = known.and_then(Option::take).map_or(0, |(_, last)| last);
            let state = if dirty { State::Dirty } else { State::Clean };
            let now = self.tick();
            self.slots.insert(slot, (page, last, now, state));
        }

        fn touch(&mut self, slot: u32, state: Option<State>) {
            let now = self.tick();
            let used = self.slots.get_mut(&slot).expect("it is in use");
            *used = (used.0, used.2, now, state.unwrap_or(used.3));
        }

        fn leave(&mut self, slot: u32) {
            let (page, _, last, _) = self.slots.remove(&slot).expect("it is in use");
            self.history.push_back(Some((page, last)));
            if self.history.len() > self.frames {
                self.history.pop_front();
            }
        }

        fn coldest(&self, state: State) -> Option<u32> {
            let of = self.slots.iter().filter(|(_, used)| used.3 == state);
            of.min_by_key(|(_, used)| (used.1, used.2)).map(|(slot, _)| *slot)
        }

        fn first_cleaning(&self) -> Option<u32> {
            let since = |used: &Used| match used.3 {
                State::Cleaning(since) => Some(since),
                _ => None,
            };
            let of = self.slots.iter().filter_map(|(slot, used)| Some((since(used)?, *slot)));
            of.min().map(|(_, slot)| slot)
        }

        fn victim(&self) -> Option<u32> {
            let clean = self.coldest(State::Clean);
            clean.or_else(|| self.first_cleaning()).or_else(|| self.coldest(State::Dirty))
        }
    }

    const FRAMES: usize = 8;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn it_does_what_its_model_does(
            steps in proptest::collection::vec((0..6u8, 0..FRAMES as u32, 0..24u64, any::<bool>()), 1..400),
        ) {
            let mut lru2 = Lru2::new(FRAMES);
            let mut model = Model {
                slots: BTreeMap::new(),
                history: VecDeque::new(),
                frames: FRAMES,
                now: 0,
            };
            for (what, slot, page, dirty) in steps {
                let used = model.slots.get(&slot).copied();
                match (what, used) {
                    // A page has one slot at most.
                    (0 | 1, None) if model.slots.values().all(|used| used.0 != page) => {
                        lru2.entered(slot, PageId(page), dirty);
                        model.enter(slot, page, dirty);
                    }
                    (1, Some(_)) => {
                        lru2.touched(slot);
                        model.touch(slot, None);
                    }
                    (2, Some(_)) => {
                        lru2.overwritten(slot, dirty);
                        let state = if dirty { State::Dirty } else { State::Clean };
                        model.touch(slot, Some(state));
                    }
                    (3, _) => {
                        let coldest = model.coldest(State::Dirty);
                        prop_assert_eq!(lru2.begin_cleaning(), coldest);
                        if let Some(slot) = coldest {
                            let now = model.tick();
                            model.slots.get_mut(&slot).expect("it is dirty").3 = State::Cleaning(now);
                        }
                    }
                    (4, _) => {
                        lru2.cleaned(slot);
                        if let Some((_, _, _, state @ State::Cleaning(_))) = model.slots.get_mut(&slot) {
                            *state = State::Clean;
                        }
                    }
                    (5, Some((page, ..))) => {
                        lru2.left(slot, PageId(page));
                        model.leave(slot);
                    }
                    _ => {}
                }
                prop_assert_eq!(lru2.victim(), model.victim());
            }
        }
    }
}
