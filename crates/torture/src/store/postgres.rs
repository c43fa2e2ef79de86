//! PostgreSQL, with the `postgres` crate over a UNIX socket.

use super::{INDEX, Store, StoreError, TABLES, account, entry, filling, line};
use crate::check::Contents;
use crate::ledger::Row;
use crate::plan::{Plan, Transfer};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, Statement};
use std::path::Path;
use std::time::Duration;

/// A connection.
pub struct Postgres {
    client: Client,
    /// The statements of a transfer. They are prepared at the first one.
    statements: Option<Statements>,
}

#[derive(Clone)]
struct Statements {
    account: Statement,
    entry: Statement,
    branch: Statement,
    line: Statement,
}

/// The whole error in one line. Its own `Display` leaves out the server's message.
fn failed(e: &postgres::Error) -> StoreError {
    match e.as_db_error() {
        Some(db) => StoreError::Failed(format!("{}: {}", db.severity(), db.message())),
        None => {
            use std::error::Error;
            let why = e.source().map(|s| format!(": {s}")).unwrap_or_default();
            StoreError::Failed(format!("{e}{why}"))
        }
    }
}

impl From<postgres::Error> for StoreError {
    fn from(e: postgres::Error) -> StoreError {
        failed(&e)
    }
}

/// The error of a statement: [`StoreError::Undone`] if the server undid the transaction because of
/// another one.
fn undone(e: postgres::Error) -> StoreError {
    match e.code() {
        Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE) => {
            StoreError::Undone(e.to_string())
        }
        _ => failed(&e),
    }
}

impl Postgres {
    pub fn connect(run: &Path) -> Result<Postgres, StoreError> {
        let client = Config::new()
            .host_path(run)
            .user("postgres")
            .dbname("postgres")
            .connect_timeout(Duration::from_secs(10))
            .connect(NoTls)?;
        Ok(Postgres { client, statements: None })
    }

    fn prepared(&mut self) -> Result<Statements, postgres::Error> {
        if let Some(statements) = &self.statements {
            return Ok(statements.clone());
        }
        let statements = Statements {
            account: self.client.prepare(
                "UPDATE account SET balance = balance + $2, moved = moved + $3, note = $4 \
                 WHERE id = $1",
            )?,
            entry: self.client.prepare("INSERT INTO entry VALUES ($1, $2, $3, $4, $5, $6, $7)")?,
            branch: self.client.prepare(
                "UPDATE branch SET balance = balance + $2, moved = moved + $3 WHERE id = $1",
            )?,
            line: self.client.prepare("INSERT INTO ledger VALUES ($1, $2, $3, $4)")?,
        };
        self.statements = Some(statements.clone());
        Ok(statements)
    }
}

impl Store for Postgres {
    fn create(&mut self, plan: &Plan) -> Result<(), StoreError> {
        self.client.batch_execute("CREATE EXTENSION IF NOT EXISTS amcheck")?;
        let mut transaction = self.client.transaction()?;
        for statement in TABLES.iter().map(ToString::to_string).chain(filling(plan)) {
            transaction.batch_execute(&statement)?;
        }
        transaction.batch_execute(INDEX)?;
        Ok(transaction.commit()?)
    }

    fn transfer(&mut self, plan: &Plan, it: &Transfer) -> Result<(), StoreError> {
        let note = it.note();
        let (client, seq) = (i64::from(it.client), it.seq as i64);
        let Statements { account, entry, branch, line } = self.prepared()?;
        let mut transaction = self.client.transaction()?;
        let mut all = || {
            for c in it.accounts() {
                let id = c.id as i32;
                transaction.execute(&account, &[&id, &c.amount, &c.moved, &note])?;
            }
            for (number, leg) in (0i64..).zip(&it.legs) {
                let (source, target) = (i64::from(leg.source), i64::from(leg.target));
                let row: [&(dyn postgres::types::ToSql + Sync); 7] =
                    [&client, &seq, &number, &source, &target, &leg.amount, &note];
                transaction.execute(&entry, &row)?;
            }
            for c in it.branches(plan) {
                transaction.execute(&branch, &[&(c.id as i32), &c.amount, &c.moved])?;
            }
            let (legs, checksum) = (it.legs.len() as i64, i64::from(it.checksum()));
            transaction.execute(&line, &[&client, &seq, &legs, &checksum])
        };
        all().map_err(undone)?;
        Ok(transaction.commit()?)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        Ok(self.client.batch_execute("CHECKPOINT")?)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        let mut it = Contents::default();
        for r in self.client.query(super::SELECT_ACCOUNTS, &[])? {
            let (id, branch): (i32, i32) = (r.try_get(0)?, r.try_get(1)?);
            let note = r.try_get(4)?;
            it.accounts.push(account(id.into(), branch.into(), r.try_get(2)?, r.try_get(3)?, note));
        }
        for r in self.client.query(super::SELECT_BRANCHES, &[])? {
            let row = Row { balance: r.try_get(1)?, moved: r.try_get(2)? };
            it.branches.push((super::narrow(r.try_get::<_, i32>(0)?.into()), row));
        }
        for r in self.client.query(super::SELECT_LINES, &[])? {
            it.lines.push(line(r.try_get(0)?, r.try_get(1)?, r.try_get(2)?, r.try_get(3)?));
        }
        for r in self.client.query(super::SELECT_ENTRIES, &[])? {
            let key = (r.try_get(0)?, r.try_get(1)?, r.try_get(2)?);
            let entry = entry(key, r.try_get(3)?, r.try_get(4)?, r.try_get(5)?, r.try_get(6)?);
            it.entries.push(entry);
        }
        Ok(it)
    }

    /// `amcheck` on every table and B-tree of the database, including the catalogue. For this
    /// test's own indexes it also checks that every row of the table is in them. Reading a page
    /// verifies its checksum.
    fn own_check(&mut self) -> Result<Vec<String>, StoreError> {
        const TABLES: &str = "SELECT c.oid::bigint, c.relname::text FROM pg_class c \
            JOIN pg_am a ON a.oid = c.relam \
            WHERE c.relkind IN ('r', 't', 'm') AND a.amname = 'heap' AND c.relpersistence <> 't'";
        const INDEXES: &str = "SELECT c.oid::bigint, c.relname::text, c.relnamespace = 'public'::regnamespace \
            FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_am a ON a.oid = c.relam \
            WHERE a.amname = 'btree' AND i.indisvalid AND i.indisready AND c.relpersistence <> 't'";
        let mut said = Vec::new();
        for r in self.client.query(TABLES, &[])? {
            let (oid, name): (i64, String) = (r.try_get(0)?, r.try_get(1)?);
            let ask = format!("SELECT blkno, msg FROM verify_heapam({oid}::oid::regclass)");
            match self.client.query(&ask, &[]) {
                Ok(rows) => {
                    for row in rows {
                        let (block, what): (Option<i64>, String) =
                            (row.try_get(0)?, row.try_get(1)?);
                        said.push(format!("table {name}, block {}: {what}", block.unwrap_or(-1)));
                    }
                }
                Err(e) if e.as_db_error().is_some() => {
                    said.push(format!("table {name}: {}", failed(&e)));
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        for r in self.client.query(INDEXES, &[])? {
            let (oid, name, ours): (i64, String, bool) =
                (r.try_get(0)?, r.try_get(1)?, r.try_get(2)?);
            let ask = match ours {
                true => format!("SELECT bt_index_parent_check({oid}::oid::regclass, true, true)"),
                false => format!("SELECT bt_index_check({oid}::oid::regclass)"),
            };
            match self.client.query(&ask, &[]) {
                Ok(_) => {}
                Err(e) if e.as_db_error().is_some() => {
                    said.push(format!("index {name}: {}", failed(&e)));
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        Ok(said)
    }

    fn trim(&mut self) -> Result<(), StoreError> {
        Ok(self.client.batch_execute("TRUNCATE entry, ledger")?)
    }
}
