//! The executor: tasks, the ready queue, and the loop.

use crate::clock::{Clock, Idle, VirtualClock};
use crate::inbox::{Inbox, TaskWaker};
use crate::join::{Finisher, Join, JoinState};
#[cfg(not(feature = "wall"))]
use crate::nowhere::Outside;
use crate::rng::{Stream, mix64};
use crate::slab::{Key, Slab};
use crate::timer::{Sleep, Timers};
#[cfg(feature = "wall")]
use crate::wall::Outside;
use crate::{Domain, Nanos, RunError, Waiting};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Polls at one instant after which a run is taken to be in a busy loop.
const LIVELOCK_POLLS: u64 = 10_000_000;

/// The number of unused wakers that are kept for new tasks.
const SPARE_WAKERS: usize = 64;

/// A task: slot and generation (invariant 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) Key);

type BoxFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// `None` while the task is being polled.
    body: Option<(BoxFuture, TaskWaker)>,
    name: Cow<'static, str>,
    /// What the task last parked for.
    on: &'static str,
    foreground: bool,
    queued: bool,
}

struct DomainState {
    /// In the order of spawning. Ended tasks are removed now and then.
    tasks: Vec<TaskId>,
    weed_at: usize,
}

struct Inner {
    seed: u64,
    now: Cell<Nanos>,
    tasks: RefCell<Slab<Task>>,
    /// Wakers of tasks that have ended, for new tasks.
    wakers: RefCell<Vec<TaskWaker>>,
    domains: RefCell<Slab<DomainState>>,
    ready: RefCell<VecDeque<TaskId>>,
    timers: RefCell<Timers>,
    commands: RefCell<Slab<&'static str>>,
    current: Cell<Option<TaskId>>,
    foreground: Cell<usize>,
    trace: Cell<u64>,
    events: Cell<u64>,
    inbox: Arc<Inbox>,
    outside: Option<Rc<Outside>>,
    root: Cell<Option<Key>>,
}

/// The owner of a run: tasks, timers and clock. Dropping it drops every task.
///
/// ```
/// use tantalum_rt::{Nanos, Runtime};
///
/// let mut runtime = Runtime::virtual_time(7); // the seed decides all that is random
/// let rt = runtime.handle();
/// let hour = runtime.block_on(async move {
///     let own = rt.clone();
///     let sleeper = rt.spawn("sleeper", async move { own.sleep(Nanos::from_secs(3600)).await });
///     sleeper.await.unwrap();
///     rt.now()
/// });
/// assert_eq!(hour, Ok(Nanos::from_secs(3600))); // which took no time
/// ```
pub struct Runtime {
    rt: Rt,
    clock: Box<dyn Clock>,
}

/// A handle to a runtime, for its tasks and whatever lives on it. Cheap to clone.
#[derive(Clone)]
pub struct Rt {
    inner: Rc<Inner>,
}

impl Runtime {
    /// A runtime on the virtual clock, with this seed.
    pub fn virtual_time(seed: u64) -> Runtime {
        Runtime::with_clock(seed, Box::new(VirtualClock::default()))
    }

    /// A runtime on any clock.
    pub fn with_clock(seed: u64, clock: Box<dyn Clock>) -> Runtime {
        Runtime { rt: Rt::new(seed, clock.now(), Inbox::new(None), None), clock }
    }

    pub(crate) fn of(rt: Rt, clock: Box<dyn Clock>) -> Runtime {
        Runtime { rt, clock }
    }

    /// A handle for tasks.
    pub fn handle(&self) -> Rt {
        self.rt.clone()
    }

    /// Runs until `main` has its result. Other tasks stay where they are and go on
    /// in the next call.
    ///
    /// A task cannot call it on the runtime that runs the task, because running borrows the
    /// runtime.
    ///
    /// ```
    /// # use tantalum_rt::Runtime;
    /// let mut runtime = Runtime::virtual_time(1);
    /// let task = async move { 6 };
    /// assert_eq!(runtime.block_on(task).unwrap(), 6);
    /// ```
    /// ```compile_fail,E0382
    /// # use tantalum_rt::Runtime;
    /// let mut runtime = Runtime::virtual_time(1);
    /// let task = async move { runtime.block_on(async { 6 }).unwrap() };
    /// assert_eq!(runtime.block_on(task).unwrap(), 6);
    /// ```
    /// ```compile_fail,E0499
    /// # use tantalum_rt::Runtime;
    /// let mut runtime = Runtime::virtual_time(1);
    /// let again = &mut runtime;
    /// let task = async { again.block_on(async { 6 }).unwrap() };
    /// assert_eq!(runtime.block_on(task).unwrap(), 6);
    /// ```
    ///
    /// # Errors
    /// [`RunError`], if the result can never come.
    pub fn block_on<T: 'static>(
        &mut self,
        main: impl Future<Output = T> + 'static,
    ) -> Result<T, RunError> {
        let join = self.rt.spawn("main", main);
        self.run(|_| join.is_finished(), None)?;
        join.take().ok_or(RunError::Cancelled { at: self.rt.now() })
    }

    /// Runs until no foreground task and no announced command is left.
    ///
    /// # Errors
    /// [`RunError`], if that can never be.
    pub fn drain(&mut self) -> Result<(), RunError> {
        let done = |rt: &Rt| rt.inner.foreground.get() == 0 && !rt.has_commands();
        self.run(done, None)
    }

    /// Runs until the time is `at`. Timers due before `at` have fired; timers due at `at` have not.
    /// It returns at once if `at` is past.
    ///
    /// # Errors
    /// [`RunError::Livelock`]. That there is nothing to do is no error here.
    pub fn run_until(&mut self, at: Nanos) -> Result<(), RunError> {
        self.run(|rt| rt.now() >= at, Some(at))
    }

    fn run(&mut self, done: impl Fn(&Rt) -> bool, until: Option<Nanos>) -> Result<(), RunError> {
        let inner = &*self.rt.inner;
        let looks = self.clock.polls_between_looks().min(LIVELOCK_POLLS);
        let (mut polls, mut look) = (0u64, looks);
        loop {
            if inner.inbox.any() {
                self.rt.take_inbox();
            }
            let next = inner.ready.borrow_mut().pop_front();
            if let Some(task) = next {
                polls += 1;
                if polls > look {
                    if self.clock.look_outside() | self.rt.pass_to(self.clock.now()) {
                        polls = 0;
                    } else if polls > LIVELOCK_POLLS {
                        return Err(self.rt.livelock(task, polls));
                    }
                    look = (polls + looks).min(LIVELOCK_POLLS);
                    if done(&self.rt) {
                        inner.ready.borrow_mut().push_front(task);
                        return Ok(());
                    }
                }
                self.rt.poll(task);
                continue;
            }
            if done(&self.rt) {
                return Ok(());
            }
            let due = inner.timers.borrow_mut().fire(inner.now.get());
            if let Some(task) = due {
                self.rt.wake(task);
                continue;
            }
            let next = inner.timers.borrow_mut().next();
            let deadline = next.into_iter().chain(until).min();
            match self.clock.idle(deadline) {
                Idle::Nothing => return Err(self.rt.stalled()),
                Idle::Reached | Idle::Woken => {
                    let now = self.clock.now();
                    if now > inner.now.get() {
                        inner.now.set(now);
                        (polls, look) = (0, looks);
                    }
                }
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Tasks hold handles to the runtime that owns them: without this they
        // would keep each other alive.
        let domains: Vec<Key> = self.rt.inner.domains.borrow().iter().map(|(k, _)| k).collect();
        for domain in domains {
            self.rt.kill(domain);
        }
    }
}

impl Rt {
    pub(crate) fn new(
        seed: u64,
        now: Nanos,
        inbox: Arc<Inbox>,
        outside: Option<Rc<Outside>>,
    ) -> Rt {
        let inner = Rc::new(Inner {
            seed,
            now: Cell::new(now),
            tasks: RefCell::new(Slab::new()),
            wakers: RefCell::default(),
            domains: RefCell::new(Slab::new()),
            ready: RefCell::default(),
            timers: RefCell::new(Timers::new()),
            commands: RefCell::new(Slab::new()),
            current: Cell::new(None),
            foreground: Cell::new(0),
            trace: Cell::new(mix64(seed)),
            events: Cell::new(0),
            inbox,
            outside,
            root: Cell::new(None),
        });
        let rt = Rt { inner };
        let root = rt.domain();
        rt.inner.root.set(Some(root.key));
        rt
    }

    /// The time now.
    pub fn now(&self) -> Nanos {
        self.inner.now.get()
    }

    /// The seed of the run.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// The random stream called `name`. Two calls with one name give the same numbers.
    ///
    /// ```
    /// use tantalum_rt::Runtime;
    ///
    /// let draw = |seed, name| Runtime::virtual_time(seed).handle().stream(name).next_u64();
    /// assert_eq!(draw(1, "wear"), draw(1, "wear"));
    /// assert_ne!(draw(1, "wear"), draw(1, "load"));
    /// assert_ne!(draw(1, "wear"), draw(2, "wear"));
    /// ```
    pub fn stream(&self, name: &str) -> Stream {
        Stream::new(self.inner.seed, name)
    }

    /// Waits for `span`. Await it in the task that created it.
    pub fn sleep(&self, span: Nanos) -> Sleep {
        self.sleep_until(self.now().saturating_add(span))
    }

    /// Waits until `at`; at once if that is past.
    pub fn sleep_until(&self, at: Nanos) -> Sleep {
        Sleep::new(self.clone(), at, "a timer")
    }

    /// Like [`Rt::sleep_until`], with a reason for the list of a stalled run.
    pub fn sleep_until_for(&self, at: Nanos, why: &'static str) -> Sleep {
        Sleep::new(self.clone(), at, why)
    }

    /// Lets every other ready task run first.
    pub fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        let rt = self.clone();
        let mut yielded = false;
        std::future::poll_fn(move |_| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            let task = rt.park("its turn");
            rt.wake(task);
            Poll::Pending
        })
    }

    /// Spawns a foreground task outside all power domains.
    pub fn spawn<T: 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: impl Future<Output = T> + 'static,
    ) -> Join<T> {
        self.root().spawn(name, future)
    }

    /// Spawns a background task outside all power domains.
    pub fn spawn_background<T: 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: impl Future<Output = T> + 'static,
    ) -> Join<T> {
        self.root().spawn_background(name, future)
    }

    /// The domain of tasks outside all power domains. It lives as long as the runtime.
    pub fn root(&self) -> Domain {
        let key = self.inner.root.get().expect("set when the runtime was made");
        Domain { rt: self.clone(), key }
    }

    /// A new, empty power domain.
    pub fn domain(&self) -> Domain {
        let state = DomainState { tasks: Vec::new(), weed_at: 64 };
        let key = self.inner.domains.borrow_mut().insert(state);
        Domain { rt: self.clone(), key }
    }

    /// Announces a command. The run does not end before the guard drops. If the run stalls
    /// meanwhile, the command is listed as `what`.
    pub fn outstanding(&self, what: &'static str) -> Outstanding {
        let key = self.inner.commands.borrow_mut().insert(what);
        Outstanding { rt: self.clone(), key }
    }

    /// Mixes a word into the hash of the run.
    pub fn trace(&self, word: u64) {
        let h = self.inner.trace.get();
        self.inner.trace.set((h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    }

    /// The hash of all that has happened: polls, times, and traced words.
    pub fn trace_hash(&self) -> u64 {
        mix64(self.inner.trace.get())
    }

    /// How many polls there have been.
    pub fn events(&self) -> u64 {
        self.inner.events.get()
    }

    /// The running task, to be given to [`Rt::wake`] later.
    ///
    /// # Panics
    /// If called outside a task of this runtime.
    pub fn current(&self) -> TaskId {
        self.inner.current.get().expect("awaited outside a task of this runtime")
    }

    /// For synchronization primitives: notes what the running task is about to wait for, and
    /// returns the task, for [`Rt::wake`].
    ///
    /// # Panics
    /// If called outside a task of this runtime.
    pub fn park(&self, on: &'static str) -> TaskId {
        let task = self.current();
        if let Some(t) = self.inner.tasks.borrow_mut().get_mut(task.0) {
            t.on = on;
        }
        task
    }

    /// Makes a task ready, at the end of the queue. Nothing happens if it is ready
    /// already or has ended.
    pub fn wake(&self, task: TaskId) {
        if let Some(t) = self.inner.tasks.borrow_mut().get_mut(task.0)
            && !t.queued
        {
            t.queued = true;
            self.inner.ready.borrow_mut().push_back(task);
        }
    }

    pub(crate) fn set_timer(&self, at: Nanos, task: TaskId) -> Key {
        self.inner.timers.borrow_mut().set(at, task)
    }

    pub(crate) fn timer_is_set(&self, key: Key) -> bool {
        self.inner.timers.borrow().is_set(key)
    }

    pub(crate) fn cancel_timer(&self, key: Key) {
        self.inner.timers.borrow_mut().cancel(key);
    }

    pub(crate) fn domain_alive(&self, key: Key) -> bool {
        self.inner.domains.borrow().get(key).is_some()
    }

    pub(crate) fn spawn_in<T: 'static>(
        &self,
        domain: Key,
        name: impl Into<Cow<'static, str>>,
        foreground: bool,
        future: impl Future<Output = T> + 'static,
    ) -> Join<T> {
        let state = Rc::new(RefCell::new(JoinState::Running(None)));
        let finisher = Finisher { rt: self.clone(), state: state.clone() };
        let join = Join { rt: self.clone(), state };
        if !self.domain_alive(domain) {
            return join; // The finisher drops here and reports it.
        }
        let body = async move {
            let value = future.await;
            finisher.finish(value);
        };
        self.enter(domain, name.into(), foreground, Box::pin(body));
        join
    }

    /// Puts a task into a domain that is alive. (Apart, as [`Rt::spawn_in`] is compiled for each kind
    /// of future.)
    fn enter(&self, domain: Key, name: Cow<'static, str>, foreground: bool, body: BoxFuture) {
        let mut tasks = self.inner.tasks.borrow_mut();
        let id = TaskId(tasks.next_key());
        let waker = self.waker(id);
        tasks.insert(Task {
            body: Some((body, waker)),
            name,
            on: "its first turn",
            foreground,
            queued: true,
        });
        if foreground {
            self.inner.foreground.set(self.inner.foreground.get() + 1);
        }
        self.inner.ready.borrow_mut().push_back(id);
        let mut domains = self.inner.domains.borrow_mut();
        if let Some(d) = domains.get_mut(domain) {
            d.tasks.push(id);
            if d.tasks.len() >= d.weed_at {
                d.tasks.retain(|t| tasks.get(t.0).is_some());
                d.weed_at = (d.tasks.len() * 2).max(64);
            }
        }
    }

    pub(crate) fn kill(&self, domain: Key) {
        let Some(state) = self.inner.domains.borrow_mut().remove(domain) else { return };
        for task in state.tasks {
            // The borrow must end before the future drops: it may wake and spawn.
            let ended = self.end(task);
            drop(ended);
        }
    }

    fn end(&self, task: TaskId) -> Option<Task> {
        let ended = self.inner.tasks.borrow_mut().remove(task.0);
        if ended.as_ref().is_some_and(|t| t.foreground) {
            self.inner.foreground.set(self.inner.foreground.get() - 1);
        }
        ended
    }

    /// A waker for a new task.
    fn waker(&self, task: TaskId) -> TaskWaker {
        match self.inner.wakers.borrow_mut().pop() {
            Some(mut waker) => {
                waker.pass_to(task);
                waker
            }
            None => TaskWaker::new(task, &self.inner.inbox),
        }
    }

    fn keep(&self, waker: TaskWaker) {
        let mut wakers = self.inner.wakers.borrow_mut();
        if wakers.len() < SPARE_WAKERS && waker.is_free() {
            wakers.push(waker);
        }
    }

    fn poll(&self, task: TaskId) {
        let inner = &*self.inner;
        let body = inner.tasks.borrow_mut().get_mut(task.0).and_then(|t| {
            t.queued = false;
            t.body.take()
        });
        let Some((mut future, waker)) = body else { return };
        inner.events.set(inner.events.get() + 1);
        let word = inner.now.get().0 ^ (u64::from(task.0.slot) << 44);
        self.trace(word ^ u64::from(task.0.generation).rotate_right(20));
        inner.current.set(Some(task));
        let poll = future.as_mut().poll(&mut Context::from_waker(waker.waker()));
        inner.current.set(None);
        match poll {
            Poll::Ready(()) => {
                drop(self.end(task));
                self.keep(waker);
            }
            Poll::Pending => {
                if let Some(t) = inner.tasks.borrow_mut().get_mut(task.0) {
                    t.body = Some((future, waker));
                }
                // Otherwise its domain was killed during the poll, and the future drops here.
            }
        }
    }

    fn take_inbox(&self) {
        for task in self.inner.inbox.take() {
            self.wake(task);
        }
    }

    /// For a clock that moves while tasks are ready: fires all timers due at `now`. Returns whether
    /// there were any.
    fn pass_to(&self, now: Nanos) -> bool {
        self.inner.now.set(now.max(self.now()));
        let mut any = false;
        loop {
            let due = self.inner.timers.borrow_mut().fire(self.now());
            let Some(task) = due else { return any };
            self.wake(task);
            any = true;
        }
    }

    fn livelock(&self, task: TaskId, polls: u64) -> RunError {
        let tasks = self.inner.tasks.borrow();
        let task = tasks.get(task.0).map(|t| t.name.to_string()).unwrap_or_default();
        RunError::Livelock { at: self.now(), task, polls }
    }

    /// Whether a command is announced.
    pub(crate) fn has_commands(&self) -> bool {
        self.inner.commands.borrow().len() > 0
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inner.inbox
    }

    pub(crate) fn outside(&self) -> Option<&Rc<Outside>> {
        self.inner.outside.as_ref()
    }

    fn stalled(&self) -> RunError {
        let tasks = self.inner.tasks.borrow();
        let mut waiting: Vec<Waiting> = tasks
            .iter()
            .filter(|(_, t)| t.foreground)
            .map(|(_, t)| Waiting { name: t.name.to_string(), on: t.on })
            .collect();
        for (_, what) in self.inner.commands.borrow().iter() {
            waiting.push(Waiting { name: (*what).to_string(), on: "its completion" });
        }
        RunError::Stalled { at: self.now(), waiting }
    }

    /// The number of slots for tasks, domains, timers and operations. It is the most that the run
    /// has needed at one time, so it shows leaks.
    pub fn footprint(&self) -> usize {
        let timers = self.inner.timers.borrow().footprint();
        let outside = self.outside().map_or(0, |o| o.footprint());
        let tasks = self.inner.tasks.borrow().capacity();
        tasks + self.inner.domains.borrow().capacity() + timers + outside
    }
}

/// See [`Rt::outstanding`].
pub struct Outstanding {
    rt: Rt,
    key: Key,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.rt.inner.commands.borrow_mut().remove(self.key);
    }
}
