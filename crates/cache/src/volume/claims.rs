//! Whose turn it is: commands claim the pages that they touch.
//!
//! 1. A claim is granted when no earlier claim that is still held or waited for overlaps it. So
//!    commands that overlap go in the order in which they came, and none waits for ever.
//! 2. Shared claims do not exclude each other.
//! 3. A claim ends when it is dropped, granted or not.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

pub(crate) struct Claims {
    /// In the order in which they came.
    all: RefCell<Vec<Entry>>,
    next: Cell<u64>,
    ended: WaitQueue,
}

struct Entry {
    number: u64,
    pages: Range<u64>,
    shared: bool,
}

/// Pages that nobody changes meanwhile, and, if it is not shared, nobody reads.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    number: u64,
}

impl Claims {
    pub fn new(rt: &Rt) -> Claims {
        let ended = WaitQueue::new(rt, "other commands on the same pages of a cache volume");
        Claims { all: RefCell::default(), next: Cell::new(0), ended }
    }

    /// Claims pages for changing them.
    pub async fn change(&self, pages: Range<u64>) -> Claim<'_> {
        self.claim(pages, false).await
    }

    /// Claims pages for reading them.
    pub async fn share(&self, pages: Range<u64>) -> Claim<'_> {
        self.claim(pages, true).await
    }

    async fn claim(&self, pages: Range<u64>, shared: bool) -> Claim<'_> {
        let number = self.next.replace(self.next.get() + 1);
        self.all.borrow_mut().push(Entry { number, pages: pages.clone(), shared });
        let claim = Claim { claims: self, number };
        let excludes = |e: &Entry| {
            let overlap = e.pages.start < pages.end && pages.start < e.pages.end;
            overlap && !(shared && e.shared)
        };
        let is_granted =
            || !self.all.borrow().iter().take_while(|e| e.number < number).any(excludes);
        self.ended.until(is_granted).await;
        claim
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.all.borrow_mut().retain(|e| e.number != self.number);
        self.claims.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tantalum_rt::{Nanos, Runtime};

    #[test]
    fn overlapping_claims_go_in_their_order_and_shared_ones_side_by_side() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let order = runtime.block_on(async move {
            let claims = Rc::new(Claims::new(&rt));
            let order = Rc::new(RefCell::new(Vec::new()));
            let all = [(0..2, true), (1..3, true), (2..4, false), (0..3, true), (5..6, false)];
            let tasks: Vec<_> = (0u64..)
                .zip(all)
                .map(|(i, (pages, shared))| {
                    let (rt, claims, order) = (rt.clone(), claims.clone(), order.clone());
                    rt.clone().spawn("a command", async move {
                        let _claim = claims.claim(pages, shared).await;
                        rt.sleep(Nanos::from_micros(10)).await;
                        order.borrow_mut().push((i, rt.now().0 / 1000));
                    })
                })
                .collect();
            // One that is given up while it waits excludes nobody.
            drop(tantalum_rt::first(claims.change(0..9), rt.sleep(Nanos(1))).await);
            for task in tasks {
                task.await.unwrap();
            }
            assert!(claims.all.borrow().is_empty());
            order.take()
        });
        assert_eq!(order.unwrap(), [(0, 10), (1, 10), (4, 10), (2, 20), (3, 30)]);
    }
}
