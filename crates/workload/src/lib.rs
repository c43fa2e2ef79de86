//! Workloads: synthetic block jobs and database benchmarks.

pub mod jobs;
pub mod zipf;
