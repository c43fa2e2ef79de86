//! Flipped bits: a clean page is repaired, a dirty one is an error, and neither is served.

use super::bench::{Bench, PAGE, evict, fetch, find, options, put, run};
use super::model::content;
use super::rig::Store;
use tantalum_cache::flash::{
    CacheError, Fetched, FlashCache, FormatOptions, Mode, OpenError, OpenOptions, StoreState,
};
use tantalum_device::RamDevice;
use tantalum_rt::Nanos;

/// Bytes of a small cache.
const SMALL: u64 = 80 << 10;

#[test]
fn a_damaged_clean_page_is_repaired() {
    run(async |rt| {
        let bench = Bench::new(&rt, SMALL, &options()).await;
        let cache = bench.open().await;
        cache.evict(7, &content(7, 0, PAGE), false, 0).await.unwrap();
        // Zeros are everywhere: the frame of the first batch is where another page goes.
        evict(&cache, 8, 5).await;
        let beside = find(&bench.flash, 8, 5).await;
        assert_eq!(fetch(&cache, 7, 0).await, Fetched::Flash { lsn: 0, dirty: false });
        // Each is in a part of its own: its descriptor, then the page.
        put(&bench.flash, beside - 2, |b| b[9] ^= 4).await;
        assert_eq!(fetch(&cache, 7, 0).await, Fetched::Slow);
        assert_eq!(cache.stats().repaired, 1);
        // It enters anew when it leaves RAM.
        cache.evict(7, &content(7, 0, PAGE), false, 0).await.unwrap();
        assert_eq!(fetch(&cache, 7, 0).await, Fetched::Flash { lsn: 0, dirty: false });
    });
}

#[test]
fn a_damaged_dirty_page_is_an_error_until_it_is_evicted_or_forgotten() {
    run(async |rt| {
        let bench = Bench::new(&rt, SMALL, &options()).await;
        let cache = bench.open().await;
        for page in [7, 8, 9] {
            evict(&cache, page, 5).await;
            put(&bench.flash, find(&bench.flash, page, 5).await, |b| b[100] ^= 1).await;
        }
        let mut bytes = vec![0; PAGE];
        let damaged = |page| CacheError::Damaged { page, lsn: 5 };
        for page in [7, 8, 9] {
            assert_eq!(cache.fetch(page, &mut bytes).await, Err(damaged(page)));
            assert_eq!(bytes, [0; PAGE]);
        }
        // It stays known while the ring goes round, also after a restart of either kind.
        for turn in 0..4 {
            for n in 0..90 {
                evict(&cache, 20 + n % 40, 10 + turn * 100 + n).await;
            }
            assert_eq!(cache.fetch(7, &mut bytes).await, Err(damaged(7)), "lap {turn}");
        }
        cache.close().await.unwrap();
        let cache = bench.open().await;
        assert!(cache.stats().restart.clean);
        assert_eq!(cache.fetch(7, &mut bytes).await, Err(damaged(7)));
        evict(&cache, 60, 1000).await;
        drop(cache);
        let cache = bench.open().await;
        assert!(!cache.stats().restart.clean);
        assert_eq!(cache.fetch(7, &mut bytes).await, Err(damaged(7)));
        // A new version ends it; so does forgetting the page.
        evict(&cache, 7, 1001).await;
        fetch(&cache, 7, 1001).await;
        cache.forget(8..9).await.unwrap();
        assert_eq!(fetch(&cache, 8, 0).await, Fetched::Slow);
        assert_eq!(cache.fetch(9, &mut bytes).await, Err(damaged(9)));
    });
}

/// A part that was durable and has no descriptor any more: one of another batch is behind it, or only
/// others of its own.
#[test]
fn a_damaged_descriptor_is_no_end() {
    for (frames, parts) in [(4, 2), (12, 6), (40, 20)] {
        for page in 0..7 {
            run(async move |rt| {
                let options = FormatOptions { frames, ..options() };
                let bench = Bench::new(&rt, 600 << 10, &options).await;
                let cache = bench.open().await;
                for page in 0..8 {
                    evict(&cache, page, 5).await;
                }
                drop(cache);
                // A descriptor has whole blocks before the first frame.
                let room = (64 + 24 * u64::from(frames + (frames / 4).max(4))).div_ceil(512);
                let descriptor = find(&bench.flash, page, 5).await - room;
                put(&bench.flash, descriptor, |b| b[70] ^= 1).await;
                let error = bench.refused(OpenOptions::default()).await;
                let OpenError::Damaged { batch, at } = error else { panic!("{error}") };
                assert_eq!(at, descriptor * 512);
                if room == 1 {
                    assert_eq!(batch, 1 + page / parts);
                }
            });
        }
    }
}

/// A crash leaves the newest batch without anything that vouches for it, unless the cache was idle.
#[test]
fn damage_to_the_newest_batch_is_told_once_the_cache_was_idle() {
    for idle in [false, true] {
        run(async move |rt| {
            let bench = Bench::new(&rt, 200 << 10, &options()).await;
            let cache = bench.open().await;
            evict(&cache, 7, 5).await;
            evict(&cache, 8, 5).await;
            if idle {
                rt.sleep(Nanos::from_secs(2)).await;
            }
            drop(cache);
            let at = find(&bench.flash, 8, 5).await;
            put(&bench.flash, at, |b| b[100] ^= 1).await;
            let (flash, store) = (bench.flash.clone(), bench.store());
            let checked = FlashCache::check(flash, &store, &OpenOptions::default()).await.unwrap();
            assert_eq!(checked.damaged, if idle { vec![8] } else { vec![] });
            if !idle {
                // It passes for a write that was torn.
                let cache = bench.open().await;
                fetch(&cache, 7, 5).await;
                assert_eq!(fetch(&cache, 8, 0).await, Fetched::Slow);
                return;
            }
            let cache = bench.open().await;
            let error = CacheError::Damaged { page: 8, lsn: 5 };
            assert_eq!(cache.fetch(8, &mut [0; PAGE]).await, Err(error));
            evict(&cache, 8, 6).await;
            rt.sleep(Nanos::from_secs(2)).await;
            drop(cache);
            let descriptor = find(&bench.flash, 8, 6).await - 1;
            put(&bench.flash, descriptor, |b| b[70] ^= 1).await;
            let error = bench.refused(OpenOptions::default()).await;
            assert!(matches!(error, OpenError::Damaged { batch: 2, .. }), "{error}");
        });
    }
}

/// It is written once, and not while nothing happens.
#[test]
fn an_idle_cache_writes_its_superblock_once() {
    run(async |rt| {
        let bench = Bench::new(&rt, SMALL, &options()).await;
        let cache = bench.open().await;
        let mut written = Vec::new();
        for n in 0..6 {
            if n == 3 {
                evict(&cache, 7, 5).await;
            }
            let before = (bench.flash.bytes_written(), bench.slow.bytes_written());
            rt.sleep(Nanos::from_secs(10)).await;
            let after = (bench.flash.bytes_written(), bench.slow.bytes_written());
            written.push((after.0 - before.0, after.1 - before.1));
        }
        // Two copies of a block.
        assert_eq!(written, [(0, 0), (0, 0), (0, 0), (1024, 0), (0, 0), (0, 0)]);
    });
}

/// With write-through nothing is lost with it.
#[test]
fn a_damaged_descriptor_costs_clean_pages_only() {
    run(async |rt| {
        let through = FormatOptions { mode: Mode::Through, ..options() };
        let bench = Bench::new(&rt, 200 << 10, &through).await;
        let cache = bench.open().await;
        for page in 0..5 {
            evict(&cache, page, 5).await;
            evict(&cache, page, 6).await;
        }
        drop(cache);
        let descriptor = find(&bench.flash, 2, 6).await - 1;
        put(&bench.flash, descriptor, |b| b[70] ^= 1).await;
        let cache = bench.open().await;
        for page in 0..5 {
            let found = fetch(&cache, page, 6).await;
            assert_eq!(found == Fetched::Slow, page <= 2, "page {page}");
        }
    });
}

/// A check finds what a scrub would, and changes nothing.
#[test]
fn a_check_tells_damage_and_leaves_the_devices_as_they_are() {
    run(async |rt| {
        let bench = Bench::new(&rt, SMALL, &options()).await;
        let cache = bench.open().await;
        for page in [7, 8, 9] {
            evict(&cache, page, 5).await;
        }
        cache.clean().await.unwrap();
        evict(&cache, 10, 5).await;
        cache.close().await.unwrap();
        let check = async || {
            let (flash, store) = (bench.flash.clone(), bench.store());
            let before = super::bench::bytes_of(&bench.flash).await;
            let checked = FlashCache::check(flash, &store, &OpenOptions::default()).await.unwrap();
            assert!(before == super::bench::bytes_of(&bench.flash).await);
            checked
        };
        let checked = check().await;
        assert!(checked.restart.clean && checked.damaged.is_empty(), "{checked:?}");
        assert_eq!((checked.pages, checked.dirty, checked.repairable), (4, 1, 0));
        for page in [8, 10] {
            put(&bench.flash, find(&bench.flash, page, 5).await, |b| b[100] ^= 1).await;
        }
        let checked = check().await;
        assert_eq!((checked.repairable, checked.damaged), (1, vec![10]));
        let flash = FlashCache::<_, Store>::describe(&bench.flash).await.unwrap();
        let label = FlashCache::<RamDevice, _>::describe_store(&bench.store()).await.unwrap();
        let label = label.expect("it keeps one");
        assert!(flash.clean && flash.frames == 4 && label.state == StoreState::NeedsCache);
        assert_eq!((flash.cache, flash.epoch), (label.cache, label.epoch));
    });
}
