//! Versions that were chosen to be written to the slow store, and how far its pages are meanwhile.
//!
//! 1. **No way back.** Between the choice of a version and its write the page may be evicted anew. If
//!    a newer version reaches the slow store first, the older one is not written over it, even if a
//!    third one that is not durable has superseded both: after a crash the second would be valid, and
//!    clean.
//! 2. Bounded: it has the pages of which a version is on its way.

use crate::flash::index::Place;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The pages of which a version is on its way.
#[derive(Clone, Default)]
pub(crate) struct Pending(Rc<RefCell<FxHashMap<u64, Page>>>);

#[derive(Default)]
struct Page {
    /// How many choices hold it.
    choices: u32,
    /// The newest version that was written since the first of them.
    written: Option<Place>,
}

/// Versions of these pages were chosen, until this is dropped.
pub(crate) struct Chosen {
    pending: Pending,
    pages: Vec<u64>,
}

impl Pending {
    /// Versions of these pages are chosen in this poll.
    pub fn choose(&self, pages: impl Iterator<Item = u64>) -> Chosen {
        let pages: Vec<u64> = pages.collect();
        let mut known = self.0.borrow_mut();
        for page in &pages {
            known.entry(*page).or_default().choices += 1;
        }
        Chosen { pending: self.clone(), pages }
    }

    /// The slow store has this version of a page.
    pub fn wrote(&self, page: u64, at: Place) {
        if let Some(page) = self.0.borrow_mut().get_mut(&page) {
            page.written = page.written.max(Some(at));
        }
    }

    /// No version of these pages before this one goes to the slow store any more: they are forgotten.
    pub fn void(&self, pages: &Range<u64>, at: Place) {
        let mut known = self.0.borrow_mut();
        let held = known.iter_mut().filter(|(page, _)| pages.contains(*page));
        held.for_each(|(_, page)| page.written = page.written.max(Some(at)));
    }

    /// Whether the slow store has a newer version than this one (1).
    pub fn is_overtaken(&self, page: u64, at: Place) -> bool {
        self.0.borrow().get(&page).is_some_and(|page| page.written > Some(at))
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let mut known = self.pending.0.borrow_mut();
        for page in &self.pages {
            if let Some(held) = known.get_mut(page) {
                held.choices -= 1;
                if held.choices == 0 {
                    known.remove(page);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_overtaken_by_a_newer_one_and_forgotten_with_its_choice() {
        let at = |batch, frame| Place { batch, frame };
        let pending = Pending::default();
        pending.wrote(7, at(9, 0));
        let first = pending.choose([7, 8].into_iter());
        assert!(!pending.is_overtaken(7, at(5, 1)), "what was written before the choice is older");
        let second = pending.choose([7].into_iter());
        pending.wrote(7, at(6, 0));
        pending.wrote(7, at(5, 3));
        for (place, is) in [(at(5, 3), true), (at(6, 0), false), (at(6, 1), false)] {
            assert_eq!(pending.is_overtaken(7, place), is);
        }
        assert!(!pending.is_overtaken(8, at(5, 1)));
        drop(first);
        assert!(pending.is_overtaken(7, at(5, 3)));
        drop(second);
        assert!(pending.0.borrow().is_empty());
    }
}
