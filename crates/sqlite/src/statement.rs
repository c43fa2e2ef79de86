//! Prepared statements and their values.

use crate::connection::Connection;
use crate::error::{Fail, SqliteError};
use libsqlite3_sys as ffi;
use std::borrow::Cow;
use std::ffi::c_int;
use std::ptr::null_mut;

/// A value to bind to a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl From<i64> for Value<'_> {
    fn from(v: i64) -> Self {
        Value::Integer(v)
    }
}

impl From<f64> for Value<'_> {
    fn from(v: f64) -> Self {
        Value::Real(v)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(v: &'a str) -> Self {
        Value::Text(v)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(v: &'a [u8]) -> Self {
        Value::Blob(v)
    }
}

/// A prepared statement.
///
/// See [the crate](crate) for an example.
pub struct Statement<'c> {
    connection: &'c Connection<'c>,
    statement: *mut ffi::sqlite3_stmt,
}

impl<'c> Statement<'c> {
    /// The first statement in `sql`, if there is one, and the text after it.
    pub(crate) fn prepare<'s>(
        connection: &'c Connection<'_>,
        sql: &'s str,
    ) -> Result<(Option<Statement<'c>>, &'s str), SqliteError> {
        let length = c_int::try_from(sql.len())
            .map_err(|_| SqliteError::misuse("a statement of 2 GiB or more"))?;
        let (mut statement, mut tail) = (null_mut(), std::ptr::null());
        // SAFETY: the connection is open, the text has `length` bytes, and there is
        // room for both answers.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(
                connection.db,
                sql.as_ptr().cast(),
                length,
                &mut statement,
                &mut tail,
            )
        };
        connection.check(code)?;
        let used = (tail as usize).saturating_sub(sql.as_ptr() as usize);
        let rest = sql.get(used..).unwrap_or("");
        if statement.is_null() {
            // A comment or an empty statement; a statement may follow.
            return match rest.len() {
                n if n > 0 && n < sql.len() => Statement::prepare(connection, rest),
                _ => Ok((None, "")),
            };
        }
        Ok((Some(Statement { connection, statement }), rest))
    }

    /// Binds a value to a parameter; the first is 1.
    ///
    /// # Errors
    /// SQLite's, if there is no such parameter or the value is too long.
    pub fn bind<'v>(
        &mut self,
        index: usize,
        value: impl Into<Value<'v>>,
    ) -> Result<(), SqliteError> {
        let (s, i) = (self.statement, c_int::try_from(index).unwrap_or(0));
        // SAFETY: the statement is open; SQLite copies text and bytes before it returns.
        let code = unsafe {
            match value.into() {
                Value::Null => ffi::sqlite3_bind_null(s, i),
                Value::Integer(v) => ffi::sqlite3_bind_int64(s, i, v),
                Value::Real(v) => ffi::sqlite3_bind_double(s, i, v),
                Value::Text(v) => ffi::sqlite3_bind_text64(
                    s,
                    i,
                    v.as_ptr().cast(),
                    v.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                    ffi::SQLITE_UTF8 as u8,
                ),
                Value::Blob(v) => ffi::sqlite3_bind_blob64(
                    s,
                    i,
                    v.as_ptr().cast(),
                    v.len() as u64,
                    ffi::SQLITE_TRANSIENT(),
                ),
            }
        };
        self.connection.check(code)
    }

    /// Binds values to the first parameters.
    ///
    /// # Errors
    /// Those of [`Statement::bind`].
    pub fn bind_all(&mut self, values: &[Value<'_>]) -> Result<(), SqliteError> {
        values.iter().zip(1..).try_for_each(|(v, i)| self.bind(i, *v))
    }

    /// Steps to the next row; returns false if there is none.
    ///
    /// # Errors
    /// SQLite's. After an I/O error of a commit it is unknown whether the commit took place.
    pub fn step(&mut self) -> Result<bool, SqliteError> {
        let ctx = self.connection.ctx;
        ctx.charge(ctx.common.options.statement_cpu);
        // SAFETY: the statement is open.
        let code = unsafe { ffi::sqlite3_step(self.statement) };
        let row = code == ffi::SQLITE_ROW;
        // Before the guest continues, held writes are handed on, and all owed time passes.
        let drained = ctx.drain();
        let paid = if row { ctx.pay_if_much() } else { ctx.pay() };
        if !row && code != ffi::SQLITE_DONE {
            self.connection.check(code)?;
        }
        match drained.and(paid.map_err(Fail::from)) {
            Ok(()) => Ok(row),
            Err(fail) => Err(self.connection.failed(&fail)),
        }
    }

    /// Makes the statement ready to run again. The values stay bound.
    pub fn reset(&mut self) {
        // SAFETY: the statement is open. An error that it returns was reported by `step`.
        unsafe { ffi::sqlite3_reset(self.statement) };
    }

    /// Binds values, runs the statement to its end, and makes it ready to run again.
    ///
    /// # Errors
    /// SQLite's.
    pub fn run(&mut self, values: &[Value<'_>]) -> Result<(), SqliteError> {
        self.reset();
        self.bind_all(values)?;
        let done = loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        self.reset();
        done
    }

    /// The number of columns of a row.
    pub fn columns(&self) -> usize {
        // SAFETY: the statement is open.
        usize::try_from(unsafe { ffi::sqlite3_column_count(self.statement) }).unwrap_or(0)
    }

    /// A column of the row as an integer; the first is 0. Other types are converted as SQLite does;
    /// NULL and missing columns are 0.
    pub fn integer(&self, column: usize) -> i64 {
        // SAFETY: the statement is open; any number is allowed.
        unsafe { ffi::sqlite3_column_int64(self.statement, index(column)) }
    }

    /// A column as a floating-point number.
    pub fn real(&self, column: usize) -> f64 {
        // SAFETY: the statement is open; any number is allowed.
        unsafe { ffi::sqlite3_column_double(self.statement, index(column)) }
    }

    /// A column as text; NULL is empty. Invalid UTF-8 is replaced.
    pub fn text(&self, column: usize) -> Cow<'_, str> {
        // SAFETY: the statement is open. The text, of that many bytes, is valid until the next step
        // or reset, which need `&mut self`.
        unsafe {
            let text = ffi::sqlite3_column_text(self.statement, index(column));
            String::from_utf8_lossy(self.bytes(text, column))
        }
    }

    /// A column as bytes; NULL is empty.
    pub fn blob(&self, column: usize) -> &[u8] {
        // SAFETY: as for text.
        unsafe {
            let blob = ffi::sqlite3_column_blob(self.statement, index(column));
            self.bytes(blob.cast(), column)
        }
    }

    /// Whether a column is NULL.
    pub fn is_null(&self, column: usize) -> bool {
        // SAFETY: the statement is open; any number is allowed.
        unsafe { ffi::sqlite3_column_type(self.statement, index(column)) == ffi::SQLITE_NULL }
    }

    /// # Safety
    /// `start` must be the pointer that SQLite just returned for this column.
    unsafe fn bytes(&self, start: *const u8, column: usize) -> &[u8] {
        // SAFETY: the statement is open.
        let length = unsafe { ffi::sqlite3_column_bytes(self.statement, index(column)) };
        match usize::try_from(length) {
            // SAFETY: as above.
            Ok(n) if n > 0 && !start.is_null() => unsafe { std::slice::from_raw_parts(start, n) },
            _ => &[],
        }
    }
}

fn index(column: usize) -> c_int {
    c_int::try_from(column).unwrap_or(c_int::MAX)
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is open, and so is its connection. An error that it returns was
        // reported by `step`.
        unsafe { ffi::sqlite3_finalize(self.statement) };
        // Finalizing may have ended a transaction.
        let _ = self.connection.ctx.drain();
    }
}
