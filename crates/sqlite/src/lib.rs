//! SQLite, unmodified, as a synchronous guest on the file layer: on a simulated
//! drive in virtual time, with power cuts at any moment.
//!
//! A guest is an ordinary, synchronous program. It runs in a coroutine with a stack of its own.
//! When SQLite reads, writes or syncs, the guest is parked until the file layer has done so.
//! Several guests on one [`Mount`] are like several clients of one database server.
//!
//! ```
//! use tantalum_device::{Ack, Caps, Payload, RamDevice, RamOptions};
//! use tantalum_files::{Files, FormatOptions, MountOptions};
//! use tantalum_rt::{Nanos, Runtime};
//! use tantalum_sqlite::{Mount, Options, SqliteError};
//!
//! let mut runtime = Runtime::virtual_time(1);
//! let rt = runtime.handle();
//! let sum = runtime.block_on(async move {
//!     let device = RamDevice::new(&rt, RamOptions::new(Caps {
//!         block_size: 4096,
//!         blocks: 4096,
//!         ack: Ack::PowerSafe,
//!         flush: true,
//!         ordered: true,
//!         atomic_unit: 4096,
//!         thin: false,
//!         atomic_group: None,
//!         payload: Payload::Bytes,
//!     }));
//!     Files::format(&rt, &device, &FormatOptions::default()).await.unwrap();
//!     let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
//!     let mount = Mount::new(&rt, files, Options::default());
//!     let client = mount.guest("client", |sql| {
//!         let db = sql.open("bank.db")?;
//!         db.busy_timeout(Nanos::from_secs(5));
//!         db.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (k INTEGER PRIMARY KEY, v)")?;
//!         let mut insert = db.prepare("INSERT INTO t VALUES (?, ?)")?;
//!         for k in 0..10 {
//!             insert.run(&[k.into(), "a value".into()])?;
//!         }
//!         db.query_integer("SELECT sum(k) FROM t", &[])
//!     });
//!     let sum: Result<i64, SqliteError> = client.await;
//!     sum
//! });
//! assert_eq!(sum.unwrap(), Ok(45));
//! ```
//!
//! # Invariants
//!
//! 1. **One at a time.** Only one guest of a runtime runs at a time, and it is parked only in calls
//!    that wait. The state that guests share (locks, the index of the log) is memory of the mount,
//!    and ends with it. A guest waits for one future at a time: that future cannot make the guest
//!    wait.
//! 2. **Write-through.** The writes of SQLite have completed on the device before its next call
//!    that is not a write, and before a statement returns to the guest. Adjacent short writes
//!    become one write of the file layer.
//! 3. **A cut** never unwinds SQLite: the waiting call and all later calls fail with an I/O error.
//!    SQLite then ends its work and closes its files.
//! 4. **Time and chance.** The guest's clock, its sleep and its random numbers (including SQLite's
//!    own) come from the runtime. Each step of a statement and each call costs CPU time. No two
//!    guests draw the same numbers.
//! 5. **Promises.** SQLite gets exactly the promises of the device ([`Characteristics`]).
//!
//! 6. **Groups.** On a device with atomic groups, SQLite writes a transaction that fits into a
//!    group as one group, without a journal; it survives any crash when its commit returns. A
//!    transaction that does not fit, or whose group fails, goes through a journal as without
//!    groups. SQLite uses groups only while this holds ([`Options::batch_atomic`]);
//!    [`Connection::batch_atomic`] says whether it does, and if not, why.
//!
//! # Which settings lose nothing
//!
//! On a device whose completed writes survive, in order or not, no acknowledged transaction is lost
//! in any mode, even with `synchronous = OFF`. On a volatile device, `synchronous = FULL` suffices
//! with a truncated or persistent journal, or with a write-ahead log. With `journal_mode = DELETE`,
//! `EXTRA` is needed: `FULL` does not sync the directory, so a deleted journal may come back (with
//! groups, `FULL` does sync it).
//!
//! # SQLite has to be compiled for groups
//!
//! The build script of this crate sees to it. In this workspace `.cargo/config.toml` has
//! libsqlite3-sys compile SQLite for groups. Elsewhere, as in `cargo install`, this crate compiles
//! SQLite a second time, for groups. `LIBSQLITE3_FLAGS=-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE` in the
//! environment, or in the `[env]` of a workspace, saves that. Where SQLite is that of the system and
//! lacks the setting there are no groups ([`BatchOff::NotCompiled`]); nothing else changes.

mod batch;
mod connection;
mod context;
mod error;
mod group;
mod guest;
mod host;
mod io;
mod lent;
mod lock;
mod mount;
mod setup;
mod statement;
mod vfs;

pub use batch::{BatchAtomic, BatchOff, JournalWhen};
pub use connection::Connection;
pub use error::{Gone, SqliteError};
pub use guest::{Guest, Sqlite};
pub use mount::{Characteristics, Mount, Options, Temporaries};
pub use statement::{Statement, Value};
