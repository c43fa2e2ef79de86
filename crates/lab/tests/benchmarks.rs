//! The SQL benchmarks on SQLite: their mix is the published one, their databases stay
//! sound, and damage that SQLite can not know of is found.

use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Ack, Caps, Payload, RamDevice, RamOptions};
use tantalum_lab::engine::{Engine, Settings};
use tantalum_lab::experiment::{Journal, Synchronous};
use tantalum_rt::Runtime;
use tantalum_workload::database::{self, Benchmark, Client, Findings};
use tantalum_workload::linkbench::{LinkBench, LinkBenchScale};
use tantalum_workload::sql::{Row, Sql, SqlError, SqlErrorKind, Value};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

fn linkbench() -> Rc<dyn Benchmark> {
    Rc::new(LinkBench::new(LinkBenchScale { nodes: 300, ..LinkBenchScale::default() }))
}

fn ycsb() -> Rc<dyn Benchmark> {
    Rc::new(Ycsb::new(YcsbScale { records: 200, field_bytes: 100 }))
}

/// Runs `body` on a loaded database.
fn with_database<T: 'static>(
    benchmark: Rc<dyn Benchmark>,
    body: impl FnOnce(&mut dyn Sql) -> T + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let caps = Caps {
            block_size: 4096,
            blocks: 16_384,
            ack: Ack::PowerSafe,
            ordered: true,
            atomic_unit: 4096,
            atomic_group: None,
            payload: Payload::Bytes,
        };
        let settings = Settings {
            page_bytes: 4096,
            cache_pages: 1000,
            journal: Journal::Wal,
            synchronous: Synchronous::Off,
        };
        let device = RamDevice::new(&rt, RamOptions::new(caps));
        let engine = Engine::format(&rt, device, &settings).await.expect("it is formatted");
        let guest = engine.guest("test".into(), move |sql| {
            database::load(&*benchmark, sql, 2).expect("it is loaded");
            body(sql)
        });
        guest.await.expect("it runs to its end").expect("it opens the database")
    });
    done.expect("the run ends")
}

fn operations(benchmark: Rc<dyn Benchmark>, count: u32) -> (BTreeMap<&'static str, u32>, Findings) {
    with_database(benchmark.clone(), move |sql| {
        let mut clients = [Client::new(1, 0), Client::new(1, 1)];
        let mut seen = BTreeMap::new();
        for i in 0..count {
            let client = &mut clients[i as usize % 2];
            let step = benchmark.operate(sql, client).expect("an operation");
            *seen.entry(step.operation).or_default() += 1;
        }
        let expected: Vec<_> = clients.iter().map(|c| (c.id(), c.acknowledged())).collect();
        assert_eq!(database::ledger(sql).expect("the ledger"), expected);
        (seen, benchmark.verify(sql).expect("it can be read"))
    })
}

#[test]
fn linkbench_keeps_its_mix_and_its_invariants() {
    let (seen, findings) = operations(linkbench(), 20_000);
    assert!(findings.is_clean(), "{findings:?}");
    let published = [
        ("get link list", 50.7),
        ("get node", 12.9),
        ("add link", 9.0),
        ("update link", 8.0),
        ("update node", 7.4),
        ("count links", 4.9),
        ("delete link", 3.0),
        ("add node", 2.6),
        ("delete node", 1.0),
        ("multiget link", 0.5),
    ];
    assert_eq!(seen.len(), published.len(), "{seen:?}");
    for (operation, share) in published {
        let found = f64::from(seen[operation]) / 200.0;
        // Five standard deviations of a share in 20,000 draws.
        let bound = 5.0 * (share * (100.0 - share) / 20_000.0_f64).sqrt() + 0.05;
        assert!((found - share).abs() < bound, "{operation}: {found} %, should be {share} %");
    }
}

#[test]
fn ycsb_is_half_reads_half_updates_and_keeps_its_invariants() {
    let (seen, findings) = operations(ycsb(), 10_000);
    assert!(findings.is_clean(), "{findings:?}");
    assert!(seen["read"].abs_diff(5_000) < 250 && seen["read"] + seen["update"] == 10_000);
}

#[test]
fn damage_below_sqlites_notice_is_found() {
    let cases: [(Rc<dyn Benchmark>, &'static str, &str); 7] = [
        (linkbench(), "UPDATE counttable SET count = count + 1 WHERE id = 5", "but counts"),
        (linkbench(), "DELETE FROM counttable WHERE id = 5", "but no count"),
        (linkbench(), "UPDATE linktable SET visibility = 0 WHERE id1 = 5", "but counts"),
        (linkbench(), "UPDATE nodetable SET version = version + 1 WHERE id = 7", "node 7"),
        (ycsb(), "DELETE FROM usertable WHERE rowid = 3", "is missing"),
        (ycsb(), "UPDATE usertable SET version = version + 1 WHERE rowid = 3", "newest field"),
        (ycsb(), "UPDATE usertable SET field2 = field3 WHERE rowid = 3", "field 2"),
    ];
    for (benchmark, damage, expected) in cases {
        let judge = benchmark.clone();
        let findings = with_database(benchmark, move |sql| {
            assert!(judge.verify(sql).expect("it can be read").is_clean());
            assert!(sql.execute(damage, &[]).expect("a statement") > 0, "{damage}");
            judge.verify(sql).expect("it can be read")
        });
        assert!(findings.total > 0, "{damage}");
        assert!(findings.listed.iter().any(|f| f.contains(expected)), "{damage}: {findings:?}");
    }
}

/// Copies of all tables, as they were some time ago.
const SNAPSHOT: [&str; 4] = [
    "CREATE TABLE old_nodes AS SELECT * FROM nodetable",
    "CREATE TABLE old_links AS SELECT * FROM linktable",
    "CREATE TABLE old_counts AS SELECT * FROM counttable",
    "CREATE TABLE old_ledger AS SELECT * FROM ledger",
];

const YCSB_SNAPSHOT: [&str; 2] = [
    "CREATE TABLE old_users AS SELECT * FROM usertable",
    "CREATE TABLE old_ledger AS SELECT * FROM ledger",
];

/// Runs, copies the tables, runs on, and then for each case does its statements,
/// each of which must change exactly one row; only the digest may tell, so there
/// must be exactly this one finding. Every case is undone before the next.
fn must_be_found_by_the_digest(
    benchmark: Rc<dyn Benchmark>,
    snapshot: &'static [&'static str],
    operations: u32,
    cases: &'static [&'static [&'static str]],
) {
    with_database(benchmark.clone(), move |sql| {
        let mut clients = [Client::new(3, 0), Client::new(3, 1)];
        let mut run = |sql: &mut dyn Sql| {
            for i in 0..operations {
                let client = &mut clients[i as usize % 2];
                benchmark.operate(sql, client).expect("an operation");
            }
        };
        run(sql);
        for statement in snapshot {
            sql.execute(statement, &[]).expect("a copy");
        }
        run(sql);
        for case in cases {
            let before = benchmark.verify(sql).expect("it can be read");
            assert!(before.is_clean(), "before {case:?}: {before:?}");
            sql.execute("BEGIN IMMEDIATE", &[]).expect("a transaction");
            for statement in *case {
                let rows = sql.execute(statement, &[]).expect("a statement");
                assert_eq!(rows, 1, "{statement}");
            }
            let findings = benchmark.verify(sql).expect("it can be read");
            sql.execute("ROLLBACK", &[]).expect("it is undone");
            assert_eq!(findings.total, 1, "{case:?}: {findings:?}");
            let words = "not those that the ledger's commits made";
            assert!(findings.listed[0].contains(words), "{case:?}: {findings:?}");
        }
        assert!(benchmark.verify(sql).expect("it can be read").is_clean());
    });
}

#[test]
fn a_row_of_linkbench_that_went_back_is_found() {
    const CASES: &[&[&str]] = &[
        // A node, whole, to an older version.
        &["UPDATE nodetable SET (version, time, data) = (SELECT version, time, data \
           FROM old_nodes o WHERE o.id = nodetable.id) WHERE id = (SELECT n.id \
           FROM nodetable n JOIN old_nodes o USING (id) WHERE n.version > o.version LIMIT 1)"],
        // Columns that nothing else depends on.
        &["UPDATE nodetable SET time = time + 1 WHERE id = (SELECT min(id) FROM nodetable)"],
        &["UPDATE nodetable SET type = 1 WHERE id = (SELECT min(id) FROM nodetable)"],
        &["UPDATE counttable SET time = time + 1 WHERE (id, link_type) = \
           (SELECT id, link_type FROM counttable LIMIT 1)"],
        // A node that was deleted is there again, one that was added is gone.
        &["INSERT INTO nodetable SELECT * FROM old_nodes \
           WHERE id NOT IN (SELECT id FROM nodetable) LIMIT 1"],
        &["DELETE FROM nodetable WHERE id = (SELECT id FROM nodetable \
           WHERE id NOT IN (SELECT id FROM old_nodes) LIMIT 1)"],
        // A link that was visible then and is now, to its older version.
        &["UPDATE linktable SET (version, time, data) = (SELECT version, time, data \
           FROM old_links o WHERE (o.link_type, o.id1, o.id2) = \
           (linktable.link_type, linktable.id1, linktable.id2)) \
           WHERE (link_type, id1, id2) = (SELECT link_type, id1, id2 \
           FROM linktable l JOIN old_links o USING (link_type, id1, id2) \
           WHERE l.version > o.version AND l.visibility = 1 AND o.visibility = 1 LIMIT 1)"],
        // A count, to another time when there were as many links.
        &["UPDATE counttable SET (version, time) = (SELECT version, time FROM old_counts o \
           WHERE (o.id, o.link_type) = (counttable.id, counttable.link_type)) \
           WHERE (id, link_type) = (SELECT id, link_type \
           FROM counttable c JOIN old_counts o USING (id, link_type) \
           WHERE c.version > o.version AND c.count = o.count LIMIT 1)"],
        // A deleted link is there again, and counted: its deletion is undone in the
        // tables and not in the ledger.
        &[
            "UPDATE linktable SET visibility = 1 WHERE (link_type, id1, id2) = \
             (SELECT l.link_type, l.id1, l.id2 \
             FROM linktable l JOIN old_links o USING (link_type, id1, id2) \
             JOIN counttable c ON (c.id, c.link_type) = (l.id1, l.link_type) \
             JOIN old_counts p ON (p.id, p.link_type) = (l.id1, l.link_type) \
             WHERE l.visibility = 0 AND o.visibility = 1 AND l.version = o.version \
             AND c.version = p.version + 1 LIMIT 1)",
            "UPDATE counttable SET (count, version, time) = (SELECT count, version, time \
             FROM old_counts o \
             WHERE (o.id, o.link_type) = (counttable.id, counttable.link_type)) \
             WHERE count <> (SELECT count(*) FROM linktable l WHERE l.visibility = 1 \
             AND (l.id1, l.link_type) = (counttable.id, counttable.link_type))",
        ],
        // The ledger goes back while the tables stay.
        &["UPDATE ledger SET (seq, digest) = (SELECT seq, digest FROM old_ledger o \
           WHERE o.client = ledger.client) WHERE client = 1"],
    ];
    must_be_found_by_the_digest(linkbench(), &SNAPSHOT, 8_000, CASES);
}

#[test]
fn a_record_of_ycsb_that_went_back_is_found() {
    const CASES: &[&[&str]] = &[
        // A whole record.
        &["UPDATE usertable SET (version, field0, field1, field2, field3, field4, field5, \
           field6, field7, field8, field9) = (SELECT version, field0, field1, field2, field3, \
           field4, field5, field6, field7, field8, field9 FROM old_users o \
           WHERE o.ycsb_key = usertable.ycsb_key) WHERE ycsb_key = (SELECT ycsb_key \
           FROM usertable u JOIN old_users o USING (ycsb_key) \
           WHERE u.version > o.version LIMIT 1)"],
        // One field that is not the newest of its record.
        &["UPDATE usertable SET field2 = (SELECT field2 FROM old_users o \
           WHERE o.ycsb_key = usertable.ycsb_key) WHERE ycsb_key = (SELECT ycsb_key \
           FROM usertable u JOIN old_users o USING (ycsb_key) WHERE u.field2 <> o.field2 \
           AND u.version < 256 AND substr(hex(u.field2), 17, 2) <> printf('%02X', u.version) \
           LIMIT 1)"],
        // The ledger goes back while the table stays.
        &["UPDATE ledger SET (seq, digest) = (SELECT seq, digest FROM old_ledger o \
           WHERE o.client = ledger.client) WHERE client = 0"],
    ];
    must_be_found_by_the_digest(ycsb(), &YCSB_SNAPSHOT, 3_000, CASES);
}

#[test]
fn a_ledger_without_the_loader_or_with_nonsense_is_found() {
    for (damage, expected) in [
        ("DELETE FROM ledger WHERE client < 0", "the loader is not in the ledger"),
        ("UPDATE ledger SET digest = -1 WHERE client = 1", "for a digest"),
    ] {
        let benchmark = ycsb();
        let judge = benchmark.clone();
        let findings = with_database(benchmark, move |sql| {
            assert_eq!(sql.execute(damage, &[]), Ok(1));
            judge.verify(sql).expect("it can be read")
        });
        assert!(findings.listed.iter().any(|f| f.contains(expected)), "{damage}: {findings:?}");
    }
}

/// A connection on which one COMMIT of three fails: the others are in the way.
struct Reluctant<'s> {
    sql: &'s mut dyn Sql,
    commits: u32,
}

impl Sql for Reluctant<'_> {
    fn execute(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<u64, SqlError> {
        if statement == "COMMIT" {
            self.commits += 1;
            if self.commits.is_multiple_of(3) {
                return Err(SqlError { kind: SqlErrorKind::Busy, message: "not now".into() });
            }
        }
        self.sql.execute(statement, values)
    }

    fn query(
        &mut self,
        statement: &'static str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row),
    ) -> Result<u64, SqlError> {
        self.sql.query(statement, values, each)
    }
}

#[test]
fn what_was_rolled_back_is_not_in_the_digest() {
    for benchmark in [linkbench(), ycsb()] {
        with_database(benchmark.clone(), move |sql| {
            let mut client = Client::new(5, 1);
            let mut reluctant = Reluctant { sql, commits: 0 };
            let mut retries = 0;
            for _ in 0..2_000 {
                retries += benchmark.operate(&mut reluctant, &mut client).expect("done").retries;
            }
            assert!(retries > 100, "{retries}");
            let findings = benchmark.verify(sql).expect("it can be read");
            assert!(findings.is_clean(), "{}: {findings:?}", benchmark.name());
        });
    }
}
