//! Many threads make records durable in one file: how many a second, and in how large groups.
//!
//! `cargo run -p tantalum-log --example threads -- FOLDER [THREADS [SECONDS]]`
//!
//! `scripts/bench-log` measures the log beside others.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions, LogError};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: f64| args.get(i).map_or(Ok(default), |a| a.parse());
    let folder = Path::new(args.first().ok_or("name a folder on the disk to write to")?);
    let (threads, time) = (number(1, 8.0)? as usize, Duration::from_secs_f64(number(2, 1.0)?));
    let path = folder.join("threads.log");
    let mut options = BlockingOptions::default();
    options.file.keep_room = true;
    BlockingLog::make_file(&path, 512 << 20, &options)?;
    BlockingLog::create(&[&path], None, &CreateOptions::default(), &options)?;
    let log = BlockingLog::open(&[&path], options)?;
    let work = |thread: usize| {
        let log = log.clone();
        std::thread::spawn(move || -> Result<(), LogError> {
            let (record, start) = ([thread as u8; 128], Instant::now());
            while start.elapsed() < time {
                let appended = log.commit(&record)?;
                // Now and then the log is cut off behind.
                if appended.lsn.0 >> 26 != appended.end.0 >> 26 {
                    log.checkpoint(appended.end, 0)?;
                }
            }
            Ok(())
        })
    };
    let start = Instant::now();
    let workers: Vec<_> = (0..threads).map(work).collect();
    for worker in workers {
        worker.join().map_err(|_| "a thread panicked")??;
    }
    let (stats, took) = (log.stats()?, start.elapsed().as_secs_f64());
    println!(
        "{threads} threads: {:.0} records a second, {:.1} in a group",
        stats.records as f64 / took,
        stats.records as f64 / stats.groups.max(1) as f64
    );
    drop(log);
    std::fs::remove_file(path)?;
    Ok(())
}
