//! Database engines as models at the level of pages: an update-in-place engine in the
//! shape of InnoDB, and an append-only B+-tree in the shape of Couchbase's.
//!
//! They are for what takes hours with a real database: how barriers, the double-write
//! buffer and the page size change what a database gets out of a drive. The structures are
//! real (buffer pool, redo log, double-write area, tree), the time is the drive's and
//! the processor's, and what a power cut leaves is read back and judged. What rows hold is
//! not modelled: a page is known by its number and the log sequence number of its
//! last change, and each of its blocks carries both in a stamp.
//!
//! The way of one transaction: `mix` says which pages it reads and changes; `engine` gets
//! them into the `pool`, changes them, and commits them in the log; later `flush` has them
//! written. `storage` says what an engine asks of the store of its pages and of its log, as
//! traits: `in_place` is a store on a volume, over the `doublewrite` area or as atomic groups, as
//! `torn` says; `redo` is a log on a volume; `volume` is the host's way to the drive. `recover`
//! says what a power cut has left.
//!
//! 1. **Write-ahead.** A page is written to its place only after the log is durable up
//!    to its last change (as far as the host can know: without barriers it cannot).
//! 2. **Double write.** With it, a copy of a page is durable before the page is written to
//!    its place. With atomic groups, a page is in one group, whole.
//! 3. **A clean frame** equals what the device would read for its page.
//! 4. **A checkpoint** is behind every change that is not in its place, durable.
//! 5. **An acknowledged commit** is in the durable log.
//!
//! Source of the set-ups: Kang, Lee, Moon, Kee, Oh, "Durable Write Cache in Flash Memory
//! SSD for Relational and NoSQL Databases" (SIGMOD 2014), section 4; of the engine: the
//! MySQL 5.7 reference manual and source (`buf0flu`, `buf0lru`, `buf0dblwr`, `log0log`).

mod append_tree;
mod doublewrite;
mod engine;
mod flush;
mod in_place;
mod job;
mod linkbench;
mod mix;
mod pool;
mod recover;
mod redo;
mod storage;
mod torn;
mod tpcc;
mod volume;

pub use append_tree::{AppendTree, AppendTreeJob, TreeCheck, TreeCounts};
pub use doublewrite::AreaPlace;
pub use engine::{Counts, Engine, EngineError};
pub use in_place::InPlace;
pub use job::{Benchmark, EngineJob, JobError, Layout, LogDevice};
pub use mix::{Access, Mix, Tree};
pub use pool::{FrameId, Pool};
pub use recover::{Recovered, recover};
pub use redo::{Journal, LogPlace, Record, Redo};
pub use storage::{After, Landed, LogStore, PageStore, PageVersion, StoreCounts, Stored};
pub use torn::PageWrites;
pub use volume::{Host, Volume};

/// Bytes of the blocks that carry a stamp each: those of every drive here.
pub const BLOCK_BYTES: u32 = 4096;

/// The number of a page of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

/// A log sequence number: bytes of redo log since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// The number with which every page is loaded; no change has it.
pub const LOADED: Lsn = Lsn(1);

/// Bits of a stamp that hold the log sequence number; above them is the page's number.
const LSN_BITS: u32 = 40;

/// What each block of a page carries.
pub fn stamp(page: PageNo, lsn: Lsn) -> u64 {
    u64::from(page.0) << LSN_BITS | lsn.0 & ((1 << LSN_BITS) - 1)
}

/// Page and number of a stamp; `None` if there is none.
pub fn read_stamp(stamp: u64) -> Option<(PageNo, Lsn)> {
    let lsn = stamp & ((1 << LSN_BITS) - 1);
    (lsn != 0).then_some((PageNo((stamp >> LSN_BITS) as u32), Lsn(lsn)))
}

/// What the blocks of a page say together: its number and last change if they agree,
/// `None` if the page is torn or none.
pub fn whole(blocks: &[u64]) -> Option<(PageNo, Lsn)> {
    let first = *blocks.first()?;
    if blocks.iter().all(|b| *b == first) { read_stamp(first) } else { None }
}
