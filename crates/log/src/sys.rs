//! What threads share and how they wait, from the system or from a model of threads (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

#[cfg(feature = "blocking")]
pub(crate) use waits::{Event, Parker};

#[cfg(feature = "blocking")]
mod waits {
    #[cfg(loom)]
    use loom::sync::{Condvar, Mutex};
    #[cfg(loom)]
    use loom::{
        sync::atomic::{AtomicBool, Ordering},
        thread::{Thread, current, park},
    };
    #[cfg(not(loom))]
    use rustix::thread::futex;
    use std::sync::Arc;
    #[cfg(not(loom))]
    use std::{
        sync::atomic::{AtomicBool, AtomicU32, Ordering},
        thread::{Thread, current, park},
    };
    use tantalum_rt::Nanos;

    /// A thread that waits for one event.
    pub(crate) struct Parker {
        woken: AtomicBool,
        thread: Thread,
    }

    impl Parker {
        /// For the calling thread.
        pub fn new() -> Arc<Parker> {
            Arc::new(Parker { woken: AtomicBool::new(false), thread: current() })
        }

        /// Waits for [`Parker::wake`]. Only the thread that made it may wait.
        pub fn wait(&self) {
            while !self.woken.load(Ordering::Acquire) {
                park();
            }
        }

        /// Ends the wait, now or when it begins.
        pub fn wake(&self) {
            self.woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }

    /// Something for which many threads wait, and which wakes all of them in one call.
    #[cfg(not(loom))]
    #[derive(Default)]
    pub(crate) struct Event {
        wakes: AtomicU32,
        open: AtomicBool,
    }

    impl Event {
        /// Nobody waits for it any more: all that do are about to be woken.
        pub fn open(&self) {
            self.open.store(true, Ordering::Release);
        }

        /// Whether nobody is to wait for it any more.
        pub fn is_open(&self) -> bool {
            self.open.load(Ordering::Acquire)
        }
    }

    #[cfg(not(loom))]
    impl Event {
        /// How often it woke somebody.
        pub fn seen(&self) -> u32 {
            self.wakes.load(Ordering::Acquire)
        }

        /// Waits for a wake after `seen` was asked for; it may end earlier.
        pub fn wait(&self, seen: u32) {
            // An error says that there was a wake, or that a signal came.
            let _ = futex::wait(&self.wakes, futex::Flags::PRIVATE, seen, None);
        }

        /// As [`Event::wait`], for so long at most. Whether that is over.
        pub fn wait_for(&self, seen: u32, most: Nanos) -> bool {
            let (tv_sec, tv_nsec) = (0, most.0.min(999_999_999) as i64);
            let most = Some(&futex::Timespec { tv_sec, tv_nsec });
            let waited = futex::wait(&self.wakes, futex::Flags::PRIVATE, seen, most);
            waited == Err(rustix::io::Errno::TIMEDOUT)
        }

        /// Wakes one of the threads that wait, or more.
        pub fn wake_one(&self) {
            self.wake(1);
        }

        pub fn wake_all(&self) {
            self.wake(i32::MAX as u32);
        }

        fn wake(&self, threads: u32) {
            self.wakes.fetch_add(1, Ordering::Release);
            // It does not fail: the word is there.
            let _ = futex::wake(&self.wakes, futex::Flags::PRIVATE, threads);
        }
    }

    #[cfg(loom)]
    pub(crate) struct Event {
        wakes: Mutex<u32>,
        changed: Condvar,
        open: AtomicBool,
    }

    #[cfg(loom)]
    impl Default for Event {
        fn default() -> Event {
            Event { wakes: Mutex::new(0), changed: Condvar::new(), open: AtomicBool::new(false) }
        }
    }

    #[cfg(loom)]
    impl Event {
        pub fn seen(&self) -> u32 {
            *self.wakes.lock().unwrap()
        }

        pub fn wait(&self, seen: u32) {
            let wakes = self.wakes.lock().unwrap();
            // It may end early, as a futex does.
            if *wakes == seen {
                drop(self.changed.wait(wakes).unwrap());
            }
        }

        /// Any time passes.
        pub fn wait_for(&self, seen: u32, _most: Nanos) -> bool {
            loom::thread::yield_now();
            self.seen() == seen
        }

        pub fn wake_one(&self) {
            *self.wakes.lock().unwrap() += 1;
            self.changed.notify_one();
        }

        pub fn wake_all(&self) {
            *self.wakes.lock().unwrap() += 1;
            self.changed.notify_all();
        }
    }
}
