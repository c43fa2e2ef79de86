//! Passes over the ring: scrubbing, cleaning, and giving up the flash device.

use super::bench::{Bench, PAGE, evict, fetch, find, options, put, run, slow_device};
use super::model::content;
use std::rc::Rc;
use tantalum_cache::flash::{
    CacheError, Fetched, FlashCache, FormatOptions, OpenError, OpenOptions, Scrubbed, SlowStore,
};
use tantalum_rt::Nanos;

const BYTES: u64 = 200 << 10;

#[test]
fn a_scrubber_finds_what_is_damaged() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open().await;
        for page in 0..6 {
            evict(&cache, page, 5).await;
        }
        cache.clean().await.unwrap();
        for page in 6..9 {
            evict(&cache, page, 5).await;
        }
        assert_eq!(cache.scrub().await, Ok(Scrubbed { frames: 9, ..Scrubbed::default() }));
        for page in [2, 4, 7] {
            put(&bench.flash, find(&bench.flash, page, 5).await, |b| b[300] ^= 8).await;
        }
        let found = Scrubbed { frames: 9, repaired: 2, damaged: vec![7] };
        assert_eq!(cache.scrub().await, Ok(found));
        assert_eq!(fetch(&cache, 2, 5).await, Fetched::Slow);
        let damaged = CacheError::Damaged { page: 7, lsn: 5 };
        assert_eq!(cache.clean().await, Err(damaged.clone()));
        // It cannot be given up while a page is lost.
        assert_eq!(cache.clone().detach().await, Err(damaged));
        cache.forget(7..8).await.unwrap();
        cache.detach().await.unwrap();
    });
}

/// What was given up is found by no restart: neither by a check, nor as a dirty page that is lost,
/// which it was before the slow store got it.
#[test]
fn what_a_scrubber_gave_up_stays_given_up() {
    run(async |rt| {
        for (crashes, fetches) in [(false, false), (true, false), (false, true), (true, true)] {
            let bench = Bench::new(&rt, BYTES, &options()).await;
            let cache = bench.open().await;
            for page in 0..6 {
                evict(&cache, page, 5).await;
            }
            cache.clean().await.unwrap();
            for page in [2, 4] {
                put(&bench.flash, find(&bench.flash, page, 5).await, |b| b[300] ^= 8).await;
            }
            if fetches {
                // Whoever reads them gives them up as well.
                for page in [2, 4] {
                    assert_eq!(fetch(&cache, page, 5).await, Fetched::Slow);
                }
                cache.checkpoint().await.unwrap();
            } else {
                assert_eq!(cache.scrub().await.unwrap().repaired, 2);
            }
            evict(&cache, 4, 6).await;
            match crashes {
                false => cache.close().await.unwrap(),
                true => drop(cache),
            }
            let (flash, store) = (bench.flash.clone(), bench.store());
            let checked = FlashCache::check(flash, &store, &OpenOptions::default()).await.unwrap();
            assert_eq!((checked.pages, checked.repairable, checked.damaged), (5, 0, vec![]));
            let cache = bench.open().await;
            assert_eq!(cache.scrub().await, Ok(Scrubbed { frames: 5, ..Scrubbed::default() }));
            assert_eq!(fetch(&cache, 2, 5).await, Fetched::Slow);
            fetch(&cache, 4, 6).await;
        }
    });
}

/// A newer version of a page enters the same batch while the older one becomes durable: the pass is
/// owed the older one.
#[test]
fn a_version_is_cleaned_though_a_newer_one_is_behind_it_in_its_batch() {
    run(async |rt| {
        let flash = slow_device(&rt, BYTES, Nanos::from_micros(100));
        let made = FormatOptions { frames: 12, ..options() };
        let bench = Bench::on(&rt, flash, &made).await;
        let lingers = OpenOptions { linger: Nanos::from_secs(9), ..OpenOptions::default() };
        let cache = bench.try_open(lingers).await.unwrap();
        cache.stage(7, &content(7, 5, PAGE), true, 5).unwrap().unwrap();
        let cleaning = cache.clone();
        let cleaned = rt.spawn("a pass", async move { cleaning.clean().await });
        rt.sleep(Nanos::from_micros(20)).await;
        cache.stage(7, &content(7, 6, PAGE), true, 6).unwrap().unwrap();
        assert_eq!(cleaned.await.unwrap(), Ok(()));
        let mut bytes = vec![0; PAGE];
        bench.store().read(7, &mut bytes).await.unwrap();
        assert!(bytes == content(7, 5, PAGE), "the slow store has it");
        fetch(&cache, 7, 6).await;
    });
}

#[test]
fn a_clean_cache_has_every_page_on_the_slow_store_also_while_it_is_used() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open().await;
        for n in 0..300 {
            evict(&cache, n % 60, 10 + n).await;
        }
        let (using, clock) = (cache.clone(), rt.clone());
        let user = rt.spawn("a user", async move {
            for n in 0..300 {
                evict(&using, n % 60, 1000 + n).await;
                clock.sleep(Nanos::from_micros(n % 7)).await;
            }
        });
        for _ in 0..5 {
            cache.clean().await.unwrap();
            rt.sleep(Nanos::from_micros(70)).await;
        }
        user.await.unwrap();
        cache.clean().await.unwrap();
        assert_eq!(cache.stats().dirty, 0);
        for page in 0..60 {
            let mut bytes = vec![0; PAGE];
            bench.store().read(page, &mut bytes).await.unwrap();
            assert_eq!(bytes, content(page, 1240 + page, PAGE));
            fetch(&cache, page, 1240 + page).await;
        }
    });
}

#[test]
fn a_detached_cache_is_refused_and_its_store_has_everything() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open().await;
        for page in 0..40 {
            evict(&cache, page, 5).await;
        }
        let other = cache.clone();
        cache.detach().await.unwrap();
        let late = other.evict(1, &[0; PAGE], true, 9).await;
        assert!(matches!(late, Err(CacheError::Stopped(_))), "{late:?}");
        for page in 0..40 {
            let mut bytes = vec![0; PAGE];
            bench.store().read(page, &mut bytes).await.unwrap();
            assert_eq!(bytes, content(page, 5, PAGE));
        }
        let host = Rc::new(tantalum_cache::flash::NoHost);
        let opened = bench.open_with(host, OpenOptions::default()).await.err();
        assert_eq!(opened, Some(OpenError::GivenUp));
    });
}

/// Evictions under way when the cache is closed end well or are refused, wherever the front is.
#[test]
fn a_close_never_waits_for_itself() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let mut versions = [0; 100];
        let mut lsn = 0;
        for turn in 0..60 {
            let cache = bench.open().await;
            let evictions = (0..20 + turn).map(|n| {
                lsn += 1;
                let (cache, page, version) = (cache.clone(), (turn * 7 + n) % 100, lsn);
                rt.spawn("an eviction", async move {
                    let data = content(page, version, PAGE);
                    let ended = cache.evict(page, &data, true, version).await;
                    ended.is_ok().then_some((page, version))
                })
            });
            let evictions: Vec<_> = evictions.collect();
            for _ in 0..turn % 9 {
                rt.yield_now().await;
            }
            cache.close().await.unwrap();
            for eviction in evictions {
                if let Some((page, version)) = eviction.await.unwrap() {
                    versions[page as usize] = version;
                }
            }
            let cache = bench.open().await;
            assert!(cache.stats().restart.clean);
            for page in 0..100 {
                let mut bytes = vec![0; PAGE];
                cache.fetch(page, &mut bytes).await.unwrap();
                let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(found >= versions[page as usize], "turn {turn}, page {page}");
                versions[page as usize] = found;
            }
            cache.close().await.unwrap();
        }
        assert!(versions.iter().all(|v| *v > 0));
    });
}
