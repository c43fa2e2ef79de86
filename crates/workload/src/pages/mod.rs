//! Models of database engines at the level of pages: an update-in-place engine like InnoDB, and an
//! append-only B+-tree like Couchbase's.
//!
//! They examine what would take hours with a real database: how barriers, the double-write buffer
//! and the page size change the throughput of a database on a drive. The structures are real
//! (buffer pool, redo log, double-write area, tree). The times are those of the drive and the
//! processor. What a power cut leaves is read back and checked. The content of rows is not
//! modelled: a page has a number and the log sequence number of its last change, and each
//! block of the device under it carries both in a stamp. So a page of 4 KiB on a device with blocks
//! of 512 bytes has eight stamps, and can tear.
//!
//! A transaction takes this path: `mix` says which pages it reads and changes. `engine` gets them
//! into the `pool`, changes them, and commits them in the log. Later `flush` writes them. `storage`
//! has the traits for the stores of pages and of the log. `in_place` is a page store on a volume,
//! with the `doublewrite` area or with atomic groups, as `torn` says. `redo` is a log on a volume,
//! `flash_log` one on several devices. `cached` is a flash cache before such a store, `policed` one by
//! a policy that is compared with it. Both logs have a `window` between checkpoint and end, and a
//! `journal` of what is in the log. `volume` is the host's access to the drive. `recover` checks what
//! a power cut has left.
//!
//! 1. **Write-ahead.** A page is written to its place only after the log is durable up to its last
//!    change (as far as the host knows: without barriers it cannot know).
//! 2. **Double write.** With it, a copy of a page is durable before the page is written to its
//!    place. With atomic groups, the whole page is in one group.
//! 3. **A clean frame** equals what a read of its page from the device would return.
//! 4. **A checkpoint** is never after a change that is not durable in its place.
//! 5. **An acknowledged commit** is in the durable log.
//!
//! Source of the configurations: Kang, Lee, Moon, Kee, Oh, "Durable Write Cache in Flash Memory SSD
//! for Relational and NoSQL Databases" (SIGMOD 2014), section 4. Source of the engine: the MySQL
//! 5.7 reference manual and source (`buf0flu`, `buf0lru`, `buf0dblwr`, `log0log`).

mod append_tree;
mod cache_job;
mod cached;
mod doublewrite;
mod engine;
mod flash_log;
mod flush;
mod in_place;
mod job;
mod journal;
mod linkbench;
mod mix;
mod policed;
mod pool;
mod recover;
mod redo;
mod restart;
mod sequences;
mod storage;
mod store;
mod torn;
mod tpcc;
mod volume;
mod window;

pub use append_tree::{AppendTree, AppendTreeJob, Counted, TreeCheck, TreeCounts};
pub use cache_job::CacheJob;
pub use cached::Cached;
pub use doublewrite::AreaPlace;
pub use engine::{Counts, Engine, EngineError};
pub use flash_log::{FlashLogJob, FlashRedo};
pub use in_place::InPlace;
pub use job::{Benchmark, EngineJob, JobError, Layout, LogDevice};
pub use journal::{Change, Journal, Record};
pub use mix::{Access, Files, Mix, Tree};
pub use policed::Policed;
pub use pool::{FrameId, InstanceId, Order, Pool};
pub use recover::{Recovered, recover};
pub use redo::{LogPlace, Redo};
pub use restart::Restarted;
pub use sequences::{Sequences, Written};
pub use storage::{
    After, CacheCounts, ColdEnd, Landed, LogCounts, LogStore, PageStore, PageVersion, PullKind,
    StoreCounts, Stored,
};
pub use store::Store;
pub use torn::PageWrites;
pub use tpcc::TPCC_FILL_PERCENT;
pub use volume::{FileNo, Host, Volume};
pub use window::LogWindow;

/// The number of a page of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u32);

/// A log sequence number: bytes of redo log since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// The log sequence number of every freshly loaded page. No change has it.
pub const LOADED: Lsn = Lsn(1);

/// The low bits of a stamp that hold the log sequence number. The bits above hold the page's
/// number.
const LSN_BITS: u32 = 40;

/// The stamp of each block of a page.
pub fn stamp(page: PageNo, lsn: Lsn) -> u64 {
    u64::from(page.0) << LSN_BITS | lsn.0 & ((1 << LSN_BITS) - 1)
}

/// The page and log sequence number in a stamp; `None` if there is none.
pub fn read_stamp(stamp: u64) -> Option<(PageNo, Lsn)> {
    let lsn = stamp & ((1 << LSN_BITS) - 1);
    (lsn != 0).then_some((PageNo((stamp >> LSN_BITS) as u32), Lsn(lsn)))
}

/// The number and last change of a page, if all of its blocks agree. `None` if the page is torn or
/// empty.
pub fn whole(blocks: &[u64]) -> Option<(PageNo, Lsn)> {
    let first = *blocks.first()?;
    if blocks.iter().all(|b| *b == first) { read_stamp(first) } else { None }
}
