//! Runs of consecutive pages in a stream of page numbers, several of them interleaved.
//!
//! 1. A page that follows the last page of a known run makes it longer, of several the longest one.
//! 2. The last page of a known run, which comes again, changes nothing: a page that is read in parts
//!    comes several times, and so does one that waits for room. Of a run that it ends and one that it
//!    follows, it belongs to that which is longer with it.
//! 3. Any other page begins a run of one, in the place of the run that has not grown for the longest
//!    time.
//! 4. [`RUNS`] runs are known, whatever the stream.

use super::page::PageId;

/// How many interleaved runs are told apart.
pub(super) const RUNS: usize = 16;

#[derive(Clone, Copy, Default)]
struct Run {
    next: u64,
    length: u64,
    grown: u64,
}

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Runs {
    runs: [Run; RUNS],
    now: u64,
}

impl Runs {
    /// Takes the next page; returns the length of its run, with itself.
    pub fn take(&mut self, page: PageId) -> u64 {
        self.now += 1;
        let behind = page.0.wrapping_add(1);
        let known = self.longest(page.0);
        let longer = known.map_or(1, |at| self.runs[at].length + 1);
        let again = self.longest(behind).map(|at| self.runs[at].length);
        if let Some(length) = again.filter(|length| *length >= longer) {
            return length;
        }
        let at = known.unwrap_or_else(|| {
            let oldest = (0..RUNS).min_by_key(|&i| self.runs[i].grown).unwrap_or(0);
            self.runs[oldest].length = 0;
            oldest
        });
        let run = &mut self.runs[at];
        *run = Run { next: behind, length: run.length + 1, grown: self.now };
        run.length
    }

    /// The longest run after which this page comes, of equal ones that which grew last.
    fn longest(&self, page: u64) -> Option<usize> {
        let known = (0..RUNS).filter(|&i| self.runs[i].length > 0 && self.runs[i].next == page);
        known.max_by_key(|&i| (self.runs[i].length, self.runs[i].grown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list of runs, each its last page and its length, that which grew last first.
        #[test]
        fn those_are_known_that_grew_last(pages in proptest::collection::vec(0..60u64, 1..500)) {
            let mut runs = Runs::default();
            let mut model: Vec<(u64, u64)> = Vec::new();
            for page in pages {
                let best = |model: &[(u64, u64)], last: Option<u64>| {
                    let ends = model.iter().enumerate().filter(|(_, run)| Some(run.0) == last);
                    ends.rev().max_by_key(|(_, run)| run.1).map(|(at, _)| at)
                };
                let before = best(&model, page.checked_sub(1));
                let expected = match (before, best(&model, Some(page))) {
                    (Some(at), Some(again)) if model[again].1 > model[at].1 => model[again].1,
                    (Some(at), _) => {
                        let (_, length) = model.remove(at);
                        model.insert(0, (page, length + 1));
                        length + 1
                    }
                    (None, Some(again)) => model[again].1,
                    (None, None) => {
                        model.insert(0, (page, 1));
                        model.truncate(RUNS);
                        1
                    }
                };
                prop_assert_eq!(runs.take(PageId(page)), expected, "page {}", page);
                prop_assert_eq!(runs.take(PageId(page)), expected, "page {}, again", page);
            }
        }
    }

    #[test]
    fn interleaved_runs_are_told_apart() {
        let mut runs = Runs::default();
        for i in 0..100 {
            assert_eq!(runs.take(PageId(1000 + i)), i + 1);
            assert_eq!(runs.take(PageId(5000 + i)), i + 1);
            assert_eq!(runs.take(PageId(i * 7919 % 1000)), 1);
        }
    }

    /// Halves of pages, and pages that wait for room.
    #[test]
    fn a_page_that_comes_again_does_not_begin_a_run() {
        let mut runs = Runs::default();
        for i in 0..50 {
            assert_eq!([(); 3].map(|()| runs.take(PageId(i))), [i + 1; 3]);
        }
        assert_eq!(runs.take(PageId(7)), 1, "within a run that is known");
    }

    /// A page just before a scan makes no second, short run of what the scan reads.
    #[test]
    fn of_two_runs_that_meet_the_longer_one_goes_on() {
        let mut runs = Runs::default();
        runs.take(PageId(49));
        for i in 0..100 {
            assert_eq!(runs.take(PageId(i)), i + 1);
        }
    }

    #[test]
    fn a_run_that_did_not_grow_for_long_is_forgotten() {
        let mut runs = Runs::default();
        runs.take(PageId(1));
        for i in 0..RUNS as u64 {
            runs.take(PageId(100 + 2 * i));
        }
        assert_eq!(runs.take(PageId(2)), 1);
    }
}
