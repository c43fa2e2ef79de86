//! The buffer pool: frames, the page in each, and the lists that decide which page leaves next. It
//! does no I/O and no waiting: the engine does both.
//!
//! 1. The pool consists of instances (`innodb_buffer_pool_instances`). Each has its own frames, free
//!    list and LRU list. A page's number says in which instance it is.
//! 2. A page is in one frame at most. A frame with a page is in exactly one of the two parts of its
//!    instance's LRU list. Any other frame is free, or borrowed by a client that is going to read
//!    into it.
//! 3. The flush list holds exactly the dirty frames of all instances, ordered by the first change
//!    since each was written.
//! 4. A frame that is being written can be read, but neither changed nor evicted. A frame that is
//!    being read into cannot be used.
//! 5. With LRU ([`Order::Lru`]) new pages enter at the midpoint: at the head of the old part, which
//!    is kept at three eighths of the list. A page moves to the head of the young part when it is
//!    touched again, at least `old_time` after it came.
//! 6. With CLOCK ([`Order::Clock`]) the list is a circle, and its tail is where the hand points. A
//!    touch marks the frame. The hand passes over marked frames, and clears their marks.

use super::storage::PageVersion;
use super::{Lsn, PageNo};
use std::collections::BTreeSet;
use tantalum_rt::{Nanos, mix64};

/// Frames of an instance, from the tail on, from which pages are pulled.
const COLD: usize = 256;

/// A frame of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// An instance of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceId(pub u32);

/// Which page leaves next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The least recently used, of those that were used once or not lately (InnoDB).
    #[default]
    Lru,
    /// CLOCK: the next one that was not used since the hand passed it (as PostgreSQL, with
    /// one mark instead of a count).
    Clock,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On the free list, or borrowed.
    Free,
    /// Its page is being read.
    Reading,
    /// Its page can be used.
    Ready,
    /// Its page can be read, and is being written.
    Writing,
}

#[derive(Clone, Copy)]
struct Frame {
    page: PageNo,
    state: State,
    lsn: Lsn,
    /// The beginning of the first change since it was written; zero if there is none.
    oldest: Lsn,
    came: Nanos,
    instance: u32,
    young: bool,
    /// Used since the hand of the clock passed it.
    used: bool,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: usize,
}

/// The lists of an instance.
struct Instance {
    free: Vec<u32>,
    young: List,
    old: List,
}

/// See the module.
pub struct Pool {
    frames: Vec<Frame>,
    /// The frame of each page.
    places: Vec<u32>,
    instances: Vec<Instance>,
    dirty: BTreeSet<(Lsn, u32)>,
    old_time: Nanos,
    order: Order,
}

impl Pool {
    /// An empty pool of this many frames in so many instances, at least one, for a database of this
    /// many pages. The instances have as many frames each, but for the rest of the division.
    pub fn new(frames: u32, instances: u32, pages: u32, old_time: Nanos) -> Pool {
        let instances = instances.max(1);
        let empty = |at: u32| Frame {
            page: PageNo(0),
            state: State::Free,
            lsn: Lsn(0),
            oldest: Lsn(0),
            came: Nanos::ZERO,
            instance: at % instances,
            young: false,
            used: false,
            prev: NONE,
            next: NONE,
        };
        let list = List { head: NONE, tail: NONE, len: 0 };
        let instance = |number: u32| {
            let mut free: Vec<u32> = (number..frames).step_by(instances as usize).collect();
            free.reverse();
            Instance { free, young: list, old: list }
        };
        Pool {
            frames: (0..frames).map(empty).collect(),
            places: vec![NONE; pages as usize],
            instances: (0..instances).map(instance).collect(),
            dirty: BTreeSet::new(),
            old_time,
            order: Order::Lru,
        }
    }

    /// The same pool with this order of replacement. It must be empty.
    #[must_use]
    pub fn ordered(mut self, order: Order) -> Pool {
        self.order = order;
        self
    }

    /// The number of instances.
    pub fn instances(&self) -> u32 {
        self.instances.len() as u32
    }

    /// The instance that the page belongs to. (InnoDB keeps 64 neighbours together. In a database
    /// that is scaled down, that would make the instances uneven.)
    pub fn instance_of(&self, page: PageNo) -> InstanceId {
        match self.instances() {
            1 => InstanceId(0),
            many => InstanceId((mix64(page.0.into()) % u64::from(many)) as u32),
        }
    }

    /// The instance that the frame belongs to.
    pub fn instance_of_frame(&self, f: FrameId) -> InstanceId {
        InstanceId(self.frames[f.0 as usize].instance)
    }

    /// The frame that holds the page, or into which it is being read.
    pub fn find(&self, page: PageNo) -> Option<FrameId> {
        let at = self.places[page.0 as usize];
        (at != NONE).then_some(FrameId(at))
    }

    /// Whether the page in the frame can be read.
    pub fn is_readable(&self, f: FrameId) -> bool {
        matches!(self.frames[f.0 as usize].state, State::Ready | State::Writing)
    }

    /// Whether the page in the frame can be changed.
    pub fn is_changeable(&self, f: FrameId) -> bool {
        self.frames[f.0 as usize].state == State::Ready
    }

    /// Whether the page in the frame has changes that are not written.
    pub fn is_dirty(&self, f: FrameId) -> bool {
        self.frames[f.0 as usize].oldest != Lsn(0)
    }

    /// The page in a frame, and its last change.
    pub fn content(&self, f: FrameId) -> (PageNo, Lsn) {
        let frame = &self.frames[f.0 as usize];
        (frame.page, frame.lsn)
    }

    /// The number of frames on the free list of an instance.
    pub fn free_frames(&self, of: InstanceId) -> usize {
        self.instance(of).free.len()
    }

    /// The number of frames with changes that are not written.
    pub fn dirty_frames(&self) -> usize {
        self.dirty.len()
    }

    /// The beginning of the oldest change that is not written.
    pub fn oldest_change(&self) -> Option<Lsn> {
        self.dirty.first().map(|d| d.0)
    }

    /// Notes a use of the page, which may move it in the list.
    pub fn touch(&mut self, f: FrameId, now: Nanos) {
        if self.order == Order::Clock {
            self.frames[f.0 as usize].used = true;
            return;
        }
        let frame = &self.frames[f.0 as usize];
        if frame.young || now.saturating_sub(frame.came) >= self.old_time {
            let of = self.instance_of_frame(f);
            self.unlink(f.0);
            self.link(f.0, true);
            self.balance(of);
        }
    }

    /// Borrows a frame from the free list of an instance.
    pub fn borrow_free(&mut self, of: InstanceId) -> Option<FrameId> {
        self.instance_mut(of).free.pop().map(FrameId)
    }

    /// Puts a borrowed frame back on the free list of its instance.
    pub fn give_back(&mut self, f: FrameId) {
        let of = self.instance_of_frame(f);
        self.instance_mut(of).free.push(f.0);
    }

    /// Gives a borrowed frame this page of its instance, which is being read.
    pub fn begin_read(&mut self, f: FrameId, page: PageNo, now: Nanos) {
        let of = self.instance_of_frame(f);
        assert_eq!(of, self.instance_of(page), "a page stays in its instance");
        let frame = &mut self.frames[f.0 as usize];
        frame.page = page;
        frame.state = State::Reading;
        frame.oldest = Lsn(0);
        frame.came = now;
        frame.used = true;
        self.places[page.0 as usize] = f.0;
        self.link(f.0, false);
        self.balance(of);
    }

    /// Notes that the page was read. Its last change is `lsn`.
    pub fn end_read(&mut self, f: FrameId, lsn: Lsn) {
        let frame = &mut self.frames[f.0 as usize];
        frame.lsn = lsn;
        frame.state = State::Ready;
    }

    /// Notes a change of the page by the record from `begin` to `end`. The caller has checked that
    /// it may ([`Pool::is_changeable`]).
    pub fn change(&mut self, f: FrameId, begin: Lsn, end: Lsn) {
        let frame = &mut self.frames[f.0 as usize];
        assert_eq!(frame.state, State::Ready, "only a page that is ready can be changed");
        frame.lsn = end;
        if frame.oldest == Lsn(0) {
            frame.oldest = begin;
            self.dirty.insert((begin, f.0));
        }
    }

    /// Evicts the page of the clean frame nearest to the tail of an instance, among its last `depth`
    /// frames. Returns the frame, which is borrowed then, and the page.
    pub fn evict_clean(&mut self, of: InstanceId, depth: usize) -> Option<(FrameId, PageVersion)> {
        self.turn_hand(of, depth);
        let clean = self.tail_first(of).take(depth).find(|&at| {
            let f = &self.frames[at as usize];
            f.state == State::Ready && f.oldest == Lsn(0)
        })?;
        let page = self.empty(clean);
        Some((FrameId(clean), page))
    }

    /// The dirty frame nearest to the tail of an instance that is not being written.
    pub fn dirty_near_tail(&mut self, of: InstanceId) -> Option<FrameId> {
        self.turn_hand(of, usize::MAX);
        self.tail_first(of).find(|&at| self.is_writable(at)).map(FrameId)
    }

    /// A page cleaner's work on up to `depth` frames from the tail of an instance: it frees clean
    /// frames, and finds dirty ones that are not being written. It takes at most `most` of both
    /// together, and ends when free and found ones together are `spare`. Returns the frames found,
    /// and the pages that left freed frames.
    pub fn clean_tail(
        &mut self,
        of: InstanceId,
        depth: usize,
        spare: usize,
        most: usize,
    ) -> (Vec<FrameId>, Vec<PageVersion>) {
        let (mut found, mut freed) = (Vec::new(), Vec::new());
        let mut at = self.tail(of);
        for _ in 0..depth {
            if at == self.tail(of) {
                self.turn_hand(of, depth);
                at = self.tail(of);
            }
            let enough = self.free_frames(of) + found.len() >= spare;
            if at == NONE || found.len() + freed.len() >= most || enough {
                break;
            }
            let before = self.before(at);
            if self.pass_used(at) {
                at = before;
                continue;
            }
            let f = &self.frames[at as usize];
            if f.state == State::Ready && f.oldest == Lsn(0) {
                freed.push(self.empty(at));
                self.give_back(FrameId(at));
            } else if self.is_writable(at) {
                found.push(FrameId(at));
            }
            at = before;
        }
        (found, freed)
    }

    /// The hand of the clock passes over this frame: if it was used it goes to the other end of the
    /// list, without its mark.
    fn pass_used(&mut self, at: u32) -> bool {
        let used = self.order == Order::Clock && self.frames[at as usize].used;
        if used {
            self.frames[at as usize].used = false;
            let of = self.instance_of_frame(FrameId(at));
            self.unlink(at);
            self.link(at, true);
            self.balance(of);
        }
        used
    }

    /// Turns the hand until a frame that was not used is at the tail, or it passed so many.
    fn turn_hand(&mut self, of: InstanceId, most: usize) {
        let all = self.instance(of).young.len + self.instance(of).old.len;
        for _ in 0..most.min(all) {
            let at = self.tail(of);
            if at == NONE || !self.pass_used(at) {
                break;
            }
        }
    }

    /// The coldest pages that are ready, tail first, with their last changes, and whether they are
    /// dirty: up to `most` of those that `wanted` says.
    pub fn coldest(
        &self,
        wanted: impl Fn(PageVersion, bool) -> bool,
        most: usize,
    ) -> Vec<(PageVersion, bool)> {
        let of = (0..self.instances()).map(InstanceId);
        let ready = of.flat_map(|of| self.tail_first(of).take(COLD)).filter_map(|at| {
            let f = &self.frames[at as usize];
            let (version, dirty) = (PageVersion { page: f.page, lsn: f.lsn }, f.oldest != Lsn(0));
            let found = f.state == State::Ready
                && (self.order == Order::Lru || !f.used)
                && wanted(version, dirty);
            found.then_some((version, dirty))
        });
        ready.take(most).collect()
    }

    /// Up to `most` dirty frames that are not being written, oldest changes first.
    pub fn oldest_dirty(&self, most: usize) -> Vec<FrameId> {
        let each = self.dirty.iter().filter(|d| self.is_writable(d.1));
        each.take(most).map(|d| FrameId(d.1)).collect()
    }

    /// The same, of those whose changes begin before `lsn`.
    pub fn oldest_dirty_before(&self, most: usize, lsn: Lsn) -> Vec<FrameId> {
        let old = self.dirty.iter().take_while(|d| d.0 < lsn);
        old.filter(|d| self.is_writable(d.1)).take(most).map(|d| FrameId(d.1)).collect()
    }

    /// Notes that the frame is being written. Returns its page, its last change, and its oldest
    /// change.
    pub fn begin_write(&mut self, f: FrameId) -> (PageNo, Lsn, Lsn) {
        let frame = &mut self.frames[f.0 as usize];
        assert_eq!(frame.state, State::Ready, "one write of a frame at a time");
        frame.state = State::Writing;
        (frame.page, frame.lsn, frame.oldest)
    }

    /// Notes that the frame was written and is clean. With `evict` it goes to the free list of its
    /// instance.
    pub fn end_write(&mut self, f: FrameId, evict: bool) {
        let frame = &mut self.frames[f.0 as usize];
        self.dirty.remove(&(frame.oldest, f.0));
        frame.oldest = Lsn(0);
        frame.state = State::Ready;
        if evict {
            self.empty(f.0);
            self.give_back(f);
        }
    }

    /// The clean frames, with their pages and last changes.
    pub fn clean_frames(&self) -> impl Iterator<Item = (PageNo, Lsn)> {
        let clean = |f: &&Frame| f.state == State::Ready && f.oldest == Lsn(0);
        self.frames.iter().filter(clean).map(|f| (f.page, f.lsn))
    }

    fn is_writable(&self, at: u32) -> bool {
        let f = &self.frames[at as usize];
        f.state == State::Ready && f.oldest != Lsn(0)
    }

    fn instance(&self, of: InstanceId) -> &Instance {
        &self.instances[of.0 as usize]
    }

    fn instance_mut(&mut self, of: InstanceId) -> &mut Instance {
        &mut self.instances[of.0 as usize]
    }

    fn empty(&mut self, at: u32) -> PageVersion {
        self.unlink(at);
        let frame = &mut self.frames[at as usize];
        frame.state = State::Free;
        let was = PageVersion { page: frame.page, lsn: frame.lsn };
        self.places[was.page.0 as usize] = NONE;
        self.balance(self.instance_of_frame(FrameId(at)));
        was
    }

    fn tail(&self, of: InstanceId) -> u32 {
        let Instance { old, young, .. } = self.instance(of);
        if old.tail == NONE { young.tail } else { old.tail }
    }

    /// The next frame towards the head of the instance's whole list.
    fn before(&self, at: u32) -> u32 {
        let f = &self.frames[at as usize];
        match f.prev == NONE && !f.young {
            true => self.instances[f.instance as usize].young.tail,
            false => f.prev,
        }
    }

    fn tail_first(&self, of: InstanceId) -> impl Iterator<Item = u32> {
        let some = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(some(self.tail(of)), move |&at| some(self.before(at)))
    }

    /// The part of its instance's list that a frame is or shall be in.
    fn list(&mut self, at: u32, young: bool) -> &mut List {
        let of = &mut self.instances[self.frames[at as usize].instance as usize];
        if young { &mut of.young } else { &mut of.old }
    }

    /// Puts a frame at the head of a part.
    fn link(&mut self, at: u32, young: bool) {
        let list = self.list(at, young);
        let next = std::mem::replace(&mut list.head, at);
        list.len += 1;
        if next == NONE {
            list.tail = at;
        } else {
            self.frames[next as usize].prev = at;
        }
        let frame = &mut self.frames[at as usize];
        frame.young = young;
        frame.prev = NONE;
        frame.next = next;
    }

    fn unlink(&mut self, at: u32) {
        let Frame { prev, next, young, .. } = self.frames[at as usize];
        let list = self.list(at, young);
        list.len -= 1;
        if prev == NONE {
            list.head = next;
        }
        if next == NONE {
            list.tail = prev;
        }
        if prev != NONE {
            self.frames[prev as usize].next = next;
        }
        if next != NONE {
            self.frames[next as usize].prev = prev;
        }
    }

    /// Moves young pages to the old part until that has its three eighths.
    fn balance(&mut self, of: InstanceId) {
        loop {
            let Instance { young, old, .. } = self.instance(of);
            let at = young.tail;
            if old.len * 8 >= (young.len + old.len) * 3 || at == NONE {
                break;
            }
            self.unlink(at);
            self.link(at, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Reads `page` into a free or evicted frame; the page is ready.
    fn load(pool: &mut Pool, page: u32, now: u64) -> Option<FrameId> {
        let of = pool.instance_of(PageNo(page));
        let f = pool.borrow_free(of).or_else(|| Some(pool.evict_clean(of, usize::MAX)?.0))?;
        pool.begin_read(f, PageNo(page), Nanos(now));
        pool.end_read(f, Lsn(1));
        Some(f)
    }

    #[test]
    fn a_page_that_is_touched_once_goes_before_one_that_is_used() {
        let mut pool = Pool::new(8, 1, 100, Nanos(10));
        for page in 0..8 {
            load(&mut pool, page, 0);
        }
        let used = pool.find(PageNo(0)).unwrap();
        pool.touch(used, Nanos(5)); // Too early to count.
        assert_eq!(pool.dirty_near_tail(InstanceId(0)), None);
        pool.touch(used, Nanos(10));
        // A scan over many pages does not evict it.
        for page in 10..60 {
            load(&mut pool, page, 20);
        }
        assert_eq!(pool.find(PageNo(0)), Some(used));
        assert_eq!(pool.find(PageNo(1)), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Load(u32),
        Touch(u32),
        Change(u32),
        BeginWrite(u32),
        EndWrite(u32, bool),
        Clean(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let page = 0..40u32;
        prop_oneof![
            page.clone().prop_map(Step::Load),
            page.clone().prop_map(Step::Touch),
            page.clone().prop_map(Step::Change),
            page.clone().prop_map(Step::BeginWrite),
            (page, any::<bool>()).prop_map(|(p, e)| Step::EndWrite(p, e)),
            (0..12usize).prop_map(Step::Clean),
        ]
    }

    proptest! {
        /// Compares with a map from page to (first, last) change.
        #[test]
        fn pages_and_changes_are_never_lost(
            instances in 1..4u32,
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut pool = Pool::new(12, instances, 40, Nanos(3));
            let all: Vec<InstanceId> = (0..instances).map(InstanceId).collect();
            // Dirty pages: oldest and last change, and whether it is being written.
            let mut dirty = BTreeMap::<u32, (u64, u64, bool)>::new();
            for (time, step) in (1u64..).zip(steps) {
                let now = Nanos(time);
                match step {
                    Step::Load(p) if pool.find(PageNo(p)).is_none() => {
                        if load(&mut pool, p, time).is_none() {
                            let of = pool.instance_of(PageNo(p));
                            let here = dirty.keys().filter(|d| pool.instance_of(PageNo(**d)) == of);
                            let frames = 12 / instances as usize;
                            prop_assert_eq!(here.count(), frames, "a clean frame was not found");
                        }
                    }
                    Step::Touch(p) => {
                        if let Some(f) = pool.find(PageNo(p)) { pool.touch(f, now) }
                    }
                    Step::Change(p) => if let Some(f) = pool.find(PageNo(p)) && pool.is_changeable(f) {
                        pool.change(f, Lsn(time), Lsn(time + 1));
                        let d = dirty.entry(p).or_insert((time, 0, false));
                        d.1 = time + 1;
                    },
                    Step::BeginWrite(p) => if let Some(d) = dirty.get_mut(&p).filter(|d| !d.2) {
                        let f = pool.find(PageNo(p)).expect("dirty pages stay");
                        prop_assert_eq!(pool.begin_write(f), (PageNo(p), Lsn(d.1), Lsn(d.0)));
                        prop_assert!(pool.is_readable(f) && !pool.is_changeable(f));
                        d.2 = true;
                    },
                    Step::EndWrite(p, evict) => if dirty.get(&p).is_some_and(|d| d.2) {
                        pool.end_write(pool.find(PageNo(p)).expect("dirty pages stay"), evict);
                        prop_assert_eq!(pool.find(PageNo(p)).is_none(), evict);
                        dirty.remove(&p);
                    },
                    Step::Clean(spare) => for &of in &all {
                        for f in pool.clean_tail(of, 12, spare, 4).0 {
                            let (page, lsn) = pool.content(f);
                            let d = dirty.get(&page.0).expect("only dirty pages are to be written");
                            prop_assert!(!d.2 && lsn == Lsn(d.1));
                        }
                    },
                    Step::Load(_) => {}
                }
                prop_assert_eq!(pool.dirty_frames(), dirty.len());
                prop_assert_eq!(pool.oldest_change(), dirty.values().map(|d| Lsn(d.0)).min());
                for &of in &all {
                    let listed = pool.tail_first(of).count();
                    prop_assert_eq!(listed + pool.free_frames(of), 12 / instances as usize);
                    let Instance { young, old, .. } = pool.instance(of);
                    prop_assert_eq!(listed, young.len + old.len);
                }
                for p in 0..40 {
                    if let Some(f) = pool.find(PageNo(p)) {
                        prop_assert_eq!(pool.content(f).0, PageNo(p));
                        prop_assert_eq!(pool.instance_of_frame(f), pool.instance_of(PageNo(p)));
                    }
                }
            }
        }
    }
}
