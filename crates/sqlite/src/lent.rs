//! The context of a poll, lent to the coroutine that runs below that poll.
//!
//! 1. The context can be used only while it is lent. [`Lent::lend`] takes it back when its function
//!    ends, also by a panic: no pointer outlives the poll.
//! 2. One use at a time. A nested use is refused, so two uses never alias, and no use continues
//!    after the guest was suspended inside of it.
//!
//! This file needs neither SQLite nor coroutines, so that Miri can run its tests:
//! `cargo +nightly miri test -p tantalum-sqlite --lib lent`.

use std::cell::Cell;
use std::ptr::NonNull;
use std::task::Context;

/// The pointer to the context, if it is lent and not in use.
#[derive(Default)]
pub(crate) struct Lent {
    at: Cell<Option<NonNull<Context<'static>>>>,
}

/// Restores the previous pointer when it is dropped.
struct Before<'a> {
    lent: &'a Lent,
    before: Option<NonNull<Context<'static>>>,
}

impl Drop for Before<'_> {
    fn drop(&mut self) {
        self.lent.at.set(self.before);
    }
}

impl Lent {
    /// Lends a context, or none, while `run` runs.
    pub fn lend<R>(&self, context: Option<&mut Context<'_>>, run: impl FnOnce() -> R) -> R {
        let now = context.map(|context| NonNull::from(context).cast());
        let _before = Before { lent: self, before: self.at.replace(now) };
        run()
    }

    /// Uses the context. `None` if it is not lent, or in use.
    pub fn with<R>(&self, using: impl FnOnce(&mut Context<'_>) -> R) -> Option<R> {
        let mut at = self.at.take()?;
        let _before = Before { lent: self, before: Some(at) };
        // SAFETY: `lend` has set the pointer and has not ended: at its end it takes the pointer
        // back, and until then its caller borrows the context mutably. The pointer was taken out of
        // the cell, so there is no second reference. `using` accepts any lifetime, so it cannot
        // keep the reference.
        Some(using(unsafe { at.as_mut() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wake(lent: &Lent) -> Option<()> {
        lent.with(|context| context.waker().wake_by_ref())
    }

    #[test]
    fn each_turn_has_its_own_context_and_none_outlives_it() {
        let (lent, counts) = (Lent::default(), [0, 1].map(|_| Arc::new(Count(AtomicU32::new(0)))));
        for turn in 0..6 {
            assert_eq!(wake(&lent), None, "between the turns there is none");
            // On the heap, so that the context of each turn is freed after it.
            let waker = Box::new(Waker::from(counts[turn % 2].clone()));
            let mut context = Box::new(Context::from_waker(&waker));
            lent.lend(Some(&mut context), || {
                assert_eq!(wake(&lent), Some(()));
                assert_eq!(wake(&lent), Some(()), "again, one after the other");
            });
        }
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [6, 6]);
    }

    #[test]
    fn a_use_inside_of_another_is_refused_and_the_outer_one_goes_on() {
        let (lent, count) = (Lent::default(), Arc::new(Count(AtomicU32::new(0))));
        let waker = Waker::from(count.clone());
        lent.lend(Some(&mut Context::from_waker(&waker)), || {
            let inside = lent.with(|outer| {
                let inside = wake(&lent);
                outer.waker().wake_by_ref();
                inside
            });
            assert_eq!(inside, Some(None));
            assert_eq!(wake(&lent), Some(()), "afterwards it is to be had again");
        });
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_panic_gives_it_back() {
        let lent = Lent::default();
        let mut context = Context::from_waker(Waker::noop());
        lent.lend(Some(&mut context), || {
            let using = catch_unwind(AssertUnwindSafe(|| lent.with(|_| panic!("while in use"))));
            assert!(using.is_err());
            assert_eq!(wake(&lent), Some(()), "the use is over");
        });
        let mut context = Box::new(Context::from_waker(Waker::noop()));
        let lending =
            catch_unwind(AssertUnwindSafe(|| lent.lend(Some(&mut context), || panic!("lent"))));
        drop(context);
        assert!(lending.is_err() && wake(&lent).is_none());
    }

    #[test]
    fn a_guest_inside_of_a_guest_has_its_own() {
        let (outer, inner) = (Lent::default(), Lent::default());
        let mut context = Context::from_waker(Waker::noop());
        outer.lend(Some(&mut context), || {
            // The outer guest waits for the inner one, which is polled with the same context.
            let woken = outer.with(|context| inner.lend(Some(context), || wake(&inner)));
            assert_eq!(woken, Some(Some(())));
            // A guest that is cut off gets no context.
            assert_eq!(outer.lend(None, || wake(&outer)), None);
            assert_eq!(wake(&outer), Some(()));
        });
    }
}
