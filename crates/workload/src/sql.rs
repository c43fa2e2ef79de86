//! The interface of an SQL database for workloads: prepared statements with bound values, and
//! errors by kind.
//!
//! The workloads do no I/O: their caller provides an [`Sql`] connection.

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

/// One row of a result. Columns count from 0. A value of another type reads as 0 or as empty, as in
/// SQLite.
pub trait Row {
    /// The integer in a column.
    fn int(&self, column: usize) -> i64;
    /// The bytes in a column, of a blob or of text.
    fn bytes(&self, column: usize) -> &[u8];
}

/// Kinds of errors that a workload or a check tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// Another connection is in the way: roll back and retry.
    Busy,
    /// The device failed or lost its power: close the connection.
    Io,
    /// The database found damage.
    Corrupt,
    /// The database file or the device is full.
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
    /// The database's message, and the statement.
    pub message: String,
}

/// A connection to a database.
pub trait Sql {
    /// Runs a statement that returns no rows. Returns the number of rows that it changed.
    /// Statements are constants, so that a connection can keep them prepared.
    ///
    /// # Errors
    /// The database's error.
    fn execute(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<u64, SqlError>;

    /// Runs a query and passes each row to `each`. Returns the number of rows.
    ///
    /// # Errors
    /// The database's error. `each` may have seen rows before it.
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
/// The database's error.
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
