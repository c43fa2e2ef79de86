//! What the calls of a cache do, one by one.

use super::bench::{Bench, Cache, PAGE, PAGES, device, evict, fetch, find, options, run};
use super::model::content;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::{
    Admit, CacheError, DeviceStore, Fetched, FlashCache, FormatOptions, Host, Mode, NoHost,
    OpenOptions, PageOut, Replacement, SlowStore,
};
use tantalum_device::{CommandKind, Faults, IoError};
use tantalum_rt::Nanos;

const BYTES: u64 = 80 << 10;

async fn small(rt: &tantalum_rt::Rt, options: OpenOptions) -> Cache {
    let bench = Bench::new(rt, BYTES, &super::bench::options()).await;
    bench.try_open(options).await.unwrap()
}

#[test]
fn calls_that_make_no_sense_say_what_would() {
    run(async |rt| {
        let cache = small(&rt, OpenOptions::default()).await;
        let page = vec![0; PAGE];
        let invalid = |e: Result<(), CacheError>| matches!(e, Err(CacheError::Invalid(_)));
        assert!(invalid(cache.evict(PAGES, &page, true, 1).await));
        assert!(invalid(cache.evict(0, &page[1..], true, 1).await));
        assert!(invalid(cache.fetch(0, &mut [0; 5]).await.map(drop)));
        assert!(invalid(cache.fetch(PAGES, &mut page.clone()).await.map(drop)));
        assert!(invalid(cache.forget(0..PAGES + 1).await));
        cache.forget(5..5).await.unwrap();
        evict(&cache, 0, 9).await;
        let older = cache.evict(0, &page, true, 8).await;
        assert_eq!(older, Err(CacheError::Older { page: 0, lsn: 8, newer: 9 }));
        let copy = cache.clone();
        cache.close().await.unwrap();
        assert!(matches!(copy.evict(0, &page, true, 10).await, Err(CacheError::Stopped(_))));
        assert!(matches!(copy.forget(0..1).await, Err(CacheError::Stopped(_))));
        fetch(&copy, 0, 9).await;
    });
}

struct Log;

impl Host for Log {
    fn log_stable(&self) -> u64 {
        100
    }
}

#[test]
fn a_dirty_page_leaves_ram_after_its_log() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open_with(Rc::new(Log), OpenOptions::default()).await.unwrap();
        evict(&cache, 1, 100).await;
        let early = cache.evict(1, &content(1, 101, PAGE), true, 101).await;
        assert_eq!(early, Err(CacheError::LogFirst { page: 1, lsn: 101, stable: 100 }));
        fetch(&cache, 1, 100).await;
        // A clean page has no record that is not durable.
        cache.evict(2, &content(2, 0, PAGE), false, 500).await.unwrap();
    });
}

/// A page with a copy on flash is not written again unless it changed.
#[test]
fn what_flash_has_is_not_written_again() {
    run(async |rt| {
        let cache = small(&rt, OpenOptions::default()).await;
        evict(&cache, 1, 5).await;
        let batches = cache.stats().batches;
        for _ in 0..5 {
            fetch(&cache, 1, 5).await;
            cache.evict(1, &content(1, 5, PAGE), false, 5).await.unwrap();
        }
        let stats = cache.stats();
        assert_eq!((stats.batches, stats.dropped, stats.hits), (batches, 5, 5));
    });
}

/// Pages enter full batches while a task waits for none of them.
#[test]
fn one_write_carries_a_batch() {
    run(async |rt| {
        let cache = small(&rt, OpenOptions::default()).await;
        let pages = (0..8).map(|page| {
            let cache = cache.clone();
            async move { evict(&cache, page, 5).await }
        });
        tantalum_rt::join_all(pages.collect()).await;
        assert_eq!(cache.stats().batches, 2);
    });
}

/// Before its batch is durable a page is fetched from memory.
#[test]
fn the_newest_version_is_found_before_it_is_durable() {
    run(async |rt| {
        let cache = small(&rt, OpenOptions::default()).await;
        for version in 1..4 {
            let (evicting, page) = (cache.clone(), content(3, version, PAGE));
            let waiting = rt
                .spawn("an eviction", async move { evicting.evict(3, &page, true, version).await });
            rt.yield_now().await;
            let found = fetch(&cache, 3, version).await;
            assert_eq!(found, Fetched::Flash { lsn: version, dirty: true });
            assert!(!waiting.is_finished());
        }
    });
}

/// Evicts pages, until what was evicted first has left the ring once, or had its chance.
async fn push_out(cache: &Cache, from: u64) {
    for n in 0..24 {
        evict(cache, 60 + n, from + n).await;
    }
}

#[test]
fn a_fetched_page_has_a_second_chance_in_the_group_form_only() {
    for replacement in [Replacement::Basic, Replacement::SecondChance] {
        run(async move |rt| {
            let options = OpenOptions { replacement, ..OpenOptions::default() };
            let cache = small(&rt, options).await;
            evict(&cache, 1, 5).await;
            evict(&cache, 2, 6).await;
            fetch(&cache, 1, 5).await;
            push_out(&cache, 10).await;
            let group = replacement == Replacement::SecondChance;
            let found = fetch(&cache, 1, 5).await;
            assert_eq!(found == Fetched::Slow, !group, "{replacement:?}");
            assert_eq!(fetch(&cache, 2, 6).await, Fetched::Slow);
            assert_eq!(cache.stats().second_chances > 0, group);
        });
    }
}

/// If everything is fetched all the time, pages leave all the same.
#[test]
fn progress_is_certain_when_all_pages_are_referenced() {
    run(async |rt| {
        let cache = small(&rt, OpenOptions::default()).await;
        for n in 0..400 {
            evict(&cache, n % 150, 10 + n).await;
            let mut page = vec![0; PAGE];
            for back in 0..30.min(n) {
                cache.fetch((n - back) % 150, &mut page).await.unwrap();
            }
        }
        for page in 0..100 {
            fetch(&cache, page, 310 + page).await;
        }
    });
}

/// A page is read, and leaves RAM as it came.
async fn pass(cache: &Cache, page: u64) -> Fetched {
    let found = fetch(cache, page, 0).await;
    while cache.stage(page, &content(page, 0, PAGE), false, 0).unwrap().is_none() {
        cache.until_room().await.unwrap();
    }
    found
}

/// Of a scan of the slow store the first pages enter. The others drive nothing out.
#[test]
fn a_scan_is_kept_out_and_what_is_used_stays() {
    const STEPS: u64 = 600;
    const SCAN: u64 = 140;
    let hits = |scan| {
        run(async move |rt| {
            let replacement = Replacement::Basic;
            let cache =
                small(&rt, OpenOptions { scan, replacement, ..OpenOptions::default() }).await;
            let mut hits = 0;
            for n in 0..STEPS {
                // Twelve pages in some order, none beside another.
                let hot = pass(&cache, 3 * (n * 5 % 12)).await;
                hits += u64::from(hot != Fetched::Slow);
                pass(&cache, 60 + n % SCAN).await;
            }
            let stats = cache.stats();
            let beyond = (0..STEPS).filter(|n| n % SCAN >= u64::from(scan.unwrap_or(0))).count();
            assert_eq!(stats.kept_out, if scan.is_some() { beyond as u64 } else { 0 });
            assert_eq!(stats.evictions, 2 * STEPS);
            // Dirty pages enter, whatever they are beside.
            for page in 100..110 {
                evict(&cache, page, 5).await;
                assert_eq!(fetch(&cache, page, 5).await, Fetched::Flash { lsn: 5, dirty: true });
            }
            hits as f64 / STEPS as f64
        })
    };
    let (open, guarded) = (hits(None), hits(Some(4)));
    println!("hits: {open:.3}, without the scan {guarded:.3}");
    assert!(guarded > 0.97 && open < 0.8, "{open} and {guarded}");
}

/// A page that was changed, went to the slow store and was kept out is what it was, also after a
/// crash that leaves batches with its older version.
#[test]
fn no_older_version_of_a_page_that_was_kept_out_is_served() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let options = || OpenOptions { scan: Some(0), ..OpenOptions::default() };
        let mut cache = bench.try_open(options()).await.unwrap();
        let (mut versions, mut kept_out) = ([0; 100], 0);
        for n in 1..400u64 {
            let page = n * 37 % 100;
            evict(&cache, page, n).await;
            versions[page as usize] = n;
            let other = n * 59 % 100;
            let version = versions[other as usize];
            fetch(&cache, other, version).await;
            let data = content(other, version, PAGE);
            cache.evict(other, &data, false, version).await.unwrap();
            if n % 29 == 0 {
                kept_out += cache.stats().kept_out;
                drop(cache);
                cache = bench.try_open(options()).await.unwrap();
                for (page, version) in (0..).zip(versions) {
                    fetch(&cache, page, version).await;
                }
            }
        }
        assert!(kept_out > 100, "{kept_out}");
    });
}

/// Pulled pages stay in the pool, and are seen once more when they leave it.
#[test]
fn a_batch_is_not_filled_with_a_scan() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let out = |page| PageOut { page, data: content(page, 0, PAGE), dirty: false, lsn: 0 };
        let cold = Rc::new(Cold(RefCell::new((20..40).map(out).collect()), RefCell::default()));
        let scan = OpenOptions { scan: Some(2), ..OpenOptions::default() };
        let cache = bench.open_with(cold.clone(), scan).await.unwrap();
        evict(&cache, 1, 5).await;
        // Three were asked for.
        assert_eq!(*cold.1.borrow(), [(20, 0), (21, 0)]);
        for page in 20..30 {
            cache.evict(page, &content(page, 0, PAGE), false, 0).await.unwrap();
        }
        assert_eq!((cache.stats().kept_out, cache.stats().pages), (8, 3));
    });
}

/// Fetches a page, which the slow store has.
async fn slow(cache: &Cache, page: u64, version: u64) {
    assert_eq!(fetch(cache, page, version).await, Fetched::Slow);
}

#[test]
fn only_clean_pages_enter_or_only_dirty_ones() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let admit = |admit| OpenOptions { admit, ..OpenOptions::default() };
        let cache = bench.try_open(admit(Admit::Dirty)).await.unwrap();
        evict(&cache, 1, 5).await;
        cache.evict(2, &content(2, 0, PAGE), false, 0).await.unwrap();
        assert_eq!(fetch(&cache, 1, 5).await, Fetched::Flash { lsn: 5, dirty: true });
        slow(&cache, 2, 0).await;
        let stats = cache.stats();
        assert_eq!((stats.pages, stats.dropped, stats.kept_out), (1, 1, 0));
        drop(cache);
        // What was dirty before stays in the cache, with its next version.
        let cache = bench.try_open(admit(Admit::Clean)).await.unwrap();
        evict(&cache, 1, 6).await;
        assert_eq!(fetch(&cache, 1, 6).await, Fetched::Flash { lsn: 6, dirty: true });
        evict(&cache, 3, 7).await;
        slow(&cache, 3, 7).await;
        cache.evict(3, &content(3, 7, PAGE), false, 7).await.unwrap();
        assert_eq!(fetch(&cache, 3, 7).await, Fetched::Flash { lsn: 7, dirty: false });
        let older = cache.evict(3, &content(3, 6, PAGE), true, 6).await;
        assert_eq!(older, Err(CacheError::Older { page: 3, lsn: 6, newer: 7 }));
        let staged = cache.stage(3, &content(3, 8, PAGE), true, 8);
        assert!(matches!(&staged, Err(CacheError::Invalid(why)) if why.contains("evict it")));
        // The copy on flash is older from now on, also for a restart.
        evict(&cache, 3, 9).await;
        slow(&cache, 3, 9).await;
        let stats = cache.stats();
        assert_eq!((stats.pages, stats.dirty, stats.forgotten), (1, 1, 0));
        drop(cache);
        let cache = bench.open().await;
        slow(&cache, 3, 9).await;
        fetch(&cache, 1, 6).await;
    });
}

/// Evictions that were given up go on, and not beyond a newer version, nor beyond an end of the page.
#[test]
fn what_goes_past_the_cache_goes_in_its_order() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let options = OpenOptions { admit: Admit::Clean, ..OpenOptions::default() };
        let cache = bench.try_open(options).await.unwrap();
        let give_up = async |page: u64, version: u64, after: u64| {
            let data = content(page, version, PAGE);
            let evicted = cache.evict(page, &data, true, version);
            tantalum_rt::first(evicted, rt.sleep(Nanos::from_micros(after))).await;
        };
        for after in (0..3000).step_by(25) {
            let version = 10 + after;
            give_up(1, version, after).await;
            evict(&cache, 1, version + 1).await;
            give_up(2, version, after).await;
            cache.forget(2..3).await.unwrap();
            bench.store().write_durably(2, &content(2, version + 1, PAGE)).await.unwrap();
            rt.sleep(Nanos::from_millis(10)).await;
            slow(&cache, 1, version + 1).await;
            slow(&cache, 2, version + 1).await;
        }
    });
}

/// A batch is filled with pages that may enter.
#[test]
fn pulled_pages_that_do_not_enter_stay_in_the_pool() {
    for (mode, admit, enters) in [
        (Mode::Back, Admit::Mixed, vec![20, 21]),
        (Mode::Back, Admit::Clean, vec![21]),
        (Mode::Back, Admit::Dirty, vec![20]),
        (Mode::Through, Admit::Mixed, vec![21]),
        (Mode::Through, Admit::Clean, vec![21]),
        (Mode::Through, Admit::Dirty, vec![]),
    ] {
        run(async move |rt| {
            let bench = Bench::new(&rt, BYTES, &options()).await;
            let out = |page, dirty| PageOut { page, data: content(page, 3, PAGE), dirty, lsn: 3 };
            let pool = RefCell::new(vec![out(20, true), out(21, false)]);
            let cold = Rc::new(Cold(pool, RefCell::default()));
            let options = OpenOptions { mode: Some(mode), admit, ..OpenOptions::default() };
            let cache = bench.open_with(cold.clone(), options).await.unwrap();
            cache.evict(1, &content(1, 5, PAGE), admit != Admit::Clean, 5).await.unwrap();
            cache.checkpoint().await.unwrap();
            let staged: Vec<u64> = cold.1.borrow().iter().map(|(page, _)| *page).collect();
            assert_eq!(staged, enters, "{mode:?} {admit:?}");
        });
    }
}

struct Cold(RefCell<Vec<PageOut>>, RefCell<Vec<(u64, u64)>>);

impl Host for Cold {
    fn pull(&self, room: usize) -> Vec<PageOut> {
        let mut cold = self.0.borrow_mut();
        let count = room.min(cold.len());
        cold.drain(..count).collect()
    }

    fn staged(&self, page: u64, lsn: u64) {
        self.1.borrow_mut().push((page, lsn));
    }
}

#[test]
fn a_batch_is_filled_from_the_cold_end_of_the_pool() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let out = |page: u64| PageOut { page, data: content(page, 3, PAGE), dirty: true, lsn: 3 };
        let cold = Rc::new(Cold(RefCell::new((20..30).map(out).collect()), RefCell::default()));
        let cache = bench.open_with(cold.clone(), OpenOptions::default()).await.unwrap();
        evict(&cache, 1, 5).await;
        assert_eq!(*cold.1.borrow(), [(20, 3), (21, 3), (22, 3)]);
        let stats = cache.stats();
        assert_eq!((stats.batches, stats.pulled, stats.pages), (1, 3, 4));
        drop(cache);
        fetch(&bench.open().await, 21, 3).await;
    });
}

#[test]
fn a_checkpoint_needs_flash_only() {
    run(async |rt| {
        let linger = Nanos::from_secs(100);
        let cache = small(&rt, OpenOptions { linger, ..OpenOptions::default() }).await;
        let evicting = cache.clone();
        let waiting = rt.spawn("an eviction", async move { evict(&evicting, 3, 5).await });
        rt.yield_now().await;
        assert!(!waiting.is_finished());
        cache.checkpoint().await.unwrap();
        rt.yield_now().await;
        assert!(waiting.is_finished() && rt.now() < Nanos::from_secs(1));
        assert_eq!(cache.stats().slow_writes, 0);
        cache.checkpoint().await.unwrap();
    });
}

#[test]
fn write_through_has_every_page_on_the_slow_store() {
    run(async |rt| {
        let through = FormatOptions { mode: Mode::Through, ..options() };
        let bench = Bench::new(&rt, BYTES, &through).await;
        let cache = bench.open().await;
        for n in 0..100 {
            evict(&cache, n % 30, 10 + n).await;
            let mut page = vec![0; PAGE];
            bench.store().read(n % 30, &mut page).await.unwrap();
            assert_eq!(page, content(n % 30, 10 + n, PAGE));
            assert_eq!(cache.stats().dirty, 0);
        }
        // Nothing is written a second time when it leaves.
        assert_eq!(cache.stats().slow_writes, 100);
    });
}

#[test]
fn forgotten_pages_are_gone_also_many_at_once() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open().await;
        for page in 0..6 {
            evict(&cache, page, 5).await;
        }
        cache.forget(0..PAGES).await.unwrap();
        evict(&cache, 3, 2).await;
        drop(cache);
        let cache = bench.open().await;
        for page in (0..6).filter(|p| *p != 3) {
            fetch(&cache, page, 0).await;
        }
        fetch(&cache, 3, 2).await;
        // More tombstones than a descriptor has room for.
        let all = (0..50).map(|page| {
            let cache = cache.clone();
            async move { cache.forget(page..page + 1).await.unwrap() }
        });
        tantalum_rt::join_all(all.collect()).await;
        fetch(&cache, 3, 0).await;
    });
}

/// Marks survive a close, and most of them a crash.
#[test]
fn a_closed_cache_starts_warm() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open().await;
        evict(&cache, 1, 5).await;
        for page in 10..14 {
            evict(&cache, page, page).await;
        }
        fetch(&cache, 1, 5).await;
        let before = cache.stats();
        cache.close().await.unwrap();
        let cache = bench.open().await;
        let stats = cache.stats();
        assert!(stats.restart.clean && stats.restart.descriptors == 0);
        assert_eq!((stats.pages, stats.dirty), (before.pages, before.dirty));
        // (Less than twice round: the second chance is over then.)
        for n in 0..8 {
            evict(&cache, 60 + n, 100 + n).await;
        }
        assert!(matches!(fetch(&cache, 1, 5).await, Fetched::Flash { .. }));
    });
}

type FaultyCache =
    FlashCache<tantalum_device::RamDevice, DeviceStore<Faults<tantalum_device::RamDevice>>>;

/// A slow store that refuses pages.
async fn faulty(rt: &tantalum_rt::Rt) -> (Faults<tantalum_device::RamDevice>, FaultyCache) {
    let slow = device(rt, (1 << 20) + PAGES * PAGE as u64);
    let faults = Faults::new(rt, slow, "faults");
    let store = DeviceStore::new(faults.clone(), PAGE as u32).unwrap();
    let flash = device(rt, BYTES);
    FlashCache::format(rt, &flash, &store, &options()).await.unwrap();
    let options = OpenOptions { patience: Nanos::from_secs(2), ..OpenOptions::default() };
    let cache = FlashCache::open(rt, flash, store, Rc::new(NoHost), options).await.unwrap();
    (faults, cache)
}

#[test]
fn a_page_that_cannot_be_destaged_stays_and_dirty_ones_wait_so_long() {
    run(async |rt| {
        let (faults, cache) = faulty(&rt).await;
        faults.fail_often(CommandKind::Write, 1, 1);
        let mut refused = None;
        for n in 0..200 {
            let (page, version) = (n % 100, 10 + n);
            let data = content(page, version, PAGE);
            if let Err(error) = cache.evict(page, &data, true, version).await {
                refused = Some((n, error));
                break;
            }
        }
        let (n, error) = refused.expect("the ring is full");
        assert!(n > 8, "{n}");
        println!("{error}");
        assert!(
            matches!(&error, CacheError::Full { waited, .. } if *waited >= Nanos::from_secs(2))
        );
        assert!(cache.refused().is_some() && cache.stats().slow_refusals > 5);
        // All are there, and clean ones are let go.
        let mut page = vec![0; PAGE];
        for old in 0..n {
            cache.fetch(old, &mut page).await.unwrap();
            assert_eq!(page, content(old, 10 + old, PAGE));
        }
        cache.fetch(150, &mut page).await.unwrap();
        cache.evict(150, &page, false, 0).await.unwrap();
        // Then the store takes them again, and everything goes on.
        faults.clear();
        faults.reopen();
        rt.sleep(Nanos::from_secs(1)).await;
        for n in 0..200 {
            let (page, version) = (n % 100, 1000 + n);
            cache.evict(page, &content(page, version, PAGE), true, version).await.unwrap();
        }
        assert_eq!(cache.refused(), None);
        for old in 0..100 {
            cache.fetch(old, &mut page).await.unwrap();
            assert_eq!(page, content(old, 1100 + old, PAGE));
        }
    });
}

/// Once cleaning waited for ever, and so did a close behind a resize. And what was to be durable failed
/// at once, though there was room for it on flash.
#[test]
fn what_waits_for_a_store_that_refuses_pages_ends_and_what_needs_it_not_goes_on() {
    run(async |rt| {
        let (faults, cache) = faulty(&rt).await;
        faults.fail_often(CommandKind::Write, 1, 1);
        let write = async |page: u64| {
            cache.evict(page, &content(page, 10 + page, PAGE), true, 10 + page).await.unwrap();
        };
        for page in 0..12 {
            write(page).await;
        }
        let full = |ended: Result<(), CacheError>| matches!(ended, Err(CacheError::Full { .. }));
        assert!(full(cache.clean().await));
        rt.sleep(Nanos::from_secs(60)).await;
        // Still refused, and there is room.
        write(12).await;
        cache.checkpoint().await.unwrap();
        let resized = cache.resize(BYTES - (8 << 10)).await;
        assert!(full(resized.clone()), "{resized:?}");
        assert!(full(cache.clone().detach().await));
        // What was given up is tried no more, and holds up nothing.
        rt.sleep(Nanos::from_secs(1)).await;
        assert_eq!(cache.refused(), None);
        cache.scrub().await.unwrap();
        let flash = cache.flash_bytes();
        // One that waits for the store gives up, and the close does not wait for it.
        let other = cache.clone();
        let resizing = rt.spawn("a resize", async move { other.resize(BYTES - (8 << 10)).await });
        rt.sleep(Nanos::from_millis(1)).await;
        let began = rt.now();
        // The store refuses its label, too.
        assert!(matches!(cache.clone().close().await, Err(CacheError::Slow(_))));
        assert!(rt.now().saturating_sub(began) < Nanos::from_secs(2));
        assert!(resizing.await.unwrap().is_err());
        assert_eq!(cache.flash_bytes(), flash);
    });
}

/// Once the next call failed at once, until what the call before had given up was tried again.
#[test]
fn cleaning_has_patience_of_its_own_each_time() {
    run(async |rt| {
        let (faults, cache) = faulty(&rt).await;
        faults.fail_often(CommandKind::Write, 1, 1);
        cache.evict(1, &content(1, 5, PAGE), true, 5).await.unwrap();
        for _ in 0..2 {
            let began = rt.now();
            let ended = cache.clean().await;
            assert!(matches!(ended, Err(CacheError::Full { page: 1, .. })), "{ended:?}");
            let waited = rt.now().saturating_sub(began);
            assert!(waited >= Nanos::from_secs(2), "{waited}");
        }
        faults.clear();
        faults.reopen();
        cache.clean().await.unwrap();
        assert_eq!((cache.refused(), cache.stats().dirty), (None, 0));
    });
}

#[test]
fn a_flash_device_that_fails_a_write_stops_the_cache() {
    run(async |rt| {
        let slow = device(&rt, (1 << 20) + PAGES * PAGE as u64);
        let store = DeviceStore::new(slow, PAGE as u32).unwrap();
        let flash = Faults::new(&rt, device(&rt, BYTES), "faults");
        FlashCache::format(&rt, &flash, &store, &options()).await.unwrap();
        let open = OpenOptions::default();
        let host = Rc::new(NoHost);
        let cache = FlashCache::open(&rt, flash.clone(), store, host, open).await.unwrap();
        cache.evict(1, &content(1, 5, PAGE), true, 5).await.unwrap();
        flash.fail_nth(CommandKind::Write, 1);
        let failed = cache.evict(2, &content(2, 6, PAGE), true, 6).await;
        assert!(matches!(failed, Err(CacheError::Stopped(_))), "{failed:?}");
        assert!(matches!(cache.close().await, Err(CacheError::Stopped(_))));
    });
}

/// A cache whose flash device answers reads no more still has clean pages.
#[test]
fn clean_pages_are_fetched_without_the_flash_device() {
    run(async |rt| {
        let slow = device(&rt, (1 << 20) + PAGES * PAGE as u64);
        let store = DeviceStore::new(slow, PAGE as u32).unwrap();
        let flash = Faults::new(&rt, device(&rt, BYTES), "faults");
        FlashCache::format(&rt, &flash, &store, &options()).await.unwrap();
        let open = OpenOptions::default();
        let host = Rc::new(NoHost);
        let cache = FlashCache::open(&rt, flash.clone(), store, host, open).await.unwrap();
        cache.evict(1, &[0; PAGE], false, 0).await.unwrap();
        cache.evict(2, &content(2, 6, PAGE), true, 6).await.unwrap();
        flash.fail_often(CommandKind::Read, 1, 1);
        let mut page = vec![1; PAGE];
        assert_eq!(cache.fetch(1, &mut page).await, Ok(Fetched::Slow));
        let dirty = cache.fetch(2, &mut page).await;
        assert!(matches!(dirty, Err(CacheError::Flash(IoError::Failed(_)))), "{dirty:?}");
    });
}

/// What a batch has on the device: the descriptor, then the pages.
#[test]
fn a_batch_begins_with_its_descriptor() {
    run(async |rt| {
        let bench = Bench::new(&rt, BYTES, &options()).await;
        let cache = bench.open().await;
        evict(&cache, 1, 5).await;
        let at = find(&bench.flash, 1, 5).await as usize * 512;
        let bytes = super::bench::bytes_of(&bench.flash).await;
        let descriptor = &bytes[at - 512..at];
        let word = |at: usize| u64::from_le_bytes(descriptor[at..at + 8].try_into().unwrap());
        // Sequence number, epoch, durable, front; then page and LSN of the frame.
        assert_eq!([word(16), word(24), word(32), word(40)], [1, 2, 1, 1]);
        assert_eq!([word(64), word(72)], [1, 5]);
        assert_eq!(&descriptor[48..52], [1, 0, 0, 0]);
    });
}
