//! Protection from scans.

use super::devices::Step;
use super::events::steps;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_cache::flash::{DeviceStore, Fetched, FlashCache, FormatOptions, NoHost, OpenOptions};
use tantalum_cache::policy::sim::{PageEvent, PageIo, Sim};
use tantalum_cache::policy::{Access, Config, Exit, Kind, Lsn, NoPull, PageId, Work};
use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
use tantalum_rt::Runtime;

/// The hit rate of reads of 500 hot pages in random order, while a scan reads a page for each.
fn hot_hits(kind: Kind, scan: Option<u32>) -> f64 {
    let config = Config { scan, ..Config::new(kind, 1024, 8192) };
    let mut sim = Sim::new(&config, None).expect("it can be built");
    let read = |page| PageIo { page: PageId(page), client: 0, event: PageEvent::Read };
    let (mut hits, mut random) = (0, 1_u64);
    const READS: u64 = 20_000;
    for i in 0..READS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let before = sim.counts().read_hits;
        // Hot pages are not neighbours.
        sim.step(read(3 * ((random >> 33) % 500)));
        hits += sim.counts().read_hits - before;
        sim.step(read(1_000_000 + i));
    }
    hits as f64 / READS as f64
}

#[test]
fn a_scan_takes_nothing_from_a_protected_cache() {
    for kind in Kind::ALL.into_iter().filter(|&k| k != Kind::None) {
        let (open, guarded) = (hot_hits(kind, None), hot_hits(kind, Some(32)));
        println!("{kind}: {open:.3} without protection, {guarded:.3} with it");
        // Each hot page is missed once.
        assert!(guarded > 0.97, "{kind}: {guarded}");
    }
    assert!(hot_hits(Kind::MvFifo, None) < 0.8, "the scan hurts where nothing protects");
}

const PAGES: u64 = 150;
const BYTES: usize = 512;

/// A flash cache on devices, and the policy with the same protection, both with room for everything:
/// the one has a page when the other does, and it is the newest version.
fn agree(steps: Vec<Step>, scan: u32) {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let test = async move {
        let ram = |bytes: u64| {
            let caps = Caps::power_safe(bytes / BYTES as u64, Payload::Bytes);
            RamDevice::new(&rt, RamOptions::new(Caps { block_size: BYTES as u32, ..caps }))
        };
        let flash = ram(40 << 20);
        let store = ram((1 << 20) + PAGES * BYTES as u64);
        let slow = DeviceStore::new(store, BYTES as u32).unwrap();
        let format = FormatOptions { page: BYTES as u32, frames: 4, ..FormatOptions::default() };
        FlashCache::format(&rt, &flash, &slow, &format).await.unwrap();
        let options = OpenOptions { scan: Some(scan), ..OpenOptions::default() };
        let cache = FlashCache::open(&rt, flash, slow, Rc::new(NoHost), options).await.unwrap();
        let config = Config { scan: Some(scan), ..Config::new(Kind::MvFifo, 1 << 15, 4096) };
        let (mut policy, mut work) = (config.build().unwrap(), Work::new());
        let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
        for (step, now) in steps.into_iter().zip(1..) {
            match step {
                Step::Use { page, client, changed } => {
                    let mut bytes = vec![0; BYTES];
                    let found = cache.fetch(page, &mut bytes).await.unwrap();
                    let access = Access { page: PageId(page), client };
                    let hit = policy.fetch(access, &mut work).is_some();
                    assert_eq!(found != Fetched::Slow, hit, "page {page}");
                    let version = newest.get(&page).copied().unwrap_or(0);
                    assert_eq!(bytes, version.to_le_bytes().repeat(BYTES / 8), "page {page}");
                    let version = if changed { now } else { version };
                    newest.insert(page, version);
                    let bytes = version.to_le_bytes().repeat(BYTES / 8);
                    while cache.stage(page, &bytes, changed, version).unwrap().is_none() {
                        cache.until_room().await.unwrap();
                    }
                    let (page, lsn) = (PageId(page), Lsn(version));
                    let exit = Exit { page, client, lsn, dirty: changed, fdirty: changed };
                    policy.evict(exit, &mut NoPull, &mut work);
                }
                Step::Forget(page) => {
                    // What the slow store has shows then: none of its versions may be another.
                    cache.clean().await.unwrap();
                    cache.forget(page..page + 1).await.unwrap();
                    policy.forget(PageId(page), &mut work);
                }
                Step::Clean => cache.clean().await.unwrap(),
                Step::Flush | Step::Tell => cache.checkpoint().await.unwrap(),
            }
            work.clear();
        }
        assert_eq!(cache.stats().pages, policy.occupancy().valid);
    };
    runtime.block_on(test).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn the_cache_on_devices_keeps_out_what_the_policy_does(steps in steps(PAGES), scan in 0..6u32) {
        agree(steps, scan);
    }
}
