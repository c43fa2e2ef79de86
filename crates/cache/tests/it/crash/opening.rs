//! What is not a cache is refused, with one line, and nothing is changed.

use super::bench::{Bench, Cache, PAGES, bytes_of, device, evict, fetch, options, put, run};
use tantalum_cache::flash::{
    DeviceStore, Fetched, FlashCache, FormatOptions, OpenError, OpenOptions,
};
use tantalum_device::{Ack, Blocks, Caps, Partition, Payload, RamDevice, RamOptions};

#[test]
fn what_is_no_cache_is_refused() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let blank = Bench { flash: device(&rt, 80 << 10), ..bench.clone() };
        assert_eq!(blank.refused(OpenOptions::default()).await, OpenError::NoCache);
        let identity = FormatOptions { identity: Some([9; 16]), ..options() };
        let other = Bench::new(&rt, 80 << 10, &identity).await;
        let mixed = Bench { flash: other.flash.clone(), ..bench.clone() };
        assert_eq!(mixed.refused(OpenOptions::default()).await, OpenError::OtherStore);
        let unlabelled = Bench { slow: device(&rt, 2 << 20), ..bench.clone() };
        assert_eq!(unlabelled.refused(OpenOptions::default()).await, OpenError::NoLabel);
        let named = OpenOptions { slow_identity: [7; 16], ..OpenOptions::default() };
        assert_eq!(bench.refused(named).await, OpenError::OtherStore);
        bench.open().await;
    });
}

#[test]
fn one_whole_copy_of_a_head_suffices() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        for (device, what, version) in [(&bench.flash, "superblock", 3), (&bench.slow, "label", 1)]
        {
            put(device, 0, |b| b[20] ^= 1).await;
            bench.open().await.close().await.unwrap();
            for block in [0, 32] {
                put(device, block, |b| b[20] ^= 1).await;
            }
            let error = bench.refused(OpenOptions::default()).await;
            assert!(matches!(error, OpenError::Head { what: w, .. } if w == what), "{error}");
            for block in [0, 32] {
                put(device, block, |b| b[12] = 9).await;
            }
            let error = bench.refused(OpenOptions::default()).await;
            assert!(matches!(error, OpenError::Newer { version: 9, .. }), "{error}");
            for block in [0, 32] {
                put(device, block, |b| (b[12], b[20]) = (version, b[20] ^ 1)).await;
            }
            bench.open().await.close().await.unwrap();
        }
    });
}

/// Whole heads of the version behind the newest one that is known.
#[test]
fn a_head_of_a_newer_version_is_refused() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let heads = [(&bench.flash, "the flash device", 4), (&bench.slow, "the slow store", 2)];
        for (on, device, version) in heads {
            let rewrite = async |version: u8| {
                for block in [0, 32] {
                    put(on, block, |b| {
                        b[12] = version;
                        let crc = crc32c::crc32c(&b[4..]);
                        b[..4].copy_from_slice(&crc.to_le_bytes());
                    })
                    .await;
                }
            };
            rewrite(version).await;
            let newer = OpenError::Newer { device, version: version.into() };
            assert_eq!(bench.refused(OpenOptions::default()).await, newer);
            let (flash, store) = (bench.flash.clone(), bench.store());
            let checked = FlashCache::check(flash, &store, &OpenOptions::default()).await;
            assert_eq!(checked.err(), Some(newer.clone()));
            if device == "the slow store" {
                let before = bytes_of(&bench.slow).await;
                assert_eq!(Cache::leave_alone(&store).await, Err(newer));
                assert!(before == bytes_of(&bench.slow).await);
            }
            rewrite(version - 1).await;
            bench.open().await.close().await.unwrap();
        }
    });
}

/// A start goes on in the batch that was begun, so few pages are in many starts' way.
#[test]
fn a_batch_goes_on_after_a_close_and_after_a_crash() {
    run(async |rt| {
        let made = FormatOptions { frames: 40, ..options() };
        let bench = Bench::new(&rt, 500 << 10, &made).await;
        for n in 0..60 {
            let cache = bench.open().await;
            assert_eq!(cache.stats().restart.clean, n == 0 || n % 3 == 1, "start {n}");
            for page in 0..n {
                let found = fetch(&cache, page, 5 + page).await;
                assert!(matches!(found, Fetched::Flash { .. }), "page {page} in start {n}");
            }
            evict(&cache, n, 5 + n).await;
            match n % 3 {
                0 => cache.close().await.unwrap(),
                _ => drop(cache),
            }
        }
    });
}

#[test]
fn a_device_that_shrank_is_refused() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let range = Blocks { start: tantalum_device::Block(0), count: 150 };
        let part = Partition::new(bench.flash.clone(), range).unwrap();
        let host = std::rc::Rc::new(tantalum_cache::flash::NoHost);
        let opened = FlashCache::open(&rt, part, bench.store(), host, OpenOptions::default()).await;
        assert_eq!(opened.err(), Some(OpenError::TooSmall { was: 80 << 10, is: 75 << 10 }));
    });
}

/// Once a slow device that had become smaller was accepted, and its last pages were lost in silence.
#[test]
fn a_slow_device_that_shrank_is_refused() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let cache = bench.open().await;
        evict(&cache, 150, 1).await;
        cache.checkpoint().await.unwrap();
        drop(cache);
        let range = Blocks { start: tantalum_device::Block(0), count: 2048 + 150 };
        let part = Partition::new(bench.slow.clone(), range).unwrap();
        let store = || DeviceStore::new(part.clone(), 512).unwrap();
        let refused = async |wanted: OpenError| {
            let options = OpenOptions::default();
            let checked = FlashCache::check(bench.flash.clone(), &store(), &options).await;
            assert_eq!(checked.err(), Some(wanted.clone()));
            let host = std::rc::Rc::new(tantalum_cache::flash::NoHost);
            let before = bytes_of(&bench.flash).await;
            let opened = FlashCache::open(&rt, bench.flash.clone(), store(), host, options).await;
            assert_eq!(opened.err(), Some(wanted));
            assert!(before == bytes_of(&bench.flash).await);
        };
        refused(OpenError::StoreShrank { was: (1 << 20) + PAGES * 512, is: (2048 + 150) * 512 })
            .await;
        // A label of once did not say how large the device was.
        let bytes_told = async |bytes: u64| {
            for block in [0, 32] {
                put(&bench.slow, block, |b| {
                    b[72..80].copy_from_slice(&bytes.to_le_bytes());
                    let crc = crc32c::crc32c(&b[4..]);
                    b[..4].copy_from_slice(&crc.to_le_bytes());
                })
                .await;
            }
        };
        bytes_told(0).await;
        refused(OpenError::StoreTooSmall { page: 150, pages: 150 }).await;
        // As it was it is taken.
        fetch(&bench.open().await, 150, 1).await;
    });
}

#[test]
fn what_cannot_be_a_cache_is_not_formatted() {
    run(async |rt| {
        let flash = device(&rt, 80 << 10);
        let slow = DeviceStore::new(device(&rt, 2 << 20), 512).unwrap();
        let refuse = async |flash: &RamDevice, options: FormatOptions| {
            let before = bytes_of(flash).await;
            let error = FlashCache::format(&rt, flash, &slow, &options).await.unwrap_err();
            assert!(before == bytes_of(flash).await, "{error}");
            println!("{error}");
            error
        };
        for wrong in [
            FormatOptions { page: 1000, ..options() },
            FormatOptions { page: 256, ..options() },
            FormatOptions { frames: 0, ..options() },
            FormatOptions { frames: 5000, ..options() },
            FormatOptions { page: 4096, frames: 64, ..options() },
        ] {
            let error = refuse(&flash, wrong).await;
            assert!(matches!(error, OpenError::Unsuitable(_)), "{error}");
        }
        put(&flash, 2, |b| b[7] = 1).await;
        let error = refuse(&flash, options()).await;
        assert_eq!(error, OpenError::NotBlank { device: "the flash device", what: "data" });
        let force = FormatOptions { force: true, ..options() };
        FlashCache::format(&rt, &flash, &slow, &force).await.unwrap();
        let error = refuse(&flash, options()).await;
        assert_eq!(error, OpenError::NotBlank { device: "the flash device", what: "a cache" });
        let error = refuse(&device(&rt, 80 << 10), options()).await;
        let what = "the label of a cache";
        assert_eq!(error, OpenError::NotBlank { device: "the slow store", what });
    });
}

#[test]
fn devices_that_cannot_carry_one_are_refused() {
    run(async |rt| {
        let made = |caps| RamDevice::new(&rt, RamOptions::new(caps));
        let good = Caps { block_size: 512, ..Caps::power_safe(4096, Payload::Bytes) };
        let slow = DeviceStore::new(made(good), 512).unwrap();
        for caps in [
            Caps { thin: true, ..good },
            Caps { ack: Ack::Volatile, flush: false, ..good },
            Caps { block_size: 520, ..good },
        ] {
            let error = FlashCache::format(&rt, &made(caps), &slow, &options()).await.unwrap_err();
            println!("{error}");
            assert!(matches!(error, OpenError::Unsuitable(_)), "{error}");
            let error = DeviceStore::new(made(caps), 512).err().expect("it is refused");
            println!("{error}");
            assert!(matches!(error, OpenError::Unsuitable(_)), "{error}");
        }
        let tiny = Caps { blocks: 2048, ..good };
        assert!(matches!(DeviceStore::new(made(tiny), 512), Err(OpenError::Unsuitable(_))));
    });
}

/// What an earlier cache left on the devices never counts in a new one.
#[test]
fn a_new_cache_has_nothing_of_the_old_one() {
    run(async |rt| {
        let bench = Bench::new(&rt, 80 << 10, &options()).await;
        let cache = bench.open().await;
        for page in 0..30 {
            evict(&cache, page, 5).await;
        }
        drop(cache);
        let force = FormatOptions { force: true, ..options() };
        FlashCache::format(&rt, &bench.flash, &bench.store(), &force).await.unwrap();
        let cache = bench.open().await;
        assert_eq!(cache.stats().pages, 0);
        evict(&cache, 3, 1).await;
        drop(cache);
        let cache = bench.open().await;
        assert_eq!(cache.stats().pages, 1);
    });
}
