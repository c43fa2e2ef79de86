//! Each policy against a model of a few lines: the same hits in the same order, and as many writes to
//! the slow store.

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use tantalum_cache::policy::sim::{PageEvent, PageIo, Sim};
use tantalum_cache::policy::{Config, Kind, PageId};

/// A model of a cache: pages that are read leave RAM clean at once.
pub trait Model {
    /// Whether the page was there.
    fn read(&mut self, page: u64) -> bool;
    fn write(&mut self, page: u64);
    fn slow_writes(&self) -> u64;
}

/// Multi-version FIFO and group second chance: a queue of versions, which leave together.
pub struct Fifo {
    queue: VecDeque<(u64, u64)>,
    /// Of each page: its version, whether it is dirty, and whether it was referenced.
    held: BTreeMap<u64, (u64, bool, bool)>,
    frames: usize,
    batch: usize,
    second_chance: bool,
    now: u64,
    slow_writes: u64,
}

impl Fifo {
    pub fn new(frames: usize, batch: usize, second_chance: bool) -> Fifo {
        let (queue, held) = (VecDeque::new(), BTreeMap::new());
        Fifo { queue, held, frames, batch, second_chance, now: 0, slow_writes: 0 }
    }

    fn drop_page(&mut self, page: u64) {
        let (_, dirty, _) = self.held.remove(&page).expect("it is valid");
        self.slow_writes += u64::from(dirty);
    }

    fn enter(&mut self, page: u64, dirty: bool) {
        self.now += 1;
        let marked = self.held.remove(&page).is_some_and(|(_, _, marked)| marked);
        if self.queue.len() == self.frames {
            let mut valid: Vec<_> = self.queue.drain(..self.batch).collect();
            valid.retain(|(page, version)| self.held.get(page).is_some_and(|h| h.0 == *version));
            let (mut again, gone): (Vec<_>, Vec<_>) =
                valid.into_iter().partition(|(page, _)| self.second_chance && self.held[page].2);
            gone.iter().for_each(|&(page, _)| self.drop_page(page));
            if again.len() == self.batch {
                self.drop_page(again.remove(0).0);
            }
            for (page, version) in again {
                self.held.get_mut(&page).expect("it stays").2 = false;
                self.queue.push_back((page, version));
            }
        }
        self.held.insert(page, (self.now, dirty, marked));
        self.queue.push_back((page, self.now));
    }
}

impl Model for Fifo {
    fn read(&mut self, page: u64) -> bool {
        if let Some(held) = self.held.get_mut(&page) {
            held.2 = true;
            return true;
        }
        self.enter(page, false);
        false
    }

    fn write(&mut self, page: u64) {
        self.enter(page, true);
    }

    fn slow_writes(&self) -> u64 {
        self.slow_writes
    }
}

/// A cache with one frame for each page. What is replaced is up to the order.
struct InPlace<O> {
    order: O,
    dirty: BTreeMap<u64, bool>,
    frames: usize,
    slow_writes: u64,
}

/// An order over pages.
trait Order {
    fn entered(&mut self, page: u64);
    fn touched(&mut self, page: u64);
    fn evicted(&mut self) -> Vec<u64>;
}

impl<O: Order> InPlace<O> {
    fn new(frames: usize, order: O) -> InPlace<O> {
        InPlace { order, dirty: BTreeMap::new(), frames, slow_writes: 0 }
    }

    fn enter(&mut self, page: u64, dirty: bool) {
        if self.dirty.len() == self.frames {
            for gone in self.order.evicted() {
                self.slow_writes += u64::from(self.dirty.remove(&gone).expect("it is cached"));
            }
        }
        self.dirty.insert(page, dirty);
        self.order.entered(page);
    }
}

impl<O: Order> Model for InPlace<O> {
    fn read(&mut self, page: u64) -> bool {
        let hit = self.dirty.contains_key(&page);
        match hit {
            true => self.order.touched(page),
            false => self.enter(page, false),
        }
        hit
    }

    fn write(&mut self, page: u64) {
        match self.dirty.get_mut(&page) {
            Some(dirty) => {
                *dirty = true;
                self.order.touched(page);
            }
            None => self.enter(page, true),
        }
    }

    fn slow_writes(&self) -> u64 {
        self.slow_writes
    }
}

/// The least recently used page is the first.
#[derive(Default)]
struct Lru(Vec<u64>);

impl Order for Lru {
    fn entered(&mut self, page: u64) {
        self.0.push(page);
    }

    fn touched(&mut self, page: u64) {
        self.0.retain(|&p| p != page);
        self.0.push(page);
    }

    fn evicted(&mut self) -> Vec<u64> {
        vec![self.0.remove(0)]
    }
}

/// CLOCK as a queue in which referenced pages go round again.
#[derive(Default)]
struct Clock(VecDeque<(u64, bool)>);

impl Order for Clock {
    fn entered(&mut self, page: u64) {
        self.0.push_back((page, false));
    }

    fn touched(&mut self, page: u64) {
        self.0.iter_mut().filter(|(p, _)| *p == page).for_each(|(_, marked)| *marked = true);
    }

    fn evicted(&mut self) -> Vec<u64> {
        loop {
            match self.0.pop_front().expect("the cache is full") {
                (page, true) => self.0.push_back((page, false)),
                (page, false) => return vec![page],
            }
        }
    }
}

/// SIEVE: the oldest page is the first; the hand is a position.
#[derive(Default)]
struct Sieve {
    queue: Vec<(u64, bool)>,
    hand: usize,
}

impl Order for Sieve {
    fn entered(&mut self, page: u64) {
        self.queue.push((page, false));
    }

    fn touched(&mut self, page: u64) {
        self.queue.iter_mut().filter(|(p, _)| *p == page).for_each(|(_, marked)| *marked = true);
    }

    fn evicted(&mut self) -> Vec<u64> {
        while self.queue[self.hand].1 {
            self.queue[self.hand].1 = false;
            self.hand = (self.hand + 1) % self.queue.len();
        }
        let (page, _) = self.queue.remove(self.hand);
        // Past the newest page the hand begins at the oldest, whatever enters until then.
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
        vec![page]
    }
}

/// S3-FIFO, as its algorithm 1 has it.
struct S3Fifo {
    small: VecDeque<(u64, u8)>,
    main: VecDeque<(u64, u8)>,
    ghosts: VecDeque<Option<u64>>,
    tenth: usize,
    rest: usize,
}

impl S3Fifo {
    fn new(frames: usize) -> S3Fifo {
        let tenth = (frames / 10).max(1);
        let (small, main, ghosts) = Default::default();
        S3Fifo { small, main, ghosts, tenth, rest: frames - tenth }
    }

    fn evict_main(&mut self, out: &mut Vec<u64>) {
        while let Some((page, count)) = self.main.pop_front() {
            if count == 0 {
                out.push(page);
                return;
            }
            self.main.push_back((page, count - 1));
        }
    }

    fn evict_small(&mut self, out: &mut Vec<u64>) {
        while let Some((page, count)) = self.small.pop_front() {
            if count <= 1 {
                self.ghosts.push_back(Some(page));
                if self.ghosts.len() > self.rest {
                    self.ghosts.pop_front();
                }
                out.push(page);
                return;
            }
            if self.main.len() == self.rest {
                self.evict_main(out);
            }
            self.main.push_back((page, 0));
        }
    }
}

impl Order for S3Fifo {
    fn entered(&mut self, page: u64) {
        match self.ghosts.iter_mut().find(|ghost| **ghost == Some(page)) {
            Some(ghost) => {
                *ghost = None;
                self.main.push_back((page, 0));
            }
            None => self.small.push_back((page, 0)),
        }
    }

    fn touched(&mut self, page: u64) {
        let all = self.small.iter_mut().chain(&mut self.main);
        all.filter(|(p, _)| *p == page).for_each(|(_, count)| *count = 3.min(*count + 1));
    }

    fn evicted(&mut self) -> Vec<u64> {
        let mut out = Vec::new();
        while out.is_empty() {
            match self.small.len() >= self.tenth {
                true => self.evict_small(&mut out),
                false => self.evict_main(&mut out),
            }
        }
        out
    }
}

/// A page of lazy cleaning.
struct Lazy {
    page: u64,
    last_but_one: u64,
    last: u64,
    dirty: bool,
}

/// Lazy cleaning whose cleaner is done at once. Clean pages are replaced first.
struct LazyCleaning {
    pages: Vec<Lazy>,
    history: VecDeque<Option<(u64, u64)>>,
    frames: usize,
    dirty_max: usize,
    now: u64,
    slow_writes: u64,
}

impl LazyCleaning {
    fn new(frames: usize, dirty_percent: u8) -> LazyCleaning {
        let dirty_max = frames * usize::from(dirty_percent) / 100;
        let (pages, history) = (Vec::new(), VecDeque::new());
        LazyCleaning { pages, history, frames, dirty_max, now: 0, slow_writes: 0 }
    }

    fn find(&mut self, page: u64) -> Option<&mut Lazy> {
        self.pages.iter_mut().find(|p| p.page == page)
    }

    fn touch(&mut self, page: u64) -> bool {
        self.now += 1;
        let now = self.now;
        let found = self.find(page);
        found.map(|p| (p.last_but_one, p.last) = (p.last, now)).is_some()
    }

    fn coldest(&self, dirty: bool) -> Option<usize> {
        let of = (0..self.pages.len()).filter(|&i| self.pages[i].dirty == dirty);
        of.min_by_key(|&i| (self.pages[i].last_but_one, self.pages[i].last))
    }

    fn enter(&mut self, page: u64, dirty: bool) {
        if self.pages.len() == self.frames {
            let victim = self.coldest(false).or_else(|| self.coldest(true));
            let gone = self.pages.remove(victim.expect("the cache is full"));
            self.slow_writes += u64::from(gone.dirty);
            self.history.push_back(Some((gone.page, gone.last)));
            if self.history.len() > self.frames {
                self.history.pop_front();
            }
        }
        let known = self.history.iter_mut().find(|h| h.is_some_and(|(p, _)| p == page));
        let last_but_one = known.and_then(Option::take).map_or(0, |(_, last)| last);
        self.pages.push(Lazy { page, last_but_one, last: self.now, dirty });
    }

    fn dirty(&self) -> usize {
        self.pages.iter().filter(|p| p.dirty).count()
    }

    fn clean(&mut self) {
        if self.dirty() > self.dirty_max {
            let aim = self.dirty_max.saturating_sub((self.frames / 100).max(1));
            while self.dirty() > aim {
                let coldest = self.coldest(true).expect("one is dirty");
                self.pages[coldest].dirty = false;
                self.slow_writes += 1;
            }
        }
    }
}

impl Model for LazyCleaning {
    fn read(&mut self, page: u64) -> bool {
        let hit = self.touch(page);
        if !hit {
            self.enter(page, false);
        }
        hit
    }

    fn write(&mut self, page: u64) {
        if self.touch(page) {
            self.find(page).expect("it was touched").dirty = true;
        } else {
            self.enter(page, true);
        }
        self.clean();
    }

    fn slow_writes(&self) -> u64 {
        self.slow_writes
    }
}

/// Temperatures of extents of 32 pages.
#[derive(Default)]
struct Tac {
    heat: BTreeMap<u64, u64>,
    /// In the order in which they entered.
    cached: Vec<u64>,
    frames: usize,
    slow_writes: u64,
}

impl Tac {
    fn heat_of(&self, page: u64) -> u64 {
        self.heat.get(&(page / 32)).copied().unwrap_or(0)
    }
}

impl Model for Tac {
    fn read(&mut self, page: u64) -> bool {
        *self.heat.entry(page / 32).or_default() += 1;
        if self.cached.contains(&page) {
            return true;
        }
        if self.cached.len() == self.frames {
            let coldest = (0..self.frames).min_by_key(|&i| {
                let page = self.cached[i];
                (self.heat_of(page), page / 32)
            });
            let coldest = coldest.expect("the cache is full");
            if self.heat_of(page) <= self.heat_of(self.cached[coldest]) {
                return false;
            }
            self.cached.remove(coldest);
        }
        self.cached.push(page);
        false
    }

    fn write(&mut self, _: u64) {
        self.slow_writes += 1;
    }

    fn slow_writes(&self) -> u64 {
        self.slow_writes
    }
}

/// Pages of one bucket of 512 KiB.
const BUCKET: usize = 8;

/// A bucket that is filled: its pages in order, with whether they are dirty; an overwritten page
/// is gone.
#[derive(Clone, Default)]
struct Bucket {
    pages: Vec<Option<(u64, bool)>>,
    used: u64,
    client: Option<u32>,
}

/// bcache, for one client.
struct Bcache {
    open: Vec<Bucket>,
    /// The next to be emptied is the first.
    full: Vec<Bucket>,
    buckets: usize,
    lru: bool,
    now: u64,
    slow_writes: u64,
}

impl Bcache {
    fn new(buckets: usize, lru: bool) -> Bcache {
        let open = vec![Bucket::default(); 6.min(buckets / 2)];
        Bcache { open, full: Vec::new(), buckets, lru, now: 0, slow_writes: 0 }
    }

    fn has(bucket: &Bucket, page: u64) -> bool {
        bucket.pages.iter().flatten().any(|&(p, _)| p == page)
    }

    fn append(&mut self, page: u64, dirty: bool) {
        let all = self.open.iter_mut().chain(&mut self.full);
        all.flat_map(|b| &mut b.pages).filter(|p| p.is_some_and(|p| p.0 == page)).for_each(|p| {
            *p = None;
        });
        // With one client it is the first bucket, always.
        self.now += 1;
        if self.open[0].pages.is_empty() && self.full.len() == self.buckets {
            let gone = self.full.remove(0);
            self.slow_writes +=
                gone.pages.iter().flatten().filter(|(_, dirty)| *dirty).count() as u64;
        }
        let bucket = &mut self.open[0];
        bucket.pages.push(Some((page, dirty)));
        (bucket.used, bucket.client) = (self.now, Some(0));
        if bucket.pages.len() == BUCKET {
            self.full.push(std::mem::take(bucket));
        }
    }
}

impl Model for Bcache {
    fn read(&mut self, page: u64) -> bool {
        if self.open.iter().any(|b| Bcache::has(b, page)) {
            return true;
        }
        match self.full.iter().position(|b| Bcache::has(b, page)) {
            Some(at) => {
                if self.lru {
                    let bucket = self.full.remove(at);
                    self.full.push(bucket);
                }
                true
            }
            None => {
                self.append(page, false);
                false
            }
        }
    }

    fn write(&mut self, page: u64) {
        self.append(page, true);
    }

    fn slow_writes(&self) -> u64 {
        self.slow_writes
    }
}

fn model(config: &Config) -> Box<dyn Model> {
    let frames = config.usable_frames() as usize;
    match config.kind {
        Kind::MvFifo => Box::new(Fifo::new(frames, config.batch as usize, false)),
        Kind::Gsc => Box::new(Fifo::new(frames, config.batch as usize, true)),
        Kind::Lru => Box::new(InPlace::new(frames, Lru::default())),
        Kind::Clock => Box::new(InPlace::new(frames, Clock::default())),
        Kind::Sieve => Box::new(InPlace::new(frames, Sieve::default())),
        Kind::S3Fifo => Box::new(InPlace::new(frames, S3Fifo::new(frames))),
        Kind::Lc => Box::new(LazyCleaning::new(frames, config.dirty_percent)),
        Kind::Tac => Box::new(Tac { frames, ..Tac::default() }),
        Kind::BcacheLru => Box::new(Bcache::new(frames / BUCKET, true)),
        Kind::BcacheFifo => Box::new(Bcache::new(frames / BUCKET, false)),
        Kind::None => unreachable!("it is not modelled"),
    }
}

fn compare(config: &Config, ios: &[(u64, bool)]) {
    let mut sim = Sim::new(config, None).expect("it can be built");
    let mut model = model(config);
    for (at, &(page, write)) in ios.iter().enumerate() {
        let before = sim.counts().read_hits;
        let event = if write { PageEvent::Write } else { PageEvent::Read };
        sim.step(PageIo { page: PageId(page), client: 0, event });
        match write {
            true => model.write(page),
            false => {
                let hit = sim.counts().read_hits > before;
                assert_eq!(hit, model.read(page), "{config:?}: I/O {at}, page {page}");
            }
        }
        assert_eq!(sim.counts().slow_writes, model.slow_writes(), "{config:?}: I/O {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_policy_does_what_its_model_does(
        ios in proptest::collection::vec((prop_oneof![0..20u64, 0..120u64], any::<bool>()), 1..1500),
        more in 0..50u32,
        batch in 2..9u32,
        dirty_percent in 0..=100u8,
    ) {
        for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::None) {
            let config = Config { batch, dirty_percent, ..Config::new(kind, 0, 65_536) };
            let frames = config.frames_min() + more;
            compare(&Config { frames, ..config }, &ios);
        }
    }
}
