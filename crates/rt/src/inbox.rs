//! Wakes that do not come from the runtime's own primitives: through
//! [`std::task::Waker`]s, from combinators on its thread or from other threads.
//!
//! 1. A wake is never lost. It is seen before the next poll, or it rings the bell of a runtime that
//!    waits or is about to wait.
//! 2. The bell is rung at most once each time the runtime falls asleep. It may ring late, when the
//!    runtime is awake again. Then a count is left in the bell, which ends a later wait early. That
//!    must not keep the runtime from hearing the next ring.
//! 3. A waker wakes the task that it was made for, and no other. Only a waker without clones goes
//!    from a task that has ended to a new one.
//! 4. The end of the last channel also rings the bell, though it wakes no task. The runtime then
//!    checks again whether there is anything left to wait for.

use crate::exec::TaskId;
use crate::slab::Key;
use crate::sys::{AtomicBool, AtomicU64, AtomicUsize, Bell, Mutex, Ordering, fence};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Both flags change by swaps alone. So each change sees the one before it, and everything that the
/// other thread did before that. A plain store could overwrite an announcement that nobody has
/// seen, and with it the end of a channel.
pub(crate) struct Inbox {
    /// There is a wake, or may be.
    any: AtomicBool,
    tasks: Mutex<Vec<TaskId>>,
    /// The runtime is asleep and looks here only when the bell rings.
    asleep: AtomicBool,
    /// On a clock that waits.
    bell: Option<Bell>,
    /// How many channels there are through which other threads may still post.
    channels: AtomicUsize,
}

impl Inbox {
    pub fn new(bell: Option<Bell>) -> Arc<Inbox> {
        Arc::new(Inbox {
            any: AtomicBool::new(false),
            tasks: Mutex::new(Vec::new()),
            asleep: AtomicBool::new(false),
            bell,
            channels: AtomicUsize::new(0),
        })
    }

    /// Whether there is a wake.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// All wakes.
    pub fn take(&self) -> Vec<TaskId> {
        self.any.swap(false, Ordering::AcqRel);
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(|e| e.into_inner()))
    }

    fn put(&self, task: TaskId) {
        self.tasks.lock().unwrap_or_else(|e| e.into_inner()).push(task);
        self.announce();
    }

    /// Announces a wake: the runtime sees it, or the bell rings.
    fn announce(&self) {
        self.any.swap(true, Ordering::AcqRel);
        // `fall_asleep` stores and loads the same two flags in the other order. With a fence
        // between store and load on both sides, at least one side sees the other's store.
        fence(Ordering::SeqCst);
        if let Some(bell) = &self.bell
            && self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
        {
            bell.ring();
        }
    }

    /// Rings like a thread that was about to ring when the runtime woke up by itself.
    #[cfg(test)]
    pub fn ring_late(&self) {
        self.bell.as_ref().expect("only on a clock that waits").ring();
    }

    /// From now on a wake rings the bell. If there is a wake already, it changes nothing and
    /// returns `false`.
    pub fn fall_asleep(&self) -> bool {
        self.asleep.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if self.any() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Wakes need not ring the bell any more.
    pub fn wake_up(&self) {
        self.asleep.swap(false, Ordering::AcqRel);
    }

    pub fn add_channel(&self) {
        self.channels.fetch_add(1, Ordering::AcqRel);
    }

    pub fn remove_channel(&self) {
        if self.channels.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.announce();
        }
    }

    /// Whether other threads may still post. If not, a later [`Inbox::any`] sees all their wakes;
    /// an earlier one may not have.
    pub fn has_channels(&self) -> bool {
        self.channels.load(Ordering::Acquire) > 0
    }
}

/// The waker with which a task is polled. Any holder of a clone can wake the task.
pub(crate) struct TaskWaker {
    waker: Waker,
    target: Arc<Target>,
}

/// The task, packed, and the inbox that is told of a wake.
struct Target {
    task: AtomicU64,
    inbox: Arc<Inbox>,
}

impl TaskWaker {
    pub fn new(task: TaskId, inbox: &Arc<Inbox>) -> TaskWaker {
        let target = Target { task: AtomicU64::new(packed(task)), inbox: inbox.clone() };
        let target = Arc::new(target);
        TaskWaker { waker: Waker::from(target.clone()), target }
    }

    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether there is no clone. Then the waker may be given to another task.
    pub fn is_free(&self) -> bool {
        let free = Arc::strong_count(&self.target) == 2;
        // Everything that the former holders of clones did happened before this, also in other
        // threads.
        fence(Ordering::Acquire);
        free
    }

    /// Gives a free one to another task.
    pub fn pass_to(&mut self, task: TaskId) {
        debug_assert!(self.is_free());
        self.target.task.store(packed(task), Ordering::Relaxed);
    }
}

fn packed(task: TaskId) -> u64 {
    u64::from(task.0.generation) << 32 | u64::from(task.0.slot)
}

impl Wake for Target {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let word = self.task.load(Ordering::Relaxed);
        let key = Key { slot: word as u32, generation: (word >> 32) as u32 };
        self.inbox.put(TaskId(key));
    }
}
