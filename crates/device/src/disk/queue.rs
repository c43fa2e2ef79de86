//! What waits for the arm of a disk, and which of it goes next.
//!
//! 1. Each command, and each cached block, is taken once: a job that is taken has left the queue,
//!    and a cached run has its versions with it.
//! 2. Next is the job with the shortest positioning time among all queued commands and, when they
//!    compete, the oldest `cache_window` cached writes. Cached writes compete when no command
//!    waits, or when a host waits for the cache: for a flush, or for room.
//! 3. What has waited for the expiry goes first, the most patient of all before the others
//!    (see [`Cache::deadline`] for cached writes).
//! 4. Of overlapping jobs of which one writes, the older one goes first.

use super::cache::Cache;
use super::model::DiskModel;
use crate::OwnedData;
use std::collections::VecDeque;
use tantalum_rt::Nanos;

/// What one positioning of the arm is for.
#[derive(Clone)]
pub(super) struct Job {
    pub id: u64,
    pub at: u64,
    pub count: u64,
    /// When it came.
    pub came: Nanos,
    /// What to write; `None` for a read.
    pub data: Option<OwnedData>,
    /// Versions of cached blocks that this brings to the platter.
    pub versions: Vec<u64>,
}

impl Job {
    /// Whether it changes what is on the platter.
    pub fn writes(&self) -> bool {
        self.data.is_some() || !self.versions.is_empty()
    }

    fn overlaps(&self, at: u64, count: u64) -> bool {
        self.at < at + count && at < self.at + self.count
    }
}

/// The state of a disk that a power cut clears.
#[derive(Default)]
pub(super) struct State {
    /// Commands that wait for the arm, oldest first.
    pub queue: VecDeque<Job>,
    pub cache: Cache,
    pub ticks: u64,
    /// The cylinder of the arm.
    pub arm: u64,
    /// Hosts that wait for the cache: for a flush, or for room.
    pub awaited: u32,
    /// The job the arm is at, with what it writes.
    pub at_work: Option<Job>,
}

impl State {
    /// Queues a command; its number.
    pub fn add(&mut self, at: u64, count: u64, data: Option<OwnedData>, came: Nanos) -> u64 {
        self.ticks += 1;
        let id = self.ticks;
        self.queue.push_back(Job { id, at, count, came, data, versions: Vec::new() });
        id
    }

    /// Whether this command is over.
    pub fn is_done(&self, id: u64) -> bool {
        self.queue.binary_search_by_key(&id, |j| j.id).is_err()
            && self.at_work.as_ref().is_none_or(|j| j.id != id)
    }

    /// Takes the next job.
    pub fn pick(&mut self, model: &DiskModel, now: Nanos) -> Option<Job> {
        let job = match self.next(model, now)? {
            Next::Command(i) => self.queue.remove(i)?,
            Next::Cached(at) => self.cached_run(at, model.run(), now),
        };
        self.at_work = Some(job.clone());
        Some(job)
    }

    fn next(&mut self, model: &DiskModel, now: Nanos) -> Option<Next> {
        let next = match self.overdue(model, now) {
            Some(next) => next,
            None => self.nearest(model, now)?,
        };
        Some(self.older_first(next, model.run()))
    }

    /// What has waited for too long: what has waited longest of it.
    fn overdue(&mut self, model: &DiskModel, now: Nanos) -> Option<Next> {
        let expiry = model.expiry();
        let cached = self.cache.deadline(now, expiry).map(|(at, ends)| (ends, Next::Cached(at)));
        let command = self.queue.front().map(|j| (j.came.saturating_add(expiry), Next::Command(0)));
        let all = command.into_iter().chain(cached).filter(|(ends, _)| *ends <= now);
        all.min_by_key(|(ends, _)| *ends).map(|(_, next)| next)
    }

    fn nearest(&self, model: &DiskModel, now: Nanos) -> Option<Next> {
        let cost = |block, writes| model.position(now, self.arm, block, writes);
        let commands = self.queue.iter().enumerate();
        let command = commands.map(|(i, j)| (cost(j.at, j.writes()), Next::Command(i)));
        let window = match self.queue.is_empty() || self.awaited > 0 {
            true => model.cache_window,
            false => 0,
        };
        let cached = self.cache.oldest(window).map(|b| (cost(b, true), Next::Cached(b)));
        command.chain(cached).min_by_key(|(cost, _)| *cost).map(|(_, next)| next)
    }

    /// Invariant 4. (A cached write that is older than a command needs no look: the command's
    /// data replace it.)
    fn older_first(&self, next: Next, run: u64) -> Next {
        let older = |before: usize, at: u64, count: u64, writes: bool| {
            let mut all = self.queue.iter().take(before);
            all.position(|j| j.overlaps(at, count) && (writes || j.writes()))
        };
        let mut i = match next {
            Next::Command(i) => i,
            Next::Cached(at) => {
                let versions = self.cache.run(at, run);
                let newest = versions.iter().copied().max().unwrap_or(0);
                let before = self.queue.partition_point(|j| j.id < newest);
                // (A read is answered from the cache, whatever is on the platter.)
                let mut all = self.queue.iter().take(before);
                let count = versions.len() as u64;
                match all.position(|j| j.writes() && j.overlaps(at, count)) {
                    Some(i) => i,
                    None => return next,
                }
            }
        };
        while let Some(j) = self.queue.get(i)
            && let Some(first) = older(i, j.at, j.count, j.writes())
        {
            i = first;
        }
        Next::Command(i)
    }

    fn cached_run(&mut self, at: u64, most: u64, now: Nanos) -> Job {
        let versions = self.cache.run(at, most);
        self.ticks += 1;
        let count = versions.len() as u64;
        Job { id: self.ticks, at, count, came: now, data: None, versions }
    }
}

/// The job that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The command with this number in the queue.
    Command(usize),
    /// The run of cached blocks from this one on.
    Cached(u64),
}
