//! The database: its server, which `scripts/database` starts and stops, and how to connect to it.

use crate::program::{Interrupt, ProgramError, command, run};
use crate::redo::mark_end;
use crate::store::{Journal, Target};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The script that starts and stops servers. It is embedded in the program, so that the two fit
/// wherever the program runs.
const SCRIPT: &str = include_str!("database");

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The distribution's PostgreSQL.
    Postgres,
    /// The distribution's MariaDB.
    Mariadb,
    /// SQLite with a rollback journal.
    Sqlite,
    /// SQLite with a write-ahead log.
    SqliteWal,
}

impl Kind {
    /// Its name in the script and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::Mariadb => "mariadb",
            Kind::Sqlite | Kind::SqliteWal => "sqlite",
        }
    }

    /// Whether it has no server. Then its journal is always on.
    pub fn is_library(self) -> bool {
        matches!(self, Kind::Sqlite | Kind::SqliteWal)
    }

    /// Bytes of a page.
    pub fn page_bytes(self) -> u32 {
        match self {
            Kind::Postgres => 8192,
            Kind::Mariadb => 16384,
            Kind::Sqlite | Kind::SqliteWal => 4096,
        }
    }

    /// Settings that make the server write pages all the time and keep little of its log, so that a
    /// cut finds as much as possible under way.
    fn busy(self) -> &'static [&'static str] {
        match self {
            Kind::Postgres => &[
                "max_wal_size=48MB",
                "min_wal_size=32MB",
                "checkpoint_timeout=30s",
                "checkpoint_completion_target=0.5",
                "bgwriter_delay=10ms",
                "bgwriter_lru_maxpages=1000",
                "bgwriter_flush_after=64kB",
                "backend_flush_after=64kB",
                "checkpoint_flush_after=64kB",
            ],
            Kind::Mariadb => &[
                "innodb-log-file-size=8M",
                "innodb-max-dirty-pages-pct=0",
                "innodb-io-capacity=2000",
                "innodb-fast-shutdown=1",
            ],
            Kind::Sqlite | Kind::SqliteWal => &[],
        }
    }

    /// The size of its page cache: less than the tables take.
    fn memory(self) -> &'static str {
        match self {
            Kind::Postgres => "4MB",
            _ => "8MB",
        }
    }
}

/// A database in a directory. Its processes are killed on drop.
pub struct Server {
    kind: Kind,
    directory: PathBuf,
    run: PathBuf,
    /// Where its write-ahead log is, if it is not among the data.
    wal: Option<PathBuf>,
    protection: bool,
    plain: bool,
    interrupt: Interrupt,
}

/// How long a server may take to start, with its recovery, in seconds.
const START: u64 = 180;

impl Server {
    /// A database with its data in `directory`, and its sockets and logs in `run`.
    pub fn new(
        kind: Kind,
        directory: &Path,
        run: &Path,
        protection: bool,
        interrupt: &Interrupt,
    ) -> Server {
        Server {
            kind,
            directory: directory.to_path_buf(),
            run: run.to_path_buf(),
            wal: None,
            protection,
            plain: false,
            interrupt: interrupt.clone(),
        }
    }

    /// Allows a directory on a plain disk. Otherwise the server starts only where a drive is
    /// mounted.
    #[must_use]
    pub fn on_plain_disk(mut self, plain: bool) -> Server {
        self.plain = plain;
        self
    }

    /// Puts the write-ahead log of a new database below `wal`, for instance where a log volume is
    /// mounted. SQLite, which has no server, keeps its journal beside its file.
    #[must_use]
    pub fn with_wal(mut self, wal: &Path) -> Server {
        self.wal = Some(wal.to_path_buf());
        self
    }

    /// How to connect to it.
    pub fn target(&self) -> Target {
        let own = self.run.join(self.kind.name());
        let sqlite =
            |journal| Target::Sqlite { file: self.directory.join("torture.sqlite"), journal };
        match self.kind {
            Kind::Postgres => Target::Postgres(own),
            Kind::Mariadb => Target::Mariadb(own.join("mariadb.sock")),
            Kind::Sqlite => sqlite(Journal::Delete),
            Kind::SqliteWal => sqlite(Journal::Wal),
        }
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.join(self.kind.name())
    }

    /// InnoDB's log as it is now, before recovery reads it. A copy is put beside the server's own
    /// log. `None` if there is no log, or it cannot be read. It is read with direct I/O, past the
    /// page cache.
    #[allow(clippy::disallowed_methods, reason = "the edge: reads what a blow has left")]
    pub fn redo(&self) -> Option<Vec<u8>> {
        if self.kind != Kind::Mariadb {
            return None;
        }
        let from = self.redo_file();
        let to = self.run.join(self.kind.name()).join("ib_logfile0.before-recovery");
        let word = |name: &str, path: &Path| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        let mut copy = command("dd", ["bs=1M", "iflag=direct", "oflag=nofollow", "status=none"]);
        copy.args([word("if=", &from), word("of=", &to)]);
        run("copying its log", &mut copy, Duration::from_secs(START), &self.interrupt).ok()?;
        std::fs::read(to).ok()
    }

    /// The file of InnoDB's log.
    fn redo_file(&self) -> PathBuf {
        let place = self.wal.as_ref().map(|wal| wal.join("mariadb-redo"));
        place.unwrap_or_else(|| self.data()).join("ib_logfile0")
    }

    /// Copies a MariaDB that does not run, with its log, to the new directory `to` on a plain disk.
    /// What the returned server writes for its operators goes beside it, to `to` with the extension
    /// `run`.
    ///
    /// # Errors
    /// [`ProgramError`], if for instance there is not enough space. A part of the copy may be left.
    #[allow(clippy::disallowed_methods, reason = "the edge: copies a database")]
    pub fn copy(&self, to: &Path) -> Result<Server, ProgramError> {
        let start = |error| ProgramError::Start { program: "copying it".to_string(), error };
        std::fs::create_dir(to).map_err(start)?;
        // The server's account must be able to enter it.
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).map_err(start)?;
        let copy = Server {
            directory: to.to_path_buf(),
            run: to.with_extension("run"),
            wal: None,
            plain: true,
            interrupt: self.interrupt.clone(),
            ..*self
        };
        for (from, to) in [(self.data(), to.to_path_buf()), (self.redo_file(), copy.data())] {
            let mut words = command("cp", ["--archive", "--sparse=always"]);
            words.arg(from).arg(to);
            run("copying it", &mut words, Duration::from_secs(START), &self.interrupt)?;
        }
        Ok(copy)
    }

    /// Makes the log of a MariaDB that does not run end at this log sequence number.
    ///
    /// # Errors
    /// Of reading and writing the log, and [`ErrorKind::InvalidData`](std::io::ErrorKind) if no
    /// record group of it begins or ends there.
    #[allow(clippy::disallowed_methods, reason = "the edge: changes a copy of a log")]
    pub fn end_log_at(&self, lsn: u64) -> std::io::Result<()> {
        let file = self.redo_file();
        let mut log = std::fs::read(&file)?;
        if !mark_end(&mut log, lsn) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        std::fs::write(file, log)
    }

    /// The server's own log.
    pub fn log(&self) -> PathBuf {
        self.run.join(self.kind.name()).join("log")
    }

    /// Starts it, and waits until it has recovered and takes commands.
    pub fn start(&self) -> Result<(), ProgramError> {
        if self.kind.is_library() {
            return Ok(());
        }
        let seconds = START.to_string();
        let protection = if self.protection { "on" } else { "off" };
        let mut words = vec!["--protection", protection, "--memory", self.kind.memory()];
        words.extend(["--timeout", &seconds]);
        if self.plain {
            words.push("--here");
        }
        for setting in self.kind.busy() {
            words.extend(["--set", setting]);
        }
        let wal = self.wal.as_ref().map(|wal| wal.as_os_str());
        let mut words: Vec<&OsStr> = words.into_iter().map(OsStr::new).collect();
        words.extend(wal.iter().flat_map(|wal| [OsStr::new("--wal"), wal]));
        self.script("start", &words, &self.interrupt)
    }

    /// Ends it in good order.
    pub fn end(&self) -> Result<(), ProgramError> {
        match self.kind.is_library() {
            true => Ok(()),
            false => self.script("stop", &[], &self.interrupt),
        }
    }

    /// Kills all of its processes, as a power failure does.
    pub fn kill(&self) -> Result<(), ProgramError> {
        match self.kind.is_library() {
            true => Ok(()),
            // Also after an interrupt, since nothing is to be left behind.
            false => self.script("stop", &[OsStr::new("--now")], &Interrupt::default()),
        }
    }

    fn script(
        &self,
        verb: &str,
        words: &[&OsStr],
        interrupt: &Interrupt,
    ) -> Result<(), ProgramError> {
        let mut bash = command("bash", ["-c", SCRIPT, "database", self.kind.name(), verb]);
        bash.arg(&self.directory).arg("--run").arg(&self.run).args(words);
        let name = format!("{} {verb}", self.kind.name());
        run(&name, &mut bash, Duration::from_secs(START + 30), interrupt).map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A drop cannot report an error.
        let _ = self.kill();
    }
}
