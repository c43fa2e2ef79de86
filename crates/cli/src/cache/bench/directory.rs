//! The speed of the directory. Runs of different threads alternate, so that what else the machine
//! does meets all of them.

use super::{BenchArguments, markdown};
use comfy_table::Table;
use serde::Serialize;
use tantalum_cache::bench::{Work, full, run};

const WORKS: [(Work, &str); 4] = [
    (Work::Lookup, "lookup"),
    (Work::StageIn, "stage-in"),
    (Work::StageEach, "stage-in, one by one"),
    (Work::Mixed, "both in turn, one by one"),
];

/// One kind of work on so many threads.
#[derive(Serialize)]
pub struct Run {
    operation: &'static str,
    threads: u64,
    pages: u64,
    /// The sum over the threads, per second of their processor time: the median of the rounds.
    per_second: f64,
    /// That of this number of threads over that of the first one, within a round: the median.
    ratio: f64,
    /// The share of lookups that found their page; none for stage-ins.
    hits: Option<f64>,
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures.
pub fn measured(arguments: &BenchArguments) -> Vec<Run> {
    let BenchArguments { pages, threads, operations, rounds, .. } = arguments;
    let directory = full(*pages);
    // Of each kind of work, of each round, a rate for each number of threads.
    let mut rates: Vec<Vec<Vec<f64>>> = vec![Vec::new(); WORKS.len()];
    let mut hits = vec![None; WORKS.len()];
    for _ in 0..*rounds {
        for (of, (work, _)) in WORKS.iter().enumerate() {
            let mut round = Vec::new();
            for threads in threads {
                let measured = run(&directory, *pages, *work, *threads, *operations);
                hits[of] =
                    Some(measured.hits).filter(|_| matches!(work, Work::Lookup | Work::Mixed));
                round.push(measured.per_second);
            }
            rates[of].push(round);
        }
    }
    let mut runs = Vec::new();
    for ((rates, (_, operation)), hits) in rates.iter().zip(WORKS).zip(hits) {
        for (i, threads) in threads.iter().enumerate() {
            let of = |value: fn(&[f64], usize) -> f64| {
                median(rates.iter().map(|round| value(round, i)).collect())
            };
            runs.push(Run {
                operation,
                threads: *threads,
                pages: *pages,
                per_second: of(|round, i| round[i]),
                ratio: of(|round, i| round[i] / round[0]),
                hits,
            });
        }
    }
    runs
}

/// As a table.
pub fn table(runs: &[Run]) -> Table {
    let mut table = markdown(&["operation", "threads", "million/s", "ratio", "hits"]);
    for r in runs {
        table.add_row([
            r.operation.to_string(),
            r.threads.to_string(),
            format!("{:.2}", r.per_second / 1e6),
            format!("{:.2}", r.ratio),
            r.hits.map(|hits| format!("{hits:.3}")).unwrap_or_default(),
        ]);
    }
    table
}
