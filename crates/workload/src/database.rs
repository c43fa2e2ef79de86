//! What the database workloads share: the client, the transaction with its ledger, and the findings
//! of a check.
//!
//! # Invariants
//!
//! 1. Every transaction that writes sets the client's row in `ledger` to one more than its
//!    acknowledged commits, in the same transaction. So after a crash the ledger says how many of
//!    the commits are there.
//! 2. [`Client::acknowledged`] grows by one, and only after a COMMIT returned without error. So the
//!    ledger may be ahead of it by the one commit in flight, and never by more.
//! 3. Such a transaction adds its change of the [`Digest`] of all rows to `digest` in the same row.
//!    The loader's row has the digest of the loaded database. So the sum over the ledger is the
//!    digest of the rows that its commits made. A page that went back to an older valid state
//!    breaks the sum.
//! 4. A client draws from its own random stream: other clients affect it only through the database.

use crate::content::Digest;
use crate::sql::{Sql, SqlError, SqlErrorKind, Value, query_int};
use tantalum_rt::Stream;

/// How often an operation is retried when another connection is in the way.
const BUSY_TRIES: u32 = 64;

/// The loader's row in the ledger. It is not a client.
const LOADER: i64 = -1;

/// How many findings are listed in words. Further ones are only counted.
const FINDINGS_LISTED: usize = 8;

/// One client: its random stream, and the number of its known commits.
#[derive(Clone, Debug)]
pub struct Client {
    id: u32,
    pub(crate) stream: Stream,
    acknowledged: u64,
    operations: u64,
    pub(crate) scratch: Scratch,
}

/// Working memory of a transaction that writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The contents of the row being written.
    pub buffer: Vec<u8>,
    /// The change by the transaction so far: new states of rows added, old states removed.
    pub change: Digest,
}

/// The outcome of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Bytes of row contents.
    pub bytes: u64,
    /// The digest of all rows.
    pub digest: Digest,
}

impl Client {
    /// Client number `id` of a run with this seed.
    pub fn new(seed: u64, id: u32) -> Client {
        let stream = Stream::new(seed, &format!("client {id}"));
        Client { id, stream, acknowledged: 0, operations: 0, scratch: Scratch::default() }
    }

    /// Its number, from 0.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How many of its commits were acknowledged (or, after [`Client::resume`], are known to be in
    /// the database).
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Continues with the number of commits that the ledger has after a crash.
    pub fn resume(&mut self, found: u64) {
        self.acknowledged = found;
    }

    /// A time for a row: the number of the operation.
    pub(crate) fn time(&self) -> i64 {
        self.operations as i64
    }
}

/// A completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, as the benchmark calls it.
    pub operation: &'static str,
    /// Bytes of row contents that it wrote and committed; `None` if it wrote nothing.
    pub committed: Option<u64>,
    /// How often it was retried because another connection was in the way.
    pub retries: u32,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The database returned an error.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The database returned a row that cannot be right.
    #[error("a row is damaged: {0}")]
    Damaged(String),
}

/// The findings of a check of a whole database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first findings, in words.
    pub listed: Vec<String>,
    /// How many there were in all.
    pub total: u64,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.total == 0
    }

    /// Adds a finding. `words` is called only if it is listed.
    pub fn add(&mut self, words: impl FnOnce() -> String) {
        self.total += 1;
        if self.listed.len() < FINDINGS_LISTED {
            self.listed.push(words());
        }
    }
}

/// A database benchmark: tables, a load, operations, and a check.
pub trait Benchmark {
    /// Its name in experiment files and reports.
    fn name(&self) -> &'static str;

    /// The statements that create its tables (without the ledger).
    fn schema(&self) -> &'static [&'static str];

    /// Fills the tables in one transaction per some hundred rows.
    ///
    /// # Errors
    /// The database's error.
    fn fill(&self, sql: &mut dyn Sql) -> Result<Loaded, SqlError>;

    /// Draws the client's next operation and carries it out.
    ///
    /// # Errors
    /// [`StepError`]. The client may go on after it if the connection can.
    fn operate(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError>;

    /// Checks every row and every invariant of the benchmark, and that the rows are exactly those
    /// that the commits in the ledger made. Nobody may write at the same time.
    ///
    /// # Errors
    /// The database's error if it cannot be read.
    fn verify(&self, sql: &mut dyn Sql) -> Result<Findings, SqlError>;
}

/// Creates tables and ledger for `clients` clients and fills them. Returns the bytes of row
/// contents.
///
/// # Errors
/// The database's error.
pub fn load(benchmark: &dyn Benchmark, sql: &mut dyn Sql, clients: u32) -> Result<u64, SqlError> {
    for statement in benchmark.schema() {
        sql.execute(statement, &[])?;
    }
    sql.execute(
        "CREATE TABLE ledger(client INTEGER PRIMARY KEY, seq INTEGER NOT NULL, \
         digest INTEGER NOT NULL)",
        &[],
    )?;
    let loaded = benchmark.fill(sql)?;
    let insert = "INSERT INTO ledger(client, seq, digest) VALUES(?1, 0, ?2)";
    sql.execute("BEGIN IMMEDIATE", &[])?;
    sql.execute(insert, &[Value::Int(LOADER), Value::Int(loaded.digest.to_int())])?;
    for client in 0..clients {
        sql.execute(insert, &[Value::Int(client.into()), Value::Int(0)])?;
    }
    sql.execute("COMMIT", &[])?;
    Ok(loaded.bytes)
}

/// The ledger: for each client the number of its commits that are in the database.
///
/// # Errors
/// The database's error.
pub fn ledger(sql: &mut dyn Sql) -> Result<Vec<(u32, u64)>, SqlError> {
    let mut found = Vec::new();
    let clients = "SELECT client, seq FROM ledger WHERE client >= 0 ORDER BY client";
    sql.query(clients, &[], &mut |row| {
        found.push((row.int(0) as u32, row.int(1) as u64));
    })?;
    Ok(found)
}

/// Compares the digest of all rows with the sum over the ledger.
pub(crate) fn verify_digest(
    sql: &mut dyn Sql,
    rows: Digest,
    findings: &mut Findings,
) -> Result<(), SqlError> {
    let (mut made, mut loader) = (Digest::default(), false);
    sql.query("SELECT client, digest FROM ledger", &[], &mut |row| {
        let (client, stored) = (row.int(0), row.int(1));
        loader |= client == LOADER;
        match Digest::from_int(stored) {
            Some(digest) => made.merge(digest),
            None => {
                findings.add(|| format!("client {client} has {stored:#x} for a digest"));
            }
        }
    })?;
    if !loader {
        findings.add(|| "the loader is not in the ledger".into());
    } else if made != rows {
        findings.add(|| {
            format!(
                "the rows are not those that the ledger's commits made: \
                 their digest is {:#x}, the ledger's {:#x}",
                rows.to_int(),
                made.to_int()
            )
        });
    }
    Ok(())
}

/// Runs an operation that only reads.
pub(crate) fn read(
    sql: &mut dyn Sql,
    client: &mut Client,
    operation: &'static str,
    mut body: impl FnMut(&mut dyn Sql) -> Result<(), StepError>,
) -> Result<Step, StepError> {
    client.operations += 1;
    let mut retries = 0;
    loop {
        match body(sql) {
            Ok(()) => return Ok(Step { operation, committed: None, retries }),
            Err(e) => again(e, &mut retries)?,
        }
    }
}

/// Runs a transaction that writes. `body` returns the bytes of row contents that it wrote, or
/// `None` to roll back. It notes its changes in [`Scratch::change`].
pub(crate) fn write(
    sql: &mut dyn Sql,
    client: &mut Client,
    operation: &'static str,
    mut body: impl FnMut(&mut dyn Sql, &mut Client) -> Result<Option<u64>, StepError>,
) -> Result<Step, StepError> {
    client.operations += 1;
    let mut retries = 0;
    loop {
        match transaction(sql, client, &mut body) {
            Ok(committed) => {
                if committed.is_some() {
                    client.acknowledged += 1;
                }
                return Ok(Step { operation, committed, retries });
            }
            Err(e) => again(e, &mut retries)?,
        }
    }
}

fn transaction(
    sql: &mut dyn Sql,
    client: &mut Client,
    body: &mut impl FnMut(&mut dyn Sql, &mut Client) -> Result<Option<u64>, StepError>,
) -> Result<Option<u64>, StepError> {
    // IMMEDIATE: a transaction that reads first and cannot get the write lock later could only be
    // rolled back.
    sql.execute("BEGIN IMMEDIATE", &[])?;
    client.scratch.change = Digest::default();
    let done = body(sql, client).and_then(|bytes| {
        if bytes.is_none() {
            sql.execute("ROLLBACK", &[])?;
        } else {
            let seq = client.acknowledged as i64 + 1;
            // The mask is `Digest::MASK`.
            let set = "UPDATE ledger SET seq = ?2, \
                       digest = (digest + ?3) & 4611686018427387903 WHERE client = ?1";
            let change = Value::Int(client.scratch.change.to_int());
            let rows =
                sql.execute(set, &[Value::Int(client.id.into()), Value::Int(seq), change])?;
            if rows != 1 {
                return Err(StepError::Damaged(format!(
                    "client {} is not in the ledger",
                    client.id
                )));
            }
            sql.execute("COMMIT", &[])?;
        }
        Ok(bytes)
    });
    if done.is_err() {
        // It fails if the transaction is gone already. The first error counts.
        let _ = sql.execute("ROLLBACK", &[]);
    }
    done
}

fn again(e: StepError, retries: &mut u32) -> Result<(), StepError> {
    match &e {
        StepError::Sql(sql) if sql.kind == SqlErrorKind::Busy && *retries < BUSY_TRIES => {
            *retries += 1;
            Ok(())
        }
        _ => Err(e),
    }
}

/// Inserts `count` rows, 500 in a transaction.
pub(crate) fn in_batches(
    sql: &mut dyn Sql,
    count: u64,
    mut insert: impl FnMut(&mut dyn Sql, u64) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    const BATCH: u64 = 500;
    for first in (0..count).step_by(BATCH as usize) {
        sql.execute("BEGIN IMMEDIATE", &[])?;
        for i in first..(first + BATCH).min(count) {
            insert(sql, i)?;
        }
        sql.execute("COMMIT", &[])?;
    }
    Ok(())
}

/// The integer of a query that must return a row.
pub(crate) fn must(
    sql: &mut dyn Sql,
    statement: &'static str,
    values: &[Value<'_>],
) -> Result<i64, SqlError> {
    query_int(sql, statement, values)?.ok_or_else(|| SqlError {
        kind: SqlErrorKind::Corrupt,
        message: format!("no row where there must be one: {statement}"),
    })
}
