//! Experiments, crash runs, and the oracle that judges them.

pub mod bench;
pub mod block;
pub mod crash;
pub mod engine;
pub mod experiment;
pub mod json;
pub mod judge;
pub mod memory;
pub mod oracle;
pub mod parse;
pub mod promise;
pub mod report;
pub mod row;
pub mod runner;
pub mod shadow;
