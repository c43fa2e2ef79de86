//! Wakes that do not come from the runtime's own primitives: through
//! [`std::task::Waker`]s, from combinators on its thread or from other threads.
//!
//! 1. A wake is never lost: it is seen before the next poll, or it rings the bell of a
//!    runtime that waits (or is about to).
//! 2. The bell is rung at most once for each time that the runtime falls asleep. It may ring
//!    late, when the runtime is awake again: then a count is left in it, which ends a later
//!    wait early and must not keep the runtime from hearing the next ring.
//! 3. A waker wakes the task that it was made for, and no other: one that goes from a task that
//!    has ended to a new one has no clones.
//! 4. The end of the last channel is a wake, too, of no task: a runtime that waited for its
//!    letters looks again whether there is anything to wait for.

use crate::exec::TaskId;
use crate::slab::Key;
use crate::sys::{AtomicBool, AtomicU64, AtomicUsize, Bell, Mutex, Ordering, fence};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Both flags change by swaps alone: each change sees the one before it, and with it all that
/// its thread did before. A mere store could cover up an announcement unseen, and with it the end
/// of a channel.
pub(crate) struct Inbox {
    /// There is a wake, or may be.
    any: AtomicBool,
    tasks: Mutex<Vec<TaskId>>,
    /// The runtime waits for what comes from outside, and looks here only when the bell
    /// rings.
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

    /// There is a wake: the runtime sees it, or the bell rings.
    fn announce(&self) {
        self.any.swap(true, Ordering::AcqRel);
        // What is stored above and loaded below, against the same in `fall_asleep`: with a fence
        // between the two on both sides, one of the sides sees the other.
        fence(Ordering::SeqCst);
        if let Some(bell) = &self.bell
            && self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
        {
            bell.ring();
        }
    }

    /// Rings as a thread does that was about to ring when the runtime woke up by itself.
    #[cfg(test)]
    pub fn ring_late(&self) {
        self.bell.as_ref().expect("only on a clock that waits").ring();
    }

    /// From now on a wake rings the bell. `false`, and nothing, if there is a wake.
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

    /// Whether other threads may still post. If not, all their wakes are seen by an
    /// [`Inbox::any`] that comes after this, and not by one before it.
    pub fn has_channels(&self) -> bool {
        self.channels.load(Ordering::Acquire) > 0
    }
}

/// What a task is polled with: whoever has a clone of the waker wakes the task.
pub(crate) struct TaskWaker {
    waker: Waker,
    target: Arc<Target>,
}

/// Which task, packed, and where that is said.
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

    /// Whether nobody has a clone: then it may be given to another task.
    pub fn is_free(&self) -> bool {
        let free = Arc::strong_count(&self.target) == 2;
        // What those did who had clones is behind them, also if they are other threads.
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
