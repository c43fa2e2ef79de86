//! Whether transactions are written as atomic groups, and if not, why.
//!
//! 1. Every reason is a condition in SQLite's code; the tests check each by counting commands of a
//!    device.
//! 2. Asking writes nothing and changes no setting.

use crate::connection::Connection;
use crate::error::SqliteError;
use crate::io::{self, OpenFile};
use libsqlite3_sys as ffi;
use std::ffi::c_void;
use std::fmt;
use std::ptr::null_mut;
use tantalum_device::GroupLimit;

/// Whether the transactions of an open database are written as one atomic group each, without
/// a rollback journal. See [`Connection::batch_atomic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAtomic {
    /// All reasons why no transaction is; empty if groups are on.
    pub off: Vec<BatchOff>,
    /// Which transactions still go through a journal when groups are on.
    pub journal_when: Vec<JournalWhen>,
    /// How many transactions of this connection were committed as groups.
    pub committed: u64,
}

impl BatchAtomic {
    /// Whether a transaction that fits is written as one group.
    pub fn is_in_force(&self) -> bool {
        self.off.is_empty()
    }
}

/// Why no transaction is written as an atomic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOff {
    /// SQLite was compiled without `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`.
    NotCompiled,
    /// The device cannot promise groups: it takes none, or its completed writes do not survive and
    /// its flushes do nothing.
    Device,
    /// The mount has groups switched off ([`Options::batch_atomic`](crate::Options::batch_atomic),
    /// or [`Characteristics::Plain`](crate::Characteristics::Plain)).
    Mount,
    /// The database is in memory, or temporary.
    NotAFile,
    /// The journal mode is none of DELETE, TRUNCATE, PERSIST, or MEMORY.
    JournalMode(String),
    /// With `synchronous = OFF` SQLite does not write groups (this file system then does not offer
    /// them, so SQLite writes a journal).
    SynchronousOff,
    /// The connection holds the database exclusively (`locking_mode = EXCLUSIVE`) and has a journal
    /// open, which it uses for every further transaction.
    JournalStaysOpen,
}

/// Which transactions go through a journal although groups are on. They write and sync as without
/// groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalWhen {
    /// The first one of an empty database.
    Empty,
    /// Those that change more pages than this, or in more pieces of the device than the largest
    /// group has.
    LargerThanGroup {
        /// Pages of the database in the largest group.
        pages: u64,
        /// The limit of the device.
        limit: GroupLimit,
    },
    /// Those that change more pages than the cache holds: it spills them before the commit.
    LargerThanCache {
        /// Pages in the cache.
        pages: u64,
    },
    /// Those that also change one of these attached databases.
    Attached(Vec<String>),
    /// None: with `journal_mode = MEMORY`, transactions that need a journal are written page by
    /// page, and a power loss meanwhile damages the database.
    Unprotected,
    /// All, after one of the other cases has opened a journal: `locking_mode = EXCLUSIVE` keeps it
    /// open.
    ExclusiveOnce,
}

impl fmt::Display for BatchOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchOff::NotCompiled => f.write_str(
                "SQLite was compiled without it: set LIBSQLITE3_FLAGS=-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE and build anew",
            ),
            BatchOff::Device => f.write_str("the device cannot promise atomic groups"),
            BatchOff::Mount => f.write_str("the mount was told not to use atomic groups"),
            BatchOff::NotAFile => f.write_str("the database is in memory or temporary"),
            BatchOff::JournalMode(mode) => write!(
                f,
                "journal_mode is {mode}: it takes DELETE, TRUNCATE or PERSIST"
            ),
            BatchOff::SynchronousOff => {
                f.write_str("synchronous is OFF: it takes NORMAL, FULL or EXTRA")
            }
            BatchOff::JournalStaysOpen => f.write_str(
                "a journal is open and stays so: set locking_mode = NORMAL, and read once",
            ),
        }
    }
}

impl fmt::Display for JournalWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalWhen::Empty => f.write_str("the first transaction of an empty database"),
            JournalWhen::LargerThanGroup { pages, limit } => write!(
                f,
                "transactions of more than {pages} pages, or in more than {} pieces on the device",
                limit.extents
            ),
            JournalWhen::LargerThanCache { pages } => {
                write!(f, "transactions of more than {pages} pages, which the cache spills")
            }
            JournalWhen::Attached(names) => {
                write!(f, "transactions that also change {}", names.join(", "))
            }
            JournalWhen::Unprotected => f.write_str(
                "none: with journal_mode MEMORY those that take one are not protected at all",
            ),
            JournalWhen::ExclusiveOnce => {
                f.write_str("all after the first of the others, while locking_mode is EXCLUSIVE")
            }
        }
    }
}

impl Connection<'_> {
    /// Whether this connection writes each transaction to the main database as one atomic group,
    /// and if not, every reason; SQLite itself does not report this. The answer holds until
    /// settings, attached databases or open journals change.
    ///
    /// # Errors
    /// SQLite's, if the settings cannot be read (for example of a locked database).
    pub fn batch_atomic(&self) -> Result<BatchAtomic, SqliteError> {
        let mut off = Vec::new();
        // SAFETY: a string that ends with NUL.
        let compiled = unsafe {
            ffi::sqlite3_compileoption_used(c"SQLITE_ENABLE_BATCH_ATOMIC_WRITE".as_ptr())
        };
        if compiled == 0 {
            off.push(BatchOff::NotCompiled);
        }
        let groups = &self.ctx.common.groups;
        if let Err(why) = groups {
            off.push(why.clone());
        }
        let is_file = self.main_file(|file| file.database.is_some()).unwrap_or(false);
        if !is_file {
            off.push(BatchOff::NotAFile);
        }
        let mut journal_when = Vec::new();
        let mode = self.query_text("PRAGMA main.journal_mode", &[])?;
        if mode == "memory" {
            journal_when.push(JournalWhen::Unprotected);
        }
        if !["delete", "truncate", "persist", "memory"].contains(&mode.as_str()) {
            off.push(BatchOff::JournalMode(mode));
        }
        if self.query_integer("PRAGMA main.synchronous", &[])? == 0 {
            off.push(BatchOff::SynchronousOff);
        }
        let exclusive = self.query_text("PRAGMA main.locking_mode", &[])? == "exclusive";
        if exclusive && self.has_journal_open() {
            off.push(BatchOff::JournalStaysOpen);
        }
        if self.query_integer("PRAGMA main.page_count", &[])? == 0 {
            journal_when.push(JournalWhen::Empty);
        }
        let page = self.query_integer("PRAGMA main.page_size", &[])?.max(1) as u64;
        let block = self.ctx.common.sector.max(1) as u64;
        let cache = self.query_integer("PRAGMA main.cache_size", &[])?;
        // A negative size is in KiB.
        let cache = if cache < 0 { cache.unsigned_abs() * 1024 / page } else { cache as u64 };
        if let Ok(limit) = *groups {
            // A page that is smaller than a block takes a whole block.
            let pages = limit.bytes / page.max(block);
            journal_when.push(JournalWhen::LargerThanGroup { pages, limit });
        }
        if self.query_integer("PRAGMA cache_spill", &[])? != 0 {
            journal_when.push(JournalWhen::LargerThanCache { pages: cache });
        }
        let attached = self.attached()?;
        if !attached.is_empty() {
            journal_when.push(JournalWhen::Attached(attached));
        }
        if exclusive {
            journal_when.push(JournalWhen::ExclusiveOnce);
        }
        let committed = self.main_file(|file| file.group.committed.get()).unwrap_or(0);
        Ok(BatchAtomic { off, journal_when, committed })
    }

    /// The names of the attached databases that are files.
    fn attached(&self) -> Result<Vec<String>, SqliteError> {
        let mut names = Vec::new();
        let mut list = self.prepare("PRAGMA database_list")?;
        while list.step()? {
            let (name, file) = (list.text(1), list.text(2));
            if name != "main" && name != "temp" && !file.is_empty() {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn main_file<T>(&self, look: impl FnOnce(&OpenFile) -> T) -> Option<T> {
        let file = self.pointer(ffi::SQLITE_FCNTL_FILE_POINTER);
        // SAFETY: a file with our methods was made by our `open`; SQLite closes it with the
        // connection.
        unsafe { io::ours(file).map(look) }
    }

    /// Whether SQLite has the file of a rollback journal open (a journal in memory is not a file of
    /// this file system).
    fn has_journal_open(&self) -> bool {
        let file = self.pointer(ffi::SQLITE_FCNTL_JOURNAL_POINTER);
        // SAFETY: as above.
        unsafe { io::ours(file).is_some() }
    }

    fn pointer(&self, which: i32) -> *mut ffi::sqlite3_file {
        let mut file: *mut ffi::sqlite3_file = null_mut();
        let out: *mut *mut ffi::sqlite3_file = &mut file;
        // SAFETY: the connection is open, the name ends with NUL, and there is room for a
        // pointer.
        unsafe {
            let main = c"main".as_ptr();
            ffi::sqlite3_file_control(self.db, main, which, out.cast::<c_void>());
        }
        file
    }
}
