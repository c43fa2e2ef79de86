//! Compiles SQLite with batch-atomic writes where libsqlite3-sys was built without them.
//!
//! In a checkout `.cargo/config.toml` has libsqlite3-sys do so, and nothing is left to do here. Cargo
//! does not read that file when it builds a package elsewhere (`cargo install`). Then the same source
//! is compiled a second time, with the same settings and this one more. The linker takes the first
//! definition of a name: this one, because this crate comes before libsqlite3-sys, on which it
//! depends. Where SQLite is that of the system and lacks the setting, `BatchOff::NotCompiled` says so.

#![allow(clippy::disallowed_methods, reason = "a build script is told by the environment")]

use std::path::Path;

const BATCH: &str = "SQLITE_ENABLE_BATCH_ATOMIC_WRITE";

/// What libsqlite3-sys compiles its own copy with: callers rely on each of these.
const SETTINGS: &[(&str, Option<&str>)] = &[
    ("SQLITE_CORE", None),
    ("SQLITE_DEFAULT_FOREIGN_KEYS", Some("1")),
    ("SQLITE_ENABLE_API_ARMOR", None),
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_DBSTAT_VTAB", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_JSON1", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", Some("1")),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_STAT4", None),
    ("SQLITE_SOUNDEX", None),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", None),
    ("HAVE_USLEEP", Some("1")),
    ("HAVE_ISNAN", None),
    ("HAVE_LOCALTIME_R", None),
    ("_POSIX_THREAD_SAFE_FUNCTIONS", None),
    (BATCH, None),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LIBSQLITE3_FLAGS");
    if std::env::var("LIBSQLITE3_FLAGS").is_ok_and(|flags| flags.contains(BATCH)) {
        return;
    }
    let Ok(folder) = std::env::var("DEP_SQLITE3_INCLUDE") else { return };
    let source = Path::new(&folder).join("sqlite3.c");
    if !source.exists() {
        // SQLite is the system's: it has what it has.
        return;
    }
    let mut build = cc::Build::new();
    for (name, value) in SETTINGS {
        build.define(name, *value);
    }
    build.file(source).warnings(false).compile("tantalum_sqlite3");
}
