//! The page-level engine on devices that break everything that they do not promise.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};
use tantalum_device::{
    Ack, BlockDevice, Caps, Disk, DiskModel, GroupLimit, IoError, Operation, Payload, PowerCycle,
    RamDevice, RamOptions,
};
use tantalum_rt::{Domain, Nanos, Rt, Runtime};
use tantalum_workload::pages::{
    After, AppendTree, AppendTreeJob, Benchmark, Engine, EngineError, EngineJob, Host, InPlace,
    Journal, Landed, Layout, LogDevice, LogStore, Lsn, PageNo, PageStore, PageVersion, PageWrites,
    Recovered, Redo, StoreCounts, Stored, Volume, read_stamp, recover,
};

/// The promises of a device, without its size.
#[derive(Clone, Copy)]
struct Kind {
    block_size: u32,
    ack: Ack,
    atomic_unit: u32,
    groups: Option<GroupLimit>,
    payload: Payload,
}

const VOLATILE: Kind = Kind {
    block_size: 4096,
    ack: Ack::Volatile,
    atomic_unit: 4096,
    groups: None,
    payload: Payload::Stamps,
};
/// With small blocks, each of which is written whole, and no more.
const SMALL_BLOCKS: Kind = Kind { block_size: 512, atomic_unit: 512, ..VOLATILE };
const DURABLE: Kind = Kind { ack: Ack::PowerSafe, atomic_unit: 131_072, ..VOLATILE };
const DURABLE_4K: Kind = Kind { ack: Ack::PowerSafe, ..VOLATILE };

/// A device of so many times 4 KiB.
fn device(rt: &tantalum_rt::Rt, kind: Kind, pages: u64, stream: &str) -> RamDevice {
    let caps = Caps {
        block_size: kind.block_size,
        blocks: pages * 4096 / u64::from(kind.block_size),
        ack: kind.ack,
        ordered: kind.ack == Ack::PowerSafe,
        atomic_unit: kind.atomic_unit,
        atomic_group: kind.groups,
        ..Caps::power_safe(1, kind.payload)
    };
    RamDevice::new(
        rt,
        RamOptions {
            command: Nanos::from_micros(50),
            jitter: Nanos::from_micros(100),
            flush: Nanos::from_millis(1),
            stream: stream.to_string(),
            ..RamOptions::new(caps)
        },
    )
}

/// A small job: a pool of 410 frames at 4 KiB, 102 at 16 KiB.
fn small() -> EngineJob {
    EngineJob {
        database_mib: 16,
        log_mib: 4,
        clients: 16,
        cores: 4,
        cpu_us: 20.0,
        page_cpu_us: 1.0,
        batch_pages: 20,
        lru_depth: 40,
        cleaner_ms: 5.0,
        ..EngineJob::default()
    }
}

/// The sum of the findings over some cuts. The database goes on after each.
fn cuts(seed: u64, job: EngineJob, kind: Kind, count: u32) -> Recovered {
    cuts_on(seed, job, [kind, kind], count)
}

/// The same, with the pages and the log on devices of these kinds.
fn cuts_on(seed: u64, job: EngineJob, kinds: [Kind; 2], count: u32) -> Recovered {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let all = runtime.block_on(async move {
        let mut dice = rt.stream("cuts");
        let pages = job.mix().pages();
        let data = device(&rt, kinds[0], 40_000, "data");
        let log = device(&rt, kinds[1], 40_000, "log");
        let layout = job.layout(pages, data.caps(), log.caps()).unwrap();
        let journal = Journal::new(pages);
        let stores = |domain: &Domain, host| {
            let on_data = Volume::new(&rt, data.device(), host);
            let on_log = match job.log_device {
                LogDevice::Own => Volume::new(&rt, log.device(), host),
                LogDevice::Same => on_data.clone(),
            };
            let pages = InPlace::new(&rt, domain.clone(), &job, layout, on_data);
            (pages, Redo::new(&rt, on_log, layout.log, journal.clone()))
        };
        stores(&rt.domain(), Host::PLAIN).0.load().await.unwrap();
        let mut sum = Recovered::default();
        for round in 0..count {
            let domain = rt.domain();
            let (on_data, on_log) = stores(&domain, job.host());
            let mix = job.mix();
            let engine = Engine::new(&rt, domain.clone(), &job, mix, on_data, on_log, &journal);
            let before = journal.commits();
            engine.start(seed + u64::from(round)).await.unwrap();
            rt.sleep(Nanos(dice.range(20_000_000, 300_000_000))).await;
            assert_eq!(engine.failure(), None);
            assert!(journal.commits() > before, "nothing was committed");
            let look = Volume::new(&rt, data.device(), Host::PLAIN);
            check_clean_frames(&engine, &look, &layout).await;
            domain.kill();
            drop(engine);
            for d in [&data, &log] {
                d.cut();
                d.off().await;
                d.power_on().await.unwrap();
            }
            let (pages, records) = stores(&rt.domain(), Host::PLAIN);
            let found = recover(&pages, &records, &journal).await.unwrap();
            sum.commits_lost += found.commits_lost;
            sum.repaired += found.repaired;
            sum.torn += found.torn;
            sum.behind += found.behind;
            sum.ahead += found.ahead;
            sum.replayed += found.replayed;
            // A second recovery finds nothing more.
            let again = recover(&pages, &records, &journal).await.unwrap();
            assert!(!again.is_damaged() && again.replayed + again.repaired == 0, "{again:?}");
        }
        sum
    });
    all.unwrap()
}

/// Checks that pages in clean frames are what the device holds now.
async fn check_clean_frames<P: PageStore, L: LogStore>(
    engine: &Rc<Engine<P, L>>,
    data: &Volume<RamDevice>,
    layout: &Layout,
) {
    let clean = engine.clean_pages();
    assert!(!clean.is_empty());
    for (page, lsn) in clean.into_iter().take(50) {
        let mut block = [0];
        let at = layout.place(page);
        data.read(at, &mut block).await.unwrap();
        let (found, newer) = read_stamp(block[0]).unwrap();
        // Time passes during the read: the page may have been changed and written since.
        assert!(found == page && newer >= lsn, "{page:?}: {lsn:?} in its frame, {newer:?} read");
    }
}

fn is_sound(found: &Recovered) -> bool {
    !found.is_damaged() && found.commits_lost == 0 && found.replayed > 0
}

#[test]
fn with_barriers_and_double_write_nothing_is_lost_anywhere() {
    for (i, kind) in [VOLATILE, DURABLE, DURABLE_4K].into_iter().enumerate() {
        for page_bytes in [4096, 16384] {
            for log_device in [LogDevice::Own, LogDevice::Same] {
                let job = EngineJob { page_bytes, log_device, ..small() };
                let job = EngineJob { buffer_percent: 20.0, ..job };
                let found = cuts(7 + i as u64, job, kind, 4);
                assert!(is_sound(&found), "{found:?}");
            }
        }
    }
}

/// Pages on one kind of device, and the log on another; real bytes on either, and on both.
#[test]
fn pages_and_log_may_be_on_devices_of_different_kinds_and_payloads() {
    let bytes = |kind| Kind { payload: Payload::Bytes, ..kind };
    let groups = Some(GroupLimit { extents: 256, bytes: 1 << 20 });
    let grouping = Kind { groups, ..VOLATILE };
    for kinds in
        [[DURABLE, bytes(VOLATILE)], [bytes(VOLATILE), DURABLE], [bytes(VOLATILE), bytes(VOLATILE)]]
    {
        let job = EngineJob { buffer_percent: 20.0, ..small() };
        let found = cuts_on(11, job, kinds, 4);
        assert!(is_sound(&found), "{found:?}");
    }
    let double_write = PageWrites::Atomic;
    let job = EngineJob { double_write, buffer_percent: 20.0, ..small() };
    let found = cuts_on(12, job, [bytes(grouping), VOLATILE], 4);
    assert!(is_sound(&found) && found.repaired == 0, "{found:?}");
    // Without barriers the log's device decides whether commits survive, not that of the pages.
    let job = EngineJob { barriers: false, buffer_percent: 20.0, ..small() };
    let found = cuts_on(5, job.clone(), [DURABLE, bytes(VOLATILE)], 6);
    assert!(found.commits_lost > 0, "{found:?}");
    let found = cuts_on(5, job, [VOLATILE, bytes(DURABLE)], 6);
    assert!(found.commits_lost == 0, "{found:?}");
}

#[test]
fn a_pool_of_instances_loses_nothing() {
    for single_page_flush in [false, true] {
        for page_bytes in [4096, 16384] {
            let job = EngineJob { instances: 4, single_page_flush, page_bytes, ..small() };
            let job = EngineJob { buffer_percent: 20.0, ..job };
            let found = cuts(9, job, VOLATILE, 4);
            assert!(is_sound(&found), "{found:?}");
        }
    }
}

#[test]
fn the_double_write_area_repairs_what_tears() {
    let job = EngineJob { buffer_percent: 20.0, ..small() };
    let found = cuts(3, job, VOLATILE, 12);
    assert!(is_sound(&found) && found.repaired > 0, "{found:?}");
}

/// Cuts an engine on devices that tear pages, each time restarts it as a database does, and then looks
/// at everything. Gives the records that were redone, or what the first restart said that failed.
fn restarts(job: EngineJob, count: u64) -> Result<u64, EngineError> {
    let mut runtime = Runtime::virtual_time(21);
    let rt = runtime.handle();
    let all = runtime.block_on(async move {
        let mut dice = rt.stream("cuts");
        let pages = job.mix().pages();
        let data = device(&rt, VOLATILE, 40_000, "data");
        let log = device(&rt, VOLATILE, 40_000, "log");
        let layout = job.layout(pages, data.caps(), log.caps()).unwrap();
        let journal = Journal::new(pages);
        let stores = |domain: &Domain| {
            let on = |d: &RamDevice| Volume::new(&rt, d.device(), job.host());
            let pages = InPlace::new(&rt, domain.clone(), &job, layout, on(&data));
            (pages, Redo::new(&rt, on(&log), layout.log, journal.clone()))
        };
        let begun = || {
            let domain = rt.domain();
            let (pages, records) = stores(&domain);
            let engine =
                Engine::new(&rt, domain.clone(), &job, job.mix(), pages, records, &journal);
            (domain, engine)
        };
        stores(&rt.domain()).0.load().await.unwrap();
        let mut redone = 0;
        for round in 0..count {
            let (domain, engine) = begun();
            engine.start(round).await.unwrap();
            rt.sleep(Nanos(dice.range(20_000_000, 300_000_000))).await;
            assert_eq!(engine.failure(), None);
            domain.kill();
            for d in [&data, &log] {
                d.cut();
                d.off().await;
                d.power_on().await.unwrap();
            }
            let (domain, engine) = begun();
            let restarted = engine.restart(&journal).await?;
            assert_eq!(restarted.commits_lost, 0);
            redone += restarted.redone;
            domain.kill();
            drop(engine);
            let (pages, records) = stores(&rt.domain());
            let found = recover(&pages, &records, &journal).await.unwrap();
            assert!(!found.is_damaged() && found.replayed == 0, "round {round}: {found:?}");
        }
        Ok(redone)
    });
    all.unwrap()
}

/// With whole pages in the log a restart does not read what may be torn.
#[test]
fn a_restart_takes_torn_pages_from_the_log() {
    let job = |double_write| EngineJob { double_write, buffer_percent: 20.0, ..small() };
    let redone = restarts(job(PageWrites::Logged), 60).unwrap();
    assert!(redone > 0);
    let torn = restarts(job(PageWrites::InPlace), 60);
    assert!(matches!(torn, Err(EngineError::Damaged { .. })), "{torn:?}");
}

#[test]
fn without_it_large_pages_tear_unless_the_drive_writes_them_whole() {
    let job = EngineJob { double_write: PageWrites::InPlace, buffer_percent: 20.0, ..small() };
    let found = cuts(3, job.clone(), VOLATILE, 12);
    assert!(found.torn > 0 && found.behind + found.ahead + found.commits_lost == 0, "{found:?}");
    // Pages of the drive's atomic unit do not tear.
    let found = cuts(3, EngineJob { page_bytes: 4096, ..job.clone() }, VOLATILE, 6);
    assert!(is_sound(&found), "{found:?}");
    let found = cuts(3, job, DURABLE, 6);
    assert!(is_sound(&found), "{found:?}");
}

#[test]
fn pages_in_atomic_groups_do_not_tear_and_need_no_barrier() {
    // Batches of 20 pages: limits of 3 pages by bytes, of 7 by extents, and of all of them.
    for (extents, bytes) in [(256, 3 * 16384 + 4096), (7, 1 << 20), (256, 1 << 20)] {
        let groups = Some(GroupLimit { extents, bytes });
        for single_page_flush in [true, false] {
            let job = EngineJob {
                double_write: PageWrites::Atomic,
                buffer_percent: 20.0,
                single_page_flush,
                ..small()
            };
            let found = cuts(3, job, Kind { groups, ..VOLATILE }, 4);
            assert!(is_sound(&found) && found.repaired == 0, "{found:?}");
        }
    }
    // The log still needs its own barriers.
    let groups = Some(GroupLimit { extents: 256, bytes: 1 << 20 });
    let job = EngineJob {
        double_write: PageWrites::Atomic,
        buffer_percent: 20.0,
        barriers: false,
        ..small()
    };
    let found = cuts(5, job, Kind { groups, ..VOLATILE }, 6);
    assert!(found.commits_lost > 0 && found.torn == 0, "{found:?}");
}

#[test]
fn drives_that_cannot_write_a_page_as_a_group_are_refused() {
    let job = EngineJob { double_write: PageWrites::Atomic, buffer_percent: 20.0, ..small() };
    let runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    for (groups, told) in [
        (None, Some("this one takes none")),
        (Some(GroupLimit { extents: 2, bytes: 8192 }), Some("takes 2 extents and 8192 bytes")),
        (Some(GroupLimit { extents: 1, bytes: 16384 }), None),
    ] {
        let drive = device(&rt, Kind { groups, ..VOLATILE }, 40_000, "data");
        let layout = job.layout(1000, drive.caps(), drive.caps());
        match (layout, told) {
            (Ok(_), None) => {}
            (Err(e), Some(told)) => assert!(e.to_string().contains(told), "{e}"),
            (other, _) => panic!("{groups:?}: {other:?}"),
        }
    }
}

/// A page of 4 KiB over eight blocks, of which each is written whole, can tear: copies mend it, and
/// atomic groups do not tear it. Nothing else is lost, whatever the blocks of the log are.
#[test]
fn pages_over_several_small_blocks_tear_and_are_mended() {
    let job = EngineJob { buffer_percent: 20.0, page_bytes: 4096, ..small() };
    let bytes = |kind| Kind { payload: Payload::Bytes, ..kind };
    let mut repaired = 0;
    for kinds in [
        [SMALL_BLOCKS; 2],
        [SMALL_BLOCKS, VOLATILE],
        [VOLATILE, SMALL_BLOCKS],
        [bytes(SMALL_BLOCKS), bytes(VOLATILE)],
    ] {
        let found = cuts_on(3, job.clone(), kinds, 8);
        assert!(is_sound(&found), "{found:?}");
        repaired += found.repaired;
    }
    assert!(repaired > 0);
    let same = EngineJob { log_device: LogDevice::Same, ..job.clone() };
    assert!(is_sound(&cuts(4, same, SMALL_BLOCKS, 6)));
    let alone = EngineJob { double_write: PageWrites::InPlace, ..job.clone() };
    let found = cuts(3, alone, SMALL_BLOCKS, 12);
    assert!(found.torn > 0 && found.behind + found.ahead + found.commits_lost == 0, "{found:?}");
    let groups = Some(GroupLimit { extents: 64, bytes: 1 << 20 });
    let grouped = EngineJob { double_write: PageWrites::Atomic, ..job.clone() };
    let found = cuts(3, grouped, Kind { groups, ..SMALL_BLOCKS }, 6);
    assert!(is_sound(&found) && found.repaired == 0, "{found:?}");
    // Blocks larger than a page of the redo log's records, too.
    let large = Kind { block_size: 16384, atomic_unit: 16384, ..VOLATILE };
    let found = cuts(3, EngineJob { page_bytes: 16384, ..job }, large, 6);
    assert!(is_sound(&found) && found.repaired == 0, "{found:?}");
}

/// A disk with a cache and blocks of 512 bytes.
fn disk() -> DiskModel {
    DiskModel {
        block_bytes: 512,
        blocks: 80_000,
        rpm: 15_000,
        track_blocks: 960,
        heads: 4,
        skew_blocks: 0,
        seek_track_us: 600,
        seek_full_us: 7350,
        command_us: 100,
        prepares_ahead: false,
        interface_mb_s: 300,
        queue_depth: 32,
        queue_window: 0,
        cache_kib: 1024,
        write_cache: true,
        write_settle_us: 500,
        cache_window: 64,
        expiry_ms: 500,
        spin_up_ms: 3,
    }
}

/// The engine on that disk for a while; at each of these moments of it a copy of the disk is cut,
/// started and judged. The sum over all, and the moments at which the disk's arm began or ended
/// something.
fn every_cut(job: &EngineJob, moments: &[Nanos]) -> (Recovered, Vec<Nanos>) {
    let (job, mut moments) = (job.clone(), moments.to_vec());
    moments.sort_unstable();
    moments.dedup();
    let mut runtime = Runtime::virtual_time(23);
    let rt = runtime.handle();
    let ran = runtime.block_on(async move {
        let data = Disk::new(&rt, &disk(), Payload::Stamps).unwrap();
        data.power_on().await.unwrap();
        let (pages, domain) = (job.mix().pages(), rt.domain());
        let caps = *data.device().caps();
        let layout = job.layout(pages, &caps, &caps).unwrap();
        let journal = Journal::new(pages);
        let stores = move |rt: &Rt, disk: &Disk, domain: &Domain, job: &EngineJob, host| {
            let volume = Volume::new(rt, disk.device(), host);
            let pages = InPlace::new(rt, domain.clone(), job, layout, volume.clone());
            (pages, volume)
        };
        stores(&rt, &data, &rt.domain(), &job, Host::PLAIN).0.load().await.unwrap();
        let (store, volume) = stores(&rt, &data, &domain, &job, job.host());
        let log = Redo::new(&rt, volume, layout.log, journal.clone());
        let engine = Engine::new(&rt, domain.clone(), &job, job.mix(), store, log, &journal);
        engine.warm(1, 2_000);
        data.record_operations();
        engine.start(5).await.unwrap();
        let mut sum = Recovered::default();
        for moment in &moments {
            rt.sleep(moment.saturating_sub(rt.now())).await;
            let mut after = Runtime::virtual_time(moment.0);
            let (rt, journal, job) = (after.handle(), journal.fork(), job.clone());
            let copy = data.cut_copy(&rt).unwrap();
            let found = after.block_on(async move {
                copy.power_on().await.unwrap();
                let (pages, volume) = stores(&rt, &copy, &rt.domain(), &job, Host::PLAIN);
                let log = Redo::new(&rt, volume, layout.log, journal.clone());
                recover(&pages, &log, &journal).await.unwrap()
            });
            let found = found.unwrap();
            sum.commits_lost += found.commits_lost;
            sum.repaired += found.repaired;
            sum.torn += found.torn;
            sum.behind += found.behind;
            sum.ahead += found.ahead;
            sum.replayed += found.replayed;
        }
        if moments.is_empty() {
            rt.sleep(Nanos::from_secs(3)).await;
        }
        assert_eq!(engine.failure(), None);
        assert!(journal.commits() > 0, "nothing was committed");
        domain.kill();
        let operations = data.take_operations();
        let each = operations.iter().filter(|o| o.changes);
        let middle = |o: &Operation| Nanos(o.begin.0.midpoint(o.end.0));
        let moments = each.flat_map(|o| [o.begin, middle(o), o.end]);
        (sum, moments.collect::<Vec<_>>())
    });
    ran.unwrap()
}

#[test]
fn every_cut_of_a_disk_with_small_blocks_is_survived_with_copies_and_torn_without() {
    for double_write in [PageWrites::Double, PageWrites::Logged, PageWrites::InPlace] {
        let job = EngineJob {
            double_write,
            page_bytes: 4096,
            buffer_percent: 10.0,
            log_device: LogDevice::Same,
            batch_pages: 8,
            ..small()
        };
        let (_, moments) = every_cut(&job, &[]);
        assert!(moments.len() > 60, "{}", moments.len());
        let (found, _) = every_cut(&job, &moments);
        assert!(found.commits_lost + found.behind + found.ahead == 0, "{found:?}");
        assert!(found.replayed > 0, "{found:?}");
        match double_write {
            PageWrites::Double | PageWrites::Logged => {
                assert!(found.torn == 0 && found.repaired > 0, "{found:?}");
            }
            _ => assert!(found.torn > 0, "{found:?}"),
        }
    }
}

#[test]
fn the_share_of_operations_that_change_something_can_be_chosen() {
    let mut dice = tantalum_rt::Stream::new(1, "shares");
    let share = |update_percent, dice: &mut _| {
        let mut mix = EngineJob { update_percent, ..small() }.mix();
        let mut uses = Vec::new();
        let changes = (0..4000).filter(|_| {
            uses.clear();
            mix.next(dice, &mut uses);
            uses.iter().any(|u| u.redo > 0)
        });
        changes.count() as f64 / 4000.0
    };
    for percent in [0.0, 60.0, 100.0] {
        let found = share(Some(percent), &mut dice) * 100.0;
        assert!((found - percent).abs() < 3.0, "{percent}: {found}");
    }
    let own = share(None, &mut dice);
    assert!((0.25..0.4).contains(&own), "{own}");
}

#[test]
fn without_barriers_only_a_durable_cache_keeps_commits() {
    let job = EngineJob {
        barriers: false,
        page_bytes: 4096,
        double_write: PageWrites::InPlace,
        ..small()
    };
    let found = cuts(5, job.clone(), DURABLE, 6);
    assert!(is_sound(&found), "{found:?}");
    let found = cuts(5, job, VOLATILE, 6);
    assert!(found.commits_lost > 0 && found.is_damaged(), "{found:?}");
}

#[test]
fn o_dsync_and_a_waiting_reader_are_safe_too() {
    let job = EngineJob {
        benchmark: Benchmark::Tpcc,
        database_mib: 16,
        o_dsync: true,
        double_write: PageWrites::InPlace,
        single_page_flush: false,
        page_bytes: 4096,
        buffer_percent: 20.0,
        batch_pages: 8,
        cleaners: 2,
        ..small()
    };
    let found = cuts(9, job, VOLATILE, 4);
    assert!(is_sound(&found), "{found:?}");
}

/// The sums over cuts of a run of the append-only tree: lost updates, missing nodes.
fn tree_cuts(seed: u64, job: AppendTreeJob, kind: Kind, count: u32) -> (u64, u64) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let sum = runtime.block_on(async move {
        let disk = device(&rt, kind, 80_000, "file");
        let caps = *disk.caps();
        let tree = AppendTree::new(&rt, &job, seed, &caps).unwrap();
        let mut dice = rt.stream("cuts");
        let (mut lost, mut missing) = (0, 0);
        for round in 0..count {
            let volume = Volume::new(&rt, disk.device(), job.host());
            let (running, domain) = (tree.clone(), rt.domain());
            let task = domain.spawn("the tree", async move {
                running.run(&volume, u64::from(round)).await.unwrap();
            });
            let before = tree.acknowledged();
            rt.sleep(Nanos(dice.range(20_000_000, 100_000_000))).await;
            assert!(!task.is_finished() && tree.acknowledged() > before);
            domain.kill();
            disk.cut();
            disk.off().await;
            disk.power_on().await.unwrap();
            let found = tree.recover(&Volume::new(&rt, disk.device(), Host::PLAIN)).await.unwrap();
            (lost, missing) = (lost + found.lost, missing + found.missing);
        }
        (lost, missing)
    });
    sum.unwrap()
}

#[test]
fn the_append_only_tree_needs_barriers_or_a_durable_cache() {
    for fsync_every in [1, 7] {
        let job = AppendTreeJob {
            fsync_every,
            documents: 2000,
            operations: 7500,
            ..AppendTreeJob::default()
        };
        assert_eq!(tree_cuts(1, job.clone(), VOLATILE, 5), (0, 0));
        let job = AppendTreeJob { barriers: false, ..job };
        assert_eq!(tree_cuts(1, job.clone(), DURABLE, 5), (0, 0));
        let (lost, missing) = tree_cuts(1, job, VOLATILE, 5);
        assert!(lost > 0 && missing > 0, "{lost} {missing}");
    }
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let caps = |blocks| Caps {
        ack: Ack::Volatile,
        ordered: false,
        ..Caps::power_safe(blocks, Payload::Stamps)
    };
    let drive = caps(40_000);
    let told = |job: EngineJob| job.layout(4000, &drive, &drive).unwrap_err().to_string();
    for (job, expected) in [
        (EngineJob { page_bytes: 5000, ..small() }, "page_bytes = 5000: must be a power of two"),
        (EngineJob { update_percent: Some(101.0), ..small() }, "update_percent = 101: must be 0"),
        (
            EngineJob { log_device: LogDevice::Same, log_bytes: true, ..small() },
            "log_bytes = true: must be left out",
        ),
        (EngineJob { clients: 0, ..small() }, "clients = 0: must be 1 to 4096"),
        (EngineJob { buffer_percent: 1.0, ..small() }, "frames are too few"),
        (EngineJob { log_mib: 400, ..small() }, "the log needs 103424 blocks"),
    ] {
        let error = told(job);
        assert!(error.contains(expected), "{error}");
    }
    let job = EngineJob { buffer_percent: 20.0, page_bytes: 4096, ..small() };
    for (block_size, blocks, expected) in [
        (4096, 40_000, None),
        (512, 320_000, None),
        (512, 40_000, Some("the database needs 44288 blocks of 512 bytes")),
        (8192, 40_000, Some("a page of 4096 bytes must be a whole number of the drive's blocks")),
        (256, 640_000, Some("a power of two is needed, 512 to 4096")),
        (3000, 640_000, Some("these have 3000 bytes (`block_bytes`")),
    ] {
        let drive = Caps { block_size, ..caps(blocks) };
        let layout = job.layout(4000, &drive, &drive);
        let error = layout.map_or_else(|e| e.to_string(), |_| String::new());
        assert!(error.contains(expected.unwrap_or("")), "{error}");
        assert_eq!(error.is_empty(), expected.is_none(), "{error}");
        // The log's own drive may have other blocks.
        let layout = job.layout(4000, &caps(40_000), &drive);
        assert_eq!(layout.is_err(), [256, 3000].contains(&block_size), "{block_size}");
    }
    let tree = AppendTreeJob { operations: 5_000, ..AppendTreeJob::default() };
    let error = tree.check(Some(&caps(40_000))).unwrap_err().to_string();
    assert!(error.contains("the file needs 51024 blocks"), "{error}");
}

/// A page store that checks the engine's promises to its store: pages come and go in turns, clean
/// ones unchanged, dirty ones after their log.
struct Watched<P, L> {
    pages: P,
    log: Rc<L>,
    seen: Rc<RefCell<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Pages in the pool, with the version that the store has of each.
    inside: BTreeMap<PageNo, Lsn>,
    clean: u64,
    dirty: u64,
    stayed: u64,
    checkpoints: u64,
}

impl Seen {
    fn leaves(&mut self, page: PageNo) -> Lsn {
        self.inside.remove(&page).expect("a page leaves that did not come")
    }
}

impl<P: PageStore, L: LogStore> PageStore for Watched<P, L> {
    async fn fetch(&self, page: PageNo) -> Result<Lsn, EngineError> {
        let lsn = self.pages.fetch(page).await?;
        let before = self.seen.borrow_mut().inside.insert(page, lsn);
        assert_eq!(before, None, "{page:?} is in the pool already");
        Ok(lsn)
    }

    async fn write(
        &self,
        pages: &[PageVersion],
        after: After,
        landed: Landed,
    ) -> Result<(), EngineError> {
        // The log is durable already, so this does not wait.
        let last = pages.iter().map(|p| p.lsn).max().unwrap();
        let flushed =
            std::pin::pin!(self.log.flush(last)).poll(&mut Context::from_waker(Waker::noop()));
        assert!(flushed.is_ready(), "pages are written before their log");
        let (seen, own) = (self.seen.clone(), pages.to_vec());
        let landed: Landed = Rc::new(move |i: usize| {
            let PageVersion { page, lsn } = own[i];
            let mut seen = seen.borrow_mut();
            let older = seen.leaves(page);
            assert!(older < lsn, "{page:?} was not changed");
            match after {
                After::Leaves => seen.dirty += 1,
                After::Stays => {
                    seen.stayed += 1;
                    seen.inside.insert(page, lsn);
                }
            }
            drop(seen);
            landed(i);
        });
        self.pages.write(pages, after, landed).await
    }

    async fn write_one(&self, page: PageVersion) -> Result<(), EngineError> {
        self.pages.write_one(page).await?;
        let mut seen = self.seen.borrow_mut();
        assert!(seen.leaves(page.page) < page.lsn);
        seen.dirty += 1;
        Ok(())
    }

    async fn evict_clean(&self, pages: &[PageVersion]) -> Result<(), EngineError> {
        for PageVersion { page, lsn } in pages {
            let mut seen = self.seen.borrow_mut();
            assert_eq!(seen.leaves(*page), *lsn, "{page:?} is not what the store has");
            seen.clean += 1;
        }
        self.pages.evict_clean(pages).await
    }

    async fn forget(&self, page: PageNo) -> Result<(), EngineError> {
        self.pages.forget(page).await
    }

    async fn checkpoint(&self, lsn: Lsn) -> Result<(), EngineError> {
        self.seen.borrow_mut().checkpoints += 1;
        self.pages.checkpoint(lsn).await
    }

    async fn survey(&self, pages: u32) -> Result<Vec<Stored>, IoError> {
        self.pages.survey(pages).await
    }

    async fn restore(&self, pages: &[PageVersion]) -> Result<(), IoError> {
        self.pages.restore(pages).await
    }

    fn counts(&self) -> StoreCounts {
        self.pages.counts()
    }
}

#[test]
fn every_page_that_comes_into_the_pool_is_told_to_leave_once() {
    for (double_write, single_page_flush, checkpoints) in [
        (PageWrites::Double, true, true),
        (PageWrites::Logged, true, false),
        (PageWrites::InPlace, false, false),
        (PageWrites::InPlace, true, false),
    ] {
        let mut runtime = Runtime::virtual_time(17);
        let rt = runtime.handle();
        let job = EngineJob {
            double_write,
            single_page_flush,
            buffer_percent: if checkpoints { 60.0 } else { 20.0 },
            ..small()
        };
        let ran = runtime.block_on(async move {
            let data = device(&rt, DURABLE, 40_000, "data");
            let log = device(&rt, DURABLE, 40_000, "log");
            let pages = job.mix().pages();
            let layout = job.layout(pages, data.caps(), data.caps()).unwrap();
            let (domain, journal) = (rt.domain(), Journal::new(pages));
            let volume = |d: &RamDevice| Volume::new(&rt, d.device(), job.host());
            let below = InPlace::new(&rt, domain.clone(), &job, layout, volume(&data));
            below.load().await.unwrap();
            let redo = || Redo::new(&rt, volume(&log), layout.log, journal.clone());
            let seen = Rc::new(RefCell::new(Seen::default()));
            // (This log is the engine's own: they share it.)
            let log = Rc::new(redo());
            let store = Watched { pages: below, log: log.clone(), seen: seen.clone() };
            let engine = Engine::new(&rt, domain.clone(), &job, job.mix(), store, log, &journal);
            engine.start(3).await.unwrap();
            rt.sleep(Nanos::from_secs(2)).await;
            assert_eq!(engine.failure(), None);
            domain.kill();
            let seen = seen.borrow();
            assert!(seen.clean > 100, "clean pages left {} times", seen.clean);
            assert!(seen.dirty > 100, "changed pages left {} times", seen.dirty);
            if checkpoints {
                assert!(seen.stayed > 0 && seen.checkpoints > 0, "no checkpoint was due");
            }
        });
        ran.unwrap();
    }
}

#[test]
fn a_forgotten_page_is_gone_until_it_is_written() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let ran = runtime.block_on(async move {
        let job = EngineJob { buffer_percent: 20.0, ..small() };
        let data = device(&rt, DURABLE, 40_000, "data");
        let pages = job.mix().pages();
        let layout = job.layout(pages, data.caps(), data.caps()).unwrap();
        let volume = Volume::new(&rt, data.device(), job.host());
        let store = InPlace::new(&rt, rt.domain(), &job, layout, volume);
        store.load().await.unwrap();
        let (page, lsn) = (PageNo(7), Lsn(77));
        assert_eq!(store.fetch(page).await, Ok(Lsn(1)));
        store.forget(page).await.unwrap();
        let gone = store.fetch(page).await;
        assert!(matches!(gone, Err(EngineError::Damaged { page: PageNo(7), .. })), "{gone:?}");
        assert_eq!(store.fetch(PageNo(6)).await, Ok(Lsn(1)));
        assert_eq!(store.fetch(PageNo(8)).await, Ok(Lsn(1)));
        store.write_one(PageVersion { page, lsn }).await.unwrap();
        assert_eq!(store.fetch(page).await, Ok(lsn));
        assert_eq!(store.survey(9).await.unwrap()[7], Stored::Whole(lsn));
    });
    ran.unwrap();
}
