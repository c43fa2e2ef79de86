//! The main experiment gives the same bytes on every machine.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::run::runner::{self, Progress, Watch};

/// `experiments/first.json` is the report of `experiments/first.toml` with its own seed, on the
/// machine of the last developer who changed its results (`scripts/update-first`).
#[test]
fn the_main_experiment_gives_the_bytes_that_are_committed() {
    let text = include_str!("../../../../experiments/first.toml");
    let committed = include_str!("../../../../experiments/first.json");
    let e = Experiment::parse("experiments/first.toml", text).unwrap();
    let rows = e.rows().unwrap();
    let watch: Watch = Arc::new(|_: Progress<'_>| ());
    let found = runner::run(&e, &rows, 2, &watch).to_json();
    let differs = committed.lines().zip(found.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(
        committed == found,
        "experiments/first.json differs, first in line {:?}; if that is meant, \
         scripts/update-first writes it anew",
        differs.map(|(n, (a, b))| (n + 1, a.to_string(), b.to_string()))
    );
}
