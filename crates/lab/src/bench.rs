//! The speed of the simulation itself: the comparison runs.
//!
//! 4 KiB random writes at queue depth 32 on a geometry on which other simulators were
//! measured: once over the whole range, once over 70 per cent of it. Requests per
//! second of processor time, so that a busy machine disturbs less.

// The one place that measures real time: nothing simulated depends on it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "benchmarks read the processor's clock"
)]

use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, Durability, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_rt::{Nanos, Runtime};

/// One comparison run.
#[derive(Clone, Debug, Serialize)]
pub struct BenchRun {
    /// What was run.
    pub name: String,
    /// Write requests of 4 KiB per second of processor time.
    pub requests_per_cpu_second: f64,
    /// Bytes programmed for each byte written.
    pub write_amplification: f64,
    /// The largest resident memory of the process so far, MiB.
    pub peak_rss_mib: f64,
}

/// What `tantalum bench drive --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// The comparison runs.
    pub runs: Vec<BenchRun>,
    /// Timers set and fired by the bare runtime, per second of processor time.
    pub timer_events_per_second: f64,
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

/// The comparison runs, with so many thousandths of their requests (1000: the real
/// thing), and `progress` told before each.
pub fn drive(thousandths: u64, mut progress: impl FnMut(&str)) -> BenchReport {
    let runs = [
        ("4 KiB random write, whole range, 1 M requests", 1_000_000, 100),
        ("4 KiB random write, 70 % of the range, 2 M requests", 2_000_000, 70),
    ];
    let runs = runs
        .into_iter()
        .map(|(name, requests, per_cent)| {
            progress(name);
            random_writes(name, requests * thousandths / 1000, per_cent)
        })
        .collect();
    progress("timers of the bare runtime");
    BenchReport { runs, timer_events_per_second: timers(10_000_000 * thousandths / 1000) }
}

fn random_writes(name: &str, requests: u64, per_cent: u64) -> BenchRun {
    let began = cpu_seconds();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, &comparison_design(), Payload::Stamps).expect("a valid design");
    let d = drive.clone();
    runtime.block_on(async move { d.power_on().await }).expect("no stall").expect("starts");
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

    #[test]
    fn the_small_form_runs() {
        let report = drive(20, |_| {});
        assert_eq!(report.runs.len(), 2);
        for run in &report.runs {
            assert!(run.requests_per_cpu_second > 0.0);
            assert!(run.write_amplification >= 0.5, "{run:?}");
            assert!(run.peak_rss_mib > 1.0);
        }
        assert!(report.timer_events_per_second > 0.0);
    }
}
