//! Workloads: synthetic block jobs and database benchmarks.

pub mod content;
pub mod database;
pub mod jobs;
pub mod linkbench;
pub mod sql;
pub mod ycsb;
pub mod zipf;
