//! Power cuts under load: acknowledged commits must be there where device and settings promise it,
//! and some must be lost where they do not.

use crate::common::{caps, device, format, mount};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Ack, Caps, CommandKind, Faults, GroupLimit, PowerCycle};
use tantalum_rt::{Nanos, Runtime, Stream};
use tantalum_sqlite::{Sqlite, SqliteError};

const CLIENTS: usize = 3;

/// Commits that were acknowledged to clients.
type Acked = [Rc<Cell<i64>>; CLIENTS];

#[derive(Clone)]
struct Case {
    caps: Caps,
    mode: &'static str,
    synchronous: &'static str,
    page: u32,
    /// The percentage of atomic groups that fail.
    failing: u64,
}

/// The results of one seed's cuts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    cuts: u32,
    /// Cuts during a mount or SQLite's own recovery.
    recovering: u32,
    commits: i64,
    lost: u32,
    corrupt: u32,
    /// Commits that were one atomic group each.
    groups: u64,
    hash: u64,
}

fn open_settings(case: &Case) -> String {
    format!(
        "PRAGMA page_size = {}; PRAGMA journal_mode = {}; PRAGMA synchronous = {};
         PRAGMA wal_autocheckpoint = 30; PRAGMA cache_size = 20",
        case.page, case.mode, case.synchronous
    )
}

/// Inserts rows in numbered transactions until an error occurs.
fn client(
    sql: &Sqlite,
    me: i64,
    settings: &str,
    acked: &Cell<i64>,
    groups: &Cell<u64>,
    dice: &mut Stream,
) -> Result<(), SqliteError> {
    let db = sql.open("t.db")?;
    db.busy_timeout(Nanos::from_secs(1000));
    db.execute(settings)?;
    let mut insert = db.prepare("INSERT INTO t (who, seq, v) VALUES (?, ?, ?)")?;
    let mut update = db.prepare("UPDATE n SET seq = ? WHERE who = ?")?;
    let mut value = vec![0; 3000];
    let mut committed = 0;
    loop {
        let seq = acked.get() + 1;
        let mut step = || -> Result<(), SqliteError> {
            db.execute("BEGIN IMMEDIATE")?;
            for _ in 0..1 + dice.below(3) {
                let length = dice.below(3000) as usize;
                dice.fill(&mut value[..length]);
                insert.run(&[me.into(), seq.into(), value[..length].into()])?;
            }
            if dice.chance(1, 8) {
                db.execute("DELETE FROM t WHERE rowid IN (SELECT rowid FROM t LIMIT 20)")?;
            }
            update.run(&[seq.into(), me.into()])?;
            db.execute("COMMIT")
        };
        step()?;
        acked.set(seq);
        groups.set(groups.get() + u64::from(db.batch_atomic()?.committed > committed));
        committed = db.batch_atomic()?.committed;
    }
}

/// The last commit of each client that SQLite finds, or why the database is broken.
fn check(sql: &Sqlite, settings: &str) -> Result<[i64; CLIENTS], SqliteError> {
    let db = sql.open("t.db")?;
    db.execute(settings)?;
    db.execute(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, who, seq, v);
         CREATE TABLE IF NOT EXISTS n (who INTEGER PRIMARY KEY, seq);
         INSERT OR IGNORE INTO n VALUES (0, 0), (1, 0), (2, 0);
         COMMIT",
    )?;
    let sound = db.query_text("PRAGMA integrity_check", &[])?;
    if sound != "ok" {
        return Err(SqliteError { code: 11, message: sound });
    }
    let mut last = [0; CLIENTS];
    for (who, seq) in (0i64..).zip(&mut last) {
        *seq = db.query_integer("SELECT seq FROM n WHERE who = ?", &[who.into()])?;
        // A transaction is there completely.
        let rows = "SELECT coalesce(max(seq), 0) FROM t WHERE who = ?";
        let rows = db.query_integer(rows, &[who.into()])?;
        if rows > *seq {
            let message = format!("client {who} has rows of {rows}, but committed {seq}");
            return Err(SqliteError { code: 11, message });
        }
    }
    Ok(last)
}

fn lives(seed: u64, case: Case, lives: u32) -> Outcome {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let rt2 = rt.clone();
    let run = async move {
        let rt = rt2;
        let device = Faults::new(&rt, device(&rt, case.caps), "faults");
        device.fail_often(CommandKind::Group, case.failing, 100);
        format(&rt, &device.device()).await;
        let acked: Acked = Default::default();
        let settings = open_settings(&case);
        let mut dice = rt.stream("the test");
        let mut outcome = Outcome::default();
        let groups = Rc::new(Cell::new(0));
        for life in 0..lives {
            // Mount and recover, sometimes with a cut meanwhile.
            let (mounted, last) = loop {
                let domain = rt.domain();
                let (rt3, link, settings) = (rt.clone(), device.device(), settings.clone());
                let recover = domain.spawn("recovery", async move {
                    let mount = mount(&rt3, link).await;
                    let last = mount.guest("check", move |sql| check(sql, &settings)).await;
                    (mount, last)
                });
                if dice.chance(1, 3) {
                    rt.sleep(Nanos::from_micros(dice.below(6000))).await;
                    if !recover.is_finished() {
                        outcome.recovering += 1;
                        device.cut();
                        domain.kill();
                        device.power_on().await.unwrap();
                        continue;
                    }
                }
                break recover.await.unwrap();
            };
            match last {
                Ok(last) => {
                    for (acked, last) in acked.iter().zip(last) {
                        assert!(last <= acked.get() + 1, "a transaction that never was");
                        outcome.lost += u32::from(last < acked.get());
                        acked.set(last);
                    }
                }
                Err(e) => {
                    assert!(!e.is_io() && !e.is_busy(), "life {life}: {e}");
                    outcome.corrupt += 1;
                    return outcome;
                }
            }
            let before: i64 = acked.iter().map(|a| a.get()).sum();
            let domain = rt.domain();
            let corrupt = Rc::new(Cell::new(0));
            for (i, acked) in acked.iter().enumerate() {
                let name = format!("client {i} in life {life}");
                let mut dice = rt.stream(&name);
                let (acked, settings) = (acked.clone(), settings.clone());
                let (corrupt, groups) = (corrupt.clone(), groups.clone());
                let guest = mounted.guest(&name, move |sql| {
                    let error =
                        client(sql, i as i64, &settings, &acked, &groups, &mut dice).unwrap_err();
                    assert!(error.is_io() || error.is_corrupt(), "{error}");
                    corrupt.set(corrupt.get() + u32::from(error.is_corrupt()));
                });
                domain.spawn("a client", guest);
            }
            rt.sleep(Nanos::from_micros(2000 + dice.below(60_000))).await;
            device.cut();
            outcome.cuts += 1;
            // In half of the cases the clients notice the cut by errors.
            if dice.chance(1, 2) {
                rt.sleep(Nanos::from_secs(1)).await;
            }
            domain.kill();
            outcome.corrupt += corrupt.get();
            outcome.groups = groups.get();
            outcome.commits += acked.iter().map(|a| a.get()).sum::<i64>() - before;
            device.power_on().await.unwrap();
        }
        outcome
    };
    let mut outcome = runtime.block_on(run).unwrap();
    outcome.hash = rt.trace_hash();
    outcome
}

/// All journal modes, pages of all sizes.
fn sweep(caps: Caps, synchronous: &'static str, seeds: u64) -> Outcome {
    sweep_failing(caps, synchronous, seeds, 0)
}

fn sweep_failing(caps: Caps, synchronous: &'static str, seeds: u64, failing: u64) -> Outcome {
    let mut sum = Outcome::default();
    for seed in 0..seeds {
        let mode = ["DELETE", "TRUNCATE", "PERSIST", "WAL"][seed as usize % 4];
        let page = [4096, 512, 65536, 8192][seed as usize / 4 % 4];
        // Only EXTRA keeps a deleted journal from coming back; see the documentation.
        let synchronous = match (synchronous, mode) {
            // (With groups SQLite does this by itself.)
            ("FULL", "DELETE") if caps.atomic_group.is_none() => "EXTRA",
            other => other.0,
        };
        let one = lives(seed, Case { caps, mode, synchronous, page, failing }, 6);
        // Shown if the test fails.
        println!("seed {seed}, {mode}, {synchronous}, pages of {page}: {one:?}");
        sum.cuts += one.cuts;
        sum.recovering += one.recovering;
        sum.commits += one.commits;
        sum.lost += one.lost;
        sum.corrupt += one.corrupt;
        sum.groups += one.groups;
    }
    sum
}

fn loses_nothing(sum: &Outcome) {
    assert_eq!((sum.lost, sum.corrupt), (0, 0));
    assert!(sum.cuts > 100 && sum.recovering > 20 && sum.commits > 1000, "too little happened");
}

#[test]
fn volatile_with_syncs_loses_nothing() {
    loses_nothing(&sweep(caps(Ack::Volatile, false, 512, 32), "FULL", 48));
}

#[test]
fn power_safe_in_order_loses_nothing_without_a_sync() {
    loses_nothing(&sweep(caps(Ack::PowerSafe, true, 4096, 32), "OFF", 32));
}

#[test]
fn on_media_out_of_order_and_torn_loses_nothing_without_a_sync() {
    loses_nothing(&sweep(caps(Ack::OnMedia, false, 512, 32), "OFF", 32));
}

/// Groups of eight pages of 4 KiB: some transactions fit, some do not, and the cache spills.
fn grouping(ack: Ack, ordered: bool) -> Caps {
    let limit = GroupLimit { extents: 8, bytes: 32 << 10 };
    Caps { atomic_group: Some(limit), ..caps(ack, ordered, 512, 32) }
}

#[test]
fn groups_on_a_volatile_device_lose_nothing() {
    let sum = sweep(grouping(Ack::Volatile, false), "FULL", 48);
    loses_nothing(&sum);
    assert!(sum.groups > 500, "{sum:?}");
}

/// After a group has failed, a journal is written; it must be durable before the database is
/// changed.
#[test]
fn groups_that_fail_on_a_volatile_device_lose_nothing() {
    let sum = sweep_failing(grouping(Ack::Volatile, false), "FULL", 48, 40);
    loses_nothing(&sum);
    assert!(sum.groups > 200, "{sum:?}");
}

#[test]
fn groups_where_writes_survive_lose_nothing() {
    for (synchronous, failing) in [("FULL", 10), ("NORMAL", 0), ("OFF", 0)] {
        let sum = sweep_failing(grouping(Ack::OnMedia, false), synchronous, 24, failing);
        assert_eq!((sum.lost, sum.corrupt), (0, 0), "{synchronous}");
        assert_eq!(sum.groups == 0, synchronous == "OFF", "{sum:?}");
    }
}

#[test]
fn volatile_in_order_without_a_sync_loses_the_last_only() {
    let sum = sweep(caps(Ack::Volatile, true, 4096, 32), "OFF", 24);
    assert!(sum.lost > 0, "{sum:?}");
    assert_eq!(sum.corrupt, 0, "a prefix of the writes is a sound database");
}

#[test]
fn volatile_without_a_sync_is_seen_to_break() {
    let sum = sweep(caps(Ack::Volatile, false, 512, 32), "OFF", 24);
    assert!(sum.lost > 0 && sum.corrupt > 0, "{sum:?}");
}

#[test]
fn same_seed_same_cuts() {
    let case = Case {
        caps: caps(Ack::Volatile, false, 512, 32),
        mode: "WAL",
        synchronous: "FULL",
        page: 4096,
        failing: 0,
    };
    let first = lives(5, case.clone(), 5);
    assert_eq!(first, lives(5, case.clone(), 5));
    assert_ne!(first.hash, lives(6, case, 5).hash);
}
