//! Experiments, crash runs, and the oracle that judges them.

pub mod bench;
pub mod crash;
pub mod oracle;
