//! A small, safe wrapper around a connection.

use crate::context::Ctx;
use crate::error::{Fail, SqliteError};
use crate::statement::{Statement, Value};
use crate::vfs;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;
use tantalum_rt::Nanos;

/// An open database. It belongs to its guest, and closes when it drops.
///
/// See [the crate](crate) for an example.
pub struct Connection<'g> {
    pub(crate) db: *mut ffi::sqlite3,
    pub(crate) ctx: &'g Ctx,
    not_send: PhantomData<*mut ()>,
}

impl<'g> Connection<'g> {
    pub(crate) fn open(ctx: &'g Ctx, name: &str) -> Result<Connection<'g>, SqliteError> {
        let name = CString::new(name).map_err(|_| SqliteError::misuse("a name with a NUL"))?;
        let mut db = null_mut();
        // Only one guest uses a connection, so it needs no mutex.
        let flags = ffi::SQLITE_OPEN_READWRITE
            | ffi::SQLITE_OPEN_CREATE
            | ffi::SQLITE_OPEN_NOMUTEX
            | ffi::SQLITE_OPEN_EXRESCODE;
        // SAFETY: strings that end with NUL, and room for the handle.
        let code =
            unsafe { ffi::sqlite3_open_v2(name.as_ptr(), &mut db, flags, vfs::NAME.as_ptr()) };
        let connection = Connection { db, ctx, not_send: PhantomData };
        connection.check(code)?;
        Ok(connection)
    }

    /// Runs one or more statements, without their results.
    ///
    /// # Errors
    /// That of the first statement that fails.
    pub fn execute(&self, sql: &str) -> Result<(), SqliteError> {
        let mut rest = sql;
        while let (Some(mut statement), tail) = Statement::prepare(self, rest)? {
            while statement.step()? {}
            rest = tail;
        }
        Ok(())
    }

    /// Prepares the first statement in `sql`.
    ///
    /// # Errors
    /// SQLite's, and if there is no statement.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>, SqliteError> {
        let (statement, _) = Statement::prepare(self, sql)?;
        statement.ok_or_else(|| SqliteError::misuse("there is no statement in the text"))
    }

    /// The integer in the first row of a query; 0 if there is no row.
    ///
    /// # Errors
    /// SQLite's.
    pub fn query_integer(&self, sql: &str, values: &[Value<'_>]) -> Result<i64, SqliteError> {
        let mut statement = self.prepare(sql)?;
        statement.bind_all(values)?;
        Ok(if statement.step()? { statement.integer(0) } else { 0 })
    }

    /// The text in the first row of a query; empty if there is no row.
    ///
    /// # Errors
    /// SQLite's.
    pub fn query_text(&self, sql: &str, values: &[Value<'_>]) -> Result<String, SqliteError> {
        let mut statement = self.prepare(sql)?;
        statement.bind_all(values)?;
        Ok(if statement.step()? { statement.text(0).into_owned() } else { String::new() })
    }

    /// How long a statement waits for the locks of others before it fails with
    /// [`SqliteError::is_busy`]. Zero, as in the beginning: not at all.
    pub fn busy_timeout(&self, span: Nanos) {
        let ms = c_int::try_from(span.0.div_ceil(1_000_000)).unwrap_or(c_int::MAX);
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_busy_timeout(self.db, ms) };
    }

    /// The row number that the last insertion gave.
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_last_insert_rowid(self.db) }
    }

    /// The rows that the last statement changed.
    pub fn changes(&self) -> i64 {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_changes64(self.db) }
    }

    /// Whether no transaction is open.
    pub fn is_autocommit(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_get_autocommit(self.db) != 0 }
    }

    /// Closes it, which in the log mode writes the log back into the database. Dropping it
    /// does the same.
    pub fn close(self) {}

    pub(crate) fn check(&self, code: c_int) -> Result<(), SqliteError> {
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        if self.db.is_null() {
            return Err(SqliteError::from_code(code));
        }
        // SAFETY: the connection is open; the message is a string that ends with NUL
        // and stays until the next call.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.db)) };
        Err(SqliteError { code, message: message.to_string_lossy().into_owned() })
    }

    pub(crate) fn failed(&self, fail: &Fail) -> SqliteError {
        SqliteError::from_code(fail.code(ffi::SQLITE_IOERR))
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // SAFETY: the statements borrow the connection, so all are gone.
        unsafe { ffi::sqlite3_close(self.db) };
    }
}
