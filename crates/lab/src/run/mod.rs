//! How rows run: databases, engines as models, block jobs; preparation, power cuts and judgement.

pub mod appends;
pub mod block;
mod cache;
pub mod cached;
mod clocks;
pub mod engines;
pub mod judge;
pub mod memory;
pub mod precondition;
pub mod promise;
pub mod record;
pub mod row;
pub mod runner;
pub mod sqlite;
mod turn;
