//! Another size of the flash device, while the cache is used.

use super::bench::{Bench, Cache, bytes_of, evict, fetch, options, run, slow_device};
use tantalum_cache::flash::{CacheError, FormatOptions, Mode};
use tantalum_rt::Nanos;

const LARGE: u64 = 400 << 10;
const SMALL: u64 = 120 << 10;

async fn frames(cache: &Cache) -> u64 {
    cache.stats().frames
}

/// Evicts pages whose version is 1000 above their number of eviction.
async fn use_it(cache: &Cache, from: u64, count: u64) {
    for n in from..from + count {
        evict(cache, n % 100, 1000 + n).await;
    }
}

/// Every page of `use_it` is as it left RAM last.
async fn check_all(cache: &Cache, until: u64) {
    for n in until.saturating_sub(100)..until {
        fetch(cache, n % 100, 1000 + n).await;
    }
}

#[test]
fn a_cache_grows_and_keeps_every_page() {
    run(async |rt| {
        let bench = Bench::new(&rt, LARGE, &options()).await;
        let cache = bench.open().await;
        cache.resize(SMALL).await.unwrap();
        for used in [0, 3, 37, 150, 333] {
            use_it(&cache, 0, 100 + used).await;
            // What is on its way out has left.
            rt.sleep(Nanos::from_millis(1)).await;
            let (before, small) = (cache.stats(), frames(&cache).await);
            cache.resize(LARGE).await.unwrap();
            let after = cache.stats();
            assert!(after.frames > 2 * small, "{} of {small}", after.frames);
            assert_eq!((after.pages, after.dirty), (before.pages, before.dirty));
            check_all(&cache, 100 + used).await;
            use_it(&cache, 100 + used, 400).await;
            // More batches than it had: each has one page here.
            assert!(cache.stats().used > small / 2, "{:?}", cache.stats());
            check_all(&cache, 500 + used).await;
            cache.resize(SMALL).await.unwrap();
            assert_eq!(frames(&cache).await, small);
            check_all(&cache, 500 + used).await;
            for page in 0..100 {
                cache.forget(page..page + 1).await.unwrap();
            }
        }
    });
}

/// Tombstones wait while the ring changes, and write nothing.
#[test]
fn pages_are_forgotten_while_it_is_resized() {
    run(async |rt| {
        let flash = slow_device(&rt, LARGE, Nanos::from_micros(30));
        let made = FormatOptions { frames: 12, ..options() };
        let bench = Bench::on(&rt, flash, &made).await;
        let cache = bench.open().await;
        let (using, clock) = (cache.clone(), rt.clone());
        let user = rt.spawn("a user", async move {
            for n in 0..600 {
                evict(&using, n % 60, 1000 + n).await;
                clock.sleep(Nanos::from_micros(n % 50)).await;
                using.forget(60 + n % 30..61 + n % 30).await.unwrap();
            }
        });
        for _ in 0..12 {
            cache.resize(200 << 10).await.unwrap();
            rt.sleep(Nanos::from_micros(500)).await;
            cache.resize(LARGE).await.unwrap();
        }
        user.await.unwrap();
        drop(cache);
        let cache = bench.open().await;
        for n in 540..600 {
            fetch(&cache, n % 60, 1000 + n).await;
        }
    });
}

/// A ring that became so small that it goes round several times for each segment. Once a restart
/// looked for its rear where other batches lay by then, and refused the cache.
#[test]
fn a_ring_that_is_smaller_than_a_segment_is_found_after_a_crash() {
    for mode in [Mode::Back, Mode::Through] {
        for n in [3, 12, 13, 25, 40, 61, 90, 150] {
            run(async move |rt| {
                let made = FormatOptions { mode, ..options() };
                let bench = Bench::new(&rt, 1 << 20, &made).await;
                let cache = bench.open().await;
                let mut size = 100 << 10;
                while cache.resize(size).await.is_err() {
                    size += 4 << 10;
                }
                use_it(&cache, 0, n).await;
                assert_eq!(cache.stats().segments, 0, "a segment has more batches");
                drop(cache);
                let cache = bench.open().await;
                check_all(&cache, n).await;
                let found = cache.stats().restart.found;
                assert!(found >= n.min(5), "{found} pages after {n}");
                use_it(&cache, n, 30).await;
                check_all(&cache, n + 30).await;
            });
        }
    }
}

/// What a smaller cache leaves behind is not read any more: the device can be cut off there.
#[test]
fn nothing_counts_behind_the_new_end() {
    for (n, size) in [(90, SMALL), (170, SMALL), (260, 200 << 10), (411, 130 << 10)] {
        run(async move |rt| {
            let bench = Bench::new(&rt, LARGE, &options()).await;
            let cache = bench.open().await;
            use_it(&cache, 0, n).await;
            cache.resize(size).await.unwrap();
            assert_eq!(cache.flash_bytes(), size);
            let bytes = bytes_of(&bench.flash).await;
            // A page that is dirty in the cache still has its place in what is left.
            use_it(&cache, n, 5).await;
            drop(cache);
            assert_eq!(bytes.len() as u64, LARGE);
            let rest = (size / 512..LARGE / 512).collect::<Vec<u64>>();
            for block in rest {
                super::bench::put(&bench.flash, block, |b| b.fill(0xEE)).await;
            }
            let cache = bench.open().await;
            assert_eq!(cache.flash_bytes(), size);
            check_all(&cache, n + 5).await;
            cache.scrub().await.unwrap();
            use_it(&cache, n + 5, 300).await;
            check_all(&cache, n + 305).await;
        });
    }
}

#[test]
fn a_resized_cache_starts_warm_after_a_close_and_after_a_crash() {
    run(async |rt| {
        let bench = Bench::new(&rt, LARGE, &options()).await;
        let mut done = 0;
        for (round, size) in [SMALL, LARGE, 200 << 10, 300 << 10, SMALL].into_iter().enumerate() {
            let cache = bench.open().await;
            use_it(&cache, done, 130).await;
            done += 130;
            cache.resize(size).await.unwrap();
            use_it(&cache, done, 20).await;
            done += 20;
            let before = cache.stats();
            match round % 2 {
                0 => cache.close().await.unwrap(),
                _ => drop(cache),
            }
            let cache = bench.open().await;
            let stats = cache.stats();
            assert_eq!(stats.restart.clean, round % 2 == 0);
            assert_eq!(stats.frames, before.frames);
            // After a crash pages may be there again whose leaving was not known to be over.
            let found = stats.restart.clean && stats.pages == before.pages;
            assert!(found || stats.pages >= before.pages, "{} of {}", stats.pages, before.pages);
            check_all(&cache, done).await;
        }
    });
}

/// A close does not wait for a resize, wherever that is, and the next start finds everything.
#[test]
fn a_cache_that_is_closed_while_it_is_resized_is_whole() {
    let mut gave_up = 0;
    for at in 0..150 {
        let ended = run(async move |rt| {
            let flash = slow_device(&rt, LARGE, Nanos::from_micros(10));
            let bench = Bench::on(&rt, flash, &options()).await;
            let cache = bench.open().await;
            use_it(&cache, 0, 260).await;
            let other = cache.clone();
            let resizing = rt.spawn("a resize", async move { other.resize(SMALL).await });
            rt.sleep(Nanos::from_micros(17 * at)).await;
            cache.close().await.unwrap();
            let ended = resizing.await.unwrap();
            let cache = bench.open().await;
            assert!(cache.stats().restart.clean, "closed after {at}");
            check_all(&cache, 260).await;
            cache.resize(SMALL).await.unwrap();
            use_it(&cache, 260, 100).await;
            drop(cache);
            check_all(&bench.open().await, 360).await;
            ended
        });
        gave_up += u32::from(ended.is_err());
    }
    assert!((20..150).contains(&gave_up), "{gave_up}");
}

#[test]
fn sizes_that_cannot_be_change_nothing() {
    run(async |rt| {
        let bench = Bench::new(&rt, SMALL, &options()).await;
        let cache = bench.open().await;
        use_it(&cache, 0, 20).await;
        let before = cache.stats();
        for bytes in [0, 20 << 10, SMALL + 512] {
            let refused = cache.resize(bytes).await;
            assert!(matches!(refused, Err(CacheError::Invalid(_))), "{bytes}: {refused:?}");
        }
        cache.resize(SMALL).await.unwrap();
        assert_eq!(cache.stats(), before);
        let other = cache.clone();
        cache.close().await.unwrap();
        assert!(matches!(other.resize(SMALL).await, Err(CacheError::Stopped(_))));
    });
}

/// A dirty page whose frame is damaged is told before anything is given up.
#[test]
fn a_lost_page_keeps_a_cache_from_becoming_smaller() {
    run(async |rt| {
        let bench = Bench::new(&rt, LARGE, &options()).await;
        let cache = bench.open().await;
        use_it(&cache, 0, 60).await;
        let at = super::bench::find(&bench.flash, 7, 1007).await;
        super::bench::put(&bench.flash, at, |b| b[300] ^= 8).await;
        let refused = cache.resize(SMALL).await;
        assert_eq!(refused, Err(CacheError::Damaged { page: 7, lsn: 1007 }));
        assert_eq!(cache.flash_bytes(), LARGE);
        cache.forget(7..8).await.unwrap();
        cache.resize(SMALL).await.unwrap();
        fetch(&cache, 8, 1008).await;
    });
}

#[test]
fn users_go_on_while_it_is_resized() {
    run(async |rt| {
        let through = FormatOptions { mode: Mode::Through, ..options() };
        for format in [options(), through] {
            let bench = Bench::new(&rt, LARGE, &format).await;
            let cache = bench.open().await;
            let users: Vec<_> = (0..4u64)
                .map(|user| {
                    let (cache, clock) = (cache.clone(), rt.clone());
                    rt.spawn("a user", async move {
                        for n in 0..300 {
                            let page = user * 25 + n % 25;
                            evict(&cache, page, 1000 + n).await;
                            clock.sleep(Nanos::from_micros(n % 50)).await;
                            fetch(&cache, page, 1000 + n).await;
                        }
                    })
                })
                .collect();
            for size in [SMALL, 300 << 10, 130 << 10, LARGE, 140 << 10, LARGE] {
                cache.resize(size).await.unwrap();
                rt.sleep(Nanos::from_millis(2)).await;
            }
            for user in users {
                user.await.unwrap();
            }
            for page in 0..100 {
                fetch(&cache, page, 1275 + page % 25).await;
            }
        }
    });
}
