//! Cache volumes under the explorer: block devices, so the contract is their judge.

mod blueprint;
mod volume;

pub use blueprint::CacheBlueprint;
pub use volume::CacheBox;
