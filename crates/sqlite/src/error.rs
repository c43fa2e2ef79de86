//! Errors of SQLite, and of calls below it.

use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_int};
use tantalum_files::FilesError;

/// An error of SQLite: its extended code and its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sqlite error {code}: {message}")]
pub struct SqliteError {
    /// The extended result code.
    pub code: i32,
    /// SQLite's message.
    pub message: String,
}

impl SqliteError {
    /// The primary result code: the lower eight bits.
    pub fn primary(&self) -> i32 {
        self.code & 0xff
    }

    /// Another connection holds a lock (`SQLITE_BUSY`), or this one does
    /// (`SQLITE_LOCKED`).
    pub fn is_busy(&self) -> bool {
        matches!(self.primary(), ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED)
    }

    /// The device failed, or has no power (`SQLITE_IOERR`).
    pub fn is_io(&self) -> bool {
        self.primary() == ffi::SQLITE_IOERR
    }

    /// There is no room (`SQLITE_FULL`).
    pub fn is_full(&self) -> bool {
        self.primary() == ffi::SQLITE_FULL
    }

    /// The file is not a valid database (`SQLITE_CORRUPT`, `SQLITE_NOTADB`).
    pub fn is_corrupt(&self) -> bool {
        matches!(self.primary(), ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB)
    }

    pub(crate) fn from_code(code: c_int) -> SqliteError {
        // SAFETY: the function takes any number and gives a static string.
        let text = unsafe { CStr::from_ptr(ffi::sqlite3_errstr(code)) };
        SqliteError { code, message: text.to_string_lossy().into_owned() }
    }

    pub(crate) fn misuse(message: &str) -> SqliteError {
        SqliteError { code: ffi::SQLITE_MISUSE, message: message.to_string() }
    }
}

/// The guest cannot wait: its power is gone, so no wait would ever end. (Or it waits already, and
/// the future that it waits for has called SQLite's C functions.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest was cut off: it has no runtime any more")]
pub struct Gone;

/// Why a call below SQLite failed.
#[derive(Debug)]
pub(crate) enum Fail {
    Gone,
    Files(FilesError),
    /// A result code of SQLite.
    Code(c_int),
}

impl From<Gone> for Fail {
    fn from(_: Gone) -> Fail {
        Fail::Gone
    }
}

impl From<FilesError> for Fail {
    fn from(e: FilesError) -> Fail {
        Fail::Files(e)
    }
}

impl Fail {
    /// The result code; `otherwise` is the code of the call for other failures.
    pub fn code(&self, otherwise: c_int) -> c_int {
        use tantalum_device::IoError;
        match self {
            Fail::Code(code) => *code,
            Fail::Files(FilesError::NoSpace(_) | FilesError::Io(IoError::NoSpace)) => {
                ffi::SQLITE_FULL
            }
            Fail::Files(FilesError::NotFound(_) | FilesError::BadName(_)) => ffi::SQLITE_CANTOPEN,
            _ => otherwise,
        }
    }
}
