//! The SQL benchmarks on SQLite: their mix is the published one, their databases stay
//! sound, and damage that SQLite cannot know of is found.

use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
use tantalum_lab::file::experiment::{Journal, Synchronous};
use tantalum_lab::run::sqlite::{Engine, Settings};
use tantalum_rt::Runtime;
use tantalum_workload::database::{self, Benchmark, Client, Findings};
use tantalum_workload::linkbench::{LinkBench, LinkBenchScale};
use tantalum_workload::sql::{Row, Sql, SqlError, SqlErrorKind, Value};
use tantalum_workload::tpcc::{Tpcc, TpccScale};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

fn linkbench() -> Rc<dyn Benchmark> {
    Rc::new(LinkBench::new(LinkBenchScale { nodes: 300, ..LinkBenchScale::default() }))
}

fn ycsb() -> Rc<dyn Benchmark> {
    Rc::new(Ycsb::new(YcsbScale { records: 200, ..YcsbScale::default() }))
}

fn tpcc() -> Rc<dyn Benchmark> {
    let scale = TpccScale { items: 100, customers_per_district: 9, ..TpccScale::default() };
    Rc::new(Tpcc::new(&scale))
}

/// Runs `body` on a loaded database.
fn with_database<T: 'static>(
    benchmark: Rc<dyn Benchmark>,
    body: impl FnOnce(&mut dyn Sql) -> T + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let caps = Caps::power_safe(16_384, Payload::Bytes);
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
fn tpcc_keeps_its_mix_and_its_consistency_conditions() {
    let (seen, findings) = operations(tpcc(), 8_000);
    assert!(findings.is_clean(), "{findings:?}");
    let shares = [
        ("new order", 45.0),
        ("payment", 43.0),
        ("order status", 4.0),
        ("delivery", 4.0),
        ("stock level", 4.0),
    ];
    assert_eq!(seen.len(), shares.len(), "{seen:?}");
    for (operation, share) in shares {
        let found = f64::from(seen[operation]) / 80.0;
        let bound = 5.0 * (share * (100.0 - share) / 8_000.0_f64).sqrt();
        assert!((found - share).abs() < bound, "{operation}: {found} %, should be {share} %");
    }
}

#[test]
fn tpcc_is_loaded_as_the_standard_says() {
    let benchmark = tpcc();
    let judge = benchmark.clone();
    with_database(benchmark, move |sql| {
        assert_eq!(judge.verify(sql), Ok(Findings::default()));
        let counts = [
            ("SELECT count(*) FROM warehouse", 2),
            ("SELECT count(*) FROM district", 20),
            ("SELECT count(*) FROM customer", 20 * 9),
            ("SELECT count(*) FROM history", 20 * 9),
            ("SELECT count(*) FROM orders", 20 * 9),
            ("SELECT count(DISTINCT o_c_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 1", 9),
            // Three tenths, rounded down; condition 11 of clause 3.3.2.
            ("SELECT count(*) FROM new_order", 20 * 2),
            ("SELECT count(*) FROM item", 100),
            ("SELECT count(*) FROM stock", 200),
            ("SELECT min(o_ol_cnt) FROM orders", 5),
            ("SELECT max(o_ol_cnt) FROM orders", 15),
            ("SELECT count(DISTINCT c_last) FROM customer", 3),
            ("SELECT count(*) FROM order_line WHERE (ol_amount = 0) <> (ol_delivery_d = 0)", 0),
        ];
        for (query, expected) in counts {
            let found = tantalum_workload::sql::query_int(sql, query, &[]);
            assert_eq!(found, Ok(Some(expected)), "{query}");
        }
    });
}

/// All of a database, as text.
fn dump(benchmark: Rc<dyn Benchmark>, operations: u32) -> String {
    with_database(benchmark.clone(), move |sql| {
        let mut clients = [Client::new(4, 0), Client::new(4, 1)];
        for i in 0..operations {
            let client = &mut clients[i as usize % 2];
            benchmark.operate(sql, client).expect("an operation");
        }
        let mut all = String::new();
        for table in ["SELECT * FROM customer", "SELECT * FROM stock", "SELECT * FROM ledger"] {
            let each = &mut |row: &dyn Row| {
                for column in 0..21 {
                    all += &String::from_utf8_lossy(row.bytes(column));
                    all += "|";
                }
            };
            sql.query(table, &[], each).expect("it can be read");
        }
        all
    })
}

#[test]
fn tpccs_population_and_transactions_are_the_same_each_time() {
    let loaded = dump(tpcc(), 0);
    assert!(loaded.len() > 50_000 && loaded == dump(tpcc(), 0));
    let run = dump(tpcc(), 300);
    assert!(run != loaded && run == dump(tpcc(), 300));
}

#[test]
fn some_new_orders_are_rolled_back_and_some_business_is_remote() {
    let benchmark = tpcc();
    with_database(benchmark.clone(), move |sql| {
        let mut client = Client::new(8, 0);
        let (mut new_orders, mut rolled_back) = (0, 0);
        for _ in 0..6_000 {
            let step = benchmark.operate(sql, &mut client).expect("an operation");
            if step.operation == "new order" {
                new_orders += 1;
                rolled_back += i64::from(step.committed.is_none());
            }
        }
        let mut ask = |query| {
            tantalum_workload::sql::query_int(sql, query, &[]).expect("a query").expect("a row")
        };
        let of = |part: i64, whole: i64| part as f64 / whole as f64;
        assert!((0.004..0.018).contains(&of(rolled_back, new_orders)), "{rolled_back}");
        let entered = ask("SELECT count(*) FROM orders WHERE o_id > 9");
        assert_eq!(entered, new_orders - rolled_back);
        let lines = ask("SELECT count(*) FROM order_line WHERE ol_o_id > 9");
        assert!((9.5..10.5).contains(&of(lines, entered)), "{lines} of {entered}");
        let remote = ask("SELECT count(*) FROM order_line WHERE ol_supply_w_id <> ol_w_id");
        assert!((0.006..0.014).contains(&of(remote, lines)), "{remote} of {lines}");
        assert_eq!(ask("SELECT sum(s_remote_cnt) FROM stock"), remote);
        assert_eq!(ask("SELECT sum(s_order_cnt) FROM stock"), lines);
        let paid = ask("SELECT count(*) FROM history WHERE h_date > 0");
        let away = ask("SELECT count(*) FROM history WHERE h_w_id <> h_c_w_id");
        assert!((0.12..0.18).contains(&of(away, paid)), "{away} of {paid}");
        let noted = ask("SELECT count(*) FROM customer WHERE c_data LIKE '%|%'");
        let bad = ask("SELECT count(*) FROM customer WHERE c_credit = 'BC' AND c_payment_cnt > 1");
        assert!(noted == bad && noted > 0, "{noted} {bad}");
    });
}

#[test]
fn damage_below_sqlites_notice_is_found() {
    let cases: [(Rc<dyn Benchmark>, &'static str, &str); 24] = [
        (tpcc(), "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1", "condition 1 "),
        (tpcc(), "UPDATE district SET d_next_o_id = 7 WHERE d_id = 3", "condition 2 "),
        (
            tpcc(),
            "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 9",
            "condition 2 ",
        ),
        (tpcc(), "INSERT INTO new_order VALUES(1, 1, 3)", "condition 3 "),
        (tpcc(), "DELETE FROM order_line WHERE ol_o_id = 4 AND ol_number = 2", "condition 4 "),
        (
            tpcc(),
            "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_id = 2",
            "condition 5 ",
        ),
        (
            tpcc(),
            "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 2",
            "condition 6 ",
        ),
        (
            tpcc(),
            "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 2",
            "condition 7 ",
        ),
        (tpcc(), "DELETE FROM history WHERE rowid = 5", "condition 8 "),
        (tpcc(), "UPDATE history SET h_d_id = h_d_id % 10 + 1 WHERE rowid = 5", "condition 9 "),
        (tpcc(), "UPDATE customer SET c_balance = 0 WHERE c_id = 5", "condition 10 "),
        (tpcc(), "UPDATE customer SET c_ytd_payment = 0 WHERE c_id = 5", "condition 12 "),
        (tpcc(), "UPDATE customer SET c_city = 'Nowhere' WHERE c_id = 5", "loaded with"),
        (tpcc(), "UPDATE item SET i_price = i_price + 1 WHERE i_id = 5", "item 5 is not what"),
        (tpcc(), "UPDATE stock SET s_dist_07 = s_dist_08 WHERE s_i_id = 5", "loaded with"),
        (tpcc(), "DELETE FROM stock WHERE s_w_id = 2 AND s_i_id = 5", "199 rows instead of 200"),
        (tpcc(), "UPDATE orders SET o_c_id = 77 WHERE o_id = 1 AND o_d_id = 1", "not there"),
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

const TPCC_SNAPSHOT: [&str; 5] = [
    "CREATE TABLE old_stock AS SELECT * FROM stock",
    "CREATE TABLE old_customer AS SELECT * FROM customer",
    "CREATE TABLE old_orders AS SELECT * FROM orders",
    "CREATE TABLE old_warehouse AS SELECT * FROM warehouse",
    "CREATE TABLE old_ledger AS SELECT * FROM ledger",
];

#[test]
fn a_row_of_tpcc_that_went_back_is_found() {
    const CASES: &[&[&str]] = &[
        // A level of stock, which no condition speaks of.
        &["UPDATE stock SET (s_quantity, s_ytd, s_order_cnt, s_remote_cnt) = \
           (SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt FROM old_stock o \
           WHERE (o.s_w_id, o.s_i_id) = (stock.s_w_id, stock.s_i_id)) \
           WHERE (s_w_id, s_i_id) = (SELECT s_w_id, s_i_id FROM stock s \
           JOIN old_stock o USING (s_w_id, s_i_id) WHERE s.s_ytd > o.s_ytd LIMIT 1)"],
        // What was noted of a customer with bad credit.
        &["UPDATE customer SET c_data = (SELECT c_data FROM old_customer o \
           WHERE (o.c_w_id, o.c_d_id, o.c_id) = \
           (customer.c_w_id, customer.c_d_id, customer.c_id)) \
           WHERE (c_w_id, c_d_id, c_id) = (SELECT c_w_id, c_d_id, c_id FROM customer c \
           JOIN old_customer o USING (c_w_id, c_d_id, c_id) \
           WHERE c.c_data <> o.c_data LIMIT 1)"],
        &["UPDATE customer SET c_payment_cnt = c_payment_cnt - 1 \
           WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1"],
        // Columns that nothing else depends on.
        &["UPDATE orders SET o_carrier_id = o_carrier_id % 10 + 1 \
           WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1"],
        &["UPDATE orders SET o_entry_d = o_entry_d + 1 \
           WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1"],
        &["UPDATE order_line SET ol_delivery_d = ol_delivery_d + 1 \
           WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1"],
        &["UPDATE order_line SET ol_i_id = ol_i_id + 1 \
           WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1"],
        &["UPDATE history SET h_data = 'x' WHERE rowid = 3"],
        // The ledger goes back while the tables stay.
        &["UPDATE ledger SET (seq, digest) = (SELECT seq, digest FROM old_ledger o \
           WHERE o.client = ledger.client) WHERE client = 1"],
    ];
    must_be_found_by_the_digest(tpcc(), &TPCC_SNAPSHOT, 500, CASES);
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
    for benchmark in [linkbench(), ycsb(), tpcc()] {
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
