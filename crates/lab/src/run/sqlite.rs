//! The database under test: SQLite on the file layer of a drive, as the workloads
//! want it.
//!
//! # Invariants
//!
//! 1. Each guest has its own connection with the row's settings, and it is closed when
//!    the guest ends.
//! 2. Loading and running go the same way, with the same settings.
//! 3. SQLite is told of atomic groups only where the row asks for them; a row that does, where
//!    they are not in force, fails and says why.

use crate::file::experiment::{Journal, Synchronous};
use rustc_hash::FxHashMap;
use tantalum_device::BlockDevice;
use tantalum_files::{Files, FilesError, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Join, Nanos, Rt};
use tantalum_sqlite::{Connection, Mount, Options, Sqlite, SqliteError, Statement};
use tantalum_workload::sql::{self, Row, Sql, SqlError, SqlErrorKind};

/// The name of the database file.
const DATABASE: &str = "bench.db";

/// How long a statement waits for other connections.
const BUSY_TIMEOUT: Nanos = Nanos::from_secs(60);

/// SQLite's code for a setting that does not go (`SQLITE_MISUSE`).
const NOT_SUPPORTED: i32 = 21;

/// The database's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes in a page.
    pub page_bytes: u32,
    /// Pages in each connection's cache.
    pub cache_pages: u32,
    /// SQLite's journal mode.
    pub journal: Journal,
    /// SQLite's `synchronous`.
    pub synchronous: Synchronous,
}

impl Settings {
    fn apply(&self, connection: &Connection<'_>) -> Result<(), SqliteError> {
        let Settings { page_bytes, cache_pages, journal, synchronous } = self;
        connection.busy_timeout(BUSY_TIMEOUT);
        connection.execute(&format!(
            "PRAGMA page_size = {page_bytes}; PRAGMA cache_size = {cache_pages}; \
             PRAGMA journal_mode = {}; PRAGMA synchronous = {synchronous}",
            journal.mode()
        ))?;
        if *journal == Journal::BatchAtomic {
            let off = connection.batch_atomic()?.off;
            if !off.is_empty() {
                let why: Vec<String> = off.iter().map(ToString::to_string).collect();
                let message = format!("no transaction can be an atomic group: {}", why.join("; "));
                return Err(SqliteError { code: NOT_SUPPORTED, message });
            }
        }
        Ok(())
    }
}

/// Mounted files with room for clients of one database.
pub struct Engine<D> {
    rt: Rt,
    files: Files<D>,
    mount: Mount<D>,
    settings: Settings,
}

impl<D: BlockDevice + 'static> Engine<D> {
    /// An empty file layer on a device, whatever was there.
    ///
    /// # Errors
    /// Those of the file layer.
    pub async fn format(rt: &Rt, device: D, settings: &Settings) -> Result<Self, FilesError> {
        Files::format(rt, &device, &FormatOptions::default()).await?;
        Engine::mount(rt, device, settings).await
    }

    /// The files that are on a device.
    ///
    /// # Errors
    /// Those of the file layer.
    pub async fn mount(rt: &Rt, device: D, settings: &Settings) -> Result<Self, FilesError> {
        let files = Files::mount(rt, device, &MountOptions::default()).await?;
        let batch_atomic = settings.journal == Journal::BatchAtomic;
        let mount = Mount::new(rt, files.clone(), Options { batch_atomic, ..Options::default() });
        Ok(Engine { rt: rt.clone(), files, mount, settings: settings.clone() })
    }

    /// Spawns a guest with a connection of its own.
    ///
    /// # Errors
    /// (of the result) SQLite's, if the database cannot be opened.
    pub fn guest<T: 'static>(
        &self,
        name: String,
        body: impl FnOnce(&mut dyn Sql) -> T + 'static,
    ) -> Join<Result<T, SqlError>> {
        let settings = self.settings.clone();
        let guest = self.mount.guest(&name, move |sqlite: &Sqlite| {
            let opening = |e| error(e, "opening the database");
            let connection = sqlite.open(DATABASE).map_err(opening)?;
            settings.apply(&connection).map_err(opening)?;
            let mut prepared = Prepared { connection: &connection, cache: FxHashMap::default() };
            Ok(body(&mut prepared))
        });
        self.rt.spawn(name, guest)
    }

    /// The bytes of the database, which nobody may have open.
    ///
    /// # Errors
    /// Those of the file layer.
    pub async fn save(&self) -> Result<Vec<u8>, FilesError> {
        let file = self.files.open(DATABASE.as_bytes())?;
        let mut image = vec![0; file.size() as usize];
        let length = file.read(0, &mut image).await?;
        image.truncate(length);
        Ok(image)
    }

    /// Puts a saved database on a device that has none.
    ///
    /// # Errors
    /// Those of the file layer.
    pub async fn restore(&self, image: &[u8]) -> Result<(), FilesError> {
        let file = self.files.create(DATABASE.as_bytes(), Promise::Completed).await?;
        file.write(0, image).await?;
        file.sync().await
    }
}

/// A connection that keeps its statements prepared.
struct Prepared<'c> {
    connection: &'c Connection<'c>,
    cache: FxHashMap<&'static str, Statement<'c>>,
}

impl<'c> Prepared<'c> {
    fn statement(&mut self, text: &'static str) -> Result<&mut Statement<'c>, SqliteError> {
        use std::collections::hash_map::Entry;
        match self.cache.entry(text) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(room) => Ok(room.insert(self.connection.prepare(text)?)),
        }
    }
}

impl Sql for Prepared<'_> {
    fn execute(
        &mut self,
        statement: &'static str,
        values: &[sql::Value<'_>],
    ) -> Result<u64, SqlError> {
        let told = |e| error(e, statement);
        let connection = self.connection;
        let prepared = self.statement(statement).map_err(told)?;
        bind(prepared, values).map_err(told)?;
        prepared.run(&[]).map_err(told)?;
        Ok(u64::try_from(connection.changes()).unwrap_or(0))
    }

    fn query(
        &mut self,
        statement: &'static str,
        values: &[sql::Value<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<u64, SqlError> {
        let told = |e| error(e, statement);
        let prepared = self.statement(statement).map_err(told)?;
        bind(prepared, values).map_err(told)?;
        let mut rows = 0;
        let done = loop {
            match prepared.step() {
                Ok(true) => {
                    rows += 1;
                    each(&Columns(prepared));
                }
                Ok(false) => break Ok(rows),
                Err(e) => break Err(told(e)),
            }
        };
        // A statement that is not reset would keep its lock.
        prepared.reset();
        done
    }
}

fn bind(statement: &mut Statement<'_>, values: &[sql::Value<'_>]) -> Result<(), SqliteError> {
    for (index, value) in (1..).zip(values) {
        match *value {
            sql::Value::Int(v) => statement.bind(index, v)?,
            sql::Value::Text(v) => statement.bind(index, v)?,
            sql::Value::Blob(v) => statement.bind(index, v)?,
        }
    }
    Ok(())
}

struct Columns<'s, 'c>(&'s Statement<'c>);

impl Row for Columns<'_, '_> {
    fn int(&self, column: usize) -> i64 {
        self.0.integer(column)
    }

    fn bytes(&self, column: usize) -> &[u8] {
        self.0.blob(column)
    }
}

fn error(e: SqliteError, doing: &str) -> SqlError {
    let kind = match &e {
        e if e.is_busy() => SqlErrorKind::Busy,
        e if e.is_io() => SqlErrorKind::Io,
        e if e.is_corrupt() => SqlErrorKind::Corrupt,
        e if e.is_full() => SqlErrorKind::Full,
        _ => SqlErrorKind::Other,
    };
    SqlError { kind, message: format!("{e} ({doing})") }
}
