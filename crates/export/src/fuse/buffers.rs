//! Buffers for requests of the kernel.
//!
//! 1. **At least one.** The first buffer is there from the start. If the system has no memory for
//!    another one, the next request stays in the kernel until a buffer in use comes back.
//! 2. **No more than needed.** Buffers that were not used for [`PERIOD`] go back to the system,
//!    except one.

use crate::budget::NoMemory;
use crate::nbd::pause;
use std::cell::{Cell, RefCell};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt};

/// Real time for which an unused buffer is kept.
const PERIOD: Nanos = Nanos::from_secs(1);

/// See the module.
pub(super) struct Buffers {
    rt: Rt,
    make: fn() -> Result<Vec<u8>, NoMemory>,
    spare: RefCell<Vec<Vec<u8>>>,
    /// The smallest number of spare buffers since [`Buffers::trim`] last looked.
    fewest: Cell<usize>,
    /// Notified when there is a spare buffer again.
    returned: WaitQueue,
    /// Notified when there is more than one spare buffer, and at the end.
    grown: WaitQueue,
    over: Cell<bool>,
}

impl Buffers {
    /// Starts with the buffer `first`. `make` makes more.
    pub fn new(rt: &Rt, first: Vec<u8>, make: fn() -> Result<Vec<u8>, NoMemory>) -> Buffers {
        Buffers {
            rt: rt.clone(),
            make,
            spare: RefCell::new(vec![first]),
            fewest: Cell::new(0),
            returned: WaitQueue::new(rt, "a buffer that a request uses"),
            grown: WaitQueue::new(rt, "buffers that are not needed"),
            over: Cell::new(false),
        }
    }

    /// A buffer. `None` if all are in use and the system has no memory: then wait for one to come
    /// back ([`Buffers::returns`]).
    pub fn get(&self) -> Option<Vec<u8>> {
        let mut spare = self.spare.borrow_mut();
        let buffer = spare.pop();
        self.fewest.set(self.fewest.get().min(spare.len()));
        buffer.or_else(|| (self.make)().ok())
    }

    /// Waits for a buffer that is in use.
    pub async fn returns(&self) {
        self.returned.until(|| !self.spare.borrow().is_empty()).await;
    }

    /// Takes back a buffer.
    pub fn put(&self, buffer: Vec<u8>) {
        if self.over.get() {
            return;
        }
        let spare = {
            let mut spare = self.spare.borrow_mut();
            spare.push(buffer);
            spare.len()
        };
        match spare {
            1 => self.returned.notify_all(),
            2 => self.grown.notify_all(),
            _ => {}
        }
    }

    /// Gives unneeded buffers back to the system, until the end.
    pub async fn trim(&self) {
        loop {
            self.grown.until(|| self.over.get() || self.spare.borrow().len() > 1).await;
            self.fewest.set(self.spare.borrow().len());
            pause(&self.rt, PERIOD).await;
            if self.over.get() {
                return;
            }
            let mut spare = self.spare.borrow_mut();
            let unneeded = self.fewest.get().min(spare.len().saturating_sub(1));
            // Buffers at the front were unused for longest.
            spare.drain(..unneeded);
        }
    }

    /// The end: no buffer is kept from now on.
    pub fn close(&self) {
        self.over.set(true);
        self.spare.take();
        self.grown.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::zeroed;
    use std::rc::Rc;
    use tantalum_rt::Runtime;

    fn count(buffers: &Buffers) -> usize {
        buffers.spare.borrow().len()
    }

    /// 2: buffers of a burst go back, and buffers that are used regularly stay.
    #[test]
    fn what_nobody_needs_goes_back() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let done = runtime.block_on(async move {
            let buffers = Rc::new(Buffers::new(&rt, vec![0; 16], || zeroed(16)));
            let trimmed = buffers.clone();
            let trim = rt.spawn("trim", async move { trimmed.trim().await });
            let burst: Vec<_> = (0..100).map(|_| buffers.get().expect("memory")).collect();
            burst.into_iter().for_each(|buffer| buffers.put(buffer));
            assert_eq!(count(&buffers), 100);
            // Eight at a time are used every 100 ms.
            for _ in 0..100 {
                let some: Vec<_> = (0..8).map(|_| buffers.get().expect("memory")).collect();
                some.into_iter().for_each(|buffer| buffers.put(buffer));
                rt.sleep(Nanos::from_millis(100)).await;
            }
            assert_eq!(count(&buffers), 8);
            rt.sleep(Nanos::from_secs(5)).await;
            assert_eq!(count(&buffers), 1);
            buffers.close();
            trim.await.expect("it ends");
        });
        done.expect("it runs");
    }

    /// 1: without memory there is one buffer, and a request that needs a second one waits.
    #[test]
    fn one_is_there_without_memory() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let done = runtime.block_on(async move {
            let buffers = Rc::new(Buffers::new(&rt, vec![7; 16], || Err(NoMemory)));
            let first = buffers.get().expect("the first");
            assert!(buffers.get().is_none());
            let (later, again) = (rt.clone(), buffers.clone());
            rt.spawn_background("a request", async move {
                later.sleep(Nanos::from_millis(1)).await;
                again.put(first);
            });
            buffers.returns().await;
            assert_eq!(buffers.get(), Some(vec![7; 16]));
        });
        done.expect("it runs");
    }
}
