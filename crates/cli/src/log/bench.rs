//! `tantalum log bench`.
//!
//! 1. Files of a benchmark have no name while it runs: however it ends, nothing is left of them.
//! 2. Whoever commits measures its own time, from the call to its return, and commits at least once.

use crate::counted::counted;
use crate::interrupt::{self, Stop};
use crate::members::{Files, in_words, make, model_of};
use crate::{out, units};
use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tantalum_device::{BlockDevice, Latencies, Payload, PowerCycle};
use tantalum_lab::subject::Model;
use tantalum_log::{
    BlockingError, BlockingLog, BlockingOptions, CreateOptions, Log, LogDevice, LogError, LogStats,
    Lsn, OpenError, OpenOptions,
};
use tantalum_rt::{Nanos, Rt, Runtime, join_all};

/// Arguments of `tantalum log bench`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log bench /var/tmp                        one file on the disk of this folder
  tantalum log bench /ssd-a /ssd-b --copies 2        a file on each of two disks
  tantalum log bench --model usb-a --model usb-a --threads 1,8
                                                     on two modelled sticks, in virtual time

Each thread commits one record after the other: each is durable before the next. On
files the numbers are those of this machine now: compare them as ratios, and only
within one run. On models they are the same each time. `tantalum designs` lists the
models. Hedges are slow writes that were written again on another device, and how many
of these ended first. Padding is what blocks that were not full cost, of all that was
written to the devices.
Exit codes: 0; 1, the log failed; 2, a file cannot be made, or there is no such model;
130, interrupted: the runs that have ended are printed.")]
pub struct BenchArguments {
    /// Folders: each gets a file of the log, which is gone afterwards
    #[arg(conflicts_with = "model")]
    folders: Vec<PathBuf>,
    /// A modelled device of the log, or the file of a preset; may be given several times
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,
    /// Threads that commit, one run for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 4, 16, 32],
          value_parser = units::whole::<u32>(1..=1024))]
    threads: Vec<u32>,
    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "128B",
          value_parser = units::bytes_within::<u32>(0..=1 << 20, 1))]
    bytes: u32,
    /// How long each run takes; virtual time on models
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = units::time)]
    length: Nanos,
    /// On how many devices each record is before it counts as durable
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = units::whole::<u8>(1..=2))]
    copies: u8,
    /// Write no slow write again on another device
    #[arg(long)]
    no_hedging: bool,
    /// The size of each file
    #[arg(long, value_name = "SIZE", default_value = "256MiB",
          value_parser = units::bytes_within::<u64>(8 << 20..=1 << 40, 1))]
    size: u64,
    /// The same in MiB: the older form of --size
    #[arg(long, value_name = "N", hide = true, conflicts_with = "size",
          value_parser = units::whole::<u64>(8..=1 << 20))]
    mib: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One run.
#[derive(Serialize)]
struct Run {
    threads: u32,
    commits: u64,
    seconds: f64,
    commits_per_second: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// Records in a group, on the average.
    records_per_group: f64,
    /// Slow writes that were written again on another device.
    hedges: u64,
    /// Of these, how many ended first.
    hedges_won: u64,
    /// Bytes written to the devices, without an archive.
    array_bytes: u64,
    /// Of these, the parts of blocks that stay empty or are repeated.
    padding_bytes: u64,
    #[serde(skip)]
    padding_percent: f64,
}

/// What a run gives.
type Ran = (Latencies, LogStats, Nanos);

/// Runs the command; returns the exit code.
pub fn bench(arguments: &BenchArguments) -> u8 {
    if arguments.folders.is_empty() && arguments.model.is_empty() {
        let what = "name a folder for the log's file, as in `tantalum log bench .`, or a modelled \
                    device: --model usb-a";
        return out::error(what, out::USAGE);
    }
    let stop = Stop::default();
    stop.set_at_interrupt(|| ());
    let mut runs = Vec::new();
    for &threads in &arguments.threads {
        let ran = match arguments.model.is_empty() {
            true => on_files(arguments, threads, &stop),
            false => on_models(arguments, threads, &stop),
        };
        match ran {
            Ok(_) if stop.is_set() => break,
            Ok(ran) => runs.push(run(threads, ran)),
            Err((why, code)) => return out::error(why, code),
        }
    }
    if !stop.is_set() {
        return print(&runs, arguments.json);
    }
    if arguments.json || !runs.is_empty() {
        print(&runs, arguments.json);
    }
    let name = |threads: &u32| counted(u64::from(*threads), "thread", "threads");
    let names: Vec<String> = arguments.threads.iter().map(name).collect();
    interrupt::over(&names, runs.len())
}

fn print(runs: &[Run], json: bool) -> u8 {
    match json {
        true => out::json(&runs),
        false => out::bytes((table(runs) + "\n").as_bytes()),
    }
}

fn run(threads: u32, (latencies, stats, took): Ran) -> Run {
    let seconds = took.0 as f64 / 1e9;
    let commits = latencies.count();
    Run {
        threads,
        commits,
        seconds,
        commits_per_second: commits as f64 / seconds.max(1e-9),
        p50_ns: latencies.p50().0,
        p99_ns: latencies.p99().0,
        p999_ns: latencies.quantile(0.999).0,
        records_per_group: stats.records as f64 / stats.groups.max(1) as f64,
        hedges: stats.hedges,
        hedges_won: stats.hedges_won,
        array_bytes: stats.array_bytes,
        padding_bytes: stats.padding_bytes,
        padding_percent: stats.padding_percent(),
    }
}

fn table(runs: &[Run]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    let figures = ["threads", "commits/s", "p50", "p99", "p99.9", "records/group"];
    table.set_header(figures.into_iter().chain(["hedges", "padding"]));
    let time = |ns: u64| Nanos(ns).to_string();
    for r in runs {
        table.add_row([
            r.threads.to_string(),
            format!("{:.0}", r.commits_per_second),
            time(r.p50_ns),
            time(r.p99_ns),
            time(r.p999_ns),
            format!("{:.1}", r.records_per_group),
            match r.hedges {
                0 => "0".to_string(),
                n => format!("{n}, {} first", r.hedges_won),
            },
            format!("{:.0} %", r.padding_percent),
        ]);
    }
    table.to_string()
}

type Failed = (String, u8);

fn usage(why: impl std::fmt::Display) -> Failed {
    (in_words(why), out::USAGE)
}

fn failed(why: impl std::fmt::Display) -> Failed {
    (in_words(why), out::FAILED)
}

/// The same for a log that is not opened: there is no description, but an option.
fn refused(why: &OpenError) -> Failed {
    match why {
        OpenError::Hedging(_) => {
            let why = "files can be written only by calls that block, since io_uring is not used, \
                       and then no slow write can be written again elsewhere";
            (format!("{why}: allow io_uring, or use --no-hedging"), out::USAGE)
        }
        why => usage(why),
    }
}

/// A log on new files, which have no name any more (1).
fn log_on_files(arguments: &BenchArguments) -> Result<BlockingLog, Failed> {
    let mut options = BlockingOptions::default();
    options.file.keep_room = true;
    let size = arguments.mib.map_or(arguments.size, |mib| mib << 20);
    let mut files = Files(Vec::new());
    for (i, folder) in arguments.folders.iter().enumerate() {
        if !folder.is_dir() {
            let is = if folder.exists() { "is no folder" } else { "is not there" };
            let name = folder.display();
            return Err(usage(format!("\"{name}\" {is}: name the folder of a disk to measure")));
        }
        let path = folder.join(format!("tantalum-bench-{}-{i}.log", std::process::id()));
        make(&path, size, &mut options)?;
        files.0.push(path);
    }
    let create = CreateOptions { copies: arguments.copies, ..CreateOptions::default() };
    BlockingLog::create(&files.0, None, &create, &options).map_err(usage)?;
    options.open.hedge.enabled = !arguments.no_hedging;
    BlockingLog::open(&files.0, options).map_err(|e| match e {
        BlockingError::Open(e) => refused(&e),
        e => usage(e),
    })
}

#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "threads and their time on this machine are what is measured"
)]
fn on_files(arguments: &BenchArguments, threads: u32, stop: &Stop) -> Result<Ran, Failed> {
    let log = log_on_files(arguments)?;
    let newest = Arc::new(AtomicU64::new(0));
    let (length, bytes) = (arguments.length, arguments.bytes as usize);
    let began = std::time::Instant::now();
    let work = |thread: u32| {
        let (log, newest, stop) = (log.clone(), newest.clone(), stop.clone());
        std::thread::spawn(move || -> Result<Latencies, LogError> {
            let (mut latencies, record) = (Latencies::default(), vec![thread as u8; bytes]);
            loop {
                let start = std::time::Instant::now();
                let at = log.commit(&record)?;
                latencies.record(Nanos(start.elapsed().as_nanos() as u64));
                newest.fetch_max(at.end.0, Ordering::Relaxed);
                if began.elapsed().as_nanos() >= u128::from(length.0) || stop.is_set() {
                    return Ok(latencies);
                }
            }
        })
    };
    let workers: Vec<_> = (0..threads).map(work).collect();
    let mut number = 0;
    while workers.iter().any(|worker| !worker.is_finished()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let stats = log.stats().map_err(failed)?;
        if stats.sections_used * 2 > stats.sections {
            number += 1;
            log.checkpoint(Lsn(newest.load(Ordering::Relaxed)), number).map_err(failed)?;
        }
    }
    let took = Nanos(began.elapsed().as_nanos() as u64);
    let mut all = Latencies::default();
    for worker in workers {
        let ended = worker.join().map_err(|_| failed("a thread of the benchmark panicked"))?;
        all.merge(&ended.map_err(failed)?);
    }
    let stats = log.stats().map_err(failed)?;
    log.close().map_err(failed)?;
    Ok((all, stats, took))
}

fn on_models(arguments: &BenchArguments, threads: u32, stop: &Stop) -> Result<Ran, Failed> {
    let model = |name: &String| model_of(name).map_err(usage);
    let models: Vec<Model> = arguments.model.iter().map(model).collect::<Result<_, _>>()?;
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let (length, bytes, copies) = (arguments.length, arguments.bytes as usize, arguments.copies);
    let (hedges, stop) = (!arguments.no_hedging, stop.clone());
    let work = async move {
        let mut devices = Vec::new();
        for (i, model) in (0..).zip(&models) {
            let device = model.build_at(&rt, Payload::Bytes, i, None).map_err(usage)?;
            device.power_on().await.map_err(failed)?;
            devices.push(LogDevice::new(format!("model {i}"), PowerCycle::device(&device)));
        }
        let create = CreateOptions { copies, ..CreateOptions::default() };
        Log::create(&rt, &devices, None, &create).await.map_err(usage)?;
        let mut options = OpenOptions::default();
        options.hedge.enabled = hedges;
        let log = Log::open(&rt, devices, options).await.map_err(|e| refused(&e))?;
        let ends = |took: Nanos| took >= length || stop.is_set();
        commits(&rt, &log, threads, ends, bytes).await.map_err(failed)
    };
    runtime.block_on(work).map_err(|e| failed(format!("the log has stalled: {e}")))?
}

/// The same with tasks, on the clock of the runtime: until `ends` says so of the time that it took.
async fn commits<D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    log: &Log<D>,
    tasks: u32,
    ends: impl Fn(Nanos) -> bool,
    bytes: usize,
) -> Result<Ran, LogError> {
    let latencies: Rc<RefCell<Latencies>> = Rc::default();
    let began = rt.now();
    let work = |task: u32| {
        let (latencies, ends) = (latencies.clone(), &ends);
        async move {
            let record = vec![task as u8; bytes];
            while !ends(rt.now().saturating_sub(began)) {
                let start = rt.now();
                let at = log.commit(&record).await?;
                latencies.borrow_mut().record(rt.now().saturating_sub(start));
                let stats = log.stats();
                if stats.sections_used * 2 > stats.sections && at.end == log.durable() {
                    log.checkpoint(at.end, 1).await?;
                }
            }
            Ok(())
        }
    };
    let ended = join_all((0..tasks).map(work).collect()).await;
    ended.into_iter().collect::<Result<Vec<()>, LogError>>()?;
    let took = rt.now().saturating_sub(began);
    let latencies = latencies.borrow().clone();
    Ok((latencies, log.stats(), took))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is no description in which hedging could be switched off.
    #[test]
    fn advice_is_about_options_of_the_benchmark() {
        let (said, code) = refused(&OpenError::Hedging("a.log".to_string()));
        assert!(said.ends_with("allow io_uring, or use --no-hedging"), "{said}");
        assert_eq!(code, out::USAGE);
    }
}
