//! Experiments: their files, what their rows run on, how they run, and their results.
//!
//! An experiment is TOML; its report has a row for each drive and workload:
//!
//! ```
//! use std::sync::Arc;
//! use tantalum_lab::file::experiment::Experiment;
//! use tantalum_lab::report::Verdict;
//! use tantalum_lab::run::runner;
//!
//! let text = r#"
//! title = "random writes"
//! cuts = 1
//! drive.geometry = { channels = 2, packages = 2, chips = 1, planes = 1, blocks = 128, pages = 32 }
//! job.load = { pattern = "permutation", range = 0.5, queue_depth = 16, passes = 1.0 }
//! [[row]]
//! workload = "load"
//! design = "volatile"
//! "#;
//! let experiment = Experiment::parse("writes.toml", text)?;
//! let rows = experiment.rows()?;
//! runner::check(&rows)?;
//! let watch: runner::Watch = Arc::new(|_progress| ());
//! let report = runner::run(&experiment, &rows, 1, &watch);
//! assert_eq!(report.rows[0].verdict, Verdict::AsExpected);
//! assert!(report.to_json().contains("random writes"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bench;
pub mod file;
pub mod fit;
pub mod report;
pub mod run;
pub mod search;
pub mod subject;
