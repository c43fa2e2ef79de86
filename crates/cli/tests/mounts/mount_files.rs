//! `tantalum drive mount --files` under an unmodified SQLite: its own UNIX file access, compiled
//! with batch-atomic writes, which uses the ioctls of F2FS. Needs root.

use crate::mounting::{Mounted, Place, possible};
use libsqlite3_sys as ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tantalum_testing::Signal;

/// A connection to a database.
struct Db(*mut ffi::sqlite3);

impl Db {
    fn open(path: &Path) -> Result<Db, String> {
        let path = CString::new(path.to_str().expect("text")).expect("no NUL");
        let mut db = std::ptr::null_mut();
        // SAFETY: the path ends in NUL, and the pointer is to a local variable. There is a handle
        // even if opening failed; `Drop` closes it.
        let code = unsafe { ffi::sqlite3_open(path.as_ptr(), &raw mut db) };
        let db = Db(db);
        if code == ffi::SQLITE_OK { Ok(db) } else { Err(format!("cannot be opened: {code}")) }
    }

    /// Runs statements; returns the first column of the last row.
    fn run(&self, sql: &str) -> Result<String, String> {
        let sql = CString::new(sql).expect("no NUL");
        let mut last = String::new();
        // SAFETY: the connection is open, the statements end in NUL, and `keep` gets the pointer
        // to `last`, which outlives the call.
        let code = unsafe {
            let to = (&raw mut last).cast::<c_void>();
            ffi::sqlite3_exec(self.0, sql.as_ptr(), Some(keep), to, std::ptr::null_mut())
        };
        if code == ffi::SQLITE_OK { Ok(last) } else { Err(format!("{sql:?}: {code}")) }
    }
}

/// Keeps the first column of a row.
///
/// # Safety
/// Called by SQLite: `to` points to a [`String`], `values` to as many strings as there are columns.
unsafe extern "C" fn keep(
    to: *mut c_void,
    columns: c_int,
    values: *mut *mut c_char,
    _names: *mut *mut c_char,
) -> c_int {
    if columns > 0 {
        // SAFETY: the caller guarantees it; a value is NULL or ends in NUL.
        unsafe {
            if !(*values).is_null() {
                *to.cast::<String>() = CStr::from_ptr(*values).to_string_lossy().into_owned();
            }
        }
    }
    0
}

impl Drop for Db {
    fn drop(&mut self) {
        // SAFETY: the connection is open, and has no statements left.
        unsafe { ffi::sqlite3_close(self.0) };
    }
}

/// A row with a count, and pages that hold the same count.
const MAKE: &str = "create table counter(n integer); insert into counter values (0);
    create table pages(id integer primary key, n integer, filler blob);
    with recursive i(x) as (select 1 union all select x + 1 from i where x < 40)
    insert into pages select x, 0, zeroblob(3000) from i;";

/// Changes all of them in one transaction, repeatedly until that fails; returns the last
/// acknowledged count.
fn count(path: &Path, acknowledged: &AtomicI64, stop: &AtomicBool) -> Result<(), String> {
    let db = Db::open(path)?;
    // A journal, if one is used, is kept, so that the test sees it.
    db.run("pragma journal_mode = persist; pragma synchronous = full;")?;
    while !stop.load(Ordering::Relaxed) {
        db.run(
            "begin immediate; update counter set n = n + 1;
                update pages set n = (select n from counter) where id % 4 = 1; commit",
        )?;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Checks the database after a crash: it is whole, and has all acknowledged transactions.
fn check(path: &Path, acknowledged: i64) -> i64 {
    let db = Db::open(path).expect("it opens");
    assert_eq!(db.run("pragma integrity_check").as_deref(), Ok("ok"));
    let number = |sql| db.run(sql).expect("read").parse::<i64>().expect("a number");
    let n = number("select n from counter");
    // One transaction may have been committed but not acknowledged before the crash.
    assert!((acknowledged..=acknowledged + 1).contains(&n), "{n}, acknowledged {acknowledged}");
    assert_eq!(number("select min(n) from pages where id % 4 = 1"), n);
    assert_eq!(number("select max(n) from pages where id % 4 = 1"), n);
    n
}

#[test]
fn sqlite_writes_no_journal_and_survives_cuts_and_kills() {
    if !possible(&[]) {
        return;
    }
    let place = Place::new("sqlite");
    let (image, dir) = (place.image("durassd"), place.path("m"));
    let path = Path::new(&dir).join("test.db");
    let journal = Path::new(&dir).join("test.db-journal");
    let acknowledged = AtomicI64::new(0);
    let crash = |mounted: &Mounted, pull: &dyn Fn()| {
        let stop = AtomicBool::new(false);
        let before = acknowledged.load(Ordering::Relaxed);
        std::thread::scope(|threads| {
            let counting = threads.spawn(|| count(&path, &acknowledged, &stop));
            pull();
            stop.store(true, Ordering::Relaxed);
            // The client failed, or was just stopped.
            let _ = counting.join().expect("no panic");
        });
        let done = acknowledged.load(Ordering::Relaxed) - before;
        assert!(done > 0, "nothing was committed: {}", mounted.said());
    };
    {
        let more = ["--files", "--cut-after-ops", "400", "--restore-after", "300ms"];
        let mounted = Mounted::new(&dir, &[&[&*image, &*dir][..], &more].concat());
        Db::open(&path).and_then(|db| db.run(MAKE)).expect("made");
        // The creation of the table may have used a journal.
        let _ = std::fs::remove_file(&journal);
        for round in 1..=3 {
            crash(&mounted, &|| mounted.wait_for("cut after", round));
            mounted.wait_for("took commands after", round);
            std::thread::sleep(Duration::from_millis(200));
            assert!(!journal.exists(), "there was a journal");
            let n = check(&path, acknowledged.load(Ordering::Relaxed));
            acknowledged.store(n, Ordering::Relaxed);
        }
        mounted.stop();
        place.assert_clean();
    }
    for _ in 0..2 {
        let mut mounted = Mounted::new(&dir, &[&image, &dir, "--files"]);
        let before = acknowledged.load(Ordering::Relaxed);
        crash(&mounted, &|| {
            // Wait until there are commits that could be lost, and a little longer.
            for _ in 0..6000 {
                if acknowledged.load(Ordering::Relaxed) > before {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(300));
            mounted.signal(Signal::KILL);
        });
        mounted.wait();
        let mounted = Mounted::new(&dir, &[&image, &dir, "--files"]);
        assert!(!journal.exists(), "there was a journal");
        let n = check(&path, acknowledged.load(Ordering::Relaxed));
        acknowledged.store(n, Ordering::Relaxed);
        mounted.stop();
        place.assert_clean();
    }
}
