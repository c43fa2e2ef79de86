//! The speed of the directory: `cargo run --release -p tantalum-cache --example directory_speed`.
//! Lookups and stage-ins of random pages with 500,000 pages, on one thread and on two, in
//! interleaved rounds; the median of each. Rates are per second of processor time.

use tantalum_cache::bench::{Work, full, run};

const PAGES: u64 = 500_000;
const ROUNDS: usize = 5;
const OPERATIONS: u64 = 500_000;

fn main() {
    let directory = full(PAGES);
    let works = [Work::Lookup, Work::StageIn, Work::Mixed];
    let mut rates: Vec<Vec<[f64; 2]>> = vec![Vec::new(); works.len()];
    for _ in 0..ROUNDS {
        for (work, rates) in works.iter().zip(&mut rates) {
            let rate = |threads| run(&directory, PAGES, *work, threads, OPERATIONS).per_second;
            rates.push([rate(1), rate(2)]);
        }
    }
    println!("| operation | 1 thread, M/s | 2 threads, M/s | ratio |");
    println!("|---|---|---|---|");
    for (work, rates) in works.iter().zip(&rates) {
        let median = |of: &dyn Fn(&[f64; 2]) -> f64| {
            let mut all: Vec<f64> = rates.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let (one, two) = (median(&|r| r[0] / 1e6), median(&|r| r[1] / 1e6));
        println!("| {work:?} | {one:.2} | {two:.2} | {:.2} |", median(&|r| r[1] / r[0]));
    }
    println!("hit rate {:.3}", run(&directory, PAGES, Work::Lookup, 1, OPERATIONS).hits);
}
