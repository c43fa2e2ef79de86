//! SQLite, unmodified, as a synchronous guest on the file layer: on a simulated
//! drive in virtual time, with power cuts at any moment.
//!
//! A guest is an ordinary, synchronous program. It runs in a coroutine with a stack of its
//! own; whenever SQLite reads, writes or syncs, it is parked until the file layer
//! has done so. Several guests on one [`Mount`] are several clients of one database
//! server.
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
//! 1. **One at a time.** Of all guests of a runtime one runs, and it is parked only in
//!    calls that wait. Everything that guests share (locks, the index of the log) is
//!    memory of the mount, and ends with it. A guest waits for one thing at a time: what it waits
//!    for cannot make it wait.
//! 2. **Write-through.** What SQLite wrote has been completed on the device before its
//!    next call that is not a write, and before a statement returns to the guest.
//!    Short writes that follow each other are one write below.
//! 3. **A cut** never unwinds SQLite: every call that waits, and every later one, fails with
//!    an I/O error; SQLite gives up by itself and closes its files.
//! 4. **Time and chance.** The guest's clock, its sleep and its random numbers (SQLite's
//!    own too) come from the runtime; each step of a statement and each call costs
//!    CPU time. No two guests draw the same numbers.
//! 5. **Promises.** SQLite is told what the device promises, and nothing else
//!    ([`Characteristics`]).
//!
//! 6. **Groups.** On a device with atomic groups SQLite writes a transaction that fits into one
//!    as one, without a journal, and it survives any crash when its commit returns. What does
//!    not fit or fails goes through a journal as if there were no groups. SQLite is told of
//!    groups only while that is so ([`Options::batch_atomic`]);
//!    [`Connection::batch_atomic`] says whether it is, and if not, why.
//!
//! # Which settings lose nothing
//!
//! On a device whose completed writes survive, in order or not, no transaction that was
//! acknowledged is lost in any mode, with `synchronous = OFF` too. On a volatile one it
//! takes `synchronous = FULL` with a journal that is truncated, persistent, or a log;
//! with `journal_mode = DELETE` it takes `EXTRA`, since `FULL` does not sync the
//! directory, and a deleted journal may come back (where SQLite is told of groups, `FULL` does
//! sync it).
//!
//! # SQLite has to be compiled for groups
//!
//! That is done by `.cargo/config.toml` of this workspace, for whatever is built in it. Who
//! depends on this crate from elsewhere sets
//! `LIBSQLITE3_FLAGS=-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE` in the environment, or in the `[env]` of
//! his own; without, there are no groups, and all else is as it is
//! ([`BatchOff::NotCompiled`]).

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
