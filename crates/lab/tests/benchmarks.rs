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
use tantalum_workload::sql::Sql;
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
