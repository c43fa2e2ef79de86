//! Transactions as atomic groups: when SQLite writes groups, counted on the device, and compared
//! with what the connection reports.

use crate::common::caps;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Ack, Caps, CommandKind, Faults, GroupLimit, RamDevice, RamOptions, Stats};
use tantalum_files::{Files, FormatOptions, MountOptions};
use tantalum_rt::{Nanos, Runtime};
use tantalum_sqlite::{
    BatchOff, Characteristics, Connection, JournalWhen, Mount, Options, Sqlite, SqliteError,
};

const LIMIT: GroupLimit = GroupLimit { extents: 256, bytes: 1 << 20 };

type Device = Stats<Faults<RamDevice>>;

/// The state that guests of a test can inspect.
struct Bench {
    device: Device,
    files: Files<Device>,
}

#[derive(Debug, PartialEq, Eq)]
struct Cost {
    groups: u64,
    writes: u64,
    flushes: u64,
}

impl Bench {
    /// The commands of the device for a statement.
    fn cost(&self, db: &Connection<'_>, sql: &str) -> Result<Cost, SqliteError> {
        self.device.reset();
        db.execute(sql)?;
        let seen = self.device.snapshot();
        let of = |kind| seen.of(kind).commands;
        Ok(Cost {
            groups: of(CommandKind::Group),
            writes: of(CommandKind::Write),
            flushes: of(CommandKind::Flush),
        })
    }

    fn faults(&self) -> &Faults<RamDevice> {
        self.device.inner()
    }

    fn has(&self, name: &str) -> bool {
        self.files.exists(name.as_bytes())
    }
}

fn with<T: 'static>(
    caps: Caps,
    options: Options,
    main: impl FnOnce(&Sqlite, &Bench) -> Result<T, SqliteError> + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let run = async move {
        let mut ram = RamOptions::new(caps);
        ram.command = Nanos::from_micros(60);
        let device = Faults::new(&rt, RamDevice::new(&rt, ram), "faults");
        let device = Stats::new(&rt, device);
        Files::format(&rt, &device, &FormatOptions::default()).await.unwrap();
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        let bench = Bench { device, files: files.clone() };
        let mount = Mount::new(&rt, files, options);
        mount.guest("g", move |sql| main(sql, &bench)).await.unwrap()
    };
    runtime.block_on(run).unwrap()
}

fn grouping() -> Caps {
    Caps { atomic_group: Some(LIMIT), ..caps(Ack::Volatile, false, 512, 64) }
}

/// A guest on a device with groups, with a small table.
fn on<T: 'static>(
    setup: &'static str,
    main: impl FnOnce(&Sqlite, &Bench, &Connection<'_>) -> Result<T, SqliteError> + 'static,
) -> T {
    with(grouping(), Options::default(), move |sql, bench| {
        let db = open(sql, setup)?;
        main(sql, bench, &db)
    })
}

fn open<'g>(sql: &'g Sqlite, setup: &str) -> Result<Connection<'g>, SqliteError> {
    let db = sql.open("t.db")?;
    db.execute(setup)?;
    db.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v); CREATE INDEX IF NOT EXISTS i ON t (v)")?;
    // (The flush that the metadata need once has been done.)
    db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET v = v || 1")?;
    Ok(db)
}

const CHANGE: &str =
    "BEGIN; UPDATE t SET v = v || 'x' WHERE k = 1; INSERT INTO t (v) VALUES (7); COMMIT";

/// One atomic group, and no other command.
const GROUP: Cost = Cost { groups: 1, writes: 0, flushes: 0 };

fn is_journal(cost: &Cost) -> bool {
    cost.groups == 0 && cost.writes > 3
}

#[test]
fn sqlite_is_compiled_for_groups() {
    on("", |_, _, db| {
        let used = "SELECT sqlite_compileoption_used('ENABLE_BATCH_ATOMIC_WRITE')";
        assert_eq!(db.query_integer(used, &[])?, 1, "LIBSQLITE3_FLAGS of .cargo/config.toml");
        assert!(!db.batch_atomic()?.off.contains(&BatchOff::NotCompiled));
        Ok(())
    });
}

#[test]
fn a_transaction_that_fits_is_one_group_and_has_no_journal() {
    for page in ["PRAGMA page_size = 512", "PRAGMA page_size = 4096", "PRAGMA page_size = 65536"] {
        for sync in ["NORMAL", "FULL", "EXTRA"] {
            on(page, move |sql, bench, db| {
                db.execute(&format!("PRAGMA synchronous = {sync}"))?;
                let said = db.batch_atomic()?;
                assert!(said.is_in_force(), "{said:?}");
                assert_eq!(bench.cost(db, CHANGE)?, GROUP, "{page}, {sync}");
                assert_eq!(db.batch_atomic()?.committed, said.committed + 1);
                // The file may end with a page that is not written.
                db.execute(
                    "BEGIN; INSERT INTO t SELECT 100 + value, randomblob(900)
                            FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1
                            FROM n WHERE value < 90) SELECT value FROM n);
                            DELETE FROM t WHERE k > 120; COMMIT",
                )?;
                // Reads of another connection see the whole group.
                let other = sql.open("t.db")?;
                assert_eq!(other.query_integer("SELECT count(*) FROM t", &[])?, 23);
                assert_eq!(other.query_text("PRAGMA integrity_check", &[])?, "ok");
                assert!(!bench.has("t.db-journal"));
                Ok(())
            });
        }
    }
}

#[test]
fn a_rollback_leaves_nothing() {
    on("", |_, bench, db| {
        let before = db.query_text("SELECT group_concat(v) FROM t", &[])?;
        let cost = bench
            .cost(db, "BEGIN; UPDATE t SET v = 'gone'; INSERT INTO t (v) VALUES (9); ROLLBACK")?;
        assert_eq!(cost, Cost { groups: 0, writes: 0, flushes: 0 });
        assert_eq!(db.query_text("SELECT group_concat(v) FROM t", &[])?, before);
        // A statement that fails within a transaction undoes only its own part.
        let failing = "INSERT INTO t VALUES (50, 'new'), (1, 'twice')";
        db.execute("BEGIN; INSERT INTO t VALUES (40, 'kept')")?;
        assert!(db.execute(failing).is_err());
        assert_eq!(bench.cost(db, "COMMIT")?, GROUP);
        assert_eq!(db.query_integer("SELECT max(k) FROM t", &[])?, 40);
        assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
        assert!(!bench.has("t.db-journal"));
        Ok(())
    });
}

#[test]
fn a_group_that_fails_becomes_a_journal() {
    on("", |_, bench, db| {
        for _ in 0..3 {
            bench.faults().fail_nth(CommandKind::Group, 1);
            let cost = bench.cost(db, CHANGE)?;
            assert!(is_journal(&cost), "{cost:?}");
            // The journal and then its head, before the database is changed; the database; the
            // deletion.
            assert_eq!(cost.flushes, 4);
            assert!(!bench.has("t.db-journal"));
            assert_eq!(bench.cost(db, CHANGE)?, GROUP, "the next one is a group again");
        }
        assert_eq!(db.query_integer("SELECT count(*) FROM t", &[])?, 8);
        assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
        Ok(())
    });
}

#[test]
fn a_group_that_is_too_large_becomes_a_journal() {
    for limit in
        [GroupLimit { extents: 256, bytes: 12 << 10 }, GroupLimit { extents: 2, bytes: 1 << 20 }]
    {
        let caps = Caps { atomic_group: Some(limit), ..grouping() };
        with(caps, Options::default(), move |sql, bench| {
            let db = open(sql, "")?;
            db.execute(
                "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
                        INSERT INTO t SELECT i, randomblob(2000) FROM n",
            )?;
            let told = JournalWhen::LargerThanGroup { pages: limit.bytes / 4096, limit };
            let said = db.batch_atomic()?;
            assert!(said.is_in_force() && said.journal_when.contains(&told), "{said:?}");
            assert_eq!(bench.cost(&db, "PRAGMA user_version = 2")?, GROUP);
            let cost = bench.cost(&db, "UPDATE t SET v = randomblob(2000) WHERE k % 20 = 5")?;
            assert!(is_journal(&cost), "{cost:?}");
            assert_eq!(bench.cost(&db, "PRAGMA user_version = 3")?, GROUP);
            assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
            Ok(())
        });
    }
}

#[test]
fn no_room_fails_the_transaction_and_nothing_else() {
    let caps = Caps { blocks: 900, ..grouping() };
    with(caps, Options::default(), |sql, bench| {
        let db = open(sql, "PRAGMA cache_size = 2000")?;
        let mut rows = 2;
        let error = loop {
            match db.execute("INSERT INTO t (v) VALUES (randomblob(200000))") {
                Ok(()) => rows += 1,
                Err(e) => break e,
            }
        };
        assert!(error.is_full(), "{error}");
        assert_eq!(db.query_integer("SELECT count(*) FROM t", &[])?, rows);
        assert!(!bench.has("t.db-journal") && rows > 3);
        assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
        assert_eq!(bench.cost(&db, "UPDATE t SET k = -1 WHERE k = 1")?, GROUP);
        Ok(())
    });
}

#[test]
fn journal_modes() {
    for (mode, grouped) in [
        ("DELETE", true),
        ("TRUNCATE", true),
        ("PERSIST", true),
        ("MEMORY", true),
        ("WAL", false),
        ("OFF", false),
    ] {
        on("", move |_, bench, db| {
            db.execute(&format!("PRAGMA journal_mode = {mode}; UPDATE t SET v = 3"))?;
            let said = db.batch_atomic()?;
            let off = BatchOff::JournalMode(mode.to_lowercase());
            assert_eq!(said.off, if grouped { vec![] } else { vec![off] }, "{mode}");
            let cost = bench.cost(db, CHANGE)?;
            assert_eq!(cost == GROUP, grouped, "{mode}: {cost:?}");
            assert!(grouped || cost.groups == 0, "{mode}: {cost:?}");
            Ok(())
        });
    }
}

/// Without a journal file there is no fallback.
#[test]
fn a_group_that_fails_with_the_journal_in_memory() {
    on("PRAGMA journal_mode = MEMORY", |_, bench, db| {
        assert!(db.batch_atomic()?.journal_when.contains(&JournalWhen::Unprotected));
        bench.faults().fail_nth(CommandKind::Group, 1);
        let cost = bench.cost(db, CHANGE)?;
        assert!(cost.groups == 0 && (1..=3).contains(&cost.writes), "pages only: {cost:?}");
        Ok(())
    });
}

#[test]
fn synchronous_off_goes_back_to_the_journal() {
    for off in ["OFF", "0", "no", "FALSE", "7"] {
        on("", move |sql, bench, db| {
            db.execute(&format!("PRAGMA synchronous = {off}"))?;
            assert_eq!(db.batch_atomic()?.off, [BatchOff::SynchronousOff]);
            let cost = bench.cost(db, CHANGE)?;
            assert!(is_journal(&cost) && cost.flushes == 0, "{off}: {cost:?}");
            // `synchronous` is a setting of the connection.
            let other = sql.open("t.db")?;
            assert!(other.batch_atomic()?.is_in_force());
            assert_eq!(bench.cost(&other, CHANGE)?.groups, 1);
            // It cannot be changed in a transaction.
            db.execute("BEGIN IMMEDIATE")?;
            assert!(db.execute("PRAGMA synchronous = FULL").is_err());
            db.execute("UPDATE t SET v = 4")?;
            assert!(is_journal(&bench.cost(db, "COMMIT")?));
            db.execute("PRAGMA synchronous = FULL; UPDATE t SET v = 5")?;
            assert_eq!(bench.cost(db, CHANGE)?, GROUP);
            Ok(())
        });
    }
}

#[test]
fn attached_databases() {
    on("", |_, bench, db| {
        db.execute("ATTACH 'u.db' AS u; CREATE TABLE u.s (v); INSERT INTO u.s VALUES (1)")?;
        let said = db.batch_atomic()?;
        assert!(said.is_in_force());
        assert!(said.journal_when.contains(&JournalWhen::Attached(vec!["u".into()])), "{said:?}");
        assert_eq!(bench.cost(db, CHANGE)?, GROUP);
        assert_eq!(bench.cost(db, "UPDATE u.s SET v = 2")?.groups, 1);
        let cost = bench.cost(db, "BEGIN; UPDATE t SET v = 2; UPDATE u.s SET v = 3; COMMIT")?;
        assert!(is_journal(&cost), "{cost:?}");
        // A temporary table does not count as another database.
        db.execute("CREATE TEMP TABLE x (v)")?;
        assert_eq!(
            bench.cost(db, "BEGIN; INSERT INTO x VALUES (1); UPDATE t SET v = 8; COMMIT")?,
            GROUP
        );
        db.execute("DETACH u")?;
        let attached = |w: &JournalWhen| matches!(w, JournalWhen::Attached(_));
        assert!(!db.batch_atomic()?.journal_when.iter().any(attached));
        Ok(())
    });
}

#[test]
fn a_cache_that_spills() {
    on("", |_, bench, db| {
        let many = "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 90)
                    INSERT INTO t SELECT i, randomblob(3000) FROM n; DELETE FROM t WHERE k >= 10";
        db.execute("PRAGMA cache_size = 20")?;
        let spills = JournalWhen::LargerThanCache { pages: 20 };
        assert!(db.batch_atomic()?.journal_when.contains(&spills));
        let cost = bench.cost(db, many)?;
        assert!(is_journal(&cost), "{cost:?}");
        db.execute("PRAGMA cache_spill = OFF")?;
        assert!(!db.batch_atomic()?.journal_when.contains(&spills));
        let cost = bench.cost(db, many)?;
        assert!(cost.groups == 2, "two transactions: {cost:?}");
        Ok(())
    });
}

#[test]
fn exclusive_locking_keeps_a_journal_open() {
    on("PRAGMA locking_mode = EXCLUSIVE", |_, bench, db| {
        // The first transaction, of an empty database, had a journal.
        let said = db.batch_atomic()?;
        assert_eq!(said.off, [BatchOff::JournalStaysOpen]);
        assert!(said.journal_when.contains(&JournalWhen::ExclusiveOnce));
        let cost = bench.cost(db, CHANGE)?;
        assert!(cost.groups == 0 && cost.writes > 2, "{cost:?}");
        db.execute("PRAGMA locking_mode = NORMAL; SELECT * FROM t")?;
        assert!(db.batch_atomic()?.is_in_force());
        assert_eq!(bench.cost(db, CHANGE)?, GROUP);
        // No transaction opens a journal: groups stay on.
        db.execute("PRAGMA locking_mode = EXCLUSIVE; SELECT * FROM t")?;
        assert!(db.batch_atomic()?.is_in_force());
        assert_eq!((bench.cost(db, CHANGE)?, bench.cost(db, CHANGE)?), (GROUP, GROUP));
        // A transaction whose group fails opens one.
        bench.faults().fail_nth(CommandKind::Group, 1);
        assert!(is_journal(&bench.cost(db, CHANGE)?));
        assert_eq!(db.batch_atomic()?.off, [BatchOff::JournalStaysOpen]);
        assert_eq!(bench.cost(db, CHANGE)?.groups, 0);
        Ok(())
    });
}

#[test]
fn the_first_transaction_has_a_journal() {
    with(grouping(), Options::default(), |sql, bench| {
        let db = sql.open("t.db")?;
        let said = db.batch_atomic()?;
        assert!(said.is_in_force() && said.journal_when.contains(&JournalWhen::Empty));
        let cost = bench.cost(&db, "CREATE TABLE t (v)")?;
        assert_eq!(cost.groups, 0);
        assert!(!db.batch_atomic()?.journal_when.contains(&JournalWhen::Empty));
        assert_eq!(bench.cost(&db, "CREATE TABLE u (v)")?.groups, 1);
        Ok(())
    });
}

#[test]
fn devices_and_mounts_without() {
    let none = Caps { atomic_group: None, ..grouping() };
    let lax = Caps { flush: false, ..grouping() };
    let plain = Options { characteristics: Characteristics::Plain, ..Options::default() };
    let off = Options { batch_atomic: false, ..Options::default() };
    for (caps, options, why) in [
        (none, Options::default(), BatchOff::Device),
        (lax, Options::default(), BatchOff::Device),
        (grouping(), plain, BatchOff::Mount),
        (grouping(), off, BatchOff::Mount),
    ] {
        with(caps, options, |sql, bench| {
            let db = open(sql, "")?;
            assert_eq!(db.batch_atomic()?.off, [why]);
            let cost = bench.cost(&db, CHANGE)?;
            assert!(is_journal(&cost), "{cost:?}");
            Ok(())
        });
    }
}

#[test]
fn databases_that_are_no_files() {
    with(grouping(), Options::default(), |sql, _| {
        for name in [":memory:", ""] {
            let db = sql.open(name)?;
            assert!(db.batch_atomic()?.off.contains(&BatchOff::NotAFile), "\"{name}\"");
        }
        Ok(())
    });
}

/// All reasons are reported.
#[test]
fn all_reasons_are_told() {
    let caps = Caps { atomic_group: None, ..grouping() };
    with(caps, Options::default(), |sql, _| {
        let db = open(sql, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")?;
        let want =
            [BatchOff::Device, BatchOff::JournalMode("wal".into()), BatchOff::SynchronousOff];
        let said = db.batch_atomic()?;
        assert_eq!(said.off, want);
        assert!(said.off.iter().all(|why| !why.to_string().is_empty()));
        Ok(())
    });
}

/// A commit fails because the device fails: nothing of it is there, and the connection works again
/// once the device does.
#[test]
fn several_clients() {
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    let run = async move {
        let device = Stats::new(&rt, crate::common::device(&rt, grouping()));
        Files::format(&rt, &device, &FormatOptions::default()).await.unwrap();
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        let mount = Mount::new(&rt, files, Options::default());
        mount.guest("setup", |sql| open(sql, "").map(drop)).await.unwrap();
        let done = Rc::new(Cell::new(0));
        let clients: Vec<_> = (0..4)
            .map(|i| {
                let done = done.clone();
                let guest = mount.guest(&format!("client {i}"), move |sql| {
                    let db = sql.open("t.db")?;
                    db.busy_timeout(Nanos::from_secs(60));
                    for n in 0..25 {
                        let value = (i * 100 + n).into();
                        db.prepare("INSERT INTO t (v) VALUES (?)")?.run(&[value])?;
                        done.set(done.get() + 1);
                    }
                    Ok::<_, SqliteError>(db.batch_atomic()?.committed)
                });
                rt.spawn("client", guest)
            })
            .collect();
        for client in clients {
            assert_eq!(client.await.unwrap(), Ok(25), "each as a group");
        }
        let rows = mount.guest("check", |sql| {
            let db = sql.open("t.db")?;
            assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
            db.query_integer("SELECT count(*) FROM t", &[])
        });
        assert_eq!((rows.await, done.get()), (Ok(102), 100));
    };
    runtime.block_on(run).unwrap();
}
