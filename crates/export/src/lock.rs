//! Ranges of blocks that are being changed.
//!
//! 1. While an exclusive holder has a range nobody else has any of its blocks.
//! 2. Shared holders do not keep each other out: whole blocks may be written side by side, as
//!    the device's contract says.
//! 3. A holder waits only for those that came before it, so that none waits for ever and no
//!    two wait for each other.
//! 4. Without exclusive holders, taking and giving back a range takes constant time.

use std::cell::{Cell, RefCell};
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

#[derive(Clone, Copy, Debug)]
struct Range {
    ticket: u64,
    start: u64,
    end: u64,
    exclusive: bool,
}

impl Range {
    fn excludes(&self, other: &Range) -> bool {
        (self.exclusive || other.exclusive) && self.start < other.end && other.start < self.end
    }
}

/// Who changes which blocks of a device: see the module.
pub struct RangeLock {
    ranges: RefCell<Vec<Option<Range>>>,
    free: RefCell<Vec<usize>>,
    exclusive: Cell<usize>,
    tickets: Cell<u64>,
    given_back: WaitQueue,
}

impl RangeLock {
    /// Nobody holds anything.
    pub fn new(rt: &Rt) -> RangeLock {
        RangeLock {
            ranges: RefCell::default(),
            free: RefCell::default(),
            exclusive: Cell::new(0),
            tickets: Cell::new(0),
            given_back: WaitQueue::new(rt, "a range of blocks that is being changed"),
        }
    }

    /// Waits for the blocks from `start` to before `end`. They are given back when the guard
    /// drops; so they are if this future does.
    pub async fn take(&self, start: u64, end: u64, exclusive: bool) -> Held<'_> {
        let ticket = self.tickets.get();
        self.tickets.set(ticket + 1);
        let range = Range { ticket, start, end, exclusive };
        let held = Held { lock: self, place: self.enter(range) };
        if self.exclusive.get() > 0 {
            self.given_back.until(|| self.is_first(&range)).await;
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
                ranges.len() - 1
            }
        }
    }

    fn is_first(&self, range: &Range) -> bool {
        let ranges = self.ranges.borrow();
        !ranges.iter().flatten().any(|r| r.ticket < range.ticket && r.excludes(range))
    }
}

/// Blocks that somebody changes.
pub struct Held<'a> {
    lock: &'a RangeLock,
    place: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let lock = self.lock;
        let range = lock.ranges.borrow_mut()[self.place].take();
        lock.free.borrow_mut().push(self.place);
        if range.is_some_and(|r| r.exclusive) {
            lock.exclusive.set(lock.exclusive.get() - 1);
        }
        if !lock.given_back.is_empty() {
            lock.given_back.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tantalum_rt::{Nanos, Runtime};

    /// Runs holders of (start, end, exclusive), each for 10 ns, one begun each ns; when each had
    /// its range.
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
        // The last one waits for nobody: its blocks are others.
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
}
