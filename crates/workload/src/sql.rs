//! What a workload needs of an SQL database: prepared statements with bound values, and errors by
//! kind.
//!
//! The workloads here do no I/O: their caller brings an [`Sql`] connection.

/// A value bound to a parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer.
    Int(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// One row of a result. Columns count from 0; a value of another type reads as
/// 0 or as nothing, as in SQLite.
pub trait Row {
    /// The integer in a column.
    fn int(&self, column: usize) -> i64;
    /// The bytes in a column, of a blob or of text.
    fn bytes(&self, column: usize) -> &[u8];
}

/// What kind of error it was, as far as a workload or its judge cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// Another connection is in the way: roll back and try again.
    Busy,
    /// The device failed, or lost its power: the connection is to be closed.
    Io,
    /// The database found itself damaged.
    Corrupt,
    /// The database file is full, or the device is.
    Full,
    /// Anything else: a bug in the workload, a missing table.
    Other,
}

/// An error of a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Its kind.
    pub kind: SqlErrorKind,
    /// What the database said, and of which statement.
    pub message: String,
}

/// A connection to a database.
pub trait Sql {
    /// Runs a statement that returns no rows; gives the number of rows it changed.
    /// Statements are constants, so that a connection can keep them prepared.
    ///
    /// # Errors
    /// What the database says.
    fn execute(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<u64, SqlError>;

    /// Runs a query and hands each row to `each`; gives the number of rows.
    ///
    /// # Errors
    /// What the database says; `each` may have seen rows before.
    fn query(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<u64, SqlError>;
}

/// The integer in the first column of the first row, if there is a row.
///
/// # Errors
/// What the database says.
pub fn query_int(
    sql: &mut dyn Sql,
    statement: &'static str,
    values: &[Value<'_>],
) -> Result<Option<i64>, SqlError> {
    let mut found = None;
    sql.query(statement, values, &mut |row| {
        if found.is_none() {
            found = Some(row.int(0));
        }
    })?;
    Ok(found)
}
