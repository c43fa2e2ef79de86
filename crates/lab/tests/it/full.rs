//! A database on a thinly provisioned drive that has no room left: it is told so, keeps what it
//! had committed, and goes on when something was deleted.

use crate::designs::small;
use tantalum_device::{Payload, PowerCycle};
use tantalum_drive::{Design, Drive, DriveLink};
use tantalum_files::{Files, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Rt, Runtime};
use tantalum_sqlite::{Mount, Options, Sqlite, SqliteError};

/// Rows in a transaction.
const GROUP: i64 = 10;

fn design(preset: &str) -> Design {
    let mut design = small(preset);
    design.geometry.blocks = 48;
    design.space.over_provisioning = -50.0;
    design.check().unwrap();
    design
}

async fn mounted(rt: &Rt, drive: &Drive) -> (Files<DriveLink>, Mount<DriveLink>) {
    let files = Files::mount(rt, drive.device(), &MountOptions::default()).await.unwrap();
    (files.clone(), Mount::new(rt, files, Options::default()))
}

/// Commits groups of rows behind row `from` until the disk is full, or `most` of them; the last
/// row that is committed, and whether it was full.
fn fill(sql: &Sqlite, name: &str, journal: &str, from: i64, most: i64) -> (i64, bool) {
    let db = sql.open(name).unwrap();
    let setup =
        "PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB)";
    db.execute(&format!("PRAGMA journal_mode = {journal}; {setup}")).unwrap();
    let mut last = from;
    let group = |last: i64| -> Result<(), SqliteError> {
        db.execute("BEGIN")?;
        let mut insert = db.prepare("INSERT INTO t VALUES (?, randomblob(3500))")?;
        (1..=GROUP).try_for_each(|k| insert.run(&[(last + k).into()]))?;
        db.execute("COMMIT")
    };
    while last - from < most * GROUP {
        if let Err(e) = group(last) {
            assert!(e.is_full(), "{e}");
            // (SQLite may have done so itself.)
            let _ = db.execute("ROLLBACK");
            assert_eq!(rows(&db), last, "the group that did not fit is gone as a whole");
            return (last, true);
        }
        last += GROUP;
    }
    (last, false)
}

/// How many rows there are, all whole.
fn rows(db: &tantalum_sqlite::Connection<'_>) -> i64 {
    assert_eq!(db.query_text("PRAGMA integrity_check", &[]).unwrap(), "ok");
    let whole = "SELECT count(*) FROM t WHERE length(v) = 3500";
    db.query_integer(whole, &[]).unwrap()
}

async fn a_full_disk(rt: Rt, preset: &str, journal: &'static str) {
    let drive = Drive::new(&rt, &design(preset), Payload::Bytes).unwrap();
    drive.power_on().await.unwrap();
    Files::format(&rt, &drive.device(), &FormatOptions::default()).await.unwrap();
    let (_, mount) = mounted(&rt, &drive).await;
    let filled = mount.guest("fills", move |sql| {
        let (old, full) = fill(sql, "old.db", journal, 0, 60);
        assert!(!full);
        let (last, full) = fill(sql, "new.db", journal, 0, i64::MAX / GROUP);
        assert!(full && last > old, "{last} {full}");
        (old, last)
    });
    let (old, last) = filled.await;
    assert!(drive.stats().refused_writes > 0);
    // It is as full after a restart, and everything can be read.
    drive.cut();
    drive.off().await;
    drive.power_on().await.unwrap();
    let (files, mount) = mounted(&rt, &drive).await;
    let still = mount.guest("reads", move |sql| {
        assert_eq!(rows(&sql.open("old.db").unwrap()), old);
        assert_eq!(rows(&sql.open("new.db").unwrap()), last);
        fill(sql, "new.db", journal, last, i64::MAX / GROUP)
    });
    let (last, full) = still.await;
    assert!(full);
    files.delete(b"old.db", Promise::Durable).await.unwrap();
    let more = mount.guest("goes on", move |sql| {
        let (more, full) = fill(sql, "new.db", journal, last, 40);
        assert!(!full, "deleting a file makes room for {} rows, not for 400", more - last);
        // Rows that are deleted make room in the database itself.
        let db = sql.open("new.db").unwrap();
        db.execute(&format!("DELETE FROM t WHERE k <= {}", 20 * GROUP)).unwrap();
        assert_eq!(rows(&db), more - 20 * GROUP);
        (1..=15).for_each(|k| {
            db.execute(&format!("INSERT INTO t VALUES ({k}, randomblob(3500))")).unwrap();
        });
        assert_eq!(rows(&db), more - 20 * GROUP + 15);
    });
    more.await;
    drive.audit().unwrap();
}

#[test]
fn a_database_on_a_full_thin_drive_is_told_so_and_loses_nothing() {
    for (preset, journal) in
        [("durassd", "delete"), ("durassd", "wal"), ("volatile", "delete"), ("volatile", "wal")]
    {
        let mut runtime = Runtime::virtual_time(3);
        let rt = runtime.handle();
        let test = a_full_disk(rt, preset, journal);
        runtime.block_on(test).unwrap_or_else(|e| panic!("{preset}, {journal}: {e}"));
    }
}
