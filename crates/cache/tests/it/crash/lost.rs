//! The flash device is lost, or is not the one of the slow store.

use super::bench::{Bench, device, evict, fetch, options, run};
use super::cuts::every_cut;
use super::rig::{Rig, Shape};
use tantalum_cache::flash::{FlashCache, FormatOptions, Mode, OpenError, OpenOptions, SlowStore};
use tantalum_device::{BlockDevice, RamDevice};
use tantalum_rt::{Nanos, Rt};

async fn leave_alone<S: SlowStore + 'static>(store: &S) -> Result<(), OpenError> {
    FlashCache::<RamDevice, S>::leave_alone(store).await
}

#[test]
fn a_dirty_store_without_its_cache_is_refused() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let cache = bench.open().await;
        evict(&cache, 7, 5).await;
        assert_eq!(leave_alone(&bench.store()).await, Err(OpenError::NeedsCache));
        // A close leaves the dirty page on flash.
        cache.close().await.unwrap();
        assert_eq!(leave_alone(&bench.store()).await, Err(OpenError::NeedsCache));
        let cache = bench.open().await;
        fetch(&cache, 7, 5).await;
    });
}

#[test]
fn a_clean_store_goes_on_without_its_cache_which_is_out_of_date_then() {
    run(async |rt| {
        let through = FormatOptions { mode: Mode::Through, ..options() };
        let bench = Bench::new(&rt, 80 << 10, &through).await;
        let cache = bench.open().await;
        evict(&cache, 7, 5).await;
        drop(cache);
        leave_alone(&bench.store()).await.unwrap();
        leave_alone(&bench.store()).await.unwrap();
        let mut page = vec![0; 512];
        bench.store().read(7, &mut page).await.unwrap();
        assert_eq!(page, super::model::content(7, 5, 512));
        let error = bench.refused(OpenOptions::default()).await;
        assert_eq!(error, OpenError::GivenUp);
        // A new cache on another device.
        let flash = device(&rt, 80 << 10);
        let force = FormatOptions { force: true, ..through };
        FlashCache::format(&rt, &flash, &bench.store(), &force).await.unwrap();
        let cache = Bench { flash, ..bench.clone() }.open().await;
        fetch(&cache, 7, 5).await;
        assert!(matches!(bench.refused(OpenOptions::default()).await, OpenError::OtherStore));
    });
}

/// Pages that were dirty when the mode changed count until they are clean.
#[test]
fn a_change_to_write_through_keeps_what_is_dirty() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let cache = bench.open().await;
        evict(&cache, 7, 5).await;
        cache.close().await.unwrap();
        let through = OpenOptions { mode: Some(Mode::Through), ..OpenOptions::default() };
        let cache = bench.try_open(through.clone()).await.unwrap();
        evict(&cache, 8, 5).await;
        assert_eq!(leave_alone(&bench.store()).await, Err(OpenError::NeedsCache));
        // What is fetched with write-through is on the slow store.
        fetch(&cache, 7, 5).await;
        assert_eq!(cache.stats().dirty, 0);
        cache.close().await.unwrap();
        let cache = bench.try_open(through).await.unwrap();
        drop(cache);
        leave_alone(&bench.store()).await.unwrap();
    });
}

/// With write-through every cut point may lose the flash device, too.
#[test]
fn nothing_is_lost_with_the_flash_device_under_write_through() {
    let shape = Shape { mode: Mode::Through, ..Shape::volatile() };
    for seed in 0..2 {
        let moments = Rig::new(&shape, seed).moments(3, Nanos::from_millis(12));
        let mut rig = Rig::new(&shape, seed);
        let owner = rig.start(3);
        for (i, moment) in moments.iter().enumerate() {
            rig.runtime.run_until(*moment).unwrap();
            assert_eq!(*owner.wrong.borrow(), None);
            let mut cut = rig.cut_copy(seed ^ i as u64);
            cut.power();
            cut.check_without_flash().unwrap_or_else(|e| panic!("seed {seed}, cut {i}: {e}"));
        }
    }
    every_cut(&shape, 2, Nanos::from_millis(6), 1).unwrap();
}

async fn copy(rt: &Rt, from: &RamDevice) -> RamDevice {
    let to = device(rt, from.caps().bytes());
    let bytes = super::bench::bytes_of(from).await;
    let data = tantalum_device::Data::Bytes(&bytes);
    let normal = tantalum_device::Durability::Normal;
    to.write(tantalum_device::Block(0), data, normal).await.unwrap();
    to
}

/// A start that is cut between superblock and label leaves the label one epoch behind. Any other one
/// leaves them equal, so a slow device from before it is an older copy: once it was taken, and pages
/// that had left flash since were old.
#[test]
fn a_slow_device_from_before_the_last_start_is_refused() {
    run(async |rt| {
        for end in ["closed", "cut", "cut after it was idle", "cut, and only read"] {
            let bench = Bench::new(&rt, 80 << 10, &options()).await;
            let cache = bench.open().await;
            evict(&cache, 7, 5).await;
            cache.close().await.unwrap();
            let old = Bench { slow: copy(&rt, &bench.slow).await, ..bench.clone() };
            let cache = bench.open().await;
            let version = if end == "cut, and only read" { 5 } else { 6 };
            match version {
                5 => drop(fetch(&cache, 7, 5).await),
                _ => evict(&cache, 7, 6).await,
            }
            match end {
                "closed" => cache.close().await.unwrap(),
                "cut" | "cut, and only read" => drop(cache),
                _ => {
                    rt.sleep(OpenOptions::default().idle.saturating_add(Nanos::from_secs(1))).await;
                    drop(cache);
                }
            }
            let error = old.refused(OpenOptions::default()).await;
            let is_older = |error: &OpenError| {
                matches!(
                    error,
                    OpenError::OtherEpoch { slow: 2, flash: 3, older: "the slow store" }
                )
            };
            assert!(is_older(&error), "{end}: {error}");
            let (flash, store) = (old.flash.clone(), old.store());
            let checked = FlashCache::check(flash, &store, &OpenOptions::default()).await;
            assert!(checked.as_ref().is_err_and(is_older), "{end}: {checked:?}");
            fetch(&bench.open().await, 7, version).await;
        }
    });
}

#[test]
fn an_older_copy_of_a_device_is_refused() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let cache = bench.open().await;
        evict(&cache, 7, 5).await;
        cache.close().await.unwrap();
        let old = Bench {
            flash: copy(&rt, &bench.flash).await,
            slow: copy(&rt, &bench.slow).await,
            ..bench.clone()
        };
        for version in 6..8 {
            let cache = bench.open().await;
            evict(&cache, 7, version).await;
            cache.close().await.unwrap();
        }
        let mixed = Bench { flash: old.flash, ..bench.clone() };
        let error = mixed.refused(OpenOptions::default()).await;
        assert!(matches!(error, OpenError::OtherEpoch { slow: 4, flash: 2, .. }), "{error}");
        let mixed = Bench { slow: old.slow, ..bench.clone() };
        let error = mixed.refused(OpenOptions::default()).await;
        assert!(matches!(error, OpenError::OtherEpoch { slow: 2, flash: 4, .. }), "{error}");
        fetch(&bench.open().await, 7, 7).await;
    });
}
