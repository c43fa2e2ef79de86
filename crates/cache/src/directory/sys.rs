//! The words that threads and processes share, from the system or from a model of threads
//! (`--cfg loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

// In tests two threads can change turns before any of their steps (`tests/turns.rs`).
#[cfg(all(test, not(loom)))]
use super::tests::turns;

/// One word of shared memory.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub fn new(value: u64) -> Word {
        Word(AtomicU64::new(value))
    }

    /// Loads; what was stored before the value was is seen, too.
    pub fn get(&self) -> u64 {
        turns::step();
        self.0.load(Ordering::Acquire)
    }

    /// Loads, without any order.
    pub fn peek(&self) -> u64 {
        turns::step();
        self.0.load(Ordering::Relaxed)
    }

    /// Begins to load it into the processor's cache.
    pub fn ahead(&self) {
        if cfg!(all(target_arch = "x86_64", not(loom))) {
            tantalum_rt::prefetch(&self.0);
        } else {
            // A plain load does the same, but later instructions may wait for it.
            self.peek();
        }
    }

    /// Stores; whoever sees the value sees what was stored before.
    pub fn set(&self, value: u64) {
        turns::store();
        death::step();
        self.0.store(value, Ordering::Release);
    }

    /// Stores, without any order.
    pub fn poke(&self, value: u64) {
        turns::store();
        death::step();
        self.0.store(value, Ordering::Relaxed);
    }

    /// Stores `new` if the value is `old`; else says what it is.
    pub fn swap_if(&self, old: u64, new: u64) -> Result<u64, u64> {
        turns::store();
        death::step();
        self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Makes it `value` at least.
    pub fn raise(&self, value: u64) {
        turns::store();
        death::step();
        self.0.fetch_max(value, Ordering::AcqRel);
    }
}

/// What was loaded before is not loaded later than what comes.
pub(crate) fn loads_before() {
    fence(Ordering::Acquire);
}

/// What was stored before is not stored later than what comes.
pub(crate) fn stores_before() {
    fence(Ordering::Release);
}

/// Of two that each store one word, call this, and then look at the other's word, at least one sees
/// what the other stored.
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Passes the time of a thread that waits for another one, for the `turn`th time.
pub(crate) fn pause(turn: u32) {
    #[cfg(loom)]
    {
        let _ = turn;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    match turn % 64 {
        _ if turns::pass() => {}
        63 => std::thread::yield_now(),
        _ => std::hint::spin_loop(),
    }
}

#[cfg(not(all(test, not(loom))))]
mod turns {
    #[inline(always)]
    pub(super) fn step() {}

    #[inline(always)]
    pub(super) fn store() {}

    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn pass() -> bool {
        false
    }
}

/// In tests a thread can die before any of its stores, as a killed process does: what it held stays
/// held.
#[cfg(test)]
pub(crate) mod death {
    use std::cell::Cell;

    #[cfg(not(loom))]
    thread_local! {
        static STORES: Cell<Option<u64>> = const { Cell::new(None) };
    }

    #[cfg(loom)]
    loom::thread_local! {
        static STORES: Cell<Option<u64>> = Cell::new(None);
    }

    struct Died;

    /// Runs `work`, and dies before its store number `stores`. Whether it lived.
    pub fn after<R>(stores: u64, work: impl FnOnce() -> R) -> Option<R> {
        STORES.with(|left| left.set(Some(stores)));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        STORES.with(|left| left.set(None));
        match outcome {
            Ok(outcome) => Some(outcome),
            Err(cause) if cause.is::<Died>() => None,
            Err(cause) => std::panic::resume_unwind(cause),
        }
    }

    pub(super) fn step() {
        let dies = STORES.with(|left| match left.get() {
            Some(0) => true,
            Some(stores) => {
                left.set(Some(stores - 1));
                false
            }
            None => false,
        });
        if dies {
            std::panic::resume_unwind(Box::new(Died));
        }
    }
}

#[cfg(not(test))]
mod death {
    #[inline(always)]
    pub(super) fn step() {}
}
