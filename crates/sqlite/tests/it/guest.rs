//! An unmodified SQLite without cuts: modes, page sizes, several clients, errors.

use crate::common::{alone, beside_files, caps, device, format, mount};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{Ack, CommandKind, Faults, RamDevice};
use tantalum_files::{Files, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_sqlite::{Characteristics, Mount, Options, SqliteError, Temporaries};

#[test]
fn every_mode_and_page_size() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        for page in [512, 4096, 65536] {
            let done = alone(64, move |sql| {
                let setup = format!("PRAGMA page_size = {page}; PRAGMA journal_mode = {mode}");
                {
                    let db = sql.open("t.db")?;
                    db.execute(&setup)?;
                    db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")?;
                    let mut insert = db.prepare("INSERT INTO t VALUES (?, ?)")?;
                    for k in 0..300 {
                        insert.run(&[k.into(), "some text of a row".into()])?;
                    }
                    db.execute("BEGIN; UPDATE t SET v = 'changed' WHERE k % 3 = 0; COMMIT")?;
                    db.execute("BEGIN; DELETE FROM t; ROLLBACK")?;
                    db.execute("CREATE INDEX i ON t (v); VACUUM")?;
                }
                let db = sql.open("t.db")?;
                assert_eq!(db.query_integer("PRAGMA page_size", &[])?, page);
                let want = if mode == "WAL" { "wal" } else { "delete" };
                assert_eq!(db.query_text("PRAGMA journal_mode", &[])?, want);
                let query = "SELECT count(*) FROM t WHERE v = 'changed'";
                assert_eq!(db.query_integer(query, &[])?, 100);
                assert_eq!(db.query_integer("SELECT count(*) FROM t", &[])?, 300);
                db.query_text("PRAGMA integrity_check", &[])
            });
            assert_eq!(done.as_deref(), Ok("ok"), "{mode}, {page}");
        }
    }
}

#[test]
fn large_values_temporary_tables_and_sorting() {
    for temporaries in [Temporaries::Memory, Temporaries::Files] {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let run = async move {
            let device = device(&rt, caps(Ack::OnMedia, false, 512, 128));
            format(&rt, &device).await;
            let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
            let options = Options { temporaries, ..Options::default() };
            let space = files.space();
            let mount = Mount::new(&rt, files.clone(), options);
            let done = mount.guest("g", |sql| {
                let db = sql.open("big.db")?;
                db.execute("PRAGMA cache_size = 50; PRAGMA temp_store = FILE")?;
                db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")?;
                let blob: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
                db.prepare("INSERT INTO t VALUES (1, ?)")?.run(&[blob[..].into()])?;
                let mut query = db.prepare("SELECT v FROM t")?;
                assert!(query.step()?);
                assert!(query.blob(0) == blob, "a large value comes back");
                drop(query);
                db.execute(
                    "CREATE TEMP TABLE x AS WITH RECURSIVE n(i) AS
                       (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
                     SELECT i, hex(randomblob(40)) AS r FROM n;
                     CREATE INDEX temp.xi ON x (r)",
                )?;
                assert_eq!(db.query_integer("SELECT count(*) FROM x WHERE r > ''", &[])?, 30000);
                db.execute("DELETE FROM t")?;
                db.query_integer("SELECT count(*) FROM x ORDER BY r", &[])
            });
            assert_eq!(done.await, Ok(30000));
            let names: Vec<_> = files.list().into_iter().map(|e| e.name).collect();
            assert_eq!(names, [b"big.db".to_vec()], "temporary files are gone");
            let used = files.open(b"big.db").unwrap().size().div_ceil(files.chunk());
            assert_eq!(files.space().free, space.free - used, "and so are their chunks");
        };
        runtime.block_on(run).unwrap();
    }
}

/// Transfers between accounts by several clients at once.
fn bank(seed: u64, setup: &'static str) -> (u64, u64, u64) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let rt2 = rt.clone();
    let run = async move {
        let rt = rt2;
        let device = device(&rt, caps(Ack::PowerSafe, true, 4096, 32));
        format(&rt, &device).await;
        let mount = mount(&rt, device).await;
        let made = mount.guest("setup", move |sql| {
            let db = sql.open("bank.db")?;
            db.execute(setup)?;
            db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, v INTEGER)")?;
            let mut insert = db.prepare("INSERT INTO a VALUES (?, 100)")?;
            (0..50).try_for_each(|id| insert.run(&[id.into()]))
        });
        assert_eq!(made.await, Ok(()));
        let (busy, reads) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut clients = Vec::new();
        for client in 0..5 {
            let name = format!("client {client}");
            let mut dice = rt.stream(&name);
            let (busy, reads) = (busy.clone(), reads.clone());
            let guest = mount.guest(&name, move |sql| -> Result<(), SqliteError> {
                let db = sql.open("bank.db")?;
                db.busy_timeout(Nanos::from_secs(20));
                let mut change = db.prepare("UPDATE a SET v = v + ? WHERE id = ?")?;
                for _ in 0..40 {
                    if client > 2 {
                        // Readers see only whole transactions.
                        match db.query_integer("SELECT sum(v) FROM a", &[]) {
                            Ok(sum) => assert_eq!(sum, 5000),
                            Err(e) if e.is_busy() => busy.set(busy.get() + 1),
                            Err(e) => return Err(e),
                        }
                        reads.set(reads.get() + 1);
                        continue;
                    }
                    loop {
                        let amount = dice.below(50) as i64;
                        let (from, to) = (dice.below(50) as i64, dice.below(50) as i64);
                        let transfer = db
                            .execute("BEGIN IMMEDIATE")
                            .and_then(|()| change.run(&[(-amount).into(), from.into()]))
                            .and_then(|()| change.run(&[amount.into(), to.into()]))
                            .and_then(|()| db.execute("COMMIT"));
                        match transfer {
                            Ok(()) => break,
                            Err(e) if e.is_busy() => {
                                busy.set(busy.get() + 1);
                                if !db.is_autocommit() {
                                    db.execute("ROLLBACK")?;
                                }
                            }
                            Err(e) => return Err(e),
                        }
                    }
                }
                Ok(())
            });
            clients.push(rt.spawn("a client", guest));
        }
        for client in clients {
            assert_eq!(client.await.unwrap(), Ok(()));
        }
        assert_eq!(reads.get(), 80);
        let check = mount.guest("check", |sql| {
            let db = sql.open("bank.db")?;
            assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
            db.query_integer("SELECT sum(v) FROM a", &[])
        });
        assert_eq!(check.await, Ok(5000));
        busy.get()
    };
    let busy = runtime.block_on(run).unwrap();
    (rt.trace_hash(), rt.now().0, busy)
}

#[test]
fn several_clients_share_a_database() {
    for setup in [
        "PRAGMA journal_mode = DELETE",
        "PRAGMA journal_mode = TRUNCATE",
        "PRAGMA journal_mode = PERSIST",
        "PRAGMA journal_mode = WAL",
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 20",
    ] {
        bank(3, setup);
    }
}

#[test]
fn same_seed_same_run() {
    let wal = "PRAGMA journal_mode = WAL";
    let first = bank(11, wal);
    assert_eq!(first, bank(11, wal));
    assert_ne!(first.0, bank(12, wal).0);
}

#[test]
#[allow(clippy::disallowed_methods)] // Parallel runs are many runtimes on many threads.
fn many_runtimes_on_many_threads() {
    let run =
        |seed: u64| move || (0..4).map(|i| bank(seed + i, "PRAGMA journal_mode = WAL")).collect();
    let threads: Vec<_> = (0..4).map(|i| std::thread::spawn(run(20 + i))).collect();
    let parallel: Vec<Vec<_>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    for (i, results) in parallel.into_iter().enumerate() {
        let alone: Vec<_> = run(20 + i as u64)();
        assert_eq!(results, alone);
    }
}

#[test]
fn chance_and_time_come_from_the_runtime() {
    let draw = |name: &'static str| {
        let mut runtime = Runtime::virtual_time(5);
        let rt = runtime.handle();
        let run = async move {
            let device = device(&rt, caps(Ack::PowerSafe, true, 4096, 16));
            format(&rt, &device).await;
            let guest = mount(&rt, device).await.guest(name, |sql| {
                sql.sleep(Nanos::from_secs(86_400)).unwrap();
                let db = sql.open("t.db")?;
                let random = db.query_text("SELECT hex(randomblob(20)) || random()", &[])?;
                let time = db.query_text("SELECT datetime('now')", &[])?;
                Ok::<_, SqliteError>((random, time))
            });
            guest.await.unwrap()
        };
        runtime.block_on(run).unwrap()
    };
    let (random, time) = draw("a");
    assert_eq!(time, "2024-01-02 00:00:00");
    assert_eq!(draw("a").0, random);
    assert_ne!(draw("b").0, random);
}

#[test]
fn a_guest_never_draws_the_numbers_of_an_earlier_one() {
    let draws = on_one_mount(|mount| async move {
        let mut draws = Vec::new();
        for _ in 0..3 {
            let guest = mount.guest("client", |sql| {
                sql.open("t.db")?.query_text("SELECT hex(randomblob(20))", &[])
            });
            draws.push(guest.await.unwrap());
        }
        draws
    });
    assert!(draws[0] != draws[1] && draws[1] != draws[2], "{draws:?}");
}

#[test]
#[should_panic(expected = "in the middle of a transaction")]
fn a_panic_of_a_guest_closes_its_files_and_is_seen() {
    on_one_mount(|mount| async move {
        let guest = mount.guest("client", |sql| {
            let db = sql.open("t.db").unwrap();
            db.execute("CREATE TABLE t (v); BEGIN; INSERT INTO t VALUES (1)").unwrap();
            panic!("in the middle of a transaction");
        });
        guest.await
    });
}

fn on_one_mount<T: 'static, F: Future<Output = T> + 'static>(
    main: impl FnOnce(Mount<RamDevice>) -> F + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(5);
    let rt = runtime.handle();
    let run = async move {
        let device = device(&rt, caps(Ack::PowerSafe, true, 4096, 16));
        format(&rt, &device).await;
        main(mount(&rt, device).await).await
    };
    runtime.block_on(run).unwrap()
}

#[test]
fn cpu_time_passes_for_steps_and_calls() {
    let elapsed = alone(16, |sql| {
        let db = sql.open("t.db").unwrap();
        let before = sql.now();
        for _ in 0..100 {
            db.query_integer("SELECT 1", &[]).unwrap();
        }
        sql.now() - before
    });
    // One step each, which finds a row; the time owed at the end is below 100 µs.
    assert!(elapsed >= Nanos::from_micros(900) && elapsed <= Nanos::from_micros(1100), "{elapsed}");
}

#[test]
fn a_full_device_is_sqlite_full_and_nothing_breaks() {
    let done = alone(4, |sql| {
        let db = sql.open("t.db")?;
        db.execute("CREATE TABLE t (v BLOB)")?;
        let mut insert = db.prepare("INSERT INTO t VALUES (randomblob(10000))")?;
        let mut rows = 0;
        let full = loop {
            match insert.run(&[]) {
                Ok(()) => rows += 1,
                Err(e) => break e,
            }
        };
        assert!(full.is_full(), "{full}");
        assert_eq!(db.query_integer("SELECT count(*) FROM t", &[])?, rows);
        assert_eq!(db.query_text("PRAGMA integrity_check", &[])?, "ok");
        Ok::<_, SqliteError>(rows)
    });
    assert!(done.unwrap() > 20);
}

/// A guest on a device that fails on request.
fn with_faults<T: 'static>(
    main: impl FnOnce(&tantalum_sqlite::Sqlite, Faults<RamDevice>) -> T + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(2);
    let rt = runtime.handle();
    let run = async move {
        let device = device(&rt, caps(Ack::Volatile, false, 4096, 16));
        format(&rt, &device).await;
        let faults = Faults::new(&rt, device, "faults");
        let files = Files::mount(&rt, faults.clone(), &MountOptions::default()).await.unwrap();
        let mount = Mount::new(&rt, files, Options::default());
        mount.guest("g", move |sql| main(sql, faults)).await
    };
    runtime.block_on(run).unwrap()
}

#[test]
fn an_io_error_is_an_io_error() {
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let done = with_faults(move |sql, faults| {
            let db = sql.open("t.db")?;
            db.execute(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t (v)"))?;
            db.execute("INSERT INTO t VALUES (1)")?;
            faults.fail_nth(CommandKind::Flush, 1);
            let error = db.execute("INSERT INTO t VALUES (2)").unwrap_err();
            assert!(error.is_io(), "{mode}: {error}");
            assert!(error.message.contains("disk I/O error"), "{error}");
            // After a failed flush every write fails.
            assert!(db.execute("INSERT INTO t VALUES (3)").unwrap_err().is_io());
            Ok::<_, SqliteError>(())
        });
        done.unwrap();
    }
}

#[test]
fn errors_carry_the_code_and_the_message() {
    alone(16, |sql| {
        let db = sql.open("t.db").unwrap();
        let error = db.execute("SELECT * FROM missing").unwrap_err();
        assert_eq!((error.code, &*error.message), (1, "no such table: missing"));
        db.execute("CREATE TABLE t (k PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
        let error = db.execute("INSERT INTO t VALUES (1)").unwrap_err();
        assert_eq!((error.primary(), error.code), (19, 1555), "a constraint, on a primary key");
        assert!(db.prepare("  -- nothing").is_err());
        assert!(sql.open(&"x".repeat(300)).is_err());
        assert!(sql.open("nul\0inside").is_err());
    });
}

#[test]
fn what_is_no_database_is_told_so() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let run = async move {
        let device = device(&rt, caps(Ack::PowerSafe, true, 4096, 16));
        format(&rt, &device).await;
        let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
        let file = files.open_or_create(b"t.db").await.unwrap();
        file.write(0, &[0x5a; 8192]).await.unwrap();
        let options = Options { characteristics: Characteristics::Plain, ..Options::default() };
        let mount = Mount::new(&rt, files, options);
        let guest = mount.guest("g", |sql| {
            let db = sql.open("t.db")?;
            db.query_integer("SELECT count(*) FROM sqlite_schema", &[])
        });
        guest.await.unwrap_err()
    };
    assert!(runtime.block_on(run).unwrap().is_corrupt());
}

struct NoteDrop(Rc<Cell<bool>>);

impl Drop for NoteDrop {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// A guest in the middle of a transaction, cut off at `after`.
async fn dropped(rt: Rt, after: Nanos) -> bool {
    let device = device(&rt, caps(Ack::PowerSafe, true, 4096, 16));
    format(&rt, &device).await;
    let mount = mount(&rt, device).await;
    let ended = Rc::new(Cell::new(false));
    let errors = Rc::new(RefCell::new(Vec::new()));
    let (note, noted) = (NoteDrop(ended.clone()), errors.clone());
    let guest = mount.guest("g", move |sql| {
        let _note = note;
        let db = match sql.open("t.db") {
            Ok(db) => db,
            Err(e) => return noted.borrow_mut().push(e),
        };
        let work = || -> Result<(), SqliteError> {
            db.execute("CREATE TABLE IF NOT EXISTS t (v); BEGIN")?;
            loop {
                db.execute("INSERT INTO t VALUES (randomblob(3000)); COMMIT; BEGIN")?;
            }
        };
        noted.borrow_mut().push(work().unwrap_err());
        assert!(!sql.is_alive());
    });
    let domain = rt.domain();
    domain.spawn("a guest", guest);
    rt.sleep(after).await;
    domain.kill();
    assert!(ended.get(), "it ran to its end");
    let errors = errors.borrow();
    assert!(errors.iter().all(SqliteError::is_io) || after == Nanos::ZERO, "{errors:?}");
    errors.len() == 1
}

#[test]
fn a_guest_that_is_dropped_runs_to_its_end() {
    let mut ran = 0;
    for i in 0..60 {
        let mut runtime = Runtime::virtual_time(i);
        let rt = runtime.handle();
        ran += usize::from(runtime.block_on(dropped(rt, Nanos::from_micros(97 * i))).unwrap());
    }
    assert!(ran >= 59, "{ran}");
    // A guest that never began is just dropped.
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let run = async move {
        let device = device(&rt, caps(Ack::PowerSafe, true, 4096, 16));
        Files::format(&rt, &device, &FormatOptions::default()).await.unwrap();
        drop(mount(&rt, device).await.guest("g", |_| panic!("it never began")));
    };
    runtime.block_on(run).unwrap();
}

#[test]
fn who_only_reads_leaves_the_log_as_it_is() {
    beside_files(16, |sql, files| {
        let writer = sql.open("t.db").unwrap();
        writer.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (v)").unwrap();
        let reader = sql.open("file:t.db?mode=ro").unwrap();
        assert_eq!(reader.query_integer("SELECT count(*) FROM t", &[]), Ok(0));
        assert_eq!(reader.execute("INSERT INTO t VALUES (1)").unwrap_err().primary(), 8);
        writer.execute("INSERT INTO t VALUES (1)").unwrap();
        drop(writer);
        assert_eq!(reader.query_integer("SELECT count(*) FROM t", &[]), Ok(1));
        // The last connection to close would write the log back and delete it.
        drop(reader);
        assert!(files.open(b"t.db-wal").unwrap().size() > 0);
        let again = sql.open("file:t.db?mode=ro").unwrap();
        assert_eq!(again.query_text("PRAGMA journal_mode", &[]).unwrap(), "wal");
        assert_eq!(again.query_integer("SELECT count(*) FROM t", &[]), Ok(1));
    });
}

#[test]
fn a_database_is_the_file_and_not_the_name() {
    beside_files(16, move |sql, files| {
        let before = sql.open("t.db").unwrap();
        before.execute("CREATE TABLE t (v); BEGIN EXCLUSIVE").unwrap();
        let own = files.clone();
        sql.wait(async move { own.delete(b"t.db", Promise::Completed).await }).unwrap().unwrap();
        // This is another database: it has no lock.
        let after = sql.open("t.db").unwrap();
        after.execute("CREATE TABLE u (v); INSERT INTO u VALUES (1)").unwrap();
        // The old database can no longer be written, because its journal would not be found.
        let error = before.execute("INSERT INTO t VALUES (1); COMMIT").unwrap_err();
        assert_eq!(error.code, 1032, "SQLITE_READONLY_DBMOVED: {error}");
        assert_eq!(after.query_text("PRAGMA integrity_check", &[]).unwrap(), "ok");
        let renamed = async move { files.rename(b"t.db", b"u.db", Promise::Completed).await };
        sql.wait(renamed).unwrap().unwrap();
        let error = after.execute("INSERT INTO u VALUES (2)").unwrap_err();
        assert_eq!(error.code, 1032, "{error}");
        let moved = sql.open("u.db").unwrap();
        moved.execute("INSERT INTO u VALUES (2)").unwrap();
        assert_eq!(moved.query_integer("SELECT count(*) FROM u", &[]), Ok(2));
    });
}

/// Bytes in the log after two commits to a database of this name.
fn bytes_in_the_log(name: &'static str) -> u64 {
    beside_files(16, move |sql, files| {
        let db = sql.open(name).unwrap();
        db.execute("PRAGMA page_size = 1024; PRAGMA synchronous = FULL").unwrap();
        db.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (v)").unwrap();
        db.execute("INSERT INTO t VALUES (1)").unwrap();
        files.open(b"t.db-wal").unwrap().size()
    })
}

#[test]
fn a_name_may_say_that_writes_damage_their_neighbours() {
    // With `psow=0` SQLite fills the log up to the next sector with each commit.
    assert!(bytes_in_the_log("file:t.db?psow=0") > bytes_in_the_log("t.db") + 4096);
}

#[test]
fn sorting_stays_on_the_thread_of_the_guest() {
    alone(32, |sql| {
        let db = sql.open("t.db").unwrap();
        assert_eq!(db.query_text("PRAGMA threads = 4", &[]).unwrap(), "0");
        db.execute("PRAGMA temp_store = FILE; PRAGMA cache_size = 10").unwrap();
        let rows = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";
        db.execute("CREATE TABLE t (v)").unwrap();
        db.execute(&format!("{rows} INSERT INTO t SELECT hex(randomblob(20)) FROM n")).unwrap();
        // More data than the cache holds: SQLite sorts in pieces, in temporary files.
        db.execute("CREATE INDEX i ON t (v)").unwrap();
        assert_eq!(db.query_text("PRAGMA integrity_check", &[]).unwrap(), "ok");
    });
}
