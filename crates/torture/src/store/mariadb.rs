//! MariaDB, with the `mysql` crate over a UNIX socket.

use super::{INDEX, Store, StoreError, TABLES, account, entry, filling, line};
use crate::check::Contents;
use crate::ledger::Row;
use crate::plan::{Plan, Transfer};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, TxOpts};
use std::path::Path;
use std::time::Duration;

/// A connection.
pub struct Mariadb(Conn);

/// The database of the tables.
const DATABASE: &str = "torture";

/// Error codes: deadlock, and lock wait timeout (the server undoes only the statement; the
/// transaction is undone on drop).
const UNDONE: [u16; 2] = [1213, 1205];

impl From<mysql::Error> for StoreError {
    fn from(e: mysql::Error) -> StoreError {
        StoreError::Failed(e.to_string())
    }
}

fn undone(e: mysql::Error) -> StoreError {
    match &e {
        mysql::Error::MySqlError(said) if UNDONE.contains(&said.code) => {
            StoreError::Undone(e.to_string())
        }
        _ => e.into(),
    }
}

/// How often the check is repeated while it complains, and the pause between.
const LOOKS: usize = 6;
const PURGE: Duration = Duration::from_millis(500);

/// Complaints about rows that are deleted and not yet purged. After a start, transactions that were
/// under way are still being undone. The complaints last until their rows are purged.
const PASSING: [&str; 2] = ["Unpurged clustered index record", "nsufficient history for index"];

/// Whether a complaint is only about purge. A secondary index entry that is marked as deleted (bit
/// 5 of `info_bits`) may also outlive its row until it is purged.
fn is_of_purge(what: &str) -> bool {
    let is_entry_left = what.contains("Clustered index record not found for index")
        && what.contains("RECORD(info_bits=32,");
    is_entry_left || PASSING.iter().any(|words| what.contains(words))
}

/// Selects the damage from the complaints of all looks: those of the last look, and any earlier
/// ones that are not about purge. Damage does not repair itself, so a complaint that vanishes was
/// damage too. (A check that finds an index damaged marks it, and later checks report only the
/// mark.)
fn judge(looks: &[Vec<String>]) -> Vec<String> {
    let Some((last, before)) = looks.split_last() else { return Vec::new() };
    let mut all = last.clone();
    for what in before.iter().flatten() {
        let vanished = format!("{what} (reported at first, but not later)");
        if !is_of_purge(what) && !all.contains(what) && !all.contains(&vanished) {
            all.push(vanished);
        }
    }
    all
}

impl Mariadb {
    /// The complaints of one check of all tables.
    fn look(&mut self) -> Result<Vec<String>, StoreError> {
        let tables: Vec<(String, String)> = self.0.query(
            "SELECT table_schema, table_name FROM information_schema.tables \
             WHERE table_type = 'BASE TABLE' AND table_schema IN ('torture', 'mysql') \
             AND engine = 'InnoDB'",
        )?;
        let mut said = Vec::new();
        for (schema, table) in tables {
            let rows: Vec<(String, String, String, String)> =
                self.0.query(format!("CHECK TABLE `{schema}`.`{table}` EXTENDED"))?;
            let bad =
                rows.into_iter().filter(|(_, _, kind, text)| !(kind == "status" && text == "OK"));
            said.extend(bad.map(|(name, _, kind, text)| format!("{name}: {kind}: {text}")));
        }
        Ok(said)
    }

    /// Connects as this process's user: the server asks the kernel for the user, and
    /// `scripts/database` has made an account of that name.
    pub fn connect(socket: &Path) -> Result<Mariadb, StoreError> {
        let options = OptsBuilder::new()
            .socket(Some(socket.to_string_lossy()))
            .prefer_socket(false)
            .user(Some(user()?))
            .init(vec![
                format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"),
                format!("USE {DATABASE}"),
            ]);
        Ok(Mariadb(Conn::new(options)?))
    }
}

/// The name of this process's user.
#[allow(clippy::disallowed_methods, reason = "the edge: the system knows the name")]
fn user() -> Result<String, StoreError> {
    if rustix::process::geteuid().is_root() {
        return Ok("root".to_string());
    }
    let told = std::process::Command::new("id").arg("-un").output();
    let told = told.map_err(|e| StoreError::Failed(format!("id: {e}")))?;
    Ok(String::from_utf8_lossy(&told.stdout).trim_end().to_string())
}

impl Store for Mariadb {
    fn create(&mut self, plan: &Plan) -> Result<(), StoreError> {
        for table in TABLES {
            self.0.query_drop(format!("{table} ENGINE=InnoDB CHARACTER SET latin1"))?;
        }
        self.0.query_drop(INDEX)?;
        let mut transaction = self.0.start_transaction(TxOpts::default())?;
        for statement in filling(plan) {
            transaction.query_drop(statement)?;
        }
        Ok(transaction.commit()?)
    }

    fn transfer(&mut self, plan: &Plan, it: &Transfer) -> Result<(), StoreError> {
        let note = it.note();
        let mut transaction = self.0.start_transaction(TxOpts::default())?;
        let mut all = || {
            for c in it.accounts() {
                transaction.exec_drop(
                    "UPDATE account SET balance = balance + ?, moved = moved + ?, note = ? \
                     WHERE id = ?",
                    (c.amount, c.moved, &note, c.id),
                )?;
            }
            for (number, leg) in it.legs.iter().enumerate() {
                transaction.exec_drop(
                    "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (it.client, it.seq, number, leg.source, leg.target, leg.amount, &note),
                )?;
            }
            for c in it.branches(plan) {
                transaction.exec_drop(
                    "UPDATE branch SET balance = balance + ?, moved = moved + ? WHERE id = ?",
                    (c.amount, c.moved, c.id),
                )?;
            }
            transaction.exec_drop(
                "INSERT INTO ledger VALUES (?, ?, ?, ?)",
                (it.client, it.seq, it.legs.len(), it.checksum()),
            )
        };
        all().map_err(undone)?;
        Ok(transaction.commit()?)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        // InnoDB has no command for it. This setting makes its page cleaner leave nothing dirty.
        Ok(self.0.query_drop("SET GLOBAL innodb_max_dirty_pages_pct = 0")?)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        Ok(Contents {
            accounts: self
                .0
                .query_map(super::SELECT_ACCOUNTS, |(id, branch, balance, moved, note)| {
                    account(id, branch, balance, moved, note)
                })?,
            branches: self.0.query_map(super::SELECT_BRANCHES, |(id, balance, moved)| {
                (super::narrow(id), Row { balance, moved })
            })?,
            lines: self.0.query_map(super::SELECT_LINES, |(client, seq, legs, checksum)| {
                line(client, seq, legs, checksum)
            })?,
            entries: self.0.query_map(
                super::SELECT_ENTRIES,
                |(client, seq, leg, source, target, amount, note)| {
                    entry((client, seq, leg), source, target, amount, note)
                },
            )?,
        })
    }

    /// `CHECK TABLE ... EXTENDED` of all tables of this test and of the server. Reading a page
    /// verifies its checksum. The check is repeated up to `LOOKS` times until it has no complaint;
    /// [`judge`] selects the damage.
    fn own_check(&mut self) -> Result<Vec<String>, StoreError> {
        let mut looks = vec![self.look()?];
        while looks.len() < LOOKS && looks.last().is_some_and(|last| !last.is_empty()) {
            #[allow(clippy::disallowed_methods, reason = "the edge: the server is waited for")]
            std::thread::sleep(PURGE);
            looks.push(self.look()?);
        }
        Ok(judge(&looks))
    }

    fn trim(&mut self) -> Result<(), StoreError> {
        self.0.query_drop("TRUNCATE TABLE entry")?;
        Ok(self.0.query_drop("TRUNCATE TABLE ledger")?)
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    const UNPURGED: &str =
        "torture.account: Warning: InnoDB: Unpurged clustered index record in table x";
    const COUNT: &str =
        "torture.account: Warning: InnoDB: Index 'account_note' contains 7 entries, should be 6.";
    const CORRUPT: &str = "torture.account: error: Corrupt";
    const DELETED: &str = "torture.account: Warning: InnoDB: Clustered index record not found for index \
        `account_note` of table `torture`.`account`: COMPACT RECORD(info_bits=32, 2 fields): {[1]-(0x2D)}";
    const MISSING: &str = "torture.account: Warning: InnoDB: Clustered index record not found for index \
        `account_note` of table `torture`.`account`: COMPACT RECORD(info_bits=0, 2 fields): {[1]-(0x2D)}";

    fn looks(each: &[&[&str]]) -> Vec<Vec<String>> {
        each.iter().map(|look| look.iter().map(|what| what.to_string()).collect()).collect()
    }

    #[test]
    fn a_complaint_that_vanishes_is_kept_unless_it_is_of_purge() {
        assert_eq!(judge(&looks(&[&[]])), [""; 0]);
        assert_eq!(judge(&looks(&[&[UNPURGED], &[UNPURGED], &[]])), [""; 0]);
        assert_eq!(judge(&looks(&[&[UNPURGED], &[UNPURGED]])), [UNPURGED], "it never ended");
        assert_eq!(judge(&looks(&[&[DELETED], &[]])), [""; 0]);
        assert_eq!(judge(&looks(&[&[DELETED], &[DELETED]])), [DELETED], "it never ended");
        let vanished = |what: &str| format!("{what} (reported at first, but not later)");
        assert_eq!(judge(&looks(&[&[COUNT], &[]])), [vanished(COUNT)]);
        assert_eq!(judge(&looks(&[&[MISSING], &[]])), [vanished(MISSING)], "not marked as deleted");
        assert_eq!(
            judge(&looks(&[&[], &[COUNT, CORRUPT], &[CORRUPT]])),
            [CORRUPT, &vanished(COUNT)]
        );
        assert_eq!(judge(&looks(&[&[COUNT], &[COUNT], &[COUNT]])), [COUNT]);
        assert_eq!(judge(&looks(&[&[COUNT], &[COUNT], &[]])), [vanished(COUNT)]);
    }
}
