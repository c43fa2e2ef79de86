//! Workloads on devices: of block jobs, of databases as models, of caches and logs, and recorded ones.

mod appends;
mod cached;
mod jobs;
mod pages;
mod replay;
mod trace;
mod volume;
