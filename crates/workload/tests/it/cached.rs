//! The page-level engine over a flash cache, on devices that break everything that they do not
//! promise, cut at random moments: no commit and no change of a page is lost.

use tantalum_cache::flash::Beside;
use tantalum_cache::{Defect, plant};
use tantalum_device::{Ack, BlockDevice, Caps, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_rt::{Domain, Nanos, Rt, Runtime};
use tantalum_workload::pages::{
    Benchmark, CacheJob, Engine, EngineJob, Host, InPlace, Journal, LOADED, Lsn, Order, PageNo,
    PageStore, PageVersion, PageWrites, PullKind, Recovered, Redo, Restarted, Store, Volume,
    recover,
};

fn device(rt: &Rt, ack: Ack, block_size: u32, mib: u64, stream: &str) -> RamDevice {
    let caps = Caps {
        block_size,
        blocks: (mib << 20) / u64::from(block_size),
        ack,
        ordered: false,
        atomic_unit: block_size,
        ..Caps::power_safe(1, Payload::Stamps)
    };
    let options = RamOptions {
        command: Nanos::from_micros(50),
        jitter: Nanos::from_micros(100),
        flush: Nanos::from_millis(1),
        stream: stream.to_string(),
        ..RamOptions::new(caps)
    };
    RamDevice::new(rt, options)
}

/// A pool of 410 frames over a database of 16 MiB or one warehouse.
fn small(benchmark: Benchmark) -> EngineJob {
    EngineJob {
        benchmark,
        database_mib: 16,
        buffer_percent: 10.0,
        page_bytes: 4096,
        double_write: PageWrites::InPlace,
        log_mib: 4,
        clients: 16,
        cores: 4,
        cpu_us: 20.0,
        page_cpu_us: 1.0,
        batch_pages: 20,
        lru_depth: 40,
        cleaner_ms: 5.0,
        file_per_table: false,
        single_page_flush: false,
        ..EngineJob::default()
    }
}

/// Devices of an engine, and what outlives a power cut beside them.
struct Rig {
    rt: Rt,
    job: EngineJob,
    cache: CacheJob,
    data: RamDevice,
    log: RamDevice,
    flash: RamDevice,
    journal: Journal,
    beside: Beside,
}

type Log = Redo<RamDevice>;

impl Rig {
    fn new(rt: &Rt, job: EngineJob, cache: CacheJob, ack: Ack, block: u32) -> Rig {
        Rig {
            rt: rt.clone(),
            data: device(rt, ack, block, 160, "data"),
            log: device(rt, Ack::Volatile, 4096, 16, "log"),
            flash: device(rt, ack, 4096, 32, "flash"),
            journal: Journal::new(job.mix().pages()),
            beside: Beside::default(),
            job,
            cache,
        }
    }

    fn stores(&self, domain: &Domain, host: Host) -> (Store<RamDevice>, Log) {
        let pages = self.job.mix().pages();
        let layout = self.job.layout(pages, self.data.caps(), self.log.caps()).unwrap();
        let on_data = Volume::new(&self.rt, self.data.device(), host);
        let on_log = Volume::new(&self.rt, self.log.device(), host);
        let places = InPlace::new(&self.rt, domain.clone(), &self.job, layout, on_data);
        let (flash, beside) = (self.flash.device(), self.beside.clone());
        let places = (places, pages, self.job.page_bytes);
        let store = Store::behind(&self.rt, domain, &self.cache, places, flash, beside).unwrap();
        (store, Redo::new(&self.rt, on_log, layout.log, self.journal.clone()))
    }

    async fn load(&self) {
        self.stores(&self.rt.domain(), Host::PLAIN).0.load().await.unwrap();
    }

    async fn start(&self) -> (Domain, std::rc::Rc<Engine<Store<RamDevice>, Log>>) {
        let domain = self.rt.domain();
        let (store, log) = self.stores(&domain, self.job.host());
        store.open().await.unwrap();
        let mix = self.job.mix();
        (domain.clone(), Engine::new(&self.rt, domain, &self.job, mix, store, log, &self.journal))
    }

    async fn cut(&self, domain: Domain) {
        let all = [&self.data, &self.log, &self.flash];
        all.iter().for_each(|d| d.cut());
        domain.kill();
        for d in all {
            d.off().await;
            d.power_on().await.unwrap();
        }
    }

    async fn judge(&self) -> Recovered {
        let (store, log) = self.stores(&self.rt.domain(), Host::PLAIN);
        store.open().await.unwrap();
        let found = recover(&store, &log, &self.journal).await.unwrap();
        store.close().await.unwrap();
        found
    }
}

/// Cuts an engine some times. Returns how many pages the cache had to fetch, and what restarts did.
fn cuts(seed: u64, job: EngineJob, cache: CacheJob, ack: Ack, block: u32) -> (u64, Vec<Restarted>) {
    let what = format!("seed {seed}: {cache:?} {ack:?} blocks of {block}");
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let run = runtime.block_on(async move {
        let rig = Rig::new(&rt, job, cache, ack, block);
        let mut dice = rt.stream("cuts");
        rig.load().await;
        let (mut hits, mut restarts) = (0, Vec::new());
        for round in 0..4 {
            let (domain, engine) = rig.start().await;
            if round == 0 {
                engine.warm_cache(seed).await.unwrap();
            }
            let before = rig.journal.commits();
            engine.start(seed + round).await.unwrap();
            rt.sleep(Nanos(dice.range(50_000_000, 400_000_000))).await;
            assert_eq!(engine.failure(), None, "{what}");
            assert!(rig.journal.commits() > before, "nothing was committed: {what}");
            hits += engine.cache_counts().unwrap().hits;
            drop(engine);
            rig.cut(domain).await;
            if rig.job.restart > 0 {
                let (domain, engine) = rig.start().await;
                restarts.push(engine.restart(&rig.journal).await.unwrap());
                engine.start(seed ^ 9).await.unwrap();
                rt.sleep(Nanos(dice.range(1_000_000, 100_000_000))).await;
                assert_eq!(engine.failure(), None, "{what}");
                drop(engine);
                rig.cut(domain).await;
            }
            let found = rig.judge().await;
            assert!(!found.is_damaged(), "{found:?}\n{what}");
            assert_eq!(found.commits_lost, 0, "{what}");
        }
        (hits, restarts)
    });
    run.unwrap()
}

fn cache(policy: &str) -> CacheJob {
    CacheJob { policy: policy.into(), size_mib: 8, batch: 16, laps: 1.2, ..CacheJob::default() }
}

#[test]
fn the_flash_cache_loses_nothing() {
    for seed in 0..4 {
        for ack in [Ack::Volatile, Ack::PowerSafe] {
            let block = if seed % 2 == 0 { 4096 } else { 512 };
            let job = small(Benchmark::LinkBench);
            let gsc = cache("gsc");
            let basic = CacheJob { admit: "dirty".into(), ..cache("mvfifo") };
            let (hits, _) = cuts(seed, job.clone(), gsc.clone(), ack, block);
            assert!(hits > 100, "{hits} hits");
            cuts(seed + 10, job.clone(), basic, ack, block);
            let clean = CacheJob { admit: "clean".into(), ..gsc.clone() };
            // (Of a page that is written past the cache there is no whole copy.)
            let (hits, _) = cuts(seed + 15, job.clone(), clean, ack, 4096);
            assert!(hits > 10, "{hits} hits");
            let through = CacheJob { mode: "through".into(), ..gsc.clone() };
            cuts(seed + 20, job.clone(), through, ack, block);
            for pull in [PullKind::Clean, PullKind::Dirty, PullKind::None] {
                cuts(seed + 30, job.clone(), CacheJob { pull, ..gsc.clone() }, ack, block);
            }
        }
    }
}

/// A page enters clean, and after so many others it is written past the cache. Returns its last
/// change after a cut.
fn after_a_cut(others: u32) -> Lsn {
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let cache =
        CacheJob { admit: "clean".into(), size_mib: 4, linger_ms: 1000.0, ..cache("mvfifo") };
    let run = runtime.block_on(async move {
        let rig = Rig::new(&rt, small(Benchmark::LinkBench), cache, Ack::Volatile, 4096);
        rig.load().await;
        let opened = async || {
            let domain = rig.rt.domain();
            let store = rig.stores(&domain, Host::PLAIN).0;
            store.open().await.unwrap();
            (domain, store)
        };
        let loaded = |page| PageVersion { page: PageNo(page), lsn: LOADED };
        let changed = |page| PageVersion { page: PageNo(page), lsn: Lsn(9) };
        let (domain, store) = opened().await;
        store.evict_clean(&[loaded(0), loaded(1)]).await.unwrap();
        // The batch of page 0 has an older version of another one: it is released late.
        store.write_one(changed(1)).await.unwrap();
        let others: Vec<PageVersion> = (2..others + 2).map(loaded).collect();
        store.evict_clean(&others).await.unwrap();
        rt.sleep(Nanos::from_millis(5)).await;
        store.write_one(changed(0)).await.unwrap();
        drop(store);
        rig.cut(domain).await;
        opened().await.1.fetch(PageNo(0)).await.unwrap()
    });
    run.unwrap()
}

/// Flash may have a page in a batch that left the ring, and a restart may count that batch.
#[test]
fn a_page_that_the_cache_holds_no_more_is_not_old_after_a_cut() {
    let is_old = |others: &u32| after_a_cut(*others) != Lsn(9);
    let mut ring = (300..1000).step_by(8);
    assert_eq!(ring.clone().find(is_old), None, "after so many others");
    plant(Some(Defect::PastWithoutTombstone));
    let found = ring.find(is_old);
    plant(None);
    assert!(found.is_some(), "without a tombstone it is not old, either");
}

/// The basic form that writes each page by itself, with whatever enters.
#[test]
fn the_basic_form_page_by_page_loses_nothing() {
    for (seed, admit) in [(50, "mixed"), (51, "clean"), (52, "dirty")] {
        for mode in ["back", "through"] {
            let cache = CacheJob {
                batch: 1,
                size_mib: 16,
                admit: admit.into(),
                mode: mode.into(),
                ..cache("mvfifo")
            };
            let job = small(Benchmark::LinkBench);
            cuts(seed, job.clone(), cache.clone(), Ack::Volatile, 4096);
            cuts(seed, job, cache, Ack::PowerSafe, 4096);
        }
    }
}

#[test]
fn its_rivals_lose_nothing() {
    for policy in ["lc", "tac", "bcache-lru", "bcache-fifo", "lru", "s3-fifo"] {
        for seed in 40..42 {
            let job = EngineJob { replacement: Order::Clock, ..small(Benchmark::LinkBench) };
            for mode in ["back", "through"] {
                let job = job.clone();
                let cache = CacheJob { mode: mode.into(), ..cache(policy) };
                cuts(seed, job.clone(), cache.clone(), Ack::Volatile, 4096);
                cuts(seed + 10, job, cache, Ack::PowerSafe, 4096);
            }
        }
    }
}

/// After a cut the engine redoes its log, and goes on; then it is cut and judged.
#[test]
fn restarts_redo_the_log_from_flash() {
    let job = EngineJob { restart: 1, checkpoint_s: 0.05, ..small(Benchmark::LinkBench) };
    for seed in 60..64 {
        for cache in [cache("gsc"), CacheJob { marks: false, scan: true, ..cache("gsc") }] {
            let (_, restarts) = cuts(seed, job.clone(), cache, Ack::Volatile, 4096);
            let sum = |of: fn(&Restarted) -> u64| restarts.iter().map(of).sum::<u64>();
            assert!(sum(|r| r.redone) > 0 && sum(|r| r.commits_lost) == 0, "{restarts:?}");
            assert!(sum(|r| r.hits) * 2 > sum(|r| r.reads), "{restarts:?}");
        }
    }
}

/// The same seed gives the same run.
#[test]
fn a_run_is_repeated() {
    let hash = |policy: &str| {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let cache = cache(policy);
        let run = runtime.block_on(async move {
            let rig = Rig::new(&rt, small(Benchmark::LinkBench), cache, Ack::Volatile, 4096);
            rig.load().await;
            let (_domain, engine) = rig.start().await;
            engine.warm_cache(5).await.unwrap();
            engine.start(5).await.unwrap();
            rt.sleep(Nanos::from_millis(200)).await;
            (rt.trace_hash(), engine.transactions(), engine.cache_counts())
        });
        run.unwrap()
    };
    for policy in ["gsc", "lc"] {
        assert_eq!(hash(policy), hash(policy));
    }
}
