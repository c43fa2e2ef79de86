//! What a row's counts are called: a database commits transactions, a block job or a
//! recorded trace has requests and blocks. Tables, pages, pictures and comparisons take their
//! words from here.

use crate::file::experiment::WorkloadKind;
use crate::report::RowReport;

/// The words for what is counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Terms {
    /// What is done, several of them.
    pub operations: &'static str,
    /// How many of them there are in a second, as a title.
    pub throughput: &'static str,
    /// The same, for the head of a column.
    pub rate: &'static str,
    /// What is acknowledged and may be lost, several of them.
    pub writes: &'static str,
    /// The same, one of them.
    pub write: &'static str,
    /// How many of these are lost, as a title.
    pub losses: &'static str,
    /// What answers at the end of a recovery.
    pub answers: &'static str,
}

/// Of databases.
pub const DATABASE: Terms = Terms {
    operations: "transactions",
    throughput: "Transactions per second",
    rate: "tx/s",
    writes: "commits",
    write: "commit",
    losses: "Commits lost",
    answers: "the database",
};

/// Of block jobs and recorded traces.
pub const JOB: Terms = Terms {
    operations: "requests",
    throughput: "Requests per second",
    rate: "IOPS",
    writes: "blocks",
    write: "block",
    losses: "Blocks lost",
    answers: "the drive",
};

/// Of both together.
pub const MIXED: Terms = Terms {
    operations: "transactions, requests",
    throughput: "Throughput",
    rate: "per second",
    writes: "commits, blocks",
    write: "commit or block",
    losses: "Losses",
    answers: "the database or, for a block job, the drive",
};

impl WorkloadKind {
    /// The words for what it does.
    pub fn terms(&self) -> &'static Terms {
        if matches!(self, WorkloadKind::Job(_)) { &JOB } else { &DATABASE }
    }
}

impl Terms {
    /// The words for all of these rows.
    pub fn of<'r>(rows: impl IntoIterator<Item = &'r RowReport>) -> &'static Terms {
        let mut each = rows.into_iter().map(|r| r.workload.terms());
        let first = each.next().unwrap_or(&DATABASE);
        if each.all(|other| other == first) { first } else { &MIXED }
    }
}
