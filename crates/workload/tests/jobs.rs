//! Synthetic block jobs on a device whose latencies are known.

use tantalum_device::{
    Ack, Block, BlockDevice, Caps, CommandKind, DataMut, Faults, IoError, Payload, RamDevice,
    RamOptions,
};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_workload::jobs::{Fsync, Job, JobError, JobReport, Pattern, run};

const BLOCKS: u64 = 1024;

fn ram(rt: &Rt, payload: Payload, command: Nanos) -> RamDevice {
    let caps = Caps {
        block_size: 4096,
        blocks: BLOCKS,
        ack: Ack::PowerSafe,
        ordered: false,
        atomic_unit: 4096,
        atomic_group: None,
        payload,
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
        reads: 0.5,
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
        let (reads, block_size) = (0.5, 8192);
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
        Job { reads: 1.5, ..some.clone() },
        Job { reads: f64::NAN, ..some.clone() },
        Job { reads: 0.7, discards: 0.7, ..some.clone() },
        Job { range: 0.0, ..some.clone() },
        Job { range: 1e-9, ..some.clone() },
        Job { queue_depth: 0, ..some.clone() },
        Job { seconds: Some(-1.0), ..some.clone() },
        Job { passes: Some(f64::INFINITY), ..some.clone() },
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
        reads: 0.3,
        seconds: Some(2.5),
        ..Job::default()
    };
    assert_eq!(job, expected);
    assert_eq!(toml::from_str::<Job>(&toml::to_string(&job).unwrap()).unwrap(), job);
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
        // What the file system writes is not the job's.
        assert_eq!(report.commands(), 4000);
        let flushes = report.stats.of(CommandKind::Flush).commands;
        assert_eq!(flushes, if barriers { 4000 } else { 0 });
    }
}
