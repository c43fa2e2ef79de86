//! The speed of the simulation itself, and its memory.
//!
//! The comparison runs: 4 KiB random writes at queue depth 32 on a geometry on which other
//! simulators were measured, once over the whole range, once over 70 per cent of it. And a
//! drive of any design, written whole and then overwritten. Requests per second of
//! processor time, so that a busy machine disturbs less.

// The one place that measures real time: nothing simulated depends on it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "benchmarks read the processor's clock"
)]

use crate::run::precondition::{self, Precondition, PreconditionError};
use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, PowerCycle};
use tantalum_drive::{Design, DesignError, Drive};
use tantalum_explore::AnyBox;
use tantalum_rt::{Nanos, RunError, Runtime};

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRun {
    /// What was run.
    pub name: String,
    /// Blocks of 4 KiB written. In the comparison runs each is a request.
    pub requests: u64,
    /// Processor time, s.
    pub cpu_seconds: f64,
    /// The quotient.
    pub requests_per_cpu_second: f64,
    /// Processor time from nothing to a drive that takes commands, s. It is included above, except
    /// for a further part of the run on a drive that is already on.
    pub start_up_s: f64,
    /// Bytes programmed for each byte written.
    pub write_amplification: f64,
    /// The largest resident memory of the process so far, MiB.
    pub peak_rss_mib: f64,
}

/// What `tantalum drive bench --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// The comparison runs.
    pub runs: Vec<BenchRun>,
    /// Timers set and fired by the bare runtime, per second of processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_events_per_second: Option<f64>,
}

/// Why a design could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// It cannot be built.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// Its drive does not start.
    #[error("the drive did not start: {0}")]
    Start(#[from] IoError),
    /// Its drive failed a write.
    #[error(transparent)]
    Write(#[from] PreconditionError),
    /// It came to a standstill.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The drive of the comparison runs.
pub fn comparison_design() -> Design {
    let overrides = r#"
        name = "comparison"
        [geometry]
        channels = 8
        packages = 4
        chips = 1
        planes = 2
        blocks = 64
        pages = 256
        page_bytes = 4096
        [timing]
        read_us = 75
        program_us = 750
        erase_us = 3800
        channel_mb_s = 333
        [space]
        over_provisioning = 15
        collect_below = 3
        [link]
        mb_s = 4000
        occupancy_ns = 500
        latency_ns = 5000
        [cache]
        buffer_kib = 32768
    "#;
    let overrides = overrides.parse().expect("valid TOML");
    let base = Design::preset("volatile").expect("a preset");
    base.with_overrides(&overrides).expect("a valid design")
}

/// The comparison runs: the name, the requests, and on how much of the drive, in per cent.
const COMPARISON: [(&str, u64, u64); 2] = [
    ("4 KiB random write, whole range, 1 M requests", 1_000_000, 100),
    ("4 KiB random write, 70 % of the range, 2 M requests", 2_000_000, 70),
];
const TIMERS: &str = "timers of the bare runtime";

/// What [`drive`] measures, in this order: the comparison runs, and the timers.
pub fn names_of_drive() -> Vec<String> {
    let runs = COMPARISON.map(|(name, ..)| name);
    runs.into_iter().chain([TIMERS]).map(String::from).collect()
}

/// The comparison runs, with so many thousandths of their requests (1000: the real thing).
/// `progress` gets the name of each before it begins, and `ended` each run that has ended.
pub fn drive(
    thousandths: u64,
    mut progress: impl FnMut(&str),
    mut ended: impl FnMut(&BenchRun),
) -> BenchReport {
    let runs = COMPARISON
        .into_iter()
        .map(|(name, requests, per_cent)| {
            progress(name);
            let run = random_writes(name, requests * thousandths / 1000, per_cent);
            ended(&run);
            run
        })
        .collect();
    progress(TIMERS);
    let timers = timers(10_000_000 * thousandths / 1000);
    BenchReport { runs, timer_events_per_second: Some(timers) }
}

/// What [`full`] does once the drive has started: the names, and how.
fn parts(design: &Design, fill: f64, overwrite: f64) -> Vec<(String, Precondition)> {
    // No window is ever compared: both parts end with their bounds.
    let filled = Precondition { fill, passes_max: 0.0, ..Precondition::default() };
    let all = u32::MAX;
    let over = Precondition { fill: 0.0, passes_max: overwrite, windows: all, ..filled.clone() };
    let parts = [("fill, in sequence", filled, fill), ("random overwrites", over, overwrite)];
    let wanted = parts.into_iter().filter(|(.., share)| *share != 0.0);
    let named =
        |(name, how, share)| (format!("{}: {name}, {share} of the capacity", design.name), how);
    wanted.map(named).collect()
}

fn name_of_start(design: &Design) -> String {
    format!("{}: start", design.name)
}

/// What [`full`] measures, in this order.
pub fn names_of_full(design: &Design, fill: f64, overwrite: f64) -> Vec<String> {
    let parts = parts(design, fill, overwrite).into_iter().map(|(name, _)| name);
    [name_of_start(design)].into_iter().chain(parts).collect()
}

/// A drive of this design: `fill` of it written in sequence, then `overwrite` times its
/// capacity in random writes of 4 KiB. `progress` gets the name of the one that runs, and how much
/// of it is done; `ended` each run that has ended.
///
/// # Errors
/// [`BenchError`].
pub fn full(
    design: &Design,
    fill: f64,
    overwrite: f64,
    progress: impl Fn(&str, f64) + Clone + 'static,
    mut ended: impl FnMut(&BenchRun),
) -> Result<BenchReport, BenchError> {
    let began = cpu_seconds();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps)?;
    let d = drive.clone();
    runtime.block_on(async move { d.power_on().await })??;
    let start_up_s = cpu_seconds() - began;
    let start = BenchRun {
        name: name_of_start(design),
        requests: 0,
        cpu_seconds: start_up_s,
        start_up_s,
        requests_per_cpu_second: 0.0,
        write_amplification: 0.0,
        peak_rss_mib: peak_rss_mib(),
    };
    ended(&start);
    let mut runs = vec![start];
    for (name, how) in parts(design, fill, overwrite) {
        let (rt, progress, told) = (rt.clone(), progress.clone(), name.clone());
        let (began, before) = (cpu_seconds(), drive.stats());
        let d = AnyBox::Ssd(drive.clone());
        let work = async move {
            precondition::run(&rt, &d, &how, None, 1, move |done| progress(&told, done)).await
        };
        runtime.block_on(work)??;
        let (seconds, after) = (cpu_seconds() - began, drive.stats());
        let written = after.host_write_bytes - before.host_write_bytes;
        let programmed = after.flash_program_bytes - before.flash_program_bytes;
        let requests = written / 4096;
        let run = BenchRun {
            name,
            requests,
            cpu_seconds: seconds,
            start_up_s,
            requests_per_cpu_second: requests as f64 / seconds,
            write_amplification: programmed as f64 / written.max(1) as f64,
            peak_rss_mib: peak_rss_mib(),
        };
        ended(&run);
        runs.push(run);
    }
    Ok(BenchReport { runs, timer_events_per_second: None })
}

fn random_writes(name: &str, requests: u64, per_cent: u64) -> BenchRun {
    let began = cpu_seconds();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, &comparison_design(), Payload::Stamps).expect("a valid design");
    let d = drive.clone();
    runtime.block_on(async move { d.power_on().await }).expect("no stall").expect("starts");
    let start_up_s = cpu_seconds() - began;
    let left = Rc::new(Cell::new(requests));
    for client in 0..32 {
        let device = drive.device();
        let left = left.clone();
        let mut dice = rt.stream(&format!("client {client}"));
        rt.spawn("client", async move {
            let range = device.caps().blocks * per_cent / 100;
            while left.get() > 0 {
                left.set(left.get() - 1);
                let at = Block(dice.below(range));
                let stamp = [left.get()];
                let write = device.write(at, Data::Stamps(&stamp), Durability::Normal);
                write.await.expect("a healthy drive");
            }
        });
    }
    runtime.drain().expect("no stall");
    let seconds = cpu_seconds() - began;
    BenchRun {
        name: name.to_string(),
        requests,
        cpu_seconds: seconds,
        start_up_s,
        requests_per_cpu_second: requests as f64 / seconds,
        write_amplification: drive.stats().write_amplification(),
        peak_rss_mib: peak_rss_mib(),
    }
}

/// 128 tasks that do nothing but sleep.
fn timers(events: u64) -> f64 {
    let began = cpu_seconds();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let left = Rc::new(Cell::new(events));
    for task in 0..128 {
        let (rt2, left) = (rt.clone(), left.clone());
        let mut dice = rt.stream(&format!("task {task}"));
        rt.spawn("sleeper", async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                rt2.sleep(Nanos(750_000 + dice.below(1000))).await;
            }
        });
    }
    runtime.drain().expect("no stall");
    events as f64 / (cpu_seconds() - began)
}

/// Processor time of the whole process so far, all threads together, s.
pub fn process_cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn peak_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_small_form_runs() {
        let (begun, ended) = (RefCell::default(), RefCell::default());
        let add = |to: &RefCell<Vec<String>>, name: &str| to.borrow_mut().push(name.to_string());
        let report = drive(20, |name| add(&begun, name), |run| add(&ended, &run.name));
        assert_eq!(report.runs.len(), 2);
        assert_eq!(begun.into_inner(), names_of_drive());
        assert_eq!(ended.into_inner(), names_of_drive()[..2]);
        for run in &report.runs {
            assert!(run.requests_per_cpu_second > 0.0);
            assert!(run.write_amplification >= 0.5, "{run:?}");
            assert!(run.peak_rss_mib > 1.0);
            assert!(run.start_up_s > 0.0 && run.start_up_s < run.cpu_seconds, "{run:?}");
        }
        assert!(report.timer_events_per_second.is_some_and(|rate| rate > 0.0));
    }

    #[test]
    fn a_whole_drive_is_filled_and_overwritten() {
        let mut ended = Vec::new();
        let design = comparison_design();
        let report = full(&design, 0.2, 0.1, |_, _| {}, |run| ended.push(run.name.clone()));
        let report = report.expect("a healthy drive");
        assert_eq!(ended, names_of_full(&design, 0.2, 0.1));
        assert_eq!(names_of_full(&design, 1.0, 0.0).len(), 2, "nothing is overwritten");
        let blocks = comparison_design().check().expect("a valid design").logical;
        let expected = [0, u64::from(blocks) / 5, u64::from(blocks) / 10];
        for (run, expected) in report.runs.iter().zip(expected) {
            assert_eq!(run.requests, expected, "{run:?}");
            assert_eq!(run.start_up_s, report.runs[0].cpu_seconds, "{run:?}");
        }
    }
}
