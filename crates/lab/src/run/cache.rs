//! Flash caches of rows: how their drives are prepared, and what they did while the row was measured.

use crate::report::RowFindings;
use crate::run::precondition::{Precondition, PreconditionError, Preparation};
use crate::run::row::{RowBox, Traffic};
use std::rc::Rc;
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::pages::CacheCounts;

/// Writes this share of a cache's drive in sequence: a fresh drive collects nothing. `tell` is told
/// how much of that is done.
pub(crate) async fn fill<S: RowBox>(
    rt: &Rt,
    flash: &S,
    share: f64,
    tell: Rc<dyn Fn(f64)>,
) -> Result<(), PreconditionError> {
    if flash.drives().is_empty() {
        return Ok(());
    }
    let how = Precondition { fill: share, passes_max: 0.0, ..Precondition::default() };
    let preparation = Preparation { how, job: None, tell };
    preparation.carry_out(rt, flash).await.map(drop)
}

/// What a cache did, for so many transactions or commands.
pub(crate) fn measures(f: &mut RowFindings, counts: &CacheCounts, transactions: u64) {
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let writes = counts.flash_writes;
    f.measures.extend([
        ("cache_hit_rate", share(counts.hits, counts.fetches)),
        ("cache_write_reduction", 1.0 - share(counts.slow_writes, counts.dirty_exits)),
        ("cache_slow_writes", share(counts.slow_writes, transactions)),
        ("cache_write_kib", share(counts.flash_bytes, writes) / 1024.0),
        ("cache_sequential", share(counts.flash_sequential, writes)),
        ("cache_adjoining", share(counts.flash_adjoining, writes)),
        ("cache_old_versions", 1.0 - share(counts.valid, counts.used)),
    ]);
}

/// What went to a cache's drive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DriveWork {
    host_bytes: u64,
    /// Bytes read and written.
    moved_bytes: u64,
    /// Bytes programmed, if it has flash.
    flash_bytes: Option<u64>,
    busy: Nanos,
}

impl DriveWork {
    /// Between these two looks at it.
    pub fn between(from: &Traffic, to: &Traffic) -> DriveWork {
        DriveWork {
            host_bytes: to.host_bytes - from.host_bytes,
            moved_bytes: to.moved_bytes - from.moved_bytes,
            flash_bytes: to.flash_bytes.zip(from.flash_bytes).map(|(to, from)| to - from),
            busy: to.busy.saturating_sub(from.busy),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &DriveWork) -> DriveWork {
        DriveWork {
            host_bytes: self.host_bytes + other.host_bytes,
            moved_bytes: self.moved_bytes + other.moved_bytes,
            flash_bytes: self.flash_bytes.map(|bytes| bytes + other.flash_bytes.unwrap_or(0)),
            busy: self.busy.saturating_add(other.busy),
        }
    }

    /// What it comes to, in the time under load.
    pub fn measures(&self, f: &mut RowFindings) {
        if let Some(programmed) = self.flash_bytes
            && self.host_bytes > 0
        {
            let amplification = programmed as f64 / self.host_bytes as f64;
            f.measures.insert("cache_write_amplification", amplification);
        }
        if f.load_ns > 0 {
            let seconds = f.load_ns as f64 / 1e9;
            f.measures.insert("cache_utilisation", self.busy.0 as f64 / f.load_ns as f64);
            f.measures.insert("cache_mib_s", self.moved_bytes as f64 / 1048576.0 / seconds);
        }
    }
}
