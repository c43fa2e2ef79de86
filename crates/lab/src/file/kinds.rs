//! The words of an experiment file: workloads, SQLite's settings, what a row must show.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which benchmark, or which block job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum WorkloadKind {
    /// LinkBench.
    LinkBench,
    /// YCSB, workload A.
    YcsbA,
    /// TPC-C.
    Tpcc,
    /// The database of this name, as a model at the level of pages.
    Pages(String),
    /// The block job or the recorded trace of this name.
    Job(String),
}

impl WorkloadKind {
    /// Whether it runs on SQLite, whose journal is a setting of the row.
    pub fn has_journal(&self) -> bool {
        matches!(self, WorkloadKind::LinkBench | WorkloadKind::YcsbA | WorkloadKind::Tpcc)
    }
}

impl From<String> for WorkloadKind {
    fn from(name: String) -> WorkloadKind {
        match name.as_str() {
            "linkbench" => WorkloadKind::LinkBench,
            "ycsb-a" => WorkloadKind::YcsbA,
            "tpcc" => WorkloadKind::Tpcc,
            _ => WorkloadKind::Job(name),
        }
    }
}

impl Serialize for WorkloadKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// SQLite's journal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Journal {
    /// A write-ahead log.
    Wal,
    /// A rollback journal, deleted at commit.
    Delete,
    /// A rollback journal, cut to nothing at commit.
    Truncate,
    /// A rollback journal, whose head is overwritten at commit.
    Persist,
    /// Each transaction is one atomic group of the drive; those that do not fit have a
    /// rollback journal, deleted at commit.
    BatchAtomic,
}

impl Journal {
    /// What SQLite calls it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Journal::Wal => "wal",
            Journal::Delete | Journal::BatchAtomic => "delete",
            Journal::Truncate => "truncate",
            Journal::Persist => "persist",
        }
    }
}

/// SQLite's `synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// Every commit is synced, the removal of a rollback journal too.
    Extra,
    /// Every commit is synced, but a removed rollback journal may come back.
    Full,
    /// Synced at checkpoints only (WAL), or less often (rollback journal).
    Normal,
    /// Never synced.
    Off,
}

/// What a row must show for the run to succeed, beside keeping what drive and settings
/// promise, which no file can waive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// Nothing more.
    #[default]
    Promised,
    /// Nothing acknowledged is lost and no database is damaged, promised or not.
    Lossless,
    /// Something is lost: this row shows the losses that others avoid.
    Lossy,
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkloadKind::LinkBench => "linkbench",
            WorkloadKind::YcsbA => "ycsb-a",
            WorkloadKind::Tpcc => "tpcc",
            WorkloadKind::Pages(name) | WorkloadKind::Job(name) => name,
        })
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Journal::BatchAtomic => "batch-atomic",
            other => other.mode(),
        })
    }
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Synchronous::Extra => "extra",
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
            Synchronous::Off => "off",
        })
    }
}
