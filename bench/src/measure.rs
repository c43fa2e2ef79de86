//! One measurement: so many threads, each of which makes one record after the other durable.

use crate::contenders::{Contender, Failure};
use hdrhistogram::Histogram;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// What one measurement, or several together, have found.
#[derive(Clone)]
pub struct Found {
    /// Records a second.
    pub rate: f64,
    /// Nanoseconds from the call to its return.
    pub took: Histogram<u64>,
}

pub fn measure(
    log: &Arc<dyn Contender>,
    threads: usize,
    bytes: usize,
    time: Duration,
) -> Result<Found, Failure> {
    let begin = Arc::new(Barrier::new(threads + 1));
    let worker = |thread: usize| {
        let (log, begin) = (log.clone(), begin.clone());
        std::thread::spawn(move || -> Result<(Histogram<u64>, Instant), Failure> {
            let (record, mut took) = (vec![thread as u8; bytes], Histogram::new(3)?);
            begin.wait();
            let start = Instant::now();
            let mut now = start;
            while now - start < time {
                log.commit(thread, &record)?;
                let end = Instant::now();
                took.record((end - now).as_nanos() as u64)?;
                now = end;
            }
            Ok((took, now))
        })
    };
    let workers: Vec<_> = (0..threads).map(worker).collect();
    begin.wait();
    let start = Instant::now();
    let mut took = Histogram::new(3)?;
    let mut end = start;
    for worker in workers {
        let (each, ended) = worker.join().map_err(|_| "a thread panicked")??;
        took.add(each)?;
        end = end.max(ended);
    }
    let rate = took.len() as f64 / (end - start).as_secs_f64();
    Ok(Found { rate, took })
}
