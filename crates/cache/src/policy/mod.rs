//! Replacement policies of a flash cache behind one interface: what stays on flash, and which I/O
//! each decision costs.
//!
//! A driver tells a policy what happens to pages, and carries out the [`Work`] that the policy
//! answers with: the simulator ([`sim`]) counts it, an engine or a volume gives it to devices.
//!
//! 1. **No I/O, no time, no randomness.** A policy only decides. The same events give the same work.
//! 2. **One version.** At most one version of a page is valid, and a hit is always of the newest
//!    version that left RAM.
//! 3. **No dirty page is dropped.** The only copy of a version leaves flash behind an
//!    [`Op::SlowWrite`] of it.
//! 4. **Forgotten is forgotten.** After `forget`, a page is a miss until it enters again.
//! 5. **Bounded.** At most as many frames are in use as the cache has; memory beyond them (ghosts,
//!    temperatures, histories) has a bound in each policy's file.
//! 6. **Work is in order.** Operations of one [`Work`] take effect in the order in which they are
//!    listed: a frame is read before it is overwritten. How far a driver may overlap them is its
//!    matter.

mod bcache;
mod buckets;
mod clock;
mod config;
mod contract;
mod ghosts;
mod guarded;
mod heap;
mod in_place;
mod lc;
mod list;
mod lru;
mod lru2;
mod mvfifo;
mod none;
mod page;
mod remembered;
mod ring;
mod runs;
mod s3fifo;
mod sieve;
pub mod sim;
mod slots;
mod tac;
mod temperature;
mod work;

pub use config::{Config, ConfigError, Kind};
pub use contract::{Access, Admit, Exit, Hit, Mode, NoPull, Occupancy, Policy, Pull};
pub use ghosts::{Estimate, GhostCounts, Ghosts};
pub(crate) use guarded::Guard;
pub use page::{Lsn, PageId, Version};
pub use work::{Op, Source, Work};
