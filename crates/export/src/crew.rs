//! Workers that carry out requests of a client or of the kernel.
//!
//! 1. **Order.** Jobs begin in the order in which they were handed in. One worker carries out each
//!    job.
//! 2. **Workers.** A job that finds no waiting worker starts a new one, up to the limit of requests
//!    in flight. Workers stay until the end. A client that waits for each answer needs one worker.
//! 3. **In flight.** A request is in flight from when it is counted ([`Crew::admit`],
//!    [`Crew::count`]) until its owner calls [`Crew::ease`]. That may be after the end of its job,
//!    when the answer is sent. A request that is answered without a job counts too.
//! 4. **Limits.** [`Crew::room`] waits until the request fits within the limits of requests and
//!    bytes. A request always fits if no other one is in flight. A caller that gives up waiting has
//!    taken nothing.
//! 5. **The end** ([`Crew::end`]) drops no job: all jobs that were handed in are carried out, then
//!    the workers end.
//! 6. **Cost.** Once there are enough workers, a job costs no allocation and no new task. A worker
//!    begins its next job in the same poll in which it ended the last one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// Requests in flight, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub requests: u32,
    pub bytes: u64,
}

impl Load {
    /// One request of this many bytes.
    pub fn one(bytes: u64) -> Load {
        Load { requests: 1, bytes }
    }

    pub fn plus(self, other: Load) -> Load {
        Load { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }

    pub fn minus(self, other: Load) -> Load {
        Load { requests: self.requests - other.requests, bytes: self.bytes - other.bytes }
    }
}

/// See the module.
pub(crate) struct Crew<J> {
    rt: Rt,
    /// The name of the workers' tasks, and of the queue in which they wait.
    name: &'static str,
    limit: Load,
    jobs: RefCell<VecDeque<J>>,
    ready: WaitQueue,
    workers: Cell<u32>,
    load: Cell<Load>,
    eased: WaitQueue,
    over: Cell<bool>,
}

impl<J> Crew<J> {
    /// A crew without workers yet, whose tasks are called `name`. At most `limit` is in flight.
    pub fn new(rt: &Rt, name: &'static str, limit: Load) -> Crew<J> {
        Crew {
            rt: rt.clone(),
            name,
            limit,
            jobs: RefCell::default(),
            ready: WaitQueue::new(rt, name),
            workers: Cell::new(0),
            load: Cell::default(),
            eased: WaitQueue::new(rt, "requests in flight"),
            over: Cell::new(false),
        }
    }

    /// Waits until `more` fits within the limits. It is free for a caller that counts it before its
    /// next await.
    pub async fn room(&self, more: Load) {
        let fits = || {
            let load = self.load.get().plus(more);
            // A request that is alone always fits.
            load.requests <= 1
                || load.requests <= self.limit.requests && load.bytes <= self.limit.bytes
        };
        self.eased.until(fits).await;
    }

    /// Counts `more` as in flight.
    pub fn count(&self, more: Load) {
        self.load.set(self.load.get().plus(more));
    }

    /// Waits until `more` fits within the limits, and counts it.
    pub async fn admit(&self, more: Load) {
        self.room(more).await;
        self.count(more);
    }

    /// `by` is no longer in flight.
    pub fn ease(&self, by: Load) {
        self.load.set(self.load.get().minus(by));
        self.eased.notify_all();
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.load.get().requests == 0
    }

    /// Waits until nothing is in flight.
    pub async fn idle(&self) {
        self.eased.until(|| self.is_idle()).await;
    }

    /// Hands in a job. `worker` makes a worker, which carries out all jobs that [`Crew::next`]
    /// gives it.
    pub fn hand_in<W>(&self, job: J, worker: impl FnOnce() -> W)
    where
        W: Future<Output = ()> + 'static,
    {
        debug_assert!(!self.over.get());
        self.jobs.borrow_mut().push_back(job);
        if !self.ready.notify_one() && self.workers.get() < self.limit.requests {
            self.workers.set(self.workers.get() + 1);
            self.rt.spawn_background(self.name, worker());
        }
    }

    /// For a worker: the next job, or `None` at the end.
    pub async fn next(&self) -> Option<J> {
        loop {
            let job = self.jobs.borrow_mut().pop_front();
            match job {
                None if !self.over.get() => self.ready.wait().await,
                job => return job,
            }
        }
    }

    /// No more jobs come.
    pub fn end(&self) {
        self.over.set(true);
        self.ready.notify_all();
    }

    /// Whether no more jobs will come.
    pub fn is_over(&self) -> bool {
        self.over.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tantalum_device::{Block, BlockDevice, Caps, Durability, Payload, PowerCycle};
    use tantalum_device::{Data, IoError, RamDevice, RamOptions};
    use tantalum_rt::{First, Nanos, Runtime, first};

    struct Job {
        number: u64,
        takes: Nanos,
        cost: Load,
    }

    /// A crew whose jobs only sleep.
    struct Shop {
        rt: Rt,
        crew: Crew<Job>,
        /// The jobs that have begun, and when.
        begun: RefCell<Vec<(u64, u64)>>,
        ended: Cell<u64>,
        /// The most that was in flight at a time.
        most: Cell<Load>,
    }

    impl Shop {
        fn new(rt: &Rt, requests: u32, bytes: u64) -> Rc<Shop> {
            Rc::new(Shop {
                rt: rt.clone(),
                crew: Crew::new(rt, "a job", Load { requests, bytes }),
                begun: RefCell::default(),
                ended: Cell::new(0),
                most: Cell::default(),
            })
        }

        async fn work(self: Rc<Self>) {
            while let Some(job) = self.crew.next().await {
                self.begun.borrow_mut().push((job.number, self.rt.now().0));
                self.rt.sleep(job.takes).await;
                self.ended.set(self.ended.get() + 1);
                self.crew.ease(job.cost);
            }
        }

        fn hand_in(self: &Rc<Self>, number: u64, takes: u64, cost: Load) {
            self.crew.hand_in(Job { number, takes: Nanos(takes), cost }, || self.clone().work());
        }

        async fn ask(self: &Rc<Self>, number: u64, takes: u64, bytes: u64) {
            let cost = Load::one(bytes);
            self.crew.admit(cost).await;
            let (load, most) = (self.crew.load.get(), self.most.get());
            let requests = most.requests.max(load.requests);
            // The byte limit does not bind a request that is alone.
            let bytes = if load.requests > 1 { most.bytes.max(load.bytes) } else { most.bytes };
            self.most.set(Load { requests, bytes });
            self.hand_in(number, takes, cost);
        }

        fn begun(&self) -> Vec<(u64, u64)> {
            self.begun.borrow().clone()
        }
    }

    fn run<F: Future<Output = ()> + 'static>(body: impl FnOnce(Rt) -> F) {
        let mut runtime = Runtime::virtual_time(1);
        let body = body(runtime.handle());
        runtime.block_on(body).expect("it runs");
    }

    #[test]
    fn there_are_as_many_workers_as_were_needed_at_a_time() {
        run(|rt| async move {
            let shop = Shop::new(&rt, 8, 1000);
            for i in 0..5 {
                shop.ask(i, 10, 1).await;
                rt.sleep(Nanos(10)).await;
                shop.crew.idle().await;
            }
            assert_eq!(shop.crew.workers.get(), 1);
            for i in 5..8 {
                shop.ask(i, 10, 1).await;
            }
            shop.crew.idle().await;
            assert_eq!(shop.crew.workers.get(), 3);
            // The three workers are reused.
            for i in 8..11 {
                shop.ask(i, 10, 1).await;
            }
            shop.crew.idle().await;
            assert_eq!(shop.crew.workers.get(), 3);
            let numbers: Vec<u64> = shop.begun().iter().map(|b| b.0).collect();
            assert_eq!(numbers, (0..11).collect::<Vec<_>>());
            assert_eq!(rt.now(), Nanos(70));
        });
    }

    #[test]
    fn who_asks_for_more_than_may_be_in_flight_waits() {
        run(|rt| async move {
            let shop = Shop::new(&rt, 3, 100);
            // Four requests; 30 + 80 bytes; one request above the byte limit, and one behind it.
            let asked = [(10, 1), (20, 1), (30, 1), (40, 30), (10, 80), (10, 500), (10, 1)];
            for (i, (takes, bytes)) in (0..).zip(asked) {
                shop.ask(i, takes, bytes).await;
            }
            shop.crew.idle().await;
            let begun = [(0, 0), (1, 0), (2, 0), (3, 10), (4, 50), (5, 60), (6, 70)];
            assert_eq!(shop.begun(), begun);
            assert_eq!(shop.crew.load.get(), Load::default());
        });
    }

    #[test]
    fn whatever_is_asked_limits_and_order_hold() {
        for seed in 0..50 {
            let mut runtime = Runtime::virtual_time(seed);
            let rt = runtime.handle();
            let shop = Shop::new(&rt, 1 + seed as u32 % 7, 50 + 10 * seed);
            let (clerk, mut random) = (shop.clone(), rt.stream("jobs"));
            let done = runtime.block_on(async move {
                for i in 0..200 {
                    if random.chance(1, 4) {
                        clerk.rt.sleep(Nanos(random.below(40))).await;
                    }
                    clerk.ask(i, random.below(30), random.below(60 + 10 * seed)).await;
                }
                clerk.crew.end();
                clerk.crew.idle().await;
            });
            done.expect("it runs");
            let numbers: Vec<u64> = shop.begun().iter().map(|b| b.0).collect();
            assert_eq!(numbers, (0..200).collect::<Vec<_>>());
            let (most, limit) = (shop.most.get(), shop.crew.limit);
            assert!(most.requests <= limit.requests && most.bytes <= limit.bytes, "{most:?}");
            assert!(shop.crew.workers.get() <= limit.requests);
            assert_eq!(shop.crew.load.get(), Load::default());
        }
    }

    #[test]
    fn a_request_is_in_flight_until_its_owner_says_so() {
        run(|rt| async move {
            let shop = Shop::new(&rt, 1, 100);
            // The end of a job without cost frees nothing. A request also needs no job of its own.
            shop.crew.admit(Load::one(7)).await;
            shop.hand_in(0, 10, Load::default());
            let waited = first(shop.crew.room(Load::one(1)), rt.sleep(Nanos(50))).await;
            assert_eq!((waited, shop.ended.get()), (First::B(()), 1));
            assert!(!shop.crew.is_idle());
            shop.crew.ease(Load::one(7));
            assert!(shop.crew.is_idle());
            shop.ask(1, 10, 1).await;
            assert_eq!(rt.now(), Nanos(50));
        });
    }

    #[test]
    fn who_gives_up_waiting_has_taken_nothing_and_holds_up_nobody() {
        run(|rt| async move {
            let shop = Shop::new(&rt, 1, 100);
            shop.ask(0, 20, 1).await;
            let waiter = shop.clone();
            let other = rt.spawn("another", async move { waiter.ask(1, 20, 1).await });
            let waited = first(shop.crew.admit(Load::one(1)), rt.sleep(Nanos(10))).await;
            assert_eq!(waited, First::B(()));
            assert_eq!(shop.crew.load.get(), Load::one(1));
            other.await.expect("it has its turn");
            assert_eq!(rt.now(), Nanos(20));
            shop.crew.idle().await;
            assert_eq!(shop.begun(), [(0, 0), (1, 20)]);
        });
    }

    #[test]
    fn the_end_drops_no_job_and_keeps_no_worker() {
        run(|rt| async move {
            let shop = Shop::new(&rt, 2, 100);
            // Two are under way and three wait. They have no cost, so the limit does not stop them.
            for i in 0..5 {
                shop.hand_in(i, 10, Load::default());
            }
            rt.sleep(Nanos(5)).await;
            assert_eq!((shop.begun().len(), shop.crew.workers.get()), (2, 2));
            shop.crew.end();
            assert!(shop.crew.is_over());
            rt.sleep(Nanos(100)).await;
            assert_eq!(shop.begun(), [(0, 0), (1, 0), (2, 10), (3, 10), (4, 20)]);
            assert_eq!((shop.ended.get(), Rc::strong_count(&shop)), (5, 1));
            // Some workers wait for jobs, and some were not polled yet.
            let shop = Shop::new(&rt, 4, 100);
            shop.ask(0, 10, 1).await;
            shop.crew.idle().await;
            shop.ask(1, 10, 1).await;
            shop.ask(2, 10, 1).await;
            shop.crew.end();
            shop.crew.idle().await;
            rt.yield_now().await;
            assert_eq!((shop.ended.get(), Rc::strong_count(&shop)), (3, 1));
        });
    }

    /// The number of a write, when it ended, and its result.
    type Done = (u64, u64, Result<(), IoError>);

    /// A crew whose jobs are writes to a device, and their results.
    struct Writes {
        rt: Rt,
        crew: Crew<(u64, RamDevice)>,
        done: RefCell<Vec<Done>>,
    }

    impl Writes {
        async fn work(self: Rc<Self>) {
            while let Some((number, link)) = self.crew.next().await {
                let wrote = link.write(Block(number), Data::Stamps(&[1]), Durability::Normal).await;
                self.done.borrow_mut().push((number, self.rt.now().0, wrote));
                self.crew.ease(Load::one(1));
            }
        }
    }

    #[test]
    fn jobs_that_a_cut_fails_end_and_later_ones_are_carried_out() {
        run(|rt| async move {
            let caps = Caps::power_safe(64, Payload::Stamps);
            let options = RamOptions { command: Nanos(100), ..RamOptions::new(caps) };
            let device = RamDevice::new(&rt, options);
            device.power_on().await.expect("power");
            let crew = Crew::new(&rt, "a write", Load { requests: 3, bytes: 100 });
            let (shared, done) = (rt.clone(), RefCell::default());
            let shop = Rc::new(Writes { rt: shared, crew, done });
            let asker = |numbers: std::ops::Range<u64>| {
                let (shop, link) = (shop.clone(), device.device());
                rt.spawn("who asks", async move {
                    for i in numbers {
                        shop.crew.admit(Load::one(1)).await;
                        shop.crew.hand_in((i, link.clone()), || shop.clone().work());
                    }
                })
            };
            // Three writes are done, three are under way, and two wait for room.
            let asked = asker(0..8);
            rt.sleep(Nanos(150)).await;
            device.cut();
            asked.await.expect("all are taken");
            shop.crew.idle().await;
            device.power_on().await.expect("power");
            let again = rt.now().0 + 100;
            asker(8..10).await.expect("all are taken");
            shop.crew.idle().await;
            let lost = |number| (number, 150, Err(IoError::PowerLost));
            let mut is: Vec<_> = (0..3).map(|number| (number, 100, Ok(()))).collect();
            is.extend((3..8).map(lost));
            is.extend((8..10).map(|number| (number, again, Ok(()))));
            assert_eq!(*shop.done.borrow(), is);
            assert_eq!((shop.crew.load.get(), shop.crew.workers.get()), (Load::default(), 3));
        });
    }
}
