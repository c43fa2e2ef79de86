//! Experiments: their files, what their rows run on, how they run, and their results.

pub mod bench;
pub mod file;
pub mod fit;
pub mod report;
pub mod run;
pub mod search;
pub mod subject;
