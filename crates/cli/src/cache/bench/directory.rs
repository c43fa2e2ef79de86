//! The speed of the directory. Runs of different threads alternate, so that what else the machine
//! does meets all of them.

use super::{BenchArguments, markdown};
use crate::counted::counted;
use crate::interrupt::Finished;
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

/// What one round measured of each kind of work.
pub struct Round {
    /// A rate for each number of threads.
    rates: Vec<Vec<f64>>,
    /// [`Run::hits`], of the last number of threads.
    hits: Vec<Option<f64>>,
}

/// Measures, and adds each round that has ended.
pub fn measure(arguments: &BenchArguments, finished: &Finished<Round>) {
    let BenchArguments { pages, threads, operations, rounds, .. } = arguments;
    let directory = full(*pages);
    for _ in 0..*rounds {
        let mut round = Round { rates: Vec::new(), hits: Vec::new() };
        for (work, _) in WORKS {
            let (mut rates, mut hits) = (Vec::new(), None);
            for threads in threads {
                let measured = run(&directory, *pages, work, *threads, *operations);
                hits = Some(measured.hits).filter(|_| matches!(work, Work::Lookup | Work::Mixed));
                rates.push(measured.per_second);
            }
            round.rates.push(rates);
            round.hits.push(hits);
        }
        finished.add(round);
    }
}

/// What these rounds say; nothing without any.
pub fn runs(arguments: &BenchArguments, rounds: &[Round]) -> Vec<Run> {
    let mut runs = Vec::new();
    let Some(last) = rounds.last() else { return runs };
    for (of, (_, operation)) in WORKS.into_iter().enumerate() {
        for (i, threads) in arguments.threads.iter().enumerate() {
            let median_of = |value: fn(&[f64], usize) -> f64| {
                median(rounds.iter().map(|round| value(&round.rates[of], i)).collect())
            };
            runs.push(Run {
                operation,
                threads: *threads,
                pages: arguments.pages,
                per_second: median_of(|rates, i| rates[i]),
                ratio: median_of(|rates, i| rates[i] / rates[0]),
                hits: last.hits[of],
            });
        }
    }
    runs
}

/// What to say of an interrupt after so many of all rounds.
pub fn interrupted(ended: usize, rounds: u32) -> String {
    let all = counted(rounds.into(), "round", "rounds");
    match ended {
        0 => format!("interrupted before the first of {all} had ended: there are no numbers"),
        ended => format!("interrupted after {ended} of {all}: these are their medians"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_tells_of_how_many_rounds_the_numbers_are() {
        let none = "interrupted before the first of 1 round had ended: there are no numbers";
        assert_eq!(interrupted(0, 1), none);
        assert_eq!(interrupted(2, 5), "interrupted after 2 of 5 rounds: these are their medians");
    }
}
