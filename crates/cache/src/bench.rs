//! How fast the directory is: lookups and stage-ins on a ring that is full, from one thread or more.

// The one place that measures real time and has threads: nothing of the cache depends on it.
#![allow(clippy::disallowed_methods, reason = "a benchmark has threads, and reads their clocks")]

use crate::directory::{
    Directory, Liveness, Owner, Region, Replacement, ReserveError, Shape, Version,
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// Batches that threads keep free, as a program does that has a task for it: so they seldom wait for
/// each other at the front.
const SPARE: u64 = 8;

/// What one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Lookups of random pages.
    Lookup,
    /// Random pages enter, clean, a batch at a time; what is at the front is dropped. Reserving,
    /// publishing and releasing batches are part of it.
    StageIn,
    /// As `StageIn`, each page without knowing the next ones.
    StageEach,
    /// Both in turn; each counts as one operation.
    Mixed,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Operations of all threads.
    pub operations: u64,
    /// The sum of each thread's operations per second of its processor time: waiting for the others
    /// counts, being kept from the processor does not.
    pub per_second: f64,
    /// The share of lookups that found their page.
    pub hits: f64,
}

struct Nobody;

impl Liveness for Nobody {
    fn is_alive(&self, _owner: Owner) -> bool {
        true
    }
}

/// A directory full of `pages` pages, with some batches free.
///
/// # Panics
/// If there is no directory of this size.
#[must_use]
pub fn full(pages: u64) -> Directory {
    let batch = 64;
    let frames = pages.next_multiple_of(batch).max(1024) + SPARE * batch;
    let shape = Shape { frames, batch: batch as u32 };
    let region = Region::owned(shape.bytes_needed().expect("a size that can be"));
    let owner = Owner::new(1).expect("not 0");
    let directory =
        Directory::format(region, shape, 0, owner, Arc::new(Nobody)).expect("enough memory");
    let mut thread = Thread::new(&directory, pages, 0);
    for page in 0..pages {
        thread.stage(page);
    }
    thread.end();
    directory
}

/// `threads` threads do `operations` operations each on a [`full`] directory of `pages` pages.
///
/// # Panics
/// If a thread fails.
#[must_use]
pub fn run(
    directory: &Directory,
    pages: u64,
    work: Work,
    threads: u64,
    operations: u64,
) -> Measured {
    let one = |number| {
        let mut thread = Thread::new(directory, pages, number);
        let began = processor_seconds();
        for operation in 0..operations {
            match work {
                Work::Lookup => thread.lookup(),
                Work::StageIn => thread.stage_coming(),
                Work::StageEach => thread.stage_any(),
                Work::Mixed if operation % 2 == 0 => thread.lookup(),
                Work::Mixed => thread.stage_any(),
            }
        }
        let seconds = processor_seconds() - began;
        thread.end();
        (operations as f64 / seconds, thread.hits, thread.lookups)
    };
    let all: Vec<(f64, u64, u64)> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (1..=threads).map(|n| scope.spawn(move || one(n))).collect();
        spawned.into_iter().map(|thread| thread.join().expect("it does not fail")).collect()
    });
    let sum = |of: fn(&(f64, u64, u64)) -> u64| all.iter().map(of).sum::<u64>();
    Measured {
        operations: threads * operations,
        per_second: all.iter().map(|one| one.0).sum(),
        hits: sum(|one| one.1) as f64 / sum(|one| one.2).max(1) as f64,
    }
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

struct Thread<'a> {
    directory: &'a Directory,
    pages: u64,
    random: u64,
    batch: Option<crate::directory::Batch>,
    taken: u32,
    /// Pages of a batch that are staged next, the next one last.
    coming: Vec<u64>,
    lookups: u64,
    hits: u64,
}

impl Thread<'_> {
    fn new(directory: &Directory, pages: u64, number: u64) -> Thread<'_> {
        let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let coming = Vec::new();
        Thread { directory, pages, random, batch: None, taken: 0, coming, lookups: 0, hits: 0 }
    }

    fn page(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((u128::from(self.random) * u128::from(self.pages)) >> 64) as u64
    }

    fn lookup(&mut self) {
        let page = self.page();
        self.lookups += 1;
        self.hits += u64::from(self.directory.lookup(page).is_some());
    }

    fn stage_any(&mut self) {
        let page = self.page();
        self.stage(page);
    }

    /// One of a batch of random pages that are known together, as those are that a buffer pool
    /// evicts.
    fn stage_coming(&mut self) {
        if self.coming.is_empty() {
            let pages = self.directory.shape().batch;
            self.coming = (0..pages).map(|_| self.page()).collect();
            self.directory.prefetch(&self.coming);
        }
        if let Some(page) = self.coming.pop() {
            self.stage(page);
        }
    }

    fn stage(&mut self, page: u64) {
        let batch = match self.batch {
            Some(batch) => batch,
            None => self.next_batch(),
        };
        let version = Version { page, lsn: 0, checksum: page as u32, dirty: false };
        self.directory.stage(&batch, version).expect("there is room, and no LSN is older");
        self.taken += 1;
        if self.taken == self.directory.shape().batch {
            self.end();
        }
    }

    fn next_batch(&mut self) -> crate::directory::Batch {
        if self.directory.free_batches() < SPARE {
            self.replace();
        }
        loop {
            match self.directory.reserve() {
                Ok(batch) => {
                    self.batch = Some(batch);
                    return batch;
                }
                Err(ReserveError::Full) => {
                    if !self.replace() {
                        // Another thread does: there is room in a moment.
                        std::thread::yield_now();
                    }
                }
            }
        }
    }

    /// Drops what is at the front. Whether it did: another thread may be at it.
    fn replace(&self) -> bool {
        let Ok(front) = self.directory.take_front() else { return false };
        for (entry, _) in self.directory.fates(&front, Replacement::Basic) {
            debug_assert!(!entry.dirty);
        }
        let released = self.directory.release(&front).is_ok();
        if !released {
            self.directory.leave(&front);
        }
        released
    }

    /// Publishes the batch at work.
    fn end(&mut self) {
        if let Some(batch) = self.batch.take() {
            let done = self.directory.close(&batch).and_then(|()| self.directory.publish(&batch));
            done.expect("it is this owner's");
        }
        self.taken = 0;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_do_all_they_were_given_and_the_directory_stays_whole() {
        let pages = 3000;
        let directory = full(pages);
        assert_eq!(directory.audit().unwrap().pages, pages);
        for threads in [1, 2, 4] {
            for work in [Work::Lookup, Work::StageIn, Work::StageEach, Work::Mixed] {
                let measured = run(&directory, pages, work, threads, 20_000);
                assert_eq!(measured.operations, threads * 20_000);
                assert!(measured.per_second > 0.0);
                // A ring as large as the pages has 1 - 1/e of them once they came at random.
                let found = measured.hits;
                let none = matches!(work, Work::StageIn | Work::StageEach);
                assert!(none || (0.55..=1.0).contains(&found), "{found}");
                directory.audit().unwrap();
            }
        }
    }
}
