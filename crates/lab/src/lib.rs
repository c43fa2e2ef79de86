//! Experiments, crash runs, and the oracle that judges them.

pub mod bench;
pub mod block;
pub mod compare;
pub mod crash;
pub mod engine;
pub mod entry;
pub mod experiment;
pub mod json;
pub mod judge;
pub mod kinds;
pub mod layout;
pub mod memory;
pub mod model;
pub mod oracle;
pub mod page;
pub mod pages;
pub mod parse;
pub mod precondition;
pub mod promise;
pub mod published;
pub mod report;
pub mod row;
pub mod runner;
pub mod series;
pub mod shadow;
mod source;
