//! Workloads: synthetic block jobs, database benchmarks, and recorded block traces.

pub mod appends;
pub mod content;
pub mod database;
pub mod jobs;
pub mod linkbench;
pub mod pages;
pub mod replay;
pub mod sql;
pub mod tpcc;
pub mod trace;
pub mod ycsb;
pub mod zipf;
