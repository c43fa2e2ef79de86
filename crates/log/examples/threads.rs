//! How many records a second many threads make durable in one file, and how long each takes: the
//! log from threads, beside a loop of write and fdatasync, and beside plain group commit.
//!
//! `cargo run -p tantalum-log --example threads -- FOLDER [SECONDS [ROUNDS [SPIN_MICROSECONDS]]]`
//!
//! Rounds are interleaved; the medians are printed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};
use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions};
use tantalum_rt::Nanos;

const FILE: u64 = 512 << 20;

/// Makes one record durable.
type Commit = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A file of zeros that were written.
fn file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    for at in (0..FILE).step_by(1 << 20) {
        file.write_all_at(&zeros, at)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Each record has a write and an fdatasync, under one lock.
fn plain(file: File) -> Commit {
    let at = Mutex::new((file, 0));
    Arc::new(move |record| {
        let (file, end) = &mut *at.lock().expect("no thread panics");
        file.write_all_at(record, *end).expect("the file has room");
        file.sync_data().expect("the file is synced");
        *end = (*end + record.len() as u64) % (FILE - (1 << 20));
    })
}

#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    at: u64,
    end: u64,
    durable: u64,
    leads: bool,
}

/// Whoever finds no write under way writes everything that has come since the last.
fn group(file: File) -> Commit {
    let shared = (Mutex::new(Group::default()), Condvar::new());
    Arc::new(move |record| {
        let (state, done) = &shared;
        let mut group = state.lock().expect("no thread panics");
        group.bytes.extend_from_slice(record);
        group.end += record.len() as u64;
        let mine = group.end;
        while group.durable < mine {
            if group.leads {
                group = done.wait(group).expect("no thread panics");
                continue;
            }
            group.leads = true;
            let (bytes, end, at) = (std::mem::take(&mut group.bytes), group.end, group.at);
            group.at = (at + bytes.len() as u64) % (FILE - (1 << 20));
            drop(group);
            file.write_all_at(&bytes, at).expect("the file has room");
            file.sync_data().expect("the file is synced");
            group = state.lock().expect("no thread panics");
            (group.durable, group.leads) = (end, false);
            done.notify_all();
        }
    })
}

fn log(path: &Path, options: &BlockingOptions) -> Result<Commit, Box<dyn Error>> {
    BlockingLog::make_file(path, FILE, options)?;
    BlockingLog::create(&[path], None, &CreateOptions::default(), options)?;
    let log = BlockingLog::open(&[path], options.clone())?;
    Ok(Arc::new(move |record| {
        let end = log.commit(record).expect("the log takes records").end;
        // Now and then the log is cut off behind.
        if end.0 / (64 << 20) != (end.0 - record.len() as u64) / (64 << 20) {
            log.checkpoint(end, 0).expect("the checkpoint moves");
        }
    }))
}

/// Records a second, and the 50th and 99th percentile of their latencies.
fn measure(commit: &Commit, threads: usize, bytes: usize, time: Duration) -> (f64, f64, f64) {
    let begin = Arc::new(Barrier::new(threads + 1));
    let workers: Vec<_> = (0..threads)
        .map(|i| {
            let (commit, begin) = (commit.clone(), begin.clone());
            std::thread::spawn(move || {
                let (record, mut took) = (vec![i as u8; bytes], Vec::new());
                begin.wait();
                let start = Instant::now();
                while start.elapsed() < time {
                    let began = Instant::now();
                    commit(&record);
                    took.push(began.elapsed());
                }
                took
            })
        })
        .collect();
    begin.wait();
    let start = Instant::now();
    let mut took: Vec<Duration> =
        workers.into_iter().flat_map(|w| w.join().expect("no thread panics")).collect();
    let rate = took.len() as f64 / start.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |percent: usize| took[took.len() * percent / 100].as_secs_f64() * 1e6;
    (rate, at(50), at(99))
}

fn median(of: &[(f64, f64, f64)], which: impl Fn(&(f64, f64, f64)) -> f64) -> f64 {
    let mut all: Vec<f64> = of.iter().map(which).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: f64| args.get(i).map_or(Ok(default), |a| a.parse());
    let folder = Path::new(args.first().ok_or("name a folder on the disk to measure")?);
    let (time, rounds) = (Duration::from_secs_f64(number(1, 1.0)?), number(2, 3.0)? as usize);
    let mut options = BlockingOptions::default();
    options.wall.spin = Nanos((number(3, options.wall.spin.0 as f64 / 1e3)? * 1e3) as u64);
    options.file.keep_room = true;
    let paths = ["plain", "group", "log"].map(|name| folder.join(format!("threads.{name}")));
    let commits = [
        ("write + fdatasync", plain(file(&paths[0])?)),
        ("group commit", group(file(&paths[1])?)),
        ("tantalum-log", log(&paths[2], &options)?),
    ];
    println!(
        "{:<18} {:>6} {:>7} {:>9} {:>8} {:>8}",
        "", "bytes", "threads", "records/s", "p50 µs", "p99 µs"
    );
    for bytes in [128, 4096] {
        for threads in [1, 4, 16, 32] {
            let mut all = vec![Vec::new(); commits.len()];
            for _ in 0..rounds {
                for (i, (_, commit)) in commits.iter().enumerate() {
                    all[i].push(measure(commit, threads, bytes, time));
                }
            }
            for ((name, _), of) in commits.iter().zip(&all) {
                let (rate, p50, p99) =
                    (median(of, |m| m.0), median(of, |m| m.1), median(of, |m| m.2));
                println!("{name:<18} {bytes:>6} {threads:>7} {rate:>9.0} {p50:>8.0} {p99:>8.0}");
            }
        }
    }
    drop(commits);
    paths.iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}
