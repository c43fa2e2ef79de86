//! Dirty entries and map pages against a map on paper: what is not dirty is stored.

use crate::format::entries::{MAP_PAGE_ENTRIES, decode_entry, encode_entry, map_page};
use crate::format::words::{Lpn, Ppa};
use crate::state::dirty::Dirty;
use crate::state::map::Map;
use proptest::prelude::*;

const PAGES: u32 = 3;
const LOGICAL: u32 = PAGES * MAP_PAGE_ENTRIES - 100;

#[derive(Clone, Debug)]
enum Step {
    Change(u32, u32),
    Unmap(u32),
    /// Stores so many of the longest dirty pages, or begins to.
    Begin(usize),
    /// Stores a page whether it is dirty or not, as cleaning does.
    BeginPage(u32),
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let lpn = || (0..PAGES, 0..6u32).prop_map(|(p, i)| p * MAP_PAGE_ENTRIES + i * 150);
    prop_oneof![
        6 => (lpn(), 0..1000u32).prop_map(|(l, p)| Step::Change(l, p)),
        1 => lpn().prop_map(Step::Unmap),
        2 => (1..3usize).prop_map(Step::Begin),
        1 => (0..PAGES).prop_map(Step::BeginPage),
        3 => Just(Step::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn stored_pages_and_dirty_entries_make_the_map(steps in prop::collection::vec(step(), 1..80)) {
        let mut map = Map::new(LOGICAL, 8);
        let mut dirty = Dirty::new(PAGES);
        let mut stored = vec![vec![0; 4096]; PAGES as usize];
        let mut storing: Vec<(u32, Vec<u8>)> = Vec::new();
        for step in steps {
            let begin = |pages: Vec<u32>, map: &Map| {
                pages.into_iter().map(|page| {
                    let mut bytes = vec![0; 4096];
                    map.encode_page(page, &mut bytes);
                    (page, bytes)
                }).collect()
            };
            match step {
                Step::Change(lpn, to) => {
                    map.set(Lpn(lpn), Some(Ppa(to)));
                    dirty.mark(Lpn(lpn));
                }
                Step::Unmap(lpn) => {
                    map.set(Lpn(lpn), None);
                    dirty.mark(Lpn(lpn));
                }
                Step::Begin(most) if storing.is_empty() => {
                    let mut pages = Vec::new();
                    dirty.begin_store(most, &mut pages);
                    prop_assert!(pages.len() <= most);
                    prop_assert!(!pages.is_empty() || dirty.total() == 0);
                    storing = begin(pages, &map);
                }
                Step::BeginPage(page) if storing.is_empty() => {
                    dirty.begin_page(page);
                    storing = begin(vec![page], &map);
                }
                Step::Begin(_) | Step::BeginPage(_) => {}
                Step::End => {
                    for (page, bytes) in storing.drain(..) {
                        stored[page as usize] = bytes;
                        dirty.end_store(page);
                    }
                }
            }
            // What a dump at this moment and the stored pages give is the map.
            let mut recovered = Map::new(LOGICAL, 8);
            for (page, bytes) in stored.iter().enumerate() {
                recovered.learn_page(page as u32, bytes, |_| false);
            }
            let entries: Vec<Lpn> = dirty.entries().collect();
            prop_assert_eq!(entries.len(), dirty.total() as usize);
            prop_assert!(entries.is_sorted());
            for lpn in entries {
                let mut bytes = [0; 8];
                encode_entry(lpn, map.get(lpn), &mut bytes);
                let (same, to) = decode_entry(&bytes);
                prop_assert_eq!(same, lpn);
                prop_assert_eq!(to, map.get(lpn));
                recovered.put(lpn, to);
            }
            for page in 0..PAGES {
                for i in 0..6 {
                    let lpn = Lpn(page * MAP_PAGE_ENTRIES + i * 150);
                    prop_assert_eq!(recovered.get(lpn), map.get(lpn));
                    prop_assert_eq!(map_page(lpn), page);
                }
            }
        }
        // And it can always be stored to the end.
        let mut pages = Vec::new();
        for (page, _) in storing {
            dirty.end_store(page);
        }
        while dirty.total() > 0 {
            dirty.begin_store(1, &mut pages);
            prop_assert_eq!(pages.len(), 1);
            dirty.end_store(pages[0]);
        }
    }
}
