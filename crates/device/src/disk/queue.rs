//! What waits for the arm of a disk, and which of it goes next.
//!
//! 1. Each command, and each cached block, is taken once: a job that is taken has left the queue,
//!    and a cached run has its versions with it.
//! 2. Next is the job with the shortest positioning time among the oldest `queue_window` commands
//!    and, when they compete, the oldest `cache_window` cached writes. Cached writes compete when
//!    no command waits, or when a host waits for the cache: for a flush, or for room.
//! 3. What has waited for the expiry goes first, the most patient of all before the others
//!    (see [`Cache::deadline`] for cached writes).
//! 4. Of overlapping jobs of which one writes, the older one goes first.

use super::cache::Cache;
use super::model::DiskModel;
use crate::OwnedData;
use std::collections::VecDeque;
use tantalum_rt::Nanos;

/// The controller has prepared what is cached: it came long ago.
const PREPARED: Nanos = Nanos::ZERO;

/// What one positioning of the arm is for.
#[derive(Clone)]
pub(super) struct Job {
    pub id: u64,
    pub at: u64,
    pub count: u64,
    /// When it came; of what was cached, [`PREPARED`].
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
            Next::Cached(at) => self.cached_run(at, model.run()),
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
        let cost = |at, writes, came| model.position(now, self.arm, at, writes, came);
        let commands = self.queue.iter().take(model.commands()).enumerate();
        let command = commands.map(|(i, j)| (cost(j.at, j.writes(), j.came), Next::Command(i)));
        let window = match self.queue.is_empty() || self.awaited > 0 {
            true => model.cache_window,
            false => 0,
        };
        let cached = self.cache.oldest(window).map(|b| (cost(b, true, PREPARED), Next::Cached(b)));
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

    fn cached_run(&mut self, at: u64, most: u64) -> Job {
        let versions = self.cache.run(at, most);
        self.ticks += 1;
        let count = versions.len() as u64;
        Job { id: self.ticks, at, count, came: PREPARED, data: None, versions }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Data;
    use proptest::prelude::*;

    const BLOCKS: u64 = 4_000;

    fn model() -> DiskModel {
        DiskModel {
            block_bytes: 4096,
            blocks: BLOCKS,
            rpm: 15_000,
            track_blocks: 20,
            heads: 2,
            skew_blocks: 0,
            seek_track_us: 200,
            seek_full_us: 6_600,
            write_settle_us: 600,
            command_us: 100,
            prepares_ahead: false,
            interface_mb_s: 300,
            queue_depth: 32,
            queue_window: 4,
            cache_kib: 1024,
            write_cache: true,
            cache_window: 3,
            expiry_ms: 40,
            spin_up_ms: 3,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Read(u64, u64),
        Through(u64, u64),
        Cached(u64, u64),
        /// A host begins to wait for the cache, or one ends.
        Await(bool),
        /// The arm does its next jobs.
        Work(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few places, so that many overlap, and some far away.
        let at = prop_oneof![0..24u64, 0..BLOCKS - 8];
        let step = prop_oneof![
            (at.clone(), 1..8u64).prop_map(|(at, n)| Step::Read(at, n)),
            (at.clone(), 1..8u64).prop_map(|(at, n)| Step::Through(at, n)),
            (at, 1..8u64).prop_map(|(at, n)| Step::Cached(at, n)),
            any::<bool>().prop_map(Step::Await),
            (1..6u8).prop_map(Step::Work),
        ];
        prop::collection::vec(step, 1..120)
    }

    /// What waits, in the order of coming: number, place, length, and whether it writes.
    #[derive(Default)]
    struct Waiting(Vec<(u64, u64, u64, bool)>);

    impl Waiting {
        /// Takes command `id` out; checks that it was there, and that nothing older that conflicts
        /// with it is left.
        fn take(&mut self, id: u64) {
            let i = self.0.iter().position(|w| w.0 == id).expect("it waits, and is taken once");
            let (_, at, count, writes) = self.0.remove(i);
            let mut older = self.0[..i].iter();
            let conflict = older.find(|w| (writes || w.3) && w.1 < at + count && at < w.1 + w.2);
            assert_eq!(conflict, None, "older than command {id}, and overlaps with it");
        }
    }

    proptest! {
        /// Invariants 1 and 4; and all that came is brought to its end.
        #[test]
        fn all_that_waits_is_taken_once_in_an_order_that_is_allowed(
            all in steps(),
            prepares_ahead: bool,
            skew_blocks in 0..20u64,
        ) {
            let model = DiskModel { prepares_ahead, skew_blocks, ..model() };
            let (mut state, mut waiting) = (State::default(), Waiting::default());
            let mut now = Nanos::ZERO;
            let rest = std::iter::repeat_n(Step::Work(250), 8);
            for step in all.into_iter().chain(rest) {
                match step {
                    Step::Read(at, count) => {
                        let id = state.add(at, count, None, now);
                        waiting.0.push((id, at, count, false));
                    }
                    Step::Through(at, count) => {
                        let stamps = vec![7; count as usize];
                        let id = state.add(at, count, Some(Data::Stamps(&stamps).into()), now);
                        waiting.0.push((id, at, count, true));
                    }
                    Step::Cached(at, count) => {
                        let stamps = vec![7; count as usize];
                        let mut ticks = state.ticks;
                        state.cache.take(at, Data::Stamps(&stamps), 4096, &mut ticks);
                        state.ticks = ticks;
                    }
                    Step::Await(more) => state.awaited = u32::from(more),
                    Step::Work(jobs) => for _ in 0..jobs {
                        let Some(job) = state.pick(&model, now) else { break };
                        now += Nanos(model.position(now, state.arm, job.at, job.writes(), job.came))
                            + Nanos(model.transfer(job.at, job.count));
                        state.arm = model.cylinder(job.at);
                        if job.versions.is_empty() {
                            waiting.take(job.id);
                        }
                        for (block, version) in (job.at..).zip(&job.versions) {
                            state.cache.written(block, *version);
                        }
                        state.at_work = None;
                        prop_assert!(state.is_done(job.id));
                    },
                }
            }
            prop_assert!(waiting.0.is_empty() && state.queue.is_empty());
            prop_assert!(state.cache.is_empty());
        }
    }

    /// Commands far away wait behind nearer ones, but no longer than the expiry and one job.
    #[test]
    fn a_command_far_away_is_not_passed_over_for_ever() {
        let model = model();
        let mut state = State::default();
        let far = state.add(BLOCKS - 1, 1, None, Nanos::ZERO);
        let mut now = Nanos::ZERO;
        let mut longest = Nanos::ZERO;
        while !state.is_done(far) {
            // Three others, always near the arm.
            while state.queue.len() < 4 {
                let at = (now.0 / 7) % 20;
                state.add(at, 1, None, now);
            }
            let job = state.pick(&model, now).unwrap();
            let took = Nanos(model.position(now, state.arm, job.at, false, job.came));
            longest = longest.max(took);
            if job.id != far {
                assert!(now < model.expiry(), "it is overdue, and another goes first");
            }
            now += took;
            state.arm = model.cylinder(job.at);
            state.at_work = None;
        }
        assert!(now > model.expiry() / 2, "the near ones went first: {now:?}");
        assert!(now <= model.expiry() + longest + longest);
    }

    /// The arm looks at no more than the oldest `queue_window` commands.
    #[test]
    fn the_arm_chooses_among_the_oldest() {
        let mut state = State::default();
        for at in [3_000, 2_900, 2_800, 2_700, 1] {
            state.add(at, 1, None, Nanos::ZERO);
        }
        let wide = DiskModel { queue_window: 0, ..model() };
        assert_ne!(state.pick(&model(), Nanos::ZERO).unwrap().at, 1);
        let mut all = State::default();
        for at in [3_000, 2_900, 2_800, 2_700, 1] {
            all.add(at, 1, None, Nanos::ZERO);
        }
        assert_eq!(all.pick(&wide, Nanos::ZERO).unwrap().at, 1);
    }
}
