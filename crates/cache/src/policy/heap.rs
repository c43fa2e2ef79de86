//! A binary heap of numbers below a bound, each with a key, in which a number is found at once.
//!
//! 1. A number is in the heap at most once; the first has the least key, and of equal keys any.
//! 2. No operation allocates after [`Heap::new`].

use super::list::NONE;

/// See the module.
pub(super) struct Heap<K> {
    heap: Vec<(K, u32)>,
    /// Of each number, its place in the heap, or [`NONE`].
    places: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    /// An empty heap of numbers below `bound`.
    pub fn new(bound: usize) -> Heap<K> {
        Heap { heap: Vec::with_capacity(bound), places: vec![NONE; bound] }
    }

    /// The number with the least key.
    pub fn first(&self) -> Option<u32> {
        self.heap.first().map(|&(_, n)| n)
    }

    /// Puts a number into the heap, or gives it another key if it is there.
    pub fn set(&mut self, n: u32, key: K) {
        let at = match self.places[n as usize] {
            NONE => {
                self.heap.push((key, n));
                self.heap.len() - 1
            }
            at => at as usize,
        };
        self.heap[at].0 = key;
        self.settle(at);
    }

    /// Gives a number another key, if it is in the heap.
    pub fn change(&mut self, n: u32, key: K) {
        if self.places[n as usize] != NONE {
            self.set(n, key);
        }
    }

    /// Takes a number out. Whether it was in the heap.
    pub fn remove(&mut self, n: u32) -> bool {
        let at = std::mem::replace(&mut self.places[n as usize], NONE);
        if at == NONE {
            return false;
        }
        let at = at as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.settle(at);
        }
        true
    }

    /// Moves the entry at a place to where its key belongs.
    fn settle(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 && entry.0 < self.heap[(at - 1) / 2].0 {
            self.put(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].0 < self.heap[child].0 {
                child += 1;
            }
            if entry.0 <= self.heap[child].0 {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (K, u32)) {
        self.heap[at] = entry;
        self.places[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_first_has_the_least_key(steps in proptest::collection::vec((0..20u32, 0..3u8, 0..50u64), 1..300)) {
            let (mut heap, mut model) = (Heap::new(20), BTreeMap::new());
            for (n, what, key) in steps {
                match what {
                    0 => prop_assert_eq!(heap.remove(n), model.remove(&n).is_some()),
                    1 => {
                        heap.change(n, key);
                        model.entry(n).and_modify(|k| *k = key);
                    }
                    _ => {
                        heap.set(n, key);
                        model.insert(n, key);
                    }
                }
                let first = heap.first().map(|n| model.get(&n).copied());
                prop_assert_eq!(first, model.values().min().map(|&k| Some(k)));
            }
        }
    }
}
