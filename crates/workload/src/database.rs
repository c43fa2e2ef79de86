//! What the database workloads share: the client, the transaction with its ledger,
//! and the judge's findings.
//!
//! # Invariants
//!
//! 1. Every transaction that writes sets the client's row in `ledger` to one more
//!    than the number of its commits known to be acknowledged, in the same
//!    transaction: after a crash the ledger tells how many of them are there.
//! 2. [`Client::acknowledged`] moves only when a COMMIT has returned without error, and
//!    by one. So the ledger may be ahead of it by the one commit in flight, and
//!    by no more.
//! 3. Such a transaction adds to the `digest` in the same row what it changed in the
//!    [`Digest`] of all rows, and the loader's row holds that of the loaded database: the
//!    sum over the ledger is the digest of the rows that its commits made. A page that
//!    went back to an older state, sound in itself, breaks the sum.
//! 4. A client draws from its own random stream: what one client does depends on
//!    the others only through the database.

use crate::content::Digest;
use crate::sql::{Sql, SqlError, SqlErrorKind, Value, query_int};
use tantalum_rt::Stream;

/// How often an operation is tried again when another connection is in the way.
const BUSY_TRIES: u32 = 64;

/// The loader's row in the ledger, which is no client's.
const LOADER: i64 = -1;

/// Findings listed word by word; further ones are only counted.
const FINDINGS_LISTED: usize = 8;

/// One client: its random stream and what it knows to be committed.
#[derive(Clone, Debug)]
pub struct Client {
    id: u32,
    pub(crate) stream: Stream,
    acknowledged: u64,
    operations: u64,
    pub(crate) scratch: Scratch,
}

/// What a transaction has at hand while it writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The contents of the row being written.
    pub buffer: Vec<u8>,
    /// What the transaction changed so far: rows as they are now added, as they
    /// were before removed.
    pub change: Digest,
}

/// What a load wrote.
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

    /// How many of its commits were acknowledged (and, after
    /// [`Client::resume`], are known to be in the database).
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Goes on from what the ledger says after a crash.
    pub fn resume(&mut self, found: u64) {
        self.acknowledged = found;
    }

    /// A time for a row: the number of the operation.
    pub(crate) fn time(&self) -> i64 {
        self.operations as i64
    }
}

/// One operation that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, as the benchmark calls it.
    pub operation: &'static str,
    /// Bytes of row contents that it wrote and committed; `None` if it wrote nothing.
    pub committed: Option<u64>,
    /// How often it was tried again because another connection was in the way.
    pub retries: u32,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The database said so.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The database gave a row that cannot be right.
    #[error("a row is damaged: {0}")]
    Damaged(String),
}

/// What a check of a whole database found.
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

    /// Adds one; `words` are only asked for if it is listed.
    pub fn add(&mut self, words: impl FnOnce() -> String) {
        self.total += 1;
        if self.listed.len() < FINDINGS_LISTED {
            self.listed.push(words());
        }
    }
}

/// A database benchmark: tables, a load, operations, and a judge.
pub trait Benchmark {
    /// Its name in experiment files and reports.
    fn name(&self) -> &'static str;

    /// The statements that make its empty tables (not the ledger).
    fn schema(&self) -> &'static [&'static str];

    /// Fills the tables in one transaction per some hundred rows.
    ///
    /// # Errors
    /// What the database says.
    fn fill(&self, sql: &mut dyn Sql) -> Result<Loaded, SqlError>;

    /// Draws the client's next operation and carries it out.
    ///
    /// # Errors
    /// [`StepError`]; after it the client may go on if the connection can.
    fn operate(&self, sql: &mut dyn Sql, client: &mut Client) -> Result<Step, StepError>;

    /// Checks every row and every invariant of the benchmark, and that the rows are
    /// exactly those that the commits in the ledger made. Nobody may write meanwhile.
    ///
    /// # Errors
    /// What the database says if it cannot be read.
    fn verify(&self, sql: &mut dyn Sql) -> Result<Findings, SqlError>;
}

/// Makes tables and ledger for `clients` clients and fills them; gives the bytes
/// of row contents written.
///
/// # Errors
/// What the database says.
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
/// What the database says.
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

/// Runs a transaction that writes. `body` gives the bytes of row contents it wrote,
/// or `None` if there is nothing to keep: then whatever it did is rolled back. What it
/// changed it notes in [`Scratch::change`].
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
    // Immediate: a transaction that reads first and finds out later that it is
    // too late to write could only be rolled back.
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
        // The transaction may be gone already; what failed first is what counts.
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

/// Inserts `count` things, some hundred to a transaction.
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

/// The integer that a query must give.
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
