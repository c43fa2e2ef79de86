//! Flash caches under the explorer. A cache volume is a block device, so the contract is its judge; a
//! cache as its program uses it has a judge of its own.

mod bare;
mod blueprint;
mod devices;
mod judge;
mod pool;
mod versions;
mod volume;

pub use bare::{BareCacheBox, Open as OpenCache};
pub use blueprint::{BareCacheBlueprint, CacheBlueprint};
pub use judge::{CacheJudge, CacheSession};
pub use volume::CacheBox;
