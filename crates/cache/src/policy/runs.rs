//! Runs of consecutive pages in a stream of page numbers, several of them interleaved.
//!
//! 1. A page that follows the last page of a known run makes it longer. Any other page begins a
//!    run of one, in the place of the run that has not grown for the longest time.
//! 2. [`RUNS`] runs are known, whatever the stream.

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
#[derive(Default)]
pub(super) struct Runs {
    runs: [Run; RUNS],
    now: u64,
}

impl Runs {
    /// Takes the next page; returns the length of its run, with itself.
    pub fn take(&mut self, page: PageId) -> u64 {
        self.now += 1;
        let known = self.runs.iter().position(|r| r.length > 0 && r.next == page.0);
        let at = known.unwrap_or_else(|| {
            let oldest = (0..RUNS).min_by_key(|&i| self.runs[i].grown).unwrap_or(0);
            self.runs[oldest].length = 0;
            oldest
        });
        let run = &mut self.runs[at];
        *run = Run { next: page.0.wrapping_add(1), length: run.length + 1, grown: self.now };
        run.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_runs_are_told_apart() {
        let mut runs = Runs::default();
        for i in 0..100 {
            assert_eq!(runs.take(PageId(1000 + i)), i + 1);
            assert_eq!(runs.take(PageId(5000 + i)), i + 1);
            assert_eq!(runs.take(PageId(i * 7919 % 1000)), 1);
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
