//! Experiments, crash runs, and the oracle that judges them.

pub mod bench;
pub mod crash;
pub mod engine;
pub mod experiment;
pub mod judge;
pub mod oracle;
pub mod report;
pub mod row;
pub mod runner;
