//! Ranges of blocks that are being changed.
//!
//! 1. While an exclusive holder has a range, no other holder has any of its blocks.
//! 2. Shared holders do not keep each other out: the device's contract allows overlapping writes of
//!    whole blocks.
//! 3. A holder waits only for those that came before it. So every holder gets its turn, and no two
//!    wait for each other.
//! 4. Without exclusive holders, taking and giving back a range takes constant time. Otherwise the
//!    time is proportional to the number of holders and waiters.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

#[derive(Clone, Copy, Debug)]
struct Range {
    ticket: u64,
    start: u64,
    end: u64,
    exclusive: bool,
    /// The number of earlier ranges that exclude this one.
    before: usize,
}

impl Range {
    fn excludes(&self, other: &Range) -> bool {
        (self.exclusive || other.exclusive) && self.start < other.end && other.start < self.end
    }
}

/// Locks ranges of a device's blocks while they are changed: see the module.
///
/// ```
/// use std::rc::Rc;
/// use tantalum_export::RangeLock;
/// use tantalum_rt::{Nanos, Runtime};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let lock = Rc::new(RangeLock::new(&rt));
/// for (start, end) in [(0, 8), (4, 6), (8, 16)] {
///     let (clock, lock) = (rt.clone(), lock.clone());
///     rt.spawn("a change", async move {
///         let _held = lock.take(start, end, true).await;
///         clock.sleep(Nanos::from_millis(1)).await;
///     });
/// }
/// runtime.drain().unwrap();
/// assert_eq!(rt.now(), Nanos::from_millis(2)); // only the first two keep each other out
/// ```
pub struct RangeLock {
    ranges: RefCell<Vec<Option<Range>>>,
    free: RefCell<Vec<usize>>,
    exclusive: Cell<usize>,
    tickets: Cell<u64>,
    rt: Rt,
    /// For each place, the task that waits there.
    gates: RefCell<Vec<Rc<WaitQueue>>>,
}

impl RangeLock {
    /// A lock without holders.
    pub fn new(rt: &Rt) -> RangeLock {
        RangeLock {
            ranges: RefCell::default(),
            free: RefCell::default(),
            exclusive: Cell::new(0),
            tickets: Cell::new(0),
            rt: rt.clone(),
            gates: RefCell::default(),
        }
    }

    /// Waits for the blocks from `start` to before `end`. The guard gives them back when it drops.
    /// A dropped future gives up its place.
    pub async fn take(&self, start: u64, end: u64, exclusive: bool) -> Held<'_> {
        let ticket = self.tickets.get();
        self.tickets.set(ticket + 1);
        let mut range = Range { ticket, start, end, exclusive, before: 0 };
        if exclusive || self.exclusive.get() > 0 {
            let others = self.ranges.borrow();
            range.before = others.iter().flatten().filter(|other| other.excludes(&range)).count();
        }
        let held = Held { lock: self, place: self.enter(range) };
        if range.before > 0 {
            let gate = self.gates.borrow()[held.place].clone();
            gate.until(|| self.is_first(held.place)).await;
        }
        held
    }

    fn enter(&self, range: Range) -> usize {
        self.exclusive.set(self.exclusive.get() + usize::from(range.exclusive));
        let mut ranges = self.ranges.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(place) => {
                ranges[place] = Some(range);
                place
            }
            None => {
                ranges.push(Some(range));
                let gate = WaitQueue::new(&self.rt, "a range of blocks that is being changed");
                self.gates.borrow_mut().push(Rc::new(gate));
                ranges.len() - 1
            }
        }
    }

    fn is_first(&self, place: usize) -> bool {
        self.ranges.borrow()[place].is_some_and(|range| range.before == 0)
    }

    /// Stops later holders from waiting for this range.
    fn leave(&self, range: &Range) {
        let gates = self.gates.borrow();
        for (place, later) in self.ranges.borrow_mut().iter_mut().enumerate() {
            if let Some(later) = later
                && later.ticket > range.ticket
                && later.excludes(range)
            {
                later.before -= 1;
                if later.before == 0 {
                    gates[place].notify_all();
                }
            }
        }
    }
}

/// A range of blocks that its holder may change.
pub struct Held<'a> {
    lock: &'a RangeLock,
    place: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let lock = self.lock;
        let range = lock.ranges.borrow_mut()[self.place].take();
        lock.free.borrow_mut().push(self.place);
        let Some(range) = range else { return };
        if lock.exclusive.get() > 0 {
            lock.leave(&range);
        }
        if range.exclusive {
            lock.exclusive.set(lock.exclusive.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_rt::{Nanos, Runtime};

    /// Runs holders of (start, end, exclusive). One begins each ns, and each holds its range for 10
    /// ns. Returns when each one got its range.
    fn run(holders: &[(u64, u64, bool)]) -> Vec<u64> {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let lock = Rc::new(RangeLock::new(&rt));
        let tasks: Vec<_> = holders
            .iter()
            .enumerate()
            .map(|(i, &(start, end, exclusive))| {
                let (rt, lock) = (rt.clone(), lock.clone());
                rt.clone().spawn("holder", async move {
                    rt.sleep(Nanos(i as u64)).await;
                    let _held = lock.take(start, end, exclusive).await;
                    let at = rt.now().0;
                    rt.sleep(Nanos(10)).await;
                    at
                })
            })
            .collect();
        runtime.drain().expect("runs");
        assert_eq!(lock.exclusive.get(), 0);
        assert!(lock.ranges.borrow().iter().all(Option::is_none));
        tasks.iter().filter_map(|t| t.take()).collect()
    }

    #[test]
    fn shared_holders_do_not_wait() {
        assert_eq!(run(&[(0, 4, false), (2, 6, false), (0, 9, false)]), [0, 1, 2]);
    }

    #[test]
    fn an_exclusive_holder_has_its_blocks_for_itself() {
        // The last one does not wait: its blocks do not overlap the others'.
        let order = run(&[(0, 4, false), (3, 5, true), (4, 5, false), (9, 10, true)]);
        assert_eq!(order, [0, 10, 20, 3]);
    }

    #[test]
    fn nobody_overtakes() {
        let order = run(&[(0, 8, true), (2, 3, true), (2, 3, false), (2, 3, true)]);
        assert_eq!(order, [0, 10, 20, 30]);
    }

    #[test]
    fn who_gives_up_gives_back() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let lock = RangeLock::new(&rt);
        let got = runtime.block_on(async move {
            let first = lock.take(0, 2, true).await;
            let second = lock.take(1, 3, true);
            let gave_up = tantalum_rt::first(second, rt.sleep(Nanos(5))).await;
            assert!(matches!(gave_up, tantalum_rt::First::B(())));
            drop(gave_up);
            drop(first);
            lock.take(0, 9, true).await;
            lock.exclusive.get()
        });
        assert_eq!(got, Ok(0));
    }

    /// With any sequence of takes and give-ups, excluded ranges are never held together, and every
    /// holder gets its turn.
    #[test]
    fn holders_keep_each_other_out_and_all_have_their_turn() {
        for seed in 0..40 {
            let mut runtime = Runtime::virtual_time(seed);
            let rt = runtime.handle();
            let lock = Rc::new(RangeLock::new(&rt));
            let inside = Rc::new(RefCell::new(Vec::<(u64, u64, bool)>::new()));
            let mut random = rt.stream("ranges");
            let mut tasks = Vec::new();
            for _ in 0..200 {
                let start = random.below(30);
                let mine = (start, start + 1 + random.below(6), random.chance(1, 2));
                let (begin, patience) = (Nanos(random.below(300)), random.below(200));
                let gives_up = random.chance(1, 5);
                let (rt, lock, inside) = (rt.clone(), lock.clone(), inside.clone());
                tasks.push(rt.clone().spawn("a holder", async move {
                    rt.sleep(begin).await;
                    let take = lock.take(mine.0, mine.1, mine.2);
                    let wait = if gives_up { patience } else { u64::MAX / 4 };
                    let got = tantalum_rt::first(take, rt.sleep(Nanos(wait))).await;
                    let tantalum_rt::First::A(_held) = got else { return gives_up };
                    let apart = |other: &(u64, u64, bool)| {
                        !(mine.2 || other.2) || mine.1 <= other.0 || other.1 <= mine.0
                    };
                    assert!(inside.borrow().iter().all(apart));
                    inside.borrow_mut().push(mine);
                    rt.sleep(Nanos(10)).await;
                    let at = inside.borrow().iter().position(|other| *other == mine);
                    inside.borrow_mut().swap_remove(at.expect("it is inside"));
                    true
                }));
            }
            runtime.drain().expect("runs");
            assert!(tasks.iter().all(|task| task.take() == Some(true)));
            assert_eq!(lock.exclusive.get(), 0);
            assert!(lock.ranges.borrow().iter().all(Option::is_none));
        }
    }
}
