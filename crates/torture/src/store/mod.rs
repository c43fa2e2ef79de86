//! A connection to a database, with what the clients and the check need.
//!
//! The client libraries are `postgres`, `mysql` and `rusqlite`: maintained, blocking, and used
//! without TLS, since all connections are UNIX sockets.

mod mariadb;
mod postgres;
mod sqlite;

use crate::check::{Account, Contents, Entry, Line};
use crate::ledger::Row;
use crate::plan::{BLANK, Leg, OPENING, Plan, Transfer};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How to connect to a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// PostgreSQL, by the directory of its socket.
    Postgres(PathBuf),
    /// MariaDB, by its socket.
    Mariadb(PathBuf),
    /// SQLite, by its file, with its own file system layer.
    Sqlite {
        /// The file.
        file: PathBuf,
        /// Its journal mode.
        journal: Journal,
    },
}

/// SQLite's `journal_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Journal {
    /// A rollback journal.
    Delete,
    /// A write-ahead log.
    Wal,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database undid the transaction because of others (a deadlock, a lock that it did not
    /// get). It did not happen, and may be tried again.
    #[error("undone by the database: {0}")]
    Undone(String),
    /// Anything else. Whether a commit happened is not known.
    #[error("{0}")]
    Failed(String),
}

/// A connection.
pub trait Store {
    /// Creates and fills the tables.
    fn create(&mut self, plan: &Plan) -> Result<(), StoreError>;

    /// Carries out a transaction. `Ok` only if the database acknowledged its commit.
    fn transfer(&mut self, plan: &Plan, transfer: &Transfer) -> Result<(), StoreError>;

    /// Makes the database write all changed pages.
    fn checkpoint(&mut self) -> Result<(), StoreError>;

    /// The whole content.
    fn contents(&mut self) -> Result<Contents, StoreError>;

    /// Runs the database's own check of tables and indexes. Returns its complaints.
    fn own_check(&mut self) -> Result<Vec<String>, StoreError>;

    /// Empties the tables `ledger` and `entry`.
    fn trim(&mut self) -> Result<(), StoreError>;
}

impl Target {
    /// Connects.
    pub fn connect(&self) -> Result<Box<dyn Store>, StoreError> {
        Ok(match self {
            Target::Postgres(run) => Box::new(postgres::Postgres::connect(run)?),
            Target::Mariadb(socket) => Box::new(mariadb::Mariadb::connect(socket)?),
            Target::Sqlite { file, journal } => Box::new(sqlite::Sqlite::open(file, *journal)?),
        })
    }
}

/// The tables, in SQL that all three databases accept.
const TABLES: [&str; 4] = [
    "CREATE TABLE account (id INT NOT NULL PRIMARY KEY, branch INT NOT NULL, \
     balance BIGINT NOT NULL, moved BIGINT NOT NULL, note VARCHAR(200) NOT NULL)",
    "CREATE TABLE branch (id INT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, \
     moved BIGINT NOT NULL)",
    "CREATE TABLE ledger (client BIGINT NOT NULL, seq BIGINT NOT NULL, legs BIGINT NOT NULL, \
     checksum BIGINT NOT NULL, PRIMARY KEY (client, seq))",
    "CREATE TABLE entry (client BIGINT NOT NULL, seq BIGINT NOT NULL, leg BIGINT NOT NULL, \
     source BIGINT NOT NULL, target BIGINT NOT NULL, amount BIGINT NOT NULL, \
     note VARCHAR(200) NOT NULL, PRIMARY KEY (client, seq, leg))",
];

/// An index that every transfer changes at random places.
const INDEX: &str = "CREATE INDEX account_note ON account (note)";

/// The queries of [`Store::contents`], in this order.
const SELECT_ACCOUNTS: &str = "SELECT id, branch, balance, moved, note FROM account";
const SELECT_BRANCHES: &str = "SELECT id, balance, moved FROM branch";
const SELECT_LINES: &str = "SELECT client, seq, legs, checksum FROM ledger";
const SELECT_ENTRIES: &str = "SELECT client, seq, leg, source, target, amount, note FROM entry";

/// The statements that fill the tables, with up to 500 rows each.
fn filling(plan: &Plan) -> Vec<String> {
    const ROWS: usize = 500;
    let statement =
        |table: &str, rows: &[String]| format!("INSERT INTO {table} VALUES {}", rows.join(", "));
    let accounts: Vec<String> = (0..plan.accounts)
        .map(|id| format!("({id}, {}, {OPENING}, 0, '{BLANK}')", plan.branch(id)))
        .collect();
    let branches: Vec<String> = (0..plan.branches)
        .map(|id| format!("({id}, {}, 0)", OPENING * i64::from(plan.accounts_of(id))))
        .collect();
    let all = accounts.chunks(ROWS).map(|rows| statement("account", rows));
    all.chain(branches.chunks(ROWS).map(|rows| statement("branch", rows))).collect()
}

/// A number from the database. One that is out of range becomes a wrong number, which the check
/// finds.
fn narrow(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn wide(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn account(id: i64, branch: i64, balance: i64, moved: i64, note: String) -> Account {
    Account { id: narrow(id), branch: narrow(branch), row: Row { balance, moved }, note }
}

fn line(client: i64, seq: i64, legs: i64, checksum: i64) -> Line {
    Line { client: narrow(client), seq: wide(seq), legs: narrow(legs), checksum: narrow(checksum) }
}

fn entry(key: (i64, i64, i64), source: i64, target: i64, amount: i64, note: String) -> Entry {
    Entry {
        client: narrow(key.0),
        seq: wide(key.1),
        leg: narrow(key.2),
        what: Leg { source: narrow(source), target: narrow(target), amount },
        note,
    }
}
