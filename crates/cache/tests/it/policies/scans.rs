//! Protection from scans.

use tantalum_cache::policy::sim::{PageEvent, PageIo, Sim};
use tantalum_cache::policy::{Config, Kind, PageId};

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
