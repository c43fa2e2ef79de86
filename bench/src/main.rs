//! How many records a second many threads make durable, and how long each takes: the flash log
//! beside other logs.
//!
//! Rounds are interleaved: each measures every log once, beginning with another one. A ratio is that
//! of the rates of one round; its median is printed, with the least and the largest.

mod contenders;
mod measure;

use contenders::{AGAIN, FOUR, Failure, LARGE, Named, OURS, POSTED};
use measure::{Found, measure};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const USAGE: &str = "usage: tantalum-bench FOLDER [--seconds N] [--rounds N] [--threads N,N...]
                      [--bytes N,N...] [--only NAME;NAME...] [--quick]

The folder is on the disk to be measured. Its subfolder `tantalum-bench`, which must not be there
yet, takes up to 5 GiB, and is removed in the end.";

struct Options {
    folder: PathBuf,
    time: Duration,
    rounds: usize,
    threads: Vec<usize>,
    bytes: Vec<usize>,
    only: Vec<String>,
}

fn list<T: FromStr>(text: &str) -> Result<Vec<T>, Failure> {
    let wrong = |part: &str| format!("{part} is not what is expected there\n{USAGE}");
    text.split(',').map(|part| part.parse().map_err(|_| wrong(part).into())).collect()
}

fn options() -> Result<Options, Failure> {
    let mut args = std::env::args().skip(1);
    let mut options = Options {
        folder: args.next().filter(|a| !a.starts_with('-')).ok_or(USAGE)?.into(),
        time: Duration::from_secs(1),
        rounds: 5,
        threads: vec![1, 4, 16, 32],
        bytes: vec![128, 1024, 4096],
        only: Vec::new(),
    };
    while let Some(name) = args.next() {
        if name == "--quick" {
            (options.time, options.rounds) = (Duration::from_millis(50), 1);
            (options.threads, options.bytes) = (vec![1, 4], vec![128]);
            continue;
        }
        let value = args.next().ok_or(USAGE)?;
        match name.as_str() {
            "--seconds" => options.time = Duration::try_from_secs_f64(list(&value)?[0])?,
            "--rounds" => options.rounds = list(&value)?[0],
            "--threads" => options.threads = list(&value)?,
            "--bytes" => options.bytes = list(&value)?,
            "--only" => options.only = value.split(';').map(str::to_string).collect(),
            _ => return Err(format!("{name} is no option\n{USAGE}").into()),
        }
    }
    if options.rounds == 0 || options.threads.contains(&0) {
        return Err(format!("at least one round and one thread are needed\n{USAGE}").into());
    }
    Ok(options)
}

fn middle(mut all: Vec<f64>) -> (f64, f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[0], all[all.len() / 2], all[all.len() - 1])
}

/// What is promised of the ratio to another log with so many threads. (One that is as good beside
/// each other log is as good beside the best.) `None`: nothing.
fn target(other: &str, threads: usize) -> Option<f64> {
    match (other, threads) {
        (AGAIN | LARGE | POSTED, _) => None,
        // Level, as far as such a measurement tells.
        (FOUR, _) => Some(0.97),
        (_, ..=4) => Some(0.95),
        _ => Some(1.1),
    }
}

/// Prints a cell. How many ratios are below their targets.
fn report(bytes: usize, threads: usize, logs: &[Named], found: &[Vec<Found>]) -> usize {
    let at = |name: &str| logs.iter().position(|(n, _)| *n == name);
    let mut missed = 0;
    for ((name, _), of) in logs.iter().zip(found) {
        let (_, rate, _) = middle(of.iter().map(|f| f.rate).collect());
        let mut took = of[0].took.clone();
        // All have the same range.
        of[1..].iter().for_each(|f| took.add(&f.took).unwrap_or_default());
        let micros = |q| took.value_at_quantile(q) as f64 / 1e3;
        print!(
            "{bytes:>5} {threads:>3}  {name:<22} {rate:>8.0} {:>8.0} {:>8.0} {:>8.0}",
            micros(0.5),
            micros(0.99),
            micros(0.999)
        );
        let ours = at(OURS).map(|i| &found[i]);
        if let Some(ours) = ours.filter(|_| *name != OURS) {
            // Forms of the log beside it, and it beside all others.
            let ratio = |(a, b): (&Found, &Found)| match *name {
                FOUR | AGAIN | LARGE | POSTED => b.rate / a.rate,
                _ => a.rate / b.rate,
            };
            let (least, ratio, most) = middle(ours.iter().zip(of).map(ratio).collect());
            print!("   {ratio:>5.2} ({least:.2} to {most:.2})");
            if let Some(target) = target(name, threads) {
                let met = ratio >= target;
                missed += usize::from(!met);
                print!("  at least {target:.2}: {}", if met { "met" } else { "MISSED" });
            }
        }
        println!();
    }
    missed
}

fn run(options: &Options) -> Result<usize, Failure> {
    let least = options.bytes.iter().min().map_or(1, |bytes| (*bytes as u64).max(1));
    let mut logs = contenders::all(&options.folder.join("tantalum-bench"), least)?;
    if !options.only.is_empty() {
        logs.retain(|(name, _)| options.only.iter().any(|only| only == name));
    }
    println!(
        "{:>5} {:>3}  {:<22} {:>8} {:>8} {:>8} {:>8}   ratio to {OURS}, or of its forms to it",
        "bytes", "thr", "", "rec/s", "p50 µs", "p99 µs", "p99.9 µs"
    );
    let mut missed = 0;
    for &bytes in &options.bytes {
        for &threads in &options.threads {
            let mut found: Vec<Vec<Found>> = vec![Vec::new(); logs.len()];
            for round in 0..options.rounds {
                for i in 0..logs.len() {
                    let i = (i + round) % logs.len();
                    let (name, log) = &logs[i];
                    let measured = measure(log, threads, bytes, options.time);
                    found[i].push(measured.map_err(|e| format!("{name}: {e}"))?);
                    log.tidy()?;
                }
            }
            missed += report(bytes, threads, &logs, &found);
        }
    }
    Ok(missed)
}

fn main() -> ExitCode {
    let result = options().and_then(|options| {
        let place = options.folder.join("tantalum-bench");
        std::fs::create_dir(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        let result = run(&options);
        std::fs::remove_dir_all(&place)?;
        result
    });
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(missed) => {
            println!("{missed} ratios are below their targets");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
