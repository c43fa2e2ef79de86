//! Synthetic block jobs on a device with known latencies.

use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Caps, CommandKind, DataMut, Disk, DiskModel, Faults, GroupLimit, IoError,
    Payload, PowerCycle, RamDevice, RamOptions, forward,
};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};
use tantalum_workload::jobs::{
    Batch, Buffered, Elevator, Fsync, Hot, Job, JobError, JobReport, Pattern, Places, ReadsFrom,
    Sorting, Together, run, run_observed,
};

const BLOCKS: u64 = 1024;

fn ram(rt: &Rt, payload: Payload, command: Nanos) -> RamDevice {
    let caps = Caps {
        ordered: false,
        atomic_group: Some(GroupLimit { extents: 64, bytes: 1 << 20 }),
        ..Caps::power_safe(BLOCKS, payload)
    };
    RamDevice::new(
        rt,
        RamOptions { command, flush: Nanos::from_millis(1), ..RamOptions::new(caps) },
    )
}

fn on_ram(job: Job, seed: u64) -> (Result<JobReport, JobError>, Vec<u64>) {
    on_ram_of(job, seed, Nanos::from_micros(100))
}

fn on_ram_of(job: Job, seed: u64, command: Nanos) -> (Result<JobReport, JobError>, Vec<u64>) {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let device = ram(&rt, Payload::Stamps, command);
        let report = run(&rt, &device, &job, seed).await;
        let mut all = vec![0; BLOCKS as usize];
        device.read(Block(0), DataMut::Stamps(&mut all)).await.unwrap();
        (report, all)
    };
    runtime.block_on(main).unwrap()
}

#[test]
fn the_rate_follows_from_latency_depth_and_flushes() {
    for (queue_depth, fsync_every, iops) in
        [(1, 0, 10_000.0), (4, 0, 40_000.0), (1, 1, 909.09), (1, 10, 5000.0)]
    {
        let job = Job { queue_depth, fsync_every, commands: Some(4000), ..Job::default() };
        let report = on_ram(job, 1).0.unwrap();
        assert!((report.iops() / iops - 1.0).abs() < 0.001, "{} for {iops}", report.iops());
        assert!((report.bytes_per_second() / report.iops() - 4096.0).abs() < 0.1);
        assert_eq!(report.commands(), 4000);
        let flush = report.stats.of(CommandKind::Flush);
        assert_eq!(flush.commands, 4000u64.checked_div(fsync_every).unwrap_or(0));
        let write = report.stats.of(CommandKind::Write).latency.p99();
        assert!(write.0.abs_diff(100_000) <= 100, "{write}");
        if fsync_every > 0 {
            assert!(flush.latency.mean().0.abs_diff(1_000_000) <= 1000);
        }
    }
}

#[test]
fn the_shares_are_what_the_job_says() {
    let job = Job {
        reads: Some(0.5),
        discards: 0.1,
        fua: 0.25,
        queue_depth: 8,
        commands: Some(40_000),
        ..Job::default()
    };
    let stats = on_ram(job, 1).0.unwrap().stats;
    let expected = [
        (CommandKind::Read, 20_000),
        (CommandKind::Discard, 4000),
        (CommandKind::Fua, 4000),
        (CommandKind::Write, 12_000),
    ];
    for (kind, n) in expected {
        let seen = stats.of(kind).commands;
        assert!(seen.abs_diff(n) < 400, "{seen} of kind {kind}, not {n}");
    }
}

#[test]
fn a_sequential_pass_covers_its_range_and_nothing_else() {
    let job = Job {
        pattern: Pattern::Sequential,
        block_size: 16384,
        range: 0.5,
        passes: Some(1.0),
        queue_depth: 3,
        ..Job::default()
    };
    let (report, content) = on_ram(job, 1);
    assert_eq!(report.unwrap().commands(), BLOCKS / 8);
    assert!(content[..512].iter().all(|s| *s != 0));
    assert!(content[512..].iter().all(|s| *s == 0));
}

#[test]
fn a_job_ends_in_time() {
    let job = Job { seconds: Some(0.01), queue_depth: 2, ..Job::default() };
    let report = on_ram(job, 1).0.unwrap();
    assert_eq!(report.elapsed, Nanos::from_millis(10));
    assert_eq!(report.commands(), 200);
}

fn hot(space: f64, share: f64, scattered: bool) -> Pattern {
    Pattern::Hot(Hot { space, share, scattered })
}

/// Each pass visits every place once, in another order, and never near the order of addresses.
#[test]
fn a_permutation_covers_its_range_once_in_each_pass() {
    for blocks in [1, 2, 100, 1021, 4096] {
        let job = Job { pattern: Pattern::Permutation, ..Job::default() };
        let places = drawn(&job, 4096, blocks, 2 * blocks as u32);
        let (one, two) = places.split_at(blocks as usize);
        for pass in [one, two] {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert!(sorted.iter().map(|p| p.0).eq(0..blocks), "{blocks}");
        }
        if blocks > 2 {
            assert_ne!(one, two);
        }
        if blocks > 1000 {
            let near = one.windows(2).filter(|w| w[0].0.abs_diff(w[1].0) < blocks / 20);
            let share = near.count() as f64 / blocks as f64;
            assert!((0.03..0.18).contains(&share), "{share} are near the one before");
        }
    }
    let job = Job {
        pattern: Pattern::Permutation,
        block_size: 8192,
        passes: Some(1.0),
        queue_depth: 7,
        ..Job::default()
    };
    let (report, content) = on_ram(job, 1);
    assert_eq!(report.unwrap().commands(), BLOCKS / 2);
    assert!(content.iter().all(|s| *s != 0));
}

#[test]
fn hot_places_take_their_share_and_reads_may_have_places_of_their_own() {
    const DRAWS: u32 = 100_000;
    for scattered in [false, true] {
        let job = Job { pattern: hot(0.2, 0.7, scattered), ..Job::default() };
        let mut counts = vec![0_u32; 1000];
        for (at, _) in drawn(&job, 4096, 1000, DRAWS) {
            counts[at as usize] += 1;
        }
        let first: u32 = counts[..200].iter().sum();
        let first = f64::from(first) / f64::from(DRAWS);
        assert!((first - if scattered { 0.2 } else { 0.7 }).abs() < 0.1, "{first}");
        counts.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        let top = f64::from(counts[..200].iter().sum::<u32>()) / f64::from(DRAWS);
        assert!((top - 0.7).abs() < 0.005, "{top}");
        assert!(counts[999] > 0);
    }
    // All places.
    assert_eq!(drawn(&Job { pattern: hot(1.0, 0.0, true), ..Job::default() }, 4096, 9, 9).len(), 9);

    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let job = Job {
            pattern: Pattern::Permutation,
            range: 0.5,
            reads: Some(0.25),
            reads_from: Some(ReadsFrom { pattern: hot(0.2, 0.9, false), range: 0.25 }),
            commands: Some(4 * BLOCKS),
            ..Job::default()
        };
        let device = Watched { device: ram(&rt, Payload::Stamps, Nanos(1)), reads: Rc::default() };
        run(&rt, &device, &job, 1).await.unwrap();
        let mut all = vec![0; BLOCKS as usize];
        device.device.read(Block(0), DataMut::Stamps(&mut all)).await.unwrap();
        assert!(all[..BLOCKS as usize / 2].iter().all(|s| *s != 0));
        assert!(all[BLOCKS as usize / 2..].iter().all(|s| *s == 0));
        device.reads.take()
    };
    let reads = runtime.block_on(main).unwrap();
    assert!(reads.len().abs_diff(BLOCKS as usize) < 100, "{}", reads.len());
    assert!(reads.iter().all(|at| *at < BLOCKS / 4));
    let hot = reads.iter().filter(|at| **at < BLOCKS / 20).count() as f64 / reads.len() as f64;
    assert!((hot - 0.9).abs() < 0.04, "{hot}");
}

/// Records where it is read.
#[derive(Clone)]
struct Watched {
    device: RamDevice,
    reads: Rc<RefCell<Vec<u64>>>,
}

impl BlockDevice for Watched {
    forward!(device: caps, is_alive, write, write_atomic, flush, discard);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        self.reads.borrow_mut().push(at.0);
        self.device.read(at, buf).await
    }
}

#[test]
fn zipf_hits_a_few_places_more_than_random_does() {
    let touched = |pattern| {
        let job = Job { pattern, commands: Some(2000), ..Job::default() };
        on_ram(job, 1).1.iter().filter(|s| **s != 0).count()
    };
    let (random, zipf) = (touched(Pattern::Random), touched(Pattern::Zipf(1.2)));
    assert!(random > 800 && zipf < 450, "{random} {zipf}");
}

#[test]
fn the_work_does_not_depend_on_the_device() {
    let job = Job { fua: 0.1, discards: 0.2, commands: Some(3000), ..Job::default() };
    let fast = on_ram_of(job.clone(), 7, Nanos::ZERO).1;
    assert_eq!(fast, on_ram_of(job.clone(), 7, Nanos::from_millis(3)).1);
    assert_ne!(fast, on_ram_of(job, 8, Nanos::ZERO).1);
}

#[test]
fn real_bytes_work_too() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let device = ram(&rt, Payload::Bytes, Nanos(1));
        let (reads, block_size) = (Some(0.5), 8192);
        let job = Job { reads, block_size, passes: Some(2.0), ..Job::default() };
        run(&rt, &device, &job, 1).await.unwrap().commands()
    };
    assert_eq!(runtime.block_on(main).unwrap(), BLOCKS);
}

#[test]
fn a_failed_command_ends_the_job() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let device = Faults::new(&rt, ram(&rt, Payload::Stamps, Nanos(1)), "faults");
        device.fail_nth(CommandKind::Write, 10);
        let job = Job { queue_depth: 4, seconds: Some(60.0), ..Job::default() };
        let error = run(&rt, &device, &job, 1).await.unwrap_err();
        let is = matches!(
            &error,
            JobError::Io { kind: CommandKind::Write, error: IoError::Failed(_), .. }
        );
        assert!(is, "{error}");
        rt.now()
    };
    assert!(runtime.block_on(main).unwrap() < Nanos(1000));
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let some = Job { commands: Some(1), ..Job::default() };
    let bad = [
        Job { commands: None, ..some.clone() },
        Job { block_size: 1000, ..some.clone() },
        Job { block_size: 0, ..some.clone() },
        Job { block_size: 4096 * BLOCKS * 2, ..some.clone() },
        Job { reads: Some(1.5), ..some.clone() },
        Job { reads: Some(f64::NAN), ..some.clone() },
        Job { reads: Some(0.7), discards: 0.7, ..some.clone() },
        Job { range: 0.0, ..some.clone() },
        Job { range: 1e-9, ..some.clone() },
        Job { queue_depth: 0, ..some.clone() },
        Job { sizes: vec![[0, 1]], ..some.clone() },
        Job { sizes: vec![[4096, 0]], ..some.clone() },
        Job { sizes: vec![[4096 * BLOCKS + 1, 1]], ..some.clone() },
        Job { sizes: vec![[4096, 1]; 65], ..some.clone() },
        Job { seconds: Some(-1.0), ..some.clone() },
        Job { passes: Some(f64::INFINITY), ..some.clone() },
        Job { pattern: hot(0.0, 0.5, true), ..some.clone() },
        Job { pattern: hot(1.1, 0.5, true), ..some.clone() },
        Job { pattern: hot(0.2, f64::NAN, true), ..some.clone() },
        Job {
            reads_from: Some(ReadsFrom { pattern: Pattern::Random, range: 0.0 }),
            ..some.clone()
        },
        Job {
            reads_from: Some(ReadsFrom { pattern: Pattern::Random, range: 1.5 }),
            ..some.clone()
        },
        Job {
            reads_from: Some(ReadsFrom { pattern: hot(0.2, -1.0, true), range: 1.0 }),
            ..some.clone()
        },
    ];
    for job in bad {
        let result = on_ram(job.clone(), 1).0;
        assert!(result.is_err(), "{job:?}");
    }
    assert!(on_ram(some, 1).0.is_ok());
}

#[test]
fn jobs_are_written_in_toml() {
    let text = "pattern = { zipf = 0.99 }\nblock_size = 8192\nreads = 0.3\nseconds = 2.5\n";
    let job: Job = toml::from_str(text).unwrap();
    let expected = Job {
        pattern: Pattern::Zipf(0.99),
        block_size: 8192,
        reads: Some(0.3),
        seconds: Some(2.5),
        ..Job::default()
    };
    assert_eq!(job, expected);
    assert_eq!(toml::from_str::<Job>(&toml::to_string(&job).unwrap()).unwrap(), job);
    let jesd: Job = toml::from_str("pattern = \"jesd219\"\nsizes = [[4096, 7]]").unwrap();
    assert_eq!((jesd.pattern, jesd.sizes), (Pattern::Jesd219, vec![[4096, 7]]));
    let text = "pattern = \"permutation\"\nreads_from = { pattern = { hot = { space = 0.2, share = 0.3 } }, range = 0.5 }";
    let apart: Job = toml::from_str(text).unwrap();
    let reads_from = Some(ReadsFrom { pattern: hot(0.2, 0.3, false), range: 0.5 });
    assert_eq!((apart.pattern, apart.reads_from), (Pattern::Permutation, reads_from));
    let plain: Job = toml::from_str("pattern = \"sequential\"").unwrap();
    assert_eq!(plain.pattern, Pattern::Sequential);
    assert!(toml::from_str::<Job>("blocksize = 1").is_err());
}

#[test]
fn an_fsync_commits_the_journal_of_the_file_system_once_a_tick() {
    // A write takes 100 µs and a flush 1 ms; the commit is one more write.
    for (tick_ms, barriers, iops) in
        [(0, true, 909.09), (1, true, 833.33), (10, true, 900.0), (10, false, 9900.0)]
    {
        let fsync = Fsync { barriers, tick_ms, ..Fsync::default() };
        let job = Job { fsync_every: 1, fsync, commands: Some(4000), ..Job::default() };
        let report = on_ram(job, 1).0.unwrap();
        assert!((report.iops() / iops - 1.0).abs() < 0.002, "{} for {iops}", report.iops());
        // Writes of the file system do not count for the job.
        assert_eq!(report.commands(), 4000);
        let flushes = report.stats.of(CommandKind::Flush).commands;
        assert_eq!(flushes, if barriers { 4000 } else { 0 });
    }
}

/// Sizes and places of a job's commands on a device with blocks of this size.
fn drawn(job: &Job, block: u32, blocks: u64, draws: u32) -> Vec<(u64, u64)> {
    let device = (u64::from(block) * blocks, block);
    let places = Places::new(job.pattern, &job.size_mix(), job.block_size, device, 1);
    let mut places = places.expect("it makes sense");
    let mut dice = Stream::new(3, "places");
    let next = |_| {
        let range = places.next(&mut dice);
        assert!(range.count > 0 && range.start.0 + range.count <= blocks, "{range:?}");
        (range.start.0, range.count)
    };
    (0..draws).map(next).collect()
}

#[test]
fn jesd219_has_the_standards_sizes_places_and_reads() {
    const DRAWS: u32 = 200_000;
    let job = Job { pattern: Pattern::Jesd219, ..Job::default() };
    assert_eq!(job.read_share(), 0.4);
    let share = |places: &[(u64, u64)], is: &dyn Fn(&(u64, u64)) -> bool| {
        places.iter().filter(|p| is(p)).count() as f64 / f64::from(DRAWS)
    };
    // With blocks of 512 bytes all sizes can be told apart.
    let places = drawn(&job, 512, 8_000_000, DRAWS);
    let sizes = [
        (1, 0.04),
        (2, 0.01),
        (3, 0.01),
        (4, 0.01),
        (5, 0.01),
        (6, 0.01),
        (7, 0.01),
        (8, 0.67),
        (16, 0.10),
        (32, 0.07),
        (64, 0.03),
        (128, 0.03),
    ];
    for (blocks, expected) in sizes {
        let found = share(&places, &|p| p.1 == blocks);
        assert!((found - expected).abs() < 0.005, "{blocks} blocks: {found}, not {expected}");
    }
    assert!(places.iter().all(|p| p.0.is_multiple_of(8)));
    // With blocks of 4 KiB smaller sizes become one block.
    let places = drawn(&job, 4096, 1_000_000, DRAWS);
    for (blocks, expected) in [(1, 0.77), (2, 0.10), (4, 0.07), (8, 0.03), (16, 0.03)] {
        let found = share(&places, &|p| p.1 == blocks);
        assert!((found - expected).abs() < 0.005, "{blocks} blocks: {found}, not {expected}");
    }
    for (from, to, expected) in
        [(0, 50_000, 0.5), (50_000, 200_000, 0.3), (200_000, 1_000_000, 0.2)]
    {
        let found = share(&places, &|p| (from..to).contains(&p.0));
        assert!((found - expected).abs() < 0.005, "{from}..{to}: {found}, not {expected}");
        // Uniform within each zone.
        let half = share(&places, &|p| (from..(from + to) / 2).contains(&p.0));
        assert!((half - expected / 2.0).abs() < 0.005, "{from}..{to}: {half}");
    }
    let stats = on_ram(Job { commands: Some(20_000), queue_depth: 8, ..job }, 1).0.unwrap().stats;
    let reads = stats.of(CommandKind::Read).commands;
    assert!(reads.abs_diff(8_000) < 350, "{reads}");
    let own = Job {
        pattern: Pattern::Jesd219,
        reads: Some(0.33),
        sizes: vec![[8192, 1]],
        ..Job::default()
    };
    assert_eq!((own.read_share(), own.size_mix()), (0.33, vec![[8192, 1]]));
}

#[test]
fn mixed_sizes_stay_in_the_range_whatever_the_pattern() {
    let patterns = [
        Pattern::Sequential,
        Pattern::Random,
        Pattern::Permutation,
        Pattern::Zipf(0.9),
        hot(0.2, 0.7, false),
        hot(0.2, 0.7, true),
        Pattern::Jesd219,
    ];
    for pattern in patterns {
        for blocks in [16, 17, 19, 40, 1000] {
            let sizes = vec![[1, 1], [4096, 2], [65_536, 1]];
            let job = Job { pattern, sizes, ..Job::default() };
            let places = drawn(&job, 4096, blocks, 2_000);
            let long = places.iter().filter(|p| p.1 == 16).count();
            assert!((400..600).contains(&long), "{long}");
            if pattern == Pattern::Sequential {
                let joined = |w: &[(u64, u64)]| w[0].0 + w[0].1 == w[1].0 || w[1].0 == 0;
                assert!(places.windows(2).all(joined));
            }
        }
    }
}

#[test]
fn the_places_of_patterns_are_the_same_everywhere() {
    let job = Job { pattern: Pattern::Jesd219, ..Job::default() };
    assert_eq!(drawn(&job, 4096, 1_000_000, 6), GOLDEN);
}

const GOLDEN: [(u64, u64); 6] =
    [(292442, 8), (189051, 1), (951839, 1), (133087, 2), (6559, 1), (167948, 1)];

#[test]
fn a_pass_of_mixed_sizes_covers_the_range_on_average() {
    let sizes = vec![[4096, 3], [4096 * 5, 1]];
    let job = Job { sizes, passes: Some(1.0), ..Job::default() };
    assert_eq!(on_ram(job, 1).0.unwrap().commands(), BLOCKS / 2);
}

/// How long a batch of eight writes takes on a device with 100 µs for each command and 1 ms for a
/// flush. Each way leaves the same content.
#[test]
fn a_batch_takes_as_long_as_all_of_it() {
    let of = |how, commands| {
        let batch = Some(Batch { writes: 8, how });
        Job { batch, range: 0.1, commands: Some(commands), ..Job::default() }
    };
    let mut left = Vec::new();
    for (how, us) in
        [(Together::Flushed, 8 * 1100), (Together::Unordered, 100), (Together::Group, 100)]
    {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let main = async move {
            let device = ram(&rt, Payload::Stamps, Nanos::from_micros(100));
            let took = Rc::new(RefCell::new(Vec::new()));
            let heard = took.clone();
            let done = move |kind, took| heard.borrow_mut().push((kind, took));
            run_observed(&rt, &device, &of(how, 50), 3, done).await.unwrap();
            let mut all = vec![0; BLOCKS as usize];
            device.read(Block(0), DataMut::Stamps(&mut all)).await.unwrap();
            (took.take(), all)
        };
        let (took, all) = runtime.block_on(main).unwrap();
        let kind = if how == Together::Group { CommandKind::Group } else { CommandKind::Write };
        assert_eq!(took, vec![(kind, Nanos::from_micros(us)); 50]);
        left.push(all);
    }
    assert!(left.windows(2).all(|pair| pair[0] == pair[1]));
    // More extents than the device takes as one group.
    let job =
        Job { batch: Some(Batch { writes: 65, how: Together::Group }), ..of(Together::Group, 1) };
    let refused = on_ram(job, 1).0.unwrap_err();
    assert!(refused.to_string().contains("the limit is 64 extents"), "{refused}");
    let job = Job { reads: Some(0.5), ..of(Together::Group, 1) };
    assert!(matches!(job.check(), Err(JobError::Value { .. })));
}

/// A call takes 2 µs and a page 1, an fsync 3; the device 100 for a command, and 1000 for a flush.
const PAGE_CACHE: Buffered = Buffered {
    call_ns: 2000,
    page_ns: 1000,
    fsync_ns: 3000,
    cache_pages: 4096,
    dirty_background_percent: 90,
    dirty_percent: 99,
    dirty_expire_ms: 1_000_000_000,
    writeback_ms: 5000,
    command_pages: 8,
    depth: 8,
};

#[test]
fn a_buffered_job_takes_calls_and_fsyncs_and_leaves_what_a_direct_one_leaves() {
    let buffered = Some(PAGE_CACHE);
    // Without fsyncs, the neighbours among 400 blocks are written at the end, eight at a time.
    for (fsync_every, us) in [(0, 600..2600), (1, 110_900..110_901)] {
        let pattern = Pattern::Permutation;
        let direct = Job {
            pattern,
            block_size: 4 * 4096,
            fsync_every,
            range: 0.5,
            commands: Some(100),
            ..Job::default()
        };
        let job = Job { buffered, ..direct.clone() };
        let (report, left) = on_ram(job, 7);
        let report = report.unwrap();
        assert_eq!(left, on_ram(direct, 7).1);
        let mean = report.stats.of(CommandKind::Write).latency.mean();
        // (A histogram has three digits.)
        assert_eq!(mean.0 / 100, 60, "a buffered write");
        assert!(us.contains(&(report.elapsed.0 / 1000)), "{}", report.elapsed);
    }
    // Sixteen writes: each synced, and with one fsync for two commands of eight neighbours.
    for (how, us) in [
        (Together::Flushed, 16 * (3 + 3 + 100 + 1000)),
        (Together::Unordered, 16 * 3 + 3 + 100 + 1000),
        (Together::Group, 100),
    ] {
        let batch = Some(Batch { writes: 16, how });
        let pattern = Pattern::Sequential;
        let job = Job { pattern, batch, buffered, commands: Some(1), ..Job::default() };
        let elapsed = on_ram(job, 1).0.unwrap().elapsed;
        assert_eq!(elapsed, Nanos::from_micros(us), "{how:?}");
    }
    let reads = Job {
        reads: Some(0.8),
        pattern: Pattern::Zipf(0.9),
        queue_depth: 4,
        buffered,
        commands: Some(20_000),
        ..Job::default()
    };
    let read = on_ram(reads, 1).0.unwrap().stats.of(CommandKind::Read).latency.p50();
    assert_eq!(read.0 / 100, 30, "a read of what is cached");
}

#[test]
fn strides_come_to_each_place_in_the_end() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let _ = runtime.block_on(async {});
    let caps = *ram(&rt, Payload::Stamps, Nanos::ZERO).caps();
    let job = Job { pattern: Pattern::Strided(7), ..Job::default() };
    let mut places = job.places(&caps, 1).unwrap();
    let mut dice = Stream::new(1, "strides");
    let seen: Vec<u64> = (0..BLOCKS).map(|_| places.next(&mut dice).start.0).collect();
    assert_eq!(seen[..3], [0, 7, 14]);
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..BLOCKS).collect::<Vec<_>>());
    let far = Job { pattern: Pattern::Strided(BLOCKS + 1), ..Job::default() };
    assert!(matches!(far.places(&caps, 1), Err(JobError::Value { name: "pattern.strided", .. })));
}

/// How long 600 random commands take on a disk with eight places in its queue.
fn on_disk(elevator: Sorting, queue_depth: u32, reads: f64, fsync_every: u64) -> Nanos {
    let model = "blocks = 1000000\nrpm = 15000\ntrack_blocks = 120\nheads = 4\n\
                 seek_track_us = 200\nseek_full_us = 6600\ncommand_us = 100\n\
                 interface_mb_s = 300\nqueue_depth = 8\nqueue_window = 4\ncache_kib = 1024\n\
                 write_cache = true\ncache_window = 16\nspin_up_ms = 1\n";
    let model: DiskModel = toml::from_str(model).unwrap();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let disk = Disk::new(&rt, &model, Payload::Stamps).unwrap();
    let job = Job {
        elevator,
        queue_depth,
        fsync_every,
        reads: Some(reads),
        fsync: Fsync { tick_ms: 10, ..Fsync::default() },
        commands: Some(600),
        ..Job::default()
    };
    let main = async move {
        disk.power_on().await.unwrap();
        run(&rt, &disk.device(), &job, 1).await.unwrap().elapsed
    };
    runtime.block_on(main).unwrap()
}

/// The elevator is there by itself on a disk, and only sorts what the disk has no place for.
#[test]
fn a_disk_has_an_elevator_by_itself() {
    let always = Sorting::Always(Elevator::default());
    for (reads, fsync_every) in [(1.0, 0), (0.0, 0), (0.5, 1)] {
        let took = |elevator, depth| on_disk(elevator, depth, reads, fsync_every);
        for depth in [1, 6] {
            assert_eq!(took(Sorting::ByDevice, depth), took(Sorting::Never, depth));
        }
        assert_eq!(took(Sorting::ByDevice, 64), took(always, 64));
        assert_ne!(took(Sorting::ByDevice, 64), took(Sorting::Never, 64));
    }
    let reads = |elevator| on_disk(elevator, 64, 1.0, 0).0;
    assert!(reads(Sorting::ByDevice) * 5 < reads(Sorting::Never) * 4, "it shortens the seeks");
}

/// A device without an arm has one only if the job asks for it.
#[test]
fn a_device_without_an_arm_has_no_elevator_by_itself() {
    let took = |elevator| {
        let job = Job { elevator, queue_depth: 64, commands: Some(640), ..Job::default() };
        on_ram(job, 1).0.unwrap().elapsed
    };
    assert_eq!(took(Sorting::ByDevice), took(Sorting::Never));
    assert_eq!(took(Sorting::Always(Elevator::default())).0, took(Sorting::Never).0 * 2);
}

#[test]
fn an_elevator_is_a_table_or_none() {
    let job = |text: &str| toml::from_str::<Job>(text);
    let of = |text: &str| job(text).unwrap().elevator;
    assert_eq!(of(""), Sorting::ByDevice);
    assert_eq!(of("elevator = \"none\""), Sorting::Never);
    assert_eq!(of("elevator = {}"), Sorting::Always(Elevator::default()));
    let four = Elevator { depth: Some(4), ..Elevator::default() };
    assert_eq!(of("elevator = { depth = 4 }"), Sorting::Always(four));
    for sorting in [Sorting::ByDevice, Sorting::Never, Sorting::Always(four)] {
        let written = toml::to_string(&Job { elevator: sorting, ..Job::default() }).unwrap();
        assert_eq!(of(&written), sorting);
    }
    for wrong in ["\"deadline\"", "true", "3"] {
        let said = job(&format!("elevator = {wrong}")).unwrap_err().to_string();
        assert!(said.contains("\"none\", or a table such as { depth = 32 }"), "{said}");
    }
    let said = job("elevator = { depht = 3 }").unwrap_err().to_string();
    assert!(said.contains("depht") && said.contains("`depth`"), "{said}");
}

#[test]
fn messages_say_what_was_given_and_what_to_write() {
    // (The smallest integer that a float would round.)
    let far = Job {
        buffered: Some(Buffered { call_ns: (1 << 53) + 1, ..Buffered::default() }),
        ..Job::default()
    };
    let said = far.check().unwrap_err().to_string();
    assert_eq!(said, "`buffered.call_ns` is 9007199254740993, but must be 1 to 1000000000");
    let half = Job { reads: Some(1.5), ..Job::default() };
    let said = half.check().unwrap_err().to_string();
    assert_eq!(said, "`reads` is 1.5, but must be between 0 and 1");
    let said = toml::from_str::<Job>("buffered = true").unwrap_err().to_string();
    assert!(said.contains("expected a table: `buffered = {}` has the defaults"), "{said}");
}
