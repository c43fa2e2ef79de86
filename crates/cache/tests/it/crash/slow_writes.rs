//! Pages on their way to the slow store: how many writes side by side, and how many between two
//! flushes; and that none is under way when the cache has ended.

use super::bench::{Bench, PAGE, options, run, slow_device};
use super::model::content;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_cache::flash::{Admit, FlashCache, FormatOptions, NoHost, OpenOptions, SlowStore};
use tantalum_device::IoError;
use tantalum_rt::{First, Nanos, Rt, first, join_all};

const BATCHES: u64 = 400;

/// What a store has seen.
#[derive(Default)]
struct Seen {
    writing: Cell<usize>,
    /// Writes that have begun.
    begun: Cell<usize>,
    /// Writes side by side, at most.
    together: Cell<usize>,
    since_flush: Cell<u64>,
    /// Pages that were written between two flushes, at most.
    between: Cell<u64>,
}

/// A store that keeps nothing: a write takes a millisecond, and a flush fifty.
struct Counting {
    rt: Rt,
    seen: Rc<Seen>,
}

impl SlowStore for Counting {
    fn pages(&self) -> u64 {
        1 << 20
    }

    async fn read(&self, _: u64, buf: &mut [u8]) -> Result<(), IoError> {
        buf.fill(0);
        Ok(())
    }

    async fn write(&self, _: u64, data: &[u8]) -> Result<(), IoError> {
        let seen = &*self.seen;
        seen.writing.set(seen.writing.get() + 1);
        seen.begun.set(seen.begun.get() + 1);
        seen.together.set(seen.together.get().max(seen.writing.get()));
        self.rt.sleep(Nanos::from_millis(1)).await;
        seen.writing.set(seen.writing.get() - 1);
        seen.since_flush.set(seen.since_flush.get() + (data.len() / PAGE) as u64);
        seen.between.set(seen.between.get().max(seen.since_flush.get()));
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.seen.since_flush.set(0);
        self.rt.sleep(Nanos::from_millis(50)).await;
        Ok(())
    }
}

#[test]
fn a_flush_covers_many_batches_and_few_writes_are_under_way_at_a_time() {
    run(async |rt| {
        let bytes = BATCHES * (options().frames as u64 + 1) * PAGE as u64;
        let bench = Bench::new(&rt, bytes, &options()).await;
        let seen = Rc::new(Seen::default());
        let store = || Counting { rt: rt.clone(), seen: seen.clone() };
        let format = FormatOptions { force: true, ..options() };
        FlashCache::format(&rt, &bench.flash, &store(), &format).await.unwrap();
        let options = OpenOptions { depth: 3, ..OpenOptions::default() };
        let host = Rc::new(NoHost);
        let cache = FlashCache::open(&rt, bench.flash.clone(), store(), host, options).await;
        let cache = cache.unwrap();
        // Many at a time, so that batches are full. (No two pages are neighbours.)
        let some = async |from: u64| {
            for page in (from..from + 200).map(|n| n * 2) {
                cache.evict(page, &content(page, 5, PAGE), true, 5).await.unwrap();
            }
        };
        join_all((0..30).map(|i| some(i * 200)).collect()).await;
        assert_eq!(seen.together.get(), 3);
        // A sixteenth of the ring, less what the tail of it needs.
        let least = BATCHES / 16 * u64::from(format.frames) / 2;
        assert!(seen.between.get() > least, "{} of {least}", seen.between.get());
        cache.close().await.unwrap();
    });
}

/// Evictions that were given up are over when the cache is closed or detached: the program may then
/// write to the slow store by itself.
#[test]
fn nothing_goes_past_a_cache_after_its_end() {
    for detached in [false, true] {
        run(async move |rt| {
            let flash = slow_device(&rt, 80 << 10, Nanos::from_micros(10));
            let bench = Bench::on(&rt, flash, &options()).await;
            let seen = Rc::new(Seen::default());
            let store = || Counting { rt: rt.clone(), seen: seen.clone() };
            let format = FormatOptions { force: true, ..options() };
            for after in (0..3000).step_by(100) {
                FlashCache::format(&rt, &bench.flash, &store(), &format).await.unwrap();
                let (flash, host) = (bench.flash.clone(), Rc::new(NoHost));
                let options = OpenOptions { admit: Admit::Clean, ..OpenOptions::default() };
                let cache = FlashCache::open(&rt, flash, store(), host, options).await.unwrap();
                let data = content(1, 10, PAGE);
                let evicted = cache.evict(1, &data, true, 10);
                let over = first(evicted, rt.sleep(Nanos::from_micros(after))).await;
                assert!(matches!(over, First::B(())), "it takes a flush, which takes longer");
                match detached {
                    true => cache.detach().await.unwrap(),
                    false => cache.close().await.unwrap(),
                }
                let begun = seen.begun.get();
                assert_eq!(seen.writing.get(), 0, "{after} us");
                rt.sleep(Nanos::from_millis(200)).await;
                assert_eq!(seen.begun.get(), begun, "{after} us");
            }
            assert!(seen.begun.get() > 10, "they were begun");
        });
    }
}
