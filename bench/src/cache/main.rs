//! The flash cache beside foyer on a recorded trace: how many I/Os a second, how many reads hit, how
//! many bytes are written to flash, and whether any read gave an old version of its page.
//!
//! Both caches have a file of 25,000 pages of 8 KiB with direct I/O, and 16 I/Os of the trace in
//! flight; I/Os on one page go in their order. The slow store is memory, and each I/O on it takes a
//! millisecond: reads that miss, and writes of neighbours in one. What is changed is written there by the
//! program with foyer, which keeps only what is elsewhere, too; ours does it when pages leave. foyer has
//! 4 MiB of memory for entries; ours has its open, sealed and leaving batches there, up to 3.7 MB. Rounds are
//! interleaved, and begin with each in turn. A ratio is that of one round; its median is printed.

mod ours;
mod theirs;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Anything that ends the program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a page.
pub const PAGE: usize = 8192;
/// An I/O of the slow store takes so long.
const SLOW: Duration = Duration::from_millis(1);
/// I/Os in flight.
pub const FLIGHT: usize = 16;

const USAGE: &str =
    "usage: tantalum-bench-cache FOLDER [--rounds N] [--ios N] [--pages N] [--slow-us N] [--quick]

The folder is on the disk to be measured. Files in it are removed in the end.";

/// What one run found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub seconds: f64,
    pub reads: u64,
    pub hits: u64,
    /// Hits with an old version of their page.
    pub stale: u64,
    pub flash_bytes: u64,
}

struct Options {
    folder: PathBuf,
    rounds: usize,
    ios: usize,
    pages: u64,
    slow: Duration,
}

fn options() -> Result<Options, Failure> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().filter(|a| !a.starts_with('-')).ok_or(USAGE)?.into();
    let mut options = Options { folder, rounds: 5, ios: 1_000_000, pages: 25_000, slow: SLOW };
    while let Some(name) = args.next() {
        if name == "--quick" {
            (options.rounds, options.ios) = (1, 20_000);
            continue;
        }
        let value: usize = args.next().ok_or(USAGE)?.parse().map_err(|_| USAGE)?;
        match name.as_str() {
            "--rounds" => options.rounds = value.max(1),
            "--ios" => options.ios = value.max(1),
            "--slow-us" => options.slow = Duration::from_micros(value as u64),
            "--pages" => options.pages = value as u64,
            _ => return Err(format!("{name} is no option\n{USAGE}").into()),
        }
    }
    Ok(options)
}

/// The content of a version of a page. Both ends of it tell which one it is.
pub fn content(page: u32, version: u32) -> Vec<u8> {
    let word = u64::from(page) << 32 | u64::from(version);
    let mut bytes = vec![page as u8; PAGE];
    bytes[..8].copy_from_slice(&word.to_le_bytes());
    bytes[PAGE - 8..].copy_from_slice(&word.to_le_bytes());
    bytes
}

/// Whether these bytes are this version of the page.
pub fn is_version(bytes: &[u8], page: u32, version: u32) -> bool {
    let word = (u64::from(page) << 32 | u64::from(version)).to_le_bytes();
    bytes.len() == PAGE && bytes[..8] == word && bytes[PAGE - 8..] == word
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn report(name: &str, ios: usize, found: &[Found]) {
    let of = |value: fn(&Found) -> f64| median(found.iter().map(value).collect());
    println!(
        "{name:<6} {:>9.0} {:>6.3} {:>7} {:>9.2} {:>14.0}",
        median(found.iter().map(|f| ios as f64 / f.seconds).collect()),
        of(|f| f.hits as f64 / f.reads as f64),
        found.iter().map(|f| f.stale).sum::<u64>(),
        of(|f| f.flash_bytes as f64 / f64::from(1 << 30)),
        of(|f| f.flash_bytes as f64 / f.hits.max(1) as f64),
    );
}

fn run(options: &Options) -> Result<usize, Failure> {
    let trace = trace::read(options.ios)?;
    let folder: &Path = &options.folder;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        for turn in 0..2 {
            match (round + turn) % 2 {
                0 => ours.push(ours::run(folder, &trace, options.pages, options.slow)?),
                _ => theirs.push(theirs::run(folder, &trace, options.pages, options.slow)?),
            }
        }
    }
    let ios = trace.len();
    println!("cache      I/Os/s   hits   stale flash GiB flash bytes/hit");
    report("ours", ios, &ours);
    report("foyer", ios, &theirs);
    let ratio = |value: fn(&Found) -> f64| {
        let each = |(a, b): (&Found, &Found)| value(a) / value(b);
        median(ours.iter().zip(&theirs).map(each).collect())
    };
    let rate = ratio(|f| 1.0 / f.seconds);
    let hits = ratio(|f| f.hits as f64 / f.reads as f64);
    let bytes = ratio(|f| f.flash_bytes as f64 / f.hits.max(1) as f64);
    let stale: u64 = ours.iter().map(|f| f.stale).sum();
    let mut missed = 0;
    for (what, value, met) in [
        ("I/Os of ours for each of foyer's, at least 2", rate, rate >= 2.0),
        ("hits of ours for each of foyer's, more than 1", hits, hits > 1.0),
        ("flash bytes for a hit, ours over foyer's, below 1", bytes, bytes < 1.0),
        ("stale reads of ours, none", stale as f64, stale == 0),
    ] {
        missed += usize::from(!met);
        println!("{what}: {value:.2} {}", if met { "met" } else { "MISSED" });
    }
    // An old version is a defect, however short the run.
    if stale > 0 {
        return Err("ours gave old versions of pages".into());
    }
    Ok(missed)
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
