//! SQLite on its own file system layer.

use super::{INDEX, Journal, Store, StoreError, TABLES, account, entry, filling, line};
use crate::check::Contents;
use crate::ledger::Row;
use crate::plan::{Plan, Transfer};
use rusqlite::{Connection, ErrorCode, Row as SqlRow, TransactionBehavior};
use std::path::Path;
use std::time::Duration;

/// A connection to a file.
pub struct Sqlite(Connection);

impl From<rusqlite::Error> for StoreError {
    fn from(e: rusqlite::Error) -> StoreError {
        match e.sqlite_error_code() {
            // A commit that finds the file locked has not happened. The transaction is undone on
            // drop.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Undone(e.to_string())
            }
            _ => StoreError::Failed(e.to_string()),
        }
    }
}

impl Sqlite {
    pub fn open(file: &Path, journal: Journal) -> Result<Sqlite, StoreError> {
        let it = Connection::open(file)?;
        it.busy_timeout(Duration::from_secs(20))?;
        let mode = match journal {
            Journal::Delete => "DELETE",
            Journal::Wal => "WAL",
        };
        let is: String =
            it.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |r| r.get(0))?;
        if !is.eq_ignore_ascii_case(mode) {
            return Err(StoreError::Failed(format!("the journal mode is {is} and not {mode}")));
        }
        // EXTRA also syncs the directory after a rollback journal was deleted from it. Without it
        // an acknowledged commit may be rolled back after a cut.
        it.pragma_update(None, "synchronous", "EXTRA")?;
        it.pragma_update(None, "cache_size", 500)?;
        Ok(Sqlite(it))
    }

    fn all<T>(
        &self,
        sql: &str,
        each: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        Ok(self.0.prepare(sql)?.query_map([], each)?.collect::<Result<_, _>>()?)
    }
}

impl Store for Sqlite {
    fn create(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let transaction = self.0.transaction()?;
        for statement in TABLES.iter().map(ToString::to_string).chain(filling(plan)) {
            transaction.execute(&statement, [])?;
        }
        transaction.execute(INDEX, [])?;
        Ok(transaction.commit()?)
    }

    fn transfer(&mut self, plan: &Plan, it: &Transfer) -> Result<(), StoreError> {
        let note = it.note();
        let (client, seq) = (it.client, it.seq as i64);
        let transaction = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for change in it.accounts() {
            transaction
                .prepare(
                    "UPDATE account SET balance = balance + ?2, moved = moved + ?3, note = ?4 \
                     WHERE id = ?1",
                )?
                .execute((change.id, change.amount, change.moved, &note))?;
        }
        for (number, leg) in it.legs.iter().enumerate() {
            transaction
                .prepare("INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
                .execute((client, seq, number as i64, leg.source, leg.target, leg.amount, &note))?;
        }
        for change in it.branches(plan) {
            transaction
                .prepare(
                    "UPDATE branch SET balance = balance + ?2, moved = moved + ?3 WHERE id = ?1",
                )?
                .execute((change.id, change.amount, change.moved))?;
        }
        transaction.prepare("INSERT INTO ledger VALUES (?1, ?2, ?3, ?4)")?.execute((
            client,
            seq,
            it.legs.len() as i64,
            it.checksum(),
        ))?;
        Ok(transaction.commit()?)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        Ok(self.0.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        Ok(Contents {
            accounts: self.all(super::SELECT_ACCOUNTS, |r| {
                Ok(account(r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?))
            })?,
            branches: self.all(super::SELECT_BRANCHES, |r| {
                let row = Row { balance: r.get(1)?, moved: r.get(2)? };
                Ok((super::narrow(r.get(0)?), row))
            })?,
            lines: self.all(super::SELECT_LINES, |r| {
                Ok(line(r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))
            })?,
            entries: self.all(super::SELECT_ENTRIES, |r| {
                let key = (r.get(0)?, r.get(1)?, r.get(2)?);
                Ok(entry(key, r.get(3)?, r.get(4)?, r.get(5)?, r.get(6)?))
            })?,
        })
    }

    fn own_check(&mut self) -> Result<Vec<String>, StoreError> {
        let said: Vec<String> = self.all("PRAGMA integrity_check", |r| r.get(0))?;
        Ok(said.into_iter().filter(|s| s != "ok").collect())
    }

    fn trim(&mut self) -> Result<(), StoreError> {
        Ok(self.0.execute_batch("BEGIN; DELETE FROM entry; DELETE FROM ledger; COMMIT")?)
    }
}
